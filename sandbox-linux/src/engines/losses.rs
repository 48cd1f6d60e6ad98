//! Restrictions that Landlock alone can't enforce, by name, so that each loss has to be accepted explicitly.
//!
//! Landlock accumulates grants from the root down and can't restrict a part of one. A restriction inside a grant is
//! therefore lost, and a policy with such a rule is refused unless the caller accepts exactly that loss.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use stockade_protocol::{AbsPath, Access, FileRules, LayerReport, LayerStatus, RuleSource};
use stockade_sandboxing::{HostFiles, Unenforceable};

use crate::plan::view;

/// A protection that a sandbox without a view of its own can't give.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Metadata in a writable directory (`.git`, `.codex`, …) can be written and created.
    ProtectedMetadata,
    /// Read-only files inside a writable directory can be written.
    ReadOnlyParts,
    /// Well-known credentials below a readable directory can be read.
    Credentials,
    /// Denied files below a readable directory can be read.
    DeniedReads,
    /// There are no private directories: the host's own are visible according to the surrounding rule, and writable
    /// only if that permits it.
    PrivateDirectories,
    /// Modes, owners, times and extended attributes of every file that the user owns can be changed. Without this loss
    /// they can't be changed at all, even for writable files.
    FileAttributes,
}

impl Loss {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::ProtectedMetadata,
        Self::ReadOnlyParts,
        Self::Credentials,
        Self::DeniedReads,
        Self::PrivateDirectories,
        Self::FileAttributes,
    ];

    /// Its name, as in an `Enforcement`.
    pub fn name(self) -> &'static str {
        match self {
            Self::ProtectedMetadata => "protected_metadata",
            Self::ReadOnlyParts => "read_only_parts",
            Self::Credentials => "credentials",
            Self::DeniedReads => "denied_reads",
            Self::PrivateDirectories => "private_directories",
            Self::FileAttributes => "file_attributes",
        }
    }
}

/// All losses under some rules, with their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Losses {
    #[serde(flatten)]
    lost: BTreeMap<Loss, Vec<AbsPath>>,
    /// Restrictions of an administrator, which can't be given up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    administrators: Vec<AbsPath>,
    /// Stockade's own files, which can't be given up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    own_files: Vec<AbsPath>,
}

impl Losses {
    /// The losses under these rules.
    pub(crate) fn of(files: &FileRules, host: &dyn HostFiles) -> Result<Self, Unenforceable> {
        let mut losses = Self::default();
        for (path, access) in view::keys(files, host)? {
            if view::may_be_left_out(files, &path, host) {
                continue;
            }
            let there = host.kind(&path).is_some();
            let Some(loss) = loss(files, &path, access, there) else { continue };
            match files.deciding(&path).map(|rule| rule.source) {
                Some(RuleSource::Administrator) => losses.administrators.push(path),
                // An empty server directory exposes nothing.
                Some(RuleSource::OwnFiles) if access == Access::None && is_empty(&path) => {}
                Some(RuleSource::OwnFiles | RuleSource::OwnFilesLink) => losses.own_files.push(path),
                Some(
                    RuleSource::Policy
                    | RuleSource::ProtectedMetadata
                    | RuleSource::CredentialMask
                    | RuleSource::Approval,
                )
                | None => losses.lost.entry(loss).or_default().push(path),
            }
        }
        Ok(losses)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lost.is_empty() && self.administrators.is_empty() && self.own_files.is_empty()
    }

    /// Refuses the first loss that was not accepted.
    pub(crate) fn check(&self, accepted: &BTreeSet<Loss>) -> Result<(), Unenforceable> {
        let refuse = |path: &AbsPath, remedy: String| {
            Err(Unenforceable {
                what: format!("the rule for `{path}`"),
                why: String::from("the engine `landlock` can't take away a part of what is granted around it"),
                remedy: format!("use the engine `native` or `bwrap`{remedy}"),
            })
        };
        if let Some(path) = self.administrators.first() {
            return refuse(path, String::from("; the rule is the administrator's, so its loss can't be accepted"));
        }
        if let Some(path) = self.own_files.first() {
            return refuse(path, String::from("; it holds Stockade's own files, whose protection can't be given up"));
        }
        let refused = self.lost.iter().find(|(loss, _)| !accepted.contains(loss));
        match refused.and_then(|(loss, paths)| Some((loss, paths.first()?))) {
            Some((loss, path)) => {
                let name = loss.name();
                refuse(path, format!(", or accept the loss of `{name}` (`--accept-loss {name}`)"))
            }
            None => Ok(()),
        }
    }

    /// The accepted losses, for the report of the run.
    pub(crate) fn reports(&self) -> impl Iterator<Item = LayerReport> {
        self.lost.iter().map(|(loss, paths)| {
            let paths: Vec<String> = paths.iter().map(AbsPath::to_string).collect();
            LayerReport {
                layer: loss.name().to_owned(),
                status: LayerStatus::NotEnforced,
                detail: Some(format!("accepted for {}", paths.join(", "))),
            }
        })
    }
}

fn is_empty(path: &AbsPath) -> bool {
    let entries = path.to_host_path().and_then(|path| std::fs::read_dir(path).ok());
    entries.is_some_and(|mut entries| entries.next().is_none())
}

fn loss(files: &FileRules, path: &AbsPath, access: Access, there: bool) -> Option<Loss> {
    let source = files.deciding(path).map(|rule| rule.source);
    match (access, around(files, path)) {
        // A missing name can be created if its directory is writable.
        (Access::Read, Access::Write) if source == Some(RuleSource::ProtectedMetadata) => Some(Loss::ProtectedMetadata),
        (Access::Read, Access::Write) => Some(Loss::ReadOnlyParts),
        (Access::Scratch, Access::Write | Access::Read) => Some(Loss::PrivateDirectories),
        // A writable private directory was requested, and there will be none.
        (Access::Scratch, Access::None | Access::Scratch) => there.then_some(Loss::PrivateDirectories),
        (Access::None, Access::Read) if !there => None,
        (Access::None, Access::Write | Access::Read) if source == Some(RuleSource::CredentialMask) => {
            Some(Loss::Credentials)
        }
        (Access::None, Access::Write | Access::Read) => Some(Loss::DeniedReads),
        (Access::None, Access::None | Access::Scratch) => None,
        (Access::Read, Access::None | Access::Scratch | Access::Read) | (Access::Write, _) => None,
    }
}

/// The access around a path without private directories.
fn around(files: &FileRules, path: &AbsPath) -> Access {
    let mut above = path.ancestors().skip(1).map(|above| files.access(&above));
    above.find(|access| *access != Access::Scratch).unwrap_or(Access::None)
}

#[cfg(test)]
mod tests {
    use stockade_sandboxing::{FakeHost, rules};

    use super::*;

    #[test]
    fn every_rule_that_takes_away_is_a_loss_by_its_name() {
        let host = FakeHost::new(&["/w/.git/", "/w/ro/", "/home/me/.ssh/", "/w/.env", "/tmp/", "/secret"]);
        let files = rules(&[
            "/ read",
            "/w write",
            "/w/.git read protected",
            "/w/.codex read protected",
            "/w/ro read",
            "/w/.env none",
            "/secret none",
            "/missing none",
            "/home/me/.ssh none credential",
            "/tmp scratch",
            "/tmp/shown read",
        ]);
        let lost = Losses::of(&files, &host).unwrap().lost;
        let lost: Vec<(Loss, Vec<String>)> =
            lost.into_iter().map(|(loss, paths)| (loss, paths.iter().map(AbsPath::to_string).collect())).collect();
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            lost,
            [
                (Loss::ProtectedMetadata, texts(&["/w/.codex", "/w/.git"])),
                (Loss::ReadOnlyParts, texts(&["/w/ro"])),
                (Loss::Credentials, texts(&["/home/me/.ssh"])),
                (Loss::DeniedReads, texts(&["/secret", "/w/.env"])),
                (Loss::PrivateDirectories, texts(&["/tmp"])),
            ]
        );
    }

    /// An administrator's denial stays, regardless of accepted losses.
    #[test]
    fn nobody_accepts_a_loss_for_the_administrator() {
        let host = FakeHost::new(&["/secret", "/payroll"]);
        let all = BTreeSet::from([Loss::DeniedReads, Loss::Credentials]);
        let own = Losses::of(&rules(&["/ read", "/secret none"]), &host).unwrap();
        assert!(own.check(&BTreeSet::new()).unwrap_err().remedy.contains("--accept-loss denied_reads"));
        assert!(own.check(&all).is_ok());
        let theirs = Losses::of(&rules(&["/ read", "/secret none", "/payroll none administrator"]), &host).unwrap();
        let refused = theirs.check(&all).unwrap_err();
        assert!(refused.what.contains("/payroll") && refused.remedy.contains("administrator's"), "{refused}");
    }

    #[test]
    fn nobody_gives_up_stockades_own_files() {
        let host = FakeHost::new(&["/h/own/"]);
        let files = rules(&["/ read", "/h write", "/h/own read own", "/etc/own read own"]);
        let refused = Losses::of(&files, &host).unwrap().check(&BTreeSet::from(Loss::ALL)).unwrap_err();
        assert!(refused.what.contains("/h/own") && refused.remedy.contains("own files"), "{refused}");
        let files = rules(&["/ read", "/w write", "/h/own read own"]);
        assert!(Losses::of(&files, &host).unwrap().is_empty(), "nothing is granted there");
    }

    #[test]
    fn grants_inside_what_is_denied_are_no_loss() {
        let host = FakeHost::new(&["/usr/", "/w/", "/w/a/"]);
        let files = rules(&["/usr read", "/w none", "/w/a write", "/home none"]);
        assert_eq!(Losses::of(&files, &host).unwrap(), Losses::default());
    }
}
