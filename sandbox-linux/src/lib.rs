#![doc = include_str!("../README.md")]
#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod act;
mod ahead;
mod auto;
mod bpf;
mod bwrap;
mod bwrap_arguments;
mod bwrap_process;
mod bwrap_program;
mod cgroup;
mod child;
mod command_steps;
mod console;
mod devices;
mod doctor;
mod enforcement;
mod kept_names;
mod landlock;
mod landlock_only;
mod launch;
mod limit_counters;
mod limits;
mod losses;
mod masks;
mod memory_file;
mod native;
mod observer;
mod placeholder;
#[cfg(test)]
mod plan_snapshots;
mod planned;
mod platform_defaults;
mod probe;
mod refusals;
mod seccomp;
mod shared_host;
mod starter;
mod stdio;
mod step;
mod streams;
mod supervision;
mod supervisor;
mod sys;
mod system_calls;
mod view;
mod waiting_call;
mod warm;
// The constants shared with the stub.
#[path = "../stub/wire.rs"]
mod stub_wire;
// The constants shared with the launcher; some are only used on its side.
#[expect(dead_code, reason = "the launcher's side uses the rest")]
#[path = "../launcher/wire.rs"]
mod wire;

pub use auto::{Auto, AutoPlan};
pub use bwrap::{Bwrap, BwrapPlan};
pub use doctor::diagnose;
pub use landlock_only::{LandlockOnly, LandlockPlan};
pub use losses::Loss;
pub use native::{Native, NativePlan, Session, SessionError};
pub use observer::{Observe, git_writes};
pub use platform_defaults::PLATFORM_DEFAULTS;
#[doc(hidden)]
pub use supervisor::{answer_query, read_packet};
pub use warm::{Warm, WarmPlan};
