//! What rules give to one program that a command starts, beyond what its caller has.
//!
//! The start is matched as the same words would be in a line: by the bare name if that name, searched along the
//! session's own `PATH`, is this very file, and by its path otherwise.

use std::path::{Path, PathBuf};

use stockade_execpolicy::{Breadth, HostExecutables, Placement, Policy};
use stockade_protocol::{Argv, CommandRole, Decision, DecisionSource, ParsedLine, Permissions, RawText};
use stockade_sandboxing::{ProgramStart, StartCopy};
use stockade_shell_command::parse_argv;

use super::judge::base_name;
use crate::approvals::{Grant, ProgramExecution, granted_to_program};
use crate::session::Session;
use crate::writable_program::find;

/// What rules give to a start.
#[derive(Clone, Debug)]
pub(super) struct RuleGrant {
    /// Whether the rules allow the start, or ask before it.
    pub(super) decision: Decision,
    pub(super) execution: ProgramExecution,
    /// The profiles, by name; none for a run outside of the sandbox.
    pub(super) profiles: Vec<String>,
    /// Why profiles can't be given now.
    pub(super) unavailable: Vec<String>,
    /// The variables that it keeps from its caller.
    pub(super) variables: Vec<RawText>,
    /// The rules, by their positions.
    pub(super) rules: String,
    /// The start as a line.
    pub(super) line: ParsedLine,
}

impl RuleGrant {
    /// Of a start that no rule forbids; `None` if no rule gives it anything. A rule that asks gives after a yes.
    pub(super) fn of(policy: &Policy, session: &Session, start: &ProgramStart) -> Option<Self> {
        let words = start.forms.first()?;
        let program = words.first()?;
        let is_known_by_name = start.copy.as_ref().is_none_or(|copy| is_known_by_name(session, copy));
        let name = if is_known_by_name { base_name(program) } else { program.clone() };
        let argv = Argv::parse(std::iter::once(name).chain(words.iter().skip(1).cloned())).ok()?;
        let line = parse_argv(&argv);
        let evaluation = policy.evaluate(&line, HostExecutables::Resolve, |_| Decision::Allow);
        // What a wrapper or a shell goes on to start is judged when it does.
        let own = |part: &stockade_protocol::ParsedCommand| part.via.is_none() && part.role == CommandRole::Runs;
        let (judged, _) = evaluation.commands.iter().zip(&line.commands).find(|(_, part)| own(part))?;
        let decision = judged.decision;
        if decision == Decision::Forbidden {
            return None;
        }
        let rules: Vec<_> = judged.deciding().filter(|rule| rule.grants()).collect();
        let first = rules.first()?;
        let (mut profiles, mut execution) = (Vec::new(), ProgramExecution::Outside);
        let mut unavailable = Vec::new();
        if judged.placement(Placement::Inside) == Placement::Inside {
            profiles = judged.profiles().into_iter().map(str::to_owned).collect();
            unavailable = profiles.iter().filter_map(|name| session.unavailable_profiles.get(name).cloned()).collect();
            let granted = profiles.iter().filter_map(|name| session.profiles.get(name));
            let all = granted.cloned().reduce(|all, more| all.merge(&more));
            let all: Permissions = all.or_else(|| (!unavailable.is_empty()).then(Permissions::default))?;
            let is_exact = rules.iter().any(|rule| rule.breadth() == Breadth::Exact);
            execution = if is_exact { ProgramExecution::Exactly(all) } else { ProgramExecution::More(all) };
        }
        let mut places: Vec<String> = rules.iter().map(|rule| rule.origin().to_string()).collect();
        places.dedup();
        let variables = first.environment().iter().map(|name| RawText::from(name.as_str())).collect();
        Some(Self { decision, execution, profiles, unavailable, variables, rules: places.join(", "), line })
    }

    /// The grant, as a proof of the decision; or why there can't be one in this session.
    pub(super) fn grant(&self, session: &Session) -> Result<Grant, String> {
        granted_to_program(session, &self.execution, DecisionSource::Rule(self.rules.clone()))
    }

    /// What a yes does, in words.
    pub(super) fn promised(&self) -> String {
        match self.execution {
            ProgramExecution::Outside => String::from("runs it without the sandbox"),
            ProgramExecution::More(_) | ProgramExecution::Exactly(_) => {
                format!("gives this program {}, in a sandbox of its own", self.told())
            }
        }
    }

    /// What it gives, in words.
    pub(super) fn told(&self) -> String {
        let quoted: Vec<String> = self.profiles.iter().map(|name| format!("`{name}`")).collect();
        let profiles = if quoted.len() == 1 { "the profile" } else { "the profiles" };
        match self.execution {
            ProgramExecution::Outside => String::from("a place outside of the sandbox"),
            ProgramExecution::More(_) => format!("{profiles} {}", quoted.join(", ")),
            ProgramExecution::Exactly(_) => format!("exactly {profiles} {}", quoted.join(", ")),
        }
    }
}

/// Whether a program's bare name means it, in this session.
fn is_known_by_name(session: &Session, copy: &StartCopy) -> bool {
    let variables = session.permissions.environment.apply(session.environment.clone());
    let path = variables.get(&RawText::from("PATH")).and_then(RawText::to_os_string).unwrap_or_default();
    let name = base_name(copy.given.as_raw()).to_os_string();
    let found = name.and_then(|name| find(&name, &path, Path::new("/"))).and_then(|found| found.canonicalize().ok());
    found.is_some() && found == copy.program.to_host_path().and_then(|program: PathBuf| program.canonicalize().ok())
}
