//! The view of the file system as bubblewrap's arguments.
//!
//! The view has been compiled ([`crate::plan::view`]); this translates its steps to arguments
//! (<https://github.com/containers/bubblewrap>). Trees of the host are passed as open files, not as paths: bubblewrap
//! follows links, and a link planted meanwhile would redirect it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use stockade_protocol::{AbsPath, RawText};
use stockade_sandboxing::{HostFiles, Kind, Unenforceable};

use crate::plan::console::{self, Console};
use crate::plan::devices;
use crate::plan::step::{MOUNT_NO_DEVICES, MOUNT_READ_ONLY, Slot, Step};

/// The launcher's path inside. A command may read it: it contains no secret and has no privileges.
pub(crate) const LAUNCHER: &str = "/dev/stockade";

/// One argument.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Argument {
    /// A literal argument.
    Text(RawText),
    /// The number of a descriptor for this path, opened without following links.
    Open(AbsPath),
    /// The number of a descriptor that the launcher's file is read from.
    Launcher,
    /// The number of a descriptor that this text is read from.
    Data(String),
}

impl fmt::Debug for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => text.fmt(f),
            Self::Open(path) => write!(f, "<{path}>"),
            Self::Launcher => f.write_str("<launcher>"),
            Self::Data(text) => text.fmt(f),
        }
    }
}

/// Whether the sandbox has a `/proc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Proc {
    /// Its own, with its own processes.
    Own,
    /// An empty directory, if a container forbids mounting one.
    Empty,
}

/// A view as arguments, and the paths that are mounted on afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Rendered {
    arguments: Vec<Argument>,
    /// Paths that are made read-only last, when everything is in place.
    sealed: Vec<AbsPath>,
    pub(crate) mount_points: Vec<AbsPath>,
}

impl Rendered {
    /// All arguments that build the view.
    pub(crate) fn arguments(&self, proc: Proc, console: Option<&Console>) -> Vec<Argument> {
        let mut all = List(self.arguments.clone());
        if let Some(Console(terminal)) = console {
            all.text("--dev-bind").path(terminal).text(console::PLACE);
        }
        match proc {
            Proc::Own => all.texts(["--proc", "/proc"]),
            Proc::Empty => all.texts(["--perms", "0555", "--tmpfs", "/proc"]),
        };
        all.texts(["--remount-ro", "/proc"]);
        for path in &self.sealed {
            all.text("--remount-ro").path(path);
        }
        all.0
    }
}

impl Rendered {
    /// Refuses links: bubblewrap follows them, and a link can't be mounted on.
    pub(crate) fn check(&self, files: &dyn HostFiles) -> Result<(), Unenforceable> {
        let opened = self.arguments.iter().filter_map(|argument| match argument {
            Argument::Open(path) => Some(path),
            Argument::Text(_) | Argument::Launcher | Argument::Data(_) => None,
        });
        match opened.into_iter().find(|path| files.kind(path) == Some(Kind::Symlink)) {
            None => Ok(()),
            Some(path) => Err(Unenforceable {
                what: format!("the rule for `{path}`"),
                why: String::from(
                    "it is a link in a writable directory, which bubblewrap can't keep from being replaced",
                ),
                remedy: String::from("use the engine `native`, or put a directory in its place"),
            }),
        }
    }
}

/// Arguments, one after the other.
#[derive(Default)]
struct List(Vec<Argument>);

impl List {
    fn text(&mut self, text: impl Into<RawText>) -> &mut Self {
        self.0.push(Argument::Text(text.into()));
        self
    }

    fn texts<const N: usize>(&mut self, texts: [&str; N]) -> &mut Self {
        texts.into_iter().fold(self, |list, text| list.text(text))
    }

    fn path(&mut self, path: &AbsPath) -> &mut Self {
        self.text(path.as_raw().clone())
    }

    fn open(&mut self, path: &AbsPath) -> &mut Self {
        self.0.push(Argument::Open(path.clone()));
        self
    }

    fn mode(&mut self, mode: u32) -> &mut Self {
        self.text("--perms").text(format!("{mode:04o}"))
    }
}

/// The content of a slot until it is attached.
enum Source<'a> {
    Tree(&'a AbsPath),
    Piece(&'a str),
}

struct Renderer<'a> {
    steps: &'a [Step],
    sources: BTreeMap<Slot, Source<'a>>,
    read_only: BTreeMap<Slot, bool>,
    /// The copies that are devices which can be used.
    devices: BTreeSet<Slot>,
    /// The root of the view, which bubblewrap chooses itself.
    base: &'static str,
    list: List,
    sealed: Vec<AbsPath>,
    mount_points: Vec<AbsPath>,
}

/// Renders the steps of a view.
pub(crate) fn render(steps: &[Step]) -> Result<Rendered, Unenforceable> {
    let in_place = !steps.iter().any(|step| matches!(step, Step::EnterRoot { .. }));
    let mut renderer = Renderer {
        steps,
        sources: BTreeMap::new(),
        read_only: BTreeMap::new(),
        devices: BTreeSet::new(),
        base: if in_place { "" } else { "/proc" },
        list: List::default(),
        sealed: Vec::new(),
        mount_points: Vec::new(),
    };
    for step in steps {
        renderer.step(step)?;
    }
    Ok(Rendered { arguments: renderer.list.0, sealed: renderer.sealed, mount_points: renderer.mount_points })
}

impl<'a> Renderer<'a> {
    fn step(&mut self, step: &'a Step) -> Result<(), Unenforceable> {
        match step {
            Step::CloneTree { slot, path } => drop(self.sources.insert(*slot, Source::Tree(path))),
            Step::ClonePart { slot, path, .. } | Step::CloneMask { slot, path, .. } => {
                self.sources.insert(*slot, Source::Piece(path));
            }
            Step::Attributes { slot, set } => {
                self.read_only.insert(*slot, set & MOUNT_READ_ONLY != 0);
                if set & MOUNT_NO_DEVICES == 0 {
                    self.devices.insert(*slot);
                }
            }
            Step::RootAttributes { set } if self.base.is_empty() => {
                let bind = if set & MOUNT_READ_ONLY != 0 { "--ro-bind" } else { "--bind" };
                self.list.texts([bind, "/", "/"]);
            }
            Step::Attach { slot, path } => self.attach(*slot, path)?,
            // Bubblewrap does these itself, or they were handled with the steps they belong to.
            Step::RootAttributes { .. }
            | Step::Masks { .. }
            | Step::Tmpfs { .. }
            | Step::Directory { .. }
            | Step::File { .. }
            | Step::WriteFile { .. }
            | Step::Symlink { .. }
            | Step::Terminals { .. }
            | Step::EnterRoot { .. }
            | Step::AwaitNames => {}
            Step::Namespaces { .. }
            | Step::BeginNetwork
            | Step::JoinNetwork
            | Step::HostName { .. }
            | Step::Proc
            | Step::Keyring
            | Step::WorkingDirectory { .. }
            | Step::SameDirectory { .. }
            | Step::Session
            | Step::TakeTerminal
            | Step::Limit { .. }
            | Step::CallersLimit { .. }
            | Step::Umask { .. }
            | Step::IgnoreBrokenPipes
            | Step::NoNewPrivileges
            | Step::DropCapabilities
            | Step::Landlock { .. }
            | Step::LandlockForFiles { .. }
            | Step::Resolver
            | Step::Datagrams { .. }
            | Step::Supervise { .. }
            | Step::Observe { .. }
            | Step::Seccomp { .. }
            | Step::Exec { .. }
            | Step::AdoptOrphans
            | Step::KeepSignals
            | Step::EnterNetwork { .. }
            | Step::EnterMounts { .. }
            | Step::Detach { .. }
            | Step::MountPoint { .. } => return Err(internal("a step does not belong to a view")),
        }
        Ok(())
    }

    fn attach(&mut self, slot: Slot, path: &AbsPath) -> Result<(), Unenforceable> {
        // The tmpfs for pieces: bubblewrap has its own.
        if !self.sources.contains_key(&slot) {
            return Ok(());
        }
        let path = self.seen_inside(path)?;
        let read_only = self.read_only.get(&slot).copied().unwrap_or(true);
        let text = path.to_string();
        match self.sources.get(&slot) {
            // The sandbox's own `/proc` covers it.
            _ if text == "/proc" || text.starts_with("/proc/") => return Ok(()),
            Some(Source::Piece(piece)) if text == "/" => return self.fill(piece, &path, Seal::Yes),
            Some(_) if text == "/dev" => return self.devices(&path),
            Some(Source::Tree(_)) if is_standard_device(&text) => return Ok(()),
            Some(Source::Piece("denied-file")) => {
                // A device on a `nodev` mount: it can't be opened, and needs no file of its own.
                let null = "/dev/null".parse().map_err(invalid)?;
                self.list.text("--ro-bind-fd").open(&null).path(&path);
            }
            Some(Source::Piece(piece)) if let Some(written) = self.text_of(piece) => {
                self.list.mode(0o644).text("--ro-bind-data");
                self.list.0.push(Argument::Data(written.to_owned()));
                self.list.path(&path);
            }
            Some(Source::Piece(piece)) => {
                let (piece, seal) = (*piece, if read_only { Seal::Yes } else { Seal::No });
                self.list.mode(self.mode_of(piece)).text("--tmpfs").path(&path);
                self.fill(piece, &path, seal)?;
            }
            // By its name: bubblewrap takes no descriptor for a device, and only root can put another file into `/dev`.
            Some(Source::Tree(tree)) if self.devices.contains(&slot) => {
                self.list.text("--dev-bind").path(tree).path(&path);
            }
            Some(Source::Tree(tree)) => {
                let bind = if read_only { "--ro-bind-fd" } else { "--bind-fd" };
                self.list.text(bind).open(tree).path(&path);
            }
            None => return Ok(()),
        }
        self.mount_points.push(path);
        Ok(())
    }

    /// A path as seen in the complete view.
    fn seen_inside(&self, path: &AbsPath) -> Result<AbsPath, Unenforceable> {
        let bytes = path.as_raw().as_bytes();
        match bytes.strip_prefix(self.base.as_bytes()) {
            Some([]) => "/".parse().map_err(invalid),
            Some(rest) => AbsPath::parse(rest.to_vec()).map_err(invalid),
            None => Err(internal("a mount lies outside of the view")),
        }
    }

    fn devices(&mut self, dev: &AbsPath) -> Result<(), Unenforceable> {
        self.list.text("--dev").path(dev).mode(0o555).text("--ro-bind-data");
        self.list.0.push(Argument::Launcher);
        self.list.text(LAUNCHER);
        self.sealed.push(dev.clone());
        self.mount_points.push(dev.clone());
        Ok(())
    }

    /// The content of a piece that is a file.
    fn text_of(&self, piece: &str) -> Option<&'a str> {
        self.steps.iter().find_map(|step| {
            let Step::WriteFile { path, text } = step else { return None };
            let name = path.as_raw().as_bytes().strip_prefix(b"/proc/")?;
            (name == piece.as_bytes()).then_some(text.as_str())
        })
    }

    fn mode_of(&self, piece: &str) -> u32 {
        let mode = self.steps.iter().find_map(|step| {
            let Step::Directory { path, mode, .. } = step else { return None };
            (path.as_bytes() == piece.as_bytes()).then_some(*mode)
        });
        // No permissions for a piece that was never created.
        mode.unwrap_or(0)
    }

    /// Creates the directories and links of a piece. Files are mount points, which bubblewrap creates itself.
    fn fill(&mut self, piece: &str, at: &AbsPath, seal: Seal) -> Result<(), Unenforceable> {
        let inside = |path: &RawText| {
            let rest = path.as_bytes().strip_prefix(piece.as_bytes())?.strip_prefix(b"/")?;
            Some(at.join(rest.to_vec()).map_err(invalid))
        };
        for step in self.steps {
            if let Step::Directory { path, mode, .. } = step
                && let Some(path) = inside(path).transpose()?
            {
                self.list.mode(*mode).text("--dir").path(&path);
            } else if let Step::Symlink { path, target, .. } = step
                && let Some(path) = inside(path).transpose()?
            {
                self.list.text("--symlink").text(target.clone()).path(&path);
            }
        }
        if seal == Seal::Yes {
            self.sealed.push(at.clone());
        }
        Ok(())
    }
}

/// Whether a piece is made read-only at the end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seal {
    Yes,
    No,
}

/// Whether bubblewrap creates this device itself.
fn is_standard_device(path: &str) -> bool {
    path.strip_prefix("/dev/").is_some_and(|name| devices::NODES.contains(&name))
}

fn invalid(error: stockade_protocol::Invalid) -> Unenforceable {
    internal(&error.to_string())
}

fn internal(why: &str) -> Unenforceable {
    Unenforceable { what: String::from("the policy"), why: why.to_owned(), remedy: String::from("please report this") }
}
