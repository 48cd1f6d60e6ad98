//! Finds the end of a trail, also of one whose last writer was killed or that was changed.
//!
//! A writer that dies leaves one of three things: nothing, a whole record that is not in the head yet, or the
//! beginning of one. The second is accepted. The third is terminated by a newline and kept, and the next record has
//! its length and hash, so that it can't be mistaken for a line that was changed later. Anything else is not the work
//! of a writer; the trail continues after it, with a record that says so, and `verify` does not pass again.

use std::fs::File;
use std::io::{self, Write as _};

use sha2::{Digest as _, Sha256};
use stockade_protocol::{AuditRecord, RecordHash, TrailDamage};

use super::AuditError;
use super::head::{Found, Head};
use super::line::{self, MAX_RECORD_BYTES};
use super::place::{CURRENT, Place, read_at};

/// The end of the trail, and its damage, if any.
pub(crate) type End = (Head, Option<TrailDamage>);

/// Finds the end in a file of this size, and prepares it for appending.
pub(crate) fn find_end(place: &Place, current: &mut File, size: u64, found: &Found) -> Result<End, AuditError> {
    let failed = || AuditError::io("read the end of", &place.path(CURRENT));
    let (head, lost) = match found {
        Found::Head(head) if head.size == size => return Ok((*head, None)),
        Found::Head(head) => (*head, None),
        Found::Nothing => (last_known(place, size)?, Some("the head of the trail was missing")),
        Found::Unreadable => (last_known(place, size)?, Some("the head of the trail was not readable")),
    };
    let (mut head, damage) = if size < head.size {
        (head, Some(cut_off(head.size - size)))
    } else {
        beyond(current, head, size).map_err(failed())?
    };
    end_line(current, size).map_err(AuditError::io("mend", &place.path(CURRENT)))?;
    head.size = current.metadata().map_err(failed())?.len();
    // The first writer finds neither a head nor a record.
    let lost = lost.filter(|_| head.records > 0 || damage.is_some());
    Ok((head, lost.map(unexplained).or(damage)))
}

fn unexplained(what: &str) -> TrailDamage {
    TrailDamage::Unexplained { what: what.to_owned() }
}

fn cut_off(missing: u64) -> TrailDamage {
    unexplained(&format!("the trail ended {missing} bytes before its last record did"))
}

/// Accepts the records that are not in the head, and examines the rest.
fn beyond(current: &File, head: Head, size: u64) -> io::Result<End> {
    let mut head = head;
    let window = usize::try_from(size - head.size).unwrap_or(usize::MAX).min(2 * MAX_RECORD_BYTES);
    let mut bytes = vec![0; window];
    let length = read_at(current, &mut bytes, head.size)?;
    bytes.truncate(length);
    let mut rest = bytes.as_slice();
    // The last one may lack only its newline, which is then added.
    while let (line, behind) = split_line(rest).unwrap_or((rest, b""))
        && let Ok(record) = line::open(line)
        && (record.sequence, record.previous) == (head.records, head.hash)
    {
        let length = u64::try_from(rest.len() - behind.len()).unwrap_or(u64::MAX);
        head = Head {
            records: head.records.saturating_add(1),
            hash: record.hash,
            size: head.size.saturating_add(length),
            ..head
        };
        rest = behind;
    }
    let left = size - head.size;
    if left == 0 {
        return Ok((head, None));
    }
    let is_beginning = u64::try_from(rest.len()) == Ok(left) && begins_record(rest, head.records);
    Ok((
        head,
        Some(if is_beginning {
            TrailDamage::Unfinished { bytes: left, hash: line::digest(rest) }
        } else {
            let hash = hash_from(current, head.size)?;
            unexplained(&format!("{left} bytes (SHA-256 {hash}) that are no record stood at the end of the trail"))
        }),
    ))
}

/// Whether the text may be the beginning of a record whose writer died.
pub(crate) fn begins_record(text: &[u8], sequence: u64) -> bool {
    let start = format!("{{\"sequence\":{sequence},");
    let common = text.len().min(start.len());
    !text.contains(&b'\n') && text.get(..common) == start.as_bytes().get(..common)
}

fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    Some((bytes.get(..end)?, bytes.get(end + 1..)?))
}

fn hash_from(file: &File, mut offset: u64) -> io::Result<RecordHash> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = read_at(file, &mut buffer, offset)?;
        let Some(read) = buffer.get(..length).filter(|read| !read.is_empty()) else {
            return Ok(RecordHash(hash.finalize().into()));
        };
        hash.update(read);
        offset = offset.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
    }
}

/// Terminates an unfinished line.
fn end_line(current: &mut File, size: u64) -> io::Result<()> {
    let mut last = [0];
    let Some(at) = size.checked_sub(1) else { return Ok(()) };
    match read_at(current, &mut last, at)? {
        1 if last != *b"\n" => current.write_all(b"\n"),
        _ => Ok(()),
    }
}

/// The state of a trail without a head, from its last record that can be read.
fn last_known(place: &Place, size: u64) -> Result<Head, AuditError> {
    let archives = place.archives()?;
    let generation = archives.last().map_or(0, |(number, _)| number.saturating_add(1));
    let oldest = archives.first().map_or(CURRENT, |(_, name)| name);
    let (last, size) = match (last_record(place, CURRENT)?, archives.last()) {
        (Some(found), _) => found,
        (None, _) if size > 0 => return Err(AuditError::Damaged { path: place.path(CURRENT) }),
        (None, None) => return Ok(Head::default()),
        (None, Some((_, name))) => {
            let (last, _) = last_record(place, name)?.ok_or_else(|| AuditError::Damaged { path: place.path(name) })?;
            (last, 0)
        }
    };
    let first = first_record(place, oldest)?.ok_or_else(|| AuditError::Damaged { path: place.path(oldest) })?;
    Ok(Head {
        records: last.sequence.saturating_add(1),
        hash: last.hash,
        size,
        generation,
        first_sequence: first.sequence,
        first_previous: first.previous,
    })
}

/// The last whole record of a file, and its end.
fn last_record(place: &Place, name: &str) -> Result<Option<(AuditRecord, u64)>, AuditError> {
    let failed = || AuditError::io("read the end of", &place.path(name));
    let Some(file) = place.open_to_read(name)? else { return Ok(None) };
    let size = file.metadata().map_err(failed())?.len();
    let start = size.saturating_sub(2 * MAX_RECORD_BYTES as u64);
    let mut bytes = vec![0; usize::try_from(size - start).unwrap_or(0)];
    let length = read_at(&file, &mut bytes, start).map_err(failed())?;
    bytes.truncate(length);
    while let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') {
        bytes.truncate(end);
        let line = bytes.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        if let Ok(record) = line::open(line) {
            return Ok(Some((record, start + end as u64 + 1)));
        }
    }
    Ok(None)
}

/// The first record of a file.
pub(crate) fn first_record(place: &Place, name: &str) -> Result<Option<AuditRecord>, AuditError> {
    let Some(file) = place.open_to_read(name)? else { return Ok(None) };
    let mut bytes = vec![0; MAX_RECORD_BYTES];
    let length = read_at(&file, &mut bytes, 0).map_err(AuditError::io("read", &place.path(name)))?;
    bytes.truncate(length);
    Ok(split_line(&bytes).and_then(|(line, _)| line::open(line).ok()))
}
