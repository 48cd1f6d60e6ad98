//! Distinguishes keys from a terminal's own reports.
//!
//! A program can query a terminal's features and cursor position, and the terminal answers through its input. Such an
//! answer may end in any letter. So a control sequence is treated as a unit, however its bytes arrive, and never
//! answers a question.

const CTRL_C: u8 = 3;
/// Limit on a sequence's parameters.
const LONGEST: usize = 64;

/// The result of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A typed byte.
    Byte(u8),
    /// The end of a control sequence.
    Sequence,
    /// The end of a report of the cursor's column.
    CursorColumn(u16),
}

/// A chunk of input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) typed: Vec<u8>,
    /// Whether the chunk contained control sequences.
    pub(super) has_sequences: bool,
}

/// Decodes a terminal's input across chunks.
#[derive(Clone, Debug, Default)]
pub(super) struct Decoder {
    state: State,
    parameters: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Ground,
    /// Inside a multi-byte character, of which this many bytes are missing.
    Character(u8),
    /// After the byte 0xc2: a C1 control character in UTF-8, or a letter.
    FirstOfTwo,
    /// After an ESC.
    Escape,
    /// `ESC [ parameters final`.
    Control,
    /// A control string up to its terminator.
    Text,
    /// After an ESC in a control string.
    TextEscape,
    /// This many further bytes belong to the sequence.
    Rest(u8),
}

impl Decoder {
    /// Decodes a chunk.
    pub(super) fn piece(&mut self, bytes: &[u8]) -> Piece {
        let mut piece = Piece { has_sequences: self.is_inside(), ..Piece::default() };
        for byte in bytes {
            for event in self.take(*byte).into_iter().flatten() {
                match event {
                    Event::Byte(byte) => piece.typed.push(byte),
                    Event::Sequence | Event::CursorColumn(_) => piece.has_sequences = true,
                }
            }
        }
        piece.has_sequences |= self.is_inside();
        piece
    }

    /// Forgets a lone ESC, which was a key.
    pub(super) fn forget_escape(&mut self) {
        if self.state == State::Escape {
            self.state = State::Ground;
        }
    }

    fn is_inside(&self) -> bool {
        match self.state {
            State::Ground | State::Character(_) => false,
            State::FirstOfTwo | State::Escape | State::Control | State::Text | State::TextEscape | State::Rest(_) => {
                true
            }
        }
    }

    /// Takes one byte, which can yield up to two events.
    pub(super) fn take(&mut self, byte: u8) -> [Option<Event>; 2] {
        let one = |event| [Some(event), None];
        // It ends any unfinished sequence: the person must be heard.
        if byte == CTRL_C && self.state != State::FirstOfTwo {
            self.state = State::Ground;
            return one(Event::Byte(byte));
        }
        match self.state {
            State::Ground => self.begin(byte),
            State::Character(missing) => {
                self.state = if missing > 1 { State::Character(missing - 1) } else { State::Ground };
                // Not a part of the character: start anew.
                if byte & 0xc0 == 0x80 { one(Event::Byte(byte)) } else { self.begin(byte) }
            }
            State::FirstOfTwo => {
                self.state = State::Ground;
                match byte {
                    0x80..=0x9f => self.begin(byte),
                    byte => [Some(Event::Byte(0xc2)), self.begin(byte)[0]],
                }
            }
            State::Escape => self.escape(byte),
            State::Control => self.control(byte),
            State::Text => {
                self.state = match byte {
                    0x1b => State::TextEscape,
                    // The terminators, and the bytes that cancel a sequence. No report contains a line end.
                    0x07 | 0x9c | 0x18 | 0x1a | b'\r' | b'\n' => State::Ground,
                    _ => State::Text,
                };
                self.ended()
            }
            State::TextEscape if byte == b'\\' => {
                self.state = State::Ground;
                self.ended()
            }
            State::TextEscape => self.escape(byte),
            State::Rest(missing) => {
                self.state = if missing > 1 { State::Rest(missing - 1) } else { State::Ground };
                self.ended()
            }
        }
    }

    fn ended(&self) -> [Option<Event>; 2] {
        [(self.state == State::Ground).then_some(Event::Sequence), None]
    }

    fn begin(&mut self, byte: u8) -> [Option<Event>; 2] {
        self.parameters.clear();
        self.state = match byte {
            0x1b => State::Escape,
            0x8e | 0x8f => State::Rest(1),
            0x90 | 0x98 | 0x9d..=0x9f => State::Text,
            0x9b => State::Control,
            0x80..=0x9f => return [Some(Event::Sequence), None],
            0xc2 => State::FirstOfTwo,
            0xc3..=0xdf => State::Character(1),
            0xe0..=0xef => State::Character(2),
            0xf0..=0xf4 => State::Character(3),
            _ => State::Ground,
        };
        [(!self.is_inside()).then_some(Event::Byte(byte)), None]
    }

    fn escape(&mut self, byte: u8) -> [Option<Event>; 2] {
        self.state = match byte {
            b'[' => State::Control,
            b'O' | b'N' => State::Rest(1),
            b'P' | b'X' | b']' | b'^' | b'_' => State::Text,
            0x1b | 0x20..=0x2f => State::Escape,
            _ => State::Ground,
        };
        self.ended()
    }

    fn control(&mut self, byte: u8) -> [Option<Event>; 2] {
        match byte {
            0x20..=0x3f => {
                if self.parameters.len() < LONGEST {
                    self.parameters.push(byte);
                }
                return [None, None];
            }
            0x1b => self.state = State::Escape,
            // A mouse report with three further bytes, and the function keys of the Linux console.
            b'M' if self.parameters.is_empty() => self.state = State::Rest(3),
            b'[' if self.parameters.is_empty() => self.state = State::Rest(1),
            0x40..=0x7e | 0x18 | 0x1a | 0x80.. => self.state = State::Ground,
            _ => {}
        }
        if self.state != State::Ground {
            return [None, None];
        }
        let event = match (self.parameters.as_slice(), byte) {
            // Ctrl-C in the extended keyboard protocols.
            (b"99;5", b'u') | (b"27;5;99", b'~') => Event::Byte(CTRL_C),
            (parameters, b'R') => column(parameters).map_or(Event::Sequence, Event::CursorColumn),
            _ => Event::Sequence,
        };
        [Some(event), None]
    }
}

/// The column of `row;column`.
fn column(parameters: &[u8]) -> Option<u16> {
    let (row, column) = std::str::from_utf8(parameters).ok()?.split_once(';')?;
    row.parse::<u16>().ok()?;
    column.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Terminal reports, most of which end in a letter that answers a question.
    const REPLIES: [&[u8]; 15] = [
        b"\x1b[?1;2$y",
        b"\x1b[4;1$y",
        b"\x1b[0n",
        b"\x1b[12;40R",
        b"\x1b[?62;22c",
        b"\x1bP1+r544e=787465726dy\x1b\\",
        b"\x1bP1$r0my\x1b\\",
        b"\x1bP>|terminal(y)\x07",
        b"\x1b]11;rgb:0000/0000/0000\x1b\\",
        b"\x1b]lyes\x07",
        b"\x9b?1;2$y",
        b"\xc2\x9b?1;2$y",
        b"\x90y\x9c",
        b"\x1bOy",
        b"\x1b[My y",
    ];

    fn typed(pieces: &[&[u8]]) -> Vec<u8> {
        let mut decoder = Decoder::default();
        pieces.iter().flat_map(|piece| decoder.piece(piece).typed).collect()
    }

    #[test]
    fn letters_are_typed_also_those_of_several_bytes() {
        for text in ["yes", "caf\u{e9}", "\u{a9}\u{9999}\u{1f600}", "\r\u{7f}"] {
            assert_eq!(typed(&[text.as_bytes()]), text.as_bytes());
            let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
            assert_eq!(typed(&bytes), text.as_bytes());
        }
        assert_eq!(typed(&[b"\xffy\xc2"]), b"\xffy");
    }

    /// Ctrl-C works within any unfinished sequence.
    #[test]
    fn ctrl_c_is_always_heard() {
        for before in [&b"\x1b"[..], b"\x1b[?1", b"\x1bPtext", b"\x1b]text\x1b", b"\x1b[M", b"\xc3"] {
            assert!(typed(&[before, b"\x03"]).ends_with(b"\x03"), "{before:?}");
        }
        assert_eq!(typed(&[b"\x1b[99;5u"]), b"\x03");
        assert_eq!(typed(&[b"\x1b[27;5;99~"]), b"\x03");
    }

    #[test]
    fn a_lone_escape_does_not_take_the_next_key_along() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.piece(b"\x1b").typed, b"");
        decoder.forget_escape();
        assert_eq!(decoder.piece(b"y"), Piece { typed: b"y".to_vec(), has_sequences: false });
        assert!(decoder.piece(b"\x1b[A").has_sequences && decoder.piece(b"\x1b[").has_sequences);
        decoder.forget_escape();
        assert_eq!(decoder.piece(b"y"), Piece { typed: Vec::new(), has_sequences: true });
    }

    #[test]
    fn the_cursors_column_is_read() {
        let mut decoder = Decoder::default();
        let events: Vec<Event> = b"\x1b[3;17R".iter().flat_map(|byte| decoder.take(*byte)).flatten().collect();
        assert_eq!(events, [Event::CursorColumn(17)]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// However reports are split into chunks, none of their bytes counts as typed.
        #[test]
        fn no_answer_of_a_terminal_is_typed(
            chosen in prop::collection::vec(prop::sample::select(REPLIES.to_vec()), 1..6),
            length in 1usize..9,
        ) {
            let bytes = chosen.concat();
            let pieces: Vec<&[u8]> = bytes.chunks(length).collect();
            prop_assert_eq!(typed(&pieces), b"");
            let mut decoder = Decoder::default();
            for piece in pieces {
                prop_assert!(decoder.piece(piece).has_sequences);
            }
        }
    }
}
