//! Evidence that the sandbox caused a command's failure.
//!
//! The backend's observations come first: acts that the policy denies and the host would have allowed. Then the
//! kernel's: a signal that only a filter or a limit sends. For unobserved acts the last lines of the output are read.
//! A line counts only if it names a path, a host or another object of the policy, if it says that access to it failed,
//! *and* if the policy really denies it; `Permission denied` alone proves nothing, and neither does a path that the
//! policy grants. A failure that this user would also have without the sandbox is not a denial. Such findings are
//! marked [`Evidence::Guessed`], since output can say anything. The output of a command that succeeded is not read;
//! observations are reported all the same.

use std::collections::BTreeMap;
use std::path::Path;

use stockade_protocol::{
    AbsPath, DenyingRule, Evidence, Operation, PermissionAmendment, Permissions, RawText, ResourceLimits, Violation,
    ViolationTarget,
};
use stockade_sandboxing::{absolute, protect_repositories};

use crate::exec::Ended;

mod beside;
mod files;
mod hosts;
mod lines;
mod observed;
mod paths;
mod resources;

pub(crate) use lines::Failure;
pub(crate) use observed::{Seen, is_optional, matters, violations as seen_violations};

/// Signals that a filter or a limit sends, with the same numbers on every Linux but for MIPS.
const SIGXCPU: i32 = 24;
const SIGXFSZ: i32 = 25;
const SIGSYS: i32 = 31;

/// The offset that a shell adds to the number of the signal that killed its child.
const SIGNALLED: i32 = 128;

/// Limit on violations; more explain nothing.
const MOST_VIOLATIONS: usize = 20;

/// The facts about an ended run.
pub(crate) struct Ending<'a> {
    pub(crate) ended: Ended,
    /// The command's standard error, or its terminal output.
    pub(crate) text: &'a [u8],
    pub(crate) command: &'a [RawText],
    pub(crate) environment: &'a BTreeMap<RawText, RawText>,
    pub(crate) cwd: &'a AbsPath,
    pub(crate) permissions: &'a Permissions,
    /// The backend's observations; `None` if it does not observe.
    pub(crate) seen: Option<&'a Seen>,
}

/// What was found.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) violations: Vec<Violation>,
    pub(crate) said: Said,
}

/// What the output says of denials that were seen.
#[derive(Default)]
pub(crate) struct Said {
    /// Refused calls of which it speaks as well.
    pub(crate) calls: Vec<ViolationTarget>,
    /// Denials that it shows to be beside the point.
    pub(crate) beside: Vec<ViolationTarget>,
}

/// What the sandbox denied, as far as it can be told: what was seen, and a guess only where nothing would have been.
pub(crate) fn violations(ending: &Ending<'_>) -> Found {
    let Some(seen) = ending.seen else { return Found { violations: unseen(ending), said: Said::default() } };
    let guesses = unseen(ending);
    let said_unread = guesses.iter().filter(|guess| guess.operation == Operation::Read).filter_map(path_of);
    let said_unread: Vec<AbsPath> = said_unread.cloned().collect();
    let mut violations = observed::violations(seen, ending.permissions, ending.command, &said_unread);
    let (known, unseen): (Vec<Violation>, Vec<Violation>) =
        guesses.into_iter().partition(|guess| observed::would_be_seen(seen, guess));
    let beside = violations.iter().filter(|found| beside::is_beside(found, ending.text, ending.command));
    let beside = beside.map(|found| found.target.clone()).collect();
    let calls = known.into_iter().filter(|guess| guess.operation == Operation::SystemCall).map(|guess| guess.target);
    violations.extend(unseen.into_iter().map(|guess| observed::with_process(seen, guess)));
    Found { violations, said: Said { calls: calls.collect(), beside } }
}

fn path_of(violation: &Violation) -> Option<&AbsPath> {
    match &violation.target {
        ViolationTarget::Path(path) => Some(path),
        ViolationTarget::Destination(_)
        | ViolationTarget::UnixSocket(_)
        | ViolationTarget::SystemCall(_)
        | ViolationTarget::Process(_)
        | ViolationTarget::Command(_)
        | ViolationTarget::Limit(_) => None,
    }
}

/// Denials inferred from a signal or the output.
fn unseen(ending: &Ending<'_>) -> Vec<Violation> {
    match ending.ended {
        Ended::Exited(0) | Ended::TimedOut | Ended::Cancelled => Vec::new(),
        Ended::Signaled(signal) => reported(signal, &ending.permissions.limits).into_iter().collect(),
        Ended::Exited(status) => {
            let mut found = guessed(ending);
            let killed = status.checked_sub(SIGNALLED).and_then(|signal| reported(signal, &ending.permissions.limits));
            let is_new = |killed: &Violation| !found.iter().any(|known| known.target == killed.target);
            let killed = killed.filter(|killed| killed.operation == Operation::Exceed && is_new(killed));
            found.extend(killed.map(|killed| Violation { evidence: Evidence::Guessed, ..killed }));
            found
        }
    }
}

fn reported(signal: i32, limits: &ResourceLimits) -> Option<Violation> {
    let (operation, target, reason) = match signal {
        SIGSYS => (
            Operation::SystemCall,
            ViolationTarget::SystemCall(String::from("unknown")),
            "a system call that no sandboxed command may use",
        ),
        SIGXCPU if limits.cpu_seconds.is_some() => {
            (Operation::Exceed, ViolationTarget::Limit(String::from("cpu_seconds")), resources::LIMIT_REACHED)
        }
        SIGXFSZ if limits.file_size_bytes.is_some() => {
            (Operation::Exceed, ViolationTarget::Limit(String::from("file_size_bytes")), resources::LIMIT_REACHED)
        }
        _ => return None,
    };
    let rule = DenyingRule::Layer { reason: reason.to_owned() };
    Some(Violation { evidence: Evidence::Reported, ..violation(operation, target, rule, None) })
}

fn guessed(ending: &Ending<'_>) -> Vec<Violation> {
    // The rules as a backend completes them. If that fails, nothing ran.
    let permissions = protect_repositories(ending.permissions).unwrap_or_else(|_| ending.permissions.clone());
    let mut found: Vec<Violation> = Vec::new();
    for failure in lines::failures(ending.text, &working_directory(ending)) {
        let violation = match failure {
            Failure::File { path, attempt } => {
                let by_policy = files::violation(&permissions, &path, attempt);
                // The target of a link that a glob denies is known to the backend alone.
                let by_backend = || files::violation(&ending.seen?.permissions, &path, attempt);
                by_policy.or_else(by_backend).map(|violation| observed::within_bounds(violation, ending.permissions))
            }
            Failure::Host { named } => hosts::violation(&permissions, named, ending.command),
            Failure::Call { name } => resources::call(name),
            Failure::Socket => resources::socket(&permissions, ending),
            Failure::Process { number } => resources::process(number),
            Failure::Limit { field } => resources::limit(&permissions.limits, field),
        };
        let Some(violation) = violation else { continue };
        if !found.contains(&violation) && found.len() < MOST_VIOLATIONS {
            found.push(violation);
        }
    }
    let socket = resources::socket_in_words(&permissions, ending);
    found.extend(socket.filter(|socket| !found.iter().any(|known| known.target == socket.target)));
    found
}

/// The base directory of relative names in messages: that of the only `-C` of a command such as `git -C lib status`,
/// else the working directory.
fn working_directory(ending: &Ending<'_>) -> AbsPath {
    let words: Vec<String> = ending
        .command
        .iter()
        .flat_map(|word| word.to_string().split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let named: Vec<&String> = words
        .iter()
        .zip(words.iter().skip(1))
        .filter(|(option, _)| *option == "-C")
        .map(|(_, directory)| directory)
        .collect();
    let directory = match named.as_slice() {
        [only] => absolute(ending.cwd, Path::new(only)).ok(),
        [] | [..] => None,
    };
    let is_there = |path: &AbsPath| path.to_host_path().is_some_and(|path| path.is_dir());
    directory.filter(is_there).unwrap_or_else(|| ending.cwd.clone())
}

/// A denial mentioned in the output.
fn violation(
    operation: Operation,
    target: ViolationTarget,
    rule: DenyingRule,
    amendment: Option<PermissionAmendment>,
) -> Violation {
    Violation { operation, target, evidence: Evidence::Guessed, pid: None, program: None, rule: Some(rule), amendment }
}
