//! Files that are read in blocks: for each a helper that holds it open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::value::RawValue;
use stockade_protocol::AbsPath;

use super::request::{FileReply, FileRequest};
use super::{first_line, forms};
use crate::message::ErrorBody;
use crate::session::{Running, Session};

/// Files that are open at a time.
const MOST_OPEN: usize = 32;

/// The longest name of one.
const LONGEST_ID: usize = 64;

/// The files that are open.
#[derive(Clone, Default)]
pub(super) struct Handles(Arc<Mutex<HashMap<String, Option<Handle>>>>);

type Handle = Arc<tokio::sync::Mutex<Running>>;

/// A name that is kept for a file which is about to be opened.
pub(super) struct Place {
    handles: Handles,
    id: String,
    is_taken: bool,
}

impl Handles {
    fn table(&self) -> MutexGuard<'_, HashMap<String, Option<Handle>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a name.
    pub(super) fn reserve(&self, id: String) -> Result<Place, ErrorBody> {
        if !(1..=LONGEST_ID).contains(&id.len()) {
            return Err(ErrorBody::invalid_request(format!("`handleId` must have 1 to {LONGEST_ID} bytes")));
        }
        let mut table = self.table();
        if table.contains_key(&id) {
            let message = format!("file read handle `{}` already exists", id.escape_debug());
            return Err(ErrorBody::invalid_request(message));
        }
        if table.len() >= MOST_OPEN {
            let message = format!("{MOST_OPEN} files are open already: close one");
            return Err(ErrorBody::invalid_request(message));
        }
        table.insert(id.clone(), None);
        drop(table);
        Ok(Place { handles: self.clone(), id, is_taken: false })
    }

    /// Reads a block. After an error the file is closed.
    pub(super) async fn block(
        &self,
        session: &Session,
        id: &str,
        offset: u64,
        length: usize,
    ) -> Result<Box<RawValue>, ErrorBody> {
        let unknown = || ErrorBody::invalid_request(format!("unknown file read handle `{}`", id.escape_debug()));
        let handle = self.table().get(id).cloned().flatten().ok_or_else(unknown)?;
        let mut running = handle.lock().await;
        let command = running.id.clone();
        let asked = session.write(&command, format!("{offset} {length}\n").into_bytes(), false).await;
        let line = match asked {
            Ok(()) => first_line(&mut running).await,
            Err(_) => None,
        };
        let reply = line.and_then(|line| serde_json::from_slice::<FileReply>(&line).ok());
        let result = match reply {
            Some(FileReply::Failed(failure)) => Err(ErrorBody::internal(failure.message)),
            Some(reply) => AbsPath::parse("/")
                .map_err(ErrorBody::internal)
                .and_then(|path| forms::result(&FileRequest::Blocks { path }, reply)),
            None => Err(ErrorBody::internal("the helper gave no answer")),
        };
        if result.is_err() {
            self.close(id);
        }
        result
    }

    /// Closes a file: its helper ends.
    pub(super) fn close(&self, id: &str) {
        if let Some(Some(handle)) = self.table().remove(id) {
            tokio::spawn(async move {
                let cancelling = handle.lock().await.cancel();
                cancelling.await;
            });
        }
    }
}

impl Place {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The file is open.
    pub(super) fn take(mut self, running: Running) {
        self.is_taken = true;
        let handle = Arc::new(tokio::sync::Mutex::new(running));
        self.handles.table().insert(self.id.clone(), Some(handle));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_taken {
            self.handles.table().remove(&self.id);
        }
    }
}
