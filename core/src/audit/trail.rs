//! The trail in files: records are added to `audit.jsonl`, one line each, by any number of
//! processes and threads at once.
//!
//! A writer takes the lock, finds the end of the trail in the head, writes its record with one `write`, and advances
//! the head. If it is killed in between, the next writer can tell what happened ([`repair`](super::repair)) and
//! continues from there.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use stockade_protocol::{AuditEvent, RequestId, ThreadId};

use super::head::Head;
use super::line::{MAX_RECORD_BYTES, Unsealed};
use super::place::{CURRENT, HEAD, Place, Turn, archive_name};
use super::{AuditError, AuditSink, repair, state_directory};
use crate::redact_event;

/// When a record counts as stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it is in the page cache: it survives the death of every process, but the last records may be lost in a
    /// power failure. [`verify`](super::verify) detects that.
    #[default]
    System,
    /// When it is on disk. Each record waits for the disk.
    EachRecord,
}

/// Options of a trail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrailOptions {
    /// When a record counts as stored.
    pub durability: Durability,
    /// The size limit of a file.
    pub max_file_bytes: u64,
    /// The number of full files kept besides the current one; at least one.
    pub kept_files: u64,
}

impl Default for TrailOptions {
    /// At most about 600 megabytes, over a million records.
    fn default() -> Self {
        Self { durability: Durability::System, max_file_bytes: 64 * 1024 * 1024, kept_files: 8 }
    }
}

/// A trail in a directory of its own.
///
/// ```
/// use stockade_core::{AuditSink as _, AuditTrail, TrailOptions, verify};
/// use stockade_protocol::{AuditEvent, Refusal, RefusedBy};
///
/// let directory = tempfile::tempdir()?;
/// let trail = AuditTrail::open(directory.path(), TrailOptions::default())?;
/// let refusal = Refusal { by: RefusedBy::Rule, reason: String::from("use trash") };
/// trail.append(&"thread-1".parse()?, &"call-1".parse()?, AuditEvent::Refused(refusal))?;
///
/// let verdict = verify(directory.path())?;
/// assert_eq!((verdict.records, verdict.bad), (1, None));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct AuditTrail {
    place: Place,
    options: TrailOptions,
    files: Mutex<Files>,
}

#[derive(Debug)]
struct Files {
    head: File,
    current: File,
}

impl AuditTrail {
    /// The trail in a directory, which is created for the user alone if it is missing.
    pub fn open(directory: &Path, options: TrailOptions) -> Result<Self, AuditError> {
        let place = Place::make(directory)?;
        let files = Mutex::new(Files { head: place.open_head()?, current: place.open_current()? });
        Ok(Self { place, options, files })
    }

    /// The user's own trail, below `$XDG_STATE_HOME` or `~/.local/state`.
    pub fn standard(options: TrailOptions) -> Result<Self, AuditError> {
        let directory = state_directory(|name| std::env::var_os(name)).ok_or(AuditError::NoPlace)?;
        Self::open(&directory, options)
    }

    /// The file that records are added to.
    pub fn path(&self) -> PathBuf {
        self.place.path(CURRENT)
    }
}

impl AuditSink for AuditTrail {
    fn append(&self, thread: &ThreadId, request: &RequestId, event: AuditEvent) -> Result<(), AuditError> {
        let event = redact_event(event);
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let Files { head: head_file, current } = &mut *files;
            let turn = Turn::wait(head_file, &self.place.path(HEAD))?;
            // A head that was replaced while this writer waited is not the one that others lock.
            if let Some(head_size) = self.place.size_if_still(HEAD, head_file)? {
                return Writer { trail: self, head_file, head_size, current, thread, request }.append(&event);
            }
            drop(turn);
            files.head = self.place.open_head()?;
        }
    }
}

/// A writer that holds the lock.
struct Writer<'a> {
    trail: &'a AuditTrail,
    head_file: &'a File,
    head_size: u64,
    current: &'a mut File,
    thread: &'a ThreadId,
    request: &'a RequestId,
}

impl Writer<'_> {
    fn append(&mut self, event: &AuditEvent) -> Result<(), AuditError> {
        let (head, damage) = self.find_end()?;
        let head = match damage {
            Some(damage) => self.write(head, &AuditEvent::Repaired { damage })?,
            None => head,
        };
        self.write(head, event).map(drop)
    }

    /// The end of the trail, and its damage, if any.
    fn find_end(&mut self) -> Result<repair::End, AuditError> {
        let place = &self.trail.place;
        let found = Head::read(self.head_file, self.head_size).map_err(AuditError::io("read", &place.path(HEAD)))?;
        if let super::head::Found::Head(head) = &found {
            finish_rotation(place, head)?;
        }
        let size = match place.size_if_still(CURRENT, self.current)? {
            Some(size) => size,
            None => {
                *self.current = place.open_current()?;
                self.current.metadata().map_err(AuditError::io("read the end of", &place.path(CURRENT)))?.len()
            }
        };
        repair::find_end(place, self.current, size, &found)
    }

    /// Appends one record after `head` and advances the head.
    fn write(&mut self, head: Head, event: &AuditEvent) -> Result<Head, AuditError> {
        let unsealed = Unsealed {
            sequence: head.records,
            time_ms: now_ms(),
            thread_id: self.thread,
            request_id: self.request,
            event,
            previous: head.hash,
        };
        let (line, hash) = unsealed.seal()?;
        if line.len() > MAX_RECORD_BYTES {
            return Err(AuditError::TooLarge { bytes: line.len() });
        }
        let length = u64::try_from(line.len()).unwrap_or(u64::MAX);
        let head = self.rotate_if_full(head, length)?;
        let moved =
            Head { records: head.records.saturating_add(1), hash, size: head.size.saturating_add(length), ..head };
        self.write_line(&line).and_then(|()| self.settle(&moved)).map_err(|error| {
            // Removes the partial record. If that fails too, the next writer finds it.
            self.current.set_len(head.size).ok();
            AuditError::io("write to", &self.trail.place.path(CURRENT))(error)
        })?;
        Ok(moved)
    }

    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        loop {
            match self.current.write(line) {
                Ok(count) if count == line.len() => return Ok(()),
                // The disk filled up, or a limit was reached, in the middle of the record.
                Ok(_) => return Err(io::ErrorKind::StorageFull.into()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn settle(&self, head: &Head) -> io::Result<()> {
        match self.trail.options.durability {
            Durability::System => head.write(self.head_file),
            Durability::EachRecord => {
                self.current.sync_data()?;
                head.write(self.head_file)?;
                self.head_file.sync_data()
            }
        }
    }

    /// Begins the next file if the current one would become too large. The chain continues: the first record of the
    /// new file has the hash of the last record of the old one.
    fn rotate_if_full(&mut self, head: Head, length: u64) -> Result<Head, AuditError> {
        let place = &self.trail.place;
        if head.size == 0 || head.size.saturating_add(length) <= self.trail.options.max_file_bytes {
            return Ok(head);
        }
        // The head is written first: the next writer that finds it without the renamed file finishes the rotation.
        let mut next = Head { generation: head.generation.saturating_add(1), size: 0, ..head };
        next.write(self.head_file).map_err(AuditError::io("rotate", &place.path(HEAD)))?;
        finish_rotation(place, &next)?;
        *self.current = place.open_current()?;
        self.forget_oldest(&mut next)?;
        Ok(next)
    }

    fn forget_oldest(&self, head: &mut Head) -> Result<(), AuditError> {
        let place = &self.trail.place;
        let archives = place.archives()?;
        let kept = usize::try_from(self.trail.options.kept_files.max(1)).unwrap_or(usize::MAX);
        let (forgotten, kept) = archives.split_at(archives.len().saturating_sub(kept));
        let Some((_, oldest)) = kept.first().filter(|_| !forgotten.is_empty()) else { return Ok(()) };
        // An unreadable file is kept for inspection.
        let Some(first) = repair::first_record(place, oldest)? else { return Ok(()) };
        (head.first_sequence, head.first_previous) = (first.sequence, first.previous);
        head.write(self.head_file).map_err(AuditError::io("rotate", &place.path(HEAD)))?;
        forgotten.iter().try_for_each(|(_, name)| place.remove(name))
    }
}

/// Renames the full file, if a writer died before it could.
fn finish_rotation(place: &Place, head: &Head) -> Result<(), AuditError> {
    let Some(last) = head.generation.checked_sub(1).map(archive_name).filter(|_| head.size == 0) else {
        return Ok(());
    };
    if place.exists(&last) || !place.exists(CURRENT) { Ok(()) } else { place.rename(CURRENT, &last) }
}

fn now_ms() -> u64 {
    // A clock before 1970 counts as 1970.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
