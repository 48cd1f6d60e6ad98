//! The program in a pseudo-terminal: keys are typed at one end, and the screen is read there.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::home::Home;
use crate::support::program;

/// Somebody in front of a terminal in which the program runs.
struct Screen {
    /// The person's side.
    outside: File,
    /// The program's side.
    inside: File,
    seen: String,
    child: Option<Child>,
}

const SIZE: Winsize = Winsize { ws_row: 40, ws_col: 160, ws_xpixel: 0, ws_ypixel: 0 };

impl Screen {
    fn new() -> Self {
        let outside = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&outside).unwrap();
        unlockpt(&outside).unwrap();
        tcsetwinsize(&outside, SIZE).unwrap();
        let name = PathBuf::from(ptsname(&outside, Vec::new()).unwrap().into_string().unwrap());
        let flags = OFlags::NOCTTY | OFlags::CLOEXEC;
        let inside =
            OpenOptions::new().read(true).write(true).custom_flags(flags.bits().cast_signed()).open(name).unwrap();
        Self { outside: outside.into(), inside, seen: String::new(), child: None }
    }

    /// Starts the program in this terminal, without colours.
    fn start(home: &Home, arguments: &[&str]) -> Self {
        Self::start_with(home, arguments, &[("NO_COLOR", "1")])
    }

    fn start_with(home: &Home, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut screen = Self::new();
        let stream = || Stdio::from(screen.inside.try_clone().unwrap());
        let mut command = program("setsid");
        command.args(["--ctty", "--wait"]).args(home.words()).args(arguments);
        home.surround(&mut command);
        command.envs(variables.iter().copied());
        screen.child = Some(command.stdin(stream()).stdout(stream()).stderr(stream()).spawn().unwrap());
        screen
    }

    fn types(&mut self, keys: &str) {
        self.outside.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads what appears within a time, and says whether something did.
    fn look(&mut self, time: Duration) -> bool {
        let time = Timespec::try_from(time).unwrap();
        if poll(&mut [PollFd::new(&self.outside, PollFlags::IN)], Some(&time)).unwrap() == 0 {
            return false;
        }
        let mut bytes = [0; 4096];
        let count = self.outside.read(&mut bytes).unwrap();
        self.seen.push_str(&String::from_utf8_lossy(bytes.get(..count).unwrap_or_default()));
        true
    }

    /// Waits until these words have appeared since the last time, and returns everything up to them.
    fn sees(&mut self, words: &str) -> String {
        let start = Instant::now();
        loop {
            if let Some(place) = self.seen.find(words) {
                let rest = self.seen.split_off(place + words.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            assert!(start.elapsed() < Duration::from_secs(60), "`{words}` never appeared in {:?}", self.seen);
            self.look(Duration::from_millis(100));
        }
    }

    /// Waits for the program's end: its exit code, and what has appeared since the last time. The
    /// terminal has to be as it was.
    fn ends(&mut self) -> (i32, String) {
        let mut child = self.child.take().unwrap();
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "it does not end: {:?}", self.seen);
            self.look(Duration::from_millis(50));
        };
        while self.look(Duration::from_millis(50)) {}
        let modes = tcgetattr(&self.inside).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG), "the terminal is left raw");
        (status.code().unwrap(), std::mem::take(&mut self.seen))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// What a screen shows, without what differs from run to run.
fn plain(home: &Home, seen: &str) -> String {
    let directory = home.path("");
    seen.replace("\r\n", "\n").replace(directory.to_str().unwrap().trim_end_matches('/'), "HOME")
}

const LINE: &str = "echo hi > f; echo x > ../outside/x";

#[test]
fn a_denial_offers_the_wider_run() {
    let home = Home::new();
    let mut screen = Screen::start(&home, &["run", "--", "sh", "-c", LINE]);
    let asked = screen.sees("]? ");
    insta::assert_snapshot!("denial", plain(&home, &asked));
    assert!(home.exists("ws/f") && !home.exists("outside/x"));
    screen.types("y");
    let (exit_code, rest) = screen.ends();
    assert_eq!((exit_code, home.read("outside/x").as_str()), (0, "x\n"), "{rest}");
    let told = home.says(&["audit", "list"], 0).stdout;
    assert!(told.contains("\"asked\":1") && told.contains("\"result\":\"exited\""), "{told}");
}

/// `tty` finds the command's terminal, and by that name it can be opened.
#[test]
fn the_commands_terminal_has_a_name() {
    let home = Home::new();
    let mut screen = Screen::start(&home, &["run", "--", "sh", "-c", "tty && echo by name > $(tty)"]);
    let (exit_code, shown) = screen.ends();
    assert_eq!((exit_code, shown.as_str()), (0, "/dev/console\r\nby name\r\n"));
}

/// Whoever is asked knows what the sandbox may leave out.
#[test]
fn accepted_losses_are_part_of_the_question() {
    let home = Home::new();
    let mut screen = Screen::start(&home, &["run", "--accept-loss", "credentials", "--", "sh", "-c", LINE]);
    let asked = screen.sees("]? ");
    assert!(asked.contains("- credentials: well-known credentials can be read\r\n"), "{asked}");
    screen.types("q");
    screen.ends();
}

#[test]
fn each_other_answer_does_what_it_says() {
    for (key, reason, exit_code, made) in
        [("s", None, 0, true), ("n", Some("\r"), 2, false), ("n", Some("not there\r"), 2, false), ("q", None, 2, false)]
    {
        let home = Home::new();
        let mut screen = Screen::start(&home, &["run", "--", "sh", "-c", LINE]);
        screen.sees("]? ");
        screen.types(key);
        if let Some(reason) = reason {
            screen.sees("Why not? (Enter alone gives no reason) ");
            screen.types(reason);
        }
        let (found, rest) = screen.ends();
        assert_eq!((found, home.exists("outside/x")), (exit_code, made), "{key}: {rest}");
        assert_eq!(rest.contains("stockade: writing `"), !made, "{key}: {rest}");
    }
}

/// A person who says "always" is not asked by the next run, nor for anything else.
#[test]
fn a_saved_rule_is_not_asked_again() {
    let home = Home::new();
    let words = |name: &'static str| ["run", "--ask", "untrusted", "--", "mkdir", name];
    let mut screen = Screen::start(&home, &words("a"));
    let asked = screen.sees("]? ");
    insta::assert_snapshot!("untrusted", plain(&home, &asked));
    screen.types("p");
    assert_eq!(screen.ends().0, 0);
    assert!(home.exists("ws/a"));
    let saved = home.read("config/stockade/rules/saved.rules");
    assert!(saved.contains(r#"prefix_rule(pattern=["mkdir", "a"], decision="allow")"#), "{saved}");
    std::fs::remove_dir(home.path("ws/a")).unwrap();
    let (exit_code, seen) = Screen::start(&home, &words("a")).ends();
    assert_eq!((exit_code, seen.as_str()), (0, ""));
    assert!(home.exists("ws/a"));
    let mut screen = Screen::start(&home, &words("b"));
    screen.sees("]? ");
    screen.types("q");
    let (exit_code, rest) = screen.ends();
    assert!(exit_code == 126 && rest.contains("refused: the reviewer stopped the session"), "{rest}");
    assert!(!home.exists("ws/b"));
}

#[test]
fn colours_are_for_those_who_want_them() {
    let home = Home::new();
    let mut screen = Screen::start_with(&home, &["run", "--ask", "untrusted", "--", "mkdir", "a"], &[]);
    assert!(screen.sees("]? ").contains("\u{1b}[1mstockade asks: "));
    screen.types("q");
    screen.ends();
    let mut screen = Screen::start(&home, &["run", "--ask", "untrusted", "--", "mkdir", "a"]);
    assert!(!screen.sees("]? ").contains('\u{1b}'));
    screen.types("q");
    screen.ends();
}

#[test]
fn a_command_has_a_terminal_of_its_own() {
    let home = Home::new();
    let line = "test -t 0 && test -t 1 && test -t 2 && stty size; read word; echo \"<$word>\"; exit 5";
    let mut screen = Screen::start(&home, &["run", "--", "sh", "-c", line]);
    screen.sees("40 160\r\n");
    screen.types("word\r");
    screen.sees("<word>");
    assert_eq!(screen.ends().0, 5);
}

#[test]
fn a_new_window_size_reaches_the_command() {
    let home = Home::new();
    let line = "trap 'stty size; exit 0' WINCH; echo ready; while :; do sleep 0.05; done";
    let mut screen = Screen::start(&home, &["run", "--", "sh", "-c", line]);
    screen.sees("ready");
    tcsetwinsize(&screen.outside, Winsize { ws_row: 17, ws_col: 53, ..SIZE }).unwrap();
    screen.sees("17 53");
    assert_eq!(screen.ends().0, 0);
}

#[test]
fn ctrl_c_is_the_commands() {
    let home = Home::new();
    let mut screen = Screen::start(&home, &["run", "--", "sh", "-c", "echo ready; sleep 1000"]);
    screen.sees("ready");
    std::thread::sleep(Duration::from_millis(200));
    screen.types("\u{3}");
    assert_eq!(screen.ends().0, 130);
    let line = "trap 'echo told; exit 9' INT; echo ready; while :; do sleep 0.05; done";
    let mut screen = Screen::start(&home, &["run", "--", "sh", "-c", line]);
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
    let mut screen = Screen::start(&home, &["run", "--", "sh", "-c", line]);
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
    let mut screen = Screen::start(&home, &["run", "--", "sh", "-c", LINE]);
    screen.sees("]? ");
    screen.types("y");
    assert_eq!(screen.ends().0, 0);
    assert_eq!(home.read("outside/x"), "x\n");
}
