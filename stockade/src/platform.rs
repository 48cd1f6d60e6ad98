//! The only module that depends on the operating system.

#[cfg_attr(any(target_arch = "x86_64", target_arch = "aarch64"), path = "platform/linux.rs")]
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), path = "platform/other_processor.rs")]
#[cfg(target_os = "linux")]
mod linux;
// For its tests: it can't be tried on the processors that it is for.
#[cfg(all(test, target_os = "linux"))]
mod other_processor;

use std::path::PathBuf;

use stockade_config::{EngineName, LossName, Settings};
use stockade_protocol::{AbsPath, NetworkPolicy};
use stockade_sandboxing::{Backend, Diagnosis, Repository};

/// Whether two names denote the same environment variable on this system.
pub(crate) fn is_same_variable(one: &[u8], other: &[u8]) -> bool {
    if cfg!(windows) { one.eq_ignore_ascii_case(other) } else { one == other }
}

/// What this host can enforce.
pub fn diagnose() -> Diagnosis {
    #[cfg(target_os = "linux")]
    return linux::diagnose();
    #[cfg(target_os = "macos")]
    return stockade_sandbox_macos::diagnose();
    #[cfg(windows)]
    return stockade_sandbox_windows::diagnose();
    #[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
    Diagnosis { chosen: None, complete: false, host: Vec::new(), engines: Vec::new() }
}

/// Whether a sandbox with the permission profile for git lets git write this file or directory of a repository's metadata.
pub(crate) fn git_writes(repository: &Repository, path: &AbsPath) -> bool {
    #[cfg(target_os = "linux")]
    return linux::git_writes(repository, path);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (repository, path);
        false
    }
}

#[cfg(windows)]
pub use stockade_sandbox_windows::{StillMarked, UnmarkError, Unmarked};

/// The marks that stay on directories which commands could write.
#[cfg(windows)]
#[derive(Debug, Default)]
pub struct Marks(stockade_sandbox_windows::Windows);

#[cfg(windows)]
impl Marks {
    /// Those of this user.
    pub fn new() -> Self {
        Self::default()
    }

    /// The directories that bear them.
    pub fn directories(&self) -> Result<Vec<AbsPath>, UnmarkError> {
        self.0.marked()
    }

    /// Takes all of them off a directory and what lies in it, and off trees that were moved out of it.
    pub fn take_off(&self, directory: &AbsPath) -> Result<Unmarked, UnmarkError> {
        self.0.unmark(directory)
    }
}

/// The losses that a user can accept on this system.
pub const LOSSES: &[LossName] = {
    #[cfg(target_os = "linux")]
    {
        &[
            LossName::ProtectedMetadata,
            LossName::ReadOnlyParts,
            LossName::Credentials,
            LossName::DeniedReads,
            LossName::PrivateDirectories,
            LossName::FileAttributes,
        ]
    }
    #[cfg(target_os = "macos")]
    {
        &[LossName::CertificateFetches]
    }
    #[cfg(windows)]
    {
        &[LossName::DirectConnections]
    }
    #[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
    {
        &[]
    }
};

/// Has what every sandbox needs made beside everything else, until it is known what this one needs. The network is the one
/// that is expected.
pub fn get_ready(expected: &NetworkPolicy) {
    #[cfg(target_os = "linux")]
    linux::get_ready(expected);
    #[cfg(not(target_os = "linux"))]
    let _ = expected;
}

/// The minimum number of open files for a run: the event loop, the trail, the streams, the launcher and the supervisor
/// of connections, with each engine.
#[cfg(unix)]
const FEWEST_OPEN_FILES: u64 = 64;

/// This program may open too few files.
#[derive(Debug, thiserror::Error)]
#[error("the limit on open files is {limit}, and at least {fewest} are needed: raise it (`ulimit -n {fewest}`)")]
pub struct TooFewOpenFiles {
    limit: u64,
    fewest: u64,
}

/// Checks that this program may open as many files as a run needs. Without them its event loop can't be created.
pub fn check_open_files() -> Result<(), TooFewOpenFiles> {
    #[cfg(unix)]
    if let Some(limit) = rustix::process::getrlimit(rustix::process::Resource::Nofile).current
        && limit < FEWEST_OPEN_FILES
    {
        return Err(TooFewOpenFiles { limit, fewest: FEWEST_OPEN_FILES });
    }
    Ok(())
}

/// This system has no such engine.
#[derive(Debug, thiserror::Error)]
#[error("the engine `{name:?}` does not exist on this system: use `auto`")]
pub struct NoSuchEngine {
    name: EngineName,
}

/// The backend of this system, with the accepted losses. Placeholders for missing names of a workspace are kept in
/// `kept_names` for the next run, if the engine uses them.
#[cfg(target_os = "linux")]
pub fn backend(settings: &Settings, kept_names: Option<PathBuf>) -> Result<Box<dyn Backend>, NoSuchEngine> {
    Ok(linux::backend(settings, kept_names))
}

/// Wraps a backend so that sandboxes are kept for the next command, if the engine supports that.
pub fn keeping(settings: &Settings, backend: Box<dyn Backend>, kept_names: Option<PathBuf>) -> Box<dyn Backend> {
    #[cfg(target_os = "linux")]
    return linux::keeping(settings, backend, kept_names);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (settings, kept_names);
        backend
    }
}

/// The backend of this system, with the accepted losses.
#[cfg(target_os = "macos")]
pub fn backend(settings: &Settings, _: Option<PathBuf>) -> Result<Box<dyn Backend>, NoSuchEngine> {
    use stockade_sandbox_macos::{Loss, Seatbelt};

    let (name, accepted) = (settings.engine, &settings.accept_losses);
    match name {
        EngineName::Auto if accepted.contains(&LossName::CertificateFetches) => {
            Ok(Box::new(Seatbelt::new().accepting(Loss::CertificateFetches)))
        }
        EngineName::Auto => Ok(Box::new(Seatbelt::new())),
        EngineName::Native | EngineName::Bwrap | EngineName::Landlock => Err(NoSuchEngine { name }),
    }
}

/// The backend of this system, with the accepted losses.
#[cfg(windows)]
pub fn backend(settings: &Settings, _: Option<PathBuf>) -> Result<Box<dyn Backend>, NoSuchEngine> {
    use stockade_sandbox_windows::{Loss, Windows};

    let (name, accepted) = (settings.engine, &settings.accept_losses);
    match name {
        EngineName::Auto if accepted.contains(&LossName::DirectConnections) => {
            Ok(Box::new(Windows::new().accepting(Loss::DirectConnections)))
        }
        EngineName::Auto => Ok(Box::new(Windows::new())),
        EngineName::Native | EngineName::Bwrap | EngineName::Landlock => Err(NoSuchEngine { name }),
    }
}

/// The backend of this system.
#[cfg(not(any(target_os = "linux", target_os = "macos", windows)))]
pub fn backend(settings: &Settings, _: Option<PathBuf>) -> Result<Box<dyn Backend>, NoSuchEngine> {
    Err(NoSuchEngine { name: settings.engine })
}

/// The paths that ordinary programs need to read to start on this system.
pub fn platform_defaults() -> Vec<AbsPath> {
    #[cfg(target_os = "linux")]
    {
        linux::platform_defaults()
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
