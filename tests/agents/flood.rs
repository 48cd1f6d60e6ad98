//! A client that floods a server on standard input and output, and reads no answer.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The most memory that a process has had, in MiB.
pub(super) fn peak(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

/// Sends these lines and a million requests, reads nothing, and goes away: the server stops reading, and takes no memory.
pub(super) fn fills_no_memory(server: &mut Command, first: &[String], request: fn(usize) -> String) {
    let mut server = server.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut to, from) = (server.stdin.take().unwrap(), server.stdout.take().unwrap());
    let sent = Arc::new(AtomicUsize::new(0));
    let (counted, first) = (Arc::clone(&sent), first.join("\n"));
    let writer = std::thread::spawn(move || {
        writeln!(to, "{first}").unwrap();
        for id in 1..=1_000_000 {
            if writeln!(to, "{}", request(id)).is_err() {
                return;
            }
            counted.store(id, Ordering::Relaxed);
        }
    });
    // It stops reading once its answers are not read.
    let (mut last, mut since) = (0, Instant::now());
    let began = Instant::now();
    while since.elapsed() < Duration::from_secs(2) && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(50));
        let now = sent.load(Ordering::Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
    assert!(last < 1_000_000, "it read everything");
    assert!(peak(server.id()) < 150, "{} MiB", peak(server.id()));
    drop(from);
    writer.join().unwrap();
    assert!(server.wait().unwrap().success());
}
