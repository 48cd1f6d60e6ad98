//! The location of this user's session server, and the tickets for joining sessions.
//!
//! All of it is in the directory of the socket, which is private to the user and hidden from the commands of all
//! sessions.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use rustix::fs::{FlockOperation, OFlags};
use serde::{Deserialize, Serialize};
use stockade_protocol::AbsPath;
use stockade_server::wire::{Capability, SessionId, SessionName};

/// Limit on the size of a ticket.
const LONGEST_TICKET: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum PlaceError {
    #[error("there is no place for sessions: set XDG_RUNTIME_DIR or HOME")]
    Nowhere,
    #[error("`{}` is not this user's alone: close it with `chmod 700`, or remove it", .0.display())]
    Open(PathBuf),
    #[error("can't {act} `{}`", .path.display())]
    System { act: &'static str, path: PathBuf, source: io::Error },
}

/// The directory of the socket.
#[derive(Clone, Debug)]
pub(crate) struct Place(PathBuf);

/// The credentials with which a client of this user joins a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) session_id: SessionId,
    pub(crate) capability: Capability,
    /// The flags it was opened with: its policy differs from the settings.
    pub(crate) flags: Vec<String>,
    pub(crate) workspace: Vec<AbsPath>,
}

/// A lock file, removed on drop.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The lock is still held, so no other client has it. A waiting client creates a new file.
        fs::remove_file(&self.path).ok();
    }
}

impl Place {
    pub(crate) fn find() -> Result<Self, PlaceError> {
        let directory = stockade_config::socket_directory(stockade_config::user_variable).ok_or(PlaceError::Nowhere)?;
        Ok(Self(directory))
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.0.join("serve.sock")
    }

    fn ticket_path(&self, name: &SessionName) -> PathBuf {
        self.0.join(format!("{name}.session"))
    }

    /// Creates the directory if it is missing, and checks that it is private to this user.
    pub(crate) fn make(&self) -> Result<(), PlaceError> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0);
        made.map_err(|source| PlaceError::System { act: "make", path: self.0.clone(), source })?;
        let found = fs::symlink_metadata(&self.0);
        let found = found.map_err(|source| PlaceError::System { act: "look at", path: self.0.clone(), source })?;
        let is_ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
        if is_ours && found.mode() & 0o077 == 0 { Ok(()) } else { Err(PlaceError::Open(self.0.clone())) }
    }

    /// The ticket of a session; `None` if it is missing or not private to this user.
    pub(crate) fn ticket(&self, name: &SessionName) -> Option<Ticket> {
        let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK).bits()).ok()?;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.ticket_path(name)).ok()?;
        let found = file.metadata().ok()?;
        let is_ours = found.is_file() && found.uid() == rustix::process::geteuid().as_raw();
        if !is_ours || found.mode() & 0o077 != 0 {
            return None;
        }
        let mut text = String::new();
        file.take(LONGEST_TICKET).read_to_string(&mut text).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Writes a ticket atomically.
    pub(crate) fn leave(&self, name: &SessionName, ticket: &Ticket) -> Result<(), PlaceError> {
        let path = self.ticket_path(name);
        let new = self.0.join(format!("{name}.session.new"));
        let failed = |source: io::Error| PlaceError::System { act: "write", path: path.clone(), source };
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            Ok(()) | Err(_) => {}
        }
        let text = serde_json::to_vec(ticket).map_err(|error| failed(error.into()))?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new).map_err(failed)?;
        file.write_all(&text).map_err(failed)?;
        fs::rename(&new, &path).map_err(failed)
    }

    /// Removes a ticket.
    pub(crate) fn remove(&self, name: &SessionName) {
        // It may be gone already.
        fs::remove_file(self.ticket_path(name)).ok();
    }

    /// The names of all sessions with a ticket.
    pub(crate) fn names(&self) -> Vec<SessionName> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<SessionName> =
            names.filter_map(|name| name.strip_suffix(".session").and_then(|name| name.parse().ok())).collect();
        names.sort();
        names
    }

    /// Waits for the lock of this name.
    pub(crate) fn lock(&self, what: &str) -> Result<Lock, PlaceError> {
        let path = self.0.join(format!(".{what}.lock"));
        let failed = |source: io::Error| PlaceError::System { act: "lock", path: path.clone(), source };
        loop {
            let file =
                OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(failed)?;
            match rustix::fs::flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(failed(error.into())),
            }
            let locked = file.metadata().map_err(failed)?;
            // The previous holder has removed the file, and another client may have created it again.
            if fs::symlink_metadata(&path).is_ok_and(|found| found.ino() == locked.ino() && found.dev() == locked.dev())
            {
                return Ok(Lock { path, _file: file });
            }
        }
    }

    /// The server's log file, in the state directory.
    pub(crate) fn log(&self) -> PathBuf {
        let state = stockade_core::state_directory(stockade_config::user_variable);
        state.unwrap_or_else(|| self.0.clone()).join("serve.log")
    }
}
