//! Programs whose operand is another command line: `timeout 5 ls`.
//!
//! One row a program. A row lists the options that only tune how the command is started; with any
//! other option the wrapper is judged like an unknown program, the line is opaque, and the command
//! is still listed.

use stockade_protocol::{CommandRole, Word};

use super::{Inside, Started};

struct Wrapper {
    names: &'static [&'static str],
    kind: Kind,
    /// Short options without a value.
    flags: &'static str,
    /// Short options with a value, glued or as the next word.
    values: &'static str,
    /// Long options without a value, or with one behind `=`.
    long: &'static [&'static str],
    /// Long options that take the next word if there is no `=`.
    long_values: &'static [&'static str],
    /// Operands before the command.
    operands: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Starts the command with the same rights, in the same place.
    Same,
    /// As `Same`, with variables set by `NAME=value` operands.
    SameWithVariables,
    /// Starts it with other rights, elsewhere, traced or later: judged itself.
    Other,
    /// As `Other`, with more words that are not in the line.
    Appends,
}

const PLAIN: Wrapper =
    Wrapper { names: &[], kind: Kind::Same, flags: "", values: "", long: &[], long_values: &[], operands: 0 };

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
    Wrapper { names: &["chrt"], flags: "bfior", operands: 1, ..PLAIN },
    Wrapper { names: &["taskset"], flags: "c", operands: 1, ..PLAIN },
    Wrapper { names: &["time"], flags: "p", ..PLAIN },
    // `-p` searches the default path, which finds the same programs or safer ones.
    Wrapper { names: &["command"], flags: "p", ..PLAIN },
    // `-a` changes only what the program calls itself, which busybox and others act upon: not here.
    Wrapper { names: &["exec"], flags: "l", ..PLAIN },
    // `-i`, `-u`, `-C` and `-S` change what the command finds or is.
    Wrapper { names: &["env", "genv"], kind: Kind::SameWithVariables, flags: "v", ..PLAIN },
    Wrapper {
        names: &["sudo", "doas", "pkexec", "run0"],
        kind: Kind::Other,
        flags: "AbEeHiKklnPSsVv",
        values: "CDghpRrTtUu",
        long_values: &["user", "group", "host", "prompt", "chdir", "chroot", "role", "type", "close-from"],
        ..PLAIN
    },
    Wrapper { names: &["chroot"], kind: Kind::Other, long: &["skip-chdir"], operands: 1, ..PLAIN },
    Wrapper {
        names: &["unshare"],
        kind: Kind::Other,
        flags: "cCfimnprTuU",
        values: "GRSw",
        long: &["fork", "mount", "net", "pid", "ipc", "uts", "user", "map-root-user", "mount-proc"],
        ..PLAIN
    },
    Wrapper { names: &["nsenter"], kind: Kind::Other, flags: "aCFimnpTuU", values: "tGSWrw", ..PLAIN },
    Wrapper { names: &["setpriv", "systemd-run", "systemd-inhibit"], kind: Kind::Other, values: "pu", ..PLAIN },
    Wrapper { names: &["strace", "ltrace"], kind: Kind::Other, flags: "cfqrtTvxyCD", values: "abeEoOpPsuS", ..PLAIN },
    Wrapper { names: &["chronic", "fakeroot", "valgrind", "caffeinate", "unbuffer"], kind: Kind::Other, ..PLAIN },
    Wrapper { names: &["torsocks", "proxychains", "proxychains4", "dbus-run-session"], kind: Kind::Other, ..PLAIN },
    Wrapper { names: &["coproc", "noglob", "nocorrect", "-"], kind: Kind::Other, ..PLAIN },
    Wrapper { names: &["firejail", "bwrap", "proot"], kind: Kind::Other, ..PLAIN },
    Wrapper {
        names: &["xargs", "gxargs"],
        kind: Kind::Appends,
        flags: "0oprtxei",
        values: "adEIJLnPRsS",
        long: &["null", "interactive", "no-run-if-empty", "verbose", "exit", "open-tty"],
        long_values: &["arg-file", "delimiter", "max-args", "max-procs", "max-lines", "max-chars", "replace"],
        ..PLAIN
    },
    Wrapper { names: &["parallel"], kind: Kind::Appends, flags: "kuX", values: "jnNLISa", ..PLAIN },
    Wrapper { names: &["entr"], kind: Kind::Appends, flags: "acdnprsxz", ..PLAIN },
];

/// Where the command of a wrapper begins.
struct Stripped {
    at: usize,
    /// Whether every word before it was.
    understood: bool,
    assigns: Vec<String>,
}

/// What the wrapper `name` starts, if it is one.
pub(super) fn look(name: &str, words: &[Word]) -> Option<Inside> {
    let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name))?;
    let asks = |word: &Word| matches!(word.as_str(), Some("-v" | "-V"));
    if name == "command" && words.get(1).is_some_and(asks) {
        // It only says where a program is.
        return Some(Inside::nothing());
    }
    if wrapper.kind == Kind::SameWithVariables
        && let Some(text) = split_string(words)
    {
        let started = Started::Text { text, via: "env -S".into() };
        return Some(Inside::runs(vec![started]).opaque("`env` splits a text in its own way"));
    }
    let stripped = wrapper.strip(words);
    let mut inner: Vec<Word> = words.get(stripped.at..).unwrap_or_default().to_vec();
    if inner.is_empty() {
        // Words that are not known may be a command after all.
        let inside = Inside::nothing();
        return Some(if stripped.understood { inside } else { inside.opaque("what a wrapper starts is not known") });
    }
    if wrapper.kind == Kind::Appends {
        for word in &mut inner {
            if word.as_str().is_some_and(|text| text.contains("{}")) {
                *word = Word::Unknown;
            }
        }
        inner.push(Word::Unknown);
    }
    let started = Started::Words { words: inner, assigns: stripped.assigns, via: name.to_owned() };
    let inside = Inside::runs(vec![started]);
    Some(match wrapper.kind {
        _ if !stripped.understood => inside.opaque("the options of a wrapper can't be followed"),
        Kind::Same | Kind::SameWithVariables => Inside { role: CommandRole::Wrapper, ..inside },
        Kind::Other | Kind::Appends => inside,
    })
}

/// The text that `env -S` makes a command of.
fn split_string(words: &[Word]) -> Option<String> {
    let glued = |word: &Word| {
        let text = word.as_str()?;
        text.strip_prefix("-S").or_else(|| text.strip_prefix("--split-string=")).map(str::to_owned)
    };
    let at = words.iter().position(|word| glued(word).is_some())?;
    let glued = words.get(at).and_then(glued)?;
    let rest = words.iter().skip(at + 1).filter_map(Word::as_str);
    Some(std::iter::once(glued.as_str()).chain(rest).collect::<Vec<_>>().join(" "))
}

impl Wrapper {
    fn strip(&self, words: &[Word]) -> Stripped {
        let mut stripped = Stripped { at: 1, understood: true, assigns: Vec::new() };
        while let Some(word) = words.get(stripped.at) {
            match word.as_str() {
                Some("--") => {
                    stripped.at += 1;
                    break;
                }
                Some(text) if text.len() > 1 && text.starts_with('-') => self.option(text, &mut stripped),
                Some(_) => break,
                None => stripped.understood = false,
            }
            stripped.at += 1;
        }
        for _ in 0..self.operands {
            stripped.understood &= words.get(stripped.at).is_none_or(|word| word.as_str().is_some());
            stripped.at += 1;
        }
        if matches!(self.kind, Kind::SameWithVariables | Kind::Other) {
            self.variables(words, &mut stripped);
        }
        stripped
    }

    /// Reads one option word; `at` stays on the last word that belongs to it.
    fn option(&self, text: &str, stripped: &mut Stripped) {
        if let Some(long) = text.strip_prefix("--") {
            let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            if self.long_values.contains(&name) {
                stripped.at += usize::from(value.is_none());
            } else if !self.long.contains(&name) {
                stripped.understood = false;
            }
            return;
        }
        for (index, letter) in text.char_indices().skip(1) {
            if self.values.contains(letter) {
                let glued = index + letter.len_utf8() < text.len();
                stripped.at += usize::from(!glued);
                return;
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
