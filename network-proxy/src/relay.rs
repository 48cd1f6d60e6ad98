//! Dials admitted addresses and relays bytes.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;

/// The timeout per address; the next one may answer.
const LONGEST_DIAL: Duration = Duration::from_secs(20);
const SMALL_BUFFER: usize = 8 * 1024;
const LARGE_BUFFER: usize = 256 * 1024;
/// The bytes a connection carries in one direction before it gets the large buffer.
const MUCH: usize = 1024 * 1024;

/// Signals the end of the proxy to its tasks. A task holds its receiver until it has finished.
pub(crate) type Stop = watch::Receiver<()>;

/// Waits until the proxy ends.
pub(crate) async fn stopped(mut stop: Stop) {
    // A message and a dropped sender mean the same.
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

/// Relays bytes in both directions until both sides are closed or the proxy ends.
pub(crate) async fn relay<S: AsyncRead + AsyncWrite + Unpin>(inside: S, mut outside: TcpStream, stop: Stop) {
    let (mut from_inside, mut to_inside) = tokio::io::split(inside);
    let (mut from_outside, mut to_outside) = outside.split();
    let passed = async {
        tokio::try_join!(pass(&mut from_inside, &mut to_outside), pass(&mut from_outside, &mut to_inside)).map(drop)
    };
    tokio::select! {
        // An error on one side closes both; the program sees it on its own stream.
        _ = passed => {}
        () = stopped(stop) => {}
    }
}

/// Relays bytes in one direction until end of file. Most connections are idle and carry little, so the buffer starts
/// small and grows once for a connection that carries much.
async fn pass(from: &mut (impl AsyncRead + Unpin), to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    let mut buffer = vec![0; SMALL_BUFFER];
    let mut passed = 0;
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        to.write_all(buffer.get(..read).unwrap_or_default()).await?;
        to.flush().await?;
        passed += read;
        if passed >= MUCH && buffer.len() < LARGE_BUFFER {
            buffer = vec![0; LARGE_BUFFER];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each byte arrives in order at any chunk size, and so does end of file.
    #[tokio::test]
    async fn every_byte_is_passed_on() {
        let sent: Vec<u8> =
            (0..3_000_000_u32).map(|number| number.to_le_bytes()[0] ^ number.to_le_bytes()[1]).collect();
        let (mut near, mut inside) = tokio::io::duplex(LARGE_BUFFER * 2);
        let (mut outside, mut far) = tokio::io::duplex(LARGE_BUFFER * 2);
        let pieces = [1, SMALL_BUFFER - 1, SMALL_BUFFER, SMALL_BUFFER + 1, LARGE_BUFFER, LARGE_BUFFER + 1, 3];
        let send = async {
            let (mut rest, mut sizes) = (sent.as_slice(), pieces.iter().cycle());
            while let Some(size) = sizes.next().filter(|_| !rest.is_empty()) {
                let (piece, left) = rest.split_at((*size).min(rest.len()));
                near.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
                rest = left;
            }
            near.shutdown().await.unwrap();
        };
        let mut heard = Vec::new();
        let ((), passed, read) = tokio::join!(send, pass(&mut inside, &mut outside), far.read_to_end(&mut heard));
        assert_eq!((passed.unwrap(), read.unwrap()), ((), sent.len()));
        assert!(heard == sent);
    }
}
