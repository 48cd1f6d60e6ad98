//! The first process inside: it prepares what needs its pid namespace, starts the command, passes
//! signals on, reaps, and makes sure that nothing outlives the command.

use crate::build::Slots;
use crate::frame::Frame;
use crate::reader::Reader;
use crate::sys::{self, ECHILD, EINTR, EPERM, EPROTO, Errno, Result, SIGCHLD, SIGCONT, SIGKILL, SIGSTOP, SIGTSTP};
use crate::{Report, build, confine, contain, supervised, wire};

/// Where the counter of the command's end is in the end: behind the control socket, which nothing else is.
const COUNTER: i32 = 1;
const PR_SET_PDEATHSIG: usize = 1;
const PR_SET_DUMPABLE: usize = 4;
/// Comes when the launcher is gone, where it must not end this process before it has cleaned up.
const LAUNCHER_GONE: i32 = 64;

/// What the launcher tells the first process.
pub(crate) struct Run {
    pub(crate) init: Reader,
    /// What the command's process does to itself, whatever the command is.
    pub(crate) confine: Reader,
    /// The command, unless it is not known yet.
    pub(crate) orders: Option<Orders>,
    pub(crate) report: i32,
    pub(crate) told: Told,
}

/// The command and its standard streams.
pub(crate) struct Orders {
    pub(crate) start: Reader,
    pub(crate) streams: [i32; 3],
}

/// What the launcher wants to know.
#[derive(Clone, Copy)]
pub(crate) enum Told {
    /// Nothing: the caller is told how the command ended.
    Nothing,
    /// How it ended, in the place of the caller, since there is something to clean up first.
    End(i32),
    /// That the command was started.
    Start(i32),
}

/// Runs in the new pid namespace as its process 1, and ends it.
pub(crate) fn main(run: Run, process: i32, slots: &mut Slots) -> ! {
    let Run { mut init, confine, orders, report, told } = run;
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
    let start = Start { confine, facts, orders, report };
    match sys::start_and_wait_for_exec(become_command, &start) {
        Err(errno) => fail(report, wire::PHASE_COMMAND, 0, errno),
        Ok(child) => {
            // A reader of the command's output sees its end when the command closes it, not when this does.
            start.orders.iter().flat_map(|orders| orders.streams).for_each(sys::close);
            if let Told::Start(started) = told {
                drop(sys::write(started, &1_u64.to_ne_bytes()));
            }
            let status = supervise(child, launcher);
            // Everything else in this namespace goes with the command, before anybody is told that it ended.
            contain::end_all();
            tell(status, report, told)
        }
    }
}

/// Tells the caller how the command ended, or the launcher, if that has to clean up first.
fn tell(status: i32, report: i32, told: Told) -> ! {
    match told {
        Told::Nothing | Told::Start(_) => Report { kind: wire::REPORT_ENDED, a: status, b: 0 }.send(report),
        Told::End(ended) => {
            let_go_of_workspace(ended);
            // The counter has to change, whatever the status.
            drop(sys::write(COUNTER, &(1 + u64::from(status as u32)).to_ne_bytes()));
        }
    }
    sys::exit(0)
}

/// Closes everything but a counter: what the launcher has of the workspace is open here as well, and would keep
/// its file system from being unmounted.
fn let_go_of_workspace(counter: i32) {
    drop(sys::dup(counter, COUNTER));
    drop(sys::close_range(COUNTER as u32 + 1, 0));
}

/// Where no pid namespace ends with this process, it has to end the command itself.
fn outlive_launcher(launcher: i32) -> Result<()> {
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

/// Passes signals on until the command has ended, and gives its status.
fn supervise(child: i32, launcher: i32) -> i32 {
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
            // The whole job is suspended and continued, and not only its first process.
            Ok(SIGTSTP) => contain::signal_all(SIGSTOP),
            Ok(SIGCONT) => contain::signal_all(SIGCONT),
            // A failure means that the command has just ended: its SIGCHLD is next.
            Ok(signal) => drop(sys::kill(child, signal)),
            Err(EINTR) => {}
            // Without signals its end would not be heard of.
            Err(_) => status = Some(SIGKILL),
        }
    }
    status.unwrap_or_default()
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

/// What the command's process is told by the one that started it.
struct Start {
    confine: Reader,
    facts: u64,
    orders: Option<Orders>,
    report: i32,
}

/// Never comes back: the command takes this process's place, or the process ends.
extern "C" fn become_command(start: &Start) -> ! {
    let report = start.report;
    let mut number = 0;
    let mut facts = start.facts;
    let prepared = prepare(start, &mut number, &mut facts);
    let errno = match prepared {
        Err(errno) => errno,
        Ok(command) => {
            // Commands of one sandbox are told apart by it.
            let namespace = if start.orders.is_none() { sys::own_pid_namespace().unwrap_or(0) } else { 0 };
            Report { kind: wire::REPORT_READY, a: namespace as i32, b: facts }.send(report);
            // The mask would be inherited, and a command that can't be interrupted is no use.
            match sys::block_signals(false) {
                Ok(_) => command.start(),
                Err(errno) => errno,
            }
        }
    };
    fail(report, wire::PHASE_COMMAND, number, errno)
}

/// Confines this process, and only then looks at the command.
fn prepare(start: &Start, number: &mut u64, facts: &mut u64) -> Result<confine::Command> {
    const CLOSE_ON_EXEC: u32 = 4;
    if steps(start.confine.again(), number, facts, start.report)?.is_some() {
        return Err(EPROTO);
    }
    *facts = confine::read_back(*facts);
    let received;
    let orders = match &start.orders {
        Some(orders) => orders,
        None => {
            received = wait_for_orders(start.report)?;
            &received
        }
    };
    (0..).zip(orders.streams).try_for_each(|(standard, stream)| sys::dup(stream, standard).map(drop))?;
    sys::close_range(3, CLOSE_ON_EXEC)?;
    steps(orders.start.again(), number, facts, start.report)?.ok_or(EPROTO)
}

/// Waits until the caller has a command for this process. Without a caller there is nothing to do.
fn wait_for_orders(socket: i32) -> Result<Orders> {
    match Frame::receive(socket) {
        Ok(Frame { kind: wire::FRAME_RUN, body: start, files: [input, output, error, ..], count: 3 }) => {
            Ok(Orders { start, streams: [input, output, error] })
        }
        Ok(_) => Err(EPROTO),
        Err(_) => sys::exit(1),
    }
}

/// Does steps up to the command, if there is one among them.
fn steps(mut plan: Reader, number: &mut u64, facts: &mut u64, report: i32) -> Result<Option<confine::Command>> {
    while !plan.is_empty() {
        *number += 1;
        match plan.byte()? {
            wire::STEP_EXEC => return confine::Command::read(&mut plan).map(Some),
            wire::STEP_SUPERVISE => supervised::listener(&mut plan, report)?,
            wire::STEP_OBSERVE => supervised::observer(&mut plan, report)?,
            step => confine::step(step, &mut plan, facts).unwrap_or(Err(EPROTO))?,
        }
    }
    Ok(None)
}
