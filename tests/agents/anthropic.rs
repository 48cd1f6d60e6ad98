//! A stand-in for Anthropic's model: it calls tools as a test has written down, one after the other, whatever they
//! answer, and keeps what they answered.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};

/// A model with a script. Its threads end with the test's process.
pub(super) struct Model {
    pub(super) address: SocketAddr,
    results: Arc<Mutex<Vec<String>>>,
}

/// How the model is told of the tools of a script.
#[derive(Clone, Copy)]
enum Offered {
    Listed,
    Searched,
}

impl Model {
    /// Starts it on loopback. The script names tools and what they are called with.
    pub(super) fn start(script: Vec<(&'static str, Value)>) -> Self {
        Self::with(script, Offered::Listed)
    }

    /// The same, for tools that Claude Code names only when they are searched for, such as those of MCP servers.
    pub(super) fn deferred(script: Vec<(&'static str, Value)>) -> Self {
        Self::with(script, Offered::Searched)
    }

    fn with(script: Vec<(&'static str, Value)>, offered: Offered) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let results = Arc::new(Mutex::new(Vec::new()));
        let (script, kept) = (Arc::new(script), Arc::clone(&results));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, kept) = (Arc::clone(&script), Arc::clone(&kept));
                std::thread::spawn(move || serve(stream, &script, offered, &kept));
            }
        });
        Self { address, results }
    }

    /// What the tools have answered so far, in the order of the script.
    pub(super) fn results(&self) -> Vec<String> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Serves one connection, request by request.
fn serve(stream: TcpStream, script: &[(&str, Value)], offered: Offered, results: &Mutex<Vec<String>>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first).ok()? == 0 {
            return None;
        }
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let line = line.trim_end().to_ascii_lowercase();
            if line.is_empty() {
                break;
            }
            if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let (kind, answer) = respond(&first, &body, script, offered, results);
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", answer.len());
        let is_head = first.starts_with("HEAD ");
        stream.write_all(head.as_bytes()).ok()?;
        stream.write_all(if is_head { b"" } else { answer.as_bytes() }).ok()?;
    }
}

fn respond(
    first: &str,
    body: &[u8],
    script: &[(&str, Value)],
    offered: Offered,
    results: &Mutex<Vec<String>>,
) -> (&'static str, String) {
    let request: Value = serde_json::from_slice(body).unwrap_or_default();
    if first.contains("count_tokens") {
        return ("application/json", json!({ "input_tokens": 1 }).to_string());
    }
    if !first.starts_with("POST /v1/messages") {
        return ("application/json", String::from("{}"));
    }
    let tools: Vec<&str> =
        request["tools"].as_array().into_iter().flatten().filter_map(|tool| tool["name"].as_str()).collect();
    let answered: Vec<String> = tool_results(&request);
    // Requests of other kinds, such as for a title, have no tools.
    let next = script.get(answered.len()).filter(|(name, _)| match offered {
        Offered::Listed => tools.contains(name),
        Offered::Searched => !tools.is_empty(),
    });
    if !tools.is_empty() {
        let mut kept = results.lock().unwrap_or_else(PoisonError::into_inner);
        if answered.len() > kept.len() {
            *kept = answered.clone();
        }
    }
    let (block, stop) = match next {
        Some((name, input)) => {
            let id = format!("toolu_{}", answered.len());
            (json!({ "type": "tool_use", "id": id, "name": name, "input": input }), "tool_use")
        }
        None => (json!({ "type": "text", "text": "That was all." }), "end_turn"),
    };
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": request["model"], "content": [block],
        "stop_reason": stop, "stop_sequence": null, "usage": { "input_tokens": 1, "output_tokens": 1 },
    });
    match request["stream"].as_bool() {
        Some(true) => ("text/event-stream", events(&message, &block, stop)),
        _ => ("application/json", message.to_string()),
    }
}

/// What the tools have answered, as text.
fn tool_results(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().into_iter().flatten();
    let blocks = messages.flat_map(|message| message["content"].as_array().into_iter().flatten());
    let results = blocks.filter(|block| block["type"] == "tool_result");
    let text = |result: &Value| match &result["content"] {
        Value::String(text) => text.clone(),
        other => other.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect(),
    };
    results.map(text).collect()
}

/// A message as a stream of events.
fn events(message: &Value, block: &Value, stop: &str) -> String {
    let (start, delta) = if block["type"] == "tool_use" {
        let mut start = block.clone();
        start["input"] = json!({});
        (start, json!({ "type": "input_json_delta", "partial_json": block["input"].to_string() }))
    } else {
        (json!({ "type": "text", "text": "" }), json!({ "type": "text_delta", "text": block["text"] }))
    };
    let mut begun = message.clone();
    (begun["content"], begun["stop_reason"]) = (json!([]), Value::Null);
    let all = [
        ("message_start", json!({ "message": begun })),
        ("content_block_start", json!({ "index": 0, "content_block": start })),
        ("content_block_delta", json!({ "index": 0, "delta": delta })),
        ("content_block_stop", json!({ "index": 0 })),
        (
            "message_delta",
            json!({ "delta": { "stop_reason": stop, "stop_sequence": null }, "usage": { "output_tokens": 1 } }),
        ),
        ("message_stop", json!({})),
    ];
    let event = |(name, mut data): (&str, Value)| {
        data["type"] = json!(name);
        format!("event: {name}\ndata: {data}\n\n")
    };
    all.into_iter().map(event).collect()
}
