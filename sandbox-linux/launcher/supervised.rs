//! Giving the supervisor, outside, what it watches a command's connections with.

use crate::reader::Reader;
use crate::sys::{self, Result};
use crate::{Report, wire};

/// Binds the socket that the command's resolver asks, inside the command's own network, and passes it on.
/// Commands that share a network each have one: they are answered by the same supervisor.
pub(crate) fn resolver(report: i32) -> Result<()> {
    pass_on(wire::REPORT_RESOLVER, sys::bind_resolver()?, report)
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
