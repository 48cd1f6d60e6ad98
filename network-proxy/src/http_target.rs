//! The destination of an HTTP request, or why it is ambiguous.
//!
//! A request can name its destination three times: in the request line, in `Host`, and in bytes that its framing makes
//! a server read as the next request. All of them have to agree.

use hyper::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderValue, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::http::uri::{Authority, PathAndQuery};
use hyper::{Method, StatusCode};
use stockade_protocol::{Destination, Host, HostPattern};

use crate::read_only::sounds_like;

/// The target of a request to the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HttpTarget {
    /// A stream to this host and port (`CONNECT`).
    Tunnel {
        /// The host.
        host: Host,
        /// The port.
        port: u16,
    },
    /// A request to this server (`GET http://…`).
    Forward {
        /// The host.
        host: Host,
        /// The port.
        port: u16,
    },
}

/// Why a request is not forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRequest {
    pub(crate) status: StatusCode,
    pub(crate) why: &'static str,
}

const fn bad(why: &'static str) -> BadRequest {
    BadRequest { status: StatusCode::BAD_REQUEST, why }
}

const fn forbidden(why: &'static str) -> BadRequest {
    BadRequest { status: StatusCode::FORBIDDEN, why }
}

/// Reads the target of a request to the proxy.
pub fn read_target(request: &Parts) -> Result<HttpTarget, BadRequest> {
    check_headers(&request.headers)?;
    let authority = request.uri.authority();
    if request.method == Method::CONNECT {
        let authority = authority.ok_or(bad("CONNECT needs a host and a port"))?;
        if request.uri.scheme().is_some() || request.uri.path_and_query().is_some_and(|path| path != "/" && path != "")
        {
            return Err(bad("CONNECT takes a host and a port alone"));
        }
        let (host, port) = read_authority(authority, None)?;
        check_host(&request.headers, &host, port, None)?;
        return Ok(HttpTarget::Tunnel { host, port });
    }
    match request.uri.scheme_str() {
        Some("http") => {
            let (host, port) = read_authority(authority.ok_or(bad("the request has no host"))?, Some(80))?;
            check_host(&request.headers, &host, port, Some(80))?;
            Ok(HttpTarget::Forward { host, port })
        }
        // The proxy would have to terminate TLS, and the client could no longer verify the server.
        Some("https") => Err(forbidden("https goes through CONNECT; this proxy does not open TLS (mitm_required)")),
        Some(_) => Err(bad("only http is forwarded")),
        None => Err(bad("this is a proxy: the first line needs a whole URL")),
    }
}

/// Checks a request from a transparently connected client.
pub(crate) fn check_direct(request: &Parts, to: &Destination) -> Result<(), BadRequest> {
    check_headers(&request.headers)?;
    if request.method == Method::CONNECT || request.uri.scheme().is_some() || request.uri.authority().is_some() {
        return Err(bad("a request for another server"));
    }
    check_host(&request.headers, &to.host, to.port, Some(80))
}

/// Refuses headers that could make the next parser see a different request.
fn check_headers(headers: &HeaderMap) -> Result<(), BadRequest> {
    if headers.contains_key("x-unix-socket") {
        return Err(forbidden("unix sockets are not reached through this proxy"));
    }
    if headers.contains_key(TRANSFER_ENCODING) && headers.contains_key(CONTENT_LENGTH) {
        return Err(bad("a body has one length"));
    }
    if headers.get_all(CONTENT_LENGTH).iter().count() > 1 || headers.get_all(TRANSFER_ENCODING).iter().count() > 1 {
        return Err(bad("a body has one length"));
    }
    let is_disguised = |name: &str| headers.keys().any(|given| given != name && sounds_like(given, name));
    if ["content-length", "transfer-encoding", "host", "connection"].into_iter().any(is_disguised) {
        return Err(bad("a header's name looks like another one that decides where a request ends or goes"));
    }
    Ok(())
}

/// `Host` has to name the same server: servers with several names route by it.
fn check_host(headers: &HeaderMap, host: &Host, port: u16, usual: Option<u16>) -> Result<(), BadRequest> {
    let mut named = headers.get_all(HOST).iter();
    let Some(value) = named.next() else { return Ok(()) };
    if named.next().is_some() {
        return Err(bad("there is more than one Host"));
    }
    let parse = |value: &HeaderValue| Authority::try_from(value.as_bytes()).ok();
    let (named_host, named_port) =
        read_authority(&parse(value).ok_or(bad("Host is not a host"))?, usual.or(Some(port)))?;
    // For a transparent connection to this machine `host` is an address, while `Host` may be a name of it.
    let is_same = named_host == *host || HostPattern::Exact(named_host).matches(host);
    if is_same && named_port == port { Ok(()) } else { Err(forbidden("Host names another server than the URL")) }
}

fn read_authority(authority: &Authority, usual: Option<u16>) -> Result<(Host, u16), BadRequest> {
    if authority.as_str().contains('@') {
        return Err(bad("a host has no user in it"));
    }
    let host = authority.host().parse().map_err(|_| bad("the host is not valid"))?;
    let rest = authority.as_str().strip_prefix(authority.host()).ok_or(bad("the host is not valid"))?;
    let port = match rest.strip_prefix(':') {
        None => usual.ok_or(bad("the port is missing"))?,
        Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
            digits.parse().map_err(|_| bad("the port is not valid"))?
        }
        Some(_) => return Err(bad("the port is not valid")),
    };
    if port == 0 { Err(bad("the port is not valid")) } else { Ok((host, port)) }
}

/// The request target in origin form.
pub(crate) fn origin_form(path: Option<&PathAndQuery>) -> PathAndQuery {
    path.filter(|path| !path.as_str().is_empty()).cloned().unwrap_or_else(|| PathAndQuery::from_static("/"))
}

#[cfg(test)]
mod tests {
    use hyper::Request;
    use proptest::prelude::*;
    use stockade_protocol::NetworkProtocol;

    use super::*;

    fn target(method: &str, uri: &str, headers: &[(&str, &str)]) -> Result<String, u16> {
        let mut request = Request::builder().method(method).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let Ok(request) = request.body(()) else { return Err(0) };
        match read_target(&request.into_parts().0) {
            Ok(HttpTarget::Tunnel { host, port }) => Ok(format!("tunnel {host} {port}")),
            Ok(HttpTarget::Forward { host, port }) => Ok(format!("forward {host} {port}")),
            Err(refused) => Err(refused.status.as_u16()),
        }
    }

    /// px11, px12, px20: `https://` in plain text, a `Host` that differs, and the name of a unix socket.
    #[test]
    fn a_request_goes_where_all_its_names_agree() {
        for (method, uri, headers, wanted) in [
            ("GET", "http://A.test/x", &[][..], Ok("forward a.test 80")),
            ("GET", "http://a.test:8080", &[("host", "A.TEST.:8080")], Ok("forward a.test 8080")),
            ("GET", "http://0x7f.1/", &[], Ok("forward 127.0.0.1 80")),
            ("GET", "http://[::1]:81/", &[("host", "[::1]:81")], Ok("forward ::1 81")),
            ("CONNECT", "a.test:443", &[], Ok("tunnel a.test 443")),
            ("CONNECT", "a.test:443", &[("host", "a.test")], Ok("tunnel a.test 443")),
            ("CONNECT", "a.test:443", &[("host", "b.test:443")], Err(403)),
            ("CONNECT", "a.test", &[], Err(400)),
            ("CONNECT", "a.test:0", &[], Err(400)),
            ("GET", "http://a.test/", &[("host", "b.test")], Err(403)),
            ("GET", "http://a.test/", &[("host", "a.test:81")], Err(403)),
            ("GET", "http://a.test/", &[("host", "a.test"), ("host", "b.test")], Err(400)),
            ("GET", "http://a.test/", &[("host", "a.test@b.test")], Err(400)),
            ("GET", "http://u:p@a.test/", &[], Err(400)),
            ("GET", "http://a.test:99999/", &[], Err(400)),
            ("GET", "https://a.test/x", &[], Err(403)),
            ("GET", "ftp://a.test/x", &[], Err(400)),
            ("GET", "/x", &[("host", "a.test")], Err(400)),
            ("GET", "http://a.test/", &[("x-unix-socket", "/var/run/docker.sock")], Err(403)),
            ("POST", "http://a.test/", &[("content-length", "1"), ("transfer-encoding", "chunked")], Err(400)),
            ("POST", "http://a.test/", &[("content-length", "1"), ("content-length", "1")], Err(400)),
            ("POST", "http://a.test/", &[("content_length", "1")], Err(400)),
            ("POST", "http://a.test/", &[("transfer.encoding", "chunked")], Err(400)),
            ("POST", "http://a.test/", &[("content-length", "1"), ("x_content_length", "1")], Ok("forward a.test 80")),
        ] {
            assert_eq!(target(method, uri, headers), wanted.map(str::to_owned), "{method} {uri} {headers:?}");
        }
    }

    #[test]
    fn a_request_to_this_machine_may_name_it() {
        let check = |to: &str, host: &str| {
            let request = Request::builder().uri("/").header("host", host).body(()).unwrap();
            let to = Destination { host: to.parse().unwrap(), protocol: NetworkProtocol::Http, port: 80 };
            check_direct(&request.into_parts().0, &to).is_ok()
        };
        assert!(check("127.0.0.1", "localhost") && check("::1", "app.localhost") && check("127.0.0.1", "127.0.0.1"));
        assert!(!check("127.0.0.1", "a.test") && !check("127.0.0.2", "localhost") && !check("a.test", "localhost"));
        assert!(!check("127.0.0.1", "localhost:81") && !check("127.0.0.1", "[::1]"));
    }

    proptest! {
        /// Accepted text has exactly one host.
        #[test]
        fn no_text_is_read_as_two_hosts(text in "[a-z0-9.:@/\\[\\]%?#-]{0,40}", host in "[a-z]{1,8}\\.test(:[0-9]{1,5})?") {
            if let Ok(found) = target("GET", &format!("http://{text}"), &[("host", &host)]) {
                let (own, port) = host.split_once(':').unwrap_or((&host, "80"));
                prop_assert_eq!(found, format!("forward {own} {}", port.parse::<u32>().unwrap()));
            }
        }
    }
}
