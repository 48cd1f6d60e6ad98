//! What the program says of warnings, usage and contradictions, and that it is so.

use std::path::Path;

use stockade_protocol::{Outcome, RefusedBy, parse};

use super::home::{Home, User, said};

/// The denied file has another name, which no sandbox can close: that is a warning, said as a sentence.
#[test]
fn a_warning_is_a_sentence() {
    let home = Home::new();
    home.write("ws/key.pem", "x");
    std::fs::hard_link(home.path("ws/key.pem"), home.path("ws/other")).unwrap();
    let told = home.runs(&["--deny-read", "key.pem"], "true", 0);
    let expected = format!(
        "stockade: warning: `{}` is denied, and can be read under another name: it has hard links\n",
        home.path("ws/key.pem").display()
    );
    assert_eq!(told.stderr, expected);
}

#[test]
fn a_workspace_that_the_user_cannot_write_is_no_obstacle() {
    let home = Home::of(User::Ordinary);
    for directory in ["/etc", "/usr", "/proc", "/sys"] {
        let told = home.runs_in(Path::new(directory), &[], "ls > /dev/null", 0);
        let note = format!("`{directory}` is not made writable");
        assert!(told.stderr.contains(&note), "{directory}: {}", told.stderr);
    }
    // An empty one is no obstacle either.
    home.runs(&["--workspace", "../outside"], "ls", 0);
    let told = home.says(&["run", "--json", "--workspace", "/etc", "--", "true"], 0);
    assert!(told.stdout.contains("\"exited\""), "{}", told.stdout);
}

/// `run --json` prints one outcome, whatever is wrong; other commands print one object.
#[test]
fn json_has_one_document_for_every_end() {
    let home = Home::new();
    let outcome = |arguments: &[&str], words: &str| {
        let told = home.says(arguments, 125);
        let ended = parse::<Outcome>(&told.stdout).unwrap_or_else(|error| panic!("{error}: {}", told.stdout));
        let Outcome::Refused(refusal) = &ended else { panic!("{ended:?}") };
        assert_eq!(refusal.by, RefusedBy::Usage, "{arguments:?}");
        assert!(refusal.reason.contains(words), "{arguments:?}: {}", refusal.reason);
        assert_eq!(told.stderr, "", "{arguments:?}");
    };
    outcome(&["run", "--json", "--writeable", "x", "--", "true"], "a similar argument exists: '--writable'");
    outcome(&["run", "--json"], "required arguments were not provided");
    outcome(&["run", "--json", "--sandbox", "read-only", "--writable", ".", "--", "true"], "has no effect");
    outcome(&["run", "--json", "--cwd", "nowhere", "--", "true"], "`nowhere` is no directory");
    outcome(&["run", "--json", "--rules", "nowhere", "--", "true"], "nowhere");
    home.write("config/stockade/config.toml", "sandbox = 3\n");
    outcome(&["run", "--json", "--", "true"], "config.toml:1:");
    for arguments in [&["explain", "--json", "--", "true"][..], &["explain", "--json", "--nothing"][..]] {
        let told = home.says(arguments, 125);
        let document: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
        assert!(document["error"].as_str().is_some_and(|error| !error.is_empty()), "{}", told.stdout);
        assert_eq!(told.stderr, "", "{arguments:?}");
    }
    // What stands behind `--` is the command's own.
    std::fs::remove_file(home.path("config/stockade/config.toml")).unwrap();
    let told = home.says(&["run", "--writeable", "x", "--", "echo", "--json"], 125);
    assert!(told.stdout.is_empty() && told.stderr.contains("--writable"), "{}", told.stderr);
}

#[test]
fn limits_are_read_as_people_write_them() {
    let home = Home::new();
    for limit in ["memory=256MiB", "memory=512MB,cpu=30s", "fsize=64k", "memory=1g"] {
        home.runs(&["--limit", limit], "true", 0);
    }
    let told = home.runs(&["--limit", "memory=1Q"], "true", 125);
    assert!(told.stderr.contains("write bytes, or a number with K, M, G or T"), "{}", told.stderr);
}

#[test]
fn the_same_flag_twice_says_nothing_new() {
    let home = Home::new();
    home.runs(&["--network", "off", "--network", "off", "--timeout", "9s", "--timeout", "9s"], "true", 0);
    home.says(&["run", "--json", "--json", "--sandbox", "read-only", "--sandbox", "read-only", "--", "true"], 0);
    let told = home.runs(&["--network", "off", "--network", "full"], "true", 125);
    assert!(told.stderr.contains("`--network` is given as `off` and as `full`"), "{}", told.stderr);
}

/// What `explain` says is what `run` does.
#[test]
fn explain_and_run_agree() {
    let home = Home::new();
    let told = home.says(&["explain", "--sandbox", "external-sandbox", "--", "true"], 0);
    assert!(told.stdout.contains("the network is open"), "{}", told.stdout);
    for mode in ["external-sandbox", "danger-full-access"] {
        let told = home.runs(&["--sandbox", mode, "--network", "off"], "true", 125);
        assert!(told.stderr.contains("`--network` has no effect"), "{}", told.stderr);
    }
    let names: Vec<String> = (0..60).map(|number| format!("../outside/{number}")).collect();
    for name in &names {
        std::fs::create_dir(home.path("ws").join(name)).unwrap();
    }
    let options: Vec<&str> = names.iter().flat_map(|name| ["--writable", name.as_str()]).collect();
    let few = options.get(..60).unwrap();
    home.says(&[&["run"], few, &["--", "true"]].concat(), 0);
    home.says(&[&["explain"], few, &["--", "true"]].concat(), 0);
    for command in ["run", "explain"] {
        let mut command = home.stockade(&[&[command], &options[..], &["--", "true"]].concat());
        let told = said(&mut command, 125);
        let words = "make a directory writable that holds several of them";
        assert!(told.stdout.contains(words) || told.stderr.contains(words), "{}{}", told.stdout, told.stderr);
    }
}

/// A hook answers without a terminal, whether `--ask` is given or not.
#[test]
fn a_hook_is_asked_without_a_terminal() {
    let home = Home::new();
    let hook = home.path("outside/hook");
    let script = format!("#!/bin/sh\ncat > /dev/null\necho >> {}.asked\necho '\"approved\"'\n", hook.display());
    home.write("outside/hook", &script);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&hook, mode).unwrap();
    home.write("config/stockade/config.toml", &format!("[approver]\nhook = [{:?}]\n", hook.to_str().unwrap()));
    home.runs(&[], "echo x > ../outside/made", 0);
    assert!(home.exists("outside/made") && home.read("outside/hook.asked") == "\n");
    home.runs(&["--ask", "untrusted"], "mkdir made", 0);
    assert!(home.exists("ws/made") && home.read("outside/hook.asked") == "\n\n");
    home.runs(&["--ask", "never"], "echo x > ../outside/more", 2);
    assert!(!home.exists("outside/more") && home.read("outside/hook.asked") == "\n\n");
}

/// Why a command is run reaches the question, with secrets taken out of what goes on record.
#[test]
fn a_justification_is_part_of_the_question() {
    let home = Home::new();
    home.write("outside/hook", &format!("#!/bin/sh\ncat > {}\n", home.path("outside/question").display()));
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(home.path("outside/hook"), mode).unwrap();
    let hook = home.path("outside/hook");
    home.write("config/stockade/config.toml", &format!("[approver]\nhook = [{:?}]\n", hook.to_str().unwrap()));
    home.runs(&["--ask", "untrusted", "--justification", "the release is due"], "touch made", 126);
    let question: serde_json::Value = serde_json::from_str(&home.read("outside/question")).unwrap();
    let subject = &question["subject"]["command"];
    assert_eq!(subject["justification"], "the release is due", "{question}");
}

/// What a settings file gets wrong is named with its place, and what has no effect is said to have none.
#[test]
fn an_error_in_the_settings_names_its_place() {
    let home = Home::new();
    let file = home.path("config/stockade/config.toml").display().to_string();
    for (bytes, words) in [
        (&b"[env.set]\nA = \"x\\u0000y\"\n"[..], format!("{file}:2:1: `env.set.A`: no variable can hold a NUL")),
        (b"profile = \"nope\"\n", format!("{file}:1:11: `profile`: no profile is called `nope`")),
        (b"ask = \"never\"\n# \xff\n", format!("{file}:2:3: this is not UTF-8")),
    ] {
        std::fs::create_dir_all(home.path("config/stockade")).unwrap();
        std::fs::write(home.path("config/stockade/config.toml"), bytes).unwrap();
        let told = home.runs(&[], "true", 125);
        assert!(told.stderr.contains(&words), "{words}: {}", told.stderr);
    }
    home.write("config/stockade/config.toml", "[sandbox]\nmode = \"read-only\"\nwritable_roots = [\"/var/tmp\"]\n");
    let told = home.runs(&[], "true", 0);
    assert!(told.stderr.contains("`sandbox.writable_roots` has no effect"), "{}", told.stderr);
    assert!(!home.runs(&["--sandbox", "read-only"], "true", 0).stderr.contains("no effect"));
}

/// A masked file that is a link is read where it leads, and its name is what can be granted.
#[test]
fn a_masked_file_behind_a_link_is_called_by_its_name() {
    let home = Home::of(User::Ordinary);
    home.write("outside/netrc", "hunter2\n");
    std::os::unix::fs::symlink(home.path("outside/netrc"), home.path("home/.netrc")).unwrap();
    home.give_to_user();
    let told = home.runs(&[], "cat ../outside/netrc", 1);
    let name = home.path("home/.netrc").display().to_string();
    assert!(told.stderr.contains(&format!("reading `{name}` was denied")), "{}", told.stderr);
    let granted = home.runs(&["--readable", "/", "--readable", &name], "cat ../outside/netrc", 0);
    assert_eq!(granted.stdout, "hunter2\n", "{}", granted.stderr);
}

/// Grants that a user could not use are left out and said, and what links lead to does not keep a run from starting.
#[test]
fn a_grant_that_comes_to_nothing_does_not_end_the_run() {
    let home = Home::of(User::Ordinary);
    for existing in ["home/dots/config", "home/dots/config/stockade"] {
        std::fs::create_dir_all(home.path(existing)).unwrap();
        std::os::unix::fs::symlink("dots/config", home.path("home/.config")).ok();
        home.give_to_user();
        let mut command =
            home.stockade(&["run", "--workspace", "../home", "--", "sh", "-c", "rm ../home/.config; true"]);
        super::home::said(command.env_remove("XDG_CONFIG_HOME"), 0);
        assert!(home.path("home/.config").is_symlink(), "{existing}");
    }
    let told = home.runs(&["--writable", "/usr"], "true", 0);
    assert!(told.stderr.contains("`/usr` is not made writable"), "{}", told.stderr);
}

/// A private `/tmp` comes with a writable workspace.
#[test]
fn what_is_advised_for_temporary_files_is_enough() {
    let home = Home::new();
    let told = home.runs(&["--sandbox", "read-only"], "mktemp", 1);
    assert!(told.stderr.contains("; `--sandbox workspace-write` would allow it"), "{}", told.stderr);
    home.runs(&["--sandbox", "workspace-write"], "mktemp", 0);
}

/// The main thread's stack is what the caller's limit leaves; the work has its own.
#[test]
fn a_small_stack_is_enough() {
    let home = Home::new();
    let mut command = crate::support::program("prlimit");
    command.arg("--stack=262144:262144").args(home.words()).args(["run", "--", "echo", "well"]);
    home.surround(&mut command);
    assert_eq!(super::home::said(&mut command, 0).stdout, "well\n");
}
