//! From the paths that a person wrote to the paths that the kernel will see.
//!
//! Symbolic links are followed once, when permissions are settled; a plan then opens the resulting
//! paths without following any. A link that is swapped in between makes the plan fail, so what was
//! approved is what is opened.

use std::fs;
use std::path::{Path, PathBuf};

use stockade_protocol::{AbsPath, FileRule, FileRules, FileTarget, Glob, Invalid, Permissions};

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A file, device, socket or pipe.
    File,
}

/// What a plan has to know of the host's files. Tests bring their own.
pub trait HostFiles {
    /// What stands at this very path; `None` if nothing does.
    fn kind(&self, path: &AbsPath) -> Option<Kind>;
    /// The path with all symbolic links followed, as far as it exists.
    fn canonical(&self, path: &AbsPath) -> AbsPath;
    /// Every path that a glob matches now; of nested ones the outermost is enough.
    fn matches(&self, glob: &Glob) -> Vec<AbsPath>;
    /// The text behind a symbolic link.
    fn link_target(&self, path: &AbsPath) -> Option<PathBuf>;
}

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealFiles;

impl HostFiles for RealFiles {
    fn kind(&self, path: &AbsPath) -> Option<Kind> {
        let kind = fs::symlink_metadata(path.to_host_path()?).ok()?.file_type();
        Some(match () {
            () if kind.is_symlink() => Kind::Symlink,
            () if kind.is_dir() => Kind::Directory,
            () => Kind::File,
        })
    }

    fn canonical(&self, path: &AbsPath) -> AbsPath {
        // What does not exist yet keeps its name below the deepest directory that does.
        let found = path.ancestors().find_map(|above| {
            let real = fs::canonicalize(above.to_host_path()?).ok()?;
            Some((AbsPath::from_path(&real).ok()?, above.depth()))
        });
        let Some((real, depth)) = found else { return path.clone() };
        path.components()
            .skip(depth)
            .try_fold(real, |real, name| real.join(name.to_vec()))
            .unwrap_or_else(|_| path.clone())
    }

    fn matches(&self, glob: &Glob) -> Vec<AbsPath> {
        let mut found = Vec::new();
        if let Some(base) = glob.base().to_host_path() {
            search(&base, glob, &mut found);
        }
        found.sort();
        found
    }

    fn link_target(&self, path: &AbsPath) -> Option<PathBuf> {
        fs::read_link(path.to_host_path()?).ok()
    }
}

/// Walks below a directory without following links. A directory that can't be read can't be read by
/// the command either, which has the same user.
fn search(directory: &Path, glob: &Glob, found: &mut Vec<AbsPath>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let Ok(name) = AbsPath::from_path(&path) else { continue };
        if glob.matches(&name) {
            found.push(name);
        } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            search(&path, glob, found);
        }
    }
}

/// Rules for the paths that links lead to. A rule for a path that is a link, or lies behind one,
/// speaks of where it leads; the link's own name keeps its rule, so that it can't be replaced.
pub fn resolve_links(permissions: &Permissions, files: &dyn HostFiles) -> Result<Permissions, Invalid> {
    let resolved = permissions.files.iter().flat_map(|rule| {
        let FileTarget::Path(path) = &rule.target else { return vec![rule.clone()] };
        let real = files.canonical(path);
        let at = |path: AbsPath| FileRule { target: FileTarget::Path(path), ..rule.clone() };
        let own_name = path
            .parent()
            .map(|parent| files.canonical(&parent))
            .and_then(|parent| parent.join(path.components().last()?.to_vec()).ok());
        match own_name {
            Some(name) if name != real => vec![at(real), at(name)],
            Some(_) | None => vec![at(real)],
        }
    });
    Ok(Permissions { files: FileRules::new(resolved)?, ..permissions.clone() })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use stockade_protocol::Access;

    use super::*;

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
    fn a_glob_finds_what_is_there() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a/.env", "a/b/x.env", "a/b/env"] {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let base = directory.path().display();
        let found = RealFiles.matches(&format!("{base}/**/*.env").parse().unwrap());
        assert_eq!(
            found.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [format!("{base}/a/.env"), format!("{base}/a/b/x.env")]
        );
    }
}
