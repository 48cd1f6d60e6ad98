//! The process of a waiting system call.
//!
//! Everything is read once and then held: its memory is copied, and its descriptors are duplicated (`pidfd_getfd`
//! gives the same open file). Later changes by the command don't affect the decision.

use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use stockade_protocol::RawText;

use crate::sys::notify::{self, CloseOnExec};

/// A thread that waits in a system call.
#[derive(Debug)]
pub(crate) struct Caller {
    thread: i32,
    process: OwnedFd,
}

/// A registration in an epoll instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    pub(crate) epoll: i32,
    pub(crate) events: u32,
    pub(crate) data: u64,
}

/// A descriptor of the socket in the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) number: i32,
    pub(crate) close_on_exec: CloseOnExec,
    pub(crate) registrations: Vec<Registration>,
}

impl Caller {
    pub(crate) fn new(thread: i32) -> io::Result<Self> {
        Ok(Self { thread, process: open_process(thread)? })
    }

    pub(crate) fn thread(&self) -> i32 {
        self.thread
    }

    /// The open file of this descriptor.
    pub(crate) fn file(&self, number: i32) -> io::Result<OwnedFd> {
        Ok(pidfd_getfd(&self.process, number, PidfdGetfdFlags::empty())?)
    }

    /// Exactly this much of its memory.
    pub(crate) fn memory(&self, address: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let read = notify::read_memory(self.thread, address, &mut bytes)?;
        if read == length { Ok(bytes) } else { Err(io::Error::from_raw_os_error(libc::EFAULT)) }
    }

    /// The program that it runs.
    pub(crate) fn program(&self) -> Option<RawText> {
        program(self.thread)
    }

    /// Its working directory.
    pub(crate) fn directory(&self) -> io::Result<PathBuf> {
        fs::read_link(format!("/proc/{}/cwd", self.thread))
    }

    /// All descriptors of this socket, with the epoll instances that watch them.
    pub(crate) fn places(&self, socket: BorrowedFd<'_>, number: i32) -> Vec<Place> {
        let (mut numbers, mut epolls) = (vec![number], Vec::new());
        let inode = rustix::fs::fstat(socket).map_or(0, |found| found.st_ino);
        let wanted = format!("socket:[{inode}]");
        // For a process that can't be inspected, only the named descriptor is known.
        let listed = fs::read_dir(format!("/proc/{}/fd", self.thread)).into_iter().flatten().flatten();
        for entry in listed {
            let (name, link) = (entry.file_name(), fs::read_link(entry.path()).unwrap_or_default());
            let Some(listed) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
            if link.as_os_str().as_bytes() == b"anon_inode:[eventpoll]" {
                epolls.push(listed);
            } else if listed != number && link.as_os_str().as_bytes() == wanted.as_bytes() {
                numbers.push(listed);
            }
        }
        let watched: Vec<(i32, Registration)> = epolls.into_iter().flat_map(|epoll| self.watched_by(epoll)).collect();
        let place = |number: i32| Place {
            number,
            close_on_exec: self.close_on_exec(number),
            registrations: watched
                .iter()
                .filter(|(at, _)| *at == number)
                .map(|(_, registration)| *registration)
                .collect(),
        };
        numbers.into_iter().map(place).collect()
    }

    fn details(&self, number: i32) -> String {
        fs::read_to_string(format!("/proc/{}/fdinfo/{number}", self.thread)).unwrap_or_default()
    }

    fn close_on_exec(&self, number: i32) -> CloseOnExec {
        let flags = self.details(number);
        let flags = flags.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| i32::from_str_radix(flags.trim(), 8).ok()).unwrap_or(0);
        if flags & libc::O_CLOEXEC == 0 { CloseOnExec::No } else { CloseOnExec::Yes }
    }

    fn watched_by(&self, epoll: i32) -> Vec<(i32, Registration)> {
        read_registrations(&self.details(epoll), epoll)
    }
}

/// `tfd:        5 events:       19 data:                5  pos:0 ino:… sdev:…`
fn read_registrations(text: &str, epoll: i32) -> Vec<(i32, Registration)> {
    let line = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let mut after = |name: &str| {
            words.by_ref().find(|word| *word == name)?;
            words.next()
        };
        let number = after("tfd:")?.parse().ok()?;
        let events = u32::from_str_radix(after("events:")?, 16).ok()?;
        let data = u64::from_str_radix(after("data:")?, 16).ok()?;
        Some((number, Registration { epoll, events, data }))
    };
    text.lines().filter_map(line).collect()
}

fn program(thread: i32) -> Option<RawText> {
    let link = fs::read_link(format!("/proc/{thread}/exe")).ok()?;
    Some(RawText::from(link.as_os_str().as_bytes().to_vec()))
}

/// The process of a thread, and its program.
pub(crate) fn program_of(thread: i32) -> (Option<u32>, Option<RawText>) {
    (group_of(thread).and_then(|group| u32::try_from(group).ok()), program(thread))
}

/// The process of a thread.
pub(crate) fn group_of(thread: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:")).and_then(|group| group.trim().parse().ok())
}

/// Opens a pidfd of the thread itself, if the kernel can (since Linux 6.9); else of its process.
pub(crate) fn open_process(thread: i32) -> io::Result<OwnedFd> {
    const THREAD: PidfdFlags = PidfdFlags::from_bits_retain(0o200);
    let pid = |number| Pid::from_raw(number).ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH));
    match pidfd_open(pid(thread)?, THREAD) {
        Ok(process) => Ok(process),
        Err(_) => Ok(pidfd_open(pid(group_of(thread).unwrap_or(thread))?, PidfdFlags::empty())?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epoll_tells_what_it_watches() {
        let text = "pos:\t0\nflags:\t02000002\nmnt_id:\t15\nino:\t2058\n\
            tfd:        5 events:       19 data:                5  pos:0 ino:61 sdev:5\n\
            tfd:       12 events: 8000201d data:     7ffc0badcafe  pos:0 ino:62 sdev:8\n";
        let wanted = [
            (5, Registration { epoll: 3, events: 0x19, data: 5 }),
            (12, Registration { epoll: 3, events: 0x8000_201d, data: 0x7ffc_0bad_cafe }),
        ];
        assert_eq!(read_registrations(text, 3), wanted);
    }
}
