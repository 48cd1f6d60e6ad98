//! Finds rules files, orders them, and reads them safely: other kinds of files may have such names.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::declare::{self, Declarations};
use crate::source::Source;
use crate::{Layer, Policy, RulesError};

/// The largest rules file that is read.
pub const MAX_FILE_BYTES: usize = 2 * 1024 * 1024;

/// The administrator's rules.
pub const SYSTEM_RULES: &str = "/etc/stockade/rules";

/// A rules file and its layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesFile {
    /// Its layer.
    pub layer: Layer,
    /// Its path.
    pub path: PathBuf,
}

/// Collects rules files, layer by layer, and loads them as one policy.
///
/// ```
/// use stockade_execpolicy::{Layer, PolicyLoader};
///
/// let user = tempfile::tempdir()?;
/// std::fs::write(user.path().join("a.rules"), r#"prefix_rule(pattern=["make", "check"])"#)?;
///
/// let loader = PolicyLoader::new().directory(Layer::User, user.path());
/// assert_eq!(loader.load()?.rules().count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct PolicyLoader {
    sources: Vec<RulesSource>,
    home: Option<OsString>,
}

#[derive(Clone, Debug)]
enum RulesSource {
    Directory(Layer, PathBuf),
    Project(PathBuf, Vec<u8>),
    File(Layer, PathBuf),
}

/// A file, with its content if it is not to be opened.
type FoundFile<'a> = (RulesFile, Option<&'a [u8]>);

impl PolicyLoader {
    /// A loader without files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the directory for `~/` in the files; without it, a file that uses `~/` is an error.
    #[must_use]
    pub fn home(mut self, home: Option<impl Into<OsString>>) -> Self {
        self.home = home.map(Into::into);
        self
    }

    /// Adds the administrator's and the user's directories, and the home directory, of this process.
    #[must_use]
    pub fn standard(self) -> Self {
        let own = |name: &str| std::env::var_os(name);
        self.home(own("HOME")).standard_directories(own)
    }

    fn standard_directories(self, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let loader = self.directory(Layer::System, SYSTEM_RULES);
        match user_rules(variable) {
            Some(user) => loader.directory(Layer::User, user),
            None => loader,
        }
    }

    /// Adds all `*.rules` files of a directory, by name. A missing directory has none.
    #[must_use]
    pub fn directory(mut self, layer: Layer, directory: impl Into<PathBuf>) -> Self {
        self.sources.push(RulesSource::Directory(layer, directory.into()));
        self
    }

    /// Adds a rules file of a trusted project, by its content. The file is not opened here: the bytes that trust was
    /// decided on are the ones that count.
    #[must_use]
    pub fn project_file(mut self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) -> Self {
        self.sources.push(RulesSource::Project(path.into(), content.into()));
        self
    }

    /// Adds a file named for this run alone, as with `--rules`. It has to exist.
    #[must_use]
    pub fn file(self, path: impl Into<PathBuf>) -> Self {
        self.file_of(Layer::Session, path)
    }

    /// Adds a file to a layer. It has to exist.
    #[must_use]
    pub fn file_of(mut self, layer: Layer, path: impl Into<PathBuf>) -> Self {
        self.sources.push(RulesSource::File(layer, path.into()));
        self
    }

    /// The files that would be loaded, in the order of the layers and, within one, by name.
    pub fn files(&self) -> Result<Vec<RulesFile>, RulesError> {
        Ok(self.found()?.into_iter().map(|(file, _)| file).collect())
    }

    /// Reads and merges all files. One bad file is an error.
    pub fn load(&self) -> Result<Policy, RulesError> {
        let declarations = self.found()?.into_iter().map(|(RulesFile { layer, path }, content)| {
            let text = match content {
                Some(content) => as_text(&path, content.to_vec())?,
                None => read(&path)?,
            };
            parse(&path.to_string_lossy(), &text, layer, self.home.as_deref())
        });
        declarations.collect::<Result<_, _>>().map(Policy::build)
    }

    /// The files in their order.
    fn found(&self) -> Result<Vec<FoundFile<'_>>, RulesError> {
        let mut files: Vec<FoundFile<'_>> = Vec::new();
        for source in &self.sources {
            match source {
                RulesSource::Directory(layer, directory) => {
                    files.extend(in_directory(*layer, directory)?.into_iter().map(|file| (file, None)));
                }
                RulesSource::Project(path, content) => {
                    files.push((RulesFile { layer: Layer::Project, path: path.clone() }, Some(content)));
                }
                RulesSource::File(layer, path) => files.push((RulesFile { layer: *layer, path: path.clone() }, None)),
            }
        }
        files.sort_by_key(|(file, _)| file.layer);
        Ok(files)
    }
}

/// The user's rules: below `$XDG_CONFIG_HOME`, or `~/.config` if that is unset or not absolute, as
/// the [XDG specification](https://specifications.freedesktop.org/basedir-spec/latest/) has it.
pub fn user_rules(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")))?;
    Some(config.join("stockade").join("rules"))
}

fn in_directory(layer: Layer, directory: &Path) -> Result<Vec<RulesFile>, RulesError> {
    let failed = |source| RulesError::Read { path: directory.to_owned(), source };
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        // Below a non-directory, such as a home at `/dev/null`, there are no files.
        Err(error) if error.kind() == io::ErrorKind::NotADirectory && directory.symlink_metadata().is_err() => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(failed)?.file_name();
        let hidden = name.as_encoded_bytes().starts_with(b".");
        if !hidden && Path::new(&name).extension().is_some_and(|extension| extension == "rules") {
            names.push(name);
        }
    }
    names.sort();
    Ok(names.into_iter().map(|name| RulesFile { layer, path: directory.join(name) }).collect())
}

/// Reads a file that has to be regular, text and within the size limit. The checks are made on the open file.
pub(crate) fn read(path: &Path) -> Result<String, RulesError> {
    let failed = |source| RulesError::Read { path: path.to_owned(), source };
    let file = open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "a directory" } else { "a device, pipe or socket" };
        return Err(RulesError::NotAFile { path: path.to_owned(), what });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0).min(MAX_FILE_BYTES));
    file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    as_text(path, bytes)
}

fn as_text(path: &Path, bytes: Vec<u8>) -> Result<String, RulesError> {
    if bytes.len() > MAX_FILE_BYTES {
        return Err(RulesError::TooLarge { path: path.to_owned(), limit: MAX_FILE_BYTES });
    }
    String::from_utf8(bytes)
        .map_err(|error| RulesError::NotText { path: path.to_owned(), offset: error.utf8_error().valid_up_to() })
}

#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::fs::OFlags;

    // Don't block on a pipe without a writer, nor acquire a controlling terminal.
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    // The flags fit on every Unix; `custom_flags` takes a C int.
    OpenOptions::new().read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or(0)).open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}

pub(crate) fn parse(name: &str, text: &str, layer: Layer, home: Option<&OsStr>) -> Result<Declarations, RulesError> {
    if text.len() > MAX_FILE_BYTES {
        return Err(RulesError::TooLarge { path: name.into(), limit: MAX_FILE_BYTES });
    }
    let source = Source::new(name, text);
    declare::declare(&source, layer, home).map_err(|problem| source.diagnose(problem).into())
}
