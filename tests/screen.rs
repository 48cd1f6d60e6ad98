//! A pseudo-terminal and its user: tests type keys and read the screen at one end.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// Longer than anything takes that is waited for.
const LONGEST: Duration = Duration::from_secs(60);

/// Printed after a program has ended, to know when all of its output was read.
const LAST: &str = "<the program has ended>";

/// What a question begins with, so that a control string that was left open does not swallow it.
pub const STRING_ENDED: &str = "\u{18}\u{1b}\\";

/// A terminal, and the program that was started in it.
#[derive(Debug)]
pub struct Screen {
    /// The person's side.
    pub outside: File,
    /// The program's side.
    pub inside: File,
    /// The name of the program's side.
    pub name: PathBuf,
    /// What has appeared and was not waited for yet.
    pub seen: String,
    /// How long the terminal takes to answer a program that asks it something; `None` if it never does.
    pub answers_after: Option<Duration>,
    unread: String,
    column: u16,
    child: Option<Child>,
}

impl Screen {
    /// A terminal that is not in use yet.
    pub fn open() -> Self {
        let outside = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&outside).unwrap();
        unlockpt(&outside).unwrap();
        let name = PathBuf::from(ptsname(&outside, Vec::new()).unwrap().into_string().unwrap());
        let inside = open(&name, OFlags::empty());
        let (seen, unread) = (String::new(), String::new());
        let outside = File::from(outside);
        let size = Winsize { ws_row: 40, ws_col: 160, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&outside, size).unwrap();
        Self { outside, inside, name, seen, answers_after: Some(Duration::ZERO), unread, column: 1, child: None }
    }

    /// The program's side once more, as a program opens it that waits for nothing.
    pub fn inside_without_waiting(&self) -> File {
        open(&self.name, OFlags::NONBLOCK)
    }

    /// Starts a program with its standard streams on this terminal.
    pub fn start(&mut self, command: &mut Command) {
        let stream = || Stdio::from(self.inside.try_clone().unwrap());
        self.child = Some(command.stdin(stream()).stdout(stream()).stderr(stream()).spawn().unwrap());
    }

    /// Presses keys.
    pub fn types(&mut self, keys: &str) {
        self.outside.write_all(keys.as_bytes()).unwrap();
    }

    /// Reads what appears within a time, and says whether something did.
    pub fn look(&mut self, time: Duration) -> bool {
        let time = Timespec::try_from(time).unwrap();
        if poll(&mut [PollFd::new(&self.outside, PollFlags::IN)], Some(&time)).unwrap() == 0 {
            return false;
        }
        let mut bytes = [0; 4096];
        let count = self.outside.read(&mut bytes).unwrap();
        self.unread.push_str(&String::from_utf8_lossy(bytes.get(..count).unwrap_or_default()));
        self.interpret();
        true
    }

    /// Moves what a terminal shows to `seen`, and answers what it is asked.
    fn interpret(&mut self) {
        let mut answers = String::new();
        while let Some(at) = self.unread.find('\u{1b}') {
            let rest = self.unread.split_off(at);
            self.seen.push_str(&std::mem::take(&mut self.unread));
            let Some(length) = sequence(&rest) else {
                self.unread = rest;
                break;
            };
            let (sequence, rest) = rest.split_at(length);
            self.unread = rest.to_owned();
            let parameters = sequence.get(2..length - 1).unwrap_or_default();
            match sequence.chars().last() {
                Some('7' | '8') if length == 2 => {}
                Some('G') => self.column = parameters.parse().unwrap_or(1),
                Some('n') if parameters == "6" => answers += &format!("\u{1b}[1;{}R", self.column),
                Some('n') if parameters == "5" => answers += "\u{1b}[0n",
                Some('c') => answers += "\u{1b}[?62;22c",
                Some('p') if parameters.ends_with('$') => {
                    answers += &format!("\u{1b}[{};2$y", parameters.trim_end_matches('$'));
                }
                _ => self.seen.push_str(sequence),
            }
        }
        if !self.unread.starts_with('\u{1b}') {
            self.seen.push_str(&std::mem::take(&mut self.unread));
        }
        if let Some(time) = self.answers_after.filter(|_| !answers.is_empty()) {
            let mut outside = self.outside.try_clone().unwrap();
            std::thread::spawn(move || {
                std::thread::sleep(time);
                // A program that is gone is not answered.
                outside.write_all(answers.as_bytes()).ok();
            });
        }
    }

    /// Waits until these words have appeared since the last time, and returns everything up to them.
    pub fn sees(&mut self, words: &str) -> String {
        let start = Instant::now();
        loop {
            if let Some(place) = self.seen.find(words) {
                let rest = self.seen.split_off(place + words.len());
                return std::mem::replace(&mut self.seen, rest);
            }
            assert!(start.elapsed() < LONGEST, "`{words}` never appeared in {:?}", self.seen);
            self.look(Duration::from_millis(100));
        }
    }

    /// Like [`sees`](Self::sees), but `None` if the program ends before.
    pub fn sees_or_ends(&mut self, words: &str) -> Option<String> {
        let start = Instant::now();
        while !self.seen.contains(words) {
            assert!(start.elapsed() < LONGEST, "neither `{words}` nor an end: {:?}", self.seen);
            if !self.look(Duration::from_millis(100)) && self.child.as_mut().unwrap().try_wait().unwrap().is_some() {
                return None;
            }
        }
        Some(self.sees(words))
    }

    /// Waits for the program's end: its exit code, and what has appeared since the last time. The
    /// terminal has to be as it was.
    pub fn ends(&mut self) -> (i32, String) {
        let mut child = self.child.take().unwrap();
        let start = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < LONGEST, "it does not end: {:?}", self.seen);
            self.look(Duration::from_millis(50));
        };
        while self.look(Duration::from_millis(50)) {}
        assert!(self.is_as_before(), "the terminal is left raw");
        // The kernel hands on in its own time what was printed, and in order.
        self.inside.write_all(LAST.as_bytes()).unwrap();
        let shown = self.sees(LAST);
        (status.code().unwrap(), shown.strip_suffix(LAST).unwrap().to_owned())
    }

    /// Whether the terminal shows what is typed and takes lines, as it did at first.
    pub fn is_as_before(&self) -> bool {
        let modes = tcgetattr(&self.inside).unwrap().local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
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

/// How long the control sequence at the beginning is; `None` if more of it is to come.
fn sequence(text: &str) -> Option<usize> {
    match text.as_bytes().get(1)? {
        b'[' => text.bytes().skip(2).position(|byte| (0x40..=0x7e).contains(&byte)).map(|place| place + 3),
        _ => Some(2),
    }
}

fn open(name: &PathBuf, flags: OFlags) -> File {
    let flags = flags | OFlags::NOCTTY | OFlags::CLOEXEC;
    OpenOptions::new().read(true).write(true).custom_flags(flags.bits().cast_signed()).open(name).unwrap()
}
