//! The sandbox of Linux.

use std::path::{Path, PathBuf};

use stockade_config::{EngineName, Settings};
use stockade_protocol::{AbsPath, NetworkPolicy};
use stockade_sandbox_linux::{Auto, Bwrap, LandlockOnly, Loss, Native, Observe, PLATFORM_DEFAULTS, Warm};
use stockade_sandboxing::Backend;

pub(super) use stockade_sandbox_linux::{diagnose, git_writes};

pub(super) fn get_ready(expected: &NetworkPolicy) {
    Native::new().get_ready(expected);
}

pub(super) fn backend(settings: &Settings, kept_names: Option<PathBuf>) -> Box<dyn Backend> {
    let (accepted, observe) = (&settings.accept_losses, observe(settings));
    // Losses of other systems are ignored.
    let accepted = Loss::ALL.into_iter().filter(|loss| accepted.iter().any(|accepted| accepted.name() == loss.name()));
    match settings.engine {
        EngineName::Auto => Box::new(Auto::accepting(accepted, observe, kept_names)),
        EngineName::Native => Box::new(Native::new().observing(observe).keeping_names_in(kept_names)),
        EngineName::Bwrap => Box::new(Bwrap::new().observing(observe).keeping_names_in(kept_names)),
        EngineName::Landlock => Box::new(accepted.fold(LandlockOnly::new(), LandlockOnly::accepting)),
    }
}

pub(super) fn keeping(settings: &Settings, backend: Box<dyn Backend>, kept_names: Option<PathBuf>) -> Box<dyn Backend> {
    if matches!(settings.engine, EngineName::Auto | EngineName::Native) {
        return Box::new(Warm::new(backend).observing(observe(settings)).keeping_names_in(kept_names));
    }
    backend
}

fn observe(settings: &Settings) -> Observe {
    if settings.observe { Observe::Denials } else { Observe::Nothing }
}

pub(super) fn platform_defaults() -> Vec<AbsPath> {
    let existing = PLATFORM_DEFAULTS.iter().filter(|path| Path::new(path).exists());
    existing.filter_map(|path| path.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every loss of the engine can be accepted by its name.
    #[test]
    fn every_loss_of_the_engine_can_be_named() {
        let engine: Vec<&str> = Loss::ALL.iter().map(|loss| loss.name()).collect();
        let flags: Vec<&str> = super::super::LOSSES.iter().map(|loss| loss.name()).collect();
        assert_eq!(engine, flags);
    }
}
