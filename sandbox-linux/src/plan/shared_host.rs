//! Restrictions for a command that shares the host's namespaces, beyond files and signals: Landlock can't express
//! these, so the system call filter refuses them.

use libc::{
    SYS_fchmod, SYS_fchmodat, SYS_fchown, SYS_fchownat, SYS_fremovexattr, SYS_fsetxattr, SYS_ioctl, SYS_ioprio_set,
    SYS_lremovexattr, SYS_lsetxattr, SYS_mq_getsetattr, SYS_mq_notify, SYS_mq_open, SYS_mq_timedreceive,
    SYS_mq_timedsend, SYS_mq_unlink, SYS_msgctl, SYS_msgget, SYS_msgrcv, SYS_msgsnd, SYS_prlimit64, SYS_removexattr,
    SYS_sched_setaffinity, SYS_sched_setattr, SYS_sched_setparam, SYS_sched_setscheduler, SYS_semctl, SYS_semget,
    SYS_semop, SYS_semtimedop, SYS_setpriority, SYS_setxattr, SYS_shmat, SYS_shmctl, SYS_shmget, SYS_utimensat,
};

use crate::plan::seccomp::More;
use crate::plan::system_calls::{
    SYS_FILE_SETATTR, SYS_REMOVEXATTRAT, SYS_SETXATTRAT, SYS_chmod, SYS_chown, SYS_fchmodat2, SYS_futimesat,
    SYS_lchown, SYS_utime, SYS_utimes,
};

/// Other processes of the user, and their shared objects.
pub(crate) const OTHERS: More = More {
    refused: &[(
        &[
            SYS_shmget,
            SYS_shmat,
            SYS_shmctl,
            SYS_semget,
            SYS_semop,
            SYS_semtimedop,
            SYS_semctl,
            SYS_msgget,
            SYS_msgsnd,
            SYS_msgrcv,
            SYS_msgctl,
            SYS_mq_open,
            SYS_mq_unlink,
            SYS_mq_timedsend,
            SYS_mq_timedreceive,
            SYS_mq_notify,
            SYS_mq_getsetattr,
        ],
        "reaches memory and queues of the host's other processes, which have no paths",
    )],
    bits: &[
        (SYS_prlimit64, 0, u32::MAX, "sets the limits of another process, which can end it; 0 is the caller's own"),
        (SYS_setpriority, 0, u32::MAX, "slows a whole group or user down; 0 means a process"),
        (SYS_setpriority, 1, u32::MAX, "slows another process down; 0 is the caller's own"),
        (SYS_ioprio_set, 0, 2, "slows a whole group or user down"),
        (SYS_ioprio_set, 1, u32::MAX, "slows another process down; 0 is the caller's own"),
        (SYS_sched_setaffinity, 0, u32::MAX, "keeps another process from most processors; 0 is the caller's own"),
        (SYS_sched_setscheduler, 0, u32::MAX, "has another process wait for all others; 0 is the caller's own"),
        (SYS_sched_setparam, 0, u32::MAX, "the same"),
        (SYS_sched_setattr, 0, u32::MAX, "the same"),
    ],
    values: &[],
};

/// Modes, owners, times and attributes of files: Landlock lets the owner change them for every file.
pub(crate) const ATTRIBUTES: More = More {
    refused: &[
        (&[SYS_chmod, SYS_fchmod, SYS_fchmodat, SYS_fchmodat2], "changes the mode of any file that the user owns"),
        (&[SYS_chown, SYS_fchown, SYS_lchown, SYS_fchownat], "changes its group"),
        (&[SYS_utime, SYS_utimes, SYS_futimesat, SYS_utimensat], "changes its times"),
        (
            &[
                SYS_setxattr,
                SYS_lsetxattr,
                SYS_fsetxattr,
                SYS_SETXATTRAT,
                SYS_removexattr,
                SYS_lremovexattr,
                SYS_fremovexattr,
                SYS_REMOVEXATTRAT,
            ],
            "changes its extended attributes",
        ),
        (&[SYS_FILE_SETATTR], "changes its flags"),
    ],
    bits: &[],
    values: &[
        (SYS_ioctl, 1, 0x4008_6602, "FS_IOC_SETFLAGS changes the flags of a file that is only read"),
        (SYS_ioctl, 1, 0x401c_5820, "FS_IOC_FSSETXATTR does the same"),
        (SYS_ioctl, 1, 0x4080_6685, "FS_IOC_ENABLE_VERITY makes a file read-only for ever"),
        (SYS_ioctl, 1, 0x800c_6613, "FS_IOC_SET_ENCRYPTION_POLICY encrypts an empty directory"),
    ],
};
