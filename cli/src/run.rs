//! `stockade run`: one command from request to exit code.

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use stockade::platform;
use stockade::terminal::stage::{self, Outlet};
use stockade_core::{CommandTerminal, Input, Output, OutputSink, RunError, ShellRuntime, StreamName, Streaming};
use stockade_protocol::{EscalationExecution, NetworkPolicy, Outcome, Refusal, RefusedBy};
use stockade_sandboxing::SpawnError;

use crate::args::{Run, SessionArgs};
use crate::exit::{self, Failure, note, print};
use crate::flags::{Engine, Network, Policy};
use crate::relay::Relay;
use crate::remedy::Remedies;
use crate::report;
use crate::session::{Prepared, Purpose, prepare};
use crate::signals;

/// How long a run that was ended waits for its terminal.
const LAST_OUTPUT: Duration = Duration::from_millis(500);

/// How this program ends if a signal ended the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With an exit code that says so, as `env` and `timeout` do.
    ByCode,
    /// By the same signal, as a shell that has exec'd the command: `stockade-sh`, which takes no flags.
    BySignal,
}

pub(crate) fn run(args: &Run, ending: Ending) -> Result<ExitCode, Failure> {
    #[cfg(unix)]
    if let Some(code) = in_session(args, ending)? {
        return Ok(code);
    }
    platform::check_open_files()?;
    get_ready(&args.session);
    #[cfg(unix)]
    crate::sys::share_one_heap();
    let Prepared { stockade, mut tool, request, mut remedies } = prepare(&args.session, &args.words(), Purpose::Run)?;
    let relay = streams(args, &mut tool)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (cancellation, clock) = (tool.cancellation.clone(), tool.clock.clone());
    let result = runtime.block_on(async {
        tokio::select! {
            // In this order: a program that learns that the command runs may send it a signal at once.
            biased;
            signal = signals::pass_on(cancellation, clock, relay.clone()) => Err(signal),
            result = stockade.orchestrator().run_with(&tool, &request) => Ok(result),
        }
    });
    // From here on a signal can end every wait for a terminal, a pipe or a person.
    if let Some(relay) = relay {
        relay.close();
    }
    signals::end_by_default();
    if let Ok(Ok(outcome)) = &result
        && outcome.execution().is_some_and(|execution| !execution.violations.is_empty())
    {
        remedies = remedies.with_profiles(stockade.advisable_profiles(&request.command));
    }
    if ending == Ending::BySignal {
        remedies = remedies.without_flags();
    }
    // This program is about to end, and the system frees everything at once.
    std::mem::forget((stockade, request, runtime));
    match result {
        Ok(Ok(outcome)) => {
            let code = finish(ReportForm::of(args), &outcome, &remedies)?;
            end_by_signal(ending, signal_of(&outcome));
            Ok(code)
        }
        Ok(Err(RunError::Spawn(error))) => spawn_failed(args, &error),
        Ok(Err(error)) => Err(error.into()),
        Err(signal) => {
            end_by_signal(ending, Some(signal.into()));
            Ok(ExitCode::from(signal.saturating_add(128)))
        }
    }
}

/// Has what most sandboxes need made while settings and rules are read, unless the arguments say that this one does not.
fn get_ready(args: &SessionArgs) {
    let is_other_engine = matches!(args.engine, Some(Engine::Bwrap | Engine::Landlock));
    let is_open = matches!(args.sandbox, Some(Policy::DangerFullAccess | Policy::ExternalSandbox)) || args.unsandboxed;
    if is_other_engine || is_open {
        return;
    }
    platform::get_ready(&match args.network {
        Some(Network::Full) => NetworkPolicy::Full,
        Some(Network::Off | Network::Limited | Network::Hosts) | None => NetworkPolicy::Off,
    });
}

/// A cancelled command that ignored a person's interrupts counts as ended by `SIGINT`.
#[cfg(unix)]
pub(crate) fn as_interrupted(outcome: Outcome) -> Outcome {
    if let (Outcome::Cancelled { execution, .. }, true) = (&outcome, crate::job::was_interrupted()) {
        return Outcome::Signaled { signal: libc::SIGINT, execution: execution.clone() };
    }
    outcome
}

/// Runs the command in a session, if one is named.
#[cfg(unix)]
fn in_session(args: &Run, ending: Ending) -> Result<Option<ExitCode>, Failure> {
    use crate::joined::{self, Answers, NamedBy, Wanted};

    let (name, named_by) = match (&args.name, joined::named_by_variable()) {
        (Some(name), _) => (name.clone(), NamedBy::Flag),
        (None, Some(name)) => (name.to_string_lossy().parse()?, NamedBy::Variable),
        (None, None) => return Ok(None),
    };
    let session = &args.session;
    let wanted = Wanted {
        name,
        named_by,
        command: args.words(),
        report_form: ReportForm::of(args),
        ending,
        cwd: session.cwd.as_deref().map(crate::session::directory).transpose()?,
        timeout: session.timeout,
        escalation: session.unsandboxed.then_some(EscalationExecution::Unsandboxed),
        justification: session.justification.clone(),
        answers: Answers::Terminal,
        stdin: None,
    };
    joined::run(&wanted, || crate::session::opening(session)).map(Some)
}

/// The signal that ended the command.
pub(crate) fn signal_of(outcome: &Outcome) -> Option<i32> {
    match outcome {
        Outcome::Signaled { signal, .. } | Outcome::Denied { signal: Some(signal), .. } => Some(*signal),
        Outcome::Cancelled { .. } => Some(exit::CANCELLED_BY),
        Outcome::Exited { .. } | Outcome::Denied { .. } | Outcome::TimedOut { .. } | Outcome::Refused(_) => None,
    }
}

/// Ends this program by a signal, if requested. If the signal does not end it, its exit code names the signal.
pub(crate) fn end_by_signal(ending: Ending, signal: Option<i32>) {
    #[cfg(unix)]
    if let (Ending::BySignal, Some(signal)) = (ending, signal) {
        crate::sys::end_by(signal);
    }
    #[cfg(not(unix))]
    let _ = (ending, signal);
}

/// Sets up the streams of the command. Where one is the person's terminal, the command gets its own terminal instead,
/// so that it behaves as without Stockade, while its messages can be read. Otherwise it inherits this program's files,
/// and only standard error passes through here.
fn streams(args: &Run, tool: &mut ShellRuntime) -> Result<Option<Arc<Relay>>, Failure> {
    let (stdin, stdout, stderr) = (io::stdin().is_terminal(), io::stdout().is_terminal(), io::stderr().is_terminal());
    let terminals = [stdin, stdout && !args.json, stderr && !args.json];
    let relay = Relay::new(terminals, &tool.cancellation, &tool.clock)?.map(Arc::new);
    let [stdin, stdout, stderr] = terminals.map(|is_terminal| is_terminal && relay.is_some());
    let terminal = relay.as_ref().map(|relay| {
        let sink: Arc<dyn OutputSink> = Arc::clone(relay) as Arc<dyn OutputSink>;
        CommandTerminal { size: relay.size(), sink: Some(sink) }
    });
    tool.streaming = Streaming {
        stdin: if stdin { Input::Terminal } else { Input::Inherit },
        stdout: match args.json {
            true => Output::Capture,
            false if stdout => Output::Terminal,
            false => Output::Inherit,
        },
        stderr: match args.json {
            true => Output::Capture,
            false if stderr => Output::Terminal,
            false => Output::Tee(Arc::new(Copy)),
        },
        terminal,
        ..Streaming::default()
    };
    Ok(relay)
}

/// Forwards standard error to this program's own.
#[derive(Debug)]
struct Copy;

impl OutputSink for Copy {
    fn write(&self, _: StreamName, bytes: &[u8]) -> io::Result<()> {
        match stage::print(&Outlet::Stderr, bytes) {
            // A closed reader such as `head` ends the command as it would without Stockade.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(error),
            // Other errors, such as a full disk, lose output but don't stop the command.
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// The format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReportForm {
    /// All of it, as JSON on standard output.
    Json,
    /// On standard error, the denials of a command that failed.
    Failures,
    /// On standard error, all denials.
    Denials,
}

impl ReportForm {
    pub(crate) fn of(args: &Run) -> Self {
        match (args.json, args.verbose) {
            (true, _) => Self::Json,
            (false, true) => Self::Denials,
            (false, false) => Self::Failures,
        }
    }
}

pub(crate) fn finish(report_form: ReportForm, outcome: &Outcome, remedies: &Remedies) -> Result<ExitCode, Failure> {
    // Output during a question may not be on the screen yet. A command that was ended does not wait for it.
    let has_exited = matches!(outcome, Outcome::Exited { .. } | Outcome::Denied { exit_code: Some(_), .. });
    stage::catch_up(if has_exited { None } else { Some(LAST_OUTPUT) });
    let lines = match report_form {
        ReportForm::Json => {
            print(&(serde_json::to_string_pretty(outcome)? + "\n"))?;
            Vec::new()
        }
        ReportForm::Failures => report::failure(outcome, remedies),
        ReportForm::Denials => report::outcome(outcome, remedies),
    };
    lines.iter().for_each(|line| note(line));
    Ok(exit_code(outcome))
}

/// The exit code of an outcome, by the convention of `env`, `timeout` and the shell.
fn exit_code(outcome: &Outcome) -> ExitCode {
    let passed = |code: i32| u8::try_from(code).unwrap_or(1);
    ExitCode::from(match outcome {
        Outcome::Exited { exit_code, .. } | Outcome::Denied { exit_code: Some(exit_code), .. } => passed(*exit_code),
        Outcome::Signaled { signal, .. } | Outcome::Denied { signal: Some(signal), .. } => {
            u8::try_from(signal.saturating_add(128)).unwrap_or(u8::MAX)
        }
        // It ran, with an unknown end.
        Outcome::Denied { exit_code: None, signal: None, .. } => exit::FAILED,
        Outcome::Cancelled { .. } => u8::try_from(exit::CANCELLED_BY.saturating_add(128)).unwrap_or(u8::MAX),
        Outcome::TimedOut { .. } => exit::TIMED_OUT,
        Outcome::Refused(refusal) => exit::refused(refusal),
    })
}

fn spawn_failed(args: &Run, error: &SpawnError) -> Result<ExitCode, Failure> {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only unix has limits to name"))]
    let mut reason = exit::with_causes(error);
    #[cfg(unix)]
    if let Some(hint) = crate::limit_hint::of(error) {
        reason = format!("{reason}; {hint}");
    }
    let (missing, unusable) = (
        matches!(error, SpawnError::NotFound { .. }),
        matches!(error, SpawnError::NotExecutable { .. } | SpawnError::TooLong { .. }),
    );
    let code = if missing {
        exit::NOT_FOUND
    } else if unusable {
        exit::REFUSED
    } else {
        exit::FAILED
    };
    not_started(args.json, Refusal { by: RefusedBy::Sandbox, reason }, code)
}

/// Reports a command that could not be started, which has no outcome; as JSON it is a refusal.
pub(crate) fn not_started(json: bool, refusal: Refusal, code: u8) -> Result<ExitCode, Failure> {
    if json {
        print(&(serde_json::to_string_pretty(&Outcome::Refused(refusal))? + "\n"))?;
    } else {
        note(&refusal.reason);
    }
    Ok(ExitCode::from(code))
}
