//! The system call filter: the calls a command may not make, and why.
//!
//! Calls that are not listed are allowed, except for numbers that did not exist when the list was last reviewed: those
//! fail as on an older kernel (`ENOSYS`), which every program can handle. Calls of another ABI (32-bit programs of the same
//! processor, x32) kill the process, since their numbers mean other calls.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use libc::{
    AF_INET, AF_INET6, AF_UNIX, EPERM, F_SETLEASE, SYS_acct, SYS_add_key, SYS_adjtimex, SYS_bpf, SYS_chroot,
    SYS_clock_adjtime, SYS_clock_settime, SYS_clone, SYS_clone3, SYS_delete_module, SYS_fanotify_init, SYS_fchmod,
    SYS_fchmodat, SYS_fcntl, SYS_finit_module, SYS_fsconfig, SYS_fsmount, SYS_fsopen, SYS_fspick, SYS_get_mempolicy,
    SYS_init_module, SYS_io_uring_enter, SYS_io_uring_register, SYS_io_uring_setup, SYS_ioctl, SYS_kcmp,
    SYS_kexec_load, SYS_keyctl, SYS_lookup_dcookie, SYS_mbind, SYS_migrate_pages, SYS_mknodat, SYS_mount,
    SYS_mount_setattr, SYS_move_mount, SYS_move_pages, SYS_name_to_handle_at, SYS_nfsservctl, SYS_open_by_handle_at,
    SYS_open_tree, SYS_openat, SYS_openat2, SYS_perf_event_open, SYS_personality, SYS_pidfd_getfd, SYS_pivot_root,
    SYS_process_madvise, SYS_process_vm_readv, SYS_process_vm_writev, SYS_ptrace, SYS_quotactl, SYS_quotactl_fd,
    SYS_reboot, SYS_request_key, SYS_set_mempolicy, SYS_setdomainname, SYS_sethostname, SYS_setns, SYS_settimeofday,
    SYS_socket, SYS_socketpair, SYS_swapoff, SYS_swapon, SYS_syslog, SYS_truncate, SYS_umount2, SYS_unshare,
    SYS_userfaultfd, SYS_vhangup,
};

use crate::plan::bpf::{Action, Field, Instruction, Test};
use crate::plan::refusals::{self, Refusals};
use crate::plan::step::Filter;
use crate::plan::system_calls::{
    SYS_OPEN_TREE_ATTR, SYS_chmod, SYS_creat, SYS_fchmodat2, SYS_ioperm, SYS_iopl, SYS_kexec_file_load, SYS_mknod,
    SYS_modify_ldt, SYS_open, SYS_uselib, SYS_ustat,
};
use crate::supervisor::supervision::Supervision;

/// The ABI whose numbers the lists have (`AUDIT_ARCH_X86_64`, `AUDIT_ARCH_AARCH64`).
pub(crate) const ARCHITECTURE: u32 = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
/// The first number that was not reviewed: Linux 6.18 ends at 470 (`file_setattr` is 469).
const FIRST_UNREVIEWED: u32 = 471;
const NOT_PERMITTED: Action = Action::Fail(1);
const NOT_THERE: Action = Action::Fail(38);
const NO_SUCH_FAMILY: Action = Action::Fail(97);
/// Set-user-id and set-group-id, in a file's mode.
const SETUID_BITS: u32 = 0o6000;
/// A bit of `SOCK_DGRAM` and `SOCK_RAW`, which are the same for unix sockets; not of `SOCK_STREAM` and
/// `SOCK_SEQPACKET`, whose pairs stay connected to each other.
const DATAGRAM_BIT: u32 = 2;
/// Every flag of `clone` and `unshare` that makes a namespace.
pub(crate) const NAMESPACE_FLAGS: u32 = 0x7e02_0080;

/// Calls that no sandboxed command may make, with any arguments.
const REFUSED: &[(&[i64], &str)] = &[
    (
        &[SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_process_madvise, SYS_kcmp, SYS_pidfd_getfd],
        "reaches into another process",
    ),
    (&[SYS_keyctl, SYS_add_key, SYS_request_key], "reads keys that no file permission guards"),
    (
        &[SYS_bpf, SYS_perf_event_open, SYS_userfaultfd],
        "a large part of the kernel that a command rarely needs and attackers often use",
    ),
    (
        &[
            SYS_mount,
            SYS_umount2,
            SYS_pivot_root,
            SYS_chroot,
            SYS_open_tree,
            SYS_move_mount,
            SYS_fsopen,
            SYS_fsconfig,
            SYS_fsmount,
            SYS_fspick,
            SYS_mount_setattr,
            SYS_OPEN_TREE_ATTR,
        ],
        "would change the view of the file system",
    ),
    (&[SYS_setns], "enters another namespace"),
    (&[SYS_name_to_handle_at, SYS_open_by_handle_at], "opens files past their directories"),
    (
        &[
            SYS_init_module,
            SYS_finit_module,
            SYS_delete_module,
            SYS_kexec_load,
            SYS_kexec_file_load,
            SYS_reboot,
            SYS_iopl,
            SYS_ioperm,
            SYS_swapon,
            SYS_swapoff,
            SYS_acct,
            SYS_quotactl,
            SYS_quotactl_fd,
        ],
        "administers the machine",
    ),
    (
        &[
            SYS_settimeofday,
            SYS_clock_settime,
            SYS_clock_adjtime,
            SYS_adjtimex,
            SYS_sethostname,
            SYS_setdomainname,
            SYS_vhangup,
            SYS_syslog,
        ],
        "changes or reads state of the whole host",
    ),
    (
        &[SYS_migrate_pages, SYS_move_pages, SYS_mbind, SYS_set_mempolicy, SYS_get_mempolicy],
        "moves memory between nodes, with a history of kernel bugs",
    ),
    (
        &[SYS_modify_ldt, SYS_uselib, SYS_ustat, SYS_lookup_dcookie, SYS_nfsservctl],
        "obsolete, and unused by current programs",
    ),
    (&[SYS_fanotify_init], "watches files of the whole system"),
];

/// Optional calls with a fallback: they fail as on an older kernel.
const ABSENT: &[(&[i64], &str)] = &[
    (&[SYS_io_uring_setup, SYS_io_uring_enter, SYS_io_uring_register], "makes calls that no filter sees"),
    (&[SYS_clone3], "takes its flags from memory, where no filter sees them; `clone` is used instead"),
    (&[SYS_openat2], "takes its mode from memory, where no filter sees a set-user-id bit; `openat` is used instead"),
];

/// Calls that are refused with certain arguments: (call, argument, bits, why).
const REFUSED_BITS: &[(i64, u8, u32, &str)] = &[
    (SYS_clone, 0, NAMESPACE_FLAGS, "makes a namespace, with a large part of the kernel behind it"),
    (SYS_unshare, 0, NAMESPACE_FLAGS, "makes a namespace, with a large part of the kernel behind it"),
    (SYS_chmod, 1, SETUID_BITS, "would leave a program behind that runs as the user"),
    (SYS_fchmod, 1, SETUID_BITS, "the same"),
    (SYS_fchmodat, 2, SETUID_BITS, "the same"),
    (SYS_fchmodat2, 2, SETUID_BITS, "the same"),
    (SYS_open, 2, SETUID_BITS, "the same, on creation"),
    (SYS_openat, 3, SETUID_BITS, "the same, on creation"),
    (SYS_creat, 1, SETUID_BITS, "the same, on creation"),
    (SYS_mknod, 1, SETUID_BITS, "the same, on creation"),
    (SYS_mknodat, 2, SETUID_BITS, "the same, on creation"),
    (SYS_socketpair, 1, DATAGRAM_BIT, "takes an address with each message, also that of a service of the host"),
];

/// Calls that are refused with certain values: (call, argument, value, why).
const REFUSED_VALUES: &[(i64, u8, u32, &str)] = &[
    (SYS_ioctl, 1, 0x5412, "TIOCSTI types into the caller's terminal"),
    (SYS_ioctl, 1, 0x541c, "TIOCLINUX pastes into the console"),
    (SYS_fcntl, 1, F_SETLEASE as u32, "has whoever opens a file of the host wait, up to 45 seconds each time"),
];

/// The socket families that a command may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Families {
    /// Internet sockets, which reach only the sandbox itself or its network.
    Internet,
    /// Also unix sockets, if the supervisor decides which of them are connected to.
    InternetAndUnix,
    /// None, if no network namespace hides the host's network.
    None,
}

impl Families {
    /// With supervised connections unix sockets are available: the command's own, and granted ones. A program outside
    /// may connect to the command's own, too, and pass files.
    pub(crate) fn of(supervision: Option<&Supervision>) -> Self {
        if supervision.is_some() { Self::InternetAndUnix } else { Self::Internet }
    }

    pub(crate) fn allowed(self) -> &'static [i32] {
        match self {
            Self::Internet => &[AF_INET, AF_INET6],
            Self::InternetAndUnix => &[AF_INET, AF_INET6, AF_UNIX],
            Self::None => &[],
        }
    }
}

/// Which layer keeps a file that a command has for reading, and finds by way of `/proc`, from being cut to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cutting {
    /// Landlock, from its version 3 on (Linux 6.2).
    LeftToLandlock,
    /// This filter: files are cut by a descriptor that was opened for writing, and not otherwise.
    Refused,
}

impl Cutting {
    fn here() -> Self {
        const FIRST_WITH_TRUNCATION: u32 = 3;
        if crate::sys::landlock_version() < FIRST_WITH_TRUNCATION { Self::Refused } else { Self::LeftToLandlock }
    }
}

/// Calls that an engine refuses in addition to the lists above.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct More {
    pub(crate) refused: &'static [(&'static [i64], &'static str)],
    pub(crate) bits: &'static [(i64, u8, u32, &'static str)],
    pub(crate) values: &'static [(i64, u8, u32, &'static str)],
}

/// Compiles the lists above to a filter, once.
pub(crate) fn filter(families: Families, refusals: Refusals) -> Filter {
    static COMPILED: [[OnceLock<Filter>; 2]; 3] = [const { [const { OnceLock::new() }; 2] }; 3];
    let [internet, both, none] = &COMPILED;
    let [silent, told] = match families {
        Families::Internet => internet,
        Families::InternetAndUnix => both,
        Families::None => none,
    };
    match refusals {
        Refusals::Silent => silent.get_or_init(|| filter_with(families, &[])).clone(),
        Refusals::Told => told.get_or_init(|| program(&left_to_listener(families))).clone(),
    }
}

/// The answers where the observer refuses some of the calls.
fn left_to_listener(families: Families) -> BTreeMap<u32, Vec<Instruction>> {
    let mut answers = answers(families, &[], Cutting::here());
    for (call, mut tests) in refusals::tests(families, refusals::Does::LeaveToListener) {
        tests.extend(answers.remove(&call).unwrap_or_else(|| vec![Instruction::answer(Action::Allow)]));
        answers.insert(call, tests);
    }
    answers
}

/// Like `filter`, with more calls refused.
///
/// At installation the kernel runs the filter for every number, to cache those that pass with any arguments. So the
/// numbers are found by binary search: a linear list would slow each start considerably.
pub(crate) fn filter_with(families: Families, more: &[More]) -> Filter {
    program(&answers(families, more, Cutting::here()))
}

/// A filter with these answers. All other calls are allowed, except for unreviewed ones.
pub(crate) fn program(answers: &BTreeMap<u32, Vec<Instruction>>) -> Filter {
    let mut program = Vec::new();
    search(&ranges(answers), &mut program);
    program.extend([
        Instruction::load(Field::Number),
        Instruction::answer(Action::Kill),
        Instruction::jump(Test::Equal(ARCHITECTURE), 1, 0),
        Instruction::load(Field::Architecture),
    ]);
    program.reverse();
    Filter(program)
}

/// The instructions for each call that is not simply allowed. Each ends in an answer.
fn answers(families: Families, more: &[More], cutting: Cutting) -> BTreeMap<u32, Vec<Instruction>> {
    let mut answers: BTreeMap<u32, Vec<Instruction>> = BTreeMap::new();
    let bits = REFUSED_BITS.iter().chain(more.iter().flat_map(|more| more.bits));
    let values = REFUSED_VALUES.iter().chain(more.iter().flat_map(|more| more.values));
    let bits = bits.map(|(call, argument, bits, _)| (call, argument, Test::AnyBit(*bits)));
    let values = values.map(|(call, argument, value, _)| (call, argument, Test::Equal(*value)));
    for (call, argument, test) in bits.chain(values) {
        let tests = answers.entry(number(*call)).or_default();
        tests.extend(on_argument(*argument, test, NOT_PERMITTED));
    }
    if cutting == Cutting::Refused {
        for (call, flags) in [(SYS_open, 1), (SYS_openat, 2)] {
            answers.entry(number(call)).or_default().extend(no_cutting_by_reading(flags));
        }
        answers.entry(number(SYS_truncate)).or_default().push(Instruction::answer(NOT_PERMITTED));
    }
    // A connected pair reaches no other process; a socket with a name may reach a service of the host.
    answers.entry(number(SYS_socketpair)).or_default().extend(only_families(&[AF_UNIX]));
    answers.entry(number(SYS_socket)).or_default().extend(only_families(families.allowed()));
    answers.entry(number(SYS_personality)).or_default().extend(only_plain_personality());
    for tests in answers.values_mut() {
        tests.push(Instruction::answer(Action::Allow));
    }
    let also_refused = more.iter().map(|more| (more.refused, NOT_PERMITTED));
    for (list, action) in [(REFUSED, NOT_PERMITTED), (ABSENT, NOT_THERE)].into_iter().chain(also_refused) {
        for call in list.iter().flat_map(|(calls, _)| *calls) {
            answers.insert(number(*call), vec![Instruction::answer(action)]);
        }
    }
    answers
}

/// The ranges of equal answers, in ascending order: the first number, and its instructions.
fn ranges(answers: &BTreeMap<u32, Vec<Instruction>>) -> Vec<(u32, Vec<Instruction>)> {
    let allow = vec![Instruction::answer(Action::Allow)];
    let mut ranges: Vec<(u32, Vec<Instruction>)> = Vec::new();
    let mut begin = |number: u32, answer: &Vec<Instruction>| {
        if ranges.last().is_none_or(|(_, last)| last != answer) {
            ranges.push((number, answer.clone()));
        }
    };
    // What follows an answer is allowed, unless it has one too.
    let mut next = 0;
    for (number, answer) in answers.range(..FIRST_UNREVIEWED) {
        if *number > next {
            begin(next, &allow);
        }
        begin(*number, answer);
        next = number + 1;
    }
    if next < FIRST_UNREVIEWED {
        begin(next, &allow);
    }
    ranges.push((FIRST_UNREVIEWED, vec![Instruction::answer(NOT_THERE)]));
    if cfg!(target_arch = "x86_64") {
        // The bit of x32 calls.
        ranges.push((0x4000_0000, vec![Instruction::answer(Action::Kill)]));
    }
    ranges
}

/// Binary search for the loaded number's range. The instructions are added last first: a jump has to know the length of
/// what it skips.
fn search(ranges: &[(u32, Vec<Instruction>)], reversed: &mut Vec<Instruction>) {
    let (lower, upper) = ranges.split_at(ranges.len() / 2);
    match (lower, upper) {
        (_, []) => {}
        ([], [(_, answer), ..]) => reversed.extend(answer.iter().rev()),
        (lower, [(first, _), ..]) => {
            search(upper, reversed);
            let behind = reversed.len();
            search(lower, reversed);
            let length = reversed.len() - behind;
            let test = Test::AtLeast(*first);
            // The reach of a conditional jump is limited.
            match u8::try_from(length) {
                Ok(length) => reversed.push(Instruction::jump(test, length, 0)),
                Err(_) => reversed.extend([Instruction::skip(length), Instruction::jump(test, 0, 1)]),
            }
        }
    }
}

pub(crate) fn number(call: i64) -> u32 {
    // Call numbers are small and positive; any other is left out of a filter, since no call has it.
    u32::try_from(call).unwrap_or(u32::MAX)
}

/// Answers if the call's argument passes the test, and continues otherwise.
pub(crate) fn on_argument(argument: u8, test: Test, action: Action) -> [Instruction; 3] {
    [Instruction::load(Field::Argument(argument)), Instruction::jump(test, 0, 1), Instruction::answer(action)]
}

/// Refuses to open a file for reading and cut it to nothing at once.
fn no_cutting_by_reading(flags: u8) -> [Instruction; 4] {
    const CUTS: u32 = libc::O_TRUNC as u32;
    const WRITES: u32 = (libc::O_WRONLY | libc::O_RDWR) as u32;
    [
        Instruction::load(Field::Argument(flags)),
        Instruction::jump(Test::AnyBit(CUTS), 0, 2),
        Instruction::jump(Test::AnyBit(WRITES), 1, 0),
        Instruction::answer(NOT_PERMITTED),
    ]
}

fn only_families(families: &[i32]) -> Vec<Instruction> {
    let mut tests = vec![Instruction::load(Field::Argument(0))];
    for family in families {
        let family = u32::try_from(*family).unwrap_or(u32::MAX);
        tests.extend([Instruction::jump(Test::Equal(family), 0, 1), Instruction::answer(Action::Allow)]);
    }
    tests.push(Instruction::answer(NO_SUCH_FAMILY));
    tests
}

/// Only querying the personality, or setting the default one, is allowed: others weaken address space randomisation.
fn only_plain_personality() -> Vec<Instruction> {
    const ASK: u32 = u32::MAX;
    const PLAIN: u32 = 0;
    vec![
        Instruction::load(Field::Argument(0)),
        Instruction::jump(Test::Equal(ASK), 0, 1),
        Instruction::answer(Action::Allow),
        Instruction::jump(Test::Equal(PLAIN), 0, 1),
        Instruction::answer(Action::Allow),
        Instruction::answer(Action::Fail(EPERM as u16)),
    ]
}

#[cfg(test)]
mod tests;
