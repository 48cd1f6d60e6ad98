//! A patch as text, in a session: names are taken from a directory, and no file is read for it that the session's
//! commands may not read.

use stockade_apply_patch::{PatchText, TextError};
use stockade_protocol::{AbsPath, Access, FileChange};

use crate::session::Session;

impl Session {
    /// The changes that a text stands for: a unified diff, git's too, or codex's envelope (`*** Begin Patch`). Its names
    /// are taken from `directory`. Nothing is written.
    pub fn read_patch(&self, text: &[u8], directory: &AbsPath) -> Result<Vec<FileChange>, TextError> {
        let permissions = self.bounded(&self.permissions);
        let may_read = |path: &AbsPath| match permissions.access(path) {
            Access::Read | Access::Write => true,
            // What the host has there is not what a command sees.
            Access::Scratch | Access::None => false,
        };
        PatchText::parse(text)?.changes(directory, may_read)
    }
}
