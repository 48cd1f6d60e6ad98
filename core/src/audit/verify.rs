//! Whether a trail is whole: every record as it was written, none missing, none added.
//!
//! The hashes hold each record to the one before it, and the head holds the last one. Whoever may
//! write all files of a trail can make another one that is just as whole: a copy of the head kept
//! elsewhere is what tells then.

use std::fmt;
use std::iter::Peekable;
use std::path::{Path, PathBuf};

use stockade_protocol::{AuditEvent, AuditRecord, RecordHash, TrailDamage};

use super::AuditError;
use super::head::{Found, Head};
use super::line::{self, BadLine};
use super::read::{Line, Snapshot};
use super::repair::begins_record;

/// What a look at every record has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verification {
    /// How many records are as they were written, up to the first that is not.
    pub records: u64,
    /// The first that is kept. Earlier ones, if its number is not 0, were given up when the trail grew too large.
    pub first: Option<FirstKept>,
    /// The last of them: keep its number and hash elsewhere to compare later.
    pub last: Option<(u64, RecordHash)>,
    /// The first that is not, if there is one.
    pub bad: Option<BadRecord>,
    /// Beginnings of records whose writers died. They are no sign of tampering.
    pub unfinished: Vec<Note>,
}

/// The oldest record of a trail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstKept {
    /// Its number, which is also how many came before it.
    pub sequence: u64,
    /// When it was written, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
}

/// The first record that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// The file it stands in.
    pub file: PathBuf,
    /// The line, counted from 1.
    pub line: u64,
    /// The place in the trail that it has, or should have.
    pub sequence: u64,
    /// What is wrong.
    pub flaw: Flaw,
}

/// What is wrong with a record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flaw {
    /// Its text is not the one that its hash was made for, or it is no record at all.
    Changed,
    /// It was changed together with its hash: the record after it knows another one.
    Replaced,
    /// Records before it are missing.
    Removed {
        /// How many.
        count: u64,
    },
    /// It stands before records that it came after.
    Reordered,
    /// It has the place of another record.
    Inserted,
    /// Records behind it are missing: the head knows more of them.
    CutOff {
        /// How many.
        count: u64,
    },
    /// There is no head, or not a readable one, so that it can't be told what is missing at the end.
    NoHead,
    /// The head knows another last record, or another place for it.
    OtherHead,
    /// A writer found the trail in a state that no writer leaves behind.
    Damaged {
        /// What it found.
        what: String,
    },
}

/// A line that is explained by the death of its writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The file it stands in.
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
            Self::NoHead => f.write_str("is the last one here, but without a head nobody can tell if it was the last"),
            Self::OtherHead => f.write_str("is not the one that the head of the trail knows"),
            Self::Damaged { what } => write!(f, "says that the trail was damaged before it: {what}"),
        }
    }
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Looks at every record of the trail in a directory.
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

/// What the next record has to have.
#[derive(Default)]
struct Next {
    good: u64,
    /// Its sequence and the hash before it; open as long as no record was seen.
    chain: Option<(u64, RecordHash)>,
}

struct Check {
    head: Option<Head>,
    /// How many files came before the current one, by their names.
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
    /// Looks at one line; the ones behind it tell what happened where it does not fit.
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

    /// The first record is the one that the head knows as the oldest; without a head, number 0.
    fn expected(&self) -> (u64, RecordHash) {
        let first = self.head.map(|head| (head.first_sequence, head.first_previous));
        self.next.chain.or(first).unwrap_or_default()
    }

    /// Whether the line is the beginning of a record whose writer died: the next record says so, or
    /// it is the last line and no caller was told that the record is there.
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

    /// What happened to a record that does not follow the one before it.
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
            // Two records with one number: the one that the next record knows was there first.
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

    /// Looks at what the head says about the end.
    fn end(&self, directory: &Path) -> Option<BadRecord> {
        let place = self.before.as_ref().map(|(place, _)| place.clone());
        let place = place.unwrap_or_else(|| Place { file: directory.join(super::place::CURRENT), line: 0 });
        let (expected, _) = self.expected();
        let last = expected.saturating_sub(1);
        match self.head {
            Some(head) if head.records > expected || (head.records > 0 && self.before.is_none()) => {
                Some(place.bad(last, Flaw::CutOff { count: head.records - expected.min(head.records) }))
            }
            // A writer that is about to begin the next file says so first.
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
