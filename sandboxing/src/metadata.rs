//! Repositories below a writable root, whose metadata is protected like the root's own, and settings of agents there.
//!
//! A workspace's `.git` may be a file that names a directory elsewhere (`gitdir:`, in a worktree or a submodule), and
//! that directory may share another (`commondir`). Hooks and configuration are read from all of them, so all of them
//! are protected if they are below a writable directory.
//!
//! Agents read settings in directories below the one that they are started in (`sub/.claude/skills`), and in files beside
//! their directory (`opencode.json`). Those that exist are protected; a name that does not is not held, since each one
//! would cost a mount (docs/adr/0083).
//!
//! A command controls the searched tree: it can make a directory unreadable, replace files by pipes and links, and
//! create any number of names. So an unreadable directory is protected as a whole, only regular files are read, up to
//! a bound, and a tree that is too large to be searched is refused.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use stockade_protocol::{AbsPath, Access, FileRule, FileRules, FileTarget, Invalid, Permissions, RawText, RuleSource};

use crate::host_files::is_placeholder;

/// The depth below a writable root to which repositories are searched. Deeper ones are not protected, as SECURITY.md
/// says.
const DEEPEST: usize = 3;
/// The depth if the whole file system is writable: files of other users and programs come and go during the search.
const DEEPEST_IN_ROOT: usize = 1;
/// Limit on visited directories. More are refused: a repository could hide among them.
const MOST_DIRECTORIES: usize = 100_000;
/// Limit on the duration of the search.
const LONGEST_SEARCH: Duration = Duration::from_secs(5);
/// git's own limit for a `.git` file.
const LONGEST_GIT_FILE: u64 = 1 << 20;
/// Files with settings of an agent, each with the name of the agent's directory: whether one is protected is the other's
/// choice. opencode loads the plugins that they name.
const SETTINGS_FILES: &[(&str, &str)] = &[("opencode.json", ".opencode"), ("opencode.jsonc", ".opencode")];
/// Directories of installed packages, which bring settings for agents along. Package managers replace them as a whole, and
/// no agent reads them there: they are ignored by git.
const PACKAGES: &str = "node_modules";
/// Kernel file systems: without repositories, and unbounded.
const KERNEL_TREES: &[&str] = &["/proc", "/sys", "/dev"];

/// Adds a rule for the metadata of each repository in a writable directory.
pub fn protect_repositories(permissions: &Permissions) -> Result<Permissions, Invalid> {
    let mut search = Search { started: Instant::now(), ..Search::default() };
    for rule in permissions.files.iter().filter(|rule| rule.access == Access::Write) {
        if let FileTarget::Path(root) = &rule.target
            && let Some(path) = root.to_host_path()
            // A link's target has a rule of its own, and a file contains no repository.
            && fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir())
        {
            search.below(&path, &protected_names(permissions, root))?;
        }
    }
    let mut added = Vec::new();
    for path in search.found.iter().chain(&search.closed).filter_map(|path| AbsPath::from_path(path).ok()) {
        // Only a writable path needs a rule, and an explicitly named one is intended.
        let is_for_it = |rule: &FileRule| matches!(&rule.target, FileTarget::Path(own) if *own == path);
        if permissions.access(&path) == Access::Write && !permissions.files.iter().any(is_for_it) {
            added.push(FileRule::path(path, Access::Read).from_source(RuleSource::ProtectedMetadata));
        }
    }
    if added.is_empty() {
        return Ok(permissions.clone());
    }
    Ok(Permissions { files: FileRules::new(permissions.files.iter().cloned().chain(added))?, ..permissions.clone() })
}

/// The names that are protected in a writable root, except git's: what a policy leaves out there it leaves out below, too.
fn protected_names(permissions: &Permissions, root: &AbsPath) -> Vec<OsString> {
    let rules = permissions.files.iter().filter(|rule| rule.source == RuleSource::ProtectedMetadata);
    let paths = rules.filter_map(|rule| match &rule.target {
        FileTarget::Path(path) if path.parent().as_ref() == Some(root) => path.to_host_path(),
        FileTarget::Path(_) | FileTarget::Glob(_) => None,
    });
    paths.filter_map(|path| Some(path.file_name()?.to_owned())).filter(|name| name != ".git").collect()
}

/// Whether an entry of a directory holds settings of an agent.
fn is_agents(name: &OsStr, protected: &[OsString]) -> bool {
    let of_file = SETTINGS_FILES.iter().find(|(file, _)| name == *file).map(|(_, directory)| OsStr::new(directory));
    protected.iter().any(|own| own == name || Some(own.as_os_str()) == of_file)
}

struct Search {
    started: Instant,
    seen: usize,
    /// Metadata.
    found: BTreeSet<PathBuf>,
    /// Unsearchable directories.
    closed: BTreeSet<PathBuf>,
}

impl Default for Search {
    fn default() -> Self {
        Self { started: Instant::now(), seen: 0, found: BTreeSet::new(), closed: BTreeSet::new() }
    }
}

impl Search {
    fn below(&mut self, root: &Path, protected: &[OsString]) -> Result<(), Invalid> {
        let deepest = if root.parent().is_none() { DEEPEST_IN_ROOT } else { DEEPEST };
        let mut waiting = VecDeque::from([(root.to_owned(), 0)]);
        while let Some((directory, depth)) = waiting.pop_front() {
            self.count(root)?;
            match fs::symlink_metadata(directory.join(".git")) {
                Ok(found) => self.note_repository(directory.join(".git"), &found),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    self.close(&directory, root)?;
                    continue;
                }
                Err(_) => {}
            }
            // At the deepest level only the directory's own `.git` counts.
            if depth == deepest {
                continue;
            }
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                    continue;
                }
                Err(_) => {
                    self.close(&directory, root)?;
                    continue;
                }
            };
            let is_package = directory.components().any(|part| part.as_os_str() == PACKAGES);
            for entry in entries.flatten() {
                let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
                if !is_package && is_agents(&entry.file_name(), protected) {
                    self.note_settings(entry.path());
                    continue;
                }
                if is_directory && entry.file_name() != ".git" && !is_kernel_tree(&entry.path()) {
                    waiting.push_back((entry.path(), depth + 1));
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, root: &Path) -> Result<(), Invalid> {
        self.seen += 1;
        let is_late = self.seen.is_multiple_of(256) && self.started.elapsed() > LONGEST_SEARCH;
        let why = match () {
            () if self.seen > MOST_DIRECTORIES => format!(
                "its first {DEEPEST} levels hold more than {MOST_DIRECTORIES} directories; make one inside of it writable in its place"
            ),
            () if is_late => format!(
                "that takes longer than {} seconds; make a directory inside of it writable in its place",
                LONGEST_SEARCH.as_secs()
            ),
            () => return Ok(()),
        };
        Err(unsearchable(root, why))
    }

    /// An unreadable directory that this user owns may have been closed by a command, which can open it again. One of
    /// another user can't have been.
    fn close(&mut self, directory: &Path, root: &Path) -> Result<(), Invalid> {
        if !is_own(directory) {
            return Ok(());
        }
        if directory == root {
            return Err(unsearchable(
                root,
                format!("it can't be listed; open it with `chmod u+rx {}`", root.display()),
            ));
        }
        self.closed.insert(directory.to_owned());
        Ok(())
    }

    /// Settings of an agent, and what a link in their place leads to.
    fn note_settings(&mut self, path: PathBuf) {
        match fs::symlink_metadata(&path) {
            Ok(found) if is_placeholder(&path, &found) => {}
            Ok(found) => {
                let real = if found.is_symlink() { self.canonical(&path) } else { None };
                self.found.extend(real.into_iter().chain([path]));
            }
            Err(_) => {}
        }
    }

    fn note_repository(&mut self, git: PathBuf, metadata: &fs::Metadata) {
        if is_placeholder(&git, metadata) {
            return;
        }
        self.found.insert(git.clone());
        // git and writers follow a link.
        let real = if metadata.is_symlink() { self.canonical(&git) } else { Some(git) };
        let Some(real) = real else { return };
        self.found.insert(real.clone());
        if fs::metadata(&real).is_ok_and(|found| found.is_dir()) {
            self.follow_common(&real);
        } else if let Some(text) = read_file(&real, LONGEST_GIT_FILE)
            && let Some(target) = text.strip_prefix(b"gitdir:")
            && let Some(gitdir) = real.parent().and_then(|parent| self.target(parent, target))
        {
            self.found.insert(gitdir.clone());
            self.follow_common(&gitdir);
        }
    }

    /// The directory that a repository shares with others.
    fn follow_common(&mut self, gitdir: &Path) {
        let text = read_file(&gitdir.join("commondir"), LONGEST_GIT_FILE);
        let common = text.and_then(|text| self.target(gitdir, &text));
        self.found.extend(common);
    }

    /// The path in a file, relative to the file's directory.
    fn target(&mut self, base: &Path, text: &[u8]) -> Option<PathBuf> {
        self.canonical(&target_of(base, text)?)
    }

    /// The canonical path. An unreachable one is protected by its nearest reachable ancestor.
    fn canonical(&mut self, path: &Path) -> Option<PathBuf> {
        match fs::canonicalize(path) {
            Ok(real) => Some(real),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                let nearest = path.ancestors().skip(1).find_map(|above| fs::canonicalize(above).ok());
                self.closed.extend(nearest.filter(|nearest| is_own(nearest)));
                None
            }
            Err(_) => None,
        }
    }
}

/// The path that a file of git's names, relative to where it stands.
pub(crate) fn target_of(base: &Path, text: &[u8]) -> Option<PathBuf> {
    let text = text.strip_prefix(b" ").unwrap_or(text);
    let end = text.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r'))?;
    Some(base.join(path_of(text.get(..=end)?)?))
}

fn unsearchable(root: &Path, why: String) -> Invalid {
    Invalid::Unsearchable { path: RawText::from(root.as_os_str().as_encoded_bytes().to_vec()), why }
}

fn is_kernel_tree(path: &Path) -> bool {
    KERNEL_TREES.iter().any(|tree| path == Path::new(tree))
}

/// The beginning of a regular file: nothing that blocks or has no end.
pub(crate) fn read_file(path: &Path, limit: u64) -> Option<Vec<u8>> {
    // The type is checked first, since opening a device can have side effects.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let file = open(path).ok().filter(|file| file.metadata().is_ok_and(|found| found.is_file()))?;
    let mut text = Vec::new();
    file.take(limit + 1).read_to_end(&mut text).ok()?;
    (u64::try_from(text.len()).is_ok_and(|length| length <= limit)).then_some(text)
}

#[cfg(unix)]
fn open(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
}

#[cfg(not(unix))]
fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

#[cfg(unix)]
fn path_of(bytes: &[u8]) -> Option<&Path> {
    use std::os::unix::ffi::OsStrExt as _;
    (!bytes.contains(&0)).then(|| Path::new(std::ffi::OsStr::from_bytes(bytes)))
}

#[cfg(not(unix))]
fn path_of(bytes: &[u8]) -> Option<&Path> {
    std::str::from_utf8(bytes).ok().map(Path::new)
}

/// Whether the file belongs to this user, who can change its mode.
#[cfg(unix)]
pub(crate) fn is_own(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    fs::symlink_metadata(path).is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw())
}

#[cfg(not(unix))]
pub(crate) fn is_own(_: &Path) -> bool {
    true
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    fn writable(root: &Path) -> Permissions {
        let root = AbsPath::from_path(root).unwrap();
        let files = FileRules::new([FileRule::path(root, Access::Write)]).unwrap();
        Permissions { files, ..Permissions::default() }
    }

    fn expect(root: &Path, expected: &[(&str, Access)]) {
        let protected = protect_repositories(&writable(root)).unwrap();
        let root = AbsPath::from_path(root).unwrap();
        for (path, access) in expected {
            assert_eq!(protected.access(&root.join(*path).unwrap()), *access, "{path}");
        }
    }

    #[test]
    fn no_number_of_directories_hides_a_repository() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for number in 0..1000 {
            fs::create_dir(root.join(number.to_string())).unwrap();
        }
        fs::create_dir_all(root.join("999/b/c/.git")).unwrap();
        expect(&root, &[("999/b/c/.git/hooks/x", Access::Read), ("999/b", Access::Write)]);
        let mut search = Search { seen: MOST_DIRECTORIES, ..Search::default() };
        let refused = search.below(&root, &[]).unwrap_err();
        assert!(refused.to_string().contains("more than 100000 directories"), "{refused}");
        let before = Instant::now().checked_sub(LONGEST_SEARCH * 2).unwrap();
        let mut search = Search { started: before, ..Search::default() };
        assert!(search.below(&root, &[]).unwrap_err().to_string().contains("5 seconds"));
    }

    #[test]
    fn git_files_and_nested_repositories_are_followed() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for path in ["gd/hooks", "common/hooks", "sub/.git/hooks", "linked", "elsewhere/hooks", "shared", "raw"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        fs::write(root.join(".git"), "gitdir: gd\n").unwrap();
        std::os::unix::fs::symlink("../elsewhere", root.join("linked/.git")).unwrap();
        fs::write(root.join("gd/commondir"), "../common\n").unwrap();
        fs::write(root.join("sub/.git/commondir"), "../../shared\n").unwrap();
        let odd = std::ffi::OsStr::from_bytes(b"od\xff d");
        fs::create_dir(root.join(odd)).unwrap();
        fs::write(root.join("raw/.git"), b"gitdir: ../od\xff d\n").unwrap();
        expect(
            &root,
            &[
                (".git", Access::Read),
                ("gd/hooks/pre-commit", Access::Read),
                ("common/hooks/pre-commit", Access::Read),
                ("sub/.git/config", Access::Read),
                ("shared/hooks/x", Access::Read),
                ("elsewhere/hooks/pre-commit", Access::Read),
                ("sub/x", Access::Write),
            ],
        );
        let protected = protect_repositories(&writable(&root)).unwrap();
        assert_eq!(protected.access(&AbsPath::from_path(&root.join(odd)).unwrap()), Access::Read);
    }

    #[test]
    fn settings_of_agents_that_exist_are_protected() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for path in ["sub/.claude/skills", "a/b/.codex", "node_modules/p/.claude", "elsewhere", "o", "sub/.other"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        for path in [".mcp.json", "sub/.mcp.json", "o/opencode.json"] {
            fs::write(root.join(path), "{}").unwrap();
        }
        std::os::unix::fs::symlink("../elsewhere", root.join("o/.claude")).unwrap();
        let root = AbsPath::from_path(&root).unwrap();
        let protecting = |names: &[&str]| {
            let rule = |name: &&str| FileRule::path(root.join(*name).unwrap(), Access::Read);
            let names = names.iter().map(rule).map(|rule| rule.from_source(RuleSource::ProtectedMetadata));
            let files = FileRules::new(std::iter::once(FileRule::path(root.clone(), Access::Write)).chain(names));
            protect_repositories(&Permissions { files: files.unwrap(), ..Permissions::default() }).unwrap()
        };
        let protected = protecting(&[".claude", ".codex", ".git", ".mcp.json", ".opencode"]);
        for (path, expected) in [
            (".mcp.json", Access::Read),
            ("sub/.mcp.json", Access::Read),
            ("sub/.claude/skills/x/SKILL.md", Access::Read),
            ("a/b/.codex/config.toml", Access::Read),
            ("o/.claude", Access::Read),
            ("elsewhere/skills", Access::Read),
            ("o/opencode.json", Access::Read),
            ("opencode.json", Access::Write),
            ("node_modules/p/.claude/x", Access::Write),
            ("sub/.other", Access::Write),
            ("sub/x", Access::Write),
            ("new/.claude", Access::Write),
        ] {
            assert_eq!(protected.access(&root.join(path).unwrap()), expected, "{path}");
        }
        // What the settings leave out of the root's names is left out below it.
        for name in [".mcp.json", "o/opencode.json", "sub/.claude"] {
            assert_eq!(protecting(&[".codex"]).access(&root.join(name).unwrap()), Access::Write, "{name}");
        }
    }

    /// A pipe would block, a device has no end, and a file may be as large as the disk.
    #[test]
    fn what_is_planted_in_the_place_of_a_file_holds_nothing_up() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for path in ["a/.git", "b/.git", "c", "d/.git", "e"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        let pipe = |path: &str| {
            rustix::fs::mknodat(
                rustix::fs::CWD,
                root.join(path),
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::from_raw_mode(0o600),
                0,
            )
            .unwrap();
        };
        pipe("a/.git/commondir");
        pipe("e/.git");
        std::os::unix::fs::symlink("/dev/zero", root.join("b/.git/commondir")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", root.join("c/.git")).unwrap();
        let long = File::create(root.join("d/.git/commondir")).unwrap();
        long.set_len(1 << 40).unwrap();
        let (done, waited) = std::sync::mpsc::channel();
        let searched = root.clone();
        std::thread::spawn(move || done.send(protect_repositories(&writable(&searched)).is_ok()));
        assert!(waited.recv_timeout(Duration::from_secs(20)).unwrap());
        expect(&root, &[("a/.git", Access::Read), ("c/.git", Access::Read), ("e/.git", Access::Read)]);
    }
}
