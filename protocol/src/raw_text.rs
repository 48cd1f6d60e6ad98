//! Text from the operating system: usually UTF-8, sometimes just bytes.
//!
//! Paths, arguments and output may contain any byte. JSON may not, so a value that is not UTF-8 is written as `{"hex":
//! "2f746d702fff"}` and everything else as a plain string. Each value has exactly one written form: hexadecimal that
//! spells valid UTF-8 is refused.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A byte string that is shown as text.
///
/// ```
/// use stockade_protocol::RawText;
///
/// let plain = RawText::from("caf\u{e9}");
/// assert_eq!(serde_json::to_string(&plain)?, "\"caf\u{e9}\"");
///
/// let latin1 = RawText::from(b"caf\xe9".to_vec());
/// assert_eq!(serde_json::to_string(&latin1)?, r#"{"hex":"636166e9"}"#);
/// assert_eq!(latin1.to_string(), r"caf\xe9");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
// Clones share the bytes: a policy names hundreds of paths, and is copied for every stage of a run.
pub struct RawText(Arc<[u8]>);

impl RawText {
    /// The bytes, as the operating system has them.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, if it is UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The text for the operating system; `None` if it is not valid there.
    pub fn to_os_string(&self) -> Option<std::ffi::OsString> {
        #[cfg(unix)]
        return Some(std::os::unix::ffi::OsStringExt::from_vec(self.0.to_vec()));
        #[cfg(not(unix))]
        self.as_str().map(Into::into)
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<&str> for RawText {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().into())
    }
}

impl From<String> for RawText {
    fn from(text: String) -> Self {
        Self(text.into_bytes().into())
    }
}

impl From<&[u8]> for RawText {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

impl From<Vec<u8>> for RawText {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes.into())
    }
}

/// Formats the text on one line: control characters, bidirectional overrides and stray bytes are escaped, so that
/// nothing is hidden from a reader.
impl fmt::Display for RawText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            let mut rest = chunk.valid();
            // What needs no escape is written at once.
            while let Some((plain, c, behind)) = split_at_escaped(rest) {
                f.write_str(plain)?;
                match is_deceptive(c) {
                    true => write!(f, "{}", c.escape_unicode())?,
                    false => write!(f, "{}", c.escape_default())?,
                }
                rest = behind;
            }
            f.write_str(rest)?;
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// The first character of a text that is shown escaped, with the texts before and behind it.
fn split_at_escaped(text: &str) -> Option<(&str, char, &str)> {
    let is_escaped = |c: char| c == '\\' || c.is_control() || is_deceptive(c);
    let (at, c) = text.char_indices().find(|(_, c)| is_escaped(*c))?;
    let (plain, rest) = text.split_at_checked(at)?;
    Some((plain, c, rest.strip_prefix(c)?))
}

/// Characters that are invisible or reorder others.
pub(crate) fn is_deceptive(c: char) -> bool {
    matches!(c,
        '\u{00a0}' | '\u{00ad}' | '\u{034f}' | '\u{061c}' | '\u{115f}'..='\u{1160}'
        | '\u{1680}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}'
        | '\u{3000}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

impl fmt::Debug for RawText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

impl Serialize for RawText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(text) = self.as_str() {
            return serializer.serialize_str(text);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("hex", &to_hex(&self.0))?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for RawText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawTextVisitor)
    }
}

struct RawTextVisitor;

impl<'de> Visitor<'de> for RawTextVisitor {
    type Value = RawText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, or {\"hex\": …} for bytes that are not UTF-8")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<RawText, E> {
        Ok(text.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawText, A::Error> {
        let Some((key, digits)) = map.next_entry::<String, String>()? else {
            return Err(de::Error::missing_field("hex"));
        };
        if key != "hex" {
            return Err(de::Error::unknown_field(&key, &["hex"]));
        }
        if map.next_key::<String>()?.is_some() {
            return Err(de::Error::custom("`hex` must be the only field"));
        }
        let bytes = from_hex(&digits).ok_or_else(|| {
            de::Error::custom(format_args!("`{digits}` is not an even number of lower-case hexadecimal digits"))
        })?;
        if std::str::from_utf8(&bytes).is_ok() {
            return Err(de::Error::custom(format_args!("`{digits}` spells UTF-8 text: write it as a plain string")));
        }
        Ok(bytes.into())
    }
}

impl JsonSchema for RawText {
    fn schema_name() -> Cow<'static, str> {
        "RawText".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Text from the operating system: a string, or its bytes in hexadecimal where they are not UTF-8.",
            "anyOf": [{ "type": "string" }, generator.subschema_for::<RawBytes>()],
        })
    }
}

/// Bytes that are not UTF-8 text. Only its schema is used.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
struct RawBytes {
    /// The bytes, in lower-case hexadecimal.
    #[expect(dead_code, reason = "it is there for its schema")]
    #[schemars(regex(pattern = r"^([0-9a-f]{2})+$"))]
    hex: String,
}

pub(crate) fn to_hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 });
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

pub(crate) fn from_hex(digits: &str) -> Option<Vec<u8>> {
    let nibble = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = digits.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|&[high, low]| Some(nibble(high)? << 4 | nibble(low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_has_one_written_form() {
        let parse = |json: &str| serde_json::from_str::<RawText>(json).map_err(|e| e.to_string());
        assert_eq!(parse(r#"{"hex":"ff"}"#), Ok(b"\xff".to_vec().into()));
        assert!(parse(r#"{"hex":"41"}"#).unwrap_err().contains("plain string"));
        assert!(parse(r#"{"hex":"FF"}"#).unwrap_err().contains("lower-case"));
        assert!(parse(r#"{"hex":"f"}"#).unwrap_err().contains("even number"));
        assert!(parse(r#"{"hex":"ff","x":"y"}"#).unwrap_err().contains("only field"));
        assert!(parse(r#"{"base64":"/w=="}"#).unwrap_err().contains("unknown field `base64`"));
    }

    #[test]
    fn nothing_invisible_is_shown_raw() {
        let text = RawText::from("a\u{202e}b\u{1b}[2J\r\n\u{200b}\u{feff}\\");
        assert_eq!(text.to_string(), r"a\u{202e}b\u{1b}[2J\r\n\u{200b}\u{feff}\\");
    }
}
