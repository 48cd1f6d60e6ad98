//! Errors of approvers, apart from a missing answer.

use std::io;

use stockade_protocol::{AbsPath, RequestId};

/// Why an approver could not be created, or a reply was not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ApproverError {
    /// There is no such question.
    #[error("no question `{id}` waits for a reply: it was never shown, or has been answered")]
    UnknownReply {
        /// The id in the reply.
        id: RequestId,
    },
    /// The requester has given up.
    #[error("the reply to `{id}` came too late and changes nothing")]
    LateReply {
        /// The id in the reply.
        id: RequestId,
    },
    /// The reply is not an answer to the question. The question has ended with a denial.
    #[error("the reply to `{id}` can't be used, which counts as a denial: {why}")]
    UnusableReply {
        /// The id in the reply.
        id: RequestId,
        /// What was wrong.
        why: String,
    },
    /// A hook's program does not exist.
    #[error("could not find the hook `{program}`")]
    HookMissing {
        /// The program.
        program: AbsPath,
        /// The system's error.
        source: io::Error,
    },
    /// A hook's program is not a file.
    #[error("the hook `{program}` is not a file on this system: give the absolute path of a program")]
    HookNotAFile {
        /// The program.
        program: AbsPath,
    },
    /// A sandboxed command could change the hook, and so approve itself.
    #[error("the hook `{program}` lies in `{root}`, which commands may write: move it elsewhere")]
    HookWritable {
        /// The program.
        program: AbsPath,
        /// The writable root.
        root: AbsPath,
    },
}
