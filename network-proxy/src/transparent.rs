//! The gate for transparently intercepted connections, for programs without proxy support.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use stockade_protocol::{HttpMethods, NetworkProtocol, Violation};
use stockade_sandboxing::{Answer, Attempt, Gatekeeper, Verdict};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use crate::http::{Client, HttpFront, UNSEEN};
use crate::relay::{Stop, stopped};
use crate::{Admitted, Denied, Gate};

/// Answers a backend's connection attempts from a gate.
#[derive(Debug)]
pub struct Transparent {
    gate: Arc<Gate>,
    runtime: Handle,
    stop: Stop,
    /// Ends the inspected streams when dropped.
    _sender: watch::Sender<()>,
    /// Permits for inspected streams. Each stream takes two descriptors and buffers of this process.
    places: Arc<Semaphore>,
}

/// Limit on concurrently inspected streams.
const MOST_STREAMS: u64 = 256;
/// How long a connection waits for a permit. The calling thread is blocked meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);
const CROWDED: &str =
    "as many connections are open as Stockade can look into where only reading is allowed: close some";
/// The minimum, even with a low limit on open files.
const FEWEST_STREAMS: u64 = 8;
/// Descriptors reserved for the rest of the process.
const OTHER_FILES: u64 = 64;

/// The number of streams this process can inspect within its limit on open files.
fn stream_places() -> usize {
    let places = open_file_limit().saturating_sub(OTHER_FILES) / 3;
    usize::try_from(places.clamp(FEWEST_STREAMS, MOST_STREAMS)).unwrap_or_default()
}

#[cfg(target_os = "linux")]
fn open_file_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

#[cfg(not(target_os = "linux"))]
fn open_file_limit() -> u64 {
    u64::MAX
}

impl Transparent {
    /// Decides by `gate` on `runtime`, which needs I/O and time enabled.
    pub fn new(gate: Arc<Gate>, runtime: Handle) -> Self {
        let (sender, stop) = watch::channel(());
        Self { gate, runtime, stop, _sender: sender, places: Arc::new(Semaphore::new(stream_places())) }
    }
}

impl Gatekeeper for Transparent {
    fn decide(&self, attempt: Attempt, answer: Answer) {
        let (gate, stop, places) = (Arc::clone(&self.gate), self.stop.clone(), Arc::clone(&self.places));
        self.runtime.spawn(async move {
            let decided = async {
                match gate.methods() {
                    HttpMethods::Any => gate.admit(attempt).await.map(|admitted| Verdict::Connect(admitted.addresses)),
                    HttpMethods::ReadOnly => look_into(gate, attempt, stop.clone(), places).await,
                }
            };
            // Work for a caller ends with the caller and with the run.
            let verdict = tokio::select! {
                decided = decided => decided,
                () = unwanted(answer.is_wanted()) => return,
                () = stopped(stop.clone()) => return,
            };
            answer.give(verdict.unwrap_or_else(|denied| match denied {
                Denied::Refused { .. } => Verdict::Refuse,
                Denied::Unreachable { .. } => Verdict::Unreachable,
            }));
        });
    }

    fn refused(&self, violation: Violation) {
        self.gate.note_refusal(violation);
    }
}

/// The polling interval for callers that wait for an approval or a look-up.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// Waits until the caller no longer waits.
async fn unwanted(is_wanted: Arc<dyn Fn() -> bool + Send + Sync>) {
    while is_wanted() {
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

const NO_REQUESTS: &str = "only GET, HEAD and OPTIONS requests are allowed, and datagrams have none";

/// If only reading is allowed, the program gets an inspected stream, which ends at the first bytes that are not a
/// plain HTTP request. An encrypted stream can't be inspected. If all permits are taken, the program waits up to
/// `PATIENCE` for one of its connections to end.
async fn look_into(
    gate: Arc<Gate>,
    mut attempt: Attempt,
    stop: Stop,
    places: Arc<Semaphore>,
) -> Result<Verdict, Denied> {
    let unseen = match attempt.protocol {
        Some(NetworkProtocol::Udp) => Some((NetworkProtocol::Udp, NO_REQUESTS)),
        _ if attempt.port == 443 => Some((NetworkProtocol::Https, UNSEEN)),
        _ => None,
    };
    if let Some((protocol, why)) = unseen {
        let destination = stockade_protocol::Destination { host: attempt.host, protocol, port: attempt.port };
        return Err(gate.refuse(destination, why));
    }
    attempt.protocol = Some(NetworkProtocol::Http);
    let admitted = gate.admit(attempt).await?;
    let destination = admitted.destination.clone();
    let Ok(place) = tokio::time::timeout(PATIENCE, places.acquire_owned()).await else {
        return Err(gate.refuse(admitted.destination, CROWDED));
    };
    // Never closed.
    match read_along(Arc::clone(&gate), admitted, stop, place.ok()).await {
        Ok(verdict) => Ok(verdict),
        Err(error) => Err(Denied::Unreachable { destination, why: error.to_string() }),
    }
}

async fn read_along(
    gate: Arc<Gate>,
    admitted: Admitted,
    stop: Stop,
    place: Option<OwnedSemaphorePermit>,
) -> io::Result<Verdict> {
    let listener = TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await?;
    let theirs = TcpStream::connect(listener.local_addr()?).await?;
    let own_address = theirs.local_addr()?;
    let ours = loop {
        // Another local process may have connected first; its connection is dropped.
        let (stream, peer) = listener.accept().await?;
        if peer == own_address {
            break stream;
        }
    };
    tokio::spawn(async move {
        HttpFront { gate, client: Client::Direct(admitted), stop }.serve(ours).await;
        drop(place);
    });
    Ok(Verdict::Use(theirs.into_std()?.into()))
}
