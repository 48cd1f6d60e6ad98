//! Identifiers on the wire: of requests, sessions and commands, and the secret that opens a session.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

/// Limit on the id of a request, in bytes.
const LONGEST_RPC_ID: usize = 256;

/// The id of a request: a string of at most 256 bytes, or an integer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub enum RpcId {
    /// An integer.
    Number(i64),
    /// A string.
    Text(String),
}

impl<'de> Deserialize<'de> for RpcId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IdVisitor;
        impl serde::de::Visitor<'_> for IdVisitor {
            type Value = RpcId;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "an integer, or a string of at most {LONGEST_RPC_ID} bytes")
            }

            fn visit_i64<E>(self, number: i64) -> Result<RpcId, E> {
                Ok(RpcId::Number(number))
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<RpcId, E> {
                i64::try_from(number)
                    .map(RpcId::Number)
                    .map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(number), &self))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RpcId, E> {
                if text.len() > LONGEST_RPC_ID {
                    return Err(E::invalid_length(text.len(), &self));
                }
                Ok(RpcId::Text(text.to_owned()))
            }
        }
        deserializer.deserialize_any(IdVisitor)
    }
}

impl JsonSchema for RpcId {
    fn schema_name() -> Cow<'static, str> {
        "RpcId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The id of a request.",
            "anyOf": [{ "type": "integer" }, { "type": "string", "maxLength": LONGEST_RPC_ID }],
        })
    }
}

impl fmt::Display for RpcId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "\"{}\"", text.escape_debug()),
        }
    }
}

/// An invalid name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} `{}` must be 1 to 64 letters, digits, `.`, `_` or `-`, and not begin with `.` or `-`", .text.escape_debug())]
pub struct BadName {
    kind: &'static str,
    text: String,
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(#[schemars(regex(pattern = r"^[A-Za-z0-9_][A-Za-z0-9._-]{0,63}$"))] String);

        impl $name {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = BadName;

            fn from_str(text: &str) -> Result<Self, BadName> {
                let usable = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
                // A name that begins with a dot is a hidden file, and one that begins with a dash an option.
                let begins_well = !text.starts_with(['.', '-']);
                if begins_well && (1..=64).contains(&text.len()) && text.bytes().all(usable) {
                    return Ok(Self(text.to_owned()));
                }
                Err(BadName { kind: $kind, text: text.chars().take(80).collect() })
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

name! {
    /// A session, chosen by the server. It is the `thread_id` of the session's records.
    SessionId, "session id"
}
name! {
    /// A session's name, chosen by the client that opens it.
    SessionName, "session name"
}
name! {
    /// A question, chosen by the server and unique in it.
    QuestionId, "question id"
}
name! {
    /// A command of a session, chosen by the client or else by the server.
    CommandId, "command id"
}

/// The secret that makes a connection a client of a session: 256 random bits in lower-case hexadecimal.
///
/// It is compared without regard to where the first difference is, and never shown by `Debug`.
#[derive(Clone, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Capability(#[schemars(regex(pattern = r"^[0-9a-f]{64}$"))] String);

impl Capability {
    /// Takes 256 random bits.
    pub fn from_bits(bits: [u8; 32]) -> Self {
        use fmt::Write as _;
        let mut text = String::with_capacity(64);
        for byte in bits {
            // Writing to a string cannot fail.
            write!(text, "{byte:02x}").ok();
        }
        Self(text)
    }

    /// The text, for the one client that it is given to.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl PartialEq for Capability {
    fn eq(&self, other: &Self) -> bool {
        self.0.len() == other.0.len()
            && self.0.bytes().zip(other.0.bytes()).fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
    }
}

impl Eq for Capability {}

impl fmt::Debug for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Capability(…)")
    }
}

impl<'de> Deserialize<'de> for Capability {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let usable = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() == 64 && text.bytes().all(usable) {
            return Ok(Self(text));
        }
        // The text is not repeated: it may be a secret with a typing error in it.
        Err(serde::de::Error::custom("a capability has 64 lower-case hexadecimal digits: copy it from `session/open`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_is_compared_whole_and_never_shown() {
        let one = Capability::from_bits([7; 32]);
        assert_eq!(serde_json::from_value::<Capability>(serde_json::to_value(&one).unwrap()).unwrap(), one);
        assert_ne!(one, Capability::from_bits([8; 32]));
        assert!(!format!("{one:?}").contains("07"));
        let refused = serde_json::from_str::<Capability>(r#""07""#).unwrap_err().to_string();
        assert!(!refused.contains("07\""), "{refused}");
    }

    #[test]
    fn an_id_is_an_integer_or_a_string() {
        let read = |json: &str| serde_json::from_str::<RpcId>(json);
        assert_eq!(read("-3").unwrap(), RpcId::Number(-3));
        assert_eq!(read("\"a\"").unwrap(), RpcId::Text(String::from("a")));
        for refused in ["null", "1.5", "true", "[]", "{}", "9223372036854775808", &format!("\"{}\"", "x".repeat(257))] {
            read(refused).unwrap_err();
        }
    }
}
