//! Repositories below a writable root, whose metadata is protected like the root's own.
//!
//! A workspace's `.git` may be a file that names a directory elsewhere (`gitdir:`, in a worktree or
//! a submodule), and that directory may share another (`commondir`). Hooks and configuration are
//! read from all of them, so all of them are protected where they lie in something writable.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use stockade_protocol::{AbsPath, Access, FileRule, FileRules, FileTarget, Invalid, Permissions, RuleSource};

use crate::resolve::is_placeholder;

/// How many directories are looked at for nested repositories, nearest first. Enough for submodules
/// and vendored checkouts; more would cost more than starting the command does. What is not found is
/// not protected, as SECURITY.md says.
const MOST_DIRECTORIES: usize = 256;
const DEEPEST: usize = 3;

/// Adds a rule for the metadata of each repository that is found in a writable place.
pub fn protect_repositories(permissions: &Permissions) -> Result<Permissions, Invalid> {
    let roots = permissions.files.iter().filter(|rule| rule.access == Access::Write);
    let mut found = Vec::new();
    for rule in roots {
        if let FileTarget::Path(root) = &rule.target
            && let Some(path) = root.to_host_path()
            // Where a link leads has a rule of its own.
            && !path.is_symlink()
        {
            search(path, &mut found);
        }
    }
    let mut rules: Vec<FileRule> = permissions.files.iter().cloned().collect();
    for path in found.iter().filter_map(|path| AbsPath::from_path(path).ok()) {
        // Only what could be written needs a rule, and a path that is named is meant.
        let named = rules.iter().any(|rule| rule.target == FileTarget::Path(path.clone()));
        if permissions.access(&path) == Access::Write && !named {
            rules.push(FileRule::path(path, Access::Read).from_source(RuleSource::ProtectedMetadata));
        }
    }
    Ok(Permissions { files: FileRules::new(rules)?, ..permissions.clone() })
}

fn search(root: PathBuf, found: &mut Vec<PathBuf>) {
    let mut waiting = VecDeque::from([(root, 0)]);
    let mut seen = 0;
    while let Some((directory, depth)) = waiting.pop_front() {
        seen += 1;
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            if entry.file_name() == ".git" {
                note_repository(entry.path(), found);
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir())
                && depth < DEEPEST
                && seen + waiting.len() < MOST_DIRECTORIES
            {
                waiting.push_back((entry.path(), depth + 1));
            }
        }
    }
}

fn note_repository(git: PathBuf, found: &mut Vec<PathBuf>) {
    let Ok(metadata) = fs::symlink_metadata(&git) else { return };
    if is_placeholder(&git, &metadata) {
        return;
    }
    found.push(git.clone());
    // Git follows a link, and so does whoever writes to where it leads.
    let real = if metadata.is_symlink() { fs::canonicalize(&git).ok() } else { None };
    let real = real.map_or(git, |real| {
        found.push(real.clone());
        real
    });
    if real.is_file() {
        follow_git_file(&real, found);
    }
}

/// Follows `gitdir:` and then `commondir`, each relative to where it stands.
fn follow_git_file(file: &Path, found: &mut Vec<PathBuf>) {
    let target = |text: String, base: &Path| fs::canonicalize(base.join(text.trim())).ok();
    let gitdir = fs::read_to_string(file).ok().and_then(|text| {
        let path = text.lines().next()?.strip_prefix("gitdir:")?.to_owned();
        target(path, file.parent()?)
    });
    let Some(gitdir) = gitdir else { return };
    let common = fs::read_to_string(gitdir.join("commondir")).ok().and_then(|text| target(text, &gitdir));
    found.push(gitdir);
    found.extend(common);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_tree_is_not_searched_to_its_end() {
        let directory = tempfile::tempdir().unwrap();
        for number in 0..2 * MOST_DIRECTORIES {
            fs::create_dir(directory.path().join(number.to_string())).unwrap();
        }
        fs::create_dir(directory.path().join(".git")).unwrap();
        let mut found = Vec::new();
        search(directory.path().to_owned(), &mut found);
        assert_eq!(found, [directory.path().join(".git")], "the nearest is always found");
    }

    #[test]
    fn git_files_and_nested_repositories_are_followed() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        for path in ["gd/hooks", "common/hooks", "sub/.git/hooks", "linked", "elsewhere/hooks"] {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        fs::write(root.join(".git"), "gitdir: gd\n").unwrap();
        std::os::unix::fs::symlink("../elsewhere", root.join("linked/.git")).unwrap();
        fs::write(root.join("gd/commondir"), "../common\n").unwrap();
        let root = AbsPath::from_path(&root).unwrap();
        let permissions = Permissions {
            files: FileRules::new([FileRule::path(root.clone(), Access::Write)]).unwrap(),
            ..Permissions::default()
        };
        let protected = protect_repositories(&permissions).unwrap();
        for (path, access) in [
            (".git", Access::Read),
            ("gd/hooks/pre-commit", Access::Read),
            ("common/hooks/pre-commit", Access::Read),
            ("sub/.git/config", Access::Read),
            ("elsewhere/hooks/pre-commit", Access::Read),
            ("sub/x", Access::Write),
        ] {
            assert_eq!(protected.access(&root.join(path).unwrap()), access, "{path}");
        }
    }
}
