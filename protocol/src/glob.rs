//! Globs for file rules: a pattern of absolute paths below a fixed directory.
//!
//! `*` and `?` match text inside one name, `[a-z]` and `[!a-z]` one character, and `**` as a whole name any number of
//! directories. There is no escape: a file with a star in its name is given as a path. Everything else is an error,
//! never a rule without effect.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{AbsPath, Invalid, PathStyle, RawText};

/// A pattern of absolute paths.
///
/// ```
/// use stockade_protocol::Glob;
///
/// let glob: Glob = "/repo/**/*.env".parse()?;
/// assert!(glob.matches(&"/repo/a/b/.env".parse()?));
/// assert!(glob.matches(&"/repo/prod.env".parse()?));
/// assert!(!glob.matches(&"/repo/env".parse()?));
/// assert!("**/*.env".parse::<Glob>().is_err());
/// # Ok::<(), stockade_protocol::Invalid>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Glob {
    base: AbsPath,
    segments: Vec<GlobSegment>,
}

/// One step of a glob below its base.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GlobSegment {
    /// `**`: any number of names, also none.
    AnyDepth,
    /// One name.
    Name(Vec<GlobToken>),
}

/// A part of a name in a glob.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GlobToken {
    /// This character.
    Literal(char),
    /// `?`: one character.
    AnyChar,
    /// `*`: any characters, also none.
    AnyText,
    /// `[a-z]` or `[!a-z]`: one character.
    Class {
        /// Whether it matches the characters outside the ranges.
        negated: bool,
        /// The ranges, both ends included.
        ranges: Vec<(char, char)>,
    },
}

impl GlobSegment {
    /// Whether this segment matches a single name.
    pub fn matches_name(&self, name: &[u8], style: PathStyle) -> bool {
        match self {
            Self::AnyDepth => true,
            Self::Name(tokens) => match_name(tokens, name, style),
        }
    }
}

impl Glob {
    /// The directory above all possible matches.
    pub fn base(&self) -> &AbsPath {
        &self.base
    }

    /// The same pattern below another directory.
    #[must_use]
    pub fn rebased(&self, base: AbsPath) -> Self {
        Self { base, segments: self.segments.clone() }
    }

    /// The segments below the base, for translation to another pattern language.
    pub fn segments(&self) -> &[GlobSegment] {
        &self.segments
    }

    /// Whether the glob matches exactly this path.
    pub fn matches(&self, path: &AbsPath) -> bool {
        path.starts_with(&self.base) && {
            let names: Vec<&[u8]> = path.components().skip(self.base.depth()).collect();
            match_segments(&self.segments, &names, path.style())
        }
    }

    /// The largest number of components of the path that the glob matches: the path itself, or an ancestor. `None` if
    /// neither matches.
    pub(crate) fn matched_depth(&self, path: &AbsPath) -> Option<usize> {
        path.starts_with(&self.base)
            .then(|| path.ancestors().find(|above| self.matches(above)))
            .flatten()
            .map(|above| above.depth())
    }
}

/// Matches names against segments, backtracking only to the last `**`.
fn match_segments(segments: &[GlobSegment], names: &[&[u8]], style: PathStyle) -> bool {
    let (mut s, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while let Some(name) = names.get(n) {
        match segments.get(s) {
            Some(GlobSegment::AnyDepth) => {
                retry = Some((s, n));
                s += 1;
                continue;
            }
            Some(GlobSegment::Name(tokens)) if match_name(tokens, name, style) => {
                s += 1;
                n += 1;
                continue;
            }
            Some(GlobSegment::Name(_)) | None => {}
        }
        let Some((star, swallowed)) = retry else { return false };
        retry = Some((star, swallowed + 1));
        s = star + 1;
        n = swallowed + 1;
    }
    segments.iter().skip(s).all(|rest| *rest == GlobSegment::AnyDepth)
}

fn match_name(tokens: &[GlobToken], name: &[u8], style: PathStyle) -> bool {
    if !name.is_ascii() {
        let chars: Vec<char> = String::from_utf8_lossy(name).chars().collect();
        return match_chars(tokens, |place| chars.get(place).copied(), style);
    }
    // A fast path for walks: most names have another last character.
    let ends_otherwise = match (tokens.last(), name.last(), style) {
        (Some(GlobToken::Literal(expected)), Some(actual), PathStyle::Unix) => *expected != char::from(*actual),
        _ => false,
    };
    !ends_otherwise && match_chars(tokens, |place| name.get(place).copied().map(char::from), style)
}

fn match_chars(tokens: &[GlobToken], at: impl Fn(usize) -> Option<char>, style: PathStyle) -> bool {
    let fold = |c: char| match style {
        PathStyle::Unix => c,
        PathStyle::Windows => c.to_lowercase().next().unwrap_or(c),
    };
    let (mut k, mut c) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while let Some(actual) = at(c) {
        let fits = match tokens.get(k) {
            Some(GlobToken::AnyText) => {
                retry = Some((k, c));
                k += 1;
                continue;
            }
            Some(GlobToken::Literal(expected)) => fold(*expected) == fold(actual),
            Some(GlobToken::AnyChar) => true,
            Some(GlobToken::Class { negated, ranges }) => {
                ranges.iter().any(|(low, high)| (fold(*low)..=fold(*high)).contains(&fold(actual))) != *negated
            }
            None => false,
        };
        if fits {
            k += 1;
            c += 1;
            continue;
        }
        let Some((star, swallowed)) = retry else { return false };
        retry = Some((star, swallowed + 1));
        k = star + 1;
        c = swallowed + 1;
    }
    tokens.iter().skip(k).all(|rest| *rest == GlobToken::AnyText)
}

impl FromStr for Glob {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let invalid = |why| Invalid::Glob { glob: RawText::from(text), why };
        if text.len() > 4096 {
            return Err(invalid("is longer than 4096 bytes"));
        }
        let unix = text.starts_with('/');
        if unix && text.contains('\\') {
            return Err(invalid("contains `\\`, which escapes nothing here: give the file as a path"));
        }
        let portable = if unix { Cow::Borrowed(text) } else { Cow::Owned(text.replace('\\', "/")) };
        let is_wild = |name: &&str| name.contains(['*', '?', '[', ']', '{', '}']);
        let first_wild = portable
            .split('/')
            .position(|name| is_wild(&name))
            .ok_or_else(|| invalid("has no wildcard: give it as a path"))?;
        let names: Vec<&str> = portable.split('/').collect();
        let (fixed, wild) = names.split_at_checked(first_wild).unwrap_or_default();
        let base = AbsPath::parse(fixed.join("/") + "/")
            .ok()
            .filter(|base| (base.style() == PathStyle::Unix) == unix)
            .ok_or_else(|| invalid("is not absolute, or its fixed part is not a normal path"))?;
        if unix && base.depth() == 0 {
            return Err(invalid("needs a directory in front of its first wildcard: search below one, not below `/`"));
        }
        let segments =
            wild.iter().filter(|name| !matches!(**name, "" | ".")).map(|name| segment(name)).collect::<Result<_, _>>();
        Ok(Self { base, segments: segments.map_err(invalid)? })
    }
}

fn segment(name: &str) -> Result<GlobSegment, &'static str> {
    match name {
        "**" => return Ok(GlobSegment::AnyDepth),
        ".." => return Err("contains `..`"),
        _ if name.contains("**") => return Err("has `**` inside a name: it stands alone between slashes"),
        _ if name.contains(['{', '}']) => return Err("uses braces: write one rule for each alternative"),
        _ => {}
    }
    let mut tokens = Vec::new();
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        tokens.push(match c {
            '*' => GlobToken::AnyText,
            '?' => GlobToken::AnyChar,
            '[' => class(&mut chars)?,
            ']' => return Err("has `]` without `[`"),
            '\0' => return Err("contains a NUL byte"),
            literal => GlobToken::Literal(literal),
        });
    }
    Ok(GlobSegment::Name(tokens))
}

fn class(chars: &mut std::str::Chars<'_>) -> Result<GlobToken, &'static str> {
    let unread = chars.as_str();
    let (body, rest) = unread.split_once(']').ok_or("has an empty or unclosed `[`")?;
    *chars = rest.chars();
    let negated = body.starts_with(['!', '^']);
    let mut members = body.chars().skip(usize::from(negated)).peekable();
    let mut ranges = Vec::new();
    while let Some(low) = members.next() {
        let high = match members.next_if_eq(&'-') {
            Some(_) => members.next().ok_or("has a range without an end")?,
            None => low,
        };
        if low > high || low == '[' {
            return Err("has a character class that no name can be told by");
        }
        ranges.push((low, high));
    }
    if ranges.is_empty() { Err("has an empty or unclosed `[`") } else { Ok(GlobToken::Class { negated, ranges }) }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Only the root of a drive ends in its separator.
        let base = self.base.as_raw().as_str().unwrap_or_default().replace('\\', "/");
        f.write_str(base.trim_end_matches('/'))?;
        for segment in &self.segments {
            f.write_str("/")?;
            match segment {
                GlobSegment::AnyDepth => f.write_str("**")?,
                GlobSegment::Name(tokens) => tokens.iter().try_for_each(|token| token.fmt(f))?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for GlobToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(c) => write!(f, "{c}"),
            Self::AnyChar => f.write_str("?"),
            Self::AnyText => f.write_str("*"),
            Self::Class { negated, ranges } => {
                f.write_str(if *negated { "[!" } else { "[" })?;
                let next = ranges.iter().skip(1).map(|(low, _)| Some(*low)).chain([None]);
                for ((low, high), next) in ranges.iter().zip(next) {
                    // A hyphen after a single character would be read as a range.
                    if low == high && next != Some('-') { write!(f, "{low}")? } else { write!(f, "{low}-{high}")? }
                }
                f.write_str("]")
            }
        }
    }
}

impl Serialize for Glob {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Glob {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Glob {
    fn schema_name() -> Cow<'static, str> {
        "Glob".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "description": "A pattern of absolute paths below a fixed directory, such as `/repo/**/*.env`." })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_would_do_nothing_is_refused() {
        for (text, words) in [
            ("/**/*.env", "needs a directory"),
            ("*.env", "not absolute"),
            ("~/*.env", "not absolute"),
            ("./tmp/*", "not absolute"),
            ("/a/b", "no wildcard"),
            (r"/a/\*", "escapes nothing"),
            ("/a/x**", "stands alone"),
            ("/a/{b,c}", "braces"),
            ("/a/[", "unclosed"),
            ("/a/[]", "unclosed"),
            ("/a/[b", "unclosed"),
            ("/a/[b/c]", "unclosed"),
            ("/a/[z-a]", "class"),
            ("/a/*/../b", "`..`"),
            ("/a/../*", "normal path"),
            ("/a/*]", "without `[`"),
        ] {
            let error = text.parse::<Glob>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn a_hyphen_among_characters_stays_one() {
        for (text, written) in [
            ("/a/[b-b-z]", "/a/[b-b-z]"),
            ("/a/[b-b-]", "/a/[b-b-]"),
            ("/a/[-z]", "/a/[-z]"),
            ("/a/[----]", "/a/[----]"),
            ("/a/[c-cd]", "/a/[cd]"),
            ("/a/[^b-d]", "/a/[!b-d]"),
        ] {
            let glob: Glob = text.parse().unwrap();
            assert_eq!(glob.to_string(), written);
            assert_eq!(written.parse::<Glob>().unwrap(), glob, "{text}");
        }
        let glob: Glob = "/a/[b-b-z]".parse().unwrap();
        for (path, expected) in [("/a/b", true), ("/a/-", true), ("/a/z", true), ("/a/c", false)] {
            let written: Glob = glob.to_string().parse().unwrap();
            assert_eq!(written.matches(&path.parse().unwrap()), expected, "{path}");
        }
    }

    #[test]
    fn matches_by_name_and_depth() {
        let matches = |glob: &str, path: &str| glob.parse::<Glob>().unwrap().matches(&path.parse().unwrap());
        for (glob, path, expected) in [
            ("/a/*", "/a/b", true),
            ("/a/*", "/a/b/c", false),
            ("/a/*", "/a", false),
            ("/a/**", "/a", true),
            ("/a/**", "/a/b/c", true),
            ("/a/**/c", "/a/c", true),
            ("/a/**/c", "/a/x/y/c", true),
            ("/a/**/b/*.k", "/a/b/b/x.k", true),
            ("/a/?", "/a/\u{e9}", true),
            ("/a/[!.]*", "/a/.x", false),
            ("/a/[a-c]x", "/a/bx", true),
            ("/a/*.env", "/a/.env", true),
            ("/a/*", "/ab/c", false),
            (r"C:\a\*.key", r"c:\A\x.KEY", true),
        ] {
            assert_eq!(matches(glob, path), expected, "{glob} {path}");
        }
    }

    #[test]
    fn is_written_as_it_was_read() {
        for text in ["/a/**/*.env", "/a/[!a-cx]?/b", "C:/a/*"] {
            assert_eq!(text.parse::<Glob>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn hostile_patterns_stay_fast() {
        let glob: Glob = format!("/a/{}b", "*a".repeat(1000)).parse().unwrap();
        let path = AbsPath::parse(format!("/a/{}", "a".repeat(4000))).unwrap();
        assert!(!glob.matches(&path));
    }
}
