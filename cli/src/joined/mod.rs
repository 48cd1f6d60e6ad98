//! `stockade run --session NAME`: a command in a session that outlives it.
//!
//! A server keeps the session; this program hands it the command with its own streams, directory, environment, umask
//! and limits, forwards signals, asks the server's questions at its terminal, and ends as the command ends. On the
//! fast path only the ticket of the session is read: no settings, no rules, no event loop.

mod asking;
mod attend;
mod client;
mod joining;
mod manage;
mod patching;
mod place;
mod server;
mod terminal;

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stockade_core::Explanation;
use stockade_protocol::{AbsPath, EscalationExecution};
use stockade_server::Client;
use stockade_server::wire::{Capability, SessionId, SessionName, SessionOpenParams};

use self::joining::Joined;
use self::place::Place;
use crate::exit::{Failure, Form};
use crate::run::Ending;
use crate::run::ReportForm;
use crate::shell;

pub(crate) use manage::run as manage;
pub(crate) use patching::{Patched, patch};

/// The source of the session's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamedBy {
    /// `--session`.
    Flag,
    /// `STOCKADE_SESSION`, which a project may have set.
    Variable,
}

/// A command for a session.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) name: SessionName,
    pub(crate) named_by: NamedBy,
    pub(crate) command: Cow<'a, [OsString]>,
    pub(crate) report_form: ReportForm,
    pub(crate) ending: Ending,
    pub(crate) cwd: Option<AbsPath>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) escalation: Option<EscalationExecution>,
    pub(crate) justification: Option<String>,
    pub(crate) answers: Answers,
    /// The command's standard input; this program's own if `None`.
    pub(crate) stdin: Option<OwnedFd>,
}

/// The source of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answers {
    /// The person at this program's terminal.
    Terminal,
    /// The session's other clients: this one does not ask.
    OtherClients,
    /// The person has approved this command elsewhere, before it was started.
    GivenBefore,
}

/// The parameters of a new session.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    pub(crate) params: SessionOpenParams,
    /// The flags that determine its policy.
    pub(crate) flags: Vec<String>,
}

/// The session that the environment names.
pub(crate) fn named_by_variable() -> Option<OsString> {
    std::env::var_os(server::SESSION_VARIABLE).filter(|name| !name.is_empty())
}

/// Runs a command in an existing session, if the arguments are simple enough. Otherwise nothing is done, and the
/// normal path is taken.
pub(crate) fn run_early(arguments: &[OsString]) -> Option<ExitCode> {
    let wanted = early(arguments)?;
    let joined = joining::join_early(&wanted).ok()??;
    let form = if wanted.report_form == ReportForm::Json { Form::Outcome } else { Form::Text };
    client::run(&wanted, joined).unwrap_or_else(|failure| Some(failure.report(form)))
}

/// Runs a command in a session, which is opened first if there is none.
pub(crate) fn run(
    wanted: &Wanted<'_>,
    opening: impl FnOnce() -> Result<Opening, Failure>,
) -> Result<ExitCode, Failure> {
    let opening = opening()?;
    if let Some(joined) = joining::join(wanted)? {
        joining::check_flags(wanted, &opening)?;
        if let Some(code) = client::run(wanted, joined)? {
            return Ok(code);
        }
    }
    let joined = joining::open(wanted, opening)?;
    client::run(wanted, joined)?.ok_or_else(|| joining::JoinError::Gone { name: wanted.name.to_string() }.into())
}

/// Runs a command in an existing session.
pub(crate) fn run_open(wanted: &Wanted<'_>) -> Result<ExitCode, Failure> {
    let not_open = || joining::JoinError::NotOpen { name: wanted.name.to_string() };
    let joined = joining::join(wanted)?.ok_or_else(not_open)?;
    Ok(client::run(wanted, joined)?.ok_or_else(not_open)?)
}

/// Explains a command in a session, which is opened first if there is none.
pub(crate) fn explain(
    wanted: &Wanted<'_>,
    opening: impl FnOnce() -> Result<Opening, Failure>,
) -> Result<Explanation, Failure> {
    if let Some(joined) = joining::join(wanted)?
        && let Some(explanation) = client::explain(wanted, joined)?
    {
        return Ok(explanation);
    }
    let joined = joining::open(wanted, opening()?)?;
    Ok(client::explain(wanted, joined)?.ok_or_else(|| joining::JoinError::Gone { name: wanted.name.to_string() })?)
}

/// A session that a program serves to others: a second connection to its server, and its credentials.
pub(crate) struct Served {
    pub(crate) socket: UnixStream,
    pub(crate) session_id: SessionId,
    pub(crate) capability: Capability,
    pub(crate) name: SessionName,
    /// The connection that opened it, which keeps it alive until the other one is attached.
    pub(crate) opener: Client,
}

/// Removes the ticket of an ended session.
pub(crate) fn forget(name: &SessionName) {
    if let Ok(place) = Place::find() {
        place.remove(name);
    }
}

/// Opens a session to serve, or joins the one of the name. Without a name it gets a unique one.
pub(crate) fn serve(name: Option<SessionName>, opening: Opening) -> Result<Served, Failure> {
    let name = match name {
        Some(name) => name,
        None => free_name()?,
    };
    let wanted = Wanted {
        name: name.clone(),
        named_by: NamedBy::Flag,
        command: Cow::Borrowed(&[]),
        report_form: ReportForm::Failures,
        ending: Ending::ByCode,
        cwd: None,
        timeout: None,
        escalation: None,
        justification: None,
        answers: Answers::OtherClients,
        stdin: None,
    };
    let Joined { client: opener, session_id, capability, place } = joining::open(&wanted, opening)?;
    let socket = UnixStream::connect(place.socket())?;
    Ok(Served { socket, session_id, capability, name, opener })
}

/// An unused session name.
fn free_name() -> Result<SessionName, Failure> {
    let place = Place::find()?;
    loop {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let number = now.subsec_nanos() ^ std::process::id().rotate_left(12);
        let name: SessionName = format!("mcp-{:06x}", number & 0xff_ffff).parse()?;
        if place.ticket(&name).is_none() {
            return Ok(name);
        }
    }
}

/// Parses arguments that consist only of `run`, `--session`, `--json`, `-c` and a command.
fn early(arguments: &[OsString]) -> Option<Wanted<'_>> {
    let mut rest = arguments.get(1..)?.split_first().filter(|(first, _)| *first == "run")?.1;
    let (mut flag, mut line, mut json) = (None::<&OsStr>, None::<&OsStr>, false);
    while let Some((word, after)) = rest.split_first() {
        let text = word.to_str()?;
        if !text.starts_with('-') {
            break;
        }
        rest = after;
        if let Some(name) = text.strip_prefix("--session=") {
            flag.is_none().then(|| flag = Some(OsStr::new(name)))?;
            continue;
        }
        match text {
            "--" => break,
            "--json" => json = true,
            "--session" if flag.is_none() => flag = Some(take(&mut rest)?),
            "-c" if line.is_none() => line = Some(take(&mut rest)?),
            _ => return None,
        }
    }
    let (name, named_by) = match flag {
        Some(name) => (name.to_owned(), NamedBy::Flag),
        None => (named_by_variable()?, NamedBy::Variable),
    };
    let command = match line {
        Some(line) => Cow::Owned(shell::with_line(line, rest)),
        None => Cow::Borrowed(rest),
    };
    Some(Wanted {
        name: name.to_str()?.parse().ok()?,
        named_by,
        command: Some(command).filter(|command| !command.is_empty())?,
        report_form: if json { ReportForm::Json } else { ReportForm::Failures },
        ending: Ending::ByCode,
        cwd: None,
        timeout: None,
        escalation: None,
        justification: None,
        answers: Answers::Terminal,
        stdin: None,
    })
}

fn take<'a>(rest: &mut &'a [OsString]) -> Option<&'a OsStr> {
    let (first, after) = rest.split_first()?;
    *rest = after;
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &[&str]) -> Vec<OsString> {
        text.iter().map(OsString::from).collect()
    }

    #[test]
    fn simple_arguments_are_understood_early() {
        for (given, command) in [
            (&["run", "--session", "a", "--", "make", "-j"][..], &["make", "-j"][..]),
            (&["run", "--session=a", "make", "--session=b"], &["make", "--session=b"]),
            (&["run", "--json", "--session", "a", "make"], &["make"]),
        ] {
            let given = words(&[&["stockade"], given].concat());
            let found = early(&given).unwrap();
            assert_eq!((found.name.as_str(), &*found.command), ("a", &*words(command)), "{given:?}");
        }
        let given = words(&["stockade", "run", "--session", "a", "-c", "x | y", "name"]);
        assert_eq!(early(&given).unwrap().command.get(1..), Some(&*words(&["-c", "x | y", "name"])));
        for other in [
            &["run", "make"][..],
            &["explain", "--session", "a", "make"],
            &["run", "--session", "a", "--sandbox", "read-only", "make"],
            &["run", "--session", "a", "--session", "b", "make"],
            &["run", "--session", "a"],
            &["run", "--session", "a/b", "make"],
            &["run"],
            &[],
        ] {
            assert!(early(&words(&[&["stockade"], other].concat())).is_none(), "{other:?}");
        }
    }
}
