//! Calls that are refused whatever the policy, and told as facts.
//!
//! Some calls that the filter of [`seccomp`] refuses are what a command needs to do its work: a debugger traces, a build makes
//! namespaces, a client connects to a unix socket. Where there is an observer, its filter notifies it of them, and it answers with an
//! error: [`refusal`] says with which, and [`go_on`] never lets the kernel make such a call. The filter of [`seccomp`] does not refuse
//! them then, since a refusal comes before a notification. It leaves them to a listener, and without one they fail.
//! Calls that programs make all the time are not among them, and neither are those that are of use to no ordinary program.
//!
//! [`seccomp`]: crate::plan::seccomp
//! [`go_on`]: crate::sys::notify::go_on

use std::collections::BTreeMap;

use libc::{
    AF_UNIX, EAFNOSUPPORT, EPERM, SYS_chroot, SYS_clone, SYS_fsopen, SYS_mount, SYS_ptrace, SYS_setns, SYS_socket,
    SYS_unshare,
};

use crate::plan::bpf::{Action, Field, Instruction, Test};
use crate::plan::seccomp::{Families, NAMESPACE_FLAGS, number, on_argument};

/// Calls, and their names for a person; the first argument of some has to have one of these bits.
const CALLS: &[(i64, &str, Option<u32>)] = &[
    (SYS_ptrace, "ptrace", None),
    (SYS_unshare, "unshare", Some(NAMESPACE_FLAGS)),
    (SYS_clone, "clone", Some(NAMESPACE_FLAGS)),
    (SYS_setns, "setns", None),
    (SYS_mount, "mount", None),
    (SYS_fsopen, "mount", None),
    (SYS_chroot, "chroot", None),
];

/// The type of the socket that the C library makes to ask a daemon for users and hosts (`nscd`), which most systems do not run:
/// every shell does so when it starts, and no program needs it. Others that make a socket of this type are not told either.
const CACHED_NAMES: u32 = (libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK) as u32;

/// The names of the calls that are always noted.
pub(crate) const NAMES: &[&str] = &["ptrace", "unshare", "clone", "setns", "mount", "chroot"];

/// Which part refuses these calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusals {
    /// The filter, and no part of the program learns of them.
    Silent,
    /// The observer.
    Told,
}

/// What a filter does with these calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// Notifies the observer.
    Notify,
    /// Fails them, for a process that another program listens to already.
    Refuse,
    /// Leaves them to the filter that notifies.
    LeaveToListener,
}

/// A call of these that was notified: its name, and the error number to answer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) name: &'static str,
    pub(crate) errno: i32,
}

/// The answer to a notified call, if it is one of these; `None` for calls that the kernel decides on. The arguments are the
/// kernel's copy, which the caller can't change.
pub(crate) fn refusal(call: i64, arguments: &[u64; 6]) -> Option<Refusal> {
    if call == SYS_socket {
        return Some(Refusal { name: "socket", errno: EAFNOSUPPORT });
    }
    let [first, ..] = arguments;
    let (_, name, bits) = CALLS.iter().find(|(told, ..)| *told == call)?;
    let is_refused = bits.is_none_or(|bits| first & u64::from(bits) != 0);
    is_refused.then_some(Refusal { name, errno: EPERM })
}

/// The first instructions for each of these calls. A call that passes them is none of these.
pub(crate) fn tests(families: Families, does: Does) -> BTreeMap<u32, Vec<Instruction>> {
    let action = |errno: i32| match does {
        Does::Notify => Action::Notify,
        Does::Refuse => Action::Fail(u16::try_from(errno).unwrap_or(u16::MAX)),
        Does::LeaveToListener => Action::LeaveToListener,
    };
    let by_bits = |(call, _, bits): &(i64, &str, Option<u32>)| {
        let tests = match bits {
            None => vec![Instruction::answer(action(EPERM))],
            Some(bits) => on_argument(0, Test::AnyBit(*bits), action(EPERM)).to_vec(),
        };
        (number(*call), tests)
    };
    let mut tests: BTreeMap<u32, Vec<Instruction>> = CALLS.iter().map(by_bits).collect();
    if !families.allowed().contains(&AF_UNIX) {
        let test = vec![
            Instruction::load(Field::Argument(0)),
            Instruction::jump(Test::Equal(AF_UNIX as u32), 0, 3),
            Instruction::load(Field::Argument(1)),
            Instruction::jump(Test::Equal(CACHED_NAMES), 1, 0),
            Instruction::answer(action(EAFNOSUPPORT)),
        ];
        tests.insert(number(SYS_socket), test);
    }
    tests
}

/// The same as answers of a filter that allows everything else.
pub(crate) fn answers(families: Families, does: Does) -> BTreeMap<u32, Vec<Instruction>> {
    let mut answers = tests(families, does);
    answers.values_mut().for_each(|tests| tests.push(Instruction::answer(Action::Allow)));
    answers
}

#[cfg(test)]
mod tests_of_filters {
    use super::*;
    use crate::plan::bpf::run;
    use crate::plan::seccomp::{self, ARCHITECTURE, program};

    const ALLOWED: u32 = 0x7fff_0000;
    const NOTIFIED: u32 = 0x7fc0_0000;
    const TRACED: u32 = 0x7ff0_0000;

    /// What the kernel does with both filters: the stricter answer counts, and that is the lower number, but for a process that dies.
    fn together(families: Families, call: i64, arguments: [u64; 6]) -> u32 {
        let one = program(&answers(families, Does::Notify));
        let other = seccomp::filter(families, Refusals::Told);
        let answer = |filter: &crate::plan::step::Filter| run(&filter.0, ARCHITECTURE, number(call), arguments);
        answer(&one).min(answer(&other))
    }

    /// Every call that the silent filter fails is either failed as before or notified, and none is allowed.
    #[test]
    fn nothing_is_allowed_that_was_refused() {
        for families in [Families::Internet, Families::InternetAndUnix] {
            let silent = seccomp::filter(families, Refusals::Silent);
            for call in 0..480 {
                for first in [0, 1, 2, 16, 0x1000_0000, 0x0002_0000, 0x80, 0x11, u64::MAX] {
                    let arguments = [first, first, 0, 0, 0, 0];
                    let before = run(&silent.0, ARCHITECTURE, number(call), arguments);
                    let now = together(families, call, arguments);
                    match refusal(call, &arguments) {
                        Some(refusal) if now == NOTIFIED => {
                            assert_eq!(before, 0x0005_0000 | refusal.errno.cast_unsigned(), "call {call} {first:#x}");
                        }
                        Some(_) | None => assert_eq!(now, before, "call {call} {first:#x}"),
                    }
                }
            }
        }
    }

    #[test]
    fn every_call_has_its_name() {
        assert!(CALLS.iter().all(|(_, name, _)| NAMES.contains(name)));
    }

    #[test]
    fn these_calls_are_notified_and_ordinary_ones_are_not() {
        let notified = |call, first| together(Families::Internet, call, [first, 0, 0, 0, 0, 0]) == NOTIFIED;
        for call in [SYS_ptrace, SYS_setns, SYS_mount, SYS_fsopen, SYS_chroot] {
            assert!(notified(call, 0), "call {call}");
        }
        assert!(notified(SYS_unshare, 0x1000_0000) && notified(SYS_clone, 0x1002_0011) && notified(SYS_socket, 1));
        assert!(!notified(SYS_unshare, 0x400) && !notified(SYS_clone, 0x0120_0011) && !notified(SYS_socket, 2));
        assert_eq!(together(Families::InternetAndUnix, SYS_socket, [1, 1, 0, 0, 0, 0]), ALLOWED);
        let asks_for_names = [1, CACHED_NAMES.into(), 0, 0, 0, 0];
        assert_eq!(together(Families::Internet, SYS_socket, asks_for_names), 0x0005_0061, "every shell does this");
        assert_eq!(together(Families::Internet, SYS_socket, [16, 3, 0, 0, 0, 0]), 0x0005_0061, "netlink");
    }

    /// A process without the other filter has a refusal all the same: what asks a tracer fails where there is none.
    #[test]
    fn without_a_listener_they_fail() {
        let filter = seccomp::filter(Families::Internet, Refusals::Told);
        let otherwise = program(&answers(Families::Internet, Does::Refuse));
        for (call, first) in [(SYS_ptrace, 0), (SYS_unshare, 0x1000_0000), (SYS_clone, 0x1000_0011), (SYS_socket, 1)] {
            let arguments = [first, 0, 0, 0, 0, 0];
            assert_eq!(run(&filter.0, ARCHITECTURE, number(call), arguments), TRACED, "call {call}");
            let errno = refusal(call, &arguments).unwrap().errno.cast_unsigned();
            assert_eq!(run(&otherwise.0, ARCHITECTURE, number(call), arguments), 0x0005_0000 | errno, "call {call}");
        }
    }
}
