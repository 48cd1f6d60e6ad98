//! Why a command failed: whether the sandbox had a part in it, and how that is known.
//!
//! What the backend has seen comes first: acts that the policy denies and the host would have allowed. Then the
//! kernel's word: a signal that only a filter or a limit sends. For what is not watched,
//! the last lines of the output are read. A line counts only if it names a path, a host or another thing
//! that the policy speaks of, if it says that access to it failed, *and* if the policy really denies it;
//! `Permission denied` alone proves nothing, and neither does a path that the policy grants. What this user
//! could not do without the sandbox either is no denial. What is found in this way is marked
//! [`Evidence::Guessed`], since output can say anything. A command that ended well was denied nothing
//! that mattered to it, so its output is not read at all; what was seen is told all the same.

use std::collections::BTreeMap;
use std::path::Path;

use stockade_protocol::{
    AbsPath, DenyingRule, Evidence, Operation, PermissionAmendment, Permissions, RawText, ResourceLimits, Violation,
    ViolationTarget,
};
use stockade_sandboxing::{absolute, protect_repositories};

use crate::exec::Ended;

mod files;
mod hosts;
mod lines;
mod observed;
mod paths;
mod resources;

pub(crate) use lines::Failure;
pub(crate) use observed::{Seen, is_optional, matters};

/// Signals that a filter or a limit sends, with the same numbers on every Linux but for MIPS.
const SIGXCPU: i32 = 24;
const SIGXFSZ: i32 = 25;
const SIGSYS: i32 = 31;

/// What a shell adds to the signal that has killed the program it started, to make a status of its own.
const SIGNALLED: i32 = 128;

/// More lines than that explain nothing.
const MOST_VIOLATIONS: usize = 20;

/// What is known of a run that ended.
pub(crate) struct Ending<'a> {
    pub(crate) ended: Ended,
    /// What the command wrote to standard error, or to its terminal.
    pub(crate) text: &'a [u8],
    pub(crate) command: &'a [RawText],
    pub(crate) environment: &'a BTreeMap<RawText, RawText>,
    pub(crate) cwd: &'a AbsPath,
    pub(crate) permissions: &'a Permissions,
    /// What the backend has seen; nothing where it does not watch.
    pub(crate) seen: Option<&'a Seen>,
}

/// What the sandbox denied, as far as it can be told: what was seen, and a guess only where nothing would have been.
pub(crate) fn violations(ending: &Ending<'_>) -> Vec<Violation> {
    let Some(seen) = ending.seen else { return unseen(ending) };
    let mut found = observed::violations(seen, ending.command);
    let is_unseen = |guess: &Violation| !observed::would_be_seen(seen, guess);
    found.extend(unseen(ending).into_iter().filter(is_unseen));
    found
}

/// What a signal or the output says.
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
    // The rules as a backend completes them. Where that fails nothing ran.
    let permissions = protect_repositories(ending.permissions).unwrap_or_else(|_| ending.permissions.clone());
    let mut found: Vec<Violation> = Vec::new();
    for failure in lines::failures(ending.text, &working_directory(ending)) {
        let violation = match failure {
            Failure::File { path, attempt } => files::violation(&permissions, &path, attempt),
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

/// The directory that relative names in messages start from: the one behind the only `-C` of a command such as
/// `git -C lib status`, else its own.
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

/// A denial that the output speaks of.
fn violation(
    operation: Operation,
    target: ViolationTarget,
    rule: DenyingRule,
    amendment: Option<PermissionAmendment>,
) -> Violation {
    Violation { operation, target, evidence: Evidence::Guessed, pid: None, program: None, rule: Some(rule), amendment }
}
