//! Operations on files, many in one run.
//!
//! Each line of standard input is an operation and one or two paths in hexadecimal; each line of
//! standard output is the answer: 0 or the error's number. What an operation did is undone at once,
//! so that the next one finds the tree as it was; `undo` in an answer means that this failed.
#![expect(clippy::undocumented_unsafe_blocks, reason = "plain calls with pointers to live texts")]

use std::ffi::{CString, OsStr};
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use crate::{answer, c_text};

pub(crate) fn batch() {
    // What is made anew gets its mode at once: not every sandbox lets it be changed later.
    unsafe { libc::umask(0) };
    for line in io::stdin().lock().lines().map_while(Result::ok) {
        let mut words = line.split(' ');
        let operation = words.next().unwrap_or_default();
        let paths: Vec<Vec<u8>> = words.map(from_hex).collect();
        let paths: Vec<&Path> = paths.iter().map(|path| Path::new(OsStr::from_bytes(path))).collect();
        let result = match paths.as_slice() {
            [path] => on_one(operation, path),
            [from, to] => on_two(operation, from, to),
            _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
        };
        match result {
            Ok(Undone::Yes) => println!("0"),
            Ok(Undone::No(error)) => println!("undo {error}"),
            Err(error) => println!("{}", error.raw_os_error().unwrap_or(-1)),
        }
    }
}

fn from_hex(text: &str) -> Vec<u8> {
    let digit = |index: usize| text.get(index..index + 2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
    (0..text.len()).step_by(2).map_while(digit).collect()
}

enum Undone {
    Yes,
    No(io::Error),
}

fn undo(done: io::Result<()>) -> io::Result<Undone> {
    Ok(done.map_or_else(Undone::No, |()| Undone::Yes))
}

fn text(path: &Path) -> io::Result<CString> {
    c_text(path.as_os_str().as_bytes())
}

fn on_one(operation: &str, path: &Path) -> io::Result<Undone> {
    match operation {
        "read" => fs::read(path).map(|_| Undone::Yes),
        "list" => fs::read_dir(path)?.try_for_each(|entry| entry.map(drop)).map(|()| Undone::Yes),
        "write" => write(path),
        "create" => {
            OpenOptions::new().write(true).create_new(true).open(path)?;
            undo(fs::remove_file(path))
        }
        "mkdir" => {
            fs::create_dir(path)?;
            undo(fs::remove_dir(path))
        }
        "symlink" => {
            std::os::unix::fs::symlink("nowhere", path)?;
            undo(fs::remove_file(path))
        }
        "fifo" => {
            let name = text(path)?;
            answer(unsafe { libc::mkfifo(name.as_ptr(), 0o600) })?;
            undo(fs::remove_file(path))
        }
        "chmod" => {
            let permissions =
                fs::metadata(path).map_or_else(|_| fs::Permissions::from_mode(0o700), |found| found.permissions());
            fs::set_permissions(path, permissions).map(|()| Undone::Yes)
        }
        "utimes" => {
            let name = text(path)?;
            answer(unsafe { libc::utimensat(libc::AT_FDCWD, name.as_ptr(), std::ptr::null(), 0) }).map(|_| Undone::Yes)
        }
        "remove" => remove(path),
        "leave" => OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(|_| Undone::Yes),
        _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}

/// One byte more, and back.
fn write(path: &Path) -> io::Result<Undone> {
    let file = OpenOptions::new().write(true).open(path)?;
    let length = file.metadata()?.len();
    file.write_all_at(b"x", length)?;
    undo(file.set_len(length))
}

fn remove(path: &Path) -> io::Result<Undone> {
    let found = fs::symlink_metadata(path)?;
    if found.is_dir() {
        fs::remove_dir(path)?;
        return undo(fs::DirBuilder::new().mode(found.mode() & 0o777).create(path));
    }
    if found.is_symlink() {
        let target = fs::read_link(path)?;
        fs::remove_file(path)?;
        return undo(std::os::unix::fs::symlink(target, path));
    }
    // What can be removed though it can't be read is a finding, whatever becomes of its content.
    let content = fs::read(path).unwrap_or_default();
    fs::remove_file(path)?;
    let made = OpenOptions::new().write(true).create_new(true).mode(found.mode() & 0o777).open(path);
    undo(made.and_then(|mut file| file.write_all(&content)))
}

fn on_two(operation: &str, from: &Path, to: &Path) -> io::Result<Undone> {
    match operation {
        "rename" => {
            fs::rename(from, to)?;
            undo(fs::rename(to, from))
        }
        "link" => {
            fs::hard_link(from, to)?;
            undo(fs::remove_file(to))
        }
        _ => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    }
}
