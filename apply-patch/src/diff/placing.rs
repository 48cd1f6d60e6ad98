//! Finds the position of a diff in a file.
//!
//! A file may have grown or shrunk above the changed lines. All hunks are then shifted by the same number of lines;
//! the shift is valid only if it is the only one at which every old line matches. Otherwise the position is ambiguous,
//! and nothing is changed.

use super::{DiffError, Hunk};

/// Limit on comparisons during the search; about a second.
const MOST_COMPARISONS: usize = 50_000_000;
/// Bytes of a line that count as one comparison.
const BYTES_PER_COMPARISON: usize = 64;

pub(super) fn apply(hunks: &[Hunk], file: &[u8]) -> Result<Vec<u8>, DiffError> {
    let lines: Vec<&[u8]> = file.split_inclusive(|byte| *byte == b'\n').collect();
    if let Some(blind) = hunks.iter().position(|hunk| hunk.old_lines().next().is_none())
        && !lines.is_empty()
    {
        return Err(DiffError::NoContext { hunk: blind + 1 });
    }
    let shift = find_shift(hunks, &lines)?;
    let mut result = Vec::with_capacity(file.len());
    let mut rest = lines.as_slice();
    let mut taken = 0;
    for hunk in hunks {
        // `find_shift` has checked every line skipped here, so nothing is truncated.
        let kept = shift.start_of(hunk).map_or(0, |start| start.saturating_sub(taken));
        let old_count = hunk.old_lines().count();
        result.extend(rest.iter().take(kept).copied().flatten());
        result.extend(hunk.new_lines().flatten());
        rest = rest.get(kept + old_count..).unwrap_or_default();
        taken += kept + old_count;
    }
    result.extend(rest.iter().copied().flatten());
    Ok(result)
}

/// The number of lines by which all hunks are shifted.
#[derive(Clone, Copy)]
enum Shift {
    Down(usize),
    Up(usize),
}

impl Shift {
    fn start_of(self, hunk: &Hunk) -> Option<usize> {
        match self {
            Self::Down(lines) => hunk.skipped.checked_add(lines),
            Self::Up(lines) => hunk.skipped.checked_sub(lines),
        }
    }
}

fn find_shift(hunks: &[Hunk], lines: &[&[u8]]) -> Result<Shift, DiffError> {
    let mut comparisons = 0;
    let here = Shift::Down(0);
    let Some(failing) = first_mismatch(hunks, lines, here, &mut comparisons) else { return Ok(here) };
    let line = hunks.get(failing).map_or(1, |hunk| hunk.skipped.saturating_add(1));
    let hunk = failing + 1;

    let first = hunks.first().map_or(0, |hunk| hunk.skipped);
    // Only shifts with which the first hunk begins within the file.
    let up = (first.saturating_sub(lines.len()).max(1)..=first).map(Shift::Up);
    let down = (1..=lines.len().saturating_sub(first)).map(Shift::Down);
    let mut found = None;
    for shift in up.chain(down) {
        let matches = first_mismatch(hunks, lines, shift, &mut comparisons).is_none();
        if comparisons > MOST_COMPARISONS {
            return Err(DiffError::TooLarge { hunk, line });
        }
        if matches && found.replace(shift).is_some() {
            return Err(DiffError::Ambiguous { hunk, line });
        }
    }
    found.ok_or(DiffError::NoMatch { hunk, line })
}

/// The first hunk whose old lines are not where the shift puts it.
fn first_mismatch(hunks: &[Hunk], lines: &[&[u8]], shift: Shift, comparisons: &mut usize) -> Option<usize> {
    hunks.iter().position(|hunk| {
        let place = shift.start_of(hunk).and_then(|start| lines.get(start..));
        !place.is_some_and(|place| fits(hunk, place, comparisons))
    })
}

/// Whether `place` begins with the hunk's old lines and the new lines may precede the rest.
fn fits(hunk: &Hunk, place: &[&[u8]], comparisons: &mut usize) -> bool {
    *comparisons += 1;
    let mut rest = place.iter();
    let matches = hunk.old_lines().all(|old| {
        *comparisons += 1 + old.len() / BYTES_PER_COMPARISON;
        rest.next().is_some_and(|line| *line == old)
    });
    // A line without a terminator has to be the last of the file, or the next one would be appended to it.
    let ends_file = hunk.new_lines().last().is_some_and(|line| !line.ends_with(b"\n"));
    matches && (!ends_file || rest.next().is_none())
}
