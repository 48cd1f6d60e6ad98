//! Masks that tell which process looks behind them.
//!
//! Something empty stands in the place of what is denied. Where this user may have a FUSE file system in namespaces of
//! its own (<https://docs.kernel.org/filesystems/fuse.html>), each mask is an entry of one such file system, for which
//! the program outside answers: it hears of each try to look behind a mask, with the process that makes it. Where
//! there is none, masks are pieces of the sandbox's own tmpfs, and give the same.
//!
//! The kernel takes a device only if it was opened in the namespace of users that the file system is to belong to.
//! Nothing here keeps the device: when the program outside closes it, or dies, masks stay closed and answer nothing.

use crate::build::{Slots, attach_at};
use crate::reader::Reader;
use crate::sys::{self, AT_FDCWD, CText, Decimal, EPROTO, Errno, Result};
use crate::{Report, wire};

const NEW_MOUNTS: u64 = 0x0002_0000;
const NEW_USERS: u64 = 0x1000_0000;

/// What it takes to have masks that are answered for.
pub(crate) struct Masks {
    /// The socket of the program that answers; negative if there is none.
    socket: i32,
    /// The device, where it had to be opened before the mounts were entered.
    device: Result<i32>,
}

impl Masks {
    pub(crate) const NONE: Self = Self { socket: -1, device: Err(EPROTO) };

    pub(crate) fn answered_by(socket: i32) -> Self {
        Self { socket, ..Self::NONE }
    }

    /// Enters mounts that another program has made, with the rights of the user who made them. The view has no device
    /// to open any more.
    pub(crate) fn enter(&mut self, plan: &mut Reader) -> Result<()> {
        let mounts = sys::open(AT_FDCWD, plan.text()?, 0)?;
        let users = sys::owner_of_namespace(mounts)?;
        sys::join_namespace(users, NEW_USERS)?;
        self.device = open_device();
        sys::join_namespace(mounts, NEW_MOUNTS)?;
        [mounts, users].into_iter().for_each(sys::close);
        Ok(())
    }

    /// Makes the file system, attaches it, and passes the device on. Without a program to answer, or without the
    /// device, the slot stays empty.
    pub(crate) fn mount(&mut self, plan: &mut Reader, slots: &mut Slots) -> Result<()> {
        let (slot, path, attributes, count) = (plan.index()?, plan.text()?, plan.number()?, plan.index()?);
        let Self { socket: socket @ 0.., device } = core::mem::replace(self, Self::NONE) else { return Ok(()) };
        let device = device.or_else(|_| open_device());
        let made = device.and_then(|device| {
            let made = pass_on(device, path, attributes, socket);
            sys::close(device);
            made
        });
        let set = match made {
            Ok(mount) => {
                drop(look_up_all(mount, count));
                slots.set(slot, mount)
            }
            Err(Errno(errno)) => {
                Report { kind: wire::REPORT_MASKS, a: errno, b: 0 }.send(socket);
                Ok(())
            }
        };
        sys::close(socket);
        set
    }
}

fn open_device() -> Result<i32> {
    const READ_WRITE_NOW: u64 = 0o2 | 0o4000;
    sys::open(AT_FDCWD, CText::new(b"/dev/fuse\0")?, READ_WRITE_NOW)
}

fn pass_on(device: i32, path: CText<'_>, attributes: u64, socket: i32) -> Result<i32> {
    let [number, user, group] = [device as u32, sys::own_user(), sys::own_group()].map(Decimal::new);
    let options = [
        (CText::new(b"fd\0")?, number.text()?),
        (CText::new(b"rootmode\0")?, CText::new(b"40000\0")?),
        (CText::new(b"user_id\0")?, user.text()?),
        (CText::new(b"group_id\0")?, group.text()?),
    ];
    let mount = sys::new_file_system(CText::new(b"fuse\0")?, &options, attributes)?;
    // Older kernels copy no part of a mount that is attached nowhere.
    let passed = attach_at(mount, path).and_then(|()| {
        let report = Report { kind: wire::REPORT_MASKS, a: 0, b: 0 };
        sys::send_with(socket, &report.bytes(), device)
    });
    passed.map(|_| mount).inspect_err(|_| sys::close(mount))
}

/// Has the kernel hear of all entries in few requests: each takes a while, and it remembers them. One that it does not
/// remember is asked for by itself.
fn look_up_all(mount: i32, count: usize) -> Result<()> {
    const FEW: usize = 2;
    if count <= FEW {
        return Ok(());
    }
    let directory = sys::open_directory(mount, sys::DOT)?;
    let mut left = count;
    while left > 0 {
        left = match sys::count_entries(directory) {
            Ok(found @ 1..) => left.saturating_sub(found),
            _ => 0,
        };
    }
    sys::close(directory);
    Ok(())
}

/// A mask as a mount of its own: the entry that is answered for, or else a piece of the tmpfs.
pub(crate) fn clone_mask(plan: &mut Reader, slots: &mut Slots) -> Result<()> {
    let (slot, masks, name) = (plan.index()?, plan.index()?, plan.text()?);
    let (from, piece) = (plan.index()?, plan.text()?);
    match slots.get(masks).and_then(|masks| slots.clone_part(slot, masks, name)) {
        Ok(()) => Ok(()),
        Err(_) => slots.get(from).and_then(|from| slots.clone_part(slot, from, piece)),
    }
}
