//! Opens files on Unix: relative to an open directory, with every check on the open file.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, open, openat, statat};

#[derive(Clone, Copy)]
pub(super) enum Use {
    Read,
    Write,
    Append,
}

#[derive(Debug)]
pub(super) struct Directory(OwnedFd);

impl Directory {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(Self(open(path, flags, Mode::empty())?))
    }

    pub(super) fn complaint(&self) -> io::Result<Option<&'static str>> {
        let found = fstat(&self.0)?;
        Ok(ownership(found.st_uid, Mode::from_raw_mode(found.st_mode)))
    }

    fn open_with(&self, name: &str, flags: OFlags) -> io::Result<File> {
        // A planted pipe would block the opener.
        let always = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        Ok(openat(&self.0, name, flags | always, Mode::RUSR | Mode::WUSR)?.into())
    }

    pub(super) fn open_file(&self, name: &str, usage: Use) -> io::Result<File> {
        self.open_with(
            name,
            match usage {
                Use::Read => OFlags::RDONLY,
                Use::Write => OFlags::RDWR | OFlags::CREATE,
                Use::Append => OFlags::RDWR | OFlags::CREATE | OFlags::APPEND,
            },
        )
    }

    pub(super) fn size_if_still(&self, name: &str, file: &File) -> io::Result<Option<u64>> {
        let own = fstat(file)?;
        match statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(named) if (named.st_dev, named.st_ino) == (own.st_dev, own.st_ino) => {
                Ok(Some(own.st_size.try_into().unwrap_or_default()))
            }
            Ok(_) => Ok(None),
            Err(rustix::io::Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

pub(super) fn create(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

pub(super) fn complaint(file: &File) -> io::Result<Option<&'static str>> {
    let found = fstat(file)?;
    Ok(if !FileType::from_raw_mode(found.st_mode).is_file() {
        Some("is not an ordinary file: remove it")
    } else if found.st_nlink > 1 {
        Some("has a second name (a hard link): remove one of them")
    } else {
        ownership(found.st_uid, Mode::from_raw_mode(found.st_mode))
    })
}

fn ownership(owner: u32, mode: Mode) -> Option<&'static str> {
    if owner != rustix::process::geteuid().as_raw() {
        Some("belongs to another user: remove it, or set `XDG_STATE_HOME` to a directory of your own")
    } else if mode.intersects(Mode::WGRP | Mode::WOTH) {
        Some("can be written by other users: take that away with `chmod go-w`")
    } else {
        None
    }
}

pub(crate) fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, offset.saturating_add(filled as u64)) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}
