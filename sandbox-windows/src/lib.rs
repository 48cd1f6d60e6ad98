#![doc = include_str!("../README.md")]
#![cfg_attr(not(any(windows, test)), allow(dead_code, reason = "plans are made on every system, and done on Windows"))]

#[cfg(test)]
mod access_check;
mod acl;
#[cfg(windows)]
mod apply;
#[cfg(windows)]
mod backend;
mod batch;
mod check;
mod command_line;
mod console;
mod disk;
mod environment;
#[cfg(test)]
mod fake_disk;
mod file_plan;
mod host;
mod job_plan;
mod journal;
mod mark;
mod marking;
mod network;
mod plan;
#[cfg(test)]
mod plan_snapshots;
mod program;
#[cfg(windows)]
mod real_disk;
mod root_record;
mod roots;
#[cfg(windows)]
mod running;
mod sid;
#[cfg(windows)]
mod streams;
#[cfg(windows)]
mod sys;
mod taking_off;
mod token_plan;
mod tree;
mod trial;
mod unmark;
mod walk;
#[cfg(test)]
mod wine_tests;

#[cfg(windows)]
pub use backend::{Windows, diagnose};
pub use host::{Drive, DriveKind, Host};
pub use mark::{Grant, Label, Mark};
pub use network::Loss;
pub use plan::WindowsPlan;
pub use sid::Sid;
pub use unmark::{StillMarked, UnmarkError, Unmarked};

/// Bytes or text of Windows that are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is malformed")]
pub struct Malformed(pub(crate) &'static str);
