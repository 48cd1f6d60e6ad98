//! The real codex with the hook that `stockade install codex --project` puts into a project, and without
//! `stockade exec-server`: codex runs its commands in its own sandbox, and the hook refuses.

use serde_json::json;

use super::agent;
use super::openai::{Model, Step};
use super::user::User;
use crate::support::{program, run, text};

#[test]
fn what_the_rules_forbid_or_ask_about_is_refused_and_the_model_is_told() {
    let user = User::new();
    let home = &user.home;
    let rules = "prefix_rule(pattern = [\"git\", \"push\"], decision = \"forbidden\", justification = \"a person pushes\")\n\
        prefix_rule(pattern = [\"touch\"], decision = \"prompt\", justification = \"files are made by hand\")\n";
    home.write("config/stockade/rules/mine.rules", rules);
    let run_line = |line: &'static str| Step::Run(line, json!({"login": false}));
    let own_file = home.path("config/stockade/config.toml");
    let patch = format!(
        "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: {}\n+[sandbox]\n*** End Patch\nEOF",
        own_file.display()
    );
    let model = Model::new([
        run_line("echo in > inside.txt; cat inside.txt"),
        run_line("git push"),
        run_line("cd . && touch asked.txt"),
        run_line(patch.leak()),
        Step::Say("done"),
    ]);
    let trusted = format!("[projects.{:?}]\ntrust_level = \"trusted\"\n", home.path("ws").to_str().unwrap());
    home.write("home/.codex/config.toml", &(model.settings() + &trusted));
    let told = text(&run(&mut user.stockade(&["install", "codex", "--project"]), 0).stdout);
    assert!(told.contains("it puts no command into Stockade's sandbox"), "{told}");
    let mut codex = program(agent(".bin/codex"));
    user.surround(&mut codex);
    codex.env("STAND_IN_KEY", "none").env("CODEX_HOME", home.path("home/.codex"));
    // A person would review the hook on codex's screen, once. codex's own sandbox is off: only the hook is left.
    codex.args(["exec", "--skip-git-repo-check", "--dangerously-bypass-hook-trust"]);
    codex.args(["--sandbox", "danger-full-access", "do it"]).stdin(std::process::Stdio::null());
    let output = run(&mut codex, 0);
    let outputs = model.outputs();
    let [inside, pushed, asked, patched] = &*outputs else {
        panic!("{outputs:#?}\n{}{}", text(&output.stdout), text(&output.stderr))
    };
    assert!(inside.contains("in\n"), "{inside}");
    assert_eq!(home.read("ws/inside.txt"), "in\n");
    assert!(pushed.contains("Stockade refuses it") && pushed.contains("a person pushes"), "{pushed}");
    assert!(asked.contains("files are made by hand") && asked.contains("codex can't ask for a hook"), "{asked}");
    assert!(!home.exists("ws/asked.txt"));
    assert!(patched.contains("Stockade"), "{patched}");
    assert!(!own_file.exists());
    user.stockade(&["session", "end", "--all"]).output().unwrap();
    run(&mut home.stockade(&["audit", "verify"]), 0);
}
