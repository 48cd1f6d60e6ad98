//! What was accepted not to be held, for a person to read.

use stockade_config::{EngineName, Settings};

use crate::platform;

/// A line for each loss that these settings accept and that this system knows; none where the engine holds
/// everything.
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
