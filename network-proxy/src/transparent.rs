//! The gate for connections that are seen as they are made, whatever the program knows of proxies.

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

/// Answers a backend's questions from a gate.
#[derive(Debug)]
pub struct Transparent {
    gate: Arc<Gate>,
    runtime: Handle,
    stop: Stop,
    /// Streams that are looked into end with this.
    _sender: watch::Sender<()>,
    /// Places for streams that are looked into. Each takes two descriptors and buffers of this process.
    places: Arc<Semaphore>,
}

/// The most streams that are looked into at once.
const MOST_STREAMS: u64 = 256;
/// How long a connection waits for a place. The program can do nothing else meanwhile.
const PATIENCE: Duration = Duration::from_secs(5);
const CROWDED: &str =
    "as many connections are open as Stockade can look into where only reading is allowed: close some";
/// However few files may be open.
const FEWEST_STREAMS: u64 = 8;
/// Open files that are left for everything else.
const OTHER_FILES: u64 = 64;

/// How many streams this process can look into within its limit on open files.
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
    /// Decides by `gate`, on `runtime`, which has to have I/O and time enabled.
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
            // What is done for a caller ends with it, and with the run.
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

/// How often a caller is looked at that waits for a person or a name.
const BETWEEN_LOOKS: Duration = Duration::from_millis(250);

/// Waits until the caller waits no more.
async fn unwanted(is_wanted: Arc<dyn Fn() -> bool + Send + Sync>) {
    while is_wanted() {
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

const NO_REQUESTS: &str = "only GET, HEAD and OPTIONS requests are allowed, and datagrams have none";

/// Where only reading is allowed, the program gets a stream that is read along, and what is not a
/// plain HTTP request ends it. A stream that is encrypted can't be read along. Where all places are taken, the program
/// waits for a while until one of its connections has ended.
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
        // Somebody else on this machine may have been quicker: they get nothing.
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
