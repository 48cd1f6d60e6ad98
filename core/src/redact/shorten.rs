//! Shortens long texts to their beginning and end, so that a long part of a command does not hide another.
//!
//! Secrets are removed from the whole text first: a cut never leaves half of one.

use sha2::{Digest as _, Sha256};
use stockade_protocol::{Argv, RawText, RecordHash, WholeCommand};

/// Limits on a command, on one of its words, and on their number.
const COMMAND_BYTES: usize = 64 * 1024;
const WORD_BYTES: usize = 16 * 1024;
const COMMAND_WORDS: usize = 1024;

/// A text of at most `room` bytes with a mark in the middle; the text itself if it fits.
pub(super) fn text(text: RawText, room: usize) -> RawText {
    let bytes = text.as_bytes();
    if bytes.len() <= room {
        return text;
    }
    let (mut head, mut tail) = (room.div_ceil(2), bytes.len() - room / 2);
    if let Some(text) = text.as_str() {
        head = (0..=head).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        tail = (tail..=bytes.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(bytes.len());
    }
    let mark = format!("‹{} bytes left out›", tail - head);
    let part = |range: Option<&[u8]>| range.unwrap_or_default().to_vec();
    RawText::from([part(bytes.get(..head)), mark.into_bytes(), part(bytes.get(tail..))].concat())
}

/// A command of at most `room` bytes, and a description of the whole if it was shortened.
pub(super) fn command(argv: Argv, room: usize) -> (Argv, Option<WholeCommand>) {
    let room = room.min(COMMAND_BYTES);
    let words = argv.words();
    let bytes: usize = words.iter().map(|word| word.as_bytes().len()).sum();
    if bytes <= room && words.len() <= COMMAND_WORDS && words.iter().all(|word| word.as_bytes().len() <= WORD_BYTES) {
        return (argv, None);
    }
    let whole = WholeCommand { words: number(words.len()), bytes: number(bytes), sha256: digest(words) };
    // However little room there is, the end of a command is not lost behind one long word.
    let longest = WORD_BYTES.min(room / 4);
    let front = fitting(words.iter(), room / 2, longest);
    let rest = words.get(front.len()..).unwrap_or_default();
    let mut back = fitting(rest.iter().rev(), room / 2, longest);
    back.reverse();
    let missing = rest.len() - back.len();
    let mark = (missing > 0).then(|| RawText::from(format!("‹{missing} words left out›")));
    let kept = front.into_iter().chain(mark).chain(back);
    // A command has at least one word, and each is kept or counted by the mark.
    (Argv::parse(kept).unwrap_or(argv), Some(whole))
}

/// As many of these words as fit, each shortened.
fn fitting<'a>(words: impl Iterator<Item = &'a RawText>, mut room: usize, longest: usize) -> Vec<RawText> {
    let mut kept = Vec::new();
    for word in words.take(COMMAND_WORDS / 2) {
        let word = text(word.clone(), longest);
        let Some(left) = room.checked_sub(word.as_bytes().len()) else { break };
        room = left;
        kept.push(word);
    }
    kept
}

fn digest(words: &[RawText]) -> RecordHash {
    let mut hasher = Sha256::new();
    for word in words {
        hasher.update(word.as_bytes());
        hasher.update([0]);
    }
    RecordHash(hasher.finalize().into())
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_of_a_text_are_kept() {
        for (given, room, kept) in [
            ("short", 5, "short"),
            ("0123456789", 4, "01‹6 bytes left out›89"),
            ("0123456789", 0, "‹10 bytes left out›"),
            ("ééééé", 5, "é‹6 bytes left out›é"),
        ] {
            assert_eq!(text(given.into(), room), RawText::from(kept), "{given}");
        }
        let odd = RawText::from(vec![0xff; 10]);
        assert!(text(odd, 4).as_bytes().starts_with(&[0xff, 0xff, 0xe2]));
    }

    #[test]
    fn both_ends_of_a_command_are_kept() {
        let words: Vec<String> = (0..5000).map(|n| n.to_string()).collect();
        let (kept, whole) = command(Argv::parse(words.clone()).unwrap(), usize::MAX);
        assert_eq!(kept.words().len(), COMMAND_WORDS + 1);
        assert!(kept.to_string().starts_with("0 1 2 ") && kept.to_string().ends_with(" 4998 4999"), "{kept}");
        assert!(kept.to_string().contains("‹3976 words left out›"), "{kept}");
        let whole = whole.unwrap();
        assert_eq!((whole.words, whole.bytes), (5000, words.concat().len() as u64));
        let joined: String = words.iter().map(|word| format!("{word}\0")).collect();
        assert_eq!(whole.sha256.0, <[u8; 32]>::from(Sha256::digest(joined)));
        assert_eq!(command(Argv::parse(["ls", "-l"]).unwrap(), 100).1, None);
        // In little room, too, a long word hides no other.
        let (kept, whole) = command(Argv::parse(["rm", &"x".repeat(85_000), "evil"]).unwrap(), 4096);
        assert!(kept.to_string().starts_with("rm ") && kept.to_string().ends_with(" evil"), "{kept}");
        assert!(kept.to_string().len() < 4096 && whole.is_some(), "{kept}");
        assert_eq!(command(Argv::parse(["ls", "-l"]).unwrap(), 0).0.to_string(), "'‹2 words left out›'");
    }
}
