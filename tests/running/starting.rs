//! What keeps a command from being started, and how that is told: where the program is searched for, directories, limits.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Output, Stdio};

use super::home::{Home, User};
use crate::support::{program, text};

/// Runs these words as the home's user with this `PATH`, by their own path: what starts them is not searched for.
fn with_path(home: &Home, path: &str, words: &[&str]) -> Output {
    let mut starting = home.words();
    let own = starting.pop().unwrap();
    let mut command = program("env");
    command.args(starting).args(["/bin/sh", "-c", "PATH=$1; shift; exec \"$@\"", "sh", path]);
    home.surround(&mut command);
    let words = words.iter().map(|word| if *word == "stockade" { own.as_path() } else { Path::new(word) });
    command.args(words).stdin(Stdio::null()).output().unwrap()
}

/// A directory that can't be searched and one of the program's name hold no program, as for bash.
#[test]
fn programs_are_searched_for_as_bash_does() {
    let home = Home::of(User::Ordinary);
    home.write("ws/file", "no program");
    home.write("ws/locked/tool", "#!/bin/sh\nexit 0\n");
    home.write("ws/there/plain", "#!/bin/sh\nexit 0\n");
    home.write("ws/there/folder/x", "");
    let mode = |path: &str, mode: u32| fs::set_permissions(home.path(path), fs::Permissions::from_mode(mode)).unwrap();
    mode("ws/locked/tool", 0o755);
    home.give_to_user();
    mode("ws/locked", 0o600);
    let (ws, usual) = (home.path("ws").display().to_string(), "/usr/bin:/bin");
    for (path, program, exit_code) in [
        (format!("{ws}/locked:{usual}"), "tool", 127),
        (format!("{ws}/locked"), "tool", 127),
        (format!("{ws}/locked:{usual}"), "true", 0),
        (format!("{ws}/there:{usual}"), "folder", 127),
        (format!("{ws}/there:{usual}"), "plain", 126),
        (format!("{ws}/file:{usual}"), "x", 127),
        (String::from(usual), "./locked/tool", 126),
        (String::from(usual), "./there/folder", 126),
        (String::from(usual), "./file/x", 126),
        (String::from(usual), "./missing", 127),
    ] {
        let bash = with_path(&home, &path, &["/bin/bash", "-c", program]);
        assert_eq!(bash.status.code(), Some(exit_code), "bash: {path} {program}: {}", text(&bash.stderr));
        for options in [&["--sandbox", "workspace-write"][..], &["--sandbox", "danger-full-access"]] {
            let words = [&["stockade", "run"], options, &["--", program]].concat();
            let output = with_path(&home, &path, &words);
            assert_eq!(output.status.code(), Some(exit_code), "{path} {words:?}: {}", text(&output.stderr));
        }
    }
    mode("ws/locked", 0o755);
}

/// A directory that the user may not enter is called that, before anything is built, whatever is asked for.
#[test]
fn a_directory_that_may_not_be_entered_is_named() {
    let home = Home::of(User::Ordinary);
    home.write("locked/below/x", "");
    fs::set_permissions(home.path("locked"), fs::Permissions::from_mode(0o000)).unwrap();
    let (locked, below) = (home.path("locked").display().to_string(), home.path("locked/below").display().to_string());
    if rustix::process::geteuid().is_root() {
        for path in [&locked, &below] {
            for options in [
                &["run", "--cwd", path, "--"][..],
                &["run", "--workspace", path, "--"],
                &["explain", "--cwd", path, "--"],
            ] {
                let told = home.says(&[options, &["true"]].concat(), 125);
                let wanted = format!("stockade: you can't enter the directory `{path}`: name one that you may enter");
                assert!(told.stderr.contains(&wanted), "{options:?}: {}", told.stderr);
                assert!(told.stderr.contains("Permission denied"), "{options:?}: {}", told.stderr);
            }
        }
    }
    let told = home.says(&["run", "--cwd", "nowhere", "--", "true"], 125);
    assert!(told.stderr.contains("`nowhere` is no directory"), "{}", told.stderr);
}

/// A limit that nothing can be started under is refused where it is written.
#[test]
fn a_limit_that_is_too_low_is_named_with_its_place() {
    let home = Home::new();
    for (limit, words) in [
        ("memory=1M", "no command can be started with `memory=1M`: the least is `memory=4M`"),
        ("pids=9,files=3", "no command can be started with `files=3`: the least is `files=4`"),
    ] {
        let told = home.says(&["run", "--limit", limit, "--", "true"], 125);
        assert!(told.stderr.contains("--limit") && told.stderr.contains(words), "{}", told.stderr);
    }
    for (settings, place) in [
        ("[limits]\nprocesses = 9\nmemory_bytes = 1048576\n", "config.toml:3:16: `limits.memory_bytes`: "),
        ("[limits]\nopen_files = 3\n", "config.toml:2:14: `limits.open_files`: "),
    ] {
        home.write("config/stockade/config.toml", settings);
        for command in ["run", "explain"] {
            let told = home.says(&[command, "--", "true"], 125);
            assert!(told.stderr.contains(place), "{}", told.stderr);
            assert!(
                told.stderr.contains("no command can be started with so little: write at least 4"),
                "{}",
                told.stderr
            );
        }
    }
}

/// Limits of the caller's own: the one that was met is named, and how it is raised.
#[test]
fn a_limit_of_the_callers_that_was_met_is_named() {
    let home = Home::of(User::Ordinary);
    for (limit, named) in [("nofile=20", "ulimit -n"), ("nproc=1", "ulimit -u"), ("stack=24576", "ulimit -s")] {
        if limit.starts_with("nproc") && home.words().len() == 1 {
            // Processes of this user that are none of the test's count as well.
            continue;
        }
        let mut starting = home.words();
        let own = starting.pop().unwrap();
        let mut command = program("timeout");
        command.arg("30").args(starting).args(["prlimit", &format!("--{limit}:"), "--"]).arg(own);
        home.surround(&mut command);
        let output = command.args(["run", "--", "/bin/true"]).stdin(Stdio::null()).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{limit}: {said}");
        assert!(said.contains(named), "{limit}: {said}");
    }
}

/// What a command finds below `/dev` and `/proc` is the sandbox's own, and `explain` says so.
#[test]
fn the_devices_and_processes_of_the_sandbox_are_explained() {
    let home = Home::new();
    for (path, words) in [
        ("/dev", "may be read: the sandbox has a `/dev` of its own, with null, zero"),
        ("/dev/null", "may be read and written: every sandbox has this device"),
        ("/dev/kmsg", "is out of reach: the sandbox has a `/dev` of its own"),
        ("/dev/shm", "is an empty private directory"),
        ("/dev/pts/0", "terminals of its own"),
        ("/dev/stdin", "the command's own open files"),
        ("/proc", "a `/proc` of its own"),
        ("/proc/self/status", "it is the command itself"),
        (
            "/proc/1/environ",
            "is out of reach: the sandbox has a `/proc` of its own, with its own processes and numbers",
        ),
    ] {
        let told = home.says(&["explain", "--path", path], 0);
        assert!(told.stdout.starts_with(&format!("`{path}` ")) && told.stdout.contains(words), "{}", told.stdout);
        // Without a sandbox they are the host's.
        let told = home.says(&["explain", "--sandbox", "danger-full-access", "--path", path], 0);
        assert!(!told.stdout.contains("sandbox has"), "{}", told.stdout);
    }
    // And it is true.
    let line = "test ! -e /dev/kmsg && test -w /dev/null && test -z \"$(ls /dev/shm)\" && ls /dev";
    let found = home.runs(&[], line, 0).stdout;
    let said = home.says(&["explain", "--path", "/dev"], 0).stdout;
    let said = said.split("with ").last().unwrap().trim().to_owned();
    let mut listed: Vec<&str> = said.split(", ").collect();
    listed.sort_unstable();
    assert_eq!(found.lines().collect::<Vec<_>>(), listed);
    // A device that a flag names is the host's.
    let told = home.says(&["explain", "--writable", "/dev/full", "--path", "/dev/full"], 0);
    assert!(told.stdout.contains("may be read and written"), "{}", told.stdout);
}

/// A stream that is closed is one that takes and gives nothing, and the exit code is what it is otherwise.
#[test]
fn closed_streams_change_no_exit_code() {
    let home = Home::new();
    for closed in ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"] {
        for (words, exit_code) in [
            ("run -- sh -c 'echo out; echo err >&2; cat; exit 3'", 3),
            ("run -- no-such-program", 127),
            ("run --json -- true", 0),
            ("run --no-such-flag", 125),
            ("run -- sh -c 'echo x > ../outside/x'", 2),
            ("explain -- true", 0),
            ("explain --path /etc", 0),
            ("audit verify", 0),
            ("doctor", 0),
            ("--help", 0),
            ("--version", 0),
            ("schema", 0),
        ] {
            let mut command = program("setsid");
            home.surround(&mut command);
            let own = home.words().pop().unwrap();
            let line = format!("{} {words} {closed}", own.display());
            let output = command.args(["--wait", "sh", "-c", &line]).output().unwrap();
            let (code, said) = (output.status.code(), text(&output.stderr));
            assert_eq!(code, Some(exit_code), "{words} {closed}: {said}");
            assert!(!said.contains("panicked"), "{words} {closed}: {said}");
        }
    }
}

/// A flag that takes no value says so; in JSON where `--json` asked for that.
#[test]
fn a_value_for_a_flag_without_one_is_a_usage_error() {
    let home = Home::new();
    for words in
        [&["run", "--json=1", "--", "true"][..], &["explain", "--json=true", "--", "true"], &["doctor", "--json="]]
    {
        let told = home.says(words, 125);
        assert!(
            told.stderr.contains("unexpected value") && told.stderr.contains("--json"),
            "{words:?}: {}",
            told.stderr
        );
        assert_eq!(told.stdout, "", "{words:?}");
    }
}
