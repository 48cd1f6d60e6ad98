//! How a command ended, for codex: its exit code, whether the sandbox denied it something, and the sentences that say what.

use std::sync::Arc;

use stockade_protocol::{Access, Operation, Outcome, Permissions, Violation, ViolationTarget};
use stockade_server::wire::{CommandRunResult, ProgramProblem, RpcError};

use crate::process::Exit;

/// The sentences that `stockade run` says of an outcome.
pub type Explain = Arc<dyn Fn(&Outcome) -> Vec<String> + Send + Sync>;

/// It took too long.
const TIMED_OUT: i32 = 124;
/// It could not be started.
const FAILED: i32 = 125;
/// It was refused, or can't be executed.
const REFUSED: i32 = 126;
/// There is no such program.
const NOT_FOUND: i32 = 127;
/// A signal with this number added ended it.
const SIGNALED: i32 = 128;
/// What a process that codex ended exits with, as one that was killed.
const TERMINATED: i32 = SIGNALED + 9;

/// The two bounds that a command ran within.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    /// What the session grants.
    pub(crate) session: Permissions,
    /// What codex's sandbox allows; everything where there is none.
    pub(crate) codex: Option<Permissions>,
}

impl Bound {
    /// Whether codex's sandbox alone denied it.
    fn is_codex_alone(&self, violation: &Violation) -> bool {
        let Some(codex) = &self.codex else { return false };
        let wanted = match violation.operation {
            Operation::Read | Operation::Execute => Access::Read,
            Operation::Write => Access::Write,
            Operation::Connect | Operation::Listen | Operation::Process | Operation::SystemCall | Operation::Exceed => {
                Access::None
            }
        };
        match &violation.target {
            ViolationTarget::Path(path) => {
                let grants = |permissions: &Permissions| permissions.access(path) >= wanted;
                grants(&self.session) && !grants(codex)
            }
            ViolationTarget::Destination(to) => {
                let grants = |permissions: &Permissions| {
                    permissions.connect(&to.host, to.protocol, to.port) == stockade_protocol::Decision::Allow
                };
                grants(&self.session) && !grants(codex)
            }
            ViolationTarget::UnixSocket(_)
            | ViolationTarget::SystemCall(_)
            | ViolationTarget::Process(_)
            | ViolationTarget::Limit(_)
            | ViolationTarget::Command(_) => false,
        }
    }
}

/// The exit of a command, and what is said of it.
pub(crate) fn explained(
    explain: &Explain,
    bound: &Bound,
    ended: &Result<CommandRunResult, RpcError>,
    is_terminated: bool,
) -> (Exit, Vec<String>) {
    let outcome = match ended {
        Ok(ended) => &ended.outcome,
        Err(error) => {
            let program = error.data.as_ref().and_then(|data| data.program);
            let code = match program {
                Some(ProgramProblem::NotFound) => NOT_FOUND,
                Some(ProgramProblem::NotExecutable) => REFUSED,
                None => FAILED,
            };
            return (Exit { code, denied: false }, vec![with_causes(error)]);
        }
    };
    let (code, denied) = match outcome {
        Outcome::Exited { exit_code, .. } => (*exit_code, false),
        Outcome::Denied { exit_code: Some(exit_code), .. } => (*exit_code, true),
        Outcome::Denied { signal, .. } => (SIGNALED + signal.unwrap_or_default(), true),
        Outcome::Refused(_) => (REFUSED, false),
        Outcome::Cancelled { .. } => (TERMINATED, false),
        Outcome::TimedOut { .. } => (TIMED_OUT, false),
        Outcome::Signaled { signal, .. } => (SIGNALED + signal, false),
    };
    // codex knows what it ended, and shells say which signal ended a command.
    let is_silent = is_terminated || matches!(outcome, Outcome::Signaled { .. });
    let lines = if is_silent { Vec::new() } else { said(explain, bound, outcome) };
    (Exit { code, denied: denied && !is_terminated }, lines)
}

/// What is said of an outcome. What codex's own sandbox denied, no flag of Stockade would allow.
fn said(explain: &Explain, bound: &Bound, outcome: &Outcome) -> Vec<String> {
    let mut rest = outcome.clone();
    let mut lines = Vec::new();
    if let Outcome::Exited { execution, .. } | Outcome::Denied { execution, .. } = &mut rest {
        let (codex, own): (Vec<Violation>, Vec<Violation>) =
            std::mem::take(&mut execution.violations).into_iter().partition(|found| bound.is_codex_alone(found));
        execution.violations = own;
        let line = |violation: &Violation| {
            format!(
                "{violation} was denied: the sandbox that codex asked for does not allow it, Stockade's session would"
            )
        };
        lines.extend(codex.iter().map(line));
    }
    lines.extend(explain(&rest));
    lines
}

/// An error with what led to it.
pub(crate) fn with_causes(error: &RpcError) -> String {
    let causes = error.data.iter().flat_map(|data| &data.causes);
    causes.fold(error.message.clone(), |text, cause| format!("{text}: {cause}"))
}
