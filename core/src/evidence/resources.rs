//! Resources other than files and hosts: system calls, unix sockets, processes, limits.

use std::path::Path;

use stockade_protocol::{
    AbsPath, DenyingRule, Operation, PermissionAmendment, Permissions, RawText, ResourceLimits, Violation,
    ViolationTarget,
};
use stockade_sandboxing::{absolute, is_administrator, permits, permits_signal};

use super::paths::is_of_the_process;
use super::{Ending, violation};

/// The reason of a denial by a limit.
pub(super) const LIMIT_REACHED: &str = "the limit was reached";

/// Limit on paths that are looked for in the output.
const MOST_NAMED: usize = 16;

/// What stands against a call that no policy allows.
pub(super) const REFUSED_CALL: &str = "no sandboxed command may use it";

/// Calls that the administrator alone may use, sandbox or not.
const ADMINISTRATORS: &[&str] = &["mount", "umount", "pivot_root", "chroot", "setns", "bpf"];

/// Variables that name the unix socket of a service.
const SOCKET_VARIABLES: &[&str] = &["SSH_AUTH_SOCK", "DOCKER_HOST", "DBUS_SESSION_BUS_ADDRESS"];

/// A system call that was refused.
pub(super) fn call(name: &str) -> Option<Violation> {
    if ADMINISTRATORS.contains(&name) && !is_administrator() {
        return None;
    }
    let target = ViolationTarget::SystemCall(name.to_owned());
    Some(violation(Operation::SystemCall, target, layer(REFUSED_CALL), None))
}

/// A refused kind of socket: a unix socket that the command or its environment names.
pub(super) fn socket(permissions: &Permissions, ending: &Ending<'_>) -> Option<Violation> {
    // If single sockets are granted, the supervisor reports the others.
    if !permissions.unix_sockets.is_empty() {
        return None;
    }
    // The observer sees every unix socket that is refused, so this was another kind (`AF_PACKET`, `AF_VSOCK`, …).
    let is_other_kind = ending.seen.is_some_and(|seen| !seen.coverage.calls.is_empty() && !seen.refused_unix_socket());
    if is_other_kind {
        let reason = layer("no policy allows this kind of socket: there are internet sockets and granted unix sockets");
        let target = ViolationTarget::SystemCall(String::from("socket"));
        return Some(violation(Operation::SystemCall, target, reason, None));
    }
    let Some(path) = named_socket(ending) else {
        // One that is not there can't be reached outside either.
        if names_missing_socket(ending) {
            return None;
        }
        let reason = layer("only internet sockets are allowed; `--allow-socket PATH` grants a unix socket");
        let target = ViolationTarget::SystemCall(String::from("socket"));
        return Some(violation(Operation::SystemCall, target, reason, None));
    };
    not_reached(path)
}

fn not_reached(path: AbsPath) -> Option<Violation> {
    permits(&path, stockade_protocol::Access::Write).then(|| {
        let amendment = PermissionAmendment::UnixSocket(path.clone());
        violation(Operation::Connect, ViolationTarget::UnixSocket(path), DenyingRule::NotGranted, Some(amendment))
    })
}

/// The unix socket in the words of a failed command: it can't have been reached.
pub(super) fn socket_in_words(permissions: &Permissions, ending: &Ending<'_>) -> Option<Violation> {
    let path = in_words(ending).filter(|_| permissions.unix_sockets.is_empty())?;
    not_reached(path)
}

fn in_words(ending: &Ending<'_>) -> Option<AbsPath> {
    let words = ending.command.iter().flat_map(pieces).collect::<Vec<_>>();
    words.iter().find_map(|word| existing_socket(ending.cwd, word))
}

/// Paths in lines of the output that speak of a socket: `connection to server on socket "/run/s" failed`.
fn in_output(ending: &Ending<'_>) -> Vec<String> {
    let text = String::from_utf8_lossy(ending.text);
    let lines = text.lines().filter(|line| line.to_lowercase().contains("socket"));
    let words = lines.flat_map(|line| pieces(&line.into()));
    let words = words.map(|word| word.trim_end_matches([':', '.']).to_owned());
    words.filter(|word| word.starts_with('/')).take(MOST_NAMED).collect()
}

/// Whether the command's words, or its output, name a unix socket that does not exist.
fn names_missing_socket(ending: &Ending<'_>) -> bool {
    let is_socket = |word: &String| word.ends_with(".sock") || word.ends_with(".socket");
    let named = ending.command.iter().flat_map(pieces).filter(is_socket);
    named.chain(in_output(ending)).any(|word| {
        let is_missing = |error: std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
        word.starts_with('/') && Path::new(&word).symlink_metadata().is_err_and(is_missing)
    })
}

/// The unix socket in the command's words, else that in its output, else the only one in its environment.
fn named_socket(ending: &Ending<'_>) -> Option<AbsPath> {
    let said = || in_output(ending).iter().find_map(|word| existing_socket(ending.cwd, word));
    in_words(ending).or_else(said).or_else(|| {
        let values = SOCKET_VARIABLES.iter().filter_map(|name| ending.environment.get(&RawText::from(*name)));
        let mut named: Vec<AbsPath> =
            values.flat_map(pieces).filter_map(|word| existing_socket(ending.cwd, &word)).collect();
        named.dedup();
        match named.as_slice() {
            [only] => Some(only.clone()),
            [] | [..] => None,
        }
    })
}

/// The parts of a word that may be a path: `SSH_AUTH_SOCK=/run/agent.sock`, `unix:///run/docker.sock`.
fn pieces(word: &RawText) -> Vec<String> {
    let word = word.to_string();
    let pieces = word.split([' ', '\'', '"', '=', ';', ',', '(', ')']);
    pieces.map(|piece| piece.trim_start_matches("unix://").trim_start_matches("unix:").to_owned()).collect()
}

fn existing_socket(cwd: &AbsPath, text: &str) -> Option<AbsPath> {
    if text.is_empty() {
        return None;
    }
    let path = absolute(cwd, Path::new(text)).ok()?;
    if is_of_the_process(&path) {
        return None;
    }
    is_socket(&path.to_host_path()?).then_some(path)
}

#[cfg(unix)]
fn is_socket(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    path.metadata().is_ok_and(|found| found.file_type().is_socket())
}

#[cfg(not(unix))]
fn is_socket(_: &Path) -> bool {
    false
}

/// A process outside that could not be signalled or traced.
pub(super) fn process(number: u32) -> Option<Violation> {
    let reason = layer("a sandboxed command reaches its own processes only");
    permits_signal(number).then(|| violation(Operation::Process, ViolationTarget::Process(number), reason, None))
}

/// A limit that was reached.
pub(super) fn limit(limits: &ResourceLimits, field: &str) -> Option<Violation> {
    let is_set = match field {
        "memory_bytes" => limits.memory_bytes.is_some(),
        "processes" => limits.processes.is_some(),
        "file_size_bytes" => limits.file_size_bytes.is_some(),
        "open_files" => limits.open_files.is_some(),
        _ => false,
    };
    let target = ViolationTarget::Limit(field.to_owned());
    is_set.then(|| violation(Operation::Exceed, target, layer(LIMIT_REACHED), None))
}

pub(super) fn layer(reason: &str) -> DenyingRule {
    DenyingRule::Layer { reason: reason.to_owned() }
}
