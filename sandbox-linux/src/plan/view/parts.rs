//! The parts of a view: copies of the host's trees, and pieces of the tmpfs.

use stockade_protocol::{AbsPath, Access, RawText};
use stockade_sandboxing::{Kind, Unenforceable};

use super::{Builder, Masked, Place, STAGING, internal, path};
use crate::masks::Masks;
use crate::plan::step::{MOUNT_NO_DEVICES, MOUNT_NO_SETUID, MOUNT_READ_ONLY, Slot, Step};
use crate::{plan::devices, plan::landlock, wire};

/// The mount point of the masks' file system in the tmpfs.
const MASKS: &str = "masks";

impl Builder<'_> {
    /// A `/dev` with only the devices that every program expects.
    pub(super) fn devices(&mut self) -> Result<(), Unenforceable> {
        let dev = path("/dev")?;
        self.mountpoint(&dev, Kind::Directory)?;
        let piece = self.hide(&dev, Access::None, 0o555)?;
        // Everything in it may be written.
        self.grants.push((dev, landlock::Grant::Devices));
        for (name, target) in devices::LINKS {
            self.make(Step::Symlink {
                slot: STAGING,
                path: format!("{piece}/{name}").into(),
                target: (*target).into(),
            });
        }
        for name in devices::NODES {
            let node = path(&format!("/dev/{name}"))?;
            if self.host.kind(&node).is_some() {
                self.mountpoint(&node, Kind::File)?;
                self.copy(&node, MOUNT_NO_SETUID)?;
            }
        }
        let terminals = path("/dev/pts")?;
        self.mountpoint(&terminals, Kind::Directory)?;
        let slot = self.slot()?;
        self.copies.push(Step::Terminals { slot });
        self.attach(slot, &terminals)?;
        let shared_memory = path("/dev/shm")?;
        self.mountpoint(&shared_memory, Kind::Directory)?;
        self.hide(&shared_memory, Access::Scratch, 0o1777).map(drop)
    }

    /// Covers a host directory by an empty one, and returns its name in the tmpfs.
    pub(super) fn hide(&mut self, path: &AbsPath, access: Access, mode: u32) -> Result<String, Unenforceable> {
        let piece = format!("piece-{}", self.next_piece);
        self.next_piece += 1;
        self.directory(&piece, mode);
        let read_only = if access == Access::Scratch { 0 } else { MOUNT_READ_ONLY };
        let slot = self.part(&piece, read_only)?;
        self.note(path, access, Some(piece.clone()));
        if access == Access::Scratch {
            self.grants.push((path.clone(), landlock::Grant::WriteTree));
        }
        self.attach(slot, path)?;
        Ok(piece)
    }

    /// Takes masks from the served file system, if there is one. A directory that leads to a granted path has to be
    /// the tmpfs's, and so does an unreadable root.
    pub(super) fn watch_masks(&mut self) -> Result<Masks, Unenforceable> {
        let leads_on = |masked: &Masked| {
            let inside = [masked.piece.as_bytes(), b"/"].concat();
            self.made.iter().any(|made| made.as_bytes().starts_with(&inside))
        };
        let (leading, masked): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.masked).into_iter().partition(|masked| leads_on(masked));
        let are_all = leading.is_empty() && self.base.is_empty();
        if masked.is_empty() {
            return Ok(Masks { entries: Vec::new(), are_all });
        }
        let masks = self.slot()?;
        for (number, Masked { slot, piece, .. }) in masked.iter().enumerate() {
            let is_own = |step: &&mut Step| matches!(step, Step::ClonePart { slot: own, .. } if own == slot);
            if let Some(step) = self.copies.iter_mut().find(is_own) {
                let (name, path) = (number.to_string(), piece.clone());
                *step = Step::CloneMask { slot: *slot, masks, name, from: STAGING, path };
            }
        }
        self.directory(MASKS, 0o700);
        let attributes = MOUNT_READ_ONLY | MOUNT_NO_SETUID | MOUNT_NO_DEVICES;
        // The tmpfs is attached there while the view is being built.
        let (path, count) = (path(&format!("/proc/{MASKS}"))?, masked.len());
        self.texts.push(Step::Masks { slot: masks, path, attributes, count });
        Ok(Masks { entries: masked.into_iter().map(|masked| masked.mask).collect(), are_all })
    }

    /// Adds a step in the tmpfs, once.
    pub(super) fn make(&mut self, step: Step) {
        let (Step::Directory { path, .. } | Step::File { path, .. } | Step::Symlink { path, .. }) = &step else {
            return;
        };
        if self.made.insert(path.clone()) {
            self.staging.push(step);
        }
    }

    pub(super) fn directory(&mut self, name: &str, mode: u32) {
        self.make(Step::Directory { slot: STAGING, path: name.into(), mode });
    }

    /// The path inside the tmpfs.
    pub(super) fn inside(&self, path: &AbsPath, above: &Place) -> Result<RawText, Unenforceable> {
        let piece = above.piece.as_ref().ok_or_else(|| internal("a mount point is missing"))?;
        let names = path.components().skip(above.path.depth());
        Ok(names.fold(piece.clone().into_bytes(), |inside, name| [&inside, &b"/"[..], name].concat()).into())
    }

    /// The parents of a visible path. In a denied place they can be entered but not listed.
    pub(super) fn parents_in_piece(&mut self, inside: &RawText, above: &Place) {
        let mode = if above.access == Access::Scratch { 0o755 } else { 0o111 };
        let bytes = inside.as_bytes();
        let ends: Vec<usize> =
            bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end).skip(1).collect();
        for end in ends {
            let path = bytes.get(..end).unwrap_or_default().to_vec().into();
            self.make(Step::Directory { slot: STAGING, path, mode });
        }
    }

    /// Creates a mount point, if the host's own is hidden.
    pub(super) fn mountpoint(&mut self, path: &AbsPath, kind: Kind) -> Result<(), Unenforceable> {
        let above = self.above(path).clone();
        if above.piece.is_none() {
            return Ok(());
        }
        let inside = self.inside(path, &above)?;
        self.parents_in_piece(&inside, &above);
        self.make(match kind {
            Kind::Directory => Step::Directory { slot: STAGING, path: inside, mode: 0o755 },
            Kind::File | Kind::Symlink => Step::File { slot: STAGING, path: inside, mode: 0o644 },
        });
        Ok(())
    }

    pub(super) fn slot(&mut self) -> Result<Slot, Unenforceable> {
        let slot = self.next_slot;
        if slot >= wire::MOST_SLOTS {
            return Err(Unenforceable {
                what: String::from("the policy"),
                why: format!("it needs more than {} mounts", wire::MOST_SLOTS),
                remedy: String::from("deny a directory instead of the many files in it"),
            });
        }
        self.next_slot += 1;
        Ok(slot)
    }

    /// A copy of the host's tree at a path, attached in its place with these attributes.
    pub(super) fn copy(&mut self, path: &AbsPath, set: u64) -> Result<(), Unenforceable> {
        let slot = self.slot()?;
        self.copies.push(Step::CloneTree { slot, path: path.clone() });
        // The host's mount attributes are kept; these are added.
        self.attributes.push(Step::Attributes { slot, set });
        self.attach(slot, path)
    }

    /// A piece of the tmpfs as a mount of its own.
    pub(super) fn part(&mut self, name: &str, set: u64) -> Result<Slot, Unenforceable> {
        let slot = self.slot()?;
        self.copies.push(Step::ClonePart { slot, from: STAGING, path: name.to_owned() });
        self.attributes.push(Step::Attributes { slot, set: set | MOUNT_NO_SETUID | MOUNT_NO_DEVICES });
        Ok(slot)
    }

    pub(super) fn attach(&mut self, slot: Slot, path: &AbsPath) -> Result<(), Unenforceable> {
        let path = self.seen(path)?;
        self.attachments.push(Step::Attach { slot, path });
        Ok(())
    }

    /// The location of a path while the view is being built.
    pub(super) fn seen(&self, path: &AbsPath) -> Result<AbsPath, Unenforceable> {
        AbsPath::parse([self.base.as_bytes(), path.as_raw().as_bytes()].concat())
            .map_err(|error| internal(&error.to_string()))
    }
}
