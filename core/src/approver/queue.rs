//! The questions of a channel: waiting, shown, and their limits.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use stockade_protocol::{ApprovalRequest, RequestId};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Answer, ChannelLimits, Unanswered};

/// A question and the channel of its answer. The requester has given up when `answer` is closed.
pub(super) struct Question {
    pub(super) request: Arc<ApprovalRequest>,
    pub(super) asked: Instant,
    pub(super) answer: oneshot::Sender<Result<Answer, Unanswered>>,
}

/// The unanswered questions, never more than the limit.
///
/// Questions with the same id are shown one at a time. A reply has only the id, and must never answer another
/// question; so an abandoned question keeps its id until a late reply has come or its place is needed.
pub(super) struct Queue {
    limits: ChannelLimits,
    waiting: VecDeque<Question>,
    shown: HashMap<RequestId, Question>,
    /// The times of the latest questions, as many as the rate limit allows.
    latest: VecDeque<Instant>,
}

impl Queue {
    pub(super) fn new(limits: ChannelLimits) -> Self {
        Self { limits, waiting: VecDeque::new(), shown: HashMap::new(), latest: VecDeque::new() }
    }

    /// Adds a question, if there is room and the rate permits.
    pub(super) fn push(&mut self, question: Question) -> Result<(), Unanswered> {
        self.make_room()?;
        self.count(question.asked)?;
        self.waiting.push_back(question);
        Ok(())
    }

    fn make_room(&mut self) -> Result<(), Unanswered> {
        let most = self.limits.waiting.get();
        if self.waiting.len() + self.shown.len() < most {
            return Ok(());
        }
        self.waiting.retain(|question| !question.answer.is_closed());
        while self.waiting.len() + self.shown.len() >= most {
            let given_up = self.shown.values().filter(|question| question.answer.is_closed());
            let Some(oldest) = given_up.min_by_key(|question| question.asked) else {
                return Err(Unanswered::Busy { why: format!("{most} questions wait already") });
            };
            let id = oldest.request.id.clone();
            self.shown.remove(&id);
        }
        Ok(())
    }

    fn count(&mut self, now: Instant) -> Result<(), Unanswered> {
        let rate = self.limits.rate;
        while self.latest.front().is_some_and(|then| now.duration_since(*then) >= rate.within) {
            self.latest.pop_front();
        }
        if self.latest.len() >= rate.questions.get() {
            let why = format!("{} were asked within {:?}", rate.questions, rate.within);
            return Err(Unanswered::Busy { why });
        }
        self.latest.push_back(now);
        Ok(())
    }

    /// The oldest question that can be shown.
    pub(super) fn show(&mut self) -> Option<Arc<ApprovalRequest>> {
        while self.waiting.front().is_some_and(|question| question.answer.is_closed()) {
            self.waiting.pop_front();
        }
        let can_be_shown =
            |question: &Question| !question.answer.is_closed() && !self.shown.contains_key(&question.request.id);
        let place = self.waiting.iter().position(can_be_shown)?;
        let question = self.waiting.remove(place)?;
        let request = Arc::clone(&question.request);
        self.shown.insert(request.id.clone(), question);
        Some(request)
    }

    /// The shown question with this id.
    pub(super) fn take_shown(&mut self, id: &RequestId) -> Option<Question> {
        self.shown.remove(id)
    }

    /// Whether the answer to a shown question is still awaited.
    pub(super) fn is_waited_for(&self, id: &RequestId) -> bool {
        self.shown.get(id).is_some_and(|question| !question.answer.is_closed())
    }

    /// Removes all unanswered questions.
    pub(super) fn drain(&mut self) -> Vec<Question> {
        self.waiting.drain(..).chain(self.shown.drain().map(|(_, question)| question)).collect()
    }

    /// The number of questions.
    pub(super) fn len(&self) -> usize {
        self.waiting.len() + self.shown.len()
    }
}
