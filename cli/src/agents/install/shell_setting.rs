//! opencode's setting `shell`: the program that runs its lines, and a link to this program that can stand there.
//!
//! The link lies with the user's settings of opencode, also for the settings of a project, which its commands may write.
//! It stays after `--undo`: opencode takes `bash` where its shell is missing, and another settings file may name it.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::InstallError;
use super::json_text::{self, TextError};
use crate::agents::opencode::NAME;

const KEY: &str = "shell";

/// The user's directory of opencode's settings.
pub(super) fn user_directory() -> Result<PathBuf, InstallError> {
    let named = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let settings = match named {
        Some(settings) => settings,
        None => std::env::home_dir().ok_or(InstallError::NoHome { variable: "HOME" })?.join(".config"),
    };
    Ok(settings.join("opencode"))
}

/// The settings file in a directory. opencode reads both, and the second one counts more.
pub(super) fn file_in(directory: &Path) -> PathBuf {
    let with_comments = directory.join("opencode.jsonc");
    if with_comments.exists() { with_comments } else { directory.join("opencode.json") }
}

/// The shell that the settings name, as text; `None` if they name none.
fn named(text: &str) -> Result<Option<String>, TextError> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let Some(found) = json_text::member(text, &[KEY])? else { return Ok(None) };
    Ok(Some(serde_json::from_str(found).unwrap_or_else(|_| found.to_owned())))
}

fn is_ours(shell: &str) -> bool {
    Path::new(shell).file_name().is_some_and(|name| name == NAME)
}

/// Stockade's shell in the settings.
pub(super) fn found_in(text: &str) -> Result<Option<String>, TextError> {
    Ok(named(text)?.filter(|shell| is_ours(shell)))
}

/// The shell that the settings name, if it is another one.
pub(super) fn other_in(text: &str) -> Option<String> {
    named(text).ok().flatten().filter(|shell| !is_ours(shell))
}

/// The settings with Stockade's shell.
pub(super) fn added(text: &str, shell: &str) -> Result<String, TextError> {
    if let Some(other) = other_in(text) {
        return Err(TextError::Taken { key: KEY, value: other });
    }
    json_text::put(&removed(text)?, &[KEY], &json!(shell))
}

/// The settings without Stockade's shell.
pub(super) fn removed(text: &str) -> Result<String, TextError> {
    if found_in(text)?.is_none() { Ok(text.to_owned()) } else { json_text::take_out(text, KEY) }
}

/// Makes the link to this program, unless it is there.
pub(super) fn make_link(link: &Path) -> Result<(), InstallError> {
    if leads_here(link) {
        return Ok(());
    }
    let failed = |source| InstallError::System { act: "made", path: link.to_owned(), source };
    if fs::symlink_metadata(link).is_ok_and(|found| !found.is_symlink()) {
        return Err(failed(io::Error::from(io::ErrorKind::AlreadyExists)));
    }
    let program = std::env::current_exe().map_err(failed)?;
    if let Some(directory) = link.parent() {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    let new = link.with_file_name(format!("{NAME}.new-{}", std::process::id()));
    symlink(program, &new).map_err(failed)?;
    fs::rename(&new, link).map_err(|source| {
        // The link before stays.
        fs::remove_file(&new).ok();
        failed(source)
    })
}

/// Whether a file is this program.
pub(super) fn leads_here(file: &Path) -> bool {
    let own = std::env::current_exe().and_then(fs::canonicalize);
    matches!((fs::canonicalize(file), own), (Ok(found), Ok(own)) if found == own)
}

/// The shell that settings of the project in this directory name in place of Stockade's.
pub(super) fn overruled_by() -> Option<(PathBuf, String)> {
    let here = std::env::current_dir().ok()?;
    let files = ["opencode.json", "opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"];
    files.into_iter().map(|name| here.join(name)).find_map(|file| {
        let other = other_in(&fs::read_to_string(&file).ok()?)?;
        Some((file, other))
    })
}

/// What the settings say, apart from Stockade's shell.
pub(super) fn with_shell(mut settings: Value, shell: &str) -> Option<Value> {
    settings.as_object_mut()?.insert(String::from(KEY), json!(shell));
    Some(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHELL: &str = "/h/.config/opencode/stockade-opencode";

    #[test]
    fn the_shell_comes_and_goes_and_nothing_else_changes() {
        for before in [
            "{}\n",
            "{ \"model\": \"x\" }",
            "{\n  // which\n  \"model\": \"x\", /* all */\n  \"shells\": {\"shell\": 1}\n}\n",
        ] {
            let with = added(before, SHELL).unwrap();
            assert_eq!(found_in(&with).unwrap().as_deref(), Some(SHELL), "{with}");
            assert_eq!(removed(&with).unwrap(), if before == "{}\n" { "{}\n" } else { before }, "{with}");
            assert_eq!(added(&with, SHELL).unwrap(), with);
        }
        // opencode sorts its settings anew.
        let moved = format!("{{\n  \"shell\": \"{SHELL}\", // ours\n  \"model\": \"x\"\n}}");
        assert_eq!(removed(&moved).unwrap().replace(char::is_whitespace, ""), "{//ours\"model\":\"x\"}");
        assert_eq!(removed(&format!("{{\"shell\": \"{SHELL}\"}}")).unwrap(), "{}");
    }

    #[test]
    fn another_shell_is_not_overruled() {
        let taken = added("{\"shell\": \"/bin/zsh\"}", SHELL).unwrap_err();
        assert_eq!(taken, TextError::Taken { key: "shell", value: String::from("/bin/zsh") });
        assert_eq!(removed("{\"shell\": \"/bin/zsh\"}").unwrap(), "{\"shell\": \"/bin/zsh\"}");
        assert!(added("{\"shell\": 7}", SHELL).is_err());
        assert!(added("[", SHELL).is_err() && added("[]", SHELL).is_err());
    }
}
