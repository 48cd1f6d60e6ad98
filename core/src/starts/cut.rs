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
    /// The words as far as they are shown: the first and the last ones, and the beginning and the end of each. What a
    /// command does may stand at either end. `…` stands for the rest.
    pub(super) fn of(self, words: &[RawText]) -> Vec<RawText> {
        if !self.leaves_out(words) {
            return words.to_vec();
        }
        let front = self.fitting(words.iter(), 2);
        let rest = words.get(front.len()..).unwrap_or_default();
        let mut back = self.fitting(rest.iter().rev(), 1);
        back.reverse();
        let mark = (back.len() < rest.len()).then(|| RawText::from("…"));
        front.into_iter().chain(mark).chain(back).collect()
    }

    /// As many of these words as fit into so many thirds, each shortened; at least one.
    fn fitting<'a>(self, words: impl Iterator<Item = &'a RawText>, thirds: usize) -> Vec<RawText> {
        let (mut kept, mut left) = (Vec::new(), self.all * thirds / 3);
        for word in words.take(self.words * thirds / 3) {
            let word = shortened(word, self.longest.min(self.all * thirds / 3));
            if !kept.is_empty() && word.as_bytes().len() > left {
                break;
            }
            left = left.saturating_sub(word.as_bytes().len());
            kept.push(word);
        }
        kept
    }

    /// Whether some of these words, or the end of one, is not shown.
    pub(super) fn leaves_out(self, words: &[RawText]) -> bool {
        let sizes = || words.iter().map(|word| word.as_bytes().len());
        words.len() > self.words || sizes().any(|size| size > self.longest) || sizes().sum::<usize>() > self.all
    }
}

/// The beginning and the end of a word that is longer.
fn shortened(word: &RawText, longest: usize) -> RawText {
    let bytes = word.as_bytes();
    let (head, tail) = (longest * 2 / 3, longest / 3);
    match (bytes.get(..head), bytes.get(bytes.len().saturating_sub(tail)..)) {
        (Some(head), Some(tail)) if bytes.len() > longest => {
            let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(tail));
            let (head, tail) = (head.trim_end_matches('\u{fffd}'), tail.trim_start_matches('\u{fffd}'));
            RawText::from(format!("{head}…{tail}"))
        }
        _ => word.clone(),
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
    fn long_words_and_many_words_keep_both_ends() {
        let long = format!("{}evil", "é".repeat(100_000));
        let shown = TOLD.of(&words(&["rm", &long, "x"]));
        assert_eq!(shown, words(&["rm", &format!("{}…{}evil", "é".repeat(53), "é".repeat(24)), "x"]));
        let many: Vec<RawText> = (0..100_000).map(|number: u32| RawText::from(number.to_string())).collect();
        let shown = TOLD.of(&many);
        assert_eq!((shown.first(), shown.last()), (many.first(), many.last()));
        assert!(shown.len() <= 65 && shown.contains(&RawText::from("…")), "{shown:?}");
        let wide: Vec<RawText> = (0..64).map(|_| RawText::from("y".repeat(160))).collect();
        for cut in [TOLD, IN_REASON, ASKED] {
            for many in [&many, &wide, &words(&[&"z".repeat(300_000), &long, &long])] {
                let size: usize = cut.of(many).iter().map(|word| word.as_bytes().len()).sum();
                assert!(size <= cut.all + 100, "{cut:?}: {size}");
            }
        }
    }
}
