//! Stockade's own program in a line: `stockade run -- rm f` runs `rm f`, so rules apply to that.
//!
//! It is a wrapper like `env`: its command has at most the permissions of the line. Options that change the command's
//! environment (`--cwd`, `--env`, settings) make the line opaque; the command is still listed.

use stockade_protocol::{CommandRole, Word};

use super::{Inside, Started};

/// Options of `stockade run` with a value that do not affect the command.
const VALUES: [&str; 16] = [
    "accept-loss",
    "allow-host",
    "allow-socket",
    "ask",
    "deny-read",
    "engine",
    "justification",
    "limit",
    "network",
    "otlp",
    "readable",
    "sandbox",
    "session",
    "timeout",
    "workspace",
    "writable",
];

/// Options with a value that change the command's directory, variables or settings.
const ODD_VALUES: [&str; 5] = ["cwd", "env", "profile", "rules", "with"];

/// Options without a value.
const FLAGS: [&str; 3] = ["json", "unsandboxed", "verbose"];

const UNKNOWN: &str = "what `stockade` is told to run is made while the line runs";

/// The command that `stockade` runs, if the program is Stockade's.
pub(super) fn look(name: &str, words: &[Word]) -> Option<Inside> {
    if name != "stockade" {
        return None;
    }
    let mut options = Options { words, at: 1, is_plain: true, line: None };
    options.read();
    if !options.is_plain {
        return Some(Inside::nothing().opaque(UNKNOWN));
    }
    match words.get(options.at).and_then(Word::as_str) {
        Some("run") => {}
        // `stockade hook run` runs a line, too, and is for agents' hooks alone.
        Some("hook") => return Some(Inside::nothing().opaque("an agent's hook is started in a line")),
        Some(_) | None => return Some(Inside::nothing()),
    }
    options.at += 1;
    options.read();
    let inner = words.get(options.at..).unwrap_or_default().to_vec();
    let via = String::from("stockade run");
    let starts = match options.line {
        Some(Some(text)) => vec![Started::Text { text, via: via + " -c" }],
        Some(None) => return Some(Inside::nothing().opaque(UNKNOWN)),
        None if inner.is_empty() => Vec::new(),
        None => vec![Started::Words { words: inner, assigns: Vec::new(), via }],
    };
    let inside = Inside::runs(starts);
    Some(if options.is_plain {
        Inside { role: CommandRole::Wrapper, ..inside }
    } else {
        inside.opaque("the options of `stockade run` can't be followed")
    })
}

struct Options<'w> {
    words: &'w [Word],
    at: usize,
    /// Whether no option affects the command.
    is_plain: bool,
    /// The value of `-c`, if given; `Some(None)` if it is unknown.
    line: Option<Option<String>>,
}

impl Options<'_> {
    /// Skips options, up to the first operand.
    fn read(&mut self) {
        while let Some(word) = self.words.get(self.at) {
            let Some(text) = word.as_str() else {
                // It may expand to any number of options.
                self.is_plain = false;
                self.at += 1;
                continue;
            };
            if text == "--" {
                self.at += 1;
                return;
            }
            let Some(option) = text.strip_prefix('-').filter(|option| !option.is_empty()) else { return };
            self.at += 1;
            match option.strip_prefix('-') {
                Some(long) => self.long(long),
                None => self.short(option),
            }
        }
    }

    fn long(&mut self, long: &str) {
        let (name, is_glued) = long.split_once('=').map_or((long, false), |(name, _)| (name, true));
        let takes_value = VALUES.contains(&name) || ODD_VALUES.contains(&name);
        self.is_plain &= VALUES.contains(&name) || FLAGS.contains(&name);
        if takes_value && !is_glued {
            self.is_plain &= self.words.get(self.at).is_none_or(|value| value.known().is_some());
            self.at += 1;
        }
    }

    fn short(&mut self, letters: &str) {
        for (index, letter) in letters.char_indices() {
            match letter {
                'v' => {}
                'c' => {
                    let glued = letters.get(index + 1..).unwrap_or_default();
                    let glued = glued.strip_prefix('=').unwrap_or(glued);
                    self.line = Some(if glued.is_empty() {
                        self.at += 1;
                        self.words.get(self.at - 1).and_then(Word::as_str).map(str::to_owned)
                    } else {
                        Some(glued.to_owned())
                    });
                    return;
                }
                _ => self.is_plain = false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use stockade_protocol::{Argv, CommandRole, ParsedCommand};

    use crate::{parse_argv, parse_bash};

    fn shown(command: &ParsedCommand) -> String {
        command.words.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn what_it_runs_is_what_rules_speak_of() {
        for line in [
            "stockade run -- rm f",
            "stockade run rm f",
            "stockade run --session work --json -v -- rm f",
            "stockade run --sandbox=read-only --writable d rm f",
            "stockade --otlp http://x run --timeout 5s -- rm f",
            "stockade run -c 'rm f'",
            "stockade run -vc 'rm f' name",
            "stockade run '-crm f'",
            "stockade run -- stockade run -- rm f",
            "stockade run -- env A=1 stockade run -c 'rm f'",
            "stockade-sh -c 'rm f'",
            "stockade-sh -euxc 'rm f'",
            "stockade-sh -euo pipefail -c 'rm f'",
            "stockade-sh 'rm f'",
            "sh -euxc 'rm f'",
            "bash -euxo pipefail -c 'rm f'",
        ] {
            let parsed = parse_bash(line);
            assert_eq!(parsed.opaque, None, "{line}: {parsed:?}");
            assert_eq!(shown(parsed.commands.last().unwrap()), "rm f", "{line}");
            let (_, outer) = parsed.commands.split_last().unwrap();
            assert!(outer.iter().all(|command| command.role == CommandRole::Wrapper), "{line}: {parsed:?}");
        }
    }

    #[test]
    fn what_can_not_be_followed_is_opaque_and_still_listed() {
        for line in [
            "stockade run --cwd /x -- rm f",
            "stockade run --env PATH=/x -- rm f",
            "stockade run --profile=p -- rm f",
            "stockade run --new-option -- rm f",
            "stockade run $x -- rm f",
            "stockade $x -- rm f",
            "stockade hook run -c 'rm f'",
        ] {
            assert!(parse_bash(line).opaque.is_some(), "{line}");
        }
        for line in ["stockade run --cwd /x -- rm f", "stockade run --new -- rm f", "stockade run $x -- rm f"] {
            let parsed = parse_bash(line);
            assert!(parsed.commands.iter().any(|command| shown(command) == "rm f"), "{line}: {parsed:?}");
        }
        assert!(parse_bash("stockade run -c \"$x\"").opaque.is_some());
        assert!(parse_bash("stockade-sh").opaque.is_some());
    }

    #[test]
    fn other_commands_and_other_programs_are_judged_themselves() {
        for words in [&["stockade", "session", "end", "x"][..], &["./stockade", "run", "--", "ls"], &["stockade"]] {
            let parsed = parse_argv(&Argv::parse(words.iter().copied()).unwrap());
            assert_eq!(parsed.commands.first().unwrap().role, CommandRole::Runs, "{words:?}");
        }
    }
}
