//! Whether a command may run without asking, judged by its words alone.
//!
//! This is the fallback for commands that no rule matches. `Safe` is an allow list throughout: programs, their
//! options, the files they may name. Everything else asks.

mod dangerous;
mod options;
mod paths;
mod shapes;
mod table;

use std::collections::BTreeMap;

use stockade_protocol::{CommandRole, Decision, ParsedCommand, ParsedLine, RawText, Word};

use crate::inside::is_trusted;

/// A line with more commands than this asks, even if each of them is safe: no legitimate line needs it, and a long
/// line can hide a command from a reader who skims it.
pub const MOST_SAFE_COMMANDS: usize = 50;

/// The safety of a command, judged without any rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Safety {
    /// It only reads: no file is written, no other program run, no environment or secret shown, no
    /// network reached.
    Safe,
    /// It may do more than that.
    Unknown {
        /// Why it is not known as safe, for the person who is asked.
        reason: String,
    },
    /// It destroys a system, a disk or a home directory.
    Dangerous {
        /// What it destroys.
        reason: String,
    },
}

impl Safety {
    /// The decision for a command that no rule matches.
    ///
    /// ```
    /// use stockade_protocol::Decision;
    /// use stockade_shell_command::{line_safety, parse_bash};
    ///
    /// let decide = |line| line_safety(&parse_bash(line)).decision();
    /// assert_eq!(decide("cat f | head -1"), Decision::Allow);
    /// assert_eq!(decide("sort f -o g"), Decision::Prompt);
    /// assert_eq!(decide("sudo rm -rf /*"), Decision::Forbidden);
    /// ```
    pub fn decision(&self) -> Decision {
        match self {
            Self::Safe => Decision::Allow,
            Self::Unknown { .. } => Decision::Prompt,
            Self::Dangerous { .. } => Decision::Forbidden,
        }
    }

    /// The stricter of two; the first if they are equally strict.
    fn or_stricter(self, other: Self) -> Self {
        if other.decision() > self.decision() { other } else { self }
    }

    fn unknown(reason: impl Into<String>) -> Self {
        Self::Unknown { reason: reason.into() }
    }
}

/// Judges one command of a line.
///
/// A wrapper ([`CommandRole::Wrapper`]) is safe by itself; the command it starts is judged separately.
pub fn safety(command: &ParsedCommand) -> Safety {
    if let Some(reason) = dangerous::reason(command) {
        return Safety::Dangerous { reason };
    }
    match reason_to_ask(command) {
        Some(reason) => Safety::Unknown { reason },
        None => Safety::Safe,
    }
}

/// Judges a line: the strictest of its commands, and at least [`Safety::Unknown`] if it is opaque,
/// runs nothing or runs more than [`MOST_SAFE_COMMANDS`].
pub fn line_safety(line: &ParsedLine) -> Safety {
    let commands = line
        .commands
        .iter()
        .map(safety)
        .reduce(Safety::or_stricter)
        .unwrap_or_else(|| Safety::unknown(line.opaque.as_deref().unwrap_or("nothing is run")));
    let whole = if let Some(why) = &line.opaque {
        Safety::unknown(why)
    } else if line.commands.len() > MOST_SAFE_COMMANDS {
        Safety::unknown("the line has too many commands")
    } else if runs_after_cd(line, "git") {
        Safety::unknown("`cd` changes which configuration `git` trusts")
    } else {
        Safety::Safe
    };
    let bomb = match fork_bomb(line) {
        Some(name) => Safety::Dangerous { reason: format!("the function `{name}` starts itself over and over") },
        None => Safety::Safe,
    };
    commands.or_stricter(whole).or_stricter(bomb)
}

fn reason_to_ask(command: &ParsedCommand) -> Option<String> {
    if !command.assigns.is_empty() {
        return Some(format!("sets `{}`", command.assigns.join("`, `")));
    }
    if let Some(file) = command.writes.first() {
        return Some(format!("writes `{file}`"));
    }
    if let Some(reason) = command.reads.iter().find_map(reason_not_to_read) {
        return Some(reason);
    }
    if command.role == CommandRole::Wrapper {
        let named = |word: &Word| matches!(word.as_str(), Some("nohup" | "/bin/nohup" | "/usr/bin/nohup"));
        return command.words.first().is_some_and(named).then(|| "`nohup` may write `nohup.out`".into());
    }
    let words: Option<Vec<&str>> = command.words.iter().map(Word::as_str).collect();
    let Some(words) = words else { return Some("has words that are made while the line runs".into()) };
    let Some((program, arguments)) = words.split_first() else { return Some("redirects without a command".into()) };
    if let Some(word) = words.iter().find(|word| hides_characters(word)) {
        return Some(format!("`{}` has characters that don't show", RawText::from(*word)));
    }
    if !is_trusted(program) {
        return Some(format!("`{program}` is not in a directory of the system"));
    }
    let name = program.rsplit('/').next().unwrap_or(program);
    let judged = shapes::judge(name, arguments).unwrap_or_else(|| table::judge(name, arguments));
    judged.err().map(|why| format!("`{name}`: {why}"))
}

/// Whether a word contains control characters, or characters that hide or reorder others.
fn hides_characters(word: &str) -> bool {
    let shown: String = word.chars().filter(|c| !matches!(c, '\n' | '\t' | '\\')).collect();
    RawText::from(shown.as_str()).to_string() != shown
}

/// Whether a redirection lets the command read a file with secrets, or an unknown file. A rule for the command's words
/// does not cover that.
pub fn reads_secret(command: &ParsedCommand) -> bool {
    command.reads.iter().any(|file| reason_not_to_read(file).is_some())
}

fn reason_not_to_read(file: &Word) -> Option<String> {
    let Some(path) = file.as_str() else { return Some("reads a file that can't be told".into()) };
    paths::sensitive(path).map(|what| format!("reads `{path}`, {what}"))
}

fn runs_after_cd(line: &ParsedLine, program: &str) -> bool {
    let is = |command: &ParsedCommand, name: &str| {
        command.words.first().and_then(Word::as_str).is_some_and(|word| word.rsplit('/').next() == Some(name))
    };
    let mut moved = false;
    line.commands.iter().any(|command| {
        moved |= is(command, "cd");
        moved && is(command, program)
    })
}

/// The function that calls itself at least twice: each call doubles the number of processes.
fn fork_bomb(line: &ParsedLine) -> Option<&str> {
    let mut calls: BTreeMap<&str, usize> = BTreeMap::new();
    for command in &line.commands {
        let within = command.via.as_deref().and_then(|via| via.strip_prefix("function "));
        let called = command.words.first().and_then(Word::as_str);
        if let (Some(within), Some(called)) = (within, called)
            && within == called
        {
            *calls.entry(called).or_default() += 1;
        }
    }
    calls.into_iter().find(|&(_, count)| count > 1).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_bash;

    fn decide(line: &str) -> Decision {
        line_safety(&parse_bash(line)).decision()
    }

    #[test]
    fn catastrophes_are_seen_through_what_wraps_them() {
        for line in [
            "rm -rf /",
            "rm -fr //",
            "rm -r -f -- /etc/../",
            "rm --recursive /usr",
            "rm -rf ~",
            "rm -rf \"$HOME\"/",
            "rm -rf /home/me",
            "rm -rf /etc/*",
            "rm x --no-preserve-root",
            "sudo -u root rm -rf /*",
            "env A=1 nice bash -c 'cd x; rm -rf /'",
            "eval 'rm -rf /'",
            "echo $(rm -rf /)",
            "mkfs.ext4 /dev/sda1",
            "dd if=/dev/zero of=/dev/nvme0n1 bs=1M",
            ": > /dev/sda",
            "cat x | tee /dev/sdb",
            "shred /dev/sda",
            "chown -R me /usr",
            "chmod --recursive 777 /",
            "find / -delete",
            "f() { f | f & }; f",
            "kill -9 -1",
        ] {
            assert_eq!(decide(line), Decision::Forbidden, "{line}");
        }
        for line in ["rm -rf build", "rm -rf build/*", "rm -rf $x", "rm /etc", "chmod 777 x", "dd of=x", "f() { f; }"] {
            assert_eq!(decide(line), Decision::Prompt, "{line}");
        }
    }

    #[test]
    fn what_only_reads_is_safe() {
        for line in [
            "timeout 5 ls -la",
            "bash -lc 'cat f | wc -l'",
            "(cd src && rg -n foo)",
            "if [ -f x ]; then cat x; fi",
            "[[ -d src ]] && ls src",
            "command -v git",
            "find . -name '*.rs' -type f",
            "cat <<'E'\n$(x)\nE",
            "ls 2>/dev/null",
            "ls >/dev/null 2>&1",
            "ls &>/dev/null",
            "echo 'two\nlines'",
            "printf '%5.2f\\n' 1",
            "rg -n 'a|b' src | sort -u | head -20",
            "date +%s",
        ] {
            assert_eq!(decide(line), Decision::Allow, "{line}: {:?}", parse_bash(line));
        }
        for line in [
            "nohup ls",
            "printf '%n' PATH",
            "printf -v x y",
            "date 01010101",
            "cd ..",
            "cd /proc/self",
            "ls; cd -",
            "./ls",
            "/tmp/ls",
            "cat $x",
            "cat < .env",
            "sed -n p f",
            "sed 1p f",
            "find . -delete",
            "ls | sh",
            "time",
            "zsh -c 'ls =rm'",
            "sh -c 'ls &>f'",
            "for PATH in .; do ls; done",
            "PATH=.; ls",
            "git config --get http.x",
            "git stash list",
            "cd x && git config --get user.name",
            "cd x && /usr/bin/git config --get user.name",
            "cat 'a\u{202e}b'",
            "echo '\u{1b}[2J'",
            "echo 'a\u{200b}'",
            "date +X 3<f >/dev/fd/3",
            "date +X 1<f >/dev/stdout",
            "date >/dev/stderr",
            "date 2>/dev/stdout",
            "date >&/dev/stdout",
            "date &>/dev/stderr",
            "date >|/dev/fd/3",
            "date <>/dev/fd/3",
            "date >/proc/self/fd/1",
            "date >/proc/1/fd/1",
            "date >/dev/tcp/h/80",
            "date >/dev/../dev/null",
        ] {
            assert_eq!(decide(line), Decision::Prompt, "{line}: {:?}", parse_bash(line));
        }
    }
}
