//! What a backend has seen a command try that its policy denies: facts, in place of guesses from its output.
//!
//! An act is noted only if the policy denies it and this user could do it without the sandbox. Notes are kept in a
//! bounded list: a command that tries the same again, or too many different things, is counted, and costs no memory.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use stockade_protocol::{AbsPath, Host, NetworkProtocol, RawText};

/// Different acts that are kept of one run. Nobody reads more.
const MOST_KEPT: usize = 256;

/// An act that the policy denies and the host would have allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observation {
    /// The process that tried, as the host numbers it.
    pub pid: Option<u32>,
    /// The program of that process.
    pub program: Option<RawText>,
    /// What it tried.
    pub act: DeniedAct,
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

/// The notes of one run. Shared by everything that watches it.
#[derive(Debug)]
pub struct Observations {
    coverage: Coverage,
    notes: Mutex<Notes>,
}

#[derive(Debug, Default)]
struct Notes {
    kept: Vec<Observation>,
    known: BTreeSet<DeniedAct>,
    /// Acts beyond those that are kept.
    left_out: u64,
}

impl Observations {
    /// Nothing yet, of a run that is watched to this extent.
    pub fn new(coverage: Coverage) -> Self {
        Self { coverage, notes: Mutex::default() }
    }

    /// What is watched.
    pub fn coverage(&self) -> Coverage {
        self.coverage
    }

    /// Notes an act, unless it is known already or there is no more room. `judge` tells who did it, and whether it
    /// is to be noted at all; it is asked only for what would be kept.
    pub fn note(&self, act: DeniedAct, judge: impl FnOnce(DeniedAct) -> Option<Observation>) {
        {
            let mut notes = self.notes();
            if notes.known.contains(&act) {
                return;
            }
            if notes.known.len() >= MOST_KEPT {
                notes.left_out = notes.left_out.saturating_add(1);
                return;
            }
        }
        // Looking at the host's files may take its time.
        let Some(observation) = judge(act) else { return };
        let mut notes = self.notes();
        if notes.known.len() < MOST_KEPT && notes.known.insert(observation.act.clone()) {
            notes.kept.push(observation);
        }
    }

    /// Everything that was kept so far, in the order in which it happened.
    pub fn kept(&self) -> Vec<Observation> {
        self.notes().kept.clone()
    }

    /// How many acts were seen for which there was no room.
    pub fn left_out(&self) -> u64 {
        self.notes().left_out
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(notes: &Observations, path: &str) {
        let act = DeniedAct::Create(path.parse().unwrap());
        notes.note(act, |act| Some(Observation { pid: Some(1), program: None, act }));
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

    #[test]
    fn what_is_no_denial_is_not_kept() {
        let notes = Observations::new(Coverage::default());
        notes.note(DeniedAct::Write("/a".parse().unwrap()), |_| None);
        assert!(notes.kept().is_empty());
    }
}
