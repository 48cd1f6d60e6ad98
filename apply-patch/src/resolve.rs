//! Resolves paths for display in an approval prompt.
//!
//! Unlike `realpath`, this also resolves paths that do not exist yet: a link to a missing file resolves to that file's
//! path. The result is shown and compared; no file is opened by it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use stockade_protocol::{AbsPath, FileChange, ResolvedPath};

/// The kernel's limit on links in a path.
const MOST_LINKS: usize = 40;

/// The paths of a patch that differ when resolved, with the resolved path, for an approval prompt to show. It only
/// reads links, so it works for any patch, also one that [`prepare`](crate::prepare) refuses.
pub fn resolved_paths(changes: &[FileChange]) -> Vec<ResolvedPath> {
    let paths = changes.iter().flat_map(FileChange::paths);
    let resolved = paths.map(|given| ResolvedPath { given: given.clone(), resolved: resolve(given) });
    resolved.filter(|path| path.given != path.resolved).collect()
}

/// The path with all symbolic links resolved. Components that can't be resolved (a loop, a directory that may not be
/// searched) stay as written.
pub(crate) fn resolve(given: &AbsPath) -> AbsPath {
    let resolved = given.to_host_path().and_then(|path| follow(&path));
    resolved.and_then(|path| AbsPath::from_path(&path).ok()).unwrap_or_else(|| given.clone())
}

fn follow(path: &Path) -> Option<PathBuf> {
    let mut rest: VecDeque<OsString> = path.components().map(|part| part.as_os_str().to_owned()).collect();
    let mut resolved = PathBuf::new();
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        match Path::new(&part).components().next()? {
            Component::ParentDir => {
                resolved.pop();
            }
            Component::CurDir => {}
            // An absolute link target replaces the path so far.
            Component::Prefix(_) | Component::RootDir => resolved.push(part),
            Component::Normal(name) => {
                let Ok(target) = std::fs::read_link(resolved.join(name)) else {
                    resolved.push(name);
                    continue;
                };
                links += 1;
                if links > MOST_LINKS {
                    return None;
                }
                for part in target.components().rev() {
                    rest.push_front(part.as_os_str().to_owned());
                }
            }
        }
    }
    Some(resolved)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_are_followed_to_where_they_lead() {
        let place = tempfile::tempdir().unwrap();
        let real = std::fs::canonicalize(place.path()).unwrap();
        let at = |tail: &str| AbsPath::from_path(&real.join(tail)).unwrap();
        std::fs::create_dir_all(real.join("a/b")).unwrap();
        std::fs::write(real.join("a/b/file"), "").unwrap();
        symlink("a/b", real.join("relative")).unwrap();
        symlink(real.join("a"), real.join("absolute")).unwrap();
        symlink("../../a/./b/missing", real.join("a/b/dangling")).unwrap();
        symlink("loop", real.join("loop")).unwrap();
        for (given, resolved) in [
            ("a/b/file", "a/b/file"),
            ("relative/file", "a/b/file"),
            ("absolute/b/file", "a/b/file"),
            ("absolute/new/file", "a/new/file"),
            ("relative/dangling", "a/b/missing"),
            ("loop", "loop"),
            ("missing/x", "missing/x"),
        ] {
            assert_eq!(resolve(&at(given)), at(resolved), "{given}");
        }
    }
}
