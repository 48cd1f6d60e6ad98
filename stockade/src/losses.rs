//! Accepted losses, as notices for the user.

use stockade_config::{EngineName, Settings};

use crate::platform;

/// A line for each loss that these settings accept and this system has; none if the engine enforces everything.
pub fn accepted(settings: &Settings) -> Vec<String> {
    match settings.engine {
        EngineName::Native | EngineName::Bwrap => Vec::new(),
        EngineName::Auto | EngineName::Landlock => settings
            .accept_losses
            .iter()
            .filter(|loss| platform::LOSSES.contains(loss))
            .map(|loss| format!("{loss}: {}", loss.consequence()))
            .collect(),
    }
}
