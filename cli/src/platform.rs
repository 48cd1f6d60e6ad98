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

/// This system has no such engine.
#[derive(Debug, thiserror::Error)]
#[error("the engine `{name:?}` does not exist on this system: use `auto`")]
pub(crate) struct NoSuchEngine {
    name: EngineName,
}

/// What builds sandboxes here.
#[cfg(target_os = "linux")]
pub(crate) fn backend(engine: EngineName) -> Result<Box<dyn Backend>, NoSuchEngine> {
    use stockade_sandbox_linux::{Auto, Bwrap, LandlockOnly, Native};

    Ok(match engine {
        EngineName::Auto => Box::new(Auto::new()),
        EngineName::Native => Box::new(Native::new()),
        EngineName::Bwrap => Box::new(Bwrap::new()),
        EngineName::Landlock => Box::new(LandlockOnly::new()),
    })
}

/// What builds sandboxes here.
#[cfg(target_os = "macos")]
pub(crate) fn backend(name: EngineName) -> Result<Box<dyn Backend>, NoSuchEngine> {
    match name {
        EngineName::Auto => Ok(Box::new(stockade_sandbox_macos::Seatbelt::new())),
        EngineName::Native | EngineName::Bwrap | EngineName::Landlock => Err(NoSuchEngine { name }),
    }
}

/// What builds sandboxes here.
#[cfg(windows)]
pub(crate) fn backend(name: EngineName) -> Result<Box<dyn Backend>, NoSuchEngine> {
    match name {
        EngineName::Auto => Ok(Box::new(stockade_sandbox_windows::Windows::new())),
        EngineName::Native | EngineName::Bwrap | EngineName::Landlock => Err(NoSuchEngine { name }),
    }
}

/// What builds sandboxes here.
#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
pub(crate) fn backend(name: EngineName) -> Result<Box<dyn Backend>, NoSuchEngine> {
    Err(NoSuchEngine { name })
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
