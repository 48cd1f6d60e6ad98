//! What a tool gives back: structured for programs, and as text for a model, which says what was denied and what would allow
//! it.

use rmcp::model::{CallToolResult, ContentBlock};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use stockade_core::Explanation;
use stockade_protocol::{
    Access, ExecApprovalRequirement, FileTarget, Operation, Outcome, PermissionAmendment, PermissionsScope, Violation,
    ViolationTarget,
};
use stockade_server::wire::{CommandRunResult, PatchApplyResult, PermissionsRequestResult, ProgramProblem, RpcError};

use crate::Wording;
use crate::output::{Output, Part};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum OutcomeName {
    /// By itself.
    Exited,
    /// It failed because the sandbox denied it something: `violations` says what.
    Denied,
    /// It was not run: a rule, the policy or a person said no.
    Refused,
    /// It took too long, and was ended.
    TimedOut,
    /// It was cancelled.
    Cancelled,
    /// A signal ended it.
    Signaled,
    /// It could not be started.
    Failed,
}

/// The result of `run`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunReport {
    /// How it ended.
    outcome: OutcomeName,
    /// Its exit code, if it ended by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    exit_code: Option<i32>,
    /// The number of the signal that ended it.
    #[serde(skip_serializing_if = "Option::is_none")]
    signal: Option<i32>,
    /// What it wrote, standard output and standard error in the order in which it came; the beginning and the end of it if
    /// it is long.
    output: String,
    /// How many bytes it wrote.
    output_bytes: u64,
    /// Names the whole output for `read_output`, where `output` is not the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    output_handle: Option<String>,
    /// How long it ran, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    duration_ms: Option<u64>,
    /// What built the sandbox around it; `none` if there was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<String>,
    /// What it was denied, also where it went on regardless.
    violations: Vec<DeniedAct>,
    /// What Stockade says of it, in sentences.
    messages: Vec<String>,
}

/// Something that a command tried and was denied.
#[derive(Debug, Serialize, JsonSchema)]
struct DeniedAct {
    /// What was tried: `read`, `write`, `execute`, `connect`, `listen`, `process`, `system_call` or `exceed`.
    operation: String,
    /// On what: a path, a destination, a system call or a limit.
    target: String,
    /// The program that tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    /// What a person can write to allow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
    /// The arguments of `request_permissions` that ask for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    ask_with: Option<AskWith>,
}

/// Arguments of `request_permissions`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
struct AskWith {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    read: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    write: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<String>,
}

/// What is known of a command besides how it ended.
pub(crate) struct Surroundings<'a> {
    pub(crate) output: &'a Output,
    pub(crate) most_output: usize,
    pub(crate) wording: &'a dyn Wording,
    /// Whether the session asks, so that asking for permissions makes sense.
    pub(crate) asks: bool,
}

/// The result of `run`.
pub(crate) fn ran(ended: Result<CommandRunResult, RpcError>, around: &Surroundings<'_>) -> CallToolResult {
    let outcome = match ended {
        Ok(ended) => ended.outcome,
        Err(error) => return not_started(&error),
    };
    let (name, exit_code, signal) = match &outcome {
        Outcome::Exited { exit_code, .. } => (OutcomeName::Exited, Some(*exit_code), None),
        Outcome::Denied { exit_code, signal, .. } => (OutcomeName::Denied, *exit_code, *signal),
        Outcome::Refused(_) => (OutcomeName::Refused, None, None),
        Outcome::TimedOut { .. } => (OutcomeName::TimedOut, None, None),
        Outcome::Cancelled { .. } => (OutcomeName::Cancelled, None, None),
        Outcome::Signaled { signal, .. } => (OutcomeName::Signaled, None, Some(*signal)),
    };
    let execution = outcome.execution();
    let violations = execution.map(|execution| execution.violations.as_slice()).unwrap_or_default();
    let denied = |violation: &Violation| denied_act(violation, around);
    let violations: Vec<DeniedAct> = violations.iter().map(denied).collect();
    let mut messages = around.wording.outcome(&outcome);
    // Only what stood in the way is worth asking for.
    if name == OutcomeName::Denied {
        messages.extend(AskWith::all(violations.iter().filter_map(|denied| denied.ask_with.as_ref())).map(|wanted| {
            let wanted = json!(wanted);
            format!(
                "to ask the person for it, call `request_permissions` with {wanted} and a justification, then run the command \
                 again"
            )
        }));
    }
    let (output, is_whole) = shown(around.output, around.most_output);
    let report = RunReport {
        outcome: name,
        exit_code,
        signal,
        output,
        output_bytes: around.output.total(),
        output_handle: (!is_whole).then(|| around.output.handle.clone()),
        duration_ms: execution.map(|execution| execution.duration_ms),
        sandbox: execution.map(|execution| execution.enforcement.engine.clone()),
        violations,
        messages,
    };
    let is_error = !matches!(name, OutcomeName::Exited);
    let text = report.text();
    result(&report, text, is_error)
}

impl RunReport {
    fn text(&self) -> String {
        let mut text = self.output.clone();
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        for message in &self.messages {
            text.push_str(&format!("stockade: {message}\n"));
        }
        text.push_str(&match (self.exit_code, self.signal) {
            (Some(code), _) => format!("exit code {code}\n"),
            (None, Some(signal)) => format!("ended by signal {signal}\n"),
            (None, None) => String::new(),
        });
        text
    }
}

impl AskWith {
    /// Everything that these name, each once.
    fn all<'a>(each: impl Iterator<Item = &'a Self>) -> Option<Self> {
        let mut all = Self::default();
        for one in each {
            let pairs = [(&mut all.read, &one.read), (&mut all.write, &one.write), (&mut all.hosts, &one.hosts)];
            for (known, new) in pairs {
                known.extend(new.iter().filter(|name| !known.contains(name)).cloned().collect::<Vec<_>>());
            }
        }
        (all != Self::default()).then_some(all)
    }
}

/// The output for a result, and whether it is the whole.
fn shown(output: &Output, most: usize) -> (String, bool) {
    let total = output.total();
    let Part { offset, text, next_offset, .. } = output.part(0, most);
    if offset == 0 && next_offset == total {
        return (text, true);
    }
    let half = most / 2;
    let head = output.part(0, half);
    let tail = output.part(total.saturating_sub(half as u64).max(head.next_offset), half);
    let handle = &output.handle;
    let left_out = tail.offset - head.next_offset;
    let between = format!(
        "\n[{left_out} bytes left out: `read_output` with {{\"handle\":\"{handle}\",\"offset\":{}}} has them]\n",
        head.next_offset
    );
    let head_text = if head.offset == 0 { head.text } else { String::new() };
    (head_text + &between + &tail.text, false)
}

fn denied_act(violation: &Violation, around: &Surroundings<'_>) -> DeniedAct {
    let operation = match violation.operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::Execute => "execute",
        Operation::Connect => "connect",
        Operation::Listen => "listen",
        Operation::Process => "process",
        Operation::SystemCall => "system_call",
        Operation::Exceed => "exceed",
    };
    let target = match &violation.target {
        ViolationTarget::Path(path) | ViolationTarget::UnixSocket(path) => path.to_string(),
        ViolationTarget::Destination(to) => to.to_string(),
        ViolationTarget::SystemCall(name) | ViolationTarget::Limit(name) => name.clone(),
        ViolationTarget::Process(pid) => pid.to_string(),
    };
    DeniedAct {
        operation: String::from(operation),
        target,
        program: violation.program.as_ref().map(ToString::to_string),
        remedy: around.wording.remedy(violation),
        ask_with: violation.amendment.as_ref().filter(|_| around.asks).and_then(ask_with),
    }
}

fn ask_with(amendment: &PermissionAmendment) -> Option<AskWith> {
    match amendment {
        PermissionAmendment::File(rule) => {
            let FileTarget::Path(path) = &rule.target else { return None };
            let paths = vec![path.to_string()];
            Some(match rule.access {
                Access::Write => AskWith { write: paths, ..AskWith::default() },
                Access::Read | Access::Scratch | Access::None => AskWith { read: paths, ..AskWith::default() },
            })
        }
        PermissionAmendment::Network(rule) => {
            let port = rule.port.map(|port| format!(":{port}")).unwrap_or_default();
            let suffix = match rule.protocol {
                Some(stockade_protocol::NetworkProtocol::Udp) => "/udp",
                _ => "",
            };
            let host = format!("{}{port}{suffix}", rule.host.bracketed());
            Some(AskWith { hosts: vec![host], ..AskWith::default() })
        }
        PermissionAmendment::UnixSocket(_) => None,
    }
}

fn not_started(error: &RpcError) -> CallToolResult {
    let causes = error.data.iter().flat_map(|data| &data.causes);
    let message = causes.fold(error.message.clone(), |text, cause| format!("{text}: {cause}"));
    let exit_code = match error.data.as_ref().and_then(|data| data.program) {
        Some(ProgramProblem::NotFound) => Some(127),
        Some(ProgramProblem::NotExecutable) => Some(126),
        None => None,
    };
    let text = format!("stockade: {message}\n");
    let report = RunReport {
        outcome: OutcomeName::Failed,
        exit_code,
        signal: None,
        output: String::new(),
        output_bytes: 0,
        output_handle: None,
        duration_ms: None,
        sandbox: None,
        violations: Vec::new(),
        messages: vec![message],
    };
    result(&report, text, true)
}

/// The result of `explain`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExplainReport {
    /// What would happen: `runs`, `asks`, `refused` or `unenforceable`.
    decision: String,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Whether it would run in the sandbox.
    sandboxed: bool,
    /// Whether the person is asked if the sandbox denies it something.
    asks_after_denial: bool,
}

pub(crate) fn explained(explanation: &Explanation, wording: &dyn Wording) -> CallToolResult {
    let (decision, reason) = match (&explanation.requirement, &explanation.unenforceable) {
        (ExecApprovalRequirement::Forbidden { reason }, _) => ("refused", Some(reason.clone())),
        (_, Some(why)) => ("unenforceable", Some(why.clone())),
        (ExecApprovalRequirement::NeedsApproval { reason, .. }, None) => ("asks", reason.clone()),
        (ExecApprovalRequirement::Skip { .. }, None) => ("runs", None),
    };
    let report = ExplainReport {
        decision: String::from(decision),
        reason,
        sandboxed: explanation.sandboxed,
        asks_after_denial: explanation.asks_after_denial,
    };
    result(&report, wording.explanation(explanation), false)
}

/// The result of `apply_patch`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PatchReport {
    /// Whether all of it was written. If not, nothing was.
    applied: bool,
    /// The files that were written or removed.
    paths: Vec<String>,
    /// Why it was refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub(crate) fn patched(applied: Result<PatchApplyResult, RpcError>) -> CallToolResult {
    let (paths, reason) = match applied {
        Ok(PatchApplyResult::Applied { paths }) => (paths.iter().map(ToString::to_string).collect(), None),
        Ok(PatchApplyResult::Refused(refusal)) => (Vec::new(), Some(refusal.reason)),
        Err(error) => return failed(&error),
    };
    let text = match &reason {
        None => format!("written: {}\n", paths.join(", ")),
        Some(reason) => format!("stockade: nothing was written; refused: {reason}\n"),
    };
    let is_error = reason.is_some();
    result(&PatchReport { applied: !is_error, paths, reason }, text, is_error)
}

/// The result of `request_permissions`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PermissionsReport {
    /// Whether they were granted.
    granted: bool,
    /// For how long: `session` or `once`.
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    /// Why they were refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

pub(crate) fn permitted(answered: Result<PermissionsRequestResult, RpcError>) -> CallToolResult {
    let (scope, reason) = match answered {
        Ok(PermissionsRequestResult::Granted { scope, .. }) => match scope {
            PermissionsScope::Session => (Some("session"), None),
            PermissionsScope::Once => (Some("once"), None),
        },
        Ok(PermissionsRequestResult::Refused(refusal)) => (None, Some(refusal.reason)),
        Err(error) => return failed(&error),
    };
    let text = match (scope, &reason) {
        (Some("session"), _) => String::from("granted for every further command of this session\n"),
        (Some(_), _) => String::from("granted for one command: the next call of `run` has them\n"),
        (None, reason) => format!("stockade: not granted: {}\n", reason.as_deref().unwrap_or_default()),
    };
    let is_error = reason.is_some();
    result(&PermissionsReport { granted: !is_error, scope: scope.map(String::from), reason }, text, is_error)
}

/// The result of `read_output`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OutputReport {
    /// Where this part begins, in bytes: later than was asked for where earlier output is not kept any more.
    offset: u64,
    /// Where the next part begins.
    next_offset: u64,
    /// How much was written in all.
    total_bytes: u64,
    /// Whether there is nothing behind this part, and nothing more comes.
    is_end: bool,
    /// This part.
    output: String,
}

pub(crate) fn read(part: Part) -> CallToolResult {
    let Part { offset, next_offset, total, is_finished, text } = part;
    let report = OutputReport {
        offset,
        next_offset,
        total_bytes: total,
        is_end: is_finished && next_offset == total,
        output: text.clone(),
    };
    let mut shown = text;
    if next_offset < total {
        shown
            .push_str(&format!("\n[{} of {total} bytes; go on with \"offset\":{next_offset}]\n", next_offset - offset));
    }
    result(&report, shown, false)
}

/// Adds a sentence to a result, for those who read its text and for those who read the rest.
pub(crate) fn add(result: &mut CallToolResult, sentence: &str) {
    let messages = result.structured_content.as_mut().and_then(|report| report.get_mut("messages"));
    if let Some(messages) = messages.and_then(serde_json::Value::as_array_mut) {
        messages.push(json!(sentence));
    }
    result.content.push(ContentBlock::text(format!("stockade: {sentence}\n")));
}

/// A call that can't be carried out.
pub(crate) fn refused(why: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(format!("stockade: {why}\n"))])
}

pub(crate) fn failed(error: &RpcError) -> CallToolResult {
    let causes = error.data.iter().flat_map(|data| &data.causes);
    refused(&causes.fold(error.message.clone(), |text, cause| format!("{text}: {cause}")))
}

fn result(report: &impl Serialize, text: String, is_error: bool) -> CallToolResult {
    let content = vec![ContentBlock::text(text)];
    let mut result = if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) };
    result.structured_content = serde_json::to_value(report).ok();
    result
}
