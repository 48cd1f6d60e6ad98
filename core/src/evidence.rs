//! Why a command failed: whether the sandbox had a part in it, and how that is known.
//!
//! The kernel's word comes first: a signal that only a filter or a limit sends. Where there is none,
//! the last lines of the output are read. A line counts only if it names a path or a host, if it says
//! that access to it failed, *and* if the policy really denies it; `Permission denied` alone proves
//! nothing, and neither does a path that the policy grants. What is found in this way is marked
//! [`Evidence::Guessed`], since output can say anything. A command that ended well was denied nothing
//! that mattered to it, so its output is not read at all.

use stockade_protocol::{
    AbsPath, Access, Decision, DenyingRule, Destination, Evidence, FileRule, FileRules, FileTarget, Host, HostPattern,
    HostRule, NetworkPolicy, NetworkProtocol, Operation, PermissionAmendment, Permissions, RawText, ResourceLimits,
    RuleSource, Violation, ViolationTarget,
};
use stockade_sandboxing::{HostFiles as _, RealFiles, permits, protect_repositories};

use crate::exec::Ended;

mod lines;

pub(crate) use lines::Failure;

/// Signals that a filter or a limit sends, with the same numbers on every Linux but for MIPS.
const SIGXCPU: i32 = 24;
const SIGXFSZ: i32 = 25;
const SIGSYS: i32 = 31;

/// What a host is asked on, where neither the message nor the command says.
const HTTPS: u16 = 443;

/// More lines than that explain nothing.
const MOST_VIOLATIONS: usize = 20;

/// What is known of a run that ended.
pub(crate) struct Ending<'a> {
    pub(crate) ended: Ended,
    /// What the command wrote to standard error, or to its terminal.
    pub(crate) text: &'a [u8],
    pub(crate) command: &'a [RawText],
    pub(crate) cwd: &'a AbsPath,
    pub(crate) permissions: &'a Permissions,
}

/// What the sandbox denied, as far as it can be told.
pub(crate) fn violations(ending: &Ending<'_>) -> Vec<Violation> {
    match ending.ended {
        Ended::Exited(0) | Ended::Stopped => Vec::new(),
        Ended::Signaled(signal) => reported(signal, &ending.permissions.limits).into_iter().collect(),
        Ended::Exited(_) => guessed(ending),
    }
}

fn reported(signal: i32, limits: &ResourceLimits) -> Option<Violation> {
    let limit = |field: &str| (Operation::Exceed, ViolationTarget::Limit(field.to_owned()));
    let (operation, target) = match signal {
        SIGSYS => (Operation::SystemCall, ViolationTarget::SystemCall(String::from("unknown"))),
        SIGXCPU if limits.cpu_seconds.is_some() => limit("cpu_seconds"),
        SIGXFSZ if limits.file_size_bytes.is_some() => limit("file_size_bytes"),
        _ => return None,
    };
    let reason = match operation {
        Operation::SystemCall => "a system call that no sandboxed command may use",
        Operation::Read
        | Operation::Write
        | Operation::Execute
        | Operation::Connect
        | Operation::Listen
        | Operation::Process
        | Operation::Exceed => "the limit was reached",
    };
    let rule = Some(DenyingRule::Layer { reason: reason.to_owned() });
    Some(Violation { operation, target, evidence: Evidence::Reported, pid: None, program: None, rule, amendment: None })
}

fn guessed(ending: &Ending<'_>) -> Vec<Violation> {
    // The rules as a backend completes them. Where that fails nothing ran.
    let permissions = protect_repositories(ending.permissions).unwrap_or_else(|_| ending.permissions.clone());
    let mut found: Vec<Violation> = Vec::new();
    for failure in lines::failures(ending.text, ending.cwd) {
        let violation = match failure {
            // The name that was printed may lead elsewhere.
            Failure::File { path, attempt } => file_violation(&permissions, &path, attempt)
                .or_else(|| leads_to(&path).and_then(|path| file_violation(&permissions, &path, attempt))),
            Failure::Host { host, port } => {
                let port = port.or_else(|| lines::port_in(ending.command, &host)).unwrap_or(HTTPS);
                host_violation(&permissions, destination(host, port))
            }
            Failure::Call { name } => call_violation(&permissions, name),
        };
        let Some(violation) = violation else { continue };
        if !found.contains(&violation) && found.len() < MOST_VIOLATIONS {
            found.push(violation);
        }
    }
    found
}

/// What a line says was tried on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The file system is read-only, or the line speaks of creating, removing or writing.
    Write,
    /// Access was denied; to what end, the line does not say.
    Unclear,
    /// The file is not there.
    Missing,
    /// There is something of that name already.
    Taken,
}

/// Where a path leads by the links on its way, if that is another. A link to a directory is what was moved or
/// removed more often than what was written.
fn leads_to(path: &AbsPath) -> Option<AbsPath> {
    let real = |path: &AbsPath| AbsPath::from_path(&path.to_host_path()?.canonicalize().ok()?).ok();
    let (above, real) = path.ancestors().find_map(|above| real(&above).map(|real| (above, real)))?;
    let rest = path.components().skip(above.components().count());
    let found = rest.map(<[u8]>::to_vec).try_fold(real, |found, name| found.join(name)).ok()?;
    let is_directory = found.to_host_path().is_some_and(|found| found.is_dir());
    (found != *path && !is_directory).then_some(found)
}

fn file_violation(permissions: &Permissions, path: &AbsPath, attempt: Attempt) -> Option<Violation> {
    let granted = permissions.access(path);
    let operation = match (attempt, granted) {
        // The policy grants it, so the sandbox was not in the way.
        (_, Access::Write) | (Attempt::Missing, Access::Read | Access::Scratch) => return None,
        // A name that must not be made is taken while a command runs, and only then.
        (Attempt::Taken, Access::Read) if RealFiles.kind(path).is_none() => Operation::Write,
        (Attempt::Taken, Access::None | Access::Scratch | Access::Read) => return None,
        (Attempt::Write, Access::None | Access::Scratch | Access::Read) => Operation::Write,
        (Attempt::Unclear, Access::Read) if permits(path, Access::Write) => Operation::Write,
        (Attempt::Unclear, Access::Read | Access::Scratch) => return None,
        (Attempt::Unclear, Access::None) => Operation::Read,
        // What the sandbox hides looks missing from inside; what is missing outside too simply is.
        (Attempt::Missing, Access::None) if permits(path, Access::Read) => Operation::Read,
        (Attempt::Missing, Access::None) => return None,
    };
    let rule = permissions.files.deciding(path);
    let wanted = if operation == Operation::Write { Access::Write } else { Access::Read };
    let hard = rule.is_some_and(FileRule::is_hard_denial);
    // What the host would refuse as well, no permission can give.
    let amendment = (!hard && permits(path, wanted)).then(|| grantable(path, wanted)).flatten();
    let amendment = amendment.filter(|amendment| suffices(permissions, amendment, path));
    Some(Violation {
        operation,
        target: ViolationTarget::Path(path.clone()),
        evidence: Evidence::Guessed,
        pid: None,
        program: None,
        rule: Some(rule.map_or(DenyingRule::NotGranted, |rule| DenyingRule::File(rule.clone()))),
        amendment: amendment.map(PermissionAmendment::File),
    })
}

/// The least that can be granted: the path, or where it does not exist yet the directory it is to be
/// made in. A whole file system is more than anybody means to grant for one file.
fn grantable(path: &AbsPath, access: Access) -> Option<FileRule> {
    let exists = |path: &AbsPath| path.to_host_path().is_some_and(|path| path.exists());
    let target = path.ancestors().find(exists).filter(|target| target.parent().is_some())?;
    Some(FileRule { target: FileTarget::Path(target), access, source: RuleSource::Approval })
}

/// Whether a rule that is added decides over the path: one for a directory does not, where something below it
/// is protected.
fn suffices(permissions: &Permissions, amendment: &FileRule, path: &AbsPath) -> bool {
    let all = permissions.files.iter().cloned().chain([amendment.clone()]);
    FileRules::new(all).is_ok_and(|files| files.access(path) >= amendment.access)
}

fn call_violation(permissions: &Permissions, name: &str) -> Option<Violation> {
    let reason = match (name, &permissions.network) {
        // By host, somebody decides on each.
        ("socket", NetworkPolicy::Hosts(_)) => return None,
        ("socket", NetworkPolicy::Off | NetworkPolicy::Full) => {
            "only internet sockets are allowed; `--allow-socket PATH` grants a unix socket"
        }
        _ => "no sandboxed command may use it",
    };
    Some(Violation {
        operation: Operation::SystemCall,
        target: ViolationTarget::SystemCall(name.to_owned()),
        evidence: Evidence::Guessed,
        pid: None,
        program: None,
        rule: Some(DenyingRule::Layer { reason: reason.to_owned() }),
        amendment: None,
    })
}

fn destination(host: Host, port: u16) -> Destination {
    let protocol = match port {
        80 => NetworkProtocol::Http,
        HTTPS => NetworkProtocol::Https,
        _ => NetworkProtocol::Tcp,
    };
    Destination { host, protocol, port }
}

fn host_violation(permissions: &Permissions, destination: Destination) -> Option<Violation> {
    let decision = permissions.connect(&destination.host, destination.protocol, destination.port);
    if decision == Decision::Allow {
        return None;
    }
    let rule = match &permissions.network {
        NetworkPolicy::Hosts(hosts) => hosts
            .rules
            .iter()
            .filter(|rule| rule.matches(&destination.host, destination.protocol, destination.port))
            .max_by_key(|rule| rule.decision)
            .map_or(DenyingRule::NotGranted, |rule| DenyingRule::Network(rule.clone())),
        NetworkPolicy::Off | NetworkPolicy::Full => DenyingRule::NotGranted,
    };
    let forbidden = matches!(rule, DenyingRule::Network(HostRule { decision: Decision::Forbidden, .. }));
    let amendment = (!forbidden).then(|| {
        PermissionAmendment::Network(HostRule {
            host: HostPattern::Exact(destination.host.clone()),
            protocol: None,
            port: Some(destination.port),
            decision: Decision::Allow,
        })
    });
    Some(Violation {
        operation: Operation::Connect,
        target: ViolationTarget::Destination(destination),
        evidence: Evidence::Guessed,
        pid: None,
        program: None,
        rule: Some(rule),
        amendment,
    })
}
