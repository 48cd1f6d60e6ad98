//! The file rules as a Landlock ruleset. <https://docs.kernel.org/userspace-api/landlock.html>
//!
//! Landlock only accumulates grants from the root down, so it can't restrict a part of a grant; that is left to the
//! mounts. It adds that an unexpected mount grants nothing, that read-only mounts don't let data through pipes and
//! sockets, and that signals stay inside.

use serde::Serialize;
use stockade_protocol::{AbsPath, Access};
use stockade_sandboxing::{Kind, Unenforceable};

use crate::plan::seccomp::Families;
use crate::plan::step::Ruleset;

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
/// All rights on files of the first version, then one more with each of versions 2, 3 and 5.
const FIRST_VERSION: u64 = (1 << 13) - 1;
const SCOPE_ABSTRACT_SOCKETS: u64 = 1;
const SCOPE_SIGNALS: u64 = 2;

/// The grant on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Grant {
    /// Reading and executing a file.
    ReadFile,
    /// Reading and executing everything below.
    ReadTree,
    /// Writing an existing file.
    WriteFile,
    /// Everything below.
    WriteTree,
    /// Using a device.
    Device,
    /// Using all devices below.
    Devices,
}

impl Grant {
    /// The grant for an access to something of this kind.
    pub(crate) fn of(access: Access, kind: Kind) -> Self {
        match (access, kind) {
            (Access::Write | Access::Scratch, Kind::Directory) => Self::WriteTree,
            (Access::Write | Access::Scratch, Kind::File | Kind::Symlink) => Self::WriteFile,
            (Access::None | Access::Read, Kind::Directory) => Self::ReadTree,
            (Access::None | Access::Read, Kind::File | Kind::Symlink) => Self::ReadFile,
        }
    }

    fn rights(self) -> u64 {
        let read_file = EXECUTE | READ_FILE;
        let write_file = read_file | WRITE_FILE | TRUNCATE;
        match self {
            Self::ReadFile => read_file,
            Self::ReadTree => read_file | READ_DIR,
            Self::WriteFile => write_file,
            Self::WriteTree => FIRST_VERSION | REFER | TRUNCATE,
            Self::Device => write_file | IOCTL_DEV,
            Self::Devices => write_file | READ_DIR | IOCTL_DEV,
        }
    }
}

/// Everything that a version of Landlock can handle.
fn handled(version: u32) -> u64 {
    let since = |first: u32, right: u64| if version >= first { right } else { 0 };
    FIRST_VERSION | since(2, REFER) | since(3, TRUNCATE) | since(5, IOCTL_DEV)
}

/// Refuses a kernel without the Landlock version that an engine needs. Other layers are read back before the command
/// starts; this one would silently be missing.
pub(crate) fn require(version: u32, needed: u32) -> Result<(), Unenforceable> {
    if version >= needed {
        return Ok(());
    }
    let (why, remedy) = match version {
        0 => (
            String::from("the kernel has no Landlock, or it is switched off"),
            "boot a kernel from 5.13 on with `lsm=landlock,…`",
        ),
        1.. => (
            format!("the kernel has version {version} of it, and version {needed} is needed"),
            "boot a kernel from 6.12 on",
        ),
    };
    Err(Unenforceable { what: String::from("the layer `landlock`"), why, remedy: remedy.to_owned() })
}

/// The rules if no other layer restricts files, for a host with this version.
pub(crate) fn alone(version: u32, grants: &[(AbsPath, Grant)]) -> Ruleset {
    ruleset(version, handled(version), grants)
}

/// The rules inside a view whose mounts are read-only except for writable paths.
///
/// For a handled right the kernel walks from a file up to the root at every open, until it finds a grant. If the root
/// is readable, reading is granted everywhere in the view, so the walk could only succeed. The kernel also checks
/// truncation at every open, even for reading, without finding a grant: so that right is left to the read-only mounts,
/// too. They do not cover a file that the caller has opened outside of the view for a command to read, nor one
/// received through a unix socket, which a command may have as a stream or, if connections are supervised, connect to
/// or listen at.
pub(crate) fn within_view(version: u32, grants: &[(AbsPath, Grant)], families: Families) -> WithinView {
    let reads = EXECUTE | READ_FILE | READ_DIR;
    let root_is_read = grants.iter().any(|(path, grant)| path.parent().is_none() && grant.rights() & reads == reads);
    let handled = handled(version);
    let left_out = match families {
        _ if !root_is_read => 0,
        Families::InternetAndUnix => reads,
        Families::Internet | Families::None => reads | TRUNCATE,
    };
    let truncate = handled & left_out & TRUNCATE;
    let writable: Vec<_> = grants.iter().filter(|(_, grant)| grant.rights() & truncate != 0).cloned().collect();
    WithinView {
        always: ruleset(version, handled & !left_out, grants),
        with_files: (truncate != 0).then(|| Ruleset { scoped: 0, ..ruleset(version, truncate, &writable) }),
    }
}

/// The rules for a command inside a view.
pub(crate) struct WithinView {
    pub(crate) always: Ruleset,
    /// Additional rules for a command with such a file, or a socket, as a standard stream.
    pub(crate) with_files: Option<Ruleset>,
}

fn ruleset(version: u32, handled: u64, grants: &[(AbsPath, Grant)]) -> Ruleset {
    // The kernel's structure has grown: files, then ports (4), then scopes (6).
    let words = match version {
        0..4 => 1,
        4..6 => 2,
        6.. => 3,
    };
    let scoped = if words == 3 { SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS } else { 0 };
    let mut grants: Vec<_> = grants.iter().map(|(path, grant)| (path.clone(), grant.rights() & handled)).collect();
    grants.sort();
    grants.dedup();
    Ruleset { handled, ports: 0, scoped, words, grants }
}

/// The rules with every use of a TCP port refused.
pub(crate) fn without_ports(ruleset: Ruleset) -> Ruleset {
    const BIND_AND_CONNECT: u64 = 3;
    Ruleset { ports: if ruleset.words > 1 { BIND_AND_CONNECT } else { 0 }, ..ruleset }
}
