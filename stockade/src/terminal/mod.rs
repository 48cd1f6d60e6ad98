//! Asks a person at the terminal.
//!
//! Rendering (`render`) and the meaning of keys (`dialog`) are plain functions of the question; only `person` uses the
//! terminal.

#[cfg(unix)]
mod barrier;
mod choices;
mod dialog;
mod filling;
#[cfg(unix)]
mod keys;
mod line;
mod outlet;
mod page;
mod render;
mod secrets;
pub mod stage;
mod text;
mod wrap;

#[cfg(unix)]
mod person;
#[cfg(unix)]
mod raw_mode;
#[cfg(unix)]
mod sys;

#[cfg(all(test, unix))]
mod pty_tests;
#[cfg(test)]
mod render_tests;
#[cfg(test)]
mod samples;

use std::sync::Arc;

use stockade_core::Approver;
use stockade_protocol::ApprovalRequest;

pub use page::Lifetime;
pub use text::is_plain;

/// The width of a question that is not shown at a terminal.
const TEXT_COLUMNS: usize = 100;

/// The person at the terminal of this process; `None` without one. Questions about a command also show the accepted
/// losses of its sandbox.
pub fn person(left_out: Vec<String>, lifetime: Lifetime) -> Option<Arc<dyn Approver>> {
    #[cfg(unix)]
    return person::Terminal::open(left_out, lifetime, page::Interrupt::Stops)
        .map(|terminal| Arc::new(terminal) as Arc<dyn Approver>);
    #[cfg(not(unix))]
    {
        drop((left_out, lifetime));
        None
    }
}

/// A person who answers questions of a session's other clients, if this process has a terminal. Ctrl-C is not an
/// answer: it leaves the question to others ([`Unanswered::Left`](stockade_core::Unanswered::Left)).
pub fn attendant() -> Option<Arc<dyn Approver>> {
    #[cfg(unix)]
    return person::Terminal::open(Vec::new(), Lifetime::Session, page::Interrupt::Leaves)
        .map(|terminal| Arc::new(terminal) as Arc<dyn Approver>);
    #[cfg(not(unix))]
    None
}

/// A whole question as plain text, as shown above the keys. Control characters and similar ones are escaped.
pub fn question_text(request: &ApprovalRequest) -> String {
    render::question(request, &page::Look::from(page::Paint::Plain), TEXT_COLUMNS, text::Detail::Whole).0
}

/// Whether this process has a terminal.
pub(crate) fn has_person() -> bool {
    #[cfg(unix)]
    return person::Terminal::open(Vec::new(), Lifetime::Run, page::Interrupt::Stops).is_some();
    #[cfg(not(unix))]
    false
}
