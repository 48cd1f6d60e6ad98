//! The commands that `git` can be told to run by its arguments.
//!
//! Programs that the repository's configuration names (aliases, pagers, hooks) are not covered, like the internals of
//! any program. Settings given in the line, and subcommands and options that take a command, are.

use stockade_protocol::{GitOption, GitOptionEffect, Word};

use super::runners::{joined, operands, text, values_of, words_from};
use super::{Inside, Started};

const RUNS_COMMANDS: &str = "`git` may run a command that it is given";

/// Configuration sections that name no program.
const HARMLESS_SECTIONS: [&str; 4] = ["user.", "color.", "advice.", "column."];

/// Subcommands that take a command, or a setting that may contain one.
const COMMANDS: [&str; 15] = [
    "bisect",
    "config",
    "daemon",
    "difftool",
    "filter-branch",
    "for-each-repo",
    "hook",
    "instaweb",
    "mergetool",
    "rebase",
    "remote-ext",
    "remote-fd",
    "send-email",
    "shell",
    "submodule",
];

/// Prefixes of long options that take a command (`git` accepts unambiguous abbreviations), with their subcommands.
const OPTIONS: [(&str, &[&str]); 5] = [
    ("--ex", &["archive", "fetch-pack", "pull", "push", "send-pack"]),
    ("--op", &["grep"]),
    ("--rec", &["push", "send-pack", "clone"]),
    ("--up", &["clone", "fetch", "fetch-pack", "ls-remote", "pull", "remote"]),
    ("--co", &["clone"]),
];

/// The commands that `git` starts with these arguments.
pub(super) fn look(rest: &[Word]) -> Inside {
    let inside = Inside::runs(seen(rest));
    if is_followed(rest) { inside } else { inside.opaque(RUNS_COMMANDS) }
}

/// Whether no argument can be a command.
fn is_followed(rest: &[Word]) -> bool {
    let mut words = rest.iter();
    let subcommand = loop {
        let Some(word) = words.next() else { return true };
        let Some(text) = word.as_str() else { return false };
        if !text.starts_with('-') {
            break text;
        }
        let Some(option) = GitOption::read(text) else { return false };
        let takes_next = match option.effect {
            GitOptionEffect::Settings => {
                let setting = if text == "-c" { words.next().and_then(Word::as_str) } else { None };
                let is_harmless = |setting: &str| HARMLESS_SECTIONS.iter().any(|section| setting.starts_with(section));
                if !setting.is_some_and(is_harmless) {
                    return false;
                }
                false
            }
            GitOptionEffect::Place | GitOptionEffect::Nothing => option.takes_next,
        };
        if takes_next && words.next().is_none_or(|word| word.known().is_none()) {
            return false;
        }
    };
    let arguments: Option<Vec<&str>> = words.map(Word::as_str).collect();
    match arguments {
        Some(arguments) => takes_no_command(subcommand, &arguments),
        // An unknown argument may be any option.
        None => !COMMANDS.contains(&subcommand) && !OPTIONS.iter().any(|(_, known)| known.contains(&subcommand)),
    }
}

fn takes_no_command(subcommand: &str, arguments: &[&str]) -> bool {
    let has_option = |beginning: &str| arguments.iter().any(|word| word.starts_with(beginning));
    let harmless = match subcommand {
        "bisect" => !arguments.contains(&"run"),
        "submodule" => !arguments.contains(&"foreach") && !has_option("--up"),
        // One operand reads a setting.
        "config" => arguments.iter().filter(|word| !word.starts_with('-')).count() < 2 && !has_option("-e"),
        "rebase" => !has_option("--ex") && !arguments.iter().any(|word| is_cluster_with(word, 'x')),
        "grep" => !arguments.iter().any(|word| is_cluster_with(word, 'O')),
        "clone" => !arguments.iter().any(|word| is_cluster_with(word, 'u') || is_cluster_with(word, 'c')),
        _ => !COMMANDS.contains(&subcommand),
    };
    let options = OPTIONS.iter().filter(|(_, known)| known.contains(&subcommand));
    // `ext::command` is an address whose command is run.
    let has_command_address = arguments.iter().any(|word| word.contains("ext::"));
    harmless && !has_command_address && !options.map(|(beginning, _)| *beginning).any(has_option)
}

fn is_cluster_with(word: &str, letter: char) -> bool {
    word.strip_prefix('-').is_some_and(|letters| !letters.starts_with('-') && letters.contains(letter))
}

/// The commands that can be identified.
fn seen(rest: &[Word]) -> Vec<Started> {
    let mut starts = Vec::new();
    for word in rest {
        // `-c alias.x='!command'`
        let alias = word.as_str().and_then(|text| text.split_once("=!")).filter(|(key, _)| key.contains("alias."));
        starts.extend(alias.and_then(|(_, body)| text(&Word::from(body), "git alias")));
    }
    let verb = |names: [&str; 2]| {
        rest.windows(2).position(|pair| {
            let texts: Vec<_> = pair.iter().map(Word::as_str).collect();
            texts == [Some(names[0]), Some(names[1])]
        })
    };
    if let Some(at) = verb(["submodule", "foreach"]) {
        starts.extend(joined(operands(rest.get(at + 2..).unwrap_or_default(), ""), "git submodule foreach"));
    }
    if let Some(at) = verb(["bisect", "run"]) {
        starts.extend(words_from(rest.iter().skip(at + 2), "git bisect run"));
    }
    if rest.iter().any(|word| matches!(word.as_str(), Some("rebase" | "difftool"))) {
        starts.extend(values_of(rest, &["--exec", "--extcmd", "-x"], "git -x"));
    }
    starts
}
