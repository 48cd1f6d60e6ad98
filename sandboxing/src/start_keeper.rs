//! The starts of programs below a command: judged one by one, while the call that starts a program waits.
//!
//! What is judged is a copy of the caller's words. After a yes the kernel goes on with the call, so a caller that
//! rewrites its words meanwhile starts something else, inside the same sandbox: a verdict guides programs, and the
//! sandbox is what holds them. A program that is to have more than its caller is started elsewhere, from the copy, and
//! never by letting the call go on.

use std::fmt;
use std::sync::Arc;

use stockade_protocol::{AbsPath, Argv, RawText, Umask};

use crate::{DirectoryIdentity, Running, SpawnError, Stdio};

/// A program that is about to be started, as it was read from its caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramStart {
    /// The words that are judged, under each name of the program: its path, the name that it is told, what a link that
    /// the command may have made leads to, and its interpreter if it is a script. Words beyond a bound are left out.
    pub forms: Vec<Vec<RawText>>,
    /// The same words under further paths of its file, as the system's links lead there. They count for rules that name a
    /// path, and for no rule that names a program. A name without `/` may be any file of that name.
    pub path_forms: Vec<Vec<RawText>>,
    /// Whether words were left out.
    pub has_more_words: bool,
    /// The base name of its file, with links followed, if the file is known.
    pub file: Option<RawText>,
    /// Where it is started.
    pub cwd: Option<AbsPath>,
    /// What is known beyond that, if it could be started elsewhere.
    pub copy: Option<StartCopy>,
}

/// A start that can be made elsewhere: copied whole, and of files that are the host's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartCopy {
    /// The program's file, with links followed. The caller's file of this path is the host's.
    pub program: AbsPath,
    /// The path that the caller gave, from the root on.
    pub given: AbsPath,
    /// The name that it is told, and its arguments: all of them.
    pub words: Vec<RawText>,
    /// Where it is started. The caller's directory of this path is the host's.
    pub cwd: AbsPath,
    /// The interpreters of a script, its own first.
    pub interpreters: Vec<RawText>,
    /// Those variables of the caller that were asked for ([`Concern::Escalate`]), if it has them.
    pub variables: Vec<(RawText, RawText)>,
}

/// The process that starts a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartCaller {
    /// As the host numbers it.
    pub pid: Option<u32>,
    /// Its program.
    pub program: Option<RawText>,
    /// What it runs, behind what has started that, and so on: the command comes first. Long ones are cut.
    pub chain: Vec<Argv>,
}

/// What becomes of a start.
#[derive(Debug)]
pub enum StartVerdict {
    /// The kernel makes it, in the same sandbox.
    GoOn,
    /// It fails with `EACCES`.
    Refused,
    /// The program runs elsewhere, and a stub in its caller's place. A backend that can't do that lets the kernel make
    /// the start, in the same sandbox.
    Elsewhere(Box<dyn ElsewhereStart>),
}

/// Starts a program elsewhere, from what was copied of its start.
pub trait ElsewhereStart: fmt::Debug + Send {
    /// Starts it, with the streams and the file mode mask of its caller, in no other directory than its caller's
    /// ([`ProcessSettings::directory`](crate::ProcessSettings::directory)).
    fn start(
        self: Box<Self>,
        stdio: Stdio,
        umask: Option<Umask>,
        directory: DirectoryIdentity,
    ) -> Result<Box<dyn Running>, SpawnError>;

    /// Hears that it can't be started elsewhere, and why: it goes on in its caller's sandbox.
    fn impossible(self: Box<Self>, why: String);
}

/// Whether a start has to be decided on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Concern {
    /// It goes on.
    None,
    /// [`StartKeeper::decide`] decides.
    Decide,
    /// The same; the program may be started elsewhere, with these variables of its caller.
    Escalate {
        /// Their names.
        variables: Vec<RawText>,
    },
}

/// Decides on starts of programs.
pub trait StartKeeper: Send + Sync {
    /// Whether a program of this base name could be one to decide on. Asked for each start, before its words are read.
    fn concerns(&self, name: &[u8]) -> bool;

    /// Whether a start has to be decided on. Asked for each start that may concern it, so it is quick.
    fn judge(&self, start: &ProgramStart) -> Concern;

    /// Decides on one start. Returns soon, and answers when the decision is there.
    fn decide(&self, start: ProgramStart, caller: StartCaller, answer: StartAnswer);

    /// Whether a start may have to be refused. If not, what can't be looked at goes on.
    fn restricts(&self) -> bool {
        true
    }

    /// Hears of a start that was refused since its caller can't be looked at.
    fn unreadable(&self, caller: StartCaller);

    /// Hears of a start that was refused since it can't be known which file its path leads to.
    fn unresolved(&self, caller: StartCaller, path: RawText) {
        let _ = path;
        self.unreadable(caller);
    }
}

/// Takes one verdict. Dropped without one, it refuses.
pub struct StartAnswer {
    give: Option<Box<dyn FnOnce(StartVerdict) + Send>>,
    is_wanted: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl StartAnswer {
    /// Passes the verdict on to the call that waits for it. `is_wanted` tells whether it still does: its process may
    /// have ended meanwhile.
    pub fn new(
        give: impl FnOnce(StartVerdict) + Send + 'static,
        is_wanted: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        Self { give: Some(Box::new(give)), is_wanted: Arc::new(is_wanted) }
    }

    /// Tells, whenever it is called, whether the call still waits.
    pub fn is_wanted(&self) -> Arc<dyn Fn() -> bool + Send + Sync> {
        Arc::clone(&self.is_wanted)
    }

    /// Gives the verdict.
    pub fn give(mut self, verdict: StartVerdict) {
        if let Some(give) = self.give.take() {
            give(verdict);
        }
    }
}

impl Drop for StartAnswer {
    fn drop(&mut self) {
        if let Some(give) = self.give.take() {
            give(StartVerdict::Refused);
        }
    }
}

impl fmt::Debug for StartAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StartAnswer")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn silence_is_a_refusal_and_a_verdict_is_given_once() {
        let (sender, receiver) = channel();
        let (first, second) = (sender.clone(), sender);
        drop(StartAnswer::new(move |verdict| first.send(verdict).unwrap(), || true));
        assert!(matches!(receiver.try_recv(), Ok(StartVerdict::Refused)));
        StartAnswer::new(move |verdict| second.send(verdict).unwrap(), || true).give(StartVerdict::GoOn);
        assert!(matches!(receiver.iter().collect::<Vec<_>>().as_slice(), [StartVerdict::GoOn]));
    }
}
