//! Where a command's input comes from and its output goes to.

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use stockade_protocol::{CapturedOutput, TerminalSize};
use stockade_sandboxing::{SpawnError, Stdio, Streams, Terminal};

use super::reader::{Orders, Reader};
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
    stdout: Option<Reader>,
    stderr: Option<Reader>,
}

impl Captures {
    /// Starts to read a stream as soon as there is something to read.
    #[cfg(unix)]
    pub(super) async fn first_output(&mut self) -> io::Result<()> {
        tokio::select! {
            started = Reader::first_output(&mut self.stdout) => started,
            started = Reader::first_output(&mut self.stderr) => started,
        }
    }

    pub(super) async fn finish(self, limit: Duration) -> (CapturedOutput, CapturedOutput) {
        async fn finish(reader: Option<Reader>, limit: Duration) -> CapturedOutput {
            match reader {
                Some(reader) => reader.finish(limit).await,
                None => CapturedOutput::default(),
            }
        }
        tokio::join!(finish(self.stdout, limit), finish(self.stderr, limit))
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

fn open_output(output: Output, name: StreamName, limit: OutputLimit) -> io::Result<(Streams, Option<Reader>)> {
    let sink = match output {
        Output::Inherit => return Ok((Streams::Inherit, None)),
        Output::Capture => None,
        Output::Tee(sink) => Some(sink),
    };
    let (ours, theirs) = io::pipe()?;
    Ok((Streams::To(theirs.into()), Some(Orders::new(name, limit, sink).await_output(ours)?)))
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
    let reader = Orders::new(StreamName::Stdout, limit, sink).follow(File::from(ours))?;
    let stdio = Stdio {
        stdin: Streams::To(theirs.try_clone()?),
        stdout: Streams::To(theirs.try_clone()?),
        stderr: Streams::To(theirs),
        controlling_terminal: true,
    };
    Ok(Opened { stdio, captures: Captures { stdout: Some(reader), stderr: None } })
}
