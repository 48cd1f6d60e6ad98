//! A line that does not show what it runs is not asked about where every program that it starts is judged.

use super::home::{Home, User};
use super::sessions::Sessions;
use super::terminal::start;

const FORBIDDEN: &str =
    "prefix_rule(pattern=[\"touch\", \"made\"], decision=\"forbidden\", justification=\"use the other tool\")\n";
const OTHER: &str = "prefix_rule(pattern=[\"shutdown\"], decision=\"forbidden\")\n";

/// Lines that start `touch made` and do not show it.
const LINES: &[&[&str]] = &[
    &["bash", "-c", "t=tou; ${t}ch made"],
    &["bash", "-lc", "eval \"$(printf 'touch made')\""],
    &["bash", "-c", "echo touch made | bash"],
    &["bash", "-c", "f() { \"$@\"; }; f touch made"],
    &["bash", "-c", "PATH=/usr/bin:$PATH; a=(touch made); \"${a[@]}\""],
    &["bash", "-c", "exec -a x ${X:-touch} made"],
    &["bash", "-c", "hash -p /usr/bin/touch ls; ls made"],
    &["dash", "-c", "t=tou; ${t}ch made"],
    &["sh", "-c", "echo touch made | sh"],
    &["/bin/sh", "-c", "x='touch made'; $x"],
    &["bash", "-c", "exec 9</usr/bin/touch; x=/proc/$$/fd/9; $x made"],
    &["bash", "-c", "exec 9</usr/bin/touch; x=/proc/self/task/$$/fd/9; exec $x made"],
    &["/usr/bin/bash", "-c", "x=bash; $x -c \"$(echo touch made)\""],
];

fn home(user: User, rules: &str) -> Home {
    let home = Home::of(user);
    home.write("config/stockade/rules/mine.rules", rules);
    home.give_to_user();
    home
}

fn tries(home: &Home, options: &[&str], words: &[&str]) -> (Option<i32>, String) {
    let output = home.stockade(&[&["run"], options, &["--"], words].concat()).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn explained(home: &Home, options: &[&str], words: &[&str]) -> serde_json::Value {
    let output = home.stockade(&[&["explain", "--json"], options, &["--"], words].concat()).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn such_a_line_runs_and_the_rule_holds_at_the_start() {
    for (user, engine) in [(User::Own, "native"), (User::Ordinary, "native"), (User::Ordinary, "bwrap")] {
        let home = home(user, FORBIDDEN);
        for words in LINES {
            for ask in ["never", "on-request"] {
                let (_, said) = tries(&home, &["--engine", engine, "--ask", ask], words);
                assert!(!home.exists("ws/made"), "{engine} {ask} {words:?}: {said}");
                assert!(
                    said.contains("use the other tool") && !said.contains("asks no questions"),
                    "{words:?}: {said}"
                );
            }
        }
    }
}

#[test]
fn a_line_that_starts_nothing_restricted_is_not_asked_about() {
    let home = home(User::Ordinary, OTHER);
    for words in LINES {
        for ask in ["never", "on-failure", "on-request", "reject=rules"] {
            let (exit_code, said) = tries(&home, &["--ask", ask], words);
            assert!(exit_code == Some(0) && home.exists("ws/made"), "{ask} {words:?}: {said}");
            std::fs::remove_file(home.path("ws/made")).unwrap();
        }
        let told = explained(&home, &["--ask", "never"], words);
        assert!(told["requirement"]["skip"].is_object(), "{words:?}: {told}");
        assert!(told["left_to_starts"].as_str().unwrap().contains("a rule ("), "{words:?}: {told}");
    }
    let said = home.says(&["explain", "--", "bash", "-c", "$x y"], 0).stdout;
    assert!(said.contains("programs that it starts are judged by a rule: forbidden [\"shutdown\"] ("), "{said}");
    assert!(said.contains("so it is not asked first, although "), "{said}");
}

/// In a session, too.
#[test]
fn a_session_judges_the_starts_of_such_a_line() {
    let sessions = Sessions::of(User::Ordinary);
    sessions.home.write("config/stockade/rules/mine.rules", FORBIDDEN);
    sessions.home.give_to_user();
    for options in [&["--ask", "never"][..], &[]] {
        let line = ["--", "bash", "-c", "t=tou; ${t}ch made; ${t}ch other"];
        let output = sessions.stockade(&[&["run", "--session", "s"], options, &line].concat()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("use the other tool") && !said.contains("asks no questions"), "{said}");
        assert!(!sessions.home.exists("ws/made") && sessions.home.exists("ws/other"), "{said}");
        std::fs::remove_file(sessions.home.path("ws/other")).unwrap();
    }
}

/// `explain` and `run` agree on each.
#[test]
fn the_question_stays_where_starts_do_not_tell() {
    let home = home(User::Ordinary, OTHER);
    home.write("ws/bin/bash", "#!/bin/sh\n");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(home.path("ws/bin/bash"), executable).unwrap();
    std::os::unix::fs::symlink("/usr/bin/bash", home.path("ws/sh")).unwrap();
    home.give_to_user();
    for words in [
        &["zsh", "-c", "$x y"][..],
        &["bash", "-c", "zsh -c \"$x\""],
        &["busybox", "sh", "-c", "$x y"],
        &["bash", "-c", "busybox $x"],
        &["bash", "-c", "enable -f ./shutdown shutdown; $x"],
        &["bash", "-c", "cp /usr/bin/touch x; ./x $y"],
        &["bash", "-c", "ssh host \"$x\""],
        &["bash", "-c", "rm -rf / ; $x"],
        &["env", "bash", "-c", "$x y"],
        &["./bin/bash", "-c", "$x y"],
        &["./sh", "-c", "$x y"],
        &["bash", "-c", "./sh -c \"$x\""],
        &["nosuchdir/bash", "-c", "$x y"],
    ] {
        let told = explained(&home, &["--ask", "never"], words);
        assert!(told["requirement"]["forbidden"].is_object() && told["left_to_starts"].is_null(), "{words:?}: {told}");
        let (exit_code, said) = tries(&home, &["--ask", "never"], words);
        assert!(exit_code == Some(126) && said.contains("asks no questions"), "{words:?}: {said}");
    }
    for options in [&["--ask", "untrusted"][..], &["--ask", "never", "--sandbox", "danger-full-access"]] {
        let told = explained(&home, options, &["bash", "-c", "$x y"]);
        assert!(told["requirement"]["skip"].is_null() && told["left_to_starts"].is_null(), "{options:?}: {told}");
    }
    for builtin in ["kill", "printf", "time", "test"] {
        home.write(
            "config/stockade/rules/mine.rules",
            &format!("prefix_rule(pattern=[\"{builtin}\"], decision=\"forbidden\")\n"),
        );
        let told = explained(&home, &["--ask", "never"], &["bash", "-c", "$x y"]);
        assert!(told["requirement"]["forbidden"].is_object(), "{builtin}: {told}");
    }
}

/// The dynamic loader runs a program without a start of it.
#[test]
fn what_the_loader_is_told_to_run_is_judged() {
    let mut loaders = std::fs::read_dir("/lib64").into_iter().flatten().chain(std::fs::read_dir("/lib").unwrap());
    let loader = loaders.find_map(|entry| {
        let path = entry.unwrap().path();
        path.file_name()?.to_str()?.starts_with("ld-linux").then_some(path)
    });
    let loader = loader.expect("a system with glibc");
    for (user, engine) in [(User::Own, "native"), (User::Ordinary, "bwrap")] {
        let home = home(user, FORBIDDEN);
        home.write("ws/loaded", &format!("#!{} /usr/bin/touch\n", loader.display()));
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(home.path("ws/loaded"), executable).unwrap();
        home.give_to_user();
        for rest in [
            "/usr/bin/touch made",
            "--inhibit-cache --library-path /x /usr/bin/touch made",
            "--argv0 x /usr/bin/../bin/touch made",
            "../../../../../../usr/bin/touch made",
        ] {
            let line = format!("l={}; $l {rest}", loader.display());
            let (_, said) = tries(&home, &["--engine", engine, "--ask", "never"], &["bash", "-c", &line]);
            assert!(said.contains("use the other tool") && !home.exists("ws/made"), "{rest}: {said}");
        }
        let line = format!("ln -s {} l; ln -s /usr/bin/touch t; l=./l; $l ./t made", loader.display());
        let (_, said) = tries(&home, &["--engine", engine], &["/usr/bin/python3", "-c", &system(&line)]);
        assert!(said.contains("use the other tool") && !home.exists("ws/made"), "{said}");
        let line = format!("{} /usr/bin/touch other", loader.display());
        let (_, said) = tries(&home, &["--engine", engine], &["/usr/bin/python3", "-c", &system(&line)]);
        assert!(home.exists("ws/other"), "{said}");
    }
}

fn system(line: &str) -> String {
    format!("import os; os.system({line:?})")
}

#[test]
fn long_words_are_cut_wherever_they_are_told() {
    let home = home(User::Ordinary, FORBIDDEN);
    let code = "import subprocess\ntry: subprocess.run(['touch', 'made', 'x' * 85000] + ['y' * 100] * 300)\nexcept OSError: pass\n";
    let words = ["/usr/bin/python3", "-c", code];
    let (_, said) = tries(&home, &[], &words);
    assert!(said.contains("use the other tool") && said.contains('…') && said.len() < 8000, "{}: {said}", said.len());
    let told = home.stockade(&[&["run", "--json", "--"][..], &words].concat()).output().unwrap().stdout;
    assert!(told.len() < 20_000, "{}", told.len());
    let shown = home.says(&["audit", "show", &last_request(&home)], 0).stdout;
    assert!(shown.len() < 20_000 && shown.contains("xxx‹") && shown.contains("left out›"), "{}", shown.len());
}

fn last_request(home: &Home) -> String {
    let listed = home.says(&["audit", "list", "--last", "1"], 0).stdout;
    listed.split("\"request_id\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap().to_owned()
}

/// The trail and the outcome have who started what, with each decision.
#[test]
fn the_tree_of_what_was_started_is_told() {
    let rules = [FORBIDDEN, "prefix_rule(pattern=[\"mkdir\", \"asked\"], decision=\"prompt\")\n"].concat();
    let home = home(User::Ordinary, &rules);
    home.write("ws/Makefile", "all:\n\t-touch made\n\ttrue && mkdir asked\n");
    home.give_to_user();
    let mut screen = start(&home, &["run", "--", "make"]);
    screen.sees("]? ");
    screen.types("y");
    let (exit_code, rest) = screen.ends();
    assert!(exit_code == 0 && home.exists("ws/asked"), "{rest}");
    let shown = home.says(&["audit", "show", &last_request(&home)], 0).stdout;
    let tree = shown.split("what it started, as far as a rule spoke of it:\n").nth(1).unwrap();
    let lines: Vec<&str> = tree.lines().collect();
    assert_eq!(lines[0], "  make", "{tree}");
    assert!(lines[1].starts_with("  ├─ touch made  forbidden: a rule ("), "{tree}");
    assert!(lines[1].ends_with("forbids `touch made`: use the other tool"), "{tree}");
    assert_eq!(lines[2], "  └─ /bin/sh -c 'true && mkdir asked'", "{tree}");
    assert_eq!(lines[3], "     └─ mkdir asked  allowed by a person", "{tree}");
    std::fs::remove_dir(home.path("ws/asked")).unwrap();
    let told = home.stockade(&["run", "--json", "--", "make"]).output().unwrap().stdout;
    let told: serde_json::Value = serde_json::from_slice(&told).unwrap();
    let programs = &told["denied"]["execution"]["programs"];
    assert_eq!(programs[0]["command"], serde_json::json!(["touch", "made"]), "{told}");
    assert_eq!(programs[0]["started_by"], serde_json::json!([["make"]]), "{told}");
    assert_eq!(programs[0]["decision"], "forbidden", "{told}");
    assert_eq!(programs[1]["command"], serde_json::json!(["mkdir", "asked"]), "{told}");
}
