//! Tokens: read, restricted, tried out.

use std::ffi::c_void;
use std::io;
use std::os::windows::io::OwnedHandle;

use windows::Win32::Foundation::HANDLE;
use windows::Win32::Security::{
    CREATE_RESTRICTED_TOKEN_FLAGS, CreateRestrictedToken, DISABLE_MAX_PRIVILEGE, DuplicateTokenEx, GetLengthSid,
    GetTokenInformation, ImpersonateLoggedOnUser, LUA_TOKEN, LUID_AND_ATTRIBUTES, LookupPrivilegeNameW, PSID,
    SID_AND_ATTRIBUTES, SecurityImpersonation, SetTokenInformation, TOKEN_ALL_ACCESS, TOKEN_DEFAULT_DACL, TOKEN_GROUPS,
    TOKEN_INFORMATION_CLASS, TOKEN_MANDATORY_LABEL, TOKEN_PRIVILEGES, TOKEN_USER, TokenDefaultDacl, TokenGroups,
    TokenImpersonation, TokenIntegrityLevel, TokenPrivileges, TokenRestrictedSids, TokenUser, WRITE_RESTRICTED,
};
use windows::Win32::System::SystemServices::{SE_GROUP_ENABLED, SE_GROUP_INTEGRITY, SE_GROUP_USE_FOR_DENY_ONLY};
use windows::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};
use windows::core::{PCWSTR, PWSTR};

use super::{failed, owned, raw, size_of};
use crate::Sid;
use crate::check::TokenFound;

/// This program's token.
pub(crate) fn own() -> io::Result<OwnedHandle> {
    // SAFETY: the call has no preconditions; the handle it gives is always open.
    of(unsafe { GetCurrentProcess() })
}

/// A process's token.
pub(crate) fn of_process(process: &OwnedHandle) -> io::Result<OwnedHandle> {
    of(raw(process))
}

fn of(process: HANDLE) -> io::Result<OwnedHandle> {
    let mut token = HANDLE::default();
    // SAFETY: the process is open, and there is room for one handle.
    unsafe { OpenProcessToken(process, TOKEN_ALL_ACCESS, &raw mut token) }.map_err(failed)?;
    owned(token)
}

/// A list of facts about a token, in memory that is aligned for whatever Windows writes there.
fn information(token: &OwnedHandle, class: TOKEN_INFORMATION_CLASS) -> io::Result<Vec<u64>> {
    let mut length = 0;
    // SAFETY: no memory is given, only the length is written. That fails, and is told below.
    let _ = unsafe { GetTokenInformation(raw(token), class, None, 0, &raw mut length) };
    let mut memory = vec![0_u64; usize::try_from(length).unwrap_or_default().div_ceil(8).max(8)];
    let size = u32::try_from(memory.len() * 8).unwrap_or(u32::MAX);
    let start = memory.as_mut_ptr().cast::<c_void>();
    // SAFETY: the memory is as long as is said.
    unsafe { GetTokenInformation(raw(token), class, Some(start), size, &raw mut length) }.map_err(failed)?;
    Ok(memory)
}

fn sid_at(sid: PSID) -> io::Result<Sid> {
    // SAFETY: the identifier stands in memory that a query has filled and that is still there.
    let length = unsafe { GetLengthSid(sid) };
    let length = usize::try_from(length).unwrap_or_default();
    // SAFETY: as above, and it is that long.
    let bytes = unsafe { std::slice::from_raw_parts(sid.0.cast::<u8>(), length) };
    let (sid, _) = Sid::from_bytes(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(sid)
}

/// The identifiers in a token's list, with their attributes.
fn groups(token: &OwnedHandle, class: TOKEN_INFORMATION_CLASS) -> io::Result<Vec<(Sid, u32)>> {
    let memory = information(token, class)?;
    let list = memory.as_ptr().cast::<TOKEN_GROUPS>();
    // SAFETY: the query has written such a list to the start of the memory.
    let count = usize::try_from(unsafe { (*list).GroupCount }).unwrap_or_default();
    // SAFETY: so many entries follow one another there, in the same memory.
    let entries =
        unsafe { std::slice::from_raw_parts((&raw const (*list).Groups).cast::<SID_AND_ATTRIBUTES>(), count) };
    entries.iter().map(|entry| Ok((sid_at(entry.Sid)?, entry.Attributes))).collect()
}

/// The user.
pub(crate) fn user(token: &OwnedHandle) -> io::Result<Sid> {
    let memory = information(token, TokenUser)?;
    // SAFETY: the query has written such a structure to the start of the memory.
    sid_at(unsafe { (*memory.as_ptr().cast::<TOKEN_USER>()).User.Sid })
}

/// Every group, whether it counts or not.
pub(crate) fn all_groups(token: &OwnedHandle) -> io::Result<Vec<Sid>> {
    Ok(groups(token, TokenGroups)?.into_iter().map(|(sid, _)| sid).collect())
}

/// What a token says of itself.
pub(crate) fn found(token: &OwnedHandle) -> io::Result<TokenFound> {
    let grants = |attributes: u32| {
        attributes & SE_GROUP_ENABLED.cast_unsigned() != 0
            && attributes & SE_GROUP_USE_FOR_DENY_ONLY.cast_unsigned() == 0
    };
    let granting = groups(token, TokenGroups)?.into_iter().filter(|(_, attributes)| grants(*attributes));
    // What can't be read counts as missing: no restricting identifiers, and no level.
    let restricting = groups(token, TokenRestrictedSids).unwrap_or_default();
    Ok(TokenFound {
        restricting: restricting.into_iter().map(|(sid, _)| sid).collect(),
        granting_groups: granting.map(|(sid, _)| sid).collect(),
        privileges: privileges(token)?,
        integrity: integrity(token).ok(),
    })
}

fn integrity(token: &OwnedHandle) -> io::Result<Sid> {
    let memory = information(token, TokenIntegrityLevel)?;
    // SAFETY: the query has written such a structure to the start of the memory.
    sid_at(unsafe { (*memory.as_ptr().cast::<TOKEN_MANDATORY_LABEL>()).Label.Sid })
}

/// The names of all privileges, also of those that are switched off.
fn privileges(token: &OwnedHandle) -> io::Result<Vec<String>> {
    let memory = information(token, TokenPrivileges)?;
    let list = memory.as_ptr().cast::<TOKEN_PRIVILEGES>();
    // SAFETY: the query has written such a list to the start of the memory.
    let count = usize::try_from(unsafe { (*list).PrivilegeCount }).unwrap_or_default();
    // SAFETY: so many entries follow one another there, in the same memory.
    let entries =
        unsafe { std::slice::from_raw_parts((&raw const (*list).Privileges).cast::<LUID_AND_ATTRIBUTES>(), count) };
    let name = |entry: &LUID_AND_ATTRIBUTES| {
        let mut text = [0_u16; 64];
        let mut length = 64;
        let start = Some(PWSTR(text.as_mut_ptr()));
        // SAFETY: there is room for as many characters as is said.
        let named = unsafe { LookupPrivilegeNameW(PCWSTR::null(), &raw const entry.Luid, start, &raw mut length) };
        let text = text.get(..usize::try_from(length).unwrap_or_default()).unwrap_or_default();
        // One that has no name is one too many all the same.
        named.map_or_else(|_| format!("{:?}", entry.Luid), |()| String::from_utf16_lossy(text))
    };
    Ok(entries.iter().map(name).collect())
}

/// The token without privileges, with groups that only deny, and restricted for writing to these identifiers.
pub(crate) fn restrict(token: &OwnedHandle, deny_only: &[Sid], restricting: &[Sid]) -> io::Result<OwnedHandle> {
    let bytes = |sids: &[Sid]| sids.iter().map(Sid::to_bytes).collect::<Vec<_>>();
    let (mut deny_only, mut restricting) = (bytes(deny_only), bytes(restricting));
    let list = |sids: &mut Vec<Vec<u8>>| {
        let entry = |sid: &mut Vec<u8>| SID_AND_ATTRIBUTES { Sid: PSID(sid.as_mut_ptr().cast()), Attributes: 0 };
        sids.iter_mut().map(entry).collect::<Vec<_>>()
    };
    let (deny_only, restricting) = (list(&mut deny_only), list(&mut restricting));
    let mut flags = DISABLE_MAX_PRIVILEGE | LUA_TOKEN;
    if !restricting.is_empty() {
        flags |= WRITE_RESTRICTED;
    }
    let given = |list: &'_ [SID_AND_ATTRIBUTES]| (!list.is_empty()).then_some(list.as_ptr());
    let (deny, restrict) =
        (given(&deny_only).map(|_| deny_only.as_slice()), given(&restricting).map(|_| restricting.as_slice()));
    let mut new = HANDLE::default();
    let flags = CREATE_RESTRICTED_TOKEN_FLAGS(flags.0);
    // SAFETY: the token is open, and the identifiers in both lists outlive the call.
    unsafe { CreateRestrictedToken(raw(token), flags, deny, None, restrict, &raw mut new) }.map_err(failed)?;
    owned(new)
}

/// Lowers the integrity level.
pub(crate) fn set_integrity(token: &OwnedHandle, level: &Sid) -> io::Result<()> {
    let mut sid = level.to_bytes();
    let label = TOKEN_MANDATORY_LABEL {
        Label: SID_AND_ATTRIBUTES {
            Sid: PSID(sid.as_mut_ptr().cast()),
            Attributes: SE_GROUP_INTEGRITY.cast_unsigned(),
        },
    };
    let size = size_of::<TOKEN_MANDATORY_LABEL>();
    // SAFETY: the label and its identifier outlive the call.
    unsafe { SetTokenInformation(raw(token), TokenIntegrityLevel, (&raw const label).cast(), size) }.map_err(failed)
}

/// The list that new objects get which are made without one.
pub(crate) fn set_default_list(token: &OwnedHandle, list: &[u8]) -> io::Result<()> {
    let mut list = list.to_vec();
    let default = TOKEN_DEFAULT_DACL { DefaultDacl: list.as_mut_ptr().cast() };
    let size = size_of::<TOKEN_DEFAULT_DACL>();
    // SAFETY: the list is well formed and outlives the call.
    unsafe { SetTokenInformation(raw(token), TokenDefaultDacl, (&raw const default).cast(), size) }.map_err(failed)
}

/// Does something with another token than this program's own, in a thread that ends with it.
pub(crate) fn with<T: Send>(token: &OwnedHandle, act: impl FnOnce() -> T + Send) -> io::Result<T> {
    let mut copy = HANDLE::default();
    // SAFETY: the token is open, and there is room for one handle.
    unsafe {
        DuplicateTokenEx(raw(token), TOKEN_ALL_ACCESS, None, SecurityImpersonation, TokenImpersonation, &raw mut copy)
    }
    .map_err(failed)?;
    let copy = owned(copy)?;
    let result = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: the token is open and meant for this.
            unsafe { ImpersonateLoggedOnUser(raw(&copy)) }.map_err(failed)?;
            Ok(act())
        });
        thread.join()
    });
    result.unwrap_or_else(|_| Err(io::Error::other("the thread with another token has panicked")))
}
