//! A patch as text, in a session: names are relative to a directory, and only files that the session's commands may
//! read are read for it.

use stockade_apply_patch::{PatchText, TextError};
use stockade_protocol::{AbsPath, FileChange};

use crate::enforced::Enforced;
use crate::session::Session;

impl Session {
    /// The changes of a text: a unified diff, git's too, or codex's envelope (`*** Begin Patch`). Its names are
    /// relative to `directory`. Nothing is written.
    pub fn read_patch(&self, text: &[u8], directory: &AbsPath) -> Result<Vec<FileChange>, TextError> {
        let text = PatchText::parse(text)?;
        let enforced = Enforced::of(self).map_err(|invalid| TextError::Unsettled { why: invalid.to_string() })?;
        text.changes(directory, |path| enforced.may_read(path))
    }
}
