//! Laws that hold for every text.

#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that can't go on has failed"
)]

use proptest::prelude::*;
use stockade_protocol::{Argv, Decision, RawText, Word};
use stockade_shell_command::{Safety, line_safety, parse_argv, parse_bash};

fn single_quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn backslashed(word: &str) -> String {
    if word.is_empty() {
        return "''".to_owned();
    }
    // A backslash before a newline would remove both.
    word.chars().map(|c| if c == '\n' { "'\n'".to_owned() } else { format!("\\{c}") }).collect()
}

fn double_quoted(word: &str) -> String {
    let escaped: String =
        word.chars().map(|c| if "$`\"\\".contains(c) { format!("\\{c}") } else { c.to_string() }).collect();
    format!("\"{escaped}\"")
}

fn ansi_c_quoted(word: &[u8]) -> String {
    let escaped: String = word.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("$'{escaped}'")
}

/// Fragments that make more of bash's syntax than arbitrary text does.
fn shellish() -> impl Strategy<Value = String> {
    let fragments = prop::sample::select(vec![
        "ls",
        "cat",
        "f",
        "rm",
        "-rf",
        "/",
        " ",
        " ",
        "\n",
        ";",
        "&&",
        "|",
        "(",
        ")",
        "{ ",
        "; }",
        "$(",
        "`",
        "'",
        "\"",
        "\\",
        "#",
        "<",
        ">",
        "<<E\n",
        "\nE\n",
        "$x",
        "${",
        "}",
        "$'",
        "=",
        "if ",
        "then ",
        "fi",
        "case x in ",
        "esac",
        "[[ ",
        " ]]",
        "((",
        "))",
        "bash -c ",
        "eval ",
        "find . -exec ",
        "timeout 5 ",
        "*",
        "~",
        "é",
        "\u{a0}",
        "\r",
    ]);
    prop::collection::vec(fragments, 0..14).prop_map(|parts| parts.concat())
}

/// Words without control characters, which make a line opaque.
fn word() -> impl Strategy<Value = String> {
    prop_oneof!["[ -~]{0,8}", "[a-z$`\"'\\\\*?~{},.#!()&|;<>=\n-]{0,8}", "[a-zé€]{1,4}"]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_text_is_read_and_nothing_unread_is_safe(text in prop_oneof![".{0,40}", shellish()]) {
        let line = parse_bash(&text);
        prop_assert_eq!(&line, &parse_bash(&text));
        if line_safety(&line).decision() == Decision::Allow {
            prop_assert!(line.opaque.is_none());
            prop_assert!(line.commands.iter().all(|command| command.is_plain()));
        }
    }

    #[test]
    fn any_argv_is_read(words in prop::collection::vec(shellish(), 1..5)) {
        if let Ok(argv) = Argv::parse(words) {
            let line = parse_argv(&argv);
            let expected: Vec<Word> = argv.words().iter().cloned().map(Word::Known).collect();
            prop_assert_eq!(&line.commands[0].words, &expected);
        }
    }

    #[test]
    fn quoted_words_are_read_back(words in prop::collection::vec((word(), 0..4_usize), 1..5)) {
        let quoted: Vec<String> = words.iter().map(|(word, style)| match style {
            0 => single_quoted(word),
            1 => backslashed(word),
            2 => double_quoted(word),
            _ => ansi_c_quoted(word.as_bytes()),
        }).collect();
        let line = parse_bash(&format!("program {}", quoted.join(" ")));
        let expected: Vec<Word> = std::iter::once("program").chain(words.iter().map(|(word, _)| word.as_str())).map(Word::from).collect();
        prop_assert_eq!(&line.commands[0].words, &expected);
        prop_assert_eq!(line.commands.len(), 1);
    }

    #[test]
    fn any_bytes_can_be_spelled(bytes in prop::collection::vec(1_u8.., 1..8)) {
        let line = parse_bash(&format!("program {}", ansi_c_quoted(&bytes)));
        prop_assert_eq!(line.opaque, None);
        prop_assert_eq!(&line.commands[0].words[1], &Word::from(RawText::from(bytes)));
    }

}

/// The grammar's C code once crashed on these.
#[test]
fn characters_far_beyond_ascii_are_read() {
    for c in (0x1_0000..0x11_0000).step_by(997).filter_map(char::from_u32) {
        let line = parse_bash(&format!("{c}#( ; echo {c} ${{{c}"));
        assert!(line.opaque.is_some());
        assert_eq!(parse_bash(&format!("echo {c}")).commands[0].words[1], Word::from(c.to_string()));
    }
}

proptest! {
    // Most texts are opaque and tell nothing here.
    #![proptest_config(ProptestConfig { cases: 300, max_global_rejects: 100_000, ..ProptestConfig::default() })]

    #[test]
    fn comments_and_blanks_around_a_line_change_nothing(text in shellish(), comment in "[ -~]{0,10}") {
        let line = parse_bash(&text);
        prop_assume!(line.opaque.is_none());
        for around in [format!(" \t{text}"), format!("\n\n{text}"), format!("# {comment}\n{text}"), format!("{text}\n# {comment}")] {
            let same = parse_bash(&around);
            // The second reading may give up where the first does not; it may never see something else.
            if same.opaque.is_none() {
                prop_assert_eq!(&same, &line, "{:?}", around);
            }
        }
    }

    #[test]
    fn a_line_is_as_strict_as_its_strictest_part(left in shellish(), right in shellish()) {
        let (first, second) = (parse_bash(&left), parse_bash(&right));
        prop_assume!(first.opaque.is_none() && second.opaque.is_none());
        let both = line_safety(&parse_bash(&format!("{left}\n{right}"))).decision();
        let parts = [&first, &second].into_iter().filter(|line| !line.commands.is_empty()).map(line_safety);
        if let Some(strictest) = parts.map(|safety: Safety| safety.decision()).max() {
            prop_assert!(both >= strictest, "{:?} alone, {:?} together", strictest, both);
        }
    }
}
