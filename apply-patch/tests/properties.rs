//! Laws of diffs: a random file, a random edit, and the diff between them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of a test fails by panicking"
)]

use proptest::prelude::*;
use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};
use stockade_apply_patch::UnifiedDiff;

/// Few lines, so that they repeat; with and without carriage returns, and bytes that are no text.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let known: [&[u8]; 11] =
        [b"", b"a", b"b", b"a\r", b"\r", b"-", b"+++ x", b"@@ -1 +1 @@", b"\\ No newline", b"\xff\xfe", b" a"];
    prop_oneof![
        6 => prop::sample::select(known.map(<[u8]>::to_vec).to_vec()),
        1 => prop::collection::vec(any::<u8>().prop_filter("ends a line", |byte| *byte != b'\n'), 0..9),
    ]
}

fn file() -> impl Strategy<Value = Vec<Vec<u8>>> {
    (prop::collection::vec(line(), 0..40), any::<bool>()).prop_map(|(lines, ends)| {
        let mut lines: Vec<Vec<u8>> = lines.into_iter().map(|line| [line, b"\n".to_vec()].concat()).collect();
        if let Some(last) = lines.last_mut().filter(|last| !ends && last.len() > 1) {
            last.pop();
        }
        lines
    })
}

/// Lines are removed, added and replaced at a few places.
fn edited() -> impl Strategy<Value = (Vec<Vec<u8>>, Vec<Vec<u8>>)> {
    let edit = (any::<prop::sample::Index>(), 0..3_usize, prop::collection::vec(line(), 0..3));
    (file(), prop::collection::vec(edit, 0..4)).prop_map(|(old, edits)| {
        let mut new = old.clone();
        for (at, removed, added) in edits {
            let at = at.index(new.len() + 1);
            let end = (at + removed).min(new.len());
            new.splice(at..end, added.into_iter().map(|line| [line, b"\n".to_vec()].concat()));
        }
        // Only the last line may lack its end.
        let count = new.len();
        for line in new.iter_mut().take(count.saturating_sub(1)).filter(|line| !line.ends_with(b"\n")) {
            line.push(b'\n');
        }
        (old, new)
    })
}

/// The changes, hunk by hunk. The positions are counted here: the crate's own are not always right.
fn groups(old: &[Vec<u8>], new: &[Vec<u8>], context: usize) -> Vec<Vec<DiffOp>> {
    let (mut old_index, mut new_index) = (0, 0);
    let count = |op: DiffOp| {
        let (old_len, new_len) = (op.old_range().len(), op.new_range().len());
        let counted = match op {
            DiffOp::Equal { len, .. } => DiffOp::Equal { old_index, new_index, len },
            DiffOp::Delete { .. } => DiffOp::Delete { old_index, old_len, new_index },
            DiffOp::Insert { .. } => DiffOp::Insert { old_index, new_index, new_len },
            DiffOp::Replace { .. } => DiffOp::Replace { old_index, old_len, new_index, new_len },
        };
        old_index += old_len;
        new_index += new_len;
        counted
    };
    group_diff_ops(capture_diff_slices(Algorithm::Myers, old, new).into_iter().map(count).collect(), context)
}

/// The unified diff with so many lines of context.
fn unified(old: &[Vec<u8>], new: &[Vec<u8>], context: usize) -> Vec<u8> {
    let mut diff = Vec::new();
    let mut put = |sign: u8, lines: &[Vec<u8>]| {
        for line in lines {
            diff.push(sign);
            diff.extend_from_slice(line);
            if !line.ends_with(b"\n") {
                diff.extend_from_slice(b"\n\\ No newline at end of file\n");
            }
        }
    };
    for group in groups(old, new, context) {
        let (first, last) = (group.first().unwrap(), group.last().unwrap());
        let span = |start: usize, end: usize| (if end == start { start } else { start + 1 }, end - start);
        let (old_first, old_count) = span(first.old_range().start, last.old_range().end);
        let (new_first, new_count) = span(first.new_range().start, last.new_range().end);
        let header = format!("@ -{old_first},{old_count} +{new_first},{new_count} @@\n");
        put(b'@', &[header.into_bytes()]);
        for op in &group {
            match op {
                DiffOp::Equal { .. } => put(b' ', &old[op.old_range()]),
                DiffOp::Delete { .. } | DiffOp::Insert { .. } | DiffOp::Replace { .. } => {
                    put(b'-', &old[op.old_range()]);
                    put(b'+', &new[op.new_range()]);
                }
            }
        }
    }
    diff
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_diff_makes_the_new_file_of_the_old((old, new) in edited(), context in 1..4_usize) {
        let text = unified(&old, &new, context);
        let diff = UnifiedDiff::parse(&text).unwrap();
        let (old, new) = (old.concat(), new.concat());
        prop_assert_eq!(diff.is_empty(), old == new);
        prop_assert_eq!(diff.apply(&old).unwrap(), new);
    }

    /// With any lines above, a diff changes its own lines, or equal lines at its stated position, or is refused as
    /// ambiguous.
    #[test]
    fn lines_above_move_a_diff_but_do_not_mislead_it((old, new) in edited(), above in prop::collection::vec(line(), 0..40), context in 1..4_usize) {
        let above: Vec<Vec<u8>> = above.into_iter().map(|line| [line, b"\n".to_vec()].concat()).collect();
        let diff = UnifiedDiff::parse(&unified(&old, &new, context)).unwrap();
        let moved = [above.clone(), old.clone()].concat();
        let matches_where_it_says = groups(&old, &new, context).iter().all(|group| {
            let span = group.first().unwrap().old_range().start..group.last().unwrap().old_range().end;
            moved.get(span.clone()) == old.get(span)
        });
        match diff.apply(&moved.concat()) {
            Ok(result) => prop_assert!(matches_where_it_says || result == [above.concat(), new.concat()].concat()),
            Err(error) => {
                let words = error.to_string();
                prop_assert!(words.contains("more than one other place") || words.contains("neither context"), "{words}");
                prop_assert!(!matches_where_it_says || words.contains("neither context"), "{words}");
            }
        }
    }

    #[test]
    fn one_changed_line_of_context_is_enough_to_refuse((old, new) in edited(), at in any::<prop::sample::Index>()) {
        prop_assume!(old != new && !old.is_empty());
        let diff = UnifiedDiff::parse(&unified(&old, &new, old.len() + new.len())).unwrap();
        let mut other = old.clone();
        let line = at.index(other.len());
        other[line].insert(0, b'#');
        prop_assert!(diff.apply(&other.concat()).is_err());
    }

    #[test]
    fn any_text_is_read_or_refused(text in prop::collection::vec(any::<u8>(), 0..200), file in prop::collection::vec(any::<u8>(), 0..100)) {
        if let Ok(diff) = UnifiedDiff::parse(&text) {
            let _ = diff.apply(&file);
        }
    }
}
