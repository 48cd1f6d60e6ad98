//! Where the server of this user's sessions is, and what lets a client join one of them.
//!
//! All of it is in the directory of the socket, which is the user's alone and which no command of any session can see.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use rustix::fs::{FlockOperation, OFlags};
use serde::{Deserialize, Serialize};
use stockade_protocol::AbsPath;
use stockade_server::wire::{Capability, SessionId, SessionName};

/// A ticket is short.
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

/// What lets a client of this user join a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) session_id: SessionId,
    pub(crate) capability: Capability,
    /// The flags that it was opened with: what holds in it is not what the settings alone would say.
    pub(crate) flags: Vec<String>,
    pub(crate) workspace: Vec<AbsPath>,
}

/// A lock on a file, until this is dropped. The file goes with it.
#[derive(Debug)]
pub(crate) struct Lock {
    path: PathBuf,
    _file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // It is still held, so that no other client has locked this file. One that waits for it makes a new one.
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

    /// Makes the directory, if it is missing, and checks that it is this user's alone.
    pub(crate) fn make(&self) -> Result<(), PlaceError> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.0);
        made.map_err(|source| PlaceError::System { act: "make", path: self.0.clone(), source })?;
        let found = fs::symlink_metadata(&self.0);
        let found = found.map_err(|source| PlaceError::System { act: "look at", path: self.0.clone(), source })?;
        let is_ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
        if is_ours && found.mode() & 0o077 == 0 { Ok(()) } else { Err(PlaceError::Open(self.0.clone())) }
    }

    /// The ticket of a session; none if there is none, or none of this user's alone.
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

    /// Leaves a ticket, whole or not at all.
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

    /// Takes a ticket away.
    pub(crate) fn remove(&self, name: &SessionName) {
        // One that is gone already is gone.
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

    /// Waits until no other client does what this name stands for.
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
            // The client that had it has removed it, and another one may have made it again.
            if fs::symlink_metadata(&path).is_ok_and(|found| found.ino() == locked.ino() && found.dev() == locked.dev())
            {
                return Ok(Lock { path, _file: file });
            }
        }
    }

    /// Where the server says what went wrong: in the state directory, where it stays.
    pub(crate) fn log(&self) -> PathBuf {
        let state = stockade_core::state_directory(stockade_config::user_variable);
        state.unwrap_or_else(|| self.0.clone()).join("serve.log")
    }
}
