//! Whether a call on files is a denial: the policy denies it, and the host would have let this user do it.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

use rustix::fs::{Access as Wanted, AtFlags, CWD, StatVfsMountFlags, accessat, statvfs};
use stockade_protocol::{AbsPath, Access, FileRules, FileTarget};
use stockade_sandboxing::{DeniedAct, HostFiles as _, Kind, RealFiles};

use super::calls::{Does, Follows, PathAt};
use super::resolve::{LastLink, Located, Tree, read_path};
use crate::sys::notify::Notification;

/// The sandbox has these of its own. What is there works, and nothing else can be made there.
const OWN_DIRECTORIES: [&str; 2] = ["/dev", "/proc"];

/// A path of a call, found in the sandbox's view or, where it is hidden there, on the host.
struct Target {
    found: Located,
    is_hidden: bool,
    /// A slash at the end: only a directory can be meant.
    names_directory: bool,
}

/// What calls are judged by.
pub(super) struct Judge<'a> {
    pub(super) files: &'a FileRules,
    /// The command's tree, and the host's.
    pub(super) view: &'a Tree,
    pub(super) host: &'a Tree,
}

impl Judge<'_> {
    /// What a call is denied, if it is. `None` as soon as the policy is seen to allow it.
    pub(super) fn denied(&self, call: &Notification, path: PathAt, does: Does) -> Option<DeniedAct> {
        let argument = |place: usize| call.arguments.get(place).copied().unwrap_or_default();
        let flags = |place: Option<usize>| place.map_or(0, |place| argument(place) as i32);
        match does {
            Does::Open { flags } => self.opened(call, path, argument(flags) as i32),
            Does::Create => self.opened(call, path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC),
            Does::MakeDirectory => self.made(call, path, |_| true).map(DeniedAct::MakeDirectory),
            Does::MakeNode { mode } => {
                let is_device = matches!(argument(mode) as u32 & libc::S_IFMT, libc::S_IFCHR | libc::S_IFBLK);
                if is_device { None } else { self.made(call, path, is_file_name).map(DeniedAct::Create) }
            }
            Does::MakeLink => self.made(call, path, is_file_name).map(DeniedAct::Create),
            Does::Unlink { flags: place } if flags(place) & libc::AT_REMOVEDIR != 0 => {
                self.directory_removed(call, path)
            }
            Does::Unlink { .. } => self.removed(call, path, |found| !found.is_dir()),
            Does::RemoveDirectory => self.directory_removed(call, path),
            Does::Rename { to, flags: place } => self.renamed(call, path, to, flags(place).cast_unsigned()),
            Does::Link { to } => {
                let from = self.target(call, path, LastLink::Kept)?;
                let path = if self.there(&from) { self.made(call, to, is_file_name) } else { None };
                path.map(|path| DeniedAct::Link { from: from.found.path, path })
            }
            Does::Truncate => self.changed(call, path, Follows::Always, |path, _| may(path, Wanted::WRITE_OK)),
            Does::Mode(follows) => {
                self.changed(call, path, follows, |path, found| is_own(found) && is_writable_mount(path))
            }
            Does::Owner { user, follows } => {
                let (user, group) = (argument(user) as u32, argument(user + 1) as u32);
                let may = |path: &AbsPath, found: &Metadata| may_give(found, user, group) && is_writable_mount(path);
                self.changed(call, path, follows, may)
            }
            Does::Attribute { name, follows } => {
                let name = read_path(call.thread, argument(name)).ok()?;
                let may =
                    |path: &AbsPath, found: &Metadata| may_attribute(path, found, &name) && is_writable_mount(path);
                self.changed(call, path, follows, may)
            }
            Does::Times(follows) => self.changed(call, path, follows, |path, found| {
                may(path, Wanted::WRITE_OK) || (is_own(found) && is_writable_mount(path))
            }),
        }
    }

    /// Where a path of a call leads. What a mask or a private directory hides is found on the host.
    fn target(&self, call: &Notification, path: PathAt, last: LastLink) -> Option<Target> {
        let argument = |place: usize| call.arguments.get(place).copied();
        let text = read_path(call.thread, argument(path.path)?).ok()?;
        let directory = path.directory.and_then(argument).map(|number| number as i32);
        let text = self.view.absolute(call.thread, directory, &text)?;
        let names_directory = text.ends_with(b"/");
        if let Ok(found) = self.view.locate(&text, last) {
            return Some(Target { found, is_hidden: false, names_directory });
        }
        let found = self.host.locate(&text, last).ok()?;
        Some(Target { found, is_hidden: true, names_directory })
    }

    /// The same, if the policy denies to write there.
    fn denied_target(&self, call: &Notification, path: PathAt, last: LastLink) -> Option<Target> {
        self.target(call, path, last).filter(|target| self.denies(target))
    }

    fn denies(&self, target: &Target) -> bool {
        let path = &target.found.path;
        let is_below = |name: &&str| name.parse().is_ok_and(|own: AbsPath| path.starts_with(&own));
        let own = OWN_DIRECTORIES.iter().find(|name| is_below(name));
        match (self.files.access(path), own) {
            (_, Some(&"/proc")) => false,
            (Access::Write, _) => false,
            (Access::Scratch, _) => target.is_hidden,
            (Access::Read | Access::None, Some(_)) => target.is_hidden || is_missing_device(target),
            (Access::Read | Access::None, None) => true,
        }
    }

    /// Whether the target exists: on the host if the policy denies it, else as the command sees it.
    fn there(&self, target: &Target) -> bool {
        if self.denies(target) { metadata(&target.found.path).is_some() } else { target.found.exists() }
    }

    fn opened(&self, call: &Notification, path: PathAt, flags: i32) -> Option<DeniedAct> {
        let has = |flag: i32| flags & flag == flag;
        let (creates, excludes) = (has(libc::O_CREAT), has(libc::O_CREAT | libc::O_EXCL));
        if has(libc::O_PATH) {
            return None;
        }
        let last = if excludes || has(libc::O_NOFOLLOW) { LastLink::Kept } else { LastLink::Followed };
        let target = self.denied_target(call, path, last)?;
        // No open makes a directory, or writes one.
        if target.names_directory && !has(libc::O_TMPFILE) {
            return None;
        }
        let target = target.found.path;
        let Some(found) = metadata(&target) else {
            return (creates && !has(libc::O_DIRECTORY) && may_change_directory_of(&target))
                .then_some(DeniedAct::Create(target));
        };
        if found.is_dir() {
            // A file without a name, in that directory.
            let has_no_name = has(libc::O_TMPFILE) && may(&target, Wanted::WRITE_OK | Wanted::EXEC_OK);
            return has_no_name.then(|| target.join(b"unnamed".to_vec()).ok().map(DeniedAct::Create)).flatten();
        }
        if excludes || found.is_symlink() || found.file_type().is_socket() || has(libc::O_DIRECTORY) {
            return None;
        }
        let wanted = match flags & libc::O_ACCMODE {
            libc::O_RDWR => Wanted::WRITE_OK | Wanted::READ_OK,
            libc::O_WRONLY => Wanted::WRITE_OK,
            _ if has(libc::O_TRUNC) => Wanted::WRITE_OK | Wanted::READ_OK,
            // It exists, and is only read.
            _ => return None,
        };
        may(&target, wanted).then_some(DeniedAct::Write(target))
    }

    /// A name that was to be made, if it was not there.
    fn made(&self, call: &Notification, path: PathAt, fits: impl Fn(&Target) -> bool) -> Option<AbsPath> {
        let target = self.denied_target(call, path, LastLink::Kept).filter(fits)?.found.path;
        (metadata(&target).is_none() && may_change_directory_of(&target)).then_some(target)
    }

    fn removed(&self, call: &Notification, path: PathAt, fits: impl Fn(&Metadata) -> bool) -> Option<DeniedAct> {
        let target = self.denied_target(call, path, LastLink::Kept)?.found.path;
        let found = metadata(&target)?;
        (fits(&found) && may_remove(&target, &found)).then_some(DeniedAct::Replace(target))
    }

    fn directory_removed(&self, call: &Notification, path: PathAt) -> Option<DeniedAct> {
        let denied = self.removed(call, path, Metadata::is_dir)?;
        let DeniedAct::Replace(target) = &denied else { return None };
        let is_empty =
            target.to_host_path().and_then(|path| path.read_dir().ok()).is_some_and(|mut all| all.next().is_none());
        is_empty.then_some(denied)
    }

    fn renamed(&self, call: &Notification, from: PathAt, to: PathAt, flags: u32) -> Option<DeniedAct> {
        let (from, to) = (self.target(call, from, LastLink::Kept)?, self.target(call, to, LastLink::Kept)?);
        if !self.there(&from) {
            return None;
        }
        let replaced = metadata(&to.found.path);
        if replaced.is_some() && flags & libc::RENAME_NOREPLACE != 0 {
            return None;
        }
        let denied_from =
            self.denies(&from).then(|| from.found.path.clone()).or_else(|| self.held_below(&from.found.path));
        if let Some(path) = denied_from {
            let found = metadata(&path)?;
            return may_remove(&path, &found).then_some(DeniedAct::Replace(path));
        }
        if !self.denies(&to) {
            return None;
        }
        let to = to.found.path;
        match replaced {
            Some(found) => may_remove(&to, &found).then_some(DeniedAct::Replace(to)),
            None => may_change_directory_of(&to).then_some(DeniedAct::Create(to)),
        }
    }

    /// What the policy denies below a directory that may be written: it stays where it is, and the directory with it.
    fn held_below(&self, path: &AbsPath) -> Option<AbsPath> {
        let rules = self.files.iter().filter_map(|rule| match &rule.target {
            FileTarget::Path(held) => Some(held),
            FileTarget::Glob(_) => None,
        });
        let mut held = rules.filter(|held| *held != path && held.starts_with(path));
        held.find(|held| self.files.access(held) < Access::Write && metadata(held).is_some()).cloned()
    }

    fn changed(
        &self,
        call: &Notification,
        path: PathAt,
        follows: Follows,
        may: impl Fn(&AbsPath, &Metadata) -> bool,
    ) -> Option<DeniedAct> {
        let keeps = match follows {
            Follows::Always => false,
            Follows::Never => true,
            Follows::Unless(place) => {
                call.arguments.get(place).is_some_and(|flags| *flags as i32 & libc::AT_SYMLINK_NOFOLLOW != 0)
            }
        };
        let last = if keeps { LastLink::Kept } else { LastLink::Followed };
        let target = self.denied_target(call, path, last)?.found.path;
        let found = metadata(&target)?;
        may(&target, &found).then_some(DeniedAct::Write(target))
    }
}

/// What is at a path of the host; a name that a run holds counts as absent.
fn metadata(path: &AbsPath) -> Option<Metadata> {
    let kind: Kind = RealFiles.kind(path)?;
    let found = path.to_host_path()?.symlink_metadata().ok()?;
    (found.is_symlink() == (kind == Kind::Symlink)).then_some(found)
}

/// Whether this user may do this with what is at a path.
fn may(path: &AbsPath, wanted: Wanted) -> bool {
    path.to_host_path().is_some_and(|path| accessat(CWD, &path, wanted, AtFlags::EACCESS).is_ok())
}

/// Whether this user may make names in the directory that a path is in.
fn may_change_directory_of(path: &AbsPath) -> bool {
    path.parent().is_some_and(|parent| may(&parent, Wanted::WRITE_OK | Wanted::EXEC_OK))
}

/// Whether this user may remove a name: in a sticky directory only what is the user's own.
fn may_remove(path: &AbsPath, found: &Metadata) -> bool {
    const STICKY: u32 = 0o1000;
    let Some(parent) = path.parent().and_then(|parent| parent.to_host_path()?.metadata().ok()) else { return false };
    let is_sticky = parent.mode() & STICKY != 0;
    may_change_directory_of(path) && (!is_sticky || is_own(found) || is_own(&parent))
}

/// Whether the host has a device here that the sandbox's own `/dev` lacks.
fn is_missing_device(target: &Target) -> bool {
    !target.found.exists()
        && metadata(&target.found.path)
            .is_some_and(|found| found.file_type().is_char_device() || found.file_type().is_block_device())
}

fn is_file_name(target: &Target) -> bool {
    !target.names_directory
}

/// Whether this user may give a file to a user and a group: the administrator to all, others only to groups of their own.
/// The largest number leaves things as they are.
fn may_give(found: &Metadata, user: u32, group: u32) -> bool {
    if rustix::process::geteuid().is_root() {
        return true;
    }
    let groups = rustix::process::getgroups().unwrap_or_default();
    let is_ours =
        |group: u32| group == rustix::process::getegid().as_raw() || groups.iter().any(|own| own.as_raw() == group);
    is_own(found) && (user == u32::MAX || user == found.uid()) && (group == u32::MAX || is_ours(group))
}

/// Whether this user may set an extended attribute: those of users with the file's own rights, access lists as its owner, the
/// others as the administrator.
/// <https://man7.org/linux/man-pages/man7/xattr.7.html>
fn may_attribute(path: &AbsPath, found: &Metadata, name: &[u8]) -> bool {
    if name.starts_with(b"user.") {
        return (found.is_file() || found.is_dir()) && may(path, Wanted::WRITE_OK);
    }
    let is_access_list = name.starts_with(b"system.posix_acl_");
    if is_access_list { is_own(found) } else { rustix::process::geteuid().is_root() }
}

fn is_own(found: &Metadata) -> bool {
    let user = rustix::process::geteuid();
    user.is_root() || user.as_raw() == found.uid()
}

fn is_writable_mount(path: &AbsPath) -> bool {
    let mount = path.to_host_path().and_then(|path| statvfs(&path).ok());
    mount.is_some_and(|mount| !mount.f_flag.contains(StatVfsMountFlags::RDONLY))
}
