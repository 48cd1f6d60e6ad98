//! Reads a trail from its oldest line to its newest, while others write it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Take};
use std::path::{Path, PathBuf};

use stockade_protocol::AuditRecord;

use super::AuditError;
use super::head::{Found, Head};
use super::line::{self, MAX_RECORD_BYTES};
use super::place::{CURRENT, HEAD, Place, Turn};

/// Every record of a trail, the oldest first. Invalid lines, and records whose hash does not match, are skipped:
/// [`verify`](super::verify) names them.
pub fn records(directory: &Path) -> Result<impl Iterator<Item = Result<AuditRecord, AuditError>> + use<>, AuditError> {
    let snapshot = Snapshot::take(directory)?;
    Ok(snapshot.lines().filter_map(|line| match line {
        Ok(line) => line::open(&line.text).ok().map(Ok),
        Err(error) => Some(Err(error)),
    }))
}

/// The files of a trail as they were at one moment.
pub(crate) struct Snapshot {
    pub(crate) head: Found,
    /// The number of earlier files, by the number of the last.
    pub(crate) archives: u64,
    files: Vec<(PathBuf, File, u64)>,
}

/// One line.
pub(crate) struct Line {
    pub(crate) file: PathBuf,
    /// Its number in the file, counted from 1.
    pub(crate) number: u64,
    /// Its bytes without the newline, at most as many as a record may have.
    pub(crate) text: Vec<u8>,
    /// Its end in the file.
    pub(crate) end: u64,
    /// Whether it ends with a newline.
    pub(crate) finished: bool,
}

impl Snapshot {
    pub(crate) fn take(directory: &Path) -> Result<Self, AuditError> {
        let place = Place::find(directory)?;
        let head_file = place.open_to_read(HEAD)?;
        let head_path = place.path(HEAD);
        let _turn = head_file.as_ref().map(|file| Turn::wait(file, &head_path)).transpose()?;
        let head = match &head_file {
            Some(file) => {
                let size = file.metadata().map_err(AuditError::io("read", &head_path))?.len();
                Head::read(file, size).map_err(AuditError::io("read", &head_path))?
            }
            None => Found::Nothing,
        };
        let mut files = Vec::new();
        let names = place.archives()?;
        let archives = names.last().map_or(0, |(number, _)| number.saturating_add(1));
        for name in names.into_iter().map(|(_, name)| name).chain([CURRENT.to_owned()]) {
            if let Some(file) = place.open_to_read(&name)? {
                let size = file.metadata().map_err(AuditError::io("read", &place.path(&name)))?.len();
                files.push((place.path(&name), file, size));
            }
        }
        Ok(Self { head, archives, files })
    }

    pub(crate) fn lines(self) -> impl Iterator<Item = Result<Line, AuditError>> {
        self.files.into_iter().flat_map(|(path, file, size)| Lines {
            reader: BufReader::with_capacity(256 * 1024, file).take(size),
            path,
            number: 0,
            end: 0,
        })
    }
}

/// The lines of one file.
struct Lines {
    path: PathBuf,
    reader: Take<BufReader<File>>,
    number: u64,
    end: u64,
}

impl Iterator for Lines {
    type Item = Result<Line, AuditError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut text = Vec::new();
        let mut length = 0;
        // A line longer than any record is read to its end, but not kept.
        loop {
            let kept = text.len();
            let count = match (&mut self.reader).take(MAX_RECORD_BYTES as u64).read_until(b'\n', &mut text) {
                Ok(count) => count,
                Err(error) => return Some(Err(AuditError::io("read", &self.path)(error))),
            };
            length += count as u64;
            if count == 0 || text.last() == Some(&b'\n') {
                break;
            }
            text.truncate(kept.max(MAX_RECORD_BYTES + 1));
        }
        if length == 0 {
            return None;
        }
        self.number += 1;
        self.end += length;
        let finished = text.pop_if(|last| *last == b'\n').is_some();
        Some(Ok(Line { file: self.path.clone(), number: self.number, text, end: self.end, finished }))
    }
}
