//! Keeps UTF-8 characters whole across chunk boundaries.

/// The incomplete character at the end of the last chunk: at most three bytes.
#[derive(Debug, Default)]
pub(crate) struct Unfinished(Vec<u8>);

impl Unfinished {
    /// The kept bytes followed by these, up to the last complete character; the rest is kept. `None` if that is empty.
    pub(crate) fn whole_characters(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut whole = std::mem::take(&mut self.0);
        whole.extend_from_slice(bytes);
        self.0 = whole.split_off(whole.len() - unfinished(&whole));
        Some(whole).filter(|whole| !whole.is_empty())
    }

    /// The kept bytes, at the end of the output.
    pub(crate) fn rest(&mut self) -> Option<Vec<u8>> {
        Some(std::mem::take(&mut self.0)).filter(|rest| !rest.is_empty())
    }
}

/// The length of the incomplete character at the end.
fn unfinished(bytes: &[u8]) -> usize {
    let tail = bytes.get(bytes.len().saturating_sub(3)..).unwrap_or_default();
    let Some(from_end) = tail.iter().rev().position(|byte| !is_continuation(*byte)) else { return 0 };
    let begun = tail.get(tail.len() - 1 - from_end..).unwrap_or_default();
    match std::str::from_utf8(begun) {
        // Without a length the character is incomplete; with one, these bytes are invalid.
        Err(error) if error.error_len().is_none() => begun.len(),
        Ok(_) | Err(_) => 0,
    }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0b1100_0000 == 0b1000_0000
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(bytes: &[u8], cuts: &[usize]) -> Vec<Vec<u8>> {
        let (mut unfinished, mut rest, mut found) = (Unfinished::default(), bytes, Vec::new());
        for cut in cuts {
            let (piece, later) = rest.split_at(cut % (rest.len() + 1));
            found.extend(unfinished.whole_characters(piece));
            rest = later;
        }
        found.extend(unfinished.whole_characters(rest));
        found.extend(unfinished.rest());
        found
    }

    proptest! {
        #[test]
        fn text_stays_text_wherever_it_is_cut(text in "[aé€😀\n]{0,40}", cuts in prop::collection::vec(0usize..20, 0..12)) {
            let found = pieces(text.as_bytes(), &cuts);
            prop_assert!(found.iter().all(|piece| std::str::from_utf8(piece).is_ok()));
            prop_assert_eq!(found.concat(), text.into_bytes());
        }

        #[test]
        fn bytes_are_neither_lost_nor_changed(
            bytes in prop::collection::vec(any::<u8>(), 0..60), cuts in prop::collection::vec(0usize..20, 0..12),
        ) {
            let found = pieces(&bytes, &cuts);
            prop_assert!(found.iter().all(|piece| !piece.is_empty()));
            prop_assert_eq!(found.concat(), bytes);
        }
    }

    #[test]
    fn what_begins_no_character_is_not_kept_back() {
        for bytes in [&b"\xff"[..], b"\x80\x80", b"a\xc0", b"\xf5", b"\xed\xa0"] {
            assert_eq!(Unfinished::default().whole_characters(bytes), Some(bytes.to_vec()), "{bytes:?}");
        }
        assert_eq!(Unfinished::default().whole_characters(b"\xf0\x9f\x98"), None);
    }
}
