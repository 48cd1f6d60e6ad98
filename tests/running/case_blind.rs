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
