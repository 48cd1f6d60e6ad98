//! Visits the objects of a marked tree, one after the other, each by its own path.

use std::io;

use stockade_protocol::AbsPath;
use stockade_sandboxing::Kind;

use crate::disk::{Disk, invalid};
use crate::mark::{Label, Mark, Place, READ_ATTRIBUTES, Way, reach};

/// An open object of a marked tree.
pub(crate) struct Object<H> {
    pub(crate) handle: H,
    pub(crate) path: AbsPath,
    pub(crate) kind: Kind,
    pub(crate) place: Place,
    pub(crate) way: Way,
}

/// One step of a walk.
pub(crate) enum Step<'a, H> {
    /// An object was opened.
    Object(&'a Object<H>),
    /// An object could not be opened, changed or listed. If the walk goes on, its children are visited all the same as
    /// far as they can be listed.
    Failed(&'a AbsPath, io::Error),
}

/// Opens an object with exactly these rights.
pub(crate) fn open<D: Disk>(disk: &D, path: &AbsPath, place: Place, rights: u32) -> io::Result<Object<D::Handle>> {
    let handle = disk.open(path, rights)?;
    let kind = disk.kind(&handle)?;
    Ok(Object { handle, path: path.clone(), kind, place, way: Way::Directly })
}

/// Opens an object with the rights that changing its list, and its label if there is one to be put on, takes.
pub(crate) fn open_to_mark<D: Disk>(
    disk: &D,
    path: &AbsPath,
    place: Place,
    label: Option<Label>,
) -> io::Result<Object<D::Handle>> {
    let (object, way) = reach(label, |rights| open(disk, path, place, rights))?;
    Ok(Object { way, ..object })
}

/// Visits an object at or below a mark's path, and everything below it that no other mark speaks of. An error that
/// `step` returns for an object is handed to it once more as a failure; one that it returns for a failure ends the walk.
pub(crate) fn visit<D: Disk>(
    disk: &D,
    start: &AbsPath,
    mark: &Mark,
    others: &[Mark],
    mut open: impl FnMut(&AbsPath, Place) -> io::Result<Object<D::Handle>>,
    mut step: impl FnMut(Step<'_, D::Handle>) -> io::Result<()>,
) -> io::Result<()> {
    let place = |path: &AbsPath| if *path == mark.path { Place::Top } else { Place::Below };
    let mut waiting = vec![start.clone()];
    while let Some(path) = waiting.pop() {
        let visited = open(&path, place(&path)).and_then(|object| {
            step(Step::Object(&object))?;
            if object.kind == Kind::Directory && mark.is_tree() { disk.children(&path) } else { Ok(Vec::new()) }
        });
        let children = match visited {
            Ok(children) => children,
            Err(error) => {
                step(Step::Failed(&path, error))?;
                if mark.is_tree() { children_of_failed(disk, &path) } else { Vec::new() }
            }
        };
        for child in children {
            match child {
                Some(child) if others.iter().any(|other| other.is_tree() && other.path == child) => {}
                Some(child) => waiting.push(child),
                None => step(Step::Failed(&path, invalid(format!("a name in `{path}` is no path"))))?,
            }
        }
    }
    Ok(())
}

/// The children of a directory whose list can't be changed. It is opened once more, since only an open object is known
/// to be no link that leads elsewhere.
fn children_of_failed<D: Disk>(disk: &D, path: &AbsPath) -> Vec<Option<AbsPath>> {
    let kind = disk.open(path, READ_ATTRIBUTES).and_then(|handle| disk.kind(&handle));
    match kind {
        Ok(Kind::Directory) => disk.children(path).unwrap_or_default(),
        Ok(Kind::File | Kind::Symlink) | Err(_) => Vec::new(),
    }
}
