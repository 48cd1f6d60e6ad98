//! What access an operation needs.
//!
//! `Permissions::access` says what may be done with a path. An operation speaks of more than one:
//! to remove a file is to write its directory, and a directory can be renamed only together with all
//! that lies in it. The rules, for a path and the directory that holds it:
//!
//! | operation | works if |
//! | --- | --- |
//! | read a file, list a directory | it can be read |
//! | write a file, change its mode or times | it can be written |
//! | create (file, directory, link, pipe) | the new name and the directory can be written |
//! | remove, rename, hard-link | it and the directory can be written, and no rule below it says otherwise |
//!
//! A private (`scratch`) directory is empty at first and can be written. A name that a rule gives to
//! a link stays that link.
//!
//! Where a command sees the host's own file system, modes and times can be changed only if everything
//! may be written, and a link in a writable directory is like any other file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use stockade_protocol::{AbsPath, Access, FileTarget, PROTECTED_NAMES, Permissions};
use stockade_sandboxing::{HostFiles as _, RealFiles};

use super::policies::Policy;
use crate::engines::View;
use crate::random::Random;
use crate::world::abs;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Works,
    /// Works, unless a mount lies between the two names: programs copy then.
    WorksInOneMount,
    Fails,
}

#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) name: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) second: Option<PathBuf>,
    pub(crate) expected: Expected,
}

pub(crate) struct Oracle<'a> {
    permissions: &'a Permissions,
    view: View,
    /// Every path at which the access may change.
    keys: BTreeSet<AbsPath>,
}

fn works_if(condition: bool) -> Expected {
    if condition { Expected::Works } else { Expected::Fails }
}

fn root() -> AbsPath {
    "/".parse().unwrap()
}

fn host(path: &AbsPath) -> PathBuf {
    path.to_host_path().unwrap()
}

fn exists(path: &AbsPath) -> bool {
    host(path).symlink_metadata().is_ok()
}

fn is_link(path: &AbsPath) -> bool {
    host(path).is_symlink()
}

impl<'a> Oracle<'a> {
    pub(crate) fn new(permissions: &'a Permissions, view: View) -> Self {
        let mut keys = RealFiles.matches(&permissions.files.globs()).unwrap().matches;
        for rule in &permissions.files {
            if let FileTarget::Path(path) = &rule.target {
                keys.insert(path.clone());
            }
        }
        Self { permissions, view, keys }
    }

    /// Whether the mode and times of a file can be changed.
    fn can_be_changed(&self, access: Access) -> bool {
        // With the host's view a policy that takes something away from the root was refused.
        access == Access::Write && (self.view == View::Own || self.access(&root()) == Access::Write)
    }

    fn access(&self, path: &AbsPath) -> Access {
        self.permissions.access(path)
    }

    /// What is in sight at a path. A rule that denies something inside a private directory has
    /// nothing to take away there: what is there is the command's own.
    fn seen(&self, path: &AbsPath) -> Access {
        let access = self.access(path);
        let is_private = access == Access::None && self.enclosing(path) == Access::Scratch;
        if is_private { Access::Scratch } else { access }
    }

    /// The access of the innermost place around a path that denies nothing.
    fn enclosing(&self, path: &AbsPath) -> Access {
        let above = path.ancestors().skip(1).map(|above| self.access(&above)).find(|access| *access != Access::None);
        above.unwrap_or(Access::None)
    }

    /// Whether something stands here in the sandbox itself, where the host's is out of sight.
    fn is_made(&self, path: &AbsPath) -> bool {
        self.keys.iter().any(|key| key.starts_with(path) && exists(key) && self.access(key) > Access::None)
    }

    /// Whether a rule below a path, or for a link at it, keeps it where it is.
    fn is_pinned(&self, path: &AbsPath) -> bool {
        self.keys.iter().any(|key| {
            let differs = self.access(key) != Access::Write || self.view == View::Own && is_link(key);
            differs && key.starts_with(path) && (key != path || is_link(key))
        })
    }

    fn can_be_moved(&self, path: &AbsPath) -> bool {
        let parent = path.parent().unwrap();
        self.access(path) == Access::Write && self.access(&parent) == Access::Write && !self.is_pinned(path)
    }

    /// Whether a new name can be made in an existing directory.
    fn can_be_made(&self, path: &AbsPath) -> bool {
        let parent = path.parent().unwrap();
        // A glob speaks of what was there at the start, a path of its name for ever.
        let is_key = self.keys.contains(path);
        match self.seen(&parent) {
            Access::Write => !is_key || self.access(path) == Access::Write,
            Access::Scratch => self.is_made(&parent),
            Access::None | Access::Read => false,
        }
    }

    /// The canonical path, if every link on the way is in sight.
    fn through_links(&self, path: &Path) -> Option<AbsPath> {
        for above in path.ancestors().filter(|above| above.is_symlink()) {
            let parent = RealFiles.canonical(&abs(above.parent()?));
            let own = parent.join(abs(above).components().last()?.to_vec()).ok()?;
            if self.access(&own) < Access::Read || self.enclosing(&own) < Access::Read {
                return None;
            }
        }
        Some(RealFiles.canonical(&abs(path)))
    }

    /// Everything that can be tried on one random path.
    pub(crate) fn operations(&self, policy: &Policy, random: &mut Random) -> Vec<Operation> {
        let path = policy.any_path(random);
        let Some(real) = self.through_links(&path) else { return Vec::new() };
        if self.seen(&real) == Access::Scratch && self.is_made(&real) {
            // Made by the sandbox for what lies below it; what it holds is tested by its children.
            return self.in_directory(&real, &path, random);
        }
        let operation = |name, expected| Operation { name, path: path.clone(), second: None, expected };
        let access = self.seen(&real);
        let mut operations = Vec::new();
        match fs::symlink_metadata(host(&real)) {
            Err(_) => {
                if path.parent().unwrap().is_dir() {
                    let expected = works_if(self.can_be_made(&real));
                    let ways = ["create", "mkdir", "symlink", "fifo"];
                    operations.extend(ways.map(|way| operation(way, expected)));
                }
                return operations;
            }
            Ok(found) if found.is_dir() => {
                operations.push(operation("list", works_if(access >= Access::Read)));
                operations.extend(self.in_directory(&real, &path, random));
            }
            Ok(_) => {
                operations.push(operation("read", works_if(access >= Access::Read)));
                operations.push(operation("write", works_if(access == Access::Write)));
            }
        }
        operations.extend(["chmod", "utimes"].map(|way| operation(way, works_if(self.can_be_changed(access)))));
        operations.extend(self.moves(policy, &real, random));
        operations
    }

    /// New names in a directory.
    fn in_directory(&self, real: &AbsPath, path: &Path, random: &mut Random) -> Vec<Operation> {
        let name = *random.pick(&["zz-new", "zz-new two"]);
        let expected = works_if(self.can_be_made(&real.join(name).unwrap()));
        ["create", "mkdir", "symlink"]
            .map(|way| Operation { name: way, path: path.join(name), second: None, expected })
            .into()
    }

    /// Removing, renaming and linking, by the canonical name.
    fn moves(&self, policy: &Policy, real: &AbsPath, random: &mut Random) -> Vec<Operation> {
        if !host(real).starts_with(&policy.tree) || host(real) == policy.tree {
            return Vec::new();
        }
        let movable = self.can_be_moved(real);
        let beside = host(&real.parent().unwrap()).join("zz-moved");
        let elsewhere = random.pick(&policy.directories).join("zz-moved");
        let there = self.can_be_made(&abs(&elsewhere));
        let inside = elsewhere.starts_with(host(real));
        let operation = |name, second: Option<&PathBuf>, expected| Operation {
            name,
            path: host(real),
            second: second.cloned(),
            expected,
        };
        let far = match movable && there && !inside {
            true => Expected::WorksInOneMount,
            false => Expected::Fails,
        };
        let mut operations =
            vec![operation("rename", Some(&beside), works_if(movable)), operation("rename", Some(&elsewhere), far)];
        if host(real).is_file() {
            // A link needs no more of the old name than that it can be written, and of the mount that it is one.
            let linkable = self.access(real) == Access::Write;
            operations.push(operation("link", Some(&beside), works_if(movable)));
            operations.push(operation(
                "link",
                Some(&elsewhere),
                if linkable && there { Expected::WorksInOneMount } else { Expected::Fails },
            ));
        }
        let is_full = host(real).is_dir() && fs::read_dir(host(real)).unwrap().next().is_some();
        if !is_full {
            operations.push(operation("remove", None, works_if(movable)));
        }
        operations
    }

    /// Files that stay: on the host exactly where it can be written.
    pub(crate) fn left_behind(&self, policy: &Policy, random: &mut Random) -> Vec<Operation> {
        let number = policy.directories.len().min(5);
        let directories: BTreeSet<PathBuf> = (0..number).map(|_| random.pick(&policy.directories).clone()).collect();
        let operation = |directory: PathBuf| {
            let path = directory.join("zz-left");
            let expected = works_if(self.can_be_made(&abs(&path)));
            Operation { name: "leave", path, second: None, expected }
        };
        directories.into_iter().map(operation).collect()
    }

    /// The host's tree is as it was, with what was left behind in writable places.
    pub(crate) fn check_host(
        &self,
        policy: &Policy,
        operations: &[Operation],
        before: &BTreeMap<PathBuf, String>,
        after: &BTreeMap<PathBuf, String>,
    ) {
        let mut expected: BTreeSet<&PathBuf> = before.keys().collect();
        let left =
            operations.iter().filter(|operation| operation.name == "leave" && operation.expected == Expected::Works);
        // A late name that a glob matches counts as its directory does.
        let on_host = |path: &&PathBuf| self.access(&abs(path.parent().unwrap())) == Access::Write;
        expected.extend(left.map(|operation| &operation.path).filter(on_host));
        assert_eq!(after.keys().collect::<BTreeSet<_>>(), expected, "{policy}\nthe host's tree has other names");
        for (path, what) in before {
            assert_eq!(after.get(path), Some(what), "{policy}\n{} has changed", path.display());
        }
    }

    fn place_above(&self, path: &AbsPath) -> Access {
        self.seen(&path.parent().unwrap())
    }

    /// The reasons for which a policy can't be enforced, by the key that has one.
    fn reasons(&self) -> impl Iterator<Item = &'static str> {
        self.keys.iter().filter(|key| key.depth() > 0 && !is_link(key)).filter_map(|key| match self.access(key) {
            Access::Write if !exists(key) && self.place_above(key) != Access::Write => Some("does not exist"),
            Access::Scratch if exists(key) && !host(key).is_dir() => Some("is a file"),
            Access::None | Access::Scratch | Access::Read
                if !exists(key) && self.place_above(key) == Access::Write && !exists(&key.parent().unwrap()) =>
            {
                Some("does not exist, and neither does its directory")
            }
            Access::None | Access::Scratch | Access::Read | Access::Write => None,
        })
    }

    /// Whether the reason that was given is a documented one, and true.
    pub(crate) fn may_be_refused(&self, what: &str, why: &str) -> bool {
        let reasons: Vec<_> = self.reasons().collect();
        let named = self.keys.iter().any(|key| what == format!("the rule for `{key}`"));
        let missing_write =
            why == "it does not exist" && self.keys.iter().any(|key| self.access(key) == Access::Write && !exists(key));
        named
            && (missing_write
                || self.lacks_a_directory(what, why)
                || reasons.iter().any(|reason| why == format!("it {reason}")))
    }

    /// Whether the name can't be held since there is no directory to hold it in. A glob that matches the
    /// missing directory takes nothing away from that: it speaks of what is there.
    fn lacks_a_directory(&self, what: &str, why: &str) -> bool {
        let named = self.keys.iter().find(|key| what == format!("the rule for `{key}`"));
        named.is_some_and(|key| {
            let mut there = key.ancestors().skip(1).filter(exists);
            let is_missing = !exists(key) && !exists(&key.parent().unwrap());
            why == "it does not exist, and neither does its directory"
                && is_missing
                && there.next().is_some_and(|above| self.seen(&above) == Access::Write)
        })
    }

    /// Whether the rule that is named takes something away from what is granted around it.
    pub(crate) fn takes_away(&self, what: &str) -> bool {
        let Some(key) = self.keys.iter().find(|key| what == format!("the rule for `{key}`")) else {
            // Where everything may be written, repositories of the host are protected as well, and others
            // are making and removing them.
            let is_metadata = PROTECTED_NAMES.iter().any(|name| what.ends_with(&format!("/{name}`")));
            return is_metadata && self.access(&root()) == Access::Write;
        };
        let mut above = key.ancestors().skip(1).map(|above| self.access(&above));
        let around = above.find(|access| *access != Access::Scratch).unwrap_or(Access::None);
        match self.access(key) {
            Access::Scratch => true,
            Access::Read => around == Access::Write,
            Access::None => around >= Access::Read,
            Access::Write => false,
        }
    }

    pub(crate) fn must_be_refused(&self) -> bool {
        self.reasons().next().is_some()
    }
}
