//! Questions that are answered elsewhere: by another task, a client, a user interface.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use stockade_protocol::{ApprovalReply, ApprovalRequest, RequestId};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::queue::{Question, Queue};
use super::{Answer, Approver, ApproverError, LateAnswer, LateAnswers, Unanswered};

/// Limits of a channel. Further questions are answered at once with [`Unanswered::Busy`], so that a flood can neither
/// exhaust memory nor overwhelm a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelLimits {
    /// Limit on waiting questions, shown or not.
    pub waiting: NonZeroUsize,
    /// Limit on their rate.
    pub rate: RateLimit,
}

/// A limit on questions per interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The number of questions.
    pub questions: NonZeroUsize,
    /// The interval.
    pub within: Duration,
}

const DEFAULT_WAITING: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);

/// 256 waiting questions, and 256 within ten seconds: more than a person can answer, and enough for a few agents.
impl Default for ChannelLimits {
    fn default() -> Self {
        let rate = RateLimit { questions: DEFAULT_WAITING, within: Duration::from_secs(10) };
        Self { waiting: DEFAULT_WAITING, rate }
    }
}

/// Passes questions to the holder of its [`Consumer`], oldest first, and waits for the replies.
///
/// A question is only answered by a reply to it: questions with the same id are shown one after the other. When the
/// consumer is dropped, every question ends with [`Unanswered::Gone`], and so does every later one.
///
/// ```
/// use stockade_core::{Approver as _, Channel, ChannelLimits};
/// use stockade_protocol::{ApprovalReply, ReviewDecision};
/// # use stockade_protocol::ApprovalRequest;
/// # let request: std::sync::Arc<ApprovalRequest> = std::sync::Arc::new(serde_json::from_str(r#"{
/// #     "id": "1", "thread_id": "t",
/// #     "subject": {"network": {"host": "example.com", "protocol": "https", "port": 443}},
/// #     "available_decisions": ["approved", "denied"]}"#)?);
/// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
/// let (channel, mut consumer) = Channel::open(ChannelLimits::default());
/// let screen = async {
///     while let Some(request) = consumer.next().await {
///         let reply = ApprovalReply { id: request.id.clone(), decision: ReviewDecision::Approved, content: None };
///         consumer.reply(reply).ok();
/// #       break;
///     }
/// };
/// let (answer, ()) = tokio::join!(channel.review(request), screen);
/// assert!(answer?.decision.is_approval());
/// # Ok::<(), stockade_core::Unanswered>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Channel(Arc<Shared>);

/// The other end of a [`Channel`]: receives questions and replies to them.
pub struct Consumer(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    /// A question may have become ready to be shown.
    changed: Notify,
    late: Option<Arc<dyn LateAnswers>>,
}

struct State {
    queue: Queue,
    consumer_gone: bool,
    channel_gone: bool,
}

impl Channel {
    /// A channel and its consumer. Late replies are ignored.
    pub fn open(limits: ChannelLimits) -> (Self, Consumer) {
        Self::with(limits, None)
    }

    /// A channel and its consumer. Late replies are ignored and reported.
    pub fn open_reporting(limits: ChannelLimits, late: Arc<dyn LateAnswers>) -> (Self, Consumer) {
        Self::with(limits, Some(late))
    }

    fn with(limits: ChannelLimits, late: Option<Arc<dyn LateAnswers>>) -> (Self, Consumer) {
        let state = State { queue: Queue::new(limits), consumer_gone: false, channel_gone: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Notify::new(), late });
        (Self(Arc::clone(&shared)), Consumer(shared))
    }
}

#[async_trait]
impl Approver for Channel {
    async fn review(&self, request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
        let (answer, receiver) = oneshot::channel();
        let asked = Instant::now();
        {
            let mut state = self.0.lock();
            if state.consumer_gone {
                return Err(gone());
            }
            state.queue.push(Question { request: Arc::clone(&request), asked, answer })?;
        }
        self.0.changed.notify_one();
        let mut pending = Pending { shared: &self.0, request, asked, receiver };
        (&mut pending.receiver).await.unwrap_or_else(|_| Err(gone()))
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.0.lock().channel_gone = true;
        self.0.changed.notify_one();
    }
}

impl Consumer {
    /// The next question, oldest first. `None` when the channel is closed and empty.
    ///
    /// Each question needs one reply. Until then no other question with the same id is shown. Cancel-safe.
    pub async fn next(&mut self) -> Option<Arc<ApprovalRequest>> {
        loop {
            // Registered before the check, so that no change is missed.
            let changed = self.0.changed.notified();
            {
                let mut state = self.0.lock();
                if let Some(request) = state.queue.show() {
                    return Some(request);
                }
                if state.channel_gone {
                    return None;
                }
            }
            changed.await;
        }
    }

    /// Answers a question that was shown.
    ///
    /// A reply that was not offered, such as a rule that was not proposed, ends the question with
    /// [`Unanswered::Unusable`]. A late reply is reported and changes nothing.
    pub fn reply(&self, reply: ApprovalReply) -> Result<(), ApproverError> {
        let id = reply.id.clone();
        let Some(question) = self.0.lock().queue.take_shown(&id) else {
            return Err(ApproverError::UnknownReply { id });
        };
        // Another question with this id may be shown now.
        self.0.changed.notify_one();
        let answer = Answer::from(reply);
        let usable = answer.clone().usable_for(&question.request);
        let unusable = usable.as_ref().err().map(ToString::to_string);
        if question.answer.send(usable).is_err() {
            self.0.report_late(question.request, answer, question.asked);
            return Err(ApproverError::LateReply { id });
        }
        match unusable {
            Some(why) => Err(ApproverError::UnusableReply { id, why }),
            None => Ok(()),
        }
    }

    /// Whether the answer to a shown question is still awaited. A user interface removes it when it is not; a reply is
    /// still accepted, and reported as late.
    pub fn is_waited_for(&self, id: &RequestId) -> bool {
        self.0.lock().queue.is_waited_for(id)
    }

    /// The number of questions, shown or not.
    pub fn waiting(&self) -> usize {
        self.0.lock().queue.len()
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.consumer_gone = true;
        let questions = state.queue.drain();
        drop(state);
        for question in questions {
            // The requester may have given up.
            question.answer.send(Err(gone())).ok();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No change of the state can be interrupted, so it is consistent even after a panic elsewhere.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report_late(&self, request: Arc<ApprovalRequest>, answer: Answer, asked: Instant) {
        if let Some(late) = &self.late {
            late.answered_late(LateAnswer { request, answer, after: asked.elapsed() });
        }
    }
}

fn gone() -> Unanswered {
    Unanswered::Gone { why: String::from("the channel's other end was closed") }
}

/// A waiting requester. If it gives up, an answer that arrives at the same time is late.
struct Pending<'a> {
    shared: &'a Shared,
    request: Arc<ApprovalRequest>,
    asked: Instant,
    receiver: oneshot::Receiver<Result<Answer, Unanswered>>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.receiver.close();
        if let Ok(Ok(answer)) = self.receiver.try_recv() {
            self.shared.report_late(Arc::clone(&self.request), answer, self.asked);
        }
    }
}
