//! Who answers for which thread, and when they are asked.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stockade_protocol::{AskForApproval, ThreadId};

use super::{Approver, Fixed};

/// After this many threads without an approver, another one is no news.
const MOST_WARNINGS: usize = 1024;

/// What is configured for each thread.
///
/// For a thread that nothing is configured for, the default is [`AskForApproval::OnRequest`] and an
/// approver that says no and why. Each such thread is warned of once.
///
/// ```
/// use std::sync::Arc;
/// use stockade_core::{Fixed, Registry};
/// use stockade_protocol::{AskForApproval, ThreadId};
///
/// let registry = Registry::new();
/// let thread: ThreadId = "agent-1".parse()?;
/// registry.set(thread.clone(), AskForApproval::Untrusted, Arc::new(Fixed::allow()));
/// assert_eq!(registry.get(&thread).ask, AskForApproval::Untrusted);
/// assert_eq!(registry.get(&"agent-2".parse()?).ask, AskForApproval::OnRequest);
/// # Ok::<(), stockade_protocol::Invalid>(())
/// ```
#[derive(Default)]
pub struct Registry(Mutex<Threads>);

#[derive(Default)]
struct Threads {
    configured: HashMap<ThreadId, Registered>,
    warned_of: HashSet<ThreadId>,
}

/// What is configured for one thread.
#[derive(Clone)]
pub struct Registered {
    /// When to ask.
    pub ask: AskForApproval,
    /// Whom to ask.
    pub approver: Arc<dyn Approver>,
}

impl Registry {
    /// Nothing is configured yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets when and whom to ask for a thread, from its next question on.
    pub fn set(&self, thread: ThreadId, ask: AskForApproval, approver: Arc<dyn Approver>) {
        let mut threads = self.lock();
        threads.warned_of.remove(&thread);
        threads.configured.insert(thread, Registered { ask, approver });
    }

    /// Forgets a thread that has ended.
    pub fn remove(&self, thread: &ThreadId) {
        let mut threads = self.lock();
        threads.warned_of.remove(thread);
        threads.configured.remove(thread);
    }

    /// When and whom to ask for a thread.
    pub fn get(&self, thread: &ThreadId) -> Registered {
        let mut threads = self.lock();
        if let Some(registered) = threads.configured.get(thread) {
            return registered.clone();
        }
        if threads.warned_of.len() < MOST_WARNINGS && threads.warned_of.insert(thread.clone()) {
            tracing::warn!(%thread, "no approver is configured for the thread: every question is denied");
        }
        Registered { ask: AskForApproval::OnRequest, approver: Arc::new(nobody(thread)) }
    }

    fn lock(&self) -> MutexGuard<'_, Threads> {
        // No change can stop halfway, so the threads are sound even after a panic elsewhere.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn nobody(thread: &ThreadId) -> Fixed {
    Fixed::deny(format!(
        "no approver is configured for the thread `{thread}`: set one with `Registry::set`, or an approval policy that \
         does not ask"
    ))
}
