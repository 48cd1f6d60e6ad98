//! Random trees and random rules for them.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use stockade_protocol::{Access, FileRule, FileRules, FileTarget, PROTECTED_NAMES, Permissions, RuleSource};

use crate::engines::{Engine, View};
use crate::random::Random;
use crate::world::{World, rule};

/// A tree of the host, and what a command may do with it.
pub(crate) struct Policy {
    /// The top of the tree, and a directory beside it that links lead to.
    pub(crate) tree: PathBuf,
    pub(crate) directories: Vec<PathBuf>,
    pub(crate) files: Vec<PathBuf>,
    pub(crate) links: Vec<PathBuf>,
    pub(crate) permissions: Permissions,
    taste: Taste,
}

/// What kind of policies a run is mostly about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taste {
    Anything,
    /// No rule takes anything away from what is granted around it, and no name is protected.
    OnlyMore,
}

impl Taste {
    /// An engine that can take nothing away refuses nearly all of the others: most of its policies are
    /// such as it can enforce.
    pub(crate) fn of(engine: &Engine, random: &mut Random) -> Self {
        if engine.view == View::Host && random.chance(75) { Self::OnlyMore } else { Self::Anything }
    }

    fn takes(self, name: &str) -> bool {
        self == Self::Anything || !PROTECTED_NAMES.contains(&name)
    }
}

const DIRECTORIES: &[&str] = &["a", "b", "ab", "with space", "new\nline", ".git", ".codex"];
const FILES: &[&str] = &["f", "f.env", "g.env", "a b", ".git"];
const MISSING: &[&str] = &["missing", "late.env", "m/below", ".codex"];
const ACCESSES: &[Access] = &[Access::None, Access::Scratch, Access::Read, Access::Write, Access::Write];

impl Policy {
    pub(crate) fn random(world: &World, tree: &Path, taste: Taste, random: &mut Random) -> Self {
        let mut policy = Self {
            taste,
            tree: tree.to_owned(),
            directories: vec![tree.to_owned()],
            files: Vec::new(),
            links: Vec::new(),
            permissions: Permissions::default(),
        };
        world.make_directory(tree);
        policy.grow(world, tree, 3, random);
        policy.add_links(world, random);
        policy.permissions = Permissions { files: policy.rules(world, random), ..Permissions::default() };
        policy
    }

    fn grow(&mut self, world: &World, directory: &Path, depth: usize, random: &mut Random) {
        for _ in 0..random.below(4) {
            let name = match random.chance(5) {
                true => OsStr::from_bytes(b"not-\xff-utf8"),
                false => OsStr::new(random.pick(FILES)),
            };
            let path = directory.join(name);
            if !path.exists() && name.to_str().is_none_or(|name| self.taste.takes(name)) {
                world.write(&path, "content\n");
                self.files.push(path);
            }
        }
        for _ in 0..if depth == 0 { 0 } else { 1 + random.below(3) } {
            let name = *random.pick(DIRECTORIES);
            let path = directory.join(name);
            if !path.exists() && self.taste.takes(name) {
                world.make_directory(&path);
                self.directories.push(path.clone());
                self.grow(world, &path, depth - 1, random);
            }
        }
    }

    /// Links inside the tree, and one that leads out of it.
    fn add_links(&mut self, world: &World, random: &mut Random) {
        for number in 0..random.below(4) {
            let targets = if random.chance(70) { &self.directories } else { &self.files };
            let target = if random.chance(15) || targets.is_empty() { &world.outside } else { random.pick(targets) };
            let Some(target) = target.to_str() else { continue };
            let link = random.pick(&self.directories).join(format!("link{number}"));
            world.link(target, &link);
            self.links.push(link);
        }
    }

    fn rules(&self, world: &World, random: &mut Random) -> FileRules {
        let mut rules = vec![rule(&world.programs, Access::Read)];
        match random.below(10) {
            0..5 => rules.push(rule(Path::new("/"), Access::Read)),
            5 => rules.push(rule(Path::new("/"), Access::Write)),
            // Only what the probe needs to start.
            _ => rules.extend(["/usr", "/lib", "/lib64", "/bin"].map(|path| rule(Path::new(path), Access::Read))),
        }
        if random.chance(70) {
            rules.push(rule(&self.tree, *random.pick(&[Access::Write, Access::Write, Access::Read, Access::Scratch])));
        }
        for _ in 0..random.below(6) {
            let path = self.any_path(random);
            let access = *random.pick(ACCESSES);
            // Most policies name only what is there, as most people's do.
            let possible = match access {
                Access::Write => path.symlink_metadata().is_ok(),
                Access::Scratch => !path.is_file(),
                Access::None | Access::Read => true,
            };
            if possible || random.chance(10) {
                rules.push(rule(&path, access));
            }
        }
        if random.chance(30) {
            let base = random.pick(&self.directories);
            let pattern = *random.pick(&["**/*.env", "*", "**/f", "[a-b]*", "**/.git"]);
            if let Some(base) = base.to_str().filter(|base| !base.contains(['[', '{', '*'])) {
                rules.push(FileRule::deny_glob(format!("{base}/{pattern}").parse().unwrap()));
            }
        }
        if random.chance(30) {
            rules.push(rule(&self.any_path(random), Access::Read).from_source(RuleSource::OwnFiles));
        }
        if self.taste == Taste::OnlyMore {
            rules = only_more(rules);
        }
        FileRules::new(rules).unwrap()
    }

    /// Something that is there, or a name that is not.
    pub(crate) fn any_path(&self, random: &mut Random) -> PathBuf {
        let lists = [&self.directories, &self.directories, &self.files, &self.files, &self.links];
        let list = *random.pick(&lists);
        match list.is_empty() || random.chance(20) {
            true => random.pick(&self.directories).join(random.pick(MISSING)),
            false => random.pick(list).clone(),
        }
    }
}

/// The rules that give as much as those around them do, or more.
fn only_more(rules: Vec<FileRule>) -> Vec<FileRule> {
    let mut kept: Vec<FileRule> = Vec::new();
    for rule in rules.into_iter().filter(|rule| !rule.is_bound()) {
        let FileTarget::Path(path) = &rule.target else { continue };
        let above = FileRules::new(kept.iter().cloned()).unwrap().access(path);
        if matches!(rule.access, Access::Read | Access::Write) && rule.access >= above {
            kept.retain(|below| {
                let is_below = matches!(&below.target, FileTarget::Path(key) if key.starts_with(path));
                !is_below || below.access >= rule.access
            });
            kept.push(rule);
        }
    }
    kept
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "directories {:?}\nfiles {:?}\nlinks {:?}", self.directories, self.files, self.links)?;
        self.permissions
            .files
            .iter()
            .try_for_each(|rule| writeln!(f, "{} {:?} {:?}", rule.target, rule.access, rule.source))
    }
}
