//! Observed denials: acts that a command tried and its policy denies, instead of guesses from its output.
//!
//! An act is recorded only if the policy denies it and this user could do it without the sandbox. The list is bounded:
//! repeated acts, and those beyond the limit, are only counted.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stockade_protocol::{AbsPath, Host, NetworkProtocol, RawText};

/// Limit on distinct acts kept per run.
const MOST_KEPT: usize = 256;
/// Limit on processes kept per act. An act of more processes counts as unhandled.
const MOST_PROCESSES: usize = 8;

/// An act that the policy denies and the host would have allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The process that tried, by its host pid.
    pub pid: Option<u32>,
    /// The program of that process.
    pub program: Option<RawText>,
    /// The act.
    pub act: DeniedAct,
    /// Whether the process is known to have coped: it exited successfully, and its parent was a shell that learns only
    /// that.
    pub is_handled: bool,
}

/// A denied act and its object. Paths are those of the host, with links resolved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeniedAct {
    /// Reading a file, or listing a directory.
    Read(AbsPath),
    /// Looking whether a hidden name exists, or may be read, without opening it.
    LookAt(AbsPath),
    /// Writing a file that exists, or changing its attributes.
    Write(AbsPath),
    /// Creating a file of any type but a directory, in an existing directory.
    Create(AbsPath),
    /// Creating a directory.
    MakeDirectory(AbsPath),
    /// Removing, renaming or replacing an existing name, which changes its directory.
    Replace(AbsPath),
    /// Giving a file a second name.
    Link {
        /// The file.
        from: AbsPath,
        /// Its second name.
        path: AbsPath,
    },
    /// Resolving a host name without a reachable name server.
    LookUp(Host),
    /// Connecting, or sending, to a host.
    Connect {
        /// The host, by name if the sandbox has resolved it.
        host: Host,
        /// The protocol.
        protocol: NetworkProtocol,
        /// The port.
        port: u16,
    },
    /// A system call that the sandbox refuses whatever the policy, by name.
    Call(&'static str),
    /// Making a unix socket, in a sandbox that has none. What it was to be connected to is not known then.
    UnixSocket,
    /// Using more than a limit allows.
    Exceed(CountedLimit),
}

/// A limit whose violations the kernel counts, or the backend sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CountedLimit {
    /// Memory of the whole tree of processes.
    Memory,
    /// Processes and threads.
    Processes,
}

impl CountedLimit {
    /// The field of `ResourceLimits`.
    pub fn field(self) -> &'static str {
        match self {
            Self::Memory => "memory_bytes",
            Self::Processes => "processes",
        }
    }
}

impl DeniedAct {
    /// The path, if the act is about a file.
    pub fn path(&self) -> Option<&AbsPath> {
        match self {
            Self::Read(path)
            | Self::LookAt(path)
            | Self::Write(path)
            | Self::Create(path)
            | Self::MakeDirectory(path)
            | Self::Replace(path)
            | Self::Link { path, .. } => Some(path),
            Self::LookUp(_) | Self::Connect { .. } | Self::Call(_) | Self::UnixSocket | Self::Exceed(_) => None,
        }
    }
}

/// The kinds of acts observed in a run. For the others there is other evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Calls that change the file system.
    pub writes: bool,
    /// Reads that the policy denies.
    pub denied_reads: bool,
    /// Connections to hosts, with the network off.
    pub connections: bool,
    /// System calls that are refused whatever the policy and noted, by name.
    pub calls: &'static [&'static str],
    /// The limit on memory.
    pub memory: bool,
    /// The limit on processes.
    pub processes: bool,
}

/// Whether a process is known to have coped with a denial. Called after the command has ended.
pub type IsHandled = Box<dyn Fn(u32) -> bool + Send + Sync>;

/// The observations of one run, shared by its observers.
pub struct Observations {
    coverage: Coverage,
    is_handled: IsHandled,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    kept: Vec<Observation>,
    /// Each act, with the processes that have tried it.
    known: BTreeMap<DeniedAct, Vec<Option<u32>>>,
    /// The number of acts beyond the limit.
    left_out: u64,
}

impl Observations {
    /// An empty list for a run with this coverage. No denial counts as handled.
    pub fn new(coverage: Coverage) -> Self {
        Self::with_ends(coverage, Box::new(|_| false))
    }

    /// Like `new`, with a check for processes that coped.
    pub fn with_ends(coverage: Coverage, is_handled: IsHandled) -> Self {
        Self { coverage, is_handled, notes: Mutex::default() }
    }

    /// The coverage.
    pub fn coverage(&self) -> Coverage {
        self.coverage
    }

    /// Records an act, unless it is known for enough processes or the list is full. `judge` identifies the process and
    /// decides whether to record the act; it is called only for acts that would be kept.
    pub fn note(&self, act: DeniedAct, judge: impl FnOnce(DeniedAct) -> Option<Observation>) {
        {
            let mut notes = self.notes();
            match notes.known.get(&act) {
                Some(tried) if tried.len() >= MOST_PROCESSES => return,
                Some(_) => {}
                None if notes.known.len() >= MOST_KEPT => {
                    notes.left_out = notes.left_out.saturating_add(1);
                    return;
                }
                None => {}
            }
        }
        // Not under the lock: it may access the host's files.
        let Some(observation) = judge(act) else { return };
        let mut notes = self.notes();
        if let Some(tried) = notes.known.get_mut(&observation.act) {
            if !tried.contains(&observation.pid) {
                tried.push(observation.pid);
            }
        } else if notes.known.len() < MOST_KEPT {
            notes.known.insert(observation.act.clone(), vec![observation.pid]);
            notes.kept.push(observation);
        }
    }

    /// The recorded acts, in order.
    pub fn kept(&self) -> Vec<Observation> {
        let notes = self.notes();
        let is_handled = |observation: &Observation| {
            let tried = notes.known.get(&observation.act).filter(|tried| tried.len() < MOST_PROCESSES);
            tried.is_some_and(|tried| tried.iter().all(|process| process.is_some_and(&self.is_handled)))
        };
        let judged = |kept: &Observation| Observation { is_handled: is_handled(kept), ..kept.clone() };
        notes.kept.iter().map(judged).collect()
    }

    /// The number of acts for which there was no room.
    pub fn left_out(&self) -> u64 {
        self.notes().left_out
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Observations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Observations")
            .field("coverage", &self.coverage)
            .field("notes", &self.notes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(notes: &Observations, path: &str) {
        let act = DeniedAct::Create(path.parse().unwrap());
        notes.note(act, |act| Some(Observation { pid: Some(1), program: None, act, is_handled: false }));
    }

    #[test]
    fn an_act_is_kept_once_and_a_flood_is_counted() {
        let notes = Observations::new(Coverage::default());
        note(&notes, "/a");
        note(&notes, "/a");
        assert_eq!(notes.kept().len(), 1);
        for number in 0..10_000 {
            note(&notes, &format!("/b/{number}"));
        }
        assert_eq!(notes.kept().len(), MOST_KEPT);
        assert_eq!(notes.left_out(), 10_001 - MOST_KEPT as u64);
    }

    /// One process that coped says nothing about another.
    #[test]
    fn an_act_is_handled_if_all_that_tried_it_did_without() {
        let handled = |tried: &[u32]| {
            let notes = Observations::with_ends(Coverage::default(), Box::new(|process| process < 10));
            for process in tried {
                let act = DeniedAct::Create("/a".parse().unwrap());
                notes.note(act, |act| Some(Observation { pid: Some(*process), program: None, act, is_handled: false }));
            }
            assert_eq!(notes.kept().len(), 1);
            notes.kept()[0].is_handled
        };
        assert!(handled(&[1]) && handled(&[1, 2, 1]));
        assert!(!handled(&[10]) && !handled(&[1, 10]));
        assert!(!handled(&[0, 1, 2, 3, 4, 5, 6, 7, 10]), "there may be more than are kept");
    }

    #[test]
    fn what_is_no_denial_is_not_kept() {
        let notes = Observations::new(Coverage::default());
        notes.note(DeniedAct::Write("/a".parse().unwrap()), |_| None);
        assert!(notes.kept().is_empty());
    }
}
