//! The file that a call starts, found name by name as the kernel finds it for the calling process.
//!
//! Links in `/proc` mean other files to this process than to the caller: `self` is the caller, and `cwd`, `root`, `exe` and
//! `fd/3` lead where no text says. So the path is walked here, in descriptors that can neither read nor write
//! (`O_PATH`), with `self` replaced by the caller's number and those links opened by the kernel.
//!
//! <https://man7.org/linux/man-pages/man7/path_resolution.7.html>, <https://man7.org/linux/man-pages/man5/proc.5.html>

use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, StatxFlags, fstat, fstatfs, statx};
use rustix::io::Errno;
use stockade_protocol::AbsPath;

use super::resolve::{Tree, own_path};
use crate::supervisor::Caller;

/// As many links as the kernel follows for one path.
const MOST_LINKS: usize = 40;
/// As much as the kernel looks at for an interpreter.
const HEAD: u64 = 256;
/// The number of the top directory of every `/proc`.
const PROC_ROOT: u64 = 1;
const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// A file that is about to be started.
#[derive(Debug)]
pub(super) struct StartFile {
    /// The file itself. By this descriptor nothing can be read or written.
    pub(super) file: OwnedFd,
    /// The path with the links in its directories followed, then what each link in the last place leads to. The last one
    /// is the file's own, or what the kernel calls a file without a path.
    pub(super) names: Vec<Vec<u8>>,
    /// Whether a link of a process led to it.
    pub(super) is_by_process: bool,
}

/// Why no file was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotFound {
    /// The kernel finds none either.
    Missing,
    /// This user may not look there, and so the caller may not.
    Barred,
    /// It is not known what the kernel finds for the caller.
    Unknown,
}

impl StartFile {
    /// The file of a path that a thread gives, from its root, its directory or one that it has open.
    pub(super) fn find(tree: &Tree, thread: i32, directory: Option<i32>, text: &[u8]) -> Result<Self, NotFound> {
        let start = match directory {
            _ if text.starts_with(b"/") => tree.root().try_clone().map_err(|_| NotFound::Unknown)?,
            None | Some(libc::AT_FDCWD) => opened_link(thread, "cwd")?,
            Some(number) => descriptor(thread, number)?,
        };
        Walk { tree, thread, links: 0, is_by_process: false }.walk(start, text)
    }

    /// A file that a thread has open.
    pub(super) fn of_descriptor(tree: &Tree, thread: i32, number: i32) -> Result<Self, NotFound> {
        let file = descriptor(thread, number)?;
        let names = vec![name_of(tree, &file)?];
        Self { file, names, is_by_process: true }.checked()
    }

    /// Only regular files can be started.
    fn checked(self) -> Result<Self, NotFound> {
        let found = fstat(&self.file).map_err(|_| NotFound::Unknown)?;
        let is_file = FileType::from_raw_mode(found.st_mode).is_file();
        if is_file && !self.names.is_empty() { Ok(self) } else { Err(NotFound::Missing) }
    }

    /// The file's own path, if it has one.
    pub(super) fn path(&self) -> Option<AbsPath> {
        AbsPath::parse(self.names.last()?.clone()).ok()
    }

    /// Its first bytes, if this user may read it.
    pub(super) fn head(&self) -> Option<Vec<u8>> {
        // It is a regular file: to open it does not wait, and does nothing to it.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let file = rustix::fs::open(own, flags, Mode::empty()).ok()?;
        let mut head = Vec::new();
        File::from(file).take(HEAD).read_to_end(&mut head).ok()?;
        Some(head)
    }
}

/// One path on its way.
struct Walk<'a> {
    tree: &'a Tree,
    thread: i32,
    links: usize,
    is_by_process: bool,
}

/// Where a link leads.
enum Target {
    Text(Vec<u8>),
    /// A link of a process, followed by the kernel.
    Opened(OwnedFd),
}

impl Walk<'_> {
    fn walk(mut self, start: OwnedFd, text: &[u8]) -> Result<StartFile, NotFound> {
        let (mut here, mut rest) = self.beginning(start, text);
        let mut names = Vec::new();
        while let Some(name) = rest.pop() {
            if name == b".." {
                here = self.above(here)?;
                continue;
            }
            let flags = LOOK | OFlags::NOFOLLOW;
            let entry = rustix::fs::openat(&here, name.as_slice(), flags, Mode::empty())
                .map_err(|errno| why(errno, &here, &name))?;
            if rest.is_empty() {
                names.push(joined(name_of(self.tree, &here)?, &name));
            }
            let found = fstat(&entry).map_err(|_| NotFound::Unknown)?;
            if !FileType::from_raw_mode(found.st_mode).is_symlink() {
                here = entry;
                continue;
            }
            self.links += 1;
            if self.links > MOST_LINKS {
                return Err(NotFound::Missing);
            }
            match self.target(&here, &name, &entry)? {
                Target::Opened(file) => {
                    self.is_by_process = true;
                    if rest.is_empty() {
                        // The link is no name of the file.
                        names.pop();
                        names.push(name_of(self.tree, &file)?);
                    }
                    here = file;
                }
                Target::Text(text) => {
                    if text.starts_with(b"/") {
                        here = self.tree.root().try_clone().map_err(|_| NotFound::Unknown)?;
                    }
                    rest.extend(components(&text));
                }
            }
        }
        StartFile { file: here, names, is_by_process: self.is_by_process }.checked()
    }

    /// The directory to begin with, and the names that follow, the last one first. Most paths lead through no link: the
    /// kernel goes to their last name at once.
    fn beginning(&self, start: OwnedFd, text: &[u8]) -> (OwnedFd, Vec<Vec<u8>>) {
        let mut rest = components(text);
        let has_above = rest.iter().any(|name| name == b"..");
        let Some(last) = rest.first().cloned().filter(|_| rest.len() > 1 && !has_above) else { return (start, rest) };
        let directories: Vec<&[u8]> = rest.iter().skip(1).rev().map(Vec::as_slice).collect();
        let below = directories.join(b"/".as_slice());
        let flags = LOOK | OFlags::DIRECTORY;
        match rustix::fs::openat2(&start, below, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            Ok(directory) => {
                rest = vec![last];
                (directory, rest)
            }
            Err(_) => (start, rest),
        }
    }

    /// The directory above one. Above the caller's root there is nothing.
    fn above(&self, here: OwnedFd) -> Result<OwnedFd, NotFound> {
        let identity = |file: &OwnedFd| {
            let found = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::MNT_ID);
            found.map(|found| (found.stx_dev_major, found.stx_dev_minor, found.stx_ino, found.stx_mnt_id))
        };
        let (own, roots) = (identity(&here), identity(self.tree.root()));
        if own.ok().ok_or(NotFound::Unknown)? == roots.ok().ok_or(NotFound::Unknown)? {
            return Ok(here);
        }
        rustix::fs::openat(&here, "..", LOOK | OFlags::DIRECTORY, Mode::empty())
            .map_err(|errno| why(errno, &here, b".."))
    }

    fn target(&self, here: &OwnedFd, name: &[u8], link: &OwnedFd) -> Result<Target, NotFound> {
        let text = || {
            let text = rustix::fs::readlinkat(link, "", Vec::new()).map_err(|errno| why(errno, here, name))?;
            Ok(Target::Text(text.into_bytes()))
        };
        if !is_proc(link) {
            return text();
        }
        let is_top = || fstat(here).is_ok_and(|found| found.st_ino == PROC_ROOT);
        match name {
            b"self" if is_top() => Ok(Target::Text(self.number("NStgid:")?)),
            b"thread-self" if is_top() => {
                let (process, thread) = (self.number("NStgid:")?, self.number("NSpid:")?);
                Ok(Target::Text([process, b"/task/".to_vec(), thread].concat()))
            }
            _ => match rustix::fs::openat2(here, name, LOOK, Mode::empty(), ResolveFlags::NO_MAGICLINKS) {
                Err(Errno::LOOP) => {
                    let opened = rustix::fs::openat(here, name, LOOK, Mode::empty());
                    opened.map(Target::Opened).map_err(|_| NotFound::Unknown)
                }
                Ok(_) | Err(_) => text(),
            },
        }
    }

    /// A number of the calling thread in its own namespace of processes.
    fn number(&self, field: &str) -> Result<Vec<u8>, NotFound> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.thread)).map_err(|_| NotFound::Unknown)?;
        let numbers = status.lines().find_map(|line| line.strip_prefix(field));
        let own = numbers.and_then(|numbers| numbers.split_whitespace().next_back());
        own.map(|own| own.as_bytes().to_vec()).ok_or(NotFound::Unknown)
    }
}

/// Opens what a link of a thread leads to, for nothing.
fn opened_link(thread: i32, link: &str) -> Result<OwnedFd, NotFound> {
    rustix::fs::open(format!("/proc/{thread}/{link}"), LOOK, Mode::empty()).map_err(|errno| match errno {
        Errno::NOENT => NotFound::Missing,
        _ => NotFound::Unknown,
    })
}

/// A file that a thread has open. The directory of its descriptors is closed to this user if it is not dumpable, as launchers
/// are: then the descriptor itself is copied.
pub(super) fn descriptor(thread: i32, number: i32) -> Result<OwnedFd, NotFound> {
    opened_link(thread, &format!("fd/{number}")).or_else(|not_found| match not_found {
        NotFound::Missing => Err(NotFound::Missing),
        NotFound::Barred | NotFound::Unknown => {
            let copied = Caller::new(thread).and_then(|caller| caller.file(number));
            copied.map_err(|error| match error.raw_os_error() {
                Some(libc::EBADF) => NotFound::Missing,
                Some(_) | None => NotFound::Unknown,
            })
        }
    })
}

/// What the kernel calls an open file, from the caller's root.
fn name_of(tree: &Tree, file: &OwnedFd) -> Result<Vec<u8>, NotFound> {
    let name = own_path(file).map_err(|_| NotFound::Unknown)?;
    let is_removed = fstat(file).is_ok_and(|found| found.st_nlink == 0);
    let name = match name.strip_suffix(b" (deleted)") {
        Some(own) if is_removed => own.to_vec(),
        Some(_) | None => name,
    };
    Ok(tree.inside(name.clone()).unwrap_or(name))
}

fn joined(directory: Vec<u8>, name: &[u8]) -> Vec<u8> {
    let directory = if directory == b"/" { Vec::new() } else { directory };
    [directory.as_slice(), b"/", name].concat()
}

/// The names of a path, the last one first.
fn components(text: &[u8]) -> Vec<Vec<u8>> {
    let names = text.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    names.rev().map(<[u8]>::to_vec).collect()
}

fn is_proc(file: &OwnedFd) -> bool {
    fstatfs(file).is_ok_and(|found| found.f_type == PROC_SUPER_MAGIC)
}

/// What an error at a name says about what the caller would find.
fn why(errno: Errno, here: &OwnedFd, name: &[u8]) -> NotFound {
    let is_process = || name.iter().all(u8::is_ascii_digit) && fstat(here).is_ok_and(|found| found.st_ino == PROC_ROOT);
    let is_none = matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NAMETOOLONG);
    match (is_proc(here), is_none) {
        // A process that this one does not see there may be the caller itself.
        (true, true) if is_process() => NotFound::Unknown,
        (_, true) => NotFound::Missing,
        (true, false) => NotFound::Unknown,
        (false, false) => NotFound::Barred,
    }
}
