//! Prepares an event for storage: without secrets, and within the size of a record.

use std::collections::BTreeMap;

use serde_json::Value;
use stockade_protocol::{
    AbsPath, ApprovalSubject, Argv, AuditEvent, CommandApproval, DecisionSource, DenyingRule, EscalationExecution,
    ExecPolicyAmendment, FileChange, ParsedLine, Permissions, ProfileAmendment, RawText, ReviewDecision, Violation,
    ViolationTarget, WholeCommand, Word,
};

use super::{REDACTED, names, redact_argv, redact_raw, redact_text, redact_variable, shorten, words};

/// Limits on one text, and on all texts of an event.
const MAX_TEXT: usize = 4096;
const MAX_TEXTS: usize = 128 * 1024;
/// Limit on the entries of a list.
const MAX_ENTRIES: usize = 128;
/// The approximate overhead of a list entry in a record.
const WORD_COST: usize = 32;

/// The event without secrets. Long texts are truncated and marked.
pub fn redact_event(event: AuditEvent) -> AuditEvent {
    let mut scribe = Scribe { left: MAX_TEXTS };
    match event {
        AuditEvent::Requested { command, cwd, escalation, whole } => {
            let (command, shortened) = scribe.command(&command);
            let (cwd, escalation) = (scribe.path(&cwd), scribe.escalation(escalation));
            AuditEvent::Requested { command, cwd, escalation, whole: shortened.or(whole) }
        }
        AuditEvent::Decided { decision, source, reason, sandbox_warnings } => AuditEvent::Decided {
            decision,
            source: scribe.source(source),
            reason: reason.map(|reason| scribe.text(&reason)),
            sandbox_warnings: sandbox_warnings.iter().take(MAX_ENTRIES).map(|text| scribe.text(text)).collect(),
        },
        AuditEvent::Asked { subject } => AuditEvent::Asked { subject: scribe.subject(subject) },
        AuditEvent::Answered { decision, in_time, duration_ms } => {
            AuditEvent::Answered { decision: scribe.review(decision), in_time, duration_ms }
        }
        AuditEvent::Connected { destination, decision, source, times } => {
            AuditEvent::Connected { destination, decision, source: scribe.source(source), times }
        }
        AuditEvent::Refused(mut refusal) => {
            refusal.reason = scribe.text(&refusal.reason);
            AuditEvent::Refused(refusal)
        }
        AuditEvent::Ended { result, exit_code, duration_ms, enforcement, violations } => AuditEvent::Ended {
            result: scribe.text(&result),
            exit_code,
            duration_ms,
            enforcement,
            violations: scribe.violations(violations),
        },
        AuditEvent::ToolRequested { server, tool } => {
            AuditEvent::ToolRequested { server: redact_text(&server), tool: redact_text(&tool) }
        }
        AuditEvent::Failed { reason } => AuditEvent::Failed { reason: scribe.text(&reason) },
        AuditEvent::PermissionsRequested { permissions, justification } => AuditEvent::PermissionsRequested {
            permissions: Box::new(scribe.permissions(*permissions)),
            justification: justification.map(|text| scribe.text(&text)),
        },
        AuditEvent::PermissionsGranted { permissions, scope } => {
            AuditEvent::PermissionsGranted { permissions: Box::new(scribe.permissions(*permissions)), scope }
        }
        AuditEvent::SessionOpened { client, name, workspace, ask, sandbox } => AuditEvent::SessionOpened {
            client: scribe.text(&client),
            name: name.map(|name| scribe.text(&name)),
            workspace,
            ask,
            sandbox,
        },
        AuditEvent::SessionChanged { client, ask, sandbox } => {
            AuditEvent::SessionChanged { client: scribe.text(&client), ask, sandbox }
        }
        AuditEvent::SessionClosed { reason, commands } => {
            AuditEvent::SessionClosed { reason: scribe.text(&reason), commands }
        }
        called @ (AuditEvent::ToolCalled { .. } | AuditEvent::ToolApproved {}) => called,
        AuditEvent::ProgramJudged { command, whole, cwd, started_by, pid, decision, source, reason, execution } => {
            let (command, shortened) = scribe.program(&command);
            AuditEvent::ProgramJudged {
                command,
                whole: shortened.or(whole),
                cwd: scribe.path(&cwd),
                started_by: scribe.commands(&started_by),
                pid,
                decision,
                source: scribe.source(source),
                reason: reason.map(|reason| scribe.text(&reason)),
                execution: execution.map(|execution| scribe.escalation(execution)),
            }
        }
        AuditEvent::WrittenOutside { paths, calls } => AuditEvent::WrittenOutside {
            paths: paths.iter().take(MAX_ENTRIES).map(|path| scribe.path(path)).collect(),
            calls,
        },
        patch @ (AuditEvent::PatchRequested { .. } | AuditEvent::Patched { .. }) => patch,
        plain @ (AuditEvent::Unrecorded { .. } | AuditEvent::Repaired { .. }) => plain,
    }
}

/// Limit on a program that a command starts.
const PROGRAM_BYTES: usize = 4096;

/// Copies texts within the limit.
struct Scribe {
    left: usize,
}

impl Scribe {
    fn text(&mut self, text: &str) -> String {
        self.cut(redact_text(text).into()).as_str().map_or_else(|| REDACTED.to_owned(), str::to_owned)
    }

    fn raw(&mut self, text: &RawText) -> RawText {
        self.cut(redact_raw(text))
    }

    fn cut(&mut self, text: RawText) -> RawText {
        let room = text.as_bytes().len().min(MAX_TEXT).min(self.left);
        self.left -= room;
        shorten::text(text, room)
    }

    fn argv(&mut self, argv: &Argv) -> Argv {
        self.command(argv).0
    }

    fn commands(&mut self, commands: &[Argv]) -> Vec<Argv> {
        commands.iter().take(MAX_ENTRIES).map(|command| self.argv(command)).collect()
    }

    fn command(&mut self, argv: &Argv) -> (Argv, Option<WholeCommand>) {
        self.command_within(argv, self.left)
    }

    /// A program that a command starts. There may be many of them.
    fn program(&mut self, argv: &Argv) -> (Argv, Option<WholeCommand>) {
        self.command_within(argv, self.left.min(PROGRAM_BYTES))
    }

    fn command_within(&mut self, argv: &Argv, room: usize) -> (Argv, Option<WholeCommand>) {
        let (kept, whole) = shorten::command(redact_argv(argv), room);
        self.left = self.left.saturating_sub(kept.words().iter().map(|word| word.as_bytes().len()).sum());
        (kept, whole)
    }

    fn path(&mut self, path: &AbsPath) -> AbsPath {
        let redacted = redact_raw(path.as_raw());
        if redacted == *path.as_raw() {
            return path.clone();
        }
        AbsPath::parse(redacted).or_else(|_| AbsPath::parse(format!("/{REDACTED}"))).unwrap_or_else(|_| path.clone())
    }

    fn source(&mut self, source: DecisionSource) -> DecisionSource {
        match source {
            DecisionSource::Rule(rule) => DecisionSource::Rule(self.text(&rule)),
            plain @ (DecisionSource::Fallback
            | DecisionSource::ApprovalPolicy
            | DecisionSource::Reviewer
            | DecisionSource::SessionMemory
            | DecisionSource::External) => plain,
        }
    }

    fn escalation(&mut self, escalation: EscalationExecution) -> EscalationExecution {
        match escalation {
            EscalationExecution::Permissions(permissions) => {
                EscalationExecution::Permissions(Box::new(self.permissions(*permissions)))
            }
            plain @ (EscalationExecution::TurnDefault | EscalationExecution::Unsandboxed) => plain,
        }
    }

    fn permissions(&mut self, mut permissions: Permissions) -> Permissions {
        for (name, value) in &mut permissions.environment.set {
            let redacted = redact_variable(name.as_str(), value);
            *value = self.text(&redacted);
        }
        permissions
    }

    fn review(&mut self, decision: ReviewDecision) -> ReviewDecision {
        match decision {
            ReviewDecision::Denied { reason: Some(reason) } => {
                ReviewDecision::Denied { reason: Some(self.text(&reason)) }
            }
            ReviewDecision::ApprovedExecpolicyAmendment { proposed_execpolicy_amendment } => {
                let argv = self.argv(&proposed_execpolicy_amendment.0);
                ReviewDecision::ApprovedExecpolicyAmendment { proposed_execpolicy_amendment: ExecPolicyAmendment(argv) }
            }
            ReviewDecision::ApprovedProfileAmendment { proposed_profile_amendment } => {
                let proposed_profile_amendment = self.profile(proposed_profile_amendment);
                ReviewDecision::ApprovedProfileAmendment { proposed_profile_amendment }
            }
            plain @ (ReviewDecision::Approved
            | ReviewDecision::ApprovedForRun
            | ReviewDecision::ApprovedForSession
            | ReviewDecision::NetworkPolicyAmendment { .. }
            | ReviewDecision::Denied { reason: None }
            | ReviewDecision::DeniedForRun
            | ReviewDecision::TimedOut
            | ReviewDecision::Abort) => plain,
        }
    }

    fn profile(&mut self, profile: ProfileAmendment) -> ProfileAmendment {
        ProfileAmendment {
            file: profile.file,
            command: self.argv(&profile.command),
            workspace: profile.workspace.iter().map(|path| self.path(path)).collect(),
            write: profile.write.iter().map(|path| self.path(path)).collect(),
        }
    }

    fn subject(&mut self, subject: ApprovalSubject) -> ApprovalSubject {
        match subject {
            ApprovalSubject::Command(command) => ApprovalSubject::Command(Box::new(self.asked(*command))),
            ApprovalSubject::Patch(mut patch) => {
                patch.changes = patch.changes.into_iter().map(|change| self.change(change)).collect();
                ApprovalSubject::Patch(patch)
            }
            ApprovalSubject::Network(mut network) => {
                network.program = network.program.map(|program| self.raw(&program));
                ApprovalSubject::Network(network)
            }
            ApprovalSubject::Write(mut write) => {
                write.program = write.program.map(|program| self.raw(&program));
                write.paths = write.paths.iter().map(|path| self.path(path)).collect();
                write.directories = write.directories.iter().map(|path| self.path(path)).collect();
                write.proposed_profile_amendment =
                    write.proposed_profile_amendment.map(|profile| self.profile(profile));
                ApprovalSubject::Write(write)
            }
            ApprovalSubject::Permissions(mut asked) => {
                asked.permissions = self.permissions(asked.permissions);
                asked.justification = asked.justification.map(|text| self.text(&text));
                ApprovalSubject::Permissions(asked)
            }
            ApprovalSubject::ToolCall(mut call) => {
                call.arguments = self.members(call.arguments);
                ApprovalSubject::ToolCall(call)
            }
            ApprovalSubject::Elicitation(mut question) => {
                question.message = self.text(&question.message);
                question.requested_schema = question.requested_schema.map(|schema| self.members(schema));
                ApprovalSubject::Elicitation(question)
            }
        }
    }

    fn asked(&mut self, command: CommandApproval) -> CommandApproval {
        CommandApproval {
            command: self.argv(&command.command),
            cwd: self.path(&command.cwd),
            parsed: self.line(command.parsed),
            escalation: self.escalation(command.escalation),
            justification: command.justification.map(|text| self.text(&text)),
            violations: self.violations(command.violations),
            proposed_execpolicy_amendment: command
                .proposed_execpolicy_amendment
                .map(|amendment| ExecPolicyAmendment(self.argv(&amendment.0))),
            started_by: self.commands(&command.started_by),
        }
    }

    fn line(&mut self, mut line: ParsedLine) -> ParsedLine {
        keep_ends(&mut line.commands, MAX_ENTRIES);
        for command in &mut line.commands {
            let known: Vec<&[u8]> =
                command.words.iter().map(|word| word.known().map_or(&b"\0"[..], RawText::as_bytes)).collect();
            let redacted = words::redact(&known);
            for (word, redacted) in command.words.iter_mut().zip(redacted) {
                if let Word::Known(text) = word {
                    *text = RawText::from(redacted);
                }
            }
            let fits = self.left / (WORD_COST * 2);
            for words in [&mut command.words, &mut command.writes, &mut command.reads] {
                keep_ends(words, fits.min(8 * MAX_ENTRIES));
                self.left = self.left.saturating_sub(words.len() * WORD_COST);
            }
            for word in &mut command.words {
                if let Word::Known(text) = word {
                    *text = self.cut(text.clone());
                }
            }
            for word in command.writes.iter_mut().chain(&mut command.reads) {
                if let Word::Known(text) = word {
                    *text = self.raw(text);
                }
            }
        }
        line.opaque = line.opaque.map(|why| self.text(&why));
        line
    }

    fn change(&mut self, change: FileChange) -> FileChange {
        match change {
            FileChange::Add { path, content } => {
                FileChange::Add { path: self.path(&path), content: self.raw(&content) }
            }
            FileChange::Delete { path, content } => {
                FileChange::Delete { path: self.path(&path), content: self.raw(&content) }
            }
            FileChange::Update { path, unified_diff, move_path } => FileChange::Update {
                path: self.path(&path),
                unified_diff: self.raw(&unified_diff),
                move_path: move_path.map(|path| self.path(&path)),
            },
        }
    }

    fn violations(&mut self, violations: Vec<Violation>) -> Vec<Violation> {
        let mut kept: Vec<Violation> = violations.into_iter().take(MAX_ENTRIES).collect();
        let mut fits = |violation: &Violation| {
            let cost = match &violation.target {
                ViolationTarget::Path(path) | ViolationTarget::UnixSocket(path) => 3 * path.as_raw().as_bytes().len(),
                ViolationTarget::Destination(_)
                | ViolationTarget::SystemCall(_)
                | ViolationTarget::Limit(_)
                | ViolationTarget::Process(_)
                // Cut when it is redacted.
                | ViolationTarget::Command(_) => 0,
            };
            let left = self.left.checked_sub(cost + 4 * WORD_COST);
            self.left = left.unwrap_or_default();
            left.is_some()
        };
        let fitting = kept.iter().take_while(|violation| fits(violation)).count();
        kept.truncate(fitting);
        for violation in &mut kept {
            if let ViolationTarget::Path(path) | ViolationTarget::UnixSocket(path) = &mut violation.target {
                *path = self.path(path);
            }
            if let ViolationTarget::Command(command) = &mut violation.target {
                *command = self.argv(command);
            }
            violation.program = violation.program.as_ref().map(|program| self.raw(program));
            if let Some(DenyingRule::Layer { reason } | DenyingRule::Command { reason }) = &mut violation.rule {
                *reason = self.text(reason);
            }
        }
        kept
    }

    fn members(&mut self, members: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
        members.into_iter().map(|(name, value)| (name.clone(), self.member(&name, value))).collect()
    }

    /// A value of a JSON document, by its member name.
    fn member(&mut self, name: &str, value: Value) -> Value {
        match value {
            Value::String(_) | Value::Number(_) if names::is_secret(name.as_bytes()) => {
                Value::String(REDACTED.to_owned())
            }
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => Value::Array(items.into_iter().map(|item| self.member(name, item)).collect()),
            Value::Object(members) => Value::Object(
                members.into_iter().map(|(name, value)| (name.clone(), self.member(&name, value))).collect(),
            ),
            plain @ (Value::Null | Value::Bool(_) | Value::Number(_)) => plain,
        }
    }
}

/// Keeps the first and the last entries of a list.
fn keep_ends<T>(list: &mut Vec<T>, most: usize) {
    if list.len() > most {
        list.drain(most.div_ceil(2)..list.len() - most / 2);
    }
}
