//! The devices that every program expects, and no others.

use stockade_protocol::{AbsPath, Access, FileRules, FileTarget};
use stockade_sandboxing::{HostFiles, OwnPlace, Unenforceable};

/// Device files that are copied from the host.
pub(crate) const NODES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty"];

/// Links that programs expect beside them.
pub(crate) const LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// The sandbox's own file at a path below `/dev` and `/proc`, in a sandbox with a view. A device that a rule names is
/// the host's.
pub(crate) fn own_place(path: &AbsPath, files: &FileRules) -> Option<OwnPlace> {
    let mut names = path.components();
    let (tree, name) = (names.next()?, names.next());
    let text = name.map(|name| String::from_utf8_lossy(name).into_owned());
    let own = |access, what: &str| Some(OwnPlace { access, what: what.to_owned() });
    match (tree, text.as_deref()) {
        (b"proc", Some("self" | "thread-self")) => {
            own(Access::Read, "in the sandbox's own `/proc` it is the command itself")
        }
        (b"proc", Some(number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => own(
            Access::None,
            "the sandbox has a `/proc` of its own, with its own processes and numbers only: none of the host's is there",
        ),
        (b"proc", _) => own(Access::Read, "the sandbox has a `/proc` of its own, with its own processes only"),
        (b"dev", None) => own(Access::Read, &format!("the sandbox has a `/dev` of its own, with {}", contents())),
        (b"dev", Some(_)) if names_device(path, files) => None,
        (b"dev", Some("shm")) => own(Access::Scratch, "the sandbox has its own"),
        (b"dev", Some("pts" | "ptmx")) => {
            own(Access::Write, "the sandbox has terminals of its own, and none of the host's")
        }
        (b"dev", Some("console")) => {
            own(Access::Write, "in the sandbox it is the command's own terminal, if it has one")
        }
        (b"dev", Some(name)) if NODES.contains(&name) => own(Access::Write, "every sandbox has this device"),
        (b"dev", Some(name)) if LINKS.iter().any(|(link, _)| *link == name) => {
            own(Access::Write, "in the sandbox it leads to the command's own open files")
        }
        (b"dev", Some(_)) => {
            own(Access::None, &format!("the sandbox has a `/dev` of its own, with {} and nothing else", contents()))
        }
        _ => None,
    }
}

/// Whether a rule makes this device of the host usable: one that names the node itself, below `/dev`, to be written. A directory of
/// devices that a rule names is seen, and none of them can be opened; a mount can't keep a device from being written either, so that
/// one to be read is seen as well and not opened.
pub(crate) fn is_granted(path: &AbsPath, access: Access, host: &dyn HostFiles) -> bool {
    let is_below_dev = path.depth() > 1 && path.components().next() == Some(b"dev");
    is_below_dev && access == Access::Write && host.is_device(path)
}

/// Whether a rule names this device or its directory, not everything.
fn names_device(path: &AbsPath, files: &FileRules) -> bool {
    files.deciding(path).is_some_and(|rule| match &rule.target {
        FileTarget::Path(named) => named.depth() > 1 && named.components().next() == Some(b"dev"),
        FileTarget::Glob(_) => true,
    })
}

fn contents() -> String {
    let links = LINKS.iter().map(|(name, _)| *name);
    let all: Vec<&str> = NODES.iter().copied().chain(links).chain(["pts", "shm"]).collect();
    all.join(", ")
}

/// `/dev` and `/proc` are the sandbox's own: a rule can name a single device, not the directories.
pub(crate) fn check(path: &AbsPath, access: Access) -> Result<(), Unenforceable> {
    let mut names = path.components();
    let refused = match (names.next(), names.next()) {
        (Some(b"dev"), None) if access > Access::None => Some("name the single devices that are needed"),
        (Some(b"proc"), _) if access != Access::Read => {
            Some("the sandbox has a `/proc` of its own, with its own processes only")
        }
        _ => None,
    };
    match refused {
        None => Ok(()),
        Some(remedy) => Err(Unenforceable {
            what: format!("`{access}` access to `{path}`"),
            why: String::from("the sandbox has its own in that place"),
            remedy: remedy.to_owned(),
        }),
    }
}
