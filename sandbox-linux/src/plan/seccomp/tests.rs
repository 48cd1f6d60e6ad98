//! Each call has the answer that the lists say.

use super::*;
use crate::plan::bpf::run;
use crate::plan::system_calls::is_there;

const ALLOWED: u32 = 0x7fff_0000;

fn answer(call: i64, arguments: [u64; 6]) -> u32 {
    run(&filter(Families::Internet, Refusals::Silent).0, ARCHITECTURE, u32::try_from(call).unwrap(), arguments)
}

#[test]
fn every_listed_call_fails_and_ordinary_ones_pass() {
    for (call, errno) in REFUSED
        .iter()
        .flat_map(|(calls, _)| *calls)
        .map(|call| (call, 1))
        .chain(ABSENT.iter().flat_map(|(calls, _)| *calls).map(|call| (call, 38)))
        .filter(|(call, _)| is_there(call))
    {
        assert_eq!(answer(*call, [0; 6]), 0x0005_0000 | errno, "call {call}");
    }
    for call in [
        libc::SYS_read,
        libc::SYS_execve,
        libc::SYS_openat,
        libc::SYS_clone,
        libc::SYS_ioctl,
        libc::SYS_fchmod,
        libc::SYS_connect,
        libc::SYS_seccomp,
    ] {
        assert_eq!(answer(call, [0; 6]), ALLOWED, "call {call}");
    }
}

#[test]
fn arguments_decide_where_they_matter() {
    assert_eq!(answer(SYS_unshare, [0x1000_0000, 0, 0, 0, 0, 0]), 0x0005_0001);
    assert_eq!(answer(SYS_clone, [0x1000_0000 | 17, 0, 0, 0, 0, 0]), 0x0005_0001);
    assert_eq!(answer(SYS_fchmodat, [0, 0, 0o4755, 0, 0, 0]), 0x0005_0001);
    assert_eq!(answer(SYS_fchmodat, [0, 0, 0o755, 0, 0, 0]), ALLOWED);
    // The kernel uses 32 bits of an ioctl's number, so the upper half must not hide it.
    assert_eq!(answer(SYS_ioctl, [0, 0xffff_ffff_0000_5412, 0, 0, 0, 0]), 0x0005_0001);
    assert_eq!(answer(SYS_fcntl, [3, 1024, 1, 0, 0, 0]), 0x0005_0001, "F_SETLEASE");
    assert_eq!(answer(SYS_fcntl, [3, 1025, 0, 0, 0, 0]), ALLOWED, "F_GETLEASE");
    assert_eq!(answer(SYS_personality, [0xffff_ffff, 0, 0, 0, 0, 0]), ALLOWED);
    assert_eq!(answer(SYS_personality, [0x004_0000, 0, 0, 0, 0, 0]), 0x0005_0001);
}

/// Before Linux 6.2, where Landlock does not know of it.
#[test]
fn a_file_is_cut_only_by_who_may_write_it() {
    let old = program(&answers(Families::Internet, &[], Cutting::Refused)).0;
    let new = program(&answers(Families::Internet, &[], Cutting::LeftToLandlock)).0;
    let [cut, write] = [libc::O_TRUNC, libc::O_WRONLY].map(|flag| u64::from(flag.cast_unsigned()));
    for (flags, refused) in [(0, false), (cut, true), (cut | write, false), (cut | 2, false), (write, false)] {
        let wanted = if refused { 0x0005_0001 } else { ALLOWED };
        let arguments = [0, 0, flags, 0, 0, 0];
        assert_eq!(run(&old, ARCHITECTURE, number(SYS_openat), arguments), wanted, "{flags:#o}");
        assert_eq!(run(&new, ARCHITECTURE, number(SYS_openat), arguments), ALLOWED, "{flags:#o}");
    }
    // The mode counts as well.
    assert_eq!(run(&old, ARCHITECTURE, number(SYS_openat), [0, 0, write, 0o4755, 0, 0]), 0x0005_0001);
    assert_eq!(run(&old, ARCHITECTURE, number(SYS_truncate), [0; 6]), 0x0005_0001);
    assert_eq!(run(&new, ARCHITECTURE, number(SYS_truncate), [0; 6]), ALLOWED);
}

#[test]
fn only_the_named_socket_families_exist() {
    for family in 0..64_u64 {
        let named = [AF_INET, AF_INET6].contains(&i32::try_from(family).unwrap());
        assert_eq!(answer(SYS_socket, [family, 1, 0, 0, 0, 0]) == ALLOWED, named, "family {family}");
    }
    assert_eq!(answer(SYS_socketpair, [1, 1, 0, 0, 0, 0]), ALLOWED);
    assert_eq!(answer(SYS_socketpair, [1, 5, 0, 0, 0, 0]), ALLOWED);
    assert_eq!(answer(SYS_socketpair, [2, 1, 0, 0, 0, 0]), 0x0005_0061);
    for datagrams in [2, 3, 0x80802] {
        assert_eq!(answer(SYS_socketpair, [1, datagrams, 0, 0, 0, 0]), 0x0005_0001);
    }
}

#[test]
fn what_shares_the_host_is_kept_from_more() {
    use crate::plan::shared_host::{ATTRIBUTES, OTHERS};
    let filter = filter_with(Families::None, &[OTHERS, ATTRIBUTES]).0;
    let answer = |call: i64, arguments| run(&filter, ARCHITECTURE, u32::try_from(call).unwrap(), arguments);
    for (calls, _) in OTHERS.refused.iter().chain(ATTRIBUTES.refused) {
        for call in calls.iter().filter(|call| is_there(call)) {
            assert_eq!(answer(*call, [0; 6]), 0x0005_0001, "call {call}");
        }
    }
    assert_eq!(answer(libc::SYS_prlimit64, [0; 6]), ALLOWED);
    assert_eq!(answer(libc::SYS_prlimit64, [17, 0, 0, 0, 0, 0]), 0x0005_0001);
    assert_eq!(answer(SYS_ioctl, [3, 0x4008_6602, 0, 0, 0, 0]), 0x0005_0001);
    for call in
        [libc::SYS_sched_setaffinity, libc::SYS_sched_setscheduler, libc::SYS_sched_setparam, libc::SYS_sched_setattr]
    {
        assert_eq!(answer(call, [0, 8, 0, 0, 0, 0]), ALLOWED, "the caller's own, call {call}");
        assert_eq!(answer(call, [17, 8, 0, 0, 0, 0]), 0x0005_0001, "another's, call {call}");
    }
    assert_eq!(answer(libc::SYS_ioprio_set, [1, 0, 0, 0, 0, 0]), ALLOWED);
    for whom in [[1, 17], [2, 0], [3, 1000]] {
        assert_eq!(answer(libc::SYS_ioprio_set, [whom[0], whom[1], 0, 0, 0, 0]), 0x0005_0001, "{whom:?}");
    }
    for family in 0..64 {
        assert_eq!(answer(SYS_socket, [family, 1, 0, 0, 0, 0]), 0x0005_0061, "family {family}");
    }
    assert_eq!(answer(SYS_socketpair, [1, 1, 0, 0, 0, 0]), ALLOWED);
}

#[test]
fn other_abis_die_and_newer_calls_do_not_exist() {
    let filter = filter(Families::Internet, Refusals::Silent).0;
    assert_eq!(run(&filter, 0x4000_0003, 1, [0; 6]), 0x8000_0000, "i386");
    assert_eq!(run(&filter, 0x4000_0028, 1, [0; 6]), 0x8000_0000, "32-bit Arm");
    let x32 = if cfg!(target_arch = "x86_64") { 0x8000_0000 } else { 0x0005_0026 };
    assert_eq!(run(&filter, ARCHITECTURE, 0x4000_0029, [0; 6]), x32);
    for call in FIRST_UNREVIEWED..600 {
        assert_eq!(run(&filter, ARCHITECTURE, call, [0; 6]), 0x0005_0026, "call {call}");
    }
}

/// The installation runs the filter for every number.
#[test]
fn every_number_is_found_in_a_few_steps() {
    for call in 0..FIRST_UNREVIEWED {
        let steps = crate::plan::bpf::steps(&filter(Families::Internet, Refusals::Silent).0, ARCHITECTURE, call);
        assert!(steps < 20, "call {call} takes {steps} steps");
    }
}

#[test]
fn jumps_stay_inside() {
    let filter = filter(Families::Internet, Refusals::Silent).0;
    for call in 0..FIRST_UNREVIEWED {
        for argument in [0, 1, 0xffff_ffff, 0x5412, 0o4755] {
            run(&filter, ARCHITECTURE, call, [argument; 6]);
        }
    }
}
