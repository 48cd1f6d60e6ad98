//! The terminal that a command's output and a question share.
//!
//! A question about a connection is asked while the command runs. What the command prints meanwhile could paint over
//! the question, and the keys that answer it could go to the command. So a question has the stage for itself: output
//! is kept until it is over, and keys are not passed on.
#![cfg_attr(not(unix), allow(dead_code, reason = "nobody is asked at a terminal there"))]

use std::io::{self, IsTerminal as _, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use stockade_core::StreamName;

/// More than this is not kept of what a command prints to the terminal while somebody thinks.
const MOST_HELD: usize = 1024 * 1024;

/// Brings a terminal back to plain letters, whatever was printed before: hidden or coloured text, another set of
/// characters, a part of the screen that scrolls.
const PLAIN: &str = "\u{1b}[!p\u{1b}[0m\u{1b}(B\u{f}";

static STAGE: Mutex<Stage> = Mutex::new(Stage { questions: 0, held: Vec::new(), room: MOST_HELD, is_stained: false });

struct Stage {
    questions: usize,
    held: Vec<(StreamName, Vec<u8>)>,
    room: usize,
    /// Whether anything was printed that changes how what follows looks.
    is_stained: bool,
}

fn stage() -> MutexGuard<'static, Stage> {
    STAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Passes a command's output on: to a terminal once no question is open, to anything else at once and whole.
pub(crate) fn print(stream: StreamName, bytes: &[u8]) {
    let mut stage = stage();
    if stage.questions == 0 || !is_terminal(stream) {
        return stage.write(stream, bytes);
    }
    let kept = bytes.get(..stage.room).unwrap_or(bytes);
    stage.room -= kept.len();
    stage.held.push((stream, kept.to_vec()));
}

fn is_terminal(stream: StreamName) -> bool {
    match stream {
        StreamName::Stdout => io::stdout().is_terminal(),
        StreamName::Stderr => io::stderr().is_terminal(),
    }
}

/// Whether keys are for a question.
pub(crate) fn is_taken() -> bool {
    stage().questions > 0
}

impl Stage {
    fn write(&mut self, stream: StreamName, bytes: &[u8]) {
        self.is_stained |= bytes.iter().any(|byte| matches!(byte, 0x0e | 0x1b | 0x9b)) && is_terminal(stream);
        // A reader that has gone away is the command's loss, not a reason to stop it. A terminal that hung up ends
        // it by its signal, not from here.
        match stream {
            StreamName::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush()).ok();
            }
            StreamName::Stderr => drop(io::stderr().write_all(bytes)),
        }
    }
}

/// A question that is open. Dropped, what was printed meanwhile is shown.
pub(crate) struct Question(());

impl Question {
    pub(crate) fn open() -> Self {
        stage().questions += 1;
        Self(())
    }

    /// What has to be written first, so that the question looks like one.
    pub(crate) fn cleaning(&self) -> &'static str {
        if std::mem::take(&mut stage().is_stained) { PLAIN } else { "" }
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let mut stage = stage();
        stage.questions -= 1;
        if stage.questions > 0 {
            return;
        }
        for (stream, bytes) in std::mem::take(&mut stage.held) {
            stage.write(stream, &bytes);
        }
        if std::mem::replace(&mut stage.room, MOST_HELD) == 0 {
            stage.write(StreamName::Stderr, b"\nstockade: not all that was printed while you were asked is shown\n");
        }
    }
}
