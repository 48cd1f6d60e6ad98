//! `stockade run`: one command from request to exit code.

use std::io::{self, IsTerminal as _};
use std::process::ExitCode;
use std::sync::Arc;

use stockade_core::{Input, Output, OutputSink, RunError, ShellRuntime, StreamName, Streaming};
use stockade_protocol::{Outcome, Refusal, RefusedBy, TerminalSize};
use stockade_sandboxing::SpawnError;

use crate::args::Run;
use crate::exit::{self, Failure, note, print};
use crate::platform;
use crate::relay::Relay;
use crate::remedy::Remedies;
use crate::report;
use crate::session::{Prepared, Purpose, prepare};
use crate::signals;
use crate::stage;

pub(crate) fn run(args: &Run) -> Result<ExitCode, Failure> {
    platform::check_open_files()?;
    platform::get_ready();
    let Prepared { orchestrator, request, remedies, .. } = prepare(&args.session, &args.command, Purpose::Run)?;
    let streams = if args.json { Streams::captured() } else { Streams::passed_through() };
    let tool = ShellRuntime { streaming: streams.streaming.clone(), ..ShellRuntime::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let cancellation = tool.cancellation.clone();
    let result = runtime.block_on(async {
        tokio::select! {
            // In this order: whoever is told that the command runs may send it a signal at once.
            biased;
            never = signals::pass_on(cancellation, streams.relay.clone()) => match never {},
            result = orchestrator.run_with(&tool, &request) => result,
        }
    });
    // This program is about to end, and the system takes all of it back at once.
    std::mem::forget((orchestrator, request, runtime));
    match result {
        Ok(outcome) => finish(args, &outcome, &remedies),
        Err(RunError::Spawn(error)) => not_started(args, &error),
        Err(error) => Err(error.into()),
    }
}

/// Where the streams of this run lead.
struct Streams {
    streaming: Streaming,
    relay: Option<Arc<Relay>>,
}

impl Streams {
    fn captured() -> Self {
        Self { streaming: Streaming { stdin: Input::Inherit, ..Streaming::default() }, relay: None }
    }

    /// At a terminal the command gets one of its own, so that it looks and behaves as if it were run
    /// without Stockade, while its messages can be read. Otherwise it has the same files as this
    /// program, and only what it says on standard error passes through here.
    fn passed_through() -> Self {
        let at_terminal = io::stdin().is_terminal() && io::stdout().is_terminal() && io::stderr().is_terminal();
        match Relay::terminal_size().filter(|_| at_terminal) {
            Some(size) => Self::in_terminal(size),
            None => Self {
                streaming: Streaming {
                    stdin: Input::Inherit,
                    stdout: Output::Inherit,
                    stderr: Output::Tee(Arc::new(Copy)),
                    terminal: None,
                },
                relay: None,
            },
        }
    }

    fn in_terminal(size: TerminalSize) -> Self {
        let relay = Arc::new(Relay::default());
        let streaming = Streaming {
            stdin: Input::Inherit,
            stdout: Output::Tee(Arc::clone(&relay) as Arc<dyn OutputSink>),
            stderr: Output::Capture,
            terminal: Some(size),
        };
        Self { streaming, relay: Some(relay) }
    }
}

/// Passes output on to this program's own streams.
#[derive(Debug)]
struct Copy;

impl OutputSink for Copy {
    fn write(&self, stream: StreamName, bytes: &[u8]) {
        stage::print(stream, bytes);
    }
}

fn finish(args: &Run, outcome: &Outcome, remedies: &Remedies) -> Result<ExitCode, Failure> {
    if args.json {
        print(&(serde_json::to_string_pretty(outcome)? + "\n"))?;
    } else {
        for line in report::outcome(outcome, remedies) {
            note(&line);
        }
    }
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
        // It ran, and nobody knows how it ended.
        Outcome::Denied { exit_code: None, signal: None, .. } => exit::FAILED,
        Outcome::TimedOut { .. } => exit::TIMED_OUT,
        Outcome::Refused(refusal) => match refusal.by {
            RefusedBy::Sandbox | RefusedBy::Audit | RefusedBy::Usage => exit::FAILED,
            RefusedBy::Rule
            | RefusedBy::ApprovalPolicy
            | RefusedBy::Reviewer
            | RefusedBy::Timeout
            | RefusedBy::Administrator => exit::REFUSED,
        },
    })
}

/// A command that could not be started has no outcome of its own; whoever reads JSON gets a refusal.
fn not_started(args: &Run, error: &SpawnError) -> Result<ExitCode, Failure> {
    let reason = exit::with_causes(error);
    if args.json {
        let outcome = Outcome::Refused(Refusal { by: RefusedBy::Sandbox, reason });
        print(&(serde_json::to_string_pretty(&outcome)? + "\n"))?;
    } else {
        note(&reason);
    }
    let (missing, unusable) =
        (matches!(error, SpawnError::NotFound { .. }), matches!(error, SpawnError::NotExecutable { .. }));
    Ok(ExitCode::from(if missing {
        exit::NOT_FOUND
    } else if unusable {
        exit::REFUSED
    } else {
        exit::FAILED
    }))
}
