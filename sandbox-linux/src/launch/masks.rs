//! FUSE masks in mounts that another program has created.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::net::RecvFlags;
use rustix::process::Pid;
use stockade_protocol::AbsPath;

use super::{Launcher, Setup, StartFailure, frame, lost};
use crate::launch::child::Report;
use crate::masks::Mask;
use crate::plan::step::{MOUNT_NO_DEVICES, MOUNT_NO_SETUID, MOUNT_READ_ONLY, Step};
use crate::wire;

impl Launcher {
    /// Covers the masks of a process with FUSE masks, from outside: it needs privileges that nothing inside has. The
    /// process's launcher has to have built its sandbox. If this fails, every path is still masked one way or the
    /// other.
    pub(crate) fn cover_masks(process: Pid, masks: &[Mask], socket: BorrowedFd<'_>) -> Result<(), StartFailure> {
        let steps = steps(process, masks).map_err(|error| lost("naming its mounts")(io::Error::other(error)))?;
        let (parking, placeholders, covers) = (None, &[], &BTreeSet::new());
        let setup =
            Setup { steps: &steps, parking, placeholders, kept_names: None, covers, group: None, masks: Some(socket) };
        Self::start(&setup)?.await_built()
    }

    /// Waits until it has built its sandbox.
    pub(crate) fn await_built(&self) -> Result<(), StartFailure> {
        let failed = |source: io::Error| StartFailure::from(lost("building the sandbox")(source));
        self.send(wire::FRAME_PARK, &[], &[]).map_err(failed)?;
        let control = self.control().ok_or_else(|| failed(io::ErrorKind::NotConnected.into()))?;
        self.starter.iter().try_for_each(|starter| starter.await_word(control))?;
        let (report, _) = frame::receive(control, RecvFlags::empty()).map_err(|errno| failed(errno.into()))?;
        match Report::read(report) {
            Report::Built => Ok(()),
            Report::Failed { errno, phase, step } => Err(StartFailure::reported(errno, phase, step)),
            Report::Ready(..)
            | Report::Parked
            | Report::Resolver
            | Report::Datagrams
            | Report::Lease
            | Report::NoDatagrams
            | Report::Listener
            | Report::Ended(..)
            | Report::Busy
            | Report::Masks
            | Report::Gone => Err(failed(io::ErrorKind::UnexpectedEof.into())),
        }
    }
}

fn steps(process: Pid, masks: &[Mask]) -> Result<Vec<Step>, stockade_protocol::Invalid> {
    const MASKS: usize = 1;
    let proc: AbsPath = "/proc".parse()?;
    let path = format!("/proc/{}/ns/mnt", process.as_raw_nonzero()).parse()?;
    let attributes = MOUNT_READ_ONLY | MOUNT_NO_SETUID | MOUNT_NO_DEVICES;
    // Attached only while its entries are copied.
    let (slot, count) = (MASKS, masks.len());
    let mut steps = vec![Step::EnterMounts { path }, Step::Masks { slot, path: proc.clone(), attributes, count }];
    let slots = || (MASKS + 1..).zip(masks);
    steps.extend(slots().map(|(slot, _)| Step::ClonePart { slot, from: MASKS, path: (slot - MASKS - 1).to_string() }));
    steps.push(Step::Detach { path: proc });
    steps.extend(slots().map(|(slot, mask)| Step::Attach { slot, path: mask.path.clone() }));
    Ok(steps)
}
