//! One line of text from a list of arguments, and back.
//!
//! Windows hands a program one string, and the program splits it. Almost all do so by the rules of
//! `CommandLineToArgvW`: blanks separate, quotes group, and backslashes are plain unless a quote
//! follows them. The program's own name has simpler rules: no backslash escapes anything in it.
//! <https://learn.microsoft.com/windows/win32/api/shellapi/nf-shellapi-commandlinetoargvw>

use stockade_protocol::{AbsPath, Argv, RawText};
use stockade_sandboxing::Unenforceable;

use crate::batch;
use crate::program::Program;

/// The most that Windows takes, in 16-bit units and with the final zero.
const MOST_UNITS: usize = 32_767;

/// The line that starts a program with these arguments.
pub(crate) fn compile(argv: &Argv, program: &Program, interpreter: &AbsPath) -> Result<String, Unenforceable> {
    let arguments: Vec<&str> = argv.words().iter().skip(1).map(text).collect::<Result<_, _>>()?;
    let line = match program {
        Program::Executable(_) => join(text(argv.program())?, &arguments)?,
        Program::Interpreter(_) => batch::interpreter(text(argv.program())?, &arguments)?,
        Program::Batch(path) => batch::script(interpreter, path, &arguments)?,
    };
    if line.encode_utf16().count() >= MOST_UNITS {
        return Err(Unenforceable {
            what: String::from("the command line"),
            why: format!("Windows takes at most {MOST_UNITS} characters"),
            remedy: String::from("pass the arguments in a file"),
        });
    }
    Ok(line)
}

fn text(word: &RawText) -> Result<&str, Unenforceable> {
    word.as_str().filter(|text| !text.contains('\0')).ok_or_else(|| refuse(&word.to_string(), "is not Unicode text"))
}

pub(crate) fn refuse(argument: &str, why: &str) -> Unenforceable {
    Unenforceable {
        what: format!("the argument `{argument}`"),
        why: why.to_owned(),
        remedy: String::from("pass it in a file or a variable"),
    }
}

/// Joins a program's name and its arguments.
fn join(program: &str, arguments: &[&str]) -> Result<String, Unenforceable> {
    if program.contains('"') {
        return Err(refuse(program, "has a quote in a program's name, where nothing can escape it"));
    }
    let mut line = format!("\"{program}\"");
    for argument in arguments {
        line.push(' ');
        quote(argument, &mut line);
    }
    Ok(line)
}

/// Adds one argument, in quotes where it would be split or lost without them.
fn quote(argument: &str, line: &mut String) {
    let is_plain = !argument.is_empty() && !argument.contains([' ', '\t', '\n', '\u{b}', '\r', '"']);
    if is_plain {
        line.push_str(argument);
        return;
    }
    line.push('"');
    line.push_str(&escaped(argument));
    line.push('"');
}

/// The text between two quotes: backslashes before a quote are doubled, since one would escape it.
pub(crate) fn escaped(argument: &str) -> String {
    let mut escaped = String::new();
    let mut backslashes = 0;
    for c in argument.chars() {
        match c {
            '\\' => backslashes += 1,
            '"' => {
                escaped.extend(std::iter::repeat_n('\\', backslashes + 1));
                backslashes = 0;
            }
            _ => backslashes = 0,
        }
        escaped.push(c);
    }
    escaped.extend(std::iter::repeat_n('\\', backslashes));
    escaped
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `CommandLineToArgvW` in Rust, for systems that do not have it.
    fn split(line: &str) -> Vec<String> {
        let mut chars = line.chars().peekable();
        let mut first = String::new();
        let is_quoted = chars.next_if_eq(&'"').is_some();
        while let Some(c) = chars.next_if(|c| if is_quoted { *c != '"' } else { !matches!(c, ' ' | '\t') }) {
            first.push(c);
        }
        chars.next_if_eq(&'"');
        let mut arguments = vec![first];
        loop {
            while chars.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
            if chars.peek().is_none() {
                return arguments;
            }
            let (mut argument, mut in_quotes) = (String::new(), false);
            while let Some(c) = chars.next_if(|c| in_quotes || !matches!(c, ' ' | '\t')) {
                let mut backslashes = usize::from(c == '\\');
                if backslashes == 0 && c != '"' {
                    argument.push(c);
                    continue;
                }
                while backslashes > 0 && chars.next_if_eq(&'\\').is_some() {
                    backslashes += 1;
                }
                if c == '\\' && chars.peek() != Some(&'"') {
                    argument.extend(std::iter::repeat_n('\\', backslashes));
                    continue;
                }
                argument.extend(std::iter::repeat_n('\\', backslashes / 2));
                if c == '\\' {
                    chars.next();
                }
                match () {
                    () if backslashes % 2 == 1 => argument.push('"'),
                    () if in_quotes && chars.next_if_eq(&'"').is_some() => argument.push('"'),
                    () => in_quotes = !in_quotes,
                }
            }
            arguments.push(argument);
        }
    }

    /// Words of the characters that matter, and others.
    pub(crate) fn words() -> impl Strategy<Value = Vec<String>> {
        let word = prop_oneof![r#"[\\" \ta%^&']{0,12}"#, r"\PC{0,8}", r#"(\\){0,5}"{0,3} ?"#];
        prop::collection::vec(word, 0..6)
    }

    #[test]
    fn known_lines() {
        let line = |words: &[&str]| join("p", words).unwrap();
        assert_eq!(line(&[r"a b", r#"c"d"#, r"e\", r"f g\", "", "h"]), r#""p" "a b" "c\"d" e\ "f g\\" "" h"#);
        assert_eq!(split(r#""p" a\\\"b "c d" e"f"g "h""i" \\j"#), ["p", r#"a\"b"#, "c d", "efg", r#"h"i"#, r"\\j"]);
    }

    #[test]
    fn a_quote_in_the_name_or_a_line_that_is_too_long_is_refused() {
        assert!(join(r#"a"b"#, &[]).is_err());
        let compile = |words: Vec<String>| {
            let argv = Argv::parse(words).unwrap();
            compile(&argv, &Program::Executable(Vec::new()), &r"C:\Windows\System32\cmd.exe".parse().unwrap())
        };
        assert!(compile(vec![String::from("p"), "x".repeat(32_000)]).is_ok());
        assert!(compile(vec![String::from("p"), "x".repeat(33_000)]).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn every_argument_arrives(arguments in words()) {
            let borrowed: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let line = join("C:\\a program", &borrowed).unwrap();
            let mut arrived = split(&line);
            prop_assert_eq!(arrived.remove(0), "C:\\a program");
            prop_assert_eq!(arrived, arguments, "{}", line);
        }
    }

    /// The same, by the parser of the system that the tests run on.
    #[cfg(windows)]
    #[test]
    fn every_argument_arrives_by_the_systems_own_parser() {
        let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(4096));
        let result = runner.run(&words(), |arguments| {
            let borrowed: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let line = join("C:\\a program", &borrowed).unwrap();
            let mut arrived = crate::sys::split_command_line(&line).unwrap();
            prop_assert_eq!(&arrived, &split(&line), "both parsers agree on {}", line);
            prop_assert_eq!(arrived.remove(0), "C:\\a program");
            prop_assert_eq!(arrived, arguments, "{}", line);
            Ok(())
        });
        result.unwrap();
    }
}
