//! Transports: standard input and output, or a unix socket.

#[cfg(unix)]
mod socket;
#[cfg(unix)]
mod socket_directory;

#[cfg(unix)]
pub(crate) use socket::{Accepted, send_now};
#[cfg(unix)]
pub use socket::{BoundSocket, SocketError};
#[cfg(unix)]
pub use socket_directory::standard_socket;

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;

/// A descriptor that a client sent along with a request.
#[cfg(unix)]
pub type Descriptor = std::os::fd::OwnedFd;
/// A descriptor that a client sent along with a request: there are none on this system.
#[cfg(not(unix))]
#[derive(Debug)]
pub enum Descriptor {}

/// Received bytes, empty at the end, and the descriptors that came with the last of them.
#[derive(Debug, Default)]
pub(crate) struct Arrived {
    pub(crate) bytes: Vec<u8>,
    pub(crate) descriptors: Vec<Descriptor>,
}

/// The source of a client's lines.
pub(crate) enum Reader {
    /// Any stream of bytes.
    Stream(Box<dyn AsyncRead + Send + Unpin>),
    /// A unix socket, which can carry descriptors.
    #[cfg(unix)]
    Socket(std::sync::Arc<tokio::net::UnixStream>),
}

impl Reader {
    /// Waits for bytes.
    pub(crate) async fn read(&mut self) -> io::Result<Arrived> {
        match self {
            Self::Stream(stream) => {
                let mut bytes = vec![0; READ_BYTES];
                let length = stream.read(&mut bytes).await?;
                bytes.truncate(length);
                Ok(Arrived { bytes, ..Arrived::default() })
            }
            #[cfg(unix)]
            Self::Socket(stream) => socket::receive(stream).await,
        }
    }
}

/// The sink for lines to a client.
pub(crate) enum Writer {
    /// Any stream of bytes.
    Stream(Box<dyn AsyncWrite + Send + Unpin>),
    /// A unix socket.
    #[cfg(unix)]
    Socket(std::sync::Arc<tokio::net::UnixStream>),
}

impl Writer {
    /// Writes all bytes.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Stream(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
            #[cfg(unix)]
            Self::Socket(stream) => socket::send(stream, bytes).await,
        }
    }
}
