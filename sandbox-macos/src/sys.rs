//! Calls that have no safe form, and what the kernel and the system say about a run.

#![expect(unsafe_code, reason = "code between fork and exec, and questions to the system, have no safe form")]

use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::io::FdFlags;
use rustix::process::{Pid, Resource, Rlimit, WaitId, WaitIdOptions, WaitStatus as RawStatus};
use stockade_sandboxing::{ProcessSettings, WaitStatus};

use crate::limits::{Counted, Limit};

/// How many descriptors are looked at. No program has more open.
const MOST_DESCRIPTORS: i32 = 1 << 20;

/// Which terminal becomes the command's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Terminal {
    None,
    /// The first standard stream that is one.
    StandardStream,
}

/// What is known of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(target_os = "macos", expect(dead_code, reason = "there the kernel always answers"))]
#[cfg_attr(not(target_os = "macos"), expect(dead_code, reason = "only there the kernel can be asked"))]
pub(crate) enum Membership {
    /// It is in the sandbox of the run.
    Inside,
    /// It is not, or not yet.
    Outside,
    /// The system has no Seatbelt to ask.
    Unknown,
}

/// Has the child leave the caller's session, keep no descriptor of the caller's, start with ordinary
/// signals, limit itself, and take over what the caller has in its place.
pub(crate) fn before_exec(command: &mut Command, limits: Vec<Limit>, process: ProcessSettings, terminal: Terminal) {
    let prepare = move || {
        rustix::process::setsid()?;
        if terminal == Terminal::StandardStream {
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())
                .or_else(|_| rustix::process::ioctl_tiocsctty(rustix::stdio::stdout()))
                .or_else(|_| rustix::process::ioctl_tiocsctty(rustix::stdio::stderr()))?;
        }
        default_signals();
        close_others_on_exec();
        limits.iter().try_for_each(set_limit)?;
        process.apply()
    };
    // SAFETY: between fork and exec the closure makes system calls only: it neither allocates nor locks.
    unsafe { command.pre_exec(prepare) };
}

fn is_ignored(signal: i32) -> bool {
    // SAFETY: all-zero bytes are a valid action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: with no new action this only reads the present one into a place of the right size.
    let failed = unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) };
    failed == 0 && action.sa_sigaction == libc::SIG_IGN
}

fn default_signals() {
    // By these a caller says on purpose that the command is to ignore them, as `nohup` does.
    let on_purpose = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGTSTP];
    for signal in (1..32).filter(|signal| !(on_purpose.contains(signal) && is_ignored(*signal))) {
        // SAFETY: the default action is valid for every signal; for those that can't be changed, and for
        // numbers without one, the call fails and changes nothing.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// The mark, and not closing: this process still tells its parent whether exec worked.
fn close_others_on_exec() {
    // SAFETY: the call only returns a number.
    let most = unsafe { libc::getdtablesize() };
    for number in 3..most.clamp(3, MOST_DESCRIPTORS) {
        // SAFETY: the number is used for one call, which fails if nothing is open under it; nothing is
        // closed.
        let file = unsafe { BorrowedFd::borrow_raw(number) };
        rustix::io::fcntl_setfd(file, FdFlags::CLOEXEC).ok();
    }
}

fn set_limit(limit: &Limit) -> io::Result<()> {
    let resource = match limit.counted {
        Counted::CoreFile => Resource::Core,
        Counted::ProcessorSeconds => Resource::Cpu,
        Counted::FileSize => Resource::Fsize,
        Counted::OpenFiles => Resource::Nofile,
    };
    // A limit that is lower already stays.
    let most = rustix::process::getrlimit(resource).maximum.map_or(limit.most, |own| own.min(limit.most));
    Ok(rustix::process::setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?)
}

/// The end of a process that was not waited for yet; `None` while it runs.
pub(crate) fn peek(process: Pid) -> Option<WaitStatus> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = rustix::process::waitid(WaitId::Pid(process), options).ok()??;
    Some(match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => WaitStatus::Exited(code),
        (None, signal) => WaitStatus::Signaled(signal.unwrap_or_default()),
    })
}

/// How a process ended.
pub(crate) fn wait_status(status: RawStatus) -> WaitStatus {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => WaitStatus::Exited(code),
        (None, signal) => WaitStatus::Signaled(signal.unwrap_or_default()),
    }
}

#[cfg(not(target_os = "macos"))]
pub(crate) fn membership(_: Pid, _: &str) -> Membership {
    Membership::Unknown
}

#[cfg(not(target_os = "macos"))]
pub(crate) fn members(_: &str) -> Vec<Pid> {
    Vec::new()
}

/// The file name of the program that a process has become last, cut off where the kernel cuts it off. It is told as
/// long as the process was not waited for.
#[cfg(not(target_os = "macos"))]
pub(crate) fn last_program(process: Pid) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{}/comm", process.as_raw_pid())).ok()?;
    Some(name.trim_end_matches('\n').to_owned())
}

#[cfg(target_os = "macos")]
pub(crate) use macos::{last_program, managed_preference, members, membership, user_directory};

/// Questions that only macOS answers.
#[cfg(target_os = "macos")]
mod macos {
    use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::PathBuf;

    use core_foundation::base::TCFType as _;
    use core_foundation::propertylist::CFPropertyList;
    use core_foundation::string::CFString;
    use rustix::process::Pid;

    use super::Membership;
    use crate::managed::Managed;

    /// The operation that a run is told by, and the kind of name that it takes.
    const LOOK_UP: &CStr = c"mach-lookup";
    const GLOBAL_NAME: c_int = 2;
    /// Processes of one user.
    const BY_USER: u32 = 4;

    // Part of libSystem and without a public header; browsers ask the same question in the same way.
    unsafe extern "C" {
        static SANDBOX_CHECK_NO_REPORT: c_int;
        fn sandbox_check(process: libc::pid_t, operation: *const c_char, kind: c_int, ...) -> c_int;
    }

    #[link(name = "CoreFoundation", kind = "framework")]
    unsafe extern "C" {
        fn CFPreferencesCopyAppValue(key: *const c_void, domain: *const c_void) -> *const c_void;
        fn CFPreferencesAppValueIsForced(key: *const c_void, domain: *const c_void) -> u8;
    }

    /// Whether a process may look for a service. `None` if there is no such process.
    fn may_look_for(process: Pid, name: &CStr) -> Option<bool> {
        // SAFETY: the texts live through the call, and a name is what this kind of question takes.
        let answer = unsafe {
            sandbox_check(process.as_raw_pid(), LOOK_UP.as_ptr(), GLOBAL_NAME | SANDBOX_CHECK_NO_REPORT, name.as_ptr())
        };
        match answer {
            0 => Some(true),
            1 => Some(false),
            _ => None,
        }
    }

    /// A member may look for the run's name and not for another. A process without a sandbox, or with one that
    /// allows every name, may look for both.
    pub(crate) fn membership(process: Pid, run: &str) -> Membership {
        let (Ok(own), Ok(other)) = (CString::new(run), CString::new(format!("{run}.other"))) else {
            return Membership::Outside;
        };
        match (may_look_for(process, &own), may_look_for(process, &other)) {
            (Some(true), Some(false)) => Membership::Inside,
            _ => Membership::Outside,
        }
    }

    /// This user's processes that are in the sandbox of the run.
    pub(crate) fn members(run: &str) -> Vec<Pid> {
        processes().into_iter().filter(|process| membership(*process, run) == Membership::Inside).collect()
    }

    fn processes() -> Vec<Pid> {
        let user = rustix::process::getuid().as_raw();
        let mut numbers: Vec<libc::pid_t> = vec![0; 4096];
        loop {
            let size = c_int::try_from(size_of_val(numbers.as_slice())).unwrap_or(c_int::MAX);
            // SAFETY: the buffer has room for that many bytes.
            let used = unsafe { libc::proc_listpids(BY_USER, user, numbers.as_mut_ptr().cast(), size) };
            let used = usize::try_from(used).unwrap_or_default() / size_of::<libc::pid_t>();
            if used < numbers.len() {
                numbers.truncate(used);
                return numbers.into_iter().filter_map(Pid::from_raw).collect();
            }
            numbers.resize(numbers.len() * 2, 0);
        }
    }

    /// The file name of the program that a process has become last, cut off where the kernel cuts it off. It is told
    /// as long as the process was not waited for.
    pub(crate) fn last_program(process: Pid) -> Option<String> {
        /// Processes that have ended are told of, too.
        const ENDED_AS_WELL: u64 = 1;
        // SAFETY: all-zero bytes are a valid value of this plain structure.
        let mut found: libc::proc_bsdinfo = unsafe { std::mem::zeroed() };
        let size = c_int::try_from(size_of_val(&found)).ok()?;
        let place = (&raw mut found).cast::<c_void>();
        // SAFETY: the buffer has room for that many bytes.
        let used =
            unsafe { libc::proc_pidinfo(process.as_raw_pid(), libc::PROC_PIDTBSDINFO, ENDED_AS_WELL, place, size) };
        if used != size {
            return None;
        }
        let name = found.pbi_comm.iter().take_while(|byte| **byte != 0).map(|byte| byte.cast_unsigned());
        String::from_utf8(name.collect()).ok()
    }

    /// A directory that the system keeps for this user.
    pub(crate) fn user_directory(kind: c_int) -> Option<PathBuf> {
        let mut bytes = vec![0_u8; 4096];
        // SAFETY: the buffer has room for that many bytes.
        let length = unsafe { libc::confstr(kind, bytes.as_mut_ptr().cast(), bytes.len()) };
        let text = CStr::from_bytes_with_nul(bytes.get(..length)?).ok()?;
        Some(OsStr::from_bytes(text.to_bytes()).into())
    }

    /// A preference that an administrator has set and the user can't change.
    pub(crate) fn managed_preference(domain: &str, key: &str) -> Managed {
        let (domain, key) = (CFString::new(domain), CFString::new(key));
        // SAFETY: both are texts that live through the call.
        let is_managed = unsafe { CFPreferencesAppValueIsForced(key.as_CFTypeRef(), domain.as_CFTypeRef()) } != 0;
        if !is_managed {
            return Managed::Nothing;
        }
        // SAFETY: both are texts that live through the call.
        let value = unsafe { CFPreferencesCopyAppValue(key.as_CFTypeRef(), domain.as_CFTypeRef()) };
        if value.is_null() {
            return Managed::Other;
        }
        // SAFETY: the value exists, and a copied value has to be released by its owner, which is here.
        let value = unsafe { CFPropertyList::wrap_under_create_rule(value) };
        let text = value.downcast::<CFString>().map(|text| text.to_string());
        text.map_or(Managed::Other, Managed::Text)
    }
}
