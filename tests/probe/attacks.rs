//! Raw system calls that a sandbox has to refuse.
//!
//! SAFETY, for every block here: the calls get pointers to live values of this function, or none,
//! and change only what the kernel allows this process to change, which is what is being asked.
#![expect(clippy::undocumented_unsafe_blocks, reason = "one reason for all of them, above")]

use std::io;

use crate::{Attempt, answer, c_text, one};

pub(crate) fn run(name: &str, arguments: &[&str]) -> Option<Vec<Attempt>> {
    match (name, arguments) {
        ("truncate", [path]) => {
            one(name, c_text(path.as_bytes()).and_then(|path| answer(unsafe { libc::truncate(path.as_ptr(), 0) })))
        }
        // No right to write is asked for, and yet the file is empty afterwards.
        ("open-cut", [path]) => one(
            name,
            c_text(path.as_bytes())
                .and_then(|path| answer(unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_TRUNC) })),
        ),
        ("setxattr", [path]) => one(name, set_attribute(path)),
        ("flock", [path]) => one(name, lock(path)),
        ("lease", [path]) => one(name, lease(path)),
        ("setuid-files", [directory]) => Some(setuid_files(directory)),
        ("by-handle", [path]) => one(name, by_handle(path)),
        ("namespaces", []) => Some(namespaces()),
        ("mounts", [path]) => Some(mounts(path)),
        ("ptrace", [pid]) => one(name, pid.parse().map_err(invalid).and_then(ptrace)),
        ("vm-read", [pid, address]) => one(name, vm_read(pid, address)),
        ("process-files", [pid]) => Some(process_files(pid)),
        ("memory", [bytes]) => one(name, bytes.parse().map_err(invalid).and_then(memory)),
        ("memfd-exec", []) => one(name, memfd_exec()),
        ("io-uring", []) => one(name, io_uring()),
        ("x32-socket", []) => one(name, x32_socket()),
        ("32-bit-getpid", [directory]) => one(name, getpid_of_32_bits(directory)),
        ("unreviewed-calls", [first, last]) => calls(first, last),
        ("refused-calls", []) => Some(refused_calls()),
        ("type", [text]) => Some(type_into_terminal(text)),
        ("many-files", [directory, count]) => {
            one(name, count.parse().map_err(invalid).and_then(|count| many_files(directory, count)))
        }
        ("deep-directories", [directory, count]) => {
            one(name, count.parse().map_err(invalid).and_then(|count| deep_directories(directory, count)))
        }
        ("swap", [a, b]) => one(name, swap(a, b)),
        ("chmod-descriptor", [number]) => {
            one(name, number.parse().map_err(invalid).and_then(|number| answer(unsafe { libc::fchmod(number, 0o777) })))
        }
        _ => None,
    }
}

fn invalid<E>(_: E) -> io::Error {
    io::Error::from_raw_os_error(libc::EINVAL)
}

fn set_attribute(path: &str) -> io::Result<String> {
    let path = c_text(path.as_bytes())?;
    answer(unsafe { libc::setxattr(path.as_ptr(), c"user.stockade".as_ptr(), b"x".as_ptr().cast(), 1, 0) })
}

fn lock(path: &str) -> io::Result<String> {
    use std::os::fd::AsRawFd as _;
    let file = std::fs::File::open(path)?;
    answer(unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) })
}

/// Makes each program that opens the file for writing wait until this lease is given up.
fn lease(path: &str) -> io::Result<String> {
    use std::os::fd::AsRawFd as _;
    let file = std::fs::File::open(path)?;
    answer(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) })
}

/// Every way to a file whose mode has the set-user-id or set-group-id bit.
fn setuid_files(directory: &str) -> Vec<Attempt> {
    const MODE: libc::mode_t = 0o6755;
    // The same on every processor, and not in every list of names.
    const FCHMODAT2: libc::c_long = 452;
    let path = |name: &str| c_text(format!("{directory}/{name}").as_bytes());
    let plain = |name: &str| {
        std::fs::write(format!("{directory}/{name}"), "#!/bin/sh\n")?;
        path(name)
    };
    let open = libc::O_CREAT | libc::O_WRONLY | libc::O_EXCL;
    let file = |name: &str| plain(name).map(|path| unsafe { libc::open(path.as_ptr(), libc::O_WRONLY) });
    let ways: Vec<(&str, io::Result<i64>)> = vec![
        #[cfg(target_arch = "x86_64")]
        ("chmod", plain("chmod").map(|path| unsafe { libc::syscall(libc::SYS_chmod, path.as_ptr(), MODE) })),
        ("fchmod", file("fchmod").map(|file| unsafe { libc::syscall(libc::SYS_fchmod, file, MODE) })),
        (
            "fchmodat",
            plain("fchmodat")
                .map(|path| unsafe { libc::syscall(libc::SYS_fchmodat, libc::AT_FDCWD, path.as_ptr(), MODE) }),
        ),
        (
            "fchmodat2",
            plain("fchmodat2").map(|path| unsafe { libc::syscall(FCHMODAT2, libc::AT_FDCWD, path.as_ptr(), MODE, 0) }),
        ),
        #[cfg(target_arch = "x86_64")]
        ("creat", path("creat").map(|path| unsafe { libc::syscall(libc::SYS_creat, path.as_ptr(), MODE) })),
        #[cfg(target_arch = "x86_64")]
        ("open", path("open").map(|path| unsafe { libc::syscall(libc::SYS_open, path.as_ptr(), open, MODE) })),
        (
            "openat",
            path("openat")
                .map(|path| unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), open, MODE) }),
        ),
        #[cfg(target_arch = "x86_64")]
        (
            "mknod",
            path("mknod").map(|path| unsafe { libc::syscall(libc::SYS_mknod, path.as_ptr(), libc::S_IFREG | MODE, 0) }),
        ),
        (
            "openat2",
            path("openat2").map(|path| {
                let how: [u64; 3] = [u64::from(open.unsigned_abs()), u64::from(MODE), 0];
                unsafe {
                    libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, path.as_ptr(), how.as_ptr(), size_of_val(&how))
                }
            }),
        ),
    ];
    ways.into_iter().map(|(name, result)| (format!("setuid-{name}"), result.and_then(answer))).collect()
}

/// Opens a file past its directory, and past any mask over its name.
fn by_handle(text: &str) -> io::Result<String> {
    #[repr(C)]
    struct Handle {
        length: u32,
        kind: i32,
        bytes: [u8; 128],
    }
    let path = c_text(text.as_bytes())?;
    let mut handle = Handle { length: 128, kind: 0, bytes: [0; 128] };
    let mut mount = 0;
    answer(unsafe {
        libc::syscall(libc::SYS_name_to_handle_at, libc::AT_FDCWD, path.as_ptr(), &raw mut handle, &raw mut mount, 0)
    })?;
    // Any file of the same file system will do.
    let beside =
        std::path::Path::new(text).parent().map_or(text.as_bytes(), |parent| parent.as_os_str().as_encoded_bytes());
    let beside = c_text(beside)?;
    let root = unsafe { libc::open(beside.as_ptr(), libc::O_RDONLY) };
    let file = answer(unsafe { libc::syscall(libc::SYS_open_by_handle_at, root, &raw mut handle, libc::O_RDONLY) })?;
    std::fs::read_to_string(format!("/proc/self/fd/{file}"))
}

fn namespaces() -> Vec<Attempt> {
    let kinds = [
        ("user", libc::CLONE_NEWUSER),
        ("mount", libc::CLONE_NEWNS | libc::CLONE_NEWUSER),
        ("net", libc::CLONE_NEWNET | libc::CLONE_NEWUSER),
    ];
    let mut attempts = Vec::new();
    for (name, flags) in kinds {
        attempts.push((
            format!("clone-{name}"),
            child(|| unsafe { libc::syscall(libc::SYS_clone, i64::from(flags | libc::SIGCHLD), 0, 0, 0, 0) }),
        ));
        attempts.push((format!("unshare-{name}"), in_child(|| i64::from(unsafe { libc::unshare(flags) }))));
    }
    // `struct clone_args`: flags first, the signal at the end in the fifth place.
    let arguments: [u64; 8] = [libc::CLONE_NEWUSER as u64, 0, 0, 0, libc::SIGCHLD as u64, 0, 0, 0];
    attempts.push((
        String::from("clone3-user"),
        child(|| unsafe { libc::syscall(libc::SYS_clone3, arguments.as_ptr(), size_of_val(&arguments)) }),
    ));
    attempts
}

/// A call that makes a child if it works; the child ends at once.
fn child(call: impl FnOnce() -> i64) -> io::Result<String> {
    let pid = call();
    if pid == 0 {
        unsafe { libc::_exit(0) };
    }
    answer(pid)
}

/// Makes a call in a child, since it would change this process for the calls that follow.
fn in_child(call: impl FnOnce() -> i64) -> io::Result<String> {
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let failed = if call() < 0 { io::Error::last_os_error().raw_os_error().unwrap_or(255) } else { 0 };
        unsafe { libc::_exit(failed) };
    }
    let mut status = 0;
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    match libc::WEXITSTATUS(status) {
        0 if libc::WIFEXITED(status) => Ok(String::new()),
        0 => Err(io::Error::from_raw_os_error(libc::EINTR)),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// Calls that would change the view of the file system.
fn mounts(path: &str) -> Vec<Attempt> {
    let Ok(path) = c_text(path.as_bytes()) else { return Vec::new() };
    let at = i64::from(libc::AT_FDCWD);
    let clone_tree = 1_i64;
    let remount = libc::MS_REMOUNT | libc::MS_BIND;
    let calls: [(&str, i64); 7] = [
        ("umount", i64::from(unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) })),
        (
            "remount",
            i64::from(unsafe {
                libc::mount(std::ptr::null(), path.as_ptr(), std::ptr::null(), remount, std::ptr::null())
            }),
        ),
        (
            "bind",
            i64::from(unsafe {
                libc::mount(c"/etc".as_ptr(), path.as_ptr(), std::ptr::null(), libc::MS_BIND, std::ptr::null())
            }),
        ),
        ("open_tree", unsafe { libc::syscall(libc::SYS_open_tree, at, path.as_ptr(), clone_tree) }),
        // open_tree_attr, from Linux 6.15 on
        ("open_tree_attr", unsafe { libc::syscall(467, at, path.as_ptr(), clone_tree, 0, 0) }),
        ("chroot", i64::from(unsafe { libc::chroot(path.as_ptr()) })),
        ("fsopen", unsafe { libc::syscall(libc::SYS_fsopen, c"tmpfs".as_ptr(), 0) }),
    ];
    // The number of the error is gone after the first of them; whether one worked is what counts.
    calls
        .into_iter()
        .map(|(name, result)| (name.to_owned(), if result < 0 { Err(invalid(())) } else { Ok(String::new()) }))
        .collect()
}

fn ptrace(pid: i32) -> io::Result<String> {
    let attached = answer(unsafe { libc::ptrace(libc::PTRACE_ATTACH, pid, 0, 0) });
    if attached.is_ok() {
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), libc::__WALL) };
        unsafe { libc::ptrace(libc::PTRACE_DETACH, pid, 0, 0) };
    }
    attached
}

fn vm_read(pid: &str, address: &str) -> io::Result<String> {
    let (pid, address): (i32, usize) = (pid.parse().map_err(invalid)?, address.parse().map_err(invalid)?);
    let mut bytes = [0_u8; 8];
    let here = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let there = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
    answer(unsafe { libc::process_vm_readv(pid, &raw const here, 1, &raw const there, 1, 0) } as i64)
}

/// What another process's directory in `/proc` gives away, or lets in.
fn process_files(pid: &str) -> Vec<Attempt> {
    let path = |name: &str| format!("/proc/{pid}/{name}");
    let mut attempts: Vec<Attempt> = ["root", "cwd", "exe"]
        .map(|name| (name.to_owned(), std::fs::read_link(path(name)).map(|path| path.display().to_string())))
        .into();
    attempts.push((String::from("environ"), std::fs::read(path("environ")).map(|bytes| bytes.len().to_string())));
    attempts.push((String::from("fd"), std::fs::read_link(path("fd/0")).map(|path| path.display().to_string())));
    attempts
        .push((String::from("mem"), std::fs::OpenOptions::new().write(true).open(path("mem")).map(|_| String::new())));
    attempts
}

fn memory(bytes: usize) -> io::Result<String> {
    let mut held: Vec<u8> = Vec::new();
    held.try_reserve_exact(bytes).map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
    held.resize(bytes, 1);
    Ok(held.iter().step_by(4096).map(|byte| usize::from(*byte)).sum::<usize>().to_string())
}

fn memfd_exec() -> io::Result<String> {
    use std::io::Write as _;
    use std::os::fd::{AsRawFd as _, FromRawFd as _};
    let file = answer(unsafe { libc::memfd_create(c"x".as_ptr(), 0) })?.parse().map_err(invalid)?;
    let mut file = unsafe { std::fs::File::from_raw_fd(file) };
    file.write_all(&std::fs::read("/bin/true")?)?;
    let path = c_text(format!("/proc/self/fd/{}", file.as_raw_fd()).as_bytes())?;
    in_child(|| {
        let arguments = [path.as_ptr(), std::ptr::null()];
        i64::from(unsafe { libc::execv(path.as_ptr(), arguments.as_ptr()) })
    })
}

fn io_uring() -> io::Result<String> {
    let mut parameters = [0_u8; 120];
    answer(unsafe { libc::syscall(libc::SYS_io_uring_setup, 4, parameters.as_mut_ptr()) })
}

/// A call by its number in the ABI of x86-64 with short pointers.
#[cfg(target_arch = "x86_64")]
fn x32_socket() -> io::Result<String> {
    answer(unsafe { libc::syscall(0x4000_0000 | libc::SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0) })
}

#[cfg(not(target_arch = "x86_64"))]
fn x32_socket() -> io::Result<String> {
    Err(invalid(()))
}

/// The 32-bit way into the kernel, where number 20 is `getpid`.
#[cfg(target_arch = "x86_64")]
fn getpid_of_32_bits(_: &str) -> io::Result<String> {
    let result: i32;
    unsafe {
        std::arch::asm!("int 0x80", inout("eax") 20 => result, out("r8") _, out("r9") _, out("r10") _, out("r11") _)
    };
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result.to_string()) }
}

/// The 32-bit way into the kernel, where number 20 is `getpid`: no program of 64 bits has it, so this becomes one of 32, which ends
/// with 42 if it was answered.
#[cfg(target_arch = "aarch64")]
fn getpid_of_32_bits(directory: &str) -> io::Result<String> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;

    const BASE: u32 = 0x1_0000;
    const HEADERS: u32 = 52 + 32;
    // mov r7, #20; svc #0; mov r7, #1; mov r0, #42; svc #0
    const CODE: [u32; 5] = [0xe3a0_7014, 0xef00_0000, 0xe3a0_7001, 0xe3a0_002a, 0xef00_0000];
    const LENGTH: u32 = HEADERS + 4 * CODE.len() as u32;
    let mut program = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    // A program for Arm: its entry, its one program header at 52, the version of its ABI, and the sizes of headers.
    for half in [2_u16, 40] {
        program.extend(half.to_le_bytes());
    }
    for word in [1, BASE + HEADERS, 52, 0, 0x0500_0000] {
        program.extend(word.to_le_bytes());
    }
    for half in [52_u16, 32, 1, 0, 0, 0] {
        program.extend(half.to_le_bytes());
    }
    // All of the file, to be read and run.
    for word in [1, 0, BASE, BASE, LENGTH, LENGTH, 5, 0x1000].into_iter().chain(CODE) {
        program.extend(word.to_le_bytes());
    }
    let path = format!("{directory}/32-bit");
    // With its mode from the beginning: not every sandbox lets modes be changed.
    std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o755).open(&path)?.write_all(&program)?;
    let path = c_text(path.as_bytes())?;
    let arguments = [path.as_ptr(), std::ptr::null()];
    answer(unsafe { libc::execv(path.as_ptr(), arguments.as_ptr()) })
}

fn calls(first: &str, last: &str) -> Option<Vec<Attempt>> {
    let range = first.parse::<i64>().ok()?..=last.parse::<i64>().ok()?;
    Some(
        range
            .map(|call| (format!("call-{call}"), answer(unsafe { libc::syscall(call, -1, -1, -1, -1, -1, -1) })))
            .collect(),
    )
}

/// Calls that are refused whatever their arguments, with arguments that do nothing where they work.
fn refused_calls() -> Vec<Attempt> {
    [
        ("ptrace", libc::SYS_ptrace),
        ("process_vm_writev", libc::SYS_process_vm_writev),
        ("kcmp", libc::SYS_kcmp),
        ("pidfd_getfd", libc::SYS_pidfd_getfd),
        ("keyctl", libc::SYS_keyctl),
        ("add_key", libc::SYS_add_key),
        ("request_key", libc::SYS_request_key),
        ("bpf", libc::SYS_bpf),
        ("perf_event_open", libc::SYS_perf_event_open),
        ("userfaultfd", libc::SYS_userfaultfd),
        ("setns", libc::SYS_setns),
        ("init_module", libc::SYS_init_module),
        ("kexec_load", libc::SYS_kexec_load),
        ("swapon", libc::SYS_swapon),
        ("acct", libc::SYS_acct),
        ("fanotify_init", libc::SYS_fanotify_init),
        ("syslog", libc::SYS_syslog),
        ("mount_setattr", libc::SYS_mount_setattr),
        ("open_tree_attr", 467),
    ]
    .into_iter()
    .map(|(name, call)| (name.to_owned(), answer(unsafe { libc::syscall(call, -1, -1, -1, -1, -1, -1) })))
    .collect()
}

/// Types into the terminal that standard input is, as if the person had.
fn type_into_terminal(text: &str) -> Vec<Attempt> {
    text.bytes()
        .map(|byte| (String::from("type"), answer(unsafe { libc::ioctl(0, libc::TIOCSTI, &raw const byte) })))
        .collect()
}

fn swap(a: &str, b: &str) -> io::Result<String> {
    const EXCHANGE: u32 = 2;
    let (a, b) = (c_text(a.as_bytes())?, c_text(b.as_bytes())?);
    answer(unsafe { libc::renameat2(libc::AT_FDCWD, a.as_ptr(), libc::AT_FDCWD, b.as_ptr(), EXCHANGE) })
}

fn many_files(directory: &str, count: usize) -> io::Result<String> {
    std::fs::create_dir(directory)?;
    (0..count).try_for_each(|number| std::fs::write(format!("{directory}/{number}"), ""))?;
    Ok(count.to_string())
}

/// One directory inside the other, each entered by its name alone.
fn deep_directories(directory: &str, count: usize) -> io::Result<String> {
    let name = "d".repeat(200);
    std::env::set_current_dir(directory)?;
    for _ in 0..count {
        std::fs::create_dir(&name)?;
        std::env::set_current_dir(&name)?;
    }
    std::fs::write("x.env", "")?;
    Ok(count.to_string())
}
