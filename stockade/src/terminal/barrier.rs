//! A query to the terminal itself, before a person's keys count.
//!
//! A terminal answers queries in order. Once it has answered this one, it has answered all earlier ones of a command.
//! The answer can't be forged: the cursor is sent to random columns, and only reports of exactly these, in sequence,
//! count. The cursor position is restored.

use std::fmt::Write as _;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// The number of columns in an answer.
const REPORTS: usize = 8;

/// The minimum width of a usable terminal.
const LEAST_COLUMNS: u16 = 8;

pub(super) struct Barrier {
    columns: [u16; REPORTS],
    /// The last reported columns.
    reported: [u16; REPORTS],
    is_passed: bool,
}

impl Barrier {
    /// A barrier for a terminal with this many columns; `None` for too few.
    pub(super) fn new(columns: u16) -> Option<Self> {
        if columns < LEAST_COLUMNS {
            return None;
        }
        // Each has its own keys from the system's random numbers.
        let random = || RandomState::new().build_hasher().finish();
        let column = || u16::try_from(random() % u64::from(columns)).map_or(1, |column| column + 1);
        Some(Self { columns: std::array::from_fn(|_| column()), reported: [0; REPORTS], is_passed: false })
    }

    /// The query for the terminal.
    pub(super) fn query(&self) -> String {
        let mut text = String::from("\u{1b}7");
        for column in self.columns {
            // Writing to a text can't fail.
            let _ = write!(text, "\u{1b}[{column}G\u{1b}[6n");
        }
        text + "\u{1b}8"
    }

    /// Takes a report of the cursor's column.
    pub(super) fn report(&mut self, column: u16) {
        self.reported.rotate_left(1);
        let [.., last] = &mut self.reported;
        *last = column;
        self.is_passed |= self.reported == self.columns;
    }

    pub(super) fn is_passed(&self) -> bool {
        self.is_passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_answer_to_this_question_passes() {
        let mut barrier = Barrier::new(80).unwrap();
        assert!(barrier.query().starts_with("\u{1b}7\u{1b}[") && barrier.query().ends_with("\u{1b}[6n\u{1b}8"));
        for column in 1..=80 {
            (0..REPORTS).for_each(|_| barrier.report(column));
        }
        assert!(!barrier.is_passed(), "guessed");
        let columns = barrier.columns;
        columns.iter().take(REPORTS - 1).for_each(|column| barrier.report(*column));
        assert!(!barrier.is_passed());
        barrier.report(81);
        columns.iter().for_each(|column| barrier.report(*column));
        assert!(barrier.is_passed());
        assert!(Barrier::new(7).is_none());
    }
}
