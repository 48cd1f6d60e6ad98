//! What commands wrote, kept for a while: a result has the beginning and the end of it, and `read_output` the rest.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are kept of one command: the last ones.
const MOST_BYTES: usize = 4 << 20;

/// Outputs that are kept of commands that have ended.
const MOST_OUTPUTS: usize = 16;

/// What one command wrote, both streams in the order in which it came.
#[derive(Debug)]
pub(crate) struct Output {
    /// Its name.
    pub(crate) handle: String,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: VecDeque<u8>,
    total: u64,
    is_finished: bool,
}

/// A part of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Where it begins; later than was asked for where the earlier bytes are not kept any more.
    pub(crate) offset: u64,
    /// Where the next part begins.
    pub(crate) next_offset: u64,
    /// How much was written in all, so far.
    pub(crate) total: u64,
    /// Whether no more comes.
    pub(crate) is_finished: bool,
    /// The text. What is not UTF-8 is replaced.
    pub(crate) text: String,
}

impl Output {
    pub(crate) fn new(handle: String) -> Arc<Self> {
        Arc::new(Self { handle, kept: Mutex::default() })
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The command wrote this.
    pub(crate) fn append(&self, bytes: &[u8]) {
        let mut kept = self.kept();
        kept.total += bytes.len() as u64;
        let last = bytes.get(bytes.len().saturating_sub(MOST_BYTES)..).unwrap_or_default();
        let too_many = (kept.bytes.len() + last.len()).saturating_sub(MOST_BYTES);
        let oldest = too_many.min(kept.bytes.len());
        kept.bytes.drain(..oldest);
        kept.bytes.extend(last);
    }

    /// No more comes.
    pub(crate) fn finish(&self) {
        self.kept().is_finished = true;
    }

    /// How much was written so far.
    pub(crate) fn total(&self) -> u64 {
        self.kept().total
    }

    /// At most `most` bytes from an offset on, cut between characters.
    pub(crate) fn part(&self, offset: u64, most: usize) -> Part {
        let kept = self.kept();
        let first = kept.total - kept.bytes.len() as u64;
        let offset = offset.clamp(first, kept.total);
        let skipped = usize::try_from(offset - first).unwrap_or(usize::MAX);
        let bytes: Vec<u8> = kept.bytes.iter().skip(skipped).take(most).copied().collect();
        let is_end = skipped + bytes.len() == kept.bytes.len();
        // At the end of all, what is not finished is not going to be.
        let length = if is_end && kept.is_finished { bytes.len() } else { whole_characters(&bytes) };
        let text = String::from_utf8_lossy(bytes.get(..length).unwrap_or_default()).into_owned();
        let next_offset = offset + length as u64;
        Part { offset, next_offset, total: kept.total, is_finished: kept.is_finished, text }
    }

    /// The last line that was written, at most so many characters of it.
    pub(crate) fn last_line(&self, most: usize) -> String {
        let part = self.part(self.total().saturating_sub(4 * most as u64 + 4), 4 * most + 4);
        let line = part.text.trim_end().rsplit(['\n', '\r']).next().unwrap_or_default();
        line.chars().filter(|c| !c.is_control()).take(most).collect()
    }
}

/// How many of these bytes are whole characters. At most three bytes of one that is cut are left out.
fn whole_characters(bytes: &[u8]) -> usize {
    let tail = bytes.len().saturating_sub(4);
    match std::str::from_utf8(bytes.get(tail..).unwrap_or_default()) {
        Ok(_) => bytes.len(),
        // The beginning may be within a character itself.
        Err(_) => (1..=3usize.min(bytes.len()))
            .find_map(|back| {
                let at = bytes.len() - back;
                let first = *bytes.get(at)?;
                let length = match first {
                    0xC2..=0xDF => 2,
                    0xE0..=0xEF => 3,
                    0xF0..=0xF4 => 4,
                    _ => return None,
                };
                // More of it is to come. A part that has nothing else is not held back for ever.
                (back < length && at > 0).then_some(at)
            })
            .unwrap_or(bytes.len()),
    }
}

/// The outputs of one client.
#[derive(Debug, Default)]
pub(crate) struct Outputs(Mutex<VecDeque<Arc<Output>>>);

impl Outputs {
    /// Keeps an output, and forgets the oldest that has ended if there are too many.
    pub(crate) fn keep(&self, output: &Arc<Output>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_back(Arc::clone(output));
        let ended = all.iter().filter(|output| output.kept().is_finished).count();
        let mut too_many = ended.saturating_sub(MOST_OUTPUTS);
        all.retain(|output| {
            let goes = too_many > 0 && output.kept().is_finished;
            too_many -= usize::from(goes);
            !goes
        });
    }

    pub(crate) fn find(&self, handle: &str) -> Option<Arc<Output>> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().find(|output| output.handle == handle).cloned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_last_bytes_are_kept() {
        let output = Output::new(String::from("o"));
        output.append(&vec![b'a'; MOST_BYTES]);
        output.append(b"bc");
        assert_eq!(output.total(), MOST_BYTES as u64 + 2);
        let part = output.part(0, 1);
        assert_eq!((part.offset, part.next_offset, &*part.text), (2, 3, "a"));
        assert_eq!(output.part(u64::MAX, 9).text, "");
        assert_eq!(output.part(MOST_BYTES as u64, 9).text, "bc");
        assert_eq!(output.last_line(2), "aa");
    }

    #[test]
    fn the_oldest_outputs_that_have_ended_are_forgotten() {
        let outputs = Outputs::default();
        let running = Output::new(String::from("running"));
        outputs.keep(&running);
        for number in 0..MOST_OUTPUTS + 2 {
            let output = Output::new(number.to_string());
            output.finish();
            outputs.keep(&output);
        }
        assert!(outputs.find("running").is_some() && outputs.find("17").is_some());
        assert!(outputs.find("0").is_none() && outputs.find("1").is_none() && outputs.find("2").is_some());
    }

    proptest! {
        /// The parts of any text, read one behind the other, are the text.
        #[test]
        fn parts_add_up(text in "\\PC{0,80}", most in 4usize..20) {
            let output = Output::new(String::from("o"));
            output.append(text.as_bytes());
            output.finish();
            let (mut read, mut offset) = (String::new(), 0);
            while offset < output.total() {
                let part = output.part(offset, most);
                prop_assert!(part.next_offset > offset);
                read += &part.text;
                offset = part.next_offset;
            }
            prop_assert_eq!(read, text);
        }

        #[test]
        fn any_bytes_come_to_an_end(bytes in any::<Vec<u8>>(), most in 4usize..20) {
            let output = Output::new(String::from("o"));
            output.append(&bytes);
            let mut offset = 0;
            while offset + 4 <= output.total() {
                let part = output.part(offset, most);
                prop_assert!(part.next_offset > offset);
                offset = part.next_offset;
            }
        }
    }
}
