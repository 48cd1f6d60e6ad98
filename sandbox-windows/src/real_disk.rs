//! This machine's disks.
//!
//! Each object is opened by its name and then asked where it is: a link that another program has put in the way in the
//! meantime leads elsewhere, and nothing is done there.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use stockade_protocol::AbsPath;
use stockade_sandboxing::Kind;

use crate::Sid;
use crate::acl::Descriptor;
use crate::disk::{Disk, Identity, Part, invalid};
use crate::mark::{READ_ATTRIBUTES, right};
use crate::sys::file::{self, Others};
use crate::sys::token;

/// This machine's disks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RealDisk;

fn host_path(path: &AbsPath) -> io::Result<PathBuf> {
    path.to_host_path().ok_or_else(|| invalid("not a path of this system"))
}

impl Disk for RealDisk {
    type Handle = File;
    type Kept = File;

    fn open(&self, path: &AbsPath, rights: u32) -> io::Result<File> {
        let file = file::open(&host_path(path)?, rights, Others::Everything)?;
        let found = AbsPath::parse(file::final_path(&file)?).map_err(invalid)?;
        if !(found.starts_with(path) && path.starts_with(&found)) {
            return Err(invalid(format!("`{path}` leads to `{found}`")));
        }
        Ok(file)
    }

    fn kind(&self, file: &File) -> io::Result<Kind> {
        let kind = file.metadata()?.file_type();
        Ok(match () {
            () if kind.is_symlink() => Kind::Symlink,
            () if kind.is_dir() => Kind::Directory,
            () => Kind::File,
        })
    }

    fn names(&self, file: &File) -> io::Result<u32> {
        Ok(file::information(file)?.names)
    }

    fn identity(&self, file: &File) -> io::Result<Identity> {
        Ok(file::information(file)?.identity)
    }

    fn locate(&self, identity: Identity, near: &AbsPath) -> io::Result<Option<AbsPath>> {
        let root = near.ancestors().last().ok_or_else(|| invalid("the path has no root"))?;
        let volume = file::open(&host_path(&root)?, READ_ATTRIBUTES, Others::Everything)?;
        if file::information(&volume)?.identity.volume != identity.volume {
            return Err(invalid(format!("another volume is mounted at `{root}`")));
        }
        let Some(found) = file::open_by_index(&volume, identity.index, READ_ATTRIBUTES)? else { return Ok(None) };
        if file::information(&found)?.identity != identity {
            return Ok(None);
        }
        AbsPath::parse(file::final_path(&found)?).map(Some).map_err(invalid)
    }

    fn descriptor(&self, file: &File, part: Part) -> io::Result<Descriptor> {
        Descriptor::from_bytes(&file::descriptor(file, part)?).map_err(invalid)
    }

    fn set_descriptor(&self, file: &File, part: Part, descriptor: &Descriptor) -> io::Result<()> {
        let bytes = descriptor.to_bytes().ok_or_else(|| invalid("the access control list is too long"))?;
        file::set_descriptor(file, part, &bytes)
    }

    fn children(&self, path: &AbsPath) -> io::Result<Vec<Option<AbsPath>>> {
        fs::read_dir(host_path(path)?)?.map(|entry| Ok(AbsPath::from_path(&entry?.path()).ok())).collect()
    }

    fn user(&self) -> io::Result<Sid> {
        token::user(&token::own()?)
    }

    fn create_directory(&self, path: &AbsPath) -> io::Result<()> {
        fs::create_dir(host_path(path)?)
    }

    fn create_file(&self, path: &AbsPath) -> io::Result<()> {
        File::create_new(host_path(path)?).map(drop)
    }

    fn remove_directory(&self, path: &AbsPath) -> io::Result<()> {
        fs::remove_dir(host_path(path)?)
    }

    fn remove_tree(&self, path: &AbsPath) -> io::Result<()> {
        fs::remove_dir_all(host_path(path)?)
    }

    fn keep_open(&self, path: &AbsPath) -> io::Result<File> {
        file::open(&host_path(path)?, right::READ_DATA, Others::ButMove)
    }
}
