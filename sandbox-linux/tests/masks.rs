//! Reads behind masks are seen, on the real kernel: which process, which program, which path. What a command gets is
//! what it gets without.
//!
//! Each test runs as the user who starts it and, started as root, once more as `nobody` with a `/dev/fuse` that every
//! user may open, as most systems have it.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

mod masked;

#[allow(unused_imports)]
use std::fs;
use std::os::unix::fs::symlink;
use std::thread;
use std::time::{Duration, Instant};

use masked::{ENGINES, Engine, World, as_each_user, in_each_engine};

#[test]
fn a_read_behind_a_mask_is_seen_with_process_program_and_path() {
    as_each_user("a_read_behind_a_mask_is_seen_with_process_program_and_path", || {
        in_each_engine(|world| {
            let seen = world.run("cat $H/.netrc; echo $?; cat $H/.ssh/id; echo $?; ls $H/.ssh; echo $?; echo $$");
            let lines: Vec<&str> = seen.output.lines().collect();
            assert!(matches!(lines[..], ["1", "1", "2", _]), "{seen:?}");
            assert_eq!(seen.paths(), [".netrc", ".ssh/id", ".ssh"], "{seen:?}");
            assert_eq!(seen.programs(), ["cat", "cat", "ls"]);
            assert!(seen.sees_all_reads);
            let pids: Vec<u32> = seen.kept.iter().map(|seen| seen.pid.unwrap()).collect();
            assert!(pids.iter().all(|pid| *pid > 2) && pids[0] != pids[1], "numbers of this side: {pids:?}");
        });
    });
}
