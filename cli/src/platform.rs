//! The one place that knows which operating system this is.

use stockade_sandboxing::Diagnosis;

/// What this host can enforce.
pub(crate) fn diagnose() -> Diagnosis {
    #[cfg(target_os = "linux")]
    return stockade_sandbox_linux::diagnose();
    #[cfg(windows)]
    return stockade_sandbox_windows::diagnose();
    #[cfg(not(any(target_os = "linux", windows)))]
    Diagnosis { chosen: None, complete: false, host: Vec::new(), engines: Vec::new() }
}
