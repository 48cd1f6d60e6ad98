//! `stockade import`: what agents' documentation says of their rules, held against what Stockade decides after the import.

use serde_json::{Value, json};

use super::hooks::Hooks;
use crate::running::home::Home;

/// Imports these settings of an agent into the user's own.
fn import(home: &Home, agent: &str, file: &str, text: &str) -> String {
    home.write(file, text);
    let (file, out) = (home.path(file).display().to_string(), home.path("config/stockade").display().to_string());
    home.says(&["import", agent, &file, "--out", &out], 0).stdout
}

/// How strict an answer is.
fn strictness(decision: &str) -> usize {
    ["allow", "ask", "deny"].iter().position(|word| *word == decision).unwrap()
}

/// The examples of Claude Code's documentation: exact commands, prefixes that end with a word, every part of a line, deny before
/// ask before allow. Nothing is decided more laxly; what is meant to be allowed is.
#[test]
fn claude_codes_documented_examples_are_never_wider() {
    let hooks = Hooks::new();
    let settings = json!({ "permissions": {
        "allow": [
            "Bash(npm run build)", "Bash(npm run test:*)", "Bash(git commit *)", "Bash(lsx*)", "Bash(git * main)",
            "Bash(aws s3 ls)", "Edit(docs/**)", "WebFetch(domain:docs.example.com)", "mcp__github__get",
        ],
        "ask": ["Bash(git push:*)"],
        "deny": ["Bash(aws:*)", "Bash(curl:*)", "Bash(git tag -d x)", "Read(./.env)", "Read(secrets/**)", "WebFetch(domain:bad.example.com)"],
    } });
    import(&hooks.home, "claude-code", "ws/.claude/settings.json", &settings.to_string());
    hooks.home.write("ws/.env", "secret");
    for (line, documented) in [
        ("npm run build", "allow"),
        ("npm run build --force", "ask"),
        ("npm run test", "allow"),
        ("npm run test -- --watch", "allow"),
        ("npm run testing", "ask"),
        ("npm run test && npm run build", "allow"),
        ("npm run test && make install", "ask"),
        ("npm run test; curl http://x", "deny"),
        ("npm run test | tee x", "ask"),
        ("npm run test $(curl http://x)", "deny"),
        ("git commit -m x", "allow"),
        ("git commit", "allow"),
        ("git committed", "ask"),
        ("git push origin main", "ask"),
        ("git commit -m x && git push", "ask"),
        ("git checkout main", "allow"),
        ("lsx -la", "allow"),
        ("lsxof", "allow"),
        ("aws s3 ls", "deny"),
        ("git tag -d x", "deny"),
        ("timeout 5 curl http://x", "deny"),
        ("make", "ask"),
    ] {
        let answer = hooks.bash(line);
        let decided = answer["permissionDecision"].as_str().unwrap();
        assert!(strictness(decided) >= strictness(documented), "{line}: {answer}");
        let is_narrower = ["git checkout main", "lsxof"].contains(&line);
        assert!(decided == documented || is_narrower || decided == "deny", "{line}: {answer}");
    }
    let answer = |tool: &str, input: Value| {
        let answer = hooks.answer("claude-code", "PreToolUse", tool, &input);
        answer["hookSpecificOutput"]["permissionDecision"].clone()
    };
    assert_eq!(answer("Read", json!({ "file_path": hooks.home.path("ws/.env") })), "deny");
    assert_eq!(answer("Read", json!({ "file_path": hooks.home.path("ws/secrets/x") })), "deny");
    assert_eq!(answer("WebFetch", json!({ "url": "https://docs.example.com/" })), "allow");
    assert_eq!(answer("WebFetch", json!({ "url": "https://bad.example.com/" })), "deny");
    assert_eq!(answer("Write", json!({ "file_path": hooks.home.path("outside/docs") })), "ask");
}

/// A line that denies and can't be said in rules stops the import; with `--partial` nothing is allowed that it may cover.
#[test]
fn what_is_lost_stops_the_import() {
    let home = Home::new();
    let settings = r#"{"permissions": {"allow": ["Bash(npm test:*)"], "deny": ["Bash(* --force)", "Bash(rm:*)"]}}"#;
    home.write("s.json", settings);
    let (file, out) = (home.path("s.json").display().to_string(), home.path("out").display().to_string());
    let told = home.says(&["import", "claude-code", &file, "--out", &out], 126).stdout;
    assert!(told.contains("LOST: permissions.deny Bash(* --force)") && !home.exists("out"), "{told}");
    let told = home.says(&["import", "claude-code", &file, "--out", &out, "--partial", "--dry-run"], 0).stdout;
    assert!(told.contains("+++ ") && told.contains("dry run") && !home.exists("out"), "{told}");
    home.says(&["import", "claude-code", &file, "--out", &out, "--partial"], 0);
    let rules = home.read("out/rules/claude-code.rules");
    assert!(rules.contains("[\"rm\"]") && !rules.contains("npm"), "{rules}");
    // What is there is not overwritten.
    let told = home.says(&["import", "claude-code", &file, "--out", &out, "--partial"], 125).stderr;
    assert!(told.contains("not overwritten") && home.read("out/rules/claude-code.rules") == rules, "{told}");
    let json: Value =
        serde_json::from_str(&home.says(&["import", "claude-code", &file, "--json"], 126).stdout).unwrap();
    assert_eq!((&json["complete"], json["lines"].as_array().unwrap().len()), (&json!(false), 3));
    for text in ["", "{", "[]x", r#"{"permissions": 1}"#, r#"{"permissions": {"deny": "Bash"}}"#] {
        home.write("s.json", text);
        assert!(home.says(&["import", "claude-code", &file], 125).stderr.contains("s.json"), "{text}");
    }
}

/// Hosts of `WebFetch` that a line before them denies or asks about are not granted, and checks of gemini-cli are not
/// dropped in silence.
#[test]
fn what_another_line_restricts_is_not_granted() {
    let home = Home::new();
    let file = home.path("s.json").display().to_string();
    for restricting in [json!({ "deny": ["WebFetch"] }), json!({ "ask": ["WebFetch(domain:docs.example.com)"] })] {
        let mut permissions = restricting.clone();
        permissions["allow"] = json!(["WebFetch(domain:docs.example.com)"]);
        home.write("s.json", &json!({ "permissions": permissions }).to_string());
        let told = home.says(&["import", "claude-code", &file], 0).stdout;
        assert!(told.contains("left out: permissions.allow WebFetch") && !told.contains("allow_hosts"), "{told}");
    }
    let lost =
        json!({ "permissions": { "allow": ["WebFetch(domain:docs.example.com)"], "deny": ["Bash(* --force)"] } });
    home.write("s.json", &lost.to_string());
    let told = home.says(&["import", "claude-code", &file, "--partial"], 0).stdout;
    assert!(!told.contains("allow_hosts"), "{told}");
    let policy = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"make\"\ndecision = \"allow\"\npriority = 1\n\
        [[safety_checker]]\ntoolName = \"*\"\npriority = 1\n[safety_checker.checker]\ntype = \"external\"\nname = \"mine\"\n";
    home.write("p.toml", policy);
    let file = home.path("p.toml").display().to_string();
    let told = home.says(&["import", "gemini", &file], 126).stdout;
    assert!(told.contains("LOST: safety_checker 1") && !told.contains("prefix_rule"), "{told}");
}

/// A wildcard within a word stands for words that a rule does not name, and alternatives of a path are all denied.
#[test]
fn wildcards_within_words_and_alternatives_are_not_lost_in_silence() {
    let hooks = Hooks::new();
    let settings = json!({ "permissions": {
        "allow": ["Bash(git:*)"], "deny": ["Bash(git pu* --force *)", "Read(./{secret.env,other.env})"],
    } });
    import(&hooks.home, "claude-code", "ws/.claude/settings.json", &settings.to_string());
    assert_eq!(hooks.bash("git push --force origin")["permissionDecision"], "deny");
    let read = |name: &str| {
        let file = json!({ "file_path": hooks.home.path("ws").join(name) });
        hooks.answer("claude-code", "PreToolUse", "Read", &file)["hookSpecificOutput"]["permissionDecision"].clone()
    };
    assert_eq!((read("secret.env"), read("other.env"), read("free.env")), (json!("deny"), json!("deny"), Value::Null));
    let home = Home::new();
    let file = home.path("s.json").display().to_string();
    for rule in ["Bash(python* -c *)", "Read(./{a,{b,c}})", "Read(../x)"] {
        home.write("s.json", &json!({ "permissions": { "allow": ["Bash(python3:*)"], "deny": [rule] } }).to_string());
        let project = home.path("ws").display().to_string();
        let told = home.says(&["import", "claude-code", &file, "--project", &project], 126).stdout;
        assert!(told.contains(&format!("LOST: permissions.deny {rule}")), "{told}");
    }
}

#[test]
fn codex_and_gemini_are_read_by_their_own_rules() {
    let hooks = Hooks::new();
    let rules = "prefix_rule(pattern = [\"gh\", \"pr\", \"view\"], decision = \"prompt\", match = [\"gh pr view 7888\"], \
        not_match = [\"gh pr --repo openai/codex view 7888\"])\nprefix_rule(pattern = [\"make\"], decision = \"allow\")\n";
    let told = import(&hooks.home, "codex", "home/.codex/rules/default.rules", rules);
    assert!(told.contains("stay in the sandbox"), "{told}");
    assert_eq!(hooks.bash("gh pr view 1")["permissionDecision"], "ask");
    let sandboxed = hooks.bash("make")["permissionDecisionReason"].clone();
    assert!(sandboxed.as_str().unwrap().contains("in Stockade's sandbox"), "{sandboxed}");
    let home = Home::new();
    let config = "model = \"x\"\nsandbox_mode = \"read-only\"\napproval_policy = \"untrusted\"\n\
        [sandbox_workspace_write]\nwritable_roots = [\"/srv/cache\", \"rel\"]\nnetwork_access = true\n";
    import(&home, "codex", "home/.codex/config.toml", config);
    let settings = home.read("config/stockade/config.toml");
    for line in ["mode = \"read-only\"", "ask = \"untrusted\"", "writable_roots = [\"/srv/cache\"]"] {
        assert!(settings.contains(line), "{settings}");
    }
    assert!(!settings.contains("network") && !settings.contains("rel\""), "{settings}");
    home.says(&["explain", "--path", "/etc"], 0);
    home.write("home/.codex/config.toml", "sandbox_mode = \"danger-full-access\"\n");
    let file = home.path("home/.codex/config.toml").display().to_string();
    let told = home.says(&["import", "codex", &file], 0).stdout;
    assert!(told.contains("left out: sandbox_mode") && !told.contains("== config.toml"), "{told}");

    let hooks = Hooks::new();
    let policies = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = [\"git status\", \"npm test\"]\ndecision = \"allow\"\npriority = 100\n\
        [[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"rm -rf\"\ndecision = \"deny\"\npriority = 200\nmodes = [\"yolo\"]\n\
        [[rule]]\ntoolName = \"run_shell_command\"\ncommandRegex = \"git.*\"\ndecision = \"allow\"\npriority = 10\n";
    import(&hooks.home, "gemini", "home/.gemini/policies/mine.toml", policies);
    let decided = |line: &str| {
        let answer = hooks.answer("gemini", "BeforeTool", "run_shell_command", &json!({ "command": line }));
        answer["decision"].as_str().unwrap().to_owned()
    };
    assert_eq!((decided("npm test").as_str(), decided("npm tests").as_str()), ("allow", "deny"));
    assert_eq!((decided("rm -rf x").as_str(), decided("npm test && rm -rf x").as_str()), ("deny", "deny"));
    // A key that is not known may be a condition.
    let home = Home::new();
    let rule = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"git push\"\ndecision = \"allow\"\npriority = 10\n";
    let told = import(&home, "gemini", "policy.toml", &format!("{rule}interactive = true\n"));
    assert!(told.contains("left out: rule 1") && told.contains("`interactive` is a condition"), "{told}");
    // A list of all that may run refuses the rest, which no rule says.
    let home = Home::new();
    home.write("s.json", r#"{"tools": {"core": ["run_shell_command(git)"]}, "excludeTools": ["ShellTool(rm)"]}"#);
    let file = home.path("s.json").display().to_string();
    assert!(home.says(&["import", "gemini", &file], 126).stdout.contains("LOST: tools.core"));
}
