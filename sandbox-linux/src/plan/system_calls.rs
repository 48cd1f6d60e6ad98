//! System calls whose names `libc` does not have on every processor.
//!
//! Processors that Linux has learned since 2011, such as AArch64, lack the older calls: there is `openat`, and no `open`. A call that
//! this processor lacks has a number below zero here. No program can make it, no notification names it, and the filters leave it
//! out ([`seccomp::number`]), so that the lists of calls are the same everywhere.
//!
//! [`seccomp::number`]: crate::plan::seccomp::number

#![allow(non_upper_case_globals, reason = "the names are those of `libc`")]

#[cfg(target_arch = "x86_64")]
pub(crate) use libc::{
    SYS_access, SYS_chmod, SYS_chown, SYS_creat, SYS_fchmodat2, SYS_fork, SYS_futimesat, SYS_ioperm, SYS_iopl,
    SYS_kexec_file_load, SYS_lchown, SYS_link, SYS_lstat, SYS_mkdir, SYS_mknod, SYS_modify_ldt, SYS_open, SYS_rename,
    SYS_renameat, SYS_rmdir, SYS_stat, SYS_symlink, SYS_unlink, SYS_uselib, SYS_ustat, SYS_utime, SYS_utimes,
    SYS_vfork,
};

#[cfg(target_arch = "aarch64")]
pub(crate) use self::aarch64::*;

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    // Those that are there, and that the C library's headers or `libc` leave out.
    pub(crate) const SYS_fchmodat2: i64 = 452;
    pub(crate) const SYS_kexec_file_load: i64 = 294;
    pub(crate) const SYS_renameat: i64 = 38;

    // Those that are not there.
    pub(crate) const SYS_chmod: i64 = -1;
    pub(crate) const SYS_chown: i64 = -2;
    pub(crate) const SYS_creat: i64 = -3;
    pub(crate) const SYS_fork: i64 = -4;
    pub(crate) const SYS_futimesat: i64 = -5;
    pub(crate) const SYS_ioperm: i64 = -6;
    pub(crate) const SYS_iopl: i64 = -7;
    pub(crate) const SYS_lchown: i64 = -8;
    pub(crate) const SYS_link: i64 = -9;
    pub(crate) const SYS_mkdir: i64 = -10;
    pub(crate) const SYS_mknod: i64 = -11;
    pub(crate) const SYS_modify_ldt: i64 = -12;
    pub(crate) const SYS_open: i64 = -13;
    pub(crate) const SYS_rename: i64 = -14;
    pub(crate) const SYS_rmdir: i64 = -15;
    pub(crate) const SYS_symlink: i64 = -16;
    pub(crate) const SYS_unlink: i64 = -17;
    pub(crate) const SYS_uselib: i64 = -18;
    pub(crate) const SYS_ustat: i64 = -19;
    pub(crate) const SYS_utime: i64 = -20;
    pub(crate) const SYS_utimes: i64 = -21;
    pub(crate) const SYS_vfork: i64 = -22;
    pub(crate) const SYS_access: i64 = -23;
    pub(crate) const SYS_lstat: i64 = -24;
    pub(crate) const SYS_stat: i64 = -25;
}

/// Calls that are newer than the list of names: since Linux 6.13, 6.15 and 6.17.
pub(crate) const SYS_SETXATTRAT: i64 = 463;
pub(crate) const SYS_REMOVEXATTRAT: i64 = 466;
pub(crate) const SYS_OPEN_TREE_ATTR: i64 = 467;
pub(crate) const SYS_FILE_SETATTR: i64 = 469;

/// Whether this processor has the call.
#[cfg(test)]
pub(crate) fn is_there(call: &i64) -> bool {
    *call >= 0
}
