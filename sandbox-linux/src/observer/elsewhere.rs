//! Programs that run elsewhere: the call that starts one starts a stub in its place, which passes signals on and ends as
//! the program ends.
//!
//! 1. A descriptor of the stub is put into the caller, whose call waits, and the caller's registers are set so that it
//!    executes that ([`trace`](crate::sys::trace)). Not a byte of its memory is written. That call is notified, too,
//!    and let through: only the thread that was redirected, and only with the stub's own file, is taken for it.
//! 2. The stub asks for the other end of the program's terminal, and for a socket, by calls that are answered with them.
//!    So no descriptor of those is ever in the caller, where another thread could pass it on by a fork.
//! 3. While it asks, its standard streams and its mask are copied. The program is started with those, after both answers.
//! 4. A thread passes on what the stub sends, and tells it the end. A stub that ends takes its program with it.
//!
//! A caller that gets around any of this gets around a stub that has no rights: the program was copied before.
//! What can't be done leaves the program where it is, and is told.

mod terminal;

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use stockade_protocol::Umask;
use stockade_sandboxing::{DirectoryIdentity, ElsewhereStart, Running, SpawnError, Stdio, Streams, WaitStatus};

use self::terminal::{Before, CallersTerminals, own_terminal};
use super::start_file::descriptor;
use crate::launch::stub_file;
use crate::stub_wire as wire;
use crate::supervisor::{Caller, group_of};
use crate::sys::notify::{self, CloseOnExec, Notification};
use crate::sys::trace::{Redirected, Traced};

/// The most programs of a command that run elsewhere at once.
const MOST: usize = 32;
/// How long a stub may take to ask for its socket. It does nothing before.
const LONGEST_START: Duration = Duration::from_secs(10);
/// How often it is looked whether its process is still there.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);
/// How long a program that was killed may take to end.
const LONGEST_END: Duration = Duration::from_secs(10);

/// `ERESTARTNOINTR`: the kernel makes the call again, whatever signal came. No program sees it: the thread was told to stop
/// before.
const RESTART: i32 = 513;

/// The redirections of one command.
#[derive(Clone)]
pub(super) struct Redirections {
    listener: Arc<OwnedFd>,
    awaited: Arc<Mutex<Vec<Awaited>>>,
    count: Arc<AtomicUsize>,
    terminals: CallersTerminals,
}

/// A stub that is to be executed next.
struct Awaited {
    thread: i32,
    /// Its process, whose number the stub has, whichever thread executes it.
    process: i32,
    /// The stub's number in the caller.
    number: i32,
    /// The stub's device and inode.
    stub: (u64, u64),
    /// Takes its questions.
    asks: Sender<Notification>,
}

/// Why no stub stands in the program's place.
enum Failed {
    /// The call still waits, and nothing has changed.
    Impossible(io::Error),
    /// The caller is gone, or a signal came first: then the kernel has it make the call again, which is judged anew.
    Over,
}

impl Redirections {
    pub(super) fn new(listener: &Arc<OwnedFd>) -> Self {
        Self {
            listener: Arc::clone(listener),
            awaited: Arc::default(),
            count: Arc::default(),
            terminals: CallersTerminals::default(),
        }
    }

    /// Takes a call that is part of a redirection.
    pub(super) fn takes(&self, call: &Notification) -> bool {
        let [file, .., flags, _] = call.arguments;
        if call.call != libc::SYS_execveat || self.awaited().is_empty() {
            return false;
        }
        if file as i32 == -1 && [wire::ASKS_FOR_SOCKET, wire::ASKS_FOR_TERMINAL].contains(&(flags as usize)) {
            return self.takes_question(call);
        }
        let is_empty_path = flags == u64::from(libc::AT_EMPTY_PATH.cast_unsigned());
        let executed = descriptor(call.thread, file as i32).ok().and_then(|file| rustix::fs::fstat(file).ok());
        let executed = executed.map(|found| (found.st_dev, found.st_ino));
        let is_awaited = |found: &Awaited| {
            found.thread == call.thread && found.number == file as i32 && executed == Some(found.stub)
        };
        let takes = is_empty_path && self.awaited().iter().any(is_awaited);
        // A process that is gone has no call that waits.
        takes && notify::go_on(self.listener.as_fd(), call).is_ok()
    }

    /// Hands the question of a stub to the thread that waits for it.
    fn takes_question(&self, call: &Notification) -> bool {
        let executed = identity(&format!("/proc/{}/exe", call.thread));
        let awaited = self.awaited();
        let is_ours =
            |found: &&Awaited| [found.process, found.thread].contains(&call.thread) && executed == Some(found.stub);
        awaited.iter().find(is_ours).is_some_and(|found| found.asks.send(*call).is_ok())
    }

    fn awaited(&self) -> MutexGuard<'_, Vec<Awaited>> {
        self.awaited.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a program elsewhere, and a stub in its place. `place` is where the caller has an empty text, and its
    /// directory.
    pub(super) fn begin(&self, call: &Notification, place: (u64, Option<OwnedFd>), start: Box<dyn ElsewhereStart>) {
        let (empty, Some(directory)) = place else {
            return self.leave(call, start, String::from("its directory is not known"));
        };
        let (own, call) = (self.clone(), *call);
        if self.count.fetch_add(1, Ordering::SeqCst) >= MOST {
            self.count.fetch_sub(1, Ordering::SeqCst);
            return self.leave(&call, start, String::from("too many programs run elsewhere already"));
        }
        // A tracer is a thread.
        let slot = Arc::new(Mutex::new(Some(start)));
        let given = Arc::clone(&slot);
        let take = |slot: &Mutex<Option<_>>| slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        let run = move || {
            if let Some(start) = take(&given) {
                own.run(&call, (empty, &directory), start);
            }
            own.count.fetch_sub(1, Ordering::SeqCst);
        };
        if let Err(error) = thread::Builder::new().name(String::from("stockade-elsewhere")).spawn(run) {
            self.count.fetch_sub(1, Ordering::SeqCst);
            match take(&slot) {
                Some(start) => self.leave(&call, start, error.to_string()),
                None => drop(notify::go_on(self.listener.as_fd(), &call)),
            }
        }
    }

    /// Leaves a program where it is.
    fn leave(&self, call: &Notification, start: Box<dyn ElsewhereStart>, why: String) {
        start.impossible(why);
        // A process that is gone has no call that waits.
        notify::go_on(self.listener.as_fd(), call).ok();
    }

    /// The directory is held until the program has ended, so that no other one gets its number.
    fn run(&self, call: &Notification, (empty, directory): (u64, &OwnedFd), start: Box<dyn ElsewhereStart>) {
        let put = stub_file().and_then(|stub| Ok((stub, DirectoryIdentity::of(directory)?)));
        let (stub, directory) = match put {
            Ok(put) => put,
            Err(error) => return self.leave(call, start, error.to_string()),
        };
        let (asks, process) = match self.put_stub(call, empty, &stub) {
            Ok(put) => put,
            Err(Failed::Impossible(error)) => return self.leave(call, start, error.to_string()),
            Err(Failed::Over) => return drop(start),
        };
        let answered = self.answer_questions(&asks, process);
        self.forget(call.thread);
        let Some(Answered { socket, stdio, umask, before }) = answered else {
            return start.impossible(String::from("its caller has ended, or could not execute the stub in its place"));
        };
        match start.start(stdio, umask, directory) {
            Ok(running) => relay(&socket, running, before.as_deref()),
            Err(error) => tell(&socket, of_failure(&error)),
        }
        if before.is_some() {
            // Until it has ended, the modes of its caller's terminal may be those that it has set.
            await_end(socket);
        }
    }

    /// Answers both questions of the stub: for the other end of a terminal, and for its socket. Before the first answer, what
    /// the stub has is copied.
    fn answer_questions(&self, asks: &Receiver<Notification>, process: i32) -> Option<Answered> {
        let first = question(asks, process)?;
        let caller = Caller::new(first.thread).ok()?;
        let mut streams = [0, 1, 2].map(|number| caller.file(number).ok());
        let own = own_terminal(first.thread, &mut streams, &self.terminals);
        let umask = umask_of(first.thread);
        // Only if it is the process that asked does an answer succeed.
        self.answer(&first, own.as_ref().map(|own| own.other_end.as_fd())).ok()?;
        let second = question(asks, process)?;
        let (mut socket, theirs) = UnixStream::pair().ok()?;
        if let Some(own) = &own {
            socket.write_all(&[own.streams]).ok()?;
        }
        self.answer(&second, Some(theirs.as_fd())).ok()?;
        let [stdin, stdout, stderr] = streams.map(|stream| stream.map_or(Streams::Null, Streams::To));
        let stdio = Stdio { stdin, stdout, stderr, controlling_terminal: own.is_some() };
        Some(Answered { socket, stdio, umask, before: own.map(|own| own.before) })
    }

    /// Answers a question with a descriptor, or that there is none. A stub that can't have it is told, and does not wait.
    fn answer(&self, question: &Notification, given: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let refuse = || notify::answer(self.listener.as_fd(), question.id, libc::ENOTTY);
        let Some(given) = given else { return refuse() };
        notify::answer_with_descriptor(self.listener.as_fd(), question.id, given, CloseOnExec::Yes).inspect_err(|_| {
            // A process that is gone has no call that waits.
            refuse().ok();
        })
    }

    /// Has the caller execute the stub. What comes back is told when the stub asks for its socket, and its process.
    fn put_stub(
        &self,
        call: &Notification,
        empty: u64,
        stub: &OwnedFd,
    ) -> Result<(Receiver<Notification>, i32), Failed> {
        let failed = |error: io::Error| {
            let is_waiting = notify::is_waiting(self.listener.as_fd(), call.id);
            if is_waiting { Failed::Impossible(error) } else { Failed::Over }
        };
        let identity = rustix::fs::fstat(stub).map_err(|error| failed(error.into()))?;
        let process = group_of(call.thread).ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let traced = Traced::seize(call.thread).map_err(failed)?;
        let number = notify::add_descriptor(self.listener.as_fd(), call.id, stub.as_fd()).map_err(failed)?;
        traced.interrupt().map_err(failed)?;
        let (asks, asked) = channel();
        self.awaited().push(Awaited {
            thread: call.thread,
            process,
            number,
            stub: (identity.st_dev, identity.st_ino),
            asks,
        });
        // The call that waits is over in any case: kernels before 5.19 have ended it by the interruption.
        // Unless its registers are set the kernel makes it again.
        notify::answer(self.listener.as_fd(), call.id, RESTART).ok();
        let skipped = usize::from(call.call == libc::SYS_execveat);
        let mut lists = call.arguments.iter().skip(1 + skipped).copied();
        let (words, variables) = (lists.next().unwrap_or_default(), lists.next().unwrap_or_default());
        let file = u64::from(number.cast_unsigned());
        let arguments = [file, empty, words, variables, u64::from(libc::AT_EMPTY_PATH.cast_unsigned())];
        match traced.redirect(call, libc::SYS_execveat, arguments) {
            Ok(Redirected::Yes) => Ok((asked, process)),
            Ok(Redirected::No) | Err(_) => {
                self.forget(call.thread);
                Err(Failed::Over)
            }
        }
    }

    fn forget(&self, thread: i32) {
        self.awaited().retain(|found| found.thread != thread);
    }
}

/// What a program is started with, and how its stub is spoken to.
struct Answered {
    socket: UnixStream,
    stdio: Stdio,
    umask: Option<Umask>,
    /// The caller's terminal, if the program has one of its own.
    before: Option<Arc<Before>>,
}

/// The question of the stub that this process executes, unless it is gone before.
fn question(asks: &Receiver<Notification>, process: i32) -> Option<Notification> {
    let from = Instant::now();
    while from.elapsed() < LONGEST_START {
        match asks.recv_timeout(BETWEEN_LOOKS) {
            Ok(question) => return Some(question),
            Err(RecvTimeoutError::Timeout) if group_of(process).is_some() => {}
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return None,
        }
    }
    None
}

/// The device and the inode of a file.
fn identity(path: &str) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

fn umask_of(process: i32) -> Option<Umask> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    Umask::try_from(u16::from_str_radix(mask.trim(), 8).ok()?).ok()
}

/// Passes signals on until the program or its stub has ended.
fn relay(socket: &UnixStream, mut running: Box<dyn Running>, before: Option<&Before>) {
    let mut has_changed = false;
    loop {
        let mut files =
            [PollFd::new(socket, PollFlags::IN), PollFd::from_borrowed_fd(running.readable(), PollFlags::IN)];
        match poll(&mut files, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => break,
        }
        let [stub, program] = files.map(|file| !file.revents().is_empty());
        if program {
            match running.wait(Some(Duration::ZERO)) {
                Ok(Some(status)) => return tell(socket, status),
                Ok(None) => {}
                Err(error) => return tell(socket, of_failure(&error)),
            }
        }
        if stub {
            let mut signals = [0; 64];
            let mut reader = socket;
            match reader.read(&mut signals) {
                Ok(count @ 1..) => signals.iter().take(count).for_each(|sent| match *sent {
                    wire::MODES_CHANGED => has_changed = true,
                    wire::MODES_RESTORED => has_changed = false,
                    // A program that has just ended hears nothing.
                    signal => drop(running.signal(signal)),
                }),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => break,
            }
        }
    }
    // Its stub is gone, or it is lost.
    before.into_iter().filter(|_| has_changed).for_each(Before::restore);
    running.kill().ok();
    running.wait(Some(LONGEST_END)).ok();
    drop(running);
    tell(socket, WaitStatus::Signaled(libc::SIGKILL));
}

/// Waits until the stub has ended, for a limited time: it may be stopped.
fn await_end(mut socket: UnixStream) {
    socket.set_read_timeout(Some(LONGEST_END)).ok();
    while socket.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
}

/// How a program ends that could not be started, as a shell tells it.
fn of_failure(error: &SpawnError) -> WaitStatus {
    let is_missing = matches!(error, SpawnError::NotFound { .. });
    WaitStatus::Exited(if is_missing { 127 } else { wire::LOST.cast_signed() })
}

/// Tells the stub how the program ended.
fn tell(socket: &UnixStream, status: WaitStatus) {
    let (kind, value) = match status {
        WaitStatus::Exited(code) => (wire::EXITED, code.cast_unsigned() & 0xff),
        WaitStatus::Signaled(signal) => (wire::SIGNALED, signal.cast_unsigned()),
    };
    let mut message = [0; wire::END];
    let parts = kind.to_le_bytes().into_iter().chain(value.to_le_bytes());
    message.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
    // A stub that is gone has nothing to be told.
    let mut socket = socket;
    socket.write_all(&message).ok();
}
