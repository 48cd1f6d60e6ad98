//! The list of open questions, oldest first.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use stockade_core::{Answer, Unanswered};
use stockade_protocol::{ApprovalRequest, RequestId};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use super::asking::Asking;
use crate::peer::ConnectionId;
use crate::wire::{CommandId, QuestionId};

/// An open question.
pub(super) struct Open {
    pub(super) id: QuestionId,
    pub(super) command_id: Option<CommandId>,
    pub(super) request: Arc<ApprovalRequest>,
    pub(super) asked: Instant,
    pub(super) answer: oneshot::Sender<Result<Answer, Unanswered>>,
    /// The clients that are being asked.
    asking: HashMap<ConnectionId, Asking>,
    /// The clients that were asked and have neither declined nor left.
    may_answer: HashSet<ConnectionId>,
    /// Whether a client has declined to answer.
    is_declined: bool,
    _room: OwnedSemaphorePermit,
}

impl Open {
    pub(super) fn new(
        id: QuestionId,
        command_id: Option<CommandId>,
        request: Arc<ApprovalRequest>,
        answer: oneshot::Sender<Result<Answer, Unanswered>>,
        room: OwnedSemaphorePermit,
    ) -> Self {
        let (asked, asking, may_answer) = (Instant::now(), HashMap::new(), HashSet::new());
        Self { id, command_id, request, asked, answer, asking, may_answer, is_declined: false, _room: room }
    }
}

/// Whether a client is left that was asked a question and may still answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answering {
    Some,
    None,
}

/// The open questions of a session by ascending numbers.
#[derive(Default)]
pub(super) struct OpenQuestions {
    by_number: BTreeMap<u64, Open>,
    numbers: HashMap<QuestionId, u64>,
}

impl OpenQuestions {
    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    pub(super) fn push(&mut self, number: u64, open: Open) {
        self.numbers.insert(open.id.clone(), number);
        self.by_number.insert(number, open);
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Open> {
        let open = self.by_number.remove(&number)?;
        self.numbers.remove(&open.id);
        Some(open)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Open> {
        self.by_number.values()
    }

    pub(super) fn get(&self, number: u64) -> Option<&Open> {
        self.by_number.get(&number)
    }

    pub(super) fn number(&self, id: &QuestionId) -> Option<u64> {
        self.numbers.get(id).copied()
    }

    pub(super) fn numbers(&self) -> Vec<u64> {
        self.by_number.keys().copied().collect()
    }

    /// The questions about one request.
    pub(super) fn numbers_of(&self, id: &RequestId) -> Vec<u64> {
        self.by_number.iter().filter(|(_, open)| open.request.id == *id).map(|(number, _)| *number).collect()
    }

    pub(super) fn asked(&mut self, number: u64, client: ConnectionId, asking: Asking) {
        if let Some(open) = self.by_number.get_mut(&number) {
            open.asking.insert(client, asking);
            open.may_answer.insert(client);
        }
    }

    /// Records that a client declines to answer.
    pub(super) fn declined(&mut self, number: u64, client: ConnectionId) -> Answering {
        let Some(open) = self.by_number.get_mut(&number) else { return Answering::Some };
        open.may_answer.remove(&client);
        open.is_declined = true;
        if open.may_answer.is_empty() { Answering::None } else { Answering::Some }
    }

    /// Removes a client that has left. Returns the questions that the other clients have declined. One that none has
    /// declined stays open: a person who leaves may leave it to the next.
    pub(super) fn forget_client(&mut self, client: ConnectionId) -> Vec<u64> {
        let mut unanswered = Vec::new();
        for (number, open) in &mut self.by_number {
            let was_asked = open.asking.remove(&client).is_some();
            open.may_answer.remove(&client);
            if was_asked && open.is_declined && open.may_answer.is_empty() {
                unanswered.push(*number);
            }
        }
        unanswered
    }
}
