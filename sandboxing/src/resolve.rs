//! Resolves the paths that a person wrote to the paths that the kernel will see.
//!
//! Symbolic links are resolved once, when permissions are settled; a plan then opens the resulting paths without
//! following any. A link that is swapped in between makes the plan fail, so only approved files are opened.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};

use stockade_protocol::{AbsPath, Access, FileRule, FileRules, FileTarget, Invalid, Permissions, RawText, RuleSource};

use crate::by_directory::{ByDirectory, directory_of};
use crate::denied_globs::cover_globs;
use crate::host_files::{HostFiles, Kind, RealFiles, is_linkless};
use crate::own_files::{held_links, own_file_bounds};

/// The absolute path of a text relative to a directory. `..` is resolved as the kernel does: as the parent of the
/// directory reached so far, also through links.
pub fn absolute(directory: &AbsPath, text: &Path) -> Result<AbsPath, Invalid> {
    let start = directory.to_host_path().unwrap_or_default();
    let mut path = PathBuf::new();
    for part in start.join(text).components() {
        if part == Component::ParentDir {
            path = fs::canonicalize(&path).unwrap_or(path);
            path.pop();
        } else {
            path.push(part);
        }
    }
    AbsPath::from_path(&path)
}

/// Like [`absolute`], for a path in a grant or a denial: `..` after a link is refused. The result would not contain
/// the link, so a command could redirect the next run by changing it.
pub fn written_path(directory: &AbsPath, text: &Path) -> Result<AbsPath, Invalid> {
    let start = directory.to_host_path().unwrap_or_default();
    let mut path = PathBuf::new();
    for part in start.join(text).components() {
        if part != Component::ParentDir {
            path.push(part);
        } else if path.is_symlink() {
            let real = absolute(directory, text)?;
            let (path, link) = (raw_text(text), raw_text(&path));
            return Err(Invalid::ParentOfLink { path, link, real: real.as_raw().clone() });
        } else {
            path.pop();
        }
    }
    AbsPath::from_path(&path)
}

fn raw_text(path: &Path) -> RawText {
    RawText::from(path.as_os_str().as_encoded_bytes().to_vec())
}

/// The kernel's limit on links in a path.
pub(crate) const MOST_LINKS: usize = 40;

/// Where a file of this name would be created: like [`HostFiles::canonical`], but also through dangling links. A
/// person has to see this path before it is written.
pub fn leads_to(path: &AbsPath) -> AbsPath {
    // It exists, and no link is on the way.
    if is_linkless(path) {
        return path.clone();
    }
    let mut found = RealFiles.canonical(path);
    for _ in 0..MOST_LINKS {
        // Resolution continues at the first missing component of the link's target.
        let dangling = found.ancestors().find_map(|name| Some((RealFiles.link_target(&name)?, name)));
        let Some((target, link)) = dangling else { break };
        let Some(parent) = link.parent() else { break };
        let Ok(led) = absolute(&parent, &target) else { break };
        let behind = found.components().skip(link.depth()).try_fold(led, |led, name| led.join(name.to_vec()));
        let Ok(next) = behind else { break };
        found = RealFiles.canonical(&next);
    }
    found
}

/// The target of a path, and every link followed.
#[derive(Debug, Default)]
pub(crate) struct Way {
    pub(crate) links: Vec<AbsPath>,
    pub(crate) end: PathBuf,
}

/// Follows all links of a path, one component at a time. `None` if they form a loop.
pub(crate) fn follow(path: &Path) -> Option<Way> {
    let parts = |path: &Path| path.components().rev().map(|part| part.as_os_str().to_owned()).collect::<Vec<_>>();
    let mut way = Way::default();
    let mut rest = parts(path);
    while let Some(name) = rest.pop() {
        if name == ".." {
            way.end.pop();
            continue;
        }
        let next = way.end.join(name);
        match fs::read_link(&next) {
            Ok(_) if way.links.len() == MOST_LINKS => return None,
            Ok(target) => {
                way.links.push(AbsPath::from_path(&next).ok()?);
                rest.extend(parts(&target));
            }
            Err(_) => way.end = next,
        }
    }
    Some(way)
}

/// Resolves the links in rules. A rule for a path that is a link, or is behind one, applies to the target; the link's
/// own name keeps its rule, so that it can't be replaced.
///
/// Commands control the links in writable directories, so such a link never widens permissions: a grant through one is
/// refused, and a mask also covers its target. A link to a denied or masked path is protected, since the next run
/// depends on it too.
///
/// In the result the most specific rule decides for every path: bounds on Stockade's own files have been applied to
/// the rules below them.
pub fn resolve_links(permissions: &Permissions, files: &dyn HostFiles) -> Result<Permissions, Invalid> {
    let bounds = own_file_bounds(permissions, files)?;
    let (masks, meant): (Vec<&FileRule>, Vec<&FileRule>) = permissions
        .files
        .iter()
        .filter(|rule| !rule.is_bound())
        .partition(|rule| matches!(rule.source, RuleSource::ProtectedMetadata | RuleSource::CredentialMask));
    let links = Links::new(files);
    let granted = FileRules::new(meant.iter().flat_map(|rule| with_target(rule, &links)))?;
    for rule in &meant {
        refuse_writable_links(rule, &granted, &links)?;
    }
    let narrows = |rule: &FileRule| match &rule.target {
        FileTarget::Path(path) => granted.access(path) > rule.access || rule.access == Access::None,
        FileTarget::Glob(_) => true,
    };
    let masks = masks.iter().filter(|rule| !is_below_file(rule, &links)).flat_map(|rule| {
        let mut rules = with_target(rule, &links);
        // The target is first, if it is another path.
        if rules.len() > 1 && !rules.first().is_some_and(narrows) {
            rules.remove(0);
        }
        rules
    });
    let resolved = FileRules::new(granted.iter().cloned().chain(masks).chain(bounds))?;
    let held = held_links(permissions, &resolved, &links);
    let resolved = if held.is_empty() { resolved } else { FileRules::new(resolved.iter().cloned().chain(held))? };
    Ok(Permissions { files: cover_globs(resolved.without_bounds(), files)?, ..permissions.clone() })
}

/// Whether a rule protects a name below a file, which can't exist: the file was granted by itself.
fn is_below_file(rule: &FileRule, links: &Links<'_>) -> bool {
    let FileTarget::Path(path) = &rule.target else { return false };
    let is_file = |parent: &AbsPath| links.files.kind(&links.follow(parent)) == Some(Kind::File);
    rule.source == RuleSource::ProtectedMetadata && path.parent().as_ref().is_some_and(is_file)
}

/// Resolves paths, with a cache: rules mostly name the same few directories.
pub(crate) struct Links<'a> {
    pub(crate) files: &'a dyn HostFiles,
    followed: RefCell<BTreeMap<AbsPath, AbsPath>>,
    /// Whether the paths of directories have no link.
    linkless: RefCell<ByDirectory<bool>>,
}

impl<'a> Links<'a> {
    fn new(files: &'a dyn HostFiles) -> Self {
        Self { files, followed: RefCell::default(), linkless: RefCell::default() }
    }

    /// Whether neither the path nor an ancestor is a link, so that it is canonical.
    pub(crate) fn is_linkless(&self, path: &AbsPath) -> bool {
        let is_behind_none = directory_of(path).is_none_or(|directory| {
            let known = self.linkless.borrow_mut().get(&directory).copied();
            known.unwrap_or_else(|| {
                let found = path.parent().is_none_or(|parent| self.is_linkless(&parent));
                self.linkless.borrow_mut().insert(&directory, found);
                found
            })
        });
        is_behind_none && self.files.kind(path) != Some(Kind::Symlink)
    }

    /// Like [`HostFiles::canonical`], one component at a time.
    fn follow(&self, path: &AbsPath) -> AbsPath {
        if let Some(known) = self.followed.borrow().get(path) {
            return known.clone();
        }
        let real = match self.plain(path) {
            Some(plain) if self.files.kind(&plain) != Some(Kind::Symlink) => plain,
            Some(_) | None => self.files.canonical(path),
        };
        self.followed.borrow_mut().insert(path.clone(), real.clone());
        real
    }

    /// The path with every link but the last component resolved.
    fn plain(&self, path: &AbsPath) -> Option<AbsPath> {
        let parent = self.follow(&path.parent()?);
        parent.join(path.components().last()?.to_vec()).ok()
    }
}

/// The rule at its target and, if that is another path, at its own name as well.
fn with_target(rule: &FileRule, links: &Links<'_>) -> Vec<FileRule> {
    let path = match &rule.target {
        FileTarget::Path(path) if links.is_linkless(path) => return vec![rule.clone()],
        FileTarget::Path(path) => path,
        FileTarget::Glob(glob) => {
            let real = FileTarget::Glob(glob.rebased(links.follow(glob.base())));
            return vec![FileRule { target: real, ..rule.clone() }];
        }
    };
    let real = links.follow(path);
    let at = |path: AbsPath| FileRule { target: FileTarget::Path(path), ..rule.clone() };
    match links.plain(path) {
        Some(name) if name != real => vec![at(real), at(name)],
        Some(_) | None => vec![at(real)],
    }
}

fn refuse_writable_links(rule: &FileRule, granted: &FileRules, links: &Links<'_>) -> Result<(), Invalid> {
    let FileTarget::Path(path) = &rule.target else { return Ok(()) };
    if rule.access <= Access::Scratch {
        return Ok(());
    }
    let link = path.ancestors().filter_map(|above| links.plain(&above)).find(|name| {
        let is_writable = name.parent().is_some_and(|parent| granted.access(&parent) == Access::Write);
        is_writable && links.files.kind(name) == Some(Kind::Symlink)
    });
    match link {
        Some(link) => Err(Invalid::WritableLink { path: path.as_raw().clone(), link: link.as_raw().clone() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::PLACEHOLDER_MODE;

    /// Another run creates and removes its placeholder, over and over.
    #[test]
    fn a_name_that_is_held_is_missing_whenever_it_is_looked_at() {
        use std::os::unix::fs::DirBuilderExt as _;
        use std::sync::atomic::{AtomicBool, Ordering};

        let here = tempfile::tempdir().unwrap();
        let held = here.path().canonicalize().unwrap().join(".codex");
        let path = AbsPath::from_path(&held).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    fs::DirBuilder::new().mode(PLACEHOLDER_MODE).create(&held).unwrap();
                    fs::remove_dir(&held).unwrap();
                }
            });
            let seen = (0..20_000).filter(|_| RealFiles.kind(&path).is_some()).count();
            done.store(true, Ordering::Relaxed);
            assert_eq!(seen, 0);
        });
    }

    #[test]
    fn the_directory_above_is_the_one_behind_a_link() {
        let here = tempfile::tempdir().unwrap();
        let real = here.path().canonicalize().unwrap();
        fs::create_dir_all(real.join("a/b")).unwrap();
        std::os::unix::fs::symlink(real.join("a/b"), real.join("link")).unwrap();
        let base = AbsPath::from_path(&real).unwrap();
        for (text, expected) in [("x/./y//", "x/y"), ("a/../z", "z"), ("link/../z", "a/z"), ("none/../z", "z")] {
            assert_eq!(absolute(&base, Path::new(text)).unwrap(), base.join(expected).unwrap(), "{text}");
        }
        for (text, expected) in [("x/./y//", "x/y"), ("a/../z", "z"), ("link/b/../z", "link/z"), ("none/../z", "z")] {
            assert_eq!(written_path(&base, Path::new(text)).unwrap(), base.join(expected).unwrap(), "{text}");
        }
        let refused = written_path(&base, Path::new("link/../z")).unwrap_err().to_string();
        assert!(refused.ends_with(&format!("write `{base}/a/z`")), "{refused}");
        assert_eq!(absolute(&base, Path::new("/etc/x")).unwrap().to_string(), "/etc/x");
        assert_eq!(absolute(&"/".parse().unwrap(), Path::new("../../x")).unwrap().to_string(), "/x");
    }

    #[test]
    fn a_rule_behind_a_link_speaks_of_where_it_leads() {
        let directory = tempfile::tempdir().unwrap();
        let base = AbsPath::from_path(&directory.path().canonicalize().unwrap()).unwrap();
        fs::create_dir_all(directory.path().join("real/deep")).unwrap();
        symlink("real", directory.path().join("link")).unwrap();
        let permissions = Permissions {
            files: FileRules::new([FileRule::path(base.join("link/deep/new").unwrap(), Access::Write)]).unwrap(),
            ..Permissions::default()
        };
        let resolved = resolve_links(&permissions, &RealFiles).unwrap();
        assert_eq!(resolved.access(&base.join("real/deep/new").unwrap()), Access::Write);
        assert_eq!(resolved.access(&base.join("link/deep/new").unwrap()), Access::None);
    }

    #[test]
    fn a_link_to_nothing_shows_where_a_file_would_be_made() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("ws")).unwrap();
        fs::create_dir_all(root.join("home")).unwrap();
        for (target, name) in [
            ("../home/.ssh/authorized_keys", "ws/config"),
            ("config", "ws/again"),
            ("../home/.ssh", "ws/directory"),
            ("loop", "ws/loop"),
        ] {
            symlink(target, root.join(name)).unwrap();
        }
        for (name, leads) in [
            ("ws/config", "home/.ssh/authorized_keys"),
            ("ws/again", "home/.ssh/authorized_keys"),
            ("ws/directory/id", "home/.ssh/id"),
            ("ws/loop", "ws/loop"),
            ("ws/new/x", "ws/new/x"),
        ] {
            let path = |name: &str| AbsPath::from_path(&root.join(name)).unwrap();
            assert_eq!(leads_to(&path(name)), path(leads), "{name}");
        }
    }

    /// One component at a time gives the same result as the kernel.
    #[test]
    fn links_are_followed_as_the_kernel_follows_them() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/deep")).unwrap();
        fs::write(root.join("real/file"), "").unwrap();
        for (target, name) in [
            ("real", "link"),
            ("link/deep", "second"),
            ("nowhere/x", "dangling"),
            ("loop", "loop"),
            ("../real/file", "real/back"),
        ] {
            symlink(target, root.join(name)).unwrap();
        }
        let links = Links::new(&RealFiles);
        for name in [
            "real/deep",
            "link",
            "link/deep/new",
            "link/missing/new",
            "second/x",
            "dangling",
            "dangling/x",
            "loop/x",
            "real/back",
            "link/back",
            "real/file/x",
            "missing/x/y",
        ] {
            let path = AbsPath::from_path(&root.join(name)).unwrap();
            assert_eq!(links.follow(&path), RealFiles.canonical(&path), "{name}");
            let is_linkless = follow(&root.join(name)).is_some_and(|way| way.links.is_empty());
            assert_eq!(links.is_linkless(&path), is_linkless, "{name}");
        }
    }

    #[test]
    fn a_link_that_a_command_can_make_widens_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let base = AbsPath::from_path(&directory.path().canonicalize().unwrap()).unwrap();
        fs::create_dir_all(directory.path().join("ws/a")).unwrap();
        fs::create_dir_all(directory.path().join("secret")).unwrap();
        symlink("../secret", directory.path().join("ws/link")).unwrap();
        symlink("../secret", directory.path().join("ws/.codex")).unwrap();
        let at = |path: &str, access| FileRule::path(base.join(path).unwrap(), access);
        let resolve = |rules: Vec<FileRule>| {
            let files = FileRules::new(rules).unwrap();
            resolve_links(&Permissions { files, ..Permissions::default() }, &RealFiles)
        };
        for access in [Access::Read, Access::Write] {
            let error = resolve(vec![at("ws", Access::Write), at("ws/link", access)]).unwrap_err();
            assert!(matches!(error, Invalid::WritableLink { .. }), "{error}");
        }
        assert!(resolve(vec![at("ws", Access::Read), at("ws/link", Access::Write)]).is_ok(), "nobody can change it");
        let mask = at("ws/.codex", Access::Read).from_source(RuleSource::ProtectedMetadata);
        let masked = resolve(vec![at("ws", Access::Write), mask]).unwrap();
        assert_eq!(masked.access(&base.join("secret").unwrap()), Access::None);
        assert_eq!(masked.access(&base.join("ws/.codex").unwrap()), Access::Read);
    }
}
