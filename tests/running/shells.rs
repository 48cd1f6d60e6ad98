//! `stockade run -c`, and `stockade-sh` where other programs name a shell.

use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use stockade_tests::screen::Screen;

use super::home::{Home, User, fed, said};
use crate::support::{program, text};

/// What shows that a line ran in the sandbox: inside it can be written, outside it can't.
const CONFINED: &str = "echo in > inside; echo out 2>/dev/null > ../outside/x || echo confined";

fn home_with_shell(user: User) -> Home {
    let home = Home::of(user);
    symlink("stockade", home.path("stockade-sh")).unwrap();
    home
}

fn shell(home: &Home) -> String {
    home.path("stockade-sh").to_str().unwrap().to_owned()
}

/// Another program, started in the workspace by a user without a terminal.
fn other(home: &Home, words: &[&str]) -> Command {
    let mut command = program("env");
    command.args(["--default-signal", "setsid", "--wait"]).args(words);
    home.surround(&mut command);
    command.stdin(Stdio::null());
    command
}

fn sh(home: &Home, words: &[&str]) -> Command {
    other(home, &[&[shell(home).as_str()], words].concat())
}

fn is_confined(home: &Home) -> bool {
    home.exists("ws/inside") && !home.exists("outside/x")
}

#[test]
fn a_line_is_run_and_judged_as_bash_would_run_it() {
    let home = Home::new();
    let told = home.says(&["run", "-c", "set -o pipefail; printf '%s\\n' \"$0\" \"$@\" | cat", "name", "-x", "a b"], 0);
    assert_eq!(told.stdout, "name\n-x\na b\n");
    assert_eq!(home.says(&["run", "-c", "[[ ab == a* ]] && exit 7"], 7).stdout, "");
    assert_eq!(home.says(&["run", "-c", CONFINED], 0).stdout, "confined\n");
    assert!(is_confined(&home));
    // A signal is told by the exit code, as for any command of `run`.
    home.says(&["run", "-c", "kill -TERM $$"], 143);
    let line = "git status && rm -rf build";
    let given = home.says(&["explain", "--ask", "untrusted", "--json", "-c", line], 1).stdout;
    let typed = home.says(&["explain", "--ask", "untrusted", "--json", "--", "bash", "-c", line], 1).stdout;
    assert_eq!(given, typed);
    home.write("config/stockade/rules/x.rules", "prefix_rule(pattern = [\"ls\"], decision = \"forbidden\")");
    assert!(home.says(&["run", "-c", "true; ls"], 126).stderr.contains("ls"));
}

#[test]
fn every_way_to_call_a_shell_runs_the_line() {
    for user in [User::Own, User::Ordinary] {
        let home = home_with_shell(user);
        home.give_to_user();
        for words in [
            &["-c", CONFINED][..],
            &["-lc", CONFINED],
            &["-c", "-l", CONFINED],
            &["-eu", "-o", "pipefail", "-c", CONFINED],
            &["--login", "-c", "--", CONFINED],
            &[CONFINED],
            &["--", CONFINED],
        ] {
            let mut command = match user {
                User::Own => sh(&home, words),
                User::Ordinary => {
                    let mut all: Vec<String> =
                        home.words().iter().map(|word| word.to_str().unwrap().to_owned()).collect();
                    all.pop();
                    all.push(shell(&home));
                    let all: Vec<&str> = all.iter().map(String::as_str).chain(words.iter().copied()).collect();
                    other(&home, &all)
                }
            };
            let told = said(&mut command, 0);
            assert_eq!(told.stdout, "confined\n", "{words:?}: {}", told.stderr);
            assert!(is_confined(&home), "{words:?}");
            std::fs::remove_file(home.path("ws/inside")).unwrap();
        }
        if user == User::Own {
            assert_eq!(said(&mut sh(&home, &["-c", "echo $0 $1", "name", "a"]), 0).stdout, "name a\n");
            assert!(said(&mut sh(&home, &["-xc", "echo a"]), 0).stderr.contains("+ echo a\n"));
        }
    }
}

#[test]
fn what_is_no_line_says_what_to_do() {
    let home = home_with_shell(User::Own);
    home.write("ws/script", "#!/usr/bin/env stockade-sh\necho a\n");
    for (words, says) in [
        (&[][..], "`stockade run -- bash`"),
        (&["-i"], "`stockade run -- bash`"),
        (&["-s"], "does not know the option `-s`"),
        (&["--rcfile", "x", "-c", "true"], "`--rcfile`"),
        (&["a", "b"], "quote the line"),
        (&["./script"], "names stockade-sh as its interpreter"),
    ] {
        let told = said(&mut sh(&home, words), 2);
        assert!(told.stderr.contains(says), "{words:?}: {}", told.stderr);
    }
    assert!(said(&mut sh(&home, &["--help"]), 0).stdout.contains("stockade-sh [OPTIONS OF BASH] -c LINE"));
}

/// Exit codes and signals are those that the shell itself ends with.
#[test]
fn it_ends_as_the_shell_ends() {
    let home = home_with_shell(User::Own);
    for line in ["exit 0", "exit 3", "no-such-program-here", "kill -TERM $$", "kill -KILL $$", "kill -SEGV $$", "("] {
        let status = |shell: &str| {
            let mut command = program(shell);
            home.surround(&mut command);
            let output = command.args(["-c", line]).stdin(Stdio::null()).output().unwrap();
            (output.status.code(), output.status.signal())
        };
        assert_eq!(status(&shell(&home)), status("bash"), "{line}");
    }
    // One that a signal of the caller's ends, ends by it.
    let mut command = program(shell(&home));
    home.surround(&mut command);
    command.args(["-c", "echo ready; exec sleep 60"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut ready = [0; 6];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(15));
}

#[test]
fn make_runs_its_recipes_in_it() {
    let home = home_with_shell(User::Own);
    home.write(
        "ws/Makefile",
        &format!("all: one two\none:\n\t@{CONFINED}\ntwo:\n\t@echo $(shell echo made)\nfails:\n\t@exit 5\n"),
    );
    let shell = format!("SHELL={}", shell(&home));
    let told = said(&mut other(&home, &["make", &shell]), 0);
    assert_eq!(told.stdout, "confined\nmade\n", "{}", told.stderr);
    assert!(is_confined(&home));
    let told = said(&mut other(&home, &["make", &shell, "fails"]), 2);
    assert!(told.stderr.contains("Error 5"), "{}", told.stderr);
    // Several at once, with the flags that a project sets, and the recipe as one line.
    let flags =
        "export X = 1\n.ONESHELL:\n.SHELLFLAGS = -euo pipefail -c\nall: a b c d\na b c d:\n\t@y=$@\n\techo $$y$$X\n";
    home.write("ws/Makefile", flags);
    let told = said(&mut other(&home, &["make", "-j4", &shell]), 0);
    let mut lines: Vec<&str> = told.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["a1", "b1", "c1", "d1"], "{}", told.stderr);
}

#[test]
fn programs_that_start_a_named_shell_find_one() {
    let home = home_with_shell(User::Own);
    let shell = shell(&home);
    // What is denied at a terminal is asked about otherwise.
    home.write("config/stockade/config.toml", "ask = \"never\"\n");
    let mut script = other(&home, &["script", "-qec", &format!("{CONFINED}; exit 4"), "/dev/null"]);
    let told = said(script.env("SHELL", &shell), 4);
    assert!(told.stdout.contains("confined") && is_confined(&home), "{}{}", told.stdout, told.stderr);

    let python = "import subprocess, sys\n\
        ended = subprocess.run(sys.argv[2], shell=True, executable=sys.argv[1], capture_output=True, text=True)\n\
        print(ended.stdout, end='')\n\
        print(subprocess.run('kill -TERM $$', shell=True, executable=sys.argv[1]).returncode)";
    let told = said(&mut other(&home, &["/usr/bin/python3", "-c", python, &shell, CONFINED]), 0);
    assert_eq!(told.stdout, "confined\n-15\n", "{}", told.stderr);

    crate::support::run(other(&home, &["git", "init", "-q"]).env("GIT_CONFIG_NOSYSTEM", "1"), 0);
    let editor = format!("core.editor={shell} -c 'cat \"$1\" && echo x > ../outside/x' editor");
    let commit = ["git", "-c", &editor, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--allow-empty"];
    let told = said(&mut other(&home, &[&commit[..], &["-e", "-m", "the message"]].concat()), 1);
    assert!(told.stdout.contains("the message") && told.stderr.contains("problem with the editor"), "{}", told.stderr);
    assert!(!home.exists("outside/x"));
}

#[test]
fn npm_runs_its_scripts_in_it() {
    let home = home_with_shell(User::Own);
    let scripts = serde_json::json!({ "name": "a", "version": "1.0.0",
        "scripts": { "confined": CONFINED, "fails": "exit 6", "words": "printf '%s\\n'" } });
    home.write("ws/package.json", &scripts.to_string());
    let shell = format!("--script-shell={}", shell(&home));
    let npm = |words: &[&str], code: i32| {
        said(&mut other(&home, &[&["npm", "run", "--silent", "--no-update-notifier", &shell], words].concat()), code)
    };
    let told = npm(&["confined"], 0);
    assert_eq!(told.stdout, "confined\n", "{}", told.stderr);
    assert!(is_confined(&home));
    npm(&["fails"], 6);
    assert_eq!(npm(&["words", "--", "a b", "$HOME"], 0).stdout, "a b\n$HOME\n");
}

/// As agents use a prefix: a shell runs it, with the whole line as one word. It gets the caller's input.
#[test]
fn it_is_a_prefix_for_lines() {
    let home = home_with_shell(User::Own);
    let line = format!("{} {}", shell(&home), "'cat && cd / && pwd -P >| /tmp/agent-cwd && eval '\\''echo done'\\'''");
    let output = fed(&mut other(&home, &["bash", "-c", "-l", &line]), b"fed\n");
    assert_eq!(text(&output.stdout), "fed\ndone\n", "{}", text(&output.stderr));
}

/// No variable that a Makefile could export loosens what the settings say.
#[test]
fn no_variable_loosens_it() {
    let home = home_with_shell(User::Own);
    home.write("config/stockade/config.toml", "[profiles.open.sandbox]\nmode = \"danger-full-access\"\n");
    for name in ["STOCKADE_PROFILE", "STOCKADE_SANDBOX", "STOCKADE_OPTIONS", "STOCKADE_SH_OPTIONS"] {
        let value = if name.ends_with("OPTIONS") { "--profile open" } else { "open" };
        let told = said(sh(&home, &["-c", CONFINED]).env(name, value), 0);
        assert_eq!(told.stdout, "confined\n", "{name}: {}", told.stderr);
    }
}

#[test]
fn its_line_is_asked_about_at_the_terminal() {
    let home = home_with_shell(User::Own);
    let mut screen = Screen::open();
    let mut command = program("env");
    command.args(["--default-signal", "setsid", "--ctty", "--wait"]).arg(shell(&home));
    home.surround(&mut command);
    screen.start(command.args(["-c", "tty; echo x > ../outside/x"]).env("NO_COLOR", "1"));
    screen.sees("]? ");
    screen.types("y");
    let (exit_code, rest) = screen.ends();
    assert_eq!((exit_code, home.read("outside/x").as_str()), (0, "x\n"), "{rest}");
    let told = screen_without_line(&home);
    assert!(told.contains("`stockade run -- bash`"), "{told}");
}

fn screen_without_line(home: &Home) -> String {
    let mut screen = Screen::open();
    let mut command = program("env");
    command.args(["--default-signal", "setsid", "--ctty", "--wait"]).arg(shell(home));
    home.surround(&mut command);
    screen.start(&mut command);
    let (exit_code, shown) = screen.ends();
    assert_eq!(exit_code, 2, "{shown}");
    shown
}

/// `stockade-sh` takes no flags, so a denial is answered with a setting, and that works.
#[test]
fn a_denial_names_a_setting() {
    let home = home_with_shell(User::Own);
    let outside = home.path("outside").display().to_string();
    let file = home.path("config/stockade/config.toml").display().to_string();
    let line = format!("touch {outside}/x");
    let told = said(&mut sh(&home, &["-c", &line]), 1);
    let setting = format!("writable_roots = [\"{outside}\"]");
    assert!(told.stderr.contains(&format!("`{setting}` below `[sandbox]` in `{file}`")), "{}", told.stderr);
    assert!(!told.stderr.contains("--writable"), "{}", told.stderr);
    home.write("config/stockade/config.toml", &format!("[sandbox]\n{setting}\n"));
    said(&mut sh(&home, &["-c", &line]), 0);
    home.write("config/stockade/config.toml", "[sandbox]\nmode = \"read-only\"\n");
    let told = said(&mut sh(&home, &["-c", "touch made"]), 1);
    assert!(
        told.stderr.contains(&format!("`mode = \"workspace-write\"` below `[sandbox]` in `{file}`")),
        "{}",
        told.stderr
    );
    home.write("config/stockade/config.toml", "profile = \"nope\"\n");
    let told = said(&mut sh(&home, &["-c", "true"]), 125);
    assert!(told.stderr.contains("stockade-sh takes no flags"), "{}", told.stderr);
}
