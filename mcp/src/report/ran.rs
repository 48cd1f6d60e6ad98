//! The result of `run`.

use rmcp::model::CallToolResult;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use stockade_protocol::{
    Access, FileTarget, NetworkProtocol, Operation, Outcome, PermissionAmendment, Violation, ViolationTarget,
};
use stockade_server::wire::{CommandRunResult, ProgramProblem, RpcError};

use super::{result, with_causes};
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
    /// What it wrote, standard output and standard error as they were read; the beginning and the end of it if
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
    if !is_whole {
        // Clients shorten long results themselves, mostly in the middle.
        let handle = &around.output.handle;
        messages.push(format!("output was left out: `read_output` with {{\"handle\":\"{handle}\"}} has all of it"));
    }
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
        ViolationTarget::Command(command) => command.to_string(),
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
                Some(NetworkProtocol::Udp) => "/udp",
                _ => "",
            };
            let host = format!("{}{port}{suffix}", rule.host.bracketed());
            Some(AskWith { hosts: vec![host], ..AskWith::default() })
        }
        PermissionAmendment::UnixSocket(_) => None,
    }
}

fn not_started(error: &RpcError) -> CallToolResult {
    let message = with_causes(error);
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
