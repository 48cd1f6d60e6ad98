//! Signal handling and memory of this program: the calls that need `unsafe`.

#![expect(unsafe_code, reason = "`sigaction` and `mallopt` have no safe form")]

use std::io::{self, PipeReader};
use std::mem::MaybeUninit;
use std::os::fd::IntoRawFd as _;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The processes that stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stops {
    /// This program alone: the others got the signal already.
    Alone,
    /// Every process of its job.
    Job,
}

/// Whether a signal is ignored. A signal that was ignored at the start (`nohup`, a background job of a script) has to
/// stay so.
pub(crate) fn is_ignored(signal: i32) -> bool {
    present(signal).is_some_and(|action| action.sa_sigaction == libc::SIG_IGN)
}

fn present(signal: i32) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: with no new action this only reads the present one into a place of the right size.
    let failed = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: a call that succeeded has filled the place.
    (failed == 0).then(|| unsafe { action.assume_init() })
}

fn set(signal: i32, handler: usize) {
    // SAFETY: all-zero bytes are a valid action: the default one, without flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the action is complete; its handler is the default, none, or one that does nothing.
    unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
}

/// Makes exceeding `ulimit -f` an error of the call instead of ending this program. With a handler, since an ignored
/// signal would be inherited by commands.
pub(crate) fn survive_file_limit() {
    extern "C" fn nothing(_: i32) {}
    if !is_ignored(libc::SIGXFSZ) {
        set(libc::SIGXFSZ, nothing as extern "C" fn(i32) as usize);
    }
}

/// Lets all threads allocate from one heap. The C library gives each thread a heap of its own, which takes longer to make than the
/// few threads of one run spend waiting for each other.
pub(crate) fn share_one_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: numbers only; a value that is not understood changes nothing.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Restores the default action of these signals, except ignored ones.
pub(crate) fn end_by_default(signals: &[i32]) {
    // A watched one has a handler.
    for signal in signals.iter().filter(|signal| crate::signals::is_watched(**signal) || !is_ignored(**signal)) {
        set(*signal, libc::SIG_DFL);
    }
}

/// Whether `SIGPIPE` was ignored when this program was started.
static BROKEN_PIPES_IGNORED: AtomicBool = AtomicBool::new(false);

/// Runs before the Rust runtime ignores the signal for this program.
#[used]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
#[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
static LOOK_AT_SIGPIPE: extern "C" fn() = {
    extern "C" fn look() {
        BROKEN_PIPES_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    }
    look
};

/// Whether the caller of this program ignores `SIGPIPE`, as programs do that check the errors of `write` instead.
pub(crate) fn has_broken_pipes_ignored() -> bool {
    BROKEN_PIPES_IGNORED.load(Ordering::Relaxed)
}

/// The pipe for signal numbers.
static TOLD: AtomicI32 = AtomicI32::new(-1);

/// Writes the numbers of these signals, except ignored ones, to a pipe.
pub(crate) fn tell_of(signals: &[i32]) -> io::Result<PipeReader> {
    extern "C" fn tell(signal: i32) {
        let number = u8::try_from(signal).unwrap_or_default();
        // SAFETY: `write` may be called in a handler; the byte lives as long as the call, and the descriptor is never
        // closed. `errno` is put back for what was interrupted.
        unsafe {
            let before = *errno();
            libc::write(TOLD.load(Ordering::Relaxed), std::ptr::from_ref(&number).cast(), 1);
            *errno() = before;
        }
    }
    let (reader, writer) = io::pipe()?;
    // A slow reader loses repetitions, and this program never waits for it.
    rustix::io::ioctl_fionbio(&writer, true)?;
    TOLD.store(writer.into_raw_fd(), Ordering::Relaxed);
    for signal in signals.iter().filter(|signal| !is_ignored(**signal)) {
        set(*signal, tell as extern "C" fn(i32) as usize);
    }
    Ok(reader)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn errno() -> *mut i32 {
    // SAFETY: it has no preconditions, and the place lives as long as this thread.
    unsafe { libc::__errno_location() }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn errno() -> *mut i32 {
    // SAFETY: it has no preconditions, and the place lives as long as this thread.
    unsafe { libc::__error() }
}

/// Detaches from the caller: terminal and process group, open files except the standard streams, and ignored signals.
/// To be called before anything else is opened.
pub(crate) fn detach() {
    // A process group leader has left its caller's group already.
    rustix::process::setsid().ok();
    #[cfg(target_os = "linux")]
    // SAFETY: nothing has been opened yet, so none of these belongs to a value.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32);
    }
    for signal in (1..32).filter(|signal| is_ignored(*signal) && *signal != libc::SIGPIPE) {
        set(signal, libc::SIG_DFL);
    }
}

/// This process after [`fork`].
pub(crate) enum Forked {
    Child,
    Parent { child: rustix::process::Pid },
}

/// Makes a copy of this process, which ends with it on Linux.
pub(crate) fn fork() -> io::Result<Forked> {
    // SAFETY: the copy has this thread alone. Callers fork before they start a thread; the thread that may wait for this one
    // (`ulimit -s`) holds no lock meanwhile.
    let child = unsafe { libc::fork() };
    match rustix::process::Pid::from_raw(child) {
        Some(_) if child < 0 => Err(io::Error::last_os_error()),
        Some(child) => Ok(Forked::Parent { child }),
        None => {
            // An agent that gives up on its hook kills the process that it started.
            #[cfg(target_os = "linux")]
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            Ok(Forked::Child)
        }
    }
}

/// Ends this program by a signal, without a core file: the command has its own.
pub(crate) fn end_by(signal: i32) {
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    // If this fails, a core file may be left.
    rustix::process::setrlimit(rustix::process::Resource::Core, none).ok();
    set(signal, libc::SIG_DFL);
    // SAFETY: raising a signal has no preconditions. One that can't be raised leaves this program as it is.
    unsafe { libc::raise(signal) };
}

/// Stops as with Ctrl-Z, until this program is continued. If nothing could continue it, it does not stop.
pub(crate) fn stop(what: Stops) {
    let Some(before) = present(libc::SIGTSTP) else { return };
    if what == Stops::Job {
        set(libc::SIGTSTP, libc::SIG_IGN);
        // SAFETY: sending a signal has no preconditions; 0 is this program's own group.
        unsafe { libc::kill(0, libc::SIGTSTP) };
    }
    set(libc::SIGTSTP, libc::SIG_DFL);
    // SAFETY: raising a signal has no preconditions. This thread goes on when the program is continued.
    unsafe { libc::raise(libc::SIGTSTP) };
    // SAFETY: the action was read from the same signal.
    unsafe { libc::sigaction(libc::SIGTSTP, &before, std::ptr::null_mut()) };
}
