//! `file:` URIs, as codex writes paths.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use stockade_protocol::{AbsPath, PathStyle, RawText};

/// An absolute path of this host, on the wire a `file:` URI.
///
/// A URI names one path: no host, no query, no fragment, and no byte that is no path's. `..` and `.` are refused, since what
/// they mean depends on links. What codex writes for a path that has no URI (`file:///%00/…`) is refused with them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileUri(pub(crate) AbsPath);

/// Why a text is no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is no `file:` URI of a path on this host: {why}", .text.escape_debug())]
pub(crate) struct BadUri {
    text: String,
    why: String,
}

impl FileUri {
    pub(crate) fn parse(text: &str) -> Result<Self, BadUri> {
        path(text).map(Self).map_err(|why| BadUri { text: text.chars().take(200).collect(), why })
    }
}

fn path(text: &str) -> Result<AbsPath, String> {
    let rest = text.get(..5).filter(|scheme| scheme.eq_ignore_ascii_case("file:")).and_then(|_| text.get(5..));
    let rest = rest.ok_or("it does not begin with `file:`")?;
    let path = match rest.strip_prefix("//") {
        Some(behind) => behind.strip_prefix("localhost").unwrap_or(behind),
        None => rest,
    };
    if !path.starts_with('/') {
        return Err(String::from("it names a host, or no absolute path"));
    }
    if path.contains(['?', '#', '\\']) {
        return Err(String::from("`?`, `#` and `\\` have to be percent-encoded"));
    }
    let bytes = decoded(path)?;
    if bytes.contains(&0) {
        return Err(String::from("a path has no zero byte"));
    }
    // What codex writes for `/.git` is `file:////.git`.
    let is_dots = |component: &[u8]| component == b"." || component == b"..";
    if bytes.split(|byte| *byte == b'/').any(is_dots) {
        return Err(String::from("`.` and `..` are not taken: what they mean depends on links"));
    }
    let bytes = if cfg!(windows) { without_first(bytes) } else { bytes };
    AbsPath::parse(RawText::from(bytes)).map_err(|error| error.to_string())
}

/// `/C:/x` is `C:/x` on Windows.
fn without_first(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.get(2) == Some(&b':') {
        bytes.remove(0);
    }
    bytes
}

fn decoded(path: &str) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (high, low) = (digit(), digit());
        let value = high.zip(low).map(|(high, low)| high * 16 + low).and_then(|value| u8::try_from(value).ok());
        match value.ok_or("`%` comes before two hexadecimal digits")? {
            b'/' => return Err(String::from("`/` is not percent-encoded in a path")),
            value => bytes.push(value),
        }
    }
    Ok(bytes)
}

/// A path as a `file:` URI.
pub(crate) fn written(path: &AbsPath) -> String {
    let mut text = String::from("file://");
    if path.style() == PathStyle::Windows {
        text.push('/');
    }
    for byte in path.as_raw().as_bytes() {
        match byte {
            b'\\' if path.style() == PathStyle::Windows => text.push('/'),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => text.push(char::from(*byte)),
            b'/' | b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';'
            | b'=' | b':' | b'@' => text.push(char::from(*byte)),
            other => text.push_str(&format!("%{other:02X}")),
        }
    }
    text
}

impl Serialize for FileUri {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&written(&self.0))
    }
}

impl<'de> Deserialize<'de> for FileUri {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_one_path() {
        for (uri, path) in [
            ("file:///repo", "/repo"),
            ("FILE:///repo/a%20b", "/repo/a b"),
            ("file:/repo", "/repo"),
            ("file://localhost/repo", "/repo"),
            ("file:////.git", "/.git"),
            ("file:///r%C3%A9", "/ré"),
            ("file:///repo/...", "/repo/..."),
            ("file:///", "/"),
        ] {
            assert_eq!(FileUri::parse(uri).unwrap().0.to_string(), path, "{uri}");
        }
    }

    #[test]
    fn tricks_are_refused() {
        for uri in [
            "",
            "/etc/passwd",
            "http:///etc/passwd",
            "file:etc/passwd",
            "file://server/share",
            "file://localhost.evil/x",
            "file://localhostx/x",
            "file:///repo/../etc/passwd",
            "file:///repo/%2e%2e/etc/passwd",
            "file:///repo/./x",
            "file:///repo%2f..%2fetc",
            "file:///repo/a%2Fb",
            "file:///%00/bad/path/L2V0Yw",
            "file:///repo/x%00y",
            "file:///repo?x=/etc",
            "file:///repo#x",
            "file:///repo\\..\\etc",
            "file:///repo/%",
            "file:///repo/%4",
            "file:///repo/%zz",
            "file:///repo/%+1",
        ] {
            assert!(FileUri::parse(uri).is_err(), "{uri}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_again(names in proptest::collection::vec("[^/\0]{1,8}", 1..4)) {
            let text = format!("/{}", names.join("/"));
            if let Ok(path) = AbsPath::parse(text.as_str()) && !names.iter().any(|name| name == "." || name == "..") {
                proptest::prop_assert_eq!(FileUri::parse(&written(&path)).unwrap().0, path);
            }
        }

        #[test]
        fn no_text_panics(text in "(file:)?/{0,4}[%0-9a-f./\\\\?#é]{0,30}") {
            if let Ok(FileUri(path)) = FileUri::parse(&text) {
                proptest::prop_assert!(!path.components().any(|name| name == b".."));
            }
        }
    }
}
