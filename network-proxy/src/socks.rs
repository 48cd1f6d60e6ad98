//! The SOCKS5 proxy: `CONNECT` only. `BIND` and `UDP ASSOCIATE` are refused.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use stockade_protocol::{Destination, HttpMethods, NetworkProtocol};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::doors::Visit;
use crate::gate::attempt;
use crate::http::UNSEEN;
use crate::relay::{Stop, dial, relay};
use crate::socks_message::{Command, Malformed, Parsed, Request, credentials, greeting, request};
use crate::{Denied, Gate};

const BY_PASSWORD: u8 = 2;
const NO_ACCEPTABLE_WAY: u8 = 0xff;
/// The longest message is a request or a password.
const LARGEST_MESSAGE: usize = 520;
const LONGEST_HELLO: Duration = Duration::from_secs(60);

/// The reply to a request.
#[derive(Clone, Copy)]
enum Reply {
    Done = 0,
    NotAllowed = 2,
    HostUnreachable = 4,
    Refused = 5,
    NoSuchCommand = 7,
    NoSuchAddress = 8,
}

/// Serves one connection.
pub(crate) async fn serve(mut stream: TcpStream, gate: Arc<Gate>, visit: Arc<Visit>, stop: Stop) {
    let Ok(Ok((asked, early))) = tokio::time::timeout(LONGEST_HELLO, hear(&mut stream, &visit)).await else { return };
    let mut outside = match connect(&gate, asked).await {
        Ok(outside) => outside,
        Err(reply) => {
            // The client may have disconnected already.
            say(&mut stream, reply).await.ok();
            return;
        }
    };
    // A client that did not wait for the reply has sent payload already.
    if say(&mut stream, Reply::Done).await.is_ok() && outside.write_all(&early).await.is_ok() {
        relay(stream, outside, stop).await;
    }
}

async fn connect(gate: &Gate, asked: Request) -> Result<TcpStream, Reply> {
    match asked.command {
        Command::Connect => {}
        Command::Other => return Err(Reply::NoSuchCommand),
    }
    let host = asked.host.ok_or(Reply::NoSuchAddress)?;
    if gate.methods() == HttpMethods::ReadOnly {
        gate.refuse(Destination { host, protocol: NetworkProtocol::Tcp, port: asked.port }, UNSEEN);
        return Err(Reply::NotAllowed);
    }
    let admitted = gate.admit(attempt(host, asked.port, None)).await.map_err(|denied| match denied {
        Denied::Refused { .. } => Reply::NotAllowed,
        Denied::Unreachable { .. } => Reply::HostUnreachable,
    })?;
    dial(&admitted.addresses).await.map_err(|error| {
        let was_refused = error.kind() == io::ErrorKind::ConnectionRefused;
        if was_refused { Reply::Refused } else { Reply::HostUnreachable }
    })
}

/// Authenticates a client and reads its request.
async fn hear(stream: &mut TcpStream, visit: &Visit) -> io::Result<(Request, Vec<u8>)> {
    let mut heard = Vec::new();
    let methods = next(stream, &mut heard, greeting).await?;
    if !methods.contains(&BY_PASSWORD) {
        stream.write_all(&[5, NO_ACCEPTABLE_WAY]).await?;
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    stream.write_all(&[5, BY_PASSWORD]).await?;
    let given = next(stream, &mut heard, credentials).await?;
    let may_enter = visit.secret().is(&given.user, &given.password);
    stream.write_all(&[1, u8::from(!may_enter)]).await?;
    if !may_enter {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    visit.welcome().await;
    let asked = next(stream, &mut heard, request).await?;
    Ok((asked, heard))
}

async fn next<T>(
    stream: &mut TcpStream,
    heard: &mut Vec<u8>,
    parse: impl Fn(&[u8]) -> Result<Parsed<T>, Malformed>,
) -> io::Result<T> {
    loop {
        match parse(heard).map_err(|malformed| io::Error::new(io::ErrorKind::InvalidData, malformed))? {
            Parsed::Whole(message, length) => {
                heard.drain(..length);
                return Ok(message);
            }
            Parsed::Incomplete if heard.len() >= LARGEST_MESSAGE => return Err(io::ErrorKind::InvalidData.into()),
            Parsed::Incomplete => {
                if stream.read_buf(heard).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
    }
}

/// Sends a reply, without the address of the outgoing socket.
async fn say(stream: &mut TcpStream, reply: Reply) -> io::Result<()> {
    stream.write_all(&[5, reply as u8, 0, 1, 0, 0, 0, 0, 0, 0]).await
}
