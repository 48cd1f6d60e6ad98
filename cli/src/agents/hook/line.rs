//! The line that replaces an agent's own.
//!
//! The agent passes its line to its own shell, outside of the sandbox, so that shell must not interpret any of the
//! original: it is one word in single quotes. A line that may change the directory reports its final directory, for agents
//! that start the next line there, such as Claude Code; it uses descriptor 0, the only one besides the output that a
//! sandboxed command inherits from its caller. Others get the plain form: gemini-cli starts each line in its workspace, and
//! refuses lines with a substitution, even its hooks'.

use std::path::Path;

use stockade_server::wire::SessionName;

/// Whether the person approves the command in the agent's dialog before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Yes,
    No,
}

/// Where an agent starts the next line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextLine {
    /// Where the last one ended.
    Follows,
    /// In a directory of the agent's choice.
    StartsAnew,
}

/// Linux's limit on one argument (`MAX_ARG_STRLEN` in execve(2)).
pub(super) const LONGEST_ARGUMENT: usize = 128 << 10;

/// Room for the text that an agent adds around the line.
const AROUND: usize = 4 << 10;

/// Whether the line is too long for an agent's shell: agents quote it once more.
pub(super) fn is_too_long(outer: &str) -> bool {
    let quotes = outer.matches('\'').count();
    outer.len() + 4 * quotes + AROUND > LONGEST_ARGUMENT
}

/// Quotes any text as one shell word.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// The text for `bash -c` that the session runs for a line.
pub(super) fn inner(line: &str, next: NextLine) -> String {
    if is_told(line, next) { format!("eval {} </dev/null && pwd -P >&0", quoted(line)) } else { line.to_owned() }
}

/// The line for the agent's shell.
pub(super) fn outer(program: &Path, session: &SessionName, line: &str, asked: Asked, next: NextLine) -> Option<String> {
    let program = quoted(program.to_str()?);
    let asked = match asked {
        Asked::Yes => " --asked",
        Asked::No => "",
    };
    let start = format!("{program} hook run {session}{asked}");
    let text = quoted(&inner(line, next));
    Some(if is_told(line, next) {
        format!("{{ __stockade_at=$({start} --tell-directory -c {text} 3>&1 >&4) && cd -- \"$__stockade_at\"; }} 4>&1")
    } else {
        format!("{start} -c {text}")
    })
}

/// The agent's own line in one that [`outer`] made; `None` for another.
pub(super) fn original(outer: &str) -> Option<String> {
    let (start, text) = outer.split_once(" -c '")?;
    let inner = unquoted(&format!("'{text}"))?;
    let is_ours = start.contains(" hook run ");
    let line = match inner.strip_prefix("eval ").and_then(|rest| rest.strip_suffix(" </dev/null && pwd -P >&0")) {
        Some(line) => unquoted(line)?,
        None => inner,
    };
    is_ours.then_some(line)
}

/// The text of a word that [`quoted`] made, if only text of [`outer`] follows it.
fn unquoted(word: &str) -> Option<String> {
    let end = word.rfind('\'')?;
    let (word, rest) = word.split_at(end);
    let is_end = rest == "'" || rest == "' 3>&1 >&4) && cd -- \"$__stockade_at\"; } 4>&1";
    let text = word.strip_prefix('\'')?.replace(r"'\''", "\u{0}");
    (is_end && !text.contains('\'')).then(|| text.replace('\u{0}', "'"))
}

fn is_told(line: &str, next: NextLine) -> bool {
    next == NextLine::Follows && may_move(line)
}

/// Whether a line may change the directory, judged by its words, with false positives.
fn may_move(line: &str) -> bool {
    ["cd", "pushd", "popd", "eval", "source", ". "].iter().any(|word| line.contains(word))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::PathBuf;
    use std::process::{Command, Output, Stdio};

    use proptest::prelude::*;

    use super::*;

    /// A program that takes the place of this one and prints its arguments, each followed by a NUL byte.
    fn printing(directory: &Path) -> PathBuf {
        let path = directory.join("it's a program");
        // Written by another process: a file that is open for writing in a process that another test's thread forks just now
        // can't be executed (ETXTBSY).
        #[expect(clippy::disallowed_methods, reason = "a shell is what this is about")]
        let mut writer = Command::new("sh");
        let writer = writer.args(["-c", "cat >\"$1\" && chmod 755 \"$1\"", "sh"]).arg(&path).stdin(Stdio::piped());
        let mut writer = writer.spawn().unwrap();
        let text = b"#!/bin/sh\n[ -e /dev/fd/3 ] && echo /usr >&3\nprintf '%s\\0' \"$@\"\n";
        writer.stdin.take().unwrap().write_all(text).unwrap();
        assert!(writer.wait().unwrap().success());
        path
    }

    #[expect(clippy::disallowed_methods, reason = "a shell is what this is about")]
    fn bash(line: &str) -> Output {
        Command::new("bash").args(["-c", "eval \"$1\" && pwd -P >&2", "bash", line]).current_dir("/").output().unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The agent's shell passes the text on unchanged, and interprets none of it.
        #[test]
        fn the_text_arrives_as_it_was(line in "(cd )?[^\u{0}]{0,80}") {
            let directory = tempfile::tempdir().unwrap();
            let program = printing(directory.path());
            let session = "s-1".parse().unwrap();
            let output = bash(&outer(&program, &session, &line, Asked::Yes, NextLine::Follows).unwrap());
            let told = String::from_utf8(output.stdout).unwrap();
            let words: Vec<&str> = told.split_terminator('\0').collect();
            let place = if may_move(&line) { "/usr" } else { "/" };
            let (text, ended) = (inner(&line, NextLine::Follows), String::from_utf8(output.stderr).unwrap());
            prop_assert_eq!(words.last().copied(), Some(text.as_str()));
            prop_assert_eq!(words.get(..4), Some(&["hook", "run", "s-1", "--asked"][..]));
            prop_assert_eq!(ended.trim(), place);
            for next in [NextLine::Follows, NextLine::StartsAnew] {
                let outer = outer(&program, &session, &line, Asked::Yes, next).unwrap();
                prop_assert_eq!(original(&outer), Some(line.clone()));
            }
        }

        /// The session's shell evaluates exactly the line.
        #[test]
        fn the_wrapped_text_is_the_line(line in "[ -~\n]{0,60}") {
            let wrapped = format!("eval() {{ printf %s \"$1\"; }}; {}", inner(&format!("cd {line}"), NextLine::Follows));
            #[expect(clippy::disallowed_methods, reason = "a shell is what this is about")]
            let output = Command::new("bash").args(["-c", &wrapped]).output().unwrap();
            prop_assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("cd {line}"));
        }
    }

    #[test]
    fn plain_lines_stay_plain() {
        let session = "s".parse().unwrap();
        let plain = |line, next| outer(Path::new("/bin/stockade"), &session, line, Asked::No, next).unwrap();
        assert_eq!(plain("npm test", NextLine::Follows), "'/bin/stockade' hook run s -c 'npm test'");
        assert_eq!(plain("cd x && y", NextLine::StartsAnew), "'/bin/stockade' hook run s -c 'cd x && y'");
    }
}
