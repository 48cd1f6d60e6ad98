//! The real locations of Stockade's own files, and the links that must stay for a denial to hold in the next run.
//!
//! A bound on a path is not enough if it has links: a command could write the link's target, or replace a link. So
//! each link of the path gets a bound of its own, and so does the final target. If that is missing, a sandbox also
//! bounds the first missing directory: a command that creates it would own everything below it.
//!
//! A denied or masked path behind a link is found through that link again when the next sandbox is built. A command
//! that replaces the link would expose the denied file, so links of such paths can't be changed either.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use stockade_protocol::{AbsPath, Access, FileRule, FileRules, FileTarget, Invalid, Permissions, RuleSource};

use crate::host_files::{HostFiles, Kind};
use crate::resolve::{Links, MOST_LINKS};

/// The parent directory, in a link.
const ABOVE: &[u8] = b"..";

/// Adds a bound for each link and target of the bounds on Stockade's own files.
pub fn protect_own_files(permissions: &Permissions, files: &dyn HostFiles) -> Result<Permissions, Invalid> {
    let mut places = places_of_bounds(permissions, files);
    places.retain(|place| !permissions.files.iter().any(|rule| rule == place));
    // A path without links is its own target.
    if places.is_empty() {
        return Ok(permissions.clone());
    }
    let rules = permissions.files.iter().cloned().chain(places);
    Ok(Permissions { files: FileRules::new(rules)?, ..permissions.clone() })
}

fn places_of_bounds(permissions: &Permissions, files: &dyn HostFiles) -> Vec<FileRule> {
    let bounds: Vec<&FileRule> = permissions.files.iter().filter(|rule| rule.is_bound()).collect();
    let is_own = |link: &AbsPath| {
        let at_link = |rule: &&FileRule| matches!(&rule.target, FileTarget::Path(path) if path == link);
        bounds.iter().any(|rule| at_link(rule) && rule.source == RuleSource::OwnFiles)
    };
    let of_bound = |bound: &&FileRule| -> Vec<FileRule> {
        let FileTarget::Path(path) = &bound.target else { return Vec::new() };
        let LinkedWay { links, end } = way(path, files);
        let at = |place, source| FileRule { target: FileTarget::Path(place), source, ..(*bound).clone() };
        // What is behind a link on the way is not Stockade's own, such as a home.
        let end = end.filter(|_| bound.source == RuleSource::OwnFiles);
        let links = links.into_iter().filter(|link| !is_own(link));
        links
            .map(|link| at(link, RuleSource::OwnFilesLink))
            .chain(end.map(|end| at(end, RuleSource::OwnFiles)))
            .collect()
    };
    bounds.iter().flat_map(of_bound).collect()
}

/// The bounds of a sandbox: the real locations and, for each missing file, the first missing directory of its path,
/// for the lifetime of the sandbox.
pub(crate) fn own_file_bounds(permissions: &Permissions, files: &dyn HostFiles) -> Result<Vec<FileRule>, Invalid> {
    let bounds = permissions.files.iter().filter(|rule| rule.is_bound()).cloned();
    let protected = FileRules::new(bounds.chain(places_of_bounds(permissions, files)))?;
    // Nothing can be created behind a link by its own name: the link and its target have bounds.
    let is_behind_link = |rule: &FileRule| match &rule.target {
        FileTarget::Path(path) => path.ancestors().skip(1).any(|above| files.kind(&above) == Some(Kind::Symlink)),
        FileTarget::Glob(_) => false,
    };
    let bounds = protected.iter().filter(|rule| !is_behind_link(rule));
    let bounds: Vec<FileRule> = bounds.cloned().collect();
    let missing = bounds.iter().filter_map(|bound| {
        let FileTarget::Path(path) = &bound.target else { return None };
        Some(FileRule { target: FileTarget::Path(first_missing(path, files)?), ..bound.clone() })
    });
    Ok(missing.chain(bounds.iter().cloned()).collect())
}

/// Rules that protect each link in the path of a denied or masked path, or of the fixed part of a denied glob, if
/// `resolved` would let a command replace it.
pub(crate) fn held_links(permissions: &Permissions, resolved: &FileRules, links: &Links<'_>) -> Vec<FileRule> {
    let narrowing = permissions.files.iter().filter(|rule| rule.access <= Access::Scratch || is_mask(rule));
    let paths = narrowing.map(|rule| match &rule.target {
        FileTarget::Path(path) => path,
        FileTarget::Glob(glob) => glob.base(),
    });
    let linked: BTreeSet<&AbsPath> = paths.filter(|path| !links.is_linkless(path)).collect();
    let on_the_way: BTreeSet<AbsPath> = linked.into_iter().flat_map(|path| way(path, links.files).links).collect();
    let replaceable = on_the_way.into_iter().filter(|link| resolved.access(link) == Access::Write);
    replaceable.map(|link| FileRule::path(link, Access::Read).from_source(RuleSource::ProtectedMetadata)).collect()
}

fn is_mask(rule: &FileRule) -> bool {
    matches!(rule.source, RuleSource::ProtectedMetadata | RuleSource::CredentialMask)
}

/// The first missing component of a path, in an existing directory.
fn first_missing(path: &AbsPath, files: &dyn HostFiles) -> Option<AbsPath> {
    let missing = path.ancestors().take_while(|place| files.kind(place).is_none()).last()?;
    let parent = files.kind(&missing.parent()?);
    (parent == Some(Kind::Directory)).then_some(missing)
}

/// The resolution of a path.
struct LinkedWay {
    /// Every link followed.
    links: BTreeSet<AbsPath>,
    /// The final target, unless the links form a loop.
    end: Option<AbsPath>,
}

fn way(path: &AbsPath, files: &dyn HostFiles) -> LinkedWay {
    let mut way = LinkedWay { links: BTreeSet::new(), end: None };
    let Some(mut reached) = path.ancestors().last() else { return way };
    // The remaining components, the next one last.
    let mut names: Vec<Vec<u8>> = path.components().skip(reached.depth()).map(<[u8]>::to_vec).collect();
    names.reverse();
    let mut followed = 0;
    while let Some(name) = names.pop() {
        if name == ABOVE {
            reached = reached.parent().unwrap_or(reached);
            continue;
        }
        let Ok(next) = reached.join(name) else { return way };
        if files.kind(&next) != Some(Kind::Symlink) {
            reached = next;
            continue;
        }
        let target = files.link_target(&next);
        way.links.insert(next);
        followed += 1;
        let Some(target) = target.filter(|_| followed <= MOST_LINKS) else { return way };
        push_names(&target, &mut reached, &mut names);
    }
    way.end = Some(reached);
    way
}

/// Prepends a link's target to the remaining components.
fn push_names(target: &Path, reached: &mut AbsPath, names: &mut Vec<Vec<u8>>) {
    for part in target.components().rev() {
        match part {
            Component::RootDir | Component::Prefix(_) => {
                *reached = reached.ancestors().last().unwrap_or_else(|| reached.clone());
            }
            Component::CurDir => {}
            Component::ParentDir => names.push(ABOVE.to_vec()),
            Component::Normal(name) => names.push(name.as_encoded_bytes().to_vec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::RealFiles;

    #[test]
    fn every_link_on_the_way_is_bounded_and_so_is_what_is_missing() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("dots/a/b")).unwrap();
        fs::create_dir_all(root.join("home")).unwrap();
        symlink("../second", root.join("home/.config")).unwrap();
        symlink(root.join("dots/in/../b"), root.join("second")).unwrap();
        symlink("a/b", root.join("dots/in")).unwrap();
        symlink("loop", root.join("home/loop")).unwrap();
        fs::create_dir_all(root.join("dots/a/b/stockade")).unwrap();
        let base = AbsPath::from_path(&root).unwrap();
        let shown = |path: &str| -> Vec<String> {
            let way = way(&base.join(path).unwrap(), &RealFiles);
            let found: BTreeSet<AbsPath> = way.links.into_iter().chain(way.end).collect();
            let below = format!("{base}/");
            found.iter().map(|path| path.to_string().replace(&below, "")).collect()
        };
        assert_eq!(
            shown("home/.config/stockade"),
            ["dots/a/b/stockade", "dots/in", "home/.config", "second"],
            "`in/..` is the directory above where `in` leads"
        );
        assert_eq!(shown("home/.local/state/stockade"), ["home/.local/state/stockade"]);
        assert_eq!(shown("home/loop/x"), ["home/loop"]);
        symlink("../nowhere/deep", root.join("home/dangling")).unwrap();
        assert_eq!(shown("home/dangling/x"), ["home/dangling", "nowhere/deep/x"]);
    }

    #[test]
    fn the_first_missing_directory_is_bounded_in_a_sandbox() {
        let directory = tempfile::tempdir().unwrap();
        let base = AbsPath::from_path(&directory.path().canonicalize().unwrap()).unwrap();
        let at = |path: &str| base.join(path).unwrap();
        let bound = FileRule::path(at(".local/state/own"), Access::Read).from_source(RuleSource::OwnFiles);
        let files = FileRules::new([FileRule::path(base.clone(), Access::Write), bound]).unwrap();
        let permissions = Permissions { files, ..Permissions::default() };
        let resolved = crate::resolve_links(&permissions, &RealFiles).unwrap();
        assert_eq!(resolved.access(&at(".local")), Access::Read);
        assert_eq!(protect_own_files(&permissions, &RealFiles).unwrap().access(&at(".local")), Access::Write);
    }

    #[test]
    fn links_on_the_way_to_a_denied_path_stay() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("ws/real/deep")).unwrap();
        fs::create_dir_all(root.join("outside")).unwrap();
        symlink("second", root.join("ws/first")).unwrap();
        symlink("real", root.join("ws/second")).unwrap();
        symlink("ws/real", root.join("outside/link")).unwrap();
        symlink("real", root.join("ws/free")).unwrap();
        let base = AbsPath::from_path(&root).unwrap();
        let at = |path: &str| base.join(path).unwrap();
        let glob = |text: &str| FileRule::deny_glob(format!("{base}/{text}").parse().unwrap());
        for rule in [
            FileRule::path(at("ws/first/secret"), Access::None),
            FileRule::path(at("ws/first/deep"), Access::Scratch),
            FileRule::path(at("ws/first/token"), Access::None).from_source(RuleSource::CredentialMask),
            FileRule::path(at("ws/first/.git"), Access::Read).from_source(RuleSource::ProtectedMetadata),
            glob("ws/first/*.pem"),
            glob("ws/first/deep/**/*.pem"),
        ] {
            let outside = FileRule::path(at("outside/link/x"), Access::None);
            let files = FileRules::new([FileRule::path(at("ws"), Access::Write), rule.clone(), outside]).unwrap();
            let permissions = Permissions { files, ..Permissions::default() };
            let resolved = crate::resolve_links(&permissions, &RealFiles).unwrap();
            assert_eq!(resolved.access(&at("ws/first")), Access::Read, "{rule:?}");
            assert_eq!(resolved.access(&at("ws/second")), Access::Read, "{rule:?}");
            assert_eq!(resolved.access(&at("ws/free")), Access::Write, "{rule:?}");
            assert_eq!(resolved.access(&at("outside/link")), Access::None, "nothing is opened: {rule:?}");
        }
    }

    #[test]
    fn a_bound_holds_where_its_links_lead() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("ws/real")).unwrap();
        symlink("ws/real", root.join("config")).unwrap();
        let base = AbsPath::from_path(&root).unwrap();
        let at = |path: &str| base.join(path).unwrap();
        let bound = FileRule::path(at("config/own"), Access::Read).from_source(RuleSource::OwnFiles);
        let files = FileRules::new([FileRule::path(at("ws"), Access::Write), bound]).unwrap();
        let permissions = Permissions { files, ..Permissions::default() };
        let resolved = crate::resolve_links(&permissions, &RealFiles).unwrap();
        assert_eq!(resolved.access(&at("ws/real/own/x")), Access::Read);
        assert_eq!(resolved.access(&at("ws/real/x")), Access::Write);
        assert_eq!(resolved.access(&at("config")), Access::None);
    }

    /// What is behind a link on the way to Stockade's own files is not Stockade's own, however often bounds are added.
    #[test]
    fn a_home_behind_a_link_stays_writable() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("real/ws")).unwrap();
        fs::create_dir_all(root.join("real/.config/own")).unwrap();
        fs::create_dir_all(root.join("real/elsewhere")).unwrap();
        symlink("real", root.join("home")).unwrap();
        symlink("elsewhere", root.join("real/state")).unwrap();
        let base = AbsPath::from_path(&root).unwrap();
        let at = |path: &str| base.join(path).unwrap();
        let own = |path| FileRule::path(at(path), Access::Read).from_source(RuleSource::OwnFiles);
        let files = [FileRule::path(at("real"), Access::Write), own("home/.config/own"), own("home/state")];
        let mut permissions = Permissions { files: FileRules::new(files).unwrap(), ..Permissions::default() };
        for _ in 0..3 {
            permissions = protect_own_files(&permissions, &RealFiles).unwrap();
            let resolved = crate::resolve_links(&permissions, &RealFiles).unwrap();
            for (path, access) in [
                ("real/ws/x", Access::Write),
                ("real/.config/own/x", Access::Read),
                ("real/state", Access::Read),
                ("real/elsewhere/x", Access::Read),
            ] {
                assert_eq!(resolved.access(&at(path)), access, "{path}");
            }
        }
    }

    /// A path of Stockade's own that is a link is followed, also if another one lies behind it, and every link stays.
    #[test]
    fn own_paths_that_are_links_are_followed() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("dot/v2/own")).unwrap();
        fs::write(root.join("dot/v2/own/extra"), "").unwrap();
        symlink("v2", root.join("dot/current")).unwrap();
        symlink("dot/current/own", root.join("config")).unwrap();
        let base = AbsPath::from_path(&root).unwrap();
        let at = |path: &str| base.join(path).unwrap();
        let own = |path: &str| FileRule::path(at(path), Access::Read).from_source(RuleSource::OwnFiles);
        for others in [&["dot/v2/own"][..], &["config/extra", "dot/v2/own/extra"], &["dot/current/own/extra"], &[]] {
            let own = std::iter::once("config").chain(others.iter().copied()).map(own);
            let files = FileRules::new(own.chain([FileRule::path(at("dot"), Access::Write)])).unwrap();
            let mut permissions = Permissions { files, ..Permissions::default() };
            for _ in 0..2 {
                permissions = protect_own_files(&permissions, &RealFiles).unwrap();
                let resolved = crate::resolve_links(&permissions, &RealFiles).unwrap();
                for path in ["dot/current", "dot/v2/own", "dot/v2/own/rules/x"] {
                    assert_eq!(resolved.access(&at(path)), Access::Read, "{path} {others:?}");
                }
                assert_eq!(resolved.access(&at("dot/v2/x")), Access::Write, "{others:?}");
            }
        }
    }
}
