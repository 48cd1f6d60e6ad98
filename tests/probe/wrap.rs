//! Starting a program with something that it should not pass on.
#![expect(clippy::undocumented_unsafe_blocks, reason = "plain calls with pointers to live values, or none")]

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::{answer, c_text};

#[expect(clippy::disallowed_methods, reason = "the suites' own program, which starts what they tell it to")]
fn become_program(command: &[&str]) {
    let Some((program, arguments)) = command.split_first() else { return };
    eprintln!("{}", std::process::Command::new(program).args(arguments).exec());
}

/// With a key in a session keyring of its own.
pub(crate) fn with_key(description: &str, command: &[&str]) {
    const JOIN: i64 = 1;
    const SESSION: i64 = -3;
    let joined = answer(unsafe { libc::syscall(libc::SYS_keyctl, JOIN, 0) });
    let added = c_text(description.as_bytes()).and_then(|description| {
        let secret = b"secret";
        answer(unsafe {
            libc::syscall(
                libc::SYS_add_key,
                c"user".as_ptr(),
                description.as_ptr(),
                secret.as_ptr(),
                secret.len(),
                SESSION,
            )
        })
    });
    match joined.and(added) {
        Ok(_) => become_program(command),
        Err(error) => eprintln!("could not add a key: {error}"),
    }
}

/// With a socket as standard input, through which a file comes that was opened for reading.
pub(crate) fn with_file(path: &str, command: &[&str]) {
    let passed = std::fs::File::open(path).and_then(|file| {
        let (ours, theirs) = UnixStream::pair()?;
        let (files, mut space) = ([file.as_fd()], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&files));
        sendmsg(&ours, &[IoSlice::new(b"x")], &mut ancillary, SendFlags::empty())?;
        answer(unsafe { libc::dup2(theirs.as_raw_fd(), 0) })
    });
    match passed {
        Ok(_) => become_program(command),
        Err(error) => eprintln!("could not pass `{path}`: {error}"),
    }
}

/// With standard input as the controlling terminal of a new session.
pub(crate) fn with_terminal(command: &[&str]) {
    unsafe { libc::setsid() };
    match answer(unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) }) {
        Ok(_) => become_program(command),
        Err(error) => eprintln!("could not take the terminal: {error}"),
    }
}

/// Below a process that adopts every orphan, and ends when all are gone.
#[expect(clippy::disallowed_methods, reason = "the suites' own program, which starts what they tell it to")]
pub(crate) fn adopting(command: &[&str]) {
    let Some((program, arguments)) = command.split_first() else { return };
    let adopts = answer(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) });
    let started = adopts.and_then(|_| std::process::Command::new(program).args(arguments).spawn());
    match started {
        Ok(_) => while unsafe { libc::waitpid(-1, std::ptr::null_mut(), 0) } > 0 {},
        Err(error) => eprintln!("could not start `{program}`: {error}"),
    }
}

/// Makes a segment of shared memory with a secret in it, or removes it.
pub(crate) fn shared_memory(key: &str, make: bool) {
    let key = key.parse().unwrap_or(0);
    let flags = if make { libc::IPC_CREAT | libc::IPC_EXCL | 0o600 } else { 0 };
    let segment = unsafe { libc::shmget(key, 4096, flags) };
    if make {
        let address = unsafe { libc::shmat(segment, std::ptr::null(), 0) };
        if segment >= 0 && address as isize != -1 {
            unsafe { std::ptr::copy_nonoverlapping(b"secret".as_ptr(), address.cast::<u8>(), 6) };
            println!("made");
        }
    } else {
        unsafe { libc::shmctl(segment, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}
