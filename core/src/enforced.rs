//! The file permissions of a session's commands as a sandbox plan enforces them: links resolved, repositories found.
//! Patches, which run outside of a sandbox, and explanations are judged by them.

use stockade_protocol::{AbsPath, Access, EscalationExecution, FileRule, FileRules, Invalid, Permissions};
use stockade_sandboxing::{RealFiles, protect_repositories, resolve_links};

use crate::approvals::{self, Confinement};
use crate::session::Session;

/// A session's permissions, completed as a backend completes them.
#[derive(Debug)]
pub(crate) struct Enforced {
    /// The permissions of a plan.
    permissions: Permissions,
    /// The rules as written, with every bound on Stockade's own files.
    written: FileRules,
    confinement: Confinement,
}

impl Enforced {
    /// Resolves the files that the rules name. What a backend would refuse is refused here as well.
    pub(crate) fn of(session: &Session) -> Result<Self, Invalid> {
        let (permissions, confinement) = approvals::execution(session, &EscalationExecution::TurnDefault)?;
        let permissions = match confinement {
            Confinement::Sandbox => protect_repositories(&resolve_links(&permissions, &RealFiles)?)?,
            Confinement::None => permissions,
        };
        Ok(Self { permissions, written: session.bounded(&session.permissions).files, confinement })
    }

    /// The rule that decides for a canonical path.
    pub(crate) fn deciding(&self, real: &AbsPath) -> Option<&FileRule> {
        // In a plan, a rule below a bound has the bound's access but not its source.
        let bound =
            self.written.deciding(real).filter(|rule| rule.is_bound() && self.confinement == Confinement::Sandbox);
        bound.or_else(|| self.permissions.files.deciding(real))
    }

    /// The rules of a plan.
    pub(crate) fn files(&self) -> &FileRules {
        &self.permissions.files
    }

    /// The access to a canonical path.
    pub(crate) fn access(&self, real: &AbsPath) -> Access {
        self.permissions.access(real)
    }
}

/// Queries for patches.
#[cfg(feature = "patch")]
mod for_patches {
    use stockade_protocol::{AbsPath, Access, FileRule, FileTarget, RuleSource};
    use stockade_sandboxing::{HostFiles as _, RealFiles, leads_to};

    use super::Enforced;

    impl Enforced {
        /// Whether a command may read a path, by its name and by its target.
        pub(crate) fn may_read(&self, path: &AbsPath) -> bool {
            // A command does not see the host's files in a private directory.
            let shows = |access: Access| access > Access::Scratch;
            let real = leads_to(path);
            shows(self.access(&real))
                && self.narrowing(path).is_none_or(|rule| shows(rule.access))
                && !self.restricts_another_spelling(&real, Access::Read)
        }

        /// Whether a patch may write a path without a question, by its name and by its target. Never for Stockade's
        /// own files, even if commands run without a sandbox.
        pub(crate) fn may_write(&self, path: &AbsPath) -> bool {
            let real = leads_to(path);
            let owned = self.own_file(path).or_else(|| self.own_file(&real));
            self.access(&real) == Access::Write
                && owned.is_none()
                && self.narrowing(path).is_none()
                && !self.restricts_another_spelling(&real, Access::Write)
        }

        /// Whether a rule denies this access under a name that differs in case only, in a directory that ignores case
        /// or may do so: nothing tells it of a name that is missing.
        fn restricts_another_spelling(&self, real: &AbsPath, wanted: Access) -> bool {
            let rules = self.permissions.files.iter().chain(&self.written).filter(|rule| rule.access < wanted);
            rules.filter_map(|rule| if let FileTarget::Path(path) = &rule.target { Some(path) } else { None }).any(
                |path| {
                    let is_exact = path.components().eq(real.components().take(path.depth()));
                    !is_exact
                        && path.depth() <= real.depth()
                        && path.components().zip(real.components()).all(|(own, other)| own.eq_ignore_ascii_case(other))
                        && (RealFiles.kind(path).is_none() || RealFiles.has_other_spellings(path))
                },
            )
        }

        /// The bound that keeps one of Stockade's own files from being written.
        pub(crate) fn own_file(&self, path: &AbsPath) -> Option<&FileRule> {
            self.written.bound(path, Access::Write)
        }

        /// The writable directories and files.
        pub(crate) fn writable_roots(&self) -> impl Iterator<Item = AbsPath> {
            self.permissions.files.iter().filter(|rule| rule.access == Access::Write).filter_map(|rule| {
                match &rule.target {
                    FileTarget::Path(path) => Some(path.clone()),
                    FileTarget::Glob(_) => None,
                }
            })
        }

        /// A rule that restricts the path under its given name.
        fn narrowing(&self, given: &AbsPath) -> Option<&FileRule> {
            let is_mask = |rule: &FileRule| {
                rule.access < Access::Write
                    && matches!(rule.source, RuleSource::ProtectedMetadata | RuleSource::CredentialMask)
            };
            self.written.deciding(given).filter(|rule| rule.access <= Access::Scratch || is_mask(rule))
        }
    }
}
