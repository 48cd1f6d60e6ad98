//! Replaces the HTTP proxy in builds without the feature `http`: requests can't be parsed, so none passes.

use std::sync::Arc;

use tokio::net::TcpStream;

use crate::doors::Visit;
use crate::relay::Stop;
use crate::{Admitted, Gate};

/// How the client reached this server.
#[expect(dead_code, reason = "a connection without a destination is closed, whoever made it")]
pub(crate) enum Client {
    OfProxy(Arc<Visit>),
    Direct(Admitted),
}

/// Serves HTTP to one client.
pub(crate) struct HttpFront {
    pub(crate) gate: Arc<Gate>,
    pub(crate) client: Client,
    #[expect(dead_code, reason = "nothing goes on that would have to be stopped")]
    pub(crate) stop: Stop,
}

/// Why a stream that can't be inspected is refused if only reading is allowed.
pub(crate) const UNSEEN: &str = "only GET, HEAD and OPTIONS requests are allowed, and this build can't read requests: \
    it was made without the feature `http`";

impl HttpFront {
    /// Closes the connection and records a denial if its destination is known.
    pub(crate) async fn serve(self, stream: TcpStream) {
        if let Client::Direct(admitted) = self.client {
            self.gate.refuse(admitted.destination, UNSEEN);
        }
        drop(stream);
    }
}
