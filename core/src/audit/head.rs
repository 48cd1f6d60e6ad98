//! Where the trail stands: a small file beside it, which is also the lock of its writers.
//!
//! A chain shows what was changed in its middle, not what was taken from its end. So after each
//! record its number, hash and place are written here, always over the same bytes. A writer that opens
//! the trail finds its end without reading it, and to shorten it takes shortening this too.

use std::fs::File;
use std::io;

use serde::{Deserialize, Serialize};
use stockade_protocol::RecordHash;

use super::place::{read_at, write_at};

/// How long the file always is: one line, filled up with spaces.
const WIDTH: usize = 512;

/// The state of a trail after its last record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Head {
    /// How many records were ever written: the next one's sequence.
    pub(crate) records: u64,
    /// The hash of the last one.
    pub(crate) hash: RecordHash,
    /// Where it ends in the current file.
    pub(crate) size: u64,
    /// How many files came before the current one.
    pub(crate) generation: u64,
    /// The oldest record that is kept, and the hash before it.
    pub(crate) first_sequence: u64,
    pub(crate) first_previous: RecordHash,
}

/// What was found in the file.
pub(crate) enum Found {
    /// Nothing: no record was ever written, or it was emptied.
    Nothing,
    /// Something else.
    Unreadable,
    /// The state.
    Head(Head),
}

impl Head {
    pub(crate) fn read(file: &File) -> io::Result<Found> {
        let mut bytes = vec![0; WIDTH + 1];
        let length = read_at(file, &mut bytes, 0)?;
        bytes.truncate(length);
        if bytes.is_empty() {
            return Ok(Found::Nothing);
        }
        let head = serde_json::from_slice::<Self>(&bytes).ok();
        // There is one way to write it, so that no byte can change without notice.
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
