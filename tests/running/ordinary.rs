//! Ordinary commands that the sandbox does not hinder raise no questions: what passes unasked under `never` passes unasked under
//! `on-failure`, where denied writes and connections wait for an answer.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::home::{Home, User, said};
use crate::support::program;

/// The questions that this many commands may raise.
const MOST_QUESTIONS: usize = 2;
const FEWEST_COMMANDS: usize = 200;

/// A line for each command. They share a workspace, and each can be run again.
const COMMANDS: &str = include_str!("../cases/ordinary.txt");

/// Lays out a small project of several languages with a repository, as an ordinary user has it.
const LAY_OUT: &str = r#"
set -e
mkdir -p src sub tests empty
printf 'int util(void);\nint main(void) { return util(); }\n' > src/main.c
printf 'int util(void) { return 0; }\n' > src/util.c
printf 'one,1\ntwo,2\nthree,3\n' > data.csv
printf 'A project.\nIt has several lines,\nand one more.\n' > README.md
printf 'README.md data.csv\n' > names
printf '#!/bin/sh\necho ran\n' > run.sh
printf 'all: prog.o\nprog.o: src/main.c\n\tgcc -c -o prog.o src/main.c\nclean:\n\trm -f prog.o\ntest:\n\ttrue\n.PHONY: all clean test\n' > Makefile
printf 'all:\n\techo sub\n' > sub/Makefile
printf 'import json\nprint(json.dumps({"a": 1}))\n' > tool.py
printf 'import unittest\nclass T(unittest.TestCase):\n    def test(self): pass\n' > tests/test_tool.py
printf 'console.log(require("./package.json").name)\n' > index.js
printf 'require("node:test")("passes", () => {})\n' > tests/own.test.js
printf '{"name":"demo","version":"1.0.0","scripts":{"build":"node index.js","test":"node index.js"}}\n' > package.json
printf -- '--- src/util.c\n+++ src/util.c\n@@ -1 +1 @@\n-int util(void) { return 0; }\n+int util(void) { return 1; }\n' > change.patch
gcc -c -o archive.o src/util.c
tar -czf archive.tgz README.md
python3 -m zipfile -c archive.zip README.md
gzip -c README.md > packed.gz
git init -q .
git add README.md src
git -c user.name=T -c user.email=t@example.org commit -qm first
git -c user.name=T -c user.email=t@example.org commit -qm second --allow-empty
chmod +x run.sh
"#;

fn project() -> Home {
    let home = Home::of(User::Ordinary);
    home.write("home/.gitconfig", "[user]\n\tname = T\n\temail = t@example.org\n[safe]\n\tdirectory = *\n");
    // Of a user who has run npm before: it looks for a new version of itself once a week.
    home.write("home/.npm/_update-notifier-last-checked", "");
    home.write("home/.npm/_logs/.keep", "");
    said(program("bash").args(["-c", LAY_OUT]).current_dir(home.path("ws")).env("HOME", home.path("home")), 0);
    // Writes each question down, and says no.
    home.write("hook", "#!/bin/sh\ncat >> \"$(dirname \"$0\")/asked\"\necho '\"denied\"'\n");
    fs::set_permissions(home.path("hook"), fs::Permissions::from_mode(0o755)).unwrap();
    home.write("asked", "");
    let hook = home.path("hook");
    home.write("config/stockade/config.toml", &format!("[approver]\nhook = [\"{}\"]\n", hook.display()));
    home.give_to_user();
    home
}

/// Runs every command under a policy, one after the other; gives the lines that do not end well.
fn failures(home: &Home, ask: &str) -> Vec<String> {
    let failure = |line: &str| {
        let output = home.stockade(&["run", "--ask", ask, "--", "bash", "-c", line]).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        (!output.status.success()).then(|| format!("{line}: {}: {stderr}", output.status))
    };
    COMMANDS.lines().filter_map(failure).collect()
}

#[test]
fn ordinary_commands_are_not_asked_about() {
    assert!(COMMANDS.lines().count() >= FEWEST_COMMANDS);
    let (unasked, asking) = (project(), project());
    let (unasked, failed) = std::thread::scope(|scope| {
        let unasked = scope.spawn(|| failures(&unasked, "never"));
        let failed = failures(&asking, "on-failure");
        (unasked.join().unwrap(), failed)
    });
    assert_eq!(unasked, Vec::<String>::new(), "under `never`");
    let asked = asking.read("asked");
    let questions = asked.lines().count();
    assert!(questions <= MOST_QUESTIONS, "{questions} questions: {asked}");
    assert!(failed.len() <= questions, "{failed:?}");
}
