//! The directories in which the components of a path are looked up, so that each link can be judged, not only both
//! ends.

use std::ffi::OsString;
use std::fs;
use std::path::{Component, Path, PathBuf};

use stockade_protocol::{AbsPath, Access};

use crate::session::Session;

/// The kernel's limit.
const MOST_LINKS: usize = 40;

/// The path of every link of an absolute path, the final target, which need not exist, and the directories that `..`
/// leads to. `None` if the links form a loop.
pub fn places(path: &Path) -> Option<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut left = Vec::new();
    let mut at = PathBuf::new();
    let mut waiting = parts(path);
    while let Some(part) = waiting.pop() {
        match Path::new(&part).components().next() {
            Some(Component::Prefix(_) | Component::RootDir) => at.push(part),
            // The directory before `..` could be replaced if its parent is writable.
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

/// The components of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
}

/// Whether the session's commands may have created the target of an absolute path, or a link in it. If that is
/// unknown, it counts.
///
/// A command is also a program that a rule gives a profile, or one with a saved grant: see [`Session::may_be_written`].
pub(crate) fn is_commands_own(session: &Session, path: &Path) -> bool {
    !path.is_absolute() || places(path).is_none_or(|places| places.iter().any(|place| is_own(session, place)))
}

fn is_own(session: &Session, place: &Path) -> bool {
    AbsPath::from_path(place).map_or(true, |place| session.may_be_written(&place))
}

/// Like [`is_commands_own`], for a program that is run with more than a command has. Where commands have a private directory in
/// the place of the host's, such as `/tmp`, they see other files than the program that would be run, and on the host everyone
/// may write there. `/dev` and `/proc` are not the host's inside, either.
pub(crate) fn may_be_planted(session: &Session, path: &Path) -> bool {
    let is_private = |place: &PathBuf| {
        place.starts_with("/dev")
            || place.starts_with("/proc")
            || AbsPath::from_path(place).map_or(true, |place| session.permissions.access(&place) == Access::Scratch)
    };
    !path.is_absolute()
        || places(path).is_none_or(|places| places.iter().any(|place| is_own(session, place) || is_private(place)))
}
