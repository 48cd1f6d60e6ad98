//! Shell lines instead of commands: `stockade run -c LINE`, and `stockade-sh`, a name of this program that serves as a
//! shell wherever one can be configured (`SHELL`, `make SHELL=`, a prefix for lines). `stockade-opencode` is the same,
//! in the session of its caller.
//!
//! `bash` runs the line, or `sh` if there is no `bash`, so it is judged as `bash -c LINE`. `stockade-sh` passes the
//! shell's options on unchanged, and parses them only to find the line. It has no options of its own, and no variable
//! changes what it allows: its callers' environment may be influenced by a project.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use crate::args::{Run, SessionArgs};
use crate::exit::{self, Failure, Form, note, print};
use crate::run::{self, Ending};

/// The name that stands for a shell.
const NAME: &str = "stockade-sh";

/// A shell's exit code for invalid arguments.
const USAGE: u8 = 2;

const HELP: &str = "\
Runs one shell line in the sandbox, as `stockade run -c LINE` does, wherever a shell can be named.

Usage: stockade-sh [OPTIONS OF BASH] -c LINE [NAME [ARGUMENT]…]
       stockade-sh LINE

Examples:
  SHELL=~/bin/stockade-sh script -c 'npm test' log
  make SHELL=~/bin/stockade-sh
  npm config set script-shell ~/bin/stockade-sh

It is a link to `stockade`: ln -s \"$(command -v stockade)\" ~/bin/stockade-sh
The settings files say what is allowed; `stockade run --help` has the exit codes. Arguments that make no
sense end with 2, and a signal that ends the line ends stockade-sh, too.
";

/// Option letters of a shell that still runs a line. `c` requests that; `o` and `O` are followed by a name.
const LETTERS: &str = "abefhiklmnprtuvxBCEHPT";

const LONG: [&str; 5] = ["--login", "--norc", "--noprofile", "--posix", "--noediting"];

/// Arguments without exactly one line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum ShellUsage {
    #[error(
        "stockade-sh runs one line, and there is none: `stockade-sh -c LINE`. For a shell inside the sandbox, type \
         `stockade run -- bash`"
    )]
    NoLine,
    #[error("`-c` has no line behind it: `stockade-sh -c LINE`")]
    NothingToRun,
    #[error("stockade-sh does not know the option `{option}`: `stockade run -- bash …` takes every option of bash")]
    Option { option: String },
    #[error("`{option}` has no name behind it, such as `pipefail`")]
    NoName { option: String },
    #[error(
        "stockade-sh runs one line, and these are several words: quote the line (`stockade-sh -c LINE`), or run a \
         script with `stockade run -- bash {script} …`"
    )]
    Script { script: String },
    #[error(
        "`{script}` names stockade-sh as its interpreter, which runs one line and no script: begin the script with \
         `#!/bin/bash`, and run it with `stockade run -- {script}`"
    )]
    Interpreter { script: String },
}

/// Whether this program was started under a shell name, possibly with the dash of a login shell.
pub(crate) fn is_meant(arguments: &[OsString]) -> bool {
    name(arguments).is_some_and(|name| name == NAME || is_login(name) || is_of_opencode(name))
}

#[cfg(unix)]
fn is_of_opencode(name: &OsStr) -> bool {
    name == crate::agents::opencode::NAME
}

/// Sessions need a server, which is there on Unix only.
#[cfg(not(unix))]
fn is_of_opencode(_: &OsStr) -> bool {
    false
}

fn name(arguments: &[OsString]) -> Option<&OsStr> {
    Path::new(arguments.first()?).file_name()
}

fn is_login(name: &OsStr) -> bool {
    name.to_str().and_then(|name| name.strip_prefix('-')) == Some(NAME)
}

/// `stockade-sh`.
pub(crate) fn run(arguments: &[OsString]) -> ExitCode {
    let words = arguments.get(1..).unwrap_or_default();
    if let [word] = words
        && (word == "--help" || word == "--version")
    {
        let version = concat!("stockade-sh ", env!("CARGO_PKG_VERSION"), "\n");
        let printed = print(if word == "--help" { HELP } else { version });
        return if printed.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) };
    }
    let mut command = match command(words) {
        Ok(command) => command,
        Err(error) => {
            note(&error.to_string());
            return ExitCode::from(USAGE);
        }
    };
    if name(arguments).is_some_and(is_login) {
        command.insert(1, OsString::from("-l"));
    }
    match started(arguments, command) {
        Ok(code) => code,
        Err(failure) => failure.report(Form::Text),
    }
}

fn started(arguments: &[OsString], command: Vec<OsString>) -> Result<ExitCode, Failure> {
    #[cfg(unix)]
    if name(arguments).is_some_and(is_of_opencode) {
        return crate::agents::opencode::run(command);
    }
    let run = Run { session: SessionArgs::default(), name: None, json: false, verbose: false, line: None, command };
    run::run(&run, Ending::BySignal)
}

/// The shell with a line and its `$0`, `$1` and so on.
pub(crate) fn with_line(line: &OsStr, arguments: &[OsString]) -> Vec<OsString> {
    let mut command = vec![OsString::from(program()), OsString::from("-c")];
    push_line(&mut command, line);
    command.extend_from_slice(arguments);
    command
}

/// Marks a line that looks like an option as an operand.
fn push_line(command: &mut Vec<OsString>, line: &OsStr) {
    if matches!(line.as_encoded_bytes().first(), Some(b'-' | b'+')) {
        command.push(OsString::from("--"));
    }
    command.push(line.to_owned());
}

/// The shell that runs lines.
fn program() -> &'static str {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has_bash = std::env::split_paths(&path).any(|directory| directory.join("bash").is_file());
    if has_bash || path.is_empty() { "bash" } else { "sh" }
}

/// The command that a shell's arguments stand for.
fn command(words: &[OsString]) -> Result<Vec<OsString>, ShellUsage> {
    let Options { takes_line, count, is_closed } = options(words)?;
    let (options, operands) = words.split_at(count.min(words.len()));
    let mut command = vec![OsString::from(program())];
    command.extend_from_slice(options);
    match (takes_line, operands) {
        (true, []) => return Err(ShellUsage::NothingToRun),
        (true, operands) => command.extend_from_slice(operands),
        (false, []) => return Err(ShellUsage::NoLine),
        (false, [line]) => {
            if is_own_script(Path::new(line)) {
                return Err(ShellUsage::Interpreter { script: line.to_string_lossy().into_owned() });
            }
            if is_closed {
                // Operands follow, so the new option is inserted before.
                command.insert(1, OsString::from("-c"));
                command.push(line.clone());
            } else {
                command.push(OsString::from("-c"));
                push_line(&mut command, line);
            }
        }
        (false, [script, ..]) => {
            return Err(ShellUsage::Script { script: script.to_string_lossy().into_owned() });
        }
    }
    Ok(command)
}

/// The options before the line.
struct Options {
    takes_line: bool,
    /// The number of their words.
    count: usize,
    /// Whether `--` ends them.
    is_closed: bool,
}

fn options(words: &[OsString]) -> Result<Options, ShellUsage> {
    let mut found = Options { takes_line: false, count: 0, is_closed: false };
    while let Some(word) = words.get(found.count) {
        let bytes = word.as_encoded_bytes();
        if !matches!(bytes.first(), Some(b'-' | b'+')) {
            break;
        }
        let option = word.to_string_lossy().into_owned();
        found.count += 1;
        match option.as_str() {
            "--" | "-" => {
                found.is_closed = true;
                break;
            }
            long if LONG.contains(&long) => {}
            long if long.starts_with("--") => return Err(ShellUsage::Option { option }),
            letters => {
                let (sets, letters) = letters.split_at(1);
                for letter in letters.chars() {
                    match letter {
                        'c' if sets == "-" => found.takes_line = true,
                        'o' | 'O' if words.get(found.count).is_some() => found.count += 1,
                        'o' | 'O' => return Err(ShellUsage::NoName { option }),
                        letter if LETTERS.contains(letter) => {}
                        _ => return Err(ShellUsage::Option { option }),
                    }
                }
            }
        }
    }
    Ok(found)
}

/// Whether a word is a script with this program as its interpreter. As a line it would start this program again,
/// recursively.
fn is_own_script(path: &Path) -> bool {
    if !path.is_file() {
        return false;
    }
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(256).read_to_end(&mut start));
    let first = start.split(|byte| *byte == b'\n').next().unwrap_or_default();
    read.is_ok() && first.starts_with(b"#!") && String::from_utf8_lossy(first).contains(NAME)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &[&str]) -> Vec<OsString> {
        text.iter().map(OsString::from).collect()
    }

    fn becomes(given: &[&str]) -> Vec<String> {
        let command = command(&words(given)).unwrap();
        command.iter().skip(1).map(|word| word.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn a_line_is_found_behind_the_options_that_callers_pass() {
        for same in [
            &["-c", "LINE"][..],
            &["-lc", "LINE"],
            &["-l", "-c", "LINE"],
            &["-c", "-l", "LINE"],
            &["-ec", "LINE"],
            &["-euxc", "LINE"],
            &["-ic", "LINE"],
            &["-euo", "pipefail", "-c", "LINE"],
            &["-euo", "pipefail", "+x", "-c", "LINE"],
            &["-ceo", "pipefail", "LINE"],
            &["--login", "--norc", "-c", "LINE"],
            &["-c", "--", "-LINE"],
            &["-c", "LINE", "name", "-x", "argument"],
            &["-O", "extglob", "-c", "LINE"],
            &["-c", ""],
        ] {
            assert_eq!(becomes(same), same, "{same:?}");
        }
    }

    #[test]
    fn one_word_is_a_line() {
        assert_eq!(becomes(&["echo a | cat"]), ["-c", "echo a | cat"]);
        assert_eq!(becomes(&["-l", "echo a"]), ["-l", "-c", "echo a"]);
        assert_eq!(becomes(&["--", "-x a"]), ["-c", "--", "-x a"]);
        let line = with_line(OsStr::new("-x"), &words(&["name"]));
        assert_eq!(line.get(1..), Some(&*words(&["-c", "--", "-x", "name"])));
    }

    #[test]
    fn everything_else_says_what_to_do() {
        for (given, says) in [
            (&[][..], "stockade run -- bash"),
            (&["-i"], "stockade run -- bash"),
            (&["-l"], "stockade run -- bash"),
            (&["-c"], "has no line"),
            (&["-lc", "--"], "has no line"),
            (&["-s"], "option `-s`"),
            (&["-zc", "LINE"], "option `-zc`"),
            (&["--rcfile", "f", "-c", "LINE"], "option `--rcfile`"),
            (&["--json", "-c", "LINE"], "option `--json`"),
            (&["-o"], "has no name"),
            (&["script", "argument"], "bash script"),
        ] {
            let error = command(&words(given)).unwrap_err().to_string();
            assert!(error.contains(says), "{given:?}: {error}");
        }
    }

    #[test]
    fn the_name_says_what_is_meant() {
        for (name, expected) in [
            ("stockade-sh", true),
            ("/a/b/stockade-sh", true),
            ("-stockade-sh", true),
            ("stockade", false),
            ("sh", false),
        ] {
            assert_eq!(is_meant(&words(&[name])), expected, "{name}");
        }
        assert!(!is_meant(&[]));
    }
}
