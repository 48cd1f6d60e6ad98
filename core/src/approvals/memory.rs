//! The approvals of a session, and its open questions.
//!
//! Only "for the session" is remembered, under exactly what was asked: another argument, directory or permission is
//! another question. The approved execution is remembered, so that a later run gets that and nothing more.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use stockade_protocol::{AbsPath, Argv, Decision, Destination, EscalationExecution, Permissions, SandboxPolicy};
use tokio::sync::watch;

use crate::session::Session;

/// The key of a remembered approval.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ApprovalKey {
    /// A command: every word, the directory, the session's permissions and the request's escalation.
    Command(Box<CommandKey>),
    /// A file that is to be changed.
    File(AbsPath),
    /// A tool of a server, with its arguments if they matter.
    Tool {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// The arguments as JSON; `None` for any.
        arguments: Option<String>,
    },
    /// Permissions for all later requests of the session, with its sandbox policy at that time.
    Permissions {
        /// The permissions, serialized.
        permissions: String,
        /// The sandbox policy, serialized.
        sandbox: String,
    },
    /// A destination on the network.
    Destination(Destination),
    /// The key of an embedder's own tool.
    Other(String),
}

/// The key of a command's approval.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CommandKey {
    /// Every word.
    pub command: Argv,
    /// The working directory.
    pub cwd: AbsPath,
    /// The session's permissions, serialized.
    pub permissions: String,
    /// The request's escalation, serialized.
    pub escalation: String,
    /// A hash of the caller's environment; `None` for the session's.
    pub environment: Option<String>,
}

impl CommandKey {
    /// The key for a command in a session that grants `permissions`.
    pub fn new(command: &Argv, cwd: &AbsPath, permissions: &Permissions, escalation: &EscalationExecution) -> Self {
        Self {
            command: command.clone(),
            cwd: cwd.clone(),
            permissions: written(permissions),
            escalation: written(escalation),
            environment: None,
        }
    }
}

/// The canonical serialization of a value, for comparison. A value that can't be serialized is equal to no other, so
/// that an approval of one never covers another.
pub(crate) fn written(value: &impl Serialize) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    serde_json::to_string(value).unwrap_or_else(|error| format!("{error}: {}", NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// A session's memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    approved: Mutex<HashMap<ApprovalKey, EscalationExecution>>,
    /// Destinations that were denied for the session.
    denied: Mutex<HashSet<Destination>>,
    /// Permissions for the next command that asks for them, with the session's sandbox policy at that time.
    once: Mutex<VecDeque<(SandboxPolicy, Permissions)>>,
}

/// Limit on such permissions. The oldest are dropped first.
const MOST_ONCE: usize = 64;

impl Memory {
    fn approved(&self) -> MutexGuard<'_, HashMap<ApprovalKey, EscalationExecution>> {
        self.approved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.approved().is_empty()
    }

    /// The execution approved for all of these keys, if each has the same one. `None` for an empty list.
    pub(crate) fn recall(&self, keys: &[ApprovalKey]) -> Option<EscalationExecution> {
        let approved = self.approved();
        let mut executions = keys.iter().map(|key| approved.get(key));
        let first = executions.next()??;
        executions.all(|other| other == Some(first)).then(|| first.clone())
    }

    pub(crate) fn remember(&self, keys: Vec<ApprovalKey>, execution: &EscalationExecution) {
        self.approved().extend(keys.into_iter().map(|key| (key, execution.clone())));
    }

    /// The remembered decision for a destination. A denial overrides an approval.
    pub(crate) fn destination(&self, destination: &Destination) -> Option<Decision> {
        if self.denied().contains(destination) {
            return Some(Decision::Forbidden);
        }
        self.approved().contains_key(&ApprovalKey::Destination(destination.clone())).then_some(Decision::Allow)
    }

    pub(crate) fn remember_destination(&self, destination: &Destination, decision: Decision) {
        match decision {
            // Nothing else is granted with it.
            Decision::Allow => {
                let key = ApprovalKey::Destination(destination.clone());
                self.remember(vec![key], &EscalationExecution::TurnDefault);
            }
            Decision::Forbidden => {
                self.denied().insert(destination.clone());
            }
            // Nothing to remember: the next attempt asks again.
            Decision::Prompt => {}
        }
    }

    fn denied(&self) -> MutexGuard<'_, HashSet<Destination>> {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn all(&self) -> Vec<(ApprovalKey, EscalationExecution)> {
        self.approved().iter().map(|(key, execution)| (key.clone(), execution.clone())).collect()
    }

    /// Returns whether it was known.
    pub(crate) fn forget(&self, key: &ApprovalKey) -> bool {
        self.approved().remove(key).is_some()
    }

    /// The permissions granted to the session's requests beyond its policy.
    pub(crate) fn granted(&self, sandbox: &SandboxPolicy) -> Vec<Permissions> {
        let approved = self.approved();
        let granted = approved.iter().filter_map(|(key, execution)| match (key, execution) {
            (ApprovalKey::Permissions { sandbox, .. }, EscalationExecution::Permissions(granted)) => {
                Some((sandbox, granted))
            }
            _ => None,
        });
        // Most sessions have none, and serializing a policy is expensive.
        let mut granted = granted.peekable();
        if granted.peek().is_none() {
            return Vec::new();
        }
        let now = written(sandbox);
        granted.filter(|(then, _)| **then == now).map(|(_, granted)| Permissions::clone(granted)).collect()
    }

    fn once(&self) -> MutexGuard<'_, VecDeque<(SandboxPolicy, Permissions)>> {
        self.once.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grants these permissions to the next command that asks for them, or for a part of them.
    pub(crate) fn allow_once(&self, session: &Session, permissions: Permissions) {
        let mut once = self.once();
        once.truncate(MOST_ONCE - 1);
        once.push_front((session.sandbox.clone(), permissions));
    }

    /// The index of permissions that cover a command's request.
    fn place(
        once: &VecDeque<(SandboxPolicy, Permissions)>,
        session: &Session,
        wanted: &EscalationExecution,
    ) -> Option<usize> {
        let EscalationExecution::Permissions(wanted) = wanted else { return None };
        once.iter().position(|(sandbox, granted)| *sandbox == session.sandbox && granted.merge(wanted) == *granted)
    }

    /// Whether a command's request is covered without another question.
    pub(crate) fn has_once(&self, session: &Session, wanted: &EscalationExecution) -> bool {
        Self::place(&self.once(), session, wanted).is_some()
    }

    /// Like `has_once`, and uses the permissions up.
    pub(crate) fn take_once(&self, session: &Session, wanted: &EscalationExecution) -> bool {
        let mut once = self.once();
        Self::place(&once, session, wanted).is_some_and(|place| once.remove(place).is_some())
    }

    /// Returns how many were known.
    pub(crate) fn forget_all(&self) -> usize {
        self.once().clear();
        self.denied().clear();
        let mut approved = self.approved();
        let known = approved.len();
        approved.clear();
        known
    }
}

/// Open questions, so that equal ones share an answer.
#[derive(Debug)]
pub(crate) struct Shared<Q, A> {
    waiting: Mutex<HashMap<Q, watch::Receiver<Option<A>>>>,
}

impl<Q, A> Default for Shared<Q, A> {
    fn default() -> Self {
        Self { waiting: Mutex::default() }
    }
}

/// Whether the question is open already.
enum Turn<'a, Q: Eq + std::hash::Hash, A> {
    Asks(Asking<'a, Q, A>),
    Waits(watch::Receiver<Option<A>>),
}

/// The request that asks for all. If it gives up, one of the others takes over.
struct Asking<'a, Q: Eq + std::hash::Hash, A> {
    shared: &'a Shared<Q, A>,
    question: Q,
    answer: watch::Sender<Option<A>>,
}

impl<Q: Eq + std::hash::Hash, A> Drop for Asking<'_, Q, A> {
    fn drop(&mut self) {
        self.shared.lock().remove(&self.question);
    }
}

impl<Q: Clone + Eq + std::hash::Hash, A: Clone> Shared<Q, A> {
    /// Answers a question: by `ask`, or together with an equal open question. Also returns whether this call asked.
    pub(crate) async fn ask<F: Future<Output = A>>(&self, question: Q, ask: impl Fn() -> F) -> (A, Asked) {
        loop {
            match self.turn(&question) {
                Turn::Asks(asking) => {
                    let answer = ask().await;
                    asking.answer.send_replace(Some(answer.clone()));
                    return (answer, Asked::Here);
                }
                Turn::Waits(mut answer) => {
                    // An error means that the asking request gave up.
                    if let Ok(answer) = answer.wait_for(Option::is_some).await
                        && let Some(answer) = answer.clone()
                    {
                        return (answer, Asked::Elsewhere);
                    }
                }
            }
        }
    }

    fn turn(&self, question: &Q) -> Turn<'_, Q, A> {
        let mut waiting = self.lock();
        if let Some(answer) = waiting.get(question) {
            return Turn::Waits(answer.clone());
        }
        let (answer, receiver) = watch::channel(None);
        waiting.insert(question.clone(), receiver);
        Turn::Asks(Asking { shared: self, question: question.clone(), answer })
    }
}

impl<Q: Eq + std::hash::Hash, A> Shared<Q, A> {
    fn lock(&self) -> MutexGuard<'_, HashMap<Q, watch::Receiver<Option<A>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which request asked a shared question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Here,
    Elsewhere,
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;

    fn key(words: &[&str], cwd: &str, escalation: &EscalationExecution) -> ApprovalKey {
        let command = Argv::parse(words.iter().copied()).unwrap();
        ApprovalKey::Command(Box::new(CommandKey::new(
            &command,
            &cwd.parse().unwrap(),
            &Permissions::default(),
            escalation,
        )))
    }

    #[test]
    fn only_exactly_the_same_is_known() {
        let memory = Memory::default();
        let plain = EscalationExecution::TurnDefault;
        memory.remember(vec![key(&["npm", "test"], "/a", &plain)], &plain);
        assert_eq!(memory.recall(&[key(&["npm", "test"], "/a", &plain)]), Some(plain.clone()));
        assert_eq!(memory.recall(&[key(&["npm", "test"], "/b", &plain)]), None, "another directory");
        assert_eq!(memory.recall(&[key(&["npm", "test", "-w"], "/a", &plain)]), None, "another argument");
        assert_eq!(memory.recall(&[key(&["npm", "test"], "/a", &EscalationExecution::Unsandboxed)]), None, "more");
        assert_eq!(memory.recall(&[]), None);
    }

    #[test]
    fn every_file_of_a_change_has_to_be_known() {
        let file = |path: &str| ApprovalKey::File(path.parse().unwrap());
        let memory = Memory::default();
        memory.remember(vec![file("/a"), file("/b")], &EscalationExecution::TurnDefault);
        assert!(memory.recall(&[file("/a")]).is_some());
        assert!(memory.recall(&[file("/b"), file("/a")]).is_some());
        assert_eq!(memory.recall(&[file("/a"), file("/c")]), None);
        assert_eq!(memory.recall(&[file("/a/below")]), None);
    }

    #[tokio::test(start_paused = true)]
    async fn equal_questions_share_one_answer() {
        let (shared, asked) = (Shared::<&str, u8>::default(), AtomicUsize::new(0));
        let ask = || async {
            asked.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
            7
        };
        let (a, b, other) = tokio::join!(shared.ask("q", ask), shared.ask("q", ask), shared.ask("r", ask));
        assert_eq!((a, b), ((7, Asked::Here), (7, Asked::Elsewhere)));
        assert_eq!(other, (7, Asked::Here));
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        assert_eq!(shared.ask("q", ask).await, (7, Asked::Here), "an answer is not kept");
    }

    #[tokio::test(start_paused = true)]
    async fn when_the_one_who_asks_gives_up_another_asks() {
        let shared = Shared::<&str, u8>::default();
        let never = || std::future::pending::<u8>();
        let gives_up = tokio::time::timeout(Duration::from_secs(1), shared.ask("q", never));
        let (first, second) = tokio::join!(gives_up, shared.ask("q", || async { 3 }));
        assert!(first.is_err());
        assert_eq!(second, (3, Asked::Here));
    }
}
