//! FUSE masks, which identify the process that reads them: the server outside the sandbox.
//!
//! Paths that a policy denies to read are covered by empty files and directories. If this user may use `/dev/fuse`,
//! these are entries of one FUSE file system, mounted by the launcher in the sandbox's own namespaces, and served
//! here. The command gets the same results; its attempts, with the process, are known from the kernel.
//!
//! Why this is safe:
//!
//! - No answer has contents, and no file of the host is touched (`fuse`).
//! - Each request is answered before the next one is read, without blocking, so that no process is delayed. Whether
//!   the user could have read the path without the sandbox is determined after the command has ended.
//! - Only this process holds the device. When it is closed, or this program dies, the kernel fails all current and
//!   later requests: the mask stays closed.
//! - Only processes of the sandbox's own user can make requests.

mod fuse;
mod sightings;

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::fs::{Access as Wanted, AtFlags, CWD, accessat};
use rustix::io::Errno;
use stockade_protocol::{AbsPath, Access};
use stockade_sandboxing::{DeniedAct, Kind, Observation, Observations, permits};

use self::fuse::{LONGEST_REQUEST, MaskReach, Tree};
pub(crate) use self::sightings::{CommandKey, Commands};
use self::sightings::{Sighting, Sightings};
use crate::launch::child::Report;
use crate::launch::{receive_part, socket_pair};
use crate::wire;

/// The kernel's FUSE device.
pub(crate) const DEVICE: &str = "/dev/fuse";

/// One denied path that a mask covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mask {
    pub(crate) path: AbsPath,
    pub(crate) kind: Kind,
}

/// The masks of a view that can be served, in the order of their entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Masks {
    pub(crate) entries: Vec<Mask>,
    /// Whether they cover all denied reads.
    pub(crate) are_all: bool,
}

/// Serves the masks of one sandbox. When dropped, they stay closed.
#[derive(Debug)]
pub(crate) struct MaskServer {
    shared: Arc<Shared>,
    bell: Arc<OwnedFd>,
    sees_all: bool,
}

#[derive(Debug)]
struct Shared {
    masks: Vec<Mask>,
    commands: Commands,
    is_asked: AtomicBool,
    sightings: Mutex<Sightings>,
}

impl Shared {
    fn sightings(&self) -> MutexGuard<'_, Sightings> {
        self.sightings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether this user may use the device.
pub(crate) fn has_device() -> bool {
    accessat(CWD, DEVICE, Wanted::READ_OK | Wanted::WRITE_OK, AtFlags::EACCESS).is_ok()
}

impl MaskServer {
    /// Starts a server, with the socket on which the launcher passes the device. `None` if there is nothing to serve,
    /// or no device: the masks are then ordinary ones.
    pub(crate) fn start(masks: &Masks, commands: Commands) -> Option<(Self, OwnedFd)> {
        if masks.entries.is_empty() || !has_device() {
            return None;
        }
        Self::start_thread(masks, commands).ok()
    }

    fn start_thread(masks: &Masks, commands: Commands) -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = socket_pair()?;
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (is_asked, sightings) = (AtomicBool::new(false), Mutex::default());
        let shared = Arc::new(Shared { masks: masks.entries.clone(), commands, is_asked, sightings });
        let serving = Serving { shared: Arc::clone(&shared), bell: Arc::clone(&bell) };
        let thread = thread::Builder::new().name(String::from("stockade-masks"));
        thread.spawn(move || serving.run(ours))?;
        Ok((Self { shared, bell, sees_all: masks.are_all }, theirs))
    }

    /// Whether every denied read is seen here: known as soon as the sandbox is built.
    pub(crate) fn sees_all_reads(&self) -> bool {
        self.sees_all && self.shared.is_asked.load(Ordering::Acquire)
    }

    /// Records that not every mask is served.
    pub(crate) fn sees_some_only(&mut self) {
        self.sees_all = false;
    }

    /// Records the observations of an ended command, without paths that this user could not have read anyway.
    pub(crate) fn tell(&self, command: CommandKey, notes: &Observations) {
        let taken = self.shared.sightings().take(command);
        for sighting in taken {
            if let Some(path) = self.path(&sighting) {
                let Sighting { process: pid, program, name, attempt, .. } = sighting;
                let (act, is_denied) = match attempt {
                    MaskReach::Read => (DeniedAct::Read(path.clone()), is_readable(&path)),
                    // Whether a name is there, or whether the mask itself may be read.
                    MaskReach::Look if name.is_some() => (DeniedAct::LookAt(path.clone()), is_there(&path)),
                    MaskReach::Look => (DeniedAct::LookAt(path.clone()), permits(&path, Access::Read)),
                };
                let is_handled = false;
                notes.note(act, |act| is_denied.then_some(Observation { pid, program, act, is_handled }));
            }
        }
    }

    fn path(&self, sighting: &Sighting) -> Option<AbsPath> {
        let mask = self.shared.masks.get(sighting.mask)?;
        match &sighting.name {
            Some(name) => mask.path.join(name.as_bytes().to_vec()).ok(),
            None => Some(mask.path.clone()),
        }
    }
}

fn is_there(path: &AbsPath) -> bool {
    path.to_host_path().is_some_and(|path| path.symlink_metadata().is_ok())
}

/// A directory that can't be listed may still be searchable.
fn is_readable(path: &AbsPath) -> bool {
    let is_way = || {
        let path = path.to_host_path().filter(|path| path.is_dir());
        path.is_some_and(|path| accessat(CWD, &path, Wanted::EXEC_OK, AtFlags::EACCESS).is_ok())
    };
    permits(path, Access::Read) || is_way()
}

impl Drop for MaskServer {
    fn drop(&mut self) {
        // The thread may have ended already.
        rustix::io::write(&self.bell, &1_u64.to_ne_bytes()).ok();
    }
}

/// The state of the serving thread.
struct Serving {
    shared: Arc<Shared>,
    bell: Arc<OwnedFd>,
}

impl Serving {
    fn run(self, socket: OwnedFd) {
        let Some(device) = self.device(socket) else { return };
        self.shared.is_asked.store(true, Ordering::Release);
        let mut tree = Tree::new(self.shared.masks.iter().map(|mask| mask.kind).collect());
        let mut buffer = vec![0; LONGEST_REQUEST];
        while self.wait_for(device.as_fd()) {
            loop {
                match rustix::io::read(&device, &mut buffer) {
                    Ok(length) => self.answer(&mut tree, device.as_fd(), buffer.get(..length).unwrap_or_default()),
                    Err(Errno::AGAIN) => break,
                    // The process was killed before its request was read.
                    Err(Errno::INTR | Errno::NOENT) => {}
                    // The file system is unmounted.
                    Err(_) => return,
                }
            }
        }
    }

    /// The device, from the launcher; `None` if it has none.
    fn device(&self, socket: OwnedFd) -> Option<OwnedFd> {
        let (mut bytes, mut filled, mut device) = ([0; wire::REPORT], 0, None);
        while let Some(rest @ [_, ..]) = bytes.get_mut(filled..) {
            if !self.wait_for(socket.as_fd()) {
                return None;
            }
            match receive_part(socket.as_fd(), rest) {
                Ok((0, _)) => return None,
                Ok((count, with_it)) => {
                    filled += count;
                    device = with_it.or(device);
                }
                Err(Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        device.filter(|_| matches!(Report::read(bytes), Report::Masks))
    }

    /// Waits until the file is readable; `false` if the server is to end.
    fn wait_for(&self, file: BorrowedFd<'_>) -> bool {
        loop {
            let mut files = [PollFd::from_borrowed_fd(file, PollFlags::IN), PollFd::new(&*self.bell, PollFlags::IN)];
            match rustix::event::poll(&mut files, None) {
                Err(Errno::INTR) => {}
                Err(_) => return false,
                Ok(_) => return matches!(files, [_, bell] if bell.revents().is_empty()),
            }
        }
    }

    fn answer(&self, tree: &mut Tree, device: BorrowedFd<'_>, request: &[u8]) {
        let response = tree.respond(request);
        // First, so that the act is recorded before the process continues.
        if let Some(touch) = &response.touch {
            self.shared.sightings().note(touch, self.shared.commands);
        }
        if let Some(answer) = response.answer {
            // The process may have been killed meanwhile.
            rustix::io::write(device, &answer).ok();
        }
    }
}
