//! The launcher: builds a sandbox, starts commands in it, and ends them with whoever asked.
//!
//! It is a program of a few kilobytes without a C library, so that starting it costs next to
//! nothing and its memory holds nothing of the caller's. It decides nothing: the library compiles a
//! policy to steps, and the launcher does them in order and stops at the first that fails.
//!
//! One launcher is one session. It enters its namespaces itself and builds the view of the file
//! system once; each command then gets a process 1 of its own ([`init`]) in a pid namespace of its
//! own. When the caller closes a command's socket, or dies, that command is killed; when the session
//! is closed and its commands have ended, the launcher cleans up and ends.

#![no_std]
#![no_main]
#![deny(unsafe_code)]

mod build;
mod confine;
mod contain;
mod init;
mod memory;
mod number;
mod reader;
mod sys;
mod wire;

use crate::build::Slots;
use crate::reader::{Reader, read_whole};
use crate::sys::{EPROTO, Errno, Poll, READABLE, Result, SIGKILL};

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
        let mut bytes = [0; wire::REPORT];
        let parts = self.kind.to_le_bytes().into_iter().chain(self.a.to_le_bytes()).chain(self.b.to_le_bytes());
        bytes.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
        drop(sys::write(socket, &bytes));
    }
}

/// A running command.
#[derive(Clone, Copy)]
struct Run {
    report: i32,
    process: i32,
    /// Whether the caller may still say something. One that is gone would be heard for ever.
    has_caller: bool,
}

/// A session: how its sandbox was built, and the commands in it.
struct Session {
    slots: Slots,
    built: Result<()>,
    failed_step: u64,
    /// What covers the names that stand in the workspace for the time of the session, the names, and
    /// the directories they are in.
    names: Option<(Reader, Reader, [i32; wire::MOST_FILES])>,
    /// What stands there.
    held: [i32; wire::MOST_FILES],
    /// This process, for its children to ask whether it is still there.
    process: i32,
    /// The caller's own mask for new files, which commands get back.
    mask: usize,
    runs: [Option<Run>; wire::MOST_RUNS],
}

extern "C" fn main() -> ! {
    contain::look();
    let mut session = Session {
        slots: Slots::new(),
        built: Err(EPROTO),
        failed_step: 0,
        names: None,
        held: [-1; wire::MOST_FILES],
        process: -1,
        mask: sys::umask(0),
        runs: [None; wire::MOST_RUNS],
    };
    // Nothing of the caller's but the socket comes along, and no signal meant for it ends this.
    let ready = sys::close_range(1, 0).and_then(|_| sys::block_signals(true));
    let mut open = ready.is_ok();
    session.process = sys::own_process();
    while open || session.runs.iter().any(Option::is_some) {
        open = session.turn(open);
    }
    session.clean_up();
    sys::exit(0)
}

impl Session {
    /// Waits for one thing to happen and deals with it. Says whether frames may still come.
    fn turn(&mut self, open: bool) -> bool {
        let nothing = Poll { file: -1, events: 0, happened: 0 };
        let mut files = [nothing; 1 + 2 * wire::MOST_RUNS];
        // The caller hears of a command's end before its namespaces are gone. Until there is room again, the
        // next command waits.
        let has_room = self.runs.iter().any(Option::is_none);
        let watched = [if open && has_room { CONTROL } else { -1 }].into_iter().chain(
            self.runs.iter().flat_map(|run| run.map_or([-1, -1], |run| [run.process, if run.has_caller { run.report } else { -1 }])),
        );
        for (poll, file) in files.iter_mut().zip(watched) {
            *poll = Poll { file, events: READABLE, happened: 0 };
        }
        if sys::poll(&mut files).is_err() {
            return open;
        }
        let (control, pairs) = files.split_first().map_or((nothing, &files[1..]), |(control, rest)| (*control, rest));
        for (run, happened) in self.runs.iter_mut().zip(pairs.chunks_exact(2)) {
            if let (Some(running), [process, report]) = (*run, happened) {
                *run = running.look(process.happened != 0, report.happened != 0, open);
            }
        }
        open && (control.happened == 0 || self.next_frame().is_ok())
    }

    /// Takes one frame; fails when there are no more.
    fn next_frame(&mut self) -> Result<()> {
        let mut head = [0; wire::HEAD];
        let mut files = [-1; wire::MOST_FILES];
        let (received, count) = sys::receive(CONTROL, &mut head, &mut files)?;
        if received == 0 {
            return Err(EPROTO);
        }
        read_whole(CONTROL, head.get_mut(received..).ok_or(EPROTO)?)?;
        let mut head = Reader::new(keep(&head)?);
        let frame = head.number()?;
        let body = sys::allocate((frame >> 32) as usize)?;
        read_whole(CONTROL, body)?;
        match (frame as u32, files) {
            (wire::FRAME_NAMES, parents) => {
                let mut body = Reader::new(body);
                self.names = Some((body.part()?, body.part()?, parents));
                Ok(())
            }
            (wire::FRAME_SETUP, files) => self.set_up(Reader::new(body), files),
            (wire::FRAME_RUN, [input, output, error, report, ..]) if count == 4 => {
                let run = self.start(Reader::new(body), [input, output, error], report);
                [input, output, error].into_iter().for_each(sys::close);
                run
            }
            _ => Err(EPROTO),
        }
    }

    fn set_up(&mut self, mut body: Reader, files: [i32; wire::MOST_FILES]) -> Result<()> {
        self.held = files;
        self.built = Ok(());
        while self.built.is_ok() && !body.is_empty() {
            self.failed_step += 1;
            self.built = body.byte().and_then(|step| build::step(step, &mut body, &mut self.slots).unwrap_or(Err(EPROTO)));
        }
        Ok(())
    }

    fn start(&mut self, mut body: Reader, streams: [i32; 3], report: i32) -> Result<()> {
        let (flags, init, command) = (body.number()?, body.part()?, body.part()?);
        let free = self.runs.iter_mut().find(|run| run.is_none());
        let mut process = -1;
        let forked = match (&self.built, &free) {
            (Err(errno), _) => Err((errno.clone(), wire::PHASE_SETUP << 32 | self.failed_step)),
            (Ok(()), None) => Err((Errno(11), wire::PHASE_INIT << 32)),
            (Ok(()), Some(_)) => sys::fork(flags, &mut process).map_err(|errno| (errno, wire::PHASE_INIT << 32)),
        };
        match (forked, free) {
            (Ok(0), _) => {
                sys::umask(self.mask);
                init::main(init, command, streams, report, self.process, &mut self.slots)
            }
            (Ok(_), Some(free)) => *free = Some(Run { report, process, has_caller: true }),
            (Ok(_), None) => {}
            (Err((errno, b)), _) => {
                Report { kind: wire::REPORT_FAILED, a: errno.0, b }.send(report);
                sys::close(report);
            }
        }
        Ok(())
    }

    /// Removes the names that were put into the workspace, unless another session needs them.
    fn clean_up(&mut self) {
        // Without these this session holds nothing any more, unless the caller still does.
        self.held.into_iter().filter(|held| *held > 0).for_each(sys::close);
        let Some((covers, names, parents)) = &mut self.names else { return };
        // Here the names are covered by mounts, which have to go first. One that holds several goes
        // with all of them, since each takes the kernel a while.
        while let Ok(path) = covers.text() {
            drop(sys::detach_mount(path));
        }
        for parent in parents.iter() {
            let Ok(name) = names.text() else { return };
            let Ok(found) = sys::open_directory(*parent, name) else { continue };
            // Only the last one to hold it may remove it, and only if it is still what is there.
            if sys::lock_exclusively(found).is_ok() && sys::is_at(found, *parent, name, wire::PLACEHOLDER_MODE) {
                drop(sys::remove_directory(*parent, name));
            }
            sys::close(found);
        }
    }
}

impl Run {
    /// What is left of the command after something happened to its process or its socket.
    fn look(self, ended: bool, spoken_to: bool, more_to_come: bool) -> Option<Self> {
        if ended {
            drop(sys::reap(true));
            // Without a pid namespace of its own, the first process leaves behind what it could not end.
            contain::end_all();
            sys::close(self.process);
            // The end of the socket says that all is done: in the last run, that is when this ends.
            if more_to_come {
                sys::close(self.report);
            }
            return None;
        }
        if spoken_to {
            let mut signal = [0];
            match sys::read(self.report, &mut signal) {
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

/// The head as bytes that a reader can hold on to.
fn keep(bytes: &[u8]) -> Result<&'static [u8]> {
    let kept = sys::allocate(bytes.len())?;
    kept.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    Ok(kept)
}

/// Nothing here panics on purpose; what does all the same ends the session, and with it its commands.
#[panic_handler]
fn panicked(_: &core::panic::PanicInfo<'_>) -> ! {
    sys::exit(101)
}
