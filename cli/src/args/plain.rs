//! Reading the usual lines of `run` and `explain` by hand.
//!
//! Describing the options of one command to clap takes longer than everything else that reads a command line. Read here is
//! what can be read in one way only: options that are written out, each with a value that is neither empty nor begins with a
//! dash, and single values that are given once. Everything else, every error and every word of help is clap's.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;

use super::{Args, Command, Everywhere, Explain, Run, SessionArgs};
use crate::flags;

/// Reads such a line. `None` if clap has to read it.
pub(super) fn parse(arguments: &[OsString]) -> Option<Args> {
    let (name, rest) = arguments.get(1..)?.split_first()?;
    let command = match name.to_str()? {
        "run" => Command::Run(run(rest)?),
        "explain" => Command::Explain(explain(rest)?),
        _ => return None,
    };
    Some(Args { everywhere: Everywhere { otlp: None }, command })
}

fn run(words: &[OsString]) -> Option<Run> {
    let (mut name, mut json, mut verbose) = (None, false, false);
    let mut own = |word: &mut Word<'_>| {
        match word.option {
            "--session" => once(&mut name, word.text()?.parse().ok()?)?,
            "--json" => set(&mut json, word)?,
            "--verbose" | "-v" => set(&mut verbose, word)?,
            _ => return None,
        }
        Some(())
    };
    let Read { session, line, command } = read(words, &mut own)?;
    let is_complete = line.is_some() || !command.is_empty();
    is_complete.then_some(Run { session, name, json, verbose, line, command })
}

fn explain(words: &[OsString]) -> Option<Explain> {
    let (mut path, mut host, mut json) = (Vec::new(), Vec::new(), false);
    let mut own = |word: &mut Word<'_>| {
        match word.option {
            "--path" => path.push(word.path()?),
            "--host" => host.push(flags::destination(word.text()?).ok()?),
            "--json" => set(&mut json, word)?,
            _ => return None,
        }
        Some(())
    };
    let Read { session, line, command } = read(words, &mut own)?;
    let is_complete = line.is_some() || !command.is_empty() || !path.is_empty() || !host.is_empty();
    is_complete.then_some(Explain { session, path, host, json, line, command })
}

/// What both commands take.
struct Read {
    session: SessionArgs,
    line: Option<OsString>,
    command: Vec<OsString>,
}

/// Reads options up to the command. Those that are not the session's are passed to `own`.
fn read(mut words: &[OsString], own: &mut dyn FnMut(&mut Word<'_>) -> Option<()>) -> Option<Read> {
    let (mut session, mut line) = (SessionArgs::default(), None);
    while let Some((first, rest)) = words.split_first() {
        if first == "--" {
            return Some(Read { session, line, command: rest.to_vec() });
        }
        if !first.as_encoded_bytes().starts_with(b"-") {
            // What `--` means behind a command's first word is clap's to say.
            let is_plain = !first.is_empty() && !rest.iter().any(|word| word == "--");
            return is_plain.then(|| Read { session, line, command: words.to_vec() });
        }
        let first = first.to_str()?;
        let (option, given) = match first.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, Some(value)),
            Some(_) | None => (first, None),
        };
        let mut word = Word { option, given, rest };
        if option == "-c" {
            once(&mut line, word.value()?)?;
        } else {
            of_session(&mut session, &mut word).or_else(|| own(&mut word))?;
        }
        words = word.rest;
    }
    Some(Read { session, line, command: Vec::new() })
}

/// Takes an option of the session.
fn of_session(session: &mut SessionArgs, word: &mut Word<'_>) -> Option<()> {
    match word.option {
        "--sandbox" => once(&mut session.sandbox, word.named()?)?,
        "--ask" => once(&mut session.ask, flags::ask(word.text()?).ok()?)?,
        "--cwd" => once(&mut session.cwd, word.path()?)?,
        "--workspace" => session.workspace.push(word.path()?),
        "--writable" => session.writable.push(word.path()?),
        "--readable" => session.readable.push(word.path()?),
        "--deny-read" => session.deny_read.push(word.text()?.to_owned()),
        "--network" => once(&mut session.network, word.named()?)?,
        "--allow-host" => session.allow_host.push(flags::allowed_host(word.text()?).ok()?),
        "--allow-socket" => session.allow_socket.push(word.path()?),
        "--device" => session.device.push(word.path()?),
        "--env" => session.env.push(word.text()?.parse().ok()?),
        "--limit" => once(&mut session.limit, flags::limits(word.text()?).ok()?)?,
        "--timeout" => once(&mut session.timeout, flags::timeout(word.text()?).ok()?)?,
        "--rules" => session.rules.push(word.path()?),
        "--engine" => once(&mut session.engine, word.named()?)?,
        "--with" => session.with.push(word.text().filter(|names| !names.contains(','))?.to_owned()),
        "--profile" => once(&mut session.profile, word.text()?.to_owned())?,
        "--justification" => once(&mut session.justification, word.text()?.to_owned())?,
        "--unsandboxed" => set(&mut session.unsandboxed, word)?,
        _ => return None,
    }
    Some(())
}

/// Sets a single value that is not set yet.
fn once<T>(slot: &mut Option<T>, value: T) -> Option<()> {
    slot.replace(value).is_none().then_some(())
}

/// Sets an option without a value, which may be repeated.
fn set(slot: &mut bool, word: &Word<'_>) -> Option<()> {
    *slot = true;
    word.given.is_none().then_some(())
}

/// An option with what follows it.
struct Word<'a> {
    option: &'a str,
    /// Its value, if it is part of the same word.
    given: Option<&'a str>,
    rest: &'a [OsString],
}

impl<'a> Word<'a> {
    /// Its value. One that is empty or begins with a dash may be something else.
    fn value(&mut self) -> Option<OsString> {
        let value = match self.given {
            Some(value) => OsString::from(value),
            None => {
                let (value, rest) = self.rest.split_first()?;
                self.rest = rest;
                value.clone()
            }
        };
        (!value.is_empty() && !value.as_encoded_bytes().starts_with(b"-")).then_some(value)
    }

    fn path(&mut self) -> Option<PathBuf> {
        self.value().map(PathBuf::from)
    }

    fn text(&mut self) -> Option<&'a str> {
        let value = match self.given {
            Some(value) => value,
            None => {
                let (value, rest) = self.rest.split_first()?;
                self.rest = rest;
                value.to_str()?
            }
        };
        (!value.is_empty() && !value.starts_with('-')).then_some(value)
    }

    /// A value from a list.
    fn named<T: ValueEnum>(&mut self) -> Option<T> {
        T::from_str(self.text()?, false).ok()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::repeated::parse_any;
    use super::*;

    fn line(words: impl IntoIterator<Item = impl Into<OsString>>) -> Vec<OsString> {
        [OsString::from("stockade")].into_iter().chain(words.into_iter().map(Into::into)).collect()
    }

    fn check(arguments: Vec<OsString>) -> Result<bool, TestCaseError> {
        let Some(read) = parse(&arguments) else { return Ok(false) };
        let by_clap = parse_any(arguments.clone()).map(|args| format!("{args:?}")).map_err(|error| error.to_string());
        prop_assert_eq!(Ok(format!("{read:?}")), by_clap, "{:?}", arguments);
        Ok(true)
    }

    #[test]
    fn usual_lines_are_read_without_clap() {
        for words in [
            "run -- /bin/true",
            "run /bin/true",
            "run --ask never --network full -- npm test --help",
            "run --ask=never --engine native ls -la",
            "run -c ls -- a b",
            "run --json --json -v --sandbox read-only -- ls",
            "run --session work --timeout 10m --limit memory=2G,pids=200 -- ls",
            "run --writable a --writable b --deny-read *.pem -- ls --json -- x",
            "run ls --json --otlp y",
            "run --with npm --env A=b --allow-host x.test:443 -- ls",
            "explain -- git push",
            "explain --path a --path b --host x:443",
            "explain --json -c true",
        ] {
            assert!(check(line(words.split_whitespace())).unwrap(), "{words}");
        }
    }

    #[test]
    fn what_is_not_plain_is_left_to_clap() {
        for words in [
            "run",
            "run --help",
            "run --ask never --ask never -- ls",
            "run --ask always -- ls",
            "run --ask -- ls",
            "run --json=yes -- ls",
            "run -vc ls",
            "run -c=ls",
            "run --otlp x -- ls",
            "run --asknever -- ls",
            "run ls -- x",
            "run --with a,b ls",
            "explain",
            "doctor",
            "help run",
        ] {
            assert!(parse(&line(words.split_whitespace())).is_none(), "{words}");
        }
        assert!(parse(&line(["run", "--cwd", "", "--", "ls"])).is_none());
        assert!(parse(&line(["run", ""])).is_none());
        assert!(parse(&[]).is_none());
    }

    proptest! {
        /// Whatever is read here, clap reads the same.
        #[test]
        fn clap_reads_the_same(
            command in prop_oneof![Just("run"), Just("explain")],
            words in proptest::collection::vec(prop_oneof![
                8 => proptest::sample::select(vec![
                    "--sandbox", "--ask", "--cwd", "--workspace", "--writable", "--readable", "--deny-read", "--network",
                    "--allow-host", "--allow-socket", "--device", "--env", "--limit", "--timeout", "--rules", "--engine",
                    "--accept-loss", "--with", "--profile", "--justification", "--unsandboxed", "--session", "--json",
                    "--verbose", "-v", "-c", "--path", "--host", "--otlp", "--", "-", "--=", "--json=", "-c=x", "--ask=",
                ]).prop_map(String::from),
                8 => proptest::sample::select(vec![
                    "never", "read-only", "full", "off", "native", "x", "a=b", "a,b", "x.test:443", "10s", "pids=3", "", "/",
                    "name", "--ask=never", "--cwd=/", "--network=off", "--env=A=b", "--writable=-x", "é", "a b", "x=", "=",
                ]).prop_map(String::from),
                1 => "[-a=, ]{0,6}",
            ], 0..8),
        ) {
            check(line([String::from(command)].into_iter().chain(words)))?;
        }
    }
}
