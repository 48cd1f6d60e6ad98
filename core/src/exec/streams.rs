//! The sources and targets of a command's streams.

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::Arc;

use stockade_protocol::{CapturedOutput, TerminalSize};
use stockade_sandboxing::{SpawnError, Stdio, Streams, Terminal};

use super::capture::Patience;
use super::input::{Feeding, InputPipe};
use super::reader::{Orders, Reader};
use crate::session::OutputLimit;

/// One of the two output streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StreamName {
    /// Standard output, and the command's terminal.
    Stdout,
    /// Standard error.
    Stderr,
}

/// Receives output as it comes, in addition to the capture.
pub trait OutputSink: Send + Sync + fmt::Debug {
    /// Receives some output. Blocking here blocks the command. An error closes the stream, so that the command's next
    /// write fails as it would without a sink.
    fn write(&self, stream: StreamName, bytes: &[u8]) -> io::Result<()>;

    /// Passes the caller's end of the command's terminal: for typed input, and for resizing.
    fn opened(&self, _terminal: File) {}

    /// The output has ended.
    fn closed(&self) {}
}

/// The source of a command's input.
///
/// A second run, after a denial, reads a [`Pipe`](Self::Pipe) from its beginning, if that is still kept. Of this
/// program's own input and of an open file it reads the rest.
#[derive(Clone, Debug, Default)]
pub enum Input {
    /// No input.
    #[default]
    Null,
    /// This program's own input.
    Inherit,
    /// The command's terminal.
    Terminal,
    /// A caller that writes it: see [`InputPipe::new`].
    Pipe(InputPipe),
    /// An open file, pipe or terminal, such as a client's own.
    From(Arc<File>),
}

/// The target of an output stream.
#[derive(Clone, Debug, Default)]
pub enum Output {
    /// It is captured.
    #[default]
    Capture,
    /// It is captured and forwarded.
    Tee(Arc<dyn OutputSink>),
    /// It is this program's own stream, and is not captured.
    Inherit,
    /// It is the command's terminal.
    Terminal,
    /// It is an open file, pipe or terminal, such as a client's own, and is not captured.
    To(Arc<File>),
}

/// The command's pseudo-terminal. It is the controlling terminal (`/dev/tty`) even if standard streams are redirected;
/// at least one of them has to be this terminal.
#[derive(Clone, Debug)]
pub struct CommandTerminal {
    /// Its initial size.
    pub size: TerminalSize,
    /// Receives its output.
    pub sink: Option<Arc<dyn OutputSink>>,
}

/// The sources and targets of a command's streams.
#[derive(Clone, Debug, Default)]
pub struct Streaming {
    /// Standard input.
    pub stdin: Input,
    /// Standard output.
    pub stdout: Output,
    /// Standard error.
    pub stderr: Output,
    /// The terminal, if streams use it.
    pub terminal: Option<CommandTerminal>,
    /// The first standard stream that is a terminal becomes the controlling one, also one given by a caller
    /// ([`Input::From`], [`Output::To`]): the slave side of a pseudo-terminal that belongs to no session yet. The
    /// caller keeps that side open, too, until the command has ended; otherwise the master side reports an error
    /// meanwhile.
    pub controlling_terminal: bool,
}

/// The command's streams, and the readers of captured ones.
pub(super) struct Opened {
    pub(super) stdio: Stdio,
    pub(super) captures: Captures,
}

#[derive(Default)]
pub(super) struct Captures {
    stdout: Option<Reader>,
    stderr: Option<Reader>,
    /// The reader of a terminal that is neither of the two.
    terminal: Option<Reader>,
    /// The command's end of its terminal, held until the command has ended. A command may close its streams before it
    /// ends (`rm` does), or open `/dev/tty` again later: neither is the end of the terminal.
    held: Option<File>,
    /// Forwards its input.
    feeding: Option<Feeding>,
}

impl Captures {
    /// Starts to read a stream at its first output.
    #[cfg(unix)]
    pub(super) async fn first_output(&mut self) -> io::Result<()> {
        tokio::select! {
            started = Reader::first_output(&mut self.stdout) => started,
            started = Reader::first_output(&mut self.stderr) => started,
        }
    }

    /// The captured output, once the streams have ended or waiting is given up.
    pub(super) async fn finish(self, patience: &Patience<'_>) -> (CapturedOutput, CapturedOutput) {
        async fn finish(reader: Option<Reader>, patience: &Patience<'_>) -> CapturedOutput {
            match reader {
                Some(reader) => reader.finish(patience).await,
                None => CapturedOutput::default(),
            }
        }
        drop((self.held, self.feeding));
        let (stdout, stderr, _) =
            tokio::join!(finish(self.stdout, patience), finish(self.stderr, patience), finish(self.terminal, patience));
        (stdout, stderr)
    }
}

impl Streaming {
    /// Replaces all three streams by a terminal of this size. The sink of standard output receives its output.
    pub(crate) fn on_terminal(self, size: TerminalSize) -> Self {
        let sink = match (self.stdout, self.terminal) {
            (Output::Tee(sink), _) => Some(sink),
            (Output::Capture | Output::Inherit | Output::Terminal | Output::To(_), terminal) => {
                terminal.and_then(|terminal| terminal.sink)
            }
        };
        let terminal = Some(CommandTerminal { size, sink });
        Self { stdin: Input::Terminal, stdout: Output::Terminal, stderr: Output::Terminal, terminal, ..Self::default() }
    }

    /// The captured stream that has the command's messages.
    pub(crate) fn messages(&self) -> StreamName {
        match (&self.stdout, &self.stderr) {
            (Output::Terminal, Output::Terminal) => StreamName::Stdout,
            _ => StreamName::Stderr,
        }
    }

    pub(super) fn open(self, limit: OutputLimit) -> Result<Opened, SpawnError> {
        self.opened(limit).map_err(|source| SpawnError::Launcher { doing: "opening the standard streams", source })
    }

    fn opened(self, limit: OutputLimit) -> io::Result<Opened> {
        let mut terminal = self.terminal.map(|terminal| OpenTerminal::new(terminal, limit)).transpose()?;
        let (stdin, feeding) = match self.stdin {
            Input::Null => (Streams::Null, None),
            Input::Inherit => (Streams::Inherit, None),
            Input::Terminal => (OpenTerminal::stream(terminal.as_ref())?, None),
            Input::From(file) => (Streams::To(file.try_clone()?.into()), None),
            Input::Pipe(input) => {
                let (pipe, feeding) = input.open()?;
                (Streams::To(pipe.into()), Some(feeding))
            }
        };
        // Its output is captured as the first stream that uses it.
        let (stdout, out) = open_output(self.stdout, StreamName::Stdout, limit, &mut terminal)?;
        let (stderr, err) = open_output(self.stderr, StreamName::Stderr, limit, &mut terminal)?;
        let controlling_terminal = terminal.is_some() || self.controlling_terminal;
        let stdio = Stdio { stdin, stdout, stderr, controlling_terminal };
        let (held, terminal) = terminal.map_or((None, None), |terminal| (Some(terminal.theirs), terminal.reader));
        Ok(Opened { stdio, captures: Captures { stdout: out, stderr: err, terminal, held, feeding } })
    }
}

fn open_output(
    output: Output,
    name: StreamName,
    limit: OutputLimit,
    terminal: &mut Option<OpenTerminal>,
) -> io::Result<(Streams, Option<Reader>)> {
    let sink = match output {
        Output::Inherit => return Ok((Streams::Inherit, None)),
        Output::To(file) => return Ok((Streams::To(file.try_clone()?.into()), None)),
        Output::Terminal => {
            let stream = OpenTerminal::stream(terminal.as_ref())?;
            return Ok((stream, terminal.as_mut().and_then(|terminal| terminal.reader.take())));
        }
        Output::Capture => None,
        Output::Tee(sink) => Some(sink),
    };
    let (ours, theirs) = io::pipe()?;
    Ok((Streams::To(theirs.into()), Some(Orders::new(name, limit, sink).await_output(ours)?)))
}

/// A command's terminal and its reader.
struct OpenTerminal {
    theirs: File,
    reader: Option<Reader>,
}

impl OpenTerminal {
    fn new(terminal: CommandTerminal, limit: OutputLimit) -> io::Result<Self> {
        let Terminal { ours, theirs } = Terminal::open(terminal.size)?;
        if let Some(sink) = &terminal.sink {
            sink.opened(File::from(ours.try_clone()?));
        }
        let reader = Orders::new(StreamName::Stdout, limit, terminal.sink).follow(File::from(ours))?;
        Ok(Self { theirs: File::from(theirs), reader: Some(reader) })
    }

    fn stream(terminal: Option<&Self>) -> io::Result<Streams> {
        let terminal = terminal.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "there is no terminal"))?;
        Ok(Streams::To(terminal.theirs.try_clone()?.into()))
    }
}
