//! Shares the terminal between a command's output and a question.
//!
//! A question about a connection is asked while the command runs. The command's output could paint over the question,
//! and the answering keys could go to the command. So a question owns the terminal: output is held back until it ends,
//! and keys are not forwarded.
//!
//! Writing to a terminal or a pipe can block for ever. The lock is never held meanwhile.
#![cfg_attr(not(unix), allow(dead_code, reason = "nobody is asked at a terminal there"))]

use std::fs::File;
use std::io::{self, IsTerminal as _};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::outlet;
use super::page::Kind;

/// Limit on a command's output held back during a question.
const MOST_HELD: usize = 1024 * 1024;

/// The time limit for writing a message of this program.
const MESSAGE: Duration = Duration::from_secs(1);

/// Ends a control string that output left open, in which a terminal would swallow the question. Without effect otherwise.
const ENDED: &str = "\u{18}\u{1b}\\";

/// Resets a terminal to plain text: hidden or coloured text, other character sets, scroll regions, output held back until
/// it is complete, and other keyboard and mouse modes.
const PLAIN: &str = "\u{18}\u{1b}\\\u{1b}[?2026l\u{1b}[!p\u{1b}[0m\u{1b}(B\u{f}\u{1b}[?1000l\u{1b}[?1002l\u{1b}[?1003l\u{1b}[?1004l\u{1b}[?2004l";

static STAGE: Mutex<Stage> = Mutex::new(Stage {
    questions: 0,
    writing: 0,
    is_catching_up: false,
    held: Vec::new(),
    room: MOST_HELD,
    is_stained: false,
    is_raw: false,
});
/// Signalled after output was written.
static WRITTEN: Condvar = Condvar::new();

struct Stage {
    questions: usize,
    /// The number of writing threads.
    writing: usize,
    /// Held output is being shown; new output is queued after it.
    is_catching_up: bool,
    held: Vec<(Outlet, Vec<u8>)>,
    room: usize,
    /// Whether output may have changed the terminal's attributes.
    is_stained: bool,
    /// Whether the terminal does not translate newlines, so that lines need a carriage return.
    is_raw: bool,
}

/// The target of output.
#[derive(Clone, Debug)]
pub enum Outlet {
    /// Standard error of this process.
    Stderr,
    /// The person's terminal, on any standard stream.
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

/// Forwards a command's output: to a terminal once no question is open, to anything else at once.
pub fn print(outlet: &Outlet, bytes: &[u8]) -> io::Result<()> {
    if stage().enter(outlet, bytes) {
        let written = outlet::write_all(outlet, bytes);
        leave();
        return written;
    }
    Ok(())
}

/// Writes a message to standard error, within a short time limit.
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

/// Whether a question owns the keys.
pub fn is_taken() -> bool {
    stage().questions > 0
}

/// Changes the terminal's modes, unless a question owns it. `change` returns whether it is raw afterwards.
pub fn set_up(change: impl FnOnce() -> bool) {
    let mut stage = stage();
    if stage.questions == 0 {
        stage.is_raw = change();
    }
}

/// Waits until all output is written, with an optional time limit. A question that was answered ends a moment after its
/// answer arrives, on another thread, and holds back what is printed until then.
pub fn catch_up(limit: Option<Duration>) {
    let start = Instant::now();
    let mut stage = stage();
    loop {
        let asked = MESSAGE.saturating_sub(start.elapsed());
        let is_asked = stage.questions > 0 && !asked.is_zero();
        if !is_asked && stage.writing == 0 && !stage.is_catching_up {
            return;
        }
        let left = limit.map(|limit| limit.saturating_sub(start.elapsed()));
        let left = if is_asked { Some(left.map_or(asked, |left| left.min(asked))) } else { left };
        stage = match left {
            Some(Duration::ZERO) => return,
            Some(left) => WRITTEN.wait_timeout(stage, left).unwrap_or_else(PoisonError::into_inner).0,
            None => WRITTEN.wait(stage).unwrap_or_else(PoisonError::into_inner),
        };
    }
}

impl Stage {
    /// Whether these bytes may be written now. Otherwise they are queued.
    fn enter(&mut self, outlet: &Outlet, bytes: &[u8]) -> bool {
        if (self.questions == 0 && !self.is_catching_up) || !outlet.is_terminal() {
            self.is_stained |= outlet.is_terminal() && stains(bytes);
            self.writing += 1;
            return true;
        }
        let kept = bytes.get(..self.room).unwrap_or(bytes);
        self.room -= kept.len();
        self.held.push((outlet.clone(), kept.to_vec()));
        false
    }
}

/// Whether output may change the terminal's attributes: by an escape, by another character set, or by a control
/// character of eight bits, by itself or in UTF-8.
fn stains(bytes: &[u8]) -> bool {
    bytes.iter().any(|byte| matches!(byte, 0x0e | 0x1b | 0x80..=0x9f))
}

/// An open question. When it is dropped, the held output is shown.
pub(crate) struct Question(());

impl Question {
    pub(crate) fn open() -> Self {
        stage().questions += 1;
        Self(())
    }

    /// Waits, up to the limit, until all earlier output is on the screen.
    pub(crate) fn is_alone_within(&self, limit: Duration) -> bool {
        let stage = stage();
        let writes = |stage: &mut Stage| stage.writing > 0;
        let waited = WRITTEN.wait_timeout_while(stage, limit, writes).unwrap_or_else(PoisonError::into_inner);
        waited.0.writing == 0
    }

    /// The sequence before the question that makes it visible. A string may be open since before this run. A terminal
    /// without control sequences would print it.
    pub(super) fn cleaning(&self, terminal: Kind) -> &'static str {
        match (terminal, std::mem::take(&mut stage().is_stained)) {
            (Kind::Dumb, _) => "",
            (Kind::Usual, true) => PLAIN,
            (Kind::Usual, false) => ENDED,
        }
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
                // A hangup ends the command by its signal, not here.
                outlet::write_all(&outlet, &bytes).ok();
            }
        }
    }
}

/// The next held output. `None` if nothing is left, or for the next question.
fn next_held() -> Option<Vec<(Outlet, Vec<u8>)>> {
    let mut stage = stage();
    if stage.questions == 0 && !stage.held.is_empty() {
        stage.is_stained |= stage.held.iter().any(|(_, bytes)| stains(bytes));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A message that is printed right after an answer must not be held back by the question that was answered: the program
    /// may end before it is shown.
    #[test]
    fn a_question_that_ends_is_waited_for() {
        let (start, question) = (Instant::now(), Question::open());
        let time = Duration::from_millis(200);
        let end = std::thread::spawn(move || {
            std::thread::sleep(time);
            drop(question);
        });
        catch_up(None);
        assert!(start.elapsed() >= time);
        end.join().unwrap();
        // One that stays open holds nothing up.
        let question = Question::open();
        catch_up(None);
        catch_up(Some(Duration::ZERO));
        drop(question);
    }
}
