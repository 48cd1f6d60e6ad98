//! The words of a start as they are shown: a program can be given hundreds of kilobytes of them.

use stockade_protocol::RawText;

/// How much of a command is shown.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    words: usize,
    /// Bytes of one word, and of all together.
    longest: usize,
    all: usize,
}

/// In messages, records and documents.
pub(super) const TOLD: Cut = Cut { words: 64, longest: 160, all: 2048 };
/// In the reason of a decision, which says it once more.
pub(super) const IN_REASON: Cut = Cut { words: 24, longest: 160, all: 512 };
/// In a question, whose reader has to know what would run.
pub(super) const ASKED: Cut = Cut { words: 512, longest: 64 * 1024, all: 64 * 1024 };

impl Cut {
    /// The words as far as they are shown, with `…` for the rest.
    pub(super) fn of<'a>(self, words: impl IntoIterator<Item = &'a RawText>) -> Vec<RawText> {
        let (mut shown, mut left) = (Vec::new(), self.all);
        for word in words {
            if shown.len() >= self.words || left == 0 {
                shown.push(RawText::from("…"));
                break;
            }
            let word = beginning(word, self.longest.min(left));
            left = left.saturating_sub(word.as_bytes().len());
            shown.push(word);
        }
        shown
    }

    /// Whether some of these words, or the end of one, is not shown.
    pub(super) fn leaves_out(self, words: &[RawText]) -> bool {
        let sizes = || words.iter().map(|word| word.as_bytes().len());
        words.len() > self.words || sizes().any(|size| size > self.longest) || sizes().sum::<usize>() > self.all
    }
}

fn beginning(word: &RawText, longest: usize) -> RawText {
    match word.as_bytes().get(..longest) {
        Some(beginning) if beginning.len() < word.as_bytes().len() => {
            RawText::from(format!("{}…", String::from_utf8_lossy(beginning).trim_end_matches('\u{fffd}')))
        }
        Some(_) | None => word.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(texts: &[&str]) -> Vec<RawText> {
        texts.iter().map(|text| RawText::from(*text)).collect()
    }

    #[test]
    fn what_is_short_stays() {
        let short = words(&["rm", "-rf", "build"]);
        for cut in [TOLD, IN_REASON, ASKED] {
            assert_eq!(cut.of(&short), short);
            assert!(!cut.leaves_out(&short));
        }
    }

    #[test]
    fn what_is_left_out_is_known() {
        let exact: Vec<RawText> = (0..TOLD.words).map(|_| RawText::from("x")).collect();
        let more: Vec<RawText> = exact.iter().cloned().chain([RawText::from("y")]).collect();
        let long = words(&["rm", &"x".repeat(TOLD.longest + 1)]);
        let wide: Vec<RawText> = (0..TOLD.words).map(|_| RawText::from("z".repeat(TOLD.longest))).collect();
        for (words, is_cut) in [(exact, false), (more, true), (long, true), (wide, true)] {
            assert_eq!((TOLD.leaves_out(&words), TOLD.of(&words) != words), (is_cut, is_cut));
        }
    }

    #[test]
    fn long_words_and_many_words_are_cut() {
        let long = "é".repeat(100_000);
        let shown = TOLD.of(&words(&["rm", &long, "x"]));
        assert_eq!(shown, words(&["rm", &format!("{}…", "é".repeat(80)), "x"]));
        let many: Vec<RawText> = (0..100_000).map(|number: u32| RawText::from(number.to_string())).collect();
        let shown = TOLD.of(&many);
        assert_eq!((shown.len(), shown.last()), (65, Some(&RawText::from("…"))));
        let wide: Vec<RawText> = (0..64).map(|_| RawText::from("y".repeat(160))).collect();
        let size: usize = TOLD.of(&wide).iter().map(|word| word.as_bytes().len()).sum();
        assert!(size < 2100, "{size}");
    }
}
