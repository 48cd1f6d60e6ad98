//! The first process inside: it prepares what needs its pid namespace, starts the command, passes
//! signals on, reaps, and makes sure that nothing outlives the command.

use crate::build::Slots;
use crate::reader::Reader;
use crate::sys::{self, ECHILD, EPERM, EPROTO, Errno, SIGCHLD, SIGKILL};
use crate::{Report, build, confine, contain, wire};

const PR_SET_PDEATHSIG: usize = 1;
const PR_SET_DUMPABLE: usize = 4;
/// Comes when the launcher is gone, where it must not end this process before it has cleaned up.
const LAUNCHER_GONE: i32 = 64;

/// Runs in the new pid namespace as its process 1, and ends it.
pub(crate) fn main(mut init: Reader, command: Reader, streams: [i32; 3], report: i32, process: i32, slots: &mut Slots) -> ! {
    let launcher = sys::parent_pid();
    contain::forked();
    // Without the launcher there is nobody to end the command when the caller goes away.
    let mut done = sys::prctl(PR_SET_PDEATHSIG, [SIGKILL as usize, 0, 0, 0]).map(drop);
    // One that was gone before this was asked for is not noticed by the kernel.
    if sys::has_ended(process) {
        sys::exit(1);
    }
    let mut number = 0;
    while done.is_ok() && !init.is_empty() {
        number += 1;
        done = init.byte().and_then(|step| build::step(step, &mut init, slots).unwrap_or(Err(EPROTO)));
    }
    // Nothing is started that could not be ended again.
    done = done.and_then(|()| if contain::holds() { outlive_launcher(launcher) } else { Err(EPERM) });
    if let Err(errno) = done {
        fail(report, wire::PHASE_INIT, number, errno);
    }
    let facts = if sys::own_pid() == 1 { wire::FACT_OWN_PIDS } else { 0 } | wire::FACT_CONTAINED;
    match sys::fork_and_wait_for_exec() {
        Err(errno) => fail(report, wire::PHASE_COMMAND, 0, errno),
        Ok(0) => become_command(command, facts, streams, report),
        Ok(child) => supervise(child, launcher, streams, report),
    }
}

/// Where no pid namespace ends with this process, it has to end the command itself.
fn outlive_launcher(launcher: i32) -> crate::sys::Result<()> {
    if !contain::has_domain() {
        return Ok(());
    }
    sys::prctl(PR_SET_PDEATHSIG, [LAUNCHER_GONE as usize, 0, 0, 0])?;
    if sys::parent_pid() == launcher { Ok(()) } else { Err(ECHILD) }
}

fn fail(report: i32, phase: u64, step: u64, errno: Errno) -> ! {
    Report { kind: wire::REPORT_FAILED, a: errno.0, b: phase << 32 | step }.send(report);
    sys::exit(1)
}

fn supervise(child: i32, launcher: i32, streams: [i32; 3], report: i32) -> ! {
    // A reader of the command's output sees its end when the command closes it, not when this does.
    streams.into_iter().for_each(sys::close);
    // The command has the same user: without this it could look into, or write into, this process.
    let hidden = sys::prctl(PR_SET_DUMPABLE, [0; 4]).and_then(|_| sys::drop_capabilities());
    if hidden.is_err() {
        sys::exit(1);
    }
    let mut status = None;
    while status.is_none() {
        match sys::next_signal() {
            Ok(SIGCHLD) => status = reap(child),
            Ok(LAUNCHER_GONE) if sys::parent_pid() != launcher => status = Some(SIGKILL),
            // A failure means that the command has just ended: its SIGCHLD is next.
            Ok(signal) => drop(sys::kill(child, signal)),
            Err(_) => {}
        }
    }
    // Everything else in this namespace goes with the command, before anybody is told that it ended.
    contain::end_all();
    Report { kind: wire::REPORT_ENDED, a: status.unwrap_or_default(), b: 0 }.send(report);
    sys::exit(0)
}

/// Reaps whatever has ended, and gives the command's own status once that is among it.
fn reap(child: i32) -> Option<i32> {
    let mut found = None;
    while let Ok((pid @ 1.., status)) = sys::reap(false) {
        if pid == child {
            found = Some(status);
        }
    }
    found
}

/// Never comes back: the command takes this process's place, or the process ends.
fn become_command(mut plan: Reader, inherited: u64, streams: [i32; 3], report: i32) -> ! {
    const CLOSE_ON_EXEC: u32 = 4;
    let mut number = 0;
    // Told to the command's process by the one that started it.
    let mut facts = inherited;
    let prepared = (0..).zip(streams).try_for_each(|(standard, stream)| sys::dup(stream, standard).map(drop));
    let prepared = prepared.and_then(|()| sys::close_range(3, CLOSE_ON_EXEC)).and_then(|_| loop {
        number += 1;
        let step = plan.byte()?;
        if step == wire::STEP_EXEC {
            break confine::Command::read(&mut plan);
        }
        confine::step(step, &mut plan, &mut facts).unwrap_or(Err(EPROTO))?;
    });
    let errno = match prepared {
        Err(errno) => errno,
        Ok(command) => {
            Report { kind: wire::REPORT_READY, a: 0, b: confine::read_back(facts) }.send(report);
            // The mask would be inherited, and a command that can't be interrupted is no use.
            match sys::block_signals(false) {
                Ok(_) => command.start(),
                Err(errno) => errno,
            }
        }
    };
    fail(report, wire::PHASE_COMMAND, number, errno)
}
