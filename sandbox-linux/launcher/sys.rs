//! Every system call that the launcher makes, and all of its `unsafe` but for copying memory.
//!
//! There is no C library below this: numbers and layouts are the kernel's own
//! (<https://man7.org/linux/man-pages/man2/syscalls.2.html>). A call that fails gives the error
//! number, never a value that could be taken for success.

#![allow(unsafe_code, reason = "the one room for it")]

mod confine;
mod file;
mod message;
mod mount;
mod namespace;
mod network;
mod number;
mod poll;
mod process;
#[cfg_attr(target_arch = "x86_64", path = "sys/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "sys/aarch64.rs")]
mod processor;
mod signal;

pub(crate) use self::confine::{
    drop_capabilities, has_no_capabilities, landlock_path, landlock_restrict, landlock_ruleset, new_session_keyring,
    prctl, seccomp, seccomp_listener, set_callers_limit, set_limit,
};
pub(crate) use self::file::{
    FILE, NO_FOLLOW, SOCKET, can_be_written, change_directory, change_directory_to, change_mode, close, close_range,
    count_entries, dup, has_no_entries, is_at, is_no_directory, is_working_directory, kind, lock_exclusively,
    make_file, mkdir, move_directory, open, open_directory, open_exact, own_pid_namespace, read, remove_directory,
    symlink, umask, write,
};
pub(crate) use self::message::{receive, send_with, socket_pair};
pub(crate) use self::mount::{
    detach_mount, enter_root, is_mount_point, mount_setattr, move_mount, new_file_system, open_tree,
};
pub(crate) use self::namespace::{join_namespace, owner_of_namespace, set_host_name, unshare};
pub(crate) use self::network::{
    bind_resolver, change_network, loopback_up, network_control, see_datagrams, wait_for_loopback,
};
use self::number as nr;
pub(crate) use self::poll::{FINISHED, MOST_POLLED, Poll, READABLE, has_ended, new_counter, poll};
pub(crate) use self::process::{
    PointerList, exec, exit, fork, new_session, own_group, own_pid, own_process, own_user, parent_pid, reap,
    run_elsewhere, start_and_wait_for_exec, start_with_files, take_terminal, wait_for,
};
pub(crate) use self::processor::{copy_memory, fill_memory};
pub(crate) use self::signal::{
    SIGCHLD, SIGCONT, SIGKILL, SIGSTOP, SIGTSTP, block_signals, ignore_broken_pipes, kill, next_signal, signal_process,
};

/// An error number of the kernel.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) i32);

pub(crate) type Result<T> = core::result::Result<T, Errno>;

pub(crate) const EINTR: Errno = Errno(4);
pub(crate) const EPERM: Errno = Errno(1);
pub(crate) const ECHILD: Errno = Errno(10);
pub(crate) const EINVAL: Errno = Errno(22);
pub(crate) const EMFILE: Errno = Errno(24);
pub(crate) const ENOSYS: Errno = Errno(38);
const ELOOP: Errno = Errno(40);
pub(crate) const EPROTO: Errno = Errno(71);
pub(crate) const ENOENT: Errno = Errno(2);
pub(crate) const ESTALE: Errno = Errno(116);

pub(crate) const AT_FDCWD: i32 = -100;
pub(crate) const CLOEXEC: u64 = 0o2_000_000;

/// Makes a system call with up to six arguments.
fn call(number: usize, args: [usize; 6]) -> Result<usize> {
    result(processor::call(number, args))
}

/// The kernel's answer: a value, or an error number below zero.
fn result(answer: isize) -> Result<usize> {
    if (-4095..0).contains(&answer) { Err(Errno(-answer as i32)) } else { Ok(answer as usize) }
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

/// A number in text for the kernel, which takes one that begins with a zero for octal.
pub(crate) struct Decimal {
    text: [u8; 11],
    first: usize,
}

impl Decimal {
    pub(crate) fn new(number: u32) -> Self {
        let (mut text, mut first, mut left) = ([0; 11], 10, number);
        for digit in text.iter_mut().rev().skip(1) {
            *digit = b'0' + (left % 10) as u8;
            first -= 1;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        Self { text, first }
    }

    pub(crate) fn text(&self) -> Result<CText<'_>> {
        CText::new(self.text.get(self.first..).unwrap_or_default())
    }
}

pub(crate) const EMPTY: CText<'static> = CText(b"\0");
pub(crate) const DOT: CText<'static> = CText(b".\0");
pub(crate) const ROOT: CText<'static> = CText(b"/\0");

fn fd(number: usize) -> i32 {
    number as i32
}

/// Fresh zeroed memory that lives as long as the process.
pub(crate) fn allocate(length: usize) -> Result<&'static mut [u8]> {
    const READ_WRITE: usize = 3;
    const PRIVATE_ANONYMOUS: usize = 0x22;
    let address = call(nr::MMAP, [0, length.max(1), READ_WRITE, PRIVATE_ANONYMOUS, usize::MAX, 0])?;
    // SAFETY: the kernel has just mapped `length` zeroed bytes here for us alone; nothing unmaps them.
    Ok(unsafe { core::slice::from_raw_parts_mut(address as *mut u8, length) })
}
