#![doc = include_str!("../README.md")]
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod doctor;
mod engines;
mod launch;
mod masks;
mod observer;
mod plan;
#[cfg(test)]
mod plan_snapshots;
mod supervisor;
mod sys;
// The constants shared with the stub.
#[path = "../stub/wire.rs"]
mod stub_wire;
// The constants shared with the launcher; some are only used on its side.
#[expect(dead_code, reason = "the launcher's side uses the rest")]
#[path = "../launcher/wire.rs"]
mod wire;

pub use doctor::diagnose;
pub use engines::auto::{Auto, AutoPlan};
pub use engines::bwrap::{Bwrap, BwrapPlan};
pub use engines::landlock_only::{LandlockOnly, LandlockPlan};
pub use engines::losses::Loss;
pub use engines::native::{Native, NativePlan, Session, SessionError};
pub use engines::warm::{Warm, WarmPlan};
pub use observer::{Observe, git_writes};
pub use plan::platform_defaults::PLATFORM_DEFAULTS;
#[doc(hidden)]
pub use supervisor::{answer_query, read_packet};
