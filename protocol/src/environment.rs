//! Which environment variables a command sees.

mod names;
mod secret_names;
mod urls;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::RawText;
pub use names::{NamePattern, VariableName};
use names::{intersect_patterns, wildcard};
pub use secret_names::{CORE_NAMES, LOADER_NAMES, PLAIN_NAMES, PLAIN_WORDS, SECRET_NAMES};
use secret_names::{loads_code, usually_secret};
use urls::without_secrets;
pub use urls::without_userinfo;

/// How the environment of a command is made. The steps apply in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EnvironmentPolicy {
    /// What to start from.
    pub inherit: EnvironmentInherit,
    /// Keep inherited variables whose names usually hold a secret.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignore_default_excludes: bool,
    /// Inherited variables to drop.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub exclude: BTreeSet<NamePattern>,
    /// Variables to set, whatever was inherited.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<VariableName, String>,
    /// If not empty, drop every variable that none of these matches.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub include_only: BTreeSet<NamePattern>,
}

/// What the environment of a command starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentInherit {
    /// Nothing.
    None,
    /// The handful of variables that programs need to find their way.
    Core,
    /// Everything.
    #[default]
    All,
}

impl EnvironmentPolicy {
    /// Whether an inherited variable of this name is kept.
    pub fn inherits(&self, name: &str) -> bool {
        let in_list = |list: &[&str]| list.iter().any(|pattern| wildcard(pattern, name));
        let inherited = match self.inherit {
            EnvironmentInherit::None => false,
            EnvironmentInherit::Core => in_list(CORE_NAMES),
            EnvironmentInherit::All => true,
        };
        inherited
            && !loads_code(name)
            && (self.ignore_default_excludes || !usually_secret(name))
            && !self.exclude.iter().any(|pattern| pattern.matches(name))
            && self.includes(name)
    }

    /// Applies the policy to an inherited environment. A variable whose name is not UTF-8 can't be judged and is
    /// dropped. User and password are removed from inherited URLs.
    pub fn apply(&self, inherited: impl IntoIterator<Item = (RawText, RawText)>) -> BTreeMap<RawText, RawText> {
        let kept = inherited.into_iter().filter(|(name, _)| name.as_str().is_some_and(|name| self.inherits(name)));
        let kept = kept.map(|(name, value)| match self.ignore_default_excludes {
            true => (name, value),
            false => (name, without_secrets(value)),
        });
        let set = self.set.iter().filter(|(name, _)| self.includes(name.as_str()));
        kept.chain(set.map(|(name, value)| (name.as_str().into(), value.as_str().into()))).collect()
    }

    fn includes(&self, name: &str) -> bool {
        self.include_only.is_empty() || self.include_only.iter().any(|pattern| pattern.matches(name))
    }

    /// Adds a grant: variables to set, and inherited ones to keep by name.
    pub fn merge(&self, granted: &Self) -> Self {
        let mut merged = self.clone();
        merged.set.extend(granted.set.clone());
        if !merged.include_only.is_empty() {
            merged.include_only.extend(granted.include_only.clone());
            merged.include_only.extend(granted.set.keys().map(NamePattern::from));
        }
        merged
    }

    /// Whether this policy, as an upper bound, lets another one set a variable of this name. What it excludes is neither
    /// inherited nor set.
    pub fn lets_set(&self, name: &VariableName) -> bool {
        let is_excluded = self.exclude.iter().any(|pattern| pattern.matches(name.as_str()));
        !is_excluded && self.includes(name.as_str())
    }

    /// Keeps an inherited variable only if both do, and a set one only if the bound does not exclude it. Variables that
    /// the bound sets are set.
    pub fn intersect(&self, bound: &Self) -> Self {
        let own = self.set.iter().filter(|(name, _)| bound.lets_set(name));
        let set = own.chain(&bound.set).map(|(name, value)| (name.clone(), value.clone())).collect();
        Self {
            inherit: self.inherit.min(bound.inherit),
            ignore_default_excludes: self.ignore_default_excludes && bound.ignore_default_excludes,
            exclude: self.exclude.union(&bound.exclude).cloned().collect(),
            set,
            include_only: intersect_patterns(&self.include_only, &bound.include_only),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(policy: &EnvironmentPolicy, inherited: &[&str]) -> Vec<String> {
        let pairs = inherited.iter().map(|name| (RawText::from(*name), RawText::from("v")));
        policy.apply(pairs).keys().map(ToString::to_string).collect()
    }

    #[test]
    fn secrets_and_loader_variables_are_dropped_by_default() {
        let policy = EnvironmentPolicy::default();
        assert_eq!(
            names(&policy, &["PATH", "AWS_SECRET_ACCESS_KEY", "npm_token", "LD_PRELOAD", "BASH_FUNC_x%%"]),
            ["PATH"]
        );
        assert_eq!(names(&policy, &["PATH", "EXEC_WRAPPER", "CODEX_ESCALATE_SOCKET"]), ["PATH"], "codex's shell");
        let trusting = EnvironmentPolicy { ignore_default_excludes: true, ..policy };
        assert_eq!(names(&trusting, &["PATH", "API_TOKEN", "LD_PRELOAD"]), ["API_TOKEN", "PATH"]);
    }

    #[test]
    fn what_is_set_is_set() {
        let set = BTreeMap::from([("API_TOKEN".parse().unwrap(), String::from("x"))]);
        let policy = EnvironmentPolicy { inherit: EnvironmentInherit::None, set, ..EnvironmentPolicy::default() };
        assert_eq!(names(&policy, &["PATH"]), ["API_TOKEN"]);
    }

    /// No flag, setting, profile or approval sets what a bound excludes, unless the bound itself does.
    #[test]
    fn a_bound_excludes_variables_that_are_set() {
        let set = |names: &[&str]| EnvironmentPolicy {
            set: names.iter().map(|name| (name.parse().unwrap(), String::from("x"))).collect(),
            ..EnvironmentPolicy::default()
        };
        let bound = EnvironmentPolicy { exclude: ["CORP_*".parse().unwrap()].into(), ..set(&["CORP_PROXY"]) };
        let asked = set(&["CORP_REGION", "LANG"]);
        assert_eq!(names(&asked.intersect(&bound), &["CORP_KEEP", "PATH"]), ["CORP_PROXY", "LANG", "PATH"]);
        let merged = asked.intersect(&bound).merge(&set(&["CORP_REGION"]));
        assert_eq!(names(&merged.intersect(&bound), &[]), ["CORP_PROXY", "LANG"]);
        // A policy's own exclusions are about what is inherited.
        let own = EnvironmentPolicy { exclude: ["LANG".parse().unwrap()].into(), ..set(&["LANG"]) };
        assert_eq!(names(&own.intersect(&EnvironmentPolicy::default()), &["LANG"]), ["LANG"]);
    }

    #[test]
    fn an_empty_intersection_keeps_nothing() {
        let only = |text: &str| EnvironmentPolicy {
            include_only: [text.parse().unwrap()].into(),
            ..EnvironmentPolicy::default()
        };
        assert_eq!(names(&only("A").intersect(&only("B")), &["A", "B"]), Vec::<String>::new());
        assert_eq!(names(&only("GIT_DIR").intersect(&only("git_*")), &["GIT_DIR", "GIT_X"]), ["GIT_DIR"]);
    }
}
