//! Programs that run elsewhere at a terminal: each has one of its own, in its caller's job. And those that a rule asks
//! about: a person's yes gives what the rule says.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use rustix::termios::{Winsize, tcsetwinsize};
use stockade_tests::screen::Screen;

use super::elsewhere::{World, worlds};
use super::home::User;
use crate::support::program;

const TALK: &str = r#"#!/usr/bin/python3
import getpass, os, signal, sys, time
def say(*words): print(*words, flush=True, file=sys.stderr)
open("OUTSIDE/talked", "a").close()
def size(*_): say("size:", *os.get_terminal_size(2))
signal.signal(signal.SIGWINCH, size)
say("streams:", os.isatty(0), os.isatty(1), os.isatty(2))
open("/dev/tty", "r+b", buffering=0).close()
size()
if sys.argv[1] == "line": say("line:", input("line? "))
if sys.argv[1] == "password": say("password:", getpass.getpass("Password: "))
if sys.argv[1] == "wait":
    signal.signal(signal.SIGCONT, lambda *_: say("continued"))
    say("waits")
    try:
        time.sleep(100)
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(5)
say("over")
"#;

const RULES: &str = "prefix_rule([\"talk\"], profile = \"notes\")\n";

fn with_talk(world: &World) {
    let outside = world.home.path("outside").display().to_string();
    world.home.write("bin/talk", &TALK.replace("OUTSIDE", &outside));
    fs::set_permissions(world.home.path("bin/talk"), fs::Permissions::from_mode(0o755)).unwrap();
    world.home.give_to_user();
}

/// `stockade run` in a terminal.
pub(super) fn start(world: &World, options: &[&str], words: &[&str]) -> Screen {
    let mut screen = Screen::open();
    tcsetwinsize(&screen.outside, Winsize { ws_row: 30, ws_col: 91, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let mut command = program("env");
    command.args(["--default-signal", "setsid", "--ctty", "--wait"]).args(world.home.words());
    command.args(["run", "--engine", world.engine, "--timeout", "2m"]).args(options).arg("--").args(words);
    world.home.surround(&mut command);
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", world.home.path("bin").display());
    screen.start(command.env("PATH", path).env("NO_COLOR", "1"));
    screen
}

/// Types what a program waits for, once it does.
fn types(screen: &mut Screen, keys: &str) {
    std::thread::sleep(Duration::from_millis(400));
    screen.types(keys);
}

#[test]
fn keys_size_stops_and_interrupts_reach_it() {
    for world in worlds(RULES) {
        with_talk(&world);
        let mut screen = start(&world, &[], &["bash", "--norc", "-i"]);
        let prompt = if world.home.words().len() > 1 { "$ " } else { "# " };
        screen.sees(prompt);
        types(&mut screen, "talk line\r");
        screen.sees("streams: True True True\r\nsize: 91 30\r\nline? ");
        types(&mut screen, "hello\r");
        // Echoed once.
        assert_eq!(screen.sees("line: hello\r\nover\r\n").matches("hello").count(), 2);
        screen.sees(prompt);
        types(&mut screen, "talk password\r");
        screen.sees("Password: ");
        types(&mut screen, "secret\r");
        assert_eq!(screen.sees("password: secret").matches("secret").count(), 1, "no echo");
        screen.sees(prompt);
        // In a pipeline other programs may read keys, so it has them only for a password.
        types(&mut screen, "talk password | cat\r");
        screen.sees("streams: True False True");
        screen.sees("Password: ");
        types(&mut screen, "other\r");
        assert_eq!(screen.sees("password: other").matches("other").count(), 1, "no echo");
        screen.sees(prompt);
        types(&mut screen, "talk wait\r");
        screen.sees("waits");
        tcsetwinsize(&screen.outside, Winsize { ws_row: 40, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        screen.sees("size: 100 40");
        types(&mut screen, "\u{1a}");
        screen.sees("Stopped");
        screen.sees(prompt);
        // The terminal is the shell's meanwhile, with its modes.
        types(&mut screen, "stty -a | grep -o ' opost\\| icanon\\| -icanon'; echo a$((1+1))b\r");
        screen.sees("a2b");
        types(&mut screen, "fg\r");
        screen.sees("continued");
        types(&mut screen, "\u{3}");
        screen.sees("interrupted");
        screen.sees(prompt);
        types(&mut screen, "echo code: $?\r");
        screen.sees("code: 5\r\n");
        types(&mut screen, "exit\r");
        assert_eq!(screen.ends().0, 0);
        assert!(world.home.exists("outside/talked") && screen.is_as_before(), "{}", world.engine);
    }
}

/// A key's interruption reaches the whole job; a stub that is killed leaves the terminal as it was.
#[test]
fn a_job_ends_whole_and_leaves_the_terminal_as_it_was() {
    let world = World::new(User::Own, "native", RULES);
    with_talk(&world);
    let mut screen = start(&world, &[], &["sh", "-c", "talk wait; echo next:$?"]);
    screen.sees("waits");
    types(&mut screen, "\u{3}");
    let (_, shown) = screen.ends();
    assert!(shown.contains("interrupted") && !shown.contains("next:"), "{shown}");
    assert!(screen.is_as_before());
    let line = "talk wait & p=$!; trap '' TTOU; sleep 2; kill -KILL $p; wait $p; stty -a | grep -q ' icanon.* echo ' && echo as it was";
    let mut screen = start(&world, &[], &["bash", "-c", &format!("set +m; {line}")]);
    screen.sees("as it was");
    assert_eq!(screen.ends().0, 0);
}

fn asked(world: &World, options: &[&str], words: &[&str], key: &str) -> (String, i32, String) {
    let mut screen = start(world, options, words);
    let question = screen.sees("]? ");
    types(&mut screen, key);
    let (code, rest) = screen.ends();
    (question.split_whitespace().collect::<Vec<_>>().join(" "), code, rest)
}

/// A rule that asks and has a profile: a yes gives it to that program, and the question says so.
#[test]
fn a_yes_gives_what_the_rule_says() {
    const ASKS: &str = "prefix_rule([\"note\"], decision = \"prompt\", profile = \"notes\")\n";
    const GIVES: &str = "gives this program the profile `notes`, in a sandbox of its own";
    for world in worlds(ASKS) {
        let direct = format!("echo no > {}/direct 2>/dev/null", world.home.path("outside").display());
        world.home.write("ws/hidden", "note 0 a\nnote 0 a\n");
        world.home.give_to_user();
        let line = format!("sh hidden; {direct}; true");
        let (question, code, rest) = asked(&world, &["--ask", "on-request"], &["bash", "-c", &line], "y");
        assert!(question.contains(GIVES) && code == 0, "{question} {rest}");
        assert_eq!(world.notes(), ["0 a", "0 a"], "asked once: {rest}");
        assert!(!world.home.exists("outside/direct"));
        let (_, _, rest) = asked(&world, &["--ask", "on-request"], &["bash", "-c", &line], "q");
        assert!(world.notes().is_empty(), "{rest}");
        // The line shows it: the question about the line says it, and there is no other.
        let shown = ["note", "0", "itself"];
        let (question, code, rest) = asked(&world, &["--ask", "on-request"], &shown, "y");
        assert!(question.contains("a yes gives `note` the profile `notes`") && code == 0, "{question} {rest}");
        assert_eq!(world.notes(), ["0 itself"], "{rest}");
        let said = world.command(&["--ask", "never"], &["bash", "-c", &line]).output().unwrap();
        assert!(world.notes().is_empty(), "{}", String::from_utf8_lossy(&said.stderr));
    }
}

/// The same without the sandbox, where nothing needs one; otherwise the question says that a yes does not give it.
#[test]
fn a_yes_lets_one_program_leave() {
    let world = World::new(User::Own, "native", "prefix_rule([\"note\"], decision = \"prompt\", outside = True)\n");
    world.home.write("ws/hidden", "note 0 out\n");
    let line = ["bash", "-c", "sh hidden; true"];
    let (question, code, rest) = asked(&world, &["--ask", "on-request"], &line, "y");
    assert!(question.contains("a yes runs it without the sandbox") && code == 0, "{question} {rest}");
    assert_eq!(world.notes(), ["0 out"], "{rest}");
    let options = ["--ask", "on-request", "--limit", "cpu=300"];
    let (question, _, rest) = asked(&world, &options, &line, "y");
    assert!(question.contains("a yes does not give it a place outside of the sandbox"), "{question}");
    assert!(world.notes().is_empty(), "{rest}");
}
