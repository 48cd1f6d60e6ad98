//! Where the names of a path are looked up, so that each link on the way can be judged, not the two ends alone.

use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use stockade_protocol::{AbsPath, Access};

use crate::session::Session;

/// As many as the kernel follows.
const MOST_LINKS: usize = 40;

/// The place of every link on the way of an absolute path, where it leads in the end, which need not exist, and the
/// directories that `..` leads to.
/// `None` if the links lead in a circle.
pub fn places(path: &Path) -> Option<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut left = Vec::new();
    let mut at = PathBuf::new();
    let mut waiting = parts(path);
    while let Some(part) = waiting.pop() {
        match Path::new(&part).components().next() {
            Some(Component::Prefix(_) | Component::RootDir) => at.push(part),
            // The directory that is left could be replaced where the one above it may be written.
            Some(Component::ParentDir) => {
                at.pop();
                left.push(at.clone());
            }
            Some(Component::CurDir) | None => {}
            Some(Component::Normal(name)) => {
                let place = at.join(name);
                match fs::read_link(&place) {
                    Ok(_) if found.len() >= MOST_LINKS => return None,
                    Ok(target) => {
                        waiting.extend(parts(&target));
                        found.push(place);
                    }
                    Err(_) => at = place,
                }
            }
        }
    }
    found.push(at);
    found.extend(left);
    Some(found)
}

/// The parts of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
}

/// Whether the session's commands may have put there what an absolute path leads to, or a link on the way. What can't
/// be told counts as theirs.
pub(crate) fn is_commands_own(session: &Session, path: &Path) -> bool {
    let is_own = |place: &PathBuf| {
        AbsPath::from_path(place).map_or(true, |place| session.permissions.access(&place) == Access::Write)
    };
    !path.is_absolute() || places(path).is_none_or(|places| places.iter().any(is_own))
}
