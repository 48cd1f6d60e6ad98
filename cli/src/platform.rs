//! The one place that knows which operating system this is.

use stockade_config::EngineName;
use stockade_protocol::AbsPath;
use stockade_sandboxing::{Backend, Diagnosis};

/// What this host can enforce.
pub(crate) fn diagnose() -> Diagnosis {
    #[cfg(target_os = "linux")]
    return stockade_sandbox_linux::diagnose();
    #[cfg(target_os = "macos")]
    return stockade_sandbox_macos::diagnose();
    #[cfg(windows)]
    return stockade_sandbox_windows::diagnose();
    #[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
    Diagnosis { chosen: None, complete: false, host: Vec::new(), engines: Vec::new() }
}

/// Has what every sandbox needs made beside everything else, until it is known what this one needs.
pub(crate) fn get_ready() {
    #[cfg(target_os = "linux")]
    stockade_sandbox_linux::Native::new().get_ready();
}

/// What is wanted of the sandbox is not there on this system.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotHere {
    #[cfg_attr(target_os = "linux", expect(dead_code, reason = "Linux has all engines"))]
    #[error("the engine `{name:?}` does not exist on this system: use `auto`")]
    Engine { name: EngineName },
    #[error("the engine `{engine}` can't do without `{name}`: what can be accepted is {known}")]
    Loss { name: String, engine: &'static str, known: String },
}

/// What builds sandboxes here, without what these names say.
#[cfg(target_os = "linux")]
pub(crate) fn backend(engine: EngineName, accepted: &[String]) -> Result<Box<dyn Backend>, NotHere> {
    use stockade_sandbox_linux::{Auto, Bwrap, LandlockOnly, Loss, Native};

    // Only an engine that somebody has named gives something up.
    let nothing = |engine| losses::<Loss>(accepted, engine, &[], Loss::name).map(drop);
    Ok(match engine {
        EngineName::Auto => nothing("auto").map(|()| Box::new(Auto::new()))?,
        EngineName::Native => nothing("native").map(|()| Box::new(Native::new()))?,
        EngineName::Bwrap => nothing("bwrap").map(|()| Box::new(Bwrap::new()))?,
        EngineName::Landlock => {
            // What a person denied is out of reach, whatever anybody accepts.
            let known: Vec<Loss> = Loss::ALL.iter().copied().filter(|loss| *loss != Loss::DeniedReads).collect();
            let losses = losses(accepted, "landlock", &known, Loss::name)?;
            Box::new(losses.into_iter().fold(LandlockOnly::new(), LandlockOnly::accepting))
        }
    })
}

/// What builds sandboxes here, without what these names say.
#[cfg(target_os = "macos")]
pub(crate) fn backend(name: EngineName, accepted: &[String]) -> Result<Box<dyn Backend>, NotHere> {
    use stockade_sandbox_macos::{Loss, Seatbelt};

    match name {
        EngineName::Auto => {
            let losses = losses(accepted, "seatbelt", Loss::ALL, Loss::name)?;
            Ok(Box::new(losses.into_iter().fold(Seatbelt::new(), Seatbelt::accepting)))
        }
        EngineName::Native | EngineName::Bwrap | EngineName::Landlock => Err(NotHere::Engine { name }),
    }
}

/// What builds sandboxes here, without what these names say.
#[cfg(windows)]
pub(crate) fn backend(name: EngineName, accepted: &[String]) -> Result<Box<dyn Backend>, NotHere> {
    use stockade_sandbox_windows::{Loss, Windows};

    match name {
        EngineName::Auto => {
            let losses = losses(accepted, "windows", Loss::ALL, Loss::name)?;
            Ok(Box::new(losses.into_iter().fold(Windows::new(), Windows::accepting)))
        }
        EngineName::Native | EngineName::Bwrap | EngineName::Landlock => Err(NotHere::Engine { name }),
    }
}

/// What builds sandboxes here.
#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
pub(crate) fn backend(name: EngineName, _: &[String]) -> Result<Box<dyn Backend>, NotHere> {
    Err(NotHere::Engine { name })
}

/// The losses that these names stand for, of those that an engine knows.
#[cfg(any(target_os = "linux", target_os = "macos", windows))]
fn losses<L: Copy>(
    names: &[String],
    engine: &'static str,
    known: &[L],
    name_of: fn(L) -> &'static str,
) -> Result<Vec<L>, NotHere> {
    let find = |name: &String| known.iter().copied().find(|loss| name_of(*loss) == name);
    let unknown = |name: &String| {
        let known: Vec<String> = known.iter().map(|loss| format!("`{}`", name_of(*loss))).collect();
        let known = if known.is_empty() { String::from("nothing") } else { known.join(", ") };
        NotHere::Loss { name: name.clone(), engine, known }
    };
    names.iter().map(|name| find(name).ok_or_else(|| unknown(name))).collect()
}

/// What ordinary programs need to read to start here.
pub(crate) fn platform_defaults() -> Vec<AbsPath> {
    #[cfg(target_os = "linux")]
    {
        let existing =
            stockade_sandbox_linux::PLATFORM_DEFAULTS.iter().filter(|path| std::path::Path::new(path).exists());
        existing.filter_map(|path| path.parse().ok()).collect()
    }
    #[cfg(target_os = "macos")]
    {
        stockade_sandbox_macos::platform_defaults()
    }
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    {
        Vec::new()
    }
}
