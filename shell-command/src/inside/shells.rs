//! Shells with a text to run: `bash -c '…'`, `powershell -Command …`, `cmd /c …`.

use stockade_protocol::{CommandRole, ParsedCommand, Word};

use super::{Inside, Started};
use crate::bash::Input;

/// How close a shell's language is to bash.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Bash,
    /// `sh`, which may be bash, dash or ash: bash's extensions mean something else there.
    Posix,
    /// Another language, or one with its own builtins and expansions (zsh, ksh). Parsed as bash only to find forbidden
    /// commands.
    Foreign,
}

/// Syntax that bash and a POSIX shell read differently. Searched everywhere, also inside quotes: for a shell other
/// than bash it is better to ask than to guess.
const NOT_POSIX: [&str; 18] = [
    "$'", "$\"", "$[", "${", "&>", ">&", "<(", ">(", "<<", "[[", "((", "+=", "=(", "|&", ";&", "{", "function", "time",
];

/// Stockade's own name for a shell that runs one line, with or without `-c`.
const LINE_SHELL: &str = "stockade-sh";

const KNOWN_OPTIONS: [&str; 4] = ["--login", "--norc", "--noprofile", "--posix"];

/// Whether the words start a shell that reads its profile first.
pub(super) fn is_login(words: &[Word]) -> bool {
    let name = words.first().and_then(Word::as_str).unwrap_or_default();
    let options = words.iter().skip(1).map_while(Word::as_str).take_while(|text| text.starts_with(['-', '+']));
    let mut logins = options.filter(|text| *text == "--login" || (!text.starts_with("--") && text.contains('l')));
    dialect(name.rsplit('/').next().unwrap_or(name)).is_some() && logins.next().is_some()
}

/// Whether the words start a shell with a script file.
pub(super) fn reads_script(words: &[Word]) -> bool {
    let name = words.first().and_then(Word::as_str).unwrap_or_default();
    let options = Options::read(words);
    let name = name.rsplit('/').next().unwrap_or(name);
    let is_shell = dialect(name).is_some() && name != LINE_SHELL;
    is_shell && !options.takes_body && words.len() > options.operands_at
}

/// The commands that the shell `name` runs, if it is one.
pub(super) fn look(name: &str, command: &ParsedCommand, input: &Input) -> Option<Inside> {
    let name = name.strip_suffix(".exe").unwrap_or(name);
    match name.to_ascii_lowercase().as_str() {
        "powershell" | "pwsh" => return Some(powershell(&command.words)),
        "cmd" => return Some(cmd(&command.words)),
        _ => {}
    }
    Some(unix_shell(name, dialect(name)?, command, input))
}

/// Whether a program of this name is a shell.
pub(super) fn is_shell(name: &str) -> bool {
    dialect(name).is_some()
}

/// Whether a shell of this name does nothing itself but what bash and dash do. An `ash` is busybox's.
pub(super) fn is_plain(name: &str) -> bool {
    matches!(name, "bash" | "bash-static" | "dash" | "sh")
}

fn dialect(name: &str) -> Option<Dialect> {
    Some(match name {
        "bash" | "rbash" | "bash-static" | LINE_SHELL => Dialect::Bash,
        "sh" | "dash" | "ash" => Dialect::Posix,
        "zsh" | "ksh" | "ksh93" | "mksh" | "oksh" | "yash" | "hush" | "fish" | "csh" | "tcsh" | "nu" | "elvish"
        | "xonsh" | "zsh-static" | "mksh-static" | "lksh" | "posh" | "zsh5" | "rzsh" | "rksh" => Dialect::Foreign,
        _ => return None,
    })
}

fn unix_shell(name: &str, dialect: Dialect, command: &ParsedCommand, input: &Input) -> Inside {
    let options = Options::read(&command.words);
    let operand = command.words.get(options.operands_at);
    let is_line = options.takes_body || (name == LINE_SHELL && operand.is_some());
    if !is_line {
        return match operand {
            // A script is treated like a program, as long as its start is predictable. With input from the line its
            // name may lead to that input (`cd /dev; bash stdin <<< …`).
            Some(script) if !options.reads_input && options.plain && *input == Input::None && !is_stream(script) => {
                Inside::nothing()
            }
            Some(_) | None => fed(name, input),
        };
    }
    let made_later = "the text for a shell is made while the line runs";
    let Some(body) = operand else {
        // An unknown word was counted as an option, and may be the text.
        let inside = Inside::nothing();
        return if command.known_words().is_some() { inside } else { inside.opaque(made_later) };
    };
    let Some(body) = body.as_str() else { return Inside::nothing().opaque(made_later) };
    let via = format!("{name} -c");
    let inside = Inside::runs(vec![Started::Text { text: body.to_owned(), via }]);
    let known_start = options.plain && command.assigns.is_empty() && command.known_words().is_some();
    if known_start && shares_language(dialect, body) {
        Inside { role: CommandRole::Wrapper, ..inside }
    } else {
        inside.opaque("a shell is started in a way that can't be followed")
    }
}

/// A shell that reads its commands from standard input. If the line itself contains that input, its commands are
/// listed for forbidding rules.
fn fed(name: &str, input: &Input) -> Inside {
    let starts = match input {
        Input::Known(text) => vec![Started::Text { text: text.clone(), via: format!("{name} <<") }],
        Input::Unknown | Input::None => Vec::new(),
    };
    Inside::runs(starts).opaque("a shell reads its commands from its input")
}

/// Whether a script's name refers to an open descriptor: `/dev/stdin`, `/proc/self/fd/3`.
fn is_stream(script: &Word) -> bool {
    script.as_str().is_none_or(|path| path == "-" || path.contains("dev/") || path.contains("proc/"))
}

fn shares_language(dialect: Dialect, body: &str) -> bool {
    match dialect {
        Dialect::Bash => true,
        Dialect::Posix => !NOT_POSIX.iter().any(|bashism| body.contains(bashism)),
        Dialect::Foreign => false,
    }
}

/// The options of a shell, up to the first operand.
struct Options {
    takes_body: bool,
    reads_input: bool,
    /// Whether none of them changes the meaning of the body.
    plain: bool,
    operands_at: usize,
}

impl Options {
    fn read(words: &[Word]) -> Self {
        let mut options = Self { takes_body: false, reads_input: false, plain: true, operands_at: 1 };
        while let Some(word) = words.get(options.operands_at) {
            let Some(text) = word.as_str() else {
                // It may expand to any number of options.
                options.plain = false;
                options.operands_at += 1;
                continue;
            };
            match text {
                "--" | "-" => {
                    options.operands_at += 1;
                    break;
                }
                _ if KNOWN_OPTIONS.contains(&text) => {}
                _ if text.starts_with("--") => {
                    options.plain = false;
                    options.operands_at += usize::from(matches!(text, "--rcfile" | "--init-file"));
                }
                _ if text.starts_with(['-', '+']) => options.letters(text, words),
                _ => break,
            }
            options.operands_at += 1;
        }
        options
    }

    fn letters(&mut self, text: &str, words: &[Word]) {
        let sets = text.starts_with('-');
        for letter in text.chars().skip(1) {
            match letter {
                'c' if sets => self.takes_body = true,
                's' if sets => self.reads_input = true,
                // `x` expands `PS4`, and a line that sets it is opaque.
                'e' | 'u' | 'l' | 'x' | 'v' | 'f' => {}
                'o' => {
                    self.operands_at += 1;
                    let option = words.get(self.operands_at).and_then(Word::as_str);
                    self.plain &=
                        matches!(option, Some("pipefail" | "errexit" | "nounset" | "xtrace" | "verbose" | "noglob"));
                }
                'O' => {
                    self.operands_at += 1;
                    self.plain = false;
                }
                _ => self.plain = false,
            }
        }
    }
}

/// PowerShell's options may be abbreviated and begin with a dash or a slash. Its language is not parsed: the body is
/// listed as if it were bash, so that plain forbidden commands are found.
fn powershell(words: &[Word]) -> Inside {
    let why = "PowerShell can't be followed";
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        let Some(text) = word.as_str() else { break };
        let Some(option) = text.strip_prefix(['-', '/']) else {
            return body(std::iter::once(word).chain(rest), "powershell").opaque(why);
        };
        let option = option.to_ascii_lowercase();
        if option == "ec" || (!option.is_empty() && "encodedcommand".starts_with(&option)) {
            let decoded = rest.next().and_then(Word::as_str).and_then(decode_utf16);
            let starts = decoded.map(|text| Started::Text { text, via: "powershell -EncodedCommand".into() });
            return Inside::runs(starts.into_iter().collect()).opaque(why);
        }
        if !option.is_empty() && "command".starts_with(&option) {
            return body(rest, "powershell -Command").opaque(why);
        }
        if ["executionpolicy", "ep", "ex", "windowstyle", "w", "version", "inputformat", "outputformat", "wd"]
            .contains(&option.as_str())
        {
            rest.next();
        }
    }
    Inside::nothing().opaque(why)
}

fn cmd(words: &[Word]) -> Inside {
    let runs = |word: &Word| {
        word.as_str().is_some_and(|text| {
            let option = text.to_ascii_lowercase();
            ["/c", "/k", "/r", "-c", "//c"].iter().any(|prefix| option.starts_with(prefix))
        })
    };
    let at = words.iter().position(runs).map_or(words.len(), |at| at + 1);
    body(words.iter().skip(at), "cmd /c").opaque("cmd can't be followed")
}

fn body<'w>(words: impl Iterator<Item = &'w Word>, via: &str) -> Inside {
    let text: Vec<&str> = words.filter_map(Word::as_str).collect();
    if text.is_empty() {
        return Inside::nothing();
    }
    Inside::runs(vec![Started::Text { text: text.join(" "), via: via.to_owned() }])
}

/// Decodes the Base64 of UTF-16 that `-EncodedCommand` takes.
fn decode_utf16(encoded: &str) -> Option<String> {
    let mut bits = 0_u32;
    let mut held = 0_u32;
    let mut bytes = Vec::new();
    for c in encoded.bytes().filter(|&c| c != b'=') {
        let value = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        held = (held << 6 | u32::from(value)) & 0xffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(held >> bits & 0xff).ok()?);
        }
    }
    let (pairs, _) = bytes.as_chunks::<2>();
    String::from_utf16(&pairs.iter().map(|&pair| u16::from_le_bytes(pair)).collect::<Vec<_>>()).ok()
}
