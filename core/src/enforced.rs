//! What a session's commands may do with files, as the plan of a sandbox enforces it: links followed, repositories
//! found. A patch, which no sandbox holds, and an explanation are judged by it.

use stockade_protocol::{AbsPath, Access, EscalationExecution, FileRule, FileRules, Invalid, Permissions};
use stockade_sandboxing::{RealFiles, protect_repositories, resolve_links};

use crate::approvals::{self, Confinement};
use crate::session::Session;

/// A session's permissions, completed as a backend completes them.
#[derive(Debug)]
pub(crate) struct Enforced {
    /// What a plan would hold.
    permissions: Permissions,
    /// The rules as they were written, with every bound on Stockade's own files.
    written: FileRules,
    confinement: Confinement,
}

impl Enforced {
    /// Looks at the files that the rules speak of. What a backend would refuse is refused here as well.
    pub(crate) fn of(session: &Session) -> Result<Self, Invalid> {
        let (permissions, confinement) = approvals::execution(session, &EscalationExecution::TurnDefault)?;
        let permissions = match confinement {
            Confinement::Sandbox => protect_repositories(&resolve_links(&permissions, &RealFiles)?)?,
            Confinement::None => permissions,
        };
        Ok(Self { permissions, written: session.bounded(&session.permissions).files, confinement })
    }

    /// The rule that decides about a path without links.
    pub(crate) fn deciding(&self, real: &AbsPath) -> Option<&FileRule> {
        // In what a plan holds, a rule below a bound has taken its access and not its name.
        let bound =
            self.written.deciding(real).filter(|rule| rule.is_bound() && self.confinement == Confinement::Sandbox);
        bound.or_else(|| self.permissions.files.deciding(real))
    }

    /// The rules that a plan would hold.
    pub(crate) fn files(&self) -> &FileRules {
        &self.permissions.files
    }

    /// What a command may do with a path without links.
    pub(crate) fn access(&self, real: &AbsPath) -> Access {
        self.permissions.access(real)
    }
}

/// What a patch has to know.
#[cfg(feature = "patch")]
mod for_patches {
    use stockade_protocol::{AbsPath, Access, FileRule, FileTarget, RuleSource};
    use stockade_sandboxing::leads_to;

    use super::Enforced;

    impl Enforced {
        /// Whether a command may read a path, by its name and where it leads.
        pub(crate) fn may_read(&self, path: &AbsPath) -> bool {
            // What the host has in a private directory is not what a command sees.
            let shows = |access: Access| access > Access::Scratch;
            shows(self.access(&leads_to(path))) && self.narrowing(path).is_none_or(|rule| shows(rule.access))
        }

        /// Whether a patch may write a path unasked, by its name and where it leads. Stockade's own files are never among
        /// them, also where commands run without a sandbox.
        pub(crate) fn may_write(&self, path: &AbsPath) -> bool {
            let real = leads_to(path);
            let owned = self.own_file(path).or_else(|| self.own_file(&real));
            self.access(&real) == Access::Write && owned.is_none() && self.narrowing(path).is_none()
        }

        /// The bound that keeps one of Stockade's own files from being written.
        pub(crate) fn own_file(&self, path: &AbsPath) -> Option<&FileRule> {
            self.written.bound(path, Access::Write)
        }

        /// The directories and files that are granted for writing.
        pub(crate) fn writable_roots(&self) -> impl Iterator<Item = AbsPath> {
            self.permissions.files.iter().filter(|rule| rule.access == Access::Write).filter_map(|rule| {
                match &rule.target {
                    FileTarget::Path(path) => Some(path.clone()),
                    FileTarget::Glob(_) => None,
                }
            })
        }

        /// A rule that takes something away from the path by the name that it was given.
        fn narrowing(&self, given: &AbsPath) -> Option<&FileRule> {
            let is_mask = |rule: &FileRule| {
                rule.access < Access::Write
                    && matches!(rule.source, RuleSource::ProtectedMetadata | RuleSource::CredentialMask)
            };
            self.written.deciding(given).filter(|rule| rule.access <= Access::Scratch || is_mask(rule))
        }
    }
}
