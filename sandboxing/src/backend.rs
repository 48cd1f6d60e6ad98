//! The contract: compile permissions to a plan, start the plan, wait for the command.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

#[cfg(unix)]
pub(crate) use std::os::fd::{BorrowedFd as BorrowedStream, OwnedFd as OwnedStream};
#[cfg(windows)]
pub(crate) use std::os::windows::io::{BorrowedHandle as BorrowedStream, OwnedHandle as OwnedStream};

use stockade_protocol::{AbsPath, Access, Argv, Enforcement, FileRules, Permissions, RawText};

use crate::{Deciders, Observations, ProcessSettings, Support, Unenforceable};

/// The command to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSpec {
    /// The program and its arguments. A bare name is looked up along the `PATH` in `environment`.
    pub argv: Argv,
    /// The working directory.
    pub cwd: AbsPath,
    /// The complete environment.
    pub environment: BTreeMap<RawText, RawText>,
    /// Process settings of a caller other than this process.
    pub process: ProcessSettings,
}

/// Builds sandboxes on one kind of host.
pub trait Backend: Send + Sync {
    /// What this host can enforce, layer by layer. Probed once.
    fn support(&self) -> &Support;

    /// Compiles a command and its permissions. A permission that can't be enforced here is an error, never dropped.
    fn compile(&self, command: &CommandSpec, permissions: &Permissions) -> Result<Box<dyn Plan>, Unenforceable>;

    /// The sandbox's own file or directory at a path, if it replaces the host's regardless of the rules.
    fn own_place(&self, path: &AbsPath, files: &FileRules) -> Option<OwnPlace> {
        let _ = (path, files);
        None
    }

    /// How a policy with host rules is enforced. `None`: connections are intercepted, and a [`Gatekeeper`](crate::Gatekeeper) decides on
    /// each. Otherwise the caller has to start a proxy for the command.
    fn proxied(&self) -> Option<&dyn Proxied> {
        None
    }

    /// Whether this host can intercept connections, so that a person can be asked about each. May run a probe.
    fn sees_connections(&self) -> bool {
        self.proxied().is_none()
    }

    /// Whether the starts of programs below a command are seen on this host, so that rules can be held there. May try
    /// out what works.
    fn sees_starts(&self) -> bool {
        false
    }

    /// Ends the sandboxes that are kept for later commands and run none now. Their placeholders are gone afterwards.
    fn end_idle_sandboxes(&self) {}
}

/// A file or directory of the sandbox that replaces the host's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPlace {
    /// The access that a command has.
    pub access: Access,
    /// Its description, for messages.
    pub what: String,
}

/// A backend that can't filter by host and leaves that to a proxy on this machine.
///
/// The proxy decides by the same rules as a [`Gatekeeper`](crate::Gatekeeper) would. It serves one run, ends with it, and accepts no
/// other client.
pub trait Proxied: Backend {
    /// Like [`Backend::compile`], for permissions with host rules. The command reaches hosts through the proxy at this
    /// address, which its environment already names. Every way around the proxy has to be blocked or accepted by name,
    /// or it is an error.
    fn compile_through(
        &self,
        proxy: SocketAddr,
        command: &CommandSpec,
        permissions: &Permissions,
    ) -> Result<Box<dyn Plan>, Unenforceable>;
}

/// A compiled sandbox: plain data that can be printed, compared and started.
pub trait Plan: fmt::Debug + fmt::Display + Send + Sync {
    /// Builds the sandbox and starts the command in it.
    fn spawn(&self, stdio: Stdio) -> Result<Box<dyn Running>, SpawnError>;

    /// Like [`spawn`](Self::spawn), but asks `deciders` while the command runs. Permissions with host rules need one
    /// for connections, unless the backend is [`Proxied`]; if the network is off or open, it is not used.
    fn spawn_guarded(&self, stdio: Stdio, deciders: Deciders) -> Result<Box<dyn Running>, SpawnError> {
        drop(deciders);
        self.spawn(stdio)
    }

    /// The enforced permissions: those it was compiled for, with links resolved and the backend's own protections
    /// added.
    fn permissions(&self) -> &Permissions;

    /// Ways around the permissions that no kernel can close, one sentence each, for the caller to show.
    fn warnings(&self) -> &[String] {
        &[]
    }
}

/// The target of one standard stream.
#[derive(Debug, Default)]
pub enum Streams {
    /// `/dev/null`.
    #[default]
    Null,
    /// This program's own stream.
    Inherit,
    /// This file, pipe or terminal.
    To(OwnedStream),
}

/// The targets of the standard streams.
#[derive(Debug, Default)]
pub struct Stdio {
    /// Standard input.
    pub stdin: Streams,
    /// Standard output.
    pub stdout: Streams,
    /// Standard error.
    pub stderr: Streams,
    /// The first standard stream that is a terminal becomes the controlling terminal.
    pub controlling_terminal: bool,
}

impl Stdio {
    /// All three inherited.
    pub fn inherit() -> Self {
        Self {
            stdin: Streams::Inherit,
            stdout: Streams::Inherit,
            stderr: Streams::Inherit,
            controlling_terminal: false,
        }
    }
}

/// A command that was started. Dropping it kills the command and everything it started.
pub trait Running: fmt::Debug + Send {
    /// Which layers hold, as read back from the kernel.
    fn enforcement(&self) -> &Enforcement;

    /// Waits until the command and all processes it started have ended; with a limit, at most that long. `None` if it
    /// is still running then.
    fn wait(&mut self, limit: Option<Duration>) -> Result<Option<WaitStatus>, SpawnError>;

    /// The denied acts that the backend observed; `None` if it does not observe.
    fn observations(&self) -> Option<&Observations> {
        None
    }

    /// Becomes readable when `wait` would not block.
    fn readable(&self) -> BorrowedStream<'_>;

    /// Sends a signal to the command itself.
    fn signal(&mut self, signal: u8) -> Result<(), SpawnError>;

    /// Kills the command and everything it started.
    fn kill(&mut self) -> Result<(), SpawnError>;
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStatus {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
}

/// Why a command was not started, or was lost.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SpawnError {
    /// The program does not exist inside the sandbox.
    #[error("command `{program}` was not found in the sandbox")]
    NotFound {
        /// The program as given.
        program: RawText,
    },
    /// The program exists but can't be executed.
    #[error("command `{program}` can't be run")]
    NotExecutable {
        /// The program as given.
        program: RawText,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// The argument list is too long for the kernel.
    #[error(
        "command `{program}` can't be run: its arguments are too long (Linux takes 128 KiB for one of them, and a quarter of \
         the stack for all of them with the environment); write a long text into a file, and run or pass that"
    )]
    TooLong {
        /// The program as given.
        program: RawText,
    },
    /// The sandbox could not be built. Nothing was run.
    #[error("the sandbox could not be built: {step}")]
    Setup {
        /// The step that failed.
        step: String,
        /// The kernel's error.
        source: std::io::Error,
    },
    /// No available engine can enforce the permissions. Nothing was run.
    #[error(transparent)]
    Unenforceable(#[from] Unenforceable),
    /// The required layers are not in effect. The command was killed.
    #[error("the sandbox does not hold: {missing}")]
    NotEnforced {
        /// What is missing.
        missing: String,
    },
    /// Communication with the launcher failed.
    #[error("lost the launcher while {doing}")]
    Launcher {
        /// The step that failed.
        doing: &'static str,
        /// The kernel's error.
        source: std::io::Error,
    },
}
