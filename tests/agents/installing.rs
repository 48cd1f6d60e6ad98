//! `stockade install`: what becomes of an agent's settings.

use serde_json::Value;

use crate::running::home::Home;

const SETTINGS: &str = "home/.claude/settings.json";
const COPY: &str = "home/.claude/settings.json.before-stockade";

#[test]
fn settings_are_merged_shown_kept_and_restored() {
    let home = Home::new();
    let before = "{\n    \"model\": \"x\",   \"hooks\": {\"PreToolUse\": [{\"matcher\": \"Bash\", \"hooks\": []}]},\n\"permissions\": {\"deny\": [\"Bash(rm:*)\", \"Read(x)\"]}}\n";
    home.write(SETTINGS, before);
    let told = home.says(&["install", "claude-code", "--dry-run"], 0).stdout;
    assert!(told.contains("+++ ") && told.contains("dry run"), "{told}");
    assert_eq!(home.read(SETTINGS), before);
    let told = home.says(&["install", "claude-code"], 0).stdout;
    let note = told.lines().find(|line| line.starts_with("Note: ")).unwrap();
    assert!(note.contains("`Bash(rm:*)`") && !note.contains("Read(x)"), "{note}");
    assert!(told.contains("2.1.325"), "{told}");
    let after = home.read(SETTINGS);
    assert!(
        after.starts_with(
            "{\n    \"model\": \"x\",   \"hooks\": {\"PreToolUse\": [{\"matcher\": \"Bash\", \"hooks\": []},"
        ),
        "{after}"
    );
    let read: Value = serde_json::from_str(&after).unwrap();
    assert_eq!(read["hooks"]["PreToolUse"].as_array().unwrap().len(), 2);
    assert_eq!(read["hooks"]["PermissionRequest"].as_array().unwrap().len(), 1);
    assert_eq!(home.read(COPY), before);
    // Once more changes nothing.
    assert!(home.says(&["install", "claude-code"], 0).stdout.contains("nothing to do"));
    assert_eq!(home.read(SETTINGS), after);
    home.says(&["install", "claude-code", "--undo"], 0);
    assert_eq!(home.read(SETTINGS), before);
    assert!(!home.exists(COPY));
    assert!(home.says(&["install", "claude-code", "--undo"], 0).stdout.contains("nothing to do"));
}

#[test]
fn what_changed_since_stays_and_what_was_missing_goes() {
    let home = Home::new();
    home.says(&["install", "claude-code"], 0);
    home.says(&["install", "claude-code", "--undo"], 0);
    assert!(!home.exists(SETTINGS), "there was none before");
    home.write(SETTINGS, "{\"a\": 1}");
    home.says(&["install", "claude-code"], 0);
    home.write(SETTINGS, &home.read(SETTINGS).replace("\"a\": 1", "\"a\": 2"));
    home.says(&["install", "claude-code", "--undo"], 0);
    let left = home.read(SETTINGS);
    assert!(left.contains("\"a\": 2") && !left.contains("stockade"), "{left}");
    // Another hook in the same entry is not taken out with this program's, and neither stays in silence.
    home.write(SETTINGS, "{}");
    home.says(&["install", "claude-code"], 0);
    let mut shared: Value = serde_json::from_str(&home.read(SETTINGS)).unwrap();
    let own = serde_json::json!({ "type": "command", "command": "mine.sh" });
    shared["hooks"]["PreToolUse"][0]["hooks"].as_array_mut().unwrap().push(own);
    home.write(SETTINGS, &shared.to_string());
    for words in [&["install", "claude-code", "--undo"][..], &["install", "claude-code"]] {
        assert!(home.says(words, 125).stderr.contains("beside another one"));
        assert_eq!(home.read(SETTINGS), shared.to_string());
    }
    // A hook that is never used is not installed.
    home.write(SETTINGS, "{\"disableAllHooks\": true}");
    assert!(home.says(&["install", "claude-code"], 125).stderr.contains("`disableAllHooks`"));
    // An installation from elsewhere is replaced, not doubled.
    home.write("home/.gemini/settings.json", "{\n  // mine\n  \"hooks\": {\"BeforeTool\": [{\"matcher\": \"x\", \"hooks\": [{\"type\": \"command\", \"command\": \"'/old/stockade' hook gemini\"}]}]}\n}\n");
    home.says(&["install", "gemini"], 0);
    let after = home.read("home/.gemini/settings.json");
    assert!(
        after.contains("// mine") && !after.contains("/old/") && after.matches("hook gemini").count() == 1,
        "{after}"
    );
    home.says(&["install", "codex", "--project"], 0);
    assert!(home.read("ws/.codex/hooks.json").contains("hook codex"));
    // codex is told which program runs its commands; a choice of the user's own there is not overruled.
    home.write("home/.codex/environments.toml", "# mine\n");
    home.says(&["install", "codex"], 0);
    let list = home.read("home/.codex/environments.toml");
    assert!(list.contains("default = \"stockade\"") && list.contains("include_local = false"), "{list}");
    assert!(list.contains("args = [\"exec-server\"]") && list.contains("# mine"), "{list}");
    assert!(home.says(&["install", "codex"], 0).stdout.contains("nothing to do"));
    home.says(&["install", "codex", "--undo"], 0);
    assert_eq!(home.read("home/.codex/environments.toml"), "# mine\n");
    home.write("home/.codex/environments.toml", "default = \"far\"\n");
    assert!(home.says(&["install", "codex"], 125).stderr.contains("`default` is `\"far\"`"));
}

/// The hook of an earlier version is for some tools alone, which is told, and is replaced as if it had never been there.
#[test]
fn an_earlier_pattern_of_tools_is_told_and_renewed() {
    let home = Home::new();
    let before = "{ \"model\": \"x\" }\n";
    home.write(SETTINGS, before);
    home.says(&["install", "claude-code"], 0);
    let now = home.read(SETTINGS);
    assert!(now.contains("\"matcher\": \"*\""), "{now}");
    let earlier = now
        .replace("\"*\"", "\"Bash|Write|Edit|MultiEdit|NotebookEdit|Read|Grep|Glob|WebFetch\"")
        .replace("Bash|Monitor", "Bash");
    home.write(SETTINGS, &earlier);
    let told = crate::support::text(&home.stockade(&["doctor"]).output().unwrap().stdout);
    assert!(told.contains("  no   claude-code") && told.contains("run `stockade install claude-code` again"), "{told}");
    assert!(told.contains("is for the tools `Bash|Write|"), "{told}");
    home.says(&["install", "claude-code"], 0);
    assert_eq!(home.read(SETTINGS), now);
    home.write(SETTINGS, &earlier);
    home.says(&["install", "claude-code", "--undo"], 0);
    assert_eq!(home.read(SETTINGS), before);
    // A copy that is not this program's is no reason to leave empty lists behind.
    home.write(SETTINGS, "{}");
    home.write(COPY, "{ \"mine\": 1 }");
    home.says(&["install", "claude-code"], 0);
    home.says(&["install", "claude-code", "--undo"], 0);
    let left: Value = serde_json::from_str(&home.read(SETTINGS)).unwrap();
    assert_eq!(left, serde_json::json!({ "disableSkillShellExecution": true }));
    assert_eq!(home.read(COPY), "{ \"mine\": 1 }");
}

/// Hooks that the agent does not use are not called working, wherever they are turned off.
#[test]
fn hooks_that_are_off_are_told() {
    let home = Home::new();
    let doctor = || crate::support::text(&home.stockade(&["doctor"]).output().unwrap().stdout);
    home.says(&["install", "claude-code"], 0);
    for file in ["ws/.claude/settings.json", "ws/.claude/settings.local.json"] {
        home.write(file, "{ \"disableAllHooks\": true } // mine");
        let told = doctor();
        assert!(told.contains("  no   claude-code") && told.contains("`disableAllHooks` in `"), "{told}");
        home.write(file, "{}");
    }
    assert!(doctor().contains("  yes  claude-code"), "{}", doctor());
    let told = |name: &str, value: &std::path::Path| {
        crate::support::text(&home.stockade(&["doctor"]).env(name, value).output().unwrap().stdout)
    };
    let simple = told("CLAUDE_CODE_SIMPLE", "1".as_ref());
    assert!(simple.contains("  no   claude-code") && simple.contains("`CLAUDE_CODE_SIMPLE` is set"), "{simple}");
    let managed = "home/.claude/remote-settings.json";
    for (text, mark) in [("{ \"strictPluginOnlyCustomization\": true }", "no   "), ("{ \"allow", "?    ")] {
        home.write(managed, text);
        assert!(doctor().contains(&format!("  {mark}claude-code")), "{}", doctor());
    }
    home.write(managed, "{}");
    let gemini = "home/.gemini/settings.json";
    let own = format!("'{}' hook gemini", home.path("stockade").display());
    for off in [serde_json::json!({ "enabled": false }), serde_json::json!({ "disabled": [own] })] {
        home.write(gemini, &serde_json::json!({ "hooksConfig": off }).to_string());
        let told = home.says(&["install", "gemini"], 125).stderr;
        assert!(told.contains("`hooksConfig.") && told.contains("take that out"), "{told}");
    }
    home.write(gemini, "{}");
    home.says(&["install", "gemini"], 0);
    home.write("ws/.gemini/settings.json", "{ \"hooksConfig\": { \"enabled\": false } }");
    let told = doctor();
    assert!(told.contains("  no   gemini") && told.contains("ws/.gemini/settings.json"), "{told}");
    home.write("ws/.gemini/settings.json", "{}");
    assert!(doctor().contains("  yes  gemini"), "{}", doctor());
    home.write("defaults.json", "{ \"hooksConfig\": { \"enabled\": false } }");
    for name in ["GEMINI_CLI_SYSTEM_DEFAULTS_PATH", "GEMINI_CLI_SYSTEM_SETTINGS_PATH"] {
        let file = home.path("defaults.json");
        let told = crate::support::text(&home.stockade(&["doctor"]).env(name, &file).output().unwrap().stdout);
        assert!(told.contains("  no   gemini") && told.contains("defaults.json"), "{name}: {told}");
    }
}

/// Commands in the text of a skill come to no hook, so that Claude Code does not run them.
#[test]
fn skills_run_no_commands_of_their_text() {
    let home = Home::new();
    home.write(SETTINGS, "{ \"model\": \"x\" }\n");
    let told = home.says(&["install", "claude-code"], 0).stdout;
    assert!(told.contains("disableSkillShellExecution"), "{told}");
    let now = home.read(SETTINGS);
    assert!(now.contains("\"disableSkillShellExecution\": true"), "{now}");
    // An installation from before has no such line: it is renewed, and comes out as a whole.
    let settings: Value = serde_json::from_str(&now).unwrap();
    assert_eq!(settings["disableSkillShellExecution"], true);
    home.says(&["install", "claude-code", "--undo"], 0);
    assert_eq!(home.read(SETTINGS), "{ \"model\": \"x\" }\n");
    // A person's own value stays.
    let own = "{ \"disableSkillShellExecution\": false }\n";
    home.write(SETTINGS, own);
    home.says(&["install", "claude-code"], 0);
    assert!(home.read(SETTINGS).contains("\"disableSkillShellExecution\": false"));
    home.says(&["install", "claude-code", "--undo"], 0);
    assert_eq!(home.read(SETTINGS), own);
}

/// opencode is given a shell: a link to the program, which stays where another settings file may name it.
#[test]
fn opencode_is_given_a_shell() {
    let home = Home::new();
    let (settings, link) = ("config/opencode/opencode.json", home.path("config/opencode/stockade-opencode"));
    let shown = home.says(&["install", "opencode", "--dry-run"], 0).stdout;
    assert!(shown.contains("stockade-opencode") && !home.exists(settings) && !link.exists(), "{shown}");
    let before = "{\n  // mine\n  \"model\": \"a/b\"\n}\n";
    home.write(settings, before);
    home.says(&["install", "opencode"], 0);
    assert!(home.read(settings).contains(&format!("\"shell\": {:?}", link.to_str().unwrap())));
    assert_eq!(std::fs::canonicalize(&link).unwrap(), std::fs::canonicalize(home.path("stockade")).unwrap());
    assert!(home.says(&["install", "opencode"], 0).stdout.contains("nothing to do"));
    home.says(&["install", "opencode", "--undo"], 0);
    assert_eq!(home.read(settings), before);
    assert!(link.exists());
    // A lost link is made again, and told until then.
    home.says(&["install", "opencode"], 0);
    std::fs::remove_file(&link).unwrap();
    assert!(
        home.stockade(&["doctor"])
            .output()
            .is_ok_and(|told| { String::from_utf8_lossy(&told.stdout).contains("does not lead to this program") })
    );
    home.says(&["install", "opencode"], 0);
    assert!(link.exists());
    home.says(&["install", "opencode", "--undo"], 0);
    // A person's own choice stays, and a file that is no link is not replaced.
    home.write(settings, "{ \"shell\": \"/bin/zsh\" }");
    assert!(home.says(&["install", "opencode"], 125).stderr.contains("`shell` is `/bin/zsh` there"));
    std::fs::remove_file(&link).unwrap();
    std::fs::write(&link, "mine").unwrap();
    home.says(&["install", "opencode"], 125);
    assert_eq!(std::fs::read_to_string(&link).unwrap(), "mine");
    std::fs::remove_file(&link).unwrap();
    home.says(&["install", "opencode", "--project"], 0);
    assert!(home.read("ws/.opencode/opencode.json").contains(link.to_str().unwrap()));
    home.says(&["install", "opencode", "--project", "--undo"], 0);
    assert!(!home.exists("ws/.opencode/opencode.json"));
}

/// Flags in the entry are the person's: they stay, also when the program moves, and go with the entry.
#[test]
fn an_environment_of_codex_with_flags_is_known() {
    let home = Home::new();
    let list = "home/.codex/environments.toml";
    home.says(&["install", "codex"], 0);
    home.write(
        list,
        &home.read(list).replace("[\"exec-server\"]", "[\"exec-server\", \"--allow-host\", \"crates.io\"]"),
    );
    assert!(home.says(&["install", "codex"], 0).stdout.contains("nothing to do"));
    let program = home.path("stockade").display().to_string();
    home.write(list, &home.read(list).replace(&program, "/old/stockade"));
    home.says(&["install", "codex"], 0);
    let after = home.read(list);
    assert!(after.contains(&program) && after.contains("crates.io") && !after.contains("/old/"), "{after}");
    home.says(&["install", "codex", "--undo"], 0);
    assert!(!home.exists(list) || !home.read(list).contains("stockade"));
}

/// Several programs that change the file at once: none of the changes is lost, and the hook is there once.
#[test]
fn changes_at_the_same_moment_are_kept() {
    let home = Home::new();
    home.write(SETTINGS, "{}");
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| home.stockade(&["install", "claude-code"]).output().unwrap());
        }
    });
    home.says(&["install", "claude-code"], 0);
    let read: Value = serde_json::from_str(&home.read(SETTINGS)).unwrap();
    assert_eq!(read["hooks"]["PreToolUse"].as_array().unwrap().len(), 1);
    let left: Vec<_> =
        std::fs::read_dir(home.path("home/.claude")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert_eq!(home.read(COPY), "{}");
}

#[test]
fn links_and_what_is_no_json_are_refused() {
    let home = Home::new();
    for text in
        ["{", "[]", "{\"hooks\": []}", "{\"hooks\": {\"PreToolUse\": 1}}", "{\"a\": 1,}", "{\"a\": 1, \"a\": 2}"]
    {
        home.write(SETTINGS, text);
        let told = home.says(&["install", "claude-code"], 125).stderr;
        assert!(told.contains("settings.json"), "{told}");
        assert_eq!(home.read(SETTINGS), text);
    }
    std::fs::remove_file(home.path(SETTINGS)).unwrap();
    home.write("outside/settings.json", "{}");
    std::os::unix::fs::symlink(home.path("outside/settings.json"), home.path(SETTINGS)).unwrap();
    assert!(home.says(&["install", "claude-code"], 125).stderr.contains("is a link"));
    std::os::unix::fs::symlink(home.path("outside"), home.path("ws/.claude")).unwrap();
    assert!(home.says(&["install", "claude-code", "--project"], 125).stderr.contains("is a link"));
    assert_eq!(home.read("outside/settings.json"), "{}");
}

#[test]
fn doctor_tells_what_is_wired_and_tries_it() {
    let home = Home::new();
    home.says(&["install", "claude-code"], 0);
    home.write("home/.gemini/settings.json", "{\"hooks\":{\"BeforeTool\":[{\"hooks\":[{\"type\":\"command\",\"command\":\"'/old/stockade' hook gemini\"}]}]}}");
    let told = home.stockade(&["doctor", "--json"]).output().unwrap();
    let told: Value = serde_json::from_slice(&told.stdout).unwrap();
    let [claude, gemini] = told["agents"].as_array().unwrap().as_slice() else { panic!("{told}") };
    assert_eq!((claude["agent"].as_str(), claude["works"].as_bool()), (Some("claude-code"), Some(true)), "{claude}");
    assert_eq!(gemini["works"], false, "{gemini}");
    assert!(gemini["problem"].as_str().unwrap().contains("stockade install gemini"), "{gemini}");
    let told = crate::support::text(&home.stockade(&["doctor"]).output().unwrap().stdout);
    assert!(told.contains("\nagents\n  yes  claude-code"), "{told}");
    assert!(
        home.says(&["session", "list"], 0).stdout.trim().is_empty()
            || !home.says(&["session", "list"], 0).stdout.contains("doctor")
    );
}
