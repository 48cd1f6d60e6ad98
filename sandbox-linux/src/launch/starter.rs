//! The program that starts the launcher, if it is not this one.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use stockade_sandboxing::SpawnError;

/// Bubblewrap's own process, and the one that it has forked, which is going to be the launcher.
///
/// The second waits for a message of the first. If the first is killed before, the second waits for ever, and so does
/// the reader of the launcher's reports.
#[derive(Debug)]
pub(crate) struct Starter {
    process: OwnedFd,
    inside: OwnedFd,
}

impl Starter {
    pub(crate) fn new(process: Pid, inside: Pid) -> io::Result<Self> {
        let open = |pid| pidfd_open(pid, PidfdFlags::empty());
        Ok(Self { process: open(process)?, inside: open(inside)? })
    }

    /// Waits for the launcher's first report. If its starter is gone before that, it is killed: its socket is then
    /// closed, and the reader notices.
    pub(crate) fn await_word(&self, launcher: BorrowedFd<'_>) -> Result<(), SpawnError> {
        loop {
            let mut files =
                [PollFd::from_borrowed_fd(launcher, PollFlags::IN), PollFd::new(&self.process, PollFlags::IN)];
            match rustix::event::poll(&mut files, None) {
                Err(Errno::INTR) => {}
                Err(errno) => return Err(SpawnError::Launcher { doing: "waiting for it", source: errno.into() }),
                Ok(_) => {
                    let [word, _] = files;
                    if word.revents().is_empty() {
                        self.end();
                    }
                    return Ok(());
                }
            }
        }
    }

    /// Kills the process that the dead starter has left behind.
    pub(crate) fn end(&self) {
        // It may have ended already.
        pidfd_send_signal(&self.inside, Signal::KILL).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::os::unix::net::UnixStream;
    use std::process::{Command, Stdio};

    use super::*;

    /// The starter forks off a process that holds the socket and waits, and is killed.
    #[test]
    #[expect(clippy::disallowed_methods, reason = "stands for bubblewrap")]
    fn what_a_killed_starter_leaves_behind_is_ended() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let mut starter = Command::new("/bin/sh")
            .args(["-c", "exec 3<&0; sleep 100 >/dev/null 2>&1 & echo $!; read never </dev/zero"])
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(starter.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let inside = Pid::from_raw(line.trim().parse().unwrap()).unwrap();
        let watched = Starter::new(Pid::from_child(&starter), inside).unwrap();
        starter.kill().unwrap();
        ours.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        watched.await_word(std::os::fd::AsFd::as_fd(&ours)).unwrap();
        assert_eq!(ours.read(&mut [0; 1]).unwrap(), 0, "nobody holds the socket any more");
        starter.wait().unwrap();
    }
}
