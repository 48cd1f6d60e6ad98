//! A stand-in for Google's model: it calls tools as a test has written down, one after the other, whatever they answer, and
//! keeps what they answered.

use std::io::{BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::openai::request;

/// A model with a script. Its threads end with the test's process.
pub(super) struct Model {
    pub(super) address: SocketAddr,
    results: Arc<Mutex<Vec<String>>>,
}

impl Model {
    /// Starts it on loopback. The script names tools and what they are called with.
    pub(super) fn start(script: Vec<(&'static str, Value)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let results = Arc::new(Mutex::new(Vec::new()));
        let (script, kept) = (Arc::new(script), Arc::clone(&results));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (script, kept) = (Arc::clone(&script), Arc::clone(&kept));
                std::thread::spawn(move || serve(stream, &script, &kept));
            }
        });
        Self { address, results }
    }

    /// What the tools have answered so far, in the order of the script.
    pub(super) fn results(&self) -> Vec<String> {
        self.results.lock().unwrap().clone()
    }
}

/// Answers the requests of one connection.
fn serve(stream: TcpStream, script: &[(&str, Value)], results: &Mutex<Vec<String>>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some((line, body)) = request(&mut reader) {
        let answer =
            if line.contains("countTokens") { json!({ "totalTokens": 1 }) } else { respond(&body, script, results) };
        let (kind, answer) = if line.contains("alt=sse") {
            ("text/event-stream", format!("data: {answer}\r\n\r\n"))
        } else {
            ("application/json", answer.to_string())
        };
        let length = answer.len();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
        if stream.write_all(format!("{head}{answer}").as_bytes()).is_err() {
            return;
        }
    }
}

fn respond(request: &Value, script: &[(&str, Value)], results: &Mutex<Vec<String>>) -> Value {
    let contents = request["contents"].as_array().into_iter().flatten();
    let parts = contents.flat_map(|content| content["parts"].as_array().into_iter().flatten());
    let answered: Vec<String> = parts.filter_map(|part| said(part.get("functionResponse")?)).collect();
    // Requests of other kinds, such as for a title, have no tools.
    let has_tools = request["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    let mut kept = results.lock().unwrap();
    let next = script.get(answered.len()).filter(|_| has_tools);
    if has_tools && answered.len() > kept.len() {
        *kept = answered;
    }
    let part = match next {
        Some((name, arguments)) => json!({ "functionCall": { "name": name, "args": arguments } }),
        None => json!({ "text": "That was all." }),
    };
    json!({
        "candidates": [{ "content": { "role": "model", "parts": [part] }, "finishReason": "STOP", "index": 0 }],
        "usageMetadata": { "promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2 },
    })
}

/// What a tool answered, as text.
fn said(answer: &Value) -> Option<String> {
    let answer = &answer["response"];
    let text = answer["output"].as_str().or_else(|| answer["error"].as_str());
    text.map(String::from).or_else(|| Some(answer.to_string()))
}
