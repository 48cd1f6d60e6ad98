//! Who says what holds: flags, files, profiles, rules, trust.

use super::home::{Home, said};
use crate::support::program;

#[test]
fn flags_are_over_profiles_and_profiles_over_the_rest() {
    let home = Home::new();
    let config =
        "[env.set]\nWHO = \"file\"\n[profiles.careful]\nsandbox.mode = \"read-only\"\nenv.set.WHO = \"profile\"\n";
    home.write("config/stockade/config.toml", config);
    assert_eq!(home.runs(&[], "echo $WHO; touch a", 0).stdout, "file\n");
    let told = home.runs(&["--profile", "careful"], "echo $WHO; touch b", 1);
    assert!(told.stdout == "profile\n" && !home.exists("ws/b"), "{}", told.stdout);
    let flags = ["--profile", "careful", "--sandbox", "workspace-write", "--env", "WHO=flag"];
    assert_eq!(home.runs(&flags, "echo $WHO; touch b", 0).stdout, "flag\n");
    let told = home.runs(&["--profile", "carefull"], "true", 125);
    assert!(told.stderr.contains("carefull"), "{}", told.stderr);
    home.write("config/stockade/config.toml", "[sandbox]\nwriteable_roots = []\n");
    let told = home.runs(&[], "true", 125);
    assert!(told.stderr.contains("did you mean `writable_roots`?"), "{}", told.stderr);
}

#[test]
fn rules_are_read_from_the_files_that_are_named() {
    let home = Home::new();
    home.write("team.rules", "prefix_rule(pattern=[\"touch\"], decision=\"forbidden\", justification=\"use make\")\n");
    let told = home.runs(&["--rules", "../team.rules"], "echo a && touch made", 126);
    assert!(told.stderr.contains("refused: a rule (") && told.stderr.contains("team.rules:1:1) forbids `touch made`"));
    assert!(told.stderr.contains("use make") && told.stdout.is_empty() && !home.exists("ws/made"), "{}", told.stderr);
    home.write("broken.rules", "prefix_rule(pattern=[)\n");
    let told = home.runs(&["--rules", "../broken.rules"], "true", 125);
    assert!(told.stderr.contains("broken.rules:1"), "{}", told.stderr);
    // What a rule allows may leave the sandbox; a hard denial keeps it in.
    home.write("outside/f", "");
    home.write("allow.rules", "prefix_rule(pattern=[\"touch\"])\n");
    home.says(&["run", "--rules", "../allow.rules", "--", "touch", "../outside/made"], 0);
    assert!(home.exists("outside/made"));
    let confined = ["run", "--rules", "../allow.rules", "--deny-read", "x", "--", "touch", "../outside/other"];
    home.says(&confined, 1);
    assert!(!home.exists("outside/other"));
}

#[test]
fn questions_are_refused_by_category() {
    let home = Home::new();
    home.write("ask.rules", "prefix_rule(pattern=[\"touch\"], decision=\"prompt\")\n");
    for (ask, words) in [
        ("reject=rules", "approval policy rejected rule approval prompt"),
        ("never", "the approval policy is `never`, so nobody is asked"),
    ] {
        let told = home.runs(&["--rules", "../ask.rules", "--ask", ask], "touch made", 126);
        assert!(told.stderr.contains(words), "{ask}: {}", told.stderr);
    }
    let told = home.runs(&["--ask", "reject=sandbox_approval", "--unsandboxed"], "touch made", 126);
    assert!(told.stderr.contains("approval policy rejected sandbox approval prompt"), "{}", told.stderr);
    let told = home.runs(&["--ask", "reject=everything"], "touch made", 125);
    assert!(told.stderr.contains("no category is called `everything`"), "{}", told.stderr);
    assert!(!home.exists("ws/made"));
}

/// or16: what a workspace brings along counts once a person vouches for it, and as long as it stays
/// as it is.
#[test]
fn a_projects_own_rules_and_settings_need_trust() {
    let home = Home::new();
    home.write("ws/.stockade/rules/a.rules", "prefix_rule(pattern=[\"touch\"])\n");
    home.write("ws/.stockade/config.toml", "[env.set]\nWHO = \"project\"\n");
    let leave = ["run", "--", "touch", "../outside/made"];
    let told = home.says(&leave, 1);
    assert!(told.stderr.contains("are not used: look at them, then run `stockade trust"), "{}", told.stderr);
    assert!(!home.exists("outside/made"));
    home.says(&["trust"], 0);
    assert_eq!(home.runs(&[], "echo $WHO", 0).stdout, "project\n");
    home.says(&leave, 0);
    assert!(home.exists("outside/made"));
    // The sandbox keeps a command from writing rules for the next one.
    let told = home.runs(&[], "echo 'prefix_rule(pattern=[\"rm\"])' >> .stockade/rules/a.rules", 2);
    assert!(told.stderr.contains(".stockade` is protected from writing"), "{}", told.stderr);
    // Whoever changes them from outside has to be vouched for again.
    home.write("ws/.stockade/rules/b.rules", "prefix_rule(pattern=[\"rm\"])\n");
    let told = home.says(&["run", "--", "touch", "../outside/other"], 1);
    assert!(told.stderr.contains("b.rules"), "{}", told.stderr);
    assert!(!home.exists("outside/other"));
}

/// What an engine can't hold is refused, unless it is accepted by name; then the report says so.
#[test]
fn a_loss_is_accepted_by_name_or_not_at_all() {
    let home = Home::new();
    let refused = home.runs(&["--engine", "landlock"], "touch made", 125).stderr;
    assert!(refused.contains("accept the loss of `protected_metadata`"), "{refused}");
    let losses = ["protected_metadata", "private_directories", "credentials"];
    let accepted: Vec<&str> = losses.iter().flat_map(|loss| ["--accept", loss]).collect();
    let told =
        home.runs(&[&["--engine", "landlock", "--json"], accepted.as_slice()].concat(), "echo x > made", 0).stdout;
    assert!(told.contains("protected_metadata") && told.contains("not_enforced"), "{told}");
    assert!(home.exists("ws/made"));
    for (options, words) in [
        (&["--accept", "protected_metadata"][..], "the engine `auto` can't do without `protected_metadata`"),
        (&["--engine", "landlock", "--accept", "credential"], "`protected_metadata`, `read_only_parts`, `credentials`"),
        // What a person denied is hard.
        (&["--engine", "landlock", "--accept", "denied_reads"], "can't do without `denied_reads`"),
    ] {
        let told = home.runs(options, "touch other", 125).stderr;
        assert!(told.contains(words), "{told}");
    }
    assert!(!home.exists("ws/other"));
}

/// Whoever may not exceed a maximum may not do without what holds it.
#[test]
fn nothing_is_accepted_under_a_maximum() {
    let home = Home::new();
    let is_root = rustix::process::geteuid().is_root();
    let mut command = program("unshare");
    command.args(if is_root { ["--mount"].as_slice() } else { &["--map-root-user", "--mount"] });
    // What can't be read of it is not needed.
    let system = "cp -r /etc \"$1\" 2>/dev/null; mkdir -p \"$1/stockade\" && echo 'sandbox.mode = \"workspace-write\"' > \"$1/stockade/maximum.toml\" && \
                  mount --bind \"$1\" /etc && shift && exec setsid --wait \"$@\"";
    command.args(["sh", "-c", system, "sh"]).arg(home.path("etc")).args(home.words());
    command.args(["run", "--ask", "never", "--engine", "landlock", "--accept", "protected_metadata", "--", "true"]);
    home.surround(&mut command);
    let told = said(command.stdin(std::process::Stdio::null()), 125).stderr;
    assert!(told.contains("`--accept protected_metadata` would exceed the administrator's maximum"), "{told}");
}
