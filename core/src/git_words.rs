//! Whether the words of a `git` command select another repository or name a program.

use stockade_protocol::{GitOption, GitOptionEffect, Word};

/// Options of subcommands that name a program, settings or a repository. `git` accepts their abbreviations as well.
const TELLING: &[&str] = &[
    "--receive-pack",
    "--upload-pack",
    "--exec",
    "--extcmd",
    "--open-files-in-pager",
    "--template",
    "--config",
    "--separate-git-dir",
    "--reference",
    "--reference-if-able",
    "--strategy",
    "--tool",
];

/// Subcommands that run given programs, or change which programs later ones run.
const RUNNING: &[&str] = &[
    "bisect",
    "config",
    "daemon",
    "difftool",
    "filter-branch",
    "for-each-repo",
    "hook",
    "init",
    "mergetool",
    "remote-ext",
    "remote-fd",
    "shell",
    "submodule",
    "worktree",
];

/// Subcommands whose `-u` names no program.
const WITH_PLAIN_U: &[&str] = &["add", "branch", "commit", "push", "status"];

/// Whether they do neither, as far as they are known.
pub(crate) fn are_harmless(words: &[Word]) -> bool {
    let Some(words) = words.iter().map(|word| word.known()?.as_str()).collect::<Option<Vec<&str>>>() else {
        return false;
    };
    let Some((program, rest)) = words.split_first() else { return false };
    let own = program.rsplit('/').next().unwrap_or_default().strip_prefix("git-");
    let globals = if own.is_some() { 0 } else { rest.iter().take_while(|word| word.starts_with('-')).count() };
    let (globals, rest) = rest.split_at(globals);
    let (subcommand, rest) = match own {
        Some(name) => (name, rest),
        None => rest.split_first().map_or(("", rest), |(name, rest)| (*name, rest)),
    };
    let is_harmless =
        |word: &&str| GitOption::read(word).is_some_and(|option| option.effect == GitOptionEffect::Nothing);
    globals.iter().all(is_harmless)
        && !RUNNING.contains(&subcommand)
        && !rest.iter().any(|word| is_telling(subcommand, word))
}

fn is_telling(subcommand: &str, word: &str) -> bool {
    let (name, value) = word.split_once('=').unwrap_or((word, word));
    if [word, value].into_iter().any(names_transport) {
        return true;
    }
    if name.starts_with("--") {
        return name.len() > 2 && TELLING.iter().any(|option| option.starts_with(name));
    }
    let Some(letters) = word.strip_prefix('-') else { return false };
    letters.contains(['x', 'O'])
        || (letters.contains('u') && !WITH_PLAIN_U.contains(&subcommand))
        || (letters.contains('c') && subcommand == "clone")
}

/// `file:…`, or `helper::…`, which runs a program of that name.
fn names_transport(word: &str) -> bool {
    let helper = word.split_once("::").map(|(helper, _)| helper);
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "+-._".contains(c));
    word.to_ascii_lowercase().starts_with("file:") || helper.is_some_and(is_name)
}
