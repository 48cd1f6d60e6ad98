//! Finds a command in the input of a tool that is not known here.
//!
//! Its schema is not known either, so that fields are read by their names at any depth, and texts by their form. Both
//! overestimate: a question too many is answered by a person, a command that is missed runs outside of the sandbox.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};

/// Words of a field's name that mean a command wherever they stand: `shell_command`, `initScript`, `execArgs`.
const ANYWHERE: [&str; 28] = [
    "argv",
    "bash",
    "bat",
    "cli",
    "cmd",
    "cmdline",
    "cmds",
    "command",
    "commandline",
    "commands",
    "eval",
    "exec",
    "executable",
    "execute",
    "ksh",
    "osascript",
    "powershell",
    "ps1",
    "pwsh",
    "script",
    "scripts",
    "sh",
    "shell",
    "shellcommand",
    "subprocess",
    "terminal",
    "tty",
    "zsh",
];

/// Names of fields that hold a command, or code, if they are the whole name: `code` does, `country_code` does not.
const WHOLE: [&str; 15] = [
    "args",
    "arguments",
    "binary",
    "code",
    "expression",
    "invocation",
    "javascript",
    "js",
    "keystrokes",
    "process",
    "program",
    "python",
    "run",
    "snippet",
    "stdin",
];

/// Programs of a shell that are no files.
const BUILT_IN: [&str; 12] =
    [".", "builtin", "cd", "command", "eval", "exec", "export", "nohup", "set", "source", "trap", "unset"];

/// Limit on texts whose form is looked at, and on the programs that are searched for.
const MOST_TEXTS: usize = 4096;
const MOST_PROGRAMS: usize = 256;
/// Limit on the commands that rules are held against. One is enough for a question.
const MOST_COMMANDS: usize = 256;

/// Whether the texts of a tool's input are looked at, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Texts {
    /// They may be commands.
    Judged,
    /// They are for a model or a person: a tool that is known.
    Prose,
}

/// The commands that an input seems to hold.
pub(super) fn found(input: &Value, texts: Texts) -> Vec<String> {
    let mut commands = Vec::new();
    match input {
        Value::Object(fields) => in_fields(fields, &mut commands),
        // No agent's own tool has such an input; a text or a list of words is all that it is told.
        Value::String(_) | Value::Array(_) => commands.extend(joined(input)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    if commands.is_empty() && texts == Texts::Judged {
        commands.extend(by_form(input));
    }
    commands
}

fn in_fields(fields: &Map<String, Value>, commands: &mut Vec<String>) {
    commands.extend(with_arguments(fields));
    for (name, value) in fields {
        if commands.len() >= MOST_COMMANDS {
            return;
        }
        match joined(value).filter(|_| holds_command(name)) {
            Some(command) => commands.push(command),
            None => below(value, commands),
        }
    }
}

fn below(value: &Value, commands: &mut Vec<String>) {
    match value {
        Value::Object(fields) => in_fields(fields, commands),
        Value::Array(values) => {
            for value in values {
                if commands.len() >= MOST_COMMANDS {
                    return;
                }
                below(value, commands);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A program and its arguments that are fields side by side: rules are held against both together.
fn with_arguments(fields: &Map<String, Value>) -> Option<String> {
    let of = |names: &[&str]| {
        fields
            .iter()
            .find(|(name, _)| names.contains(&words(name).concat().as_str()))
            .and_then(|(_, value)| joined(value))
    };
    let program = of(&["program", "command", "cmd", "executable", "binary", "path", "file"])?;
    Some(format!("{program} {}", of(&["args", "arguments", "argv", "params", "parameters"])?))
}

/// All texts of a value, as one line; `None` without any.
fn joined(value: &Value) -> Option<String> {
    let mut texts = Vec::new();
    collect(value, &mut texts);
    let texts: Vec<&str> = texts.into_iter().filter(|text| !text.trim().is_empty()).collect();
    (!texts.is_empty()).then(|| texts.join(" "))
}

fn collect<'a>(value: &'a Value, texts: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(values) => values.iter().for_each(|value| collect(value, texts)),
        Value::Object(fields) => fields.values().for_each(|value| collect(value, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn holds_command(name: &str) -> bool {
    let words = words(name);
    let whole = words.concat();
    words.iter().any(|word| ANYWHERE.contains(&word.as_str()))
        || ANYWHERE.contains(&whole.as_str())
        || WHOLE.contains(&whole.as_str())
}

/// The words of a field's name, in lower case: `shellCommand`, `shell-command` and `SHELL_COMMAND` have the same two.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || (c.is_uppercase() && was_lower) {
            words.push(String::new());
        }
        was_lower = c.is_lowercase() || c.is_numeric();
        if c.is_alphanumeric() {
            words.last_mut().into_iter().for_each(|word| word.extend(c.to_lowercase()));
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// A text that reads as a line for a shell: a program of this host with an option, a path or a shell's operator behind it.
/// Prose begins with such a word as well (`find`, `test`), and rarely goes on like that.
fn by_form(input: &Value) -> Option<String> {
    let mut texts = Vec::new();
    collect(input, &mut texts);
    let mut known = BTreeMap::new();
    let too_many = texts.len() > MOST_TEXTS;
    let found = texts.into_iter().take(MOST_TEXTS).find(|text| is_line(text, &mut known));
    match found {
        Some(text) => Some(text.to_owned()),
        None if too_many || known.len() >= MOST_PROGRAMS => Some(String::from("more texts than are looked at")),
        None => None,
    }
}

fn is_line<'a>(text: &'a str, known: &mut BTreeMap<&'a str, bool>) -> bool {
    // What follows an operator is a command of its own.
    let commands = text.split(['\n', ';', '|', '&', '(', ')', '{', '}', '`']);
    let has_operator = ["&&", "||", "$(", "`", "| ", ";", ">", "<<"].iter().any(|operator| text.contains(operator));
    commands.into_iter().any(|command| {
        let mut words = command.split_whitespace().skip_while(|word| is_assignment(word)).peekable();
        let Some(program) = words.peek().copied() else { return false };
        let is_marked = has_operator
            || words.skip(1).any(|word| {
                let is_option = word.starts_with('-') && word.len() > 1 && !word.starts_with("---");
                is_option || word.contains('/') || word.contains('$') || word.contains('*')
            });
        is_marked && is_program(program, known)
    })
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
}

/// Whether a word names a program of this host. More than can be searched for count as such.
fn is_program<'a>(word: &'a str, known: &mut BTreeMap<&'a str, bool>) -> bool {
    if BUILT_IN.contains(&word) {
        return true;
    }
    if word.contains('/') {
        return Path::new(word).is_absolute() && Path::new(word).is_file();
    }
    if known.len() >= MOST_PROGRAMS {
        return false;
    }
    *known.entry(word).or_insert_with(|| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|directory| directory.join(word).is_file())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn commands_are_found_at_any_depth_and_by_odd_names() {
        for (input, expected) in [
            (json!({ "args": { "cmd": "rm -rf x" } }), "rm -rf x"),
            (json!({ "script": "x" }), "x"),
            (json!({ "a": [{ "b": { "shellCommand": ["rm", "x"] } }] }), "rm x"),
            (json!({ "command": { "program": "rm", "rest": ["x"] } }), "rm x"),
            (json!({ "Run-Script": "x" }), "x"),
            (json!({ "EXEC_ARGS": "x" }), "x"),
            (json!({ "c.m.d": "rm", "cmd": "x" }), "x"),
            (json!({ "code": "import os" }), "import os"),
            (json!("rm x"), "rm x"),
            (json!(["rm", "x"]), "rm x"),
            // By the form of the text.
            (json!({ "q": "ls -l /etc" }), "ls -l /etc"),
            (json!({ "deep": [{ "er": "A=b sh -c x" }] }), "A=b sh -c x"),
            (json!({ "q": "true; x" }), "true; x"),
            (json!({ "q": "hello && ls" }), "hello && ls"),
            (json!({ "q": "/bin/sh -x" }), "/bin/sh -x"),
        ] {
            assert!(found(&input, Texts::Judged).iter().any(|found| found == expected), "{input}");
        }
        assert!(found(&json!({ "q": "ls -l" }), Texts::Prose).is_empty());
        assert_eq!(found(&json!({ "cmd": "ls" }), Texts::Prose), ["ls"]);
        let both = found(&json!({ "args": ["push"], "command": "git" }), Texts::Prose);
        assert_eq!(both, ["git push", "push", "git"]);
    }

    #[test]
    fn prose_and_data_are_no_commands() {
        for input in [
            json!({ "prompt": "find the test that fails, and say why", "shell": true }),
            json!({ "query": "sort of a test" }),
            json!({ "country_code": "de", "status-code": "x", "description": "Use --force with care" }),
            json!({ "path": "/etc/passwd", "limit": 5 }),
            json!({ "todos": [{ "content": "write docs", "status": "open" }] }),
            json!({ "command": null, "cmd": "", "args": {} }),
            json!({}),
            json!(null),
        ] {
            assert!(found(&input, Texts::Judged).is_empty(), "{input}");
        }
    }

    #[test]
    fn an_input_that_is_too_large_to_be_read_counts_as_a_command() {
        let many: Vec<String> = (0..=MOST_TEXTS).map(|number| format!("text {number}")).collect();
        assert!(!found(&json!({ "rows": many }), Texts::Judged).is_empty());
        let commands: Vec<Value> = (0..10_000).map(|number| json!({ "cmd": format!("x{number}") })).collect();
        assert_eq!(found(&json!({ "rows": commands }), Texts::Judged).len(), MOST_COMMANDS);
        let programs = (0..=MOST_PROGRAMS).map(|number| format!("no-program-{number} -x")).collect::<Vec<_>>();
        assert!(!found(&json!({ "rows": programs }), Texts::Judged).is_empty());
    }

    proptest! {
        /// However a command is wrapped, its field is found.
        #[test]
        fn wrapping_hides_nothing(outer in prop::collection::vec(("[a-z]{1,6}", any::<bool>()), 0..20), line in "[a-z]{1,9}") {
            let mut input = json!({ "cmd": line });
            for (name, in_list) in outer {
                input = if in_list { json!({ name: [1, input] }) } else { json!({ name: input, "other": "x" }) };
            }
            prop_assert!(found(&input, Texts::Prose).iter().any(|found| found.contains(&line)));
        }

        #[test]
        fn any_text_is_looked_at(text in any::<String>()) {
            let _ = found(&json!({ text.clone(): text }), Texts::Judged);
        }
    }
}
