//! Every system call that the launcher makes, and all of its `unsafe` but for copying memory.
//!
//! There is no C library below this: numbers and layouts are the kernel's own
//! (<https://man7.org/linux/man-pages/man2/syscalls.2.html>). A call that fails gives the error
//! number, never a value that could be taken for success.

#![allow(unsafe_code, reason = "the one room for it")]

use core::arch::{asm, global_asm};

use crate::number as nr;

/// An error number of the kernel.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

pub(crate) type Result<T> = core::result::Result<T, Errno>;

pub(crate) const EINTR: Errno = Errno(4);
pub(crate) const EPERM: Errno = Errno(1);
pub(crate) const ECHILD: Errno = Errno(10);
pub(crate) const EINVAL: Errno = Errno(22);
pub(crate) const ENOSYS: Errno = Errno(38);
const ELOOP: Errno = Errno(40);
pub(crate) const EPROTO: Errno = Errno(71);
pub(crate) const ESTALE: Errno = Errno(116);

pub(crate) const AT_FDCWD: i32 = -100;
pub(crate) const CLOEXEC: u64 = 0o2_000_000;
pub(crate) const SIGCHLD: i32 = 17;
pub(crate) const SIGKILL: i32 = 9;

// The kernel enters here with the arguments on the stack, which this program does not use.
#[cfg(target_arch = "x86_64")]
global_asm!(".globl _start", "_start:", "xor %ebp, %ebp", "and $-16, %rsp", "call {main}", "ud2", main = sym crate::main, options(att_syntax));

/// Makes a system call with up to six arguments.
#[cfg(target_arch = "x86_64")]
fn call(number: usize, args: [usize; 6]) -> Result<usize> {
    let result: isize;
    // SAFETY: the wrappers below pass only pointers to memory that is alive for the call and of the
    // size and kind that the kernel expects for this number; the clobbers are those of `syscall`.
    unsafe {
        asm!("syscall", inlateout("rax") number => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2], in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    if (-4095..0).contains(&result) { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

/// Text for the kernel: ends in NUL, which [`CText::new`] checks.
#[derive(Clone, Copy)]
pub(crate) struct CText<'a>(&'a [u8]);

impl<'a> CText<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self> {
        match bytes.iter().position(|byte| *byte == 0) {
            Some(end) if end + 1 == bytes.len() => Ok(Self(bytes)),
            _ => Err(EINVAL),
        }
    }

    /// The text with the NUL.
    pub(crate) fn bytes(self) -> &'a [u8] {
        self.0
    }

    fn pointer(self) -> usize {
        self.0.as_ptr() as usize
    }
}

pub(crate) const EMPTY: CText<'static> = CText(b"\0");
pub(crate) const DOT: CText<'static> = CText(b".\0");
const ROOT: CText<'static> = CText(b"/\0");

fn fd(number: usize) -> i32 {
    number as i32
}

pub(crate) fn exit(code: i32) -> ! {
    loop {
        // It does not come back; the loop is for the type.
        let _ = call(nr::EXIT, [code as usize, 0, 0, 0, 0, 0]);
    }
}

pub(crate) fn read(file: i32, buffer: &mut [u8]) -> Result<usize> {
    call(nr::READ, [file as usize, buffer.as_mut_ptr() as usize, buffer.len(), 0, 0, 0])
}

pub(crate) fn write(file: i32, bytes: &[u8]) -> Result<usize> {
    call(nr::WRITE, [file as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0])
}

pub(crate) fn close(file: i32) {
    // Closing fails only for a descriptor that is not open, which is what is wanted.
    let _ = call(nr::CLOSE, [file as usize, 0, 0, 0, 0, 0]);
}

pub(crate) fn close_range(first: u32, flags: u32) -> Result<usize> {
    call(nr::CLOSE_RANGE, [first as usize, u32::MAX as usize, flags as usize, 0, 0, 0])
}

pub(crate) fn dup(from: i32, to: i32) -> Result<usize> {
    call(nr::DUP3, [from as usize, to as usize, 0, 0, 0, 0])
}

/// Fresh zeroed memory that lives as long as the process.
pub(crate) fn allocate(length: usize) -> Result<&'static mut [u8]> {
    const READ_WRITE: usize = 3;
    const PRIVATE_ANONYMOUS: usize = 0x22;
    let address = call(nr::MMAP, [0, length.max(1), READ_WRITE, PRIVATE_ANONYMOUS, usize::MAX, 0])?;
    // SAFETY: the kernel has just mapped `length` zeroed bytes here for us alone; nothing unmaps them.
    Ok(unsafe { core::slice::from_raw_parts_mut(address as *mut u8, length) })
}

pub(crate) fn open(directory: i32, path: CText<'_>, flags: u64) -> Result<i32> {
    call(nr::OPENAT, [directory as usize, path.pointer(), (flags | CLOEXEC) as usize, 0, 0, 0]).map(fd)
}

/// Makes an empty file.
pub(crate) fn make_file(directory: i32, path: CText<'_>, mode: u64) -> Result<usize> {
    const REGULAR: u64 = 0o100_000;
    call(nr::MKNODAT, [directory as usize, path.pointer(), (REGULAR | mode) as usize, 0, 0, 0])
}

/// Opens a link itself.
pub(crate) const NO_FOLLOW: u64 = 0o400_000;
const EMPTY_PATH: usize = 0x1000;

/// Opens a path for reference only, where no component of it may be a symbolic link.
pub(crate) fn open_exact(directory: i32, path: CText<'_>, flags: u64) -> Result<i32> {
    const PATH: u64 = 0o10_000_000;
    const NO_SYMLINKS_OR_MAGIC: u64 = 0x04 | 0x02;
    let how = [PATH | CLOEXEC | flags, 0, NO_SYMLINKS_OR_MAGIC];
    match call(nr::OPENAT2, [directory as usize, path.pointer(), how.as_ptr() as usize, size_of_val(&how), 0, 0]) {
        // An outer sandbox may hide this call, since its filter can't see the flags.
        Err(ENOSYS) => open_by_steps(directory, path, PATH | flags),
        other => other.map(fd),
    }
}

/// The same without the newer call: one directory at a time, none of which may be a link. A link in
/// the last place is never followed: it is opened itself, for whoever says so, or else refused.
fn open_by_steps(directory: i32, path: CText<'_>, flags: u64) -> Result<i32> {
    const DIRECTORY: u64 = 0o200_000;
    let absolute = path.0.first() == Some(&b'/');
    let mut at = open(directory, if absolute { ROOT } else { DOT }, flags | DIRECTORY)?;
    let text = path.0.strip_suffix(b"\0").unwrap_or_default();
    let mut names = text.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).peekable();
    while let Some(name) = names.next() {
        let kind = if names.peek().is_some() { DIRECTORY } else { 0 };
        let mut copy = [0; 256];
        let copied = copy.get_mut(..=name.len()).ok_or(EINVAL)?;
        copied.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
        let next = open(at, CText::new(copied)?, flags | NO_FOLLOW | kind);
        close(at);
        at = next?;
    }
    if flags & NO_FOLLOW == 0 && is_link(at)? {
        close(at);
        return Err(ELOOP);
    }
    Ok(at)
}

/// Whether a descriptor stands for an ordinary file.
pub(crate) fn is_file(file: i32) -> Result<bool> {
    const FILE: u32 = 0o100_000;
    kind(file).map(|kind| kind == FILE)
}

/// Whether a descriptor was opened for writing.
pub(crate) fn can_be_written(file: i32) -> Result<bool> {
    const GET_FLAGS: usize = 3;
    const WRITE: usize = 0o1 | 0o2;
    call(nr::FCNTL, [file as usize, GET_FLAGS, 0, 0, 0, 0]).map(|flags| flags & WRITE != 0)
}

fn is_link(file: i32) -> Result<bool> {
    const LINK: u32 = 0o120_000;
    kind(file).map(|kind| kind == LINK)
}

fn kind(file: i32) -> Result<u32> {
    const KIND: u32 = 0o170_000;
    look(file, EMPTY, EMPTY_PATH).map(|found| found.mode & KIND)
}

/// What is known of a file.
#[derive(PartialEq, Eq)]
struct Found {
    device: u64,
    number: u64,
    mode: u32,
}

fn look(directory: i32, path: CText<'_>, flags: usize) -> Result<Found> {
    // `struct stat` of x86-64: the device, the file's number, how many links, and in half a word the mode.
    let mut found = [0_u64; 18];
    call(nr::NEWFSTATAT, [directory as usize, path.pointer(), found.as_mut_ptr() as usize, flags, 0, 0])?;
    Ok(Found { device: found[0], number: found[1], mode: found[3] as u32 })
}

/// Whether something is mounted on what a descriptor stands for.
pub(crate) fn is_mount_point(file: i32) -> Result<bool> {
    const MOUNT_ROOT: u64 = 0x2000;
    // `struct statx`: its second word holds the attributes.
    let mut found = [0_u64; 32];
    call(nr::STATX, [file as usize, EMPTY.pointer(), EMPTY_PATH, 0, found.as_mut_ptr() as usize, 0])?;
    Ok(found[1] & MOUNT_ROOT != 0)
}

/// Sets which permissions new files are denied, and gives what it was before.
pub(crate) fn umask(mask: usize) -> usize {
    // It can't fail.
    call(nr::UMASK, [mask, 0, 0, 0, 0, 0]).unwrap_or(0o077)
}

pub(crate) fn mkdir(directory: i32, path: CText<'_>, mode: u64) -> Result<usize> {
    call(nr::MKDIRAT, [directory as usize, path.pointer(), mode as usize, 0, 0, 0])
}

pub(crate) fn symlink(target: CText<'_>, directory: i32, path: CText<'_>) -> Result<usize> {
    call(nr::SYMLINKAT, [target.pointer(), directory as usize, path.pointer(), 0, 0, 0])
}

pub(crate) fn remove_directory(directory: i32, path: CText<'_>) -> Result<usize> {
    const REMOVE_DIRECTORY: usize = 0x200;
    call(nr::UNLINKAT, [directory as usize, path.pointer(), REMOVE_DIRECTORY, 0, 0, 0])
}

/// Opens a directory for reading, if it is one and no link.
pub(crate) fn open_directory(directory: i32, path: CText<'_>) -> Result<i32> {
    const DIRECTORY_NO_FOLLOW: u64 = 0o200_000 | 0o400_000;
    open(directory, path, DIRECTORY_NO_FOLLOW)
}

/// Whether a directory is what stands under a name, and has this mode.
pub(crate) fn is_at(file: i32, directory: i32, path: CText<'_>, mode: u32) -> bool {
    const NOT_FOLLOWED: usize = 0x100;
    match (look(file, EMPTY, EMPTY_PATH), look(directory, path, NOT_FOLLOWED)) {
        (Ok(own), Ok(there)) => own.mode & 0o7777 == mode && own == there,
        _ => false,
    }
}

/// This process, as a descriptor that a child can ask about it; negative if there is none.
pub(crate) fn own_process() -> i32 {
    call(nr::PIDFD_OPEN, [own_pid() as usize, 0, 0, 0, 0, 0]).map_or(-1, fd)
}

/// Whether a process has ended.
pub(crate) fn has_ended(process: i32) -> bool {
    let mut poll = Poll { file: process, events: READABLE, happened: 0 };
    let now = [0_u64; 2];
    call(nr::PPOLL, [&raw mut poll as usize, 1, now.as_ptr() as usize, 0, 0, 0]) != Ok(0)
}

/// Takes the lock only if nobody else has one.
pub(crate) fn lock_exclusively(file: i32) -> Result<usize> {
    const EXCLUSIVE_NOW: usize = 2 | 4;
    call(nr::FLOCK, [file as usize, EXCLUSIVE_NOW, 0, 0, 0, 0])
}

pub(crate) fn change_directory(path: CText<'_>) -> Result<usize> {
    call(nr::CHDIR, [path.pointer(), 0, 0, 0, 0, 0])
}

pub(crate) fn change_directory_to(file: i32) -> Result<usize> {
    call(nr::FCHDIR, [file as usize, 0, 0, 0, 0, 0])
}

pub(crate) fn open_tree(directory: i32, path: CText<'_>, flags: u64) -> Result<i32> {
    call(nr::OPEN_TREE, [directory as usize, path.pointer(), (flags | CLOEXEC) as usize, 0, 0, 0]).map(fd)
}

/// Attaches the tree that `from` stands for at a path, whose last component is not followed; with an empty
/// path on what the directory stands for.
pub(crate) fn move_mount(from: i32, directory: i32, path: CText<'_>) -> Result<usize> {
    const BOTH_MAY_BE_EMPTY: usize = 0x4 | 0x40;
    call(nr::MOVE_MOUNT, [from as usize, EMPTY.pointer(), directory as usize, path.pointer(), BOTH_MAY_BE_EMPTY, 0])
}

pub(crate) fn mount_setattr(file: i32, set: u64, clear: u64, propagation: u64) -> Result<usize> {
    const EMPTY_PATH_RECURSIVE: usize = 0x1000 | 0x8000;
    let attributes = [set, clear, propagation, 0];
    call(
        nr::MOUNT_SETATTR,
        [file as usize, EMPTY.pointer(), EMPTY_PATH_RECURSIVE, attributes.as_ptr() as usize, size_of_val(&attributes), 0],
    )
}

/// Makes a file system of its own, attached nowhere yet.
pub(crate) fn new_file_system(kind: CText<'_>, options: &[(CText<'_>, CText<'_>)], attributes: u64) -> Result<i32> {
    const SET_STRING: usize = 1;
    const CREATE: usize = 6;
    let context = call(nr::FSOPEN, [kind.pointer(), 1, 0, 0, 0, 0]).map(fd)?;
    for (key, value) in options {
        call(nr::FSCONFIG, [context as usize, SET_STRING, key.pointer(), value.pointer(), 0, 0])?;
    }
    call(nr::FSCONFIG, [context as usize, CREATE, 0, 0, 0, 0])?;
    let mount = call(nr::FSMOUNT, [context as usize, 1, attributes as usize, 0, 0, 0]).map(fd)?;
    close(context);
    Ok(mount)
}

pub(crate) fn detach_mount(path: CText<'_>) -> Result<usize> {
    const DETACH: usize = 2;
    call(nr::UMOUNT2, [path.pointer(), DETACH, 0, 0, 0, 0])
}

/// Makes the working directory the root and lets the old root go.
pub(crate) fn enter_root() -> Result<usize> {
    call(nr::PIVOT_ROOT, [DOT.pointer(), DOT.pointer(), 0, 0, 0, 0])?;
    detach_mount(DOT)
}

pub(crate) fn unshare(flags: u64) -> Result<usize> {
    call(nr::UNSHARE, [flags as usize, 0, 0, 0, 0, 0])
}

pub(crate) fn set_host_name(name: &[u8]) -> Result<usize> {
    call(nr::SETHOSTNAME, [name.as_ptr() as usize, name.len(), 0, 0, 0, 0])
}

/// A datagram socket at 127.0.0.1:53.
pub(crate) fn bind_resolver() -> Result<i32> {
    const INET_DATAGRAM: [usize; 6] = [2, 2 | 0o2_000_000, 0, 0, 0, 0];
    const ADDRESS_LEVEL: usize = 0;
    const FREE_BIND: usize = 15;
    // `struct sockaddr_in`: the family, and the port and the address in the network's order.
    const ADDRESS: [u8; 16] = [2, 0, 0, 53, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let socket = call(nr::SOCKET, INET_DATAGRAM)?;
    let on = 1_i32;
    // Where somebody else makes the network, its loopback may not be up yet.
    let free = call(nr::SETSOCKOPT, [socket, ADDRESS_LEVEL, FREE_BIND, &raw const on as usize, size_of_val(&on), 0]);
    let bound = free.and_then(|_| call(nr::BIND, [socket, ADDRESS.as_ptr() as usize, ADDRESS.len(), 0, 0, 0]));
    match bound {
        Ok(_) => Ok(fd(socket)),
        Err(errno) => {
            close(fd(socket));
            Err(errno)
        }
    }
}

/// A socket that takes requests to change this network.
pub(crate) fn network_control() -> Result<i32> {
    const ROUTE_REQUESTS: [usize; 6] = [16, 3 | 0o2_000_000, 0, 0, 0, 0];
    call(nr::SOCKET, ROUTE_REQUESTS).map(fd)
}

/// Makes requests, which come one behind the other, and fails with the first that the kernel refuses.
pub(crate) fn change_network(control: i32, requests: &[u8], count: usize) -> Result<()> {
    const ANSWER: u8 = 2;
    const HEADER: usize = 16;
    write(control, requests)?;
    let mut done = Ok(());
    for _ in 0..count {
        // `struct nlmsghdr`, whose fifth byte is the kind, then the error number below zero, then the request.
        let mut answer = [0; 1024];
        let length = read(control, &mut answer)?;
        let error = answer.get(HEADER..HEADER + 4).and_then(|error| error.try_into().ok()).map(i32::from_ne_bytes);
        let answered = match (answer[4], error) {
            (ANSWER, Some(0)) if length >= HEADER + 4 => Ok(()),
            (ANSWER, Some(error @ ..0)) => Err(Errno(-error)),
            _ => Err(EPROTO),
        };
        done = done.and(answered);
    }
    done
}

/// Waits until the loopback is up, which whoever has made the network sees to.
pub(crate) fn wait_for_loopback(socket: i32) -> Result<()> {
    const GET_FLAGS: usize = 0x8913;
    const UP: u8 = 1;
    const NETWORK_IS_DOWN: Errno = Errno(100);
    // Every tenth of a millisecond for five seconds.
    const TRIES: usize = 50_000;
    const A_MOMENT: [u64; 2] = [0, 100_000];
    for _ in 0..TRIES {
        let mut request = loopback_request(0);
        call(nr::IOCTL, [socket as usize, GET_FLAGS, request.as_mut_ptr() as usize, 0, 0, 0])?;
        if request[16] & UP != 0 {
            return Ok(());
        }
        // Nothing to wait for but the time.
        call(nr::PPOLL, [0, 0, A_MOMENT.as_ptr() as usize, 0, 0, 0])?;
    }
    Err(NETWORK_IS_DOWN)
}

/// `struct ifreq` for the loopback: a name of 16 bytes, then a union whose first two bytes are the flags.
fn loopback_request(flags: u8) -> [u8; 40] {
    let mut request = [0; 40];
    (request[0], request[1], request[16]) = (b'l', b'o', flags);
    request
}

/// A socket that sees what a filter takes of the packets on the loopback, and puts packets there.
pub(crate) fn see_datagrams(filter: &[u8]) -> Result<i32> {
    // No kind of packet yet: nothing is seen before the filter is there.
    const PACKETS: [usize; 6] = [17, 3 | 0o2_000_000, 0, 0, 0, 0];
    const SOCKET_LEVEL: usize = 1;
    const ATTACH_FILTER: usize = 26;
    const PACKET_LEVEL: usize = 263;
    const OFFLOAD_HEADER: usize = 15;
    // `struct sockaddr_ll`: the family, every kind of packet in the network's order, the interface's number.
    const ADDRESS: [u8; 20] = [17, 0, 0, 3, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let program = Program::new(filter)?;
    let socket = call(nr::SOCKET, PACKETS)?;
    let on = 1_i32;
    let set = |level, name, value: usize, length| call(nr::SETSOCKOPT, [socket, level, name, value, length, 0]);
    let bound = set(SOCKET_LEVEL, ATTACH_FILTER, &raw const program as usize, size_of_val(&program))
        .and_then(|_| set(PACKET_LEVEL, OFFLOAD_HEADER, &raw const on as usize, size_of_val(&on)))
        .and_then(|_| call(nr::BIND, [socket, ADDRESS.as_ptr() as usize, ADDRESS.len(), 0, 0, 0]));
    match bound {
        Ok(_) => Ok(fd(socket)),
        Err(errno) => {
            close(fd(socket));
            Err(errno)
        }
    }
}

/// Brings the loopback interface of this network namespace up, and gives a descriptor of the namespace.
pub(crate) fn loopback_up() -> Result<i32> {
    const OWN_NAMESPACE: usize = 0x894c;
    const INET_DATAGRAM: [usize; 6] = [2, 2 | 0o2_000_000, 0, 0, 0, 0];
    const SET_FLAGS: usize = 0x8914;
    const UP: u8 = 1;
    let socket = call(nr::SOCKET, INET_DATAGRAM)?;
    let mut request = loopback_request(UP);
    let up = call(nr::IOCTL, [socket, SET_FLAGS, request.as_mut_ptr() as usize, 0, 0, 0]);
    let namespace = up.and_then(|_| call(nr::IOCTL, [socket, OWN_NAMESPACE, 0, 0, 0, 0]));
    close(fd(socket));
    namespace.map(fd)
}

/// The users' namespace that another namespace belongs to.
pub(crate) fn owner_of_namespace(namespace: i32) -> Result<i32> {
    const OWNER: usize = 0xb701;
    call(nr::IOCTL, [namespace as usize, OWNER, 0, 0, 0, 0]).map(fd)
}

pub(crate) fn join_namespace(namespace: i32, kind: u64) -> Result<usize> {
    call(nr::SETNS, [namespace as usize, kind as usize, 0, 0, 0, 0])
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

/// The process that started this one, or whoever took its place; 0 if that one can't be seen.
pub(crate) fn parent_pid() -> i32 {
    call(nr::GETPPID, [0; 6]).map_or(0, fd)
}

/// Starts a process that shares this one's memory, and nothing else unless the flags say so, on a
/// stack of its own. Copying the memory would cost more than most of what such a process does.
#[cfg(target_arch = "x86_64")]
fn start_beside<T>(flags: u64, entry: extern "C" fn(&T) -> !, argument: &T) -> Result<i32> {
    const SHARE_MEMORY: u64 = 0x100;
    const STACK: usize = 64 * 1024;
    let stack = allocate(STACK)?;
    let result: isize;
    // SAFETY: the new process runs on fresh memory that nobody else has, calls a function that never
    // returns, and so never sees this frame. What it is given is only read, and lives
    // until it has ended or called `exec`: the first caller below waits for that, the second gives
    // something that lives for ever. The clobbers are those
    // of `syscall`; the other registers are as they were in the child, too.
    unsafe {
        asm!("syscall", "test rax, rax", "jnz 2f", "xor ebp, ebp", "mov rdi, r12", "call r13", "ud2", "2:",
            inlateout("rax") nr::CLONE => result,
            in("rdi") flags | SHARE_MEMORY | SIGCHLD as u64, in("rsi") stack.as_mut_ptr_range().end,
            in("rdx") 0, in("r10") 0, in("r8") 0,
            in("r12") core::ptr::from_ref(argument), in("r13") entry as usize,
            lateout("rcx") _, lateout("r11") _);
    }
    if result < 0 { Err(Errno(-result as i32)) } else { Ok(result as i32) }
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

/// A counter that can be waited for.
pub(crate) fn new_counter() -> Result<i32> {
    call(nr::EVENTFD2, [0, CLOEXEC as usize, 0, 0, 0, 0]).map(fd)
}

/// Reaps one child, any of them. `Ok(0, _)` if none has ended and `wait` is false.
pub(crate) fn reap(wait: bool) -> Result<(i32, i32)> {
    const NO_HANG: usize = 1;
    let mut status = 0_i32;
    let options = if wait { 0 } else { NO_HANG };
    let pid = call(nr::WAIT4, [usize::MAX, &raw mut status as usize, options, 0, 0, 0])?;
    Ok((fd(pid), status))
}

pub(crate) fn kill(pid: i32, signal: i32) -> Result<usize> {
    call(nr::KILL, [pid as usize, signal as usize, 0, 0, 0, 0])
}

pub(crate) fn signal_process(process: i32, signal: i32) -> Result<usize> {
    call(nr::PIDFD_SEND_SIGNAL, [process as usize, signal as usize, 0, 0, 0, 0])
}

/// Blocks every signal, or none.
pub(crate) fn block_signals(all: bool) -> Result<usize> {
    const SET: usize = 2;
    let mask: u64 = if all { u64::MAX } else { 0 };
    call(nr::RT_SIGPROCMASK, [SET, &raw const mask as usize, 0, size_of_val(&mask), 0, 0])
}

/// Waits for any signal and takes it.
pub(crate) fn next_signal() -> Result<i32> {
    let mask = u64::MAX;
    call(nr::RT_SIGTIMEDWAIT, [&raw const mask as usize, 0, 0, size_of_val(&mask), 0, 0]).map(fd)
}

#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Poll {
    pub(crate) file: i32,
    pub(crate) events: i16,
    pub(crate) happened: i16,
}

pub(crate) const READABLE: i16 = 1;
/// Nothing more is going to be said on a socket.
pub(crate) const FINISHED: i16 = 0x2000;

/// Waits until something has happened to one of the files, or for so many milliseconds.
pub(crate) fn poll(files: &mut [Poll], limit: Option<u64>) -> Result<usize> {
    let limit = limit.map(|milliseconds| [milliseconds / 1_000, milliseconds % 1_000 * 1_000_000]);
    let limit = limit.as_ref().map_or(0, |limit| limit.as_ptr() as usize);
    call(nr::PPOLL, [files.as_mut_ptr() as usize, files.len(), limit, 0, 0, 0])
}

/// The same, for at most this many seconds.
pub(crate) fn poll_for(files: &mut [Poll], seconds: u64) -> Result<usize> {
    let time = [seconds, 0];
    call(nr::PPOLL, [files.as_mut_ptr() as usize, files.len(), time.as_ptr() as usize, 0, 0, 0])
}

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

pub(crate) fn new_session() -> Result<usize> {
    call(nr::SETSID, [0; 6])
}

/// Makes standard input the controlling terminal of this session.
pub(crate) fn take_terminal() -> Result<usize> {
    const SET_CONTROLLING_TERMINAL: usize = 0x540e;
    call(nr::IOCTL, [0, SET_CONTROLLING_TERMINAL, 0, 0, 0, 0])
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
struct Program {
    length: u16,
    instructions: *const u8,
}

impl Program {
    /// The instructions have to live until the kernel has taken them.
    fn new(instructions: &[u8]) -> Result<Self> {
        let length = u16::try_from(instructions.len() / 8).map_err(|_| EINVAL)?;
        Ok(Self { length, instructions: instructions.as_ptr() })
    }
}

fn seccomp_with(instructions: &[u8], flags: usize) -> Result<usize> {
    const SET_MODE_FILTER: usize = 1;
    let program = Program::new(instructions)?;
    call(nr::SECCOMP, [SET_MODE_FILTER, flags, &raw const program as usize, 0, 0, 0])
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

/// Receives bytes and the descriptors that come with them.
pub(crate) fn receive(socket: i32, bytes: &mut [u8], files: &mut [i32]) -> Result<(usize, usize)> {
    #[repr(C, align(8))]
    struct Control([u8; 1040]);
    const CLOSE_ON_EXEC: usize = 0x4000_0000;
    const HEADER: usize = 16;
    let mut control = Control([0; 1040]);
    let mut vector = [bytes.as_mut_ptr() as usize, bytes.len()];
    // `struct msghdr` on a 64-bit machine.
    let mut header = [0, 0, vector.as_mut_ptr() as usize, 1, control.0.as_mut_ptr() as usize, control.0.len(), 0];
    let length = call(nr::RECVMSG, [socket as usize, header.as_mut_ptr() as usize, CLOSE_ON_EXEC, 0, 0, 0])?;
    let received = header[5].min(control.0.len());
    if received < HEADER {
        return Ok((length, 0));
    }
    // `struct cmsghdr`: its length with header, then level and type; nothing else is ever sent here.
    let word = |at: usize| control.0.get(at..at + 4).and_then(|word| word.try_into().ok()).map(i32::from_ne_bytes);
    let count = (word(0).unwrap_or(0) as usize).saturating_sub(HEADER) / 4;
    for (index, file) in files.iter_mut().enumerate().take(count) {
        *file = word(HEADER + 4 * index).ok_or(EPROTO)?;
    }
    if count > files.len() { Err(EPROTO) } else { Ok((length, count)) }
}

/// Two sockets that are connected to each other.
pub(crate) fn socket_pair() -> Result<[i32; 2]> {
    const UNIX: usize = 1;
    const STREAM: usize = 1 | CLOEXEC as usize;
    let mut pair = [-1; 2];
    call(nr::SOCKETPAIR, [UNIX, STREAM, 0, pair.as_mut_ptr() as usize, 0, 0]).map(|_| pair)
}

/// Sends bytes with a descriptor.
pub(crate) fn send_with(socket: i32, bytes: &[u8], file: i32) -> Result<usize> {
    const LENGTH: u64 = 20;
    // Of the level and type for descriptors, which are both 1.
    const RIGHTS: u64 = 1 | 1 << 32;
    const NO_SIGNAL: usize = 0x4000;
    // `struct cmsghdr`, then the descriptor.
    let control = [LENGTH, RIGHTS, u64::from(file as u32)];
    let vector = [bytes.as_ptr() as usize, bytes.len()];
    // `struct msghdr` on a 64-bit machine.
    let header = [0, 0, vector.as_ptr() as usize, 1, control.as_ptr() as usize, size_of_val(&control), 0];
    call(nr::SENDMSG, [socket as usize, header.as_ptr() as usize, NO_SIGNAL, 0, 0, 0])
}
