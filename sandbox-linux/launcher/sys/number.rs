//! The numbers of the system calls. Those from 424 on are the same on every processor.

#[cfg_attr(target_arch = "x86_64", path = "number/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "number/aarch64.rs")]
mod older;

pub(crate) use self::older::*;

pub(crate) const PIDFD_SEND_SIGNAL: usize = 424;
pub(crate) const OPEN_TREE: usize = 428;
pub(crate) const MOVE_MOUNT: usize = 429;
pub(crate) const FSOPEN: usize = 430;
pub(crate) const FSCONFIG: usize = 431;
pub(crate) const FSMOUNT: usize = 432;
pub(crate) const PIDFD_OPEN: usize = 434;
pub(crate) const CLONE3: usize = 435;
pub(crate) const CLOSE_RANGE: usize = 436;
pub(crate) const OPENAT2: usize = 437;
pub(crate) const MOUNT_SETATTR: usize = 442;
pub(crate) const LANDLOCK_CREATE_RULESET: usize = 444;
pub(crate) const LANDLOCK_ADD_RULE: usize = 445;
pub(crate) const LANDLOCK_RESTRICT_SELF: usize = 446;
