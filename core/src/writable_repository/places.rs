//! Where paths in settings lead, and whether commands write there.

use std::path::{Path, PathBuf};

use stockade_protocol::RawText;

use crate::places::{is_commands_own, may_be_planted};
use crate::session::Session;

/// The directories that relative paths are resolved in.
pub(super) struct Places<'a> {
    session: &'a Session,
    /// The working tree's top, in which git starts programs, and the working directory.
    bases: Vec<PathBuf>,
    home: Option<PathBuf>,
}

impl<'a> Places<'a> {
    pub(super) fn new(session: &'a Session, bases: Vec<PathBuf>) -> Self {
        let variables = session.permissions.environment.apply(session.environment.clone());
        let home = variables.get(&RawText::from("HOME")).and_then(RawText::to_os_string);
        Self { session, bases, home: home.filter(|home| !home.is_empty()).map(PathBuf::from) }
    }

    pub(super) fn is_commands_own(&self, path: &Path) -> bool {
        is_commands_own(self.session, path)
    }

    /// Whether commands may write what a setting names, or it is another file to them than to `git`.
    pub(super) fn may_be_planted(&self, path: &Path) -> bool {
        path != Path::new("/dev/null") && may_be_planted(self.session, path)
    }

    /// The paths that a setting may mean by a text; `None` if that is unknown.
    pub(super) fn resolve(&self, text: &str, bases: &[PathBuf]) -> Option<Vec<PathBuf>> {
        let text = text.strip_prefix(":(optional)").unwrap_or(text);
        if let Some(rest) = text.strip_prefix('~') {
            // Another user's home is not looked up.
            let rest = if rest.is_empty() { rest } else { rest.strip_prefix('/')? };
            return Some(vec![self.home.as_ref()?.join(rest)]);
        }
        (!text.starts_with("%(")).then(|| bases.iter().map(|base| base.join(text)).collect())
    }

    /// Whether commands may have made the target of a path, or could make it.
    pub(super) fn leads_to_commands(&self, text: &str) -> bool {
        self.resolve(text, &self.bases).is_none_or(|paths| paths.iter().any(|path| self.may_be_planted(path)))
    }

    /// The same without the meaning of `~`: a word after the shell has expanded it.
    pub(super) fn word_leads_to_commands(&self, word: &str) -> bool {
        self.bases.iter().any(|base| self.may_be_planted(&base.join(word)))
    }

    /// A word of the shell that starts with an unquoted `~`.
    pub(super) fn expand(&self, word: &str) -> Option<String> {
        self.resolve(word, &[])?.first()?.to_str().map(str::to_owned)
    }
}
