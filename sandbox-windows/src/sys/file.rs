//! Files: opened for what they are, and their security descriptors.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::windows::fs::OpenOptionsExt as _;
use std::os::windows::io::{FromRawHandle as _, OwnedHandle};
use std::path::Path;

use windows::Win32::Foundation::{ERROR_FILE_NOT_FOUND, ERROR_INVALID_PARAMETER};
use windows::Win32::Security::{
    DACL_SECURITY_INFORMATION, GetKernelObjectSecurity, LABEL_SECURITY_INFORMATION, OBJECT_SECURITY_INFORMATION,
    PSECURITY_DESCRIPTOR, SetKernelObjectSecurity,
};
use windows::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT, FILE_ID_DESCRIPTOR,
    FILE_ID_DESCRIPTOR_0, FILE_SHARE_MODE, FileIdType, GETFINALPATHNAMEBYHANDLE_FLAGS, GetDriveTypeW,
    GetFileInformationByHandle, GetFinalPathNameByHandleW, GetLogicalDrives, GetVolumeInformationW, OpenFileById,
};
use windows::Win32::System::SystemInformation::GetSystemDirectoryW;
use windows::core::PCWSTR;

use super::{failed, raw, size_of, wide};
use crate::DriveKind;
use crate::disk::{Identity, Part};

fn security_information(part: Part) -> OBJECT_SECURITY_INFORMATION {
    match part {
        Part::List => DACL_SECURITY_INFORMATION,
        Part::Label => LABEL_SECURITY_INFORMATION,
    }
}

/// What others may do with an object while it is open here.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Others {
    Everything,
    /// Everything but to remove or rename it.
    ButMove,
}

/// Opens an object itself, file or directory, and where it is a link the link.
pub(crate) fn open(path: &Path, rights: u32, others: Others) -> io::Result<File> {
    let share = match others {
        Others::Everything => 7,
        Others::ButMove => 3,
    };
    let flags = FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT;
    OpenOptions::new().access_mode(rights).share_mode(share).custom_flags(flags.0).open(path)
}

/// Opens an object by its number on the volume of another one; `None` if the volume has no such object.
pub(crate) fn open_by_index(volume: &File, index: u64, rights: u32) -> io::Result<Option<File>> {
    let identifier = FILE_ID_DESCRIPTOR {
        dwSize: size_of::<FILE_ID_DESCRIPTOR>(),
        Type: FileIdType,
        Anonymous: FILE_ID_DESCRIPTOR_0 { FileId: index.cast_signed() },
    };
    let flags = FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT;
    // SAFETY: the volume's object is open, and the identifier is as long as it says and outlives the call.
    let opened = unsafe { OpenFileById(raw(volume), &raw const identifier, rights, FILE_SHARE_MODE(7), None, flags) };
    match opened {
        // SAFETY: the handle was opened above, and belongs to no other object.
        Ok(handle) => Ok(Some(File::from(unsafe { OwnedHandle::from_raw_handle(handle.0) }))),
        Err(error)
            if [ERROR_INVALID_PARAMETER, ERROR_FILE_NOT_FOUND].iter().any(|gone| gone.to_hresult() == error.code()) =>
        {
            Ok(None)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Where an open object really is.
pub(crate) fn final_path(file: &File) -> io::Result<String> {
    let mut text = vec![0_u16; 1024];
    loop {
        // SAFETY: the file is open, and the memory is as long as it says.
        let length = unsafe { GetFinalPathNameByHandleW(raw(file), &mut text, GETFINALPATHNAMEBYHANDLE_FLAGS(0)) };
        match usize::try_from(length).unwrap_or_default() {
            0 => return Err(io::Error::last_os_error()),
            length if length > text.len() => text.resize(length, 0),
            length => return Ok(String::from_utf16_lossy(text.get(..length).unwrap_or_default())),
        }
    }
}

/// What a file system knows of an open object.
pub(crate) struct Information {
    /// How many names it has.
    pub(crate) names: u32,
    pub(crate) identity: Identity,
}

pub(crate) fn information(file: &File) -> io::Result<Information> {
    let mut found = BY_HANDLE_FILE_INFORMATION::default();
    // SAFETY: the file is open, and there is room for what is known of it.
    unsafe { GetFileInformationByHandle(raw(file), &raw mut found) }.map_err(failed)?;
    let index = u64::from(found.nFileIndexHigh) << 32 | u64::from(found.nFileIndexLow);
    Ok(Information { names: found.nNumberOfLinks, identity: Identity { volume: found.dwVolumeSerialNumber, index } })
}

/// An object's descriptor, self-relative.
pub(crate) fn descriptor(file: &File, part: Part) -> io::Result<Vec<u8>> {
    let information = security_information(part).0;
    let mut length = 0;
    // SAFETY: no memory is given, only the length is written. That fails, and is told below.
    let _ = unsafe { GetKernelObjectSecurity(raw(file), information, None, 0, &raw mut length) };
    let mut memory = vec![0_u64; usize::try_from(length).unwrap_or_default().div_ceil(8).max(8)];
    let start = PSECURITY_DESCRIPTOR(memory.as_mut_ptr().cast());
    let size = u32::try_from(memory.len() * 8).unwrap_or(u32::MAX);
    // SAFETY: the memory is as long as is said.
    unsafe { GetKernelObjectSecurity(raw(file), information, Some(start), size, &raw mut length) }.map_err(failed)?;
    let mut bytes: Vec<u8> = memory.into_iter().flat_map(u64::to_ne_bytes).collect();
    bytes.truncate(usize::try_from(length.min(size)).unwrap_or_default());
    Ok(bytes)
}

/// Puts a self-relative descriptor on an object. Nothing is passed on to what lies in it.
pub(crate) fn set_descriptor(file: &File, part: Part, descriptor: &[u8]) -> io::Result<()> {
    let mut memory = vec![0_u64; descriptor.len().div_ceil(8)];
    let words = descriptor.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
        u64::from_ne_bytes(word)
    });
    memory.iter_mut().zip(words).for_each(|(to, from)| *to = from);
    let start = PSECURITY_DESCRIPTOR(memory.as_mut_ptr().cast());
    // SAFETY: the descriptor is self-relative, so that it holds all it points to, and outlives the call.
    unsafe { SetKernelObjectSecurity(raw(file), security_information(part), start) }.map_err(failed)
}

/// Where the system's own programs are.
pub(crate) fn system_directory() -> io::Result<String> {
    let mut text = vec![0_u16; 1024];
    // SAFETY: the memory is as long as it says.
    let length = unsafe { GetSystemDirectoryW(Some(&mut text)) };
    match text.get(..usize::try_from(length).unwrap_or_default()) {
        None | Some([]) => Err(io::Error::last_os_error()),
        Some(text) => Ok(String::from_utf16_lossy(text)),
    }
}

/// The letters of this machine's drives, and what they can hold.
pub(crate) fn drives() -> Vec<(char, DriveKind)> {
    // SAFETY: the call has no preconditions.
    let letters = unsafe { GetLogicalDrives() };
    let present = ('A'..='Z').enumerate().filter(|(number, _)| letters & (1 << number) != 0);
    present.filter_map(|(_, letter)| Some((letter, drive_kind(letter)?))).collect()
}

/// None for a drive without anything in it.
fn drive_kind(letter: char) -> Option<DriveKind> {
    const REMOTE: u32 = 4;
    const KEEPS_LISTS: u32 = 0x8;
    const IS_READ_ONLY: u32 = 0x8_0000;
    let root = wide(&format!(r"{letter}:\"));
    // SAFETY: the text ends in a zero and outlives the call.
    if unsafe { GetDriveTypeW(PCWSTR(root.as_ptr())) } == REMOTE {
        return Some(DriveKind::Remote);
    }
    let mut flags = 0;
    // SAFETY: as above, and there is room for the flags.
    unsafe { GetVolumeInformationW(PCWSTR(root.as_ptr()), None, None, None, Some(&raw mut flags), None) }.ok()?;
    Some(match () {
        () if flags & IS_READ_ONLY != 0 => DriveKind::ReadOnly,
        () if flags & KEEPS_LISTS != 0 => DriveKind::WithLists,
        () => DriveKind::WithoutLists,
    })
}
