//! Who says what holds: flags, files, profiles, rules, trust.

use super::home::Home;
use crate::support::text;

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
}

/// What is hidden in a line may be what a rule forbids, and fails there. `untrusted` asks before. Without such a rule the
/// sandbox is enough.
#[test]
fn what_a_line_hides_is_held_to_the_rules() {
    let home = Home::new();
    home.write("team.rules", "prefix_rule(pattern=[\"touch\"], decision=\"forbidden\")\n");
    home.write("open.rules", "prefix_rule(pattern=[\"ls\"])\n");
    for line in [
        "RANDOM='a[$(touch made)]'",
        "read OPTIND <<< 'a[$(touch made)]'",
        "hash -p /usr/bin/touch foo; foo made",
        "x='a[$(touch made)]'; echo $((x))",
        "echo touch made | sh",
        "compgen -C 'touch made'",
    ] {
        for ask in ["never", "reject=rules"] {
            let words = ["run", "--rules", "../team.rules", "--ask", ask, "--", "bash", "-c", line];
            let told = text(&home.stockade(&words).output().unwrap().stderr);
            assert!(told.contains("team.rules:1:1) forbids `touch made`"), "{line}: {told}");
            assert!(!home.exists("ws/made"), "{line}");
        }
        let explain = |ask, exit_code| {
            home.says(&["explain", "--rules", "../team.rules", "--ask", ask, "--", "bash", "-c", line], exit_code)
                .stdout
        };
        assert!(explain("untrusted", 1).contains("so the line may run what a rule ("), "{line}");
        for ask in ["on-failure", "on-request"] {
            assert!(explain(ask, 0).contains("so it is not asked first, although "), "{line}");
        }
    }
    home.says(&["run", "--rules", "../open.rules", "--ask", "never", "--", "bash", "-c", "echo touch made | sh"], 0);
    assert!(home.exists("ws/made"));
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
    let made = ["run", "--ask", "untrusted", "--", "touch", "made"];
    let told = home.says(&made, 126);
    assert!(told.stderr.contains("are not used: look with `stockade trust --show "), "{}", told.stderr);
    assert!(!home.exists("ws/made"));
    home.says(&["trust"], 0);
    assert_eq!(home.runs(&[], "echo $WHO", 0).stdout, "project\n");
    home.says(&made, 0);
    assert!(home.exists("ws/made"));
    // No rule of a project lets a command leave.
    home.says(&["run", "--", "touch", "../outside/made"], 1);
    assert!(!home.exists("outside/made"));
    // The sandbox keeps a command from writing rules for the next one.
    let told = home.runs(&[], "echo 'prefix_rule(pattern=[\"rm\"])' >> .stockade/rules/a.rules", 2);
    assert!(told.stderr.contains(".stockade` is protected from writing"), "{}", told.stderr);
    // Whoever changes them from outside has to be vouched for again.
    home.write("ws/.stockade/rules/b.rules", "prefix_rule(pattern=[\"rm\"])\n");
    let told = home.says(&["run", "--ask", "untrusted", "--", "touch", "other"], 126);
    assert!(told.stderr.contains("b.rules"), "{}", told.stderr);
    assert!(!home.exists("ws/other"));
}

/// Settings behind a link are refused, before anything runs.
#[test]
fn a_project_directory_that_is_a_link_is_refused() {
    for link in [".stockade", ".stockade/rules", ".stockade/config.toml"] {
        let home = Home::new();
        home.write("ws/elsewhere/rules/a.rules", "prefix_rule(pattern=[\"touch\"])\n");
        let path = home.path("ws").join(link);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(home.path("ws/elsewhere"), path).unwrap();
        for words in [["run", "--", "touch", "made"].as_slice(), &["explain", "--", "touch", "made"], &["trust"]] {
            let told = home.says(words, 125);
            assert!(told.stderr.contains(&format!("{link}` is a symbolic link")), "{}", told.stderr);
        }
        assert!(!home.exists("ws/made"));
    }
}

/// What an engine can't hold is refused by its name, and run without by that name only.
#[test]
fn losses_are_accepted_by_name_and_on_record() {
    let home = Home::new();
    let landlock = ["--engine", "landlock"];
    let told = home.runs(&landlock, "true", 125);
    assert!(told.stderr.contains("(`--accept-loss protected_metadata`)"), "{}", told.stderr);
    let told = home.runs(&["--accept-loss", "credential"], "true", 125);
    assert!(told.stderr.contains("a similar value exists: 'credentials'"), "{}", told.stderr);
    let help = home.says(&["run", "--help"], 0).stdout;
    assert!(help.contains("- denied_reads:") && help.contains("what was denied below a readable directory"), "{help}");

    let lost = ["--accept-loss", "protected_metadata", "--accept-loss", "private_directories"];
    let options = [&landlock[..], &lost].concat();
    // The workspace has a `.git` that could be written now, and the home's credentials are not lost.
    home.write("home/.ssh/id", "secret");
    let told = home.runs(&options, "true", 125);
    assert!(told.stderr.contains("(`--accept-loss credentials`)"), "{}", told.stderr);
    home.write("config/stockade/config.toml", "[sandbox]\naccept_losses = [\"credentials\"]\n");
    let told = home.runs(&options, "mkdir .git && cat $HOME/.ssh/id", 0);
    assert!(told.stdout == "secret" && home.exists("ws/.git"), "{}", told.stderr);
    // Where the engine holds everything, nothing is lost.
    home.runs(&lost, "cat $HOME/.ssh/id", 1);

    let listed = home.says(&["audit", "list", "--program", "sh"], 0).stdout;
    let ran = listed.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let ran = ran.into_iter().find(|run| run["exit_code"] == 0).unwrap();
    let shown = home.says(&["audit", "show", ran["request_id"].as_str().unwrap()], 0).stdout;
    for loss in ["protected_metadata", "private_directories", "credentials"] {
        assert!(shown.contains(&format!("{loss} not enforced")), "{loss}: {shown}");
    }
    let explained = home.says(&[&["explain"], &options[..], &["--", "true"]].concat(), 0).stdout;
    assert!(explained.contains("lost     credentials: well-known credentials can be read"), "{explained}");
    assert!(explained.contains("setting  sandbox.accept_losses[1] comes from the command line"), "{explained}");
    let explained = home.says(&["explain", "--engine", "native", "--", "true"], 0).stdout;
    assert!(!explained.contains("lost     "), "{explained}");
}

/// What is not trusted yet is named, and its names are chosen by whoever made the project.
#[test]
fn names_in_a_project_do_not_repaint_the_terminal() {
    let home = Home::new();
    std::fs::create_dir(home.path("ws/.stockade")).unwrap();
    std::os::unix::fs::symlink("x", home.path("ws/.stockade/a\u{1b}[2J\u{202e}b\rc")).unwrap();
    let told = home.runs(&[], "true", 125).stderr;
    assert!(told.contains("a\\u{1b}[2J\\u{202e}b\\u{d}c"), "{told:?}");
    assert!(!told.contains(['\u{1b}', '\u{202e}', '\r']), "{told:?}");
}

/// A rule speaks of `git`, and `PATH` leads into the workspace first, as with a virtual environment.
#[test]
fn a_program_that_a_command_has_planted_does_not_leave_the_sandbox() {
    let home = Home::new();
    home.write("allow.rules", "prefix_rule(pattern=[\"deploy\"], outside=True)\n");
    let path = format!("PATH={}:/usr/bin:/bin", home.path("ws/.venv/bin").display());
    let plant = "mkdir -p .venv/bin && printf '#!/bin/sh\\ntouch ../outside/planted\\n' > .venv/bin/deploy && chmod +x .venv/bin/deploy";
    home.runs(&[], plant, 0);
    for line in [&["deploy"][..], &["sh", "-c", "deploy"], &["env", "deploy"], &["timeout", "5", "deploy"]] {
        let options = ["run", "--rules", "../allow.rules", "--env", &path, "--"];
        home.says(&[&options[..], line].concat(), 1);
        assert!(!home.exists("outside/planted"), "{line:?}");
    }
    // One that commands can't write leaves, as the rule says, unless what it starts could be planted.
    home.write("outside/bin/deploy", "#!/bin/sh\ntouch ../outside/deployed\n");
    std::fs::remove_file(home.path("ws/.venv/bin/deploy")).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(home.path("outside/bin/deploy"), mode).unwrap();
    let deploy = |path: &str, exit_code| {
        home.says(&["run", "--rules", "../allow.rules", "--env", path, "--", "deploy"], exit_code);
    };
    deploy(&format!("{path}:{}", home.path("outside/bin").display()), 1);
    assert!(!home.exists("outside/deployed"));
    deploy(&format!("PATH=/usr/bin:/bin:{}", home.path("outside/bin").display()), 0);
    assert!(home.exists("outside/deployed"));
}

/// A repository's settings name programs, and a command can make a repository.
#[test]
fn git_does_not_leave_the_sandbox_for_a_repository_that_a_command_has_made() {
    let home = Home::new();
    home.write("allow.rules", "prefix_rule(pattern=[\"git\", \"status\"], outside=True)\n");
    let plant = "git init -q nested && git -C nested config core.fsmonitor 'touch ../../outside/planted; false'";
    home.runs(&[], plant, 0);
    let nested = home.path("ws/nested");
    let options: &[&str] = &["run", "--ask", "never", "--rules", "../allow.rules", "--cwd"];
    let status: &[&str] = &["--", "git", "status"];
    home.says(&[options, &["nested"], status].concat(), 0);
    assert!(!home.exists("outside/planted"));
    // Without a sandbox it works, so the settings are what they should be.
    let danger: &[&str] = &["run", "--sandbox", "danger-full-access", "--ask", "never", "--cwd"];
    home.says(&[danger, &[nested.to_str().unwrap()], status].concat(), 0);
    assert!(home.exists("outside/planted"));
}

/// A list in the place of a table would be taken field by field, and a date for a table of strings.
#[test]
fn nothing_but_a_table_is_a_table() {
    let home = Home::new();
    for (text, words) in [
        ("sandbox = [\"danger-full-access\"]\n", "config.toml:1:11: `sandbox` is a table, not a list"),
        ("limits = [1]\n", "config.toml:1:10: `limits` is a table, not a list"),
        ("[env]\nset = 1979-05-27\n", "config.toml:2:7: `env.set` is a table, not a date"),
        ("audit = [true]\n", "`audit` is a table, not a list"),
        ("approver = [[\"/bin/true\"]]\n", "`approver` is a table, not a list"),
        ("profiles = 1979-05-27\n", "`profiles` is a table, not a date"),
        ("[profiles]\na = [\"never\"]\n", "config.toml:2:5: `profiles.a` is a table, not a list"),
        ("[profiles.a]\nsandbox = [\"danger-full-access\"]\n", "`profiles.a.sandbox` is a table, not a list"),
        ("protected_names = [[\".x\"]]\n", "`protected_names` is a table, not a list"),
    ] {
        home.write("config/stockade/config.toml", text);
        let told = home.runs(&[], "true", 125);
        assert!(told.stderr.contains(words), "{text}: {}", told.stderr);
    }
}

#[test]
fn a_pipe_is_no_settings_file_and_no_home_is_no_obstacle() {
    let home = Home::new();
    std::fs::create_dir_all(home.path("config/stockade")).unwrap();
    let pipe = home.path("config/stockade/config.toml");
    super::home::said(crate::support::program("mkfifo").args(["-m", "600"]).arg(&pipe), 0);
    let told = home.runs(&[], "true", 125);
    assert!(told.stderr.contains("config.toml` is not an ordinary file"), "{}", told.stderr);
    std::fs::remove_file(&pipe).unwrap();
    let mut command = home.stockade(&["run", "--", "true"]);
    command.env("HOME", "/dev/null").env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME");
    super::home::said(&mut command, 0);
}

/// A reader that takes `mode.word = {}` for `mode = "word"` grants what was not written.
#[test]
fn a_table_is_no_word() {
    let home = Home::new();
    for (text, key) in [
        ("sandbox.mode.danger-full-access = {}\n", "sandbox.mode"),
        ("rules.allow.outside = {}\n", "rules.allow"),
        ("sandbox.network.full = {}\n", "sandbox.network"),
        ("engine = { auto = {} }\n", "engine"),
        ("ask = { never = {} }\n", "ask"),
        ("env.inherit.none = {}\n", "env.inherit"),
        ("audit.durability.system = {}\n", "audit.durability"),
        ("sandbox.accept_losses = [{ masks = {} }]\n", "sandbox.accept_losses"),
        ("[profiles.a.sandbox.mode.danger-full-access]\n", "profiles.a.sandbox.mode"),
    ] {
        home.write("config/stockade/config.toml", text);
        let told = home.runs(&[], "true", 125);
        assert!(told.stderr.contains(&format!("`{key}` is not a table here")), "{text}: {}", told.stderr);
    }
    home.write("config/stockade/config.toml", "ask = { reject = { rules = true } }\n");
    home.runs(&[], "true", 0);
}

/// Settings that were meant to count don't vanish in silence.
#[test]
fn a_settings_file_that_cannot_be_reached_is_an_error() {
    let home = Home::new();
    std::fs::create_dir_all(home.path("config/stockade")).unwrap();
    std::os::unix::fs::symlink("nowhere", home.path("config/stockade/config.toml")).unwrap();
    let told = home.runs(&[], "true", 125);
    assert!(told.stderr.contains("config.toml` is a link that leads nowhere: remove it"), "{}", told.stderr);
    std::fs::remove_dir_all(home.path("config/stockade")).unwrap();
    home.write("config/stockade", "");
    let told = home.runs(&[], "true", 125);
    assert!(told.stderr.contains("config/stockade` is no directory: move it away"), "{}", told.stderr);
}
