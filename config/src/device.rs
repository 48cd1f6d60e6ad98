//! A device that a command may use, named by its node.

use std::fmt;

use stockade_protocol::AbsPath;

/// The node of a character or block device below `/dev`, which was there when this was made.
///
/// Nothing else is taken for a device: not a directory of devices, since nodes come and go there, not a link's own name (the node
/// that it leads to counts), and no node elsewhere, where a user may have put it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePath(AbsPath);

/// This is no device that can be granted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{path}` is no node of a device below `/dev`: name one, such as `/dev/dri/renderD128`")]
pub struct NoDevice {
    path: AbsPath,
}

impl DevicePath {
    /// Looks the node up. A link is followed.
    pub fn new(path: AbsPath) -> Result<Self, NoDevice> {
        match node(&path) {
            Some(node) => Ok(Self(node)),
            None => Err(NoDevice { path }),
        }
    }

    /// The node itself.
    pub fn as_path(&self) -> &AbsPath {
        &self.0
    }
}

#[cfg(unix)]
fn node(path: &AbsPath) -> Option<AbsPath> {
    use std::os::unix::fs::FileTypeExt as _;

    let real = std::fs::canonicalize(path.to_host_path()?).ok()?;
    let kind = std::fs::symlink_metadata(&real).ok()?.file_type();
    let node = AbsPath::from_path(&real).ok()?;
    let is_below = node.depth() > 1 && node.components().next() == Some(b"dev");
    (is_below && (kind.is_char_device() || kind.is_block_device())).then_some(node)
}

#[cfg(not(unix))]
fn node(_: &AbsPath) -> Option<AbsPath> {
    None
}

impl fmt::Display for DevicePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_below_dev_are_devices() {
        let device = |text: &str| DevicePath::new(text.parse().unwrap());
        assert_eq!(device("/dev/null").unwrap().to_string(), "/dev/null");
        for other in ["/dev", "/dev/pts", "/etc/passwd", "/dev/missing", "/", "/dev/shm"] {
            let refused = device(other).unwrap_err();
            assert!(refused.to_string().starts_with(&format!("`{other}` is no node")), "{refused}");
        }
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
        assert_eq!(device(link.to_str().unwrap()).unwrap().to_string(), "/dev/zero", "a link is followed");
    }
}
