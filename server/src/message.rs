//! JSON-RPC 2.0: requests, responses and notifications as lines.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::wire::{ErrorKind, RpcError, RpcId, ServerNotification};

/// A message from a client.
#[derive(Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A request.
    Request {
        /// Its id.
        id: RpcId,
        /// The method.
        method: String,
        /// The parameters, as JSON; `{}` if there were none.
        params: String,
    },
    /// The response to a request of the server.
    Response {
        /// The id of the server's request.
        id: RpcId,
        /// The result, as JSON, or the error.
        answer: Result<String, RpcError>,
    },
    /// A notification.
    Notification {
        /// The method.
        method: String,
        /// The parameters, as JSON.
        params: String,
    },
}

/// An invalid line, with its id if it can be determined.
#[derive(Debug, PartialEq, Eq)]
pub struct BadMessage {
    /// The id of the intended request.
    pub id: Option<RpcId>,
    /// What is wrong.
    pub error: RpcError,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(default)]
    id: Option<RpcId>,
    #[serde(default, borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
    #[serde(default, borrow)]
    result: Option<&'a RawValue>,
    #[serde(default)]
    error: Option<RpcError>,
}

/// The members that determine the type of a message. A `null` id differs from a missing one.
#[derive(Default)]
struct Members(HashSet<String>);

/// Reads one line.
pub fn read_message(line: &[u8]) -> Result<Incoming, BadMessage> {
    let bad = |kind, message: String| BadMessage { id: None, error: RpcError::new(kind, message) };
    let text = std::str::from_utf8(line)
        .map_err(|error| bad(ErrorKind::Parse, format!("the line is no UTF-8 from byte {} on", error.valid_up_to())))?;
    if text.trim_start().starts_with('[') {
        return Err(bad(ErrorKind::InvalidRequest, String::from("batches are not supported: send one object a line")));
    }
    let members = members(text)?;
    if !text.trim_start().starts_with('{') {
        return Err(bad(ErrorKind::InvalidRequest, String::from("a message is a JSON object")));
    }
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| BadMessage {
        id: id_of(text),
        error: RpcError::new(ErrorKind::InvalidRequest, format!("this is no JSON-RPC 2.0 message: {error}")),
    })?;
    sorted(envelope, &members)
        .map_err(|message| BadMessage { id: id_of(text), error: RpcError::new(ErrorKind::InvalidRequest, message) })
}

fn sorted(envelope: Envelope<'_>, members: &Members) -> Result<Incoming, &'static str> {
    let has = |name: &str| members.0.contains(name);
    if envelope.jsonrpc != "2.0" {
        return Err("`jsonrpc` must be \"2.0\"");
    }
    if has("id") && envelope.id.is_none() {
        return Err("`id` must be a string or an integer, not null");
    }
    let json = |raw: Option<&RawValue>, otherwise: &str| raw.map_or(otherwise, RawValue::get).to_owned();
    match (envelope.id, envelope.method) {
        (_, Some(_)) if has("result") || has("error") => Err("a message has either `method`, or `result` or `error`"),
        (Some(id), Some(method)) => {
            Ok(Incoming::Request { id, method: method.into_owned(), params: json(envelope.params, "{}") })
        }
        (None, Some(method)) => {
            Ok(Incoming::Notification { method: method.into_owned(), params: json(envelope.params, "{}") })
        }
        (_, None) if has("params") => Err("`method` is missing"),
        (Some(id), None) => match (envelope.error, has("result")) {
            (Some(_), true) => Err("a response has either `result` or `error`"),
            (Some(error), false) => Ok(Incoming::Response { id, answer: Err(error) }),
            (None, true) => Ok(Incoming::Response { id, answer: Ok(json(envelope.result, "null")) }),
            (None, false) => Err("`method` is missing"),
        },
        (None, None) => Err("`method` is missing"),
    }
}

fn id_of(text: &str) -> Option<RpcId> {
    #[derive(Deserialize)]
    struct Id {
        id: RpcId,
    }
    serde_json::from_str::<Id>(text).ok().map(|found| found.id)
}

/// The names of the members. Refuses invalid JSON, deep nesting, and duplicate keys in any object: two parsers may
/// read those as different messages.
fn members(text: &str) -> Result<Members, BadMessage> {
    let mut members = Members::default();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let walked = Walk { members: Some(&mut members) }.deserialize(&mut deserializer);
    match walked.and_then(|()| deserializer.end()) {
        Ok(()) => Ok(members),
        Err(error) if error.is_data() => Err(BadMessage {
            id: None,
            error: RpcError::new(ErrorKind::InvalidRequest, format!("this can be read in two ways: {error}")),
        }),
        Err(error) => Err(BadMessage {
            id: None,
            error: RpcError::new(ErrorKind::Parse, format!("the line is no JSON: {error}")),
        }),
    }
}

struct Walk<'m> {
    members: Option<&'m mut Members>,
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Walk { members: None })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut keys: HashSet<String> = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if keys.contains(&key) {
                let shown: String = key.chars().take(80).collect();
                return Err(serde::de::Error::custom(format_args!("the key `{}` stands twice", shown.escape_debug())));
            }
            keys.insert(key);
            map.next_value_seed(Walk { members: None })?;
        }
        if let Some(members) = self.members {
            members.0 = keys;
        }
        Ok(())
    }
}

/// Reads parameters. The error names the field that is wrong.
pub(crate) fn read_params<T: DeserializeOwned>(json: &str) -> Result<T, RpcError> {
    // A list would be read as the fields in order.
    if !json.trim_start().starts_with('{') {
        return Err(RpcError::new(ErrorKind::InvalidParams, "`params` must be an object with named fields"));
    }
    stockade_protocol::parse(json).map_err(|error| {
        let field = if error.field.is_empty() { String::from("params") } else { format!("params.{}", error.field) };
        RpcError::new(ErrorKind::InvalidParams, format!("`{}`: {}", field.escape_debug(), error.source))
    })
}

/// Writes a result.
pub(crate) fn write_result<T: Serialize>(result: &T) -> Result<String, RpcError> {
    serde_json::to_string(result)
        .map_err(|error| RpcError::new(ErrorKind::Internal, format!("the result can't be written: {error}")))
}

/// The error for an unknown method.
pub(crate) fn unknown_method(name: &str) -> RpcError {
    let shown: String = name.chars().take(80).collect();
    let message = format!("there is no method `{}`: `initialize` lists the methods", shown.escape_debug());
    RpcError::new(ErrorKind::UnknownMethod, message)
}

/// A notification as a line.
pub(crate) fn notification_line(notification: &ServerNotification) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    struct Form<'a> {
        jsonrpc: &'static str,
        #[serde(flatten)]
        notification: &'a ServerNotification,
    }
    line(&Form { jsonrpc: "2.0", notification })
}

/// A request as a line.
pub fn request_line<T: Serialize>(id: &RpcId, method: &str, params: &T) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    struct Form<'a, T> {
        jsonrpc: &'static str,
        id: &'a RpcId,
        method: &'a str,
        params: &'a T,
    }
    line(&Form { jsonrpc: "2.0", id, method, params })
}

/// A response as a line. The result is JSON already. Without an id it answers an unreadable line.
pub fn response_line(id: Option<&RpcId>, answer: &Result<String, RpcError>) -> Vec<u8> {
    let id = serde_json::to_string(&id).unwrap_or_else(|_| String::from("null"));
    let body = match answer {
        Ok(result) => format!("\"result\":{result}"),
        Err(error) => match serde_json::to_string(error) {
            Ok(error) => format!("\"error\":{error}"),
            Err(_) => format!("\"error\":{{\"code\":{},\"message\":\"internal\"}}", ErrorKind::Internal.code()),
        },
    };
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},{body}}}\n").into_bytes()
}

fn line<T: Serialize>(message: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = serde_json::to_vec(message)?;
    bytes.push(b'\n');
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(line: &str) -> (Option<RpcId>, ErrorKind, String) {
        let bad = read_message(line.as_bytes()).unwrap_err();
        (bad.id, bad.error.kind().unwrap(), bad.error.message)
    }

    #[test]
    fn messages_are_told_apart() {
        let read = |line: &str| read_message(line.as_bytes()).unwrap();
        let id = RpcId::Number(1);
        let request = Incoming::Request { id: id.clone(), method: "a".into(), params: "{\"b\":1}".into() };
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"b":1}}"#), request);
        let response = Incoming::Response { id: id.clone(), answer: Ok("null".into()) };
        assert_eq!(read(r#"{"jsonrpc":"2.0","id":1,"result":null}"#), response);
        assert!(matches!(
            read(r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#),
            Incoming::Response { answer: Err(error), .. } if error.message == "no"
        ));
        let notification = Incoming::Notification { method: "a".into(), params: "{}".into() };
        assert_eq!(read(r#"{"jsonrpc":"2.0","method":"a"}"#), notification);
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_kind() {
        let parse = |line: &str| assert_eq!(refused(line).1, ErrorKind::Parse, "{line}");
        parse("{");
        parse("nothing");
        parse(r#"{"jsonrpc":"2.0"} {"#);
        parse(&"{\"a\":".repeat(200));
        let invalid = |line: &str, word: &str| {
            let (id, kind, message) = refused(line);
            assert_eq!(kind, ErrorKind::InvalidRequest, "{line}");
            assert!(message.contains(word), "{line}: {message}");
            id
        };
        invalid("[]", "batches");
        invalid("1", "object");
        invalid(r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#, "not null");
        assert_eq!(invalid(r#"{"jsonrpc":"1.0","id":7,"method":"a"}"#, "2.0"), Some(RpcId::Number(7)));
        assert_eq!(invalid(r#"{"id":7,"method":"a"}"#, "jsonrpc"), Some(RpcId::Number(7)));
        invalid(r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#, "integer");
        invalid(r#"{"jsonrpc":"2.0","id":1,"method":"a","parms":{}}"#, "parms");
        invalid(r#"{"jsonrpc":"2.0","id":1,"params":{}}"#, "`method` is missing");
        invalid(r#"{"jsonrpc":"2.0","id":1,"method":"a","result":1}"#, "either");
        invalid(r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#, "`method` stands twice");
        invalid(r#"{"jsonrpc":"2.0","id":1,"method":"a","params":{"x":{"y":1,"y":2}}}"#, "`y` stands twice");
        assert_eq!(read_message(b"{\"a\":\"\xff\"}").unwrap_err().error.kind(), Some(ErrorKind::Parse));
    }

    #[test]
    fn parameters_are_named_and_errors_name_the_field() {
        let read = |json: &str| read_params::<crate::wire::CommandRunParams>(json).unwrap_err().message;
        assert!(read("[]").contains("named fields"));
        assert_eq!(
            read(r#"{"session_id":"s","command":["a",1]}"#),
            "`params.command[1]`: invalid type: integer `1`, expected a string, or {\"hex\": …} for bytes that are not UTF-8"
        );
        assert!(read(r#"{"session_id":"s","command":["a"],"comand_id":"x"}"#).contains("unknown field `comand_id`"));
        // The keys of maps are names as well.
        let of = |rest: &str| read(&format!(r#"{{"session_id":"s","command":["a"],{rest}}}"#));
        let told = of(r#""rlimits":{"nofile":{"soft":-1}}"#);
        assert!(told.starts_with("`params.rlimits.nofile.soft`: "), "{told}");
        let told = of(r#""rlimits":{"open_files":{"soft":1}}"#);
        assert!(told.starts_with("`params.rlimits.open_files`: ") && told.contains("`nofile`"), "{told}");
        let told = of(r#""environment":{"PATH":1}"#);
        assert!(told.starts_with("`params.environment.PATH`: "), "{told}");
        let told = of(r#""umask":512"#);
        assert!(told.starts_with("`params.umask`: "), "{told}");
    }
}
