//! Repositories that were granted to a command: what git writes in their metadata is made outside, in git's place.
//!
//! The metadata stays read-only for the command, in the kernel. Its calls there are made by the supervisor, if they are about
//! names that git writes ([`names`]), by the rules for every act outside ([`act`](super::act)), and with these besides:
//!
//! - No link is ever made there, and only regular files are moved, so that git outside writes through none.
//! - What git acts on (`HEAD`, the index, the steps of a rebase) is replaced by a copy that was checked ([`content`]) and
//!   that no command ever had open.
//! - An object is made once; what has its name stays.

mod content;
mod names;

use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, Timespec, Timestamps, UTIME_OMIT, fstat};
use rustix::io::Errno;
use stockade_protocol::{AbsPath, Access, FileRule, FileRules, FileTarget, RuleSource};
use stockade_sandboxing::Repository;

use self::names::{Check, Entry, Part};
use super::act::{Actor, FileCall, NotActed, Place, Reply, regular};

/// The longest file that is checked.
const LONGEST: u64 = 64 << 20;
/// What objects and packs are made: nothing else is a mode of theirs.
const OBJECT_MODE: u32 = 0o444;

/// The repositories of one command.
#[derive(Debug)]
pub(super) struct Repositories {
    places: Vec<Metadata>,
    /// The directories, and nothing else.
    rules: FileRules,
}

/// A directory of metadata.
#[derive(Debug)]
struct Metadata {
    directory: AbsPath,
    part: Part,
    /// The length of an object's name.
    id: usize,
}

/// How a call is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    /// As any other.
    Usual,
    Move,
    /// A file gets the name of its object, if that is free.
    Keep,
    /// A checked copy takes the place of the second path.
    Publish {
        check: Check,
        id: usize,
    },
}

impl Repositories {
    /// `None` if there are none.
    pub(super) fn new(granted: &[Repository]) -> Option<Arc<Self>> {
        let places: Vec<Metadata> = granted.iter().flat_map(parts).collect();
        let rule = |place: &Metadata| FileRule::path(place.directory.clone(), Access::Write);
        let rules = FileRules::new(places.iter().map(rule)).ok()?;
        (!places.is_empty()).then(|| Arc::new(Self { places, rules }))
    }

    /// Makes a call, if it is one that git makes.
    pub(super) fn act(&self, call: &FileCall, policy: &FileRules, actor: &Actor<'_>) -> Result<Reply, NotActed> {
        if !call.paths().all(|path| self.is_liftable(path, policy)) {
            return Err(NotActed);
        }
        let deed = self.deed(call).ok_or(NotActed)?;
        let place = |path: &AbsPath| {
            let place = Place::hold(path, actor.view, actor.host, &self.rules)?;
            // What lies under another name by now was not looked at.
            if place.path() == path { Ok(place) } else { Err(NotActed) }
        };
        match (call, deed) {
            (FileCall::Rename { from, to, .. }, Deed::Move | Deed::Keep | Deed::Publish { .. }) => {
                let (from, to) = (place(from)?, place(to)?);
                let is_file = |place: &Place| place.kind().is_none_or(|kind| kind == FileType::RegularFile);
                if !is_file(&from) || !is_file(&to) {
                    return Err(NotActed);
                }
                let moved = match deed {
                    Deed::Publish { check, id } => publish(&from, &to, check, id)?,
                    Deed::Keep => rename(&from, &to, RenameFlags::NOREPLACE),
                    Deed::Usual | Deed::Move => rename(&from, &to, RenameFlags::empty()),
                };
                Ok(Reply::Returned(moved.err().map_or(0, Errno::raw_os_error)))
            }
            _ => {
                call.paths().try_for_each(|path| place(path).map(drop))?;
                actor.act(call, &self.rules)
            }
        }
    }

    /// Whether nothing but the protection of metadata stands against a path: what a person or an administrator denies
    /// stays denied.
    fn is_liftable(&self, path: &AbsPath, policy: &FileRules) -> bool {
        let Some(metadata) = self.metadata(path) else { return false };
        let Some(rule) = policy.deciding(path) else { return false };
        let is_outside = match &rule.target {
            FileTarget::Path(target) => !target.starts_with(&metadata.directory),
            FileTarget::Glob(_) => false,
        };
        let is_plain = match rule.source {
            RuleSource::ProtectedMetadata => true,
            RuleSource::Policy | RuleSource::Approval => is_outside,
            RuleSource::Administrator
            | RuleSource::CredentialMask
            | RuleSource::OwnFiles
            | RuleSource::OwnFilesLink => false,
        };
        rule.access == Access::Read && is_plain
    }

    /// The directory of metadata that a path lies in: the innermost, since a worktree's lies in the common one.
    fn metadata(&self, path: &AbsPath) -> Option<&Metadata> {
        let holding = self.places.iter().filter(|place| path != &place.directory && path.starts_with(&place.directory));
        holding.max_by_key(|place| place.directory.depth())
    }

    fn deed(&self, call: &FileCall) -> Option<Deed> {
        let entry = |path: &AbsPath| {
            let metadata = self.metadata(path)?;
            metadata.part.entry(&metadata.names(path))
        };
        let is_known = |is_it: bool| is_it.then_some(Deed::Usual);
        match call {
            FileCall::Open { at, .. } | FileCall::Truncate { at, .. } => {
                is_known(matches!(entry(at)?, Entry::Plain | Entry::Temporary))
            }
            FileCall::MakeDirectory { at, .. } => {
                let metadata = self.metadata(at)?;
                is_known(metadata.part.makes_directory(&metadata.names(at)))
            }
            FileCall::RemoveDirectory { at } => {
                let metadata = self.metadata(at)?;
                is_known(metadata.part.removes_directory(&metadata.names(at)))
            }
            FileCall::Unlink { at } => is_known(match entry(at)? {
                Entry::Plain | Entry::Temporary => true,
                Entry::Checked { may_be_removed, .. } => may_be_removed,
                Entry::Object => false,
            }),
            FileCall::Rename { from, to, flags: 0 } => match (entry(from)?, entry(to)?) {
                (Entry::Temporary, Entry::Object) => Some(Deed::Keep),
                (Entry::Plain, Entry::Plain) => Some(Deed::Move),
                (Entry::Plain, Entry::Checked { by, .. }) => {
                    Some(Deed::Publish { check: by, id: self.metadata(to)?.id })
                }
                _ => None,
            },
            FileCall::Link { from, to } => is_known((entry(from)?, entry(to)?) == (Entry::Temporary, Entry::Object)),
            FileCall::Times { at, .. } => entry(at).map(|_| Deed::Usual),
            FileCall::Mode { at, mode: OBJECT_MODE } => {
                is_known(matches!(entry(at)?, Entry::Object | Entry::Temporary))
            }
            FileCall::Rename { .. }
            | FileCall::Mode { .. }
            | FileCall::MakeFile { .. }
            | FileCall::MakeLink { .. }
            | FileCall::Owner { .. }
            | FileCall::SetAttribute { .. }
            | FileCall::RemoveAttribute { .. } => None,
        }
    }
}

/// Whether git may write or make this file or directory of a repository that was granted, as far as its name tells.
#[must_use]
pub fn git_writes(repository: &Repository, path: &AbsPath) -> bool {
    let Some(granted) = Repositories::new(std::slice::from_ref(repository)) else { return false };
    let Some(metadata) = granted.metadata(path) else { return false };
    let names = metadata.names(path);
    metadata.part.entry(&names).is_some() || metadata.part.makes_directory(&names)
}

impl Metadata {
    fn names<'a>(&self, path: &'a AbsPath) -> Vec<&'a [u8]> {
        path.components().skip(self.directory.depth()).collect()
    }
}

fn parts(repository: &Repository) -> Vec<Metadata> {
    let Repository { own, common, object_name_length: id, .. } = repository;
    let of = |directory: &AbsPath, part| Metadata { directory: directory.clone(), part, id: *id };
    if own == common { vec![of(own, Part::Whole)] } else { vec![of(own, Part::Worktree), of(common, Part::Common)] }
}

fn rename(from: &Place, to: &Place, flags: RenameFlags) -> Result<(), Errno> {
    rustix::fs::renameat_with(&from.directory, &from.name, &to.directory, &to.name, flags)
}

/// Puts a copy of one file into the place of another, if its content is sound, and removes the first.
fn publish(from: &Place, to: &Place, check: Check, id: usize) -> Result<Result<(), Errno>, NotActed> {
    let source = match regular(from, OFlags::RDONLY)? {
        Ok(source) => source,
        Err(errno) => return Ok(Err(errno)),
    };
    let content = read(&source).ok_or(NotActed)?;
    if !content::is_sound(check, &content, id) {
        return Err(NotActed);
    }
    Ok(replace(&source, &content, to)
        .and_then(|()| rustix::fs::unlinkat(&from.directory, &from.name, AtFlags::empty())))
}

fn read(source: &OwnedFd) -> Option<Vec<u8>> {
    let length = u64::try_from(fstat(source).ok()?.st_size).ok().filter(|length| *length <= LONGEST)?;
    let mut content = Vec::new();
    let mut file = std::io::Read::take(std::fs::File::from(source.try_clone().ok()?), length);
    std::io::Read::read_to_end(&mut file, &mut content).ok()?;
    Some(content)
}

/// Makes a file under a name of this program's own, and moves it into place.
fn replace(source: &OwnedFd, content: &[u8], to: &Place) -> Result<(), Errno> {
    static MADE: AtomicU64 = AtomicU64::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let name = format!(".stockade-{}-{number}", std::process::id());
    let found = fstat(source)?;
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(found.st_mode & 0o666);
    let copy = rustix::fs::openat(&to.directory, name.as_str(), flags, mode)?;
    // Git tells by the time of its index which files may have changed since.
    let time = |seconds: i64, nanoseconds: u64| Timespec { tv_sec: seconds, tv_nsec: nanoseconds.cast_signed() };
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: time(found.st_mtime, found.st_mtime_nsec),
    };
    let written = write(&copy, content)
        .and_then(|()| rustix::fs::futimens(&copy, &times))
        .and_then(|()| rustix::fs::renameat(&to.directory, name.as_str(), &to.directory, &to.name));
    if written.is_err() {
        rustix::fs::unlinkat(&to.directory, name.as_str(), AtFlags::empty()).ok();
    }
    written
}

fn write(file: &OwnedFd, mut content: &[u8]) -> Result<(), Errno> {
    while !content.is_empty() {
        let written = rustix::io::write(file.as_fd(), content)?;
        content = content.get(written..).unwrap_or_default();
    }
    Ok(())
}
