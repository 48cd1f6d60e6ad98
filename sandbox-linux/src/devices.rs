//! The devices that every program expects, and no others.

use stockade_protocol::{AbsPath, Access};
use stockade_sandboxing::Unenforceable;

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

/// `/dev` and `/proc` are the sandbox's own: a rule can name a single device, not the directories.
pub(crate) fn check(path: &AbsPath, access: Access) -> Result<(), Unenforceable> {
    let below = |name: &str| name.parse().is_ok_and(|parent: AbsPath| path.starts_with(&parent));
    let refused = match () {
        () if path.to_string() == "/dev" && access > Access::None => Some("name the single devices that are needed"),
        () if below("/proc") && access != Access::Read => {
            Some("the sandbox has a `/proc` of its own, with its own processes only")
        }
        () => None,
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
