//! gemini-cli, as it is published, with the hook that `stockade install gemini` puts into its settings.

use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::agent;
use super::claude_code::says_yes_for_the_session;
use super::google::Model;
use crate::running::home::Home;
use crate::support::{program, run, text};

/// A user with gemini-cli and Stockade.
struct User {
    home: Home,
}

impl Drop for User {
    fn drop(&mut self) {
        self.stockade(&["session", "end", "--all"]).output().ok();
    }
}

impl User {
    fn new() -> Self {
        let home = Home::new();
        std::fs::create_dir(home.path("run")).unwrap();
        std::fs::set_permissions(home.path("run"), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        let settings = json!({
            "general": { "disableAutoUpdate": true }, "privacy": { "usageStatisticsEnabled": false },
            "security": { "auth": { "selectedType": "gemini-api-key" } },
        });
        home.write("home/.gemini/settings.json", &settings.to_string());
        let user = Self { home };
        run(&mut user.stockade(&["install", "gemini"]), 0);
        assert!(user.home.read("home/.gemini/settings.json").contains(" hook gemini"));
        user
    }

    fn stockade(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.stockade(arguments);
        command.env("XDG_RUNTIME_DIR", self.home.path("run"));
        command
    }

    /// Has gemini-cli call these tools, and returns what each of them answered.
    fn calls(&self, script: Vec<(&'static str, Value)>) -> Vec<String> {
        let count = script.len();
        let model = Model::start(script);
        let mut command = program("node");
        self.home.surround(&mut command);
        let node = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{node}:/usr/local/bin:/usr/bin:/bin"));
        command.arg(agent("@google/gemini-cli/bundle/gemini.js"));
        // A named model, since gemini-cli has another one choose otherwise.
        command.args(["--skip-trust", "--yolo", "--model", "gemini-2.5-pro", "--prompt", "do it"]);
        command.env("XDG_RUNTIME_DIR", self.home.path("run")).env("GEMINI_CLI_NO_RELAUNCH", "1");
        command.env("GEMINI_API_KEY", "none").env("GOOGLE_GEMINI_BASE_URL", format!("http://{}", model.address));
        let output = run(command.stdin(Stdio::null()), 0);
        let results = model.results();
        assert_eq!(results.len(), count, "{results:#?}\n{}{}", text(&output.stdout), text(&output.stderr));
        results
    }
}

fn shell(line: &str) -> (&'static str, Value) {
    ("run_shell_command", json!({ "command": line }))
}

#[test]
fn writes_inside_happen_and_writes_outside_are_explained_to_the_model() {
    let user = User::new();
    std::fs::create_dir(user.home.path("ws/sub")).unwrap();
    let rules = "prefix_rule(pattern = [\"touch\"], decision = \"prompt\", justification = \"files are made by hand\")\n\
        prefix_rule(pattern = [\"git\", \"push\"], decision = \"forbidden\", justification = \"a person pushes\")\n";
    user.home.write("config/stockade/rules/mine.rules", rules);
    let outside = user.home.path("outside/x").display().to_string();
    let write = |path: &str| ("write_file", json!({ "file_path": user.home.path(path), "content": "by a tool\n" }));
    let results = user.calls(vec![
        shell("echo in > inside.txt && echo \"it's \\$done\""),
        shell(&format!("echo out > {outside}")),
        // gemini-cli refuses lines with substitutions, also those of its hooks.
        shell("cd sub && echo \"moved to $(basename \"$PWD\")\"; echo kept > /tmp/between"),
        shell("basename \"$PWD\"; cat /tmp/between; exit 7"),
        shell("touch asked.txt"),
        shell("git push"),
        write("ws/written.txt"),
        write("ws/.claude/settings.json"),
        ("web_fetch", json!({ "prompt": "what does https://127.0.0.1:1/ say" })),
    ]);
    let [inside, denied, moved, failed, asked, refused, written, protected, fetched] = &*results else {
        panic!("{results:#?}")
    };
    assert_eq!(user.home.read("ws/inside.txt"), "in\n");
    assert!(inside.contains("it's $done"), "{inside}");
    assert!(!user.home.exists("outside/x"));
    for part in [&format!("stockade: writing `{outside}` was denied"), "writable_roots = [", "would allow it"] {
        assert!(denied.contains(part), "{denied}");
    }
    assert!(moved.contains("moved to sub"), "{moved}");
    // Each line of gemini-cli starts in the workspace; `/tmp` is the session's.
    assert!(failed.contains("ws\nkept") && failed.contains("Exit Code: 7"), "{failed}");
    assert!(asked.contains("files are made by hand") && asked.contains("can't ask here"), "{asked}");
    assert!(!user.home.exists("ws/asked.txt"));
    assert!(refused.contains("a person pushes"), "{refused}");
    assert_eq!(user.home.read("ws/written.txt"), "by a tool\n", "{written}");
    assert!(!user.home.exists("ws/.claude/settings.json"), "{protected}");
    assert!(protected.contains("Stockade asks"), "{protected}");
    assert!(fetched.contains("Stockade") && fetched.contains("127.0.0.1"), "{fetched}");
    run(&mut user.stockade(&["audit", "verify"]), 0);
    let trail = text(&run(&mut user.stockade(&["audit", "list"]), 0).stdout);
    assert!(trail.contains("inside.txt"), "{trail}");
}

/// A yes for the session, given by another client of it, holds for the agent's next command.
#[test]
fn a_yes_for_the_session_is_kept() {
    let user = User::new();
    let outside = user.home.path("outside/x");
    let line = format!("echo x >> {}", outside.display());
    let (tickets, go) = (user.home.path("run/stockade"), user.home.path("ws/go"));
    let answering = std::thread::spawn(move || {
        let end = Instant::now() + Duration::from_secs(60);
        let ticket = loop {
            let files = std::fs::read_dir(&tickets).into_iter().flatten().map(|entry| entry.unwrap().path());
            let mut found = files.filter(|path| path.extension().is_some_and(|end| end == "session"));
            if let Some(ticket) = found.next() {
                break ticket;
            }
            assert!(Instant::now() < end, "there is no session");
            std::thread::sleep(Duration::from_millis(50));
        };
        let ticket: Value = serde_json::from_str(&std::fs::read_to_string(ticket).unwrap()).unwrap();
        let socket = UnixStream::connect(tickets.join("serve.sock")).unwrap();
        std::fs::write(go, "").unwrap();
        says_yes_for_the_session(&socket, &ticket);
    });
    let wait = "until test -e go; do sleep 0.1; done";
    let results = user.calls(vec![shell(wait), shell(&line), shell(&line)]);
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "x\nx\n", "{results:#?}");
    // It ends with the server, a minute after the last session.
    drop(answering);
    run(&mut user.stockade(&["audit", "verify"]), 0);
}
