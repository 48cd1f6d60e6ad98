//! One settings file: reading it, its owner, and the keys it may not have.

use std::io;
use std::path::{Path, PathBuf};

use crate::ConfigError;
use crate::form::ConfigForm;
use crate::layer::Layer;
use crate::maximum::Maximum;
use crate::origin::Origin;
use crate::source::Source;
use crate::store::{open_without_waiting, others_may_write, read_open};
use crate::written::Written;

const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The text of a project's file.
pub(crate) fn project_text(path: &Path, bytes: &[u8]) -> Result<String, ConfigError> {
    String::from_utf8(bytes.to_vec()).map_err(|error| ConfigError::io("read", path)(io::Error::other(error)))
}

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Owner {
    System,
    User,
    Project,
}

/// A file that was read.
pub(crate) struct ReadFile {
    pub(crate) owner: Owner,
    pub(crate) path: PathBuf,
    pub(crate) layer: Layer,
    /// The line and the column of `profile`.
    pub(crate) profile_position: Option<(usize, usize)>,
    pub(crate) profiles: std::collections::BTreeMap<String, Layer>,
    pub(crate) maximum: Option<Maximum>,
}

impl ReadFile {
    pub(crate) fn origin(&self) -> Origin {
        let path = self.path.clone();
        match self.owner {
            Owner::System => Origin::System(path),
            Owner::User => Origin::User(path),
            Owner::Project => Origin::Project(path),
        }
    }
}

/// Refuses keys that are reserved for the administrator's or the user's file.
pub(crate) fn refuse_foreign_keys(form: &ConfigForm, source: &Source<'_>, owner: Owner) -> Result<(), ConfigError> {
    let refuse = |place: Option<std::ops::Range<usize>>, problem: &str| match place {
        Some(span) => Err(source.invalid(span, problem.to_owned())),
        None => Ok(()),
    };
    if owner != Owner::System {
        let place = form.maximum.as_ref().map(Written::span);
        refuse(place, "`maximum` belongs in the administrator's file: it can't be set here")?;
    }
    if owner == Owner::Project {
        let settings = form.settings();
        for form in std::iter::once(&settings).chain(form.profiles.values()) {
            let place = form.audit.as_ref().map(Written::span);
            refuse(place, "`audit` belongs in your own file: a project can't change what is recorded of it")?;
            let place = form.sandbox.accept_losses.as_ref().map(Written::span);
            refuse(
                place,
                "`accept_losses` belongs in your own file: a project can't give up what protects you from it",
            )?;
            let place = form.approver.as_ref().map(Written::span);
            refuse(place, "`approver` belongs in your own file: a project can't answer in your place")?;
            let place = form.risk.as_ref().map(Written::span);
            refuse(place, "`risk` belongs in your own file: a project can't judge its own requests")?;
            let place = form.rules.as_ref().map(Written::span);
            refuse(place, "`rules` belongs in your own file: a project can't let its commands leave the sandbox")?;
        }
    }
    Ok(())
}

/// Whether a file that can't be opened is missing: its deepest existing ancestor is a directory. A dangling link, or a
/// file in place of a directory, hides settings that were meant to count. A device, such as a home at `/dev/null`,
/// means that there are none.
fn missing(path: &Path) -> Result<(), ConfigError> {
    let existing = path.ancestors().find_map(|place| Some((place, place.symlink_metadata().ok()?)));
    let Some((last, found)) = existing else { return Ok(()) };
    let why = match if found.is_symlink() { last.metadata() } else { Ok(found) } {
        Err(_) => "is a link that leads nowhere: remove it, or make what it leads to",
        Ok(found) if found.is_file() => "is no directory: move it away, or make a directory in its place",
        Ok(_) => return Ok(()),
    };
    Err(ConfigError::Unsafe { path: last.to_owned(), why })
}

/// The error of a file that is not UTF-8, with the position.
fn not_text(path: &Path, error: &std::string::FromUtf8Error) -> ConfigError {
    let valid = error.as_bytes().get(..error.utf8_error().valid_up_to()).unwrap_or_default();
    let text = String::from_utf8_lossy(valid);
    let line = text.matches('\n').count() + 1;
    let column = text.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    ConfigError::Invalid { file: path.to_owned(), line, column, problem: String::from("this is not UTF-8") }
}

/// The text of a file owned by the user or the administrator; `None` if it is missing.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>, ConfigError> {
    let file = match open_without_waiting(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return missing(path).map(|()| None);
        }
        Err(error) => return Err(ConfigError::io("open", path)(error)),
    };
    if let Some(why) = others_may_write(&file).map_err(ConfigError::io("look at", path))? {
        return Err(ConfigError::Unsafe { path: path.to_owned(), why });
    }
    let bytes = read_open(&file, path, MAX_FILE_BYTES)?;
    String::from_utf8(bytes).map(Some).map_err(|error| not_text(path, &error))
}
