//! Which requests only read: GET, HEAD and OPTIONS, without a body and without a second name for the method.
//!
//! A body on these methods has no defined meaning
//! ([RFC 9110, 9.3.1](https://www.rfc-editor.org/rfc/rfc9110#section-9.3.1)): a server that does not expect one
//! reads it as the next request of the connection.

use hyper::Method;
use hyper::header::{HeaderMap, HeaderName};
use hyper::http::request::Parts;

const METHOD: &str = "only GET, HEAD and OPTIONS requests are allowed";
const BODY: &str = "only reading is allowed, and requests that read have no body: leave it out";
const OVERRIDE: &str = "only reading is allowed, and the request asks to be taken for another method: \
    leave out the override header or the `_method` parameter";

/// Headers that make some servers take a request for one with another method.
const OVERRIDES: [&str; 3] = ["x-http-method-override", "x-http-method", "x-method-override"];

/// Why this request may not pass where only reading is allowed.
pub(crate) fn objection(head: &Parts, has_body: bool) -> Option<&'static str> {
    if ![Method::GET, Method::HEAD, Method::OPTIONS].contains(&head.method) {
        Some(METHOD)
    } else if has_body {
        Some(BODY)
    } else if OVERRIDES.iter().any(|name| has_header(&head.headers, name)) || head.uri.query().is_some_and(overrides) {
        Some(OVERRIDE)
    } else {
        None
    }
}

/// Whether there is a header that a server could take for this one: CGI and its heirs know no difference between
/// `-`, `_` and `.`.
pub(crate) fn has_header(headers: &HeaderMap, name: &str) -> bool {
    headers.keys().any(|given| sounds_like(given, name))
}

/// Whether a header has this name, or one that a server could take for it.
pub(crate) fn sounds_like(given: &HeaderName, name: &str) -> bool {
    let plain = |byte: u8| if byte.is_ascii_alphanumeric() { byte } else { b'-' };
    given.as_str().bytes().map(plain).eq(name.bytes())
}

/// Whether a query has a parameter `_method`, in any spelling.
fn overrides(query: &str) -> bool {
    let name = |parameter: &str| decoded(parameter.split('=').next().unwrap_or_default());
    query.split(['&', ';']).any(|parameter| name(parameter).eq_ignore_ascii_case(b"_method"))
}

/// Text with its `%5f` replaced.
fn decoded(text: &str) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *byte == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        plain.push(escaped.unwrap_or(*byte));
        rest = if escaped.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    plain
}
