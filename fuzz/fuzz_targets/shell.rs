//! The shell parser never panics, answers the same twice, calls nothing safe that it could not read
//! in full, and reads quoted words back as they were.

#![no_main]

use libfuzzer_sys::fuzz_target;
use stockade_protocol::{Argv, Word};
use stockade_shell_command::{Safety, line_safety, parse_argv, parse_bash};

fuzz_target!(|text: &str| {
    let line = parse_bash(text);
    assert_eq!(line, parse_bash(text), "the same text is read in two ways");
    if line_safety(&line) == Safety::Safe {
        assert!(line.opaque.is_none() && !line.commands.is_empty());
        assert!(line.commands.iter().all(|command| command.is_plain()));
    }
    if let Ok(argv) = Argv::parse(text.split(' ')) {
        parse_argv(&argv);
    }
    // Control characters make a line opaque on purpose, so they are kept out of this part.
    let words: Vec<&str> = text.split(char::is_whitespace).filter(|word| !word.contains(char::is_control)).collect();
    let quoted: Vec<String> = words.iter().map(|word| format!("'{}'", word.replace('\'', r"'\''"))).collect();
    let line = parse_bash(&format!("echo {}", quoted.join(" ")));
    let expected: Vec<Word> = std::iter::once("echo").chain(words).map(Word::from).collect();
    if line.opaque.is_none() {
        assert_eq!(line.commands.first().map(|command| &command.words), Some(&expected));
    }
});
