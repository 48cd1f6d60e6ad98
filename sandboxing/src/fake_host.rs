//! A host for tests of backends: the same files on every machine, and compact rules.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that is written wrong fails")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use stockade_protocol::{AbsPath, Access, FileRule, FileRules, FileTarget, Glob, Invalid, RuleSource};

use crate::{Found, HostFiles, Kind};

/// Files by path. All directories above a path exist as well.
#[derive(Clone, Debug)]
pub struct FakeHost(BTreeMap<AbsPath, (Kind, Option<PathBuf>)>);

impl FakeHost {
    /// `/a/` or `C:\a\` is a directory, `/a -> b` a link, everything else a file.
    pub fn new(entries: &[&str]) -> Self {
        let mut files = BTreeMap::new();
        for entry in entries {
            let (name, link) = entry.split_once(" -> ").map_or((*entry, None), |(name, to)| (name, Some(to)));
            let kind = match link {
                Some(_) => Kind::Symlink,
                None if name.ends_with(['/', '\\']) => Kind::Directory,
                None => Kind::File,
            };
            let path: AbsPath = name.trim_end_matches(['/', '\\']).parse().unwrap();
            for above in path.ancestors().skip(1) {
                files.entry(above).or_insert((Kind::Directory, None));
            }
            files.insert(path, (kind, link.map(PathBuf::from)));
        }
        Self(files)
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = (&AbsPath, Kind)> {
        self.0.iter().map(|(path, (kind, _))| (path, *kind))
    }

    /// Looks a path up by the system's own equality: on Windows case is ignored.
    fn get(&self, path: &AbsPath) -> Option<&(Kind, Option<PathBuf>)> {
        let is_same = |own: &AbsPath| own.starts_with(path) && path.starts_with(own);
        self.0.iter().find(|(own, _)| is_same(own)).map(|(_, found)| found)
    }
}

impl HostFiles for FakeHost {
    fn kind(&self, path: &AbsPath) -> Option<Kind> {
        self.get(path).map(|(kind, _)| *kind)
    }

    fn canonical(&self, path: &AbsPath) -> AbsPath {
        path.clone()
    }

    fn matches(&self, globs: &[&Glob]) -> Result<Found, Invalid> {
        let matches = self.0.keys().filter(|path| globs.iter().any(|glob| glob.matches(path)));
        Ok(Found { matches: matches.cloned().collect(), ..Found::default() })
    }

    fn link_target(&self, path: &AbsPath) -> Option<PathBuf> {
        self.get(path).and_then(|(_, link)| link.clone())
    }

    fn has_other_names(&self, _: &AbsPath) -> bool {
        false
    }

    /// Files below `/dev` are.
    fn is_device(&self, path: &AbsPath) -> bool {
        path.components().next() == Some(b"dev") && self.kind(path) == Some(Kind::File)
    }
}

/// Rules as `path access [source]`, such as `/w/.git read protected`.
pub fn rules(lines: &[&str]) -> FileRules {
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
        Some("administrator") => RuleSource::Administrator,
        Some("own") => RuleSource::OwnFiles,
        Some(other) => panic!("there is no source `{other}`"),
    };
    let target = if path.contains('*') {
        FileTarget::Glob(path.parse().unwrap())
    } else {
        FileTarget::Path(path.parse().unwrap())
    };
    FileRule { target, access, source }
}
