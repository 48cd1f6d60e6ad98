//! Denials that were seen and are not why a command failed: looks around, credentials that a tool reads in passing, databases
//! that were opened for reading instead. The command's words and its output tell.

use stockade_protocol::{AbsPath, Operation, RawText, Violation, ViolationTarget};
use stockade_sandboxing::{DeniedAct, Observation};

use super::observed::is_database;

/// Whether a process only looked around: programs ask for many files that they can do without. A look counts if the command or
/// its output names the file, and not beside a read of it.
pub(super) fn is_idle_look(
    observation: &Observation,
    all: &[Observation],
    command: &[RawText],
    said: &[AbsPath],
) -> bool {
    let DeniedAct::LookAt(path) = &observation.act else { return false };
    let is_read = all.iter().any(|other| matches!(&other.act, DeniedAct::Read(read) if read == path));
    is_read || !(said.contains(path) || is_named(path, command))
}

/// Whether a command names a file. Below a hidden directory, files have names that are ordinary words as well, such as
/// `config`, so that directory has to be named, too.
fn is_named(path: &AbsPath, command: &[RawText]) -> bool {
    let names: Vec<&[u8]> = path.components().collect();
    let Some((name, above)) = names.split_last() else { return false };
    let hidden = above.iter().rev().find(|name| name.starts_with(b"."));
    std::iter::once(name).chain(hidden).all(|name| command.iter().any(|word| has_name(word.as_bytes(), name)))
}

/// Whether a word of a command, which may be a whole script, has this name in it as a component of a path or a word.
fn has_name(word: &[u8], name: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte) || !byte.is_ascii();
    (0..word.len()).any(|start| {
        let (before, rest) = word.split_at(start);
        let is_whole = |after: &[u8]| !before.last().is_some_and(is_part) && !after.first().is_some_and(is_part);
        rest.strip_prefix(name).is_some_and(is_whole)
    })
}

/// Files with credentials that tools read in passing, if they are there.
const AMBIENT: &[&str] = &[
    ".netrc",
    ".npmrc",
    ".git-credentials",
    ".docker",
    ".docker/config.json",
    ".cargo/credentials",
    ".cargo/credentials.toml",
];

/// Words of a failure that credentials may have to do with.
const OF_CREDENTIALS: &[&str] =
    &["401", "403", "auth", "credential", "login", "username", "password", "denied", "eacces", "permission"];

/// Whether a failed command is unlikely to have failed for a denial, by its output: a tool that reads credentials in passing did
/// not need them, and a database that can't be written was opened for reading.
pub(super) fn is_beside(violation: &Violation, text: &[u8], command: &[RawText]) -> bool {
    let ViolationTarget::Path(path) = &violation.target else { return false };
    let text = String::from_utf8_lossy(text).to_lowercase();
    match violation.operation {
        Operation::Read => {
            let names: Vec<&[u8]> = path.components().collect();
            let is_ambient = AMBIENT.iter().any(|ambient| {
                let ambient: Vec<&[u8]> = ambient.split('/').map(str::as_bytes).collect();
                names.ends_with(&ambient)
            });
            let name = String::from_utf8_lossy(names.last().copied().unwrap_or_default()).to_lowercase();
            is_ambient
                && !OF_CREDENTIALS.iter().any(|word| text.contains(word))
                && !text.contains(&name)
                && !is_named(path, command)
        }
        Operation::Write => {
            let is_said = ["readonly", "read-only", "read only"].iter().any(|word| text.contains(word));
            let is_file = path.to_host_path().is_some_and(|path| is_database(&path));
            is_file && !text.trim().is_empty() && !is_said
        }
        Operation::Execute
        | Operation::Connect
        | Operation::Listen
        | Operation::Process
        | Operation::SystemCall
        | Operation::Exceed => false,
    }
}
