//! One bounded walk over the file system for all denied globs of a policy.
//!
//! Each directory is listed once for all globs, and only if one of them could match below it. A command controls the
//! tree: it can make a directory unreadable, redirect matches by links, and create any number of names. So an
//! unreadable directory is reported, to be denied as a whole, matching links are followed to their targets, and the
//! walk is bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use stockade_protocol::{AbsPath, Access, FileRules, Glob, GlobSegment, GlobToken, Invalid, PathStyle};

use crate::host_files::{HostFiles as _, RealFiles};
use crate::metadata::is_own;
use crate::resolve::follow;

/// Limit on visited names, for all globs of a policy.
const MOST_ENTRIES: usize = 1_000_000;
/// Limit on the duration of a walk. It is short, since signals and timeouts wait for it.
const LONGEST_WALK: Duration = Duration::from_secs(5);
/// The longest directory path below which every name can still be opened by its path.
const LONGEST_DIRECTORY: usize = 4096 - 256;
/// Trees that the sandbox replaces.
const OWN_TREES: [&str; 2] = ["/proc", "/dev"];

/// The current matches of globs. Numbers are indices into the list of globs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// All matches, also nested ones: a grant below a match exposes the files there, and the glob still denies the
    /// matches among them.
    pub matches: BTreeSet<AbsPath>,
    /// Unreadable directories that could contain matches, though a command could use them or open them again; with the
    /// number of a glob that could match there.
    pub closed: BTreeMap<AbsPath, usize>,
    /// The targets of matching links, with the number of the glob.
    pub targets: BTreeMap<AbsPath, usize>,
    /// The links between a match and its target.
    pub links: BTreeSet<AbsPath>,
}

impl Found {
    /// A sentence for each directory that is denied as a whole because it is unreadable.
    pub fn warnings(&self, files: &FileRules) -> Vec<String> {
        let is_in_sight = |path: &&AbsPath| path.parent().is_some_and(|parent| files.access(&parent) > Access::None);
        let closed = self.closed.keys().filter(is_in_sight);
        let warning = |path| {
            format!(
                "`{path}` is denied as a whole: it can't be searched for what a denied glob matches \
                 (to open it: `chmod u+rx {path}`)"
            )
        };
        closed.map(warning).collect()
    }
}

/// The state of each glob: its number, and the next segment.
type States = Vec<(usize, usize)>;

/// All paths that one of these globs matches.
pub(crate) fn search(globs: &[&Glob]) -> Result<Found, Invalid> {
    let mut walk = Walk { found: Found::default(), patterns: Vec::new(), entries: 0, started: Instant::now() };
    let bases: Vec<AbsPath> = globs.iter().map(|glob| RealFiles.canonical(glob.base())).collect();
    let all: BTreeSet<&AbsPath> = bases.iter().collect();
    for top in &all {
        if top.ancestors().skip(1).any(|above| all.contains(&above)) {
            continue;
        }
        let below = globs.iter().zip(&bases);
        walk.patterns = below.map(|(glob, base)| pattern(glob, base, top)).collect();
        walk.below(top)?;
    }
    Ok(walk.found)
}

/// A glob relative to the top of a walk, fixed names first. Empty for a glob elsewhere.
fn pattern(glob: &Glob, base: &AbsPath, top: &AbsPath) -> Vec<GlobSegment> {
    if !base.starts_with(top) {
        return Vec::new();
    }
    let literal = |name: &[u8]| String::from_utf8_lossy(name).chars().map(GlobToken::Literal).collect();
    let fixed = base.components().skip(top.depth()).map(|name| GlobSegment::Name(literal(name)));
    fixed.chain(glob.segments().iter().cloned()).collect()
}

struct Walk {
    found: Found,
    patterns: Vec<Vec<GlobSegment>>,
    entries: usize,
    started: Instant,
}

impl Walk {
    fn below(&mut self, top: &AbsPath) -> Result<(), Invalid> {
        let Some(start) = top.to_host_path() else { return Ok(()) };
        // `**` also matches no name at all.
        let is_whole = |own: &Vec<GlobSegment>| !own.is_empty() && own.iter().all(|one| *one == GlobSegment::AnyDepth);
        if self.patterns.iter().any(is_whole) && fs::symlink_metadata(&start).is_ok() {
            self.found.matches.insert(top.clone());
        }
        let numbers =
            self.patterns.iter().enumerate().filter(|(_, own)| !own.is_empty()).map(|(number, _)| (number, 0));
        let mut waiting = vec![(start, self.with_empty(numbers.collect()))];
        while let Some((directory, states)) = waiting.pop() {
            let entries = match list(&directory) {
                Listing::Entries(entries) => *entries,
                Listing::Nothing => continue,
                Listing::Closed(closed) => {
                    let number = states.first().map_or(0, |(number, _)| *number);
                    self.found.closed.entry(AbsPath::from_path(&closed)?).or_insert(number);
                    continue;
                }
            };
            for entry in entries {
                self.count(top)?;
                // An interrupted listing omits names.
                let Ok(entry) = entry else {
                    let number = states.first().map_or(0, |(number, _)| *number);
                    self.found.closed.entry(AbsPath::from_path(&directory)?).or_insert(number);
                    break;
                };
                let name = entry.file_name();
                let kind = entry.file_type().ok();
                if let Some(number) = self.matching(&states, name.as_encoded_bytes()) {
                    self.note(&entry.path(), number, kind.is_none_or(|kind| kind.is_symlink()))?;
                }
                if kind.is_none_or(|kind| kind.is_dir()) {
                    let next = self.step(&states, name.as_encoded_bytes());
                    waiting.extend((!next.is_empty()).then(|| (entry.path(), next)));
                }
            }
        }
        Ok(())
    }

    fn segment(&self, number: usize, place: usize) -> Option<&GlobSegment> {
        self.patterns.get(number)?.get(place)
    }

    /// The first glob that ends with this name.
    fn matching(&self, states: &States, name: &[u8]) -> Option<usize> {
        let ends = |number: usize, place: usize| {
            let rest = self.patterns.get(number).into_iter().flatten().skip(place);
            rest.into_iter().all(|segment| *segment == GlobSegment::AnyDepth)
        };
        let ended = states.iter().find(|(number, place)| match self.segment(*number, *place) {
            Some(GlobSegment::AnyDepth) => ends(*number, *place),
            Some(segment) => segment.matches_name(name, PathStyle::HOST) && ends(*number, place + 1),
            None => false,
        });
        ended.map(|(number, _)| *number)
    }

    /// The states inside a directory of this name.
    fn step(&self, states: &States, name: &[u8]) -> States {
        let next = states.iter().filter_map(|(number, place)| match self.segment(*number, *place)? {
            GlobSegment::AnyDepth => Some((*number, *place)),
            segment => segment.matches_name(name, PathStyle::HOST).then_some((*number, place + 1)),
        });
        self.with_empty(next.collect())
    }

    /// Adds the states after each `**`, which also matches no name at all, and drops finished ones.
    fn with_empty(&self, mut states: States) -> States {
        let mut looked_at = 0;
        while let Some((number, place)) = states.get(looked_at).copied() {
            if self.segment(number, place) == Some(&GlobSegment::AnyDepth) {
                states.push((number, place + 1));
            }
            looked_at += 1;
        }
        states.retain(|(number, place)| self.segment(*number, *place).is_some());
        states.sort_unstable();
        states.dedup();
        states
    }

    fn note(&mut self, path: &Path, number: usize, may_be_link: bool) -> Result<(), Invalid> {
        self.found.matches.insert(AbsPath::from_path(path)?);
        if !may_be_link {
            return Ok(());
        }
        let Some(way) = follow(path) else { return Ok(()) };
        self.found
            .links
            .extend(way.links.into_iter().filter(|link| link.to_host_path().is_none_or(|link| link != path)));
        let target = match fs::symlink_metadata(&way.end) {
            Ok(found) if found.is_file() || found.is_dir() => Some(way.end),
            Ok(_) => None,
            Err(error) if is_missing(&error) => None,
            Err(_) => nearest(&way.end),
        };
        if let Some(target) =
            target.filter(|target| target != path && !OWN_TREES.iter().any(|tree| target.starts_with(tree)))
        {
            self.found.targets.entry(AbsPath::from_path(&target)?).or_insert(number);
        }
        Ok(())
    }

    fn count(&mut self, top: &AbsPath) -> Result<(), Invalid> {
        self.entries += 1;
        let is_late = self.entries.is_multiple_of(64) && self.started.elapsed() > LONGEST_WALK;
        let why = match () {
            () if self.entries > MOST_ENTRIES => format!("there are more than {MOST_ENTRIES} names to look at"),
            () if is_late => format!("that takes longer than {} seconds", LONGEST_WALK.as_secs()),
            () => return Ok(()),
        };
        let why = format!("{why}; deny a directory by its path, or put one in front of the first wildcard");
        Err(Invalid::GlobUnsearchable { path: top.as_raw().clone(), why })
    }
}

enum Listing {
    // Boxed: on Windows it contains a whole entry.
    Entries(Box<fs::ReadDir>),
    /// This user, and so a command, can reach nothing there.
    Nothing,
    /// The unreadable directory, or its nearest ancestor that can be named.
    Closed(PathBuf),
}

fn list(directory: &Path) -> Listing {
    let closed = || nearest(directory).map_or(Listing::Nothing, Listing::Closed);
    if directory.as_os_str().len() > LONGEST_DIRECTORY {
        return closed();
    }
    match fs::read_dir(directory) {
        // Without search permission, names are visible but files can't be opened.
        Ok(entries) if can_pass(directory) => Listing::Entries(Box::new(entries)),
        Err(error) if is_missing(&error) => Listing::Nothing,
        Ok(_) | Err(_) => closed(),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The nearest ancestor that can be named, if this user can search it or change its mode.
fn nearest(path: &Path) -> Option<PathBuf> {
    let nameable = |above: &&Path| above.as_os_str().len() <= LONGEST_DIRECTORY && fs::symlink_metadata(above).is_ok();
    let found = path.ancestors().find(nameable)?;
    (can_pass(found) || is_own(found)).then(|| found.to_owned())
}

#[cfg(unix)]
fn can_pass(directory: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    accessat(CWD, directory, Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

#[cfg(not(unix))]
fn can_pass(_: &Path) -> bool {
    true
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn tree(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        for name in files {
            fs::create_dir_all(base.join(name).parent().unwrap()).unwrap();
            fs::write(base.join(name), "").unwrap();
        }
        (directory, base)
    }

    fn found(base: &Path, globs: &[&str]) -> Found {
        let globs: Vec<Glob> = globs.iter().map(|glob| format!("{}/{glob}", base.display()).parse().unwrap()).collect();
        search(&globs.iter().collect::<Vec<_>>()).unwrap()
    }

    fn names<'a>(base: &Path, paths: impl IntoIterator<Item = &'a AbsPath>) -> Vec<String> {
        paths.into_iter().map(|path| path.to_string().replace(&format!("{}/", base.display()), "")).collect()
    }

    #[test]
    fn many_globs_share_one_walk_and_match_as_each_alone() {
        let files = ["a/.env", "a/b/x.env", "a/b/env", "a/b/c/d/x.pem", "x.env/granted/y.env", "z/b/q", "a.env"];
        let (_directory, base) = tree(&files);
        let globs = ["**/*.env", "a/**/*.pem", "*/b", "a/b/?nv", "z/**", "a/**/b/**/d", "[!a]*", "**/b/**"];
        let parsed: Vec<Glob> =
            globs.iter().map(|glob| format!("{}/{glob}", base.display()).parse().unwrap()).collect();
        let mut expected = BTreeSet::new();
        let mut waiting = vec![base.clone()];
        while let Some(directory) = waiting.pop() {
            for entry in fs::read_dir(directory).unwrap().flatten() {
                let path = AbsPath::from_path(&entry.path()).unwrap();
                waiting.extend(entry.path().is_dir().then(|| entry.path()));
                expected.extend(parsed.iter().any(|glob| glob.matches(&path)).then_some(path));
            }
        }
        assert_eq!(found(&base, &globs).matches, expected);
        assert_eq!(names(&base, &found(&base, &["z/**"]).matches), ["z", "z/b", "z/b/q"]);
        assert_eq!(found(&base, &["**/*.env"]).matches.len(), 5, "also inside of another match");
        assert_eq!(names(&base, &found(&base, &["a/*"]).matches), ["a/.env", "a/b"]);
    }

    #[test]
    fn a_directory_whose_files_have_no_short_enough_name_is_closed() {
        let (_directory, base) = tree(&["a"]);
        let mut here = rustix::fs::open(&base, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        let name = "d".repeat(250);
        for _ in 0..20 {
            rustix::fs::mkdirat(&here, &name, rustix::fs::Mode::RWXU).unwrap();
            here = rustix::fs::openat(&here, &name, rustix::fs::OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        }
        let closed = found(&base, &["**/*.pem"]).closed;
        assert_eq!(closed.len(), 1);
        assert!(closed.keys().all(|path| path.as_raw().as_bytes().len() <= LONGEST_DIRECTORY), "{closed:?}");
    }

    #[test]
    fn links_are_followed_to_where_they_lead() {
        let (_directory, base) = tree(&["t/secret", "u/other", "v/x.pem"]);
        symlink("middle", base.join("l.pem")).unwrap();
        symlink("t/secret", base.join("middle")).unwrap();
        symlink("by/other", base.join("m.pem")).unwrap();
        symlink("u", base.join("by")).unwrap();
        for (target, name) in [("loop.pem", "loop.pem"), ("none/x", "n.pem"), ("/dev/null", "null.pem")] {
            symlink(target, base.join(name)).unwrap();
        }
        let all = found(&base, &["*.pem"]);
        assert_eq!(names(&base, all.targets.keys()), ["t/secret", "u/other"]);
        assert_eq!(names(&base, &all.links), ["by", "middle"]);
        symlink("v", base.join("w")).unwrap();
        assert_eq!(names(&base, &found(&base, &["w/*.pem"]).matches), ["v/x.pem"]);
    }

    /// Root can list everything: tests/running says what an ordinary user sees.
    #[test]
    fn what_cannot_be_listed_is_closed() {
        let (_directory, base) = tree(&["listed/a", "shut/deep/a", "seen/a.pem"]);
        for (name, mode) in [("shut", 0o311), ("seen", 0o644)] {
            fs::set_permissions(base.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let closed = found(&base, &["**/*.pem"]).closed;
        if rustix::process::geteuid().is_root() {
            assert!(closed.is_empty(), "{closed:?}");
        } else {
            assert_eq!(names(&base, closed.keys()), ["seen", "shut"]);
        }
        for name in ["shut", "seen"] {
            fs::set_permissions(base.join(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    #[test]
    fn a_walk_has_an_end() {
        let walk = |entries, started| Walk { found: Found::default(), patterns: Vec::new(), entries, started };
        let refused = walk(MOST_ENTRIES, Instant::now()).count(&"/w".parse().unwrap()).unwrap_err().to_string();
        assert!(refused.contains("more than 1000000 names to look at; deny a directory by its path"), "{refused}");
        let before = Instant::now().checked_sub(LONGEST_WALK * 2).unwrap();
        let refused = walk(63, before).count(&"/w".parse().unwrap()).unwrap_err().to_string();
        assert!(refused.contains("longer than 5 seconds"), "{refused}");
    }
}
