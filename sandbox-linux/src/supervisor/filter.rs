//! The filter that passes a command's connections to the supervisor. It is installed beside the filter of [`seccomp`],
//! and the stricter answer of both counts.
//!
//! [`seccomp`]: crate::plan::seccomp

use std::collections::BTreeMap;

use libc::{
    AF_UNIX, EPERM, SYS_connect, SYS_listen, SYS_sendmmsg, SYS_sendmsg, SYS_sendto, SYS_setsockopt, SYS_socket,
};

use super::options;
use crate::plan::bpf::{Action, Field, Instruction, Test};
#[cfg(test)]
use crate::plan::seccomp::program;
use crate::plan::seccomp::{number, on_argument};

/// Connects and sends in one call, bypassing `connect`.
const MSG_FASTOPEN: u32 = 0x2000_0000;
/// The error if this is disabled, after which programs connect as usual.
const NOT_SUPPORTED: Action = Action::Fail(95);

/// Calls that are decided here.
const DECIDED: &[(i64, &str)] = &[
    (SYS_connect, "the connection is made from outside, if at all"),
    (SYS_listen, "a socket that was opened outside must not wait for connections there"),
];
/// Calls with flags, and the index of that argument.
const SENDS: &[(i64, u8)] = &[(SYS_sendto, 3), (SYS_sendmsg, 2), (SYS_sendmmsg, 3)];

/// A bit of `SOCK_DGRAM` and `SOCK_RAW`, which are the same for unix sockets.
const DATAGRAM_BIT: u32 = 2;

/// The answer to each of these calls.
pub(crate) fn answers() -> BTreeMap<u32, Vec<Instruction>> {
    let mut answers: BTreeMap<u32, Vec<Instruction>> =
        DECIDED.iter().map(|(call, _)| (number(*call), vec![Instruction::answer(Action::Notify)])).collect();
    for (call, argument) in SENDS {
        let mut tests = on_argument(*argument, Test::AnyBit(MSG_FASTOPEN), NOT_SUPPORTED).to_vec();
        tests.push(Instruction::answer(Action::Allow));
        answers.insert(number(*call), tests);
    }
    answers.insert(number(SYS_setsockopt), options::answer());
    // A unix datagram socket takes an address with each message, also that of a service of the host.
    let socket = vec![
        Instruction::load(Field::Argument(0)),
        Instruction::jump(Test::Equal(AF_UNIX as u32), 0, 3),
        Instruction::load(Field::Argument(1)),
        Instruction::jump(Test::AnyBit(DATAGRAM_BIT), 0, 1),
        Instruction::answer(Action::Fail(EPERM as u16)),
        Instruction::answer(Action::Allow),
    ];
    answers.insert(number(SYS_socket), socket);
    answers
}

/// The filter for connections alone.
#[cfg(test)]
pub(crate) fn filter() -> crate::plan::step::Filter {
    program(&answers())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::bpf::run;
    use crate::plan::seccomp::ARCHITECTURE;

    #[test]
    fn connections_are_decided_and_fast_open_is_not_there() {
        let answer = |call: i64, arguments| run(&filter().0, ARCHITECTURE, u32::try_from(call).unwrap(), arguments);
        assert_eq!(answer(SYS_connect, [0; 6]), 0x7fc0_0000);
        assert_eq!(answer(SYS_listen, [0; 6]), 0x7fc0_0000);
        for (call, argument) in SENDS {
            let mut arguments = [0; 6];
            assert_eq!(answer(*call, arguments), 0x7fff_0000);
            arguments[usize::from(*argument)] = u64::from(MSG_FASTOPEN) | 0x4000;
            assert_eq!(answer(*call, arguments), 0x0005_005f, "call {call}");
        }
        for (family, kind, wanted) in [
            (1, 1, 0x7fff_0000),
            (1, 2, 0x0005_0001),
            (1, 0x80802, 0x0005_0001),
            (2, 2, 0x7fff_0000),
            (10, 1, 0x7fff_0000),
        ] {
            assert_eq!(answer(SYS_socket, [family, kind, 0, 0, 0, 0]), wanted, "{family} {kind}");
        }
        assert_eq!(answer(SYS_setsockopt, [3, 0, 1, 0, 0, 0]), 0x7fff_0000, "IP_TOS");
        assert_eq!(answer(SYS_setsockopt, [3, 0, 4, 0, 0, 0]), 0x0005_005c, "IP_OPTIONS");
        assert_eq!(answer(SYS_setsockopt, [3, 1, 25, 0, 0, 0]), 0x7fc0_0000, "SO_BINDTODEVICE");
        for call in [libc::SYS_read, libc::SYS_bind, libc::SYS_accept4] {
            assert_eq!(answer(call, [u64::MAX; 6]), 0x7fff_0000);
        }
    }
}
