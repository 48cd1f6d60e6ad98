//! A client's lines, each with the descriptors sent along with it.

use std::collections::VecDeque;
use std::io;

use crate::frames::{Frame, FrameDecoder};
use crate::transport::{Arrived, Descriptor, Reader};

/// Limit on descriptors held for an incomplete line.
const MOST_HELD: usize = 8;

/// Reads lines.
pub(crate) struct Lines {
    reader: Reader,
    decoder: FrameDecoder,
    waiting: VecDeque<(Frame, Vec<Descriptor>)>,
    held: Vec<Descriptor>,
    ended: bool,
}

impl Lines {
    pub(crate) fn new(reader: Reader, limit: usize) -> Self {
        let decoder = FrameDecoder::new(limit);
        Self { reader, decoder, waiting: VecDeque::new(), held: Vec::new(), ended: false }
    }

    /// The next line; `None` at the end. Cancel-safe.
    pub(crate) async fn next(&mut self) -> io::Result<Option<(Frame, Vec<Descriptor>)>> {
        while self.waiting.is_empty() && !self.ended {
            let arrived = self.reader.read().await?;
            self.take(arrived);
        }
        Ok(self.waiting.pop_front())
    }

    /// The kernel delivers descriptors with the last of the bytes they were sent with, so they belong to the line of
    /// that byte.
    fn take(&mut self, arrived: Arrived) {
        self.ended = arrived.bytes.is_empty();
        let (waiting, held) = (&mut self.waiting, &mut self.held);
        self.decoder.push(&arrived.bytes, |frame| waiting.push_back((frame, std::mem::take(held))));
        if self.ended {
            self.waiting.extend(self.decoder.finish().map(|frame| (frame, std::mem::take(&mut self.held))));
        }
        match self.waiting.back_mut().filter(|_| !self.decoder.is_within_line()) {
            Some((_, descriptors)) => descriptors.extend(arrived.descriptors),
            None => self.held.extend(arrived.descriptors),
        }
        self.held.truncate(MOST_HELD);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::fd::AsFd as _;

    use super::*;

    #[tokio::test]
    async fn descriptors_go_with_the_line_that_they_were_sent_with() {
        let (ours, theirs) = tokio::net::UnixStream::pair().unwrap();
        let null = std::fs::File::open("/dev/null").unwrap();
        let send = |text: &[u8], count: usize| {
            crate::transport::send_now(theirs.as_fd(), text, &vec![null.as_fd(); count]).unwrap();
        };
        send(b"one\ntwo\n", 0);
        send(b"three\n", 2);
        send(b"fo", 1);
        send(b"ur\nfive\n", 0);
        send(b"six", 0);
        drop(theirs);
        let mut lines = Lines::new(Reader::Socket(std::sync::Arc::new(ours)), 100);
        let mut seen = Vec::new();
        while let Some((Frame::Line(line), descriptors)) = lines.next().await.unwrap() {
            seen.push((String::from_utf8(line).unwrap(), descriptors.len()));
        }
        let expected = [("one", 0), ("two", 0), ("three", 2), ("four", 1), ("five", 0), ("six", 0)];
        assert_eq!(seen, expected.map(|(line, count)| (line.to_owned(), count)));
    }
}
