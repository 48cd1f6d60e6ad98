//! The person at the terminal.
//!
//! The terminal is `/dev/tty`, not standard input: that may be a pipe, and belongs to the command.
//! Each question is asked by a thread of its own, which can be called off at any moment: it never
//! waits for the terminal without also waiting for that.

use std::fs::{File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use stockade_core::{Answer, Approver, Unanswered};
use stockade_protocol::{ApprovalRequest, ReviewDecision};
use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};

use super::choices::{choices, form};
use super::dialog::{Dialog, Step};
use super::page::{Look, Paint};
use super::raw_mode::RawMode;
use super::render;
use super::text::Detail;
use crate::stage;

/// Keys count only after nothing was typed for so long: whoever was typing when the prompt appeared
/// did not mean it.
const QUIET: Duration = Duration::from_millis(300);

/// How often to look for a key where waiting for one is not possible.
const LOOK: Duration = Duration::from_millis(20);

/// Asks a person at the terminal, one question after the other.
pub(crate) struct Terminal {
    terminal: Arc<File>,
    look: Arc<Look>,
    turn: Arc<Mutex<Stopped>>,
}

/// Whether a person has answered that everything stops: the questions that wait for their turn are not shown.
type Stopped = bool;

impl Terminal {
    /// The terminal of this process, if it has one.
    pub(crate) fn open(left_out: Vec<String>) -> Option<Self> {
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC).bits();
        let flags = i32::try_from(flags).ok()?;
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open("/dev/tty").ok()?;
        let paint = Paint::for_terminal(|name| std::env::var_os(name));
        Some(Self::on(file, Look { paint, left_out }))
    }

    /// A terminal that is open already, for reading without waiting and for writing.
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

/// A prompt that is open. Dropping it takes the prompt away and waits until the terminal is as it
/// was, which takes a moment at most.
struct Asking {
    call_off: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
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
        let thread = std::thread::Builder::new().name(String::from("prompt")).spawn(move || {
            let question = stage::Question::open();
            let prompt = Prompt { terminal: &terminal, called_off, look: &look, cleaning: question.cleaning() };
            let result = prompt.ask(&request).map_err(Ending::into_reason);
            drop(question);
            *turn = matches!(&result, Ok(answer) if answer.decision == ReviewDecision::Abort);
            // Whoever asked may have given up.
            answer.send(result).ok();
            drop(turn);
        })?;
        Ok(Self { call_off: Some(call_off), thread: Some(thread) })
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.call_off = None;
        if let Some(thread) = self.thread.take() {
            // If it panicked, the question has ended without an answer.
            thread.join().ok();
        }
    }
}

/// Why a prompt ended without an answer.
enum Ending {
    HungUp,
    CalledOff,
    InBackground,
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
    /// Ends when the question is called off.
    called_off: PipeReader,
    look: &'a Look,
    /// What is written first.
    cleaning: &'static str,
}

impl Prompt<'_> {
    fn ask(&self, request: &ApprovalRequest) -> Result<Answer, Ending> {
        self.stand_in_foreground()?;
        let mode = RawMode::enter(self.terminal.as_fd())?;
        let choices = choices(request);
        let (question, shortened) = render::question(request, self.look, Detail::Short);
        let keys = render::keys(&choices, shortened, self.look.paint);
        self.write(&format!("{}\n{question}{keys}\n", self.cleaning))?;
        if let Some(stopped) = self.wait_for_quiet(&mode)? {
            return Ok(stopped.into());
        }
        let mut dialog = Dialog::new(choices, form(&request.subject).and_then(Result::ok));
        self.write(&dialog.invitation())?;
        let result = self.converse(&mut dialog, request, &keys);
        if matches!(result, Err(Ending::CalledOff)) {
            self.write("\nThe question was called off.\n").ok();
        }
        result
    }

    /// A process in the background would be stopped by the terminal, and the run would hang.
    fn stand_in_foreground(&self) -> Result<(), Ending> {
        match rustix::termios::tcgetpgrp(self.terminal) {
            Ok(group) if group != rustix::process::getpgrp() => Err(Ending::InBackground),
            // Not this process's own terminal, so nobody is in the foreground.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Throws away what was typed before the prompt could be read. Only Ctrl-C is heard.
    fn wait_for_quiet(&self, mode: &RawMode<'_>) -> Result<Option<ReviewDecision>, Ending> {
        mode.discard_input()?;
        while let Some(typed) = self.read(Some(QUIET))? {
            if typed.contains(&3) {
                self.write("stopped\n")?;
                return Ok(Some(ReviewDecision::Abort));
            }
        }
        Ok(None)
    }

    fn converse(&self, dialog: &mut Dialog, request: &ApprovalRequest, keys: &str) -> Result<Answer, Ending> {
        loop {
            let Some(typed) = self.read(None)?.filter(|typed| !typed.is_empty()) else { continue };
            match dialog.press(&typed) {
                Step::Say(text) => self.write(&text)?,
                Step::ShowEverything => {
                    let (everything, _) = render::question(request, self.look, Detail::Whole);
                    self.write(&format!("\n\n{everything}{keys}\n{}", dialog.invitation()))?;
                }
                Step::Decide(answer, text) => {
                    // The answer counts even if it can't be shown any more.
                    self.write(&text).ok();
                    return Ok(answer);
                }
            }
        }
    }

    /// What is typed next, or nothing if that takes longer than `limit`.
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

    /// As `wait`, for systems that can't wait for `/dev/tty`, such as macOS.
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

/// Waits, also across signals.
fn poll_again(files: &mut [PollFd<'_>], limit: Option<Duration>) -> Result<usize, Ending> {
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    loop {
        match poll(files, limit.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

/// Whether a call only has to be made again.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
