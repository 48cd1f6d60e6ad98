//! The examples run, and print what their text promises.

#![cfg(all(target_os = "linux", feature = "rules"))]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A home and a project of a test's own, not below `/tmp`, which commands have for themselves.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir_in("/var/tmp").unwrap());
        for directory in ["home/.ssh", "project"] {
            fs::create_dir_all(place.path(directory)).unwrap();
        }
        fs::write(place.path("home/.ssh/id_ed25519"), "secret").unwrap();
        place
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(below)
    }

    /// The output of an example in the project, with this input, without the directory's own name.
    #[expect(clippy::disallowed_methods, reason = "the example is started as a person starts it")]
    fn run(&self, example: &str, arguments: &[&str], typed: &str) -> String {
        let program = built(example);
        let mut child = Command::new(program)
            .args(arguments)
            .current_dir(self.path("project"))
            .env_clear()
            .envs([("HOME", self.path("home").to_str().unwrap()), ("PATH", "/usr/bin:/bin")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap().replace(self.path("").to_str().unwrap(), "…/")
    }
}

/// The program of an example. Cargo builds it with all tests of the package, but not with this file's alone.
fn built(example: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let program = own.parent().unwrap().parent().unwrap().join("examples").join(example);
    let source = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples").join(format!("{example}.rs"));
    let changed = |path: &PathBuf| fs::metadata(path).and_then(|found| found.modified()).ok();
    assert!(changed(&program) >= changed(&source), "`{example}` is not built: cargo build -p stockade --examples");
    program
}

#[test]
fn run_one_command() {
    let place = Place::new();
    let line = "echo hello; touch made; touch ../home/no";
    assert_eq!(
        place.run("run_one_command", &["sh", "-c", line], ""),
        "hello\ndenied: writing `…/home/no`\nfailed because it was denied something\n"
    );
    assert!(place.path("project/made").exists() && !place.path("home/no").exists());
    assert_eq!(place.run("run_one_command", &["false"], ""), "exited with 1\n");
}

#[test]
fn ask_in_your_own_words() {
    let place = Place::new();
    let ask = |answer: &str| place.run("ask_in_your_own_words", &["touch", "../made"], answer);
    let question = "May I create …/made?\n";
    assert_eq!(ask("no\n"), format!("{question}That did not work.\n"));
    assert_eq!(ask(""), format!("{question}That did not work.\n"));
    assert!(!place.path("made").exists());
    assert_eq!(ask("yes\n"), format!("{question}Done.\n"));
    assert!(place.path("made").exists());
}

#[test]
fn agent_loop() {
    let place = Place::new();
    let told = place.run("agent_loop", &[], "");
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.first(), Some(&"[runs] echo hello"), "{told}");
    for line in [
        "hello",
        "[asked] run sh -c 'cat ~/.ssh/id_ed25519', with more permissions",
        "(the sandbox denied reading `…/home/.ssh/id_ed25519`)",
        "fn main() {}",
        "[says] I have written main.rs, and your keys are none of my business.",
    ] {
        assert!(lines.contains(&line), "{line}: {told}");
    }
    assert!(!told.contains("secret"), "{told}");
    assert_eq!(fs::read_to_string(place.path("project/main.rs")).unwrap(), "fn main() {}");
    let example = include_str!("../examples/agent_loop.rs");
    let code = example.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with("//"));
    assert!(code.count() <= 60, "it is meant to be short");
}

#[test]
fn build_service() {
    let place = Place::new();
    assert_eq!(
        place.run("build_service", &[], ""),
        "one | true\none: built\ntwo: took too long\none | true\none: built again\n\
         one: failed\nasked 4 times\n"
    );
    assert!(place.path("project/one/done").exists() && !place.path("project/two/planted").exists());
}

#[test]
fn judge_a_line() {
    let place = Place::new();
    let judged = place.run("judge_a_line", &["touch made | wc -l", "git status && rm -rf /"], "");
    assert_eq!(
        judged,
        "touch made | wc -l\n  runs touch made\n  runs wc -l\n  without a question, in the sandbox: true\n\
         git status && rm -rf /\n  runs git status\n  runs rm -rf /\n  asks first: removes everything below `/`\n"
    );
    assert!(!place.path("project/made").exists());
}
