//! Finds the server of this user's sessions, or starts it detached.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use stockade_server::wire::{ClientCapabilities, ErrorKind};
use stockade_server::{Client, ClientError};

use super::place::{Place, PlaceError};

/// The variable that names a session.
pub(super) const SESSION_VARIABLE: &str = "STOCKADE_SESSION";

/// The time limit for a server to start.
const TIME_TO_START: Duration = Duration::from_secs(20);

/// The polling interval.
const LOOK: Duration = Duration::from_millis(5);

/// How long, and how often, to retry if the server has too many clients.
const TIME_FOR_A_PLACE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(50);

/// The idle time after which a server without sessions ends.
const IDLE: &str = "60s";

#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerError {
    #[error(transparent)]
    Place(#[from] PlaceError),
    #[error("the server of sessions could not be started")]
    Start(#[source] io::Error),
    #[error("the server of sessions did not start: `{log}` says why")]
    NotStarted { log: String },
    #[error("the server at `{0}` is another user's")]
    OthersServer(String),
    #[error(
        "the server of sessions has as many clients as it serves at the same time: try again when one of them has ended, or \
         run the command without a session"
    )]
    Busy,
    #[error("can't communicate with the server of sessions")]
    Speak(#[from] ClientError),
}

impl ServerError {
    /// Whether the server reported too many clients.
    fn is_busy(&self) -> bool {
        matches!(self, Self::Speak(ClientError::Refused(error)) if error.kind() == Some(ErrorKind::Busy))
    }

    /// Like `is_busy`, also if it closed the connection before that could be read.
    fn is_crowded(&self) -> bool {
        let hung_up =
            |error: &io::Error| matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset);
        self.is_busy() || matches!(self, Self::Speak(ClientError::Io(error)) if hung_up(error))
    }
}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Runs a command, and answers at its terminal.
    Runner,
    /// Looks at sessions, and ends them.
    Manager,
    /// Answers the questions of others.
    Attendant,
}

impl Role {
    /// The client name that others see.
    fn client_name(self) -> &'static str {
        match self {
            Self::Runner => "stockade run",
            Self::Manager => "stockade session",
            Self::Attendant => "stockade session attend",
        }
    }

    fn answers(self) -> bool {
        match self {
            Self::Runner | Self::Attendant => true,
            Self::Manager => false,
        }
    }
}

/// Connects to the server; `None` if there is none.
pub(crate) fn connect(place: &Place, role: Role) -> Result<Option<Client>, ServerError> {
    connect_to(&place.socket(), role)
}

/// Connects to the server of a socket; `None` if there is none. Retries for a while if the server has too many
/// clients.
pub(crate) fn connect_to(path: &Path, role: Role) -> Result<Option<Client>, ServerError> {
    let start = Instant::now();
    loop {
        match connect_once(path, role) {
            Err(error) if error.is_crowded() && start.elapsed() < TIME_FOR_A_PLACE => std::thread::sleep(PAUSE),
            // A server that keeps closing connections has no room either.
            Err(error) if error.is_crowded() => return Err(ServerError::Busy),
            other => return other,
        }
    }
}

fn connect_once(path: &Path, role: Role) -> Result<Option<Client>, ServerError> {
    let Some(mut client) = reach(path, role)? else { return Ok(None) };
    match client.introduce() {
        Ok(()) => Ok(Some(client)),
        // The server was about to end.
        Err(ClientError::Ended) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Connects to the server of a socket without a message. The first request shows whether it is about to end, or has
/// too many clients.
pub(crate) fn reach(path: &Path, role: Role) -> Result<Option<Client>, ServerError> {
    let socket = match UnixStream::connect(path) {
        Ok(socket) => socket,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            return Ok(None);
        }
        Err(error) => return Err(ClientError::from(error).into()),
    };
    if !is_ours(&socket) {
        return Err(ServerError::OthersServer(path.display().to_string()));
    }
    let capabilities = ClientCapabilities { answers: role.answers(), terminal: false };
    Ok(Some(Client::over(socket, role.client_name(), capabilities)?))
}

/// Whether the peer process belongs to this user.
#[cfg(target_os = "linux")]
fn is_ours(socket: &UnixStream) -> bool {
    let peer = rustix::net::sockopt::socket_peercred(socket);
    peer.is_ok_and(|peer| peer.uid == rustix::process::geteuid())
}

/// Here the private directory has to suffice.
#[cfg(not(target_os = "linux"))]
fn is_ours(_: &UnixStream) -> bool {
    true
}

/// Connects to the server, and starts one if there is none.
pub(crate) fn connect_or_start(place: &Place) -> Result<Client, ServerError> {
    place.make()?;
    // Of concurrent clients, one starts the server.
    let _lock = place.lock("start")?;
    if let Some(client) = connect(place, Role::Runner)? {
        return Ok(client);
    }
    start(place)?;
    let start = Instant::now();
    loop {
        if let Some(client) = connect(place, Role::Runner)? {
            return Ok(client);
        }
        if start.elapsed() > TIME_TO_START {
            return Err(ServerError::NotStarted { log: place.log().display().to_string() });
        }
        std::thread::sleep(LOOK);
    }
}

/// Starts a server that shares only user and environment with this program: no terminal, streams, directory or process
/// group.
#[expect(clippy::disallowed_methods, reason = "this program starts itself, by the file that it is")]
fn start(place: &Place) -> Result<(), ServerError> {
    let log = place.log();
    if let Some(directory) = log.parent() {
        std::fs::create_dir_all(directory).map_err(ServerError::Start)?;
    }
    let log = OpenOptions::new().append(true).create(true).mode(0o600).open(log).map_err(ServerError::Start)?;
    let own = std::env::current_exe().map_err(ServerError::Start)?;
    let mut command = Command::new(own);
    command.args([OsStr::new("serve"), OsStr::new("--socket"), place.socket().as_os_str()]);
    command.args(["--idle", IDLE, "--detached"]).env_remove(SESSION_VARIABLE).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    // It detaches first, and outlives this program.
    drop(command.spawn().map_err(ServerError::Start)?);
    Ok(())
}
