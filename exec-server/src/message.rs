//! codex's dialect of JSON-RPC: one object a line, without the `jsonrpc` field.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use stockade_server::wire::RpcId;

/// The id of an error for a line that has no usable id. A client of codex reads no error without one.
const NO_ID: RpcId = RpcId::Number(-1);

/// What a client sends.
#[derive(Debug)]
pub enum Incoming {
    /// A request.
    Request {
        /// Its id.
        id: RpcId,
        /// Its method.
        method: String,
        /// Its parameters as JSON.
        params: Box<RawValue>,
    },
    /// A notification.
    Notification {
        /// Its method.
        method: String,
    },
    /// A response. This server asks its client nothing.
    Response,
}

/// An error in answer to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ErrorBody {
    /// Its code.
    pub code: i32,
    /// What is wrong, and what to do.
    pub message: String,
}

impl ErrorBody {
    /// The line is no message.
    pub(crate) fn parse(message: impl fmt::Display) -> Self {
        Self { code: -32700, message: message.to_string() }
    }

    /// The request can't be carried out as it is, or now.
    pub(crate) fn invalid_request(message: impl fmt::Display) -> Self {
        Self { code: -32600, message: message.to_string() }
    }

    /// There is no such method.
    pub(crate) fn unknown_method(method: &str) -> Self {
        let method: String = method.chars().take(100).collect();
        Self { code: -32601, message: format!("there is no method `{}` here", method.escape_debug()) }
    }

    /// The parameters don't fit.
    pub(crate) fn invalid_params(message: impl fmt::Display) -> Self {
        Self { code: -32602, message: message.to_string() }
    }

    /// The request failed.
    pub(crate) fn internal(message: impl fmt::Display) -> Self {
        Self { code: -32603, message: message.to_string() }
    }

    /// There is no such file.
    pub(crate) fn not_found(message: impl fmt::Display) -> Self {
        Self { code: -32004, message: message.to_string() }
    }
}

/// Reads a line.
pub fn read_message(line: &[u8]) -> Result<Incoming, ErrorBody> {
    #[derive(Deserialize)]
    struct Envelope {
        #[serde(default, deserialize_with = "present")]
        id: Option<RpcId>,
        #[serde(default)]
        method: Option<String>,
        #[serde(default)]
        params: Option<Box<RawValue>>,
    }
    let envelope: Envelope = serde_json::from_slice(line).map_err(ErrorBody::parse)?;
    // serde reads a list as the members of an object, in their order.
    if line.trim_ascii_start().first() != Some(&b'{') {
        return Err(ErrorBody::invalid_request("a message is a JSON object"));
    }
    match (envelope.id, envelope.method) {
        (Some(id), Some(method)) => {
            let params = envelope.params.unwrap_or_else(|| RawValue::NULL.to_owned());
            Ok(Incoming::Request { id, method, params })
        }
        (None, Some(method)) => Ok(Incoming::Notification { method }),
        (Some(_), None) => Ok(Incoming::Response),
        (None, None) => Err(ErrorBody::invalid_request("a message has a `method`, or the `id` of a request")),
    }
}

/// A value that may be left out, but is not `null`.
fn present<'de, D: serde::Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Reads the parameters of a request.
pub(crate) fn read_params<T: DeserializeOwned>(params: &RawValue) -> Result<T, ErrorBody> {
    if params.get().starts_with('[') {
        return Err(ErrorBody::invalid_params("parameters are a JSON object"));
    }
    serde_json::from_str(params.get()).map_err(ErrorBody::invalid_params)
}

/// A result as JSON.
pub(crate) fn written(result: &impl Serialize) -> Result<Box<RawValue>, ErrorBody> {
    serde_json::value::to_raw_value(result).map_err(ErrorBody::internal)
}

/// The line of a response.
pub(crate) fn response_line(id: Option<&RpcId>, answer: &Result<Box<RawValue>, ErrorBody>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Response<'a> {
        id: &'a RpcId,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a RawValue>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<&'a ErrorBody>,
    }
    let id = id.unwrap_or(&NO_ID);
    let (result, error) = match answer {
        Ok(result) => (Some(&**result), None),
        Err(error) => (None, Some(error)),
    };
    line(&Response { id, result, error })
}

/// The line of a notification.
pub(crate) fn notification_line(method: &str, params: &impl Serialize) -> Vec<u8> {
    #[derive(Serialize)]
    struct Notification<'a, P> {
        method: &'a str,
        params: P,
    }
    line(&Notification { method, params })
}

fn line(message: &impl Serialize) -> Vec<u8> {
    // Every type that is written here has strings for keys, so that writing it does not fail.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Bytes in base64, as every chunk is written.
pub(crate) mod base64_bytes {
    use std::fmt;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        struct Base64;
        impl serde::de::Visitor<'_> for Base64 {
            type Value = Vec<u8>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("base64")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<u8>, E> {
                STANDARD.decode(text).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Base64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_request_a_notification_or_a_response() {
        let read = |text: &str| read_message(text.as_bytes());
        assert!(matches!(read(r#"{"id":1,"method":"a"}"#), Ok(Incoming::Request { .. })));
        assert!(matches!(read(r#"{"id":"x","method":"a","params":{}}"#), Ok(Incoming::Request { .. })));
        assert!(matches!(read(r#"{"method":"a"}"#), Ok(Incoming::Notification { .. })));
        assert!(matches!(read(r#"{"id":1,"result":{}}"#), Ok(Incoming::Response)));
        assert!(matches!(read(r#"{"id":1,"error":{"code":1,"message":"no"}}"#), Ok(Incoming::Response)));
        for bad in ["", "[]", "{}", "1", r#"{"id":null,"method":"a"}"#, r#"{"id":1.5,"method":"a"}"#, "\u{feff}{}"] {
            read(bad).unwrap_err();
        }
        // The order of an object's members makes no message of a list, nor parameters.
        read(r#"[6,"a",{}]"#).unwrap_err();
        let params = RawValue::from_string(String::from("[1]")).unwrap();
        assert_eq!(read_params::<(u8,)>(&params).unwrap_err().code, -32602);
        let twice = r#"{"id":1,"id":2,"method":"a"}"#;
        assert_eq!(read(twice).unwrap_err().code, -32700);
    }

    #[test]
    fn an_error_without_an_id_has_one_that_codex_reads() {
        let line = response_line(None, &Err(ErrorBody::parse("x")));
        assert_eq!(String::from_utf8(line).unwrap(), "{\"id\":-1,\"error\":{\"code\":-32700,\"message\":\"x\"}}\n");
    }

    proptest::proptest! {
        #[test]
        fn no_line_panics(line in proptest::collection::vec(proptest::num::u8::ANY, 0..200)) {
            drop(read_message(&line));
        }

        #[test]
        fn no_text_panics(text in r#"[{}\[\]":,0-9a-z\\ -]{0,80}"#) {
            drop(read_message(text.as_bytes()));
        }
    }
}
