//! The terminal that a command's output and a question share.
//!
//! A question about a connection is asked while the command runs. What the command prints meanwhile could paint over
//! the question, and the keys that answer it could go to the command. So a question has the stage for itself: output
//! is kept until it is over, and keys are not passed on.
//!
//! Writing to a terminal or a pipe can take for ever. The lock is never held meanwhile, so that nothing else waits.
#![cfg_attr(not(unix), allow(dead_code, reason = "nobody is asked at a terminal there"))]

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::outlet;

/// More than this is not kept of what a command prints to the terminal while somebody thinks.
const MOST_HELD: usize = 1024 * 1024;

/// How long a message of this program is tried to be written.
const MESSAGE: Duration = Duration::from_secs(1);

/// Brings a terminal back to plain letters, whatever was printed before: hidden or coloured text, another set of
/// characters, a part of the screen that scrolls, keys and a mouse that are reported in other ways.
const PLAIN: &str = "\u{1b}[!p\u{1b}[0m\u{1b}(B\u{f}\u{1b}[?1000l\u{1b}[?1002l\u{1b}[?1003l\u{1b}[?1004l\u{1b}[?2004l";

static STAGE: Mutex<Stage> = Mutex::new(Stage {
    questions: 0,
    writing: 0,
    is_catching_up: false,
    held: Vec::new(),
    room: MOST_HELD,
    is_stained: false,
    is_raw: false,
});
/// Something was written, or shown at last.
static WRITTEN: Condvar = Condvar::new();

struct Stage {
    questions: usize,
    /// How many threads write at the moment.
    writing: usize,
    /// What was held is being shown. What is printed meanwhile comes behind it.
    is_catching_up: bool,
    held: Vec<(Outlet, Vec<u8>)>,
    room: usize,
    /// Whether anything was printed that changes how what follows looks.
    is_stained: bool,
    /// Whether the terminal leaves lines as they are, so that each needs a carriage return.
    is_raw: bool,
}

/// Where output goes.
#[derive(Clone, Debug)]
pub enum Outlet {
    /// Standard error of this process.
    Stderr,
    /// The person's terminal, whichever standard stream that is.
    Terminal(Arc<File>),
}

impl Outlet {
    fn is_terminal(&self) -> bool {
        match self {
            Self::Stderr => io::stderr().is_terminal(),
            Self::Terminal(_) => true,
        }
    }
}

fn stage() -> MutexGuard<'static, Stage> {
    STAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes a command's output on: to a terminal once no question is open, to anything else at once and whole.
pub fn print(outlet: &Outlet, bytes: &[u8]) -> io::Result<()> {
    if stage().enter(outlet, bytes) {
        let written = outlet::write_all(outlet, bytes);
        leave();
        return written;
    }
    Ok(())
}

/// Says something on standard error, if that can be done in a moment.
pub fn tell(text: &str) {
    let text = if stage().is_raw && io::stderr().is_terminal() { text.replace('\n', "\r\n") } else { text.to_owned() };
    if stage().enter(&Outlet::Stderr, text.as_bytes()) {
        outlet::write_within(MESSAGE, text.as_bytes());
        leave();
    }
}

fn leave() {
    stage().writing -= 1;
    WRITTEN.notify_all();
}

/// Whether keys are for a question.
pub fn is_taken() -> bool {
    stage().questions > 0
}

/// Changes how the terminal treats keys and lines, unless a question has it. Says whether it is raw afterwards.
pub fn set_up(change: impl FnOnce() -> bool) {
    let mut stage = stage();
    if stage.questions == 0 {
        stage.is_raw = change();
    }
}

/// Waits until all that was printed has been written, at most this long.
pub fn catch_up(limit: Option<Duration>) {
    let start = Instant::now();
    let mut stage = stage();
    while stage.writing > 0 || stage.is_catching_up {
        let left = limit.map(|limit| limit.saturating_sub(start.elapsed()));
        stage = match left {
            Some(Duration::ZERO) => return,
            Some(left) => WRITTEN.wait_timeout(stage, left).unwrap_or_else(PoisonError::into_inner).0,
            None => WRITTEN.wait(stage).unwrap_or_else(PoisonError::into_inner),
        };
    }
}

impl Stage {
    /// Whether these bytes may be written now. Otherwise they are kept.
    fn enter(&mut self, outlet: &Outlet, bytes: &[u8]) -> bool {
        if (self.questions == 0 && !self.is_catching_up) || !outlet.is_terminal() {
            self.is_stained |= outlet.is_terminal() && bytes.iter().any(|byte| matches!(byte, 0x0e | 0x1b | 0x9b));
            self.writing += 1;
            return true;
        }
        let kept = bytes.get(..self.room).unwrap_or(bytes);
        self.room -= kept.len();
        self.held.push((outlet.clone(), kept.to_vec()));
        false
    }
}

/// A question that is open. Dropped, what was printed meanwhile is shown.
pub(crate) struct Question(());

impl Question {
    pub(crate) fn open() -> Self {
        stage().questions += 1;
        Self(())
    }

    /// Whether all that was printed before is on the screen. Waits for it, at most this long.
    pub(crate) fn is_alone_within(&self, limit: Duration) -> bool {
        let stage = stage();
        let writes = |stage: &mut Stage| stage.writing > 0;
        let waited = WRITTEN.wait_timeout_while(stage, limit, writes).unwrap_or_else(PoisonError::into_inner);
        waited.0.writing == 0
    }

    /// What has to be written first, so that the question looks like one.
    pub(crate) fn cleaning(&self) -> &'static str {
        if std::mem::take(&mut stage().is_stained) { PLAIN } else { "" }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        {
            let mut stage = stage();
            stage.questions -= 1;
            if stage.questions > 0 || stage.is_catching_up {
                return;
            }
            stage.is_catching_up = true;
        }
        while let Some(held) = next_held() {
            for (outlet, bytes) in held {
                // A terminal that hung up ends the command by its signal, not from here.
                outlet::write_all(&outlet, &bytes).ok();
            }
        }
    }
}

/// What is to be shown next. With nothing left, or for the next question, this is over.
fn next_held() -> Option<Vec<(Outlet, Vec<u8>)>> {
    let mut stage = stage();
    if stage.questions == 0 && !stage.held.is_empty() {
        stage.is_stained |= stage.held.iter().any(|(_, bytes)| bytes.contains(&0x1b));
        let mut held = std::mem::take(&mut stage.held);
        if std::mem::replace(&mut stage.room, MOST_HELD) == 0 {
            let text: &[u8] = b"\r\nstockade: not all that was printed while you were asked is shown\r\n";
            held.push((Outlet::Stderr, text.to_vec()));
        }
        return Some(held);
    }
    stage.is_catching_up = false;
    WRITTEN.notify_all();
    None
}
