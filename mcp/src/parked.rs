//! Calls that wait for an answer between two requests of a client.
//!
//! From version 2026-07-28 on, a server asks by ending a call: the client calls again with the answer, and with a state that
//! the server gave it. What waits here is a running command, so the state is a name for it: 256 random bits, known to this
//! process alone, which nothing but the client that was asked can know. It is taken out by its first use, and belongs to one call: the
//! same tool with the same arguments.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::model::JsonObject;
use tokio::task::AbortHandle;

use crate::call::Call;
use crate::link::Question;

/// Calls that wait at a time.
const MOST: usize = 16;

/// How long a call waits for the client to come back.
const LIMIT: Duration = Duration::from_secs(600);

/// A call that waits, and its question.
pub(crate) struct Waiting {
    pub(crate) call: Call,
    pub(crate) question: Question,
    pub(crate) name: String,
    pub(crate) arguments: Option<JsonObject>,
}

/// Why a state is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StateError {
    #[error(
        "no call waits with this `requestState`: it was used, has expired, or was not given out. Call again without it"
    )]
    Unknown,
    #[error("`requestState` belongs to a call of another tool, or with other arguments; that call was ended")]
    OtherCall,
    #[error("{MOST} calls wait for an answer already")]
    TooMany,
    #[error("the system gives no random bytes for `requestState`")]
    NoRandomness,
}

/// The calls of one client that wait.
#[derive(Clone, Default)]
pub(crate) struct Parked(Arc<Mutex<HashMap<String, (Waiting, Expiry)>>>);

/// The end of a call's time, until this is dropped.
struct Expiry(AbortHandle);

impl Drop for Expiry {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Parked {
    /// Has a call wait, and gives its state.
    pub(crate) fn park(&self, waiting: Waiting) -> Result<String, (StateError, Box<Waiting>)> {
        let mut bits = [0; 32];
        if getrandom::fill(&mut bits).is_err() {
            return Err((StateError::NoRandomness, Box::new(waiting)));
        }
        let state: String = bits.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            return Err((StateError::TooMany, Box::new(waiting)));
        }
        let (parked, expires) = (self.clone(), state.clone());
        let expiry = tokio::spawn(async move {
            tokio::time::sleep(LIMIT).await;
            // Its command ends with it.
            drop(parked.remove(&expires));
        });
        all.insert(state.clone(), (waiting, Expiry(expiry.abort_handle())));
        Ok(state)
    }

    /// The call that a client comes back to. Whatever the answer, the state is used.
    pub(crate) fn take(&self, state: &str, name: &str, arguments: Option<&JsonObject>) -> Result<Waiting, StateError> {
        let waiting = self.remove(state).ok_or(StateError::Unknown)?;
        if waiting.name != name || waiting.arguments.as_ref() != arguments {
            return Err(StateError::OtherCall);
        }
        Ok(waiting)
    }

    /// Ends the calls that a new one repeats: their client has begun anew. The session puts the same question once at a time,
    /// so the new call would wait for an answer to theirs, which may never come.
    pub(crate) fn end_repeated(&self, name: &str, arguments: Option<&JsonObject>) {
        let asked = essential(arguments);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_repeated = |_: &String, (waiting, _): &mut (Waiting, Expiry)| {
            waiting.name == name && essential(waiting.arguments.as_ref()) == asked
        };
        let ended: Vec<_> = all.extract_if(is_repeated).collect();
        drop(all);
        // Their commands end with them.
        drop(ended);
    }

    fn remove(&self, state: &str) -> Option<Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(state).map(|(waiting, _)| waiting)
    }
}

/// The arguments that a question is about.
fn essential(arguments: Option<&JsonObject>) -> JsonObject {
    let mut arguments = arguments.cloned().unwrap_or_default();
    for name in ["timeout_ms", "max_output_bytes", "justification"] {
        arguments.remove(name);
    }
    arguments
}
