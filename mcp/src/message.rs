//! A line of a client, read as a message of MCP.
//!
//! The envelope is read by the server's own parser first, which refuses ambiguous JSON (a name twice, ids that are
//! neither numbers nor short strings); what is inside is rmcp's to read.

use rmcp::RoleServer;
use rmcp::model::{ErrorData, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use stockade_server::wire::RpcId;

/// A message of a client.
pub type ClientMessage = RxJsonRpcMessage<RoleServer>;

/// A line that is no message.
#[derive(Debug)]
pub struct UnreadMessage {
    id: Option<RequestId>,
    error: ErrorData,
}

impl UnreadMessage {
    pub(crate) fn new(id: Option<RequestId>, error: ErrorData) -> Self {
        Self { id, error }
    }

    /// What the client is told.
    pub(crate) fn response(self) -> TxJsonRpcMessage<RoleServer> {
        JsonRpcMessage::error(self.error, self.id)
    }
}

/// Reads a line.
pub fn read_message(line: &[u8]) -> Result<ClientMessage, UnreadMessage> {
    let id = match stockade_server::read_message(line) {
        Ok(stockade_server::Incoming::Request { id, .. }) => Some(request_id(&id)),
        Ok(_) => None,
        Err(bad) => {
            // The error of a client has data of any form, and is never a yes.
            if let Ok(message @ JsonRpcMessage::Error(_)) = serde_json::from_slice(line) {
                return Ok(message);
            }
            let error = match bad.error.kind() {
                Some(stockade_server::wire::ErrorKind::Parse) => ErrorData::parse_error(bad.error.message, None),
                _ => ErrorData::invalid_request(bad.error.message, None),
            };
            return Err(UnreadMessage::new(bad.id.as_ref().map(request_id), error));
        }
    };
    let message = serde_json::from_slice(line)
        .map_err(|error| UnreadMessage::new(id.clone(), ErrorData::invalid_request(error.to_string(), None)))?;
    match (&message, &id) {
        (JsonRpcMessage::Request(request), Some(id)) if request.id == *id => Ok(message),
        (JsonRpcMessage::Response(_) | JsonRpcMessage::Notification(_) | JsonRpcMessage::Error(_), None) => Ok(message),
        _ => Err(UnreadMessage::new(id, ErrorData::invalid_request("this is no message of MCP", None))),
    }
}

fn request_id(id: &RpcId) -> RequestId {
    match id {
        RpcId::Number(number) => RequestId::Number(*number),
        RpcId::Text(text) => RequestId::String(text.as_str().into()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rmcp::model::ClientRequest;

    use super::*;

    #[test]
    fn requests_responses_and_notifications_are_read() {
        let call = br#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"run","arguments":{"command":"true"}}}"#;
        let JsonRpcMessage::Request(request) = read_message(call).unwrap() else { panic!() };
        assert!(matches!(request.request, ClientRequest::CallToolRequest(_)));
        let elicited = br#"{"jsonrpc":"2.0","id":0,"result":{"action":"accept","content":{"decision":"allow-once"}}}"#;
        assert!(matches!(read_message(elicited).unwrap(), JsonRpcMessage::Response(_)));
        let failed = br#"{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"no","data":{"any":["form"]}}}"#;
        assert!(matches!(read_message(failed).unwrap(), JsonRpcMessage::Error(_)));
        let cancelled = br#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        assert!(matches!(read_message(cancelled).unwrap(), JsonRpcMessage::Notification(_)));
    }

    #[test]
    fn what_is_ambiguous_or_malformed_is_refused_with_its_id() {
        for (line, id) in [
            (&b"{"[..], None),
            (b"[]", None),
            (br#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, Some(1)),
            (br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, None),
            (br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":1,"a":2}}"#, None),
            (br#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, None),
        ] {
            let unread = read_message(line).unwrap_err();
            let shown = String::from_utf8_lossy(line);
            if let Some(id) = id {
                assert_eq!(unread.id, Some(RequestId::Number(id)), "{shown}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in any::<Vec<u8>>()) {
            let _ = read_message(&bytes);
        }
    }
}
