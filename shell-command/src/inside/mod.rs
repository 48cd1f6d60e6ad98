//! Unwraps commands that start other commands, recursively.
//!
//! Each command of a line is listed, followed by the commands it starts: the operand of a wrapper, the body of `bash
//! -c`, the command of `find -exec`. A started command inherits the assignments and redirections of its starter, so
//! that `A=1 timeout 5 ls > f` is no more plain than `A=1 ls > f`.

mod builtins;
pub(crate) mod find;
mod git;
mod made;
mod options;
mod own;
mod runners;
mod shells;
mod unseen;
mod variables;
mod wrappers;

use std::collections::BTreeSet;

use stockade_protocol::{Argv, CommandRole, ParsedCommand, ParsedLine, Word};

use crate::bash::{self, Found, Input, MOST_COMMANDS};
use crate::safety::{Safety, safety};

pub use unseen::{is_plain_shell, works_unseen};
use variables::sets_locale;

/// Limit on levels, which bounds the work for `nice nice nice …`.
const DEEPEST: usize = 12;

/// Limit on the text parsed for one line, over all levels of `bash -c`.
const MOST_TEXT: usize = 512 * 1024;

/// Limit on assignments or redirections of a command. Started commands inherit them, so they count for each command.
const MOST_INHERITED: usize = 100;

/// The commands that a bash line runs.
///
/// Every command that the line may run is listed, whether or not it will be reached: both arms of an `if`, the body of
/// a function, the commands of `$(…)`, of a heredoc that expands, of `bash -c '…'`. A word is [`Word::Known`] only if
/// the shell can't change it. The line is opaque if it may run a command that is not listed.
///
/// ```
/// use stockade_shell_command::parse_bash;
///
/// let line = parse_bash("cd src && timeout 5 git log > out.txt");
/// let shown: Vec<String> = line.commands.iter().map(|c| format!("{:?}", c.words)).collect();
/// assert_eq!(shown, ["[`cd`, `src`]", "[`timeout`, `5`, `git`, `log`]", "[`git`, `log`]"]);
/// assert_eq!(line.opaque, None);
/// assert!(!line.commands[2].is_plain(), "it writes a file");
///
/// assert!(parse_bash("$(echo rm) x").opaque.is_some());
/// ```
pub fn parse_bash(text: &str) -> ParsedLine {
    let mut lister = Lister::default();
    lister.text(text, &ParsedCommand::default());
    lister.finish()
}

/// The commands that an argv runs, started without a shell in between.
///
/// ```
/// use stockade_protocol::Argv;
/// use stockade_shell_command::parse_argv;
///
/// let line = parse_argv(&Argv::parse(["bash", "-lc", "ls | wc -l"])?);
/// assert_eq!(line.commands.len(), 3);
/// assert_eq!(line.commands[1].via.as_deref(), Some("bash -c"));
/// # Ok::<(), stockade_protocol::Invalid>(())
/// ```
pub fn parse_argv(argv: &Argv) -> ParsedLine {
    let mut lister = Lister::default();
    let words = argv.words().iter().cloned().map(Word::Known).collect();
    lister.command(ParsedCommand { words, ..ParsedCommand::default() }, &Input::None);
    lister.finish()
}

/// The commands that a command starts.
struct Inside {
    role: CommandRole,
    starts: Vec<Started>,
    opaque: Option<&'static str>,
}

enum Started {
    /// A program with its arguments.
    Words { words: Vec<Word>, assigns: Vec<String>, via: String },
    /// Text that a shell reads.
    Text { text: String, via: String },
}

impl Inside {
    /// It starts nothing.
    fn nothing() -> Self {
        Self { role: CommandRole::Runs, starts: Vec::new(), opaque: None }
    }

    fn runs(starts: Vec<Started>) -> Self {
        Self { starts, ..Self::nothing() }
    }

    fn opaque(self, why: &'static str) -> Self {
        Self { opaque: Some(why), ..self }
    }
}

#[derive(Default)]
struct Lister {
    line: ParsedLine,
    functions: BTreeSet<String>,
    depth: usize,
    /// The number of bytes parsed.
    text_read: usize,
}

impl Lister {
    /// Lists the commands of `text`, which `starter` runs.
    fn text(&mut self, text: &str, starter: &ParsedCommand) {
        self.text_read = self.text_read.saturating_add(text.len());
        if self.text_read > MOST_TEXT {
            return self.make_opaque("the line is too long to be read");
        }
        let reading = bash::read(text);
        self.functions.extend(reading.functions);
        if let Some(why) = reading.opaque {
            self.make_opaque(&why);
        }
        if !text.is_ascii() && reading.commands.iter().flat_map(|found| &found.assigns).any(|name| sets_locale(name)) {
            self.make_opaque("the line changes how its own characters are read");
        }
        for found in reading.commands {
            let worst = worst_case(&found);
            let command = ParsedCommand {
                words: found.words.into_iter().map(|word| word.word).collect(),
                role: CommandRole::Runs,
                assigns: [starter.assigns.clone(), found.assigns].concat(),
                writes: [starter.writes.clone(), found.writes].concat(),
                reads: [starter.reads.clone(), found.reads].concat(),
                via: found.via.or_else(|| starter.via.clone()),
            };
            let worst = worst.map(|words| ParsedCommand { words, ..command.clone() });
            self.command(command, &found.input);
            if let Some(worst) = worst {
                self.worst(worst);
            }
        }
    }

    /// Lists a command and the commands it starts.
    fn command(&mut self, mut command: ParsedCommand, input: &Input) {
        if self.line.commands.len() >= MOST_COMMANDS {
            return self.make_opaque("the line has too many commands");
        }
        if command.assigns.len().max(command.writes.len()).max(command.reads.len()) > MOST_INHERITED {
            self.make_opaque("a command has too many assignments or redirections");
            command.assigns.truncate(MOST_INHERITED);
            command.writes.truncate(MOST_INHERITED);
            command.reads.truncate(MOST_INHERITED);
        }
        let inside = look(&command, input);
        if let Some(why) = inside.opaque {
            self.make_opaque(why);
        }
        if let Some(name) = command.assigns.iter().find(|name| variables::is_acted_upon(name)) {
            self.make_opaque(&format!("what `{name}` is set to may run something"));
        }
        let has_run = self.line.commands.iter().any(|earlier| earlier.role == CommandRole::Runs);
        if has_run && shells::is_login(&command.words) {
            self.make_opaque("a login shell reads files that the line may have written");
        }
        self.line.commands.push(ParsedCommand { role: inside.role, ..command.clone() });
        if self.depth >= DEEPEST {
            if !inside.starts.is_empty() {
                self.make_opaque("too many commands start one another");
            }
            return;
        }
        self.depth += 1;
        // A started command inherits everything but the words, of which there may be many.
        let starter = ParsedCommand { words: Vec::new(), ..command };
        for started in inside.starts {
            if self.line.commands.len() >= MOST_COMMANDS {
                self.make_opaque("the line has too many commands");
                break;
            }
            self.started(started, &starter);
        }
        self.depth -= 1;
    }

    fn started(&mut self, started: Started, starter: &ParsedCommand) {
        match started {
            Started::Words { words, assigns, via } => {
                let assigns = [starter.assigns.clone(), assigns].concat();
                let command = ParsedCommand { words, assigns, via: Some(via), ..starter.clone() };
                self.command(command, &Input::None);
            }
            Started::Text { text, via } => {
                self.text(&text, &ParsedCommand { via: Some(via), ..starter.clone() });
            }
        }
    }

    /// Lists a command once more with the worst expansion of its patterns, if that is a catastrophe: `rm -rf /*` is
    /// `rm -rf /` in effect.
    fn worst(&mut self, command: ParsedCommand) {
        let mut reading = Self { depth: self.depth, ..Self::default() };
        reading.command(ParsedCommand { via: Some("the worst case of a pattern".into()), ..command }, &Input::None);
        let catastrophe = |command: &ParsedCommand| matches!(safety(command), Safety::Dangerous { .. });
        self.line.commands.extend(reading.line.commands.into_iter().filter(catastrophe));
    }

    fn make_opaque(&mut self, why: &str) {
        self.line.opaque.get_or_insert_with(|| why.to_owned());
    }

    fn finish(mut self) -> ParsedLine {
        let calls_own_function = self.line.commands.iter().any(|command| {
            command.words.first().and_then(Word::as_str).is_some_and(|name| self.functions.contains(name))
        });
        if calls_own_function {
            self.make_opaque("the line calls a function that it defines");
        }
        if made::runs_what_it_makes(&self.line.commands) {
            self.make_opaque("the line may run a file that it makes");
        }
        self.line
    }
}

/// The words with each pattern replaced by its worst expansion, if there is any.
fn worst_case(found: &Found) -> Option<Vec<Word>> {
    found.words.iter().any(|word| word.worst.is_some()).then(|| {
        let worst = |word: &bash::FoundWord| word.worst.as_deref().map_or_else(|| word.word.clone(), Word::from);
        found.words.iter().map(worst).collect()
    })
}

/// Whether a program of this name is a shell, a wrapper or a runner: its words or its input choose what it starts.
///
/// ```
/// use stockade_shell_command::starts_others;
///
/// assert!(["bash", "env", "xargs", "find", "sudo"].into_iter().all(starts_others));
/// assert!(!["git", "make", "ls"].into_iter().any(starts_others));
/// ```
pub fn starts_others(name: &str) -> bool {
    let is_windows_shell = matches!(name, "powershell" | "pwsh" | "cmd");
    is_windows_shell || shells::is_shell(name) || wrappers::is_wrapper(name) || runners::is_runner(name)
}

/// The commands that `command` starts.
fn look(command: &ParsedCommand, input: &Input) -> Inside {
    let Some(first) = command.words.first() else { return Inside::nothing() };
    let Some(program) = first.as_str() else {
        return Inside::nothing().opaque("the name of a program is made while the line runs");
    };
    let name = program.rsplit('/').next().unwrap_or(program);
    shells::look(name, command, input)
        .or_else(|| builtins::look(name, &command.words))
        .or_else(|| wrappers::look(name, &command.words))
        .or_else(|| own::look(name, &command.words))
        .or_else(|| runners::look(name, &command.words, input))
        .map(|inside| trust(program, inside))
        .unwrap_or_else(Inside::nothing)
}

/// A wrapper given by a path may be any program, so it is judged itself.
fn trust(program: &str, inside: Inside) -> Inside {
    if is_trusted(program) { inside } else { Inside { role: CommandRole::Runs, ..inside } }
}

/// Whether a program is found by name or is in a directory that only the administrator can write.
pub(crate) fn is_trusted(program: &str) -> bool {
    match program.rsplit_once('/') {
        None => true,
        Some((directory, _)) => matches!(directory, "/bin" | "/usr/bin"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &ParsedLine) -> Vec<String> {
        let words =
            |command: &ParsedCommand| command.words.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        line.commands.iter().map(words).collect()
    }

    #[test]
    fn what_a_command_starts_stands_behind_it() {
        for (text, started) in [
            ("nice -n 5 timeout -k 1 9 rm x", "rm x"),
            ("env A=1 rm x", "rm x"),
            ("env -S 'rm x'", "rm x"),
            ("sudo -u root rm x", "rm x"),
            ("find . -name a -exec rm {} \\;", "rm …"),
            ("xargs -n1 rm", "rm …"),
            ("ssh -p 22 host rm x", "rm x"),
            ("su -c 'rm x' root", "rm x"),
            ("script -qc 'rm x' /dev/null", "rm x"),
            ("flock f rm x", "rm x"),
            ("watch -n 1 rm x", "rm x"),
            ("git -c alias.x='!rm x' x", "rm x"),
            ("git submodule foreach 'rm x'", "rm x"),
            ("git rebase -x 'rm x' HEAD", "rm x"),
            ("docker exec -it box rm x", "rm x"),
            ("bash <<'E'\nrm x\nE", "rm x"),
            ("bash <<< 'rm x'", "rm x"),
            ("sh -ec 'rm x'", "rm x"),
            ("zsh -c 'rm x'", "rm x"),
            ("pwsh -NoProfile -c 'rm x'", "rm x"),
            ("powershell -EncodedCommand cgBtACAAeAA=", "rm x"),
            ("cmd.exe /c rm x", "rm x"),
            ("cat <<E\n$(rm x)\nE", "rm x"),
            ("a && ( b; rm x", "rm x"),
        ] {
            assert!(shown(&parse_bash(text)).contains(&started.to_owned()), "{text}: {:?}", parse_bash(text));
        }
    }

    #[test]
    fn a_wrapper_that_can_be_followed_is_only_a_wrapper() {
        for text in ["timeout 5 ls", "nice ls", "bash -c ls", "sh -c 'ls -l | wc'", "env A=1 ls", "/usr/bin/nice ls"] {
            let line = parse_bash(text);
            assert_eq!((line.commands[0].role, line.opaque), (CommandRole::Wrapper, None), "{text}");
        }
        for text in
            ["./timeout 5 ls", "timeout --weird 5 ls", "sudo ls", "bash -ic ls", "A=1 bash -c ls", "bash -kc ls"]
        {
            assert_eq!(parse_bash(text).commands[0].role, CommandRole::Runs, "{text}");
        }
    }

    #[test]
    fn what_a_wrapper_starts_may_be_unknown() {
        for text in ["command $x", "command x=* $y", "timeout $x $y", "env $x", "nice -n 5 $x"] {
            assert!(parse_bash(text).opaque.is_some(), "{text}: {:?}", parse_bash(text));
        }
        assert_eq!(parse_bash("nice").opaque, None);
    }

    #[test]
    fn what_is_started_inherits_assignments_and_redirections() {
        for text in ["A=1 nice ls", "env A=1 ls", "nice ls > f", "bash -c ls > f", "timeout 5 env A=1 bash -c ls"] {
            let line = parse_bash(text);
            assert!(line.commands.iter().skip(1).any(|command| !command.is_plain()), "{text}: {line:?}");
            assert!(!line.commands.last().is_some_and(ParsedCommand::is_plain), "{text}: {line:?}");
        }
    }
}
