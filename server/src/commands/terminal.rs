//! Our end of a command's terminal: what clients type, and its size.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stockade_core::{OutputSink, StreamName};
use stockade_protocol::TerminalSize;
use tokio::sync::watch;

use super::log::LogSink;

/// The key for the end of the input.
const END_OF_INPUT: u8 = 4;

/// Our end of a command's terminal, which there is once the command has started. A second run has another one.
#[derive(Debug)]
pub(super) struct OurTerminal {
    file: watch::Sender<Option<Arc<File>>>,
    size: Mutex<TerminalSize>,
    /// One writer at a time, so that what two clients type is not mixed. Says whether the input was closed.
    is_closed: tokio::sync::Mutex<bool>,
}

/// Takes what is printed on the terminal, and the terminal itself.
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
        // The size may have changed since the command was asked for.
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

    /// Types something, and waits until the terminal has taken it. The terminal is waited for if there is none yet.
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
        // It may take as long as the command does not read. When the command ends, the terminal takes no more.
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
