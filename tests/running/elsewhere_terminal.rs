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
# A handler of a signal may interrupt it, which `print` does not bear.
def say(*words): os.write(2, (" ".join(map(str, words)) + "\n").encode())
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
        # In short pieces: a signal that comes just before one is handled after it.
        for _ in range(1000): time.sleep(0.1)
    except KeyboardInterrupt:
        say("interrupted")
        sys.exit(5)
if sys.argv[1] == "silent":
    device = os.fstat(2).st_rdev
    say("console:", os.stat("/dev/console").st_rdev == device, os.fstat(0).st_rdev == device)
    os.dup2(os.open("/dev/null", os.O_WRONLY), 2)
    time.sleep(3)
    os.dup2(os.open("/dev/tty", os.O_WRONLY), 2)
if sys.argv[1] == "burst":
    for number in range(5000): say("burst", number)
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
pub(super) fn types(screen: &mut Screen, keys: &str) {
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
    let line = "talk wait <&3 & p=$!; wait_for raw; kill -KILL $p; wait $p; wait_for lines";
    let mut screen = start(&world, &[], &["bash", "-c", &format!("{MODES} {line}")]);
    screen.sees("modes: raw");
    screen.sees("modes: lines");
    assert_eq!(screen.ends().0, 0);
}

/// Waits until the terminal has these modes. Standard input is kept, since a shell gives `/dev/null` to a background job.
const MODES: &str = "set +m; trap '' TTOU; exec 3<&0; \
    has() { case $1 in raw) stty -a | grep -q -- ' -icanon.* -echo ';; lines) stty -a | grep -q ' icanon.* echo ';; esac; }; \
    wait_for() { until has $1; do sleep 0.1; done; echo modes: $1; };";

/// Two programs at one terminal: the first that ends leaves it to the second, and the second as it was.
#[test]
fn two_at_one_terminal_leave_it_as_it_was() {
    let world = World::new(User::Own, "native", RULES);
    with_talk(&world);
    let until = |file: &str| format!("until [ -e {file} ]; do sleep 0.1; done");
    let line = format!(
        "talk wait <&3 & p=$!; wait_for raw; talk wait <&3 & q=$!; {}; kill $p; wait $p; sleep 1; wait_for raw; kill $q; wait $q; \
         has lines && echo as it was; stty sane",
        until("both")
    );
    let mut screen = start(&world, &[], &["bash", "-c", &format!("{MODES} {line}")]);
    screen.sees("waits");
    screen.sees("waits");
    world.home.write("ws/both", "");
    screen.sees("modes: raw");
    let (code, shown) = screen.ends();
    assert!(code == 0 && shown.contains("as it was"), "{shown}");
}

/// A program that has closed its terminal costs nothing, may open it again, and has its own one as `/dev/console`.
#[test]
fn a_terminal_that_no_process_has_open_is_not_waited_for_busily() {
    let world = World::new(User::Own, "native", RULES);
    with_talk(&world);
    let line = "TIMEFORMAT='cpu: %P'; time { talk silent | cat; }";
    let mut screen = start(&world, &[], &["bash", "-c", line]);
    let shown = screen.sees("over\r\n");
    assert!(shown.contains("console: True False"), "{shown}");
    screen.sees("cpu: ");
    let shown = screen.sees("\r\n");
    let percent: f64 = shown.trim().parse().unwrap();
    assert!(percent < 10.0, "{percent} %");
    assert_eq!(screen.ends().0, 0);
}

/// A stream that is another terminal stays that one.
#[test]
fn another_terminal_stays() {
    let world = World::new(User::Own, "native", RULES);
    with_talk(&world);
    let line = "import os, subprocess; other, errors = os.openpty(); subprocess.run(['talk', 'over'], stderr=errors); \
        os.set_blocking(other, False); print('there:', os.read(other, 4096).splitlines()[-1])";
    let mut screen = start(&world, &[], &["python3", "-c", line]);
    let (code, shown) = screen.ends();
    assert!(code == 0 && shown.contains("there: b'over'"), "{shown}");
}

/// The caller's descriptor may be one that never waits: all of the output is passed on in any case.
#[test]
fn no_output_is_lost_at_a_terminal_that_never_waits() {
    let world = World::new(User::Own, "native", RULES);
    with_talk(&world);
    let line = "import os, subprocess; os.set_blocking(1, False); subprocess.run(['talk', 'burst'])";
    let mut screen = start(&world, &[], &["python3", "-c", line]);
    std::thread::sleep(Duration::from_secs(3));
    let shown = screen.sees("over\r\n");
    let numbers: Vec<usize> = shown.lines().filter_map(|line| line.strip_prefix("burst ")?.parse().ok()).collect();
    assert!(numbers.iter().copied().eq(0..5000), "{} of 5000 lines", numbers.len());
    assert_eq!(screen.ends().0, 0);
}

fn asked(world: &World, options: &[&str], words: &[&str], key: &str) -> (String, i32, String) {
    let mut screen = start(world, options, words);
    let question = screen.sees("]? ");
    types(&mut screen, key);
    let again = screen.sees_or_ends("]? ");
    assert_eq!(again, None, "asked again after {question}");
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
        // All of it in the script: a line that makes a file and runs one is asked about itself.
        world.home.write("ws/hidden", &format!("note 0 a\nnote 0 a\n{direct}\n"));
        world.home.give_to_user();
        let line = "sh hidden; true";
        let (question, code, rest) = asked(&world, &["--ask", "on-request"], &["bash", "-c", line], "y");
        assert!(question.contains(GIVES) && code == 0, "{question} {rest}");
        assert_eq!(world.notes(), ["0 a", "0 a"], "asked once: {rest}");
        assert!(!world.home.exists("outside/direct"));
        let (_, _, rest) = asked(&world, &["--ask", "on-request"], &["bash", "-c", line], "q");
        assert!(world.notes().is_empty(), "{rest}");
        // The line shows it: the question about the line says it, and there is no other.
        let shown = ["note", "0", "itself"];
        let (question, code, rest) = asked(&world, &["--ask", "on-request"], &shown, "y");
        assert!(question.contains("a yes gives `note` the profile `notes`") && code == 0, "{question} {rest}");
        assert_eq!(world.notes(), ["0 itself"], "{rest}");
        let said = world.command(&["--ask", "never"], &["bash", "-c", line]).output().unwrap();
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
