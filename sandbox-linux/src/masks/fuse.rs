//! The FUSE protocol of masks: parses requests, and answers so that a mask stays closed.
//!
//! The kernel writes each request on behalf of a process in the sandbox
//! ([fuse(4)](https://man7.org/linux/man-pages/man4/fuse.4.html), `linux/fuse.h`). Its length is checked, and nothing
//! is looked up: the file system has a root, which only the launcher sees, and one entry per mask.
//!
//! A mask behaves like the empty file or directory used without FUSE. Its attributes can be read; a file can't be
//! opened, a directory can be entered but not listed, and no name is found in it. `OPEN` and `OPENDIR` are never
//! answered with `ENOSYS`, which the kernel would treat as permission.

use std::time::{Duration, SystemTime};

use stockade_sandboxing::Kind;

/// The protocol version of the structures used here. Kernels with the launcher's mount API support it.
const MAJOR: u32 = 7;
const MINOR: u32 = 31;
/// Permits parallel lookups in one directory.
const PARALLEL_LOOKUPS: u32 = 1 << 18;
/// Directory entries include the lookup result.
const ENTRIES_WITH_ATTRIBUTES: u32 = 1 << 13;
const MOST_WRITTEN: u32 = 4096;
/// The size of the request buffer: the longest request is a write, and the kernel requires room for at least twice
/// that. It fails longer ones itself.
pub(super) const LONGEST_REQUEST: usize = 16 * 1024;

const ROOT: u64 = 1;
const FIRST_MASK: u64 = 2;
const HEADER: usize = 40;
/// Attributes of a mask never change.
const VALID_SECONDS: u64 = i32::MAX as u64;
const FILE: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;

const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const SETATTR: u32 = 4;
const READLINK: u32 = 5;
const SYMLINK: u32 = 6;
const MKNOD: u32 = 8;
const MKDIR: u32 = 9;
const UNLINK: u32 = 10;
const RMDIR: u32 = 11;
const RENAME: u32 = 12;
const LINK: u32 = 13;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const SETXATTR: u32 = 21;
const GETXATTR: u32 = 22;
const LISTXATTR: u32 = 23;
const REMOVEXATTR: u32 = 24;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const ACCESS: u32 = 34;
const CREATE: u32 = 35;
const INTERRUPT: u32 = 36;
const DESTROY: u32 = 38;
const BATCH_FORGET: u32 = 42;
const READDIRPLUS: u32 = 44;
const RENAME2: u32 = 45;
const TMPFILE: u32 = 51;

/// The answer to a request, and the attempt it reveals.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Response<'a> {
    /// The answer, unless the kernel expects none.
    pub(super) answer: Option<Vec<u8>>,
    pub(super) touch: Option<Touch<'a>>,
}

/// An attempt to read a mask.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Touch<'a> {
    /// The thread, by its id in the launcher's pid namespace; zero if it is not in that.
    pub(super) thread: u32,
    /// The mask.
    pub(super) mask: usize,
    /// The name looked up in it; `None` if it was opened, listed or checked itself.
    pub(super) name: Option<&'a [u8]>,
    pub(super) attempt: MaskReach,
}

/// How far an attempt goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MaskReach {
    /// To read a file, to list a directory. A lookup counts as one unless its system call says otherwise.
    Read,
    /// Only to know whether it is there, or may be read.
    Look,
}

/// The file system of the masks.
#[derive(Debug)]
pub(super) struct Tree {
    kinds: Vec<Kind>,
    made: Duration,
    /// The user and group of the launcher, in its own user namespace.
    owner: Option<(u32, u32)>,
}

/// The common part of a request.
struct Request<'a> {
    operation: u32,
    unique: u64,
    node: u64,
    user: u32,
    group: u32,
    thread: u32,
    body: &'a [u8],
}

/// A node of the file system.
#[derive(Clone, Copy)]
enum Node {
    Root,
    Mask(usize, Kind),
}

type Refused = i32;

impl<'a> Request<'a> {
    fn read(bytes: &'a [u8]) -> Option<Self> {
        let half = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let word = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
        let length = usize::try_from(half(0)?).ok()?;
        Some(Self {
            operation: half(4)?,
            unique: word(8)?,
            node: word(16)?,
            user: half(24)?,
            group: half(28)?,
            thread: half(32)?,
            body: bytes.get(HEADER..length)?,
        })
    }

    /// A name stands alone and ends in NUL.
    fn name(&self) -> Option<&'a [u8]> {
        let name = self.body.strip_suffix(b"\0")?;
        (!name.is_empty() && !name.contains(&0)).then_some(name)
    }

    fn answer(&self, error: Refused, body: &[u8]) -> Vec<u8> {
        const OUT_HEADER: usize = 16;
        let length = u32::try_from(OUT_HEADER + body.len()).unwrap_or_default();
        [&length.to_ne_bytes()[..], &error.to_ne_bytes(), &self.unique.to_ne_bytes(), body].concat()
    }
}

impl Tree {
    pub(super) fn new(kinds: Vec<Kind>) -> Self {
        Self { kinds, made: SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default(), owner: None }
    }

    /// Answers one request.
    pub(super) fn respond<'a>(&mut self, bytes: &'a [u8]) -> Response<'a> {
        let Some(request) = Request::read(bytes) else { return Response::default() };
        if matches!(request.operation, FORGET | BATCH_FORGET | INTERRUPT) {
            return Response::default();
        }
        let answer = match self.answer(&request) {
            Ok(body) => request.answer(0, &body),
            Err(error) => request.answer(-error, &[]),
        };
        Response { answer: Some(answer), touch: self.touch(&request) }
    }

    fn node(&self, number: u64) -> Option<Node> {
        if number == ROOT {
            return Some(Node::Root);
        }
        let mask = usize::try_from(number.checked_sub(FIRST_MASK)?).ok()?;
        self.kinds.get(mask).map(|kind| Node::Mask(mask, *kind))
    }

    /// The attempt behind a request. Attributes are there for everyone; a permission that is refused was wanted.
    fn touch<'a>(&self, request: &Request<'a>) -> Option<Touch<'a>> {
        let Node::Mask(mask, kind) = self.node(request.node)? else { return None };
        let (name, attempt) = match (request.operation, kind) {
            (LOOKUP, Kind::Directory) => (Some(request.name()?), MaskReach::Read),
            (OPEN, _) | (OPENDIR, Kind::Directory) => (None, MaskReach::Read),
            (ACCESS, _) if self.access(request).is_err() => (None, MaskReach::Look),
            _ => return None,
        };
        Some(Touch { thread: request.thread, mask, name, attempt })
    }

    fn answer(&mut self, request: &Request<'_>) -> Result<Vec<u8>, Refused> {
        match request.operation {
            INIT => init(request.body),
            DESTROY | RELEASE | RELEASEDIR => Ok(Vec::new()),
            STATFS => Ok(statistics()),
            LOOKUP => self.look_up(request),
            GETATTR => {
                let node = self.node(request.node).ok_or(libc::ENOENT)?;
                Ok([&VALID_SECONDS.to_ne_bytes()[..], &[0; 8], &self.attributes(node, request)].concat())
            }
            ACCESS => self.access(request),
            // The root is the launcher's alone.
            OPENDIR if request.node == ROOT => Ok(vec![0; 16]),
            READDIRPLUS if request.node == ROOT => Ok(self.list(request)),
            OPEN | OPENDIR | READ | READDIR | READDIRPLUS => Err(libc::EACCES),
            READLINK => Err(libc::EINVAL),
            // `user.*` attributes are contents; there are no others.
            GETXATTR if request.body.get(8..).is_some_and(|name| name.starts_with(b"user.")) => Err(libc::EACCES),
            GETXATTR => Err(libc::ENODATA),
            LISTXATTR => Ok(if request.body.starts_with(&[0; 4]) { vec![0; 8] } else { Vec::new() }),
            SETXATTR | REMOVEXATTR | SETATTR | SYMLINK | MKNOD | MKDIR | UNLINK | RMDIR | RENAME | LINK | WRITE
            | CREATE | RENAME2 | TMPFILE => Err(libc::EROFS),
            _ => Err(libc::ENOSYS),
        }
    }

    fn look_up(&mut self, request: &Request<'_>) -> Result<Vec<u8>, Refused> {
        match self.node(request.node) {
            Some(Node::Root) => {
                let name = request.name().and_then(|name| std::str::from_utf8(name).ok());
                let mask: usize = name.and_then(|name| name.parse().ok()).ok_or(libc::ENOENT)?;
                let kind = *self.kinds.get(mask).ok_or(libc::ENOENT)?;
                self.owner.get_or_insert((request.user, request.group));
                Ok(self.entry(Node::Mask(mask, kind), request))
            }
            Some(Node::Mask(_, Kind::Directory)) | None => Err(libc::ENOENT),
            Some(Node::Mask(_, Kind::File | Kind::Symlink)) => Err(libc::ENOTDIR),
        }
    }

    /// Masks from an offset on, as many as fit: `struct fuse_direntplus`.
    fn list(&mut self, request: &Request<'_>) -> Vec<u8> {
        const MOST: usize = 64 * 1024;
        self.owner.get_or_insert((request.user, request.group));
        let word =
            |at: usize| request.body.get(at..at + 8).and_then(|word| word.try_into().ok()).map(u64::from_ne_bytes);
        let first = word(8).and_then(|first| usize::try_from(first).ok()).unwrap_or(usize::MAX);
        // The lower four bytes.
        let room = word(16).map_or(0, |size| usize::try_from(size & u64::from(u32::MAX)).unwrap_or_default()).min(MOST);
        let mut listed = Vec::new();
        for (mask, kind) in self.kinds.iter().enumerate().skip(first) {
            let (node, name) = (Node::Mask(mask, *kind), mask.to_string());
            let kind = if *kind == Kind::Directory { DIRECTORY } else { FILE } >> 12;
            let (words, halves) =
                ([number(node), mask as u64 + 1], [u32::try_from(name.len()).unwrap_or_default(), kind]);
            let mut entry = self.entry(node, request);
            entry.extend(words.map(u64::to_ne_bytes).concat());
            entry.extend(halves.map(u32::to_ne_bytes).concat());
            entry.extend(name.as_bytes());
            entry.resize(entry.len().next_multiple_of(8), 0);
            if listed.len() + entry.len() > room {
                break;
            }
            listed.extend(entry);
        }
        listed
    }

    /// Checks the mode.
    fn access(&self, request: &Request<'_>) -> Result<Vec<u8>, Refused> {
        const SEARCH: u32 = 1;
        let wanted =
            request.body.get(..4).and_then(|wanted| wanted.try_into().ok()).map_or(u32::MAX, u32::from_ne_bytes);
        let granted = match self.node(request.node) {
            Some(Node::Root | Node::Mask(_, Kind::Directory)) => SEARCH,
            Some(Node::Mask(_, Kind::File | Kind::Symlink)) | None => 0,
        };
        if wanted & !granted == 0 { Ok(Vec::new()) } else { Err(libc::EACCES) }
    }

    /// `struct fuse_entry_out`.
    fn entry(&self, node: Node, request: &Request<'_>) -> Vec<u8> {
        let words = [number(node), 0, VALID_SECONDS, VALID_SECONDS, 0];
        [words.map(u64::to_ne_bytes).concat(), self.attributes(node, request)].concat()
    }

    /// `struct fuse_attr`.
    fn attributes(&self, node: Node, request: &Request<'_>) -> Vec<u8> {
        const BLOCK: u32 = 4096;
        let (mode, links) = match node {
            Node::Root | Node::Mask(_, Kind::Directory) => (DIRECTORY | 0o111, 2),
            Node::Mask(_, Kind::File | Kind::Symlink) => (FILE, 1),
        };
        let (user, group) = self.owner.unwrap_or((request.user, request.group));
        let (seconds, part) = (self.made.as_secs(), self.made.subsec_nanos());
        let words = [number(node), 0, 0, seconds, seconds, seconds];
        let halves = [part, part, part, mode, links, user, group, 0, BLOCK, 0];
        [words.map(u64::to_ne_bytes).concat(), halves.map(u32::to_ne_bytes).concat()].concat()
    }
}

fn number(node: Node) -> u64 {
    match node {
        Node::Root => ROOT,
        Node::Mask(mask, _) => FIRST_MASK + mask as u64,
    }
}

/// `struct fuse_init_out`: an older version than the kernel's own, and nothing that is optional.
fn init(body: &[u8]) -> Result<Vec<u8>, Refused> {
    let half = |at: usize| body.get(at..at + 4).and_then(|half| half.try_into().ok()).map(u32::from_ne_bytes);
    let (Some(MAJOR), Some(minor @ 23..)) = (half(0), half(4)) else { return Err(libc::EPROTO) };
    let mut halves = [0_u32; 16];
    let known = [MAJOR, minor.min(MINOR), 0, PARALLEL_LOOKUPS | ENTRIES_WITH_ATTRIBUTES, 0, MOST_WRITTEN, 1];
    halves.iter_mut().zip(known).for_each(|(half, value)| *half = value);
    Ok(halves.map(u32::to_ne_bytes).concat())
}

/// `struct fuse_statfs_out`: empty, without free space.
fn statistics() -> Vec<u8> {
    let (blocks, sizes) = ([0_u64; 5], [4096_u32, 255, 4096, 0, 0, 0, 0, 0, 0, 0]);
    [blocks.map(u64::to_ne_bytes).concat(), sizes.map(u32::to_ne_bytes).concat()].concat()
}
#[cfg(test)]
mod tests;
