//! The HTTP proxy: requests in absolute form, and `CONNECT`.
//!
//! Each request is decided separately, also on a persistent connection, and forwarded over a connection of its own
//! with `Connection: close`. hyper parses and rewrites it, so that the server receives exactly the request that was
//! checked: no second request hides in the first one's framing, nor in a body that the server ignores.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body as _, Incoming};
use hyper::header::{
    CONNECTION, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
};
use hyper::http::request::Parts;
use hyper::http::uri::{PathAndQuery, Uri};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use stockade_protocol::{Destination, Host, HttpMethods, NetworkProtocol};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::doors::Visit;
use crate::gate::attempt;
use crate::http_target::{BadRequest, HttpTarget, check_direct, origin_form, read_target};
use crate::read_only::objection;
use crate::relay::{Stop, dial, relay, stopped};
use crate::{Admitted, Denied, Gate};

type Body = BoxBody<Bytes, hyper::Error>;

/// How the client reached this server.
pub(crate) enum Client {
    /// It speaks to a proxy and has to authenticate.
    OfProxy(Arc<Visit>),
    /// It was connected transparently and takes this for the server.
    Direct(Admitted),
}

/// Serves HTTP to one client.
pub(crate) struct HttpFront {
    pub(crate) gate: Arc<Gate>,
    pub(crate) client: Client,
    pub(crate) stop: Stop,
}

/// How long a client may take to send a request head, also on an idle persistent connection.
const LONGEST_HEAD: Duration = Duration::from_secs(60);
const LARGEST_HEAD: usize = 64 * 1024;
/// Hop-by-hop headers, which are not forwarded.
const FOR_ONE_HOP: &[&str] = &[
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl HttpFront {
    /// Serves one connection until it ends or the proxy is gone.
    pub(crate) async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let stop = self.stop.clone();
        let front = Arc::new(self);
        let service = service_fn(move |request| {
            let front = Arc::clone(&front);
            async move { Ok::<_, Infallible>(front.answer(request).await) }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(LONGEST_HEAD)
            .max_buf_size(LARGEST_HEAD)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        tokio::select! {
            // hyper has answered malformed requests with 400.
            _ = connection => {}
            () = stopped(stop) => {}
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        match self.pass_on(request).await {
            Ok(response) => response,
            Err(refusal) => refusal.into_response(),
        }
    }

    async fn pass_on(&self, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        let (parts, body) = request.into_parts();
        match &self.client {
            Client::Direct(admitted) => {
                check_direct(&parts, &admitted.destination)
                    .map_err(|bad| self.on_record(bad, &admitted.destination))?;
                self.check_reading(&parts, &body, &admitted.destination)?;
                forward(Request::from_parts(parts, body), admitted).await
            }
            Client::OfProxy(visit) => {
                let given = parts.headers.get(PROXY_AUTHORIZATION).map(HeaderValue::as_bytes);
                if !given.is_some_and(|given| visit.secret().is_basic(given)) {
                    return Err(Refusal::NoSecret);
                }
                visit.welcome().await;
                match read_target(&parts)? {
                    HttpTarget::Forward { host, port } => {
                        let wanted = Destination { host, protocol: NetworkProtocol::Http, port };
                        self.check_reading(&parts, &body, &wanted)?;
                        let admitted = self.gate.admit(attempt(wanted.host, port, Some(wanted.protocol))).await?;
                        forward(Request::from_parts(parts, body), &admitted).await
                    }
                    HttpTarget::Tunnel { host, port } => {
                        self.tunnel(host, port, Request::from_parts(parts, body)).await
                    }
                }
            }
        }
    }

    /// Refuses requests that are not read-only if the policy allows only reading.
    fn check_reading(&self, head: &Parts, body: &Incoming, destination: &Destination) -> Result<(), Denied> {
        let objection = match self.gate.methods() {
            HttpMethods::Any => None,
            HttpMethods::ReadOnly => objection(head, !body.is_end_stream()),
        };
        objection.map_or(Ok(()), |why| Err(self.gate.refuse(destination.clone(), why)))
    }

    /// Records a forbidden request on an allowed connection as a denial; a malformed request is not one.
    fn on_record(&self, bad: BadRequest, destination: &Destination) -> Refusal {
        if bad.status == StatusCode::FORBIDDEN {
            self.gate.refuse(destination.clone(), bad.why).into()
        } else {
            bad.into()
        }
    }

    async fn tunnel(&self, host: Host, port: u16, request: Request<Incoming>) -> Result<Response<Body>, Refusal> {
        if self.gate.methods() == HttpMethods::ReadOnly {
            let destination = Destination { host, protocol: NetworkProtocol::Https, port };
            return Err(self.gate.refuse(destination, UNSEEN).into());
        }
        let admitted = self.gate.admit(attempt(host, port, None)).await?;
        let outside = dial(&admitted.addresses).await.map_err(|error| Refusal::no_answer(&admitted, &error))?;
        let stop = self.stop.clone();
        // The upgraded stream is available only after the response below was sent.
        tokio::spawn(async move {
            if let Ok(upgraded) = hyper::upgrade::on(request).await {
                relay(TokioIo::new(upgraded), outside, stop.clone()).await;
            }
            // Held until both streams are closed.
            drop(stop);
        });
        Ok(Response::new(Full::default().map_err(|never: Infallible| match never {}).boxed()))
    }
}

/// Why a stream that can't be inspected is refused if only reading is allowed.
pub(crate) const UNSEEN: &str =
    "only GET, HEAD and OPTIONS requests are allowed, and those of an encrypted stream can't be seen";

/// Forwards a request to the admitted server, over a connection of its own.
async fn forward(mut request: Request<Incoming>, admitted: &Admitted) -> Result<Response<Body>, Refusal> {
    remove_hop_headers(request.headers_mut());
    let path: PathAndQuery = origin_form(request.uri().path_and_query());
    *request.uri_mut() = Uri::from(path);
    // Rewritten from the checked destination, since servers route by it.
    let host = HeaderValue::from_str(&host_header(&admitted.destination));
    request.headers_mut().insert(
        HOST,
        host.map_err(|_| Refusal::Bad(BadRequest { status: StatusCode::BAD_REQUEST, why: "the host is not valid" }))?,
    );
    // The server must not wait for another request, even if it disagrees about where this one ends.
    request.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    *request.version_mut() = Version::HTTP_11;
    let no_answer = |error: &dyn std::fmt::Display| Refusal::no_answer(admitted, error);
    let stream: TcpStream = dial(&admitted.addresses).await.map_err(|error| no_answer(&error))?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| no_answer(&error))?;
    // Ends with the response body, or when the client disconnects and drops it.
    tokio::spawn(connection);
    let mut response = sender.send_request(request).await.map_err(|error| no_answer(&error))?;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return Err(no_answer(&"it changes the protocol, which it was not asked for"));
    }
    remove_hop_headers(response.headers_mut());
    Ok(response.map(BodyExt::boxed))
}

fn host_header(destination: &Destination) -> String {
    let Destination { host, port, .. } = destination;
    if *port == 80 { host.bracketed() } else { host.with_port(*port) }
}

fn remove_hop_headers(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named {
        headers.remove(name);
    }
    for name in FOR_ONE_HOP {
        headers.remove(*name);
    }
}

/// A response generated by this proxy. It names the host and the port, never the path.
enum Refusal {
    NoSecret,
    Bad(BadRequest),
    Denied(Denied),
    NoAnswer(String),
}

impl From<BadRequest> for Refusal {
    fn from(bad: BadRequest) -> Self {
        Self::Bad(bad)
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        Self::Denied(denied)
    }
}

impl Refusal {
    fn no_answer(admitted: &Admitted, error: &dyn std::fmt::Display) -> Self {
        Self::NoAnswer(format!("`{}` does not answer: {error}", admitted.destination))
    }

    fn into_response(self) -> Response<Body> {
        let (status, text) = match &self {
            Self::NoSecret => {
                (StatusCode::PROXY_AUTHENTICATION_REQUIRED, String::from("this proxy serves one command alone"))
            }
            Self::Bad(bad) => (bad.status, bad.why.to_owned()),
            Self::Denied(denied @ Denied::Refused { .. }) => (StatusCode::FORBIDDEN, denied.to_string()),
            Self::Denied(denied @ Denied::Unreachable { .. }) => (StatusCode::BAD_GATEWAY, denied.to_string()),
            Self::NoAnswer(why) => (StatusCode::BAD_GATEWAY, why.clone()),
        };
        let body = Full::from(format!("stockade: {text}\n")).map_err(|never: Infallible| match never {}).boxed();
        let mut response = Response::new(body);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        headers.insert(
            "x-stockade",
            HeaderValue::from_static(if status == StatusCode::FORBIDDEN { "denied" } else { "error" }),
        );
        // An unread body may look like another request.
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        if matches!(self, Self::NoSecret) {
            headers.insert(PROXY_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"stockade\""));
        }
        response
    }
}
