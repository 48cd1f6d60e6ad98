//! A stand-in for the model behind codex: an HTTP server on loopback that answers each request with the next step.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// What the model does next.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Calls the tool that runs a shell line, with more arguments.
    Run(&'static str, Value),
    /// Writes to the command that the last answer says is still running.
    Type(&'static str),
    /// Calls a tool of a namespace, as those of MCP servers are.
    Call(&'static str, &'static str, Value),
    /// Ends the turn.
    Say(&'static str),
}

/// The model.
pub(crate) struct Model {
    pub(crate) port: u16,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    steps: VecDeque<Step>,
    /// What tools said, in order.
    outputs: Vec<String>,
    calls: usize,
}

impl Model {
    pub(crate) fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Seen { steps: steps.into_iter().collect(), ..Seen::default() }));
        let shared = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (Ok(stream), shared) = (stream, Arc::clone(&shared)) else { return };
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { port, seen }
    }

    /// What the tools said to the model, in order.
    pub(crate) fn outputs(&self) -> Vec<String> {
        self.seen.lock().unwrap().outputs.clone()
    }

    /// What codex has to be told of the model.
    pub(crate) fn settings(&self) -> String {
        format!(
            "model = \"stand-in\"\nmodel_provider = \"stand-in\"\n\
             [model_providers.stand-in]\nname = \"stand-in\"\nbase_url = \"http://127.0.0.1:{}/v1\"\n\
             wire_api = \"responses\"\nenv_key = \"STAND_IN_KEY\"\nrequest_max_retries = 0\nstream_max_retries = 0\n",
            self.port
        )
    }
}

/// Answers the requests of one connection.
fn serve(stream: TcpStream, seen: &Mutex<Seen>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some((line, body)) = request(&mut reader) {
        let (kind, answer) = if line.starts_with("POST") && line.contains("/responses") {
            ("text/event-stream", respond(&mut seen.lock().unwrap(), &body))
        } else {
            ("application/json", json!({"object": "list", "data": []}).to_string())
        };
        let length = answer.len();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n");
        if stream.write_all(format!("{head}{answer}").as_bytes()).is_err() {
            return;
        }
    }
}

/// The first line and the body of a request; none at the end of the connection.
pub(super) fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let mut first = String::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if first.is_empty() {
            line.clone_into(&mut first);
        } else if line.is_empty() {
            break;
        } else if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((first, serde_json::from_slice(&body).unwrap_or_default()))
}

/// The next step as the events of a response.
fn respond(seen: &mut Seen, request: &Value) -> String {
    let items = request["input"].as_array().cloned().unwrap_or_default();
    let is_output = |item: &&Value| item["type"].as_str().is_some_and(|kind| kind.ends_with("_call_output"));
    let text = |item: &Value| item["output"].as_str().map_or_else(|| item["output"].to_string(), String::from);
    seen.outputs = items.iter().filter(is_output).map(text).collect();
    seen.calls += 1;
    let step = seen.steps.pop_front().unwrap_or(Step::Say("there is no more to do"));
    let number = seen.calls;
    let call = |name: &str, arguments: Value| {
        json!({"type": "function_call", "id": format!("fc_{number}"), "call_id": format!("call_{number}"),
            "name": name, "arguments": arguments.to_string()})
    };
    let item = match step {
        Step::Run(line, more) => {
            let mut arguments = json!({"cmd": line});
            for (name, value) in more.as_object().into_iter().flatten() {
                arguments[name] = value.clone();
            }
            call("exec_command", arguments)
        }
        Step::Type(keys) => {
            let last = seen.outputs.last().cloned().unwrap_or_default();
            let (_, behind) = last.split_once("session ID ").unwrap_or_else(|| panic!("nothing runs: {last}"));
            let digits: String = behind.chars().take_while(char::is_ascii_digit).collect();
            let session: u64 = digits.parse().unwrap();
            call("write_stdin", json!({"session_id": session, "chars": keys, "yield_time_ms": 2000}))
        }
        Step::Call(namespace, name, arguments) => {
            let mut call = call(name, arguments);
            call["namespace"] = json!(namespace);
            call
        }
        Step::Say(text) => json!({"type": "message", "id": format!("msg_{number}"), "role": "assistant",
            "content": [{"type": "output_text", "text": text}]}),
    };
    let usage = json!({"input_tokens": 1, "input_tokens_details": null, "output_tokens": 1,
        "output_tokens_details": null, "total_tokens": 2});
    let id = format!("resp_{number}");
    [
        json!({"type": "response.created", "response": {"id": id}}),
        json!({"type": "response.output_item.done", "item": item, "output_index": 0}),
        json!({"type": "response.completed", "response": {"id": id, "usage": usage}}),
    ]
    .iter()
    .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
    .collect()
}
