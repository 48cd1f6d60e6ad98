//! One command: its input while it runs, and its result afterwards.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stockade_core::{Cancellation, InputWriter};
use stockade_protocol::{Argv, Outcome, Refusal, RefusedBy, RequestId, TerminalSize};
use tokio::sync::watch;

use super::follow::Follower;
use super::kept::KeptOutput;
use super::log::{Extent, OutputLog};
use super::onlookers::output_bytes;
use super::terminal::OurTerminal;
use crate::peer::ConnectionId;
use crate::questions::Questions;
use crate::wire::{CommandId, CommandState, ErrorKind, RpcError, SignalName};

/// A command of a session.
#[derive(Debug)]
pub(crate) struct Command {
    pub(super) id: CommandId,
    pub(super) request_id: RequestId,
    pub(super) words: Arc<Argv>,
    /// The connection that ran it.
    pub(super) runner: ConnectionId,
    pub(super) log: Arc<OutputLog>,
    pub(super) cancellation: Cancellation,
    pub(super) input: CommandInput,
    pub(super) questions: Questions,
    pub(super) followers: Mutex<HashMap<ConnectionId, Follower>>,
    pub(super) is_cancelled: watch::Sender<bool>,
    pub(super) end: watch::Sender<Option<Arc<CommandEnd>>>,
    /// The output kept by all sessions.
    pub(super) kept: Arc<KeptOutput>,
}

/// The input that a client can write to.
#[derive(Debug)]
pub(super) enum CommandInput {
    /// Nothing.
    None,
    Pipe(InputWriter),
    Terminal(Arc<OurTerminal>),
}

/// How a command ended.
#[derive(Clone, Debug)]
pub(crate) struct CommandEnd {
    /// Its outcome, or the error.
    pub(crate) result: Result<Outcome, RpcError>,
    pub(crate) last_seq: u64,
}

impl CommandEnd {
    /// The outcome for clients that did not run it, which have no request to receive an error.
    pub(crate) fn outcome(&self) -> Outcome {
        match &self.result {
            Ok(outcome) => outcome.clone(),
            Err(error) => Outcome::Refused(Refusal { by: RefusedBy::Sandbox, reason: error.message.clone() }),
        }
    }

    /// The size of the output in the outcome.
    fn output_bytes(&self) -> u64 {
        self.result.as_ref().map_or(0, output_bytes)
    }
}

impl Command {
    pub(crate) fn id(&self) -> &CommandId {
        &self.id
    }

    pub(crate) fn words(&self) -> &Argv {
        &self.words
    }

    pub(crate) fn extent(&self) -> Extent {
        self.log.extent()
    }

    /// The size of its kept output: the log and the outcome.
    pub(super) fn kept_bytes(&self) -> u64 {
        self.log.kept_bytes() + self.end.borrow().as_ref().map_or(0, |end| end.output_bytes())
    }

    /// Records its end.
    pub(super) fn set_end(&self, end: CommandEnd) -> Arc<CommandEnd> {
        let end = Arc::new(end);
        self.kept.add(end.output_bytes());
        self.end.send_replace(Some(Arc::clone(&end)));
        end
    }

    pub(crate) fn state(&self) -> CommandState {
        if self.end.borrow().is_some() { CommandState::Ended } else { CommandState::Running }
    }

    /// Waits for its end.
    pub(crate) async fn ended(&self) -> Arc<CommandEnd> {
        let mut end = self.end.subscribe();
        let ended = end.wait_for(Option::is_some).await.ok().and_then(|end| end.clone());
        match ended {
            Some(end) => end,
            // Unreachable: this command owns the sender.
            None => std::future::pending().await,
        }
    }

    /// Cancels it: its processes, or the question it waits for.
    pub(crate) fn cancel(&self, why: &str) {
        self.cancellation.cancel_because(why);
        self.log.release();
        self.questions.cancel(&self.request_id);
        self.is_cancelled.send_replace(true);
    }

    /// Writes to its standard input or its terminal, and waits until the bytes are accepted.
    pub(crate) async fn write(&self, bytes: &[u8], close: bool) -> Result<(), RpcError> {
        let failed = |error: std::io::Error| RpcError::failed(&error);
        match &self.input {
            CommandInput::None => {
                let message = "the command has no standard input: run it with `stdin: \"pipe\"` or with a terminal";
                Err(RpcError::new(ErrorKind::Failed, message))
            }
            CommandInput::Pipe(pipe) => {
                pipe.write(bytes).await.map_err(failed)?;
                if close {
                    pipe.close();
                }
                Ok(())
            }
            CommandInput::Terminal(terminal) => tokio::select! {
                written = terminal.write(bytes, close) => written.map_err(failed),
                _ = self.ended() => Err(RpcError::new(ErrorKind::Failed, "the command has ended")),
            },
        }
    }

    /// Changes the size of its terminal.
    pub(crate) fn resize(&self, size: TerminalSize) -> Result<(), RpcError> {
        match &self.input {
            CommandInput::Terminal(terminal) => terminal.resize(size).map_err(|error| RpcError::failed(&error)),
            CommandInput::None | CommandInput::Pipe(_) => {
                let message = "the command has no terminal: run it with `terminal: {rows, columns}`";
                Err(RpcError::new(ErrorKind::Failed, message))
            }
        }
    }

    /// Sends it a signal. A terminating signal cancels a command that waits for an answer.
    pub(crate) fn signal(&self, signal: SignalName) -> Result<(), RpcError> {
        let ends = match signal {
            SignalName::Interrupt
            | SignalName::Terminate
            | SignalName::Quit
            | SignalName::Hangup
            | SignalName::Kill => true,
            SignalName::Stop | SignalName::Continue | SignalName::Usr1 | SignalName::Usr2 => false,
        };
        if self.state() == CommandState::Ended {
            return Err(RpcError::new(ErrorKind::Failed, "the command has ended"));
        }
        if self.cancellation.has_command() {
            let number = number(signal).ok_or_else(|| {
                RpcError::new(ErrorKind::Failed, "this system has no such signal: use `command/cancel`")
            })?;
            self.cancellation.signal(number);
        } else if ends {
            self.cancel("it was ended by a signal while it waited for an answer");
        }
        Ok(())
    }

    pub(super) fn followers(&self) -> MutexGuard<'_, HashMap<ConnectionId, Follower>> {
        self.followers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn forget_follower(&self, client: ConnectionId) {
        self.followers().remove(&client);
    }

    /// Records that a client has processed its output up to this chunk.
    pub(crate) fn acknowledge(&self, client: ConnectionId, seq: u64) {
        if let Some(follower) = self.followers().get(&client) {
            follower.acknowledge(seq);
        }
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        let in_outcome = self.end.borrow().as_ref().map_or(0, |end| end.output_bytes());
        self.kept.remove(in_outcome);
    }
}

#[cfg(unix)]
fn number(signal: SignalName) -> Option<u8> {
    use rustix::process::Signal;
    let signal = match signal {
        SignalName::Interrupt => Signal::INT,
        SignalName::Terminate => Signal::TERM,
        SignalName::Quit => Signal::QUIT,
        SignalName::Hangup => Signal::HUP,
        SignalName::Kill => Signal::KILL,
        SignalName::Stop => Signal::TSTP,
        SignalName::Continue => Signal::CONT,
        SignalName::Usr1 => Signal::USR1,
        SignalName::Usr2 => Signal::USR2,
    };
    u8::try_from(signal.as_raw()).ok()
}

#[cfg(not(unix))]
fn number(_: SignalName) -> Option<u8> {
    None
}
