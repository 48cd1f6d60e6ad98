//! The server's end of a command's terminal: typed input, and the size.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stockade_core::{OutputSink, StreamName};
use stockade_protocol::TerminalSize;
use tokio::sync::watch;

use super::log::LogSink;

/// The end-of-file character, Ctrl-D.
const END_OF_INPUT: u8 = 4;

/// The server's end of a command's terminal, which exists once the command has started. A second run has another one.
#[derive(Debug)]
pub(super) struct OurTerminal {
    file: watch::Sender<Option<Arc<File>>>,
    size: Mutex<TerminalSize>,
    /// One writer at a time, so that input of two clients is not interleaved. Whether the input was closed.
    is_closed: tokio::sync::Mutex<bool>,
}

/// Receives the terminal's output, and the terminal itself.
#[derive(Debug)]
pub(super) struct TerminalSink {
    pub(super) log: LogSink,
    pub(super) terminal: Arc<OurTerminal>,
}

impl OutputSink for TerminalSink {
    fn write(&self, stream: StreamName, bytes: &[u8]) -> io::Result<()> {
        self.log.write(stream, bytes)
    }

    fn opened(&self, terminal: File) {
        self.terminal.opened(terminal);
    }

    fn closed(&self) {
        self.log.closed();
    }
}

impl OurTerminal {
    pub(super) fn new(size: TerminalSize) -> Arc<Self> {
        let (file, size) = (watch::Sender::new(None), Mutex::new(size));
        Arc::new(Self { file, size, is_closed: tokio::sync::Mutex::new(false) })
    }

    fn size(&self) -> MutexGuard<'_, TerminalSize> {
        self.size.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened(&self, file: File) {
        let size = self.size();
        // The size may have changed since the request.
        set_size(&file, *size).ok();
        self.file.send_replace(Some(Arc::new(file)));
    }

    /// Changes the size, now or when the command starts.
    pub(super) fn resize(&self, size: TerminalSize) -> io::Result<()> {
        let mut kept = self.size();
        *kept = size;
        match self.file.borrow().as_ref() {
            Some(file) => set_size(file, size),
            None => Ok(()),
        }
    }

    /// Writes input, and waits until the terminal has accepted it. Waits for the terminal if it does not exist yet.
    pub(super) async fn write(&self, bytes: &[u8], close: bool) -> io::Result<()> {
        let mut is_closed = self.is_closed.lock().await;
        if *is_closed {
            return Err(io::Error::new(io::ErrorKind::BrokenPipe, "the input was closed before"));
        }
        let mut typed = bytes.to_vec();
        if close {
            typed.push(END_OF_INPUT);
            *is_closed = true;
        }
        let mut files = self.file.subscribe();
        let file = files.wait_for(Option::is_some).await.ok().and_then(|file| file.clone());
        let file = file.ok_or(io::ErrorKind::BrokenPipe)?;
        // It may block as long as the command does not read. When the command ends, the terminal accepts no more.
        let written = tokio::task::spawn_blocking(move || io::Write::write_all(&mut &*file, &typed)).await;
        written.map_err(io::Error::other)?
    }
}

#[cfg(unix)]
fn set_size(file: &File, size: TerminalSize) -> io::Result<()> {
    let size = rustix::termios::Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
    Ok(rustix::termios::tcsetwinsize(file, size)?)
}

#[cfg(not(unix))]
fn set_size(_: &File, _: TerminalSize) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
