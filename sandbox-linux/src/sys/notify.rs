//! The supervisor's kernel interface: notifications of system calls, the memory and descriptors of the calling
//! process, and socket options.
//!
//! <https://man7.org/linux/man-pages/man2/seccomp_unotify.2.html>

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd};

use crate::plan::refusals::refusal;

/// A system call that waits for an answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Notification {
    pub(crate) id: u64,
    /// The thread that made it.
    pub(crate) thread: i32,
    pub(crate) call: i64,
    pub(crate) arguments: [u64; 6],
}

const RECEIVE: libc::Ioctl = 0xc050_2100_u32 as libc::Ioctl;
const SEND: libc::Ioctl = 0xc018_2101_u32 as libc::Ioctl;
const IS_VALID: libc::Ioctl = 0x4008_2102_u32 as libc::Ioctl;
const SET_FLAGS: libc::Ioctl = 0x4008_2104_u32 as libc::Ioctl;
const ADD_DESCRIPTOR: libc::Ioctl = 0x4018_2103_u32 as libc::Ioctl;

fn check(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Receives the next notification; blocks if there is none.
pub(crate) fn receive(listener: BorrowedFd<'_>) -> io::Result<Notification> {
    // SAFETY: all-zero bytes are what the kernel wants to fill in.
    let mut found: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is the one that this call fills, and lives through it.
    check(i64::from(unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE, &raw mut found) }))?;
    let thread = i32::try_from(found.pid).map_err(io::Error::other)?;
    Ok(Notification { id: found.id, thread, call: i64::from(found.data.nr), arguments: found.data.args })
}

/// Whether the call still waits: data read before then belongs to its process.
pub(crate) fn is_waiting(listener: BorrowedFd<'_>, id: u64) -> bool {
    // SAFETY: the call reads one number.
    unsafe { libc::ioctl(listener.as_raw_fd(), IS_VALID, &raw const id) == 0 }
}

/// Answers a call: it returns 0, or fails with this error number.
pub(crate) fn answer(listener: BorrowedFd<'_>, id: u64, errno: i32) -> io::Result<()> {
    let answer = libc::seccomp_notif_resp { id, val: 0, error: -errno, flags: 0 };
    // SAFETY: the structure is the one that this call reads, and lives through it.
    check(i64::from(unsafe { libc::ioctl(listener.as_raw_fd(), SEND, &raw const answer) })).map(drop)
}

/// Lets the kernel make the call, with the arguments that the caller has by then: only for what the kernel itself decides. A call
/// that has to be refused is refused here as well, whichever way it came.
pub(crate) fn go_on(listener: BorrowedFd<'_>, call: &Notification) -> io::Result<()> {
    const CONTINUE: u32 = 1;
    if let Some(refusal) = refusal(call.call, &call.arguments) {
        return answer(listener, call.id, refusal.errno);
    }
    let answer = libc::seccomp_notif_resp { id: call.id, val: 0, error: 0, flags: CONTINUE };
    // SAFETY: the structure is the one that this call reads, and lives through it.
    check(i64::from(unsafe { libc::ioctl(listener.as_raw_fd(), SEND, &raw const answer) })).map(drop)
}

/// Lets the kernel run the receiving thread on the caller's own processor, which waits for it anyway. Kernels before
/// 6.6 don't support this, and take a little longer.
pub(crate) fn wake_up_synchronously(listener: BorrowedFd<'_>) {
    const SYNC_WAKE_UP: u64 = 1;
    // SAFETY: the call takes a number.
    unsafe { libc::ioctl(listener.as_raw_fd(), SET_FLAGS, SYNC_WAKE_UP) };
}

/// Replaces a descriptor of the calling process.
pub(crate) fn put_descriptor(
    listener: BorrowedFd<'_>,
    id: u64,
    file: BorrowedFd<'_>,
    number: i32,
    close_on_exec: CloseOnExec,
) -> io::Result<()> {
    const AT_NUMBER: u32 = 1;
    let flags = match close_on_exec {
        CloseOnExec::Yes => libc::O_CLOEXEC,
        CloseOnExec::No => 0,
    };
    let request = libc::seccomp_notif_addfd {
        id,
        flags: AT_NUMBER,
        srcfd: u32::try_from(file.as_raw_fd()).map_err(io::Error::other)?,
        newfd: u32::try_from(number).map_err(io::Error::other)?,
        newfd_flags: u32::try_from(flags).map_err(io::Error::other)?,
    };
    // SAFETY: the structure is the one that this call reads, and lives through it.
    check(i64::from(unsafe { libc::ioctl(listener.as_raw_fd(), ADD_DESCRIPTOR, &raw const request) })).map(drop)
}

/// Adds a descriptor to the calling process, which closes it with the next program, and gives its number there. The call
/// goes on waiting.
pub(crate) fn add_descriptor(listener: BorrowedFd<'_>, id: u64, file: BorrowedFd<'_>) -> io::Result<i32> {
    let srcfd = u32::try_from(file.as_raw_fd()).map_err(io::Error::other)?;
    let newfd_flags = u32::try_from(libc::O_CLOEXEC).map_err(io::Error::other)?;
    let request = libc::seccomp_notif_addfd { id, flags: 0, srcfd, newfd: 0, newfd_flags };
    // SAFETY: the structure is the one that this call reads, and lives through it.
    let number = check(i64::from(unsafe { libc::ioctl(listener.as_raw_fd(), ADD_DESCRIPTOR, &raw const request) }))?;
    i32::try_from(number).map_err(io::Error::other)
}

const ADD_AND_ANSWER: u32 = 2;

/// Adds a descriptor to the calling process at its lowest free number, which the call returns.
pub(crate) fn answer_with_descriptor(
    listener: BorrowedFd<'_>,
    id: u64,
    file: BorrowedFd<'_>,
    close_on_exec: CloseOnExec,
) -> io::Result<()> {
    let newfd_flags = match close_on_exec {
        CloseOnExec::Yes => u32::try_from(libc::O_CLOEXEC).map_err(io::Error::other)?,
        CloseOnExec::No => 0,
    };
    let srcfd = u32::try_from(file.as_raw_fd()).map_err(io::Error::other)?;
    let request = libc::seccomp_notif_addfd { id, flags: ADD_AND_ANSWER, srcfd, newfd: 0, newfd_flags };
    // SAFETY: the structure is the one that this call reads, and lives through it.
    check(i64::from(unsafe { libc::ioctl(listener.as_raw_fd(), ADD_DESCRIPTOR, &raw const request) })).map(drop)
}

/// Whether the kernel supports [`answer_with_descriptor`] (Linux 5.14): it then reports that the call does not wait,
/// and not an unknown flag.
pub(crate) fn can_answer_with_descriptor(listener: BorrowedFd<'_>) -> bool {
    let answered = answer_with_descriptor(listener, u64::MAX, listener, CloseOnExec::Yes);
    answered.is_err_and(|error| error.raw_os_error() == Some(libc::ENOENT))
}

/// Gives the calling thread its own umask of 0: the modes it is given have been masked already.
pub(crate) fn own_file_mode_mask() -> io::Result<()> {
    // SAFETY: from here on this thread has its own mask and working directory; no memory is touched.
    check(i64::from(unsafe { libc::unshare(libc::CLONE_FS) }))?;
    rustix::process::umask(rustix::fs::Mode::empty());
    Ok(())
}

/// Whether a descriptor is closed when its process runs another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CloseOnExec {
    Yes,
    No,
}

/// The wait status of an ended process; `None` if it has not been reaped, or the kernel does not keep it.
pub(crate) fn exit_status(process: BorrowedFd<'_>) -> Option<i32> {
    // SAFETY: all-zero bytes are a valid value of a structure of numbers.
    let mut info: libc::pidfd_info = unsafe { std::mem::zeroed() };
    info.mask = u64::from(libc::PIDFD_INFO_EXIT);
    // SAFETY: the structure is the one that this call fills, and lives through it; its size is a part of the number.
    check(i64::from(unsafe { libc::ioctl(process.as_raw_fd(), libc::PIDFD_GET_INFO, &raw mut info) })).ok()?;
    (info.mask & u64::from(libc::PIDFD_INFO_EXIT) != 0).then_some(info.exit_code)
}

/// Reads memory of another process, as far as it is mapped.
pub(crate) fn read_memory(thread: i32, address: u64, buffer: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let address = usize::try_from(address).map_err(io::Error::other)?;
    let remote = libc::iovec { iov_base: std::ptr::with_exposed_provenance_mut(address), iov_len: buffer.len() };
    // SAFETY: the local part is the buffer; the remote part is of the other process, and checked by the kernel.
    let read = unsafe { libc::process_vm_readv(thread, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(check(read as i64)?).map_err(io::Error::other)
}

/// Reads a socket option of any size.
pub(crate) fn socket_option(socket: BorrowedFd<'_>, level: i32, name: i32, value: &mut [u8]) -> io::Result<usize> {
    let mut length = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: the kernel writes at most `length` bytes, which the buffer has.
    let done = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, value.as_mut_ptr().cast(), &raw mut length) };
    check(i64::from(done))?;
    usize::try_from(length).map_err(io::Error::other)
}

/// Sets an option of a socket.
pub(crate) fn set_socket_option(socket: BorrowedFd<'_>, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    let length = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: the kernel reads `length` bytes, which the buffer has.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), length) };
    check(i64::from(done)).map(drop)
}

/// Connects a socket to a `sockaddr`. Returns the error number; 0 for success.
pub(crate) fn connect(socket: BorrowedFd<'_>, address: &[u8]) -> i32 {
    let Ok(length) = libc::socklen_t::try_from(address.len()) else { return libc::EINVAL };
    // SAFETY: the kernel reads `length` bytes, which the buffer has, and checks what they say.
    let done = unsafe { libc::connect(socket.as_raw_fd(), address.as_ptr().cast(), length) };
    if done == 0 { 0 } else { io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) }
}

/// The file that a unix socket is bound to, independent of its path. Needs a privilege over the socket's network,
/// which the owner of its user namespace has. <https://git.kernel.org/torvalds/c/ba94f3088b79>
pub(crate) fn bound_file(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    const SIOCUNIXFILE: libc::Ioctl = 0x89e0;
    // SAFETY: the call takes no argument, and gives a descriptor.
    let number = check(i64::from(unsafe { libc::ioctl(socket.as_raw_fd(), SIOCUNIXFILE) }))?;
    let number = i32::try_from(number).map_err(io::Error::other)?;
    // SAFETY: the descriptor is new, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Gives the calling thread its own empty descriptor table.
pub(crate) fn own_table() -> io::Result<()> {
    // SAFETY: from here on this thread has its own table, and no other thread's descriptors are touched.
    check(i64::from(unsafe { libc::unshare(libc::CLONE_FILES) }))?;
    // SAFETY: what is closed are this thread's copies; values that own the originals are other threads'.
    check(i64::from(unsafe { libc::close_range(0, u32::MAX, 0) })).map(drop)
}

/// Puts a file at a number of the calling thread's own table, and closes it on drop.
pub(crate) struct AtNumber(i32);

impl AtNumber {
    pub(crate) fn new(file: BorrowedFd<'_>, number: i32) -> io::Result<Self> {
        // SAFETY: the table is the calling thread's own, and the caller keeps its other files elsewhere.
        check(i64::from(unsafe { libc::dup3(file.as_raw_fd(), number, libc::O_CLOEXEC) }))?;
        Ok(Self(number))
    }

    /// Adds it to an epoll instance under its number.
    pub(crate) fn watch(&self, epoll: BorrowedFd<'_>, events: u32, data: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events, u64: data };
        // SAFETY: the structure lives through the call.
        let done = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, self.0, &raw mut event) };
        check(i64::from(done)).map(drop)
    }

    /// Takes it out of an epoll instance.
    pub(crate) fn forget(&self, epoll: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: no structure is read for this.
        let done = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, self.0, std::ptr::null_mut()) };
        check(i64::from(done)).map(drop)
    }
}

impl Drop for AtNumber {
    fn drop(&mut self) {
        // SAFETY: the number was filled by `new`, in this thread's own table.
        unsafe { libc::close(self.0) };
    }
}
