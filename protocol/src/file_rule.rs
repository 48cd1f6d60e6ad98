//! One rule about files: a path or a glob, and what may be done with it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{AbsPath, FileRules, Glob};

/// What may be done with a file of the host, in the order of what is exposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Nothing: it can neither be read nor written.
    None,
    /// The host's files are out of reach, but an empty private directory stands in their place. It
    /// can be written and is gone when the command ends.
    Scratch,
    /// It can be read and executed.
    Read,
    /// It can be read, written, created, renamed and removed.
    Write,
}

/// Where a rule comes from, the firmest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleSource {
    /// An administrator's upper bound.
    Administrator,
    /// A person wrote it, in a policy or on the command line.
    #[default]
    Policy,
    /// Metadata that would let a command take over later (`.git`, …). Naming the path lifts it.
    ProtectedMetadata,
    /// Well-known credentials. Naming the path lifts it.
    CredentialMask,
    /// It was approved for this run.
    Approval,
    /// Stockade's own settings, rules, profiles, state and trail: an upper bound for the path and
    /// everything below it, which no other rule and no grant exceeds.
    OwnFiles,
    /// A link on the way to those: an upper bound for the link, and not for what is behind it.
    OwnFilesLink,
}

/// What a rule speaks of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileTarget {
    /// This path and everything below it.
    Path(AbsPath),
    /// Every path that matches, and everything below those.
    Glob(Glob),
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
pub struct FileRule {
    /// What it speaks of.
    pub target: FileTarget,
    /// What may be done with it. A glob may only have `none`.
    pub access: Access,
    /// Where it comes from.
    #[serde(default, skip_serializing_if = "RuleSource::is_policy")]
    pub source: RuleSource,
}

impl RuleSource {
    fn is_policy(&self) -> bool {
        *self == Self::Policy
    }
}

impl FileRule {
    /// A rule that a person wrote for a path.
    pub fn path(path: AbsPath, access: Access) -> Self {
        Self { target: FileTarget::Path(path), access, source: RuleSource::Policy }
    }

    /// A denial that a person wrote for a glob.
    pub fn deny_glob(glob: Glob) -> Self {
        Self { target: FileTarget::Glob(glob), access: Access::None, source: RuleSource::Policy }
    }

    /// The same rule with another source.
    #[must_use]
    pub fn from_source(self, source: RuleSource) -> Self {
        Self { source, ..self }
    }

    /// Whether a person or an administrator denied this. No approval, rule or escalation lifts such a denial.
    pub fn is_hard_denial(&self) -> bool {
        self.access == Access::None && matches!(self.source, RuleSource::Administrator | RuleSource::Policy)
    }

    /// Whether this is a bound on Stockade's own files, which overrides all other rules and grants.
    pub fn is_bound(&self) -> bool {
        matches!(self.source, RuleSource::OwnFiles | RuleSource::OwnFilesLink)
    }

    /// Whether this is one of the default masks, which naming the path lifts.
    pub(crate) fn is_mask(&self) -> bool {
        matches!(self.source, RuleSource::ProtectedMetadata | RuleSource::CredentialMask)
    }

    /// The largest number of components of the path that the rule matches.
    pub(crate) fn matched_depth(&self, path: &AbsPath) -> Option<usize> {
        match &self.target {
            FileTarget::Path(own) => path.starts_with(own).then(|| own.depth()),
            FileTarget::Glob(glob) => glob.matched_depth(path),
        }
    }

    pub(crate) fn own_path(&self) -> Option<&AbsPath> {
        match &self.target {
            FileTarget::Path(path) => Some(path),
            FileTarget::Glob(_) => None,
        }
    }
}

impl fmt::Display for FileTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.fmt(f),
            Self::Glob(glob) => glob.fmt(f),
        }
    }
}

impl fmt::Debug for FileTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Scratch => "scratch",
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

impl<'de> Deserialize<'de> for FileRule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        /// A rule whose access has not been checked against its target yet.
        #[derive(Deserialize)]
        #[serde(rename = "FileRule", deny_unknown_fields)]
        struct Form {
            target: FileTarget,
            access: Access,
            #[serde(default)]
            source: RuleSource,
        }
        let Form { target, access, source } = Form::deserialize(deserializer)?;
        let rule = Self { target, access, source };
        FileRules::new([rule.clone()]).map(|_| rule).map_err(serde::de::Error::custom)
    }
}
