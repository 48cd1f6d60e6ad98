//! Absolute, normalised paths: the only kind that a policy may name.
//!
//! The type holds Unix and Windows paths on every host, so that a plan for one system can be made
//! and tested on another. Which of the two a path is shows in its text: `/usr` or `C:\Windows`.
//!
//! Normalising is purely textual and therefore refuses `..`: `/a/link/..` is `/a` only while
//! `link` is not a symbolic link. Such a path is resolved against the file system first.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{Invalid, RawText};

/// An absolute path without `.`, `..`, doubled or trailing separators.
///
/// ```
/// use stockade_protocol::AbsPath;
///
/// let root = AbsPath::parse("/w/app/")?;
/// assert_eq!(root.to_string(), "/w/app");
/// assert!(AbsPath::parse("/w/app/src//main.rs")?.starts_with(&root));
/// assert!(!AbsPath::parse("/w/app-evil/t")?.starts_with(&root));
/// assert!(AbsPath::parse("app").is_err());
/// assert!(AbsPath::parse("/w/link/..").is_err());
/// # Ok::<(), stockade_protocol::Invalid>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct AbsPath(RawText);

/// The path syntax of an operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathStyle {
    /// `/usr/bin`: components are bytes between slashes.
    Unix,
    /// `C:\Windows` or `\\server\share\dir`: compared without regard to case.
    Windows,
}

impl PathStyle {
    /// The style of the system that this program runs on.
    pub const HOST: Self = if cfg!(windows) { Self::Windows } else { Self::Unix };

    fn separator(self) -> u8 {
        match self {
            Self::Unix => b'/',
            Self::Windows => b'\\',
        }
    }
}

impl AbsPath {
    /// Parses and normalises an absolute path.
    pub fn parse(text: impl Into<RawText>) -> Result<Self, Invalid> {
        let text = text.into();
        if text.as_bytes().contains(&0) {
            return Err(Invalid::NulInPath { path: text });
        }
        if let Some(names) = text.as_bytes().strip_prefix(b"/") {
            if has_normal_names(names) {
                return Ok(Self(text));
            }
            let normal = normalise(&text, text.as_bytes(), b"", PathStyle::Unix)?;
            return Ok(Self(normal));
        }
        crate::windows_path::parse(&text).map(Self)
    }

    /// Converts a path of the operating system.
    pub fn from_path(path: &Path) -> Result<Self, Invalid> {
        Self::parse(path.as_os_str().as_encoded_bytes().to_vec())
    }

    /// The path's syntax.
    pub fn style(&self) -> PathStyle {
        if self.0.as_bytes().starts_with(b"/") { PathStyle::Unix } else { PathStyle::Windows }
    }

    /// The text, as it is written on the wire.
    pub fn as_raw(&self) -> &RawText {
        &self.0
    }

    /// The path for the operating system; `None` if it is a path of another system.
    pub fn to_host_path(&self) -> Option<PathBuf> {
        (self.style() == PathStyle::HOST).then(|| host_path(&self.0)).flatten()
    }

    /// The names from the root down. The root of a Unix path has none; a Windows drive or share
    /// counts as the first.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let style = self.style();
        let bytes = self.0.as_bytes();
        let (prefix, rest) = match style {
            PathStyle::Unix => (None, bytes),
            PathStyle::Windows => {
                let (prefix, rest) = crate::windows_path::split_prefix(bytes);
                (Some(prefix), rest)
            }
        };
        let names = rest.split(move |byte| *byte == style.separator()).filter(|name| !name.is_empty());
        prefix.into_iter().chain(names)
    }

    /// The number of components: the longer of two matching rules is the more specific.
    pub fn depth(&self) -> usize {
        match self.style() {
            // In a normalised path each separator precedes a name, except for the root's.
            PathStyle::Unix if self.0.as_bytes() == b"/" => 0,
            PathStyle::Unix => self.0.as_bytes().iter().filter(|byte| **byte == b'/').count(),
            PathStyle::Windows => self.components().count(),
        }
    }

    /// Whether this path is `base` or below it, compared component by component.
    pub fn starts_with(&self, base: &Self) -> bool {
        match (self.style(), base.style()) {
            // Equivalent on bytes: the rest after `base` has to be empty or start a new component.
            (PathStyle::Unix, PathStyle::Unix) => {
                let base = base.0.as_bytes().strip_suffix(b"/").unwrap_or(base.0.as_bytes());
                self.0.as_bytes().strip_prefix(base).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
            }
            (PathStyle::Windows, PathStyle::Windows) => {
                let mut own = self.components();
                base.components()
                    .all(|theirs| own.next().is_some_and(|name| crate::windows_path::same_name(name, theirs)))
            }
            (PathStyle::Unix, PathStyle::Windows) | (PathStyle::Windows, PathStyle::Unix) => false,
        }
    }

    /// The directory that holds this path; the root has none.
    pub fn parent(&self) -> Option<Self> {
        match self.style() {
            PathStyle::Unix => name_above(self.as_bytes()).map(|parent| Self(RawText::from(parent))),
            PathStyle::Windows => {
                let kept = self.0.as_bytes().strip_suffix(self.components().skip(1).last()?)?;
                Self::parse(kept.to_vec()).ok()
            }
        }
    }

    /// This path and every directory above it, the longest first.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> {
        std::iter::successors(Some(self.clone()), Self::parent)
    }

    /// The texts of a Unix path and of every directory above it, the longest first.
    pub(crate) fn names_upward(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::successors(Some(self.as_bytes()), |name| name_above(name))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// The path of something below this one.
    pub fn join(&self, relative: impl Into<RawText>) -> Result<Self, Invalid> {
        let relative = relative.into();
        if relative.as_bytes().first().is_some_and(|first| matches!(first, b'/' | b'\\')) {
            return Err(Invalid::AbsoluteTail { path: relative });
        }
        match self.style() {
            PathStyle::Unix if relative.as_bytes().contains(&0) => Err(Invalid::NulInPath { path: relative }),
            PathStyle::Unix => {
                // This path is normalised already.
                let own = self.0.as_bytes().strip_suffix(b"/").unwrap_or(self.0.as_bytes());
                if has_normal_names(relative.as_bytes()) {
                    return Ok(Self([own, b"/", relative.as_bytes()].concat().into()));
                }
                let joined = normalise(&relative, relative.as_bytes(), own, PathStyle::Unix)?;
                let adds_nothing = joined.as_bytes().len() == own.len() + 1;
                Ok(Self(if adds_nothing { self.0.clone() } else { joined }))
            }
            PathStyle::Windows => {
                Self::parse([self.0.as_bytes(), &[PathStyle::Windows.separator()], relative.as_bytes()].concat())
            }
        }
    }
}

/// The text of the directory that holds a Unix path; the root has none.
fn name_above(path: &[u8]) -> Option<&[u8]> {
    match path.iter().rposition(|byte| *byte == b'/')? {
        0 if path == b"/" => None,
        0 => Some(b"/"),
        end => path.get(..end),
    }
}

/// Whether a Unix path without its first slash, or a relative one, is in its normal form and not empty, as most are.
fn has_normal_names(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').all(|name| !matches!(name, b"" | b"." | b".."))
}

/// Joins the components of `rest` to `prefix`, each after one separator.
pub(crate) fn normalise(whole: &RawText, rest: &[u8], prefix: &[u8], style: PathStyle) -> Result<RawText, Invalid> {
    let is_separator = |byte: &u8| *byte == style.separator() || (style == PathStyle::Windows && *byte == b'/');
    // Of its final length for a path in its normal form, so that it is allocated once.
    let mut normal = Vec::with_capacity(prefix.len() + rest.len() + usize::from(!rest.starts_with(b"/")));
    normal.extend_from_slice(prefix);
    for name in rest.split(is_separator).filter(|name| !matches!(*name, b"" | b".")) {
        if name == b".." {
            return Err(Invalid::ParentInPath { path: whole.clone() });
        }
        normal.push(style.separator());
        normal.extend_from_slice(name);
    }
    if normal.len() == prefix.len() {
        normal.push(style.separator());
    }
    Ok(normal.into())
}

#[cfg(unix)]
fn host_path(text: &RawText) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    Some(OsStr::from_bytes(text.as_bytes()).into())
}

#[cfg(not(unix))]
fn host_path(text: &RawText) -> Option<PathBuf> {
    text.as_str().map(OsStr::new).map(PathBuf::from)
}

impl std::str::FromStr for AbsPath {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::parse(text)
    }
}

impl fmt::Display for AbsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.style() {
            PathStyle::Unix => self.0.fmt(f),
            // A backslash is a separator here, not an escape.
            PathStyle::Windows => f.write_str(&self.0.to_string().replace(r"\\", r"\")),
        }
    }
}

impl fmt::Debug for AbsPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{self}`")
    }
}

impl<'de> Deserialize<'de> for AbsPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(RawText::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> AbsPath {
        AbsPath::parse(text).unwrap()
    }

    #[test]
    fn normalises_unix_paths() {
        for (given, normal) in
            [("/", "/"), ("//", "/"), ("/./a//b/./", "/a/b"), ("/a/...", "/a/..."), (r"/a\b", r"/a\b")]
        {
            assert_eq!(path(given).as_raw().as_str(), Some(normal), "{given}");
        }
    }

    #[test]
    fn refuses_relative_ambiguous_and_cut_paths() {
        for (given, words) in [
            ("", "not absolute"),
            ("a/b", "not absolute"),
            ("~/x", "not absolute"),
            ("/a/../b", "`..`"),
            ("/a\0b", "NUL"),
        ] {
            let error = AbsPath::parse(given).unwrap_err().to_string();
            assert!(error.contains(words), "{given}: {error}");
        }
    }

    #[test]
    fn compares_by_component() {
        assert!(path("/w/app").starts_with(&path("/w/app")));
        assert!(path("/w/app/x").starts_with(&path("/")));
        assert!(!path("/w/app-evil").starts_with(&path("/w/app")));
        assert!(!path("/w").starts_with(&path("/w/app")));
        assert!(!path("/W").starts_with(&path("/w")));
        assert!(path("/").starts_with(&path("/")));
        assert!(!path("/").starts_with(&path("/w")));
        for text in ["/", "/w", "/w/app", "/w/a b/.c"] {
            assert_eq!(path(text).depth(), path(text).components().count(), "{text}");
        }
    }

    #[test]
    fn knows_its_parents() {
        let chain: Vec<_> = path("/a/b").ancestors().map(|p| p.to_string()).collect();
        assert_eq!(chain, ["/a/b", "/a", "/"]);
        let chain: Vec<_> = path(r"C:\a\b").ancestors().map(|p| p.to_string()).collect();
        assert_eq!(chain, [r"C:\a\b", r"C:\a", r"C:\"]);
        let chain: Vec<_> = path(r"\\srv\share\x").ancestors().map(|p| p.to_string()).collect();
        assert_eq!(chain, [r"\\srv\share\x", r"\\srv\share\"]);
    }

    #[test]
    fn joins_below_only() {
        assert_eq!(path("/a").join("b/c").unwrap(), path("/a/b/c"));
        assert_eq!(path("/").join("b").unwrap(), path("/b"));
        assert_eq!(path("/a").join("./b//.").unwrap(), path("/a/b"));
        assert_eq!(path("/a").join(".").unwrap(), path("/a"));
        assert_eq!(path("/").join("").unwrap(), path("/"));
        assert!(path("/a").join("b\0c").is_err());
        assert_eq!(path(r"C:\").join("b").unwrap(), path(r"C:\b"));
        assert!(path("/a").join("/b").is_err());
        assert!(path("/a").join("../b").is_err());
    }
}
