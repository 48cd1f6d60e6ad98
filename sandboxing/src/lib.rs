#![doc = include_str!("../README.md")]

mod backend;
mod gatekeeper;
mod metadata;
mod resolve;
mod support;

pub use backend::{Backend, CommandSpec, Plan, Running, SpawnError, Stdio, Streams, WaitStatus};
pub use gatekeeper::{Answer, Attempt, Gatekeeper, Verdict};
pub use metadata::protect_repositories;
pub use resolve::{HostFiles, Kind, PLACEHOLDER_MODE, RealFiles, resolve_links};
pub use support::{Diagnosis, LayerSupport, Support, SupportLevel, Unenforceable};
