//! Questions that are answered elsewhere, at any time: by another task, a client, a screen.

use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use stockade_protocol::{ApprovalReply, ApprovalRequest, RequestId};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::queue::{Question, Queue};
use super::{Answer, Approver, ApproverError, LateAnswer, LateAnswers, Unanswered};

/// How many questions a channel takes. What is more is answered at once with
/// [`Unanswered::Busy`], so that a flood of questions can neither fill the memory nor bury a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelLimits {
    /// How many questions may wait, shown or not.
    pub waiting: NonZeroUsize,
    /// How fast they may come.
    pub rate: RateLimit,
}

/// How many questions may come in any time of this length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// How many.
    pub questions: NonZeroUsize,
    /// In which time.
    pub within: Duration,
}

const DEFAULT_WAITING: NonZeroUsize = NonZeroUsize::MIN.saturating_add(255);

/// 256 questions may wait, and 256 may come within ten seconds: more than a person can answer, and
/// enough for a few agents at work.
impl Default for ChannelLimits {
    fn default() -> Self {
        let rate = RateLimit { questions: DEFAULT_WAITING, within: Duration::from_secs(10) };
        Self { waiting: DEFAULT_WAITING, rate }
    }
}

/// Hands questions to the holder of its [`Consumer`], oldest first, and waits for the replies.
///
/// Questions are only ever answered by a reply to them: those of one name are shown one after the
/// other. When the consumer is dropped, every question ends with [`Unanswered::Gone`], and so does
/// every later one.
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
    /// Something may have become ready to be shown.
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
    /// The next question, oldest first. `None` when the channel is gone and nothing will come.
    ///
    /// Each question wants one reply. As long as there is none, no other question of the same name
    /// is shown. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Arc<ApprovalRequest>> {
        loop {
            // Asked for before the look, so that a change right after it is not missed.
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
    /// A reply that the question does not have, such as a rule that was not proposed, ends the
    /// question with [`Unanswered::Unusable`]. A late reply is reported and changes nothing.
    pub fn reply(&self, reply: ApprovalReply) -> Result<(), ApproverError> {
        let id = reply.id.clone();
        let Some(question) = self.0.lock().queue.take_shown(&id) else {
            return Err(ApproverError::UnknownReply { id });
        };
        // Another question of this name may be shown now.
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

    /// Whether a question that was shown is still waited for. A screen takes it away when it is not;
    /// a reply is welcome all the same, and is reported as late.
    pub fn is_waited_for(&self, id: &RequestId) -> bool {
        self.0.lock().queue.is_waited_for(id)
    }

    /// How many questions the channel keeps, shown or not.
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
            // A requester that has given up meanwhile does not hear it.
            question.answer.send(Err(gone())).ok();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No change to the state can stop halfway, so it is sound even after a panic elsewhere.
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

/// A requester waits for an answer. If it gives up, an answer that has come at the same moment is late.
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
