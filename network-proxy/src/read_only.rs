//! Read-only requests: GET, HEAD and OPTIONS, without a body and without a method override.
//!
//! A body on these methods has no defined meaning
//! ([RFC 9110, 9.3.1](https://www.rfc-editor.org/rfc/rfc9110#section-9.3.1)): a server that does not expect one
//! reads it as the next request of the connection.

use hyper::Method;
use hyper::header::HeaderName;
use hyper::http::request::Parts;

const METHOD: &str = "only GET, HEAD and OPTIONS requests are allowed";
const BODY: &str = "only reading is allowed, and requests that read have no body: leave it out";
const OVERRIDE: &str = "only reading is allowed, and the request asks to be taken for another method: \
    leave out the override header or the `_method` parameter";

/// Headers, reduced to their letters, that make some servers apply another method.
const OVERRIDES: [&str; 4] = ["method", "xmethod", "httpmethod", "xhttpmethod"];
/// Parts of header names that do the same.
const OVERRIDING: [&str; 2] = ["methodoverride", "overridemethod"];

/// Why this request is not read-only.
pub(crate) fn objection(head: &Parts, has_body: bool) -> Option<&'static str> {
    if ![Method::GET, Method::HEAD, Method::OPTIONS].contains(&head.method) {
        Some(METHOD)
    } else if has_body {
        Some(BODY)
    } else if head.headers.keys().any(names_method) || head.uri.query().is_some_and(overrides) {
        Some(OVERRIDE)
    } else {
        None
    }
}

/// Whether a header has this name, or one that a server could confuse with it: CGI and its successors do not
/// distinguish `-`, `_` and `.`.
pub(crate) fn sounds_like(given: &HeaderName, name: &str) -> bool {
    let plain = |byte: u8| if byte.is_ascii_alphanumeric() { byte } else { b'-' };
    given.as_str().bytes().map(plain).eq(name.bytes())
}

/// Whether a header overrides the method.
fn names_method(name: &HeaderName) -> bool {
    let letters: String = name.as_str().chars().filter(char::is_ascii_alphanumeric).collect();
    OVERRIDES.contains(&letters.as_str()) || OVERRIDING.iter().any(|word| letters.contains(word))
}

/// Whether a query has a parameter `_method`, in any spelling: PHP takes `.method`, `[method` and `+_method` for it.
fn overrides(query: &str) -> bool {
    let name = |parameter: &str| decoded(parameter.split('=').next().unwrap_or_default());
    query.split(['&', ';']).any(|parameter| {
        let name = name(parameter);
        let behind = name.trim_ascii_start().split_first().filter(|(first, _)| !first.is_ascii_alphanumeric());
        behind.is_some_and(|(_, rest)| {
            let begin = rest.iter().position(u8::is_ascii_alphanumeric).unwrap_or(rest.len());
            let word = rest.get(begin..).unwrap_or_default();
            let end = word.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(word.len());
            word.get(..end).is_some_and(|word| word.eq_ignore_ascii_case(b"method"))
        })
    })
}

/// Text with its `%5f` and `+` replaced.
fn decoded(text: &str) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|_| *byte == b'%').and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        plain.push(escaped.unwrap_or(if *byte == b'+' { b' ' } else { *byte }));
        rest = if escaped.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    plain
}
