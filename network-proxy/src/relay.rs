//! Dialling what was admitted, and passing bytes on.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// How long one address may take; there may be another that answers.
const LONGEST_DIAL: Duration = Duration::from_secs(20);
const BUFFER: usize = 64 * 1024;

/// Ends whatever waits for it when the proxy ends or is dropped. Whoever still holds one is not done yet.
pub(crate) type Stop = watch::Receiver<()>;

/// Waits until the proxy ends.
pub(crate) async fn stopped(mut stop: Stop) {
    // Told so, or its sender is gone: the same.
    stop.changed().await.ok();
}

/// Connects to the first of these addresses that answers.
pub(crate) async fn dial(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match tokio::time::timeout(LONGEST_DIAL, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::Error::from(io::ErrorKind::TimedOut),
        }
    }
    Err(last)
}

/// Passes bytes both ways until both sides are done or the proxy is gone.
pub(crate) async fn relay<S: AsyncRead + AsyncWrite + Unpin>(mut inside: S, mut outside: TcpStream, stop: Stop) {
    let copied = tokio::io::copy_bidirectional_with_sizes(&mut inside, &mut outside, BUFFER, BUFFER);
    tokio::select! {
        // A side that breaks off ends both; the program sees it on its own stream.
        _ = copied => {}
        () = stopped(stop) => {}
    }
}
