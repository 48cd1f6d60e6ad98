//! Bounded reads, and private state files, replaced atomically by one writer at a time.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use crate::{ConfigError, News};

/// The bytes of a file; a link is refused.
pub(crate) fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, ConfigError> {
    let file = options().read(true).open(path).map_err(ConfigError::io("open", path))?;
    read_open(&file, path, limit)
}

/// Opens a file that may be a link. A pipe or a terminal does not block: it is refused when it is read.
pub(crate) fn open_without_waiting(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        options.custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
    }
    options.open(path)
}

pub(crate) fn read_open(file: &File, path: &Path, limit: u64) -> Result<Vec<u8>, ConfigError> {
    if !file.metadata().map_err(ConfigError::io("look at", path))?.is_file() {
        return Err(ConfigError::Unsafe { path: path.to_owned(), why: "is not an ordinary file" });
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(ConfigError::io("read", path))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > limit {
        return Err(ConfigError::TooLarge { path: path.to_owned(), limit });
    }
    Ok(bytes)
}

/// Reads a file of the user's own; `None` if it is missing.
pub(crate) fn read_private(directory: &Path, name: &str, limit: u64) -> Result<Option<String>, ConfigError> {
    let path = directory.join(name);
    let file = match options().read(true).open(&path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(ConfigError::io("open", &path)(error)),
    };
    if let Some(why) = others_may_write(&file).map_err(ConfigError::io("look at", &path))? {
        return Err(ConfigError::Unsafe { path, why });
    }
    let bytes = read_open(&file, &path, limit)?;
    let text = String::from_utf8(bytes).map_err(|error| ConfigError::io("read", &path)(io::Error::other(error)))?;
    Ok(Some(text))
}

/// Replaces a file of the user's own atomically: a reader, a crash or a full disk sees the old one or the new one.
pub(crate) fn replace_private(directory: &Path, name: &str, text: &str) -> Result<(), ConfigError> {
    let (path, scratch) = (directory.join(name), directory.join(format!(".{name}.new")));
    let write = || -> io::Result<()> {
        // The lock is held, so an existing scratch file was left by a writer that died.
        match fs::remove_file(&scratch) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = options().write(true).create_new(true).open(&scratch)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&scratch, &path)
    };
    write().map_err(|error| {
        // The first failure is reported. A remaining file is removed by the next writer.
        fs::remove_file(&scratch).ok();
        ConfigError::io("write", &path)(error)
    })
}

/// Creates an empty marker file, and reports whether it existed.
pub(crate) fn leave_mark(directory: &Path, name: &str) -> News {
    if make_directory(directory).is_err() {
        return News::Unrecorded;
    }
    match options().write(true).create_new(true).open(directory.join(name)) {
        Ok(_) => News::Recorded,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => News::Known,
        Err(_) => News::Unrecorded,
    }
}

/// The writer's lock, released on drop.
pub(crate) struct Lock(#[expect(dead_code, reason = "it is held, not read")] File);

impl Lock {
    pub(crate) fn take(directory: &Path, name: &str) -> Result<Self, ConfigError> {
        make_directory(directory).map_err(ConfigError::io("make", directory))?;
        if fs::symlink_metadata(directory).is_ok_and(|found| found.is_symlink()) {
            return Err(ConfigError::Unsafe { path: directory.to_owned(), why: "is a symbolic link: remove it" });
        }
        let path: PathBuf = directory.join(name);
        let opened = options().write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(ConfigError::io("open", &path))?;
        file.lock().map_err(ConfigError::io("lock", &path))?;
        Ok(Self(file))
    }
}

#[cfg(unix)]
fn options() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = OpenOptions::new();
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    options.mode(0o600).custom_flags(i32::try_from(flags.bits()).unwrap_or(0));
    options
}

#[cfg(unix)]
fn make_directory(directory: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    DirBuilder::new().recursive(true).mode(0o700).create(directory)
}

/// Why a file can't be trusted: a user other than its reader and the administrator may write it.
#[cfg(unix)]
pub(crate) fn others_may_write(file: &File) -> io::Result<Option<&'static str>> {
    use std::os::unix::fs::MetadataExt as _;
    let found = file.metadata()?;
    let own = rustix::process::geteuid().as_raw();
    Ok(if found.uid() != own && found.uid() != 0 {
        Some("belongs to another user")
    } else if found.mode() & 0o022 != 0 {
        Some("can be written by other users: take that away with `chmod go-w`")
    } else {
        None
    })
}

#[cfg(not(unix))]
fn options() -> OpenOptions {
    OpenOptions::new()
}

#[cfg(not(unix))]
fn make_directory(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).create(directory)
}

#[cfg(not(unix))]
pub(crate) fn others_may_write(_: &File) -> io::Result<Option<&'static str>> {
    Ok(None)
}
