//! Whether an agent can show a question to a person.
//!
//! gemini-cli does not tell its hooks, and takes a question without a screen for the end of its run. So its process is
//! looked at: the closest ancestor that is gemini-cli. When in doubt there is no screen, and the use is refused.

use std::fs;
use std::os::unix::process::parent_id;
use std::path::Path;

use crate::args::AgentName;

/// How far gemini-cli may be away: the hook answers in a child, a shell runs the hook, and gemini-cli starts itself again.
const FARTHEST: usize = 5;

/// A question to the person, by the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialog {
    Shown,
    None,
}

pub(super) fn of(agent: AgentName) -> Dialog {
    let is_shown = match agent {
        AgentName::ClaudeCode => true,
        AgentName::Gemini => gemini_has_screen(),
        AgentName::Codex | AgentName::Opencode => false,
    };
    if is_shown { Dialog::Shown } else { Dialog::None }
}

fn gemini_has_screen() -> bool {
    let mut process = parent_id();
    for _ in 0..FARTHEST {
        let directory = format!("/proc/{process}");
        let Ok(words) = fs::read(format!("{directory}/cmdline")) else { return false };
        if let Some(is_asking) = reads_its_screen(&words) {
            let is_terminal = |descriptor: u8| {
                fs::read_link(format!("{directory}/fd/{descriptor}"))
                    .is_ok_and(|file| file.starts_with("/dev/pts") || file.starts_with("/dev/tty"))
            };
            return is_asking && is_terminal(0) && is_terminal(1);
        }
        let state = fs::read_to_string(format!("{directory}/stat"));
        let Some(parent) = state.ok().and_then(|state| parent(&state)) else { return false };
        process = parent;
    }
    false
}

/// Whether gemini-cli was started with these words, separated by NUL bytes, to ask at its screen; `None` if they are
/// those of another program.
fn reads_its_screen(words: &[u8]) -> Option<bool> {
    let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
    let is_gemini = |word: &[u8]| {
        let name = std::str::from_utf8(word).ok().and_then(|word| Path::new(word).file_name()?.to_str());
        matches!(name, Some("gemini" | "gemini.js"))
    };
    // The program itself, or the script of an interpreter with its options.
    let program = words
        .iter()
        .position(|word| is_gemini(word))
        .filter(|at| words.get(1..*at).unwrap_or_default().iter().all(|word| word.starts_with(b"-")))?;
    let is_headless = |word: &&[u8]| {
        let has_letter = word.starts_with(b"-") && !word.starts_with(b"--") && word.contains(&b'p');
        has_letter || *word == b"--prompt" || word.starts_with(b"--prompt=")
    };
    Some(!words.iter().skip(program + 1).any(is_headless))
}

/// The parent, from proc_pid_stat(5).
fn parent(state: &str) -> Option<u32> {
    state.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok().filter(|parent| *parent > 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn gemini_asks_only_where_a_person_is() {
        for (words, expected) in [
            ("node /usr/bin/gemini", Some(true)),
            ("node --max-old-space-size=4 /x/bundle/gemini.js --yolo", Some(true)),
            ("/usr/bin/gemini -i hello", Some(true)),
            ("node /usr/bin/gemini -p go", Some(false)),
            ("node /usr/bin/gemini -yp go", Some(false)),
            ("node /usr/bin/gemini --prompt=go", Some(false)),
            ("sh -c 'stockade' hook gemini", None),
            ("bash run gemini", None),
            ("node /usr/bin/other", None),
            ("", None),
        ] {
            assert_eq!(reads_its_screen(words.replace(' ', "\0").as_bytes()), expected, "{words}");
        }
        assert_eq!(parent("7 (a) b) S 12 3"), Some(12));
        assert_eq!(parent("7 (a) S 1 3"), None);
    }

    proptest! {
        #[test]
        fn any_process_is_looked_at(words in any::<Vec<u8>>(), state in any::<String>()) {
            let _ = (reads_its_screen(&words), parent(&state));
        }
    }
}
