//! JSON-RPC 2.0: requests, responses and notifications as lines.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::wire::{ErrorKind, RpcError, RpcId, ServerNotification};

/// Reads parameters. The error names the field that is wrong.
pub(crate) fn read_params<T: DeserializeOwned>(json: &str) -> Result<T, RpcError> {
    // A list would be read as the fields in their order.
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

/// The error for a method that there is not.
pub(crate) fn unknown_method(name: &str) -> RpcError {
    let shown: String = name.chars().take(80).collect();
    let message = format!("there is no method `{}`: `initialize` lists the methods", shown.escape_debug());
    RpcError::new(ErrorKind::UnknownMethod, message)
}

/// A notification as a line.
pub(crate) fn notification_line(notification: &ServerNotification) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    struct Line<'a> {
        jsonrpc: &'static str,
        #[serde(flatten)]
        notification: &'a ServerNotification,
    }
    line(&Line { jsonrpc: "2.0", notification })
}

/// A request of the server as a line.
pub(crate) fn request_line<T: Serialize>(id: &RpcId, method: &str, params: &T) -> Result<Vec<u8>, serde_json::Error> {
    #[derive(Serialize)]
    struct Line<'a, T> {
        jsonrpc: &'static str,
        id: &'a RpcId,
        method: &'a str,
        params: &'a T,
    }
    line(&Line { jsonrpc: "2.0", id, method, params })
}

fn line<T: Serialize>(message: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut bytes = serde_json::to_vec(message)?;
    bytes.push(b'\n');
    Ok(bytes)
}
