//! Wraps lines to the screen: between words, measured in display columns.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The width of an unknown screen, which wraps lines itself.
pub(super) const UNBOUNDED: usize = usize::MAX;

/// A screen with less room beside the indentation wraps lines itself.
const LEAST_ROOM: usize = 16;

/// A text in rows: the first is indented by `first` columns, the others by `others`. Together they are the whole text,
/// blanks included.
pub(super) fn rows(text: &str, columns: usize, first: usize, others: usize) -> Vec<&str> {
    // The last column stays free: terminals differ in when they wrap there.
    let room = |indent: usize| columns.saturating_sub(indent + 1);
    if room(first.max(others)) < LEAST_ROOM {
        return vec![text];
    }
    let mut rows = Vec::new();
    let mut rest = text;
    let mut limit = room(first);
    while rest.width() > limit {
        let (row, more) = rest.split_at(end_of_row(rest, limit));
        rows.push(row);
        rest = more;
        limit = room(others);
    }
    if !rest.is_empty() || rows.is_empty() {
        rows.push(rest);
    }
    rows
}

/// The end of a row of at most `limit` columns: after a blank, or within a word longer than a row.
fn end_of_row(text: &str, limit: usize) -> usize {
    let (mut width, mut fits, mut behind_blank) = (0, 0, None);
    for (start, c) in text.char_indices() {
        width += c.width().unwrap_or(0);
        let end = start + c.len_utf8();
        if width > limit && fits > 0 {
            break;
        }
        fits = end;
        if c == ' ' {
            behind_blank = Some(end);
        }
    }
    behind_blank.unwrap_or(fits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rows_end_between_words() {
        assert_eq!(rows("one two three four", 21, 0, 4), ["one two three four"]);
        assert_eq!(rows("one two three four five six", 21, 0, 4), ["one two three four ", "five six"]);
        assert_eq!(rows("", 80, 0, 4), [""]);
        assert_eq!(rows("one two three four", 10, 0, 4), ["one two three four"], "no room");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let wide = "\u{6f22}".repeat(20);
        let rows = rows(&wide, 25, 0, 4);
        assert_eq!(rows.iter().map(|row| row.chars().count()).collect::<Vec<_>>(), [12, 8]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn nothing_is_lost_and_every_row_fits(text in "[a-z \u{6f22}]{0,200}", columns in 25_usize..100) {
            let rows = rows(&text, columns, 2, 6);
            prop_assert_eq!(rows.concat(), text.as_str());
            for (number, row) in rows.iter().enumerate() {
                let indent = if number == 0 { 2 } else { 6 };
                prop_assert!(row.width() + indent < columns);
            }
        }
    }
}
