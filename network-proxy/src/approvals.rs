//! Asking about a destination that no rule names.
//!
//! However many connections wait for the same destination, one question is asked; another port or
//! protocol is another question. "Once" is for those who wait. "For the session" and "always" are remembered through
//! [`Ask::remember`], by whoever keeps the session's other approvals; here is no second memory. "Always" is saved
//! through [`Ask::save`] as well. A question that is not answered in time is answered with no.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use stockade_protocol::{
    Decision, Destination, HostPattern, HostRule, NetworkApproval, NetworkPolicyAmendment, NetworkPolicyRuleAction,
    RawText, ReviewDecision,
};
use tokio::sync::watch;

/// A future that a trait object gives.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Asks a person, or whoever answers in their place.
pub trait Ask: Send + Sync {
    /// Asks whether this destination may be reached.
    fn ask(&self, question: NetworkApproval) -> BoxFuture<'_, ReviewDecision>;

    /// What an earlier answer says of this destination, for the rest of the session.
    fn recall(&self, destination: &Destination) -> Option<Decision>;

    /// An answer holds for this destination from now on, for the rest of the session.
    fn remember(&self, destination: &Destination, decision: Decision);

    /// Saves a rule for which "always" was answered. What can't be saved still holds for the session.
    fn save(&self, amendment: &NetworkPolicyAmendment);
}

/// The questions that are being asked.
pub struct Approvals {
    ask: Option<Arc<dyn Ask>>,
    patience: Duration,
    pending: Mutex<HashMap<Destination, watch::Receiver<Option<Answered>>>>,
    /// Whether an answer was to stop: nothing is asked any more, and nothing waits for an answer.
    aborted: watch::Sender<bool>,
}

/// How a question ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    /// Yes.
    Approved,
    /// Yes, as before.
    Remembered(Decision),
    /// No, and why.
    Refused(String),
    /// It was not asked, because questions are not wanted.
    NotAsked,
}

/// A command that asks for more destinations at once than a person could look at is refused.
const MOST_QUESTIONS: usize = 64;

impl Approvals {
    /// Questions go to `ask`, which has `patience` to answer each.
    pub fn asking(ask: Arc<dyn Ask>, patience: Duration) -> Arc<Self> {
        Self::new(Some(ask), patience)
    }

    /// Nothing is asked: what would have to be is refused.
    pub fn never() -> Arc<Self> {
        Self::new(None, Duration::ZERO)
    }

    fn new(ask: Option<Arc<dyn Ask>>, patience: Duration) -> Arc<Self> {
        Arc::new(Self { ask, patience, pending: Mutex::default(), aborted: watch::Sender::new(false) })
    }

    fn pending(&self) -> MutexGuard<'_, HashMap<Destination, watch::Receiver<Option<Answered>>>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Settles a destination that has to be asked for.
    pub(crate) async fn settle(self: &Arc<Self>, destination: &Destination, program: Option<RawText>) -> Answered {
        let mut answer = match self.question(destination, program) {
            Ok(waiting) => waiting,
            Err(settled) => return settled,
        };
        // The sender is gone without a word only if the task that asks was killed.
        match answer.wait_for(Option::is_some).await {
            Ok(answered) => answered.clone().unwrap_or(Answered::NotAsked),
            Err(_) => Answered::Refused(String::from("the question was not answered")),
        }
    }

    /// The question that is being asked, or how it is settled already.
    fn question(
        self: &Arc<Self>,
        destination: &Destination,
        program: Option<RawText>,
    ) -> Result<watch::Receiver<Option<Answered>>, Answered> {
        // Held meanwhile: what is answered now is either remembered already, or still waited for.
        let mut pending = self.pending();
        let Some(ask) = self.ask.clone() else { return Err(Answered::NotAsked) };
        if let Some(decision) = ask.recall(destination) {
            return Err(Answered::Remembered(decision));
        }
        if *self.aborted.borrow() {
            return Err(Answered::Refused(String::from("the session was stopped")));
        }
        if let Some(waiting) = pending.get(destination) {
            return Ok(waiting.clone());
        }
        if pending.len() >= MOST_QUESTIONS {
            return Err(Answered::Refused(format!("{MOST_QUESTIONS} other destinations are being asked for")));
        }
        let (sender, receiver) = watch::channel(None);
        pending.insert(destination.clone(), receiver.clone());
        let question = question(destination, program);
        let approvals = Arc::clone(self);
        // A task of its own: the connection that asked first may go away while others wait.
        tokio::spawn(async move {
            let asked = question.clone();
            let destination = Destination { host: asked.host.clone(), protocol: asked.protocol, port: asked.port };
            let mut aborted = approvals.aborted.subscribe();
            // A question that was put to nobody yet, or is being read, is over with the one that ended them all.
            let decision = tokio::select! {
                // First: `ask` may have ended its questions already, and put that on record.
                biased;
                decision = tokio::time::timeout(approvals.patience, ask.ask(question)) => {
                    decision.unwrap_or(ReviewDecision::TimedOut)
                }
                _ = aborted.wait_for(|aborted| *aborted) => ReviewDecision::Abort,
            };
            let answered = approvals.take_in(&asked, &destination, decision, &*ask);
            sender.send_replace(Some(answered));
        });
        Ok(receiver)
    }

    fn take_in(
        &self,
        asked: &NetworkApproval,
        destination: &Destination,
        decision: ReviewDecision,
        ask: &dyn Ask,
    ) -> Answered {
        let mut pending = self.pending();
        pending.remove(destination);
        match decision {
            ReviewDecision::Approved => Answered::Approved,
            ReviewDecision::ApprovedForSession => {
                ask.remember(destination, Decision::Allow);
                Answered::Approved
            }
            ReviewDecision::NetworkPolicyAmendment { network_policy_amendment: amendment } => {
                // An answer may only be one that was offered: a wider rule was shown to nobody.
                if !asked.proposed_network_policy_amendments.contains(&amendment) {
                    return Answered::Refused(String::from("the answer has a rule that was not offered"));
                }
                ask.remember(destination, HostRule::from(&amendment).decision);
                drop(pending);
                ask.save(&amendment);
                match amendment.action {
                    NetworkPolicyRuleAction::Allow => Answered::Approved,
                    NetworkPolicyRuleAction::Deny => Answered::Refused(String::from("denied, now and always")),
                }
            }
            ReviewDecision::ApprovedExecpolicyAmendment { .. } => {
                Answered::Refused(String::from("the answer is not one to this question"))
            }
            ReviewDecision::Denied { reason } => Answered::Refused(reason.unwrap_or_else(|| String::from("denied"))),
            ReviewDecision::TimedOut => Answered::Refused(String::from("nobody answered in time")),
            ReviewDecision::Abort => {
                self.aborted.send_replace(true);
                Answered::Refused(String::from("the session was stopped"))
            }
        }
    }
}

fn question(destination: &Destination, program: Option<RawText>) -> NetworkApproval {
    let Destination { host, protocol, port } = destination.clone();
    let amendment = |action| NetworkPolicyAmendment {
        host: HostPattern::Exact(host.clone()),
        action,
        protocol: Some(protocol),
        port: Some(port),
    };
    let proposed_network_policy_amendments =
        vec![amendment(NetworkPolicyRuleAction::Allow), amendment(NetworkPolicyRuleAction::Deny)];
    NetworkApproval { host, protocol, port, program, proposed_network_policy_amendments }
}
