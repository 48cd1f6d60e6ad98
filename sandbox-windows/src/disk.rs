//! What marks are put on: objects of a disk, each with a list and a label.
//!
//! Marks are put on, read back and taken off by the same code on a real disk and on one in memory, so that what a
//! walk leaves behind can be asked on any system.

use std::io;

use serde::{Deserialize, Serialize};
use stockade_protocol::AbsPath;
use stockade_sandboxing::Kind;

use crate::Sid;
use crate::acl::Descriptor;

/// Which part of a descriptor is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Who may do what.
    List,
    /// The integrity level.
    Label,
}

/// What tells an object from every other, also from one that later stands at the same path: the volume's number, and
/// the object's number on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) volume: u32,
    pub(crate) index: u64,
}

/// Objects, by their paths.
pub(crate) trait Disk {
    /// An object that is open.
    type Handle;
    /// An object that can't be removed or renamed as long as this lives, nor can what lies above it.
    type Kept: std::fmt::Debug;

    /// Opens an object itself, and where it is a link the link. Fails if the path leads elsewhere.
    fn open(&self, path: &AbsPath, rights: u32) -> io::Result<Self::Handle>;
    fn kind(&self, handle: &Self::Handle) -> io::Result<Kind>;
    /// How many names a file has.
    fn names(&self, handle: &Self::Handle) -> io::Result<u32>;
    fn identity(&self, handle: &Self::Handle) -> io::Result<Identity>;
    /// The current path of an object on the volume of `near`; `None` if it was removed. Fails if another volume is
    /// mounted there.
    fn locate(&self, identity: Identity, near: &AbsPath) -> io::Result<Option<AbsPath>>;
    fn descriptor(&self, handle: &Self::Handle, part: Part) -> io::Result<Descriptor>;
    /// Nothing is passed on to what lies in the object.
    fn set_descriptor(&self, handle: &Self::Handle, part: Part, descriptor: &Descriptor) -> io::Result<()>;
    /// What lies in a directory; `None` for a name that no path can hold.
    fn children(&self, path: &AbsPath) -> io::Result<Vec<Option<AbsPath>>>;
    /// The user whose program this is.
    fn user(&self) -> io::Result<Sid>;
    fn create_directory(&self, path: &AbsPath) -> io::Result<()>;
    fn create_file(&self, path: &AbsPath) -> io::Result<()>;
    /// Removes a directory in which nothing lies.
    fn remove_directory(&self, path: &AbsPath) -> io::Result<()>;
    /// Removes a directory with all that lies in it.
    fn remove_tree(&self, path: &AbsPath) -> io::Result<()>;
    fn keep_open(&self, path: &AbsPath) -> io::Result<Self::Kept>;
}

pub(crate) fn invalid(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
