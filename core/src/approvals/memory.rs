//! What a session has been allowed, and questions that are being asked right now.
//!
//! Only "for the session" is remembered, under exactly what was asked: another argument, directory or
//! permission is another question. What is remembered is the execution that was approved, so that a
//! later run gets that and nothing more.

use std::collections::{HashMap, HashSet, VecDeque};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use stockade_protocol::{AbsPath, Argv, Decision, Destination, EscalationExecution, Permissions, SandboxPolicy};
use tokio::sync::watch;

use crate::session::Session;

/// What an approval is remembered under.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ApprovalKey {
    /// A command: every word, the directory, what the session grants and what the request asks for.
    Command(Box<CommandKey>),
    /// A file that is to be changed.
    File(AbsPath),
    /// A tool of a server, with what its policy says of the arguments.
    Tool {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// The arguments as JSON, or nothing if any will do.
        arguments: Option<String>,
    },
    /// Permissions that the session's requests have from then on, with the sandbox policy that it had then.
    Permissions {
        /// The permissions, in their written form.
        permissions: String,
        /// The sandbox policy, in its written form.
        sandbox: String,
    },
    /// A destination on the network.
    Destination(Destination),
    /// What an embedder's own tool is known by.
    Other(String),
}

/// What a command's approval is remembered under.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CommandKey {
    /// Every word.
    pub command: Argv,
    /// Where it starts.
    pub cwd: AbsPath,
    /// What the session grants, in its written form.
    pub permissions: String,
    /// What the request asks for, in its written form.
    pub escalation: String,
    /// A hash of the environment that a caller gave it; none if it has the session's.
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

/// The one written form of a value, by which it is known again. A value that can't be written is known by
/// nothing: it is never the same as another, so that an approval for one is none for the other.
pub(crate) fn written(value: &impl Serialize) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    serde_json::to_string(value).unwrap_or_else(|error| format!("{error}: {}", NEXT.fetch_add(1, Ordering::Relaxed)))
}

/// A session's memory.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    approved: Mutex<HashMap<ApprovalKey, EscalationExecution>>,
    /// Destinations that were denied for good.
    denied: Mutex<HashSet<Destination>>,
    /// Permissions for the next command that asks for them, with the sandbox policy that the session had then.
    once: Mutex<VecDeque<(SandboxPolicy, Permissions)>>,
}

/// The most permissions that wait for a command. The oldest go first.
const MOST_ONCE: usize = 64;

impl Memory {
    fn approved(&self) -> MutexGuard<'_, HashMap<ApprovalKey, EscalationExecution>> {
        self.approved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.approved().is_empty()
    }

    /// The execution that was approved for all of these, if each is known with the same one. Nothing
    /// is known of nothing.
    pub(crate) fn recall(&self, keys: &[ApprovalKey]) -> Option<EscalationExecution> {
        let approved = self.approved();
        let mut executions = keys.iter().map(|key| approved.get(key));
        let first = executions.next()??;
        executions.all(|other| other == Some(first)).then(|| first.clone())
    }

    pub(crate) fn remember(&self, keys: Vec<ApprovalKey>, execution: &EscalationExecution) {
        self.approved().extend(keys.into_iter().map(|key| (key, execution.clone())));
    }

    /// What an answer says of a destination. A denial stands against an approval.
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
            // The next one is asked about again.
            Decision::Prompt => {}
        }
    }

    fn denied(&self) -> MutexGuard<'_, HashSet<Destination>> {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn all(&self) -> Vec<(ApprovalKey, EscalationExecution)> {
        self.approved().iter().map(|(key, execution)| (key.clone(), execution.clone())).collect()
    }

    /// Says whether it was known.
    pub(crate) fn forget(&self, key: &ApprovalKey) -> bool {
        self.approved().remove(key).is_some()
    }

    /// What the session's requests have besides its policy.
    pub(crate) fn granted(&self, sandbox: &SandboxPolicy) -> Vec<Permissions> {
        let approved = self.approved();
        let granted = approved.iter().filter_map(|(key, execution)| match (key, execution) {
            (ApprovalKey::Permissions { sandbox, .. }, EscalationExecution::Permissions(granted)) => {
                Some((sandbox, granted))
            }
            _ => None,
        });
        // Most sessions have none, and a policy is long.
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

    /// The next command that asks for these permissions, or for part of them, has them.
    pub(crate) fn allow_once(&self, session: &Session, permissions: Permissions) {
        let mut once = self.once();
        once.truncate(MOST_ONCE - 1);
        once.push_front((session.sandbox.clone(), permissions));
    }

    /// Where the permissions stand that a command may have without another question.
    fn place(
        once: &VecDeque<(SandboxPolicy, Permissions)>,
        session: &Session,
        wanted: &EscalationExecution,
    ) -> Option<usize> {
        let EscalationExecution::Permissions(wanted) = wanted else { return None };
        once.iter().position(|(sandbox, granted)| *sandbox == session.sandbox && granted.merge(wanted) == *granted)
    }

    /// Whether a command may have what it wants without another question.
    pub(crate) fn has_once(&self, session: &Session, wanted: &EscalationExecution) -> bool {
        Self::place(&self.once(), session, wanted).is_some()
    }

    /// The same, for this command and no other.
    pub(crate) fn take_once(&self, session: &Session, wanted: &EscalationExecution) -> bool {
        let mut once = self.once();
        Self::place(&once, session, wanted).is_some_and(|place| once.remove(place).is_some())
    }

    /// Says how many were known.
    pub(crate) fn forget_all(&self) -> usize {
        self.once().clear();
        self.denied().clear();
        let mut approved = self.approved();
        let known = approved.len();
        approved.clear();
        known
    }
}

/// Questions that wait for an answer, so that equal ones share it.
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

/// The request that asks on behalf of all. If it gives up, one of the others takes over.
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
    /// Answers a question: by `ask`, or together with an equal question that is being asked. Says
    /// whether this call was the one that asked.
    pub(crate) async fn ask<F: Future<Output = A>>(&self, question: Q, ask: impl Fn() -> F) -> (A, Asked) {
        loop {
            match self.turn(&question) {
                Turn::Asks(asking) => {
                    let answer = ask().await;
                    asking.answer.send_replace(Some(answer.clone()));
                    return (answer, Asked::Here);
                }
                Turn::Waits(mut answer) => {
                    // An error means that the request that asked gave up.
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

/// Who asked a question that several had.
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
