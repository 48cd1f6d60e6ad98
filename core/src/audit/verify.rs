//! Verifies a trail: every record unchanged, none missing, none added.
//!
//! The hashes bind each record to the one before it, and the head binds the last one. An attacker who may write all
//! files of a trail can forge a consistent one: only a copy of the head kept elsewhere reveals that.

use std::fmt;
use std::iter::Peekable;
use std::path::{Path, PathBuf};

use stockade_protocol::{AuditEvent, AuditRecord, RecordHash, TrailDamage};

use super::AuditError;
use super::head::{Found, Head};
use super::line::{self, BadLine};
use super::read::{Line, Snapshot};
use super::repair::begins_record;

/// The result of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verification {
    /// The number of valid records, up to the first invalid one.
    pub records: u64,
    /// The first record kept. Earlier ones, if its number is not 0, were dropped when the trail grew too large.
    pub first: Option<FirstKept>,
    /// The last valid one: keep its number and hash elsewhere to compare later.
    pub last: Option<(u64, RecordHash)>,
    /// The first invalid one, if any.
    pub bad: Option<BadRecord>,
    /// Beginnings of records whose writers died. They are no sign of tampering.
    pub unfinished: Vec<Note>,
}

/// The oldest record of a trail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstKept {
    /// Its number, which is also the number of records before it.
    pub sequence: u64,
    /// When it was written, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
}

/// The first invalid record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// The file that contains it.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: u64,
    /// Its sequence number, actual or expected.
    pub sequence: u64,
    /// What is wrong.
    pub flaw: Flaw,
}

/// What is wrong with a record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flaw {
    /// Its hash does not match, or it is not a record at all.
    Changed,
    /// It was changed together with its hash: the next record has another one.
    Replaced,
    /// Records before it are missing.
    Removed {
        /// How many.
        count: u64,
    },
    /// It precedes records that it should follow.
    Reordered,
    /// It has the number of another record.
    Inserted,
    /// Records after it are missing: the head counts more.
    CutOff {
        /// How many.
        count: u64,
    },
    /// There is no readable head, so missing records at the end can't be detected.
    NoHead,
    /// The head has another last record, or another position for it.
    OtherHead,
    /// A writer found the trail in a state that no writer leaves behind.
    Damaged {
        /// The damage.
        what: String,
    },
}

/// A line left by a writer that died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The file that contains it.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: u64,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed => f.write_str("was changed: its text is not the one that its hash was made for"),
            Self::Replaced => f.write_str("was changed together with its hash: the next record knows another one"),
            Self::Removed { count } => write!(f, "comes after {count} missing record{}", plural(*count)),
            Self::Reordered => f.write_str("was moved: records that came before it stand behind it"),
            Self::Inserted => f.write_str("was inserted: another record has its place"),
            Self::CutOff { count } => write!(f, "was followed by {count} record{} that were cut off", plural(*count)),
            Self::NoHead => {
                f.write_str("is the last one here; without the head file it can't be told whether it was the last")
            }
            Self::OtherHead => f.write_str("is not the one that the head of the trail knows"),
            Self::Damaged { what } => write!(f, "says that the trail was damaged before it: {what}"),
        }
    }
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Verifies every record of the trail in a directory.
pub fn verify(directory: &Path) -> Result<Verification, AuditError> {
    let snapshot = Snapshot::take(directory)?;
    let head = match snapshot.head {
        Found::Head(head) => Some(head),
        Found::Nothing | Found::Unreadable => None,
    };
    let archives = snapshot.archives;
    let mut check = Check { head, archives, next: Next::default(), first: None, before: None, unfinished: Vec::new() };
    let mut lines = snapshot.lines().peekable();
    let mut bad = None;
    while let Some(line) = lines.next() {
        let line = line?;
        bad = check.line(&line, &mut lines)?;
        if bad.is_some() {
            break;
        }
    }
    let bad = bad.or_else(|| check.end(directory));
    let last = check.before.as_ref().map(|(_, record)| (record.sequence, record.hash));
    Ok(Verification { records: check.next.good, first: check.first, last, bad, unfinished: check.unfinished })
}

/// The expectations for the next record.
#[derive(Default)]
struct Next {
    good: u64,
    /// Its sequence and the hash before it; `None` before the first record.
    chain: Option<(u64, RecordHash)>,
}

struct Check {
    head: Option<Head>,
    /// The number of earlier files, by their names.
    archives: u64,
    next: Next,
    first: Option<FirstKept>,
    before: Option<(Place, AuditRecord)>,
    unfinished: Vec<Note>,
}

#[derive(Clone)]
struct Place {
    file: PathBuf,
    line: u64,
}

impl Place {
    fn of(line: &Line) -> Self {
        Self { file: line.file.clone(), line: line.number }
    }

    fn bad(self, sequence: u64, flaw: Flaw) -> BadRecord {
        BadRecord { file: self.file, line: self.line, sequence, flaw }
    }
}

type Rest<'a, I> = &'a mut Peekable<I>;

impl Check {
    /// Checks one line; the following ones explain a mismatch.
    fn line<I: Iterator<Item = Result<Line, AuditError>>>(
        &mut self,
        line: &Line,
        rest: Rest<'_, I>,
    ) -> Result<Option<BadRecord>, AuditError> {
        let (expected, previous) = self.expected();
        let record = match line::open(&line.text) {
            Ok(record) if line.finished => record,
            Err(BadLine::Changed { sequence }) => return Ok(Some(Place::of(line).bad(sequence, Flaw::Changed))),
            Ok(_) | Err(BadLine::NotARecord) => {
                let is_unfinished = self.is_unfinished(line, expected, rest);
                if is_unfinished {
                    self.unfinished.push(Note { file: line.file.clone(), line: line.number });
                }
                return Ok((!is_unfinished).then(|| Place::of(line).bad(expected, Flaw::Changed)));
            }
        };
        if (record.sequence, record.previous) != (expected, previous) {
            return self.misfit(line, &record, expected, rest).map(Some);
        }
        if let AuditEvent::Repaired { damage: TrailDamage::Unexplained { what } } = &record.event {
            let flaw = Flaw::Damaged { what: what.clone() };
            return Ok(Some(Place::of(line).bad(record.sequence, flaw)));
        }
        let known = self.head.filter(|head| head.records == record.sequence.saturating_add(1));
        if known.is_some_and(|head| head.hash != record.hash || (head.size != 0 && head.size != line.end)) {
            return Ok(Some(Place::of(line).bad(record.sequence, Flaw::OtherHead)));
        }
        self.next = Next {
            good: self.next.good.saturating_add(1),
            chain: Some((record.sequence.saturating_add(1), record.hash)),
        };
        self.first.get_or_insert(FirstKept { sequence: record.sequence, time_ms: record.time_ms });
        self.before = Some((Place::of(line), record));
        Ok(None)
    }

    /// The first record is the oldest one in the head; without a head, number 0.
    fn expected(&self) -> (u64, RecordHash) {
        let first = self.head.map(|head| (head.first_sequence, head.first_previous));
        self.next.chain.or(first).unwrap_or_default()
    }

    /// Whether the line is the beginning of a record whose writer died: the next record says so, or it is the last
    /// line and no caller was told that the record was written.
    fn is_unfinished<I: Iterator<Item = Result<Line, AuditError>>>(
        &self,
        line: &Line,
        expected: u64,
        rest: Rest<'_, I>,
    ) -> bool {
        let next = match rest.peek() {
            Some(Ok(next)) => next,
            Some(Err(_)) => return false,
            None => {
                let is_known = self.head.is_none_or(|head| head.records > expected);
                return !line.finished && !is_known && begins_record(&line.text, expected);
            }
        };
        let Ok(record) = line::open(&next.text) else { return false };
        let bytes = u64::try_from(line.text.len()).unwrap_or(u64::MAX);
        let damage = TrailDamage::Unfinished { bytes, hash: line::digest(&line.text) };
        record.event == AuditEvent::Repaired { damage } && begins_record(&line.text, expected)
    }

    /// The flaw of a record that does not follow the one before it.
    fn misfit<I: Iterator<Item = Result<Line, AuditError>>>(
        &self,
        line: &Line,
        record: &AuditRecord,
        expected: u64,
        rest: Rest<'_, I>,
    ) -> Result<BadRecord, AuditError> {
        let here = Place::of(line);
        let follows = |next: Option<&Result<Line, AuditError>>, hash: RecordHash| {
            let next = next.and_then(|next| next.as_ref().ok()).and_then(|next| line::open(&next.text).ok());
            next.is_some_and(|next| next.previous == hash)
        };
        if record.sequence > expected {
            for later in rest {
                if line::open(&later?.text).is_ok_and(|later| later.sequence == expected) {
                    return Ok(here.bad(record.sequence, Flaw::Reordered));
                }
            }
            return Ok(here.bad(record.sequence, Flaw::Removed { count: record.sequence - expected }));
        }
        match &self.before {
            // Two records with one number: the one that the next record refers to was there first.
            Some((place, before)) if before.sequence == record.sequence && before.previous == record.previous => {
                let real = follows(rest.peek(), record.hash);
                Ok(if real { place.clone() } else { here }.bad(record.sequence, Flaw::Inserted))
            }
            Some((place, before)) if record.sequence == expected && follows(rest.peek(), record.hash) => {
                Ok(place.clone().bad(before.sequence, Flaw::Replaced))
            }
            Some((place, before)) if record.sequence == expected && !follows(rest.peek(), before.hash) => {
                Ok(place.clone().bad(before.sequence, Flaw::Replaced))
            }
            Some(_) | None => Ok(here.bad(record.sequence, Flaw::Inserted)),
        }
    }

    /// Checks the end against the head.
    fn end(&self, directory: &Path) -> Option<BadRecord> {
        let place = self.before.as_ref().map(|(place, _)| place.clone());
        let place = place.unwrap_or_else(|| Place { file: directory.join(super::place::CURRENT), line: 0 });
        let (expected, _) = self.expected();
        let last = expected.saturating_sub(1);
        match self.head {
            Some(head) if head.records > expected || (head.records > 0 && self.before.is_none()) => {
                Some(place.bad(last, Flaw::CutOff { count: head.records - expected.min(head.records) }))
            }
            // A writer announces the next file in the head first.
            Some(head)
                if head.generation != self.archives && (head.size != 0 || head.generation != self.archives + 1) =>
            {
                Some(place.bad(last, Flaw::OtherHead))
            }
            Some(_) => None,
            None if self.before.is_none() => None,
            None => Some(place.bad(last, Flaw::NoHead)),
        }
    }
}
