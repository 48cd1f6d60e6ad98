//! Denials are facts: of labelled commands that fail, those that the sandbox made fail are told from the others.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use super::home::{Home, User, said};
use crate::support::program;

/// What has to be reached, of all that is told and of all that is to be told.
const LEAST: f64 = 0.98;

/// A workspace with a repository, a home and a directory outside, all of an ordinary user.
fn world() -> Home {
    let home = Home::of(User::Ordinary);
    home.write("ws/src/main.c", "int main(void){ return 0; }\n");
    home.write("ws/locked", "x\n");
    home.write("outside/data.txt", "abc\n");
    home.write("outside/bin/.keep", "");
    let database = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('create table t(x)')";
    said(program("python3").args(["-c", database]).arg(home.path("outside/db.sqlite")), 0);
    home.write("home/.ssh/id", "key\n");
    home.write("home/.netrc", "machine x login y password z\n");
    home.write("home/.config/app/app.conf", "a=1\n");
    home.write("home/.gitconfig", "[user]\n\tname = T\n\temail = t@example.org\n");
    said(program("git").args(["init", "-q"]).arg(home.path("ws/repository")), 0);
    home.give_to_user();
    fs::set_permissions(home.path("ws/locked"), fs::Permissions::from_mode(0o000)).unwrap();
    home
}

/// What the program makes of a line: how it ended, and all that is named as denied.
fn outcome(home: &Home, engine: &str, options: &str, line: &str) -> (String, Vec<String>) {
    let mut words = vec!["run", "--engine", engine, "--ask", "never", "--json"];
    words.extend(options.split_whitespace());
    words.extend(["--", "bash", "-c", line]);
    let output = home.stockade(&words).output().unwrap();
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{line}: {output:?}"));
    let (kind, ended) = outcome.as_object().unwrap().iter().next().unwrap();
    let violations = ended.pointer("/execution/violations").and_then(Value::as_array).cloned().unwrap_or_default();
    let named = |violation: &Value| match violation.pointer("/target/destination") {
        Some(to) => format!("{}:{}", to["host"].as_str().unwrap(), to["port"]),
        None => violation["target"].as_object().unwrap().values().next().unwrap().to_string().replace('"', ""),
    };
    (kind.clone(), violations.iter().map(named).collect())
}

#[test]
fn labelled_failures_are_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    for engine in ["native", "bwrap"] {
        let (mut right, mut told, mut wanted, mut wrong) = (0, 0, 0, Vec::new());
        for case in include_str!("../cases/denials.tsv").lines() {
            let case = case.replace("$PORT", &port);
            let [truth, options, line, target] = case.split('\t').collect::<Vec<_>>().try_into().unwrap();
            let (kind, named) = outcome(&world(), engine, options, line);
            let denied = kind == "denied";
            let is_named = named.iter().any(|name| name.contains(target));
            wanted += usize::from(truth == "denied");
            told += usize::from(denied);
            right += usize::from(truth == "denied" && denied && is_named);
            if (truth == "denied") != denied || denied && !is_named {
                wrong.push(format!("`{line}` is `{truth}`, was `{kind}` with {named:?}"));
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "there are few")]
        let share = |of: usize| right as f64 / of as f64;
        println!("{engine}: precision {:.3}, recall {:.3}", share(told), share(wanted));
        assert!(share(told) >= LEAST && share(wanted) >= LEAST, "{engine}: {}", wrong.join("; "));
    }
}

/// What a command did without is on record, and printed only on request.
/// pr18: a denial that the command hides is told.
#[test]
fn denials_of_a_run_that_ended_well_are_said_on_request() {
    let home = world();
    let line = "touch ../outside/x 2> /dev/null; true";
    let (kind, named) = outcome(&home, "native", "", line);
    assert!(kind == "exited" && named.iter().any(|name| name.ends_with("/outside/x")), "{named:?}");
    let told = home.says(&["run", "--", "sh", "-c", line], 0);
    assert!(!told.stderr.contains("denied"), "{}", told.stderr);
    let told = home.says(&["run", "-v", "--", "sh", "-c", line], 0);
    assert!(told.stderr.contains("/outside/x` was denied: `/` may only be read;"), "{}", told.stderr);
}

/// The violations of a line, as they are in the outcome.
fn violations(home: &Home, engine: &str, options: &[&str], line: &str) -> Vec<Value> {
    let words =
        [&["run", "--engine", engine, "--ask", "never", "--json"], options, &["--", "bash", "-c", line]].concat();
    let output = home.stockade(&words).output().unwrap();
    let outcome: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{line}: {output:?}"));
    let ended = outcome.as_object().unwrap().values().next().unwrap();
    ended.pointer("/execution/violations").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// A call that no policy allows is told with the program that made it, whether or not that says anything.
#[test]
fn refused_calls_are_facts() {
    let home = world();
    for engine in ["native", "bwrap"] {
        for (line, program, call) in [
            ("unshare -Ur true 2> /dev/null || exit 3", "/unshare", "unshare"),
            ("strace -o trace true 2> /dev/null || exit 3", "/strace", "ptrace"),
            (
                "python3 -c 'import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x10000000) != 0)'",
                "/python3",
                "unshare",
            ),
        ] {
            let found = violations(&home, engine, &[], line);
            let [only] = found.as_slice() else { panic!("{engine}: {line}: {found:?}") };
            assert_eq!(only["evidence"], "observed", "{only}");
            assert_eq!(only["target"]["system_call"], call, "{only}");
            assert!(only["program"].as_str().unwrap().contains(program) && only["pid"].is_u64(), "{only}");
            assert_eq!(only["rule"]["layer"]["reason"], "no sandboxed command may use it", "{only}");
        }
        // What the user may not do anyway, words alone, and what was done without.
        for line in [
            "unshare -m true 2> /dev/null || exit 3",
            "echo 'unshare: unshare failed: Operation not permitted' >&2; exit 1",
            "echo 'ptrace: Operation not permitted.' >&2; exit 1",
            "python3 -c 'import pwd; pwd.getpwuid(0)'; exit 1",
        ] {
            assert_eq!(violations(&home, engine, &[], line), Vec::<Value>::new(), "{engine}: {line}");
        }
    }
}

/// The kernel holds this limit without counting. It is seen where a process is to be started, whatever becomes of that.
#[test]
fn a_limit_on_processes_is_a_fact() {
    let home = world();
    let many = "dash -c 'for i in 1 2 3 4 5 6 7 8; do sleep 60 & done' 2> /dev/null";
    for engine in ["native", "bwrap"] {
        for line in [many, &format!("{many}; true")] {
            let found = violations(&home, engine, &["--limit", "pids=7"], line);
            let [only] = found.as_slice() else { panic!("{engine}: {line}: {found:?}") };
            assert!(only["evidence"] == "observed" && only["target"]["limit"] == "processes", "{only}");
            assert!(only["program"].as_str().unwrap().ends_with("dash"), "{only}");
        }
        let words = "true | cat; echo 'bash: cannot fork' >&2; exit 1";
        let enough = violations(&home, engine, &["--limit", "pids=100"], words);
        assert_eq!(enough, Vec::<Value>::new(), "{engine}: the limit was not reached");
    }
}

/// For measuring, and where something else needs the only listener.
#[test]
fn observation_can_be_switched_off() {
    let home = world();
    home.write("config/stockade/config.toml", "observe = false\n");
    home.give_to_user();
    let (kind, named) = outcome(&home, "native", "", "(echo x > ../outside/a.txt) 2> /dev/null");
    assert!(kind == "exited" && named.is_empty(), "{named:?}");
}
