//! `$'…'`, as in <https://www.gnu.org/software/bash/manual/bash.html#ANSI_002dC-Quoting>.

use super::cursor::Parser;
use super::word::Draft;
use super::{Doubt, Step};

impl Parser<'_> {
    pub(super) fn ansi_c_quotes(&mut self, draft: &mut Draft) -> Step<()> {
        self.at += 2;
        let mut bytes = Vec::new();
        loop {
            let Some(c) = self.rest().chars().next() else { return Err(Doubt("a quote is not closed")) };
            self.at += c.len_utf8();
            match c {
                '\'' => break,
                '\\' => self.ansi_c_escape(&mut bytes)?,
                _ => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        draft.push_quoted_bytes(&bytes);
        Ok(())
    }

    fn ansi_c_escape(&mut self, bytes: &mut Vec<u8>) -> Step<()> {
        let Some(c) = self.rest().chars().next() else { return Err(Doubt("a quote is not closed")) };
        self.at += c.len_utf8();
        match c {
            'a' => bytes.push(0x07),
            'b' => bytes.push(0x08),
            'e' | 'E' => bytes.push(0x1b),
            'f' => bytes.push(0x0c),
            'n' => bytes.push(b'\n'),
            'r' => bytes.push(b'\r'),
            't' => bytes.push(b'\t'),
            'v' => bytes.push(0x0b),
            '\\' | '\'' | '"' | '?' => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            '0'..='7' => {
                self.at -= 1;
                push_byte(bytes, self.digits(8, 3))?;
            }
            'x' => push_byte(bytes, self.digits(16, 2))?,
            'u' => push_ascii(bytes, self.digits(16, 4))?,
            'U' => push_ascii(bytes, self.digits(16, 8))?,
            'c' => return Err(Doubt("a control escape can't be predicted")),
            _ => {
                bytes.push(b'\\');
                bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        Ok(())
    }

    /// The value of up to `most` digits, if there are any.
    fn digits(&mut self, radix: u32, most: usize) -> Option<u32> {
        let mut value = None;
        for _ in 0..most {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(radix));
            let Some(digit) = digit else { break };
            value = Some(value.unwrap_or(0_u32).wrapping_mul(radix).wrapping_add(digit));
            self.at += 1;
        }
        value
    }
}

/// Rejects NUL, which would end the string early, and an escape without digits, which some versions keep literally.
fn push_byte(bytes: &mut Vec<u8>, value: Option<u32>) -> Step<()> {
    match value.map(|value| value & 0xff).map(u8::try_from) {
        Some(Ok(byte)) if byte != 0 => {
            bytes.push(byte);
            Ok(())
        }
        Some(_) | None => Err(Doubt("an escape can't be predicted")),
    }
}

/// Rejects characters beyond ASCII, whose encoding depends on the locale.
fn push_ascii(bytes: &mut Vec<u8>, value: Option<u32>) -> Step<()> {
    match value.map(u8::try_from) {
        Some(Ok(byte)) if byte != 0 && byte.is_ascii() => {
            bytes.push(byte);
            Ok(())
        }
        Some(_) | None => Err(Doubt("an escape depends on the locale")),
    }
}

#[cfg(test)]
mod tests {
    use stockade_protocol::Word;

    use crate::bash::lone_word;

    #[test]
    fn escapes_are_read_as_bash_reads_them() {
        for (text, value) in [
            (r"$'\x2dexec'", &b"-exec"[..]),
            (r"$'\055exec'", b"-exec"),
            (r"$'\u002dexec'", b"-exec"),
            (r"$'\xff'", b"\xff"),
            (r"$'it\'s'", b"it's"),
            (r"$'\q\e'", b"\\q\x1b"),
            (r"$'\1010'", b"A0"),
            (r"$'\x410'", b"A0"),
        ] {
            assert_eq!(lone_word(text), Word::from(value.to_vec()), "{text}");
        }
    }

    #[test]
    fn what_depends_on_version_or_locale_is_unknown() {
        for text in [r"$'a\x00b'", r"$'a\0'", r"$'\u00e9'", r"$'\ca'", r"$'\xg'", r"$'\u'"] {
            assert_eq!(lone_word(text), Word::Unknown, "{text}");
        }
    }
}
