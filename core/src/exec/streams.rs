//! Where a command's input comes from and its output goes to.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Instant;

use stockade_protocol::{CapturedOutput, TerminalSize};
use stockade_sandboxing::{SpawnError, Stdio, Streams, Terminal};

use super::capture::Capture;
use crate::session::OutputLimit;

/// One of the two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamName {
    /// Standard output; everything, if the command has a terminal.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Takes output as it comes, besides its being captured.
pub trait OutputSink: Send + Sync + fmt::Debug {
    /// Some output. It blocks the command if it blocks.
    fn write(&self, stream: StreamName, bytes: &[u8]);

    /// The command has a terminal, and this is our end of it: for what is typed, and for a new size.
    fn opened(&self, _terminal: File) {}

    /// There will be no more output.
    fn closed(&self) {}
}

/// Where a command's input comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Input {
    /// There is none.
    #[default]
    Null,
    /// Where this program's own comes from.
    Inherit,
}

/// What happens to an output stream.
#[derive(Clone, Debug, Default)]
pub enum Output {
    /// It is captured.
    #[default]
    Capture,
    /// It is captured and passed on.
    Tee(Arc<dyn OutputSink>),
    /// It goes where this program's own goes, and nothing of it is kept.
    Inherit,
}

/// Where a command's streams lead.
#[derive(Clone, Debug, Default)]
pub struct Streaming {
    /// Standard input.
    pub stdin: Input,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// A pseudo-terminal of this size in place of all three. Its output is `stdout`'s.
    pub terminal: Option<TerminalSize>,
}

/// The streams as the command gets them, and what is captured of them.
pub(super) struct Opened {
    pub(super) stdio: Stdio,
    pub(super) captures: Captures,
}

#[derive(Default)]
pub(super) struct Captures {
    stdout: Option<Arc<Capture>>,
    stderr: Option<Arc<Capture>>,
}

impl Captures {
    pub(super) fn finish(self, deadline: Instant) -> (CapturedOutput, CapturedOutput) {
        let finish =
            |capture: Option<Arc<Capture>>| capture.map(|capture| capture.finish(deadline)).unwrap_or_default();
        (finish(self.stdout), finish(self.stderr))
    }
}

impl Streaming {
    pub(super) fn open(self, limit: OutputLimit) -> Result<Opened, SpawnError> {
        let failed = |source| SpawnError::Launcher { doing: "opening the standard streams", source };
        match self.terminal {
            Some(size) => open_terminal(size, self.stdout, limit).map_err(failed),
            None => {
                let (stdout, out) = open_output(self.stdout, StreamName::Stdout, limit).map_err(failed)?;
                let (stderr, err) = open_output(self.stderr, StreamName::Stderr, limit).map_err(failed)?;
                let stdin = match self.stdin {
                    Input::Null => Streams::Null,
                    Input::Inherit => Streams::Inherit,
                };
                let stdio = Stdio { stdin, stdout, stderr, controlling_terminal: false };
                Ok(Opened { stdio, captures: Captures { stdout: out, stderr: err } })
            }
        }
    }
}

fn open_output(output: Output, name: StreamName, limit: OutputLimit) -> io::Result<(Streams, Option<Arc<Capture>>)> {
    let sink = match output {
        Output::Inherit => return Ok((Streams::Inherit, None)),
        Output::Capture => None,
        Output::Tee(sink) => Some(sink),
    };
    let (ours, theirs) = io::pipe()?;
    let capture = read_on(ours, name, limit, sink)?;
    Ok((Streams::To(theirs.into()), Some(capture)))
}

fn open_terminal(size: TerminalSize, output: Output, limit: OutputLimit) -> io::Result<Opened> {
    let Terminal { ours, theirs } = Terminal::open(size)?;
    let sink = match output {
        Output::Tee(sink) => {
            sink.opened(File::from(ours.try_clone()?));
            Some(sink)
        }
        // There is no stream of this program's that a terminal could be.
        Output::Capture | Output::Inherit => None,
    };
    let capture = read_on(File::from(ours), StreamName::Stdout, limit, sink)?;
    let stdio = Stdio {
        stdin: Streams::To(theirs.try_clone()?),
        stdout: Streams::To(theirs.try_clone()?),
        stderr: Streams::To(theirs),
        controlling_terminal: true,
    };
    Ok(Opened { stdio, captures: Captures { stdout: Some(capture), stderr: None } })
}

/// Reads a stream to its end on a thread of its own.
fn read_on(
    mut from: impl Read + Send + 'static,
    name: StreamName,
    limit: OutputLimit,
    sink: Option<Arc<dyn OutputSink>>,
) -> io::Result<Arc<Capture>> {
    let capture = Arc::new(Capture::new(limit));
    let shared = Arc::clone(&capture);
    let read = move || {
        let mut buffer = vec![0; 32 * 1024];
        loop {
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => {
                    let bytes = buffer.get(..count).unwrap_or_default();
                    if let Some(sink) = &sink {
                        sink.write(name, bytes);
                    }
                    shared.add(bytes);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // A terminal whose other end is closed says so with an error.
                Err(_) => break,
            }
        }
        if let Some(sink) = &sink {
            sink.closed();
        }
        shared.end();
    };
    std::thread::Builder::new().name(String::from("stockade-output")).stack_size(128 * 1024).spawn(read)?;
    Ok(capture)
}
