//! Where a diff fits into a file.
//!
//! A file may have grown or shrunk above the lines that change. Then all hunks stand the same number
//! of lines further down or up, and the right number is the only one at which every old line matches.
//! Two such numbers leave the place open, and nothing is changed.

use super::{DiffError, Hunk};

/// How much is compared at most while looking for another place; about a second.
const MOST_COMPARISONS: usize = 50_000_000;
/// How many bytes of a line count as one comparison.
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
        // `find_shift` has looked at every line that is skipped here, so nothing is cut short.
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

/// By how many lines all hunks stand elsewhere than they say.
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
    // Only where the first hunk begins within the file, however far below its end the diff says.
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

/// Whether a hunk's old lines are the first of `place`, and its new lines may stand before the others.
fn fits(hunk: &Hunk, place: &[&[u8]], comparisons: &mut usize) -> bool {
    *comparisons += 1;
    let mut rest = place.iter();
    let matches = hunk.old_lines().all(|old| {
        *comparisons += 1 + old.len() / BYTES_PER_COMPARISON;
        rest.next().is_some_and(|line| *line == old)
    });
    // A line without an end is the last of a file, or it would be joined with the next.
    let ends_file = hunk.new_lines().last().is_some_and(|line| !line.ends_with(b"\n"));
    matches && (!ends_file || rest.next().is_none())
}
