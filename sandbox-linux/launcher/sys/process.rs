//! Processes: starting them, waiting for them, and what they run.

use super::number as nr;
use super::signal::SIGCHLD;
use super::{CText, EINTR, EINVAL, ENOSYS, Errno, Result, allocate, call, fd, processor, result};

pub(crate) fn exit(code: i32) -> ! {
    loop {
        // It does not come back; the loop is for the type.
        let _ = call(nr::EXIT, [code as usize, 0, 0, 0, 0, 0]);
    }
}

/// Forks. The child gets 0. With a pid namespace among the flags it is the first process there.
pub(crate) fn fork(flags: u64, process: &mut i32) -> Result<i32> {
    const PIDFD: u64 = 0x1000;
    // `struct clone_args`, as of the kernel that introduced it.
    let arguments: [u64; 8] = [flags | PIDFD, core::ptr::from_mut(process) as u64, 0, 0, SIGCHLD as u64, 0, 0, 0];
    // SAFETY of the fork itself: the memory is copied, and this program has a single thread.
    match call(nr::CLONE3, [arguments.as_ptr() as usize, size_of_val(&arguments), 0, 0, 0, 0]) {
        // Containers and outer sandboxes hide the newer call, since their filters can't see its flags.
        Err(ENOSYS) => {
            let flags = (flags | PIDFD | SIGCHLD as u64) as usize;
            call(nr::CLONE, [flags, 0, core::ptr::from_mut(process) as usize, 0, 0, 0]).map(fd)
        }
        other => other.map(fd),
    }
}

pub(crate) fn own_pid() -> i32 {
    // Neither this nor the next can fail.
    call(nr::GETPID, [0; 6]).map_or(0, fd)
}

pub(crate) fn own_user() -> u32 {
    // Neither this nor the next can fail.
    call(nr::GETUID, [0; 6]).map_or(u32::MAX, |user| user as u32)
}

pub(crate) fn own_group() -> u32 {
    call(nr::GETGID, [0; 6]).map_or(u32::MAX, |group| group as u32)
}

/// The process that started this one, or whoever took its place; 0 if that one can't be seen.
pub(crate) fn parent_pid() -> i32 {
    call(nr::GETPPID, [0; 6]).map_or(0, fd)
}

/// This process, as a descriptor that a child can ask about it.
pub(crate) fn own_process() -> Result<i32> {
    call(nr::PIDFD_OPEN, [own_pid() as usize, 0, 0, 0, 0, 0]).map(fd)
}

/// Starts a process that shares this one's memory, and nothing else unless the flags say so, on a
/// stack of its own. Copying the memory would cost more than most of what such a process does.
fn start_beside<T>(flags: u64, entry: extern "C" fn(&T) -> !, argument: &T) -> Result<i32> {
    const SHARE_MEMORY: u64 = 0x100;
    const STACK: usize = 64 * 1024;
    let stack = allocate(STACK)?.as_mut_ptr_range().end;
    // SAFETY: the stack is fresh memory of whole pages. What the process is given is only read, and lives until it has
    // ended or called `exec`: the first caller below waits for that, the second gives something that lives for ever.
    let answer = unsafe { processor::clone_on_stack(flags | SHARE_MEMORY | SIGCHLD as u64, stack, entry, argument) };
    result(answer).map(fd)
}

/// Starts a process; this one goes on only when that has called `exec` or ended.
pub(crate) fn start_and_wait_for_exec<T>(entry: extern "C" fn(&T) -> !, argument: &T) -> Result<i32> {
    const VFORK: u64 = 0x4000;
    start_beside(VFORK, entry, argument)
}

/// Starts a process beside this one that has the same descriptors.
pub(crate) fn start_with_files<T>(entry: extern "C" fn(&T) -> !, argument: &'static T) -> Result<i32> {
    const SHARE_FILES: u64 = 0x400;
    start_beside(SHARE_FILES, entry, argument)
}

/// Has a process run on any processor but this one, if there is another that it may run on.
pub(crate) fn run_elsewhere(pid: i32) -> Result<()> {
    let (mut allowed, mut here) = ([0_u64; 16], 0_u32);
    let pointer = allowed.as_mut_ptr() as usize;
    let length = call(nr::SCHED_GETAFFINITY, [pid as usize, size_of_val(&allowed), pointer, 0, 0, 0])?;
    call(nr::GETCPU, [&raw mut here as usize, 0, 0, 0, 0, 0])?;
    let word = allowed.get_mut(here as usize / 64).ok_or(EINVAL)?;
    *word &= !(1 << (here % 64));
    call(nr::SCHED_SETAFFINITY, [pid as usize, length, pointer, 0, 0, 0]).map(drop)
}

/// Waits for one child to end.
pub(crate) fn wait_for(pid: i32) -> Result<()> {
    loop {
        match call(nr::WAIT4, [pid as usize, 0, 0, 0, 0, 0]) {
            Err(EINTR) => {}
            other => return other.map(drop),
        }
    }
}

/// Reaps one child, any of them. `Ok((0, _))` if none has ended and `wait` is false.
pub(crate) fn reap(wait: bool) -> Result<(i32, i32)> {
    const NO_HANG: usize = 1;
    let mut status = 0_i32;
    let options = if wait { 0 } else { NO_HANG };
    let pid = call(nr::WAIT4, [usize::MAX, &raw mut status as usize, options, 0, 0, 0])?;
    Ok((fd(pid), status))
}

pub(crate) fn new_session() -> Result<usize> {
    call(nr::SETSID, [0; 6])
}

/// Makes the first standard stream that is a terminal the controlling terminal of this session.
pub(crate) fn take_terminal() -> Result<usize> {
    const SET_CONTROLLING_TERMINAL: usize = 0x540e;
    let take = |stream| call(nr::IOCTL, [stream, SET_CONTROLLING_TERMINAL, 0, 0, 0, 0]);
    take(0).or_else(|_| take(1)).or_else(|_| take(2))
}

/// Runs a program. The lists hold pointers to text that ends in NUL, and end in a null pointer.
pub(crate) fn exec(path: CText<'_>, arguments: &PointerList, environment: &PointerList) -> Errno {
    match call(nr::EXECVE, [path.pointer(), arguments.0.as_ptr() as usize, environment.0.as_ptr() as usize, 0, 0, 0]) {
        Ok(_) => EINVAL,
        Err(errno) => errno,
    }
}

/// A list of texts in the form that `exec` takes.
pub(crate) struct PointerList(&'static mut [usize]);

impl PointerList {
    /// Room for `count` texts and the null pointer behind them.
    pub(crate) fn new(count: usize) -> Result<Self> {
        let length = count.checked_add(1).ok_or(EINVAL)?;
        let bytes = allocate(length.checked_mul(size_of::<usize>()).ok_or(EINVAL)?)?;
        // SAFETY: the memory is fresh, page-aligned, zeroed, ours for ever, and holds `length` words.
        Ok(Self(unsafe { core::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast::<usize>(), length) }))
    }

    /// Puts a text at its place; the plan that it lies in is never freed.
    pub(crate) fn set(&mut self, index: usize, text: CText<'static>) -> Result<()> {
        // The last place stays null.
        let places = self.0.len() - 1;
        *self.0.get_mut(index).filter(|_| index < places).ok_or(EINVAL)? = text.pointer();
        Ok(())
    }
}
