//! The calls that change the file system, and where their paths and flags stand.
//!
//! Calls on descriptors (`fchmod`, `ftruncate`, `futimens`) are left out: the file was opened before, and that was seen
//! if it was for writing.

use std::collections::BTreeMap;

use libc::{
    SYS_fchmodat, SYS_fchownat, SYS_linkat, SYS_lremovexattr, SYS_lsetxattr, SYS_mkdirat, SYS_mknodat, SYS_openat,
    SYS_removexattr, SYS_renameat2, SYS_setxattr, SYS_symlinkat, SYS_truncate, SYS_unlinkat, SYS_utimensat,
};

use crate::plan::bpf::{Action, Field, Instruction, Test};
use crate::plan::seccomp::{number, on_argument};
use crate::plan::system_calls::{
    SYS_REMOVEXATTRAT, SYS_SETXATTRAT, SYS_chmod, SYS_chown, SYS_creat, SYS_fchmodat2, SYS_futimesat, SYS_lchown,
    SYS_link, SYS_mkdir, SYS_mknod, SYS_open, SYS_rename, SYS_renameat, SYS_rmdir, SYS_symlink, SYS_unlink, SYS_utime,
    SYS_utimes,
};

/// Flags with which an opening may change something.
const WRITING: u32 = (libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC) as u32;

/// A path among the arguments, by their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PathAt {
    /// The directory that it starts from, unless that is the working directory.
    pub(super) directory: Option<usize>,
    pub(super) path: usize,
}

/// What a call does, and which argument has its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Open {
        flags: usize,
    },
    /// Opens with `O_CREAT | O_WRONLY | O_TRUNC`.
    Create,
    MakeDirectory,
    MakeNode {
        mode: usize,
    },
    MakeLink,
    Unlink {
        flags: Option<usize>,
    },
    RemoveDirectory,
    Rename {
        to: PathAt,
        flags: Option<usize>,
    },
    Link {
        to: PathAt,
    },
    /// Cuts or extends a file's content.
    Truncate,
    /// Changes the mode.
    Mode(Follows),
    /// Changes user and group.
    Owner {
        user: usize,
        follows: Follows,
    },
    /// Sets or removes an extended attribute, by its name.
    Attribute {
        name: usize,
        follows: Follows,
    },
    /// Changes times, which whoever may write the file may set to now.
    Times(Follows),
}

/// Whether a link in the last place is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Follows {
    Always,
    Never,
    /// Unless this argument has `AT_SYMLINK_NOFOLLOW`.
    Unless(usize),
}

const fn here(path: usize) -> PathAt {
    PathAt { directory: None, path }
}

const fn at(directory: usize) -> PathAt {
    PathAt { directory: Some(directory), path: directory + 1 }
}

const CALLS: &[(i64, PathAt, Does)] = &[
    (SYS_open, here(0), Does::Open { flags: 1 }),
    (SYS_openat, at(0), Does::Open { flags: 2 }),
    (SYS_creat, here(0), Does::Create),
    (SYS_mkdir, here(0), Does::MakeDirectory),
    (SYS_mkdirat, at(0), Does::MakeDirectory),
    (SYS_mknod, here(0), Does::MakeNode { mode: 1 }),
    (SYS_mknodat, at(0), Does::MakeNode { mode: 2 }),
    (SYS_symlink, here(1), Does::MakeLink),
    (SYS_symlinkat, at(1), Does::MakeLink),
    (SYS_unlink, here(0), Does::Unlink { flags: None }),
    (SYS_unlinkat, at(0), Does::Unlink { flags: Some(2) }),
    (SYS_rmdir, here(0), Does::RemoveDirectory),
    (SYS_rename, here(0), Does::Rename { to: here(1), flags: None }),
    (SYS_renameat, at(0), Does::Rename { to: at(2), flags: None }),
    (SYS_renameat2, at(0), Does::Rename { to: at(2), flags: Some(4) }),
    (SYS_link, here(0), Does::Link { to: here(1) }),
    (SYS_linkat, at(0), Does::Link { to: at(2) }),
    (SYS_truncate, here(0), Does::Truncate),
    (SYS_chmod, here(0), Does::Mode(Follows::Always)),
    (SYS_fchmodat, at(0), Does::Mode(Follows::Always)),
    (SYS_fchmodat2, at(0), Does::Mode(Follows::Unless(3))),
    (SYS_chown, here(0), Does::Owner { user: 1, follows: Follows::Always }),
    (SYS_lchown, here(0), Does::Owner { user: 1, follows: Follows::Never }),
    (SYS_fchownat, at(0), Does::Owner { user: 2, follows: Follows::Unless(4) }),
    (SYS_setxattr, here(0), Does::Attribute { name: 1, follows: Follows::Always }),
    (SYS_lsetxattr, here(0), Does::Attribute { name: 1, follows: Follows::Never }),
    (SYS_removexattr, here(0), Does::Attribute { name: 1, follows: Follows::Always }),
    (SYS_lremovexattr, here(0), Does::Attribute { name: 1, follows: Follows::Never }),
    (SYS_SETXATTRAT, at(0), Does::Attribute { name: 3, follows: Follows::Unless(2) }),
    (SYS_REMOVEXATTRAT, at(0), Does::Attribute { name: 3, follows: Follows::Unless(2) }),
    (SYS_utime, here(0), Does::Times(Follows::Always)),
    (SYS_utimes, here(0), Does::Times(Follows::Always)),
    (SYS_futimesat, at(0), Does::Times(Follows::Always)),
    (SYS_utimensat, at(0), Does::Times(Follows::Unless(3))),
];

/// What a call does; `None` for one that is not watched.
pub(super) fn find(call: i64) -> Option<(PathAt, Does)> {
    CALLS.iter().find(|(known, ..)| *known == call).map(|(_, path, does)| (*path, *does))
}

/// The filter's answer to each of them: those that only read pass without a word.
pub(crate) fn answers() -> BTreeMap<u32, Vec<Instruction>> {
    let answer = |(call, path, does): &(i64, PathAt, Does)| {
        let notify = Instruction::answer(Action::Notify);
        let tests = match does {
            Does::Open { flags } => {
                let mut tests = on_argument(*flags as u8, Test::AnyBit(WRITING), Action::Notify).to_vec();
                tests.push(Instruction::answer(Action::Allow));
                tests
            }
            // Without a path it is about a descriptor.
            Does::Times(_) if path.directory.is_some() => vec![
                Instruction::load(Field::Argument(path.path as u8)),
                Instruction::jump(Test::Equal(0), 0, 1),
                Instruction::answer(Action::Allow),
                notify,
            ],
            Does::Create
            | Does::MakeDirectory
            | Does::MakeNode { .. }
            | Does::MakeLink
            | Does::Unlink { .. }
            | Does::RemoveDirectory
            | Does::Rename { .. }
            | Does::Link { .. }
            | Does::Truncate
            | Does::Mode(_)
            | Does::Owner { .. }
            | Does::Attribute { .. }
            | Does::Times(_) => vec![notify],
        };
        (number(*call), tests)
    };
    CALLS.iter().map(answer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::bpf::run;
    use crate::plan::seccomp::{ARCHITECTURE, program};
    use crate::plan::system_calls::is_there;

    const NOTIFIED: u32 = 0x7fc0_0000;
    const ALLOWED: u32 = 0x7fff_0000;

    #[test]
    fn writes_are_notified_and_reads_are_not() {
        let filter = program(&answers());
        let answer = |call: i64, arguments| run(&filter.0, ARCHITECTURE, u32::try_from(call).unwrap(), arguments);
        for (flags, wanted) in [
            (libc::O_RDONLY, ALLOWED),
            (libc::O_RDONLY | libc::O_CLOEXEC | libc::O_DIRECTORY | libc::O_NONBLOCK, ALLOWED),
            (libc::O_PATH, ALLOWED),
            (libc::O_WRONLY, NOTIFIED),
            (libc::O_RDWR, NOTIFIED),
            (libc::O_RDONLY | libc::O_CREAT, NOTIFIED),
            (libc::O_TMPFILE | libc::O_RDWR, NOTIFIED),
        ] {
            let flags = u64::from(flags.cast_unsigned());
            assert_eq!(answer(SYS_openat, [0, 0, flags, 0, 0, 0]), wanted, "{flags:#x}");
            if is_there(&SYS_open) {
                assert_eq!(answer(SYS_open, [0, flags, 0, 0, 0, 0]), wanted, "{flags:#x}");
            }
        }
        assert_eq!(answer(SYS_utimensat, [3, 0, 0, 0, 0, 0]), ALLOWED, "a descriptor's times");
        assert_eq!(answer(SYS_utimensat, [3, 0x7f00_1000, 0, 0, 0, 0]), NOTIFIED);
        let others = CALLS.iter().filter(|(_, _, does)| !matches!(does, Does::Open { .. } | Does::Times(_)));
        for (call, ..) in others.filter(|(call, ..)| is_there(call)) {
            assert_eq!(answer(*call, [0; 6]), NOTIFIED, "call {call}");
        }
        for call in [libc::SYS_read, libc::SYS_write, libc::SYS_newfstatat, libc::SYS_execve, libc::SYS_fchmod] {
            assert_eq!(answer(call, [u64::MAX; 6]), ALLOWED, "call {call}");
        }
    }
}
