//! `stockade hook AGENT`: judges a tool call and answers in the agent's format.
//!
//! A call that can't be parsed or judged must not happen, and an agent ignores a late, malformed or missing answer: so
//! there is always one in time, and every error is a refusal. That holds for a crash, too: a child process judges.

mod answer;
mod call;
mod child;
mod dialog;
mod files;
mod given_command;
mod javascript;
mod judge;
mod line;
mod pattern;
mod run;

use std::io::Read as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use self::answer::Answer;
use self::call::{Call, CallError, Event};
use self::child::ChildEnd;
use crate::args::{AgentName, HookAnswer, HookCommand};
use crate::exit::{Failure, note, print};

/// The exit code that all agents treat as a refusal, with the reason on standard error.
pub(crate) const BLOCKED: u8 = 2;
/// The exit code with an answer on standard output, or without an opinion.
const ANSWERED: u8 = 0;
/// The time that the child has beyond the limit to print its answer. Agents wait 30 seconds, and the limit is 20.
const GRACE: Duration = Duration::from_secs(2);

pub(crate) fn run(command: &HookCommand) -> Result<ExitCode, Failure> {
    match command {
        HookCommand::ClaudeCode(hook) => Ok(answer(AgentName::ClaudeCode, hook)),
        HookCommand::Codex(hook) => Ok(answer(AgentName::Codex, hook)),
        HookCommand::Gemini(hook) => Ok(answer(AgentName::Gemini, hook)),
        HookCommand::Run(run) => run::run(run),
    }
}

/// Answers by a child process. Whatever becomes of that, this process ends with a code that the agent knows.
fn answer(agent: AgentName, hook: &HookAnswer) -> ExitCode {
    // The child has an answer of its own for whatever takes too long, except for itself.
    let end = child::run(hook.limit + GRACE, || answered(agent, hook));
    let reason = match end {
        Ok(ChildEnd::Code(code @ (ANSWERED | BLOCKED))) => return ExitCode::from(code),
        Ok(ChildEnd::Code(code)) => format!("it ended with code {code}"),
        Ok(ChildEnd::Signal(signal)) => format!("it was ended by signal {signal}"),
        Ok(ChildEnd::Late) => format!("it took more than {} seconds", (hook.limit + GRACE).as_secs()),
        Err(error) => format!("it could not be started or watched: {error}"),
    };
    note(&format!("the judgement of this use failed, so it is refused: {reason}"));
    ExitCode::from(BLOCKED)
}

/// Reads, judges and answers in separate threads, so that nothing that hangs delays the answer.
fn answered(agent: AgentName, hook: &HookAnswer) -> u8 {
    let until = Instant::now() + hook.limit;
    let call = match within(until, read_stdin).map(|bytes| call::read(agent, &bytes?)) {
        Some(Ok(call)) => call,
        Some(Err(error)) => return blocked(&error.to_string()),
        None => return blocked("the hook's input did not come in time"),
    };
    if call.event == Event::Other {
        return ANSWERED;
    }
    let judged = call.clone();
    let answer = within(until, move || judge::judge(&judged)).unwrap_or_else(|| judge::undecided(&call, hook.limit));
    tell(&call, answer)
}

fn tell(call: &Call, answer: Answer) -> u8 {
    match answer::document(call, answer, dialog::of(call.agent)) {
        Ok(None) => ANSWERED,
        Ok(Some(document)) => match print(&format!("{document}\n")) {
            Ok(()) => ANSWERED,
            Err(error) => blocked(&error.to_string()),
        },
        Err(reason) => blocked(&reason),
    }
}

fn blocked(reason: &str) -> u8 {
    note(reason);
    BLOCKED
}

fn read_stdin() -> Result<Vec<u8>, CallError> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(call::LONGEST + 1).read_to_end(&mut bytes);
    read.map_err(serde_json::Error::io)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > call::LONGEST) {
        return Err(CallError::TooLong);
    }
    Ok(bytes)
}

/// The result of `work`; `None` if it takes too long, or panics.
fn within<T: Send + 'static>(until: Instant, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let started = std::thread::Builder::new().stack_size(8 << 20).spawn(move || {
        // The answer may have been given already.
        sender.send(work()).ok();
    });
    started.ok()?;
    receiver.recv_timeout(until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1))).ok()
}

/// The directory of the agent's project, which is the session's workspace. The agent determines it, not the final
/// directory of its last command.
fn project(call: &Call) -> Result<PathBuf, String> {
    let name = match call.agent {
        AgentName::ClaudeCode => "CLAUDE_PROJECT_DIR",
        AgentName::Gemini => "GEMINI_PROJECT_DIR",
        // It has a fixed directory.
        AgentName::Codex | AgentName::Opencode => return Ok(call.cwd.clone()),
    };
    let found = std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    found.ok_or_else(|| {
        format!("`{name}` names no directory: the agent sets it for its hooks, and this was not started by it")
    })
}
