//! Any line of an MCP client is a message or refused; any arguments of a tool are read or refused; and no answer to an
//! elicitation is a yes unless it accepts and names a decision.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stockade_mcp::{Answer, Tool, read_message};
use stockade_protocol::{ApprovalRequest, ApprovalSubject, ReviewDecision};

fuzz_target!(|data: &[u8]| {
    if let Ok(message) = read_message(data) {
        // What was read can be written, and is one line.
        let written = serde_json::to_vec(&message).unwrap();
        assert!(!written.contains(&b'\n'));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    for name in ["run", "explain", "apply_patch", "request_permissions", "read_output"] {
        let _ = Tool::read(name, text);
    }
    let Ok(value) = serde_json::from_str::<serde_json::Value>(text) else { return };
    let Some(answer) = Answer::read(value.clone()) else { return };
    let decision = answer.decision(&request());
    let is_yes = matches!(decision, ReviewDecision::Approved | ReviewDecision::ApprovedForSession);
    let named = value["content"]["decision"].as_str();
    let says_yes = value["action"] == "accept" && matches!(named, Some("allow-once" | "allow-for-session"));
    assert_eq!(is_yes, says_yes, "{text}");
});

fn request() -> ApprovalRequest {
    let network = serde_json::json!({"host": "example.com", "protocol": "https", "port": 443});
    let network = serde_json::from_value(network).unwrap();
    ApprovalRequest::new("r".parse().unwrap(), "t".parse().unwrap(), ApprovalSubject::Network(network))
}
