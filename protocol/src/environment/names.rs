//! Variable names, and patterns for them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Invalid;

/// A variable's name, or several: `*` stands for any text, `?` for one character; case is ignored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamePattern(String);

impl NamePattern {
    /// Whether the pattern matches this name.
    pub fn matches(&self, name: &str) -> bool {
        wildcard(&self.0, name)
    }

    fn is_literal(&self) -> bool {
        !self.0.contains(['*', '?'])
    }
}

impl From<&VariableName> for NamePattern {
    fn from(name: &VariableName) -> Self {
        Self(name.0.clone())
    }
}

/// A variable's name: not empty, without `=` and NUL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VariableName(String);

impl VariableName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! name_like {
    ($name:ident) => {
        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                if text.is_empty() || text.contains(['=', '\0']) {
                    return Err(Invalid::VariableName { name: text.into() });
                }
                Ok(Self(text.to_owned()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": "^[^=\\u0000]+$" })
            }
        }
    };
}

name_like!(NamePattern);
name_like!(VariableName);

/// Keeps the patterns of each side that the other side certainly covers. Two wildcards that merely overlap are both
/// dropped: fewer variables, never more.
pub(super) fn intersect_patterns(a: &BTreeSet<NamePattern>, b: &BTreeSet<NamePattern>) -> BTreeSet<NamePattern> {
    if a.is_empty() || b.is_empty() {
        return a.union(b).cloned().collect();
    }
    let covered = |own: &NamePattern, others: &BTreeSet<NamePattern>| {
        others.contains(own) || (own.is_literal() && others.iter().any(|other| other.matches(&own.0)))
    };
    let both: BTreeSet<_> =
        a.iter().filter(|own| covered(own, b)).chain(b.iter().filter(|own| covered(own, a))).cloned().collect();
    // An empty list would mean "everything", so "nothing" is a pattern that no name matches.
    if both.is_empty() { BTreeSet::from([NamePattern(String::from("?").repeat(4096))]) } else { both }
}

/// Matches `*` and `?` without regard to case.
pub(super) fn wildcard(pattern: &str, text: &str) -> bool {
    // A fast path: nearly every name is ASCII, and each run checks all of its variables.
    if pattern.is_ascii() && text.is_ascii() {
        // Most patterns are a name, or a part of one: those need no search for what each star stands for.
        let (bytes, name) = (pattern.as_bytes(), text.as_bytes());
        let (from_any, rest) = bytes.strip_prefix(b"*").map_or((false, bytes), |rest| (true, rest));
        let (to_any, plain) = rest.strip_suffix(b"*").map_or((false, rest), |plain| (true, plain));
        if !plain.iter().any(|byte| matches!(byte, b'*' | b'?')) {
            let end = name.len().checked_sub(plain.len());
            let at = |part: Option<&[u8]>| part.is_some_and(|part| part.eq_ignore_ascii_case(plain));
            return match (from_any, to_any) {
                (true, true) => contains(name, plain),
                (true, false) => at(end.and_then(|end| name.get(end..))),
                (false, true) => at(name.get(..plain.len())),
                (false, false) => name.eq_ignore_ascii_case(plain),
            };
        }
        let same = |a: &u8, b: &u8| *a == b'?' || a.eq_ignore_ascii_case(b);
        return matches(pattern.as_bytes(), text.as_bytes(), |c| *c == b'*', same);
    }
    let fold = |text: &str| text.chars().flat_map(char::to_uppercase).collect::<Vec<_>>();
    matches(&fold(pattern), &fold(text), |c| *c == '*', |a, b| *a == '?' || a == b)
}

/// Whether a text contains a part, without regard to the case of ASCII letters.
fn contains(text: &[u8], part: &[u8]) -> bool {
    let Some(first) = part.first() else { return true };
    let same = |window: &[u8]| window.first().is_some_and(|byte| byte.eq_ignore_ascii_case(first));
    text.windows(part.len()).any(|window| same(window) && window.eq_ignore_ascii_case(part))
}

/// Matches a pattern in time linear in the text for each star.
fn matches<T>(pattern: &[T], text: &[T], is_star: impl Fn(&T) -> bool, same: impl Fn(&T, &T) -> bool) -> bool {
    let (mut p, mut t) = (0, 0);
    // The position of the last star, and the end of the text it has matched so far.
    let mut star: Option<(usize, usize)> = None;
    while let Some(c) = text.get(t) {
        match pattern.get(p) {
            Some(expected) if is_star(expected) => {
                star = Some((p, t));
                p += 1;
            }
            Some(expected) if same(expected, c) => {
                p += 1;
                t += 1;
            }
            Some(_) | None => {
                let Some((star_at, swallowed)) = star else { return false };
                star = Some((star_at, swallowed + 1));
                p = star_at + 1;
                t = swallowed + 1;
            }
        }
    }
    pattern.iter().skip(p).all(is_star)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards() {
        for (pattern, text, expected) in [
            ("*KEY*", "monkey", true),
            ("*KEY*", "KE", false),
            ("*KEY*", "keKEy", true),
            ("**", "x", true),
            ("PASS", "pass", true),
            ("PASS", "PASSE", false),
            ("*_PW", "db_pw", true),
            ("*_PW", "PW", false),
            ("*_PW", "_PWx", false),
            ("LD_*", "ld", false),
            ("*", "x", true),
            ("LD_*", "LD_", true),
            ("LD_*", "OLD_X", false),
            ("a?c", "aBc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("", "", true),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxbxx", false),
            ("*é?", "aÉx", true),
            ("*é?", "aEx", false),
        ] {
            assert_eq!(wildcard(pattern, text), expected, "{pattern} {text}");
        }
    }
}
