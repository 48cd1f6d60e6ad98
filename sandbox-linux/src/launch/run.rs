//! Starts commands in a sandbox that the launcher builds.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, PoisonError};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use stockade_protocol::FileRules;
use stockade_sandboxing::{CountedLimit, Coverage, Deciders, Observations, Running as _, SpawnError, Stdio};

use super::{Launcher, StartFailure, frame, lost};
use crate::engines::enforcement::{enforcement, fact_names, own_namespaces};
use crate::launch::cgroup::Made;
use crate::launch::child::{Child, Report};
use crate::masks::MaskServer;
use crate::observer::Watch;
use crate::plan::command_steps::CommandSteps;
use crate::plan::step::{Encoder, Step, encode};
use crate::supervisor::{Feed, Receiving, Sockets, Supervisor};
use crate::{launch::stdio, launch::streams, wire};

/// The number of killed waiting processes after which a start fails.
const TRIES: usize = 8;

/// The parameters of one command, beyond the sandbox.
pub(crate) struct Run<'a> {
    pub(crate) engine: &'static str,
    pub(crate) flags: u64,
    pub(crate) init: &'a [Step],
    pub(crate) command: &'a CommandSteps,
    /// The rules that no standard stream may bypass, if there is a view.
    pub(crate) files: Option<&'a FileRules>,
    /// The required facts; without them the command is killed before it starts.
    pub(crate) facts: u64,
    /// The supervisor, if connections are supervised.
    pub(crate) supervisor: Option<&'a Supervisor>,
    /// The source of the supervisor's sockets in its network.
    pub(crate) sockets: SocketsFrom<'a>,
    /// Its observation, if any.
    pub(crate) watch: Option<&'a Watch>,
    /// Decide on writes that are denied, and on programs that are started, if they are asked about.
    pub(crate) deciders: Deciders,
    /// What answers for the masks of its sandbox, where something does.
    pub(crate) masks: Option<&'a Arc<MaskServer>>,
}

/// The creator of the sockets in a command's network.
pub(crate) enum SocketsFrom<'a> {
    /// None: connections are not supervised.
    Nobody,
    /// Existing sockets.
    Given(&'a Sockets),
    /// The launcher, in one of its setup steps.
    Setup(&'a [Step]),
}

impl Launcher {
    /// Starts one command; the sandbox ends with it.
    pub(crate) fn run_only(mut self, run: &Run<'_>, stdio: &Stdio) -> Result<Child, StartFailure> {
        let mut child = match self.start_only(run, stdio) {
            Ok(child) => child,
            Err(error) => {
                let error = self.with_last_words(error);
                self.end();
                return Err(error);
            }
        };
        self.control = None;
        child.session = Some(self);
        Ok(child)
    }

    fn start_only(&self, run: &Run<'_>, stdio: &Stdio) -> Result<Child, StartFailure> {
        let (report, theirs) = frame::socket_pair().map_err(lost("making a command's socket"))?;
        let CommandSteps { confine, start } = run.command;
        let mut body = Encoder::default();
        body.number(run.flags).bytes(&encode(run.init)).bytes(&encode(confine)).bytes(&encode(&start.steps(stdio)));
        let null = stdio::null().map_err(lost("opening /dev/null"))?;
        let streams = stdio::streams(stdio, null.as_fd());
        streams::check(&streams, run.files)?;
        let [input, output, error] = streams;
        let files = [input, output, error, theirs.as_fd()];
        self.send(wire::FRAME_RUN, &body.0, &files).map_err(lost("sending it a command"))?;
        drop(theirs);
        let mut child = Child::new(report, run.command.start.program());
        self.follow(run, &mut child)?;
        Ok(child)
    }

    /// Starts one command of many, in a waiting process.
    pub(crate) fn run(&self, run: &Run<'_>, stdio: &Stdio) -> Result<Child, StartFailure> {
        let null = stdio::null().map_err(lost("opening /dev/null"))?;
        let files = stdio::streams(stdio, null.as_fd());
        streams::check(&files, run.files)?;
        let start = encode(&run.command.start.steps(stdio));
        let is_gone = |error: &io::Error| {
            use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
            matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
        };
        let mut tries = 0;
        loop {
            tries += 1;
            let parked = self.parked()?;
            let mut child = Child::new(parked, run.command.start.program());
            let sent =
                frame::send(child.readable(), wire::FRAME_RUN, &start, &files).map_err(lost("sending it a command"));
            match sent.map_err(StartFailure::from).and_then(|()| self.follow(run, &mut child)) {
                Ok(()) => {
                    child.placeholders = Arc::clone(&self.placeholders);
                    return Ok(child);
                }
                // It was killed while it waited. Nothing has run in it.
                Err(StartFailure::Other(SpawnError::Launcher { source, .. })) if is_gone(&source) && tries < TRIES => {
                    child.failure_left_behind().map_or(Ok(()), Err)?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The socket of a process that waits for a command.
    fn parked(&self) -> Result<OwnedFd, StartFailure> {
        let control = self.control.as_ref().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected));
        let control = control.map_err(lost("asking it for a process"))?;
        // Each request has exactly one answer.
        let _alone = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let there = match frame::receive(control.as_fd(), RecvFlags::DONTWAIT) {
            Err(Errno::AGAIN) => {
                self.send(wire::FRAME_PARK, &[], &[]).map_err(lost("asking it for a process"))?;
                frame::receive(control.as_fd(), RecvFlags::empty())
            }
            other => other,
        };
        let (report, socket) = there.map_err(|errno| lost("waiting for a process")(errno.into()))?;
        match (Report::read(report), socket) {
            (Report::Parked, Some(socket)) => Ok(socket),
            (Report::Failed { errno, phase, step }, _) => Err(StartFailure::reported(errno, phase, step)),
            _ => Err(lost("building the sandbox")(io::Error::from(io::ErrorKind::UnexpectedEof)).into()),
        }
    }

    /// Handles the reports of a command's process until the command starts.
    fn follow(&self, run: &Run<'_>, child: &mut Child) -> Result<(), StartFailure> {
        self.starter.iter().try_for_each(|starter| starter.await_word(child.readable()))?;
        let facts = child.ready()?;
        let missing = run.facts & !facts;
        if missing != 0 {
            child.kill()?;
            return Err(SpawnError::NotEnforced { missing: fact_names(missing).join(", ") }.into());
        }
        let listener = child.listener.take().map(Arc::new);
        let feed = self.supervise(run, child, listener.as_ref())?;
        let denied_reads = run.masks.is_some_and(|masks| masks.sees_all_reads());
        child.counters = self.group.as_ref().map(Made::counters);
        let counts = |limit| child.counters.as_ref().is_some_and(|counters| counters.count(limit));
        let (memory, processes) = (counts(CountedLimit::Memory), counts(CountedLimit::Processes));
        let others = Coverage { denied_reads, memory, processes, ..Coverage::default() };
        child.masks = run.masks.cloned();
        child.observations = match run.watch.zip(listener) {
            Some((watch, listener)) => {
                Some(watch.start(listener, feed, others, &run.deciders).map_err(lost("starting the observer"))?)
            }
            None => (run.masks.is_some() || memory || processes).then(|| Arc::new(Observations::new(others))),
        };
        child.facts = facts;
        // They don't change during its life, so they are read back once.
        let namespaces = self.namespaces.get_or_init(|| own_namespaces(self.pid));
        let mut enforcement = enforcement(run.engine, facts, namespaces);
        enforcement.layers.extend(self.group.as_ref().map(Made::report));
        child.enforcement = Some(enforcement);
        Ok(())
    }

    /// Passes the connections of a command to the supervisor, if there is one.
    fn supervise(
        &self,
        run: &Run<'_>,
        child: &mut Child,
        listener: Option<&Arc<OwnedFd>>,
    ) -> Result<Option<Feed>, StartFailure> {
        let Some(supervisor) = run.supervisor else { return Ok(None) };
        let sockets = match &run.sockets {
            SocketsFrom::Nobody => Sockets::default(),
            SocketsFrom::Given(sockets) => sockets.try_clone().map_err(lost("copying its sockets"))?,
            SocketsFrom::Setup(steps) => self.passed_sockets(steps)?,
        };
        let Some(listener) = listener.filter(|_| sockets.resolver.is_some()) else {
            child.kill()?;
            let missing = String::from("the supervisor of its connections");
            return Err(SpawnError::NotEnforced { missing }.into());
        };
        let Some(gatekeeper) = run.deciders.connections.clone() else {
            child.kill()?;
            let missing = String::from("the gatekeeper of its connections");
            return Err(SpawnError::NotEnforced { missing }.into());
        };
        let receiving = if run.watch.is_some() { Receiving::ByObserver } else { Receiving::Here };
        let feed = supervisor.watch(Arc::clone(listener), sockets, receiving, gatekeeper);
        Ok(Some(feed.map_err(lost("watching its connections"))?))
    }
}
