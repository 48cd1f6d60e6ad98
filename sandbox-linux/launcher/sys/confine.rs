//! What a process gives up for good: privileges, Landlock, filters and limits.

use super::number as nr;
use super::{EINVAL, Result, call, fd};

pub(crate) fn prctl(option: usize, arguments: [usize; 4]) -> Result<usize> {
    call(nr::PRCTL, [option, arguments[0], arguments[1], arguments[2], arguments[3], 0])
}

const CAPABILITY_VERSION: u32 = 0x2008_0522;

pub(crate) fn drop_capabilities() -> Result<usize> {
    let header = [CAPABILITY_VERSION, 0];
    let none = [0_u32; 6];
    call(nr::CAPSET, [header.as_ptr() as usize, none.as_ptr() as usize, 0, 0, 0, 0])
}

/// Whether the process has no capability left in its effective, permitted and inheritable sets.
pub(crate) fn has_no_capabilities() -> Result<bool> {
    let header = [CAPABILITY_VERSION, 0];
    let mut sets = [u32::MAX; 6];
    call(nr::CAPGET, [header.as_ptr() as usize, sets.as_mut_ptr() as usize, 0, 0, 0, 0])?;
    Ok(sets == [0; 6])
}

pub(crate) fn new_session_keyring() -> Result<usize> {
    const JOIN_SESSION_KEYRING: usize = 1;
    call(nr::KEYCTL, [JOIN_SESSION_KEYRING, 0, 0, 0, 0, 0])
}

/// A limit that can't be raised again, and is not above the one that holds already. At the soft limit of
/// processor time comes a signal that names the cause; only who ignores that is killed, a second later.
pub(crate) fn set_limit(resource: u64, value: u64) -> Result<usize> {
    const PROCESSOR_TIME: u64 = 0;
    let grace = if resource == PROCESSOR_TIME { 1 } else { 0 };
    let mut now = [0_u64; 2];
    call(nr::PRLIMIT64, [0, resource as usize, 0, now.as_mut_ptr() as usize, 0, 0])?;
    let [_, most] = now;
    let limit = [value.min(most), value.saturating_add(grace).min(most)];
    call(nr::PRLIMIT64, [0, resource as usize, limit.as_ptr() as usize, 0, 0, 0])
}

/// The limits as the caller has them; more than holds already is an error.
pub(crate) fn set_callers_limit(resource: u64, soft: u64, hard: u64) -> Result<usize> {
    let limit = [soft, hard];
    call(nr::PRLIMIT64, [0, resource as usize, limit.as_ptr() as usize, 0, 0, 0])
}

/// `struct landlock_ruleset_attr`; the kernel takes as much of it as it knows.
pub(crate) fn landlock_ruleset(attributes: &[u64]) -> Result<i32> {
    call(nr::LANDLOCK_CREATE_RULESET, [attributes.as_ptr() as usize, size_of_val(attributes), 0, 0, 0, 0]).map(fd)
}

pub(crate) fn landlock_path(ruleset: i32, path: i32, access: u64) -> Result<usize> {
    #[repr(C, packed)]
    struct PathBeneath {
        access: u64,
        path: i32,
    }
    const PATH_BENEATH: usize = 1;
    let rule = PathBeneath { access, path };
    call(nr::LANDLOCK_ADD_RULE, [ruleset as usize, PATH_BENEATH, &raw const rule as usize, 0, 0, 0])
}

pub(crate) fn landlock_restrict(ruleset: i32) -> Result<usize> {
    call(nr::LANDLOCK_RESTRICT_SELF, [ruleset as usize, 0, 0, 0, 0, 0])
}

/// Installs a filter: `instructions` holds `struct sock_filter`s, eight bytes each.
pub(crate) fn seccomp(instructions: &[u8]) -> Result<usize> {
    seccomp_with(instructions, 0)
}

/// Installs a filter, and gives the descriptor from which the calls are taken that it does not decide.
/// Once a call has been taken, only death interrupts it.
pub(crate) fn seccomp_listener(instructions: &[u8]) -> Result<i32> {
    const NEW_LISTENER: usize = 8;
    const WAIT_KILLABLE: usize = 32;
    match seccomp_with(instructions, NEW_LISTENER | WAIT_KILLABLE) {
        // Kernels before 5.19 do not know the second flag: a signal then makes a program try again.
        Err(EINVAL) => seccomp_with(instructions, NEW_LISTENER).map(fd),
        other => other.map(fd),
    }
}

/// `struct sock_fprog`: a filter of system calls or of packets.
#[repr(C)]
pub(super) struct Program {
    length: u16,
    instructions: *const u8,
}

impl Program {
    /// The instructions have to live until the kernel has taken them.
    pub(super) fn new(instructions: &[u8]) -> Result<Self> {
        let length = u16::try_from(instructions.len() / 8).map_err(|_| EINVAL)?;
        Ok(Self { length, instructions: instructions.as_ptr() })
    }
}

fn seccomp_with(instructions: &[u8], flags: usize) -> Result<usize> {
    const SET_MODE_FILTER: usize = 1;
    let program = Program::new(instructions)?;
    call(nr::SECCOMP, [SET_MODE_FILTER, flags, &raw const program as usize, 0, 0, 0])
}
