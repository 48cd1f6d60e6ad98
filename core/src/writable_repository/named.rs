//! What the settings of `git` name: programs, hooks, files and repositories. None of it may be where commands write.

use std::path::Path;

use super::command_lines::{is_steered_program, steered_word};
use super::places::Places;
use super::remotes::{is_address, is_rewritten_to_address};
use super::settings::Setting;

/// Which settings a subcommand uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It connects, and neither shows anything, checks files out nor merges them.
    Transport,
    Anything,
}

/// The meaning of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// Nothing that is run, or read for more than its content.
    Nothing,
    /// A command line for the shell.
    Command,
    /// A command line that [`Use::Transport`] does not run.
    LocalCommand,
    /// A program, without arguments.
    Program,
    CredentialHelper,
    Path,
    Address,
    /// The other name of the addresses in its subsection.
    Rewriting,
    /// A group of remotes.
    Group,
    Unknown,
}

/// Sections without programs, and without files that are more than data.
const PLAIN_SECTIONS: &[&str] = &[
    "advice",
    "author",
    "blame",
    "branch",
    "color",
    "column",
    "commit",
    "committer",
    "format",
    "gitflow",
    "gui",
    "include",
    "includeif",
    "log",
    "mailmap",
    "maintenance",
    "notes",
    "pretty",
    "push",
    "safe",
    "user",
];

/// Sections that only programs read which never run with more: `git mergetool`, `git help`, `git send-email`.
const TOOL_SECTIONS: &[&str] =
    &["alias", "browser", "difftool", "guitool", "instaweb", "man", "mergetool", "sendemail", "web"];

/// Ends of keys whose value is a command line.
const COMMAND_ENDS: &[&str] =
    &["args", "askpass", "clean", "cmd", "command", "driver", "hook", "process", "smudge", "textconv"];

/// Ends of keys whose value is a path.
const PATH_ENDS: &[&str] = &[
    "attributesfile",
    "cainfo",
    "capath",
    "dir",
    "file",
    "hookspath",
    "modulepath",
    "path",
    "sslcert",
    "sslkey",
    "storage",
    "worktree",
];

/// Why a setting leads to what commands may write.
pub(super) fn why_steered(places: &Places<'_>, setting: &Setting, used: Use) -> Option<String> {
    let named = steered_part(places, setting, used)?;
    let (name, file) = (setting.name(), setting.file.display());
    Some(match meaning(setting) {
        Meaning::Rewriting => format!("`{name}` in `{file}` (`insteadOf`) makes a path of an address: `{named}`"),
        Meaning::Group => format!("`{name}` in `{file}` is a group of remotes: name one remote"),
        Meaning::Nothing
        | Meaning::Command
        | Meaning::LocalCommand
        | Meaning::Program
        | Meaning::CredentialHelper
        | Meaning::Path
        | Meaning::Address
        | Meaning::Unknown => format!(
            "`{name}` in `{file}` names `{named}`, which commands may write or make: use an absolute path where they \
             can't, or remove the setting"
        ),
    })
}

fn steered_part(places: &Places<'_>, setting: &Setting, used: Use) -> Option<String> {
    let text = setting.text();
    let whole = |is_found: bool| is_found.then(|| text.to_owned());
    if text.is_empty() && meaning(setting) != Meaning::Rewriting {
        return None;
    }
    match meaning(setting) {
        Meaning::Nothing => None,
        Meaning::Command => steered_word(places, text),
        Meaning::LocalCommand if used == Use::Anything => steered_word(places, text),
        Meaning::LocalCommand | Meaning::Unknown => path_like_word(places, text),
        Meaning::Program => {
            let program = text.split_once(" for ").map_or(text, |(program, _)| program);
            let expanded = if program.starts_with('~') { places.expand(program) } else { Some(program.to_owned()) };
            whole(expanded.is_none_or(|program| is_steered_program(places, &program)))
        }
        Meaning::CredentialHelper => steered_helper(places, text),
        Meaning::Path => {
            let bases: Vec<_> = setting.file.parent().map(Path::to_owned).into_iter().collect();
            let beside =
                places.resolve(text, &bases).is_none_or(|paths| paths.iter().any(|p| places.may_be_planted(p)));
            whole(beside || places.leads_to_commands(text))
        }
        Meaning::Address => whole(!is_address(text) && leads_to_repository(places, text)),
        Meaning::Rewriting => {
            let base = setting.subsection.clone().unwrap_or_default();
            (!is_rewritten_to_address(&base)).then_some(base)
        }
        Meaning::Group => Some(text.to_owned()),
    }
}

fn meaning(setting: &Setting) -> Meaning {
    let key = setting.key.as_str();
    let ends = |ends: &[&str]| ends.iter().any(|end| key.ends_with(end));
    match (setting.section.as_str(), key) {
        ("url", _) => Meaning::Rewriting,
        ("remotes", _) => Meaning::Group,
        ("remote" | "submodule", "url") | ("remote", "pushurl") => Meaning::Address,
        ("remote", "receivepack" | "uploadpack") | ("core", "sshcommand") => Meaning::Command,
        // A helper's name, which git puts after `git-remote-`.
        ("remote", "vcs") => Meaning::Program,
        ("remote", _) => Meaning::Nothing,
        ("credential", "helper") => Meaning::CredentialHelper,
        ("core", "askpass" | "gitproxy") | (_, "program") | ("lfs", "path") => Meaning::Program,
        ("core", "fsmonitor") | ("pager", _) if is_truth(setting) => Meaning::Nothing,
        ("core", "fsmonitor" | "alternaterefscommand") | ("gpg", "defaultkeycommand") => Meaning::Command,
        ("core", "editor" | "pager") | ("sequence", "editor") | ("interactive", "difffilter") => Meaning::LocalCommand,
        ("pager", _) | ("diff", "external") | ("submodule", "update") => Meaning::LocalCommand,
        ("http", _) if !ends(PATH_ENDS) => Meaning::Nothing,
        ("core", "excludesfile") | ("diff", "orderfile") => Meaning::Nothing,
        (section, _) if PLAIN_SECTIONS.contains(&section) || TOOL_SECTIONS.contains(&section) => Meaning::Nothing,
        ("uploadpack" | "gc" | "hook", _) if ends(COMMAND_ENDS) => Meaning::Command,
        _ if ends(COMMAND_ENDS) => Meaning::LocalCommand,
        _ if ends(PATH_ENDS) => Meaning::Path,
        _ => Meaning::Unknown,
    }
}

fn is_truth(setting: &Setting) -> bool {
    setting.value.as_deref().is_none_or(|value| {
        let value = value.to_ascii_lowercase();
        matches!(value.as_str(), "" | "true" | "false" | "yes" | "no" | "on" | "off")
            || value.chars().all(|c| c.is_ascii_digit())
    })
}

/// `!COMMAND`, an absolute path with arguments, or what git puts after `git credential-`: a slash in it makes that a
/// relative path.
fn steered_helper(places: &Places<'_>, text: &str) -> Option<String> {
    let line = match text.strip_prefix('!') {
        Some(line) => line.to_owned(),
        None if Path::new(text).is_absolute() => text.to_owned(),
        None => format!("git-credential-{text}"),
    };
    steered_word(places, &line)
}

/// A repository's path, as git completes it.
fn leads_to_repository(places: &Places<'_>, text: &str) -> bool {
    // `helper::ADDRESS`; two helpers run what follows.
    if let Some((helper, rest)) = text.split_once("::").filter(|(helper, _)| !helper.contains('/')) {
        return matches!(helper, "ext" | "fd") || (!is_address(rest) && leads_to_repository(places, rest));
    }
    if let Some((scheme, _)) = text.split_once("://").filter(|(scheme, _)| !scheme.eq_ignore_ascii_case("file")) {
        return matches!(scheme, "ext" | "fd") || scheme.contains('/');
    }
    let path = match text.get(..7) {
        Some(start) if start.eq_ignore_ascii_case("file://") => text.get(7..).unwrap_or_default(),
        _ => text,
    };
    let path = path.trim_end_matches('/');
    let path = if path.is_empty() { "/" } else { path };
    let endings = ["", ".git", "/.git", ".git/.git"];
    endings.iter().any(|ending| places.leads_to_commands(&format!("{path}{ending}")))
}

/// A word that is written as a path, in the value of a setting that is not known.
fn path_like_word(places: &Places<'_>, text: &str) -> Option<String> {
    let words = text.split(|c: char| c.is_whitespace() || "\"'=!;".contains(c));
    let is_connection = |word: &str| {
        is_address(word) || word.split_once("://").is_some_and(|(scheme, _)| !scheme.eq_ignore_ascii_case("file"))
    };
    let is_path = |word: &str| {
        let is_reference = word.trim_start_matches('+').starts_with("refs/") || word.starts_with('^');
        (word.contains('/') || word.starts_with(['.', '~'])) && !is_reference && !is_connection(word)
    };
    words.into_iter().find(|word| is_path(word) && places.leads_to_commands(word)).map(str::to_owned)
}
