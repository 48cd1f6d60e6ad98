//! How agents that are written in JavaScript read a text.

use unicode_normalization::UnicodeNormalization as _;

/// Whether JavaScript counts a character as whitespace, in `\s` and in `trim` ([ECMAScript]). Rust's set differs in two:
/// it has U+0085, and lacks U+FEFF.
///
/// [ECMAScript]: https://tc39.es/ecma262/#sec-white-space
pub(super) fn is_space(c: char) -> bool {
    c == '\u{feff}' || (c != '\u{85}' && c.is_whitespace())
}

/// A text, and the texts that an agent may make of it before it opens the file of that name: without outer whitespace, and
/// normalized. Claude Code composes its paths (NFC); the decomposed form (NFD) is what file systems of macOS hand back, and
/// what programs try that look for a name in both forms.
pub(super) fn readings(text: &str) -> Vec<String> {
    let trimmed = text.trim_matches(is_space);
    let mut readings = vec![text.to_owned()];
    for text in [text, trimmed] {
        for reading in [text.to_owned(), text.nfc().collect(), text.nfd().collect()] {
            if !readings.contains(&reading) {
                readings.push(reading);
            }
        }
    }
    readings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_read_as_javascript_does() {
        for c in ['\u{feff}', ' ', '\t', '\u{a0}', '\u{2028}', '\u{3000}'] {
            assert!(is_space(c), "{c:?}");
        }
        for c in ['\u{85}', '\u{180e}', '\u{200b}', 'a'] {
            assert!(!is_space(c), "{c:?}");
        }
    }

    #[test]
    fn texts_are_read_in_every_form() {
        assert_eq!(readings("a/b"), ["a/b"]);
        assert_eq!(readings(" a\u{a0}"), [" a\u{a0}", "a"]);
        // The Kelvin sign is a `K` then, and a combining accent is part of its letter.
        assert_eq!(readings("\u{212a}"), ["\u{212a}", "K"]);
        assert_eq!(readings("e\u{301}"), ["e\u{301}", "\u{e9}"]);
        assert_eq!(readings("\u{e9}"), ["\u{e9}", "e\u{301}"]);
        // Vowel signs of other scripts compose as well.
        assert_eq!(readings("\u{9c7}\u{9be}"), ["\u{9c7}\u{9be}", "\u{9cb}"]);
    }
}
