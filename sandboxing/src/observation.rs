//! What a backend has seen a command try that its policy denies: facts, in place of guesses from its output.
//!
//! An act is noted only if the policy denies it and this user could do it without the sandbox. Notes are kept in a
//! bounded list: a command that tries the same again, or too many different things, is counted, and costs no memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stockade_protocol::{AbsPath, Host, NetworkProtocol, RawText};

/// Different acts that are kept of one run. Nobody reads more.
const MOST_KEPT: usize = 256;
/// Processes that are kept of one act. Beyond them it is of consequence.
const MOST_PROCESSES: usize = 8;

/// An act that the policy denies and the host would have allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The process that tried, as the host numbers it.
    pub pid: Option<u32>,
    /// The program of that process.
    pub program: Option<RawText>,
    /// What it tried.
    pub act: DeniedAct,
    /// Whether the process is known to have done without: it ended well, and a shell that learns no more had started it.
    pub is_handled: bool,
}

/// What was tried, and on what. Paths are those of the host, with links followed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeniedAct {
    /// Reading a file, or looking into a directory.
    Read(AbsPath),
    /// Writing a file that exists, or changing its attributes.
    Write(AbsPath),
    /// Making a file of any kind but a directory, in a directory that exists.
    Create(AbsPath),
    /// Making a directory.
    MakeDirectory(AbsPath),
    /// Removing, renaming or replacing a name that exists, which changes the directory that it is in.
    Replace(AbsPath),
    /// Looking up the address of a host, with no name server in reach.
    LookUp(Host),
    /// Connecting, or sending, to a host.
    Connect {
        /// The host, by name if the sandbox has looked it up.
        host: Host,
        /// What goes over the connection.
        protocol: NetworkProtocol,
        /// The port.
        port: u16,
    },
}

impl DeniedAct {
    /// The path that it is about, if it is about files.
    pub fn path(&self) -> Option<&AbsPath> {
        match self {
            Self::Read(path)
            | Self::Write(path)
            | Self::Create(path)
            | Self::MakeDirectory(path)
            | Self::Replace(path) => Some(path),
            Self::LookUp(_) | Self::Connect { .. } => None,
        }
    }
}

/// What is seen of a run. The rest is left to other evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Calls that change the file system.
    pub writes: bool,
    /// Reads of what the policy denies to read.
    pub denied_reads: bool,
    /// Connections to hosts, with the network off.
    pub connections: bool,
}

/// Tells of a process whether it is known to have done without what it was denied. Asked when the command is over.
pub type IsHandled = Box<dyn Fn(u32) -> bool + Send + Sync>;

/// The notes of one run. Shared by everything that watches it.
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
    /// Acts beyond those that are kept.
    left_out: u64,
}

impl Observations {
    /// Nothing yet, of a run that is watched to this extent. Every denial is of consequence.
    pub fn new(coverage: Coverage) -> Self {
        Self::with_ends(coverage, Box::new(|_| false))
    }

    /// The same, where it can be told which processes did without.
    pub fn with_ends(coverage: Coverage, is_handled: IsHandled) -> Self {
        Self { coverage, is_handled, notes: Mutex::default() }
    }

    /// What is watched.
    pub fn coverage(&self) -> Coverage {
        self.coverage
    }

    /// Notes an act, unless it is known already of so many processes, or there is no more room. `judge` tells who did
    /// it, and whether it is to be noted at all; it is asked only for what would be kept.
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
        // Looking at the host's files may take its time.
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

    /// Everything that was kept so far, in the order in which it happened.
    pub fn kept(&self) -> Vec<Observation> {
        let notes = self.notes();
        let is_handled = |observation: &Observation| {
            let tried = notes.known.get(&observation.act).filter(|tried| tried.len() < MOST_PROCESSES);
            tried.is_some_and(|tried| tried.iter().all(|process| process.is_some_and(&self.is_handled)))
        };
        let judged = |kept: &Observation| Observation { is_handled: is_handled(kept), ..kept.clone() };
        notes.kept.iter().map(judged).collect()
    }

    /// How many acts were seen for which there was no room.
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

    /// One process that did without says nothing of another.
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
