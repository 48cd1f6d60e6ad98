//! A workspace, a place outside it, and patches of the one that must not reach the other.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs;
use std::path::{Path, PathBuf};

use stockade_apply_patch::{Applied, PatchError, Prepared, Roots, prepare};
use stockade_protocol::{AbsPath, FileChange, RawText};

pub(crate) struct World {
    _directory: tempfile::TempDir,
    pub(crate) workspace: PathBuf,
    pub(crate) outside: PathBuf,
}

impl World {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(directory.path()).unwrap();
        let (workspace, outside) = (real.join("workspace"), real.join("outside"));
        fs::create_dir(&workspace).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("t"), "old\n").unwrap();
        Self { _directory: directory, workspace, outside }
    }

    /// A workspace with a file `name` that holds `content`.
    pub(crate) fn with(name: &str, content: impl AsRef<[u8]>) -> Self {
        let world = Self::new();
        let path = world.workspace.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        world
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.workspace.join(name)
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.at(name)).unwrap()
    }

    /// The names in the workspace, hidden ones too.
    pub(crate) fn names(&self) -> Vec<String> {
        names(&self.workspace)
    }

    pub(crate) fn roots(&self) -> Roots {
        Roots::open([&abs(&self.workspace)]).unwrap()
    }

    pub(crate) fn prepare(&self, changes: &[FileChange]) -> Result<Prepared, PatchError> {
        prepare(changes, &self.roots(), |_| true)
    }

    pub(crate) fn apply(&self, changes: &[FileChange]) -> Applied {
        let applied = self.prepare(changes).unwrap().apply().unwrap();
        assert_eq!(applied.leftovers, []);
        applied
    }

    /// Nothing outside has changed.
    pub(crate) fn outside_is_untouched(&self) {
        assert_eq!(names(&self.outside), ["t"]);
        assert_eq!(fs::read(self.outside.join("t")).unwrap(), b"old\n");
    }

    pub(crate) fn add(&self, name: &str, content: &str) -> FileChange {
        FileChange::Add { path: abs(&self.at(name)), content: content.into() }
    }

    pub(crate) fn delete(&self, name: &str, content: &str) -> FileChange {
        FileChange::Delete { path: abs(&self.at(name)), content: content.into() }
    }

    pub(crate) fn update(&self, name: &str, unified_diff: impl Into<RawText>) -> FileChange {
        FileChange::Update { path: abs(&self.at(name)), unified_diff: unified_diff.into(), move_path: None }
    }

    pub(crate) fn rename(&self, name: &str, unified_diff: &str, target: &str) -> FileChange {
        let move_path = Some(abs(&self.at(target)));
        FileChange::Update { path: abs(&self.at(name)), unified_diff: unified_diff.into(), move_path }
    }
}

/// From `old` to `new`.
pub(crate) const DIFF: &str = "@@ -1 +1 @@\n-old\n+new\n";

pub(crate) fn abs(path: &Path) -> AbsPath {
    AbsPath::from_path(path).unwrap()
}

pub(crate) fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
