//! Opens files on systems without owners and modes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

#[derive(Clone, Copy)]
pub(super) enum Use {
    Read,
    Write,
    Append,
}

/// Here a user's own directories are private by inheritance.
#[derive(Debug)]
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let found = fs::symlink_metadata(path)?;
        if found.is_dir() { Ok(Self(path.to_owned())) } else { Err(io::ErrorKind::NotADirectory.into()) }
    }

    pub(super) fn complaint(&self) -> io::Result<Option<&'static str>> {
        Ok(None)
    }

    pub(super) fn open_file(&self, name: &str, usage: Use) -> io::Result<File> {
        let path = self.0.join(name);
        if fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink()) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut options = OpenOptions::new();
        match usage {
            Use::Read => options.read(true),
            Use::Write => options.read(true).write(true).create(true).truncate(false),
            Use::Append => options.read(true).append(true).create(true),
        };
        options.open(path)
    }

    pub(super) fn size_if_still(&self, name: &str, file: &File) -> io::Result<Option<u64>> {
        // Here an open file can't be renamed or removed by others.
        if self.0.join(name).exists() { file.metadata().map(|found| Some(found.len())) } else { Ok(None) }
    }
}

pub(super) fn create(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

pub(super) fn complaint(file: &File) -> io::Result<Option<&'static str>> {
    Ok((!file.metadata()?.is_file()).then_some("is not an ordinary file: remove it"))
}

pub(crate) fn read_at(mut file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    file.seek(SeekFrom::Start(offset))?;
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

pub(crate) fn write_at(mut file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(offset))?;
    file.write_all(bytes)
}
