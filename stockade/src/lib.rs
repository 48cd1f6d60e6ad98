#![doc = include_str!("manual.md")]

mod answers;
pub mod assembly;
mod builder;
mod command;
mod error;
mod fingerprint;
pub mod losses;
pub mod platform;
pub mod profiles;
mod registries;
pub mod rules;
mod saved_profiles;
mod stockade;
#[cfg(feature = "terminal")]
pub mod terminal;
pub mod workspace;

pub use builder::Builder;
pub use command::Command;
pub use error::{Error, with_causes};
pub use stockade::Stockade;
pub use stockade_core::StreamName;
pub use stockade_protocol::{ApprovalRequest, Outcome, ReviewDecision};

pub use stockade_config as config;
pub use stockade_core as core;
pub use stockade_execpolicy as execpolicy;
pub use stockade_protocol as protocol;
pub use stockade_sandboxing as sandboxing;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
