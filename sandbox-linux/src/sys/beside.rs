//! Starts a program without waiting until it executes.
//!
//! `posix_spawn` suspends the caller until the new process has executed its program: on a busy machine the caller loses its
//! processor twice. Here the new process shares the caller's memory until then, as it does there, but the caller goes on. So
//! everything that the new process reads stays in place for good, and it calls nothing that writes to shared memory: even a
//! failed call of the C library would change the caller's `errno`.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Pid;

use super::is_ignored_on_purpose;

const STACK: usize = 16 << 10;
/// The signals of the C library itself, which it lets no program change.
const RESERVED: [c_int; 2] = [32, 33];

/// What the new process reads.
struct Program {
    path: CString,
    arguments: [*const c_char; 2],
    environment: [*const c_char; 1],
    input: c_int,
    /// Signals with an action of the caller's.
    signals: Vec<c_int>,
    stack: [MaybeUninit<u8>; STACK],
}

/// Like [`spawn`](super::spawn), but returns before the program is executed; if it can't be, the process ends. Signals are
/// blocked in it. `None` from the second call on: memory for one process is given away.
pub(crate) fn spawn_beside(path: CString, name: &'static CStr, input: BorrowedFd<'_>) -> Option<io::Result<Pid>> {
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    (!IS_TAKEN.swap(true, Ordering::Relaxed)).then(|| start(path, name, input))
}

fn start(path: CString, name: &'static CStr, input: BorrowedFd<'_>) -> io::Result<Pid> {
    let signals = (1..=libc::SIGRTMAX())
        .filter(|signal| ![libc::SIGKILL, libc::SIGSTOP].contains(signal) && !RESERVED.contains(signal))
        .filter(|signal| !is_ignored_on_purpose(*signal))
        .collect();
    let program = Box::leak(Box::new(Program {
        path,
        arguments: [name.as_ptr(), std::ptr::null()],
        environment: [std::ptr::null()],
        input: input.as_raw_fd(),
        signals,
        stack: [MaybeUninit::uninit(); STACK],
    }));
    let top = program.stack.as_mut_ptr_range().end;
    // Both processors want it aligned.
    let top = top.map_addr(|address| address & !15);
    // SAFETY: all-zero bytes are a valid set to fill and to read into.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: the set is ours.
    unsafe { libc::sigfillset(&mut all) };
    // SAFETY: both sets are ours. No handler of this process may run in the new one.
    let blocked = unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before) };
    super::check(blocked)?;
    let argument: *mut c_void = std::ptr::from_mut(program).cast();
    // SAFETY: the function runs on a stack of its own, which nothing else uses, ends the process or replaces it, and reads only
    // the leaked value.
    let pid = unsafe { libc::clone(execute, top.cast(), libc::CLONE_VM | libc::SIGCHLD, argument) };
    let failure = io::Error::last_os_error();
    // SAFETY: the set was filled by the call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    Pid::from_raw(pid.max(0)).ok_or(failure)
}

/// Runs in the new process.
extern "C" fn execute(program: *mut c_void) -> c_int {
    // SAFETY: the value was leaked for this process, and nothing changes it.
    let program = unsafe { &*program.cast::<Program>() };
    for signal in &program.signals {
        // SAFETY: all-zero bytes are the default action. The signals are those that can be set, so this does not fail.
        unsafe { libc::sigaction(*signal, &std::mem::zeroed(), std::ptr::null_mut()) };
    }
    // SAFETY: numbers only. A child that has not executed anything may lead a group of its own.
    unsafe { libc::setpgid(0, 0) };
    // SAFETY: the descriptor was copied with all others, and nothing here closes it.
    unsafe { libc::dup2(program.input, 0) };
    // SAFETY: the texts and lists are live, and the lists end in null.
    unsafe { replace(program.path.as_ptr(), program.arguments.as_ptr(), program.environment.as_ptr()) };
    // The caller notices that the other end of the descriptor is closed.
    127
}

/// `execve`, which leaves `errno` as it is. It returns if it has failed.
#[cfg(target_arch = "x86_64")]
unsafe fn replace(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) {
    // SAFETY: the caller vouches for the pointers; the kernel changes the named registers only.
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") libc::SYS_execve => _, in("rdi") path, in("rsi") arguments,
            in("rdx") environment, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
}

/// `execve`, which leaves `errno` as it is. It returns if it has failed.
#[cfg(target_arch = "aarch64")]
unsafe fn replace(path: *const c_char, arguments: *const *const c_char, environment: *const *const c_char) {
    // SAFETY: the caller vouches for the pointers; the kernel changes the named registers only.
    unsafe {
        std::arch::asm!("svc 0", in("x8") libc::SYS_execve, inlateout("x0") path => _, in("x1") arguments,
            in("x2") environment, options(nostack));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::Shutdown;
    use std::os::fd::AsFd as _;
    use std::os::unix::net::UnixStream;

    use rustix::process::{WaitOptions, waitpid};

    use super::*;

    /// One test: a process is started like this once.
    #[test]
    fn a_program_is_executed_beside_its_caller_and_without_its_signals() {
        // Without arguments a shell reads its script from the socket.
        let script = r#"exec 3>&0; read -r stat < /proc/$$/stat; echo "$$ $stat" >&3
            while read -r name value; do case $name in SigIgn:) echo "$value" >&3;; esac; done < /proc/$$/status; exit 7"#;
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(script.as_bytes()).unwrap();
        ours.shutdown(Shutdown::Write).unwrap();
        let pid = spawn_beside(c"/bin/sh".into(), c"sh", theirs.as_fd()).unwrap().unwrap();
        drop(theirs);
        let mut said = String::new();
        ours.read_to_string(&mut said).unwrap();
        let (_, status) = waitpid(Some(pid), WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.exit_status(), Some(7), "{said}");
        let mut lines = said.lines();
        let words: Vec<&str> = lines.next().unwrap().split(' ').collect();
        // Its own number, and behind number, name, state and parent its group.
        assert_eq!(words[0], pid.as_raw_nonzero().to_string());
        assert_eq!(words[5], words[0], "{said}");
        // Rust's programs ignore this one for themselves.
        let ignored = u64::from_str_radix(lines.next().unwrap(), 16).unwrap();
        assert_eq!(ignored >> (libc::SIGPIPE - 1) & 1, 0, "{said}");
        assert!(spawn_beside(c"/bin/true".into(), c"name", ours.as_fd()).is_none());
    }
}
