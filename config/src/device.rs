//! A device that a command may use, named by its node.

use std::fmt;

use stockade_protocol::{AbsPath, RawText};

/// The node of a character or block device below `/dev`.
///
/// Nothing else is taken for a device: not a directory of devices, since nodes come and go there, and no name or node in a
/// directory that other users than its owner may write, since they choose what it denotes. A link below `/dev` is followed, and the
/// node that it leads to counts; a link elsewhere is no name of a device, since a command may have put it there. A terminal in
/// `/dev/pts` belongs to other programs; a sandbox has terminals of its own in that place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePath {
    path: AbsPath,
    is_there: bool,
}

/// This is no device that can be granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{path}` is no node of a device below `/dev` (terminals do not count): name one, such as `/dev/dri/renderD128`"
)]
pub struct NoDevice {
    path: RawText,
}

impl NoDevice {
    /// For a path that is refused before it is looked up, such as one with `..` behind a link: the path it leads to need not be
    /// a device, so the remedy is the node's own name.
    pub fn written_as(path: RawText) -> Self {
        Self { path }
    }
}

impl DevicePath {
    /// Looks up the node that a person names for this run: it has to be there.
    pub fn new(path: AbsPath) -> Result<Self, NoDevice> {
        match node(&path) {
            Found::Node(node) => Ok(Self { path: node, is_there: true }),
            Found::Nothing | Found::Other => Err(NoDevice { path: path.as_raw().clone() }),
        }
    }

    /// Looks up the node that a settings file names for all runs: a device that is not plugged in may be missing.
    pub(crate) fn in_settings(path: AbsPath) -> Result<Self, NoDevice> {
        match node(&path) {
            Found::Nothing => Ok(Self { path, is_there: false }),
            Found::Node(_) | Found::Other => Self::new(path),
        }
    }

    /// The node itself.
    pub fn as_path(&self) -> &AbsPath {
        &self.path
    }

    /// Whether the node was there when it was looked up. What is missing is granted to no command.
    pub fn is_there(&self) -> bool {
        self.is_there
    }
}

/// What a name denotes.
#[cfg_attr(not(unix), expect(dead_code, reason = "only Unix has nodes of devices"))]
enum Found {
    Node(AbsPath),
    /// A name below `/dev` at which nothing is.
    Nothing,
    Other,
}

#[cfg(unix)]
fn node(path: &AbsPath) -> Found {
    use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};

    const WRITABLE_BY_OTHERS: u32 = 0o002;
    let is_below_dev = |path: &AbsPath| {
        let mut names = path.components();
        names.next() == Some(b"dev") && names.next().is_some_and(|name| name != b"pts")
    };
    let is_in_own_directory = |path: &std::path::Path| {
        let directory = path.parent().and_then(|directory| std::fs::metadata(directory).ok());
        directory.is_some_and(|directory| directory.mode() & WRITABLE_BY_OTHERS == 0)
    };
    let Some(written) = path.to_host_path().filter(|_| is_below_dev(path)) else { return Found::Other };
    let real = match std::fs::canonicalize(&written) {
        Ok(real) => real,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Found::Nothing,
        Err(_) => return Found::Other,
    };
    let kind = std::fs::symlink_metadata(&real).map(|found| found.file_type());
    let is_device = kind.is_ok_and(|kind| kind.is_char_device() || kind.is_block_device());
    match AbsPath::from_path(&real) {
        Ok(node) if is_device && is_below_dev(&node) && is_in_own_directory(&written) && is_in_own_directory(&real) => {
            Found::Node(node)
        }
        Ok(_) | Err(_) => Found::Other,
    }
}

#[cfg(not(unix))]
fn node(_: &AbsPath) -> Found {
    Found::Other
}

impl fmt::Display for DevicePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.fmt(f)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_below_dev_are_devices() {
        let device = |text: &str| DevicePath::new(text.parse().unwrap());
        assert_eq!(device("/dev/null").unwrap().to_string(), "/dev/null");
        for other in ["/dev", "/dev/pts", "/etc/passwd", "/dev/missing", "/", "/dev/shm", "/dev/pts/ptmx"] {
            let refused = device(other).unwrap_err();
            assert!(refused.to_string().starts_with(&format!("`{other}` is no node")), "{refused}");
        }
        let unresolved = NoDevice::written_as("/dev/fd/../full".into()).to_string();
        assert!(
            unresolved.starts_with("`/dev/fd/../full` is no node") && !unresolved.contains("/proc"),
            "{unresolved}"
        );
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        assert!(device(link.to_str().unwrap()).is_err(), "what a command may have made is no name of a device");
    }

    /// Links below `/dev`, such as those that udev makes, are followed; those in a directory for everybody are not.
    #[test]
    fn links_below_dev_are_followed_unless_anybody_may_have_made_them() {
        let Ok(directory) = tempfile::Builder::new().prefix("stockade-").tempdir_in("/dev") else {
            assert!(std::fs::write("/dev/stockade-test", "").is_err(), "root can make a directory there");
            return;
        };
        let (link, outside) = (directory.path().join("link"), directory.path().join("outside"));
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &outside).unwrap();
        let device = |path: &std::path::Path| DevicePath::new(AbsPath::from_path(path).unwrap());
        assert_eq!(device(&link).unwrap().to_string(), "/dev/zero");
        assert!(device(&outside).is_err());
        std::fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o1777)).unwrap();
        assert!(device(&link).is_err());
    }

    #[test]
    fn settings_may_name_a_device_that_is_not_plugged_in() {
        let settings = |text: &str| DevicePath::in_settings(text.parse().unwrap());
        assert!(!settings("/dev/missing").unwrap().is_there() && settings("/dev/null").unwrap().is_there());
        for other in ["/dev/pts", "/dev/pts/99", "/etc/missing", "/dev"] {
            assert!(settings(other).is_err(), "{other}");
        }
    }
}
