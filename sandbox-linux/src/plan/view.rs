//! Compiles file rules to a view of the file system.
//!
//! If the root is readable, the host's own tree is made read-only in place with one call, and differences are mounted
//! on top: copies of writable trees, read-only copies inside those, empty files and directories over denied ones. If
//! the root is not readable, the view starts from an empty directory instead, and only granted paths are mounted in
//! it.
//!
//! Everything empty or private comes from one small tmpfs. It is attached below `/proc`, where the sandbox's own
//! `/proc` covers it later.

mod parts;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use stockade_protocol::{AbsPath, Access, FileRules, FileTarget, RawText, RuleSource};
use stockade_sandboxing::{HostFiles, Kind, Unenforceable};

use crate::masks::{Mask, Masks};
use crate::plan::step::{MOUNT_NO_DEVICES, MOUNT_NO_SETUID, MOUNT_READ_ONLY, Slot, Step};
use crate::{plan::devices, plan::landlock, wire};

/// The slot of that tmpfs.
const STAGING: Slot = 0;
/// The size limit of all private directories together.
const SCRATCH_SIZE: &str = "50%";

/// Why a part of a grant can't be taken away: a mount covers one spelling of a name.
pub(crate) const IGNORES_CASE: &str = "can be opened under other spellings: its file system ignores case";

/// A view: steps, and grants for Landlock.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) steps: Vec<Step>,
    pub(crate) grants: Vec<(AbsPath, landlock::Grant)>,
    /// Missing names that the command must not create: the caller holds them.
    pub(crate) placeholders: Vec<AbsPath>,
    /// The mounts that cover them, or contain the covers.
    pub(crate) covers: BTreeSet<AbsPath>,
    /// The masks that can be served.
    pub(crate) masks: Masks,
    /// The gaps of the view.
    pub(crate) warnings: Vec<String>,
}

/// A path at which the access changes.
#[derive(Clone, Debug)]
struct Place {
    path: AbsPath,
    access: Access,
    /// The directory in the tmpfs that replaces the host's, if any.
    piece: Option<String>,
}

struct Builder<'a> {
    host: &'a dyn HostFiles,
    /// The root of the view: empty for the host's own.
    base: &'static str,
    next_slot: Slot,
    next_piece: usize,
    /// The host's `/proc`, if the view does not start from the host's root.
    host_proc: Option<Slot>,
    root: Place,
    places: Vec<Place>,
    made: BTreeSet<RawText>,
    /// The first steps: the tmpfs, and the devices in it.
    begun: Vec<Step>,
    staging: Vec<Step>,
    texts: Vec<Step>,
    copies: Vec<Step>,
    attributes: Vec<Step>,
    attachments: Vec<Step>,
    grants: Vec<(AbsPath, landlock::Grant)>,
    placeholders: Vec<AbsPath>,
    covers: BTreeSet<AbsPath>,
    masked: Vec<Masked>,
    /// Paths whose names have one spelling only.
    spelled_once: BTreeSet<AbsPath>,
    warnings: Vec<String>,
}

/// A piece of the tmpfs over a denied path.
struct Masked {
    slot: Slot,
    piece: String,
    mask: Mask,
}

/// A file of the sandbox that replaces the host's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnFile {
    pub(crate) path: AbsPath,
    pub(crate) text: &'static str,
}

/// Compiles rules with resolved links, with the sandbox's own files for readable host files.
pub(crate) fn compile(files: &FileRules, host: &dyn HostFiles, own: &[OwnFile]) -> Result<View, Unenforceable> {
    let mut builder = Builder::new(files.access(&path("/")?), host)?;
    builder.begin()?;
    builder.warnings = host.matches(&files.globs())?.warnings(files);
    for (path, access) in keys(files, host)? {
        if !may_be_left_out(files, &path, host) {
            builder.place(&path, access)?;
        }
    }
    for file in own {
        if files.access(&file.path) >= Access::Read && host.kind(&file.path) == Some(Kind::File) {
            builder.own_file(file)?;
        }
    }
    builder.finish()
}

/// The first steps of every view that shows the host's own root, which can be done before the rest is known.
pub(crate) fn beginning(host: &dyn HostFiles) -> Result<Vec<Step>, Unenforceable> {
    let mut builder = Builder::new(Access::Read, host)?;
    builder.begin()?;
    Ok(builder.begun)
}

fn path(text: &str) -> Result<AbsPath, Unenforceable> {
    text.parse().map_err(|error: stockade_protocol::Invalid| internal(&error.to_string()))
}

fn internal(why: &str) -> Unenforceable {
    Unenforceable { what: String::from("the policy"), why: why.to_owned(), remedy: String::from("please report this") }
}

/// Every path at which the access may change, with its access according to the oracle.
pub(crate) fn keys(files: &FileRules, host: &dyn HostFiles) -> Result<Vec<(AbsPath, Access)>, Unenforceable> {
    let named = files.iter().filter_map(|rule| match &rule.target {
        FileTarget::Path(path) => Some(path.clone()),
        FileTarget::Glob(_) => None,
    });
    // Rules are sorted already, which makes this cheaper than a set.
    let mut keys: Vec<AbsPath> = named.chain(host.matches(&files.globs())?.matches).collect();
    // A directory sorts before its contents.
    keys.sort();
    keys.dedup();
    let keys = keys.into_iter().filter(|path| path.depth() > 0);
    Ok(keys.map(|path| (path.clone(), files.access(&path))).collect())
}

/// A credential file in a missing directory contains no secret yet, and protecting the name would deny the whole
/// directory to the command.
pub(crate) fn may_be_left_out(files: &FileRules, path: &AbsPath, host: &dyn HostFiles) -> bool {
    let is_mask = || files.deciding(path).is_some_and(|rule| rule.source == RuleSource::CredentialMask);
    path.parent().is_some_and(|parent| host.kind(&parent).is_none()) && is_mask()
}

impl<'a> Builder<'a> {
    fn new(access: Access, host: &'a dyn HostFiles) -> Result<Self, Unenforceable> {
        Ok(Self {
            host,
            base: if access >= Access::Read { "" } else { "/proc" },
            next_slot: STAGING + 1,
            next_piece: 0,
            host_proc: None,
            root: Place { path: path("/")?, access, piece: None },
            places: Vec::new(),
            made: BTreeSet::new(),
            begun: Vec::new(),
            staging: Vec::new(),
            texts: Vec::new(),
            copies: Vec::new(),
            attributes: Vec::new(),
            attachments: Vec::new(),
            grants: Vec::new(),
            placeholders: Vec::new(),
            covers: BTreeSet::new(),
            masked: Vec::new(),
            spelled_once: BTreeSet::new(),
            warnings: Vec::new(),
        })
    }

    /// The steps that depend only on whether the root is readable.
    fn begin(&mut self) -> Result<(), Unenforceable> {
        self.start()?;
        self.devices()?;
        self.begun.push(Step::Tmpfs {
            slot: STAGING,
            size: SCRATCH_SIZE.to_owned(),
            attributes: MOUNT_NO_SETUID | MOUNT_NO_DEVICES,
        });
        self.begun.append(&mut self.staging);
        // Before the tmpfs covers it.
        if let Some(slot) = self.host_proc {
            self.begun.push(Step::CloneTree { slot, path: path("/proc")? });
        }
        self.begun.push(Step::Attach { slot: STAGING, path: path("/proc")? });
        self.begun.append(&mut self.copies);
        self.begun.append(&mut self.attributes);
        Ok(())
    }

    fn start(&mut self) -> Result<(), Unenforceable> {
        if self.base.is_empty() {
            self.grants.push((self.root.path.clone(), landlock::Grant::of(self.root.access, Kind::Directory)));
            return Ok(());
        }
        self.directory("root", 0o555);
        self.directory("root/proc", 0o555);
        self.root = Place { path: self.root.path.clone(), access: Access::None, piece: Some(String::from("root")) };
        let slot = self.part("root", MOUNT_READ_ONLY)?;
        self.attachments.push(Step::Attach { slot, path: path(self.base)? });
        // The kernel permits a new `/proc` only if an old one is visible. The sandbox's own covers it.
        let slot = self.slot()?;
        self.host_proc = Some(slot);
        self.attributes.push(Step::Attributes { slot, set: self.restrictions(Access::None) });
        self.attachments.push(Step::Attach { slot, path: self.seen(&path("/proc")?)? });
        self.grants.push((path("/proc")?, landlock::Grant::of(Access::Read, Kind::Directory)));
        Ok(())
    }

    /// Adds the steps for one path, if they are needed.
    fn place(&mut self, path: &AbsPath, access: Access) -> Result<(), Unenforceable> {
        devices::check(path, access)?;
        let (above, kind) = (self.above(path), self.host.kind(path));
        // Most credentials are missing, and can't be created.
        if kind.is_none() && above.access != Access::Write && access != Access::Write {
            return Ok(());
        }
        let above = above.clone();
        if kind.is_some() && access < above.access {
            self.check_spellings(path, access, path.ancestors())?;
        }
        if kind == Some(Kind::Symlink) {
            return self.link(path, access, &above);
        }
        // A path that is granted above needs no grant of its own, and Landlock would then forbid moving files there.
        let is_granted_above = above.access == access && above.piece.is_none();
        if let Some(kind) = kind
            && access > Access::None
            && !is_granted_above
        {
            let grant = if devices::is_granted(path, access, self.host) {
                landlock::Grant::Device
            } else {
                landlock::Grant::of(access, kind)
            };
            self.grants.push((path.clone(), grant));
        }
        match (kind, above.access, access) {
            // Hidden already.
            (_, Access::None | Access::Scratch, Access::None) => Ok(()),
            (Some(_), same, own) if same == own && above.piece.is_none() => Ok(()),
            (Some(kind), _, Access::Read | Access::Write) => {
                self.reach(path, &above, kind)?;
                let usable = if devices::is_granted(path, access, self.host) { MOUNT_NO_DEVICES } else { 0 };
                self.copy(path, self.restrictions(access) & !usable)?;
                self.note(path, access, None);
                Ok(())
            }
            (Some(Kind::Directory), _, Access::Scratch) => {
                self.reach(path, &above, Kind::Directory)?;
                self.hide(path, access, 0o1777).map(drop)
            }
            (Some(Kind::Directory), _, Access::None) => {
                self.reach(path, &above, Kind::Directory)?;
                // The next free slot.
                let slot = self.next_slot;
                let piece = self.hide(path, access, 0o111)?;
                self.masked.push(Masked { slot, piece, mask: Mask { path: path.clone(), kind: Kind::Directory } });
                Ok(())
            }
            (Some(_), _, Access::None) => {
                if self.host.has_other_names(path) {
                    self.warnings
                        .push(format!("`{path}` is denied, and can be read under another name: it has hard links"));
                }
                self.pin_parents(path, &above)?;
                let piece = String::from("denied-file");
                self.make(Step::File { slot: STAGING, path: piece.as_str().into(), mode: 0 });
                let slot = self.part(&piece, MOUNT_READ_ONLY)?;
                self.masked.push(Masked { slot, piece, mask: Mask { path: path.clone(), kind: Kind::File } });
                self.attach(slot, path)
            }
            (Some(_), _, Access::Scratch) => {
                Err(refuse(path, "is a file", "a private directory can stand only in the place of a directory"))
            }
            (None, Access::Write, Access::None | Access::Scratch | Access::Read) => self.hold_missing(path, access),
            (None, _, Access::Write) => Err(refuse(path, "does not exist", "create it, or take it out of the policy")),
            // The path is missing and can't be created.
            (None, _, Access::None | Access::Scratch | Access::Read) => Ok(()),
        }
    }

    fn own_file(&mut self, file: &OwnFile) -> Result<(), Unenforceable> {
        let piece = format!("piece-{}", self.next_piece);
        self.next_piece += 1;
        self.make(Step::File { slot: STAGING, path: piece.as_str().into(), mode: 0o644 });
        // The tmpfs is attached there while the view is being built.
        self.texts.push(Step::WriteFile { path: path(&format!("/proc/{piece}"))?, text: file.text.to_owned() });
        let slot = self.part(&piece, MOUNT_READ_ONLY)?;
        self.attach(slot, &file.path)
    }

    /// Refuses a rule if one of these existing paths, at or above its own, opens under another spelling, and more is granted
    /// around it: the other spelling leads past the rule's mount.
    fn check_spellings(
        &mut self,
        rule: &AbsPath,
        access: Access,
        existing: impl Iterator<Item = AbsPath>,
    ) -> Result<(), Unenforceable> {
        for path in existing {
            if self.above(&path).access <= access || self.spelled_once.contains(&path) {
                continue;
            }
            if self.host.has_other_spellings(&path) {
                return Err(refuse(rule, IGNORES_CASE, "keep it on a file system that tells upper from lower case"));
            }
            self.spelled_once.insert(path);
        }
        Ok(())
    }

    /// The innermost place above a path.
    fn above(&self, path: &AbsPath) -> &Place {
        let holding = self.places.iter().filter(|place| *path != place.path && path.starts_with(&place.path));
        holding.max_by_key(|place| place.path.depth()).unwrap_or(&self.root)
    }

    fn note(&mut self, path: &AbsPath, access: Access, piece: Option<String>) {
        self.places.push(Place { path: path.clone(), access, piece });
    }

    fn restrictions(&self, access: Access) -> u64 {
        let read_only = if access == Access::Write { 0 } else { MOUNT_READ_ONLY };
        read_only | MOUNT_NO_SETUID | MOUNT_NO_DEVICES
    }

    /// A link can neither be replaced nor removed. Its target has a rule of its own.
    fn link(&mut self, path: &AbsPath, access: Access, above: &Place) -> Result<(), Unenforceable> {
        match (&above.piece, above.access) {
            // Hidden already.
            (Some(_), _) if access == Access::None => Ok(()),
            (Some(_), _) => {
                let target = self.host.link_target(path).and_then(|target| target.into_os_string().into_string().ok());
                let target =
                    target.ok_or_else(|| refuse(path, "is a link that can't be read", "name the path it leads to"))?;
                let inside = self.inside(path, above)?;
                self.parents_in_piece(&inside, above);
                self.make(Step::Symlink { slot: STAGING, path: inside, target: target.into() });
                Ok(())
            }
            (None, Access::Write) => {
                self.pin_parents(path, above)?;
                self.copy(path, MOUNT_READ_ONLY | MOUNT_NO_SETUID | MOUNT_NO_DEVICES)
            }
            (None, Access::None | Access::Scratch | Access::Read) => Ok(()),
        }
    }

    /// Ensures a mount point that can't be moved away.
    fn reach(&mut self, path: &AbsPath, above: &Place, kind: Kind) -> Result<(), Unenforceable> {
        match above.piece {
            Some(_) => self.mountpoint(path, kind),
            None => self.pin_parents(path, above),
        }
    }

    /// Bind-mounts each directory between a writable place and a path onto itself. A mount point can't be renamed, so
    /// protected paths below it stay in place.
    fn pin_parents(&mut self, path: &AbsPath, above: &Place) -> Result<(), Unenforceable> {
        if above.access != Access::Write {
            return Ok(());
        }
        let between: Vec<AbsPath> = path.ancestors().skip(1).take_while(|parent| *parent != above.path).collect();
        for parent in between.into_iter().rev() {
            self.copy(&parent, self.restrictions(Access::Write))?;
            self.note(&parent, Access::Write, None);
        }
        Ok(())
    }

    /// Prevents creating a name: the caller creates a placeholder for the duration of the run, and an empty read-only
    /// directory covers it.
    fn hold_missing(&mut self, path: &AbsPath, access: Access) -> Result<(), Unenforceable> {
        let above = self.above(path).clone();
        let parent = path.parent().filter(|parent| self.host.kind(parent) == Some(Kind::Directory));
        if parent.is_none() {
            return Err(refuse(path, "does not exist, and neither does its directory", "create the directory first"));
        }
        // The name itself is checked when its placeholder is made.
        self.check_spellings(path, access, path.ancestors().skip(1))?;
        self.pin_parents(path, &above)?;
        check_held(self.placeholders.len())?;
        if self.placeholders.is_empty() {
            self.attachments.push(Step::AwaitNames);
        }
        self.placeholders.push(path.clone());
        // The host's own root can't be detached, so mounts directly in it are removed one by one.
        self.covers.insert(if above.path.depth() == 0 { path.clone() } else { above.path.clone() });
        if access == Access::Scratch {
            return self.hide(path, access, 0o1777).map(drop);
        }
        // The mode matters even though this is mounted read-only: the command may be its owner.
        let (piece, mode) = if access == Access::None { ("denied", 0) } else { ("empty", 0o555) };
        self.directory(piece, mode);
        let slot = self.part(piece, MOUNT_READ_ONLY)?;
        self.note(path, access, None);
        self.attach(slot, path)
    }

    fn finish(mut self) -> Result<View, Unenforceable> {
        let masks = self.watch_masks()?;
        let restrictions = self.restrictions(self.root.access);
        let mut steps = self.begun;
        steps.extend(self.staging);
        steps.extend(self.texts);
        steps.extend(self.copies);
        steps.extend(self.attributes);
        steps.push(Step::RootAttributes { set: restrictions });
        steps.extend(self.attachments);
        if !self.base.is_empty() {
            steps.push(Step::EnterRoot { path: path(self.base)? });
        }
        Ok(View {
            steps,
            grants: self.grants,
            placeholders: self.placeholders,
            covers: self.covers,
            masks,
            warnings: self.warnings,
        })
    }
}

/// Each placeholder needs a descriptor in one message to the launcher.
pub(crate) fn check_held(held: usize) -> Result<(), Unenforceable> {
    if held < wire::MOST_FILES {
        return Ok(());
    }
    Err(Unenforceable {
        what: String::from("the policy"),
        why: format!(
            "more than {} names are protected that do not exist, in all of its writable directories",
            wire::MOST_FILES
        ),
        remedy: String::from("make a directory writable that holds several of them"),
    })
}

fn refuse(path: &AbsPath, why: &str, remedy: &str) -> Unenforceable {
    Unenforceable { what: format!("the rule for `{path}`"), why: format!("it {why}"), remedy: remedy.to_owned() }
}
