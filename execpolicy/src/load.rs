//! Where rules files are, in which order they count, and how they are read without being fooled by
//! what else may have such a name.

use std::ffi::OsString;
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

/// Whether the owner of this session vouches for what a project brings along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Its rules count.
    Trusted,
    /// Its rules are not even read.
    Untrusted,
}

/// A file of rules and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RulesFile {
    /// Whose rules it holds.
    pub layer: Layer,
    /// Where it is.
    pub path: PathBuf,
}

/// Collects rules files, layer by layer, and loads them as one policy.
///
/// ```
/// use stockade_execpolicy::{PolicyLoader, Trust};
///
/// let project = tempfile::tempdir()?;
/// std::fs::create_dir_all(project.path().join(".stockade/rules"))?;
/// std::fs::write(project.path().join(".stockade/rules/a.rules"), r#"prefix_rule(pattern=["make", "check"])"#)?;
///
/// let load = |trust| PolicyLoader::new().project(project.path(), trust).load();
/// assert_eq!(load(Trust::Trusted)?.rules().count(), 1);
/// assert_eq!(load(Trust::Untrusted)?.rules().count(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct PolicyLoader {
    sources: Vec<RulesSource>,
}

#[derive(Clone, Debug)]
enum RulesSource {
    Directory(Layer, PathBuf),
    Project(PathBuf),
    File(PathBuf),
}

impl PolicyLoader {
    /// A loader that reads nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The administrator's and the user's own directories, as this process finds them.
    #[must_use]
    pub fn standard(self) -> Self {
        let loader = self.directory(Layer::System, SYSTEM_RULES);
        match user_rules(|name| std::env::var_os(name)) {
            Some(user) => loader.directory(Layer::User, user),
            None => loader,
        }
    }

    /// All `*.rules` files of a directory, by name. A directory that does not exist has none.
    #[must_use]
    pub fn directory(mut self, layer: Layer, directory: impl Into<PathBuf>) -> Self {
        self.sources.push(RulesSource::Directory(layer, directory.into()));
        self
    }

    /// The rules that a project keeps in `.stockade/rules`, if it is trusted.
    #[must_use]
    pub fn project(mut self, root: &Path, trust: Trust) -> Self {
        match trust {
            Trust::Trusted => self.sources.push(RulesSource::Project(root.to_owned())),
            Trust::Untrusted => {}
        }
        self
    }

    /// A file named for this run alone, as with `--rules`. It has to exist.
    #[must_use]
    pub fn file(mut self, path: impl Into<PathBuf>) -> Self {
        self.sources.push(RulesSource::File(path.into()));
        self
    }

    /// The files that would be loaded, in the order of the layers and, within one, by name.
    pub fn files(&self) -> Result<Vec<RulesFile>, RulesError> {
        let mut files = Vec::new();
        for source in &self.sources {
            match source {
                RulesSource::Directory(layer, directory) => files.extend(in_directory(*layer, directory)?),
                RulesSource::Project(root) => files.extend(in_project(root)?),
                RulesSource::File(path) => files.push(RulesFile { layer: Layer::Session, path: path.clone() }),
            }
        }
        files.sort_by_key(|file| file.layer);
        Ok(files)
    }

    /// Reads all files and merges them. One bad file is an error: there is no policy without it.
    pub fn load(&self) -> Result<Policy, RulesError> {
        let files = self.files()?;
        let declarations = files.iter().map(|file| {
            let text = read(&file.path, file.layer)?;
            parse(&file.path.to_string_lossy(), &text, file.layer)
        });
        declarations.collect::<Result<_, _>>().map(Policy::build)
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

/// A project's rules have to be in the project: whoever trusted it has not looked behind its links.
fn in_project(root: &Path) -> Result<Vec<RulesFile>, RulesError> {
    let own = root.join(".stockade");
    let rules = own.join("rules");
    for directory in [&own, &rules] {
        match fs::symlink_metadata(directory) {
            Ok(found) if found.is_dir() => {}
            Ok(_) => {
                return Err(RulesError::NotAFile {
                    path: directory.clone(),
                    what: "a link or file in place of a directory",
                });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(source) => return Err(RulesError::Read { path: directory.clone(), source }),
        }
    }
    in_directory(Layer::Project, &rules)
}

/// Reads a file that has to be regular, text and of a sane size. What was checked is what is read:
/// the checks are made on the open file.
pub(crate) fn read(path: &Path, layer: Layer) -> Result<String, RulesError> {
    let failed = |source| RulesError::Read { path: path.to_owned(), source };
    let file = open(path, layer).map_err(|error| match error.raw_os_error() {
        Some(code) if is_link_refusal(code) => RulesError::NotAFile { path: path.to_owned(), what: "a symbolic link" },
        _ => failed(error),
    })?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "a directory" } else { "a device, pipe or socket" };
        return Err(RulesError::NotAFile { path: path.to_owned(), what });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0).min(MAX_FILE_BYTES));
    file.take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() > MAX_FILE_BYTES {
        return Err(RulesError::TooLarge { path: path.to_owned(), limit: MAX_FILE_BYTES });
    }
    String::from_utf8(bytes)
        .map_err(|error| RulesError::NotText { path: path.to_owned(), offset: error.utf8_error().valid_up_to() })
}

#[cfg(unix)]
fn open(path: &Path, layer: Layer) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::fs::OFlags;

    // A pipe without a writer must not make us wait, nor a terminal become ours.
    let mut flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    if layer == Layer::Project {
        flags |= OFlags::NOFOLLOW;
    }
    // The flags of every Unix fit; `custom_flags` takes them in C's type.
    OpenOptions::new().read(true).custom_flags(i32::try_from(flags.bits()).unwrap_or(0)).open(path)
}

#[cfg(unix)]
fn is_link_refusal(code: i32) -> bool {
    code == rustix::io::Errno::LOOP.raw_os_error()
}

#[cfg(not(unix))]
fn open(path: &Path, _: Layer) -> io::Result<File> {
    OpenOptions::new().read(true).open(path)
}

#[cfg(not(unix))]
fn is_link_refusal(_: i32) -> bool {
    false
}

pub(crate) fn parse(name: &str, text: &str, layer: Layer) -> Result<Declarations, RulesError> {
    if text.len() > MAX_FILE_BYTES {
        return Err(RulesError::TooLarge { path: name.into(), limit: MAX_FILE_BYTES });
    }
    let source = Source::new(name, text);
    declare::declare(&source, layer).map_err(|problem| source.diagnose(problem).into())
}
