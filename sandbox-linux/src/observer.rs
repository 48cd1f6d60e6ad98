//! The observer: what a command tries against its policy is seen, and told as a fact.
//!
//! The filter notifies of calls that change the file system, and of connections where the network is off. A thread takes
//! them, finds out where they lead ([`resolve`]), and asks the policy and the host ([`judge`]). Then the kernel goes on
//! with the call, whatever was found: mounts, Landlock and the filter decide, and nothing is allowed because it was
//! looked at. So a caller that changes its arguments, or its files, while they are read deceives the report and
//! nothing else.
//!
//! - A call that waits is answered by this thread alone, and it does not end before the last process of the command
//!   has. Should it end all the same, every such call fails from then on.
//! - Connections that somebody decides on are none of these: they are handed to the supervisor, which never lets the
//!   kernel go on.
//! - One thread, the listener, three descriptors and those of some processes that were denied something ([`lineage`]) for each
//!   command, whatever it does; notes are bounded.
//!
//! <https://man7.org/linux/man-pages/man2/seccomp_unotify.2.html>

mod calls;
mod destination;
mod judge;
mod lineage;
mod look_up;
mod resolve;

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde::Serialize;
use stockade_protocol::{FileRules, NetworkPolicy, Permissions};
use stockade_sandboxing::{Coverage, DeniedAct, Observation, Observations};

use self::judge::Judge;
use self::lineage::Lineages;
use self::resolve::Tree;
use crate::bpf::{Action, Instruction};
use crate::seccomp;
use crate::supervisor::{Feed, program_of};
use crate::sys::notify::{self, Notification};

/// Whether denials are observed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Observe {
    /// What a command tries against its policy is seen and noted.
    #[default]
    Denials,
    /// Nothing is: denials are guessed from the command's output.
    Nothing,
}

/// What is watched of a command: plain data, a part of its plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Watch {
    connections: bool,
    #[serde(skip)]
    files: Arc<FileRules>,
}

impl Watch {
    /// For permissions as a backend completes them.
    pub(crate) fn of(permissions: &Permissions, observe: Observe) -> Option<Self> {
        let connections = permissions.network == NetworkPolicy::Off && permissions.unix_sockets.is_empty();
        let files = Arc::new(permissions.files.clone());
        (observe == Observe::Denials).then_some(Self { connections, files })
    }

    /// The filter's answers.
    pub(crate) fn answers(&self) -> BTreeMap<u32, Vec<Instruction>> {
        let mut answers = calls::answers();
        if self.connections {
            answers.insert(seccomp::number(libc::SYS_connect), vec![Instruction::answer(Action::Notify)]);
        }
        answers
    }

    /// Answers the calls of one command, until its last process has ended. Those that are the supervisor's are passed
    /// on to it.
    pub(crate) fn start(
        &self,
        listener: Arc<OwnedFd>,
        feed: Option<Feed>,
        denied_reads: bool,
    ) -> io::Result<Arc<Observations>> {
        let coverage = Coverage { writes: true, denied_reads, connections: self.connections };
        let lineages = Arc::new(Lineages::default());
        let held = Arc::clone(&lineages);
        let notes = Arc::new(Observations::with_ends(coverage, Box::new(move |process| held.ended_well(process))));
        notify::wake_up_synchronously(listener.as_fd());
        let watch = self.clone();
        let (host, noted) = (Tree::hosts()?, Arc::clone(&notes));
        let observer = Observer { watch, listener, feed, notes: noted, lineages, host, view: None };
        thread::Builder::new().name(String::from("stockade-observer")).spawn(move || observer.run())?;
        Ok(notes)
    }
}

/// The observer's thread.
struct Observer {
    watch: Watch,
    listener: Arc<OwnedFd>,
    feed: Option<Feed>,
    notes: Arc<Observations>,
    /// Who was denied something.
    lineages: Arc<Lineages>,
    host: Tree,
    /// The command's tree. No command can change its root, so all of its processes have the same.
    view: Option<Tree>,
}

impl Observer {
    fn run(mut self) {
        while self.turn().is_ok() {}
    }

    /// Takes one call; fails when there are no more.
    fn turn(&mut self) -> io::Result<()> {
        let mut files = [PollFd::new(&self.listener, PollFlags::IN)];
        match poll(&mut files, None) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
        if files.first().is_none_or(|file| !file.revents().contains(PollFlags::IN)) {
            // The last process behind it has ended.
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        match notify::receive(self.listener.as_fd()) {
            Ok(call) => self.observe(call),
            // Its process is gone, or has been interrupted.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn observe(&mut self, call: Notification) {
        if let Some(feed) = self.feed.as_ref().filter(|_| Feed::takes(call.call)) {
            return feed.pass_on(call);
        }
        if let Some(denied) = self.denied(&call) {
            self.note(&call, denied);
        }
        // A process that is gone has no call that waits.
        notify::go_on(self.listener.as_fd(), call.id).ok();
    }

    fn denied(&mut self, call: &Notification) -> Option<DeniedAct> {
        if call.call == libc::SYS_connect {
            return destination::denied(call, || notify::is_waiting(self.listener.as_fd(), call.id));
        }
        let (path, does) = calls::find(call.call)?;
        if self.view.is_none() {
            self.view = Tree::of(call.thread).ok();
        }
        let view = self.view.as_ref()?;
        Judge { files: &self.watch.files, view, host: &self.host }.denied(call, path, does)
    }

    fn note(&self, call: &Notification, denied: DeniedAct) {
        self.notes.note(denied, |act| {
            let (pid, program) = program_of(call.thread);
            pid.into_iter().for_each(|process| self.lineages.hold(process));
            // Only now is it sure that all of this was the calling process's, and not one's with its number.
            let is_sure = notify::is_waiting(self.listener.as_fd(), call.id);
            is_sure.then_some(Observation { pid, program, act, is_handled: false })
        });
    }
}
