//! The launcher: builds a sandbox, starts commands in it, and ends them with whoever asked.
//!
//! It is a program of some thirty kilobytes without a C library, so that starting it costs next to
//! nothing and its memory holds nothing of the caller's. It decides nothing: the library compiles a
//! policy to steps, and the launcher does them in order and stops at the first that fails.
//!
//! One launcher is one session. It enters its namespaces itself and builds the view of the file
//! system once; each command then gets a process 1 of its own ([`init`]) in a pid namespace of its
//! own. In a session of many commands the next one's process waits, confined already, so that a command
//! costs little more than its own start. When the caller closes a command's socket, or dies, that command
//! is killed; when the session is closed and its commands have ended, the launcher cleans up and ends.

#![no_std]
#![no_main]
#![deny(unsafe_code)]

mod build;
mod confine;
mod contain;
mod frame;
mod init;
mod masks;
mod memory;
mod names;
mod network;
mod reader;
mod supervised;
mod sys;
mod wire;

use crate::build::Slots;
use crate::frame::Frame;
use crate::masks::Masks;
use crate::names::{Cleaned, Names};
use crate::reader::Reader;
use crate::sys::{EINTR, EPROTO, Errno, FINISHED, MOST_POLLED, Poll, READABLE, Result, SIGKILL};

/// The socket that frames come from.
const CONTROL: i32 = 0;

/// One line to the caller.
pub(crate) struct Report {
    pub(crate) kind: u32,
    pub(crate) a: i32,
    pub(crate) b: u64,
}

impl Report {
    /// A caller that is gone has nothing to be told.
    pub(crate) fn send(&self, socket: i32) {
        drop(sys::write(socket, &self.bytes()));
    }

    pub(crate) fn bytes(&self) -> [u8; wire::REPORT] {
        let mut bytes = [0; wire::REPORT];
        let parts = self.kind.to_le_bytes().into_iter().chain(self.a.to_le_bytes()).chain(self.b.to_le_bytes());
        bytes.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        bytes
    }
}

/// A running command, or a process that waits for one.
#[derive(Clone, Copy)]
struct Run {
    report: i32,
    process: i32,
    /// Counts up when a process that was parked has started its command; negative if it has.
    started: i32,
    /// Whether the caller may still say something. One that is gone would be heard for ever.
    has_caller: bool,
}

/// How a process is parked: the namespaces it gets, what it does first, and how it is confined.
struct Parking {
    flags: u64,
    init: Reader,
    confine: Reader,
}

/// A session: how its sandbox was built, and the commands in it.
struct Session {
    slots: Slots,
    /// Whether the first steps were done ahead of the plan.
    begun: bool,
    /// Whether a network is to be made among those.
    owes_network: bool,
    built: Result<()>,
    failed_step: u64,
    /// The names that stand in the workspace for the time of the session.
    names: Option<Names>,
    /// This process, for its children to ask whether it is still there.
    process: i32,
    /// Counts up by a command's status and one when it has ended, if it was the only one.
    ended: i32,
    /// Whether frames may still come.
    open: bool,
    /// The caller's own mask for new files, which commands get back.
    mask: usize,
    masks: Masks,
    /// Where somebody relays datagrams.
    tap: Option<supervised::Tap>,
    /// For a session of many commands.
    parking: Option<Parking>,
    /// Whether the caller is to hear of it when it lets the session go while commands run.
    waits_to_hear: bool,
    runs: [Option<Run>; wire::MOST_RUNS],
}

extern "C" fn main() -> ! {
    contain::look();
    let mut session = Session {
        slots: Slots::new(),
        begun: false,
        owes_network: false,
        built: Err(EPROTO),
        failed_step: 0,
        names: None,
        process: -1,
        ended: -1,
        open: true,
        mask: sys::umask(0),
        masks: Masks::NONE,
        tap: None,
        parking: None,
        waits_to_hear: false,
        runs: [None; wire::MOST_RUNS],
    };
    match prepare() {
        Ok((ended, process)) => (session.ended, session.process) = (ended, process),
        Err(errno) => session.stop(errno),
    }
    while session.open || session.runs.iter().any(Option::is_some) {
        session.turn();
    }
    session.clean_up(names::PATIENCE_MS);
    session.tap.iter().for_each(supervised::Tap::outlast_callers);
    sys::exit(0)
}

/// Nothing of the caller's but the socket comes along, not even its directory, and no signal meant for it ends
/// this. Gives a counter and a descriptor of this process.
fn prepare() -> Result<(i32, i32)> {
    sys::close_range(1, 0)?;
    sys::change_directory(sys::ROOT)?;
    sys::block_signals(true)?;
    Ok((sys::new_counter()?, sys::own_process()?))
}

impl Session {
    /// Takes no more frames, and tells the caller why.
    fn stop(&mut self, errno: Errno) {
        self.open = false;
        Report { kind: wire::REPORT_FAILED, a: errno.0, b: wire::PHASE_SETUP << 32 }.send(CONTROL);
    }

    /// Ends every command where their ends can't be waited for.
    fn give_up(&mut self, errno: Errno) {
        for run in self.runs.iter_mut().filter_map(Option::take) {
            drop(sys::signal_process(run.process, SIGKILL));
            drop(sys::reap(true));
            contain::end_all();
        }
        self.stop(errno);
    }

    /// Waits for one thing to happen and deals with it.
    fn turn(&mut self) {
        let nothing = Poll::NONE;
        let mut files = [nothing; MOST_POLLED];
        let readable = |file| Poll { file, events: READABLE, happened: 0 };
        // The caller hears of a command's end before its namespaces are gone. Until there is room again, the
        // next command waits.
        let has_room = self.runs.iter().any(Option::is_none);
        let control = Poll { file: if self.open { CONTROL } else { -1 }, ..readable(CONTROL) };
        let control = if has_room { control } else { Poll { events: FINISHED, ..control } };
        let own = [control, readable(self.ended)];
        let watched =
            own.into_iter().chain(self.runs.iter().flat_map(|run| run.map_or([nothing; 3], |run| run.watched())));
        files.iter_mut().zip(watched).for_each(|(poll, watched)| *poll = watched);
        let unused = if self.begun && self.names.is_none() && self.runs.iter().all(Option::is_none) {
            Some(wire::LONGEST_UNUSED_MS)
        } else {
            None
        };
        match sys::poll(&mut files, unused) {
            Err(EINTR) => return,
            Err(errno) => return self.give_up(errno),
            // Nobody has wanted it.
            Ok(0) => self.open = false,
            Ok(_) => {}
        }
        let [control, ended, runs @ ..] = files;
        if ended.happened != 0 {
            self.finish_only_one();
        }
        let mut has_ended = false;
        for (run, happened) in self.runs.iter_mut().zip(runs.chunks_exact(3)) {
            if let (Some(running), [process, started, report]) = (*run, happened) {
                let running = if started.happened != 0 { running.has_started() } else { running };
                *run = running.look(process.happened != 0, report.happened != 0, self.open);
                // One that ended before it had a command would end the same way again.
                has_ended |= run.is_none() && !running.is_parked();
            }
        }
        if control.happened != 0 {
            let frame = if has_room { self.next_frame() } else { Err(EPROTO) };
            match frame {
                Ok(()) => {}
                // The caller has nothing more to say.
                Err(EPROTO) => self.open = false,
                Err(errno) => self.stop(errno),
            }
        }
        // What waits ends with the caller, unless it turns out to have been given a command before.
        if !self.open && self.waits_to_hear && self.runs.iter().flatten().any(|run| !run.is_parked()) {
            Report { kind: wire::REPORT_BUSY, a: 0, b: 0 }.send(CONTROL);
            self.waits_to_hear = false;
        }
        // The next command finds a process waiting. Not before this one has ended: it would be in its way.
        if has_ended && self.open && self.parking.is_some() && !self.runs.iter().flatten().any(Run::is_parked) {
            self.park();
        }
    }

    /// Cleans up behind the only command, and then tells the caller how it ended.
    fn finish_only_one(&mut self) {
        let mut status = [0; 8];
        match sys::read(self.ended, &mut status) {
            Ok(_) => {}
            Err(EINTR) => return,
            Err(errno) => return self.give_up(errno),
        }
        let left = match self.clean_up(0) {
            Cleaned::Whole => 0,
            Cleaned::Partly => wire::NAMES_ARE_LEFT,
        };
        let status = u64::from_ne_bytes(status).saturating_sub(1) as u32;
        for run in self.runs.iter().flatten() {
            Report { kind: wire::REPORT_ENDED, a: status as i32, b: left }.send(run.report);
        }
    }

    /// Takes one frame; fails when there are no more.
    fn next_frame(&mut self) -> Result<()> {
        match Frame::receive(CONTROL)? {
            Frame { kind: wire::FRAME_SETUP, body, files, .. } => self.set_up(body, files),
            Frame { kind: wire::FRAME_BEGIN, body, .. } => {
                self.begun = true;
                self.built = Ok(());
                self.build(body);
                // While the caller still makes the plan.
                if self.owes_network && self.built.is_ok() {
                    network::make_here();
                }
                Ok(())
            }
            Frame { kind: wire::FRAME_HELD, files, .. } => self.hold(files),
            Frame { kind: wire::FRAME_MASKS, files: [socket, ..], count: 1, .. } => {
                self.masks = Masks::answered_by(socket);
                Ok(())
            }
            Frame { kind: wire::FRAME_PARK, .. } => {
                self.park();
                Ok(())
            }
            Frame { kind: wire::FRAME_RUN, body, files: [input, output, error, report, ..], count: 4 } => {
                let run = self.start(body, [input, output, error], report);
                [input, output, error].into_iter().for_each(sys::close);
                run
            }
            _ => Err(EPROTO),
        }
    }

    fn set_up(&mut self, mut body: Reader, parents: [i32; wire::MOST_FILES]) -> Result<()> {
        self.names = Some(Names::new(body.part()?, body.part()?, parents));
        let mut parking = body.part()?;
        if !parking.is_empty() {
            self.parking = Some(Parking { flags: parking.number()?, init: parking.part()?, confine: parking.part()? });
        }
        if !self.begun {
            self.built = Ok(());
        }
        self.build(body);
        if self.parking.is_some() {
            self.waits_to_hear = true;
            self.park();
        }
        Ok(())
    }

    /// Does steps, up to the first that fails.
    fn build(&mut self, mut steps: Reader) {
        while self.built.is_ok() && !steps.is_empty() {
            self.failed_step += 1;
            self.built = steps.byte().and_then(|step| match step {
                wire::STEP_AWAIT_NAMES => self.await_names(),
                // For all commands in this network, or for another launcher's, whose commands can't make them.
                wire::STEP_RESOLVER => supervised::resolver(CONTROL),
                wire::STEP_DATAGRAMS => supervised::datagrams(&mut steps, CONTROL).map(|tap| self.tap = tap),
                wire::STEP_ENTER_MOUNTS => self.masks.enter(&mut steps),
                wire::STEP_MASKS => self.masks.mount(&mut steps, &mut self.slots),
                wire::STEP_BEGIN_NETWORK if self.begun => {
                    self.owes_network = true;
                    Ok(())
                }
                other => build::step(other, &mut steps, &mut self.slots).unwrap_or(Err(EPROTO)),
            });
        }
    }

    /// The caller puts the names there while the launcher builds what does not need them.
    fn await_names(&mut self) -> Result<()> {
        let frame = Frame::receive(CONTROL)?;
        if frame.kind != wire::FRAME_HELD {
            return Err(EPROTO);
        }
        self.hold(frame.files)
    }

    fn hold(&mut self, held: [i32; wire::MOST_FILES]) -> Result<()> {
        self.names.as_mut().map(|names| names.hold(held)).ok_or(EPROTO)
    }

    /// Starts the only command of this sandbox. The caller closes its socket when it has looked at this
    /// process from outside, which stays until then, however soon the command ends.
    fn start(&mut self, mut body: Reader, streams: [i32; 3], report: i32) -> Result<()> {
        let (flags, init, confine, start) = (body.number()?, body.part()?, body.part()?, body.part()?);
        let cleans_up = self.names.as_ref().is_some_and(|names| !names.is_empty());
        let told = if cleans_up { init::Told::End(self.ended) } else { init::Told::Nothing };
        let orders = Some(init::Orders { start, streams });
        if let Err(failed) = self.fork(flags, init::Run { init, confine, orders, report, told }, -1) {
            failed.send(report);
            sys::close(report);
        }
        Ok(())
    }

    /// Has a process wait for a command, and gives its socket to the caller.
    fn park(&mut self) {
        let parked = self.start_parked();
        let told = match parked {
            Ok(theirs) => {
                let report = Report { kind: wire::REPORT_PARKED, a: 0, b: 0 };
                let told = sys::send_with(CONTROL, &report.bytes(), theirs).map(drop);
                sys::close(theirs);
                told
            }
            Err(failed) => sys::write(CONTROL, &failed.bytes()).map(drop),
        };
        // Without a caller there is nothing to wait for; what waits hears of it as well.
        self.open &= told.is_ok();
    }

    fn start_parked(&mut self) -> core::result::Result<i32, Report> {
        let failed = |errno: Errno| Report { kind: wire::REPORT_FAILED, a: errno.0, b: wire::PHASE_INIT << 32 };
        let Some(Parking { flags, init, confine }) = &self.parking else {
            let step = wire::PHASE_SETUP << 32 | self.failed_step;
            return Err(match &self.built {
                Ok(()) => Report { kind: wire::REPORT_BUILT, a: 0, b: 0 },
                Err(errno) => Report { kind: wire::REPORT_FAILED, a: errno.0, b: step },
            });
        };
        let (flags, init, confine) = (*flags, init.again(), confine.again());
        let [report, theirs] = sys::socket_pair().map_err(failed)?;
        let parked = sys::new_counter().map_err(failed).and_then(|started| {
            let told = init::Told::Start(started);
            let forked = self.fork(flags, init::Run { init, confine, orders: None, report, told }, theirs);
            forked.inspect_err(|_| sys::close(started))
        });
        if let Err(failed) = parked {
            [report, theirs].into_iter().for_each(sys::close);
            return Err(failed);
        }
        Ok(theirs)
    }

    /// Forks off a first process. It must not have the caller's end of its socket.
    fn fork(&mut self, flags: u64, run: init::Run, theirs: i32) -> core::result::Result<(), Report> {
        let failed = |errno: &Errno, b| Report { kind: wire::REPORT_FAILED, a: errno.0, b };
        self.built.as_ref().map_err(|errno| failed(errno, wire::PHASE_SETUP << 32 | self.failed_step))?;
        let free = self.runs.iter().position(Option::is_none);
        let free = free.ok_or_else(|| failed(&Errno(11), wire::PHASE_INIT << 32))?;
        let (report, started) = (run.report, if let init::Told::Start(started) = run.told { started } else { -1 });
        let mut process = -1;
        match sys::fork(flags, &mut process) {
            Err(errno) => return Err(failed(&errno, wire::PHASE_INIT << 32)),
            Ok(0) => {
                // The end of another command's socket must be seen while this one runs.
                self.runs.iter().flatten().for_each(Run::close);
                self.tap.iter().for_each(supervised::Tap::close);
                sys::close(theirs);
                sys::umask(self.mask);
                init::main(run, self.process, &mut self.slots)
            }
            Ok(_) => {}
        }
        if let Some(free) = self.runs.get_mut(free) {
            *free = Some(Run { report, process, started, has_caller: true });
        }
        Ok(())
    }

    /// Removes the names that were put into the workspace.
    fn clean_up(&mut self, patience: u64) -> Cleaned {
        self.names.take().map_or(Cleaned::Whole, |names| names.remove(patience))
    }
}

impl Run {
    fn is_parked(&self) -> bool {
        self.started >= 0
    }

    /// What to wait for: the end of its process, the start of its command, and the caller. What the caller
    /// says to a process that is parked is for that to hear; only its going away is looked for.
    fn watched(&self) -> [Poll; 3] {
        let watch = |file, events| Poll { file, events, happened: 0 };
        let report = watch(if self.has_caller { self.report } else { -1 }, if self.is_parked() { 0 } else { READABLE });
        [watch(self.process, READABLE), watch(self.started, READABLE), report]
    }

    fn has_started(self) -> Self {
        sys::close(self.started);
        Self { started: -1, ..self }
    }

    fn close(&self) {
        [self.process, self.started, self.report].into_iter().filter(|file| *file >= 0).for_each(sys::close);
    }

    /// What is left of the command after something happened to its process or its socket.
    fn look(self, ended: bool, spoken_to: bool, more_to_come: bool) -> Option<Self> {
        if ended {
            drop(sys::reap(true));
            // Without a pid namespace of its own, the first process leaves behind what it could not end.
            contain::end_all();
            [self.process, self.started].into_iter().filter(|file| *file >= 0).for_each(sys::close);
            // The end of the socket says that all is done: in the last run, that is when this ends.
            if more_to_come {
                sys::close(self.report);
            }
            return None;
        }
        if spoken_to {
            let mut signal = [0];
            let said = if self.is_parked() { Ok(0) } else { sys::read(self.report, &mut signal) };
            match said {
                Ok(1) => drop(sys::signal_process(self.process, i32::from(signal[0]))),
                // The caller is gone.
                _ => {
                    drop(sys::signal_process(self.process, SIGKILL));
                    return Some(Self { has_caller: false, ..self });
                }
            }
        }
        Some(self)
    }
}

/// Nothing here panics on purpose; what does all the same ends the session, and with it its commands.
#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::exit(101)
}
