//! opencode, as it is published, with the shell that `stockade install opencode` puts into its settings.

use std::ops::Deref;
use std::process::Stdio;

use serde_json::{Value, json};

use super::agent;
use super::anthropic::Model;
use super::user::User;
use crate::running::home::Home;
use crate::support::{program, run, text};

/// A user with opencode and Stockade.
struct Opencode {
    user: User,
    model: Model,
}

impl Deref for Opencode {
    type Target = User;

    fn deref(&self) -> &User {
        &self.user
    }
}

impl Opencode {
    fn new(home: Home, script: Vec<(&'static str, Value)>) -> Self {
        let model = Model::start(script);
        let address = format!("http://{}/v1", model.address);
        let name = "anthropic/claude-sonnet-4-5";
        let settings = json!({
            "model": name, "small_model": name, "share": "disabled",
            "provider": { "anthropic": { "options": { "baseURL": address, "apiKey": "none" } } },
        });
        home.write("config/opencode/opencode.json", &settings.to_string());
        let user = User::at(home);
        run(&mut user.stockade(&["install", "opencode"]), 0);
        Self { user, model }
    }

    /// Has opencode go through the script, and returns what each tool answered.
    fn calls(&self, count: usize) -> Vec<String> {
        let mut command = program(agent("opencode-linux-x64-baseline/bin/opencode"));
        self.surround(&mut command);
        command.args(["run", "do it"]).stdin(Stdio::null());
        for name in ["MODELS_FETCH", "AUTOUPDATE", "LSP_DOWNLOAD", "SHARE"] {
            command.env(format!("OPENCODE_DISABLE_{name}"), "1");
        }
        // It installs a package beside its settings at each start, and goes on without it.
        command.env("NPM_CONFIG_REGISTRY", format!("http://{}/", self.model.address));
        let output = run(&mut command, 0);
        let results = self.model.results();
        assert_eq!(results.len(), count, "{results:#?}\n{}{}", text(&output.stdout), text(&output.stderr));
        results
    }
}

fn bash(line: &str) -> (&'static str, Value) {
    ("bash", json!({ "command": line, "description": "does it" }))
}

#[test]
fn writes_inside_happen_and_writes_outside_are_explained_to_the_model() {
    let home = Home::new();
    std::fs::create_dir(home.path("ws/sub")).unwrap();
    home.write("ws/.env", "PLANTED=yes\n");
    let rules = "prefix_rule(pattern = [\"touch\"], decision = \"prompt\", justification = \"files are made by hand\")\n\
        prefix_rule(pattern = [\"git\", \"push\"], decision = \"forbidden\", justification = \"a person pushes\")\n";
    home.write("config/stockade/rules/mine.rules", rules);
    let mut below = bash("echo sub > \"$PWD/made\"; echo up > ../made; basename \"$PWD\"");
    below.1["workdir"] = json!(home.path("ws/sub"));
    let user = Opencode::new(
        home,
        vec![
            // The first line begins below the workspace, which is opencode's own directory all the same.
            below,
            bash(
                "echo in > inside.txt && echo \"it's \\$done\"; place=/tmp; echo kept > \"$place/between\"; echo \"from a file: $PLANTED.\"",
            ),
            // What would be settings of opencode at its next start.
            bash("mkdir -p .opencode; echo '{}' > .opencode/opencode.json; echo after"),
            bash("place=/tmp; cat \"$place/between\"; echo out > \"$PWD/../outside/x\"; exit 7"),
            bash("touch asked.txt"),
            bash("git push"),
            ("write", json!({ "filePath": "written.txt", "content": "by a tool\n" })),
        ],
    );
    let results = user.calls(7);
    let [below, inside, planted, denied, asked, refused, written] = &*results else { panic!("{results:#?}") };
    assert!(below.contains("sub"), "{below}");
    assert_eq!((&*user.home.read("ws/sub/made"), &*user.home.read("ws/made")), ("sub\n", "up\n"), "{below}");
    assert_eq!(user.home.read("ws/inside.txt"), "in\n");
    assert!(inside.contains("it's $done") && inside.contains("from a file: ."), "{inside}");
    assert!(planted.contains("after") && !user.home.exists("ws/.opencode/opencode.json"), "{planted}");
    assert!(!user.home.exists("outside/x"));
    for part in ["kept", "outside/x` was denied", "writable_roots = [", "would allow it"] {
        assert!(denied.contains(part), "{denied}");
    }
    assert!(asked.contains("files are made by hand") && !user.home.exists("ws/asked.txt"), "{asked}");
    assert!(refused.contains("a person pushes"), "{refused}");
    assert_eq!(user.home.read("ws/written.txt"), "by a tool\n", "{written}");
    run(&mut user.stockade(&["audit", "verify"]), 0);
    let trail = text(&run(&mut user.stockade(&["audit", "list"]), 0).stdout);
    assert!(trail.contains("inside.txt"), "{trail}");
    let wired = text(&run(&mut user.stockade(&["doctor"]), 0).stdout);
    assert!(wired.contains("opencode") && wired.contains("its shell runs a line"), "{wired}");
    // A project that names a shell of its own is told.
    user.home.write("ws/opencode.json", "{ \"shell\": \"/bin/bash\" }");
    let wired = text(&user.stockade(&["doctor"]).output().unwrap().stdout);
    assert!(wired.contains("names another shell for this project, `/bin/bash`"), "{wired}");
}

/// A yes for the session, given by another client of it, holds for the agent's next command.
#[test]
fn a_yes_for_the_session_is_kept() {
    let home = Home::new();
    let line = "echo x >> \"$PWD/../outside/x\"";
    let wait = "until test -e go; do sleep 0.1; done";
    let outside = home.path("outside/x");
    let user = Opencode::new(home, vec![bash(wait), bash(line), bash(line)]);
    user.says_yes_for_the_session("opencode");
    let results = user.calls(3);
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "x\nx\n", "{results:#?}");
    run(&mut user.stockade(&["audit", "verify"]), 0);
}
