//! One operation of the launcher. A plan is a list of these: data, printed one per line.

use std::fmt;

use serde::Serialize;
use stockade_protocol::{AbsPath, RawText};

use crate::supervisor::Requests;
use crate::wire;

/// The slot of a mount until it is attached.
pub(crate) type Slot = usize;

/// One step. The launcher stops at the first that fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    Namespaces {
        flags: u64,
    },
    WriteFile {
        path: AbsPath,
        text: String,
    },
    BeginNetwork,
    HostName {
        name: String,
    },
    CloneTree {
        slot: Slot,
        path: AbsPath,
    },
    ClonePart {
        slot: Slot,
        from: Slot,
        path: String,
    },
    /// Masks that are served from outside: entries of one file system, attached at a path.
    Masks {
        slot: Slot,
        path: AbsPath,
        attributes: u64,
        count: usize,
    },
    /// An entry of it, or else a piece of the tmpfs.
    CloneMask {
        slot: Slot,
        masks: Slot,
        name: String,
        from: Slot,
        path: String,
    },
    Tmpfs {
        slot: Slot,
        size: String,
        attributes: u64,
    },
    Attributes {
        slot: Slot,
        set: u64,
    },
    RootAttributes {
        set: u64,
    },
    Attach {
        slot: Slot,
        path: AbsPath,
    },
    Directory {
        slot: Slot,
        path: RawText,
        mode: u32,
    },
    File {
        slot: Slot,
        path: RawText,
        mode: u32,
    },
    Symlink {
        slot: Slot,
        path: RawText,
        target: RawText,
    },
    Proc,
    Terminals {
        slot: Slot,
    },
    EnterRoot {
        path: AbsPath,
    },
    Keyring,
    AwaitNames,
    JoinNetwork,
    WorkingDirectory {
        path: AbsPath,
    },
    /// The working directory has to be this one.
    SameDirectory {
        device: u64,
        inode: u64,
    },
    Session,
    TakeTerminal,
    Limit {
        resource: u32,
        value: u64,
    },
    /// A caller's limit, already the lower of that and the policy's.
    CallersLimit {
        resource: u32,
        soft: u64,
        hard: u64,
    },
    Umask {
        mask: u16,
    },
    IgnoreBrokenPipes,
    NoNewPrivileges,
    DropCapabilities,
    Landlock {
        ruleset: Ruleset,
    },
    /// Additional rules for a command with read-only files as standard streams: they are not part of the view, and a
    /// `/proc` link bypasses its mounts.
    LandlockForFiles {
        ruleset: Ruleset,
    },
    Resolver,
    Datagrams {
        outlet: Outlet,
    },
    Supervise {
        filter: Filter,
    },
    /// Passes calls to the observer, if no supervisor gets them already.
    Observe {
        filter: Filter,
        /// Installed in its place if a supervisor does.
        otherwise: Filter,
    },
    Seccomp {
        filter: Filter,
    },
    Exec {
        command: Exec,
    },
    AdoptOrphans,
    KeepSignals,
    MountPoint {
        path: AbsPath,
    },
    EnterNetwork {
        path: AbsPath,
    },
    EnterMounts {
        path: AbsPath,
    },
    Detach {
        path: AbsPath,
    },
}

/// The routes by which datagrams leave a network, required and optional ones, and the filter for them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Outlet {
    /// Whether it is required.
    pub(crate) is_needed: bool,
    pub(crate) routes: Requests,
    pub(crate) routes_v6: Requests,
    pub(crate) filter: Filter,
}

/// The handled and granted rights of Landlock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Ruleset {
    pub(crate) handled: u64,
    /// Handled port rights, which are refused: none is granted.
    pub(crate) ports: u64,
    pub(crate) scoped: u64,
    /// The number of words of the kernel's structure that it knows, of three.
    pub(crate) words: usize,
    /// Paths and rights. No path may have become a link, even without a right.
    pub(crate) grants: Vec<(AbsPath, u64)>,
}

/// A compiled system call filter.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub(crate) struct Filter(pub(crate) Vec<crate::plan::bpf::Instruction>);

impl Filter {
    /// The kernel's format.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|instruction| instruction.bytes()).collect()
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} instructions", self.0.len())
    }
}

/// The command itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Exec {
    pub(crate) arguments: Vec<RawText>,
    pub(crate) environment: Vec<RawText>,
    /// The paths to try, in order.
    pub(crate) paths: Vec<RawText>,
}

pub(crate) const MOUNT_READ_ONLY: u64 = 0x1;
pub(crate) const MOUNT_NO_SETUID: u64 = 0x2;
pub(crate) const MOUNT_NO_DEVICES: u64 = 0x4;
pub(crate) const MOUNT_NO_EXEC: u64 = 0x8;
/// Later mounts of the host don't propagate.
const PROPAGATE_NOTHING: u64 = 1 << 18;

/// Encodes steps for the launcher.
pub(crate) fn encode(steps: &[Step]) -> Vec<u8> {
    let mut plan = Encoder::default();
    for step in steps {
        plan.step(step);
    }
    plan.0
}

/// Encodes numbers, texts and lists for the launcher's reader.
#[derive(Default)]
pub(crate) struct Encoder(pub(crate) Vec<u8>);

impl Encoder {
    pub(crate) fn number(&mut self, number: u64) -> &mut Self {
        self.0.extend(number.to_le_bytes());
        self
    }

    pub(crate) fn index(&mut self, index: usize) -> &mut Self {
        self.number(index as u64)
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.index(bytes.len());
        self.0.extend(bytes);
        self
    }

    pub(crate) fn text(&mut self, text: &[u8]) -> &mut Self {
        self.index(text.len() + 1);
        self.0.extend(text);
        self.0.push(0);
        self
    }

    fn path(&mut self, path: &AbsPath) -> &mut Self {
        self.text(path.as_raw().as_bytes())
    }

    fn texts(&mut self, texts: &[RawText]) -> &mut Self {
        self.index(texts.len());
        texts.iter().fold(self, |plan, text| plan.text(text.as_bytes()))
    }

    fn op(&mut self, step: u8) -> &mut Self {
        self.0.push(step);
        self
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Namespaces { flags } => self.op(wire::STEP_NAMESPACES).number(*flags),
            Step::WriteFile { path, text } => self.op(wire::STEP_WRITE_FILE).path(path).bytes(text.as_bytes()),
            Step::BeginNetwork => self.op(wire::STEP_BEGIN_NETWORK),
            Step::HostName { name } => self.op(wire::STEP_HOST_NAME).bytes(name.as_bytes()),
            Step::CloneTree { slot, path } => self.op(wire::STEP_CLONE_TREE).index(*slot).path(path),
            Step::ClonePart { slot, from, path } => {
                self.op(wire::STEP_CLONE_PART).index(*slot).index(*from).text(path.as_bytes())
            }
            Step::Masks { slot, path, attributes, count } => {
                self.op(wire::STEP_MASKS).index(*slot).path(path).number(*attributes).index(*count)
            }
            Step::CloneMask { slot, masks, name, from, path } => {
                let plan = self.op(wire::STEP_CLONE_MASK).index(*slot).index(*masks).text(name.as_bytes());
                plan.index(*from).text(path.as_bytes())
            }
            Step::Tmpfs { slot, size, attributes } => {
                self.op(wire::STEP_TMPFS).index(*slot).text(size.as_bytes()).number(*attributes)
            }
            Step::Attributes { slot, set } => {
                self.op(wire::STEP_ATTRIBUTES).index(*slot).number(*set).number(PROPAGATE_NOTHING)
            }
            Step::RootAttributes { set } => self.op(wire::STEP_ROOT_ATTRIBUTES).number(*set).number(PROPAGATE_NOTHING),
            Step::Attach { slot, path } => self.op(wire::STEP_ATTACH).index(*slot).path(path),
            Step::Directory { slot, path, mode } => {
                self.op(wire::STEP_DIRECTORY).index(*slot).text(path.as_bytes()).number(u64::from(*mode))
            }
            Step::File { slot, path, mode } => {
                self.op(wire::STEP_FILE).index(*slot).text(path.as_bytes()).number(u64::from(*mode))
            }
            Step::Symlink { slot, path, target } => {
                self.op(wire::STEP_SYMLINK).index(*slot).text(path.as_bytes()).text(target.as_bytes())
            }
            Step::Proc => {
                let attributes = MOUNT_READ_ONLY | MOUNT_NO_SETUID | MOUNT_NO_DEVICES | MOUNT_NO_EXEC;
                self.op(wire::STEP_PROC).text(b"/proc").number(attributes)
            }
            Step::Terminals { slot } => {
                self.op(wire::STEP_TERMINALS).index(*slot).number(MOUNT_NO_SETUID | MOUNT_NO_EXEC)
            }
            Step::EnterRoot { path } => self.op(wire::STEP_ENTER_ROOT).path(path),
            Step::Keyring => self.op(wire::STEP_KEYRING),
            Step::AwaitNames => self.op(wire::STEP_AWAIT_NAMES),
            Step::JoinNetwork => self.op(wire::STEP_JOIN_NETWORK),
            Step::WorkingDirectory { path } => self.op(wire::STEP_WORKING_DIRECTORY).path(path),
            Step::SameDirectory { device, inode } => self.op(wire::STEP_SAME_DIRECTORY).number(*device).number(*inode),
            Step::Session => self.op(wire::STEP_SESSION),
            Step::TakeTerminal => self.op(wire::STEP_TAKE_TERMINAL),
            Step::Limit { resource, value } => self.op(wire::STEP_LIMIT).number(u64::from(*resource)).number(*value),
            Step::CallersLimit { resource, soft, hard } => {
                self.op(wire::STEP_CALLERS_LIMIT).number(u64::from(*resource)).number(*soft).number(*hard)
            }
            Step::IgnoreBrokenPipes => self.op(wire::STEP_IGNORE_BROKEN_PIPES),
            Step::Umask { mask } => self.op(wire::STEP_UMASK).number(u64::from(*mask)),
            Step::NoNewPrivileges => self.op(wire::STEP_NO_NEW_PRIVILEGES),
            Step::DropCapabilities => self.op(wire::STEP_DROP_CAPABILITIES),
            Step::Landlock { ruleset } => self.op(wire::STEP_LANDLOCK).landlock(ruleset),
            Step::LandlockForFiles { ruleset } => {
                let mut rules = Self::default();
                rules.landlock(ruleset);
                self.op(wire::STEP_LANDLOCK_FOR_FILES).bytes(&rules.0)
            }
            Step::Resolver => self.op(wire::STEP_RESOLVER),
            Step::Datagrams { outlet } => self.outlet(outlet),
            Step::Supervise { filter } => self.op(wire::STEP_SUPERVISE).bytes(&filter.bytes()),
            Step::Observe { filter, otherwise } => {
                self.op(wire::STEP_OBSERVE).bytes(&filter.bytes()).bytes(&otherwise.bytes())
            }
            Step::Seccomp { filter } => self.op(wire::STEP_SECCOMP).bytes(&filter.bytes()),
            Step::Exec { command } => self.exec(command),
            Step::AdoptOrphans => self.op(wire::STEP_ADOPT_ORPHANS),
            Step::KeepSignals => self.op(wire::STEP_KEEP_SIGNALS),
            Step::MountPoint { path } => self.op(wire::STEP_MOUNT_POINT).path(path),
            Step::EnterNetwork { path } => self.op(wire::STEP_ENTER_NETWORK).path(path),
            Step::EnterMounts { path } => self.op(wire::STEP_ENTER_MOUNTS).path(path),
            Step::Detach { path } => self.op(wire::STEP_DETACH).path(path),
        };
    }

    fn outlet(&mut self, outlet: &Outlet) -> &mut Self {
        let plan = self.op(wire::STEP_DATAGRAMS).op(u8::from(outlet.is_needed));
        plan.requests(&outlet.routes).requests(&outlet.routes_v6).bytes(&outlet.filter.bytes())
    }

    fn requests(&mut self, requests: &Requests) -> &mut Self {
        self.index(requests.count()).bytes(requests.bytes())
    }

    fn landlock(&mut self, ruleset: &Ruleset) -> &mut Self {
        // The kernel's structure: rights on files, rights on ports, scopes.
        let plan = self.number(ruleset.handled).number(ruleset.ports).number(ruleset.scoped);
        plan.index(ruleset.words).index(ruleset.grants.len());
        ruleset.grants.iter().fold(plan, |plan, (path, access)| plan.path(path).number(*access))
    }

    fn exec(&mut self, command: &Exec) -> &mut Self {
        let mut paths = Self::default();
        for path in &command.paths {
            paths.text(path.as_bytes());
        }
        self.op(wire::STEP_EXEC).texts(&command.arguments).texts(&command.environment).bytes(&paths.0)
    }
}
