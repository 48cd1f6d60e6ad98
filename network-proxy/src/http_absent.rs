//! In the place of the HTTP proxy in a build without the feature `http`: no request can be read, so none passes.

use std::sync::Arc;

use tokio::net::TcpStream;

use crate::doors::Visit;
use crate::relay::Stop;
use crate::{Admitted, Gate};

/// How the other side came here.
#[expect(dead_code, reason = "a connection without a destination is closed, whoever made it")]
pub(crate) enum Client {
    OfProxy(Arc<Visit>),
    Direct(Admitted),
}

/// One side of a connection that speaks HTTP.
pub(crate) struct HttpFront {
    pub(crate) gate: Arc<Gate>,
    pub(crate) client: Client,
    #[expect(dead_code, reason = "nothing goes on that would have to be stopped")]
    pub(crate) stop: Stop,
}

/// Why a stream that can't be looked into is refused where only reading is allowed.
pub(crate) const UNSEEN: &str = "only GET, HEAD and OPTIONS requests are allowed, and this build can't read requests: \
    it was made without the feature `http`";

impl HttpFront {
    /// Closes the connection, and puts it on record where it leads somewhere.
    pub(crate) async fn serve(self, stream: TcpStream) {
        if let Client::Direct(admitted) = self.client {
            self.gate.refuse(admitted.destination, UNSEEN);
        }
        drop(stream);
    }
}
