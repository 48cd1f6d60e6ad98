#![doc = include_str!("../README.md")]

mod backend;
mod bare;
mod by_directory;
#[cfg(feature = "conformance")]
pub mod conformance;
mod denied_globs;
#[cfg(feature = "fake-host")]
mod fake_host;
mod gatekeeper;
mod host_files;
mod listing;
mod metadata;
mod observation;
mod own_files;
mod permits;
mod process;
mod repository;
mod resolve;
mod search;
mod seen_once;
mod start_keeper;
mod support;
#[cfg(unix)]
mod sys;
mod terminal;
mod write_keeper;

pub use backend::{Backend, CommandSpec, OwnPlace, Plan, Proxied, Running, SpawnError, Stdio, Streams, WaitStatus};
pub use bare::Bare;
#[cfg(feature = "fake-host")]
pub use fake_host::{FakeHost, rules};
pub use gatekeeper::{Answer, Attempt, Gatekeeper, Verdict};
pub use host_files::{HostFiles, Kind, PLACEHOLDER_MODE, RealFiles, placeholder_at_or_above};
pub use listing::Listings;
pub use metadata::protect_repositories;
pub use observation::{CountedLimit, Coverage, DeniedAct, IsHandled, Observation, Observations};
pub use own_files::protect_own_files;
pub use permits::{is_administrator, listens, listens_in, make_private_directory, permits, permits_signal};
pub use process::{BrokenPipes, DirectoryIdentity, ProcessSettings, Starts};
pub use repository::{NoRepository, Repository};
pub use resolve::{absolute, leads_to, resolve_links, written_path};
pub use search::Found;
pub use seen_once::SeenOnce;
pub use start_keeper::{
    Concern, ElsewhereStart, ProgramStart, StartAnswer, StartCaller, StartCopy, StartKeeper, StartVerdict,
};
pub use support::{Diagnosis, LayerSupport, Support, SupportLevel, Unenforceable};
pub use terminal::{Terminal, resize};
pub use write_keeper::{Deciders, WriteAnswer, WriteAttempt, WriteKeeper, WriteVerdict};
