//! Grants that were saved by "always" at a question about a write: for exactly one command in this session's workspace.

use std::collections::BTreeSet;
use std::fmt;

use stockade_protocol::{AbsPath, Argv, Permissions, ProfileAmendment};

use crate::approvals::RuleStore;
use crate::redact_argv;
use crate::session::{Sandboxing, Session};
use crate::verdict::Verdict;
use crate::writable_program::planted_program;

/// A grant for one command.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedGrant {
    /// The command, to the last word.
    pub command: Argv,
    /// What it has on top of the session's permissions.
    pub permissions: Permissions,
    /// Missing directories among it, to be created when the command runs.
    pub directories: BTreeSet<AbsPath>,
}

/// Keeps the permission profiles that answers save.
pub trait ProfileStore: fmt::Debug + Send + Sync {
    /// The profile that would let a command write these paths in this workspace; `None` if no profile may grant that, or
    /// none can be saved.
    fn propose(&self, command: &Argv, write: &[AbsPath]) -> Option<ProfileAmendment>;

    /// Saves a profile that was proposed.
    fn save(&self, amendment: &ProfileAmendment) -> Result<(), String>;
}

impl Session {
    /// Adds the saved grants of a command. Without effect if a command may have planted its program since.
    pub(crate) fn add_saved_grants(&mut self, rules: &RuleStore, command: &Argv, cwd: &AbsPath) {
        let own: Vec<SavedGrant> = self.saved.iter().filter(|saved| saved.command == *command).cloned().collect();
        if own.is_empty() || self.sandboxing() != Sandboxing::On || !is_as_it_was(self, rules, command, cwd) {
            return;
        }
        for SavedGrant { permissions, directories, .. } in own {
            let merged = self.permissions.merge(&self.protecting(&permissions));
            self.permissions = Permissions { network: self.with_denied_hosts(merged.network.clone()), ..merged };
            self.made_on_use.extend(directories);
        }
    }
}

/// Whether a grant can be saved for a command: its programs are no command's own, and nothing in it is a secret.
pub(crate) fn can_be_saved(session: &Session, rules: &RuleStore, command: &Argv, cwd: &AbsPath) -> bool {
    redact_argv(command) == *command && is_as_it_was(session, rules, command, cwd)
}

fn is_as_it_was(session: &Session, rules: &RuleStore, command: &Argv, cwd: &AbsPath) -> bool {
    planted_program(session, cwd, &Verdict::of(&rules.policy(), command).parsed).is_none()
}
