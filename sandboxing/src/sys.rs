//! The calls that need `unsafe`: hooks that run in a child between `fork` and `exec`.
#![expect(
    unsafe_code,
    reason = "`pre_exec` runs in a process that may do little; these and signals without a name are the only uses"
)]

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{Pid, Resource};
use stockade_protocol::RlimitResource;

use crate::{ProcessSettings, Stdio};

/// Gives the command its own process group, or its own session if it gets a terminal. A command that shares this
/// program's terminal stays in its group, or the terminal would stop it.
pub(crate) fn place(command: &mut Command, stdio: &Stdio, process: ProcessSettings) {
    #[cfg(target_os = "linux")]
    // SAFETY: the closure makes one system call.
    unsafe {
        command.pre_exec(keep_descriptors)
    };
    if process != ProcessSettings::default() {
        // SAFETY: the closure makes a few system calls and touches no memory that another thread of the
        // parent could have left half changed.
        unsafe { command.pre_exec(move || process.apply()) };
    }
    if stdio.controlling_terminal {
        // SAFETY: the closure makes a few system calls and touches no memory that another thread of the
        // parent could have left half changed.
        unsafe { command.pre_exec(own_terminal) };
    } else if !shares_terminal(stdio) {
        command.process_group(0);
    }
}

/// Marks what this process has open beyond the standard streams as closed by the command's `exec`. The Rust runtime
/// marks what it opens; what this process was started with is not marked.
#[cfg(target_os = "linux")]
fn keep_descriptors() -> io::Result<()> {
    // `CLOSE_RANGE_CLOEXEC`
    const CLOSE_ON_EXEC: libc::c_int = 4;
    // SAFETY: the call touches no memory, and closes nothing in this process.
    let done = unsafe { libc::close_range(3, libc::c_uint::MAX, CLOSE_ON_EXEC) };
    match io::Error::last_os_error() {
        _ if done == 0 => Ok(()),
        // Kernels before 5.11 can't mark them all at once.
        error if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL)) => Ok(()),
        error => Err(error),
    }
}

/// Sends a signal, a realtime one among them, to a process or to the process group that it leads.
pub(crate) fn send(to: Pid, is_group: bool, signal: i32) -> io::Result<()> {
    let number = to.as_raw_nonzero().get();
    // SAFETY: the call touches no memory.
    let sent = unsafe { libc::kill(if is_group { -number } else { number }, signal) };
    if sent == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes this process, which is about to exec the command, ignore `SIGPIPE`.
pub(crate) fn ignore_broken_pipes() {
    // SAFETY: no handler is installed, and the call may be made between `fork` and `exec`.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// The system's constant for a resource.
pub(crate) fn resource(resource: RlimitResource) -> Resource {
    match resource {
        RlimitResource::As => Resource::As,
        RlimitResource::Core => Resource::Core,
        RlimitResource::Cpu => Resource::Cpu,
        RlimitResource::Data => Resource::Data,
        RlimitResource::Fsize => Resource::Fsize,
        RlimitResource::Memlock => Resource::Memlock,
        RlimitResource::Nofile => Resource::Nofile,
        RlimitResource::Nproc => Resource::Nproc,
        RlimitResource::Stack => Resource::Stack,
    }
}

fn own_terminal() -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())
        .or_else(|_| rustix::process::ioctl_tiocsctty(rustix::stdio::stdout()))
        .or_else(|_| rustix::process::ioctl_tiocsctty(rustix::stdio::stderr()))?;
    Ok(())
}

fn shares_terminal(stdio: &Stdio) -> bool {
    use std::io::IsTerminal as _;
    matches!(stdio.stdin, crate::Streams::Inherit) && io::stdin().is_terminal()
}
