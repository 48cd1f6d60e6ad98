//! The real codex, whose commands and files go through `stockade exec-server`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::agent;
use super::openai::{Model, Step};
use crate::running::home::Home;
use crate::serving::talk::Talk;
use crate::support::{program, run, text};

/// A person with codex, set up as docs/agents.md says.
pub(super) struct Person {
    pub(super) home: Home,
    model: Model,
}

impl Person {
    pub(super) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        Self::with(&[], steps)
    }

    /// With arguments of `stockade exec-server`.
    fn with(arguments: &[&str], steps: impl IntoIterator<Item = Step>) -> Self {
        let (home, model) = (Home::new(), Model::new(steps));
        run(program("git").args(["init", "--quiet"]).arg(home.path("ws")), 0);
        home.write("home/.codex/config.toml", &model.settings());
        let person = Self { home, model };
        let arguments: Vec<PathBuf> = ["exec-server"].iter().chain(arguments).map(PathBuf::from).collect();
        person.served_by(&person.home.path("stockade"), &arguments);
        person
    }

    /// Has codex start this as its exec-server.
    pub(super) fn served_by(&self, program: &Path, arguments: &[PathBuf]) {
        let environments = format!(
            "default = \"stockade\"\ninclude_local = false\n\n[[environments]]\nid = \"stockade\"\nprogram = {program:?}\n\
             args = {arguments:?}\n"
        );
        self.home.write("home/.codex/environments.toml", &environments);
    }

    fn codex(&self, arguments: &[&str]) -> Command {
        let mut codex = program(agent(".bin/codex"));
        self.home.surround(&mut codex);
        let node = std::env::var("PATH").unwrap_or_default();
        codex.env("PATH", format!("{node}:/usr/local/bin:/usr/bin:/bin"));
        codex.env("STAND_IN_KEY", "none").env("CODEX_HOME", self.home.path("home/.codex")).args(arguments);
        codex.stdin(std::process::Stdio::null());
        codex
    }

    /// `codex exec` in a sandbox of codex's: what it prints.
    pub(super) fn exec(&self, sandbox: &str) -> String {
        let output = run(&mut self.codex(&["exec", "--sandbox", sandbox, "do it"]), 0);
        text(&output.stdout) + &text(&output.stderr)
    }

    /// What the tool said to the model, the first time.
    pub(super) fn said(&self) -> String {
        self.model.outputs().first().cloned().unwrap_or_default()
    }
}

pub(super) fn line(line: &'static str) -> Step {
    Step::Run(line, json!({"login": false}))
}

pub(super) const DONE: Step = Step::Say("done");

#[test]
fn a_write_inside_is_there_one_outside_is_not_and_the_model_is_told_why() {
    let outside = Home::new();
    let target = outside.path("outside/agent-was-here");
    let command = format!("echo hi > inside; cat inside; echo x > {}", target.display());
    let person = Person::new([line(command.leak()), DONE]);
    person.exec("workspace-write");
    assert_eq!(person.home.read("ws/inside"), "hi\n");
    assert!(!target.exists());
    let said = person.said();
    for wanted in ["hi\n", "stockade: writing `", "/outside/agent-was-here` was denied", "`--writable "] {
        assert!(said.contains(wanted), "{wanted:?} in {said}");
    }
    // What was done is on record, in a trail that is whole.
    let trail = person.home.says(&["audit", "list"], 0).stdout;
    assert!(trail.contains("agent-was-here"), "{trail}");
    person.home.says(&["audit", "verify"], 0);
    // Nothing of the sandbox is left in the workspace, soon after codex has gone.
    let left = || {
        let names = std::fs::read_dir(person.home.path("ws")).unwrap();
        let mut names: Vec<String> = names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let began = Instant::now();
    while left() != [".git", "inside"] && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(left(), [".git", "inside"]);
}

#[test]
fn the_stricter_of_both_sandboxes_holds() {
    // codex's is stricter: read-only in a session that may write.
    let person = Person::new([line("echo x > inside"), DONE]);
    person.exec("read-only");
    assert!(!person.home.exists("ws/inside"));
    assert!(person.said().contains("the sandbox that codex asked for does not allow it"), "{}", person.said());
    // Stockade's is stricter, also where codex has none.
    for sandbox in ["workspace-write", "danger-full-access"] {
        let person = Person::with(&["--sandbox", "read-only"], [line("echo x > inside; echo y > ../outside/y"), DONE]);
        person.exec(sandbox);
        assert!(!person.home.exists("ws/inside") && !person.home.exists("outside/y"), "{sandbox}");
        assert!(person.said().contains("`--sandbox workspace-write` would allow it"), "{}", person.said());
    }
}

#[test]
fn long_output_arrives_whole_and_in_order() {
    let person = Person::new([
        Step::Run("seq 1 200000 | tee all | tail -n 1; wc -c < all", json!({"login": false})),
        Step::Run("seq 1 200000", json!({"login": false, "max_output_tokens": 10_000_000})),
        DONE,
    ]);
    person.exec("workspace-write");
    let outputs = person.model.outputs();
    assert!(outputs[0].contains("200000\n1288895\n"), "{}", outputs[0]);
    let is_number = |line: &&str| line.bytes().all(|byte| byte.is_ascii_digit()) && !line.is_empty();
    let numbers: Vec<u32> = outputs[1].lines().filter(is_number).map(|line| line.parse().unwrap()).collect();
    assert!(numbers.len() > 1000 && numbers.is_sorted(), "{} numbers", numbers.len());
    assert_eq!((numbers.first(), numbers.last()), (Some(&1), Some(&200_000)));
}

#[test]
fn a_command_has_a_terminal_is_typed_to_and_interrupted() {
    let on_terminal = json!({"login": false, "tty": true, "yield_time_ms": 1500});
    let person = Person::new([
        Step::Run("test -t 0 && test -t 1 && read -r word && echo got-$word && sleep 600", on_terminal),
        Step::Type("salut\n"),
        Step::Type("\u{3}"),
        DONE,
    ]);
    person.exec("workspace-write");
    let outputs = person.model.outputs();
    assert!(outputs[1].contains("got-salut"), "{outputs:?}");
    assert!(outputs[2].contains("exited with code"), "{outputs:?}");
}

#[test]
fn a_patch_is_written_inside_and_refused_outside() {
    let patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: made.txt\n+by a patch\n*** End Patch\nEOF";
    let outside = Home::new();
    let target = outside.path("outside/made.txt");
    let other = format!(
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {}\n+by a patch\n*** End Patch\nEOF",
        target.display()
    );
    let person = Person::new([line(patch), line(other.leak()), DONE]);
    // codex refuses by itself to write outside of its own sandbox, so that its sandbox is off here and Stockade's is left.
    let printed = person.exec("danger-full-access");
    assert_eq!(person.home.read("ws/made.txt"), "by a patch\n", "{printed}");
    assert!(!target.exists());
    let own = Person::new([line(patch), DONE]);
    own.exec("workspace-write");
    assert_eq!(own.home.read("ws/made.txt"), "by a patch\n", "{}", own.said());
    // codex leaves out why.
    let said = person.model.outputs()[1].clone();
    assert!(said.contains("Failed to write file"), "{said}");
}

/// codex as an editor drives it, with a person who says yes.
struct Editor {
    talk: Talk,
    thread: Value,
    approvals: usize,
}

impl Editor {
    fn new(person: &Person, sandbox: &str) -> Self {
        let mut talk = Talk::with(&mut person.codex(&["app-server"]));
        talk.call("initialize", &json!({"clientInfo": {"name": "test", "version": "1"}}));
        talk.line(r#"{"method":"initialized"}"#);
        let params = json!({"approvalPolicy": "on-request", "sandbox": sandbox, "cwd": person.home.path("ws")});
        let thread = talk.call("thread/start", &params)["thread"]["id"].clone();
        Self { talk, thread, approvals: 0 }
    }

    fn begin(&mut self) -> Value {
        let params = json!({"threadId": self.thread, "input": [{"type": "text", "text": "go"}]});
        self.talk.call("turn/start", &params)["turn"]["id"].clone()
    }

    /// Says yes to everything until the turn is over: how it ended.
    fn until_over(&mut self) -> String {
        loop {
            let message = self.talk.told_any();
            let method = message["method"].as_str().unwrap();
            if method.ends_with("/requestApproval") {
                self.approvals += 1;
                self.talk.answer(&message, &json!({"decision": "accept"}));
            }
            if method == "turn/completed" {
                return message["params"]["turn"]["status"].as_str().unwrap().to_owned();
            }
        }
    }
}

#[test]
fn what_a_person_approves_in_codex_lifts_its_sandbox_and_not_stockades() {
    let approved = json!({"login": false, "sandbox_permissions": "require_escalated", "justification": "May I?"});
    let person = Person::new([
        line("echo first > inside"),
        DONE,
        Step::Run("echo second > inside; cat inside; echo out > ../outside/x", approved),
        DONE,
    ]);
    let mut editor = Editor::new(&person, "read-only");
    editor.begin();
    assert_eq!((editor.until_over().as_str(), editor.approvals), ("completed", 0));
    assert!(!person.home.exists("ws/inside"));
    editor.begin();
    assert_eq!((editor.until_over().as_str(), editor.approvals), ("completed", 1));
    assert_eq!(person.home.read("ws/inside"), "second\n");
    assert!(!person.home.exists("outside/x"));
    let outputs = person.model.outputs();
    assert!(outputs[0].contains("the sandbox that codex asked for does not allow it"), "{outputs:?}");
    assert!(outputs[1].contains("second\n") && outputs[1].contains("`--writable "), "{outputs:?}");
}

#[test]
fn a_turn_that_is_interrupted_ends_its_command() {
    let running = json!({"login": false, "yield_time_ms": 30_000});
    let person = Person::new([Step::Run("while :; do date +%N > alive; sleep 0.05; done", running), DONE]);
    let mut editor = Editor::new(&person, "workspace-write");
    let turn = editor.begin();
    let began = Instant::now();
    while !person.home.exists("ws/alive") {
        assert!(began.elapsed() < Duration::from_secs(60), "it did not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    editor.talk.call("turn/interrupt", &json!({"threadId": editor.thread, "turnId": turn}));
    assert_eq!(editor.until_over(), "interrupted");
    let still = || {
        let before = person.home.read("ws/alive");
        std::thread::sleep(Duration::from_millis(400));
        before == person.home.read("ws/alive")
    };
    while !still() {
        assert!(began.elapsed() < Duration::from_secs(60), "it still runs");
    }
}
