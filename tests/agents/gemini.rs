//! gemini-cli, as it is published, with the hook that `stockade install gemini` puts into its settings.

use std::ops::Deref;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::agent;
use super::google::Model;
use super::user::User;
use crate::support::{program, run, text};
use stockade_tests::screen::Screen;

/// A user with gemini-cli and Stockade.
struct Gemini {
    user: User,
}

impl Deref for Gemini {
    type Target = User;

    fn deref(&self) -> &User {
        &self.user
    }
}

impl Gemini {
    fn new() -> Self {
        let user = User::new();
        let settings = json!({
            "general": { "disableAutoUpdate": true }, "privacy": { "usageStatisticsEnabled": false },
            "security": { "auth": { "selectedType": "gemini-api-key" } },
        });
        user.home.write("home/.gemini/settings.json", &settings.to_string());
        run(&mut user.stockade(&["install", "gemini"]), 0);
        assert!(user.home.read("home/.gemini/settings.json").contains(" hook gemini"));
        Self { user }
    }

    /// gemini-cli without a question to the model: a named one, since gemini-cli has another one choose otherwise.
    fn gemini(&self, model: &Model) -> Command {
        let mut command = program("node");
        self.surround(&mut command);
        command.arg(agent("@google/gemini-cli/bundle/gemini.js"));
        command.args(["--skip-trust", "--yolo", "--model", "gemini-2.5-pro"]).env("GEMINI_CLI_NO_RELAUNCH", "1");
        command.env("GEMINI_API_KEY", "none").env("GOOGLE_GEMINI_BASE_URL", format!("http://{}", model.address));
        command
    }

    /// Has gemini-cli call these tools, and returns what each of them answered.
    fn calls(&self, script: Vec<(&'static str, Value)>) -> Vec<String> {
        let count = script.len();
        let model = Model::start(script);
        let output = run(self.gemini(&model).args(["--prompt", "do it"]).stdin(Stdio::null()), 0);
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
    let user = Gemini::new();
    std::fs::create_dir(user.home.path("ws/sub")).unwrap();
    user.home.write("ws/.env", "PLANTED=yes\n");
    let rules = "prefix_rule(pattern = [\"touch\"], decision = \"prompt\", justification = \"files are made by hand\")\n\
        prefix_rule(pattern = [\"git\", \"push\"], decision = \"forbidden\", justification = \"a person pushes\")\n";
    user.home.write("config/stockade/rules/mine.rules", rules);
    let outside = user.home.path("outside/x").display().to_string();
    let write = |path: &str| ("write_file", json!({ "file_path": user.home.path(path), "content": "by a tool\n" }));
    let results = user.calls(vec![
        shell("echo in > inside.txt && echo \"it's \\$done\"; echo \"from a file: $PLANTED.\""),
        // What would be settings of gemini-cli at its next start.
        shell("mkdir -p .gemini; echo '{}' > .gemini/settings.json; echo after"),
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
    let [inside, planted, denied, moved, failed, asked, refused, written, protected, fetched] = &*results else {
        panic!("{results:#?}")
    };
    assert_eq!(user.home.read("ws/inside.txt"), "in\n");
    assert!(inside.contains("from a file: ."), "{inside}");
    assert!(planted.contains("after") && !user.home.exists("ws/.gemini/settings.json"), "{planted}");
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
    let user = Gemini::new();
    let outside = user.home.path("outside/x");
    let line = format!("echo x >> {}", outside.display());
    user.says_yes_for_the_session("gemini");
    let wait = "until test -e go; do sleep 0.1; done";
    let results = user.calls(vec![shell(wait), shell(&line), shell(&line)]);
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "x\nx\n", "{results:#?}");
    run(&mut user.stockade(&["audit", "verify"]), 0);
}

/// A question is put on gemini-cli's screen, with Stockade's reason, also with `--yolo`, and the answer there counts.
#[test]
fn what_the_policy_asks_is_asked_on_the_screen() {
    let user = Gemini::new();
    let rule =
        "prefix_rule(pattern = [\"touch\"], decision = \"prompt\", justification = \"files are made by hand\")\n";
    user.home.write("config/stockade/rules/mine.rules", rule);
    for (keys, is_made) in [("\r", true), ("\u{1b}", false)] {
        let name = if is_made { "yes.txt" } else { "no.txt" };
        let model = Model::start(vec![shell(&format!("touch {name}"))]);
        let mut screen = Screen::open();
        screen.answers_after = None;
        // A terminal of its own, as a person's is.
        let (gemini, mut command) = (user.gemini(&model), program("setsid"));
        user.surround(&mut command);
        command.envs(gemini.get_envs().filter_map(|(name, value)| Some((name, value?)))).env("TERM", "xterm-256color");
        command.args(["--ctty", "--wait"]).arg(gemini.get_program()).args(gemini.get_args());
        screen.start(command.args(["--prompt-interactive", "do it"]));
        screen.sees("files are made by hand");
        screen.sees("Allow once");
        assert!(!user.home.exists(&format!("ws/{name}")), "it was done before the answer");
        // gemini-cli takes no key for a moment, so that one is not meant for what was shown before.
        std::thread::sleep(Duration::from_secs(2));
        screen.types(keys);
        let end = Instant::now() + Duration::from_secs(20);
        while is_made && !user.home.exists(&format!("ws/{name}")) && Instant::now() < end {
            screen.look(Duration::from_millis(100));
        }
        if !is_made {
            screen.sees("cancelled");
        }
        assert_eq!(user.home.exists(&format!("ws/{name}")), is_made, "{}", screen.seen);
    }
}
