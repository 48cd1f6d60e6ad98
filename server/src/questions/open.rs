//! The list of open questions, oldest first.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use stockade_core::{Answer, Unanswered};
use stockade_protocol::{ApprovalRequest, RequestId};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use super::asking::Asking;
use crate::peer::ConnectionId;

/// A question that has no answer yet.
pub(super) struct Open {
    pub(super) request: Arc<ApprovalRequest>,
    pub(super) asked: Instant,
    pub(super) answer: oneshot::Sender<Result<Answer, Unanswered>>,
    /// Whether clients are asked: of the questions about one request, one at a time.
    pub(super) is_shown: bool,
    /// The clients that are being asked.
    asking: HashMap<ConnectionId, Asking>,
    declined: Vec<ConnectionId>,
    _room: OwnedSemaphorePermit,
}

impl Open {
    pub(super) fn new(
        request: Arc<ApprovalRequest>,
        answer: oneshot::Sender<Result<Answer, Unanswered>>,
        room: OwnedSemaphorePermit,
    ) -> Self {
        let (asked, asking) = (Instant::now(), HashMap::new());
        Self { request, asked, answer, is_shown: false, asking, declined: Vec::new(), _room: room }
    }
}

/// The open questions of a session, numbered in their order.
#[derive(Default)]
pub(super) struct OpenQuestions {
    by_number: BTreeMap<u64, Open>,
    /// The questions about each request, the one that is shown first.
    by_request: HashMap<RequestId, Vec<u64>>,
    next: u64,
}

impl OpenQuestions {
    pub(super) fn len(&self) -> usize {
        self.by_number.len()
    }

    pub(super) fn push(&mut self, open: Open) -> u64 {
        let number = self.next;
        self.next += 1;
        self.by_request.entry(open.request.id.clone()).or_default().push(number);
        self.by_number.insert(number, open);
        number
    }

    pub(super) fn remove(&mut self, number: u64) -> Option<Open> {
        let open = self.by_number.remove(&number)?;
        if let Some(numbers) = self.by_request.get_mut(&open.request.id) {
            numbers.retain(|other| *other != number);
            if numbers.is_empty() {
                self.by_request.remove(&open.request.id);
            }
        }
        Some(open)
    }

    /// Marks the oldest question about a request as shown, unless it is.
    pub(super) fn show_next(&mut self, id: &RequestId) -> Option<(u64, Arc<ApprovalRequest>)> {
        let number = *self.by_request.get(id)?.first()?;
        let open = self.by_number.get_mut(&number).filter(|open| !open.is_shown)?;
        open.is_shown = true;
        Some((number, Arc::clone(&open.request)))
    }

    pub(super) fn shown(&self) -> impl Iterator<Item = (u64, &Open)> {
        self.by_number.iter().filter(|(_, open)| open.is_shown).map(|(number, open)| (*number, open))
    }

    pub(super) fn shown_for(&self, id: &RequestId) -> Option<(u64, Arc<ApprovalRequest>)> {
        let number = *self.by_request.get(id)?.first()?;
        self.request(number).map(|request| (number, request))
    }

    pub(super) fn all_for(&self, id: &RequestId) -> Vec<u64> {
        self.by_request.get(id).cloned().unwrap_or_default()
    }

    pub(super) fn numbers(&self) -> Vec<u64> {
        self.by_number.keys().copied().collect()
    }

    pub(super) fn request(&self, number: u64) -> Option<Arc<ApprovalRequest>> {
        self.by_number.get(&number).map(|open| Arc::clone(&open.request))
    }

    pub(super) fn asked(&mut self, number: u64, (client, asking): (ConnectionId, Asking)) {
        if let Some(open) = self.by_number.get_mut(&number) {
            open.asking.insert(client, asking);
        }
    }

    pub(super) fn declined(&mut self, number: u64, client: ConnectionId) {
        if let Some(open) = self.by_number.get_mut(&number) {
            open.declined.push(client);
        }
    }

    pub(super) fn forget_client(&mut self, client: ConnectionId) {
        for open in self.by_number.values_mut() {
            open.asking.remove(&client);
        }
    }

    /// The shown questions that all these clients have declined.
    pub(super) fn declined_by_all(&self, clients: &[ConnectionId]) -> Vec<u64> {
        let is_declined = |open: &Open| clients.iter().all(|client| open.declined.contains(client));
        self.shown().filter(|(_, open)| is_declined(open)).map(|(number, _)| number).collect()
    }
}
