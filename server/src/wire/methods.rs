//! The table of methods. Schemas, the OpenRPC document and the dispatcher are made from it.

use std::future::Future;

use schemars::JsonSchema;
use stockade_core::Explanation;
use stockade_execpolicy::CheckReport;
use stockade_protocol::Message;

use super::{
    ApprovalAnswerParams, ApprovalForgetParams, ApprovalForgetResult, ApprovalListParams, ApprovalListResult,
    ApprovalRememberedParams, ApprovalRememberedResult, ApprovalRequestParams, ApprovalRequestResult, ApprovalResolved,
    ApprovalUnusable, AuditListParams, AuditListResult, AuditVerifyResult, CommandAck, CommandAttachParams,
    CommandAttachResult, CommandCancelParams, CommandCancelResult, CommandEnded, CommandExplainParams, CommandLost,
    CommandOutput, CommandResizeParams, CommandRunParams, CommandRunResult, CommandSignalParams, CommandStarted,
    CommandWriteParams, ElicitationRequestParams, ElicitationRequestResult, Empty, InitializeParams, InitializeResult,
    PatchApplyParams, PatchApplyResult, PermissionsRequestParams, PermissionsRequestResult, RpcError, RulesCheckParams,
    SessionAttachParams, SessionChanged, SessionCloseResult, SessionClosed, SessionListResult, SessionNotice,
    SessionOpenParams, SessionOpenResult, SessionParams, SessionState, SessionUpdateParams, ToolReviewParams,
    ToolReviewResult,
};
use crate::peer::{Caller, Peer, Transport};

/// Who calls a method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// A client calls it and gets a result.
    ClientRequest,
    /// A client calls it and gets nothing back.
    ClientNotification,
    /// The server calls it and gets a result.
    ServerRequest,
    /// The server calls it and gets nothing back.
    ServerNotification,
}

/// A method: its name, what it is called with and what it gives back.
pub struct Method {
    /// Its name on the wire.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// Who calls it.
    pub direction: Direction,
    /// What it is called with: always an object.
    pub params: Message,
    /// What it gives back; nothing for a notification.
    pub result: Option<Message>,
}

fn message<T: JsonSchema>() -> Message {
    Message::named_by_type::<T>()
}

macro_rules! client_methods {
    ($( #[doc = $doc:literal] $name:literal $call:ident ($params:ty) -> $result:ty; )+) => {
        /// What a server does for the clients that are connected to it, a function for each method but `initialize`.
        pub trait Methods: Send + Sync + 'static {
            /// A connection has ended.
            fn disconnected(&self, peer: &Peer) {
                let _ = peer;
            }

            /// A client has used output of a command.
            fn command_ack(&self, peer: &Peer, params: CommandAck) {
                let _ = (peer, params);
            }

            $(
                #[doc = $doc]
                fn $call(
                    &self,
                    caller: Caller,
                    params: $params,
                ) -> impl Future<Output = Result<$result, RpcError>> + Send {
                    let _ = (caller, params);
                    async { Err(crate::message::unknown_method($name)) }
                }
            )+
        }

        fn client_methods() -> Vec<Method> {
            vec![$(Method {
                name: $name,
                summary: $doc,
                direction: Direction::ClientRequest,
                params: message::<$params>(),
                result: Some(message::<$result>()),
            }),+]
        }

        const CLIENT_METHODS: &[&str] = &[$($name),+];

        /// Reads the parameters, calls the method and writes the result.
        pub(crate) async fn call<M: Methods>(
            methods: &M,
            caller: Caller,
            name: &str,
            params: String,
        ) -> Result<String, RpcError> {
            match name {
                $($name => {
                    let read = crate::message::read_params::<$params>(&params)?;
                    // The request may take long, so its bytes are freed.
                    drop(params);
                    crate::message::write_result(&methods.$call(caller, read).await?)
                })+
                _ => Err(crate::message::unknown_method(name)),
            }
        }
    };
}

client_methods! {
    /// Opens a session and attaches this connection to it.
    "session/open" session_open(SessionOpenParams) -> SessionOpenResult;
    /// Attaches this connection to a session.
    "session/attach" session_attach(SessionAttachParams) -> SessionState;
    /// Detaches this connection from a session.
    "session/detach" session_detach(SessionParams) -> Empty;
    /// Changes a session's policy from its next command on.
    "session/update" session_update(SessionUpdateParams) -> SessionState;
    /// Ends a session with its commands and questions.
    "session/close" session_close(SessionParams) -> SessionCloseResult;
    /// Lists the sessions of the server.
    "session/list" session_list(Empty) -> SessionListResult;
    /// Runs a command and answers when it has ended.
    "command/run" command_run(CommandRunParams) -> CommandRunResult;
    /// Follows a command from a piece of its output on.
    "command/attach" command_attach(CommandAttachParams) -> CommandAttachResult;
    /// Writes to a command's standard input or terminal.
    "command/write" command_write(CommandWriteParams) -> Empty;
    /// Changes the size of a command's terminal.
    "command/resize" command_resize(CommandResizeParams) -> Empty;
    /// Sends a command a signal.
    "command/signal" command_signal(CommandSignalParams) -> Empty;
    /// Ends a command.
    "command/cancel" command_cancel(CommandCancelParams) -> CommandCancelResult;
    /// Says what would happen to a command.
    "command/explain" command_explain(CommandExplainParams) -> Explanation;
    /// Changes files on the host, all or none.
    "patch/apply" patch_apply(PatchApplyParams) -> PatchApplyResult;
    /// Decides whether a tool may be called.
    "tool/review" tool_review(ToolReviewParams) -> ToolReviewResult;
    /// Asks for permissions in advance.
    "permissions/request" permissions_request(PermissionsRequestParams) -> PermissionsRequestResult;
    /// Passes on a question of an MCP server.
    "elicitation/request" elicitation_request(ElicitationRequestParams) -> ElicitationRequestResult;
    /// Lists open questions.
    "approval/list" approval_list(ApprovalListParams) -> ApprovalListResult;
    /// Answers a question.
    "approval/answer" approval_answer(ApprovalAnswerParams) -> Empty;
    /// Lists the approvals that hold for a session.
    "approval/remembered" approval_remembered(ApprovalRememberedParams) -> ApprovalRememberedResult;
    /// Makes a session forget approvals.
    "approval/forget" approval_forget(ApprovalForgetParams) -> ApprovalForgetResult;
    /// Reads records of the trail.
    "audit/list" audit_list(AuditListParams) -> AuditListResult;
    /// Checks whether the trail is whole.
    "audit/verify" audit_verify(Empty) -> AuditVerifyResult;
    /// Asks the rules about a command.
    "rules/check" rules_check(RulesCheckParams) -> CheckReport;
    /// Closes all sessions and ends the server. Only on standard input and output.
    "shutdown" shutdown(Empty) -> Empty;
}

/// The methods that a client can call on a connection.
pub(crate) fn client_method_names(transport: Transport) -> impl Iterator<Item = &'static str> {
    let offered = move |name: &&str| *name != "shutdown" || transport == Transport::Stdio;
    std::iter::once("initialize").chain(CLIENT_METHODS.iter().copied()).filter(offered)
}

const COMMAND_ACK: &str = "command/ack";

/// Handles a notification of a client. An invalid or unknown one is ignored: it can't be answered.
pub(crate) fn notified<M: Methods>(methods: &M, peer: &Peer, name: &str, params: &str) {
    if name == COMMAND_ACK
        && let Ok(params) = crate::message::read_params::<CommandAck>(params)
    {
        methods.command_ack(peer, params);
    }
}

fn notification<T: JsonSchema>(name: &'static str, summary: &'static str) -> Method {
    Method { name, summary, direction: Direction::ServerNotification, params: message::<T>(), result: None }
}

/// Every method of the wire, in the order to read about them.
pub fn methods() -> Vec<Method> {
    let mut methods = vec![Method {
        name: "initialize",
        summary: "Begins the conversation. The first request on every connection.",
        direction: Direction::ClientRequest,
        params: message::<InitializeParams>(),
        result: Some(message::<InitializeResult>()),
    }];
    methods.extend(client_methods());
    methods.push(Method {
        name: "approval/request",
        summary: "Asks every client of the session that answers questions. The first usable answer counts.",
        direction: Direction::ServerRequest,
        params: message::<ApprovalRequestParams>(),
        result: Some(message::<ApprovalRequestResult>()),
    });
    methods.push(Method {
        name: COMMAND_ACK,
        summary: "Says that output of a command was used. Only for commands run or attached with `acknowledge`.",
        direction: Direction::ClientNotification,
        params: message::<CommandAck>(),
        result: None,
    });
    methods.extend([
        notification::<ApprovalResolved>("approval/resolved", "A question needs no answer any more."),
        notification::<ApprovalUnusable>("approval/unusable", "An answer of this client can't be used."),
        notification::<CommandStarted>("command/started", "A command was started."),
        notification::<CommandOutput>("command/output", "A command wrote something."),
        notification::<CommandLost>("command/lost", "Output of a command is not kept any more."),
        notification::<CommandEnded>("command/ended", "A command ended."),
        notification::<SessionChanged>("session/changed", "A session's policy changed."),
        notification::<SessionClosed>("session/closed", "A session is closed."),
        notification::<SessionNotice>("session/notice", "Something worth knowing."),
    ]);
    methods
}
