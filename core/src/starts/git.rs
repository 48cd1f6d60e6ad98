//! Git with more than its caller has: only in a repository whose settings and hooks no command can write or replace,
//! which it is told by its variables instead of finding it.
//!
//! [`why_git_is_steered`] judges the repository, its settings and the user's, and the words. Commands run on while the
//! program starts, so what is not there counts as well, wherever they could put it: here a repository in a directory
//! between, and a word that becomes a path.

use std::path::Path;

use stockade_protocol::RawText;
use stockade_sandboxing::StartCopy;

use super::judge::base_name;
use super::rule_grant::RuleGrant;
use super::trusted::Variables;
use crate::places::is_commands_own;
use crate::session::Session;
use crate::writable_repository::{connects, is_address, subcommand, why_git_is_steered};

/// Submodules have repositories of their own, in directories that commands write.
const SETTINGS: [(&str, &str); 3] =
    [("fetch.recurseSubmodules", "no"), ("push.recurseSubmodules", "no"), ("submodule.recurse", "false")];

/// Checks a start of git, and gives the variables that hold it to its repository. Other programs have none.
pub(super) fn check(session: &Session, copy: &StartCopy, cwd: &Path, grant: &RuleGrant) -> Result<Variables, String> {
    let name = base_name(copy.given.as_raw());
    if name.as_bytes() != b"git" && !name.as_bytes().starts_with(b"git-") {
        return Ok(Variables::new());
    }
    if let Some(why) = why_git_is_steered(session, &copy.cwd, &grant.line) {
        return Err(why);
    }
    let top = cwd.ancestors().find(|directory| directory.join(".git").symlink_metadata().is_ok());
    let Some(top) = top else {
        return Err(String::from("there is no repository around its directory, and commands could make one"));
    };
    // A directory above that commands write could be renamed, and another put there.
    if top.parent().is_none_or(|above| is_commands_own(session, above)) {
        let shown = RawText::from(top.to_string_lossy().as_ref());
        return Err(format!("commands could replace the repository in `{shown}`"));
    }
    let words: Option<Vec<String>> = copy.words.iter().skip(1).map(|word| Some(word.as_str()?.to_owned())).collect();
    check_words(name.as_str().unwrap_or_default(), &words.ok_or("a word is no text")?)?;
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

/// Words that git could take for the path of a repository or a file, if there were one. Those of subcommands that
/// connect were judged with their options.
fn check_words(program: &str, words: &[String]) -> Result<(), String> {
    let (subcommand, rest) = subcommand(program, words)?;
    if connects(subcommand) {
        return Ok(());
    }
    for word in rest {
        if word.starts_with("--recurse") || word.starts_with("--repo") {
            return Err(format!("its option `{}` leads to other repositories", RawText::from(word.as_str())));
        }
        if !word.starts_with('-') && !is_address(word) {
            return Err(format!(
                "`{}` may be a path to `git {subcommand}`, and commands could make a repository there",
                RawText::from(word.as_str())
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_other_subcommands_could_become_a_path() {
        let check = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            check_words("git", &words).is_ok()
        };
        for words in [&["status"][..], &["commit", "--amend", "--no-edit"], &["--no-pager", "log"], &["push", "origin"]]
        {
            assert!(check(words), "{words:?}");
        }
        for words in [
            &["clone", "origin", "x"][..],
            &["status", "x"],
            &["commit", "-m", "x"],
            &["a/b"],
            &["-C", "x", "push"],
            &["checkout", "--recurse-submodules"],
        ] {
            assert!(!check(words), "{words:?}");
        }
    }
}
