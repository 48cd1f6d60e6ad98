#![doc = include_str!("../README.md")]

mod directories;
mod doctor;
mod files;
#[cfg(any(target_os = "macos", all(test, unix)))]
mod launch;
mod limits;
mod managed;
mod network;
mod parameters;
mod pattern;
mod platform;
mod profile;
#[cfg(any(target_os = "macos", all(test, unix)))]
mod running;
mod seatbelt;
#[cfg(any(target_os = "macos", all(test, unix)))]
mod sys;

pub use directories::{UserDirectories, user_directories};
pub use doctor::diagnose;
pub use managed::maximum;
pub use network::ProxyPorts;
pub use parameters::Parameter;
pub use platform::platform_defaults;
pub use profile::Profile;
pub use seatbelt::{Loss, Seatbelt, SeatbeltPlan};
