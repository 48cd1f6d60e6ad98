//! The head of the trail: a small file beside it, which is also the lock of its writers.
//!
//! A hash chain reveals changes in its middle, but not a truncation. So after each record its number, hash and
//! position are written here, always over the same bytes. A writer finds the end of the trail without reading it, and
//! truncating the trail requires changing this file too.

use std::fs::File;
use std::io;

use serde::{Deserialize, Serialize};
use stockade_protocol::RecordHash;

use super::place::{read_at, write_at};

/// The fixed size of the file: one line, padded with spaces.
const WIDTH: usize = 512;

/// The state of a trail after its last record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    /// The number of records ever written: the next one's sequence.
    pub(crate) records: u64,
    /// The hash of the last one.
    pub(crate) hash: RecordHash,
    /// Its end in the current file.
    pub(crate) size: u64,
    /// The number of earlier files.
    pub(crate) generation: u64,
    /// The oldest record that is kept, and the hash before it.
    pub(crate) first_sequence: u64,
    pub(crate) first_previous: RecordHash,
}

/// The content of the file.
pub(crate) enum Found {
    /// Empty: no record was ever written, or it was emptied.
    Nothing,
    /// Invalid content.
    Unreadable,
    /// The state.
    Head(Head),
}

impl Head {
    /// Reads a file of this size.
    pub(crate) fn read(file: &File, size: u64) -> io::Result<Found> {
        // A longer one is not valid, which its next byte shows.
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX).min(WIDTH + 1)];
        let length = read_at(file, &mut bytes, 0)?;
        bytes.truncate(length);
        if bytes.is_empty() {
            return Ok(Found::Nothing);
        }
        let head = serde_json::from_slice::<Self>(&bytes).ok();
        // The serialization is canonical, so that no byte can change unnoticed.
        Ok(head.filter(|head| head.render().is_ok_and(|own| own == bytes)).map_or(Found::Unreadable, Found::Head))
    }

    pub(crate) fn write(&self, file: &File) -> io::Result<()> {
        write_at(file, &self.render()?, 0)
    }

    fn render(&self) -> io::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(self)?;
        line.resize(WIDTH - 1, b' ');
        line.push(b'\n');
        Ok(line)
    }
}
