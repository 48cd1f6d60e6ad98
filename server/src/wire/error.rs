//! Errors of requests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The `error` of a response. A refusal or a denial is never one: it is an outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    /// The code that belongs to `data.kind`.
    pub code: i32,
    /// What is wrong, and what to do next.
    pub message: String,
    /// The same for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<ErrorData>,
}

/// What programs look at in an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorData {
    /// What kind of error it is.
    pub kind: ErrorKind,
    /// What led to it, the nearest cause first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
    /// The versions of the protocol that the server speaks, where the client asked for another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported: Vec<u32>,
    /// What is wrong with the program of a command that could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramProblem>,
}

/// Why a program could not be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProgramProblem {
    /// There is none of this name.
    NotFound,
    /// It can't be executed.
    NotExecutable,
}

/// What kind of error it is. Each kind has one code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The line is no JSON (-32700).
    Parse,
    /// The line is no request (-32600).
    InvalidRequest,
    /// There is no such method (-32601).
    UnknownMethod,
    /// The parameters don't fit; the message names the field (-32602).
    InvalidParams,
    /// The server failed (-32603).
    Internal,
    /// `initialize` comes first (-32000).
    NotInitialized,
    /// There is no such session (-32001).
    UnknownSession,
    /// The connection is not attached to the session, or the capability is wrong (-32002).
    NotPermitted,
    /// The session has no such command (-32003).
    UnknownCommand,
    /// A limit is reached; the message says which (-32004).
    Busy,
    /// The request was fine and could not be carried out (-32005).
    Failed,
    /// The question does not exist, or was answered already (-32006).
    UnknownQuestion,
    /// The answer is not one of those that were offered; the question stays open (-32007).
    UnusableAnswer,
    /// The session was closed meanwhile (-32008).
    Closed,
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: [Self; 14] = [
        Self::Parse,
        Self::InvalidRequest,
        Self::UnknownMethod,
        Self::InvalidParams,
        Self::Internal,
        Self::NotInitialized,
        Self::UnknownSession,
        Self::NotPermitted,
        Self::UnknownCommand,
        Self::Busy,
        Self::Failed,
        Self::UnknownQuestion,
        Self::UnusableAnswer,
        Self::Closed,
    ];

    /// The code of this kind.
    pub const fn code(self) -> i32 {
        match self {
            Self::Parse => -32700,
            Self::InvalidRequest => -32600,
            Self::UnknownMethod => -32601,
            Self::InvalidParams => -32602,
            Self::Internal => -32603,
            Self::NotInitialized => -32000,
            Self::UnknownSession => -32001,
            Self::NotPermitted => -32002,
            Self::UnknownCommand => -32003,
            Self::Busy => -32004,
            Self::Failed => -32005,
            Self::UnknownQuestion => -32006,
            Self::UnusableAnswer => -32007,
            Self::Closed => -32008,
        }
    }
}

impl RpcError {
    /// An error of a kind; the message says what to do next.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { code: kind.code(), message: message.into(), data: Some(ErrorData::of(kind)) }
    }

    /// The error for a valid request that failed, with its causes.
    pub fn failed(error: &dyn std::error::Error) -> Self {
        let mut causes = Vec::new();
        let mut next = error.source();
        while let Some(cause) = next {
            causes.push(cause.to_string());
            next = cause.source();
        }
        Self {
            code: ErrorKind::Failed.code(),
            message: error.to_string(),
            data: Some(ErrorData { causes, ..ErrorData::of(ErrorKind::Failed) }),
        }
    }

    /// The kind, if the code is one of the server's.
    pub fn kind(&self) -> Option<ErrorKind> {
        let by_code = || ErrorKind::ALL.into_iter().find(|kind| kind.code() == self.code);
        self.data.as_ref().map(|data| data.kind).or_else(by_code)
    }
}

impl ErrorData {
    /// An error with only a kind.
    pub fn of(kind: ErrorKind) -> Self {
        Self { kind, causes: Vec::new(), supported: Vec::new(), program: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_code_of_its_own() {
        let codes: std::collections::BTreeSet<i32> = ErrorKind::ALL.into_iter().map(ErrorKind::code).collect();
        assert_eq!(codes.len(), ErrorKind::ALL.len());
    }
}
