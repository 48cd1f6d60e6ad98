//! Starts programs and queries the kernel: the only module with `unsafe`, with its submodules.

#![expect(unsafe_code, reason = "`posix_spawn` has no safe form, and forking a program with threads is worse")]

mod beside;
pub(crate) mod notify;
pub(crate) mod trace;

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::OnceLock;

use rustix::process::Pid;

pub(crate) use self::beside::spawn_beside;

/// Starts a program with one descriptor as its standard input, no other descriptors, and an empty environment. The C
/// library does this without copying this process's memory. The program gets its own process group: it survives a
/// signal to the caller's group, and cleans up.
pub(crate) fn spawn(program: &CStr, name: &CStr, input: BorrowedFd<'_>) -> io::Result<Pid> {
    let mut actions = Actions::new()?;
    actions.duplicate(input, 0)?;
    let mut attributes = Attributes::new()?;
    attributes.own_group()?;
    attributes.default_signals()?;
    let arguments = [name.as_ptr().cast_mut(), std::ptr::null_mut()];
    let environment = [std::ptr::null_mut()];
    let mut pid = 0;
    // SAFETY: every pointer is to a live value of the type that the function takes; the lists end in
    // null, and the function only reads the texts despite its signature.
    let failed = unsafe {
        libc::posix_spawn(
            &mut pid,
            program.as_ptr(),
            &actions.0,
            &attributes.0,
            arguments.as_ptr(),
            environment.as_ptr(),
        )
    };
    check(failed)?;
    Pid::from_raw(pid).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
}

/// Starts a program from an open file, in its own process group, with these descriptors under their own numbers
/// besides its standard streams, no others, and an empty environment.
pub(crate) fn spawn_file(
    program: BorrowedFd<'_>,
    arguments: &[CString],
    streams: [BorrowedFd<'_>; 3],
    kept: &[BorrowedFd<'_>],
) -> io::Result<Pid> {
    let path = CString::new(format!("/proc/self/fd/{}", program.as_raw_fd()))?;
    let mut actions = Actions::new()?;
    for (stream, number) in streams.into_iter().zip(0..) {
        actions.duplicate(stream, number)?;
    }
    for file in kept {
        // Onto itself, which clears close-on-exec.
        actions.duplicate(*file, file.as_raw_fd())?;
    }
    let mut attributes = Attributes::new()?;
    attributes.own_group()?;
    attributes.default_signals()?;
    let mut pointers: Vec<*mut libc::c_char> = arguments.iter().map(|text| text.as_ptr().cast_mut()).collect();
    pointers.push(std::ptr::null_mut());
    let environment = [std::ptr::null_mut()];
    let mut pid = 0;
    // SAFETY: every pointer is to a live value of the type that the function takes; the lists end in
    // null, and the function only reads the texts despite its signature.
    let failed = unsafe {
        libc::posix_spawn(&mut pid, path.as_ptr(), &actions.0, &attributes.0, pointers.as_ptr(), environment.as_ptr())
    };
    check(failed)?;
    Pid::from_raw(pid).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))
}

fn check(failed: i32) -> io::Result<()> {
    if failed == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(failed)) }
}

struct Actions(libc::posix_spawn_file_actions_t);

impl Actions {
    fn new() -> io::Result<Self> {
        // SAFETY: all-zero bytes are a valid value to initialise over.
        let mut actions = Self(unsafe { std::mem::zeroed() });
        // SAFETY: the value is ours, and destroyed once, when dropped.
        check(unsafe { libc::posix_spawn_file_actions_init(&mut actions.0) })?;
        Ok(actions)
    }

    fn duplicate(&mut self, from: BorrowedFd<'_>, to: i32) -> io::Result<()> {
        // SAFETY: the value was initialised.
        check(unsafe { libc::posix_spawn_file_actions_adddup2(&mut self.0, from.as_raw_fd(), to) })
    }
}

impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: the value was initialised and is not used again.
        unsafe { libc::posix_spawn_file_actions_destroy(&mut self.0) };
    }
}

/// Whether a signal is one that callers ignore on purpose, as by `nohup` or by a shell for a background job, and is
/// ignored. Others are ignored by programs for themselves, as `SIGPIPE` is by this one.
fn is_ignored_on_purpose(signal: i32) -> bool {
    const ON_PURPOSE: [i32; 7] =
        [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];
    ON_PURPOSE.contains(&signal) && is_ignored(signal)
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: all-zero bytes are a valid action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: with no new action this only reads the present one into a place of the right size.
    let failed = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) };
    failed == 0 && action.sa_sigaction == libc::SIG_IGN
}

struct Attributes(libc::posix_spawnattr_t);

impl Attributes {
    fn new() -> io::Result<Self> {
        // SAFETY: all-zero bytes are a valid value to initialise over.
        let mut attributes = Self(unsafe { std::mem::zeroed() });
        // SAFETY: the value is ours, and destroyed once, when dropped.
        check(unsafe { libc::posix_spawnattr_init(&mut attributes.0) })?;
        Ok(attributes)
    }

    /// A new process group led by the new process.
    fn own_group(&mut self) -> io::Result<()> {
        // SAFETY: the value was initialised.
        check(unsafe { libc::posix_spawnattr_setpgroup(&mut self.0, 0) })?;
        self.add_flags(libc::POSIX_SPAWN_SETPGROUP)
    }

    fn add_flags(&mut self, flags: i32) -> io::Result<()> {
        let mut set: libc::c_short = 0;
        // SAFETY: the value was initialised, and `set` is ours.
        check(unsafe { libc::posix_spawnattr_getflags(&self.0, &mut set) })?;
        // SAFETY: the value was initialised.
        check(unsafe { libc::posix_spawnattr_setflags(&mut self.0, set | flags as libc::c_short) })
    }

    /// Resets signals to their default action, except for those that are ignored on purpose.
    fn default_signals(&mut self) -> io::Result<()> {
        // SAFETY: the sets are filled before they are used, and the value was initialised.
        unsafe {
            let mut set = std::mem::zeroed();
            check(libc::sigfillset(&mut set))?;
            for signal in (1..=libc::SIGSYS).filter(|signal| is_ignored_on_purpose(*signal)) {
                check(libc::sigdelset(&mut set, signal))?;
            }
            check(libc::posix_spawnattr_setsigdefault(&mut self.0, &set))?;
            check(libc::sigemptyset(&mut set))?;
            check(libc::posix_spawnattr_setsigmask(&mut self.0, &set))?;
        }
        self.add_flags(libc::POSIX_SPAWN_SETSIGDEF | libc::POSIX_SPAWN_SETSIGMASK)
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: the value was initialised and is not used again.
        unsafe { libc::posix_spawnattr_destroy(&mut self.0) };
    }
}

/// The kernel's Landlock version; 0 if none.
pub(crate) fn landlock_version() -> u32 {
    const ASK_FOR_VERSION: u32 = 1;
    // It does not change while the kernel runs.
    static VERSION: OnceLock<u32> = OnceLock::new();
    *VERSION.get_or_init(|| {
        // SAFETY: with this flag the call reads no memory.
        let version = unsafe {
            libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, ASK_FOR_VERSION)
        };
        u32::try_from(version).unwrap_or(0)
    })
}
