//! A client of the real program: lines to it, lines from it, and none of them waited for without end.

use std::io::{BufRead as _, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};

/// Longer than anything takes, also on a machine that does much else.
const LIMIT: Duration = Duration::from_secs(60);

/// One connection.
pub(crate) struct Talk {
    to: Option<Box<dyn Write + Send>>,
    socket: Option<UnixStream>,
    lines: Receiver<String>,
    /// What came while something else was waited for.
    aside: Vec<Value>,
    next_id: i64,
    /// The server, where it serves this connection alone.
    pub(crate) server: Option<Child>,
}

impl Talk {
    /// A server of its own, on its standard input and output.
    pub(crate) fn with(command: &mut Command) -> Self {
        let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to, from) = (server.stdin.take().unwrap(), server.stdout.take().unwrap());
        let mut talk = Self::over(to, from);
        talk.server = Some(server);
        talk
    }

    /// A server on a socket.
    pub(crate) fn at(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).unwrap();
        let socket = stream.try_clone().unwrap();
        let mut talk = Self::over(stream.try_clone().unwrap(), stream);
        talk.socket = Some(socket);
        talk
    }

    fn over(to: impl Write + Send + 'static, from: impl Read + Send + 'static) -> Self {
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines() {
                let Ok(line) = line else { return };
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { to: Some(Box::new(to)), socket: None, lines, aside: Vec::new(), next_id: 1, server: None }
    }

    /// Says who it is.
    pub(crate) fn initialize(mut self, answers: bool) -> Self {
        let params = json!({
            "protocol_version": 1, "client": {"name": "test"}, "capabilities": {"answers": answers},
        });
        self.call("initialize", &params);
        self
    }

    /// Types a line.
    pub(crate) fn line(&mut self, line: &str) {
        self.to.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    /// The next line; none if there are no more.
    pub(crate) fn hear(&mut self) -> Option<Value> {
        match self.lines.recv_timeout(LIMIT) {
            Ok(line) => Some(serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no line came"),
        }
    }

    /// Sends a request and returns its id.
    pub(crate) fn send(&mut self, method: &str, params: &Value) -> Value {
        let id = json!(self.next_id);
        self.next_id += 1;
        self.line(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string());
        id
    }

    /// The response with this id: its result, or its error.
    pub(crate) fn response(&mut self, id: &Value) -> Result<Value, Value> {
        let is_it = |message: &Value| message.get("method").is_none() && message.get("id") == Some(id);
        let message = match self.aside.iter().position(is_it) {
            Some(index) => self.aside.remove(index),
            None => loop {
                let message = self.hear().unwrap_or_else(|| panic!("the server went away before the response {id}"));
                if is_it(&message) {
                    break message;
                }
                self.aside.push(message);
            },
        };
        match message.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(message.get("result").unwrap().clone()),
        }
    }

    /// Sends a request and waits for its result.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        self.response(&id).unwrap_or_else(|error| panic!("{method} {params}: {error}"))
    }

    /// Sends a request and waits for its error.
    pub(crate) fn refused(&mut self, method: &str, params: &Value) -> Value {
        let id = self.send(method, params);
        self.response(&id).map_or_else(|error| error, |result| panic!("{method} {params}: {result}"))
    }

    /// The next request or notification of the server with this name.
    pub(crate) fn told(&mut self, method: &str) -> Value {
        let is_it = |message: &Value| message.get("method").is_some_and(|own| own == method);
        if let Some(index) = self.aside.iter().position(is_it) {
            return self.aside.remove(index);
        }
        loop {
            let message = self.hear().unwrap_or_else(|| panic!("the server went away before {method}"));
            if is_it(&message) {
                return message;
            }
            self.aside.push(message);
        }
    }

    /// The next request or notification of the server.
    pub(crate) fn told_any(&mut self) -> Value {
        let is_told = |message: &Value| message.get("method").is_some();
        if let Some(index) = self.aside.iter().position(is_told) {
            return self.aside.remove(index);
        }
        loop {
            let message = self.hear().unwrap_or_else(|| panic!("the server went away"));
            if is_told(&message) {
                return message;
            }
            self.aside.push(message);
        }
    }

    /// Answers a request of the server.
    pub(crate) fn answer(&mut self, question: &Value, result: &Value) {
        self.line(&json!({"jsonrpc": "2.0", "id": question.get("id"), "result": result}).to_string());
    }

    /// Closes this side.
    pub(crate) fn close(&mut self) {
        self.to = None;
        if let Some(socket) = self.socket.take() {
            socket.shutdown(std::net::Shutdown::Both).ok();
        }
    }

    /// Closes this side and waits for the end of the server.
    pub(crate) fn end(mut self) -> std::process::ExitStatus {
        self.close();
        ended(&mut self.server.take().unwrap())
    }
}

/// Waits for the end of a process, but not for ever.
pub(crate) fn ended(process: &mut Child) -> std::process::ExitStatus {
    let begun = std::time::Instant::now();
    loop {
        if let Some(status) = process.try_wait().unwrap() {
            return status;
        }
        if begun.elapsed() > LIMIT {
            process.kill().ok();
            panic!("the server does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.close();
        if let Some(mut server) = self.server.take() {
            server.kill().ok();
            server.wait().ok();
        }
    }
}
