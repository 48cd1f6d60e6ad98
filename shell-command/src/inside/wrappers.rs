//! Programs whose operand is another command line: `timeout 5 ls`.
//!
//! One row a program. A row lists the options that only affect how the command is started; with any other option the
//! wrapper is judged like an unknown program, the line is opaque, and the command is still listed.

use stockade_protocol::{CommandRole, Word};

use super::runners::{joined, text};
use super::{Inside, Started};

struct Wrapper {
    names: &'static [&'static str],
    kind: Kind,
    /// Short options without a value.
    flags: &'static str,
    /// Short options with a value, attached or in the next word.
    values: &'static str,
    /// Long options without a value, or with one after `=`.
    long: &'static [&'static str],
    /// Long options that take the next word if there is no `=`.
    long_values: &'static [&'static str],
    /// Short options with a value that change the started command or its environment: the line is opaque.
    odd_values: &'static str,
    /// Operands before the command.
    operands: usize,
    alone: Alone,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Starts the command with the same privileges, in the same environment.
    Same,
    /// As `Same`, with variables set by `NAME=value` operands.
    SameWithVariables,
    /// Starts it with other privileges, elsewhere, traced or later: judged itself.
    Other,
    /// As `Other`, with variables set by `NAME=value` operands.
    OtherWithVariables,
    /// As `Other`, with more words that are not in the line.
    Appends,
    /// As `Other`, with its words joined to a text for a shell.
    Joins,
}

/// The behaviour of a wrapper without a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Alone {
    /// It starts nothing.
    Nothing,
    /// It starts a shell that reads standard input.
    Shell,
}

const PLAIN: Wrapper = Wrapper {
    names: &[],
    kind: Kind::Same,
    flags: "",
    values: "",
    long: &[],
    long_values: &[],
    odd_values: "",
    operands: 0,
    alone: Alone::Nothing,
};

const OTHER: Wrapper = Wrapper { kind: Kind::Other, ..PLAIN };

/// Programs that start a shell if no command is given.
const SHELL: Wrapper = Wrapper { alone: Alone::Shell, ..OTHER };

/// Whether a program of this name is a wrapper.
pub(super) fn is_wrapper(name: &str) -> bool {
    WRAPPERS.iter().any(|wrapper| wrapper.names.contains(&name))
}

const WRAPPERS: &[Wrapper] = &[
    Wrapper {
        names: &["timeout", "gtimeout"],
        flags: "v",
        values: "ks",
        long: &["foreground", "preserve-status", "verbose"],
        long_values: &["kill-after", "signal"],
        operands: 1,
        ..PLAIN
    },
    Wrapper { names: &["nice"], flags: "0123456789", values: "n", long_values: &["adjustment"], ..PLAIN },
    Wrapper { names: &["nohup", "builtin"], ..PLAIN },
    Wrapper { names: &["setsid"], flags: "cfw", long: &["ctty", "fork", "wait"], ..PLAIN },
    Wrapper { names: &["stdbuf"], values: "ioe", long_values: &["input", "output", "error"], ..PLAIN },
    Wrapper {
        names: &["ionice"],
        flags: "t",
        values: "cn",
        long: &["ignore"],
        long_values: &["class", "classdata"],
        ..PLAIN
    },
    // With other policies newer versions take no priority.
    Wrapper { names: &["chrt"], flags: "fr", long: &["fifo", "rr"], operands: 1, ..PLAIN },
    Wrapper { names: &["taskset"], flags: "c", long: &["cpu-list"], operands: 1, ..PLAIN },
    Wrapper { names: &["time"], flags: "p", odd_values: "fo", ..PLAIN },
    // `-p` searches the default path, which has the same programs or safer ones.
    Wrapper { names: &["command"], flags: "p", ..PLAIN },
    // `-a` changes `argv[0]`, which busybox and others act upon.
    Wrapper { names: &["exec"], flags: "l", odd_values: "a", ..PLAIN },
    // `-i`, `-u`, `-C` and `-S` change the command or its environment.
    Wrapper { names: &["env", "genv"], kind: Kind::SameWithVariables, flags: "v", odd_values: "uCa", ..PLAIN },
    // `-e` starts an editor.
    Wrapper {
        names: &["sudo", "doas", "pkexec", "run0"],
        kind: Kind::OtherWithVariables,
        flags: "AbEHiKklnPSsVv",
        values: "CDghpRrTtUu",
        long_values: &["user", "group", "host", "prompt", "chdir", "chroot", "role", "type", "close-from"],
        ..SHELL
    },
    Wrapper { names: &["chroot"], long: &["skip-chdir"], operands: 1, ..SHELL },
    Wrapper {
        names: &["unshare"],
        flags: "cCfimnprTuU",
        values: "GRSw",
        long: &["fork", "mount", "net", "pid", "ipc", "uts", "user", "map-root-user", "mount-proc"],
        ..SHELL
    },
    // The values of `-r`, `-w`, `-W` and of the namespaces are attached or absent.
    Wrapper { names: &["nsenter"], flags: "aCFimnpTuU", values: "tGS", ..SHELL },
    Wrapper { names: &["setpriv"], ..OTHER },
    Wrapper { names: &["prlimit"], long: PRLIMIT, ..OTHER },
    Wrapper {
        names: &[
            "linux32", "linux64", "uname26", "i386", "i486", "i586", "i686", "athlon", "x86_64", "amd64", "aarch64",
            "arm64", "arm", "armv7l", "armv8l", "ppc", "ppc32", "ppc64", "ppc64le", "s390", "s390x", "sparc",
            "sparc32", "sparc64", "mips", "mips64", "parisc", "parisc64", "ia64", "alpha", "riscv32", "riscv64",
            "setarch", "arch",
        ],
        flags: "BFILRSTXZ3hv",
        long: &["addr-no-randomize", "fdpic-funcptrs", "mmap-page-zero", "read-implies-exec", "32bit", "uname-2.6"],
        ..SHELL
    },
    // The first operand is a file or directory to lock; `-c text` may follow it.
    Wrapper {
        names: &["flock"],
        flags: "sxeunoF",
        values: "wE",
        long: &["shared", "exclusive", "unlock", "nonblock", "nb", "close", "no-fork", "verbose"],
        long_values: &["timeout", "wait", "conflict-exit-code"],
        operands: 1,
        ..OTHER
    },
    Wrapper { names: &["logsave"], flags: "asv", operands: 1, ..OTHER },
    Wrapper { names: &["faketime"], operands: 1, ..OTHER },
    Wrapper {
        names: &["watch"],
        kind: Kind::Joins,
        flags: "bcdegptwx",
        values: "nq",
        long: &["beep", "color", "differences", "errexit", "chgexit", "precise", "no-title", "no-wrap", "exec"],
        long_values: &["interval", "equexit"],
        ..OTHER
    },
    // `-o`, `-F`, `-E`, `-J` and `-S` name commands or files with settings.
    Wrapper {
        names: &["ssh"],
        kind: Kind::Joins,
        flags: "46AaCfgGKkMNnqsTtVvXxYy",
        values: "BbcDeilLmpRWw",
        odd_values: "EFIJOoQS",
        operands: 1,
        ..OTHER
    },
    Wrapper { names: &["chronic", "caffeinate", "unbuffer", "torsocks", "proxychains", "proxychains4"], ..OTHER },
    Wrapper { names: &["fakeroot", "fakechroot", "proot", "firejail", "bwrap", "toolbox", "distrobox"], ..SHELL },
    Wrapper { names: &["dbus-run-session", "dbus-launch", "xvfb-run", "xvfb-run-safe"], ..OTHER },
    Wrapper { names: &["coproc", "noglob", "nocorrect", "-"], kind: Kind::OtherWithVariables, ..OTHER },
    Wrapper {
        names: &["xargs", "gxargs"],
        kind: Kind::Appends,
        flags: "0oprtx",
        values: "adELnPs",
        long: &["null", "interactive", "no-run-if-empty", "verbose", "exit", "open-tty"],
        long_values: &["arg-file", "delimiter", "max-args", "max-procs", "max-chars"],
        odd_values: "IJRS",
        ..OTHER
    },
];

/// Their values follow `=`.
const PRLIMIT: &[&str] = &[
    "core",
    "data",
    "fsize",
    "memlock",
    "nofile",
    "nproc",
    "rss",
    "sigpending",
    "stack",
    "cpu",
    "as",
    "locks",
    "msgqueue",
    "nice",
    "rtprio",
    "rttime",
];

/// The beginning of a wrapper's command.
struct Stripped {
    at: usize,
    /// Whether every word before it was understood.
    understood: bool,
    assigns: Vec<String>,
}

/// The command that the wrapper `name` starts, if it is one.
pub(super) fn look(name: &str, words: &[Word]) -> Option<Inside> {
    let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name))?;
    let asks = |word: &Word| matches!(word.as_str(), Some("-v" | "-V"));
    if name == "command" && words.get(1).is_some_and(asks) {
        // It only prints the path of a program.
        return Some(Inside::nothing());
    }
    if wrapper.kind == Kind::SameWithVariables
        && let Some(text) = split_string(words)
    {
        let started = Started::Text { text, via: "env -S".into() };
        return Some(Inside::runs(vec![started]).opaque("`env` splits a text in its own way"));
    }
    // `setarch` may have an architecture as its first operand.
    let has_architecture =
        name == "setarch" && words.get(1).and_then(Word::as_str).is_some_and(|text| !text.starts_with('-'));
    let stripped = wrapper.strip(words.get(usize::from(has_architecture)..).unwrap_or_default());
    let at = stripped.at + usize::from(has_architecture);
    let inner: Vec<Word> = words.get(at..).unwrap_or_default().to_vec();
    if inner.is_empty() {
        let inside = Inside::nothing();
        return Some(match wrapper.alone {
            // `arch` alone only prints.
            Alone::Shell if name != "arch" => inside.opaque("a shell reads its commands from its input"),
            // Unknown words may be a command after all.
            Alone::Shell | Alone::Nothing if stripped.understood => inside,
            Alone::Shell | Alone::Nothing => inside.opaque("what a wrapper starts is not known"),
        });
    }
    let inside = Inside::runs(wrapper.starts(name, inner, stripped.assigns));
    Some(match wrapper.kind {
        _ if !stripped.understood => inside.opaque("the options of a wrapper can't be followed"),
        Kind::Same | Kind::SameWithVariables => Inside { role: CommandRole::Wrapper, ..inside },
        Kind::Other | Kind::OtherWithVariables | Kind::Appends | Kind::Joins => inside,
    })
}

/// The text that `env -S` splits into a command.
fn split_string(words: &[Word]) -> Option<String> {
    let glued = |word: &Word| {
        let text = word.as_str()?;
        let long = text.strip_prefix("--s").and_then(|rest| {
            let end = rest.find('=').unwrap_or(rest.len());
            let (name, value) = rest.split_at_checked(end)?;
            "plit-string".starts_with(name).then(|| value.strip_prefix('=').unwrap_or(value))
        });
        let cluster = text.strip_prefix('-').filter(|text| !text.starts_with('-'));
        let short = cluster.and_then(|cluster| cluster.split_once('S')).map(|(_, value)| value);
        long.or(short).map(str::to_owned)
    };
    let at = words.iter().position(|word| glued(word).is_some())?;
    let glued = words.get(at).and_then(glued)?;
    let rest = words.iter().skip(at + 1).filter_map(Word::as_str);
    Some(std::iter::once(glued.as_str()).chain(rest).collect::<Vec<_>>().join(" "))
}

impl Wrapper {
    /// The command that is started by the words after the options and operands.
    fn starts(&self, name: &str, mut inner: Vec<Word>, assigns: Vec<String>) -> Vec<Started> {
        let via = name.to_owned();
        if self.kind == Kind::Joins {
            return joined(inner.iter(), name);
        }
        if name == "flock" && matches!(inner.first().and_then(Word::as_str), Some("-c" | "--command")) {
            return inner.get(1).and_then(|body| text(body, "flock -c")).into_iter().collect();
        }
        if self.kind == Kind::Appends {
            for word in &mut inner {
                if word.as_str().is_some_and(|text| text.contains("{}")) {
                    *word = Word::Unknown;
                }
            }
            inner.push(Word::Unknown);
        }
        vec![Started::Words { words: inner, assigns, via }]
    }

    fn strip(&self, words: &[Word]) -> Stripped {
        let mut stripped = Stripped { at: 1, understood: true, assigns: Vec::new() };
        self.options(words, &mut stripped);
        for _ in 0..self.operands {
            stripped.understood &= words.get(stripped.at).is_none_or(|word| word.as_str().is_some());
            stripped.at += 1;
        }
        if self.kind == Kind::Joins && self.operands > 0 {
            // `ssh` accepts options after the host, too.
            self.options(words, &mut stripped);
        }
        if matches!(self.kind, Kind::SameWithVariables | Kind::OtherWithVariables) {
            self.variables(words, &mut stripped);
        }
        stripped
    }

    /// Skips options, up to the first operand.
    fn options(&self, words: &[Word], stripped: &mut Stripped) {
        while let Some(word) = words.get(stripped.at) {
            match word.as_str() {
                Some("--") => {
                    stripped.at += 1;
                    break;
                }
                Some(text) if text.len() > 1 && text.starts_with('-') => self.option(text, words, stripped),
                Some(_) => break,
                None => stripped.understood = false,
            }
            stripped.at += 1;
        }
    }

    /// Reads one option word; `at` stays on the last word that belongs to it.
    fn option(&self, text: &str, words: &[Word], stripped: &mut Stripped) {
        if let Some(long) = text.strip_prefix("--") {
            let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            if self.long_values.contains(&name) {
                stripped.take_value(words, value.is_some());
            } else if !self.long.contains(&name) {
                stripped.understood = false;
            }
            return;
        }
        for (index, letter) in text.char_indices().skip(1) {
            let glued = text.get(index + letter.len_utf8()..).unwrap_or_default();
            if self.odd_values.contains(letter) {
                // Only `xargs -I {}` is supported: `{}` is treated as unknown anyway.
                let replaces = self.kind == Kind::Appends && letter == 'I';
                stripped.take_value(words, !glued.is_empty());
                let value = if glued.is_empty() { words.get(stripped.at).and_then(Word::as_str) } else { Some(glued) };
                stripped.understood &= replaces && value == Some("{}");
                return;
            }
            if self.values.contains(letter) {
                return stripped.take_value(words, !glued.is_empty());
            }
            if !self.flags.contains(letter) {
                stripped.understood = false;
            }
        }
    }

    fn variables(&self, words: &[Word], stripped: &mut Stripped) {
        while let Some((name, _)) = words.get(stripped.at).and_then(Word::as_str).and_then(|text| text.split_once('='))
        {
            stripped.assigns.push(name.to_owned());
            stripped.at += 1;
        }
    }
}

impl Stripped {
    /// Advances to the value of an option, unless it was attached. An unknown one may expand to any number of words.
    fn take_value(&mut self, words: &[Word], glued: bool) {
        if !glued {
            self.at += 1;
            self.understood &= words.get(self.at).is_some_and(|word| word.known().is_some());
        }
    }
}
