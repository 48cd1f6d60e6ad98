//! A map by directory, for paths that mostly come in their order.

use std::borrow::Cow;
use std::collections::HashMap;

use stockade_protocol::AbsPath;

/// Values by the texts of directories' paths. Rules are sorted, so that most paths are in the directory of the one
/// before, or next to it; comparing with the last two takes a fraction of a hash.
#[derive(Debug)]
pub(crate) struct ByDirectory<T> {
    directories: Vec<(Box<[u8]>, T)>,
    /// Where each of them is.
    positions: HashMap<Box<[u8]>, usize>,
    /// The positions of the last two, the latest first.
    recent: [usize; 2],
}

impl<T> Default for ByDirectory<T> {
    fn default() -> Self {
        Self { directories: Vec::new(), positions: HashMap::new(), recent: [0; 2] }
    }
}

impl<T> ByDirectory<T> {
    /// The value of a directory.
    pub(crate) fn get(&mut self, directory: &[u8]) -> Option<&mut T> {
        let is_at = |position: &usize| self.directories.get(*position).is_some_and(|(path, _)| **path == *directory);
        let [latest, earlier] = self.recent;
        if !is_at(&latest) {
            let position = if is_at(&earlier) { earlier } else { *self.positions.get(directory)? };
            self.recent = [position, latest];
        }
        let [latest, _] = self.recent;
        self.directories.get_mut(latest).map(|(_, value)| value)
    }

    /// Adds a directory that is not known yet.
    pub(crate) fn insert(&mut self, directory: &[u8], value: T) {
        let [latest, _] = self.recent;
        self.recent = [self.directories.len(), latest];
        self.positions.insert(directory.into(), self.directories.len());
        self.directories.push((directory.into(), value));
    }

    /// Every value.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.directories.iter().map(|(_, value)| value)
    }
}

/// The text of the directory that holds a path; the root has none.
pub(crate) fn directory_of(path: &AbsPath) -> Option<Cow<'_, [u8]>> {
    match split(path.as_raw().as_bytes()) {
        Some((directory, _)) => Some(Cow::Borrowed(directory)),
        // The root, or a path of Windows.
        None => path.parent().map(|parent| Cow::Owned(parent.as_raw().as_bytes().to_vec())),
    }
}

/// The directory and the name of a path; `None` for the root, and for a path of another system.
pub(crate) fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let (directory, name) = path.split_at_checked(path.iter().rposition(|byte| *byte == b'/')?)?;
    let name = name.strip_prefix(b"/").filter(|name| !name.is_empty())?;
    Some((if directory.is_empty() { b"/" } else { directory }, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_directory_and_the_others_are_found() {
        let mut map = ByDirectory::default();
        assert_eq!(map.get(b"/"), None);
        for (number, path) in [&b"/"[..], b"/a", b"/b", b"/c"].into_iter().enumerate() {
            map.insert(path, number);
        }
        for (path, value) in [
            (&b"/a"[..], Some(1)),
            (b"/", Some(0)),
            (b"/a", Some(1)),
            (b"/x", None),
            (b"/c", Some(3)),
            (b"/c", Some(3)),
            (b"/b", Some(2)),
        ] {
            assert_eq!(map.get(path).copied(), value, "{}", String::from_utf8_lossy(path));
        }
        assert_eq!(map.values().copied().collect::<Vec<usize>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn a_directory_is_the_parent() {
        for path in ["/", "/a", "/a/b", r"C:\", r"C:\a", r"C:\a\b", r"\\srv\share\x"] {
            let path: AbsPath = path.parse().unwrap();
            let parent = path.parent();
            assert_eq!(
                directory_of(&path).as_deref(),
                parent.as_ref().map(|parent| parent.as_raw().as_bytes()),
                "{path}"
            );
        }
    }
}
