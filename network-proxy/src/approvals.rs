//! Approval of destinations that no rule names.
//!
//! Connections to the same destination share one question; another port or protocol is another question. A plain yes
//! or no holds for the run, whose programs may retry. "For the session" and "always" are stored through
//! [`Ask::remember`], with the session's other approvals; "always" is also saved through [`Ask::save`]. A question
//! that times out counts as denied.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stockade_protocol::{
    Decision, Destination, Host, HostPattern, HostRule, NetworkApproval, NetworkPolicyAmendment,
    NetworkPolicyRuleAction, RawText, ReviewDecision,
};
use tokio::sync::watch;

/// A boxed future, as an object-safe trait method returns it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Asks a reviewer: a person or a program.
pub trait Ask: Send + Sync {
    /// Asks whether this destination may be reached.
    fn ask(&self, question: NetworkApproval) -> BoxFuture<'_, ReviewDecision>;

    /// The session's remembered answer for this destination.
    fn recall(&self, destination: &Destination) -> Option<Decision>;

    /// Remembers an answer for this destination for the rest of the session.
    fn remember(&self, destination: &Destination, decision: Decision);

    /// Saves the rule of an "always" answer. If saving fails, the answer still holds for the session.
    fn save(&self, amendment: &NetworkPolicyAmendment);

    /// Declines every further question of the run, including those that are not about the network.
    fn decline_rest(&self) {}

    /// Whether a question that is not about the network was answered by declining the rest of the run.
    fn declines_rest(&self) -> bool {
        false
    }
}

/// The network questions of one run and their answers.
pub struct Approvals {
    ask: Option<Arc<dyn Ask>>,
    patience: Duration,
    questions: Mutex<Questions>,
    /// Why no further questions are asked, once an answer has ended them. Setting it ends the pending questions.
    ended: watch::Sender<Option<End>>,
}

#[derive(Default)]
struct Questions {
    pending: HashMap<Topic, watch::Receiver<Option<Answered>>>,
    /// Answers that hold for the run.
    answered: HashMap<Topic, Answered>,
}

/// The subject of a question.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Topic {
    pub(crate) destination: Destination,
    /// Local-network addresses that an allowed name resolves to; empty while the question is about the name itself.
    pub(crate) leads_to: Vec<Host>,
}

impl Topic {
    /// The destinations that an answer is remembered for: the name, or the addresses it resolves to.
    fn remembered_for(&self) -> Vec<Destination> {
        if self.leads_to.is_empty() {
            return vec![self.destination.clone()];
        }
        let at = |host: &Host| Destination { host: host.clone(), ..self.destination.clone() };
        self.leads_to.iter().map(at).collect()
    }

    /// The strictest remembered answer, if there is one for every destination.
    fn recalled(&self, ask: &dyn Ask) -> Option<Decision> {
        let all: Option<Vec<Decision>> = self.remembered_for().iter().map(|one| ask.recall(one)).collect();
        all.and_then(|all| all.into_iter().max())
    }

    fn remember(&self, decision: Decision, ask: &dyn Ask) {
        self.remembered_for().iter().for_each(|destination| ask.remember(destination, decision));
    }

    fn question(&self, program: Option<RawText>) -> NetworkApproval {
        let Destination { host, protocol, port } = self.destination.clone();
        let amendment = |host: &Host, action| NetworkPolicyAmendment {
            host: HostPattern::Exact(host.clone()),
            action,
            protocol: Some(protocol),
            port: Some(port),
        };
        let both = |host: &Host| {
            [NetworkPolicyRuleAction::Allow, NetworkPolicyRuleAction::Deny]
                .map(|action| amendment(host, action))
                .to_vec()
        };
        // An amendment covers exactly one host.
        let proposed_network_policy_amendments = match self.leads_to.as_slice() {
            [] => both(&host),
            [address] => both(address),
            [_, _, ..] => Vec::new(),
        };
        let leads_to = self.leads_to.clone();
        NetworkApproval { host, protocol, port, leads_to, program, proposed_network_policy_amendments }
    }
}

/// An answer that ends all further questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The session was stopped.
    Session,
    /// Everything else in this run was declined.
    Run,
}

impl End {
    fn why(self) -> Answered {
        Answered::Refused(String::from(match self {
            Self::Session => "the session was stopped",
            Self::Run => "everything else was declined for this run",
        }))
    }
}

/// How a question ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// Yes.
    Approved,
    /// Answered earlier in the session.
    Remembered(Decision),
    /// No, and why.
    Refused(String),
    /// Not asked: questions are disabled.
    NotAsked,
}

/// Limit on pending questions; a command that needs more at once than a person can review is refused.
const MOST_QUESTIONS: usize = 64;
/// Limit on the answers kept for a run; further ones apply only to the connections that wait for them.
const MOST_ANSWERS: usize = 4096;

impl Approvals {
    /// Sends questions to `ask`, each with the timeout `patience`.
    pub fn asking(ask: Arc<dyn Ask>, patience: Duration) -> Arc<Self> {
        Self::new(Some(ask), patience)
    }

    /// Asks nothing: destinations that need approval are refused.
    pub fn never() -> Arc<Self> {
        Self::new(None, Duration::ZERO)
    }

    fn new(ask: Option<Arc<dyn Ask>>, patience: Duration) -> Arc<Self> {
        Arc::new(Self { ask, patience, questions: Mutex::default(), ended: watch::Sender::new(None) })
    }

    fn questions(&self) -> MutexGuard<'_, Questions> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Settles a topic that needs approval.
    pub(crate) async fn settle(self: &Arc<Self>, topic: &Topic, program: Option<RawText>) -> Answered {
        let mut answer = match self.question(topic, program) {
            Ok(waiting) => waiting,
            Err(settled) => return settled,
        };
        // The sender is dropped without an answer only if the asking task was killed.
        match answer.wait_for(Option::is_some).await {
            Ok(answered) => answered.clone().unwrap_or(Answered::NotAsked),
            Err(_) => Answered::Refused(String::from("the question was not answered")),
        }
    }

    /// The pending question, or the answer if it is settled already.
    fn question(
        self: &Arc<Self>,
        topic: &Topic,
        program: Option<RawText>,
    ) -> Result<watch::Receiver<Option<Answered>>, Answered> {
        // The lock is held throughout, so that a concurrent answer is either remembered already or still pending.
        let mut questions = self.questions();
        let Some(ask) = self.ask.clone() else { return Err(Answered::NotAsked) };
        if let Some(decision) = topic.recalled(&*ask) {
            return Err(Answered::Remembered(decision));
        }
        if let Some(answered) = questions.answered.get(topic) {
            return Err(answered.clone());
        }
        if let Some(end) = *self.ended.borrow() {
            return Err(end.why());
        }
        if ask.declines_rest() {
            return Err(End::Run.why());
        }
        if let Some(waiting) = questions.pending.get(topic) {
            return Ok(waiting.clone());
        }
        if questions.pending.len() >= MOST_QUESTIONS {
            return Err(Answered::Refused(format!("{MOST_QUESTIONS} other destinations are being asked for")));
        }
        let (sender, receiver) = watch::channel(None);
        questions.pending.insert(topic.clone(), receiver.clone());
        let (topic, question) = (topic.clone(), topic.question(program));
        let approvals = Arc::clone(self);
        // A separate task: the connection that asked first may close while others wait.
        tokio::spawn(async move {
            let asked = question.clone();
            let mut ended = approvals.ended.subscribe();
            // Pending questions end with the answer that ends all questions.
            let decision = tokio::select! {
                // `ask` first: it may have ended its questions already and recorded that.
                biased;
                decision = tokio::time::timeout(approvals.patience, ask.ask(question)) => {
                    decision.unwrap_or(ReviewDecision::TimedOut)
                }
                end = ended.wait_for(Option::is_some) => match end.ok().and_then(|end| *end) {
                    Some(End::Run) => ReviewDecision::DeniedForRun,
                    Some(End::Session) | None => ReviewDecision::Abort,
                },
            };
            let answered = approvals.take_in(&asked, &topic, decision, &*ask);
            sender.send_replace(Some(answered));
        });
        Ok(receiver)
    }

    fn take_in(&self, asked: &NetworkApproval, topic: &Topic, decision: ReviewDecision, ask: &dyn Ask) -> Answered {
        // Longer-lived answers are stored by `ask`, which may also forget them.
        let holds_for_run = match decision {
            ReviewDecision::Approved | ReviewDecision::Denied { .. } | ReviewDecision::TimedOut => true,
            ReviewDecision::ApprovedForRun
            | ReviewDecision::ApprovedForSession
            | ReviewDecision::ApprovedExecpolicyAmendment { .. }
            | ReviewDecision::ApprovedProfileAmendment { .. }
            | ReviewDecision::NetworkPolicyAmendment { .. }
            | ReviewDecision::DeniedForRun
            | ReviewDecision::Abort => false,
        };
        let answered = self.meaning(asked, topic, decision, ask);
        let mut questions = self.questions();
        questions.pending.remove(topic);
        if holds_for_run && questions.answered.len() < MOST_ANSWERS {
            questions.answered.insert(topic.clone(), answered.clone());
        }
        answered
    }

    fn meaning(&self, asked: &NetworkApproval, topic: &Topic, decision: ReviewDecision, ask: &dyn Ask) -> Answered {
        match decision {
            ReviewDecision::Approved => Answered::Approved,
            ReviewDecision::ApprovedForSession => {
                topic.remember(Decision::Allow, ask);
                Answered::Approved
            }
            ReviewDecision::NetworkPolicyAmendment { network_policy_amendment: amendment } => {
                // Only offered amendments are accepted: the reviewer has not seen a wider rule.
                if !asked.proposed_network_policy_amendments.contains(&amendment) {
                    return Answered::Refused(String::from("the answer has a rule that was not offered"));
                }
                topic.remember(HostRule::from(&amendment).decision, ask);
                ask.save(&amendment);
                match amendment.action {
                    NetworkPolicyRuleAction::Allow => Answered::Approved,
                    NetworkPolicyRuleAction::Deny => Answered::Refused(String::from("denied, now and always")),
                }
            }
            ReviewDecision::ApprovedForRun
            | ReviewDecision::ApprovedExecpolicyAmendment { .. }
            | ReviewDecision::ApprovedProfileAmendment { .. } => {
                Answered::Refused(String::from("the answer is not one to this question"))
            }
            ReviewDecision::Denied { reason } => Answered::Refused(reason.unwrap_or_else(|| String::from("denied"))),
            ReviewDecision::DeniedForRun => {
                ask.decline_rest();
                self.ended.send_replace(Some(End::Run));
                End::Run.why()
            }
            ReviewDecision::TimedOut => Answered::Refused(String::from("nobody answered in time")),
            ReviewDecision::Abort => {
                self.ended.send_replace(Some(End::Session));
                End::Session.why()
            }
        }
    }
}
