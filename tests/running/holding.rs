//! A denied write waits, is asked about at the terminal, and is made after a yes: in that one run.

use super::home::{Home, User};
use super::terminal::start;

/// As a package manager does: a cache in the home directory, with a file in it.
const INSTALL: &str = "mkdir -p ~/.cache/tool/entries && echo one > ~/.cache/tool/entries/1 && \
    mv ~/.cache/tool/entries/1 ~/.cache/tool/index && rm -f ~/.cache/tool/none && \
    ln -s index ~/.cache/tool/link && cat ~/.cache/tool/link";

fn home() -> Home {
    let home = Home::of(User::Ordinary);
    std::fs::create_dir(home.path("home/.cache")).unwrap();
    home.give_to_user();
    home
}

fn run<'a>(engine: &'a str, line: &'a str) -> [&'a str; 7] {
    ["run", "--engine", engine, "--", "sh", "-c", line]
}

#[test]
fn a_new_cache_is_asked_about_once_and_written_in_that_run() {
    for engine in ["native", "bwrap"] {
        let home = home();
        let mut screen = start(&home, &run(engine, INSTALL));
        let asked = screen.sees("]? ");
        let tool = home.path("home/.cache/tool").canonicalize().unwrap_or_else(|_| home.path("home/.cache/tool"));
        assert!(asked.contains(&format!("mkdir wants to create {}", tool.display())), "{asked}");
        assert!(!home.exists("home/.cache/tool"), "before the answer");
        screen.types("r");
        let (exit_code, rest) = screen.ends();
        assert!(exit_code == 0 && rest.ends_with("one\r\n") && !rest.contains("stockade asks"), "{engine}: {rest}");
        assert_eq!(home.read("home/.cache/tool/index"), "one\n");
        let told = home.says(&["audit", "list"], 0).stdout;
        assert!(told.contains("\"asked\":1") && told.contains("\"violations\":0"), "{told}");
        let id = told.split("\"request_id\":\"").nth(1).and_then(|rest| rest.split('"').next());
        let shown = home.says(&["audit", "show", id.unwrap_or("last")], 0).stdout;
        assert!(
            shown.contains("a person was asked  to create") && shown.contains("yes, until the command ends"),
            "{shown}"
        );
        assert!(shown.contains("written outside of the sandbox, in "), "{shown}");
    }
}

#[test]
fn once_is_asked_again_and_no_is_the_ordinary_error() {
    let home = home();
    let line = "echo 1 > ../outside/a && echo 2 >> ../outside/a; echo code $?";
    let mut screen = start(&home, &run("native", line));
    screen.sees("]? ");
    screen.types("y");
    let asked = screen.sees("]? ");
    assert!(asked.contains("sh wants to write"), "{asked}");
    screen.types("n");
    screen.sees("Why not? (Enter alone gives no reason) ");
    screen.types("\r");
    let (exit_code, rest) = screen.ends();
    assert!(exit_code == 0 && rest.contains("Read-only file system") && rest.contains("code 2"), "{rest}");
    assert_eq!(home.read("outside/a"), "1\n");
}

/// A no ends the matter: neither is the same asked again, nor is a second run.
#[test]
fn a_no_is_not_asked_again() {
    let line = "echo 1 > ../outside/a; echo 2 > ../outside/b; echo 3 > ~/c; exit 3";
    for (keys, asked_again) in [("n", true), ("x", false), ("q", false)] {
        let home = home();
        let mut screen = start(&home, &run("native", line));
        screen.sees("]? ");
        screen.types(keys);
        if keys == "n" {
            screen.sees("Why not? (Enter alone gives no reason) ");
            screen.types("\r");
        }
        if asked_again {
            let asked = screen.sees("]? ");
            assert!(asked.contains("home/c"), "{asked}");
            screen.types("x");
        }
        let (exit_code, rest) = screen.ends();
        assert!(exit_code == 3 && !rest.contains("stockade asks"), "{keys}: {rest}");
        assert!(rest.contains("stockade: writing `"), "{keys}: {rest}");
        assert!(!home.exists("outside/a") && !home.exists("outside/b") && !home.exists("home/c"), "{keys}");
    }
}

/// Neither what programs do without, nor what no answer lifts, nor what another policy only reports.
#[test]
fn what_is_not_to_be_asked_is_not() {
    let home = home();
    home.write("ws/.git/config", "");
    home.write("home/.ssh/id", "");
    home.give_to_user();
    let line = "echo h >> ~/.bash_history; echo x > .git/hook; echo x > ~/.ssh/id; \
        echo x > ~/.config/stockade/rules; mkdir -p /tmp/x/y && echo x > /tmp/x/y/z && true";
    let mut screen = start(&home, &run("native", line));
    let (exit_code, rest) = screen.ends();
    assert!(exit_code == 0 && !rest.contains("stockade asks"), "{rest}");
    for ask in ["never", "on-request"] {
        let mut screen = start(&home, &["run", "--ask", ask, "--", "sh", "-c", "echo x > ../outside/x; true"]);
        let (exit_code, rest) = screen.ends();
        assert!(exit_code == 0 && !rest.contains("stockade asks"), "{ask}: {rest}");
    }
    assert!(!home.exists("outside/x"));
}

/// The time at the question is not the command's.
#[test]
fn the_clock_stands_still_while_it_is_asked() {
    let home = home();
    let mut screen = start(&home, &["run", "--timeout", "8s", "--", "sh", "-c", "echo x > ../outside/x"]);
    screen.sees("]? ");
    std::thread::sleep(std::time::Duration::from_secs(9));
    screen.types("y");
    let (exit_code, rest) = screen.ends();
    assert_eq!((exit_code, home.read("outside/x").as_str()), (0, "x\n"), "{rest}");
}

/// A question goes with the process that waits, and the run with a signal or Ctrl-C.
#[test]
fn a_question_ends_with_its_caller() {
    let home = home();
    let line = "sh -c 'echo x > ../outside/x' & sleep 2; kill -KILL $!; wait $!; echo gone; exit 4";
    let mut screen = start(&home, &run("native", line));
    screen.sees("]? ");
    let (exit_code, rest) = screen.ends();
    assert!(exit_code == 4 && rest.contains("gone") && !home.exists("outside/x"), "{rest}");
    let mut screen = start(&home, &run("native", "echo x > ../outside/x"));
    screen.sees("]? ");
    screen.types("\u{3}");
    let (exit_code, rest) = screen.ends();
    assert!(exit_code != 0 && !home.exists("outside/x"), "{rest}");
}

/// What is granted is what lies below a directory. Its own name stays what it is, so that a link in its place moves nothing;
/// metadata stays protected in it; and no file in it gets a second name that outlasts the run.
#[test]
fn a_directory_that_is_granted_opens_nothing_else() {
    for engine in ["native", "bwrap"] {
        let home = home();
        home.write("home/.bashrc", "mine\n");
        home.write("home/.cache/tool/env.sh", "mine\n");
        home.write("home/.cache/tool/.git/hooks/.keep", "");
        home.give_to_user();
        let line = "cd ~/.cache; touch tool/a; mv tool other; rmdir tool; rm -rf tool; ln -sfn ~/.bashrc tool; \
            ln ~/.cache/tool/env.sh $OLDPWD/second; echo evil > tool/.git/hooks/post-commit; mkdir tool/.claude; \
            rm tool/env.sh/.; true";
        let mut screen = start(&home, &run(engine, line));
        screen.sees("]? ");
        screen.types("r");
        // The new name of `tool` is beyond the grant.
        screen.sees("]? ");
        screen.types("x");
        screen.ends();
        assert!(home.path("home/.cache/tool").symlink_metadata().unwrap().is_dir(), "{engine}");
        assert_eq!(home.read("home/.bashrc"), "mine\n");
        for planted in
            ["ws/second", "home/.cache/tool/.git/hooks/post-commit", "home/.cache/tool/.claude", "home/.cache/other"]
        {
            assert!(!home.exists(planted), "{engine}: {planted}");
        }
    }
}

/// A hard link made under a grant would be a way to the file in later runs, where its name lies in a directory of theirs.
#[test]
fn no_hard_link_outlasts_a_grant() {
    for engine in ["native", "bwrap"] {
        let home = home();
        home.write("outside/victim", "before\n");
        home.write("outside/open/.keep", "");
        home.give_to_user();
        let open = home.path("outside/open").display().to_string();
        let options = ["run", "--engine", engine, "--writable", &open, "--", "sh", "-c"];
        let line = "touch ../outside/trigger; ln ../outside/victim ../outside/open/hard; \
            ln ../outside/victim ../outside/hard; cp -l ../outside/victim ../outside/open/hard; true";
        let mut screen = start(&home, &[&options[..], &[line]].concat());
        screen.sees("]? ");
        screen.types("r");
        let (exit_code, rest) = screen.ends();
        assert!(exit_code == 0 && rest.contains("Invalid cross-device link"), "{engine}: {rest}");
        assert!(home.exists("outside/trigger"), "{engine}: {rest}");
        assert!(!home.exists("outside/open/hard") && !home.exists("outside/hard"), "{engine}: {rest}");
        let later = "echo evil > ../outside/open/hard";
        home.says(&["run", "--ask", "never", "--engine", engine, "--writable", &open, "--", "sh", "-c", later], 0);
        assert_eq!(home.read("outside/victim"), "before\n", "{engine}");
    }
}

/// A directory that holds the home is not offered as a whole.
#[test]
fn a_home_is_not_granted_as_a_whole() {
    let home = home();
    let mut screen = start(&home, &run("native", "touch ~; echo evil > ~/.profile"));
    let asked = screen.sees("]? ");
    assert!(!asked.contains("until the command ends") && asked.contains("[y/n/x/q]? "), "{asked}");
    screen.types("x");
    screen.ends();
    assert!(!home.exists("home/.profile"));
}

/// Also if a directory that all tools share is a link, or the home directory is.
#[test]
fn a_shared_directory_behind_a_link_is_not_granted_as_a_whole() {
    let home = home();
    home.write("home/.config/other/file", "");
    home.write("home/dots/.keep", "");
    std::fs::remove_dir(home.path("home/.cache")).unwrap();
    std::os::unix::fs::symlink("dots", home.path("home/.cache")).unwrap();
    home.give_to_user();
    let asked_about = |line: &str| {
        let mut screen = start(&home, &run("native", line));
        let asked = screen.sees("]? ");
        screen.types("q");
        screen.ends();
        asked
    };
    for line in ["echo x > ~/.config/x", "echo x > ~/.cache/x"] {
        let asked = asked_about(line);
        assert!(!asked.contains("until the command ends") && asked.contains("[y/n/x/q]? "), "{asked}");
    }
    let asked = asked_about("echo x > ~/.config/other/file");
    assert!(asked.contains("until the command ends"), "{asked}");
    std::fs::rename(home.path("home"), home.path("real")).unwrap();
    std::os::unix::fs::symlink("real", home.path("home")).unwrap();
    for line in ["echo x > ~/.config/x", "echo x > ~/.cache/x", "echo x > ~/x"] {
        let asked = asked_about(line);
        assert!(!asked.contains("until the command ends"), "{asked}");
    }
}

/// "Always" is shown whole, saved as a profile, and used by exactly this command in this workspace.
#[test]
fn always_is_saved_for_this_command_in_this_workspace() {
    for engine in ["native", "bwrap"] {
        let home = home();
        let mut screen = start(&home, &run(engine, INSTALL));
        let asked = screen.sees("]? ");
        assert!(asked.contains("  p  yes, and everything in ") && asked.contains("[[used_for]]"), "{asked}");
        screen.types("p");
        let (exit_code, rest) = screen.ends();
        assert!(exit_code == 0 && rest.ends_with("one\r\n"), "{engine}: {rest}");
        let saved: Vec<_> = std::fs::read_dir(home.path("config/stockade/profiles")).unwrap().collect();
        let saved: Vec<_> = saved.iter().map(|entry| entry.as_ref().unwrap().file_name()).collect();
        let [file] = saved.iter().filter(|name| name.to_string_lossy().ends_with(".toml")).collect::<Vec<_>>()[..]
        else {
            panic!("{saved:?}")
        };
        let text = home.read(&format!("config/stockade/profiles/{}", file.to_string_lossy()));
        // Long lines are wrapped.
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for line in text.lines().filter(|line| !line.is_empty()) {
            assert!(words(&asked).contains(&words(line)), "it was not shown: {line}: {asked}");
        }
        let again = "echo two > ~/.cache/tool/index";
        std::fs::remove_dir_all(home.path("home/.cache/tool")).unwrap();
        // The directory is made for the command, also where nobody is asked.
        home.says(&["run", "--ask", "never", "--engine", engine, "--", "sh", "-c", INSTALL], 0);
        std::fs::remove_dir_all(home.path("home/.cache/tool")).unwrap();
        let (exit_code, rest) = start(&home, &run(engine, INSTALL)).ends();
        assert!(exit_code == 0 && !rest.contains("stockade asks"), "{engine}: {rest}");
        // Another command, and another workspace.
        home.says(&["run", "--ask", "never", "--", "sh", "-c", again], 2);
        let other = home.path("outside").display().to_string();
        home.says(&["run", "--workspace", &other, "--ask", "never", "--", "sh", "-c", INSTALL], 2);
        let listed = home.says(&["profile", "list"], 0).stdout;
        assert!(listed.contains("saved-sh-"), "{listed}");
        // A link in the place of the directory that leads nowhere.
        std::fs::remove_dir_all(home.path("home/.cache/tool")).unwrap();
        std::os::unix::fs::symlink("nowhere", home.path("home/.cache/tool")).unwrap();
        let told = home.says(&["run", "--ask", "never", "--engine", engine, "--", "sh", "-c", INSTALL], 1).stderr;
        assert!(told.contains("it is a link to `nowhere`, which is missing"), "{engine}: {told}");
    }
}

/// What profiles do not grant is not offered, and a project's profile is used by no command on its own.
#[test]
fn always_is_not_offered_for_what_profiles_do_not_grant() {
    let home = home();
    home.write(
        "ws/.stockade/profiles/mine.toml",
        "about = \"x\"\n[[used_for]]\ncommand = [\"touch\"]\nworkspace = [\"/\"]\n",
    );
    home.write("ws/own", "#!/bin/sh\necho x > ../outside/y\n");
    std::fs::set_permissions(home.path("ws/own"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    home.give_to_user();
    // A program that a command may have written, and a home as a whole.
    for line in [&["run", "--", "./own"][..], &["run", "--", "sh", "-c", "echo x > ~/.profile"]] {
        let mut screen = start(&home, line);
        let asked = screen.sees("]? ");
        assert!(!asked.contains("always"), "{asked}");
        screen.types("x");
        screen.ends();
    }
    let told = home.says(&["trust"], 125).stderr;
    assert!(told.contains("used_for"), "{told}");
}

/// A signal for the command ends an open question, whether or not the command gets the signal while it waits.
#[test]
fn a_signal_ends_a_question() {
    for signal in ["INT", "TERM"] {
        let home = home();
        // A terminal discards what is not read yet when it is interrupted, unless it is told not to.
        let line = format!("stty noflsh; trap '' {signal}; echo x > ../outside/x; echo after $?; exit 5");
        let mut screen = start(&home, &run("native", &line));
        screen.sees("]? ");
        let program = home.path("stockade").display().to_string();
        let pids =
            super::home::said(crate::support::program("pgrep").args(["-o", "-f", &format!("^{program} run ")]), 0);
        let pid = pids.stdout.trim().to_owned();
        super::home::said(crate::support::program("kill").args([&format!("-{signal}"), pid.as_str()]), 0);
        let (exit_code, rest) = screen.ends();
        assert!(exit_code == 5 && rest.contains("after 2"), "{signal}: {exit_code} {rest}");
        assert!(!home.exists("outside/x"), "{signal}");
    }
}

/// A directory above a name that stays protected is moved by no answer, so nothing is asked.
#[test]
fn nothing_is_asked_that_no_answer_helps() {
    let home = home();
    home.write("home/.ssh/id", "");
    home.give_to_user();
    let line = "mv ~ ~/../moved; python3 -c 'import os; os.rename(os.path.expanduser(\"~/.ssh\"), \"x\")'; \
                ln ../outside/data x; exit 3";
    home.write("outside/data", "");
    home.give_to_user();
    let (exit_code, rest) = start(&home, &run("native", line)).ends();
    assert!(exit_code == 3 && !rest.contains("stockade asks"), "{rest}");
    assert!(home.exists("home/.ssh/id") && !home.exists("moved"));
}

/// A missing directory above Stockade's own files stays missing with any answer, and is not asked about.
#[test]
fn a_missing_directory_above_own_files_is_not_asked_about() {
    for engine in ["native", "bwrap"] {
        let home = home();
        let line = "mkdir ~/.config; mkdir -p ~/.config/tool; exit 3";
        let (exit_code, rest) = start(&home, &run(engine, line)).ends();
        assert!(exit_code == 3 && !rest.contains("wants to create"), "{engine}: {rest}");
        assert!(rest.contains("after `mkdir -p "), "{engine}: {rest}");
        assert!(!home.exists("home/.config"), "{engine}");
    }
}
