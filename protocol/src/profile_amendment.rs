//! A permission profile to be saved after "always" at a question about a write, and the text of its file.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::raw_text::is_deceptive;
use crate::{AbsPath, Argv, RawText};

/// A permission profile to be saved: exactly this command, in exactly this workspace, may write these paths from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileAmendment {
    /// The new file, among the user's profiles.
    pub file: AbsPath,
    /// The command, to the last word.
    pub command: Argv,
    /// The directories of the workspace.
    pub workspace: Vec<AbsPath>,
    /// What may be written: each of these and everything below it, but for what stays protected there.
    pub write: Vec<AbsPath>,
}

impl ProfileAmendment {
    /// The whole text of the file; `None` if a word or a path can't be written in it as it is.
    ///
    /// ```
    /// # use stockade_protocol::{Argv, ProfileAmendment};
    /// let amendment = ProfileAmendment {
    ///     file: "/home/me/.config/stockade/profiles/saved-npm-1.toml".parse()?,
    ///     command: Argv::parse(["npm", "ci"])?,
    ///     workspace: vec!["/home/me/app".parse()?],
    ///     write: vec!["/home/me/.npm".parse()?],
    /// };
    /// assert!(amendment.text().unwrap().contains("command = [\"npm\", \"ci\"]\n"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn text(&self) -> Option<String> {
        let command = list(self.command.words())?;
        let workspace = list(self.workspace.iter().map(AbsPath::as_raw))?;
        let mut text = String::from("about = \"Saved by an answer to a question.\"\n\n[[used_for]]\n");
        // Writing to a string can't fail.
        write!(text, "command = [{command}]\nworkspace = [{workspace}]\n").ok()?;
        for path in &self.write {
            // Paths of profiles are templates.
            let path = path.as_raw();
            if path.as_bytes().contains(&b'$') {
                return None;
            }
            write!(text, "\n[[write]]\npath = {}\nreason = \"It was asked for, and always allowed.\"\n", string(path)?)
                .ok()?;
        }
        Some(text)
    }
}

fn list<'a>(words: impl IntoIterator<Item = &'a RawText>) -> Option<String> {
    Some(words.into_iter().map(string).collect::<Option<Vec<String>>>()?.join(", "))
}

/// A basic string of TOML. Control, invisible and bidirectional characters are not written: what is shown
/// before it is saved has to be what is saved.
fn string(word: &RawText) -> Option<String> {
    let word = word.as_str()?;
    let is_shown = |c: char| !c.is_control() && !is_deceptive(c);
    word.chars().all(is_shown).then(|| format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amendment(word: &str, path: &str) -> ProfileAmendment {
        ProfileAmendment {
            file: "/p/saved.toml".parse().unwrap(),
            command: Argv::parse(["npm", word]).unwrap(),
            workspace: vec!["/ws".parse().unwrap()],
            write: vec![path.parse().unwrap()],
        }
    }

    #[test]
    fn quotes_are_escaped_and_what_is_not_shown_as_it_is_is_not_written() {
        let text = amendment(r#"a"]\ b"#, "/home/me/x y").text().unwrap();
        assert!(
            text.contains(r#"command = ["npm", "a\"]\\ b"]"#) && text.contains("path = \"/home/me/x y\""),
            "{text}"
        );
        for (word, path) in [
            ("a\nb", "/x"),
            ("\u{1b}[8m", "/x"),
            ("\u{202e}", "/x"),
            ("\u{61c}", "/x"),
            ("a", "/x/\u{a0}"),
            ("a", "/x/\u{e0041}"),
            ("a", "/x/$HOME"),
        ] {
            assert_eq!(amendment(word, path).text(), None, "{word:?} {path}");
        }
    }
}
