//! Starts a command from a request.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stockade::core::{
    Cancellation, CommandTerminal, Input, InputPipe, Output, OutputSink, RunError, ShellRuntime, StreamName, Streaming,
};
use stockade::protocol::{
    EscalationExecution, ExecRequest, Outcome, RawText, Refusal, RefusedBy, RequestId, TerminalSize,
};
use stockade::sandboxing::{BrokenPipes, ProcessSettings, SpawnError};
use tokio::sync::{oneshot, watch};

use super::command::{Command, CommandEnd, CommandInput};
use super::follow::Role;
use super::log::{OutputLog, UnderWay};
use super::onlookers::without_output;
use super::sent::SentFiles;
use super::terminal::{OurTerminal, TerminalSink};
use crate::peer::{Caller, ConnectionId};
use crate::sessions::Session;
use crate::wire::{
    CommandEnded, CommandRunParams, CommandStarted, ProgramProblem, RpcError, ServerNotification, StdinKind,
};

/// How long a cancelled command may take to end by itself.
const TIME_TO_END: Duration = Duration::from_secs(5);

/// A command that runs or waits for an answer.
pub(crate) struct Started {
    pub(crate) command: Arc<Command>,
    /// Completes when all output was sent to the runner.
    pub(crate) output: Option<oneshot::Receiver<()>>,
}

/// Starts a command. It continues without the client that runs it.
pub(crate) fn start(session: &Arc<Session>, caller: Caller, params: CommandRunParams) -> Result<Started, RpcError> {
    let Caller { peer, descriptors, approved_by_policy } = caller;
    let sent = SentFiles::new(descriptors, &params, &peer)?;
    let kept = Arc::clone(session.commands.kept());
    let log = OutputLog::new(Arc::clone(&kept));
    let cancellation = Cancellation::new();
    let (streaming, input) = streaming(&params, sent, &log);
    let has_name = params.command_id.is_some();
    let words = Arc::new(params.command.clone());
    let make = |id: crate::wire::CommandId| {
        let request_id: RequestId = id.as_str().parse().map_err(|error| RpcError::failed(&error))?;
        Ok(Arc::new(Command {
            id,
            request_id,
            words: Arc::clone(&words),
            runner: peer.id(),
            log: Arc::clone(&log),
            cancellation: cancellation.clone(),
            input,
            questions: session.questions.clone(),
            followers: Mutex::new(HashMap::new()),
            is_cancelled: watch::Sender::new(false),
            end: watch::Sender::new(None),
            kept,
        }))
    };
    let (number, command) = session.commands.add(params.command_id.clone(), make)?;
    session.questions.tell_if_stopped(&peer);
    session.questions.begin(command.request_id.clone(), command.id.clone());
    let started = CommandStarted {
        session_id: session.id.clone(),
        command_id: command.id.clone(),
        command: params.command.clone(),
    };
    // The runner knows a name that it chose.
    let knows: &[ConnectionId] = if has_name { &[peer.id()] } else { &[] };
    session.questions.tell(&ServerNotification::CommandStarted(started), knows);
    let under_way = if params.acknowledge { UnderWay::UntilAcknowledged } else { UnderWay::UntilRead };
    let output = params.stream.then(|| command.follow(&session.id, &peer, 0, under_way, Role::Runner));
    let (session, running) = (Arc::clone(session), Arc::clone(&command));
    tokio::spawn(async move {
        let how = HowRun { streaming, cancellation, approved_by_policy };
        let result = {
            let disconnected = async {
                if !params.until_disconnect {
                    return std::future::pending().await;
                }
                peer.gone().await;
                running.cancel("its client went away");
                std::future::pending().await
            };
            tokio::select! {
                result = run(&session, &running, &params, how) => result,
                result = disconnected => result,
            }
        };
        end(&session, &running, result);
        session.commands.ended(number);
        session.touched();
    });
    Ok(Started { command, output })
}

/// Parameters of a run that are not in its request.
struct HowRun {
    streaming: Streaming,
    cancellation: Cancellation,
    approved_by_policy: bool,
}

/// Runs a command to its end, or gives up when it is cancelled and does not end.
async fn run(
    session: &Session,
    command: &Command,
    params: &CommandRunParams,
    how: HowRun,
) -> Result<Outcome, RpcError> {
    session.refresh()?;
    let (tool, request) = prepare(session, command, params, how)?;
    session.tell_notices(session.stockade.notices_for(&request.command));
    let mut is_cancelled = command.is_cancelled.subscribe();
    let given_up = async {
        is_cancelled.wait_for(|is_cancelled| *is_cancelled).await.ok();
        tokio::time::sleep(TIME_TO_END).await;
    };
    tokio::select! {
        outcome = session.stockade.orchestrator().run_with(&tool, &request) => outcome.map_err(|error| not_run(&error)),
        () = given_up => {
            let reason = String::from("it was cancelled, and did not end in time");
            Ok(Outcome::Refused(Refusal { by: RefusedBy::Reviewer, reason }))
        }
    }
}

fn not_run(error: &RunError) -> RpcError {
    let mut failed = RpcError::failed(error);
    let is_missing = matches!(error, RunError::Spawn(SpawnError::NotFound { .. }));
    let is_unusable = matches!(error, RunError::Spawn(SpawnError::NotExecutable { .. } | SpawnError::TooLong { .. }));
    let unusable = is_unusable.then_some(ProgramProblem::NotExecutable);
    let program = if is_missing { Some(ProgramProblem::NotFound) } else { unusable };
    if let Some(data) = &mut failed.data {
        data.program = program;
    }
    failed
}

fn prepare(
    session: &Session,
    command: &Command,
    params: &CommandRunParams,
    how: HowRun,
) -> Result<(ShellRuntime, ExecRequest), RpcError> {
    let words = params.command.words().iter().filter_map(RawText::to_os_string);
    let directory: PathBuf = params.cwd.as_ref().unwrap_or(&session.cwd).to_host_path().unwrap_or_default();
    let mut wanted = session
        .stockade
        .command(words)
        .id(command.request_id.clone())
        .cwd(directory)
        .escalation(params.escalation.clone().unwrap_or(EscalationExecution::TurnDefault))
        .process(process(params))
        .streaming(how.streaming);
    if let Some(limit) = params.timeout_ms {
        wanted = wanted.timeout(Duration::from_millis(limit.get()));
    }
    if let Some(why) = &params.justification {
        wanted = wanted.justification(why);
    }
    if let Some(bound) = &params.at_most {
        wanted = wanted.at_most(bound.clone());
    }
    if how.approved_by_policy {
        wanted = wanted.approved_by_policy();
    }
    if let Some(environment) = &params.environment {
        wanted = wanted.environment(crate::sessions::environment(environment));
    }
    let (mut tool, request) = wanted.into_parts().map_err(|error| RpcError::failed(&error))?;
    tool.cancellation = how.cancellation;
    Ok((tool, request))
}

/// Ends a command for all its clients.
fn end(session: &Session, command: &Command, result: Result<Outcome, RpcError>) {
    let last_seq = command.log.end();
    session.questions.finish(&command.request_id);
    let mut told: Vec<ConnectionId> = command.followers().keys().copied().collect();
    told.push(command.runner);
    let outcome = without_output(command.set_end(CommandEnd { result, last_seq }).outcome());
    let ended = CommandEnded { session_id: session.id.clone(), command_id: command.id.clone(), outcome, last_seq };
    session.questions.tell(&ServerNotification::CommandEnded(Box::new(ended)), &told);
}

/// The targets of the streams, and the input for clients.
fn streaming(params: &CommandRunParams, sent: SentFiles, log: &Arc<OutputLog>) -> (Streaming, CommandInput) {
    if let Some(terminal) = sent.terminal {
        return (sent_terminal(params, sent.stdin, sent.stdout, sent.stderr, terminal), CommandInput::None);
    }
    if let Some(size) = params.terminal {
        let terminal = OurTerminal::new(size);
        let sink = TerminalSink { log: log.sink(StreamName::Stdout), terminal: Arc::clone(&terminal) };
        let streaming = Streaming {
            stdin: Input::Terminal,
            stdout: Output::Terminal,
            stderr: Output::Terminal,
            terminal: Some(CommandTerminal { size, sink: Some(Arc::new(sink)) }),
            ..Streaming::default()
        };
        return (streaming, CommandInput::Terminal(terminal));
    }
    let (stdin, input) = match (sent.stdin, params.stdin) {
        (Some(file), _) => (Input::From(file), CommandInput::None),
        (None, StdinKind::None) => (Input::Null, CommandInput::None),
        (None, StdinKind::Pipe) => {
            let (pipe, writer) = InputPipe::new();
            (Input::Pipe(pipe), CommandInput::Pipe(writer))
        }
    };
    let logged = |stream| Output::Tee(Arc::new(log.sink(stream)) as Arc<dyn OutputSink>);
    let streaming = Streaming {
        stdin,
        stdout: sent.stdout.map_or_else(|| logged(StreamName::Stdout), Output::To),
        stderr: sent.stderr.map_or_else(|| logged(StreamName::Stderr), Output::Tee),
        terminal: None,
        controlling_terminal: sent.controlling_terminal,
    };
    (streaming, input)
}

/// A terminal that is shown by the client itself.
fn sent_terminal(
    params: &CommandRunParams,
    stdin: Option<Arc<std::fs::File>>,
    stdout: Option<Arc<std::fs::File>>,
    stderr: Option<Arc<dyn OutputSink>>,
    sink: Arc<dyn OutputSink>,
) -> Streaming {
    let size = params.terminal.unwrap_or(TerminalSize { rows: 24, columns: 80 });
    Streaming {
        stdin: stdin.map_or(Input::Terminal, Input::From),
        stdout: stdout.map_or(Output::Terminal, Output::To),
        stderr: stderr.map_or(Output::Terminal, Output::Tee),
        terminal: Some(CommandTerminal { size, sink: Some(sink) }),
        ..Streaming::default()
    }
}

fn process(params: &CommandRunParams) -> ProcessSettings {
    let rlimits = params.rlimits.clone().unwrap_or_default();
    let broken_pipes = if params.ignores_broken_pipes { BrokenPipes::AreErrors } else { BrokenPipes::EndIt };
    ProcessSettings { umask: params.umask, rlimits, broken_pipes, ..ProcessSettings::default() }
}
