//! The parts of a plan: mounts, rules, filters and steps, as plain data.

pub(crate) mod act;
pub(crate) mod bpf;
pub(crate) mod command_steps;
pub(crate) mod console;
pub(crate) mod devices;
pub(crate) mod landlock;
pub(crate) mod limits;
pub(crate) mod planned;
pub(crate) mod platform_defaults;
pub(crate) mod refusals;
pub(crate) mod seccomp;
pub(crate) mod shared_host;
pub(crate) mod step;
pub(crate) mod system_calls;
pub(crate) mod view;
