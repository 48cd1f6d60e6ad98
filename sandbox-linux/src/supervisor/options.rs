//! The socket options that a command may set.
//!
//! A filter sees the number of an option, not the socket. Most of a command's sockets belong to its own network, but a
//! stream connected outside belongs to the host's. So an option passes only if it is harmless for the approved
//! connection; the supervisor, which sees the socket, sets options that choose an interface, a route or a group, only
//! on sockets of the command's own network; and unlisted options do not exist (`ENOPROTOOPT`), which portable programs
//! expect.
//!
//! Options set before a socket was connected outside are only carried over if `socket::carry_options` knows them.
//!
//! <https://man7.org/linux/man-pages/man7/socket.7.html>, `ip.7`, `ipv6.7`, `tcp.7`, `udp.7`

use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, IPPROTO_UDP, SOL_SOCKET};

use crate::plan::bpf::{Action, Field, Instruction, Test};

/// The kernel's error for an unknown option.
const NO_SUCH_OPTION: Action = Action::Fail(libc::ENOPROTOOPT as u16);

// Options that libc lacks, by their numbers in the kernel's headers.
const SO_TIMESTAMP_NEW: i32 = 63;
const SO_TIMESTAMPNS_NEW: i32 = 64;
const SO_RCVTIMEO_NEW: i32 = 66;
const SO_SNDTIMEO_NEW: i32 = 67;
const SO_PASSPIDFD: i32 = 76;
const SO_BINDTOIFINDEX: i32 = 62;
const TCP_INQ: i32 = 36;
const IP_LOCAL_PORT_RANGE: i32 = 51;
const IP_UNICAST_IF: i32 = 50;
const IPV6_UNICAST_IF: i32 = 76;
const IPV6_AUTOFLOWLABEL: i32 = 70;
const IPV6_MULTICAST_ALL: i32 = 29;
/// `MCAST_JOIN_GROUP` up to `MCAST_MSFILTER`, the same for both families.
const GROUPS: &[i32] = &[42, 43, 44, 45, 46, 47, 48];

/// Options that pass for any socket: (level, names, why that is harmless outside).
const PASSED: &[(i32, &[i32], &str)] = &[
    (
        SOL_SOCKET,
        &[
            libc::SO_RCVTIMEO,
            libc::SO_SNDTIMEO,
            SO_RCVTIMEO_NEW,
            SO_SNDTIMEO_NEW,
            libc::SO_RCVLOWAT,
            libc::SO_OOBINLINE,
            libc::SO_PEEK_OFF,
            libc::SO_SELECT_ERR_QUEUE,
        ],
        "how the program waits and reads",
    ),
    (
        SOL_SOCKET,
        &[
            libc::SO_TIMESTAMP,
            libc::SO_TIMESTAMPNS,
            SO_TIMESTAMP_NEW,
            SO_TIMESTAMPNS_NEW,
            libc::SO_RXQ_OVFL,
            libc::SO_PASSCRED,
            libc::SO_PASSSEC,
            SO_PASSPIDFD,
        ],
        "what is told along with what was received",
    ),
    (
        SOL_SOCKET,
        &[
            libc::SO_KEEPALIVE,
            libc::SO_LINGER,
            libc::SO_SNDBUF,
            libc::SO_RCVBUF,
            libc::SO_PRIORITY,
            libc::SO_ZEROCOPY,
            libc::SO_MAX_PACING_RATE,
        ],
        "how much is sent when, to the same peer",
    ),
    (
        SOL_SOCKET,
        &[libc::SO_REUSEADDR, libc::SO_REUSEPORT, libc::SO_BROADCAST],
        "for servers and datagrams, which a socket outside is not for",
    ),
    (
        IPPROTO_TCP,
        &[
            libc::TCP_NODELAY,
            libc::TCP_MAXSEG,
            libc::TCP_CORK,
            libc::TCP_KEEPIDLE,
            libc::TCP_KEEPINTVL,
            libc::TCP_KEEPCNT,
            libc::TCP_SYNCNT,
            libc::TCP_LINGER2,
            libc::TCP_WINDOW_CLAMP,
            libc::TCP_QUICKACK,
            libc::TCP_CONGESTION,
            libc::TCP_THIN_LINEAR_TIMEOUTS,
            libc::TCP_THIN_DUPACK,
            libc::TCP_USER_TIMEOUT,
            libc::TCP_NOTSENT_LOWAT,
            TCP_INQ,
        ],
        "the pace of the same connection",
    ),
    (
        IPPROTO_TCP,
        &[libc::TCP_DEFER_ACCEPT, libc::TCP_FASTOPEN, libc::TCP_SAVE_SYN],
        "for servers, which a socket outside is not",
    ),
    (IPPROTO_UDP, &[libc::UDP_CORK, libc::UDP_SEGMENT, libc::UDP_GRO], "datagram sockets never leave the sandbox"),
    (
        IPPROTO_IP,
        &[libc::IP_TOS, libc::IP_TTL, libc::IP_MTU_DISCOVER, libc::IP_MINTTL],
        "how packets to the same peer are marked and cut",
    ),
    (
        IPPROTO_IP,
        &[libc::IP_RECVERR, libc::IP_PKTINFO, libc::IP_RECVTTL, libc::IP_RECVTOS, libc::IP_RECVORIGDSTADDR],
        "what is told along with what was received",
    ),
    (
        IPPROTO_IP,
        &[libc::IP_FREEBIND, libc::IP_BIND_ADDRESS_NO_PORT, IP_LOCAL_PORT_RANGE],
        "which address and port of its own a socket gets",
    ),
    (
        IPPROTO_IPV6,
        &[
            libc::IPV6_UNICAST_HOPS,
            libc::IPV6_MTU_DISCOVER,
            libc::IPV6_MTU,
            libc::IPV6_V6ONLY,
            libc::IPV6_TCLASS,
            libc::IPV6_DONTFRAG,
            IPV6_AUTOFLOWLABEL,
            libc::IPV6_MINHOPCOUNT,
        ],
        "how packets to the same peer are marked and cut",
    ),
    (
        IPPROTO_IPV6,
        &[
            libc::IPV6_RECVERR,
            libc::IPV6_RECVPKTINFO,
            libc::IPV6_RECVHOPLIMIT,
            libc::IPV6_RECVTCLASS,
            libc::IPV6_RECVPATHMTU,
        ],
        "what is told along with what was received",
    ),
    (IPPROTO_IPV6, &[libc::IPV6_FREEBIND, libc::IPV6_ADDR_PREFERENCES], "which address of its own a socket gets"),
];

/// Options that the supervisor sets, only on sockets of the command's own network: (level, names, their effect
/// outside).
const DECIDED: &[(i32, &[i32], &str)] = &[
    (
        SOL_SOCKET,
        &[libc::SO_BINDTODEVICE, SO_BINDTOIFINDEX, libc::SO_DONTROUTE],
        "leads to a machine that has the same address on another network",
    ),
    (
        IPPROTO_IP,
        &[
            libc::IP_MULTICAST_IF,
            libc::IP_MULTICAST_TTL,
            libc::IP_MULTICAST_LOOP,
            libc::IP_ADD_MEMBERSHIP,
            libc::IP_DROP_MEMBERSHIP,
            libc::IP_UNBLOCK_SOURCE,
            libc::IP_BLOCK_SOURCE,
            libc::IP_ADD_SOURCE_MEMBERSHIP,
            libc::IP_DROP_SOURCE_MEMBERSHIP,
            libc::IP_MSFILTER,
            libc::IP_MULTICAST_ALL,
        ],
        "joins groups, which is told to the host's network in the command's own bytes",
    ),
    (IPPROTO_IP, GROUPS, "the same"),
    (IPPROTO_IP, &[IP_UNICAST_IF], "leads to a machine that has the same address on another network"),
    (
        IPPROTO_IPV6,
        &[
            libc::IPV6_MULTICAST_IF,
            libc::IPV6_MULTICAST_HOPS,
            libc::IPV6_MULTICAST_LOOP,
            libc::IPV6_ADD_MEMBERSHIP,
            libc::IPV6_DROP_MEMBERSHIP,
            IPV6_MULTICAST_ALL,
        ],
        "joins groups, which is told to the host's network in the command's own bytes",
    ),
    (IPPROTO_IPV6, GROUPS, "the same"),
    (
        IPPROTO_IPV6,
        &[libc::IPV6_PKTINFO, IPV6_UNICAST_IF],
        "leads to a machine that has the same address on another network",
    ),
];

const LEVELS: &[i32] = &[SOL_SOCKET, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_IP, IPPROTO_IPV6];

fn names(lists: &[(i32, &'static [i32], &str)], level: i32) -> Vec<u32> {
    let of_level = lists.iter().filter(|(of, ..)| *of == level);
    of_level.flat_map(|(_, names, _)| *names).map(|name| *name as u32).collect()
}

/// The instructions for `setsockopt`.
pub(super) fn answer() -> Vec<Instruction> {
    let mut program = vec![Instruction::load(Field::Argument(1))];
    for level in LEVELS {
        let names = answer_names(&names(PASSED, *level), &names(DECIDED, *level));
        // The reach of a conditional jump is limited.
        program.extend([Instruction::jump(Test::Equal(*level as u32), 1, 0), Instruction::skip(names.len())]);
        program.extend(names);
    }
    program.push(Instruction::answer(NO_SUCH_OPTION));
    program
}

/// One test for each name, followed by the three answers.
fn answer_names(passed: &[u32], decided: &[u32]) -> Vec<Instruction> {
    let answers = [NO_SUCH_OPTION, Action::Allow, Action::Notify].map(Instruction::answer);
    let tests = passed.iter().map(|name| (name, 1)).chain(decided.iter().map(|name| (name, 2)));
    let behind = (0..passed.len() + decided.len()).rev();
    // No level has so many names that an answer is out of reach: a test checks each.
    let reach = |behind: usize, answer: usize| u8::try_from(behind + answer).unwrap_or(u8::MAX);
    let tests = tests
        .zip(behind)
        .map(|((name, answer), behind)| Instruction::jump(Test::Equal(*name), reach(behind, answer), 0));
    std::iter::once(Instruction::load(Field::Argument(2))).chain(tests).chain(answers).collect()
}

/// Whether the supervisor sets this option on sockets of the command's own network.
pub(super) fn is_decided(level: i32, name: i32) -> bool {
    DECIDED.iter().any(|(of, names, _)| *of == level && names.contains(&name))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::plan::bpf::run;
    use crate::plan::seccomp::{ARCHITECTURE, number};

    fn answered(level: i32, name: i32) -> u32 {
        let [level, name] = [level, name].map(|number| u64::from(number.cast_unsigned()));
        // The kernel uses the lower halves.
        let high = [3, 1 << 32 | level, 7 << 32 | name, 0, 0, 0];
        let found = run(&answer(), ARCHITECTURE, number(libc::SYS_setsockopt), [3, level, name, 0, 0, 0]);
        assert_eq!(run(&answer(), ARCHITECTURE, number(libc::SYS_setsockopt), high), found, "{level} {name}");
        found
    }

    #[test]
    fn every_option_has_one_answer_and_unknown_ones_do_not_exist() {
        let pairs = |lists: &[(i32, &'static [i32], &str)]| -> BTreeSet<(i32, i32)> {
            lists.iter().flat_map(|(level, names, _)| names.iter().map(|name| (*level, *name))).collect()
        };
        let (passed, decided) = (pairs(PASSED), pairs(DECIDED));
        assert!(passed.is_disjoint(&decided));
        for level in -1..300 {
            for name in -1..130 {
                let wanted = match (level, name) {
                    option if passed.contains(&option) => 0x7fff_0000,
                    option if decided.contains(&option) => 0x7fc0_0000,
                    _ => 0x0005_005c,
                };
                assert_eq!(answered(level, name), wanted, "{level} {name}");
            }
        }
    }

    /// Source routes, next hops, marks, filters and protocols on top.
    #[test]
    fn no_option_sends_packets_by_way_of_another_machine() {
        let detours = [
            (IPPROTO_IP, libc::IP_OPTIONS),
            (IPPROTO_IP, libc::IP_TRANSPARENT),
            (IPPROTO_IPV6, libc::IPV6_RTHDR),
            (IPPROTO_IPV6, libc::IPV6_2292PKTOPTIONS),
            (IPPROTO_IPV6, libc::IPV6_NEXTHOP),
            (IPPROTO_IPV6, 32),
            (SOL_SOCKET, libc::SO_MARK),
            (SOL_SOCKET, libc::SO_ATTACH_FILTER),
            (SOL_SOCKET, libc::SO_TXTIME),
            (IPPROTO_TCP, libc::TCP_ULP),
            (IPPROTO_TCP, libc::TCP_REPAIR),
            (IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT),
            (282, 1),
        ];
        for (level, name) in detours {
            assert_eq!(answered(level, name), 0x0005_005c, "{level} {name}");
        }
    }
}
