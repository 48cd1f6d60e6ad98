//! Building the sandbox: the steps that make namespaces, the view of the file system, and the
//! devices in it.
//!
//! Paths are opened component by component without following symbolic links: a path in a plan is
//! canonical, and one that has become a link since then is refused (`ELOOP`), not followed.

use crate::reader::Reader;
use crate::sys::{self, AT_FDCWD, CText, EINVAL, EMPTY, ENOSYS, EPERM, EPROTO, ESTALE, NO_FOLLOW, Result};
use crate::{contain, masks, network, wire};

const CLONE: u64 = 1;
const EMPTY_PATH: u64 = 0x1000;
const RECURSIVE: u64 = 0x8000;
const PR_SET_CHILD_SUBREAPER: usize = 36;

/// Descriptors of mounts that are not attached yet, by number. Zero, which is the control socket,
/// stands for none: an empty table then costs nothing in the program's file.
pub(crate) struct Slots([i32; wire::MOST_SLOTS]);

impl Slots {
    pub(crate) const fn new() -> Self {
        Self([0; wire::MOST_SLOTS])
    }

    pub(crate) fn set(&mut self, slot: usize, file: i32) -> Result<()> {
        *self.0.get_mut(slot).ok_or(EPROTO)? = file;
        Ok(())
    }

    pub(crate) fn get(&self, slot: usize) -> Result<i32> {
        self.0.get(slot).copied().filter(|file| *file > 0).ok_or(EPROTO)
    }

    /// Keeps a copy of a part of a mount, which is attached already.
    pub(crate) fn clone_part(&mut self, slot: usize, from: i32, path: CText<'_>) -> Result<()> {
        let file = sys::open_exact(from, path, NO_FOLLOW)?;
        let tree = sys::open_tree(file, EMPTY, CLONE | EMPTY_PATH);
        sys::close(file);
        self.set(slot, tree?)
    }
}

/// Does one step; `None` if it is not one of these.
pub(crate) fn step(number: u8, plan: &mut Reader, slots: &mut Slots) -> Option<Result<()>> {
    Some(match number {
        wire::STEP_NAMESPACES => plan.number().and_then(sys::unshare).map(drop),
        wire::STEP_WRITE_FILE => write_file(plan),
        wire::STEP_BEGIN_NETWORK => network::begin(),
        wire::STEP_JOIN_NETWORK => network::join(),
        wire::STEP_ENTER_NETWORK => plan.text().and_then(network::enter),
        wire::STEP_HOST_NAME => plan.bytes().and_then(sys::set_host_name).map(drop),
        wire::STEP_CLONE_TREE => clone_tree(plan, slots),
        wire::STEP_CLONE_PART => clone_part(plan, slots),
        wire::STEP_CLONE_MASK => masks::clone_mask(plan, slots),
        wire::STEP_DETACH => plan.text().and_then(sys::detach_mount).map(drop),
        wire::STEP_TMPFS => tmpfs(plan, slots),
        wire::STEP_ATTRIBUTES => attributes(plan, slots),
        wire::STEP_ROOT_ATTRIBUTES => root_attributes(plan),
        wire::STEP_ATTACH => attach(plan, slots),
        wire::STEP_DIRECTORY => directory(plan, slots),
        wire::STEP_FILE => file(plan, slots),
        wire::STEP_SYMLINK => symlink(plan, slots),
        wire::STEP_PROC => proc(plan),
        wire::STEP_TERMINALS => terminals(plan, slots),
        wire::STEP_ENTER_ROOT => enter_root(plan),
        wire::STEP_KEYRING => keyring(),
        wire::STEP_ADOPT_ORPHANS => sys::prctl(PR_SET_CHILD_SUBREAPER, [1, 0, 0, 0]).map(drop),
        wire::STEP_KEEP_SIGNALS => contain::keep_signals(),
        wire::STEP_MOUNT_POINT => mount_point(plan),
        _ => return None,
    })
}

fn write_file(plan: &mut Reader) -> Result<()> {
    const WRITE_ONLY: u64 = 1;
    let (path, bytes) = (plan.text()?, plan.bytes()?);
    let file = sys::open(AT_FDCWD, path, WRITE_ONLY)?;
    let written = sys::write(file, bytes);
    sys::close(file);
    if written? == bytes.len() { Ok(()) } else { Err(EINVAL) }
}

/// Opens the last component itself, even if that is a link that the plan knows of.
fn open_last(path: CText<'_>) -> Result<i32> {
    sys::open_exact(AT_FDCWD, path, NO_FOLLOW)
}

/// Whether nobody but the host's administrator can put a link on the way to a path: it lies directly in
/// the root or in `/dev`. It is then used by its name; the last component is not followed either way.
fn is_fixed(path: CText<'_>) -> bool {
    let names = path.bytes().strip_prefix(b"/dev/").or(path.bytes().strip_prefix(b"/"));
    names.is_some_and(|names| !names.contains(&b'/'))
}

/// Attaches a mount at a path.
pub(crate) fn attach_at(mount: i32, path: CText<'_>) -> Result<()> {
    if is_fixed(path) {
        return sys::move_mount(mount, AT_FDCWD, path).map(drop);
    }
    let target = open_last(path)?;
    let done = sys::move_mount(mount, target, EMPTY);
    sys::close(target);
    done.map(drop)
}

/// A copy of a directory's mount, and of all mounts below it, attached nowhere.
fn clone_tree(plan: &mut Reader, slots: &mut Slots) -> Result<()> {
    const NO_FOLLOW_LAST: u64 = 0x100;
    let (slot, path) = (plan.index()?, plan.text()?);
    if is_fixed(path) {
        return slots.set(slot, sys::open_tree(AT_FDCWD, path, CLONE | RECURSIVE | NO_FOLLOW_LAST)?);
    }
    let file = open_last(path)?;
    let tree = sys::open_tree(file, EMPTY, CLONE | EMPTY_PATH | RECURSIVE);
    sys::close(file);
    slots.set(slot, tree?)
}

/// A copy of a part of another slot's file system, which is attached already.
fn clone_part(plan: &mut Reader, slots: &mut Slots) -> Result<()> {
    let (slot, from, path) = (plan.index()?, plan.index()?, plan.text()?);
    slots.clone_part(slot, slots.get(from)?, path)
}

fn tmpfs(plan: &mut Reader, slots: &mut Slots) -> Result<()> {
    let (slot, size, attributes) = (plan.index()?, plan.text()?, plan.number()?);
    let options = [(CText::new(b"size\0")?, size), (CText::new(b"mode\0")?, CText::new(b"0755\0")?)];
    let mount = sys::new_file_system(CText::new(b"tmpfs\0")?, &options, attributes)?;
    slots.set(slot, mount)
}

fn attributes(plan: &mut Reader, slots: &mut Slots) -> Result<()> {
    let (slot, set, propagation) = (plan.index()?, plan.number()?, plan.number()?);
    sys::mount_setattr(slots.get(slot)?, set, propagation).map(drop)
}

/// One call for the whole file system, however many mounts it has.
fn root_attributes(plan: &mut Reader) -> Result<()> {
    let (set, propagation) = (plan.number()?, plan.number()?);
    let root = sys::open_exact(AT_FDCWD, CText::new(b"/\0")?, 0)?;
    let done = sys::mount_setattr(root, set, propagation);
    sys::close(root);
    done.map(drop)
}

fn attach(plan: &mut Reader, slots: &Slots) -> Result<()> {
    let (slot, path) = (plan.index()?, plan.text()?);
    attach_at(slots.get(slot)?, path)
}

fn directory(plan: &mut Reader, slots: &Slots) -> Result<()> {
    let (slot, path, mode) = (plan.index()?, plan.text()?, plan.number()?);
    sys::mkdir(slots.get(slot)?, path, mode).map(drop)
}

fn file(plan: &mut Reader, slots: &Slots) -> Result<()> {
    let (slot, path, mode) = (plan.index()?, plan.text()?, plan.number()?);
    sys::make_file(slots.get(slot)?, path, mode).map(drop)
}

fn symlink(plan: &mut Reader, slots: &Slots) -> Result<()> {
    let (slot, path, target) = (plan.index()?, plan.text()?, plan.text()?);
    sys::symlink(target, slots.get(slot)?, path).map(drop)
}

/// The processes of this pid namespace and no others.
fn proc(plan: &mut Reader) -> Result<()> {
    let (path, attributes) = (plan.text()?, plan.number()?);
    let mount = sys::new_file_system(CText::new(b"proc\0")?, &[], attributes)?;
    let done = attach_at(mount, path);
    sys::close(mount);
    done
}

/// Pseudo-terminals of the sandbox's own.
fn terminals(plan: &mut Reader, slots: &mut Slots) -> Result<()> {
    let (slot, attributes) = (plan.index()?, plan.number()?);
    let options =
        [(CText::new(b"ptmxmode\0")?, CText::new(b"0666\0")?), (CText::new(b"mode\0")?, CText::new(b"0620\0")?)];
    slots.set(slot, sys::new_file_system(CText::new(b"devpts\0")?, &options, attributes)?)
}

/// Keys of the caller's session stay behind. Where an outer filter refuses the call, it refuses it to
/// the command as well, and no key can be reached.
fn keyring() -> Result<()> {
    match sys::new_session_keyring() {
        Err(EPERM | ENOSYS) => Ok(()),
        other => other.map(drop),
    }
}

/// Makes sure that what another program was to mount is mounted at this very path, and not at one
/// that a link has led it to.
fn mount_point(plan: &mut Reader) -> Result<()> {
    let file = open_last(plan.text()?)?;
    let mounted = sys::is_mount_point(file);
    sys::close(file);
    if mounted? { Ok(()) } else { Err(ESTALE) }
}

fn enter_root(plan: &mut Reader) -> Result<()> {
    let root = open_last(plan.text()?)?;
    sys::change_directory_to(root)?;
    sys::close(root);
    sys::enter_root().map(drop)
}
