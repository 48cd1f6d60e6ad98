//! Signals, and what is left when Stockade is killed.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::home::{Home, User};
use crate::support::program;

/// Starts a line that prints `ready` when it is.
fn start(home: &Home, line: &str) -> (Child, Pid) {
    let mut child = home.stockade(&["run", "--", "sh", "-c", line]).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
    assert_eq!(first, "ready\n");
    // `setsid` has become the program.
    let pid = Pid::from_raw(child.id().cast_signed()).unwrap();
    (child, pid)
}

/// Whether a process of the host has this word among its arguments.
fn runs(word: &str) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .any(|words| words.split(|byte| *byte == 0).any(|found| found == word.as_bytes()))
}

#[test]
fn signals_are_the_commands() {
    for (signal, name, exit_code) in [(Signal::INT, "INT", 12), (Signal::TERM, "TERM", 15), (Signal::HUP, "HUP", 11)] {
        let home = Home::new();
        let line = format!("trap 'touch told; exit {exit_code}' {name}; echo ready; while :; do sleep 0.05; done");
        let (mut child, pid) = start(&home, &line);
        kill_process(pid, signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(exit_code), "{name}");
        assert!(home.exists("ws/told"), "{name}");
    }
}

#[test]
fn a_command_that_does_not_mind_a_signal_is_ended_by_it() {
    let home = Home::new();
    let (mut child, pid) = start(&home, "echo ready; sleep 1000");
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
}

#[test]
fn whoever_interrupts_three_times_means_it() {
    let home = Home::new();
    let (mut child, pid) = start(&home, "trap '' INT; echo ready; while :; do sleep 0.05; done");
    for _ in 0..3 {
        kill_process(pid, Signal::INT).unwrap();
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(child.wait().unwrap().code(), Some(128 + 2));
}

fn left_in_workspace(home: &Home) -> Vec<std::ffi::OsString> {
    std::fs::read_dir(home.path("ws")).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

/// `timeout` ends the whole process group, first with TERM and then with KILL. The launcher is not in it, and
/// removes the names that were held.
#[test]
fn nothing_is_left_when_the_process_group_is_killed() {
    for (user, engine) in [(User::Own, "native"), (User::Ordinary, "native"), (User::Ordinary, "bwrap")] {
        let home = Home::of(user);
        let sleeps = format!("2{}", std::process::id());
        let mut command = program("timeout");
        command.args(["-k", "1", "1"]).args(home.words()).args(["run", "--engine", engine, "--", "sh", "-c"]);
        command.arg(format!("trap '' TERM; while :; do sleep {sleeps}; done")).stdin(Stdio::null());
        home.surround(&mut command);
        command.status().unwrap();
        let start = Instant::now();
        while runs(&sleeps) || !left_in_workspace(&home).is_empty() {
            let left = left_in_workspace(&home);
            assert!(start.elapsed() < Duration::from_secs(5), "{user:?} {engine}: {left:?}, runs: {}", runs(&sleeps));
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Names that are held are told by their mode, whatever a mask takes from new directories.
#[test]
fn nothing_is_left_whatever_the_mask() {
    for (user, engine) in [(User::Own, "native"), (User::Ordinary, "native"), (User::Ordinary, "bwrap")] {
        let home = Home::of(user);
        // What is kept between runs is made with an ordinary mask.
        home.runs(&[], "true", 0);
        for mask in ["0177", "0377", "0477", "0777"] {
            let mut command = program("sh");
            command.args(["-c", &format!("umask {mask}; exec \"$@\""), "sh"]).args(home.words());
            command.args(["run", "--engine", engine, "--", "true"]).stdin(Stdio::null());
            home.surround(&mut command);
            let output = command.output().unwrap();
            let left = left_in_workspace(&home);
            assert!(left.is_empty(), "{user:?} {engine} {mask}: {left:?} {}", String::from_utf8_lossy(&output.stderr));
            if mask == "0177" {
                assert!(output.status.success(), "{user:?} {engine}: {}", String::from_utf8_lossy(&output.stderr));
            }
        }
    }
}

/// Root's right to write there does not reach into the launcher's user namespace.
#[test]
fn nothing_is_left_in_another_users_directory() {
    for engine in ["native", "bwrap"] {
        let home = Home::new();
        if rustix::process::getuid().is_root() {
            std::os::unix::fs::chown(home.path("ws"), Some(65534), Some(65534)).unwrap();
        }
        for _ in 0..2 {
            home.runs(&["--engine", engine], "true", 0);
            let left = left_in_workspace(&home);
            assert!(left.is_empty(), "{engine}: {left:?}");
        }
    }
}

#[test]
fn nothing_outlives_a_stockade_that_was_killed() {
    let home = Home::new();
    // A number that no other process sleeps for.
    let sleeps = format!("1{}", std::process::id());
    let line = format!("setsid sleep {sleeps} & (trap '' TERM HUP INT; sleep {sleeps}) & echo ready; sleep {sleeps}");
    let (mut child, pid) = start(&home, &line);
    let start = Instant::now();
    while !runs(&sleeps) {
        assert!(start.elapsed() < Duration::from_secs(20), "it never ran");
    }
    kill_process(pid, Signal::KILL).unwrap();
    child.wait().unwrap();
    let start = Instant::now();
    while runs(&sleeps) {
        assert!(start.elapsed() < Duration::from_secs(5), "it still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
    // What it held in the workspace is given back by the next run.
    home.runs(&[], "true", 0);
    let left: Vec<_> = std::fs::read_dir(home.path("ws")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A parent that never reaps keeps one zombie for each run at the most, and nothing that still runs.
#[test]
fn a_parent_that_never_reaps_keeps_nothing_that_runs() {
    const RUNS: usize = 5;
    let home = Home::new();
    // <https://man7.org/linux/man-pages/man2/pr_set_child_subreaper.2const.html>
    let script = format!(
        "import ctypes, os, subprocess, sys, time\n\
         ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)\n\
         for _ in range({RUNS}): subprocess.run(sys.argv[1:], check=True)\n\
         def states():\n\
         \x20   pids = open('/proc/self/task/%d/children' % os.getpid()).read().split()\n\
         \x20   return [open('/proc/%s/stat' % pid).read().rsplit(')', 1)[1].split()[0] for pid in pids]\n\
         deadline = time.time() + 20\n\
         while any(state != 'Z' for state in states()) and time.time() < deadline: time.sleep(0.05)\n\
         print(''.join(states()))\n"
    );
    let mut command = crate::support::program("python3");
    command.args(["-c", &script]).args(home.words()).args(["run", "--", "true"]);
    home.surround(&mut command);
    let left = super::home::said(&mut command, 0).stdout;
    let left = left.trim_end();
    assert!(left.len() <= RUNS && left.chars().all(|state| state == 'Z'), "{left:?}");
}

/// How the last request of a home is on record.
fn last_record(home: &Home) -> String {
    let trail = home.read("state/stockade/audit.jsonl");
    trail.lines().last().unwrap_or_default().to_owned()
}

/// A program that answers in a person's place, says that it was asked, and never answers.
fn never_answers(home: &Home) {
    home.write("config/approve", "#!/bin/sh\necho asked > \"$(dirname \"$0\")/../state/asked\"\nexec sleep 1000\n");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(home.path("config/approve"), mode).unwrap();
    let program = home.path("config/approve").display().to_string();
    home.write("config/stockade/config.toml", &format!("[approver]\nhook = [\"{program}\"]\n"));
}

fn until_asked(home: &Home) {
    let start = Instant::now();
    while !home.exists("state/asked") {
        assert!(start.elapsed() < Duration::from_secs(30), "it never asked");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A signal at a question ends the run, and the record says so.
#[test]
fn a_signal_at_a_question_is_on_record() {
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::HUP, 1)] {
        let home = Home::new();
        never_answers(&home);
        let mut child = home.stockade(&["run", "--ask", "untrusted", "--", "touch", "made"]).spawn().unwrap();
        until_asked(&home);
        kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(128 + number));
        let record = last_record(&home);
        let said = format!("\"failed\":{{\"reason\":\"ended by signal {number} while no command ran\"}}");
        assert!(record.contains(&said), "{record}");
        let told = home.says(&["audit", "list"], 0);
        assert!(told.stdout.contains("failed"), "{}", told.stdout);
    }
}

/// An interrupt at a question of a running command ends the question, further ones the command, and the record tells that
/// from a timeout.
#[test]
fn interrupts_at_a_question_of_a_running_command_are_no_timeout() {
    let home = Home::new();
    never_answers(&home);
    // Nothing is sent there: the question has no answer.
    let line = "trap '' INT; (exec 3<>/dev/tcp/93.184.216.34/80); while :; do sleep 1; done";
    let words = ["run", "--ask", "on-failure", "--network", "hosts", "--", "bash", "-c", line];
    let mut child = home.stockade(&words).spawn().unwrap();
    until_asked(&home);
    for _ in 0..3 {
        kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), Signal::INT).unwrap();
        std::thread::sleep(Duration::from_millis(200));
    }
    assert_eq!(child.wait().unwrap().code(), Some(128 + 2));
    let record = last_record(&home);
    assert!(record.contains("\"result\":\"signaled\",\"exit_code\":130"), "{record}");
}
