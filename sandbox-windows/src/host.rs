//! What a plan has to know of the machine besides its files.

use serde::Serialize;
use stockade_protocol::AbsPath;

/// This machine, as far as a plan depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The drives that have a letter.
    pub drives: Vec<Drive>,
    /// The system's command interpreter, which batch files are run by.
    pub command_interpreter: AbsPath,
}

/// A drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drive {
    /// Its root.
    pub root: AbsPath,
    /// What kind of drive it is.
    pub kind: DriveKind,
}

/// What a drive's file system can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DriveKind {
    /// Access control lists, as NTFS does.
    WithLists,
    /// None, as with FAT.
    WithoutLists,
    /// Nothing on it can be changed.
    ReadOnly,
    /// A server's directory.
    Remote,
}

/// A machine with one drive.
#[cfg(test)]
pub(crate) fn machine() -> Host {
    Host {
        drives: vec![Drive { root: r"C:\".parse().unwrap(), kind: DriveKind::WithLists }],
        command_interpreter: r"C:\Windows\System32\cmd.exe".parse().unwrap(),
    }
}
