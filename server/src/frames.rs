//! Splits a byte stream into lines, none longer than the limit.

/// A line from a client.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// A whole line, without its newline.
    Line(Vec<u8>),
    /// A line that was longer than the limit. It was skipped up to its newline.
    Oversized,
}

/// Cuts bytes into lines. Holds at most one unfinished line of at most the limit.
#[derive(Debug)]
pub struct FrameDecoder {
    limit: usize,
    unfinished: Vec<u8>,
    skips: bool,
}

impl FrameDecoder {
    /// A decoder for lines of at most `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, unfinished: Vec::new(), skips: false }
    }

    /// Takes the next bytes and passes on every completed line. Blank lines are skipped.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Frame)) {
        let mut pieces = bytes.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            self.take(piece);
            if pieces.peek().is_some()
                && let Some(frame) = self.finish()
            {
                each(frame);
            }
        }
    }

    /// Ends the current line. Also for the last line, which may have no newline.
    pub fn finish(&mut self) -> Option<Frame> {
        let line = std::mem::take(&mut self.unfinished);
        if std::mem::take(&mut self.skips) {
            return Some(Frame::Oversized);
        }
        let is_blank = line.iter().all(u8::is_ascii_whitespace);
        (!is_blank).then_some(Frame::Line(line))
    }

    /// Whether an incomplete line is pending.
    pub fn is_within_line(&self) -> bool {
        self.skips || !self.unfinished.is_empty()
    }

    fn take(&mut self, piece: &[u8]) {
        if self.skips {
            return;
        }
        if self.unfinished.len() + piece.len() > self.limit {
            self.skips = true;
            self.unfinished = Vec::new();
            return;
        }
        self.unfinished.extend_from_slice(piece);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(limit: usize, pieces: &[&[u8]]) -> Vec<Frame> {
        let mut decoder = FrameDecoder::new(limit);
        let mut frames = Vec::new();
        for piece in pieces {
            decoder.push(piece, |frame| frames.push(frame));
        }
        frames.extend(decoder.finish());
        frames
    }

    #[test]
    fn a_long_line_is_skipped_and_the_next_one_is_read() {
        let long = [b'x'; 11];
        let frames = decode(10, &[b"a\n", &long, &long, b"\n", b"b\n"]);
        assert_eq!(frames, [Frame::Line(b"a".to_vec()), Frame::Oversized, Frame::Line(b"b".to_vec())]);
        assert_eq!(decode(10, &[&[b'x'; 10], b"\n"]), [Frame::Line(vec![b'x'; 10])]);
    }

    #[test]
    fn blank_lines_are_left_out_and_the_last_needs_no_newline() {
        assert_eq!(decode(10, &[b"\n \r\n\t\n", b"a\r"]), [Frame::Line(b"a\r".to_vec())]);
    }

    proptest! {
        /// The lines are independent of the chunks, and no more than the limit is buffered.
        #[test]
        fn pieces_make_no_difference(
            text in "[ab\\n ]{0,200}",
            cuts in proptest::collection::vec(1usize..20, 0..60),
            limit in 1usize..30,
        ) {
            let whole = decode(limit, &[text.as_bytes()]);
            let mut rest = text.as_bytes();
            let mut decoder = FrameDecoder::new(limit);
            let mut frames = Vec::new();
            for cut in cuts {
                let (piece, behind) = rest.split_at(cut.min(rest.len()));
                decoder.push(piece, |frame| frames.push(frame));
                prop_assert!(decoder.unfinished.len() <= limit);
                rest = behind;
            }
            decoder.push(rest, |frame| frames.push(frame));
            frames.extend(decoder.finish());
            prop_assert_eq!(&frames, &whole);
            let expected = text.split('\n').filter_map(|line| {
                if line.len() > limit { Some(Frame::Oversized) }
                else { (!line.trim().is_empty()).then(|| Frame::Line(line.as_bytes().to_vec())) }
            });
            prop_assert_eq!(whole, expected.collect::<Vec<_>>());
        }
    }
}
