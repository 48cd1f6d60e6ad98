//! Giving the supervisor, outside, what it watches a command's connections with.

use crate::reader::Reader;
use crate::sys::{self, Result};
use crate::{Report, wire};

/// Binds the socket that the command's resolver asks, inside the command's own network, and passes it on.
/// Commands that share a network share it.
pub(crate) fn resolver(report: i32) -> Result<()> {
    pass_on(wire::REPORT_RESOLVER, sys::bind_resolver()?, report)
}

/// Makes routes that lead the command's datagrams past a socket, and passes that on. Commands that share a
/// network share it.
pub(crate) fn datagrams(plan: &mut Reader, report: i32) -> Result<()> {
    let (count, routes) = (plan.index()?, plan.bytes()?);
    let (count_v6, routes_v6) = (plan.index()?, plan.bytes()?);
    let filter = plan.bytes()?;
    let control = sys::network_control()?;
    // Where somebody else makes the network, its loopback may not be up yet, and without it there is no route.
    let made = sys::wait_for_loopback(control).and_then(|()| sys::change_network(control, routes, count));
    // A kernel without IPv6 has no datagrams of that kind either.
    drop(sys::change_network(control, routes_v6, count_v6));
    sys::close(control);
    made?;
    pass_on(wire::REPORT_DATAGRAMS, sys::see_datagrams(filter)?, report)
}

/// Installs the filter that brings connections to the supervisor, and passes on where they come out.
pub(crate) fn listener(plan: &mut Reader, report: i32) -> Result<()> {
    pass_on(wire::REPORT_LISTENER, sys::seccomp_listener(plan.bytes()?)?, report)
}

/// The command must not have it.
fn pass_on(kind: u32, file: i32, report: i32) -> Result<()> {
    let sent = sys::send_with(report, &Report { kind, a: 0, b: 0 }.bytes(), file);
    sys::close(file);
    sent.map(drop)
}
