//! Where the metadata of a worktree is, if it is the worktree's own.

use std::fs;
use std::path::{Path, PathBuf};

use stockade_protocol::AbsPath;

use crate::host_files::is_placeholder;
use crate::metadata::{is_own, read_file, target_of};

/// What git itself takes for a `.git` file.
const LONGEST_GIT_FILE: u64 = 1 << 20;
/// More of a configuration is not read.
const LONGEST_CONFIGURATION: u64 = 16 << 20;

/// The metadata of a repository in which commands may do with git what git does there, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// The top of the working tree.
    pub worktree: AbsPath,
    /// The worktree's own: `HEAD`, the index, the state of operations.
    pub own: AbsPath,
    /// What all worktrees have in common: objects and references. The same directory in an ordinary clone.
    pub common: AbsPath,
    /// The length of an object's name, in bytes.
    pub object_name_length: usize,
}

/// Why there is no repository to grant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoRepository {
    /// There is none.
    #[error("`{0}` has no `.git`: make it the top of a repository, or name the top with `--workspace`")]
    Missing(String),
    /// It is arranged in a way that could lead to another repository.
    #[error("{0}: commands can't be given its repository. Run git outside, after a question or by a rule")]
    Unclear(String),
}

impl Repository {
    /// The repository whose worktree a directory is. A `.git` file counts only if the repository that it names knows of the
    /// worktree: a file that came with an archive grants nothing elsewhere.
    pub fn of_worktree(root: &Path) -> Result<Self, NoRepository> {
        let unclear = |why: String| Err(NoRepository::Unclear(why));
        let git = root.join(".git");
        let missing = || NoRepository::Missing(root.display().to_string());
        let found = fs::symlink_metadata(&git).map_err(|_| missing())?;
        if is_placeholder(&git, &found) {
            return Err(missing());
        }
        let (own, common) = match () {
            () if found.is_dir() => (git.clone(), git.clone()),
            () if found.is_file() => match linked(root, &git) {
                Some(found) => found,
                None => {
                    return unclear(format!("`{}` names no worktree of a repository that knows of it", git.display()));
                }
            },
            () => return unclear(format!("`{}` is a link", git.display())),
        };
        let (Ok(own), Ok(common)) = (own.canonicalize(), common.canonicalize()) else { return Err(missing()) };
        if own == common && fs::symlink_metadata(own.join("commondir")).is_ok() {
            return unclear(format!("`{}` has its configuration elsewhere (`commondir`)", git.display()));
        }
        if !is_own(&own) || !is_own(&common) {
            return unclear(format!("`{}` belongs to another user", common.display()));
        }
        let Some(object_name_length) = object_name_length(&common) else {
            return unclear(format!("`{}` has no configuration that can be read", common.display()));
        };
        let path = |path: &Path| AbsPath::from_path(path).map_err(|error| NoRepository::Unclear(error.to_string()));
        let Ok(worktree) = root.canonicalize() else { return Err(missing()) };
        Ok(Self { worktree: path(&worktree)?, own: path(&own)?, common: path(&common)?, object_name_length })
    }
}

/// The metadata of a linked worktree: `worktrees/NAME` in that of its repository, with a file that leads back.
fn linked(root: &Path, git: &Path) -> Option<(PathBuf, PathBuf)> {
    let text = read_file(git, LONGEST_GIT_FILE)?;
    let own = target_of(root, text.strip_prefix(b"gitdir:")?)?.canonicalize().ok()?;
    let common = target_of(&own, &read_file(&own.join("commondir"), LONGEST_GIT_FILE)?)?.canonicalize().ok()?;
    let back = target_of(&own, &read_file(&own.join("gitdir"), LONGEST_GIT_FILE)?)?.canonicalize().ok()?;
    let is_there = own.parent() == Some(common.join("worktrees").as_path());
    let is_known = git.canonicalize().is_ok_and(|git| git == back);
    (is_there && is_known).then_some((own, common))
}

/// What the configuration says of the format of objects.
fn object_name_length(common: &Path) -> Option<usize> {
    let text = read_file(&common.join("config"), LONGEST_CONFIGURATION)?.to_ascii_lowercase();
    let has = |line: &[u8], word: &[u8]| line.windows(word.len()).any(|found| found == word);
    let mut lines = text.split(|byte| *byte == b'\n');
    let is_long = lines.any(|line| has(line, b"objectformat") && has(line, b"sha256"));
    Some(if is_long { 32 } else { 20 })
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn a_git_file_grants_only_a_repository_that_knows_of_the_worktree() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let made = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        made("main/.git/config", "[core]\n");
        made("main/.git/worktrees/w/commondir", "../..\n");
        made("main/.git/worktrees/w/gitdir", &format!("{}\n", root.join("w/.git").display()));
        made("w/.git", &format!("gitdir: {}\n", root.join("main/.git/worktrees/w").display()));
        let path = |path: &str| AbsPath::from_path(&root.join(path)).unwrap();
        let found = Repository::of_worktree(&root.join("main")).unwrap();
        assert_eq!((found.own, found.common), (path("main/.git"), path("main/.git")));
        let found = Repository::of_worktree(&root.join("w")).unwrap();
        assert_eq!((found.own, found.common), (path("main/.git/worktrees/w"), path("main/.git")));
        // Another directory with the same words, the repository itself, and one that only says so.
        made("x/.git", &format!("gitdir: {}\n", root.join("main/.git/worktrees/w").display()));
        made("y/.git", &format!("gitdir: {}\n", root.join("main/.git").display()));
        made("z/.git/commondir", "../../main/.git\n");
        made("z/.git/config", "");
        std::os::unix::fs::symlink("../main/.git", root.join("l")).unwrap();
        fs::create_dir(root.join("linked")).unwrap();
        std::os::unix::fs::symlink("../main/.git", root.join("linked/.git")).unwrap();
        for name in ["x", "y", "z", "linked"] {
            assert!(matches!(Repository::of_worktree(&root.join(name)), Err(NoRepository::Unclear(_))), "{name}");
        }
        fs::create_dir(root.join("none")).unwrap();
        assert!(matches!(Repository::of_worktree(&root.join("none")), Err(NoRepository::Missing(_))));
        made("main/.git/config", "[extensions]\n\tobjectFormat = sha256\n");
        assert_eq!(Repository::of_worktree(&root.join("main")).unwrap().object_name_length, 32);
    }
}
