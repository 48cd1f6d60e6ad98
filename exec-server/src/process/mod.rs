//! Processes: each is a command of the session.

pub(crate) mod forms;
mod retained;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stockade_protocol::{Argv, SandboxPolicy, TerminalSize};
use stockade_server::wire::{CommandRunParams, OutputStream, SignalName, StdinKind};
use tokio::time::Instant;

use self::forms::{
    ClosedNotification, ExitedNotification, OutputNotification, ReadParams, ReadResult, SandboxType, Signal,
    SignalParams, StartParams, StreamName, TerminateParams, TerminateResult, WriteParams, WriteResult, WriteStatus,
};
pub(crate) use self::retained::{Exit, Input, Process};
use crate::client::{Client, Gone};
use crate::environment;
use crate::explain::{Bound, Explain, explained};
use crate::message::ErrorBody;
use crate::sandbox::Around;
use crate::session::{Running, Session, Whose};

/// Processes that run at a time.
const MOST_RUNNING: usize = 64;

/// Processes that have ended and are kept for a late `process/read`.
const MOST_ENDED: usize = 32;

/// The longest name of a process.
const LONGEST_ID: usize = 256;

/// The length from which on no system starts a program with an argument: `MAX_ARG_STRLEN` of Linux, and on others what all
/// of them have together at the least.
const LONGEST_ARGUMENT: usize = if cfg!(target_os = "linux") { 128 << 10 } else { 256 << 10 };

/// The longest that `process/read` waits.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The size of a terminal, of which the protocol says nothing.
const TERMINAL: TerminalSize = TerminalSize { rows: 24, columns: 80 };

/// The processes of a connection.
#[derive(Clone)]
pub(crate) struct Processes {
    session: Session,
    client: Client,
    explain: Explain,
    table: Arc<Mutex<VecDeque<Arc<Process>>>>,
}

/// A process that is about to start, once the client has been told so.
pub(crate) struct Starting {
    processes: Processes,
    process: Arc<Process>,
    running: Running,
    bound: Bound,
}

impl Processes {
    pub(crate) fn new(session: Session, client: Client, explain: Explain) -> Self {
        Self { session, client, explain, table: Arc::default() }
    }

    fn table(&self) -> MutexGuard<'_, VecDeque<Arc<Process>>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn find(&self, id: &str) -> Option<Arc<Process>> {
        self.table().iter().find(|process| process.id == id).cloned()
    }

    /// Takes a process in. It starts when [`Starting::follow`] is called.
    pub(crate) fn start(&self, params: StartParams) -> Result<(SandboxType, Starting), ErrorBody> {
        check_forms(&params)?;
        let (run, bound) = self.command(&params)?;
        let input = match (params.tty, params.pipe_stdin) {
            (true, _) => Input::Terminal,
            (false, true) => Input::Pipe,
            (false, false) => Input::None,
        };
        let command = run.command_id.clone().ok_or_else(|| ErrorBody::internal("the command has no name"))?;
        let process = Arc::new(Process::new(params.process_id, command, input));
        self.add(&process)?;
        let running = self.session.run(run, Whose::Client);
        let running = running.ok_or_else(|| ErrorBody::internal("the command has no name"))?;
        Ok((self.sandbox_type(), Starting { processes: self.clone(), process, running, bound }))
    }

    /// The command that a process is, and codex's bound of it.
    fn command(&self, params: &StartParams) -> Result<(CommandRunParams, Bound), ErrorBody> {
        let argv = Argv::parse(params.argv.iter().map(String::as_str))
            .map_err(|error| ErrorBody::invalid_params(format!("`argv`: {error}")))?;
        let environment = environment::of_process(params.env_policy.as_ref(), &params.env);
        let tmpdir = environment::tmpdir(&environment);
        let around = Around { session: self.session.permissions(), cwd: &params.cwd.0, tmpdir: tmpdir.as_ref() };
        let bound = match &params.sandbox {
            Some(sandbox) => sandbox.bound(&around).map_err(ErrorBody::invalid_params)?,
            None => None,
        };
        let mut run = self.session.command("codex", argv).map_err(|error| ErrorBody::internal(error.message))?;
        run.cwd = Some(params.cwd.0.clone());
        run.environment = Some(environment);
        run.terminal = params.tty.then_some(TERMINAL);
        run.stdin = if params.pipe_stdin && !params.tty { StdinKind::Pipe } else { StdinKind::None };
        run.at_most.clone_from(&bound);
        Ok((run, Bound { session: self.session.permissions().clone(), codex: bound }))
    }

    fn add(&self, process: &Arc<Process>) -> Result<(), ErrorBody> {
        let mut table = self.table();
        if table.iter().any(|known| known.id == process.id) {
            let message = format!("process {} already exists", process.id.escape_debug());
            return Err(ErrorBody::invalid_request(message));
        }
        let running = table.iter().filter(|known| !known.is_closed()).count();
        if running >= MOST_RUNNING {
            let message = format!("{MOST_RUNNING} processes run already: wait for one, or terminate one");
            return Err(ErrorBody::invalid_request(message));
        }
        table.push_back(Arc::clone(process));
        let mut too_many = (table.len() - running).saturating_sub(MOST_ENDED + 1);
        table.retain(|known| {
            let goes = known.is_closed() && too_many > 0;
            too_many -= usize::from(goes);
            !goes
        });
        Ok(())
    }

    fn remove(&self, process: &Arc<Process>) {
        self.table().retain(|known| !Arc::ptr_eq(known, process));
    }

    /// What is around every process of the session.
    fn sandbox_type(&self) -> SandboxType {
        match self.session.sandbox() {
            SandboxPolicy::DangerFullAccess {} | SandboxPolicy::ExternalSandbox { .. } => SandboxType::None,
            SandboxPolicy::ReadOnly { .. } | SandboxPolicy::WorkspaceWrite { .. } => PLATFORM,
        }
    }

    pub(crate) async fn read(&self, params: ReadParams) -> Result<ReadResult, ErrorBody> {
        let Some(process) = self.find(&params.process_id) else {
            let message = format!("unknown process id {}", params.process_id.escape_debug());
            return Err(ErrorBody::invalid_request(message));
        };
        let wait = Duration::from_millis(params.wait_ms.unwrap_or(0)).min(LONGEST_WAIT);
        Ok(process.read(params.after_seq.unwrap_or(0), params.max_bytes, Instant::now() + wait).await)
    }

    pub(crate) async fn write(&self, params: WriteParams) -> Result<WriteResult, ErrorBody> {
        if params.write_id.is_empty() || params.write_id.len() > LONGEST_ID {
            return Err(ErrorBody::invalid_params(format!("`writeId` must have 1 to {LONGEST_ID} bytes")));
        }
        let status = |status| Ok(WriteResult { status });
        let Some(process) = self.find(&params.process_id) else { return status(WriteStatus::UnknownProcess) };
        if process.has_write(&params.write_id) {
            return status(WriteStatus::Accepted);
        }
        if process.input == Input::None || process.has_exited() {
            return status(WriteStatus::StdinClosed);
        }
        process.remember_write(params.write_id);
        match self.session.write(&process.command, params.chunk, false).await {
            Ok(()) => status(WriteStatus::Accepted),
            Err(_) => status(WriteStatus::StdinClosed),
        }
    }

    pub(crate) async fn signal(&self, params: SignalParams) {
        let Signal::Interrupt = params.signal;
        if let Some(process) = self.find(&params.process_id) {
            // One that has ended meanwhile needs no signal.
            self.session.signal(&process.command, SignalName::Interrupt).await.ok();
        }
    }

    pub(crate) async fn terminate(&self, params: TerminateParams) -> TerminateResult {
        let Some(process) = self.find(&params.process_id) else { return TerminateResult { running: false } };
        if process.has_exited() {
            return TerminateResult { running: false };
        }
        process.terminate();
        self.session.cancel(&process.command).await.ok();
        TerminateResult { running: true }
    }
}

#[cfg(target_os = "macos")]
const PLATFORM: SandboxType = SandboxType::MacosSeatbelt;
#[cfg(windows)]
const PLATFORM: SandboxType = SandboxType::WindowsRestrictedToken;
#[cfg(not(any(target_os = "macos", windows)))]
const PLATFORM: SandboxType = SandboxType::LinuxSeccomp;

/// Refuses what no command of a session can be.
fn check_forms(params: &StartParams) -> Result<(), ErrorBody> {
    let refuse = |message: &str| Err(ErrorBody::invalid_params(message));
    if !(1..=LONGEST_ID).contains(&params.process_id.len()) {
        return Err(ErrorBody::invalid_params(format!("`processId` must have 1 to {LONGEST_ID} bytes")));
    }
    if let Some(long) = params.argv.iter().find(|word| word.len() >= LONGEST_ARGUMENT) {
        let message = format!(
            "`argv` has an argument of {} bytes, and the system takes {} for one: write a long text into a file, and run or \
             pass that",
            long.len(),
            LONGEST_ARGUMENT - 1
        );
        return Err(ErrorBody::invalid_params(message));
    }
    if params.arg0.as_ref().is_some_and(|arg0| params.argv.first() != Some(arg0)) {
        return refuse("`arg0`: a program runs under its own name here");
    }
    if params.shell_snapshot.is_some() {
        return refuse("`shellSnapshot`: there are no shell snapshots here, as `capabilities` says");
    }
    if params.network_proxy.is_some() || params.enforce_managed_network || params.managed_network.is_some() {
        return refuse(
            "codex's managed network can't be enforced here: turn it off in codex, and allow hosts with \
             `--allow-host` of `stockade exec-server`",
        );
    }
    Ok(())
}

impl Starting {
    /// Its name, for the answer.
    pub(crate) fn id(&self) -> &str {
        &self.process.id
    }

    /// The client could not be told: it is not started.
    pub(crate) fn give_up(self) {
        self.processes.remove(&self.process);
    }

    /// Runs the process to its end, and tells the client what it writes and how it ends.
    pub(crate) async fn follow(self) {
        // A client that has gone is told nothing, and the session ends its commands.
        self.told().await.ok();
    }

    async fn told(self) -> Result<(), Gone> {
        let Self { processes, process, mut running, bound } = self;
        let client = &processes.client;
        let mut is_at_line_start = true;
        while let Some(piece) = running.next().await {
            let Some((stream, bytes)) = &piece.output else { continue };
            is_at_line_start = bytes.last().is_none_or(|last| *last == b'\n');
            let stream = match (process.input, stream) {
                (Input::Terminal, _) => StreamName::Pty,
                (_, OutputStream::Stdout) => StreamName::Stdout,
                (_, OutputStream::Stderr) => StreamName::Stderr,
            };
            output(client, &process, stream, bytes.clone()).await?;
        }
        let ended = running.end().await;
        let (exit, lines) = explained(&processes.explain, &bound, &ended, process.is_terminated());
        if !lines.is_empty() {
            let (stream, newline) = match process.input {
                Input::Terminal => (StreamName::Pty, "\r\n"),
                Input::None | Input::Pipe => (StreamName::Stderr, "\n"),
            };
            let mut text = if is_at_line_start { String::new() } else { newline.to_owned() };
            lines.iter().for_each(|line| text.push_str(&format!("stockade: {line}{newline}")));
            output(client, &process, stream, text.into_bytes()).await?;
        }
        let (process_id, seq) = (process.id.as_str(), process.exited(exit));
        let exited = ExitedNotification { process_id, seq, exit_code: exit.code, sandbox_denied: exit.denied };
        client.notify("process/exited", &exited).await?;
        client.notify("process/closed", &ClosedNotification { process_id, seq: process.closed() }).await
    }
}

async fn output(client: &Client, process: &Process, stream: StreamName, bytes: Vec<u8>) -> Result<(), Gone> {
    let chunk = process.append(stream, bytes);
    client.notify("process/output", &OutputNotification { process_id: &process.id, chunk: &chunk }).await
}
