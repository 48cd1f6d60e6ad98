//! Parses error messages for failed accesses.

use stockade_protocol::AbsPath;

use super::files::Attempt;
use super::hosts::{self, NamedHost};
use super::paths::paths;

/// A failed access according to an error message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A file.
    File { path: AbsPath, attempt: Attempt },
    /// A host, which the message may not name.
    Host { named: Option<NamedHost> },
    /// A system call.
    Call { name: &'static str },
    /// A kind of socket.
    Socket,
    /// A process.
    Process { number: u32 },
    /// A limit, by its field.
    Limit { field: &'static str },
}

/// Limit on lines: a failing command says why near its end.
const MOST_LINES: usize = 200;
/// A longer line is data, not a message.
const LONGEST_LINE: usize = 2000;

/// Messages about files, in lower case: `strerror`'s texts and the names that some runtimes print instead.
const FILE_WORDS: &[(&str, Attempt)] = &[
    ("read-only file system", Attempt::Write),
    ("erofs", Attempt::Write),
    ("permission denied", Attempt::Unclear),
    ("operation not permitted", Attempt::Unclear),
    ("eacces", Attempt::Unclear),
    ("eperm", Attempt::Unclear),
    ("no such file or directory", Attempt::Missing),
    ("enoent", Attempt::Missing),
    ("file exists", Attempt::Taken),
    ("eexist", Attempt::Taken),
];

/// Calls that fail in every sandbox, by their printed names. Not `clone`, which git prints.
const CALLS: &[&str] = &[
    "unshare",
    "setns",
    "ptrace",
    "mount",
    "umount",
    "pivot_root",
    "chroot",
    "bpf",
    "perf_event_open",
    "keyctl",
    "userfaultfd",
    "io_uring_setup",
];

/// Messages for a refused call.
const CALL_WORDS: &[&str] = &["operation not permitted", "eperm", "function not implemented", "enosys"];
/// Messages for a refused kind of socket.
const SOCKET_WORDS: &[&str] = &["address family not supported", "eafnosupport"];
/// Messages for an unreachable process.
const PROCESS_WORDS: &[&str] = &["no such process", "esrch", "operation not permitted", "eperm"];

/// Messages for an exhausted resource, and the limit that may be the cause.
const LIMIT_WORDS: &[(&str, &str)] = &[
    ("fork: resource temporarily unavailable", "processes"),
    ("fork: retry: resource temporarily unavailable", "processes"),
    ("cannot fork", "processes"),
    ("can't start new thread", "processes"),
    ("cannot allocate memory", "memory_bytes"),
    ("memoryerror", "memory_bytes"),
    ("out of memory", "memory_bytes"),
    ("too many open files", "open_files"),
    ("emfile", "open_files"),
    ("file too large", "file_size_bytes"),
    ("efbig", "file_size_bytes"),
];

/// Words that make an unclear denial one of writing, and tell what is written: the file, a new directory, or the
/// file's directory.
const WRITE_WORDS: &[(&str, Attempt)] = &[
    ("mkdir", Attempt::MakeDirectory),
    ("remove", Attempt::Replace),
    ("rename", Attempt::Replace),
    ("renameat", Attempt::Replace),
    ("unlink", Attempt::Replace),
    ("unlinkat", Attempt::Replace),
    ("move", Attempt::Replace),
    ("lock", Attempt::Replace),
    ("delete", Attempt::Replace),
    ("rmdir", Attempt::Replace),
    ("create", Attempt::Write),
    ("touch", Attempt::Write),
    ("write", Attempt::Write),
    ("writing", Attempt::Write),
    ("chmod", Attempt::Write),
];

/// Messages about hosts, in lower case.
pub(super) const HOST_WORDS: &[&str] = &[
    "could not resolve host",
    "unable to resolve host",
    "couldn't resolve host",
    "temporary failure in name resolution",
    "temporary failure resolving",
    "name or service not known",
    "no such host",
    "getaddrinfo",
    "eai_again",
    "network is unreachable",
    "enetunreach",
    "failed to connect to",
    "failed to lookup address",
    "dns error",
    "unknownhostexception",
];

/// The failed accesses in the last lines, the last first.
pub(crate) fn failures(text: &[u8], cwd: &AbsPath) -> Vec<Failure> {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().rev().take(MOST_LINES).filter(|line| line.len() <= LONGEST_LINE && !is_quoted(line));
    lines.flat_map(|line| failures_of(line, cwd)).collect()
}

/// Lines of a diff or a stack trace are not messages.
fn is_quoted(line: &str) -> bool {
    line.starts_with(['<', '>', '+', '-']) || line.trim_start().starts_with("at ")
}

fn failures_of(line: &str, cwd: &AbsPath) -> Vec<Failure> {
    let lower = line.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|words| lower.contains(words));
    let said = FILE_WORDS.iter().find_map(|(words, attempt)| Some((lower.find(words)?, *attempt)));
    if let Some((reason, attempt)) = said {
        let written = written(&lower);
        let attempt = match attempt {
            Attempt::Write | Attempt::Unclear => written.unwrap_or(attempt),
            other @ (Attempt::MakeDirectory | Attempt::Replace | Attempt::Missing | Attempt::Taken) => other,
        };
        let paths = paths(line, reason, attempt, cwd);
        if !paths.is_empty() {
            return paths.into_iter().map(|path| Failure::File { path, attempt }).collect();
        }
    }
    if says(HOST_WORDS) {
        return vec![Failure::Host { named: hosts::named(line) }];
    }
    if says(SOCKET_WORDS) {
        return vec![Failure::Socket];
    }
    if let Some((_, field)) = LIMIT_WORDS.iter().find(|(words, _)| lower.contains(words)) {
        return vec![Failure::Limit { field }];
    }
    if let Some(number) = process(&lower).filter(|_| says(PROCESS_WORDS)) {
        return vec![Failure::Process { number }];
    }
    call(&lower).filter(|_| says(CALL_WORDS)).map(|name| Failure::Call { name }).into_iter().collect()
}

/// The kind of write in a lower-case message. A path may contain any of the words.
fn written(lower: &str) -> Option<Attempt> {
    let words: Vec<&str> = lower
        .split(' ')
        .filter(|word| !word.contains(['/', '.']))
        .map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()))
        .collect();
    let makes_directory = words.windows(2).any(|pair| matches!(pair, ["create" | "creating", "directory" | "dir"]));
    if makes_directory {
        return Some(Attempt::MakeDirectory);
    }
    WRITE_WORDS.iter().find(|(word, _)| words.contains(word)).map(|(_, attempt)| *attempt)
}

/// The call in a lower-case message.
fn call(lower: &str) -> Option<&'static str> {
    let mut words = lower.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.find_map(|word| CALLS.iter().find(|call| **call == word)).copied()
}

/// The process that could not be signalled, in a lower-case message: `kill: (12) - No such process`.
fn process(lower: &str) -> Option<u32> {
    let mut words = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.find(|word| matches!(*word, "kill" | "pkill" | "killall"))?;
    words.find_map(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(line: &str) -> Vec<String> {
        let cwd = "/usr".parse().unwrap();
        failures(line.as_bytes(), &cwd)
            .into_iter()
            .map(|failure| match failure {
                Failure::File { path, attempt } => format!("{attempt:?} {path}"),
                Failure::Host { named: Some(NamedHost { host, port }) } => {
                    format!("{host}:{}", port.map_or(String::from("?"), |port| port.to_string()))
                }
                Failure::Host { named: None } => String::from("some host"),
                Failure::Call { name } => format!("{name}()"),
                Failure::Socket => String::from("socket"),
                Failure::Process { number } => format!("process {number}"),
                Failure::Limit { field } => format!("limit {field}"),
            })
            .collect()
    }

    #[test]
    fn messages_of_common_programs() {
        for (line, expected) in [
            ("sh: 1: cannot create /etc/x: Permission denied", "Write /etc/x"),
            ("sh: 1: cannot create /etc/x: Read-only file system", "Write /etc/x"),
            ("bash: line 1: /etc/x: Read-only file system", "Write /etc/x"),
            ("touch: cannot touch '/etc/x': Read-only file system", "Write /etc/x"),
            ("mkdir: cannot create directory ‘/opt/new’: Permission denied", "MakeDirectory /opt/new"),
            ("cat: /root/.ssh: Permission denied", "Unclear /root/.ssh"),
            ("cat: /etc/hidden: No such file or directory", "Missing /etc/hidden"),
            ("OSError: [Errno 30] Read-only file system: '/etc/x'", "Write /etc/x"),
            ("PermissionError: [Errno 13] Permission denied: '/etc/x'", "Unclear /etc/x"),
            ("Error: EACCES: permission denied, open '/etc/x'", "Unclear /etc/x"),
            ("open /etc/x: read-only file system", "Write /etc/x"),
            ("error: could not lock config file lib/config: Read-only file system", "Replace /usr/lib/config"),
            ("cat: a file: Permission denied", ""),
            ("cat: lib/locked/x: Permission denied", ""),
            ("sh: 1: cannot create lib/a file: Permission denied", "Write /usr/lib/a file"),
            ("cat: lib: Permission denied", "Unclear /usr/lib"),
            ("sh: 1: cannot create new: Read-only file system", "Write /usr/new"),
            ("cat: ../etc/hidden: Permission denied", "Unclear /etc/hidden"),
            ("git@example.com: Permission denied (publickey).", ""),
            ("curl: (6) Could not resolve host: example.com", "example.com:?"),
            (
                "curl: (7) Failed to connect to 10.0.0.1 port 8080 after 0 ms: Couldn't connect to server",
                "10.0.0.1:8080",
            ),
            (
                "fatal: unable to access 'http://example.com/a.git/': Could not resolve host: example.com",
                "example.com:80",
            ),
            ("dial tcp: lookup api.example.com: no such host", "api.example.com:?"),
            ("Error: getaddrinfo EAI_AGAIN registry.example.com", "registry.example.com:?"),
            ("mkdir: cannot create directory ‘/usr/.codex’: File exists", "Taken /usr/.codex"),
            ("mkdir: cannot create directory ‘.codex’: File exists", "Taken /usr/.codex"),
            ("mkdir: cannot create directory ‘.codex/a/b’: Read-only file system", "MakeDirectory /usr/.codex/a/b"),
            ("unshare: unshare failed: Operation not permitted", "unshare()"),
            ("strace: attach: ptrace(PTRACE_SEIZE, 1): Operation not permitted", "ptrace()"),
            ("OSError: [Errno 97] Address family not supported by protocol", "socket"),
            // A dotted word is a host only where hosts stand.
            ("socket.gaierror: [Errno -3] Temporary failure in name resolution", "some host"),
            ("    at GetAddrInfoReqWrap.onlookup [as oncomplete] (node:dns:109:26)", ""),
            ("urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>", "some host"),
            ("main.go:12: dial tcp: lookup api.example.com: no such host", "api.example.com:?"),
            ("java.net.UnknownHostException: api.example.com", "api.example.com:?"),
            ("ping: api.example.com: Temporary failure in name resolution", "api.example.com:?"),
            ("nc: getaddrinfo for host \"api.example.com\" port 80: Name or service not known", "api.example.com:80"),
            ("ssh: Could not resolve hostname git.example.com: Name or service not known", "git.example.com:?"),
            ("wget: unable to resolve host address ‘api.example.com’", "api.example.com:?"),
            ("tar (child): ../etc/b.tgz: Cannot open: Read-only file system", "Write /etc/b.tgz"),
            ("rm: cannot remove '/etc/hostname': Read-only file system", "Replace /etc/hostname"),
            ("Error: EROFS: read-only file system, mkdir '/opt/a/b'", "MakeDirectory /opt/a/b"),
            ("< cp: cannot create /etc/x: Read-only file system", ""),
            ("sh: 1: kill: No such process", ""),
            ("kill: (12) - No such process", "process 12"),
            ("sh: 1: Cannot fork", "limit processes"),
            ("MemoryError", "limit memory_bytes"),
            ("an amount: Operation not permitted", ""),
            ("fatal: could not clone it: Operation not permitted", ""),
            ("Permission denied", ""),
            ("everything is fine at /etc/x", ""),
        ] {
            assert_eq!(found(line).join(", "), expected, "{line}");
        }
    }

    #[test]
    fn the_last_line_comes_first_and_a_flood_is_not_read() {
        let flood = "cat: /etc/y: Permission denied\n".to_owned()
            + &"noise\n".repeat(MOST_LINES)
            + "cat: /etc/x: Permission denied\n";
        assert_eq!(found(&flood), ["Unclear /etc/x"]);
        let long = format!("cat: /etc/{}: Permission denied", "x".repeat(LONGEST_LINE));
        assert_eq!(found(&long), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn any_output_is_read_without_harm(text in proptest::collection::vec(any::<u8>(), 0..400), line in "\\PC{0,80}(permission denied|could not resolve host)\\PC{0,80}") {
            let cwd = "/usr".parse().unwrap();
            failures(&text, &cwd);
            failures(line.as_bytes(), &cwd);
        }
    }
}
