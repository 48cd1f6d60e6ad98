//! Requests that need a session but no command of it, and those that need neither.

mod audit;
mod judging;
mod reviewing;

pub(crate) use audit::{audit_list, audit_verify, own_trail};
pub(crate) use judging::rules_check_alone;
#[expect(unused_imports, reason = "the sessions that call them follow")]
pub(crate) use judging::{command_explain, rules_check};
#[expect(unused_imports, reason = "the sessions that call them follow")]
pub(crate) use reviewing::{elicitation_request, patch_apply};

use crate::wire::{ErrorKind, RpcError};

/// Does work that waits for the disk without holding up other requests.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> Result<T, RpcError> + Send + 'static) -> Result<T, RpcError> {
    let lost = |_| RpcError::new(ErrorKind::Internal, "the work on the request was given up: try again");
    tokio::task::spawn_blocking(work).await.map_err(lost)?
}

fn failed(error: impl std::error::Error) -> RpcError {
    RpcError::failed(&error)
}
