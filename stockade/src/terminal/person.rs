//! The person at the terminal.
//!
//! The terminal is `/dev/tty`, not standard input: that may be a pipe, and belongs to the command. Each question has a
//! thread of its own, which can be cancelled at any moment: it always waits for the terminal and for the cancellation.

use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use stockade_core::{Answer, Approver, Unanswered};
use stockade_protocol::{ApprovalRequest, ReviewDecision};
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};

use super::barrier::Barrier;
use super::choices::{choices, form};
use super::dialog::{Dialog, Step};
use super::keys::{Decoder, Event, Piece};
use super::page::{Interrupt, Kind, Lifetime, Look, Paint};
use super::raw_mode::RawMode;
use super::render;
use super::stage;
use super::text::Detail;
use super::wrap::UNBOUNDED;

/// Keys count only after a pause of this length: keys typed while the prompt appeared were not meant for it.
const QUIET: Duration = Duration::from_millis(300);

/// The timeout for the terminal's answer.
const ANSWER: Duration = Duration::from_secs(2);

/// Bytes within this time belong together: a terminal's report is that fast, a person is not.
const BURST: Duration = Duration::from_millis(50);

/// Limit on the size of a chunk.
const LONGEST_PIECE: usize = 4096;

/// The polling interval if the terminal can't be polled.
const LOOK: Duration = Duration::from_millis(20);

/// Asks a person at the terminal, one question after the other.
pub(crate) struct Terminal {
    terminal: Arc<File>,
    look: Arc<Look>,
    turn: Arc<Mutex<Stopped>>,
}

/// Whether a person has stopped everything: questions in the queue are not shown.
type Stopped = bool;

impl Terminal {
    /// The terminal of this process, if it has one.
    pub(crate) fn open(left_out: Vec<String>, lifetime: Lifetime, interrupt: Interrupt) -> Option<Self> {
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC).bits();
        let flags = i32::try_from(flags).ok()?;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/tty").ok()?;
        let variable = |name: &str| std::env::var_os(name);
        let (paint, terminal) = (Paint::for_terminal(variable), Kind::for_terminal(variable));
        Some(Self::on(file, Look { paint, left_out, terminal, lifetime, interrupt }))
    }

    /// An open terminal, non-blocking for reading, and for writing.
    pub(super) fn on(terminal: File, look: Look) -> Self {
        Self { terminal: Arc::new(terminal), look: Arc::new(look), turn: Arc::default() }
    }
}

#[async_trait]
impl Approver for Terminal {
    async fn review(&self, request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
        let turn = Arc::clone(&self.turn).lock_owned().await;
        if *turn {
            return Ok(ReviewDecision::Abort.into());
        }
        let (answer, receiver) = oneshot::channel();
        let asking = Asking::start(Arc::clone(&self.terminal), Arc::clone(&self.look), request, turn, answer)
            .map_err(|error| gone(&format!("the prompt could not be opened: {error}")))?;
        let result = receiver.await.unwrap_or_else(|_| Err(gone("the prompt failed")));
        drop(asking);
        result
    }
}

/// An open prompt. Dropping it removes the prompt and waits until the terminal is restored, which takes a moment at
/// most.
struct Asking {
    call_off: Option<PipeWriter>,
    /// Disconnected when the terminal is restored, or the prompt has panicked. Output held back meanwhile may be shown
    /// later, and is not awaited here.
    is_restored: mpsc::Receiver<()>,
}

impl Asking {
    fn start(
        terminal: Arc<File>,
        look: Arc<Look>,
        request: Arc<ApprovalRequest>,
        mut turn: OwnedMutexGuard<Stopped>,
        answer: oneshot::Sender<Result<Answer, Unanswered>>,
    ) -> io::Result<Self> {
        let (called_off, call_off) = io::pipe()?;
        let (restored, is_restored) = mpsc::channel::<()>();
        let thread = std::thread::Builder::new().name(String::from("prompt")).spawn(move || {
            let question = stage::Question::open();
            let prompt = Prompt { terminal: &terminal, called_off, look: &look };
            let result = prompt.ask(&request, &question).map_err(Ending::into_reason);
            *turn = matches!(&result, Ok(answer) if answer.decision == ReviewDecision::Abort);
            // The asker may have given up.
            answer.send(result).ok();
            drop((restored, turn));
            drop(question);
        })?;
        drop(thread);
        Ok(Self { call_off: Some(call_off), is_restored })
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.call_off = None;
        self.is_restored.recv().ok();
    }
}

/// Why a prompt ended without an answer.
enum Ending {
    HungUp,
    CalledOff,
    InBackground,
    /// The person leaves.
    Left,
    Failed(io::Error),
}

impl From<io::Error> for Ending {
    fn from(error: io::Error) -> Self {
        match rustix::io::Errno::from_io_error(&error) {
            Some(rustix::io::Errno::IO) => Self::HungUp,
            _ => Self::Failed(error),
        }
    }
}

impl From<rustix::io::Errno> for Ending {
    fn from(error: rustix::io::Errno) -> Self {
        io::Error::from(error).into()
    }
}

impl Ending {
    fn into_reason(self) -> Unanswered {
        match self {
            Self::HungUp => gone("the terminal hung up"),
            Self::CalledOff => gone("the question was called off"),
            Self::InBackground => {
                gone("stockade runs in the background of its terminal: bring it to the foreground (`fg`)")
            }
            Self::Left => Unanswered::Left,
            Self::Failed(error) => gone(&format!("the terminal failed: {error}")),
        }
    }
}

fn gone(why: &str) -> Unanswered {
    Unanswered::Gone { why: why.to_owned() }
}

/// One question on a terminal.
struct Prompt<'a> {
    terminal: &'a File,
    /// Reaches end of file when the question is cancelled.
    called_off: PipeReader,
    look: &'a Look,
}

impl Prompt<'_> {
    fn ask(&self, request: &ApprovalRequest, stage: &stage::Question) -> Result<Answer, Ending> {
        self.stand_in_foreground()?;
        // A blocked terminal can't show a question; the question can still be cancelled.
        while !stage.is_alone_within(LOOK) {
            if poll_again(&mut [PollFd::new(&self.called_off, PollFlags::IN)], Some(Duration::ZERO))? > 0 {
                return Err(Ending::CalledOff);
            }
        }
        let _mode = RawMode::enter(self.terminal.as_fd())?;
        let choices = choices(request, self.look.lifetime);
        let (question, shortened) = render::question(request, self.look, self.columns(), Detail::Short);
        let keys = render::keys(&choices, shortened, self.look.paint, self.columns());
        self.write(&format!("{}\n{question}{keys}\n", stage.cleaning(self.look.terminal)))?;
        let mut decoder = Decoder::default();
        if let Some(stopped) = self.settle(&mut decoder)? {
            return Ok(stopped.into());
        }
        let mut dialog = Dialog::new(choices, form(&request.subject).and_then(Result::ok)).shortened(shortened);
        self.write(&dialog.invitation())?;
        let result = self.converse(&mut dialog, &mut decoder, request, &keys);
        if matches!(result, Err(Ending::CalledOff)) {
            self.write_at_once("\nThe question was called off.\n");
        }
        result
    }

    /// The current width of the terminal.
    fn columns(&self) -> usize {
        let columns = rustix::termios::tcgetwinsize(self.terminal).map_or(0, |size| size.ws_col);
        if columns == 0 { UNBOUNDED } else { columns.into() }
    }

    /// Checks that this process is in the foreground: the terminal would stop a background process, and the run would
    /// hang.
    fn stand_in_foreground(&self) -> Result<(), Ending> {
        match rustix::termios::tcgetpgrp(self.terminal) {
            Ok(group) if group != rustix::process::getpgrp() => Err(Ending::InBackground),
            // Not this process's controlling terminal, so there is no foreground group.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Discards keys typed before the prompt could be read, and the terminal's reports to the command. Only Ctrl-C is
    /// handled.
    fn settle(&self, decoder: &mut Decoder) -> Result<Option<ReviewDecision>, Ending> {
        let mut barrier = self.barrier();
        if let Some(barrier) = &barrier {
            self.write(&barrier.query())?;
        }
        let start = Instant::now();
        loop {
            let Some(bytes) = self.read(Some(QUIET))? else {
                let is_passed = barrier.as_ref().is_none_or(Barrier::is_passed);
                if is_passed || start.elapsed() > ANSWER {
                    return Ok(None);
                }
                continue;
            };
            for event in bytes.into_iter().flat_map(|byte| decoder.take(byte)).flatten() {
                match (event, &mut barrier) {
                    (Event::Byte(3), _) => {
                        self.leave()?;
                        self.write("stopped\n")?;
                        return Ok(Some(ReviewDecision::Abort));
                    }
                    (Event::CursorColumn(column), Some(barrier)) => barrier.report(column),
                    (Event::Byte(_) | Event::Sequence | Event::CursorColumn(_), _) => {}
                }
            }
        }
    }

    /// The effect of Ctrl-C before the dialog.
    fn leave(&self) -> Result<(), Ending> {
        match self.look.interrupt {
            Interrupt::Stops => Ok(()),
            Interrupt::Leaves => {
                self.write("left open\n")?;
                Err(Ending::Left)
            }
        }
    }

    fn barrier(&self) -> Option<Barrier> {
        match self.look.terminal {
            Kind::Dumb => None,
            Kind::Usual => Barrier::new(rustix::termios::tcgetwinsize(self.terminal).ok()?.ws_col),
        }
    }

    fn converse(
        &self,
        dialog: &mut Dialog,
        decoder: &mut Decoder,
        request: &ApprovalRequest,
        keys: &str,
    ) -> Result<Answer, Ending> {
        loop {
            let piece = self.next_piece(dialog, decoder)?;
            if piece.typed.contains(&3) {
                self.leave()?;
            }
            let step = match piece.typed.as_slice() {
                // Nothing was typed.
                [] => continue,
                typed if piece.has_sequences && dialog.wants_one_key() && !typed.contains(&3) => dialog.ask_again(),
                typed => dialog.press(typed),
            };
            match step {
                Step::Say(text) => self.write(&text)?,
                Step::ShowEverything => {
                    let (everything, _) = render::question(request, self.look, self.columns(), Detail::Whole);
                    self.write(&format!("\n\n{everything}{keys}\n{}", dialog.invitation()))?;
                }
                Step::Decide(answer, text) => {
                    // The answer counts even if it can't be shown.
                    self.write(&text).ok();
                    return Ok(answer);
                }
            }
        }
    }

    /// The next chunk. If a single key is expected, everything that arrives at once is one chunk.
    fn next_piece(&self, dialog: &Dialog, decoder: &mut Decoder) -> Result<Piece, Ending> {
        let mut bytes = match self.read(Some(QUIET))? {
            Some(bytes) => bytes,
            None => {
                decoder.forget_escape();
                self.read(None)?.unwrap_or_default()
            }
        };
        while dialog.wants_one_key() && !bytes.is_empty() && bytes.len() < LONGEST_PIECE {
            let Some(more) = self.read(Some(BURST))? else { break };
            bytes.extend(more);
        }
        Ok(decoder.piece(&bytes))
    }

    /// The next input, or `None` after `limit`.
    fn read(&self, limit: Option<Duration>) -> Result<Option<Vec<u8>>, Ending> {
        if !self.wait(PollFlags::IN, limit)? {
            return Ok(None);
        }
        let mut bytes = [0; 64];
        match (&*self.terminal).read(&mut bytes) {
            Ok(0) => Err(Ending::HungUp),
            Ok(count) => Ok(bytes.get(..count).map(<[u8]>::to_vec)),
            Err(error) if is_passing(&error) => Ok(Some(Vec::new())),
            Err(error) => Err(error.into()),
        }
    }

    fn write(&self, text: &str) -> Result<(), Ending> {
        let mut rest = text.as_bytes();
        while !rest.is_empty() {
            match (&*self.terminal).write(rest) {
                Ok(count) => rest = rest.get(count..).unwrap_or_default(),
                Err(error) if is_passing(&error) => {
                    self.wait(PollFlags::OUT, None)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Writes what the terminal accepts at once: it may be the reason for the cancellation.
    fn write_at_once(&self, text: &str) {
        // The rest is not shown.
        let _ = (&*self.terminal).write(text.as_bytes()).unwrap_or_default();
    }

    /// Whether the terminal is ready within the limit.
    fn wait(&self, what: PollFlags, limit: Option<Duration>) -> Result<bool, Ending> {
        let mut ready = [PollFd::new(&self.terminal, what), PollFd::new(&self.called_off, PollFlags::IN)];
        let count = poll_again(&mut ready, limit)?;
        let [terminal, called_off] = ready;
        if !called_off.revents().is_empty() {
            return Err(Ending::CalledOff);
        }
        if terminal.revents().contains(PollFlags::NVAL) {
            return self.wait_by_looking(what, limit);
        }
        if terminal.revents().intersects(PollFlags::HUP | PollFlags::ERR) {
            return Err(Ending::HungUp);
        }
        Ok(count > 0)
    }

    /// Like `wait`, for systems that can't poll `/dev/tty`, such as macOS.
    fn wait_by_looking(&self, what: PollFlags, limit: Option<Duration>) -> Result<bool, Ending> {
        let start = Instant::now();
        while limit.is_none_or(|limit| start.elapsed() < limit) {
            let mut called_off = [PollFd::new(&self.called_off, PollFlags::IN)];
            if poll_again(&mut called_off, Some(LOOK))? > 0 {
                return Err(Ending::CalledOff);
            }
            if what == PollFlags::OUT || rustix::io::ioctl_fionread(self.terminal)? > 0 {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Polls, restarting after signals.
fn poll_again(files: &mut [PollFd<'_>], limit: Option<Duration>) -> Result<usize, Ending> {
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    loop {
        match poll(files, limit.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Whether a call only has to be repeated.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
