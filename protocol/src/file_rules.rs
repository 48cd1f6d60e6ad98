//! What a command may do with files: rules by path, the most specific of which decides.
//!
//! A rule speaks of a path and everything below it. Of all rules that match, the one with the
//! longest matching path decides; at equal length the stricter. What no rule matches is out of
//! reach. So `/repo = write, /repo/a = none, /repo/a/b = write` does what it says, whatever the
//! order.
//!
//! A glob may only deny. Its matches are not known before the file system is looked at, and a
//! grant that grows with new files is more than anybody approved.

use std::collections::BTreeSet;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{AbsPath, Glob, Invalid, PathStyle, RawText};

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
    /// Somebody approved it for this run.
    Approval,
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

/// Rules in their normal form: sorted, one for each target. The order they were given in means
/// nothing, and of two rules for the same target the stricter is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct FileRules(Vec<FileRule>);

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

    /// The same rule from somewhere else.
    #[must_use]
    pub fn from_source(self, source: RuleSource) -> Self {
        Self { source, ..self }
    }

    /// Whether a person or an administrator put this out of reach. No approval, rule or escalation
    /// lifts such a denial.
    pub fn is_hard_denial(&self) -> bool {
        self.access == Access::None && matches!(self.source, RuleSource::Administrator | RuleSource::Policy)
    }

    /// Whether this is one of the default masks, which naming the path lifts.
    fn is_mask(&self) -> bool {
        matches!(self.source, RuleSource::ProtectedMetadata | RuleSource::CredentialMask)
    }

    /// How many components of the path the rule matches at the most.
    fn matched_depth(&self, path: &AbsPath) -> Option<usize> {
        match &self.target {
            FileTarget::Path(own) => path.starts_with(own).then(|| own.depth()),
            FileTarget::Glob(glob) => glob.matched_depth(path),
        }
    }

    fn own_path(&self) -> Option<&AbsPath> {
        match &self.target {
            FileTarget::Path(path) => Some(path),
            FileTarget::Glob(_) => None,
        }
    }
}

impl FileRules {
    /// Brings rules into their normal form.
    pub fn new(rules: impl IntoIterator<Item = FileRule>) -> Result<Self, Invalid> {
        let rules: Vec<_> = rules.into_iter().collect();
        match rules.iter().find(|rule| rule.own_path().is_none() && rule.access != Access::None) {
            Some(rule) => Err(Invalid::GlobGrants { glob: RawText::from(rule.target.to_string()) }),
            None => Ok(Self::normal(rules)),
        }
    }

    fn normal(mut rules: Vec<FileRule>) -> Self {
        rules.sort();
        rules.dedup_by(|later, kept| later.target == kept.target);
        Self(rules)
    }

    /// The rules.
    pub fn iter(&self) -> std::slice::Iter<'_, FileRule> {
        self.0.iter()
    }

    /// The rule that decides over a path; `None` if none matches.
    pub fn deciding(&self, path: &AbsPath) -> Option<&FileRule> {
        match path.style() {
            PathStyle::Unix => self.deciding_by_name(path),
            PathStyle::Windows => most_specific(path, &self.0),
        }
    }

    /// The same where names are equal only byte by byte. Rules are sorted, those for paths first, so the
    /// one for a path or for a directory above it is found without looking at the others.
    fn deciding_by_name(&self, path: &AbsPath) -> Option<&FileRule> {
        let by_path = self.0.get(..self.0.partition_point(|rule| rule.own_path().is_some()))?;
        let globs = self.0.get(by_path.len()..).unwrap_or_default();
        let rule_for = |name: &[u8]| {
            let found = by_path.binary_search_by(|rule| rule.own_path().map_or(&[][..], AbsPath::as_bytes).cmp(name));
            found.ok().and_then(|place| by_path.get(place))
        };
        let nearest = path.names_upward().find_map(rule_for);
        if globs.is_empty() { nearest } else { most_specific(path, nearest.into_iter().chain(globs)) }
    }

    /// What may be done with a path: the only definition of what file rules mean.
    pub fn access(&self, path: &AbsPath) -> Access {
        self.deciding(path).map_or(Access::None, |rule| rule.access)
    }

    /// Adds what was granted on top. A hard denial stays, a glob's denial stays, and a mask stays
    /// unless the grant names its path or one below it.
    pub(crate) fn merge(&self, granted: &Self) -> Self {
        let grant = |path: &AbsPath| {
            let (own, theirs) = (self.deciding(path), granted.deciding(path));
            let named = granted.0.iter().any(|rule| rule.own_path() == Some(path));
            match own {
                Some(own) if own.is_hard_denial() => Some(own),
                Some(own) if own.is_mask() && own.own_path() == Some(path) && !named => Some(own),
                own => theirs.filter(|theirs| own.is_none_or(|own| theirs.access > own.access)).or(own),
            }
        };
        self.combine(granted, |path| grant(path).map(|rule| (rule.access, rule.source)))
    }

    /// The rules that grant exactly what both do, for every path.
    pub(crate) fn intersect(&self, bound: &Self) -> Self {
        let unmatched = (Access::None, RuleSource::Administrator);
        let answer =
            |rules: &Self, path: &AbsPath| rules.deciding(path).map_or(unmatched, |rule| (rule.access, rule.source));
        self.combine(bound, |path| Some(answer(self, path).min(answer(bound, path))))
    }

    /// One rule for each path that either side names, and the globs of both.
    fn combine(&self, other: &Self, answer: impl Fn(&AbsPath) -> Option<(Access, RuleSource)>) -> Self {
        let all = || self.0.iter().chain(&other.0);
        let paths: BTreeSet<&AbsPath> = all().filter_map(FileRule::own_path).collect();
        let by_path = paths.into_iter().filter_map(|path| {
            let (access, source) = answer(path)?;
            Some(FileRule { target: FileTarget::Path(path.clone()), access, source })
        });
        let globs = all().filter(|rule| rule.own_path().is_none()).cloned();
        Self::normal(by_path.chain(globs).collect())
    }
}

/// Of the rules that match a path, the one with the longest match; of several, the firmest.
fn most_specific<'a>(path: &AbsPath, rules: impl IntoIterator<Item = &'a FileRule>) -> Option<&'a FileRule> {
    let matching = rules.into_iter().filter_map(|rule| Some((rule.matched_depth(path)?, rule)));
    let firmness = |rule: &FileRule| (rule.access, rule.source);
    matching.max_by(|(a, x), (b, y)| a.cmp(b).then_with(|| firmness(y).cmp(&firmness(x)))).map(|(_, rule)| rule)
}

impl<'a> IntoIterator for &'a FileRules {
    type Item = &'a FileRule;
    type IntoIter = std::slice::Iter<'a, FileRule>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
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
        /// A rule before it is known whether its access fits its target.
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

impl<'de> Deserialize<'de> for FileRules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Each rule has been checked on its own.
        Vec::deserialize(deserializer).map(Self::normal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> AbsPath {
        text.parse().unwrap()
    }

    fn rules(list: &[(&str, Access)]) -> FileRules {
        FileRules::new(list.iter().map(|(text, access)| match text.parse() {
            Ok(glob) => FileRule::deny_glob(glob),
            Err(_) => FileRule::path(path(text), *access),
        }))
        .unwrap()
    }

    #[test]
    fn the_most_specific_rule_decides() {
        let rules = rules(&[("/repo/a/b", Access::Write), ("/repo", Access::Write), ("/repo/a", Access::None)]);
        for (text, access) in [
            ("/repo/x", Access::Write),
            ("/repo/a/x", Access::None),
            ("/repo/a/b/x", Access::Write),
            ("/etc", Access::None),
            ("/repository", Access::None),
        ] {
            assert_eq!(rules.access(&path(text)), access, "{text}");
        }
    }

    #[test]
    fn at_equal_length_the_stricter_decides() {
        let rules = rules(&[
            ("/a", Access::Write),
            ("/a", Access::Read),
            ("/a/x.env", Access::Write),
            ("/a/*.env", Access::None),
        ]);
        assert_eq!(rules.access(&path("/a")), Access::Read);
        assert_eq!(rules.access(&path("/a/x.env")), Access::None);
        assert_eq!(rules.access(&path("/a/x.env/below")), Access::None);
    }

    #[test]
    fn a_glob_that_grants_is_refused() {
        let json = r#"[{"target":{"glob":"/a/*"},"access":"write"}]"#;
        let error = serde_json::from_str::<FileRules>(json).unwrap_err().to_string();
        assert!(error.contains("glob `/a/*` may only be denied"), "{error}");
    }

    #[test]
    fn a_grant_lifts_masks_by_name_and_hard_denials_never() {
        let home = [
            FileRule::path(path("/"), Access::Read),
            FileRule::path(path("/h/.ssh"), Access::None).from_source(RuleSource::CredentialMask),
            FileRule::path(path("/h/secret"), Access::None),
        ];
        let base = FileRules::new(home).unwrap();
        let wide = base.merge(&rules(&[("/h", Access::Write)]));
        assert_eq!(wide.access(&path("/h/x")), Access::Write);
        assert_eq!(wide.access(&path("/h/.ssh/id")), Access::None, "only naming it lifts a mask");
        assert_eq!(wide.access(&path("/h/secret/x")), Access::None);
        let named = base.merge(&rules(&[("/h/.ssh/known_hosts", Access::Read), ("/h/secret/x", Access::Read)]));
        assert_eq!(named.access(&path("/h/.ssh/known_hosts")), Access::Read);
        assert_eq!(named.access(&path("/h/.ssh/id")), Access::None);
        assert_eq!(named.access(&path("/h/secret/x")), Access::None, "a hard denial stays");
    }
}
