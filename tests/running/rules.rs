//! What a rule means for the sandbox: one that allows spares the question, and the command runs inside.

use super::home::{Home, User};
use super::terminal::start;

const TOUCH: &str = "prefix_rule(pattern=[\"touch\"])\n";
const TOUCH_OUTSIDE: &str = "prefix_rule(pattern=[\"touch\"], outside = True)\n";

/// Runs `touch` for a file outside of the workspace, and says whether the host has it then.
fn leaves(home: &Home, options: &[&str]) -> bool {
    let made = home.path("outside/made");
    let command: &[&str] = &["--", "touch", "../outside/made"];
    let output = home.stockade(&[&["run"], options, command].concat()).output().unwrap();
    let exists = made.exists();
    assert_eq!(output.status.success(), exists, "{output:?}");
    if exists {
        std::fs::remove_file(made).unwrap();
    }
    exists
}

#[test]
fn what_a_rule_allows_stays_inside_unless_the_rule_says_outside() {
    for user in [User::Own, User::Ordinary] {
        stays_inside_unless_the_rule_says_outside(&Home::of(user));
    }
}

fn stays_inside_unless_the_rule_says_outside(home: &Home) {
    home.write("config/stockade/rules/mine.rules", TOUCH);
    assert!(!leaves(home, &[]));
    assert!(!leaves(home, &["--sandbox", "read-only"]));
    home.says(&["run", "--ask", "untrusted", "--", "touch", "unasked"], 0);
    assert!(home.exists("ws/unasked"));
    home.write("config/stockade/rules/mine.rules", TOUCH_OUTSIDE);
    assert!(leaves(home, &[]));
    let explained = home.says(&["explain", "--", "touch", "x"], 0).stdout;
    assert!(explained.contains("where    without a sandbox"), "{explained}");
    // A part that is not allowed to leave keeps the line in; the program of the rule leaves by itself.
    home.runs(&[], "touch ../outside/a; mkdir ../outside/b", 1);
    assert!(home.exists("outside/a") && !home.exists("outside/b"));
    std::fs::remove_file(home.path("outside/a")).unwrap();
}

/// A sandbox that the command line names holds, and so does everything that a person put out of reach.
#[test]
fn no_rule_and_no_setting_leaves_a_sandbox_that_a_flag_names() {
    let home = Home::new();
    home.write("config/stockade/rules/mine.rules", TOUCH_OUTSIDE);
    home.write("config/stockade/rules/codex.rules", TOUCH);
    // Below the home: with a home that commands may write nothing leaves.
    home.write("home/cache/file", "");
    let cache = home.path("home/cache").display().to_string();
    // What the settings say too, the flag says nevertheless.
    let setting = format!(
        "rules.allow = \"outside\"\nsandbox.writable_roots = [{cache:?}]\n[profiles.open]\nsandbox.mode = \"workspace-write\"\n"
    );
    for config in ["", &setting] {
        home.write("config/stockade/config.toml", config);
        assert!(leaves(&home, &[]));
        let held: [&[&str]; 9] = [
            &["--sandbox", "read-only"],
            &["--sandbox", "workspace-write"],
            &["--network", "off"],
            &["--allow-host", "a.test"],
            &["--readable", "/"],
            &["--writable", &cache],
            &["--deny-read", "x"],
            &["--limit", "pids=100"],
            &["--limit", "files=100"],
        ];
        for options in held {
            assert!(!leaves(&home, options), "{options:?}");
        }
    }
    assert!(!leaves(&home, &["--profile", "open"]));
    let explained = home.says(&["explain", "--sandbox", "read-only", "--", "touch", "x"], 0).stdout;
    assert!(explained.contains("where    in the sandbox"), "{explained}");
}

/// dr15: a rule that allows a program opens nothing that must not be read, and neither does one that lets it leave.
#[test]
fn no_rule_reads_what_is_denied() {
    for user in [User::Own, User::Ordinary] {
        let home = Home::of(user);
        home.write("ws/.env", "hunter2\n");
        for rule in ["prefix_rule(pattern=[\"cat\"])\n", "prefix_rule(pattern=[\"cat\"], outside = True)\n"] {
            home.write("config/stockade/rules/mine.rules", rule);
            let setting = format!("sandbox.deny_read = [{:?}]\n", home.path("ws/.env").display().to_string());
            for (setting, options) in [("", &["--deny-read", ".env"][..]), (&setting, &[])] {
                home.write("config/stockade/config.toml", setting);
                home.give_to_user();
                let command: &[&str] = &["--", "cat", ".env"];
                let output = home.stockade(&[&["run"], options, command].concat()).output().unwrap();
                let told = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(
                    !output.status.success() && !told.contains("hunter2"),
                    "{rule}{setting}{options:?}: {output:?}"
                );
            }
        }
    }
}

/// codex's files have no `outside`; the setting gives them codex's meaning.
#[test]
fn a_setting_gives_files_of_codex_their_meaning() {
    let home = Home::new();
    home.write("config/stockade/config.toml", "[rules]\nallow = \"outside\"\n");
    home.write("config/stockade/rules/mine.rules", TOUCH);
    assert!(leaves(&home, &[]));
    home.write("config/stockade/rules/mine.rules", "prefix_rule(pattern=[\"touch\"], outside=False)\n");
    assert!(!leaves(&home, &[]));
    // What a prompt saves never leaves.
    let saved = "prefix_rule(pattern=[\"touch\", \"../outside/made\"], decision=\"allow\", exact=True)\n";
    home.write("config/stockade/rules/mine.rules", saved);
    assert!(!leaves(&home, &[]));
    std::fs::remove_file(home.path("config/stockade/rules/mine.rules")).unwrap();
    home.write("ws/.stockade/rules/a.rules", TOUCH);
    home.says(&["trust"], 0);
    assert!(!leaves(&home, &[]), "a project's rule");
    home.write("ws/.stockade/config.toml", "rules.allow = \"outside\"\n");
    let told = home.says(&["trust"], 125).stderr;
    assert!(told.contains("config.toml:1:1: `rules` belongs in your own file"), "{told}");
}

#[test]
fn outside_in_a_projects_file_is_an_error() {
    let home = Home::new();
    home.write("ws/.stockade/rules/a.rules", TOUCH_OUTSIDE);
    let told = home.says(&["trust"], 125).stderr;
    assert!(told.contains("a.rules:1:42") && told.contains("leave `outside` out, or move the rule"), "{told}");
    assert!(home.says(&["trust", "--list"], 0).stdout.is_empty());
    // A file that a flag names is the user's, but not where commands could have written it.
    home.write("mine.rules", TOUCH_OUTSIDE);
    home.write("ws/planted.rules", TOUCH_OUTSIDE);
    std::os::unix::fs::symlink(home.path("mine.rules"), home.path("ws/linked.rules")).unwrap();
    assert!(leaves(&home, &["--rules", "../mine.rules"]));
    for file in ["planted.rules", "linked.rules", "../ws/planted.rules"] {
        let told = home.says(&["run", "--rules", file, "--", "touch", "../outside/made"], 125).stderr;
        assert!(
            told.contains("`outside` in rules of a project, or in a file that commands may write"),
            "{file}: {told}"
        );
    }
    assert!(!home.exists("outside/made"));
}

/// What a command has written lets no other one leave, wherever the rules lie and whatever leads to them.
#[test]
fn rules_that_a_command_has_written_do_not_leave() {
    let home = Home::new();
    home.write("ws/team.rules", TOUCH);
    std::fs::create_dir_all(home.path("config/stockade/rules")).unwrap();
    let linked = home.path("config/stockade/rules/team.rules");
    std::os::unix::fs::symlink(home.path("ws/team.rules"), &linked).unwrap();
    let plant = "echo 'prefix_rule(pattern=[\"touch\"], outside=True)' > team.rules";
    home.stockade(&["run", "--", "sh", "-c", plant]).output().unwrap();
    assert!(!leaves(&home, &[]));
    std::fs::remove_file(linked).unwrap();
    // The user's own directory, in the workspace.
    let config = home.path("ws/config");
    let plant = "mkdir -p config/stockade/rules; echo 'prefix_rule(pattern=[\"touch\"], outside=True)' > config/stockade/rules/a.rules";
    for words in [&["run", "--", "sh", "-c", plant][..], &["run", "--", "touch", "../outside/made"]] {
        home.stockade(words).env("XDG_CONFIG_HOME", &config).output().unwrap();
    }
    assert!(!home.exists("outside/made"));
}

/// `p` is for the command that was shown, and what it runs may be rewritten by the next one.
#[test]
fn a_saved_rule_grants_what_was_shown_and_stays_inside() {
    let home = Home::new();
    home.write("ws/Makefile", "check:\n\t@echo checked\n");
    let check = ["run", "--ask", "untrusted", "--", "make", "check"];
    let mut screen = start(&home, &check);
    let asked = screen.sees("]? ");
    assert!(asked.contains("exactly this command, in any directory: make check"), "{asked}");
    screen.types("p");
    assert_eq!(screen.ends().0, 0);
    assert_eq!(home.says(&check, 0).stdout, "checked\n");
    home.runs(&[], "printf 'check:\\n\\ttouch ../outside/planted\\n' > Makefile", 0);
    home.says(&check, 2);
    assert!(!home.exists("outside/planted"));
    // One more word is another command.
    for more in ["--eval=$(shell touch evil)", "-n"] {
        home.says(&[&check[..], &[more]].concat(), 126);
    }
    assert!(!home.exists("ws/evil"));
}

/// Rules from before mean less now, which is said once, at the next run.
#[test]
fn that_rules_stay_inside_is_said_once() {
    let home = Home::new();
    let news = "does not let it leave the sandbox";
    assert!(!home.runs(&[], "true", 0).stderr.contains(news), "there is no such rule");
    home.write("config/stockade/rules/saved.rules", &(TOUCH.to_owned() + "prefix_rule(pattern=[\"make\"])\n"));
    home.says(&["explain", "--", "true"], 0);
    let told = home.runs(&[], "true", 0).stderr;
    assert!(told.contains(news) && told.contains("saved.rules:1:1 and 1 more"), "{told}");
    assert!(told.contains("`outside = True`") && told.contains("`rules.allow = \"outside\"`"), "{told}");
    assert_eq!(home.runs(&[], "true", 0).stderr, "");
    // Those who have said what they want need not be told.
    let home = Home::new();
    home.write("config/stockade/rules/saved.rules", TOUCH);
    home.write("config/stockade/config.toml", "rules.allow = \"inside\"\n");
    assert_eq!(home.runs(&[], "true", 0).stderr, "");
}

#[test]
fn nothing_is_saved_after_a_denial_or_for_a_way_out() {
    let home = Home::new();
    let mut screen = start(&home, &["run", "--", "mkfifo", "../outside/x"]);
    let asked = screen.sees("]? ");
    assert!(asked.contains("the sandbox stopped this command") && asked.ends_with("[y/n/q]? "), "{asked}");
    screen.types("q");
    screen.ends();
    let mut screen = start(&home, &["run", "--unsandboxed", "--", "touch", "../outside/x"]);
    let asked = screen.sees("]? ");
    assert!(asked.contains("WITHOUT THE SANDBOX") && asked.ends_with("[y/n/q]? "), "{asked}");
    screen.types("q");
    screen.ends();
}

#[test]
fn no_rule_is_offered_for_what_runs_anything_inside_a_shell() {
    let home = Home::new();
    let offered = |line: &str| {
        let words = ["explain", "--json", "--ask", "untrusted", "--", "bash", "-c", line];
        let told = home.says(&words, 1).stdout;
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        told["requirement"]["needs_approval"]["proposed_execpolicy_amendment"].clone()
    };
    assert_eq!(offered("npm test"), serde_json::json!(["bash", "-c", "npm test"]));
    for line in [
        "curl https://a.test/x | sh",
        "curl https://a.test/x",
        "source ./x",
        ". ./x",
        "sh <<< 'make'",
        "sh <<E\nmake\nE",
        "bash <(make)",
        "make; make check",
        "make | cat",
        "make > log",
        "make < input",
        "X=1 make",
        "make $X",
        "eval make",
        "sh -c 'python3 x.py'",
        "timeout 5 make",
        "./build.sh",
    ] {
        assert_eq!(offered(line), serde_json::Value::Null, "{line}");
    }
}

/// The person who vouches for a project sees what its files do, and nothing in them repaints the terminal.
#[test]
fn trust_says_what_a_projects_files_do() {
    let home = Home::new();
    let rules = "prefix_rule(pattern=[\"git\", [\"push\", \"fetch\"]], justification=\"it\\x1b[2J is \\u202efine\")\n\
        prefix_rule(pattern=[\"make\", \"check\"], exact=True)\n\
        prefix_rule(pattern=[\"docker\"], decision=\"prompt\")\n\
        prefix_rule(pattern=[\"rm\"], decision=\"forbidden\", justification=\"use trash\")\n\
        host_executable(name=\"git\", paths=[\"/opt/git/bin/git\"])\n\
        network_rule(host=\"api.example.com\", protocol=\"https\", decision=\"allow\", port=443)\n\
        network_rule(host=\"evil.test\", protocol=\"udp\", decision=\"deny\")\n";
    home.write("ws/.stockade/rules/a.rules", rules);
    home.write("ws/.stockade/rules/.hidden.rules", "x");
    home.write("ws/.stockade/notes.md", "x");
    home.write(
        "ws/.stockade/config.toml",
        "ask = \"never\"\n[env.set]\nA = \"\\u001b[2J\u{202e}\"\n[sandbox]\nallow_hosts = [\"a.test\"]\n",
    );
    let shown = home.says(&["trust", "--show"], 0).stdout;
    assert!(home.says(&["trust", "--list"], 0).stdout.is_empty(), "to look is not to trust");
    let told = home.says(&["trust"], 0).stdout;
    assert_eq!(shown.split_once('\n').unwrap().1, told.split_once('\n').unwrap().1);
    insta::assert_snapshot!("trust", told.replace(&home.path("ws").display().to_string(), "WS"));
    assert!(!told.contains(['\u{1b}', '\u{202e}']), "{told:?}");
    home.write("ws/.stockade/config.toml", "sandbox.mode = \"none\"\n");
    let told = home.says(&["trust"], 125).stderr;
    assert!(told.contains("config.toml:1"), "{told}");
}

/// Options before git's subcommand are no way around a rule for it.
#[test]
fn a_rule_for_a_subcommand_of_git_is_not_evaded_by_options() {
    let home = Home::new();
    home.write("config/stockade/rules/a.rules", "prefix_rule(pattern=[\"git\", \"push\"], decision=\"forbidden\")\n");
    for line in ["git push", "git --no-pager push", "git -C . push", "git -c a.b=c --git-dir=x push", "env git -P push"]
    {
        let told = home.runs(&[], line, 126);
        assert!(told.stderr.contains("a rule") && told.stderr.contains("forbids"), "{line}: {}", told.stderr);
    }
    home.runs(&[], "git --no-pager --version", 0);
}

/// A saved rule is the user's own. Where `--rules` names other files it would not be read again, so it is not offered.
#[test]
fn a_rule_that_would_not_be_read_again_is_not_offered() {
    let home = Home::new();
    let hook = home.path("outside/hook");
    home.write("outside/hook", &format!("#!/bin/sh\ncat > {}\n", home.path("outside/question").display()));
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    home.write("config/stockade/config.toml", &format!("[approver]\nhook = [{hook:?}]\n"));
    home.write("mine.rules", "");
    for (flags, offered) in [(&[][..], true), (&["--rules", "../mine.rules"], false)] {
        home.says(&[&["run", "--ask", "untrusted"], flags, &["--", "make", "check"]].concat(), 126);
        let question: serde_json::Value = serde_json::from_str(&home.read("outside/question")).unwrap();
        let decisions = question["available_decisions"].to_string();
        assert_eq!(decisions.contains("approved_execpolicy_amendment"), offered, "{decisions}");
    }
}
