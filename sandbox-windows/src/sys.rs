//! The calls to Windows: one operation a function, safe to call from everywhere else.
#![expect(unsafe_code, reason = "Windows is called here and nowhere else")]

use std::io;
use std::os::windows::io::{AsRawHandle, FromRawHandle as _, OwnedHandle};

use windows::Win32::Foundation::HANDLE;

pub(crate) mod file;
pub(crate) mod job;
pub(crate) mod process;
pub(crate) mod token;

/// Text as Windows takes it, with its final zero.
fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

/// The handle, borrowed for a call.
fn raw(handle: &impl AsRawHandle) -> HANDLE {
    HANDLE(handle.as_raw_handle())
}

/// A handle that a call has just given to this program alone.
fn owned(handle: HANDLE) -> io::Result<OwnedHandle> {
    if handle.is_invalid() {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    // SAFETY: the caller got the handle from Windows, open and with no other owner.
    Ok(unsafe { OwnedHandle::from_raw_handle(handle.0) })
}

/// What a call could not do, in the standard library's words.
fn failed(error: windows::core::Error) -> io::Error {
    // Win32 codes are wrapped as 0x8007xxxx.
    let code = error.code().0;
    let is_win32 = code.cast_unsigned() >> 16 == 0x8007;
    if is_win32 { io::Error::from_raw_os_error(code & 0xffff) } else { io::Error::other(error.message()) }
}

fn size_of<T>() -> u32 {
    u32::try_from(std::mem::size_of::<T>()).unwrap_or(u32::MAX)
}

/// Splits a line as programs do.
#[cfg(test)]
pub(crate) fn split_command_line(line: &str) -> io::Result<Vec<String>> {
    use windows::Win32::Foundation::{HLOCAL, LocalFree};
    use windows::Win32::UI::Shell::CommandLineToArgvW;
    use windows::core::PCWSTR;

    let line = wide(line);
    let mut count = 0;
    // SAFETY: the line ends in a zero and outlives the call.
    let words = unsafe { CommandLineToArgvW(PCWSTR(line.as_ptr()), &raw mut count) };
    if words.is_null() {
        return Err(io::Error::last_os_error());
    }
    let count = usize::try_from(count).unwrap_or_default();
    // SAFETY: so many words were just written there, each ending in a zero.
    let texts = unsafe { std::slice::from_raw_parts(words, count) };
    // SAFETY: as above.
    let texts = texts.iter().map(|word| String::from_utf16_lossy(unsafe { word.as_wide() })).collect();
    // SAFETY: the list is one piece of memory that has to be freed so, and is not used again.
    unsafe { LocalFree(Some(HLOCAL(words.cast()))) };
    Ok(texts)
}
