//! A machine for tests: the same drives and files on every system.

use std::collections::BTreeMap;
use std::path::PathBuf;

use stockade_protocol::{AbsPath, Access, FileRule, FileRules, FileTarget, Glob, RuleSource};
use stockade_sandboxing::{HostFiles, Kind};

use crate::{Drive, DriveKind, Host};

/// Files by path. All directories above a path exist as well.
pub(crate) struct FakeHost(BTreeMap<AbsPath, Kind>);

impl FakeHost {
    /// `C:\a\` is a directory, `C:\a@` a link, everything else a file.
    pub(crate) fn new(entries: &[&str]) -> Self {
        let mut files = BTreeMap::new();
        for entry in entries {
            let kind = match () {
                () if entry.ends_with('\\') => Kind::Directory,
                () if entry.ends_with('@') => Kind::Symlink,
                () => Kind::File,
            };
            let path: AbsPath = entry.trim_end_matches(['\\', '@']).parse().unwrap();
            for above in path.ancestors().skip(1) {
                files.entry(above).or_insert(Kind::Directory);
            }
            files.insert(path, kind);
        }
        Self(files)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&AbsPath, Kind)> {
        self.0.iter().map(|(path, kind)| (path, *kind))
    }
}

fn same(a: &AbsPath, b: &AbsPath) -> bool {
    a.starts_with(b) && b.starts_with(a)
}

impl HostFiles for FakeHost {
    fn kind(&self, path: &AbsPath) -> Option<Kind> {
        self.0.iter().find(|(own, _)| same(own, path)).map(|(_, kind)| *kind)
    }

    fn canonical(&self, path: &AbsPath) -> AbsPath {
        path.clone()
    }

    fn matches(&self, glob: &Glob) -> Vec<AbsPath> {
        self.0.keys().filter(|path| glob.matches(path)).cloned().collect()
    }

    fn link_target(&self, _: &AbsPath) -> Option<PathBuf> {
        None
    }

    fn has_other_names(&self, _: &AbsPath) -> bool {
        false
    }
}

/// A machine with one drive.
pub(crate) fn machine() -> Host {
    Host {
        drives: vec![Drive { root: r"C:\".parse().unwrap(), kind: DriveKind::WithLists }],
        command_interpreter: r"C:\Windows\System32\cmd.exe".parse().unwrap(),
    }
}

/// Rules as `path access [source]`.
pub(crate) fn rules(lines: &[&str]) -> FileRules {
    FileRules::new(lines.iter().map(|line| rule(line))).unwrap()
}

fn rule(line: &str) -> FileRule {
    let mut words = line.split(' ');
    let path = words.next().unwrap();
    let access = match words.next().unwrap() {
        "none" => Access::None,
        "scratch" => Access::Scratch,
        "read" => Access::Read,
        "write" => Access::Write,
        other => panic!("there is no access `{other}`"),
    };
    let source = match words.next() {
        None => RuleSource::Policy,
        Some("protected") => RuleSource::ProtectedMetadata,
        Some("credential") => RuleSource::CredentialMask,
        Some(other) => panic!("there is no source `{other}`"),
    };
    let target = if path.contains('*') {
        FileTarget::Glob(path.parse().unwrap())
    } else {
        FileTarget::Path(path.parse().unwrap())
    };
    FileRule { target, access, source }
}
