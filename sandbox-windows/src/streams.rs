//! The standard streams of a command: handles of this program's, nothing, or a pipe whose content is copied to this
//! program's console.

use std::fs::{self, File};
use std::io;
use std::os::windows::io::{AsHandle as _, AsRawHandle, OwnedHandle};
use std::thread::{self, JoinHandle};

use stockade_sandboxing::Stdio;

use crate::console::{Direction, Route};
use crate::sys::process as processes;
use crate::sys::process::{Console, Streams};

/// The standard streams, as a start takes them.
pub(crate) struct OpenStreams {
    handles: [OwnedHandle; 3],
    pub(crate) console: Option<Console>,
    /// Threads that copy to this program's console.
    pub(crate) copies: Vec<JoinHandle<()>>,
}

impl OpenStreams {
    pub(crate) fn new(stdio: Stdio) -> io::Result<Self> {
        let mut copies = Vec::new();
        let handles = [
            stream(stdio.stdin, &io::stdin(), Direction::In, &mut copies)?,
            stream(stdio.stdout, &io::stdout(), Direction::Out, &mut copies)?,
            stream(stdio.stderr, &io::stderr(), Direction::Out, &mut copies)?,
        ];
        let [input, output, _] = &handles;
        let console = stdio.controlling_terminal.then(|| Console::create(input, output)).transpose()?;
        Ok(Self { handles, console, copies })
    }

    pub(crate) fn as_streams(&self) -> Streams<'_> {
        match &self.console {
            Some(console) => Streams::Console(console),
            None => Streams::Handles(&self.handles),
        }
    }
}

fn stream(
    stream: stockade_sandboxing::Streams,
    own: &impl AsRawHandle,
    direction: Direction,
    copies: &mut Vec<JoinHandle<()>>,
) -> io::Result<OwnedHandle> {
    match stream {
        stockade_sandboxing::Streams::Null => null(),
        stockade_sandboxing::Streams::Inherit => match Route::of(direction, processes::is_console(own)) {
            Route::Handle => processes::inheritable(own),
            Route::Empty => null(),
            Route::Copied => {
                let (handle, copy) = copied(own)?;
                copies.push(copy);
                Ok(handle)
            }
        },
        stockade_sandboxing::Streams::To(handle) => processes::inheritable(&handle),
    }
}

fn null() -> io::Result<OwnedHandle> {
    let null = fs::OpenOptions::new().read(true).write(true).open("NUL")?;
    processes::inheritable(&null.as_handle())
}

/// A pipe whose content a thread copies to a stream of this program's, until its other end is closed.
pub(crate) fn copied(own: &impl AsRawHandle) -> io::Result<(OwnedHandle, JoinHandle<()>)> {
    let (mut reader, writer) = io::pipe()?;
    let mut target = File::from(processes::inheritable(own)?);
    let thread = thread::Builder::new().name(String::from("stockade-copy")).spawn(move || {
        // What can't be written there is lost, as it would be for the command itself.
        io::copy(&mut reader, &mut target).ok();
    })?;
    Ok((processes::inheritable(&writer)?, thread))
}
