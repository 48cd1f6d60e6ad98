//! The table of methods.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::OwnedSemaphorePermit;

use crate::client::Client;
use crate::environment::EnvironmentInfo;
use crate::explain::Explain;
use crate::files::Files;
use crate::message::{ErrorBody, read_params, written};
use crate::process::forms::StartResult;
use crate::process::{Processes, Starting};
use crate::session::Session;

/// What the client has said of itself.
const NOTHING: u8 = 0;
/// `initialize` was answered.
const ANSWERED: u8 = 1;
/// `initialized` came.
const INITIALIZED: u8 = 2;

/// What this server does for its client. Clones are the same.
#[derive(Clone)]
pub(crate) struct Methods {
    session: Session,
    processes: Processes,
    files: Files,
    stage: Arc<AtomicU8>,
}

/// What came of a request.
pub(crate) struct Called {
    pub(crate) answer: Result<Box<RawValue>, ErrorBody>,
    /// A process that starts once the client has its answer.
    pub(crate) starting: Option<Starting>,
    /// What a large answer takes of the room for such, until it is under way.
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InitializeParams {
    #[serde(rename = "clientName")]
    #[expect(dead_code, reason = "has to be there")]
    client_name: String,
    #[serde(default)]
    resume_session_id: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InitializeResult<'a> {
    session_id: &'a str,
    environment_info: EnvironmentInfo,
}

#[derive(Serialize)]
struct Status {
    status: &'static str,
}

#[derive(Serialize)]
struct Nothing {}

impl Methods {
    pub(crate) fn new(session: Session, client: Client, explain: Explain, program: PathBuf) -> Self {
        Self {
            processes: Processes::new(session.clone(), client, Arc::clone(&explain)),
            files: Files::new(session.clone(), explain, program),
            session,
            stage: Arc::new(AtomicU8::new(NOTHING)),
        }
    }

    /// The client has gone: everything ends.
    pub(crate) async fn end(&self) {
        self.session.close().await;
    }

    /// Takes a notification. One that is not known changes nothing.
    pub(crate) fn notified(&self, method: &str) {
        if method == "initialized" {
            self.stage.compare_exchange(ANSWERED, INITIALIZED, Ordering::AcqRel, Ordering::Acquire).ok();
        }
    }

    /// Carries out a request.
    pub(crate) async fn call(&self, method: &str, params: &RawValue) -> Called {
        if method == "process/start" {
            return match self.ready().and_then(|()| self.start(params)) {
                Ok((answer, starting)) => Called { answer: Ok(answer), starting: Some(starting), room: None },
                Err(error) => Called { answer: Err(error), starting: None, room: None },
            };
        }
        let room = if method.starts_with("fs/") && self.ready().is_ok() { self.files.room().await } else { None };
        Called { answer: self.answer(method, params).await, starting: None, room }
    }

    async fn answer(&self, method: &str, params: &RawValue) -> Result<Box<RawValue>, ErrorBody> {
        if method == "initialize" {
            return self.initialize(params);
        }
        match method {
            "environment/info" => {
                self.ready()?;
                written(&EnvironmentInfo::here(self.session.cwd()))
            }
            "environment/status" => {
                self.ready()?;
                written(&Status { status: "ready" })
            }
            "process/read" => {
                self.ready()?;
                written(&self.processes.read(read_params(params)?).await?)
            }
            "process/write" => {
                self.ready()?;
                written(&self.processes.write(read_params(params)?).await?)
            }
            "process/signal" => {
                self.ready()?;
                self.processes.signal(read_params(params)?).await;
                written(&Nothing {})
            }
            "process/terminate" => {
                self.ready()?;
                written(&self.processes.terminate(read_params(params)?).await)
            }
            _ if method.starts_with("fs/") => {
                self.ready()?;
                let called = self.files.call(method, params).await;
                called.unwrap_or_else(|| Err(ErrorBody::unknown_method(method)))
            }
            _ => Err(ErrorBody::unknown_method(method)),
        }
    }

    fn initialize(&self, params: &RawValue) -> Result<Box<RawValue>, ErrorBody> {
        let InitializeParams { resume_session_id, .. } = read_params(params)?;
        if let Some(id) = resume_session_id {
            let message = format!("unknown session id {}: a session ends with its connection", id.escape_debug());
            return Err(ErrorBody::invalid_request(message));
        }
        if self.stage.compare_exchange(NOTHING, ANSWERED, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return Err(ErrorBody::invalid_request("initialize may only be sent once per connection"));
        }
        let environment_info = EnvironmentInfo::here(self.session.cwd());
        written(&InitializeResult { session_id: self.session.id().as_str(), environment_info })
    }

    fn ready(&self) -> Result<(), ErrorBody> {
        match self.stage.load(Ordering::Acquire) {
            INITIALIZED => Ok(()),
            ANSWERED => Err(ErrorBody::invalid_request("client must send initialized before using other methods")),
            _ => Err(ErrorBody::invalid_request("client must call initialize before using other methods")),
        }
    }

    fn start(&self, params: &RawValue) -> Result<(Box<RawValue>, Starting), ErrorBody> {
        let (sandbox_type, starting) = self.processes.start(read_params(params)?)?;
        let answer = written(&StartResult { process_id: starting.id(), sandbox_type });
        match answer {
            Ok(answer) => Ok((answer, starting)),
            Err(error) => {
                starting.give_up();
                Err(error)
            }
        }
    }
}
