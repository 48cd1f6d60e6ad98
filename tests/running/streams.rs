//! Input, output, exit codes, limits, the environment.

use std::process::Stdio;
use std::time::{Duration, Instant};

use stockade_protocol::{Outcome, parse};

use super::home::{Home, User, fed, said};
use crate::support::{program, text};

#[test]
fn input_output_and_the_exit_code_pass_through() {
    let home = Home::new();
    let output = fed(&mut home.stockade(&["run", "--", "sh", "-c", "cat; echo told >&2; exit 3"]), b"fed\xff\0");
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(3), &b"fed\xff\0"[..]));
    assert_eq!(text(&output.stderr), "told\n");
    let much = home.runs(&[], "seq 1 200000; seq 1 200000 >&2", 0);
    let lines: String = (1..=200_000).map(|number| format!("{number}\n")).collect();
    assert!(much.stdout == lines && much.stderr == lines);
}

#[test]
fn a_reader_that_goes_away_ends_the_command_as_ever() {
    let home = Home::new();
    let mut shell = crate::support::program("bash");
    home.surround(&mut shell);
    let line = "set -o pipefail; setsid -w ../stockade run -- yes | head -1; echo ${PIPESTATUS[0]}";
    let told = said(shell.args(["-c", line]), 0);
    assert_eq!(told.stdout, "y\n141\n", "{}", told.stderr);
}

/// The exit codes of `stockade run`, each with what is said.
#[test]
fn every_exit_code_has_its_meaning() {
    let home = Home::new();
    home.write("ws/text", "no program");
    for (arguments, exit_code, words) in [
        (&["true"][..], 0, ""),
        (&["sh", "-c", "exit 77"], 77, ""),
        (&["--timeout", "300ms", "--", "sleep", "100"], 124, "stockade: the command took too long"),
        (&["--writable", "nowhere", "--", "true"], 125, "nowhere` can't be enforced: it does not exist (create it"),
        (&["--writeable", "x", "--", "true"], 125, "a similar argument exists: '--writable'"),
        (&["--engine", "landlock", "--", "true"], 125, "the engine `landlock` can't"),
        (&["--cwd", "nowhere", "--", "true"], 125, "stockade: `nowhere` is no directory"),
        (&[], 125, "required arguments were not provided"),
        (&["--", "./text"], 126, "can't be run: Permission denied"),
        (&["--", "rm", "-rf", "/"], 126, "stockade: refused: the approval policy `never`"),
        (&["--unsandboxed", "--", "true"], 126, "the command asks to run without the sandbox"),
        (&["no-such-program"], 127, "stockade: command `no-such-program` was not found in the sandbox"),
        (&["sh", "-c", "kill -TERM $$"], 143, "stockade: the command was ended by signal 15"),
        (&["sh", "-c", "kill -KILL $$"], 137, "stockade: the command was ended by signal 9"),
        (&["sh", "-c", "kill -SYS $$"], 159, "stockade: the command was ended by signal 31"),
    ] {
        let told = home.says(&[&["run"], arguments].concat(), exit_code);
        assert!(told.stderr.contains(words), "{arguments:?}: {}", told.stderr);
        assert_eq!(told.stderr.is_empty(), words.is_empty(), "{arguments:?}: {}", told.stderr);
        assert_eq!(told.stdout, "");
    }
}

#[test]
fn options_of_the_command_are_its_own() {
    let home = Home::new();
    assert_eq!(home.says(&["run", "echo", "--json", "-x", "--", "--sandbox"], 0).stdout, "--json -x -- --sandbox\n");
}

/// With `--json`, whatever happens, one `Outcome` is printed and nothing else.
#[test]
fn json_is_one_outcome_that_the_schema_takes() {
    let home = Home::new();
    for (arguments, exit_code, part) in [
        (&["sh", "-c", "echo out; echo err >&2; exit 3"][..], 3, "\"exited\""),
        (&["sh", "-c", "echo x > ../outside/x"], 2, "\"denied\""),
        (&["--unsandboxed", "--", "true"], 126, "\"refused\""),
        (&["--timeout", "300ms", "--", "sleep", "100"], 124, "\"timed_out\""),
        (&["sh", "-c", "kill -9 $$"], 137, "\"signaled\""),
        (&["no-such-program"], 127, "was not found"),
    ] {
        let told = home.says(&[&["run", "--json"], arguments].concat(), exit_code);
        assert!(told.stdout.contains(part), "{arguments:?}: {}", told.stdout);
        assert_eq!(told.stderr, "", "{arguments:?}");
        // Reading it back refuses what the schema does not know, and writing it gives the same text.
        let outcome: Outcome = parse(&told.stdout).unwrap_or_else(|error| panic!("{error}: {}", told.stdout));
        assert_eq!(serde_json::to_string_pretty(&outcome).unwrap() + "\n", told.stdout);
    }
    let told = home.says(&["run", "--json", "--", "sh", "-c", "echo out; echo err >&2; exit 3"], 3);
    let outcome: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    let execution = &outcome["exited"]["execution"];
    assert_eq!((&execution["stdout"]["head"], &execution["stderr"]["head"]), (&"out\n".into(), &"err\n".into()));
    for layer in execution["enforcement"]["layers"].as_array().unwrap() {
        assert_eq!(layer["status"], "fully_enforced", "{layer}");
    }
}

#[test]
fn limits_hold() {
    // Root's processes are not counted by the kernel, so that limit is the ordinary user's.
    let home = Home::of(User::Ordinary);
    let told = home.runs(&["--limit", "fsize=1K"], "head -c 5000 /dev/zero > big; wc -c < big", 0);
    assert_eq!(told.stdout, "1024\n");
    let told = home.runs(&["--limit", "files=64,pids=50"], "ulimit -n", 0);
    assert_eq!(told.stdout, "64\n");
    let told = home.runs(&["--limit", "files=4"], "ulimit -n", 0);
    assert_eq!(told.stdout, "4\n");
    let told = home.runs(&["--limit", "files=3"], "true", 125);
    assert!(
        told.stderr.contains("started with `files=3`") && told.stderr.contains("the least is `files=4`"),
        "{}",
        told.stderr
    );
    let told = home.runs(&["--limit", "cpu=1"], "while :; do :; done", 128 + 24);
    assert!(told.stderr.contains("exceeding `cpu_seconds` was denied: the limit was reached"), "{}", told.stderr);
    let told = home.runs(&["--limit", "memory=64M"], "dd if=/dev/zero of=/dev/null bs=200M count=1", 1);
    assert!(told.stderr.contains("memory exhausted"), "{}", told.stderr);
}

/// The caller's limits: the program works, or says what is wrong. It never hangs.
#[test]
fn low_limits_of_the_caller_end_in_a_clear_error() {
    for user in [User::Own, User::Ordinary] {
        let home = Home::of(user);
        for (limit, value) in [("nofile", 4), ("nofile", 12), ("nofile", 24), ("nofile", 64), ("nofile", 100)]
            .into_iter()
            // Unoptimised, the program alone takes 54 MB of addresses.
            .chain([("nproc", 1), ("nproc", 4), ("as", 70_000_000)])
        {
            // After the change of user: the kernel fails the next exec of a user with more processes than allowed, and
            // other tests run as the same one.
            let (stockade, user_change) =
                home.words().split_last().map(|(last, first)| (last.clone(), first.to_vec())).unwrap();
            let mut command = program("timeout");
            command.arg("30").args(user_change).args(["prlimit", &format!("--{limit}={value}:"), "--"]).arg(stockade);
            command.args(["run", "--", "/bin/true"]).stdin(Stdio::null());
            home.surround(&mut command);
            let output = command.output().unwrap();
            let (code, said) = (output.status.code(), text(&output.stderr));
            assert!(matches!(code, Some(0 | 125)), "{user:?} {limit}={value}: {code:?} {said}");
            assert!(code == Some(0) || !said.is_empty(), "{user:?} {limit}={value}");
            let left = std::fs::read_dir(home.path("ws")).unwrap().count();
            assert_eq!(left, 0, "{user:?} {limit}={value}: {said}");
        }
        let mut command = program("prlimit");
        command.arg("--nofile=100:").arg("--").args(home.words()).args(["run", "--", "/bin/true"]);
        home.surround(&mut command);
        said(command.stdin(Stdio::null()), 0);
    }
}

#[test]
fn a_command_that_takes_too_long_is_ended_with_all_it_started() {
    let home = Home::new();
    let start = Instant::now();
    let line = "(trap '' TERM; sleep 1; touch late) & trap '' TERM; echo started; sleep 100";
    let told = home.runs(&["--timeout", "500ms"], line, 124);
    assert_eq!(told.stdout, "started\n");
    assert!(start.elapsed() < Duration::from_secs(30));
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!home.exists("ws/late"));
}

#[test]
fn secrets_stay_outside_unless_they_are_named() {
    let home = Home::new();
    let seen = |options: &[&str]| {
        let mut command =
            home.stockade(&[&["run"], options, &["--", "sh", "-c", "echo $API_TOKEN,$NEW,$PLAIN"]].concat());
        said(command.env("API_TOKEN", "hunter2").env("PLAIN", "1"), 0).stdout
    };
    assert_eq!(seen(&[]), ",,1\n");
    assert_eq!(seen(&["--env", "API_TOKEN", "--env", "NEW=a=b", "--env", "MISSING"]), "hunter2,a=b,1\n");
    let told = home.says(&["run", "--env", "=x", "--", "true"], 125);
    assert!(told.stderr.contains("--env"), "{}", told.stderr);
}

/// Without a person no answer is waited for.
#[test]
fn without_a_terminal_it_never_waits() {
    let home = Home::new();
    let start = Instant::now();
    let told = home.runs(&["--ask", "untrusted"], "touch made", 126);
    assert_eq!(told.stderr, "stockade: refused: the reviewer said no: there is no terminal to ask at\n");
    let told = home.runs(&["--ask", "on-failure"], "echo x > ../outside/x", 2);
    assert!(told.stderr.contains("`--writable "), "{}", told.stderr);
    assert!(start.elapsed() < Duration::from_secs(60));
    assert!(!home.exists("ws/made") && !home.exists("outside/x"));
}
