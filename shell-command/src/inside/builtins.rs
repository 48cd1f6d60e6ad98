//! Bash's builtins: the forms that start a command, or change the meaning of the rest of the line.
//!
//! <https://www.gnu.org/software/bash/manual/bash.html#Shell-Builtin-Commands>. Builtins not named here only read or
//! change the shell's own state, with any arguments (`cd`, `echo`, `exit`, `kill`, `umask`); `tests/bash_differential`
//! verifies that with the real bash. Of the others, only forms known to be harmless are accepted.

use stockade_protocol::Word;

use super::runners::{joined, operands, text, words_from};
use super::variables::is_acted_upon;
use super::{Inside, Started};

const SUBSCRIPT: &str = "a subscript or a number may be evaluated";
const CHANGES_MEANING: &str = "the rest of the line may mean something else";

/// The commands that the builtin `name` starts, if it can.
pub(super) fn look(name: &str, words: &[Word]) -> Option<Inside> {
    let rest = words.get(1..).unwrap_or_default();
    let inside = match name {
        "eval" => evaluated(rest),
        "trap" => trapped(rest),
        "let" => Inside::nothing().opaque("arithmetic can't be predicted"),
        "alias" | "enable" => Inside::nothing().opaque(CHANGES_MEANING),
        "set" => only(is_harmless_set(rest), CHANGES_MEANING),
        "shopt" => only(is_harmless_shopt(rest), CHANGES_MEANING),
        // `-p` binds a name to any program.
        "hash" => only(has_options_of(rest, "dlrt"), CHANGES_MEANING),
        "jobs" => jobs(rest),
        "declare" | "typeset" | "local" | "export" | "readonly" => only(declares_plainly(rest), SUBSCRIPT),
        "unset" | "getopts" => only(names_plainly(rest, ""), SUBSCRIPT),
        "wait" => only(names_plainly(rest, "p"), SUBSCRIPT),
        "read" => only(names_plainly(rest, "adinNptu"), SUBSCRIPT),
        "printf" => only(prints_plainly(rest), SUBSCRIPT),
        "test" | "[" => only(tests_plainly(rest), SUBSCRIPT),
        "source" | "." => Inside::nothing().opaque("a file is read as if it stood in the line"),
        "mapfile" | "readarray" => Inside::runs(callbacks(rest)).opaque("a command is run on each line"),
        "compgen" => Inside::nothing().opaque("`compgen` runs what it is given"),
        "complete" | "compopt" | "bind" => Inside::nothing().opaque("a command is kept for later"),
        "history" => only(rest.is_empty(), "a command is kept for later"),
        "fc" => Inside::nothing().opaque("`fc` runs commands of the history"),
        _ => return None,
    };
    Some(inside)
}

fn only(harmless: bool, otherwise: &'static str) -> Inside {
    if harmless { Inside::nothing() } else { Inside::nothing().opaque(otherwise) }
}

fn evaluated(rest: &[Word]) -> Inside {
    let inside = Inside::runs(joined(operands(rest, ""), "eval"));
    if rest.iter().all(|word| word.known().is_some()) {
        inside
    } else {
        inside.opaque("the text for `eval` is made while the line runs")
    }
}

fn trapped(rest: &[Word]) -> Inside {
    match operands(rest, "").next() {
        Some(Word::Unknown) => Inside::nothing().opaque("the text for `trap` is made while the line runs"),
        // This resets the signal.
        Some(body) if body.as_str() == Some("-") => Inside::nothing(),
        Some(body) => Inside::runs(text(body, "trap").into_iter().collect()),
        None => Inside::nothing(),
    }
}

/// `jobs -x command` runs the command, with jobs replaced by process groups.
fn jobs(rest: &[Word]) -> Inside {
    let inside = Inside::runs(words_from(operands(rest, ""), "jobs -x"));
    if has_options_of(rest, "lnprs") { Inside::nothing() } else { inside.opaque("`jobs` may run a command") }
}

/// Whether every word is known, and every option is one of these letters.
fn has_options_of(words: &[Word], letters: &str) -> bool {
    words.iter().all(|word| {
        word.as_str().is_some_and(|text| {
            text.strip_prefix(['-', '+']).is_none_or(|option| option.chars().all(|letter| letters.contains(letter)))
        })
    })
}

/// Options that end a script early or trace it, and operands after `--`. Others change how words are read (`-k`, `-B`,
/// `-H`, `-o posix`).
fn is_harmless_set(words: &[Word]) -> bool {
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        let Some(text) = word.as_str() else { return false };
        if text == "--" {
            return true;
        }
        let Some(letters) = text.strip_prefix(['-', '+']) else { return false };
        let Some(named) = letters.strip_suffix('o') else {
            if letters.is_empty() || !letters.chars().all(|letter| "eufxvC".contains(letter)) {
                return false;
            }
            continue;
        };
        let known = ["pipefail", "errexit", "nounset", "xtrace", "noglob", "noclobber", "verbose"];
        let option = rest.next().and_then(Word::as_str);
        if !named.chars().all(|letter| "eufxvC".contains(letter)) || !option.is_some_and(|name| known.contains(&name)) {
            return false;
        }
    }
    true
}

/// Options that change only what patterns match, or when a script ends.
fn is_harmless_shopt(words: &[Word]) -> bool {
    words.iter().all(|word| {
        let known =
            ["-s", "-u", "-q", "-p", "nullglob", "globstar", "dotglob", "nocaseglob", "failglob", "inherit_errexit"];
        word.as_str().is_some_and(|text| known.contains(&text))
    })
}

/// A plain variable name: no subscript, and not one that bash acts upon.
fn is_plain_name(text: &str) -> bool {
    !text.contains(['[', '(']) && !is_acted_upon(text)
}

/// Names and assignments without evaluating attributes: no integers and no references.
fn declares_plainly(words: &[Word]) -> bool {
    words.iter().all(|word| {
        word.as_str().is_some_and(|text| match text.strip_prefix(['-', '+']) {
            Some(options) => options.chars().all(|letter| "-xrgpltufFaA".contains(letter)),
            None => is_plain_name(text),
        })
    })
}

/// Variable names, and options of which those in `values` may have an attached value (`read -aRANDOM`).
fn names_plainly(words: &[Word], values: &str) -> bool {
    words.iter().all(|word| {
        word.as_str().is_some_and(|text| {
            let glued = text.strip_prefix('-').and_then(|options| options.split_once(|c| values.contains(c)));
            is_plain_name(text) && glued.is_none_or(|(_, value)| is_plain_name(value))
        })
    })
}

/// `-v name` and the conversion `%n` set variables; the other words are only printed.
fn prints_plainly(words: &[Word]) -> bool {
    let mut rest = words;
    while let [first, others @ ..] = rest {
        let Some(option) = first.as_str() else { return false };
        let taken = match option {
            "--" => {
                rest = others;
                break;
            }
            "-v" => {
                let name = others.first().and_then(Word::as_str);
                if !name.is_some_and(is_plain_name) {
                    return false;
                }
                others.get(1..).unwrap_or_default()
            }
            _ => match option.strip_prefix("-v") {
                Some(name) if is_plain_name(name) => others,
                Some(_) => return false,
                None => break,
            },
        };
        rest = taken;
    }
    rest.first().is_none_or(|format| format.as_str().is_some_and(|format| !sets_variable(format)))
}

/// Whether a format has the conversion `%n`, with any flags, width and length.
fn sets_variable(format: &str) -> bool {
    format.replace("%%", "").split('%').skip(1).any(|conversion| {
        let letter = conversion.chars().find(|c| c.is_ascii_alphabetic() && !"hlLjzt".contains(*c) || *c == '(');
        letter == Some('n')
    })
}

/// `-v` and `-R` take a name whose subscript is evaluated. An unknown word may be one of them.
fn tests_plainly(words: &[Word]) -> bool {
    words.iter().all(|word| word.as_str().is_some_and(|text| !matches!(text, "-v" | "-R")))
        || words.iter().all(|word| word.as_str().is_some_and(is_plain_name))
}

/// The values of `-C`, attached or in the next word.
fn callbacks(rest: &[Word]) -> Vec<Started> {
    let value_at = |(at, word): (usize, &Word)| {
        let glued = word.as_str()?.strip_prefix("-C")?;
        if glued.is_empty() { text(rest.get(at + 1)?, "mapfile -C") } else { text(&Word::from(glued), "mapfile -C") }
    };
    rest.iter().enumerate().filter_map(value_at).collect()
}
