//! Giving the supervisor, outside, what it watches a command's connections with.
//!
//! What is of a network is made once for all commands in it, by the launcher, which keeps a copy of the
//! socket that sees datagrams: the kernel takes its time to close the last one, some ten milliseconds, and
//! the caller should not be the one who waits. So the launcher stays until the caller has closed its own.

use crate::reader::Reader;
use crate::sys::{self, Result};
use crate::{Report, wire};

/// Binds the socket that the commands' resolver asks, inside their own network, and passes it on.
pub(crate) fn resolver(report: i32) -> Result<()> {
    pass_on(wire::REPORT_RESOLVER, sys::bind_resolver()?, report)
}

/// A copy of the socket that sees datagrams, and what tells that the caller has closed its own.
pub(crate) struct Tap {
    socket: i32,
    lease: i32,
}

impl Tap {
    /// A command's processes must not have it.
    pub(crate) fn close(&self) {
        [self.socket, self.lease].into_iter().for_each(sys::close);
    }

    /// Waits until the caller is rid of its copy. One who keeps it for long waits for the kernel itself.
    pub(crate) fn outlast_callers(&self) {
        const LONGEST_MS: u64 = 1_000;
        let lease = sys::Poll { file: self.lease, events: sys::READABLE, happened: 0 };
        drop(sys::poll(&mut [lease], Some(LONGEST_MS)));
    }
}

/// Makes routes that lead the commands' datagrams past a socket, and passes that on. Where the kernel has no
/// such thing and no rule needs it, datagrams have no route, and the caller is told.
pub(crate) fn datagrams(plan: &mut Reader, report: i32) -> Result<Option<Tap>> {
    let is_needed = plan.byte()? != 0;
    match make_tap(plan) {
        Ok((tap, theirs)) => {
            pass_on(wire::REPORT_LEASE, theirs, report)?;
            say_with(wire::REPORT_DATAGRAMS, tap.socket, report)?;
            Ok(Some(tap))
        }
        Err(errno) if !is_needed => {
            Report { kind: wire::REPORT_NO_DATAGRAMS, a: errno.0, b: 0 }.send(report);
            Ok(None)
        }
        Err(errno) => Err(errno),
    }
}

/// The socket comes first: nothing takes a route that nobody watches.
fn make_tap(plan: &mut Reader) -> Result<(Tap, i32)> {
    let (count, routes) = (plan.index()?, plan.bytes()?);
    let (count_v6, routes_v6) = (plan.index()?, plan.bytes()?);
    let filter = plan.bytes()?;
    let control = sys::network_control()?;
    // Where somebody else makes the network, its loopback may not be up yet, and without it there is no route.
    let made = sys::wait_for_loopback(control).and_then(|()| {
        let ([lease, theirs], socket) = (sys::socket_pair()?, sys::see_datagrams(filter)?);
        sys::change_network(control, routes, count)?;
        // A kernel without IPv6 has no datagrams of that kind either.
        drop(sys::change_network(control, routes_v6, count_v6));
        Ok((Tap { socket, lease }, theirs))
    });
    sys::close(control);
    made
}

/// Installs the filter that brings connections to the supervisor, and passes on where they come out.
pub(crate) fn listener(plan: &mut Reader, report: i32) -> Result<()> {
    pass_on(wire::REPORT_LISTENER, sys::seccomp_listener(plan.bytes()?)?, report)
}

/// The same for calls that are only looked at, and that the kernel decides on or the observer refuses. An outer sandbox may watch this
/// process already, and there is one listener only: then nothing is observed, and a second filter refuses in place of the observer.
pub(crate) fn observer(plan: &mut Reader, report: i32) -> Result<()> {
    let (filter, otherwise) = (plan.bytes()?, plan.bytes()?);
    match sys::seccomp_listener(filter) {
        Ok(listener) => pass_on(wire::REPORT_LISTENER, listener, report),
        Err(_) => sys::seccomp(otherwise).map(drop),
    }
}

/// The command must not have it.
fn pass_on(kind: u32, file: i32, report: i32) -> Result<()> {
    let sent = say_with(kind, file, report);
    sys::close(file);
    sent
}

fn say_with(kind: u32, file: i32, report: i32) -> Result<()> {
    sys::send_with(report, &Report { kind, a: 0, b: 0 }.bytes(), file).map(drop)
}
