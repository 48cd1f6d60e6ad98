//! The implementation of the methods.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use stockade::core::{Answer, Explanation};
use stockade::execpolicy::CheckReport;
use stockade::protocol::AuditEvent;

use super::open::changed;
use super::{Session, Sessions};
use crate::commands::{self, Started};
use crate::peer::{Caller, Peer, Transport};
use crate::wire::{
    ApprovalAnswerParams, ApprovalForgetParams, ApprovalForgetResult, ApprovalListParams, ApprovalListResult,
    ApprovalRememberedParams, ApprovalRememberedResult, AuditListParams, AuditListResult, AuditVerifyResult,
    Capability, CommandAck, CommandAttachParams, CommandAttachResult, CommandCancelParams, CommandCancelResult,
    CommandExplainParams, CommandResizeParams, CommandRunParams, CommandRunResult, CommandSignalParams, CommandState,
    CommandWriteParams, ElicitationRequestParams, ElicitationRequestResult, Empty, ErrorKind, Methods,
    PatchApplyParams, PatchApplyResult, PermissionsRequestParams, PermissionsRequestResult, RpcError, RulesCheckParams,
    SessionAttachParams, SessionCloseResult, SessionId, SessionListResult, SessionOpenParams, SessionOpenResult,
    SessionParams, SessionState, SessionUpdateParams, ToolReviewParams, ToolReviewResult,
};

impl Sessions {
    /// A session, for a client that has its capability.
    fn permitted(&self, session: &SessionId, capability: &Capability) -> Result<Arc<Session>, RpcError> {
        let session = self.find(session)?;
        if session.capability == *capability {
            return Ok(session);
        }
        let message = "`params.capability`: this is not the session's capability, which `session/open` gives out";
        Err(RpcError::new(ErrorKind::NotPermitted, message))
    }
}

impl Methods for Sessions {
    fn disconnected(&self, peer: &Peer) {
        for session in self.all_attached(peer) {
            self.detach(&session, peer);
        }
    }

    fn command_ack(&self, peer: &Peer, params: CommandAck) {
        // Unknown ids are ignored: a notification has no response.
        let command =
            self.attached(peer, &params.session_id).and_then(|session| session.commands.find(&params.command_id));
        if let Ok(command) = command {
            command.acknowledge(peer.id(), params.seq);
        }
    }

    async fn session_open(&self, caller: Caller, params: SessionOpenParams) -> Result<SessionOpenResult, RpcError> {
        let session = self.open(&caller.peer, params).await?;
        let SessionState { session_id, cwd, ask, sandbox, permissions, notices } = session.state();
        let capability = session.capability.clone();
        Ok(SessionOpenResult { session_id, capability, cwd, ask, sandbox, permissions, notices })
    }

    async fn session_attach(&self, caller: Caller, params: SessionAttachParams) -> Result<SessionState, RpcError> {
        let session = self.permitted(&params.session_id, &params.capability)?;
        if let Some(linger) = params.linger_ms {
            session.linger_ms.store(linger, Ordering::Release);
        }
        self.attach(&session, &caller.peer);
        Ok(session.state())
    }

    async fn session_detach(&self, caller: Caller, params: SessionParams) -> Result<Empty, RpcError> {
        let session = self.attached(&caller.peer, &params.session_id)?;
        self.detach(&session, &caller.peer);
        Ok(Empty {})
    }

    async fn session_update(&self, caller: Caller, params: SessionUpdateParams) -> Result<SessionState, RpcError> {
        let session = self.attached(&caller.peer, &params.session_id)?;
        let peer = caller.peer;
        // It reads files.
        let updated = tokio::task::spawn_blocking(move || update(&session, &peer, &params)).await;
        updated.unwrap_or_else(|died| Err(RpcError::new(ErrorKind::Internal, died.to_string())))
    }

    async fn session_close(&self, caller: Caller, params: SessionParams) -> Result<SessionCloseResult, RpcError> {
        let session = self.attached(&caller.peer, &params.session_id)?;
        // The session is closed even if the client disconnects meanwhile.
        let (sessions, peer) = (self.clone(), caller.peer);
        let closing = tokio::spawn(async move { sessions.close(&session, "a client closed it", Some(&peer)).await });
        let ended = closing.await.unwrap_or_default();
        Ok(SessionCloseResult { ended_commands: u32::try_from(ended).unwrap_or(u32::MAX) })
    }

    async fn session_list(&self, caller: Caller, _: Empty) -> Result<SessionListResult, RpcError> {
        let sessions: Vec<Arc<Session>> = self.table().sessions.values().cloned().collect();
        Ok(SessionListResult { sessions: sessions.iter().map(|session| session.listed(&caller.peer)).collect() })
    }

    async fn command_run(&self, caller: Caller, params: CommandRunParams) -> Result<CommandRunResult, RpcError> {
        if let Some(capability) = &params.capability {
            self.attach(&self.permitted(&params.session_id, capability)?, &caller.peer);
        }
        let session = self.attached(&caller.peer, &params.session_id)?;
        let Started { command, output } = commands::start(&session, caller, params)?;
        let end = command.ended().await;
        if let Some(output) = output {
            // It always completes with an error: nothing is sent.
            output.await.ok();
        }
        Ok(CommandRunResult { command_id: command.id().clone(), outcome: end.result.clone()?, last_seq: end.last_seq })
    }

    async fn command_attach(
        &self,
        caller: Caller,
        params: CommandAttachParams,
    ) -> Result<CommandAttachResult, RpcError> {
        let session = self.attached(&caller.peer, &params.session_id)?;
        let command = session.commands.find(&params.command_id)?;
        let (state, extent) = (command.state(), command.extent());
        command.watch(&session.id, &caller.peer, params.after_seq, params.acknowledge);
        Ok(CommandAttachResult { state, first_seq: extent.first_seq, last_seq: extent.last_seq })
    }

    async fn command_write(&self, caller: Caller, params: CommandWriteParams) -> Result<Empty, RpcError> {
        let command = self.attached(&caller.peer, &params.session_id)?.commands.find(&params.command_id)?;
        command.write(params.data.as_bytes(), params.close).await?;
        Ok(Empty {})
    }

    async fn command_resize(&self, caller: Caller, params: CommandResizeParams) -> Result<Empty, RpcError> {
        self.attached(&caller.peer, &params.session_id)?.commands.find(&params.command_id)?.resize(params.size)?;
        Ok(Empty {})
    }

    async fn command_signal(&self, caller: Caller, params: CommandSignalParams) -> Result<Empty, RpcError> {
        self.attached(&caller.peer, &params.session_id)?.commands.find(&params.command_id)?.signal(params.signal)?;
        Ok(Empty {})
    }

    async fn command_cancel(
        &self,
        caller: Caller,
        params: CommandCancelParams,
    ) -> Result<CommandCancelResult, RpcError> {
        let command = self.attached(&caller.peer, &params.session_id)?.commands.find(&params.command_id)?;
        let was_running = command.state() == CommandState::Running;
        command.cancel(&format!("`{}` cancelled it", caller.peer.client_name().escape_debug()));
        Ok(CommandCancelResult { was_running })
    }

    async fn command_explain(&self, caller: Caller, params: CommandExplainParams) -> Result<Explanation, RpcError> {
        self.attached(&caller.peer, &params.session_id)?.explain(params)
    }

    async fn patch_apply(&self, caller: Caller, params: PatchApplyParams) -> Result<PatchApplyResult, RpcError> {
        self.attached(&caller.peer, &params.session_id)?.apply_patch(params).await
    }

    async fn tool_review(&self, caller: Caller, params: ToolReviewParams) -> Result<ToolReviewResult, RpcError> {
        self.attached(&caller.peer, &params.session_id)?.review_tool(params).await
    }

    async fn permissions_request(
        &self,
        caller: Caller,
        params: PermissionsRequestParams,
    ) -> Result<PermissionsRequestResult, RpcError> {
        self.attached(&caller.peer, &params.session_id)?.request_permissions(params).await
    }

    async fn elicitation_request(
        &self,
        caller: Caller,
        params: ElicitationRequestParams,
    ) -> Result<ElicitationRequestResult, RpcError> {
        self.attached(&caller.peer, &params.session_id)?.elicit(params).await
    }

    async fn approval_list(&self, caller: Caller, params: ApprovalListParams) -> Result<ApprovalListResult, RpcError> {
        let sessions = match &params.session_id {
            Some(id) => vec![self.attached(&caller.peer, id)?],
            None => self.all_attached(&caller.peer),
        };
        Ok(ApprovalListResult { questions: sessions.iter().flat_map(|session| session.questions.list()).collect() })
    }

    async fn approval_answer(&self, caller: Caller, params: ApprovalAnswerParams) -> Result<Empty, RpcError> {
        let session = self.attached(&caller.peer, &params.session_id)?;
        let answer = Answer { decision: params.decision, content: params.content };
        session.questions.answer(&caller.peer, &params.question_id, answer)?;
        Ok(Empty {})
    }

    async fn approval_remembered(
        &self,
        caller: Caller,
        params: ApprovalRememberedParams,
    ) -> Result<ApprovalRememberedResult, RpcError> {
        Ok(self.attached(&caller.peer, &params.session_id)?.remembered())
    }

    async fn approval_forget(
        &self,
        caller: Caller,
        params: ApprovalForgetParams,
    ) -> Result<ApprovalForgetResult, RpcError> {
        Ok(self.attached(&caller.peer, &params.session_id)?.forget(params.key.as_deref()))
    }

    async fn audit_list(&self, caller: Caller, params: AuditListParams) -> Result<AuditListResult, RpcError> {
        self.read_trail(&caller.peer, params).await
    }

    async fn audit_verify(&self, caller: Caller, _: Empty) -> Result<AuditVerifyResult, RpcError> {
        self.verify_trail(&caller.peer).await
    }

    async fn rules_check(&self, caller: Caller, params: RulesCheckParams) -> Result<CheckReport, RpcError> {
        self.check_rules(&caller.peer, &params)
    }

    async fn shutdown(&self, caller: Caller, _: Empty) -> Result<Empty, RpcError> {
        if caller.peer.transport() != Transport::Stdio {
            let message = "`shutdown` is for standard input and output only: close your sessions";
            return Err(RpcError::new(ErrorKind::UnknownMethod, message));
        }
        self.close_all("the server was shut down").await;
        self.0.is_shut_down.send_replace(true);
        Ok(Empty {})
    }
}

fn update(session: &Session, peer: &Peer, params: &SessionUpdateParams) -> Result<SessionState, RpcError> {
    let mut understood = Ok(());
    let updated = session.stockade.update(|layer| match changed(params, &session.cwd, layer.clone()) {
        Ok(changed) => *layer = changed,
        Err(error) => understood = Err(error),
    });
    understood?;
    updated.map_err(|error| RpcError::failed(&error))?;
    session.touched();
    let state = session.state();
    session.record(AuditEvent::SessionChanged {
        client: peer.client_name().to_owned(),
        ask: state.ask,
        sandbox: state.sandbox.clone(),
    })?;
    session.tell_changed(&state, peer);
    Ok(state)
}
