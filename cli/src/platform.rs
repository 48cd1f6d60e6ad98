//! The one place that knows which operating system this is.

use stockade_sandboxing::Diagnosis;

/// What this host can enforce.
pub(crate) fn diagnose() -> Diagnosis {
    #[cfg(target_os = "linux")]
    return stockade_sandbox_linux::diagnose();
    #[cfg(target_os = "macos")]
    return stockade_sandbox_macos::diagnose();
    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    Diagnosis { chosen: None, complete: false, host: Vec::new(), engines: Vec::new() }
}
