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
    let few = options.get(..80).unwrap();
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
