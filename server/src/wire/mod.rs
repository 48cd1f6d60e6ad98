//! All messages of the server: requests, results, notifications and questions.
//!
//! Objects that a client sends refuse unknown fields. Objects that the server sends may gain fields.

mod approval;
mod audit;
mod command;
mod error;
mod ids;
mod initialize;
mod methods;
mod notification;
mod openrpc;
mod request;
mod schema;
mod session;
mod streams;

pub use approval::{
    ApprovalAnswerParams, ApprovalForgetParams, ApprovalForgetResult, ApprovalListParams, ApprovalListResult,
    ApprovalRememberedParams, ApprovalRememberedResult, ApprovalRequestParams, ApprovalRequestResult, OpenQuestion,
    RememberedApproval,
};
pub use audit::{AuditListParams, AuditListResult, AuditVerifyResult, RulesCheckParams, TrailFlaw};
pub use command::{
    CommandAck, CommandAttachParams, CommandAttachResult, CommandCancelParams, CommandCancelResult,
    CommandExplainParams, CommandResizeParams, CommandRunParams, CommandRunResult, CommandSignalParams, CommandState,
    CommandWriteParams, SignalName, StdinKind,
};
pub use error::{ErrorData, ErrorKind, ProgramProblem, RpcError};
pub use ids::{Capability, CommandId, QuestionId, RpcId, SessionId, SessionName};
pub use initialize::{
    ClientCapabilities, ClientInfo, InitializeParams, InitializeResult, PROTOCOL_VERSION, ServerInfo, ServerLimits,
};
pub use methods::{Direction, Method, Methods, methods};
pub(crate) use methods::{call, client_method_names, notified};
pub use notification::{
    ApprovalResolved, ApprovalUnusable, CommandEnded, CommandLost, CommandOutput, CommandStarted, OutputStream,
    ServerNotification, SessionChanged, SessionClosed, SessionNotice,
};
pub use openrpc::openrpc;
pub use request::{
    ElicitationRequestParams, ElicitationRequestResult, PatchApplyParams, PatchApplyResult, PermissionsRequestParams,
    PermissionsRequestResult, ToolReviewParams, ToolReviewResult,
};
pub use schema::{SERVER_BUNDLE_NAME, server_bundle};
pub use session::{
    Empty, ListedCommand, ListedSession, SessionAttachParams, SessionCloseResult, SessionListResult, SessionOpenParams,
    SessionOpenResult, SessionParams, SessionState, SessionUpdateParams,
};
pub use streams::SentStreams;
