//! Escapes foreign text for a terminal, so that nothing is hidden from a reader.
//!
//! The requester can choose everything in a question. Control characters could move the cursor and repaint the prompt,
//! bidirectional text could reverse a command, blanks could push its end off the screen. So only characters that
//! display as themselves are printed; all others are escaped, and since a backslash is always doubled, an escape can't
//! be mistaken for text.
//!
//! | shown | meant |
//! | --- | --- |
//! | `\n`, `\u{202e}`, `\xff` | a character, a stray byte |
//! | `\s{300}` | a run of spaces |
//! | `\...{1234 characters}`, `\...{12 words}` | left out for brevity |

use stockade_protocol::RawText;

/// The level of detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// As much as fits a screen.
    Short,
    /// Everything.
    Whole,
}

/// Longer runs of spaces are counted instead of shown.
const RUN_IN_A_WORD: usize = 8;
/// The limit for lines of files, which may be indented.
const RUN_IN_A_FILE: usize = 48;

/// The number of characters shown at the beginning and the end of a text.
const HEAD: usize = 160;
const TAIL: usize = 80;

/// The same for the words of a command together: a program can be started with thousands.
const HEAD_OF_WORDS: usize = 1200;
const TAIL_OF_WORDS: usize = 600;

/// A text on one line, without quotes.
pub(super) fn line(text: &[u8], detail: Detail) -> String {
    join(&glyphs(text, RUN_IN_A_WORD), detail)
}

/// A sentence of Stockade in which foreign text is escaped already: its backslashes are not doubled again. Other
/// characters that do not display as themselves are escaped.
pub(super) fn sentence(text: &str, detail: Detail) -> String {
    let glyphs: Vec<String> = glyphs(text.as_bytes(), RUN_IN_A_WORD);
    let single = |glyph: String| if glyph == "\\\\" { String::from("\\") } else { glyph };
    join(&glyphs.into_iter().map(single).collect::<Vec<_>>(), detail)
}

/// A line of a file, with tabs as blanks.
pub(super) fn file_line(text: &[u8], detail: Detail) -> String {
    let spaced: Vec<u8> = text.split(|byte| *byte == b'\t').collect::<Vec<_>>().join(&b"    "[..]);
    join(&glyphs(&spaced, RUN_IN_A_FILE), detail)
}

/// A word of a command, quoted if its end would be unclear.
pub(super) fn word(text: &RawText, detail: Detail) -> String {
    let shown = line(text.as_bytes(), detail);
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !shown.is_empty() && shown.chars().all(plain) { shown } else { format!("'{}'", shown.replace('\'', "\\'")) }
}

/// A word in the syntax of a rules file.
pub(super) fn string(text: &RawText) -> String {
    format!("\"{}\"", line(text.as_bytes(), Detail::Whole).replace('"', "\\\""))
}

/// The words of a command on one line.
pub(super) fn words<'a>(words: impl IntoIterator<Item = &'a RawText>, detail: Detail) -> String {
    line_of(&words.into_iter().map(|text| word(text, detail)).collect::<Vec<_>>(), detail)
}

/// Escaped words on one line, with the first and the last ones of many.
pub(super) fn line_of(words: &[String], detail: Detail) -> String {
    let within = |most: usize| {
        let mut room = most;
        move |word: &&String| {
            let fits = word.chars().count() < room;
            room = room.saturating_sub(word.chars().count() + 1);
            fits
        }
    };
    // The program and the last word are always shown.
    let head = words.iter().take_while(within(HEAD_OF_WORDS)).count().max(1);
    let tail = words.iter().rev().take_while(within(TAIL_OF_WORDS)).count().max(1);
    let left_out = words.len().saturating_sub(head + tail);
    match (detail, words.get(..head), words.get(head + left_out..)) {
        (Detail::Short, Some(head), Some(tail)) if left_out > 0 => {
            format!("{} \\...{{{left_out} words}} {}", head.join(" "), tail.join(" "))
        }
        _ => words.join(" "),
    }
}

/// Whether a character displays as itself, in its position.
pub fn is_plain(c: char) -> bool {
    matches!(c, '\'' | '"') || (c.escape_debug().len() == 1 && !looks_blank(c) && !runs_leftwards(c))
}

/// Letters and symbols without a visible glyph.
fn looks_blank(c: char) -> bool {
    matches!(c, '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}' | '\u{1d159}')
}

/// Right-to-left scripts affect neighbouring neutral characters, so that a command could be displayed in another
/// order.
fn runs_leftwards(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefe}'
        | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

fn glyphs(text: &[u8], longest_run: usize) -> Vec<String> {
    let mut glyphs = Vec::new();
    let mut spaces = 0;
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            if c == ' ' {
                spaces += 1;
            } else {
                push_spaces(&mut glyphs, &mut spaces, longest_run);
                glyphs.push(glyph(c));
            }
        }
        for byte in chunk.invalid() {
            push_spaces(&mut glyphs, &mut spaces, longest_run);
            glyphs.push(format!("\\x{byte:02x}"));
        }
    }
    push_spaces(&mut glyphs, &mut spaces, longest_run);
    glyphs
}

fn push_spaces(glyphs: &mut Vec<String>, spaces: &mut usize, longest_run: usize) {
    if *spaces >= longest_run {
        glyphs.push(format!("\\s{{{spaces}}}"));
    } else {
        glyphs.extend(std::iter::repeat_n(String::from(" "), *spaces));
    }
    *spaces = 0;
}

fn glyph(c: char) -> String {
    match c {
        '\\' => String::from("\\\\"),
        c if is_plain(c) => String::from(c),
        '\n' | '\r' | '\t' => c.escape_default().to_string(),
        c => c.escape_unicode().to_string(),
    }
}

fn join(glyphs: &[String], detail: Detail) -> String {
    let left_out = glyphs.len().saturating_sub(HEAD + TAIL);
    match (detail, glyphs.get(..HEAD), glyphs.get(HEAD + left_out..)) {
        (Detail::Short, Some(head), Some(tail)) if left_out > 0 => {
            format!("{}{}{}", head.concat(), left_out_mark(left_out), tail.concat())
        }
        _ => glyphs.concat(),
    }
}

fn left_out_mark(count: usize) -> String {
    format!("\\...{{{count} characters}}")
}

/// Whether a text was shortened.
pub(super) fn is_shortened(shown: &str) -> bool {
    // A doubled backslash is text; a mark has a single one.
    shown.replace("\\\\", "").contains("\\...{")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> String {
        line(text.as_bytes(), Detail::Short)
    }

    #[test]
    fn what_does_not_show_as_itself_is_escaped() {
        for (text, escaped) in [
            ("\u{1b}[2Jgone", r"\u{1b}[2Jgone"),
            ("a\rb\nc\td", r"a\rb\nc\td"),
            ("abc\u{202e}fdp.exe", r"abc\u{202e}fdp.exe"),
            ("a\u{200b}b\u{feff}", r"a\u{200b}b\u{feff}"),
            ("e\u{301}", r"e\u{301}"),
            ("\u{5d0}", r"\u{5d0}"),
            ("\u{3164}\u{2800}", r"\u{3164}\u{2800}"),
            ("\u{e000}\u{e0041}\u{9b}", r"\u{e000}\u{e0041}\u{9b}"),
            ("it's \"caf\u{e9}\"", "it's \"caf\u{e9}\""),
            (r"\s{300}", r"\\s{300}"),
        ] {
            assert_eq!(shown(text), escaped);
        }
        assert_eq!(line(b"a\xffb", Detail::Short), r"a\xffb");
    }

    #[test]
    fn blanks_hide_nothing() {
        let text = format!("ls{};rm -rf /", " ".repeat(300));
        assert_eq!(shown(&text), r"ls\s{300};rm -rf /");
        assert_eq!(shown("a       b"), "a       b");
        assert_eq!(file_line(b"\t\tx", Detail::Short), "        x");
    }

    /// A command in a reason is escaped once.
    #[test]
    fn sentences_are_escaped_once() {
        let said = format!("a rule asks before `{}`", RawText::from("printf a\\b\n\u{202e}"));
        assert_eq!(sentence(&said, Detail::Whole), said);
        assert_eq!(sentence("\u{1b}[2J \u{202e} \\n", Detail::Whole), r"\u{1b}[2J \u{202e} \n");
    }

    #[test]
    fn many_words_keep_both_ends() {
        let many: Vec<RawText> = (0..5000).map(|number: u32| RawText::from(format!("word{number}"))).collect();
        let short = words(&many, Detail::Short);
        assert!(short.starts_with("word0 word1 ") && short.ends_with(" word4998 word4999"), "{short}");
        assert!(short.len() < 2000 && is_shortened(&short), "{short}");
        let shown = short.matches("word").count() - 1;
        assert!(short.contains(&format!(r"\...{{{} words}}", 5000 - shown)), "{short}");
        assert_eq!(words(&many, Detail::Whole).matches("word").count(), 5000);
        let wide: Vec<RawText> = (0..500).map(|_| RawText::from("y".repeat(800))).collect();
        assert!(words(&wide, Detail::Short).len() < 2500);
        let few = [RawText::from("rm"), RawText::from("x".repeat(5000)), RawText::from("y")];
        assert!(!words(&few, Detail::Short).contains("words}"));
    }

    #[test]
    fn long_words_keep_both_ends() {
        let text = format!("begin{}end", "x".repeat(1000));
        let short = shown(&text);
        assert!(short.starts_with("begin") && short.ends_with("end"), "{short}");
        assert!(short.contains(r"\...{768 characters}") && is_shortened(&short), "{short}");
        assert_eq!(line(text.as_bytes(), Detail::Whole), text);
        assert!(!is_shortened(&shown(r"\...{1 characters}")));
    }

    #[test]
    fn words_end_where_they_seem_to() {
        let quoted = |text: &str| word(&RawText::from(text), Detail::Short);
        assert_eq!(quoted("--flag=a/b"), "--flag=a/b");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's; x"), r"'it\'s; x'");
        assert_eq!(quoted(r"\'"), r"'\\\''");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// For any input only plain characters are printed, and different texts never look alike.
        #[test]
        fn only_plain_characters_are_printed(a in any::<Vec<u8>>(), b in any::<Vec<u8>>(), c in any::<String>()) {
            for text in [&a[..], &b, c.as_bytes()] {
                let shown = line(text, Detail::Short);
                prop_assert!(shown.chars().all(|c| c == '\\' || is_plain(c)), "{:?}", shown);
            }
            prop_assert_eq!(line(&a, Detail::Whole) == line(&b, Detail::Whole), a == b);
        }
    }
}
