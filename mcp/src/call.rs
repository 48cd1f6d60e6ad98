//! A call of a tool that is under way, and what it asks.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::CallToolResult;
use stockade_protocol::{Argv, EscalationExecution, Permissions, PermissionsScope};
use stockade_server::wire::{
    CommandCancelParams, CommandId, CommandRunParams, PatchApplyParams, PermissionsRequestParams,
    PermissionsRequestResult, QuestionId, RpcError,
};
use tokio::sync::{mpsc, oneshot};

use crate::Wording;
use crate::arguments::{
    ArgumentsError, PatchArguments, PermissionsArguments, RunArguments, escalation, output_bytes, path, words,
};
use crate::link::{Event, Link, OtherKind};
use crate::output::{Output, Outputs};
use crate::report::{self, Surroundings};

/// A call that is under way. Its command ends with it.
pub(crate) struct Call {
    pub(crate) work: Pin<Box<dyn Future<Output = CallToolResult> + Send>>,
    pub(crate) events: mpsc::UnboundedReceiver<Event>,
    pub(crate) output: Option<Arc<Output>>,
    /// Elicitations that wait for an answer; dropped, they are taken back.
    pub(crate) asked: HashMap<QuestionId, oneshot::Sender<()>>,
    /// A question was answered with a no because no client could be asked.
    pub(crate) unasked: bool,
    pub(crate) is_finished: bool,
    command: Option<(Link, CommandId)>,
}

impl Drop for Call {
    fn drop(&mut self) {
        if let Some((link, command_id)) = self.command.take().filter(|_| !self.is_finished) {
            let params = CommandCancelParams { session_id: link.session_id().clone(), command_id };
            link.tell("command/cancel", &params);
        }
    }
}

impl Call {
    /// A command. It is started when the work is first polled.
    pub(crate) fn run(
        link: &Link,
        outputs: &Outputs,
        wording: &Arc<dyn Wording>,
        granted: &Granted,
        arguments: &RunArguments,
    ) -> Result<Self, CallError> {
        let argv = words(arguments.command.as_ref(), arguments.argv.as_ref(), &**wording)?;
        let command_id = link.next_command()?;
        let output = Output::new(format!("output-{command_id}"));
        let mut params = run_params(link, arguments, argv, &command_id)?;
        if params.escalation.is_none() {
            params.escalation = granted.take().map(EscalationExecution::Permissions);
        }
        let (events, receiver) = mpsc::unbounded_channel();
        let routed = link.route(&command_id, &output, events);
        outputs.keep(&output);
        let most_output = output_bytes(arguments.max_output_bytes);
        let (own_link, own_output, wording) = (link.clone(), Arc::clone(&output), Arc::clone(wording));
        let work = async move {
            let ended = own_link.call("command/run", &params).await;
            drop(routed);
            own_output.finish();
            let around = Surroundings { output: &own_output, most_output, wording: &*wording, asks: own_link.asks() };
            report::ran(ended, &around)
        };
        let mut call = Self::new(work, receiver);
        (call.output, call.command) = (Some(output), Some((link.clone(), command_id)));
        Ok(call)
    }

    /// A change of files.
    pub(crate) fn patch(link: &Link, arguments: PatchArguments) -> Self {
        let (events, receiver) = mpsc::unbounded_channel();
        let link = link.clone();
        let work = async move {
            let _routed = link.route_other(OtherKind::Patch, events).await;
            let session_id = link.session_id().clone();
            let params = PatchApplyParams { session_id, changes: None, patch: Some(arguments.patch), cwd: None };
            report::patched(link.call("patch/apply", &params).await)
        };
        Self::new(work, receiver)
    }

    /// A request for permissions.
    pub(crate) fn permissions(
        link: &Link,
        granted: &Granted,
        arguments: &PermissionsArguments,
    ) -> Result<Self, CallError> {
        let permissions = arguments.permissions(link.cwd())?;
        let justification = arguments.justification.clone();
        let (events, receiver) = mpsc::unbounded_channel();
        let (link, granted) = (link.clone(), granted.clone());
        let work = async move {
            let _routed = link.route_other(OtherKind::Permissions, events).await;
            let params = PermissionsRequestParams { session_id: link.session_id().clone(), permissions, justification };
            let answered = link.call("permissions/request", &params).await;
            if let Ok(PermissionsRequestResult::Granted { permissions, scope: PermissionsScope::Once }) = &answered {
                granted.put(permissions.clone());
            }
            report::permitted(answered)
        };
        Ok(Self::new(work, receiver))
    }

    fn new(
        work: impl Future<Output = CallToolResult> + Send + 'static,
        events: mpsc::UnboundedReceiver<Event>,
    ) -> Self {
        Self {
            work: Box::pin(work),
            events,
            output: None,
            asked: HashMap::new(),
            unasked: false,
            is_finished: false,
            command: None,
        }
    }
}

/// Permissions that were granted for one command, which is the next one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Granted(Arc<Mutex<Option<Box<Permissions>>>>);

impl Granted {
    fn put(&self, permissions: Box<Permissions>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(permissions);
    }

    fn take(&self) -> Option<Box<Permissions>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Why a call can't be begun.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    #[error(transparent)]
    Arguments(#[from] ArgumentsError),
    #[error(transparent)]
    Session(#[from] RpcError),
}

fn run_params(
    link: &Link,
    arguments: &RunArguments,
    command: Argv,
    command_id: &CommandId,
) -> Result<CommandRunParams, ArgumentsError> {
    let cwd = arguments.cwd.as_deref().map(|cwd| path("cwd", cwd, link.cwd())).transpose()?;
    Ok(CommandRunParams {
        cwd,
        timeout_ms: arguments.timeout_ms.and_then(NonZeroU64::new),
        escalation: escalation(arguments.unsandboxed),
        justification: arguments.justification.clone(),
        until_disconnect: true,
        ..CommandRunParams::new(link.session_id().clone(), command_id.clone(), command)
    })
}
