//! Files: each operation is done by a helper, which is a command of the session like any other.
//!
//! The helper is this program, started in the session's sandbox within codex's bound. A look from outside would lose to a
//! link that is swapped between the look and the access; inside, the kernel decides at each access.

mod forms;
mod handles;
mod helper;
mod request;
mod walk;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use stockade_protocol::{AbsPath, Access, Argv, FileRule, FileRules, NetworkPolicy, Permissions, RawText};
use stockade_server::wire::{CommandId, CommandRunParams, OutputStream, StdinKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::forms::Operation;
use self::handles::Handles;
pub use self::helper::run_file_helper;
use self::helper::{HELPER, subject};
use self::request::{FailureKind, FileFailure, FileReply, FileRequest};
use crate::environment;
use crate::explain::{Bound, Explain, explained};
use crate::message::{ErrorBody, written};
use crate::sandbox::{Around, SandboxContext};
use crate::session::{Running, Session, Whose};

/// Helpers that run at a time.
const MOST_HELPERS: usize = 4;

/// How long an operation may take.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// The most that a helper answers: a file of the largest size in base64, and room.
const LONGEST_ANSWER: usize = 12 << 20;

/// What is written to a helper at once.
const WRITE_BYTES: usize = 256 << 10;

/// The operations on files of a connection.
#[derive(Clone)]
pub(crate) struct Files {
    session: Session,
    explain: Explain,
    /// This program, which is the helper.
    program: PathBuf,
    room: Arc<Semaphore>,
    handles: Handles,
}

impl Files {
    pub(crate) fn new(session: Session, explain: Explain, program: PathBuf) -> Self {
        Self { session, explain, program, room: Arc::new(Semaphore::new(MOST_HELPERS)), handles: Handles::default() }
    }

    /// Room for an operation and its answer, which may be as large as a file.
    pub(crate) async fn room(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.room).acquire_owned().await.ok()
    }

    /// Carries out a method, if it is one about files.
    pub(crate) async fn call(&self, method: &str, params: &RawValue) -> Option<Result<Box<RawValue>, ErrorBody>> {
        let operation = match Operation::read(method, params)? {
            Ok(operation) => operation,
            Err(error) => return Some(Err(error)),
        };
        Some(match operation {
            Operation::Once { request, content, sandbox } => self.once(&request, content, sandbox.as_ref()).await,
            Operation::Open { handle_id, request, sandbox } => self.open(handle_id, &request, sandbox.as_ref()).await,
            Operation::Block { handle_id, offset, len } => {
                self.handles.block(&self.session, &handle_id, offset, len).await
            }
            Operation::Close { handle_id } => {
                self.handles.close(&handle_id);
                written(&forms::Nothing {})
            }
        })
    }

    async fn once(
        &self,
        request: &FileRequest,
        content: Vec<u8>,
        sandbox: Option<&SandboxContext>,
    ) -> Result<Box<RawValue>, ErrorBody> {
        let (mut run, bound) = self.command(request, sandbox)?;
        run.stdin = if content.is_empty() { StdinKind::None } else { StdinKind::Pipe };
        run.timeout_ms = u64::try_from(TIME_LIMIT.as_millis()).ok().and_then(std::num::NonZeroU64::new);
        let mut running = self.run(run, request)?;
        let answer = {
            let writing = self.feed(running.id.clone(), content);
            let reading = first_line(&mut running);
            tokio::pin!(writing, reading);
            tokio::select! {
                // The first step of reading starts the helper.
                biased;
                answer = &mut reading => answer,
                () = &mut writing => reading.await,
            }
        };
        let ended = running.end().await;
        let reply = answer.as_deref().and_then(|line| serde_json::from_slice::<FileReply>(line).ok());
        match reply {
            Some(FileReply::Failed(failure)) => {
                let (_, lines) = explained(&self.explain, &bound, &ended, false);
                Err(failure_of(request, failure, &lines))
            }
            Some(reply) => forms::result(request, reply),
            None => {
                let (_, lines) = explained(&self.explain, &bound, &ended, false);
                Err(ErrorBody::internal(not_answered(request, &lines)))
            }
        }
    }

    async fn open(
        &self,
        handle_id: String,
        request: &FileRequest,
        sandbox: Option<&SandboxContext>,
    ) -> Result<Box<RawValue>, ErrorBody> {
        let place = self.handles.reserve(handle_id)?;
        let (mut run, bound) = self.command(request, sandbox)?;
        run.stdin = StdinKind::Pipe;
        let mut running = self.run(run, request)?;
        let reply = first_line(&mut running).await.and_then(|line| serde_json::from_slice(&line).ok());
        match reply {
            Some(FileReply::Done {}) => {
                let opened = forms::Opened { handle_id: place.id().to_owned() };
                place.take(running);
                written(&opened)
            }
            Some(FileReply::Failed(failure)) => {
                let ended = running.end().await;
                let (_, lines) = explained(&self.explain, &bound, &ended, false);
                Err(failure_of(request, failure, &lines))
            }
            _ => {
                let ended = running.end().await;
                let (_, lines) = explained(&self.explain, &bound, &ended, false);
                Err(ErrorBody::internal(not_answered(request, &lines)))
            }
        }
    }

    /// The helper as a command, and the bounds that it runs within.
    fn command(
        &self,
        request: &FileRequest,
        sandbox: Option<&SandboxContext>,
    ) -> Result<(CommandRunParams, Bound), ErrorBody> {
        let text = serde_json::to_string(request).map_err(ErrorBody::internal)?;
        let program = RawText::from(self.program.clone().into_os_string().into_encoded_bytes());
        let words = [program].into_iter().chain(HELPER.map(RawText::from)).chain([RawText::from(text)]);
        let argv = Argv::parse(words).map_err(ErrorBody::invalid_params)?;
        let mut run = self.session.command("file", argv).map_err(|error| ErrorBody::internal(error.message))?;
        // The helper needs no variables, and what it reads of itself goes to the client.
        run.environment = Some(BTreeMap::new());
        let session = self.session.permissions();
        let tmpdir = environment::own_tmpdir();
        let around = Around { session, cwd: self.session.cwd(), tmpdir: tmpdir.as_ref() };
        let codex = match sandbox {
            Some(sandbox) => sandbox.bound(&around).map_err(ErrorBody::invalid_params)?,
            None => None,
        };
        run.at_most = self.helper_bound(codex.as_ref())?;
        Ok((run, Bound { session: session.clone(), codex }))
    }

    /// codex's bound, with what the helper itself needs: to be read, and no network.
    fn helper_bound(&self, codex: Option<&Permissions>) -> Result<Option<Permissions>, ErrorBody> {
        let Some(codex) = codex else { return Ok(None) };
        let program = AbsPath::from_path(&self.program).map_err(ErrorBody::internal)?;
        let rules = codex.files.iter().cloned().chain([FileRule::path(program, Access::Read)]);
        let files = FileRules::new(rules).map_err(ErrorBody::internal)?;
        Ok(Some(Permissions { files, network: NetworkPolicy::Off, ..codex.clone() }))
    }

    /// What only looks is not asked about, as no question comes before a command that is known to only read.
    fn run(&self, run: CommandRunParams, request: &FileRequest) -> Result<Running, ErrorBody> {
        let whose = if request.writes() { Whose::Client } else { Whose::Own };
        self.session.run(run, whose).ok_or_else(|| ErrorBody::internal("the command has no name"))
    }

    /// Writes to the helper what it is to write.
    async fn feed(&self, id: CommandId, content: Vec<u8>) {
        if content.is_empty() {
            return;
        }
        let mut rest = content.as_slice();
        loop {
            let (piece, after) = rest.split_at_checked(WRITE_BYTES).unwrap_or((rest, &[]));
            let is_last = after.is_empty();
            // A helper that has ended says why.
            if self.session.write(&id, piece.to_vec(), is_last).await.is_err() || is_last {
                return;
            }
            rest = after;
        }
    }
}

/// The next line of a helper's standard output; none if it ends without one, or the line is too long.
async fn first_line(running: &mut Running) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    while let Some(piece) = running.next().await {
        let Some((OutputStream::Stdout, bytes)) = &piece.output else { continue };
        line.extend_from_slice(bytes);
        if line.len() > LONGEST_ANSWER {
            return None;
        }
        if line.last() == Some(&b'\n') {
            return Some(line);
        }
    }
    None
}

fn failure_of(request: &FileRequest, failure: FileFailure, lines: &[String]) -> ErrorBody {
    let said: String = lines.iter().map(|line| format!("; stockade: {line}")).collect();
    let message = format!("{}{said}", failure.message);
    match failure.kind {
        FailureKind::NotFound => ErrorBody::not_found(message),
        FailureKind::Invalid => ErrorBody::invalid_request(message),
        FailureKind::Denied if lines.is_empty() => {
            ErrorBody::invalid_request(format!("{}: {message}", subject(request)))
        }
        FailureKind::Denied => ErrorBody::invalid_request(message),
        FailureKind::Other => ErrorBody::internal(message),
    }
}

fn not_answered(request: &FileRequest, lines: &[String]) -> String {
    let why = if lines.is_empty() { String::from("the helper gave no answer") } else { lines.join("; ") };
    format!("{}: {why}", subject(request))
}
