//! Git with more than its caller has: only in a repository whose settings and hooks no command can write or replace,
//! which it is told by its variables instead of finding it.
//!
//! [`has_writable_repository`] judges what is there. Commands run on while the program starts, so what is not there
//! counts as well, wherever they could put it: a repository in a directory between, a path that settings name, or a
//! word that becomes the path of a repository.

use std::fs;
use std::path::{Path, PathBuf};

use stockade_protocol::RawText;
use stockade_sandboxing::StartCopy;

use super::judge::base_name;
use super::rule_grant::RuleGrant;
use super::trusted::Variables;
use crate::places::is_commands_own;
use crate::session::Session;
use crate::writable_repository::{has_writable_repository, user_settings};

/// Submodules have repositories of their own, in directories that commands write.
const SETTINGS: [(&str, &str); 3] =
    [("fetch.recurseSubmodules", "no"), ("push.recurseSubmodules", "no"), ("submodule.recurse", "false")];

/// Keys of settings whose value is always a path.
const PATH_KEYS: [&str; 5] = ["attributesfile", "excludesfile", "hookspath", "path", "worktree"];

/// Keys whose value is an address or the name of a remote, and otherwise the path of a repository.
const ADDRESS_KEYS: [&str; 5] = ["pushdefault", "pushremote", "pushurl", "remote", "url"];

/// Subcommands whose first word is a repository, and whose other words are none.
const WITH_REMOTE: [&str; 4] = ["fetch", "ls-remote", "pull", "push"];

/// The most of a file of settings that is read.
const MOST_BYTES: u64 = 1024 * 1024;

/// Checks a start of git, and gives the variables that hold it to its repository. Other programs have none.
pub(super) fn check(session: &Session, copy: &StartCopy, cwd: &Path, grant: &RuleGrant) -> Result<Variables, String> {
    let name = base_name(copy.given.as_raw());
    if name.as_bytes() != b"git" && !name.as_bytes().starts_with(b"git-") {
        return Ok(Variables::new());
    }
    if let Some(file) = user_settings(session).iter().find(|file| text_of(file).is_none_or(|text| rewrites(&text))) {
        return Err(format!("`{}` rewrites addresses (`insteadOf`) or includes other settings", shown(file)));
    }
    if has_writable_repository(session, &copy.cwd, &grant.line) {
        let why = "commands may write its repository, its settings, or what its words name, or the settings rewrite \
                   addresses (`insteadOf`)";
        return Err(String::from(why));
    }
    let top = cwd.ancestors().find(|directory| directory.join(".git").symlink_metadata().is_ok());
    let Some(top) = top else {
        return Err(String::from("there is no repository around its directory, and commands could make one"));
    };
    // A directory above that commands write could be renamed, and another put there.
    if top.parent().is_none_or(|above| is_commands_own(session, above)) {
        return Err(format!("commands could replace the repository in `{}`", shown(top)));
    }
    let directory = directory_of(top).ok_or("its repository can't be read")?;
    let settings = [directory.join("config"), directory.join("config.worktree")];
    let texts: Vec<(PathBuf, String)> = settings
        .into_iter()
        .map(|file| text_of(&file).map(|text| (file, text)))
        .collect::<Option<_>>()
        .ok_or("its settings can't be read")?;
    for (file, text) in &texts {
        if rewrites(text) {
            return Err(String::from("its repository rewrites addresses (`insteadOf`) or includes other settings"));
        }
        if let Some(path) = path_of_commands(session, file, text, top) {
            return Err(format!("its settings name `{path}`, where commands write"));
        }
    }
    let words: Vec<&RawText> = copy.words.iter().skip(1).collect();
    check_words(&words, texts.iter().map(|(_, text)| text.as_str()), name.as_bytes() == b"git")?;
    let text = |path: &Path| path.to_str().map(RawText::from).ok_or("its repository's path is no text");
    let mut variables = vec![
        (RawText::from("GIT_DIR"), text(&top.join(".git"))?),
        (RawText::from("GIT_WORK_TREE"), text(top)?),
        (RawText::from("GIT_CONFIG_COUNT"), RawText::from(SETTINGS.len().to_string().as_str())),
    ];
    for (number, (key, value)) in SETTINGS.iter().enumerate() {
        variables.push((RawText::from(format!("GIT_CONFIG_KEY_{number}").as_str()), RawText::from(*key)));
        variables.push((RawText::from(format!("GIT_CONFIG_VALUE_{number}").as_str()), RawText::from(*value)));
    }
    Ok(variables)
}

/// Whether settings turn an address into another one, or may do so in another file. A group of remotes is one of
/// addresses, too.
fn rewrites(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    ["insteadof", "[include", "[remotes"].iter().any(|found| text.contains(found))
}

fn shown(path: &Path) -> RawText {
    RawText::from(path.to_string_lossy().as_ref())
}

/// The directory with the settings of a working tree's repository.
fn directory_of(top: &Path) -> Option<PathBuf> {
    let found = top.join(".git");
    if found.is_dir() {
        return Some(found);
    }
    let own = top.join(text_of(&found)?.strip_prefix("gitdir:")?.trim());
    match text_of(&own.join("commondir"))? {
        common if common.is_empty() => Some(own),
        common => Some(own.join(common.trim_end())),
    }
}

/// The text of a small file; empty if there is none.
fn text_of(path: &Path) -> Option<String> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() <= MOST_BYTES => fs::read_to_string(path).ok(),
        Ok(_) => None,
        Err(error) => (error.kind() == std::io::ErrorKind::NotFound).then(String::new),
    }
}

/// A path in settings that commands write, or could make.
fn path_of_commands(session: &Session, file: &Path, text: &str, top: &Path) -> Option<RawText> {
    let lines = text.lines().map(|line| line.rsplit_once(']').map_or(line, |(_, rest)| rest));
    let pairs = lines.filter_map(|line| line.split_once('='));
    let found = pairs.flat_map(|(key, value)| {
        let key = key.trim().to_ascii_lowercase();
        let words = value.split(|c: char| c.is_whitespace() || "\"';!".contains(c));
        words.map(move |word| (key.clone(), word)).collect::<Vec<_>>()
    });
    let bases = [Some(top), file.parent()];
    let is_theirs = |word: &str| bases.iter().flatten().any(|base| is_commands_own(session, &base.join(word)));
    let is_path = |key: &str, word: &str| {
        let is_address = || (word.contains("://") && !is_local(word)) || is_short_address(word);
        let is_remote = || text.lines().any(|line| line.trim() == format!("[remote \"{word}\"]"));
        PATH_KEYS.contains(&key)
            || looks_like_path(word)
            || (ADDRESS_KEYS.contains(&key) && !is_address() && !is_remote())
    };
    found
        .into_iter()
        .find(|(key, word)| !word.is_empty() && is_path(key, word) && is_theirs(word))
        .map(|(_, word)| RawText::from(word))
}

fn looks_like_path(word: &str) -> bool {
    let word = word.strip_prefix("file://").unwrap_or(word);
    let is_reference = word.trim_start_matches('+').starts_with("refs/") || word.starts_with('^');
    let is_remote = word.contains("://") || is_short_address(word);
    (word.contains('/') || word.starts_with(['.', '~'])) && !is_reference && !is_remote
}

fn is_local(address: &str) -> bool {
    address.to_ascii_lowercase().starts_with("file:")
}

/// `user@host:path`: a colon before any slash, as git tells it from a path.
fn is_short_address(word: &str) -> bool {
    // `file:///x` names a path, and `ext::x` a program.
    if word.contains("://") || word.contains("::") {
        return false;
    }
    let colon = word.find(':');
    colon.is_some_and(|colon| colon > 0 && word.find('/').is_none_or(|slash| colon < slash))
}

/// Words that git would take for the path of a repository if there were one.
fn check_words<'a>(
    words: &[&RawText],
    settings: impl Iterator<Item = &'a str> + Clone,
    has_subcommand: bool,
) -> Result<(), String> {
    let mut plain = words.iter().map(|word| word.as_str()).map(|word| word.ok_or("a word is no text"));
    let mut subcommand = "";
    if has_subcommand {
        subcommand = plain.next().transpose()?.unwrap_or_default();
    }
    let is_remote = |word: &str| {
        let heading = format!("[remote \"{word}\"]");
        (word.contains("://") && !is_local(word))
            || is_short_address(word)
            || settings.clone().any(|text| text.lines().any(|line| line.trim() == heading))
    };
    let mut position = 0;
    for word in plain {
        let word = word?;
        if word.starts_with("--recurse") || word.starts_with("--repo") {
            return Err(format!("its option `{}` leads to other repositories", RawText::from(word)));
        }
        if word.starts_with('-') {
            continue;
        }
        position += 1;
        let may_be_anything = position > 1 && WITH_REMOTE.contains(&subcommand);
        if !may_be_anything && !is_remote(word) {
            return Err(format!(
                "`{}` is no remote of its repository, and commands could make one of that name",
                RawText::from(word)
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_remote_or_could_become_a_path() {
        let settings = ["[core]\n\tbare = false\n[remote \"origin\"]\n\turl = x\n"];
        let check = |words: &[&str]| {
            let words: Vec<RawText> = words.iter().map(|word| RawText::from(*word)).collect();
            check_words(&words.iter().collect::<Vec<_>>(), settings.into_iter(), true).is_ok()
        };
        for words in [
            &["push"][..],
            &["push", "origin"],
            &["push", "-q", "origin", "main:other", "HEAD"],
            &["fetch", "https://host.test/x"],
            &["push", "git@host.test:x/y", "main"],
        ] {
            assert!(check(words), "{words:?}");
        }
        for words in [
            &["push", "late"][..],
            &["push", "./late"],
            &["push", "file:///x"],
            &["push", "FILE:///x"],
            &["push", "ext::sh -c x"],
            &["push", "/x:y"],
            &["push", "--recurse-submodules=on-demand", "origin"],
            &["push", "--repo=late"],
            &["clone", "origin", "x"],
            &["status", "x"],
        ] {
            assert!(!check(words), "{words:?}");
        }
    }

    #[test]
    fn settings_that_rewrite_addresses_are_seen() {
        for text in [
            "[url \"ev.git\"]\n\tinsteadOf = foo:\n",
            "[URL \"x\"] PUSHINSTEADOF=foo:\n",
            "[include]\n\tpath = x\n",
            "[includeIf \"gitdir:/x\"]\n\tpath = x\n",
            "[remotes]\n\tgroup = ev.git\n",
        ] {
            assert!(rewrites(text), "{text}");
        }
        assert!(!rewrites("[core]\n\tbare = false\n[remote \"origin\"]\n\turl = x\n"));
    }

    #[test]
    fn values_of_settings_are_paths_references_or_addresses() {
        for path in ["../x", ".husky", "~/x", "a/b", "/x", "file:///x"] {
            assert!(looks_like_path(path), "{path}");
        }
        for other in [
            "+refs/heads/*:refs/remotes/origin/*",
            "refs/heads/main",
            "https://h.test/x",
            "git@h.test:x/y",
            "main",
            "true",
        ] {
            assert!(!looks_like_path(other), "{other}");
        }
    }
}
