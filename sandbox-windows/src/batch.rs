//! `cmd.exe` and the files it runs, which do not split a line as other programs do.
//!
//! To `cmd.exe` a line is a program in a language of its own: `&`, `|`, `%NAME%`, `^`. It gets the line
//! that was approved, whole, or nothing. A batch file's arguments are read by the same language.
//! Inside quotes everything is plain but quotes themselves, `%` and line ends, and those are refused:
//! there is no way to write them that every batch file reads the same.

use stockade_protocol::AbsPath;
use stockade_sandboxing::Unenforceable;

use crate::command_line::{escaped, refuse};

/// Switches that may stand before the line: no commands of the registry's, quiet, extensions, encoding.
const SWITCHES: &[&str] = &["/d", "/s", "/q", "/a", "/u", "/e:on", "/e:off", "/v:on", "/v:off", "/f:off"];

/// The line for `cmd.exe` itself: `cmd /c LINE`, with the line as one argument.
pub(crate) fn interpreter(program: &str, arguments: &[&str]) -> Result<String, Unenforceable> {
    let is_switch = |argument: &&str| SWITCHES.contains(&argument.to_ascii_lowercase().as_str());
    let switches = arguments.iter().take_while(|argument| is_switch(argument)).count();
    let (switches, rest) = arguments.split_at_checked(switches).unwrap_or_default();
    let given: String = switches.iter().map(|switch| format!(" {switch}")).collect();
    match rest {
        [] => Ok(format!("\"{program}\" /d{given}")),
        [run, line] if run.eq_ignore_ascii_case("/c") => {
            if line.contains(['\r', '\n']) {
                return Err(refuse(line, "has more than one line, and `cmd.exe` would leave out the rest"));
            }
            // With `/s` the first and the last quote go, and everything between stays as it is.
            Ok(format!("\"{program}\" /d{given} /s /c \"{line}\""))
        }
        [odd, ..] => Err(Unenforceable {
            what: format!("the argument `{odd}` of `cmd.exe`"),
            why: String::from("`cmd.exe` would read several arguments as one line of its own language"),
            remedy: String::from("use `cmd /c` and the whole line as one argument"),
        }),
    }
}

/// The line for a batch file.
pub(crate) fn script(interpreter: &AbsPath, path: &str, arguments: &[&str]) -> Result<String, Unenforceable> {
    let mut line = String::new();
    for word in [path].iter().chain(arguments) {
        if word.contains(['"', '%', '\r', '\n']) {
            return Err(refuse(word, "can't be passed to a batch file: it has a quote, a percent sign or a line end"));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        // A batch file hands its arguments on to programs, which would take `\"` for a quote.
        line.extend(["\"", &escaped(word), "\""]);
    }
    // No commands of the registry's, extensions on, `!` without meaning, the outer quotes taken off.
    Ok(format!("\"{}\" /d /e:on /v:off /s /c \"{line}\"", interpreter.as_raw().as_str().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_gets_one_line_or_nothing() {
        let line = |words: &[&str]| interpreter("cmd", words);
        assert_eq!(line(&["/c", r#"echo "a" & dir"#]).unwrap(), r#""cmd" /d /s /c "echo "a" & dir""#);
        assert_eq!(line(&["/Q", "/V:ON", "/C", "echo !x!"]).unwrap(), r#""cmd" /d /Q /V:ON /s /c "echo !x!""#);
        assert_eq!(line(&[]).unwrap(), r#""cmd" /d"#);
        for words in [&["/c", "echo", "a&b"][..], &["/k", "echo"], &["x&y"], &["/c"], &["/c", "a\nb"], &["/t:fg&calc"]]
        {
            assert!(line(words).is_err(), "{words:?}");
        }
    }

    #[test]
    fn a_batch_files_arguments_are_quoted_or_refused() {
        let line = |words: &[&str]| script(&r"C:\W\cmd.exe".parse().unwrap(), r"C:\a b\x.cmd", words);
        assert_eq!(
            line(&["a&b", r"c d\", "^!"]).unwrap(),
            r#""C:\W\cmd.exe" /d /e:on /v:off /s /c ""C:\a b\x.cmd" "a&b" "c d\\" "^!"""#
        );
        for word in [r#"a"b"#, "%PATH%", "a\r\nb", r#"" & calc & ""#] {
            assert!(line(&[word]).is_err(), "{word}");
        }
    }
}
