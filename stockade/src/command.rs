//! One command of a session and its options.

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stockade_core::{
    Cancellation, CommandTerminal, Explanation, Input, Output, OutputSink, ShellRuntime, StreamName, Streaming,
};
use stockade_protocol::{
    Argv, EscalationExecution, ExecExpiration, ExecRequest, Outcome, Permissions, RawText, RequestId, TerminalSize,
};
use stockade_sandboxing::ProcessSettings;

use crate::workspace::existing_directory;
use crate::{Error, Stockade};

/// A command to be run.
///
/// ```no_run
/// # async fn run(stockade: stockade::Stockade) -> Result<(), stockade::Error> {
/// let outcome = stockade
///     .command(["cargo", "build"])
///     .cwd("crates/server")
///     .timeout(std::time::Duration::from_secs(300))
///     .on_output(|_, bytes| print!("{}", String::from_utf8_lossy(bytes)))
///     .run()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "a command does nothing until `run` is called"]
pub struct Command<'a> {
    stockade: &'a Stockade,
    argv: Result<Argv, Error>,
    id: Option<RequestId>,
    cwd: Option<PathBuf>,
    timeout: Option<Duration>,
    escalation: EscalationExecution,
    justification: Option<String>,
    tool: ShellRuntime,
    caller: Option<BTreeMap<RawText, RawText>>,
    sink: Option<Arc<dyn OutputSink>>,
    terminal: Option<TerminalSize>,
    approved_by_policy: bool,
}

impl<'a> Command<'a> {
    pub(crate) fn new(stockade: &'a Stockade, argv: Result<Argv, Error>) -> Self {
        Self {
            stockade,
            argv,
            id: None,
            cwd: None,
            timeout: None,
            escalation: EscalationExecution::TurnDefault,
            justification: None,
            tool: ShellRuntime::default(),
            caller: None,
            sink: None,
            terminal: None,
            approved_by_policy: false,
        }
    }

    /// Sets the working directory, which may be relative to the session's. It makes nothing writable.
    pub fn cwd(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cwd = Some(directory.into());
        self
    }

    /// Sets the timeout. Time in which a person is asked does not count.
    pub fn timeout(mut self, limit: Duration) -> Self {
        self.timeout = Some(limit);
        self
    }

    /// Sets the justification, shown with every question about the command.
    pub fn justification(mut self, text: impl Into<String>) -> Self {
        self.justification = Some(text.into());
        self
    }

    /// Sets the requested escalation.
    pub fn escalation(mut self, escalation: EscalationExecution) -> Self {
        self.escalation = escalation;
        self
    }

    /// Requests permissions beyond the session's, inside the sandbox.
    pub fn with_permissions(self, more: Permissions) -> Self {
        self.escalation(EscalationExecution::Permissions(Box::new(more)))
    }

    /// Requests to run without the sandbox.
    pub fn unsandboxed(self) -> Self {
        self.escalation(EscalationExecution::Unsandboxed)
    }

    /// Gives the command a pseudo-terminal of this size; its output is all standard output.
    pub fn terminal(mut self, size: TerminalSize) -> Self {
        self.terminal = Some(size);
        self
    }

    /// Sets the source of standard input; none by default.
    pub fn stdin(mut self, input: Input) -> Self {
        self.tool.streaming.stdin = input;
        self
    }

    /// Sets the caller's whole environment, instead of the session's. The session's policy filters it. One that names
    /// credentials, a home directory or files of Stockade that the session does not protect is refused.
    pub fn environment(mut self, environment: BTreeMap<RawText, RawText>) -> Self {
        self.caller = Some(environment);
        self
    }

    /// Sets the caller's umask and process limits, instead of this process's.
    pub fn process(mut self, process: ProcessSettings) -> Self {
        self.tool.caller.process = process;
        self
    }

    /// Sets an upper bound: it restricts the session's permissions, and no approval exceeds it.
    pub fn at_most(mut self, bound: Permissions) -> Self {
        self.tool.caller.at_most = Some(bound);
        self
    }

    /// Declares that an external policy has approved the command with default permissions. It runs without a question,
    /// and the trail says so.
    pub fn approved_by_policy(mut self) -> Self {
        self.approved_by_policy = true;
        self
    }

    /// Calls `sink` with output as it comes ([`StreamName`](crate::StreamName) tells which stream); the
    /// outcome contains its beginning and end as well. A blocking sink slows the command down.
    pub fn on_output(self, sink: impl Fn(StreamName, &[u8]) + Send + Sync + 'static) -> Self {
        self.sink(Arc::new(Closure(sink)))
    }

    /// Forwards output as it comes; the outcome contains its beginning and end as well.
    pub fn sink(mut self, sink: Arc<dyn OutputSink>) -> Self {
        self.sink = Some(sink);
        self
    }

    /// Sets all streams, replacing earlier settings.
    pub fn streaming(mut self, streaming: Streaming) -> Self {
        self.tool.streaming = streaming;
        self
    }

    /// Sets the id of the request in questions and in the trail; a new one by default.
    pub fn id(mut self, id: RequestId) -> Self {
        self.id = Some(id);
        self
    }

    /// A handle that ends the command or sends it signals.
    pub fn cancellation(&self) -> Cancellation {
        self.tool.cancellation.clone()
    }

    /// Runs the command to its end. A refusal or a denial is an [`Outcome`]; an error means that it could not be started
    /// or was lost. Dropping the future ends the command.
    pub async fn run(self) -> Result<Outcome, Error> {
        let stockade = self.stockade;
        stockade.refresh()?;
        let (tool, request) = self.into_parts()?;
        Ok(stockade.orchestrator().run_with(&tool, &request).await?)
    }

    /// Explains what would happen to the command, without running it.
    pub fn explain(self) -> Result<Explanation, Error> {
        let stockade = self.stockade;
        stockade.refresh()?;
        let (tool, request) = self.into_parts()?;
        Ok(stockade.orchestrator().explain_with(&tool, &request)?)
    }

    /// The parts for [`Orchestrator::run_with`](crate::core::Orchestrator::run_with), for a caller that needs the
    /// clock as well. Settings are not reloaded.
    pub fn into_parts(self) -> Result<(ShellRuntime, ExecRequest), Error> {
        let Self { stockade, argv, id, cwd, timeout, escalation, justification, .. } = self;
        let (mut tool, caller, sink, terminal) = (self.tool, self.caller, self.sink, self.terminal);
        let cwd = match cwd {
            Some(directory) => existing_directory(stockade.cwd(), &directory)?,
            None => stockade.cwd().clone(),
        };
        if let Some(caller) = caller {
            tool.caller.environment = Some(stockade.environment_of(caller, &cwd)?);
        }
        let milliseconds = |limit: Duration| u64::try_from(limit.as_millis()).ok().and_then(NonZeroU64::new);
        let expiration = match timeout.map(milliseconds) {
            None => ExecExpiration::DefaultTimeout,
            Some(Some(milliseconds)) => ExecExpiration::Timeout { milliseconds },
            Some(None) => return Err(Error::Timeout),
        };
        if let Some(size) = terminal {
            let (stdin, stdout, stderr) = (Input::Terminal, Output::Terminal, Output::Terminal);
            tool.streaming = Streaming {
                stdin,
                stdout,
                stderr,
                terminal: Some(CommandTerminal { size, sink }),
                ..Streaming::default()
            };
        } else if let Some(sink) = sink {
            tool.streaming.stdout = Output::Tee(Arc::clone(&sink));
            tool.streaming.stderr = Output::Tee(sink);
        }
        let request = ExecRequest {
            id: match id {
                Some(id) => id,
                None => stockade.next_id()?,
            },
            thread_id: stockade.id(),
            command: argv?,
            cwd,
            expiration,
            escalation,
            justification,
            terminal: None,
            approved_by_policy: self.approved_by_policy,
            sandbox_warnings: Vec::new(),
        };
        Ok((tool, request))
    }
}

/// A closure that receives output.
struct Closure<F>(F);

impl<F> std::fmt::Debug for Closure<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Closure")
    }
}

impl<F: Fn(StreamName, &[u8]) + Send + Sync> OutputSink for Closure<F> {
    fn write(&self, stream: StreamName, bytes: &[u8]) -> io::Result<()> {
        (self.0)(stream, bytes);
        Ok(())
    }
}
