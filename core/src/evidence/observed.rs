//! The backend's observations: each act becomes a denial with its rule and the least amendment.

use std::io::Read as _;
use std::path::Path;

use stockade_protocol::{
    AbsPath, Access, Decision, DenyingRule, Destination, Evidence, FileRule, FileRules, FileTarget, Host, HostPattern,
    HostRule, NetworkProtocol, Operation, PermissionAmendment, Permissions, RawText, RuleSource, Violation,
    ViolationTarget,
};
use stockade_sandboxing::{
    CountedLimit, Coverage, DeniedAct, HostFiles as _, Observation, RealFiles, protect_repositories,
};

use super::beside::is_idle_look;
use super::files::{self, first_missing, is_tool_directory};
use super::hosts::{self, NamedHost};
use super::resources;
use super::{MOST_VIOLATIONS, Said};

/// The port of name servers.
const NAME_SERVER: u16 = 53;

/// The observations of an ended run.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The enforced permissions, as completed by the backend.
    pub(crate) permissions: Permissions,
    pub(crate) coverage: Coverage,
    pub(crate) observations: Vec<Observation>,
}

impl Seen {
    /// Whether a process was refused a unix socket.
    pub(super) fn refused_unix_socket(&self) -> bool {
        unix_socket(&self.observations).is_some()
    }
}

/// Files that programs write optionally, such as caches: they are not the cause of a failure. A name includes
/// everything below it. For histories see [`is_history`].
const OPTIONAL: &[&str] = &[
    ".wget-hsts",
    ".npm/_logs",
    ".npm/_update-notifier-last-checked",
    ".config/configstore",
    ".cache/fontconfig",
    ".cache/mesa_shader_cache",
    ".cache/mesa_shader_cache_db",
    "__pycache__",
];

/// Hidden files that programs keep between runs and do without: `.bash_history` and the like have a pattern of their own. The
/// last letter of two is replaced while they are written.
const HISTORIES: &[&str] = &["history", "histfile", "zhistory", "lesshst", "lesshsQ", "viminfo", "Xauthority"];

/// The same for files that are not hidden, in a directory for state.
const STATE_HISTORIES: &[&str] = &["lesshst", "lesshsQ", "fish_history"];

/// The denials of a run, in the order in which they happened. `granted` has the bounds on Stockade's own files, which the
/// permissions that a backend enforces have no more: there a mask may stand in the place of a bound. `said` are paths that the
/// output says could not be read.
pub(crate) fn violations(seen: &Seen, granted: &Permissions, command: &[RawText], said: &[AbsPath]) -> Vec<Violation> {
    let all = seen.observations.iter().filter(|observation| !is_search(observation, &seen.observations));
    let all = all.filter(|observation| !is_idle_look(observation, &seen.observations, command, said));
    let all = all.filter_map(|observation| violation(&seen.permissions, observation, command));
    all.map(|violation| within_bounds(violation, granted)).take(MOST_VIOLATIONS).collect()
}

/// The violation with the bound that denies the act whatever is granted, if there is one: no amendment lifts it.
pub(super) fn within_bounds(violation: Violation, granted: &Permissions) -> Violation {
    let ViolationTarget::Path(path) = &violation.target else { return violation };
    let wanted = if violation.operation == Operation::Write { Access::Write } else { Access::Read };
    match granted.files.bound(path, wanted) {
        Some(bound) => Violation { rule: Some(DenyingRule::File(bound.clone())), amendment: None, ..violation },
        None => violation,
    }
}

/// Whether a name was resolved only because the resolver appends its search domains to a name it did not find.
fn is_search(observation: &Observation, all: &[Observation]) -> bool {
    let name = |observation: &Observation| match &observation.act {
        DeniedAct::LookUp(host) => Some(host.to_string()),
        DeniedAct::Read(_)
        | DeniedAct::LookAt(_)
        | DeniedAct::Write(_)
        | DeniedAct::Create(_)
        | DeniedAct::MakeDirectory(_)
        | DeniedAct::Replace(_)
        | DeniedAct::Link { .. }
        | DeniedAct::Connect { .. }
        | DeniedAct::Call(_)
        | DeniedAct::UnixSocket
        | DeniedAct::Exceed(_) => None,
    };
    let Some(own) = name(observation) else { return false };
    all.iter().filter_map(name).any(|shorter| own.strip_prefix(&shorter).is_some_and(|rest| rest.starts_with('.')))
}

/// Whether a denial may be why a command failed: what programs do without is not, and neither is what the processes that tried
/// it are known to have done without. A debugger that ends well and says that it could not trace has not done without.
pub(crate) fn matters(
    violation: &Violation,
    seen: Option<&Seen>,
    Said { calls: said, beside }: &Said,
    command: &[RawText],
) -> bool {
    if said.contains(&violation.target) {
        return true;
    }
    if beside.contains(&violation.target) || is_housekeeping(violation, command) {
        return false;
    }
    let mut tries =
        seen.into_iter().flat_map(|seen| &seen.observations).filter(|seen| is_of(violation, seen)).peekable();
    if violation.evidence == Evidence::Observed && tries.peek().is_some() && tries.all(|seen| seen.is_handled) {
        return false;
    }
    let ViolationTarget::Path(path) = &violation.target else { return true };
    if violation.evidence != Evidence::Observed || violation.operation != Operation::Write {
        return true;
    }
    !is_optional(path)
}

/// Whether npm, which runs a script here, wanted this for itself: its logs, its settings, the news of its registry. It goes
/// on without, and ends as the script does.
fn is_housekeeping(violation: &Violation, command: &[RawText]) -> bool {
    const VERBS: &[&str] = &["test", "t", "tst", "start", "stop", "restart", "run", "run-script"];
    let is_of_npm = match &violation.target {
        ViolationTarget::Path(path) => matches!(path.components().last(), Some(b".npm" | b".npmrc")),
        ViolationTarget::Destination(to) => to.host.to_string() == "registry.npmjs.org",
        ViolationTarget::UnixSocket(_)
        | ViolationTarget::SystemCall(_)
        | ViolationTarget::Process(_)
        | ViolationTarget::Command(_)
        | ViolationTarget::Limit(_) => false,
    };
    let is_by_node = violation.program.as_ref().is_some_and(|program| program.as_bytes().ends_with(b"/node"));
    if !is_of_npm || !is_by_node {
        return false;
    }
    let words: Vec<String> = command.iter().map(RawText::to_string).collect();
    let mut words = words.iter().flat_map(|word| word.split([' ', ';', '&', '|', '\n', '(', ')']));
    let mut runs = Vec::new();
    while words.any(|word| word == "npm" || word.ends_with("/npm")) {
        runs.push(words.find(|word| !word.starts_with('-') && !word.is_empty()));
    }
    !runs.is_empty() && runs.iter().all(|verb| verb.is_some_and(|verb| VERBS.contains(&verb)))
}

/// Whether writing this is optional for programs.
pub(crate) fn is_optional(path: &AbsPath) -> bool {
    let names: Vec<&[u8]> = path.components().collect();
    let is_listed = OPTIONAL.iter().any(|optional| {
        let wanted: Vec<&[u8]> = optional.split('/').map(str::as_bytes).collect();
        names.windows(wanted.len()).any(|part| part == wanted.as_slice())
    });
    is_listed || names.last().is_some_and(|name| is_history(name))
}

/// Whether a file is a history, or one of the temporary, lock and backup files that are made in its place:
/// `.bash_history-4711.tmp`, `.zsh_history.LOCK`, `.Xauthority-c`, `.viminfz.tmp`.
fn is_history(name: &[u8]) -> bool {
    let (hidden, name) = name.strip_prefix(b".").map_or((false, name), |name| (true, name));
    let length = name.iter().take_while(|c| c.is_ascii_alphanumeric() || **c == b'_').count();
    let stem = name.get(..length).unwrap_or_default();
    let is_in = |list: &[&str]| list.iter().any(|known| known.as_bytes() == stem);
    let is_spare_viminfo = stem.len() == b"viminfo".len() && stem.starts_with(b"viminf");
    is_in(STATE_HISTORIES) || hidden && (stem.ends_with(b"_history") || is_in(HISTORIES) || is_spare_viminfo)
}

/// Whether a denial belongs to the observation.
fn is_of(violation: &Violation, seen: &Observation) -> bool {
    match (&seen.act, &violation.target) {
        (DeniedAct::Read(path) | DeniedAct::LookAt(path), ViolationTarget::Path(target)) => {
            violation.operation == Operation::Read && path == target
        }
        (
            DeniedAct::Write(path)
            | DeniedAct::Create(path)
            | DeniedAct::MakeDirectory(path)
            | DeniedAct::Replace(path)
            | DeniedAct::Link { path, .. },
            ViolationTarget::Path(target),
        ) => violation.operation == Operation::Write && path == target,
        (DeniedAct::LookUp(host), ViolationTarget::Destination(target)) => *host == target.host,
        (DeniedAct::Connect { host, port, .. }, ViolationTarget::Destination(target)) => {
            *host == target.host && *port == target.port
        }
        (DeniedAct::Call(name), ViolationTarget::SystemCall(target)) => name == target,
        (DeniedAct::Exceed(limit), ViolationTarget::Limit(target)) => limit.field() == target,
        _ => false,
    }
}

/// Whether a guess from the output is about an act that would have been observed.
pub(crate) fn would_be_seen(Seen { coverage, permissions, observations }: &Seen, guessed: &Violation) -> bool {
    match (guessed.operation, &guessed.target) {
        (Operation::Write, ViolationTarget::Path(_)) => coverage.writes,
        (Operation::Read, ViolationTarget::Path(path)) => {
            coverage.denied_reads && permissions.access(path) == Access::None
        }
        (Operation::Connect, ViolationTarget::Destination(Destination { host: Host::Address(_), .. })) => {
            coverage.connections
        }
        // An observed name needs no guess. Some resolvers are not understood, but none does without a socket: where there
        // was none, the output repeats what another program said.
        (Operation::Connect, ViolationTarget::Destination(Destination { host, .. })) => {
            let is_known = |seen: &Observation| matches!(&seen.act, DeniedAct::LookUp(known) if known == host);
            // Refused unix sockets are noted with the other refused calls.
            let sees_all = coverage.connections && !coverage.calls.is_empty();
            observations.iter().any(is_known) || (sees_all && !observations.iter().any(has_socket))
        }
        (Operation::SystemCall, ViolationTarget::SystemCall(name)) => coverage.calls.contains(&name.as_str()),
        (Operation::Exceed, ViolationTarget::Limit(field)) => {
            let limits = [(CountedLimit::Memory, coverage.memory), (CountedLimit::Processes, coverage.processes)];
            limits.iter().any(|(limit, is_counted)| *is_counted && limit.field() == field)
        }
        _ => false,
    }
}

/// Whether an act was tried by a socket.
fn has_socket(observation: &Observation) -> bool {
    matches!(observation.act, DeniedAct::LookUp(_) | DeniedAct::Connect { .. } | DeniedAct::UnixSocket)
}

/// The first process that was refused a unix socket.
fn unix_socket(observations: &[Observation]) -> Option<&Observation> {
    observations.iter().find(|seen| seen.act == DeniedAct::UnixSocket)
}

/// A guess with what was seen of it: that a unix socket was refused is a fact, and what it was for is a guess.
pub(crate) fn with_process(seen: &Seen, guess: Violation) -> Violation {
    let Some(Observation { pid, program, .. }) = unix_socket(&seen.observations).cloned() else { return guess };
    match &guess.target {
        ViolationTarget::SystemCall(name) if name == "socket" => {
            Violation { evidence: Evidence::Observed, pid, program, ..guess }
        }
        ViolationTarget::UnixSocket(_) => Violation { pid, program, ..guess },
        ViolationTarget::SystemCall(_)
        | ViolationTarget::Path(_)
        | ViolationTarget::Destination(_)
        | ViolationTarget::Process(_)
        | ViolationTarget::Command(_)
        | ViolationTarget::Limit(_) => guess,
    }
}

fn violation(permissions: &Permissions, observation: &Observation, command: &[RawText]) -> Option<Violation> {
    let Observation { pid, program, act, .. } = observation.clone();
    if let DeniedAct::LookUp(host) = act {
        // The purpose of the connection is known from the command, if at all.
        let found = hosts::violation(permissions, Some(NamedHost { host, port: None }), command)?;
        return Some(Violation { evidence: Evidence::Observed, pid, program, ..found });
    }
    if let DeniedAct::Connect { protocol: NetworkProtocol::Udp, port: NAME_SERVER, .. } = act
        // Resolvers with queries of their own, such as Go's, do not show the name. The command may have only one host.
        && let Some(found) = hosts::violation(permissions, None, command)
    {
        return Some(Violation { evidence: Evidence::Observed, pid, program, ..found });
    }
    let (operation, target, rule, amendment) = match &act {
        // What a unix socket was for is told by the command's words, if at all.
        DeniedAct::LookUp(_) | DeniedAct::UnixSocket => return None,
        DeniedAct::Call(name) => {
            let target = ViolationTarget::SystemCall((*name).to_owned());
            (Operation::SystemCall, target, resources::layer(resources::REFUSED_CALL), None)
        }
        DeniedAct::Exceed(limit) => {
            let target = ViolationTarget::Limit(limit.field().to_owned());
            (Operation::Exceed, target, resources::layer(resources::LIMIT_REACHED), None)
        }
        DeniedAct::Connect { host, protocol, port } => {
            let destination = Destination { host: host.clone(), protocol: *protocol, port: *port };
            let rule = HostRule {
                host: HostPattern::Exact(host.clone()),
                protocol: None,
                port: Some(*port),
                decision: Decision::Allow,
            };
            // Access to a name server is useless: the sandbox answers names.
            let is_of_names = *protocol == NetworkProtocol::Udp && *port == NAME_SERVER;
            let amendment = (!is_of_names).then_some(PermissionAmendment::Network(rule));
            (Operation::Connect, ViolationTarget::Destination(destination), DenyingRule::NotGranted, amendment)
        }
        DeniedAct::Read(path) | DeniedAct::LookAt(path) => on_file(permissions, path, Access::Read, path.clone()),
        DeniedAct::Write(path) if is_device(path) => {
            (Operation::Write, ViolationTarget::Path(path.clone()), resources::layer(files::OWN_DEVICES), None)
        }
        DeniedAct::Write(path) => on_file(permissions, path, Access::Write, written(path)?),
        DeniedAct::Create(path) | DeniedAct::Replace(path) => {
            let found = on_file(permissions, path, Access::Write, path.parent()?);
            if helps(permissions, observation) { found } else { (found.0, found.1, found.2, None) }
        }
        DeniedAct::Link { from, path } => {
            let directory = path.parent()?;
            let found = on_file(permissions, path, Access::Write, directory.clone());
            // No file has names in two mounts, and what is granted is a mount.
            if from.starts_with(&directory) { found } else { (found.0, found.1, found.2, None) }
        }
        DeniedAct::MakeDirectory(path) => {
            let made = first_missing(path).filter(|_| is_tool_directory(path));
            on_file(permissions, path, Access::Write, made.or_else(|| path.parent())?)
        }
    };
    // A counter of the kernel's names no process.
    let is_counted = matches!(act, DeniedAct::Exceed(_)) && pid.is_none();
    let evidence = if is_counted { Evidence::Reported } else { Evidence::Observed };
    Some(Violation { operation, target, evidence, pid, program, rule: Some(rule), amendment })
}

fn is_device(path: &AbsPath) -> bool {
    path.components().next() == Some(b"dev".as_slice())
}

/// Programs that remove and move files.
const REMOVERS: &[&[u8]] = &[b"rm", b"rmdir", b"mv", b"unlink", b"shred", b"find"];

/// Whether a grant would help to create, remove or replace a name. A name with a rule can't be moved, granted or not, nor
/// one above a name that stays denied; and removal of a repository's metadata is not helped.
fn helps(permissions: &Permissions, observation: &Observation) -> bool {
    let (DeniedAct::Create(path) | DeniedAct::Replace(path)) = &observation.act else { return true };
    let is_held = permissions.files.iter().any(|rule| matches!(&rule.target, FileTarget::Path(held) if held == path));
    let deciding = permissions.files.deciding(path);
    let is_metadata = deciding.is_some_and(|rule| rule.source == RuleSource::ProtectedMetadata);
    let removes = observation.program.as_ref().is_some_and(|program| {
        let name = program.as_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        REMOVERS.contains(&name)
    });
    let is_destroyed = is_metadata && removes && matches!(observation.act, DeniedAct::Replace(_));
    let stays = |rule: &FileRule| {
        rule.access < Access::Write
            && matches!(&rule.target, FileTarget::Path(held) if held != path && held.starts_with(path))
    };
    let is_above = matches!(observation.act, DeniedAct::Replace(_)) && permissions.files.iter().any(stays);
    !is_held && !is_destroyed && !is_above
}

fn on_file(
    permissions: &Permissions,
    path: &AbsPath,
    wanted: Access,
    nearest: AbsPath,
) -> (Operation, ViolationTarget, DenyingRule, Option<PermissionAmendment>) {
    let operation = if wanted == Access::Write { Operation::Write } else { Operation::Read };
    let rule = permissions.files.deciding(path);
    let amendment = if rule.is_some_and(|rule| rule.is_hard_denial() || rule.is_bound()) {
        None
    } else {
        least(permissions, path, wanted, nearest).map(PermissionAmendment::File)
    };
    let denied_by = rule.map_or(DenyingRule::NotGranted, |rule| DenyingRule::File(rule.clone()));
    (operation, ViolationTarget::Path(path.clone()), denied_by, amendment)
}

/// The path that has to be writable to write an existing file: the file, or its directory for an SQLite database,
/// which has a journal beside it.
fn written(path: &AbsPath) -> Option<AbsPath> {
    let host_path = path.to_host_path()?;
    if host_path.is_dir() || !is_database(&host_path) { Some(path.clone()) } else { path.parent() }
}

pub(super) fn is_database(path: &Path) -> bool {
    const MAGIC: &[u8; 16] = b"SQLite format 3\0";
    let is_file = path.metadata().is_ok_and(|found| found.is_file());
    let mut head = [0; MAGIC.len()];
    is_file && std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *MAGIC
}

/// The least sensible rule that would allow it: for the metadata of a repository all of it, since no git command
/// writes only one of its files.
fn least(permissions: &Permissions, path: &AbsPath, wanted: Access, nearest: AbsPath) -> Option<FileRule> {
    let rule =
        |target: AbsPath| FileRule { target: FileTarget::Path(target), access: wanted, source: RuleSource::Approval };
    let deciding = permissions.files.deciding(path);
    let protected = deciding.filter(|rule| rule.source == RuleSource::ProtectedMetadata);
    let protected = protected.and_then(|rule| match &rule.target {
        FileTarget::Path(name) => Some(name.clone()),
        FileTarget::Glob(_) => None,
    });
    let masked = deciding.filter(|rule| rule.source == RuleSource::CredentialMask);
    let masked = masked.and_then(|rule| match &rule.target {
        FileTarget::Path(name) => Some(name.clone()),
        FileTarget::Glob(_) => None,
    });
    let metadata = path.ancestors().skip(1).find(|above| above.components().last() == Some(b".git".as_slice()));
    let candidates = if wanted == Access::Write {
        [protected, metadata, Some(nearest), masked]
    } else {
        [Some(nearest), masked, None, None]
    };
    // Never a whole file system, which is too much for one file.
    let candidates = candidates.into_iter().flatten().filter(|target| target.parent().is_some());
    candidates.map(rule).find(|rule| suffices(permissions, rule, path))
}

/// Whether this rule would allow the access, with the backend's own protections in place.
fn suffices(permissions: &Permissions, amendment: &FileRule, path: &AbsPath) -> bool {
    let Ok(files) = FileRules::new([amendment.clone()]) else { return false };
    let more = Permissions { files, ..Permissions::default() };
    let merged = permissions.merge(&more);
    if merged.access(path) < amendment.access {
        return false;
    }
    // A rule for a missing directory says nothing about its future contents.
    let FileTarget::Path(target) = &amendment.target else { return false };
    RealFiles.kind(target).is_none()
        || protect_repositories(&merged).is_ok_and(|completed| completed.access(path) >= amendment.access)
}

#[cfg(test)]
#[path = "observed_tests.rs"]
mod tests;
