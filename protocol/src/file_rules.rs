//! File permissions: rules by path, the most specific of which decides.
//!
//! A rule covers a path and everything below it. Of all matching rules the one with the longest matching path decides;
//! at equal length the stricter one. A path that no rule matches is inaccessible. So `/repo = write, /repo/a = none,
//! /repo/a/b = write` means the same in any order.
//!
//! One kind of rule is not part of that order: a bound ([`RuleSource::OwnFiles`]) on Stockade's own files. For a path
//! at or below it no rule grants more than the bound. A bound grants nothing itself, and nothing lifts it.
//!
//! A glob may only deny. Its matches depend on the file system, and a grant that grows with new files exceeds its
//! approval.

use std::collections::BTreeSet;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::file_rule::{Access, FileRule, FileTarget, RuleSource};
use crate::{AbsPath, Glob, Invalid, PathStyle, RawText};

/// Rules in their normal form: sorted, one for each target, and the bounds on Stockade's own files behind
/// them. The order they were given in means nothing, and of two rules for the same target the stricter is
/// kept.
// Clones share the rules: permissions have hundreds, and every command has its own copy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(transparent)]
pub struct FileRules(#[schemars(with = "Vec<FileRule>")] Arc<[FileRule]>);

impl Serialize for FileRules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl FileRules {
    /// Normalises rules.
    pub fn new(rules: impl IntoIterator<Item = FileRule>) -> Result<Self, Invalid> {
        let rules: Vec<_> = rules.into_iter().collect();
        match rules.iter().find(|rule| rule.own_path().is_none() && rule.access != Access::None) {
            Some(rule) => Err(Invalid::GlobGrants { glob: RawText::from(rule.target.to_string()) }),
            None => Ok(Self::normal(rules)),
        }
    }

    fn normal(mut rules: Vec<FileRule>) -> Self {
        rules.sort_by(|a, b| a.is_bound().cmp(&b.is_bound()).then_with(|| a.cmp(b)));
        rules.dedup_by(|later, kept| later.target == kept.target && later.is_bound() == kept.is_bound());
        Self(rules.into())
    }

    /// The rules.
    pub fn iter(&self) -> std::slice::Iter<'_, FileRule> {
        self.0.iter()
    }

    /// The globs among the rules.
    pub fn globs(&self) -> Vec<&Glob> {
        self.0
            .iter()
            .filter_map(|rule| match &rule.target {
                FileTarget::Glob(glob) => Some(glob),
                FileTarget::Path(_) => None,
            })
            .collect()
    }

    /// The rules of which the most specific decides, and the bounds on what they grant.
    fn parts(&self) -> (&[FileRule], &[FileRule]) {
        // Resolved rules have no bounds.
        if self.0.last().is_none_or(|last| !last.is_bound()) {
            return (&self.0, &[]);
        }
        self.0.split_at_checked(self.0.partition_point(|rule| !rule.is_bound())).unwrap_or_default()
    }

    /// The rule that decides for a path; `None` if none matches.
    pub fn deciding(&self, path: &AbsPath) -> Option<&FileRule> {
        let granting = self.granting(path)?;
        Some(self.bound(path, granting.access).unwrap_or(granting))
    }

    /// The bound that would apply if this access to a path were granted.
    pub fn bound(&self, path: &AbsPath, granted: Access) -> Option<&FileRule> {
        let bounds = self.parts().1.iter().filter(|bound| bound.access < granted);
        bounds.filter(|bound| bound.matched_depth(path).is_some()).min_by_key(|bound| bound.access)
    }

    /// The most specific rule, ignoring bounds.
    fn granting(&self, path: &AbsPath) -> Option<&FileRule> {
        match path.style() {
            PathStyle::Unix => self.granting_by_name(path),
            PathStyle::Windows => most_specific(path, self.parts().0),
        }
    }

    /// Like `granting`, for byte-wise equality of names. Rules are sorted, paths first, so the rule for a path or an
    /// ancestor is found by binary search.
    fn granting_by_name(&self, path: &AbsPath) -> Option<&FileRule> {
        let rules = self.parts().0;
        let has_globs = rules.last().is_some_and(|last| last.own_path().is_none());
        let paths = if has_globs { rules.partition_point(|rule| rule.own_path().is_some()) } else { rules.len() };
        let by_path = rules.get(..paths)?;
        let globs = rules.get(by_path.len()..).unwrap_or_default();
        let rule_for = |name: &[u8]| {
            let found = by_path.binary_search_by(|rule| rule.own_path().map_or(&[][..], AbsPath::as_bytes).cmp(name));
            found.ok().and_then(|place| by_path.get(place))
        };
        let nearest = path.names_upward().find_map(rule_for);
        if globs.is_empty() { nearest } else { most_specific(path, nearest.into_iter().chain(globs)) }
    }

    /// The access to a path: the only definition of what file rules mean.
    pub fn access(&self, path: &AbsPath) -> Access {
        self.deciding(path).map_or(Access::None, |rule| rule.access)
    }

    /// Equivalent rules without bounds: a bound's restriction is applied to the rules below it, and a bound stays as a
    /// rule only if more is granted around it.
    #[must_use]
    pub fn without_bounds(&self) -> Self {
        let (rules, bounds) = self.parts();
        let has_globs = rules.last().is_some_and(|rule| rule.own_path().is_none());
        let lowered = rules.iter().map(|rule| match rule.own_path() {
            Some(path) if has_globs || path.style() == PathStyle::Windows => {
                FileRule { access: self.access(path), ..rule.clone() }
            }
            // Without globs, nothing is more specific for a path than its own rule.
            Some(path) => {
                let access = self.bound(path, rule.access).map_or(rule.access, |bound| bound.access);
                FileRule { access, ..rule.clone() }
            }
            None => rule.clone(),
        });
        let needed = bounds.iter().filter(|bound| match bound.own_path() {
            Some(path) => self.granting(path).is_some_and(|rule| rule.access > bound.access),
            None => true,
        });
        Self::normal(lowered.chain(needed.cloned()).collect())
    }

    /// A grant that protects these names below each directory it makes writable, as a policy does below its roots. A name
    /// that the grant has a rule for was meant. A protected name above a granted directory exempts nothing below it: a
    /// repository may lie in `~/.codex`.
    pub(crate) fn protecting(&self, names: &[String], is_directory: impl Fn(&AbsPath) -> bool) -> Self {
        let roots = self.0.iter().filter(|rule| rule.access == Access::Write).filter_map(FileRule::own_path);
        // A path that is too long for a name below it has no such name.
        let below = roots
            .filter(|root| is_directory(root))
            .flat_map(|root| names.iter().filter_map(|name| root.join(name.as_str()).ok()));
        let added: Vec<FileRule> = below
            .filter(|path| !self.0.iter().any(|rule| rule.own_path() == Some(path)))
            .map(|path| FileRule::path(path, Access::Read).from_source(RuleSource::ProtectedMetadata))
            .collect();
        if added.is_empty() { self.clone() } else { Self::normal(self.0.iter().cloned().chain(added).collect()) }
    }

    /// Adds a grant. Hard denials, bounds and globs stay, and a mask stays unless the grant names its path or one
    /// below it.
    pub(crate) fn merge(&self, granted: &Self) -> Self {
        if granted.0.is_empty() {
            return self.clone();
        }
        // A name that the grant protects stays known as such where the own rules say no more than it.
        let exceeds = |theirs: &FileRule, own: &FileRule, path: &AbsPath| {
            let protects = theirs.source == RuleSource::ProtectedMetadata && theirs.own_path() == Some(path);
            theirs.access > own.access || (protects && theirs.access == own.access)
        };
        let grant = |path: &AbsPath| {
            let (own, theirs) = (self.granting(path), granted.deciding(path));
            let named = granted.0.iter().any(|rule| rule.own_path() == Some(path));
            match own {
                Some(own) if own.is_hard_denial() => Some(own),
                Some(own) if own.is_mask() && own.own_path() == Some(path) && !named => Some(own),
                own => theirs.filter(|theirs| own.is_none_or(|own| exceeds(theirs, own, path))).or(own),
            }
        };
        let answer = |path: &AbsPath| {
            // What is granted within a bound of the grant's own is no bound here.
            grant(path).map(|rule| (rule.access, if rule.is_bound() { RuleSource::Approval } else { rule.source }))
        };
        Self::combine(self.parts().0.iter().chain(&*granted.0), answer, self.parts().1.iter())
    }

    /// The rules that grant exactly what both do, for every path.
    pub(crate) fn intersect(&self, bound: &Self) -> Self {
        let unmatched = (Access::None, RuleSource::Administrator);
        let answer =
            |rules: &Self, path: &AbsPath| rules.granting(path).map_or(unmatched, |rule| (rule.access, rule.source));
        let named = self.parts().0.iter().chain(bound.parts().0);
        let bounds = self.parts().1.iter().chain(bound.parts().1);
        Self::combine(named, |path| Some(answer(self, path).min(answer(bound, path))), bounds)
    }

    /// One rule for each named path, all globs, and these bounds.
    fn combine<'a>(
        named: impl Iterator<Item = &'a FileRule> + Clone,
        answer: impl Fn(&AbsPath) -> Option<(Access, RuleSource)>,
        bounds: impl Iterator<Item = &'a FileRule>,
    ) -> Self {
        let paths: BTreeSet<&AbsPath> = named.clone().filter_map(FileRule::own_path).collect();
        let by_path = paths.into_iter().filter_map(|path| {
            let (access, source) = answer(path)?;
            Some(FileRule { target: FileTarget::Path(path.clone()), access, source })
        });
        let globs = named.filter(|rule| rule.own_path().is_none()).cloned();
        Self::normal(by_path.chain(globs).chain(bounds.cloned()).collect())
    }
}

/// Of the rules that match a path, the one with the longest match; at equal length the one of the firmest source.
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
    fn nothing_lifts_a_bound_and_a_bound_grants_nothing() {
        let own = |text: &str| FileRule::path(path(text), Access::Read).from_source(RuleSource::OwnFiles);
        let base = |root: Access| {
            let rules = [FileRule::path(path("/"), root), FileRule::path(path("/h"), Access::Write)];
            FileRules::new(rules.into_iter().chain([own("/h/own"), own("/etc/own")])).unwrap()
        };
        let wide = rules(&[("/", Access::Write), ("/h/own", Access::Write), ("/h/own/a/b", Access::Write)]);
        for files in [base(Access::Read).merge(&wide), base(Access::Read).merge(&wide).intersect(&wide)] {
            for (text, access) in [
                ("/h/x", Access::Write),
                ("/h/own", Access::Read),
                ("/h/own/a/b/c", Access::Read),
                ("/etc/own/x", Access::Read),
                ("/etc/x", Access::Write),
            ] {
                assert_eq!(files.access(&path(text)), access, "{text}");
                assert_eq!(files.without_bounds().access(&path(text)), access, "{text}");
            }
            assert!(files.deciding(&path("/h/own/a/b")).unwrap().is_bound());
        }
        assert_eq!(base(Access::None).access(&path("/etc/own")), Access::None, "a bound is no grant");
        assert_eq!(base(Access::Scratch).without_bounds().access(&path("/etc/own")), Access::Scratch);
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

    #[test]
    fn a_grant_protects_names_below_its_directories() {
        let names = [".git", ".codex"].map(String::from);
        let grant = rules(&[
            ("/h/.codex/worktrees/a", Access::Write),
            ("/repo/.git", Access::Write),
            ("/repo", Access::Write),
            ("/h/file", Access::Write),
            ("/etc", Access::Read),
        ]);
        let protected = grant.protecting(&names, |path| !path.to_string().ends_with("file"));
        for (text, access) in [
            ("/h/.codex/worktrees/a/f", Access::Write),
            ("/h/.codex/worktrees/a/.git/hooks", Access::Read),
            ("/h/.codex/worktrees/a/.codex/config.toml", Access::Read),
            ("/repo/.git/config", Access::Write),
            ("/repo/.git/.git", Access::Read),
            ("/repo/.codex", Access::Read),
            ("/h/file/.git", Access::Write),
        ] {
            assert_eq!(protected.access(&path(text)), access, "{text}");
        }
        assert_eq!(protected.iter().filter(|rule| rule.source == RuleSource::ProtectedMetadata).count(), 5);
    }
}
