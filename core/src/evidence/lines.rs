//! Reading error messages: which of them say that a file or a host was out of reach, and which one.

use std::path::Path;

use stockade_protocol::{AbsPath, Host, RawText};
use stockade_sandboxing::absolute;

use super::Attempt;

/// Something that an error message says was out of reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// A file.
    File { path: AbsPath, attempt: Attempt },
    /// A host, with the port where that is said.
    Host { host: Host, port: Option<u16> },
    /// A system call.
    Call { name: &'static str },
}

/// A command that fails says why near its end.
const MOST_LINES: usize = 200;
/// A longer line is data, not a message.
const LONGEST_LINE: usize = 2000;

/// What an error message says of a file, in lower case: `strerror`'s words and the names that some
/// runtimes print in their place.
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

/// Calls that fail in every sandbox, by the names that programs print. Not `clone`, which is a word of git's.
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

/// What programs print when a call is refused.
const CALL_WORDS: &[&str] = &["operation not permitted", "eperm", "function not implemented", "enosys"];
/// What they print when a kind of socket is.
const SOCKET_WORDS: &[&str] = &["address family not supported", "eafnosupport"];

/// Words that make an unclear denial one of writing.
const WRITE_WORDS: &[&str] =
    &["create", "touch", "remove", "write", "writing", "mkdir", "rename", "unlink", "move", "lock", "chmod", "delete"];

/// What an error message says of a host, in lower case.
const HOST_WORDS: &[&str] = &[
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
];

/// Everything that the last lines say was out of reach, the last first.
pub(crate) fn failures(text: &[u8], cwd: &AbsPath) -> Vec<Failure> {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().rev().take(MOST_LINES).filter(|line| line.len() <= LONGEST_LINE);
    lines.flat_map(|line| failures_of(line, cwd)).collect()
}

fn failures_of(line: &str, cwd: &AbsPath) -> Vec<Failure> {
    let lower = line.to_lowercase();
    let said = FILE_WORDS.iter().find_map(|(words, attempt)| Some((lower.find(words)?, *attempt)));
    if let Some((reason, attempt)) = said {
        let writes = WRITE_WORDS.iter().any(|word| lower.contains(word));
        let attempt = if writes && attempt == Attempt::Unclear { Attempt::Write } else { attempt };
        let paths = paths(line, reason, attempt, cwd);
        if !paths.is_empty() {
            return paths.into_iter().map(|path| Failure::File { path, attempt }).collect();
        }
    }
    if HOST_WORDS.iter().any(|words| lower.contains(words)) {
        return destination(line).into_iter().collect();
    }
    call(&lower).map(|name| Failure::Call { name }).into_iter().collect()
}

/// The call that a message in lower case says was refused.
fn call(lower: &str) -> Option<&'static str> {
    let says = |words: &[&str]| words.iter().any(|words| lower.contains(words));
    if says(SOCKET_WORDS) {
        return Some("socket");
    }
    let mut words = lower.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.find_map(|word| CALLS.iter().find(|call| **call == word)).filter(|_| says(CALL_WORDS)).copied()
}

/// The paths that a message names: what stands in quotes, else what stands before the reason.
fn paths(line: &str, reason: usize, attempt: Attempt, cwd: &AbsPath) -> Vec<AbsPath> {
    let in_quotes = quoted(line);
    let candidates = if in_quotes.is_empty() { before(line, reason) } else { in_quotes };
    let mut found: Vec<AbsPath> = Vec::new();
    for path in candidates.into_iter().filter_map(|text| to_path(text, attempt, cwd)) {
        if !found.contains(&path) {
            found.push(path);
        }
    }
    found
}

fn quoted(line: &str) -> Vec<&str> {
    const PAIRS: [(char, char); 5] = [('\'', '\''), ('"', '"'), ('‘', '’'), ('“', '”'), ('`', '`')];
    let mut found = Vec::new();
    let mut rest = line;
    while let Some((at, open)) = rest.char_indices().find(|(_, c)| PAIRS.iter().any(|(open, _)| open == c)) {
        let after = rest.get(at + open.len_utf8()..).unwrap_or_default();
        let close = PAIRS.iter().find(|(first, _)| *first == open).map_or(open, |(_, last)| *last);
        let Some((inside, behind)) = after.split_once(close) else { break };
        found.push(inside);
        rest = behind;
    }
    found
}

/// `sh: 1: cannot create /etc/x: Permission denied`: the piece before the reason, and its last word.
fn before(line: &str, reason: usize) -> Vec<&str> {
    let Some(piece) = line.get(..reason).and_then(|before| before.trim_end().strip_suffix(':')) else {
        return Vec::new();
    };
    let piece = piece.rsplit(": ").next().unwrap_or_default().trim();
    let last_word = piece.rsplit(' ').next().unwrap_or_default();
    // The whole of a piece may be a path with spaces in it.
    if piece == last_word { vec![piece] } else { vec![piece, last_word] }
}

fn to_path(text: &str, attempt: Attempt, cwd: &AbsPath) -> Option<AbsPath> {
    let text = text.trim();
    let sensible = !text.is_empty() && text.len() < 1024 && !text.contains("://") && !text.contains('\0');
    if !sensible {
        return None;
    }
    let absolute = absolute(cwd, Path::new(text)).ok()?;
    // A sentence is no path: something above it has to exist, and a bare word has to be a file itself,
    // unless it was to be made. What held a name that must not be made is gone by now, with all below it.
    let (path, parent) = (absolute.to_host_path()?, absolute.parent()?.to_host_path()?);
    let exists = |path: &AbsPath| path.to_host_path().is_some_and(|path| path.exists());
    let is_made = matches!(attempt, Attempt::Write | Attempt::Taken);
    let fits = match (text.contains('/'), is_made) {
        (false, false) => path.symlink_metadata().is_ok(),
        _ if path.exists() => true,
        (_, true) => {
            let below_something = absolute.ancestors().find(exists).is_some_and(|above| above.parent().is_some());
            !text.contains(' ') && (below_something || parent.exists())
        }
        (true, false) => !text.contains(' ') && parent.exists(),
    };
    fits.then_some(absolute)
}

/// The host that a message names, with its port where that is said.
fn destination(line: &str) -> Option<Failure> {
    let words: Vec<&str> = line.split([' ', '\'', '"', '(', ')', ',', ';', '`', '‘', '’']).collect();
    let (host, port) = words.iter().find_map(|word| host_word(word))?;
    // `Failed to connect to example.com port 8080`
    let said = words
        .iter()
        .skip_while(|word| **word != "port")
        .nth(1)
        .and_then(|word| word.trim_end_matches(':').parse().ok());
    Some(Failure::Host { host, port: port.or(said) })
}

/// The port of a host in the command itself, where a message does not name one.
pub(crate) fn port_in(command: &[RawText], host: &Host) -> Option<u16> {
    let found = command.iter().flat_map(|word| {
        let word = word.to_string();
        let words: Vec<String> = word.split([' ', '\'', '"', '=', '(', ')', ';']).map(str::to_owned).collect();
        words
    });
    found.filter_map(|word| host_word(&word)).find_map(|(named, port)| port.filter(|_| named == *host))
}

/// A word that is a host: it has a dot inside or is an address, and is no file.
fn host_word(word: &str) -> Option<(Host, Option<u16>)> {
    let (scheme, word) = word.split_once("://").unwrap_or(("", word));
    let word = word.split('/').next().unwrap_or_default().trim_end_matches([':', '.']);
    let (name, port) = match word.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') => (name, port.parse().ok()),
        Some(_) | None => (word, None),
    };
    let looks_like_one = name.contains('.') && !name.starts_with('.') && name.chars().any(char::is_alphanumeric);
    let host: Host = looks_like_one.then(|| name.parse().ok()).flatten()?;
    let usual = match scheme.to_lowercase().as_str() {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    Some((host, port.or(usual)))
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
                Failure::Host { host, port } => {
                    format!("{host}:{}", port.map_or(String::from("?"), |port| port.to_string()))
                }
                Failure::Call { name } => format!("{name}()"),
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
            ("mkdir: cannot create directory ‘/opt/new’: Permission denied", "Write /opt/new"),
            ("cat: /root/.ssh: Permission denied", "Unclear /root/.ssh"),
            ("cat: /etc/hidden: No such file or directory", "Missing /etc/hidden"),
            ("OSError: [Errno 30] Read-only file system: '/etc/x'", "Write /etc/x"),
            ("PermissionError: [Errno 13] Permission denied: '/etc/x'", "Unclear /etc/x"),
            ("Error: EACCES: permission denied, open '/etc/x'", "Unclear /etc/x"),
            ("open /etc/x: read-only file system", "Write /etc/x"),
            ("error: could not lock config file lib/config: Read-only file system", "Write /usr/lib/config"),
            ("cat: a file: Permission denied", ""),
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
            ("mkdir: cannot create directory ‘.codex/a/b’: Read-only file system", "Write /usr/.codex/a/b"),
            ("unshare: unshare failed: Operation not permitted", "unshare()"),
            ("strace: attach: ptrace(PTRACE_SEIZE, 1): Operation not permitted", "ptrace()"),
            ("OSError: [Errno 97] Address family not supported by protocol", "socket()"),
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
