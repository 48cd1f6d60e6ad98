//! Asks one client one question.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use stockade_protocol::ApprovalRequest;
use tokio::task::AbortHandle;

use super::{Heard, Questions, State};
use crate::peer::Peer;
use crate::wire::ApprovalRequestParams;

/// A pending question to a client, withdrawn on drop.
pub(super) struct Asking(AbortHandle);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Questions {
    /// Asks a client. The question is in the client's queue when this returns, so that questions keep their order; a
    /// task waits for the answer.
    pub(super) fn ask(&self, state: &mut State, peer: &Peer, number: u64) {
        let Some(open) = state.open.get(number) else { return };
        let params = ApprovalRequestParams {
            session_id: self.0.session_id.clone(),
            question_id: open.id.clone(),
            command_id: open.command_id.clone(),
            request: ApprovalRequest::clone(&open.request),
        };
        let client = peer.clone();
        // Unconstrained, since the cooperative budget could delay the first poll.
        let mut asking = Box::pin(tokio::task::unconstrained(async move { client.ask(&params).await }));
        let first = Pin::as_mut(&mut asking).poll(&mut Context::from_waker(Waker::noop()));
        let (questions, peer) = (self.clone(), peer.clone());
        let client = peer.id();
        let task = tokio::spawn(async move {
            let asked = match first {
                Poll::Ready(asked) => asked,
                Poll::Pending => asking.await,
            };
            let mut asked = match asked {
                Ok(asked) => asked,
                Err(none) => {
                    questions.heard(&peer, number, Err(none));
                    return;
                }
            };
            while questions.heard(&peer, number, asked.answer().await) == Heard::Unusable {}
        });
        state.open.asked(number, client, Asking(task.abort_handle()));
    }
}
