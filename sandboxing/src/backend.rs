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

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSpec {
    /// The program and its arguments. A bare name is looked up along the `PATH` in `environment`.
    pub argv: Argv,
    /// Where it starts.
    pub cwd: AbsPath,
    /// All of its environment: nothing is added to it.
    pub environment: BTreeMap<RawText, RawText>,
    /// What its process has from a caller that is not this process.
    pub process: ProcessSettings,
}

/// Builds sandboxes on one kind of host.
pub trait Backend: Send + Sync {
    /// What this host can enforce, layer by layer. Found out once.
    fn support(&self) -> &Support;

    /// What has to be done for this command and these permissions. A permission that can't be
    /// enforced here is an error, never left out.
    fn compile(&self, command: &CommandSpec, permissions: &Permissions) -> Result<Box<dyn Plan>, Unenforceable>;

    /// What stands at a path inside the sandbox, if it is the sandbox's own and not the host's, whatever the rules grant.
    fn own_place(&self, path: &AbsPath, files: &FileRules) -> Option<OwnPlace> {
        let _ = (path, files);
        None
    }

    /// How a policy that names single hosts is held here. `None`: connections are seen as they are made, and a
    /// [`Gatekeeper`] is asked for each. Otherwise whoever runs the command has to start a proxy for it.
    fn proxied(&self) -> Option<&dyn Proxied> {
        None
    }

    /// Whether connections are seen as they are made on this host, so that a person can be asked for each. May try out
    /// what works.
    fn sees_connections(&self) -> bool {
        self.proxied().is_none()
    }
}

/// A file or directory of the sandbox's own, in the place of the host's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnPlace {
    /// What a command may do there.
    pub access: Access,
    /// What it is, in a sentence.
    pub what: String,
}

/// A backend that can't tell one host from another, and leaves it to a proxy on this machine.
///
/// The proxy decides by the same rules as a [`Gatekeeper`] would. It is started for one run and ends with
/// it, and nobody else can use it.
pub trait Proxied: Backend {
    /// As [`Backend::compile`], for permissions that name single hosts. The command reaches them through the
    /// proxy at this address, to which its environment leads already. What can get around the proxy has to be
    /// held, or to be accepted by name, or it is an error.
    fn compile_through(
        &self,
        proxy: SocketAddr,
        command: &CommandSpec,
        permissions: &Permissions,
    ) -> Result<Box<dyn Plan>, Unenforceable>;
}

/// What has to be done: plain data that can be printed, compared and started.
pub trait Plan: fmt::Debug + fmt::Display + Send + Sync {
    /// Builds the sandbox and starts the command in it.
    fn spawn(&self, stdio: Stdio) -> Result<Box<dyn Running>, SpawnError>;

    /// Like [`spawn`](Self::spawn), but asks `deciders` while the command runs. Permissions that name single hosts
    /// need one for connections, unless the backend is [`Proxied`]; where the network is off or open there is nothing
    /// to decide on them.
    fn spawn_guarded(&self, stdio: Stdio, deciders: Deciders) -> Result<Box<dyn Running>, SpawnError> {
        drop(deciders);
        self.spawn(stdio)
    }

    /// The permissions that it enforces: those that it was compiled for, with links followed and everything added
    /// that the backend protects by itself.
    fn permissions(&self) -> &Permissions;

    /// Ways around the permissions that no kernel can close, for the caller to tell a person: one
    /// sentence each.
    fn warnings(&self) -> &[String] {
        &[]
    }
}

/// Where one standard stream leads.
#[derive(Debug, Default)]
pub enum Streams {
    /// Nowhere.
    #[default]
    Null,
    /// Where this program's own stream leads.
    Inherit,
    /// To this file, pipe or terminal.
    To(OwnedStream),
}

/// Where the standard streams lead.
#[derive(Debug, Default)]
pub struct Stdio {
    /// Standard input.
    pub stdin: Streams,
    /// Standard output.
    pub stdout: Streams,
    /// Standard error.
    pub stderr: Streams,
    /// The first standard stream that is a terminal becomes the command's own.
    pub controlling_terminal: bool,
}

impl Stdio {
    /// All three as this program has them.
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

    /// Waits until the command and everything it started are gone; with a limit, at most that long.
    /// `None` if it is still running then.
    fn wait(&mut self, limit: Option<Duration>) -> Result<Option<WaitStatus>, SpawnError>;

    /// What the backend has seen it try that its policy denies; `None` where nothing is watched.
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
    /// The program is not there, as seen from inside the sandbox.
    #[error("command `{program}` was not found in the sandbox")]
    NotFound {
        /// The program as given.
        program: RawText,
    },
    /// The program is there but can't be run.
    #[error("command `{program}` can't be run")]
    NotExecutable {
        /// The program as given.
        program: RawText,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// The kernel takes no command of this length.
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
        /// What was being done.
        step: String,
        /// What the kernel says.
        source: std::io::Error,
    },
    /// No engine that works here can enforce what was asked for. Nothing was run.
    #[error(transparent)]
    Unenforceable(#[from] Unenforceable),
    /// The layers that were asked for do not hold. The command was killed.
    #[error("the sandbox does not hold: {missing}")]
    NotEnforced {
        /// What is missing.
        missing: String,
    },
    /// Talking to the launcher failed.
    #[error("lost the launcher while {doing}")]
    Launcher {
        /// What was being done.
        doing: &'static str,
        /// What the kernel says.
        source: std::io::Error,
    },
}
