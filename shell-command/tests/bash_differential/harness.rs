//! The real bash, with every program it might start replaced.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// The effects of one line in bash.
#[derive(Default)]
pub(crate) struct Observed {
    /// The programs that it tried to start.
    pub(crate) programs: Vec<Vec<Vec<u8>>>,
    /// Whether a file appeared.
    pub(crate) wrote: bool,
}

/// Lines per bash process. Two processes run at a time.
const BATCH: usize = 1000;

/// Reads lines (NUL between them) from descriptor 9 and evaluates each in a subshell of its own, in
/// a directory of its own. Each process logs to a file of its own, since not every file system appends
/// atomically. The handler's status depends on the name, so both arms of `&&` are seen.
const DRIVER: &str = r#"
ulimit -t 60 -v 2000000 -f 1000 -c 0
readonly STOCKADE_LOG="$1"
FUNCNEST=4
command_not_found_handle() {
    local IFS=$'\x1f'
    builtin printf '%s\x1e' "$*" >> "$STOCKADE_LOG/$STOCKADE_ID.$BASHPID"
    return $(( ${#1} % 2 ))
}
STOCKADE_ID=$2
while IFS= read -r -d '' -u 9 stockade_line; do
    ( builtin cd "$STOCKADE_ID" && readonly STOCKADE_ID && set -- && eval "$stockade_line"; wait ) 9<&- < /dev/null
    STOCKADE_ID=$((STOCKADE_ID + 1))
done
> "$STOCKADE_LOG/end"
"#;

/// Logs like the handler, for `exec` and other ways past it.
const STAND_IN: &str = r#"#!/bin/bash
IFS=$'\x1f'
set -- real "$@"
printf '%s\x1e' "$*" >> "$STOCKADE_LOG/$STOCKADE_ID.$$"
"#;

/// Runs all lines.
pub(crate) fn observe(lines: &[String]) -> Vec<Observed> {
    let home = tempfile::tempdir().unwrap();
    let bin = home.path().join("bin");
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("real"), STAND_IN).unwrap();
    fs::set_permissions(bin.join("real"), fs::Permissions::from_mode(0o755)).unwrap();
    let starts: Vec<usize> = (0..lines.len()).step_by(BATCH).collect();
    let mut observed: Vec<Observed> = Vec::new();
    for pair in starts.chunks(2) {
        let results: Vec<Vec<Observed>> = std::thread::scope(|scope| {
            let run = |&start: &usize| {
                let batch = &lines[start..lines.len().min(start + BATCH)];
                let home = home.path();
                scope.spawn(move || run_batch(home, start, batch))
            };
            let threads: Vec<_> = pair.iter().map(run).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        observed.extend(results.into_iter().flatten());
    }
    observed
}

fn run_batch(home: &Path, start: usize, lines: &[String]) -> Vec<Observed> {
    let work = home.join(format!("batch{start}"));
    fs::create_dir(&work).unwrap();
    for (index, _) in lines.iter().enumerate() {
        fs::create_dir(work.join((start + index).to_string())).unwrap();
    }
    let listing = work.join("lines");
    let text: Vec<u8> = lines.iter().flat_map(|line| line.bytes().filter(|&b| b != 0).chain([0])).collect();
    fs::write(&listing, text).unwrap();
    let log = work.join("log");
    fs::create_dir(&log).unwrap();
    run_bash(home, &work, &log, start);

    let mut observed: Vec<Observed> = Vec::new();
    observed.resize_with(lines.len(), Observed::default);
    let last = last_line(&log).unwrap_or(start) - start;
    let suspects = &lines[last..lines.len().min(last + 4)];
    assert!(log.join("end").exists(), "bash did not get through one of {suspects:?}");
    for entry in fs::read_dir(&log).unwrap() {
        let entry = entry.unwrap();
        let Some(id) = line_number(&entry.file_name()) else { continue };
        let records = fs::read(entry.path()).unwrap();
        for record in records.split(|&byte| byte == 0x1e).filter(|record| !record.is_empty()) {
            observed[id - start].programs.push(record.split(|&byte| byte == 0x1f).map(<[u8]>::to_vec).collect());
        }
    }
    for (index, observed) in observed.iter_mut().enumerate() {
        let directory = work.join((start + index).to_string());
        observed.wrote = fs::read_dir(directory).unwrap().next().is_some();
    }
    observed
}

/// The number before the dot of `12.3456`.
fn line_number(name: &std::ffi::OsStr) -> Option<usize> {
    name.to_str()?.split_once('.')?.0.parse().ok()
}

/// The last line that logged anything, for the report of a line that never ends.
fn last_line(log: &Path) -> Option<usize> {
    fs::read_dir(log).unwrap().filter_map(|entry| line_number(&entry.unwrap().file_name())).max()
}

#[expect(clippy::disallowed_methods, reason = "a test harness: the real bash is what is compared with")]
fn run_bash(home: &Path, work: &Path, log: &Path, start: usize) {
    let driver = format!("exec 9< lines\n{DRIVER}");
    // `timeout` ends the whole process group, including processes that a line left running.
    let status = Command::new("/usr/bin/timeout")
        .args(["-s", "KILL", "300", "/bin/bash"])
        .args(["--norc", "--noprofile", "-c", &driver, "driver"])
        .args([log.as_os_str(), start.to_string().as_ref()])
        .current_dir(work)
        .env_clear()
        .env("PATH", home.join("bin"))
        .env("HOME", home)
        .env("LC_ALL", "C.UTF-8")
        .env("STOCKADE_ID", "")
        .env("STOCKADE_LOG", log)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(status.is_ok(), "bash can't be started: {status:?}");
}
