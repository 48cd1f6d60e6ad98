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
    use stockade_protocol::{AbsPath, Access, FileRule, FileTarget, Glob, RuleSource};
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
            let mut rules = self.permissions.files.iter().chain(&self.written).filter(|rule| rule.access < wanted);
            rules.any(|rule| match &rule.target {
                FileTarget::Path(path) => is_respelled(path, real),
                FileTarget::Glob(glob) => matches_respelled(glob, real),
            })
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

    /// Whether the second path is at or below the first, under another spelling of it: each name in which they differ is
    /// in a directory that ignores case.
    fn is_respelled(path: &AbsPath, real: &AbsPath) -> bool {
        let differs = |own: &AbsPath| own.components().last() != real.components().take(own.depth()).last();
        !real.starts_with(path)
            && folded(real).starts_with(&folded(path))
            && path.ancestors().filter(differs).all(|own| may_be_respelled(&own))
    }

    /// Whether a glob matches another spelling of a path or of a directory above it.
    fn matches_respelled(glob: &Glob, real: &AbsPath) -> bool {
        if real.ancestors().any(|above| glob.matches(&above)) {
            return false;
        }
        // A character class such as `[Z-a]` has no folded form. Then every path below the glob's directory counts.
        let glob_folded = fold(&glob.to_string()).parse::<Glob>();
        let is_match = |path: &AbsPath| match &glob_folded {
            Ok(glob) => glob.matches(path),
            Err(_) => path.starts_with(&folded(glob.base())),
        };
        real.ancestors()
            .find(|above| is_match(&folded(above)))
            .is_some_and(|matched| matched.ancestors().any(|above| may_be_respelled(&above)))
    }

    /// Whether the last name of a path opens under another spelling, or would if the file existed.
    fn may_be_respelled(path: &AbsPath) -> bool {
        RealFiles.kind(path).is_none() || RealFiles.has_other_spellings(path)
    }

    fn folded(path: &AbsPath) -> AbsPath {
        let text = fold(&String::from_utf8_lossy(path.as_raw().as_bytes()));
        AbsPath::parse(text).unwrap_or_else(|_| path.clone())
    }

    /// A form that is the same for all spellings. Some letters, such as `ſ` and the Kelvin sign, change in one direction only.
    fn fold(text: &str) -> String {
        text.to_lowercase().to_uppercase()
    }

    #[cfg(all(test, target_os = "linux"))]
    mod tests {
        use super::*;

        /// In a directory that tells upper from lower case, only a name that is missing may have another spelling.
        #[test]
        fn another_spelling_counts_where_the_name_is_missing() {
            let directory = tempfile::tempdir().unwrap();
            let base = AbsPath::from_path(&directory.path().canonicalize().unwrap()).unwrap();
            std::fs::create_dir_all(directory.path().join("Keys/2024")).unwrap();
            std::fs::create_dir_all(directory.path().join("x.PEM")).unwrap();
            let at = |name: &str| base.join(name).unwrap();
            for (rule, real, expected) in [
                ("Keys/2024", "KEYS/2024", false),
                ("Keys/2024", "Keys/2024", false),
                ("Keys/.git", "KEYS/.GIT", false),
                ("Keys/.git", "Keys/.GIT/x", true),
                ("gone/2024", "GONE/2024", true),
                ("gone/2024", "GONE", false),
                ("ключ", "КЛЮЧ/x", true),
                ("ſ", "S", true),
                ("gone", "done", false),
            ] {
                assert_eq!(is_respelled(&at(rule), &at(real)), expected, "{rule} {real}");
            }
            for (glob, real, expected) in [
                ("*.pem", "x.PEM", false),
                ("*.pem", "new.PEM", true),
                ("*.pem", "new.PEM/below", true),
                ("*.pem", "new.pem", false),
                ("*.pem", "new.pet", false),
                ("Keys/*", "KEYS/2024", true),
                ("[Z-a]", "b", true),
            ] {
                let glob: Glob = format!("{base}/{glob}").parse().unwrap();
                assert_eq!(matches_respelled(&glob, &at(real)), expected, "{glob} {real}");
            }
        }
    }
}
