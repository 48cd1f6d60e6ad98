//! The program in a pseudo-terminal: keys are typed at one end, and the screen is read there.

use std::time::Duration;

use rustix::termios::{Winsize, tcsetwinsize};
use stockade_tests::screen::{STRING_ENDED, Screen};

use super::home::Home;
use crate::support::program;

const SIZE: Winsize = Winsize { ws_row: 40, ws_col: 160, ws_xpixel: 0, ws_ypixel: 0 };

/// Starts the program in a terminal, without colours.
pub(super) fn start(home: &Home, arguments: &[&str]) -> Screen {
    start_with(home, arguments, &[("NO_COLOR", "1")])
}

fn start_with(home: &Home, arguments: &[&str], variables: &[(&str, &str)]) -> Screen {
    let mut screen = Screen::open();
    tcsetwinsize(&screen.outside, SIZE).unwrap();
    let mut command = program("env");
    command.args(["--default-signal", "setsid", "--ctty", "--wait"]).args(home.words()).args(arguments);
    home.surround(&mut command);
    screen.start(command.envs(variables.iter().copied()));
    screen
}

/// What a screen shows, without what differs from run to run.
fn plain(home: &Home, seen: &str) -> String {
    let directory = home.path("");
    seen.replace(STRING_ENDED, "")
        .replace("\r\n", "\n")
        .replace(directory.to_str().unwrap().trim_end_matches('/'), "HOME")
}

/// A denial that can be asked about only after the run: a pipe is not made for a command.
const LINE: &str = "echo hi > f; mkfifo ../outside/x";

#[test]
fn a_denial_offers_the_wider_run() {
    let home = Home::new();
    let mut screen = start(&home, &["run", "--", "sh", "-c", LINE]);
    let asked = screen.sees("]? ");
    insta::assert_snapshot!("denial", plain(&home, &asked));
    assert!(home.exists("ws/f") && !home.exists("outside/x"));
    screen.types("y");
    let (exit_code, rest) = screen.ends();
    assert!(exit_code == 0 && home.exists("outside/x"), "{rest}");
    let told = home.says(&["audit", "list"], 0).stdout;
    assert!(told.contains("\"asked\":1") && told.contains("\"result\":\"exited\""), "{told}");
}

/// `tty` finds the command's terminal, and by that name it can be opened.
#[test]
fn the_commands_terminal_has_a_name() {
    let home = Home::new();
    let mut screen = start(&home, &["run", "--", "sh", "-c", "tty && echo by name > $(tty)"]);
    let (exit_code, shown) = screen.ends();
    assert_eq!((exit_code, shown.as_str()), (0, "/dev/console\r\nby name\r\n"));
}

/// The question tells what the sandbox may leave out.
#[test]
fn accepted_losses_are_part_of_the_question() {
    let home = Home::new();
    let mut screen = start(&home, &["run", "--accept-loss", "credentials", "--", "sh", "-c", LINE]);
    let asked = screen.sees("]? ");
    assert!(asked.contains("- credentials: well-known credentials can be read\r\n"), "{asked}");
    screen.types("q");
    screen.ends();
}

#[test]
fn each_other_answer_does_what_it_says() {
    for (key, reason) in [("n", Some("\r")), ("n", Some("not there\r")), ("q", None)] {
        let home = Home::new();
        let mut screen = start(&home, &["run", "--", "sh", "-c", LINE]);
        screen.sees("]? ");
        screen.types(key);
        if let Some(reason) = reason {
            screen.sees("Why not? (Enter alone gives no reason) ");
            screen.types(reason);
        }
        let (found, rest) = screen.ends();
        assert_eq!((found, home.exists("outside/x")), (1, false), "{key}: {rest}");
        assert!(rest.contains("stockade: writing `"), "{key}: {rest}");
    }
}

/// A person who says "always" is not asked by the next run, nor for anything else.
#[test]
fn a_saved_rule_is_not_asked_again() {
    let home = Home::new();
    let words = |name: &'static str| ["run", "--ask", "untrusted", "--", "mkdir", name];
    let mut screen = start(&home, &words("a"));
    let asked = screen.sees("]? ");
    insta::assert_snapshot!("untrusted", plain(&home, &asked));
    screen.types("p");
    assert_eq!(screen.ends().0, 0);
    assert!(home.exists("ws/a"));
    let saved = home.read("config/stockade/rules/saved.rules");
    assert!(saved.contains(r#"prefix_rule(pattern=["mkdir", "a"], decision="allow", exact=True)"#), "{saved}");
    std::fs::remove_dir(home.path("ws/a")).unwrap();
    let (exit_code, seen) = start(&home, &words("a")).ends();
    assert_eq!((exit_code, seen.as_str()), (0, ""));
    assert!(home.exists("ws/a"));
    let mut screen = start(&home, &words("b"));
    screen.sees("]? ");
    screen.types("q");
    let (exit_code, rest) = screen.ends();
    assert!(exit_code == 126 && rest.contains("refused: the reviewer stopped the session"), "{rest}");
    assert!(!home.exists("ws/b"));
}

#[test]
fn colours_are_for_those_who_want_them() {
    let home = Home::new();
    let mut screen = start_with(&home, &["run", "--ask", "untrusted", "--", "mkdir", "a"], &[]);
    assert!(screen.sees("]? ").contains("\u{1b}[1mstockade asks: "));
    screen.types("q");
    screen.ends();
    let mut screen = start(&home, &["run", "--ask", "untrusted", "--", "mkdir", "a"]);
    assert!(!screen.sees("]? ").replace(STRING_ENDED, "").contains('\u{1b}'));
    screen.types("q");
    screen.ends();
    let mut screen = start_with(&home, &["run", "--ask", "untrusted", "--", "mkdir", "a"], &[("TERM", "dumb")]);
    assert!(!screen.sees("]? ").contains(['\u{18}', '\u{1b}']));
    screen.types("q");
    screen.ends();
}

#[test]
fn a_command_has_a_terminal_of_its_own() {
    let home = Home::new();
    let line = "test -t 0 && test -t 1 && test -t 2 && stty size; read word; echo \"<$word>\"; exit 5";
    let mut screen = start(&home, &["run", "--", "sh", "-c", line]);
    screen.sees("40 160\r\n");
    screen.types("word\r");
    screen.sees("<word>");
    assert_eq!(screen.ends().0, 5);
}

#[test]
fn a_new_window_size_reaches_the_command() {
    let home = Home::new();
    let line = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done";
    let mut screen = start(&home, &["run", "--", "sh", "-c", line]);
    screen.sees("ready");
    tcsetwinsize(&screen.outside, Winsize { ws_row: 17, ws_col: 53, ..SIZE }).unwrap();
    screen.sees("17 53");
    assert_eq!(screen.ends().0, 0);
}

#[test]
fn ctrl_c_is_the_commands() {
    let home = Home::new();
    let mut screen = start(&home, &["run", "--", "sh", "-c", "echo ready; sleep 1000"]);
    screen.sees("ready");
    std::thread::sleep(Duration::from_millis(200));
    screen.types("\u{3}");
    assert_eq!(screen.ends().0, 130);
    let line = "trap 'echo told; exit 9' INT; echo ready; while :; do sleep 0.05; done";
    let mut screen = start(&home, &["run", "--", "sh", "-c", line]);
    screen.sees("ready");
    screen.types("\u{3}");
    screen.sees("told");
    assert_eq!(screen.ends().0, 9);
}

/// What a command prints can't pass for an answer, and nothing is typed into the terminal around it.
#[test]
fn keys_typed_before_the_question_are_no_answer() {
    let home = Home::new();
    let line = "echo ready; sleep 1; echo x > ../outside/x";
    let mut screen = start(&home, &["run", "--", "sh", "-c", line]);
    screen.sees("ready");
    screen.types("yyyy\r");
    screen.sees("]? ");
    std::thread::sleep(Duration::from_millis(500));
    assert!(!home.exists("outside/x"));
    screen.types("q");
    assert_eq!(screen.ends().0, 2);
}

/// The same in the hands of a user without privileges.
#[test]
fn anybody_is_asked() {
    let home = Home::of(super::home::User::Ordinary);
    let mut screen = start(&home, &["run", "--", "sh", "-c", LINE]);
    screen.sees("]? ");
    screen.types("y");
    assert_eq!(screen.ends().0, 0);
    assert!(home.exists("outside/x"));
}

/// A question about a connection is asked while the command runs, which could paint over it and take its keys.
#[test]
fn a_running_command_has_no_part_in_a_question() {
    let home = Home::new();
    let line = "(for n in $(seq 300); do printf PAINT; sleep 0.01; done) & printf '\\033[8mhidden'; \
        curl -4 -s http://new.test:8080/; wait; read -r key; echo got:$key";
    let mut screen = start(&home, &["run", "--network", "hosts", "--ask", "on-failure", "--", "sh", "-c", line]);
    let asked = screen.sees("]? ");
    let (before, question) = asked.split_once("stockade asks").unwrap();
    assert!(before.contains("\u{1b}[8mhidden") && before.contains("\u{1b}[0m"), "{asked:?}");
    assert!(question.contains("new.test, port 8080") && !question.contains("PAINT"), "{asked:?}");
    std::thread::sleep(Duration::from_millis(500));
    screen.types("n");
    let why = screen.sees("no reason) ");
    assert!(!why.contains("PAINT"), "{why:?}");
    screen.types("\r");
    // What was printed meanwhile comes now, and keys are the command's again.
    screen.sees("PAINT");
    screen.types("k\r");
    let (_, rest) = screen.ends();
    assert!(rest.contains("got:k"), "{rest:?}");
}

/// Four programs wait for an answer, and one `q` is the answer to all.
#[test]
fn one_stop_ends_every_question() {
    let home = Home::new();
    let line = "for n in 1 2 3 4; do curl -s -m 60 http://n$n.test:8080/ & done; wait; echo over";
    let mut screen = start(&home, &["run", "--network", "hosts", "--", "sh", "-c", line]);
    screen.sees("]? ");
    // The others come meanwhile.
    std::thread::sleep(Duration::from_millis(1500));
    screen.types("q");
    let (_, rest) = screen.ends();
    assert!(rest.contains("over") && !rest.contains("]? "), "{rest}");
    let run: serde_json::Value = serde_json::from_str(home.says(&["audit", "list"], 0).stdout.trim()).unwrap();
    let shown = home.says(&["audit", "show", run["request_id"].as_str().unwrap()], 0).stdout;
    let count = |what: &str| shown.matches(what).count();
    assert_eq!((count("a person was asked"), count("answered: no, and stop")), (4, 4), "{shown}");
}
