//! Keeps sandboxes for the next command with the same permissions.
//!
//! A sandbox reflects the host at the time it was built. So each command is planned anew (`planned`), and a sandbox is
//! reused only if the same one would be built now: a denied file that has appeared, a new repository, or a changed
//! link gives the command a new one. So does a replaced file or directory under a mount: the kernel removes a mount
//! together with its mount point's name
//! ([mount_namespaces(7)](https://man7.org/linux/man-pages/man7/mount_namespaces.7.html)), and a mask with it.
//! Commands in one sandbox share its private directories, its loopback and its System V objects, as
//! [`Native::session`] says.
//!
//! Where connections are decided one by one, each command of a kept sandbox brings its gatekeeper, so that each decision is
//! recorded with its command. Datagrams can't be told apart like that and go nowhere there: if a rule lets them out,
//! a command has its own sandbox.

use std::collections::VecDeque;
use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use stockade_protocol::{AbsPath, Enforcement, FileRules, Permissions};
use stockade_sandboxing::{
    Backend, CommandSpec, Deciders, Observations, OwnPlace, Plan, Running, SpawnError, Stdio, Support, Unenforceable,
    WaitStatus,
};

use crate::engines::native::{Native, NativePlan, Session};
use crate::observer::Observe;
use crate::plan::planned::Planned;
use crate::supervisor::supervision::admits_datagrams;

/// Limit on kept sandboxes, most recently used first. Each costs two processes of some 200 kB together.
const MOST_KEPT: usize = 4;

/// Limit on commands in one sandbox. Its launcher accepts 64, and lets the next one wait.
const MOST_COMMANDS: usize = 48;

/// Keeps the sandboxes of `native` for later commands; everything else is left to another engine.
#[derive(Debug)]
pub struct Warm {
    native: Native,
    planned: Planned,
    shared: Arc<Shared>,
}

struct Shared {
    /// The engine for commands without a kept sandbox, and if the host refuses `native`.
    otherwise: Box<dyn Backend>,
    is_refused: AtomicBool,
    kept: Mutex<VecDeque<KeptSandbox>>,
}

struct KeptSandbox {
    session: Arc<Session>,
    mounted: Identities,
}

/// The identities of the mount points.
type Identities = Vec<Option<Identity>>;

/// Device, inode, and creation time, since inode numbers are reused. On file systems without creation times the change
/// time: a sandbox is then kept for a shorter time, never for too long.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity(u64, u64, SystemTime);

fn identities(plan: &NativePlan) -> Identities {
    let identity = |path: &AbsPath| {
        let found = std::fs::symlink_metadata(path.to_host_path()?).ok()?;
        let seconds = Duration::from_secs(found.ctime().try_into().unwrap_or_default());
        let changed = UNIX_EPOCH + seconds + Duration::from_nanos(found.ctime_nsec().try_into().unwrap_or_default());
        Some(Identity(found.dev(), found.ino(), found.created().unwrap_or(changed)))
    };
    // The kernel's own files don't change.
    let is_kernels = |path: &AbsPath| matches!(path.components().next(), Some(b"dev" | b"proc"));
    plan.mounted().filter(|path| !is_kernels(path)).map(identity).collect()
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("kept", &self.kept().len()).finish_non_exhaustive()
    }
}

impl Warm {
    /// Keeps sandboxes until this value is dropped. `otherwise` runs commands that can't use a kept one:
    /// [`Native`](crate::Native), or [`Auto`](crate::Auto) for hosts that may refuse it.
    pub fn new(otherwise: Box<dyn Backend>) -> Self {
        crate::launch::reap_beside();
        let shared = Shared { otherwise, is_refused: AtomicBool::new(false), kept: Mutex::default() };
        Self { native: Native::new().for_many_commands(), planned: Planned::default(), shared: Arc::new(shared) }
    }

    /// Sets whether denials are observed in kept sandboxes, which is the default.
    #[must_use]
    pub fn observing(self, observe: Observe) -> Self {
        Self { native: self.native.observing(observe), ..self }
    }

    /// Sets the directory in which placeholders are kept; see [`Native::keeping_names_in`].
    #[must_use]
    pub fn keeping_names_in(self, directory: Option<PathBuf>) -> Self {
        Self { native: self.native.keeping_names_in(directory), ..self }
    }
}

impl Backend for Warm {
    fn support(&self) -> &Support {
        self.shared.otherwise.support()
    }

    fn own_place(&self, path: &AbsPath, files: &FileRules) -> Option<OwnPlace> {
        self.shared.otherwise.own_place(path, files)
    }

    fn sees_connections(&self) -> bool {
        self.shared.otherwise.sees_connections()
    }

    fn sees_starts(&self) -> bool {
        self.shared.otherwise.sees_starts()
    }

    fn end_idle_sandboxes(&self) {
        let idle: Vec<KeptSandbox> = {
            let mut kept = self.shared.kept();
            // A command takes its sandbox under the same lock.
            let is_busy = |kept: &KeptSandbox| Arc::strong_count(&kept.session) > 1;
            let (busy, idle): (Vec<_>, Vec<_>) = kept.drain(..).partition(is_busy);
            kept.extend(busy);
            idle
        };
        // Waits until the placeholders are removed.
        drop(idle);
    }

    fn compile(&self, command: &CommandSpec, permissions: &Permissions) -> Result<Box<dyn Plan>, Unenforceable> {
        if self.shared.is_refused.load(Ordering::Relaxed) {
            return self.shared.otherwise.compile(command, permissions);
        }
        crate::plan::landlock::require(crate::sys::landlock_version(), 1)?;
        // Granted unix sockets are held by their files as they are now, so a later command needs them looked up again.
        if admits_datagrams(&permissions.network) || !permissions.unix_sockets.is_empty() {
            return self.shared.otherwise.compile(command, permissions);
        }
        let plan = self.planned.plan(&self.native, command, permissions)?;
        let (command, permissions) = (command.clone(), permissions.clone());
        Ok(Box::new(WarmPlan { plan, command, permissions, shared: Arc::clone(&self.shared) }))
    }
}

/// A command for a possibly kept sandbox.
#[derive(Debug)]
pub struct WarmPlan {
    plan: NativePlan,
    command: CommandSpec,
    permissions: Permissions,
    shared: Arc<Shared>,
}

impl fmt::Display for WarmPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.plan.fmt(f)
    }
}

impl Plan for WarmPlan {
    fn spawn(&self, stdio: Stdio) -> Result<Box<dyn Running>, SpawnError> {
        self.spawn_guarded(stdio, Deciders::default())
    }

    fn spawn_guarded(&self, stdio: Stdio, deciders: Deciders) -> Result<Box<dyn Running>, SpawnError> {
        let Some(session) = self.shared.session(&self.plan)? else {
            return self.shared.otherwise.compile(&self.command, &self.permissions)?.spawn_guarded(stdio, deciders);
        };
        match session.spawn_asking(&self.command, stdio, deciders) {
            Ok(running) => Ok(Box::new(Kept { running, _session: session })),
            Err(error) => {
                // Its launcher may be gone. Its state is lost, and the next command gets another sandbox.
                if matches!(error, SpawnError::Launcher { .. }) {
                    self.shared.kept().retain(|kept| !Arc::ptr_eq(&kept.session, &session));
                }
                Err(error)
            }
        }
    }

    fn permissions(&self) -> &Permissions {
        self.plan.permissions()
    }

    fn warnings(&self) -> &[String] {
        self.plan.warnings()
    }
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, VecDeque<KeptSandbox>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A sandbox for the plan: a kept one, else a new one. `None` if the host refuses it.
    fn session(&self, plan: &NativePlan) -> Result<Option<Arc<Session>>, SpawnError> {
        let mut kept = self.kept();
        let before = identities(plan);
        // Sandboxes of other plans stay; one whose mount points have changed fits no command.
        kept.retain(|kept| !kept.session.is_as_planned(plan) || kept.mounted == before);
        let has_room = |session: &Arc<Session>| Arc::strong_count(session) <= MOST_COMMANDS;
        let fits = |kept: &KeptSandbox| kept.session.is_as_planned(plan) && has_room(&kept.session);
        if let Some(found) = kept.iter().position(fits).and_then(|place| kept.remove(place)) {
            let session = Arc::clone(&found.session);
            kept.push_front(found);
            return Ok(Some(session));
        }
        let session = match plan.session() {
            Ok(session) => Arc::new(session),
            Err(failed) if failed.is_refused_by_host => {
                self.is_refused.store(true, Ordering::Relaxed);
                return Ok(None);
            }
            Err(failed) => return Err(failed.error),
        };
        let mounted = identities(plan);
        // Placeholders were missing before. Any other difference was swapped meanwhile: this command gets what its own
        // sandbox would have, and the next one another sandbox.
        let is_same = before.iter().zip(&mounted).all(|(before, after)| before.is_none() || before == after);
        if is_same {
            kept.push_front(KeptSandbox { session: Arc::clone(&session), mounted });
            kept.truncate(MOST_KEPT);
        }
        Ok(Some(session))
    }
}

/// A command in a kept sandbox, which lives at least as long.
#[derive(Debug)]
struct Kept {
    running: Box<dyn Running>,
    _session: Arc<Session>,
}

impl Running for Kept {
    fn enforcement(&self) -> &Enforcement {
        self.running.enforcement()
    }

    fn wait(&mut self, limit: Option<Duration>) -> Result<Option<WaitStatus>, SpawnError> {
        self.running.wait(limit)
    }

    fn observations(&self) -> Option<&Observations> {
        self.running.observations()
    }

    fn readable(&self) -> std::os::fd::BorrowedFd<'_> {
        self.running.readable()
    }

    fn signal(&mut self, signal: u8) -> Result<(), SpawnError> {
        self.running.signal(signal)
    }

    fn kill(&mut self) -> Result<(), SpawnError> {
        self.running.kill()
    }
}
