//! A workspace on a file system that takes upper and lower case for the same.

use super::home::{Home, User, said};
use crate::support::{program, repository};

/// Runs a script of the user, with `$STOCKADE` as the program, where the workspace is such a file system.
fn script(home: &Home, script: &str) -> String {
    let is_root = rustix::process::geteuid().is_root();
    let mut command = program("unshare");
    command.args(if is_root { ["--mount"].as_slice() } else { &["--map-root-user", "--mount"] });
    command.arg("python3").arg(repository().join("tests/running/case_blind.py")).arg(home.path("ws"));
    let mut words = home.words();
    let stockade = words.pop().unwrap();
    command.args(words).args(["sh", "-c", script]);
    home.surround(&mut command);
    command
        .env("STOCKADE", stockade)
        .env("WS", home.path("ws"))
        .env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
    let told = said(&mut command, 0);
    told.stdout + &told.stderr
}

/// gm15: a mount on `.git` does not cover `.GIT`, so that nothing runs that must not write or read it.
#[test]
fn a_rule_in_a_directory_that_ignores_case_is_refused() {
    for (user, engine) in [(User::Own, "native"), (User::Ordinary, "native"), (User::Ordinary, "bwrap")] {
        let home = Home::of(user);
        let run = format!("timeout 60 $STOCKADE run --ask never --engine {engine}");
        // The attack works without a sandbox.
        let told = script(&home, "cd $WS; mkdir -p .git/hooks; echo x > .GIT/HOOKS/pre-commit; ls -A .git/hooks");
        assert_eq!(told, "pre-commit\n");
        let line = format!(
            "cd $WS; mkdir -p .git/hooks; {run} -- sh -c 'echo x > .GIT/hooks/pre-commit'; echo $?; ls -A .git/hooks"
        );
        let told = script(&home, &line);
        assert!(told.contains("its file system ignores case") && told.starts_with("125\n"), "{engine}: {told}");
        assert!(!told.contains("pre-commit"), "{engine}: {told}");
        let line =
            "cd $WS; mkdir -p .git/hooks; printf '%s\\n' '--- /dev/null' '+++ b/.GIT/hooks/x' '@@ -0,0 +1 @@' '+x' |
            $STOCKADE patch --ask never -; echo $?; ls -A .git/hooks";
        let told = script(&home, line);
        assert!(told.starts_with("126\n") && told.contains("outside of what may be written"), "{told}");
        // What is missing is held under one spelling only.
        let told = script(&home, &format!("cd $WS; {run} -- mkdir .CODEX; echo $?; ls -A"));
        assert!(told.contains("its file system ignores case") && told.starts_with("125\n"), "{engine}: {told}");
        assert!(!told.to_lowercase().contains("\n.codex"), "nothing is left: {engine}: {told}");
        let line = format!("cd $WS; echo hunter2 > .env; {run} --sandbox read-only --deny-read .env -- cat .ENV");
        let told = script(&home, &format!("{line}; echo $?"));
        assert!(told.starts_with("125\n") && !told.contains("hunter2"), "{engine}: {told}");
        // Where nothing is taken away from a grant, there is nothing to refuse.
        let told = script(&home, &format!("cd $WS; echo a page > page; {run} --sandbox read-only -- cat PAGE"));
        assert_eq!(told, "a page\n", "{engine}");
    }
}

/// A patch that adds a file, or changes its line `hunter2`.
fn patch(old: &str, new: &str, flags: &str) -> String {
    let (hunk, removed) = if old == "/dev/null" { ("-0,0 +1", "") } else { ("-1 +1", "'-hunter2'") };
    let lines = format!("'--- {old}' '+++ {new}' '@@ {hunk} @@' {removed} '+x'");
    format!("printf '%s\\n' {lines} | $STOCKADE patch --ask never {flags} -; echo $?")
}

/// gm15: the entry on disk, names above the rule's own, and letters beyond ASCII have other spellings, too.
#[test]
fn no_spelling_leads_past_a_rule() {
    let home = Home::of(User::Ordinary);
    let reading = "--sandbox read-only --deny-read";
    for (made, line, rule) in [
        ("echo hunter2 > .ENV", format!("{reading} .env -- cat .ENV"), ".env"),
        ("mkdir -p .GIT/hooks", String::from("-- sh -c 'echo x > .GIT/hooks/pre-commit'"), ".git"),
        ("mkdir Keys; echo hunter2 > Keys/2024", format!("{reading} Keys/2024 -- cat KEYS/2024"), "Keys/2024"),
        ("mkdir é; echo hunter2 > é/1", format!("{reading} é/1 -- cat É/1"), "é/1"),
        // Whether it has another spelling can't be found out.
        ("echo hunter2 > stale", format!("{reading} stale -- true"), "stale"),
    ] {
        let run = format!("timeout 60 $STOCKADE run --ask never {line}");
        let told = script(&home, &format!("cd $WS; {made}; {run}; echo $?; find . -name pre-commit"));
        let rule = format!("the rule for `{}/{rule}`", home.path("ws").display());
        assert!(told.starts_with("125\n") && told.contains(&rule), "{line}: {told}");
        assert!(told.contains("its file system ignores case"), "{line}: {told}");
        assert!(!told.contains("hunter2") && !told.contains("pre-commit"), "{line}: {told}");
    }
    let pem = patch("a/KEY.PEM", "b/KEY.PEM", "--deny-read '*.pem'");
    let below = patch("a/KEYS/2024", "b/KEYS/2024", "--deny-read Keys/2024");
    for (made, line, reason) in [
        ("mkdir -p .GIT/hooks", &patch("/dev/null", "b/.GIT/hooks/x", ""), "outside of what may be written"),
        ("mkdir Keys; echo hunter2 > Keys/2024", &below, "may not be read here"),
        ("echo hunter2 > key.pem", &pem, "may not be read here"),
        ("echo hunter2 > KEY.PEM", &pem, "may not be read here"),
    ] {
        let told = script(&home, &format!("cd $WS; {made}; {line}"));
        assert!(told.starts_with("126\n") && told.contains(reason), "{line}: {told}");
    }
}
