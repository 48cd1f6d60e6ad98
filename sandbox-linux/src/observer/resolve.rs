//! Where a path leads, as the kernel would find it for the calling process.
//!
//! The kernel itself follows the path, from the caller's root, into descriptors that can neither read nor write
//! (`O_PATH`), so that nothing happens by looking. The caller may change the path or the files meanwhile: then what is
//! noted may be wrong, and nothing else, since no call is allowed because of what was found.
//!
//! The view of a sandbox shows the host's files under their own paths, so a path in it is one of the host's.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use rustix::fs::{Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use stockade_protocol::AbsPath;

use crate::sys::notify;

/// As many links as the kernel follows for one path.
const MOST_LINKS: usize = 40;
/// How often the kernel is asked the same. A try takes microseconds.
const MOST_TRIES: usize = 2000;
/// The longest path that a call takes, with its end.
const LONGEST_PATH: usize = 4096;
const PAGE: u64 = 4096;

/// Whether a link in the last place of a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastLink {
    Followed,
    Kept,
}

/// A tree of files, from its root.
#[derive(Debug)]
pub(super) struct Tree {
    root: OwnedFd,
    /// The root's own path, as this process sees it.
    name: Vec<u8>,
}

/// A place that a path leads to. There may be nothing there.
#[derive(Debug)]
pub(super) struct Located {
    /// With links followed, but for one in the last place that is kept.
    pub(super) path: AbsPath,
    /// The directory that it is in.
    directory: OwnedFd,
    name: Vec<u8>,
}

impl Located {
    /// The path, if it ends in a name: not in `..`, and not the root.
    pub(super) fn named(self) -> Option<AbsPath> {
        (self.name != b".").then_some(self.path)
    }

    /// Opens it, in the tree in which it was looked for.
    pub(super) fn open(&self, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        rustix::fs::openat(&self.directory, self.name.as_slice(), flags, mode)
    }

    /// Whether something is there, in the tree in which it was looked for.
    pub(super) fn exists(&self) -> bool {
        self.stat().is_ok()
    }

    /// What is there.
    pub(super) fn stat(&self) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.directory, self.name.as_slice(), rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
    }
}

impl Tree {
    /// The caller's. Fails for one that does not let itself be looked at.
    pub(super) fn of(thread: i32) -> io::Result<Self> {
        Self::open(&format!("/proc/{thread}/root"))
    }

    pub(super) fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// The host's.
    pub(super) fn hosts() -> io::Result<Self> {
        Self::open("/")
    }

    fn open(path: &str) -> io::Result<Self> {
        let root = rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let name = own_path(&root)?;
        Ok(Self { root, name })
    }

    /// The path of an open directory, from this root.
    pub(super) fn inside(&self, path: Vec<u8>) -> Option<Vec<u8>> {
        match self.name.as_slice() {
            b"/" => Some(path),
            name if path == name => Some(b"/".to_vec()),
            name => path.strip_prefix(name).filter(|rest| rest.starts_with(b"/")).map(<[u8]>::to_vec),
        }
    }

    /// A path as the call has it, from the root on.
    pub(super) fn absolute(&self, thread: i32, directory: Option<i32>, path: &[u8]) -> Option<Vec<u8>> {
        if let Some(text) = own_link(path) {
            return self.behind_own_link(thread, text);
        }
        if path.starts_with(b"/") {
            return Some(path.to_vec());
        }
        if path.is_empty() {
            return None;
        }
        let from = match directory {
            None | Some(libc::AT_FDCWD) => format!("/proc/{thread}/cwd"),
            Some(number) => format!("/proc/{thread}/fd/{number}"),
        };
        let from = fs::read_link(from).ok()?.into_os_string().into_vec();
        let mut text = self.inside(from).filter(|from| from.starts_with(b"/"))?;
        text.push(b'/');
        text.extend(path);
        Some(text)
    }

    /// A path that starts at a link of the calling process's own in `/proc`: what that is to the caller.
    fn behind_own_link(&self, thread: i32, (link, rest): (&[u8], &[u8])) -> Option<Vec<u8>> {
        let link = std::str::from_utf8(link).ok()?;
        // A pipe, a socket and a file that is removed have no path.
        let start = fs::read_link(format!("/proc/{thread}/{link}")).ok()?.into_os_string().into_vec();
        let mut text = self.inside(start).filter(|start| start.starts_with(b"/"))?;
        text.extend(rest);
        Some(text)
    }

    /// Where a path from the root leads.
    pub(super) fn locate(&self, text: &[u8], last: LastLink) -> Result<Located, Errno> {
        let mut text = text.to_vec();
        for _ in 0..MOST_LINKS {
            let (directory, name) = split(&text);
            let (opened, mut path) = self.directory(directory)?;
            // Its links mean other files to this process than to the caller.
            if path == b"/proc" || path.starts_with(b"/proc/") {
                return Err(Errno::NOENT);
            }
            if name.is_empty() {
                // It ends in `..`, or is the root: that is no link.
                let path = AbsPath::parse(path).map_err(|_| Errno::INVAL)?;
                return Ok(Located { path, directory: opened, name: b".".to_vec() });
            }
            let target = match last {
                LastLink::Followed => rustix::fs::readlinkat(&opened, name, Vec::new()).ok(),
                LastLink::Kept => None,
            };
            if path != b"/" {
                path.push(b'/');
            }
            let Some(target) = target.map(std::ffi::CString::into_bytes) else {
                path.extend(name);
                let path = AbsPath::parse(path).map_err(|_| Errno::INVAL)?;
                return Ok(Located { path, directory: opened, name: name.to_vec() });
            };
            text = if target.starts_with(b"/") { target } else { [path, target].concat() };
        }
        Err(Errno::LOOP)
    }

    /// Opens a directory, and gives its path with all links followed.
    fn directory(&self, text: &[u8]) -> Result<(OwnedFd, Vec<u8>), Errno> {
        match self.open_directory(text, ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS) {
            // Without links a path means what it says.
            Ok(opened) => Ok((opened, normal(text))),
            Err(Errno::LOOP) => {
                let opened = self.open_directory(text, ResolveFlags::IN_ROOT)?;
                let path = own_path(&opened).map_err(|_| Errno::NOENT)?;
                Ok((opened, self.inside(path).ok_or(Errno::NOENT)?))
            }
            Err(errno) => Err(errno),
        }
    }

    /// The kernel gives up (`EAGAIN`) if anything is renamed or mounted while it goes up a `..`, by whatever process of
    /// this machine, so it is asked again.
    fn open_directory(&self, text: &[u8], resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = || rustix::fs::openat2(&self.root, text, flags, Mode::empty(), resolve);
        let answers = (0..MOST_TRIES).map(|_| open());
        let mut last = answers.skip_while(|answer| matches!(answer, Err(Errno::AGAIN)));
        last.next().unwrap_or(Err(Errno::AGAIN))
    }
}

/// A link of the calling process's own that a path begins with, by its name below the process's directory in `/proc`, and
/// the rest of the path.
fn own_link(path: &[u8]) -> Option<(&[u8], &[u8])> {
    const OWN: [&[u8]; 3] = [b"/proc/self/", b"/proc/thread-self/", b"/dev/"];
    let below = OWN.iter().find_map(|own| path.strip_prefix(*own))?;
    let length = |names: usize| {
        let mut slashes = below.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        slashes.nth(names - 1).unwrap_or(below.len())
    };
    let is_device = path.starts_with(b"/dev/");
    let end = match below {
        [b'f', b'd', b'/', ..] => length(2),
        [b'c', b'w', b'd', ..] | [b'r', b'o', b'o', b't', ..] if !is_device => length(1),
        _ => return None,
    };
    let (link, rest) = below.split_at_checked(end)?;
    let is_one = link == b"cwd" || link == b"root" || link.strip_prefix(b"fd/").is_some_and(is_number);
    is_one.then_some((link, rest))
}

fn is_number(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(u8::is_ascii_digit)
}

/// What the kernel calls an open directory.
pub(super) fn own_path(file: &OwnedFd) -> io::Result<Vec<u8>> {
    use std::os::fd::AsRawFd as _;
    let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    Ok(path.as_os_str().as_bytes().to_vec())
}

/// The directory and the last name of a path. The name is empty if the path ends in `..` or is the root.
fn split(text: &[u8]) -> (&[u8], &[u8]) {
    let mut text = text;
    // `a/`, `a/.` and `a` are the same place.
    while let Some(shorter) = text.strip_suffix(b"/").or_else(|| text.strip_suffix(b"/.")) {
        text = shorter;
    }
    if text.is_empty() {
        return (b"/", b"");
    }
    let cut = text.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (directory, name) = text.split_at(cut);
    if name == b".." { (text, b"") } else { (directory, name) }
}

/// A path without `.`, `..` and empty names, where no name is a link.
fn normal(text: &[u8]) -> Vec<u8> {
    let mut names: Vec<&[u8]> = Vec::new();
    for name in text.split(|byte| *byte == b'/') {
        match name {
            b"" | b"." => {}
            b".." => drop(names.pop()),
            name => names.push(name),
        }
    }
    let mut path = Vec::with_capacity(text.len() + 1);
    for name in &names {
        path.push(b'/');
        path.extend(*name);
    }
    if path.is_empty() { b"/".to_vec() } else { path }
}

/// A path in the caller's memory.
pub(super) fn read_path(thread: i32, address: u64) -> io::Result<Vec<u8>> {
    let path = read_text(thread, address, LONGEST_PATH)?;
    if path.len() < LONGEST_PATH { Ok(path) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// A text in the caller's memory, up to its end, or the beginning of one that is longer than `most`. It is read up to the
/// end of a page at a time, since the next one may not be there.
pub(super) fn read_text(thread: i32, address: u64, most: usize) -> io::Result<Vec<u8>> {
    let mut text = Vec::with_capacity(256.min(most));
    while text.len() < most {
        let from = address.checked_add(text.len() as u64).ok_or(io::ErrorKind::InvalidInput)?;
        let left = usize::try_from(PAGE - from % PAGE).unwrap_or(most).min(most - text.len());
        let mut chunk = [0; PAGE as usize];
        let chunk = chunk.get_mut(..left).ok_or(io::ErrorKind::InvalidInput)?;
        let read = notify::read_memory(thread, from, chunk)?;
        let chunk = chunk.get(..read).unwrap_or_default();
        if let Some(end) = chunk.iter().position(|byte| *byte == 0) {
            text.extend(chunk.get(..end).unwrap_or_default());
            return Ok(text);
        }
        if read == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        text.extend(chunk);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_of_the_calling_process_are_its_own() {
        for (path, link, rest) in [
            ("/proc/self/cwd/../x", "cwd", "/../x"),
            ("/proc/thread-self/root/etc", "root", "/etc"),
            ("/proc/self/fd/3", "fd/3", ""),
            ("/dev/fd/12/x", "fd/12", "/x"),
        ] {
            assert_eq!(own_link(path.as_bytes()), Some((link.as_bytes(), rest.as_bytes())), "{path}");
        }
        for other in
            ["/proc/self/comm", "/proc/1/cwd/x", "/dev/cwd/x", "/proc/self/fd/x", "/proc/self/cwdx", "/dev/null", "x"]
        {
            assert_eq!(own_link(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn names_are_split_as_the_kernel_takes_them() {
        for (text, directory, name) in [
            ("/a/b", "/a/", "b"),
            ("/a/b/", "/a/", "b"),
            ("/a/b/.", "/a/", "b"),
            ("/a/b//./", "/a/", "b"),
            ("/a/..", "/a/..", ""),
            ("/", "/", ""),
            ("/..", "/..", ""),
        ] {
            assert_eq!(split(text.as_bytes()), (directory.as_bytes(), name.as_bytes()), "{text}");
        }
    }

    /// What other processes rename meanwhile is no reason to find nothing.
    #[test]
    fn a_path_is_found_while_files_are_renamed() {
        use std::sync::atomic::{AtomicBool, Ordering};

        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/deep")).unwrap();
        fs::write(root.join("a"), "").unwrap();
        let tree = Tree::hosts().unwrap();
        let text = root.join("real/deep/../../real/deep/../x").into_os_string().into_vec();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (first, second) in [("a", "b"), ("c", "d")] {
                fs::write(root.join(first), "").unwrap();
                let (first, second, is_over) = (root.join(first), root.join(second), &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        fs::rename(&first, &second).unwrap();
                        fs::rename(&second, &first).unwrap();
                    }
                });
            }
            let missed = (0..20_000).filter(|_| tree.locate(&text, LastLink::Kept).is_err()).count();
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(missed, 0);
        });
    }

    #[test]
    fn links_lead_where_the_kernel_goes() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/deep")).unwrap();
        symlink("real/deep", root.join("short")).unwrap();
        symlink(root.join("real"), root.join("away")).unwrap();
        symlink("missing", root.join("real/dangling")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let tree = Tree::hosts().unwrap();
        let at = |text: &str, last| {
            let text = root.join(text);
            tree.locate(text.as_os_str().as_bytes(), last).map(|found| {
                found.path.to_host_path().unwrap().strip_prefix(&root).unwrap().to_str().unwrap().to_owned()
            })
        };
        assert_eq!(at("real/new", LastLink::Followed).unwrap(), "real/new");
        assert_eq!(at("short/../x", LastLink::Followed).unwrap(), "real/x", "behind a link, `..` is above its target");
        assert_eq!(at("short", LastLink::Kept).unwrap(), "short");
        assert_eq!(at("short", LastLink::Followed).unwrap(), "real/deep");
        assert_eq!(at("away/dangling", LastLink::Followed).unwrap(), "real/missing");
        assert_eq!(at("real/deep/..", LastLink::Followed).unwrap(), "real");
        assert_eq!(at("loop", LastLink::Followed).unwrap_err(), Errno::LOOP);
        assert_eq!(at("nothing/x", LastLink::Followed).unwrap_err(), Errno::NOENT);
        for own in ["/dev/stderr", "/dev/fd/1", "/proc/self/comm", "/proc/self/cwd/x"] {
            let refused = tree.locate(own.as_bytes(), LastLink::Followed).unwrap_err();
            assert!([Errno::NOENT, Errno::XDEV].contains(&refused), "{own}: {refused}");
        }
    }
}
