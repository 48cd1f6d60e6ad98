//! Copying a call: everything is read from its caller once, and what was read is what is judged, shown and done.

use std::fs;
use std::mem::size_of;

use rustix::fs::{Gid, Timespec, Timestamps, UTIME_NOW, Uid};
use stockade_protocol::AbsPath;

use super::super::calls::{self, Does, Follows, PathAt};
use super::super::resolve::{LastLink, Tree, read_path};
use super::FileCall;
use crate::plan::system_calls;
use crate::sys::notify::{self, Notification};

/// The bits that make a program run as its owner. No command may set them.
const SET_ID_BITS: u32 = 0o6000;
const MODE_BITS: u32 = 0o7777;
/// The kernel's limits, `XATTR_NAME_MAX` and `XATTR_SIZE_MAX`.
const LONGEST_ATTRIBUTE_NAME: usize = 255;
const LONGEST_ATTRIBUTE: usize = 64 * 1024;

impl FileCall {
    /// A call that waits; `None` for one that can't be made for its caller.
    pub(crate) fn copy(call: &Notification, view: &Tree) -> Option<Self> {
        let (path, does) = calls::find(call.call)?;
        Copier { call, view }.copy(path, does)
    }
}

struct Copier<'a> {
    call: &'a Notification,
    view: &'a Tree,
}

impl Copier<'_> {
    fn argument(&self, place: usize) -> u64 {
        self.call.arguments.get(place).copied().unwrap_or_default()
    }

    fn flags(&self, place: Option<usize>) -> i32 {
        place.map_or(0, |place| self.argument(place) as i32)
    }

    fn copy(&self, path: PathAt, does: Does) -> Option<FileCall> {
        let last = path.path;
        let kept = || self.at(path, LastLink::Kept);
        Some(match does {
            Does::Open { flags } => self.open(path, self.argument(flags) as i32, last + 2)?,
            Does::Create => self.open(path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, last + 1)?,
            Does::MakeDirectory => {
                let at = self.located(path, LastLink::Kept, TrailingSlash::Allowed)?;
                FileCall::MakeDirectory { at, mode: self.new_mode(last + 1)? }
            }
            Does::MakeNode { mode } => match self.argument(mode) as u32 & libc::S_IFMT {
                0 | libc::S_IFREG => FileCall::MakeFile { at: kept()?, mode: self.new_mode(mode)? },
                // An end of a pipe is never handed over, so a program could not use what was made.
                _ => return None,
            },
            Does::MakeLink => {
                FileCall::MakeLink { at: kept()?, target: read_path(self.call.thread, self.argument(0)).ok()? }
            }
            Does::Unlink { flags } if self.flags(flags) & libc::AT_REMOVEDIR == 0 => FileCall::Unlink { at: kept()? },
            Does::Unlink { .. } | Does::RemoveDirectory => {
                FileCall::RemoveDirectory { at: self.located(path, LastLink::Kept, TrailingSlash::Allowed)? }
            }
            Does::Rename { to, flags } => {
                let (from, to) = (kept()?, self.at(to, LastLink::Kept)?);
                FileCall::Rename { from, to, flags: self.flags(flags).cast_unsigned() }
            }
            Does::Link { to } => {
                let follows = to.directory.is_some() && self.argument(4) as i32 & libc::AT_SYMLINK_FOLLOW != 0;
                let from = self.at(path, if follows { LastLink::Followed } else { LastLink::Kept })?;
                FileCall::Link { from, to: self.at(to, LastLink::Kept)? }
            }
            Does::Truncate => {
                let length = u64::try_from(self.argument(1).cast_signed()).ok()?;
                FileCall::Truncate { at: self.at(path, LastLink::Followed)?, length }
            }
            Does::Mode(follows) => self.mode(self.at(path, self.last_link(follows))?, last + 1)?,
            Does::Owner { user, follows } => self.owner(self.at(path, self.last_link(follows))?, user)?,
            Does::Attribute { name, follows } => self.attribute(self.at(path, self.last_link(follows))?, name)?,
            Does::Times(follows) => {
                FileCall::Times { at: self.at(path, self.last_link(follows))?, times: self.times(last + 1)? }
            }
        })
    }

    fn open(&self, path: PathAt, flags: i32, mode: usize) -> Option<FileCall> {
        let has = |flag: i32| flags & flag == flag;
        let keeps = has(libc::O_NOFOLLOW) || has(libc::O_CREAT | libc::O_EXCL);
        let at = self.at(path, if keeps { LastLink::Kept } else { LastLink::Followed })?;
        let mode = if has(libc::O_CREAT) { self.new_mode(mode)? } else { 0 };
        // The call has a flag of its own for this.
        let flags = if self.call.call == system_calls::SYS_creat { flags & !libc::O_CLOEXEC } else { flags };
        Some(FileCall::Open { at, flags, mode })
    }

    fn mode(&self, at: AbsPath, place: usize) -> Option<FileCall> {
        let mode = self.argument(place) as u32 & MODE_BITS;
        (mode & SET_ID_BITS == 0).then_some(FileCall::Mode { at, mode })
    }

    /// Attributes of users. Access lists and those of the system are left to the kernel.
    fn attribute(&self, at: AbsPath, name: usize) -> Option<FileCall> {
        let text = read_path(self.call.thread, self.argument(name)).ok()?;
        if !text.starts_with(b"user.") || text.len() > LONGEST_ATTRIBUTE_NAME {
            return None;
        }
        match self.call.call {
            libc::SYS_setxattr | libc::SYS_lsetxattr => {
                let length =
                    usize::try_from(self.argument(name + 2)).ok().filter(|length| *length <= LONGEST_ATTRIBUTE)?;
                let mut value = vec![0; length];
                let read = notify::read_memory(self.call.thread, self.argument(name + 1), &mut value).ok()?;
                let flags = self.argument(name + 3) as u32;
                (read == length).then_some(FileCall::SetAttribute { at, name: text, value, flags })
            }
            libc::SYS_removexattr | libc::SYS_lremovexattr => Some(FileCall::RemoveAttribute { at, name: text }),
            _ => None,
        }
    }

    fn owner(&self, at: AbsPath, place: usize) -> Option<FileCall> {
        let (user, group) = (self.argument(place) as u32, self.argument(place + 1) as u32);
        let own = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
        // No other user exists in the sandbox.
        let is_known = [u32::MAX, own.0].contains(&user) && [u32::MAX, own.1].contains(&group);
        let user = (user != u32::MAX).then(|| Uid::from_raw(user));
        let group = (group != u32::MAX).then(|| Gid::from_raw(group));
        is_known.then_some(FileCall::Owner { at, user, group })
    }

    fn last_link(&self, follows: Follows) -> LastLink {
        let keeps = match follows {
            Follows::Always => false,
            Follows::Never => true,
            Follows::Unless(place) => self.argument(place) as i32 & libc::AT_SYMLINK_NOFOLLOW != 0,
        };
        if keeps { LastLink::Kept } else { LastLink::Followed }
    }

    /// A path that does not end in a slash: behind one the kernel looks for a directory.
    fn at(&self, path: PathAt, last: LastLink) -> Option<AbsPath> {
        self.located(path, last, TrailingSlash::Refused)
    }

    fn located(&self, path: PathAt, last: LastLink, slash: TrailingSlash) -> Option<AbsPath> {
        let text = read_path(self.call.thread, self.argument(path.path)).ok()?;
        if slash == TrailingSlash::Refused && text.ends_with(b"/") {
            return None;
        }
        // The kernel refuses to make, move or remove what is called so.
        if matches!(text.rsplit(|byte| *byte == b'/').find(|name| !name.is_empty()), Some(b"." | b"..")) {
            return None;
        }
        let directory = path.directory.map(|place| self.argument(place) as i32);
        let text = self.view.absolute(self.call.thread, directory, &text)?;
        self.view.locate(&text, last).ok()?.named()
    }

    /// The mode of something new, less what the caller masks.
    fn new_mode(&self, place: usize) -> Option<u32> {
        let mode = self.argument(place) as u32 & MODE_BITS & !SET_ID_BITS;
        Some(mode & !file_mode_mask(self.call.thread)?)
    }

    fn times(&self, place: usize) -> Option<Timestamps> {
        let address = self.argument(place);
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        if address == 0 {
            return Some(Timestamps { last_access: now, last_modification: now });
        }
        let number = |index: usize| {
            let mut bytes = [0; size_of::<i64>()];
            let address = address.checked_add((index * bytes.len()) as u64)?;
            let read = notify::read_memory(self.call.thread, address, &mut bytes).ok()?;
            (read == bytes.len()).then(|| i64::from_ne_bytes(bytes))
        };
        let time = |seconds: usize, nanoseconds: i64| Some(Timespec { tv_sec: number(seconds)?, tv_nsec: nanoseconds });
        let [last_access, last_modification] = match self.call.call {
            system_calls::SYS_utime => [time(0, 0)?, time(1, 0)?],
            system_calls::SYS_utimes | system_calls::SYS_futimesat => {
                [time(0, number(1)?.checked_mul(1000)?)?, time(2, number(3)?.checked_mul(1000)?)?]
            }
            libc::SYS_utimensat => [time(0, number(1)?)?, time(2, number(3)?)?],
            _ => return None,
        };
        Some(Timestamps { last_access, last_modification })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum TrailingSlash {
    Allowed,
    Refused,
}

fn file_mode_mask(thread: i32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(mask.trim(), 8).ok()
}
