//! Compares patterns of the agents' searches with the paths that commands may not read.
//!
//! Agents use different matching libraries, so a pattern is overestimated, never underestimated: case is ignored,
//! hidden names match, and library-specific syntax matches any text. The result is whether a search may encounter a
//! path, not what it finds.

use std::path::{Path, PathBuf};

/// Limit on expanded alternatives.
const MOST_ALTERNATIVES: usize = 256;
/// Character classes are read one in another.
const LONGEST: usize = 4096;

/// A pattern without alternatives: a fixed part, and the components with wildcards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SearchPattern {
    /// The directories, or the file, that are named without a wildcard. May be relative.
    pub(super) fixed: PathBuf,
    /// The rest, from the first component with a wildcard on.
    pub(super) rest: Vec<String>,
}

/// What counts as reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The path itself.
    Exactly,
    /// The path, or something below it.
    OrBelow,
}

/// Why a pattern can't be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum PatternError {
    #[error("the pattern has more than {MOST_ALTERNATIVES} alternatives")]
    Alternatives,
    #[error("the pattern is longer than {LONGEST} bytes")]
    Long,
    #[error("the pattern goes up (`..`) behind a wildcard, so that where it leads is not sure")]
    Upwards,
}

impl SearchPattern {
    /// Parses a pattern and expands its alternatives.
    pub(super) fn read(text: &str) -> Result<Vec<Self>, PatternError> {
        if text.len() > LONGEST {
            return Err(PatternError::Long);
        }
        let mut read = Vec::new();
        for text in alternatives(text)? {
            read.push(Self::of_plain(&text)?);
            // gemini-cli takes a backslash for a separator, and ignores case, also of names without a wildcard.
            let slashed = text.replace('\\', "/");
            read.push(Self::step_by_step(&slashed)?);
            if slashed != text {
                read.push(Self::of_plain(&slashed)?);
            }
        }
        Ok(read)
    }

    /// The same pattern with every name a step, so that it is compared without regard to case.
    fn step_by_step(text: &str) -> Result<Self, PatternError> {
        let (mut upward, mut rest) =
            (PathBuf::from(if text.starts_with('/') { "/" } else { "" }), Vec::<String>::new());
        for name in text.split('/').filter(|name| !matches!(*name, "" | ".")) {
            match (name, rest.pop()) {
                ("..", Some(last)) if has_wildcard(&last) => return Err(PatternError::Upwards),
                ("..", Some(_)) => {}
                ("..", None) => upward.push(".."),
                ("~", None) if upward.as_os_str().is_empty() => upward.push("~"),
                (name, last) => rest.extend(last.into_iter().chain([name.to_owned()])),
            }
        }
        Ok(Self { fixed: upward, rest })
    }

    fn of_plain(text: &str) -> Result<Self, PatternError> {
        let names: Vec<&str> = text.split('/').collect();
        let fixed = names.iter().position(|name| has_wildcard(name)).unwrap_or(names.len());
        let (fixed, rest) = names.split_at_checked(fixed).unwrap_or((&names, &[]));
        let rest: Vec<String> =
            rest.iter().filter(|name| !matches!(**name, "" | ".")).map(|name| (*name).to_owned()).collect();
        if rest.iter().any(|name| name == "..") {
            return Err(PatternError::Upwards);
        }
        let root = if text.starts_with('/') { "/" } else { "" };
        Ok(Self { fixed: Path::new(root).join(fixed.join("/").trim_start_matches('/')), rest })
    }

    /// Whether a search from its fixed part may encounter a path. `denied` has the components below the fixed part,
    /// each of which may be a pattern.
    pub(super) fn may_reach<'a>(&self, denied: impl IntoIterator<Item = &'a str>, at: Reach) -> bool {
        let denied: Vec<&str> = denied.into_iter().collect();
        // The prefixes of `denied` that the pattern's steps so far may match.
        let mut passed = vec![false; denied.len() + 1];
        passed.first_mut().into_iter().for_each(|start| *start = true);
        for step in &self.rest {
            skip_any_depth(&denied, &mut passed);
            if at == Reach::OrBelow && passed.last() == Some(&true) {
                return true;
            }
            let mut next = vec![false; denied.len() + 1];
            for (at, name) in denied.iter().enumerate() {
                if passed.get(at) != Some(&true) {
                    continue;
                }
                let is_deep = *name == "**";
                if is_deep || may_be_same(step, name) {
                    let to = if is_deep { at } else { at + 1 };
                    next.get_mut(to).into_iter().for_each(|next| *next = true);
                }
            }
            if step.contains("**") {
                // Any number of names of `denied`, also none.
                let first = passed.iter().position(|passed| *passed).unwrap_or(passed.len());
                next.iter_mut().skip(first).for_each(|next| *next = true);
            }
            passed = next;
        }
        skip_any_depth(&denied, &mut passed);
        passed.last() == Some(&true)
    }

    /// Whether its last component matches less than any name.
    pub(super) fn is_specific(&self) -> bool {
        self.rest.last().is_some_and(|last| last.chars().any(|c| !matches!(c, '*' | '?' | '.')))
    }
}

/// A `**` of a denied pattern also matches no name.
fn skip_any_depth(denied: &[&str], passed: &mut [bool]) {
    for (at, name) in denied.iter().enumerate() {
        if *name == "**" && passed.get(at) == Some(&true) {
            passed.get_mut(at + 1).into_iter().for_each(|next| *next = true);
        }
    }
}

fn has_wildcard(name: &str) -> bool {
    name.contains(['*', '?', '[', ']', '{', '}', '(', ')', '!', '+', '@', '\\', '|'])
}

/// Whether two names with possible wildcards may match the same.
fn may_be_same(one: &str, other: &str) -> bool {
    match (has_wildcard(one), has_wildcard(other)) {
        (false, false) => one.to_lowercase() == other.to_lowercase(),
        (true, false) => may_match(one, other),
        (false, true) => may_match(other, one),
        (true, true) => true,
    }
}

/// Whether a pattern may match a name.
fn may_match(pattern: &str, name: &str) -> bool {
    // Syntax that libraries interpret differently.
    if pattern.contains(['(', ')', '{', '}', '|', '\\']) || pattern.contains("[[") || pattern.contains("[:") {
        return true;
    }
    let pattern = with_plain_classes(&pattern.to_lowercase());
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.to_lowercase().chars().collect());
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while let Some(c) = name.get(n) {
        match pattern.get(p) {
            Some('*') => {
                retry = Some((p, n));
                p += 1;
            }
            Some(own) if own == c || *own == '?' => (p, n) = (p + 1, n + 1),
            Some(_) | None => match retry {
                Some((star, swallowed)) => {
                    retry = Some((star, swallowed + 1));
                    (p, n) = (star + 1, swallowed + 1);
                }
                None => return false,
            },
        }
    }
    pattern.iter().skip(p).all(|rest| *rest == '*')
}

/// Replaces each character class by `?`.
fn with_plain_classes(pattern: &str) -> String {
    let Some((before, class)) = pattern.split_once('[') else { return pattern.to_owned() };
    // A leading bracket belongs to the class.
    let inside = class.strip_prefix(['!', '^']).unwrap_or(class);
    let skipped = class.len() - inside.len() + inside.chars().next().map_or(0, char::len_utf8);
    match class.get(skipped..).and_then(|rest| rest.split_once(']')) {
        Some((_, after)) => format!("{before}?{}", with_plain_classes(after)),
        // Some libraries treat it literally, others match nothing.
        None => format!("{before}*"),
    }
}

/// Expands the alternatives `{a,b}` of a pattern.
fn alternatives(text: &str) -> Result<Vec<String>, PatternError> {
    let (mut open, mut done) = (vec![text.to_owned()], Vec::new());
    while let Some(text) = open.pop() {
        match innermost(&text) {
            None => done.push(text),
            // A range, such as `{1..9}`.
            Some((before, inside, after)) if !inside.contains(',') && inside.contains("..") => {
                open.push(format!("{before}*{after}"));
            }
            Some((before, inside, after)) => {
                open.extend(inside.split(',').map(|one| format!("{before}{one}{after}")));
            }
        }
        if open.len() + done.len() > MOST_ALTERNATIVES {
            return Err(PatternError::Alternatives);
        }
    }
    Ok(done)
}

/// The first innermost braces.
fn innermost(text: &str) -> Option<(&str, &str, &str)> {
    let close = text.find('}').filter(|close| text.get(..*close).is_some_and(|before| before.contains('{')));
    let (before, after) = text.split_at_checked(close?)?;
    let (before, inside) = before.rsplit_once('{')?;
    Some((before, inside, after.strip_prefix('}')?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reaches(pattern: &str, denied: &str) -> bool {
        let at = if denied.contains('*') { Reach::Exactly } else { Reach::OrBelow };
        SearchPattern::read(pattern).unwrap().iter().any(|pattern| {
            let below = denied.strip_prefix(pattern.fixed.to_str().unwrap());
            below.is_some_and(|below| pattern.may_reach(below.split('/').filter(|name| !name.is_empty()), at))
        })
    }

    #[test]
    fn what_a_search_comes_by() {
        for (pattern, denied, expected) in [
            ("/h/.ssh/*", "/h/.ssh", true),
            ("/h/**", "/h/.ssh", true),
            ("/h/*", "/h/.ssh", true),
            ("/h/*/id_*", "/h/.ssh", true),
            ("/h/.s?h/id", "/h/.ssh", true),
            ("/h/.[s]sh/id", "/h/.ssh", true),
            ("/h/[!a]ssh/id", "/h/.ssh", true),
            ("/h/.SSH*/id", "/h/.ssh", true),
            ("/h/{src,.ssh}/*", "/h/.ssh", true),
            ("/h/{a/b,{c,.ssh}/*}", "/h/.ssh", true),
            ("/h/@(.ssh)/*", "/h/.ssh", true),
            ("/**/id_rsa", "/h/.ssh", true),
            ("/h/*.rs", "/h/.ssh", false),
            ("/h/src/**", "/h/.ssh", false),
            ("/h/s*/**", "/h/.ssh", false),
            ("/h/*/*", "/h/a/b/c", false),
            ("/h/**/*.rs", "/h/**/.env", false),
            ("/h/**/.env*", "/h/**/.env", true),
            ("/h/*.env", "/h/**/*.env", true),
        ] {
            assert_eq!(reaches(pattern, denied), expected, "{pattern} {denied}");
        }
        assert_eq!(SearchPattern::read("*/../x"), Err(PatternError::Upwards));
        assert_eq!(SearchPattern::read(&"{a,b}".repeat(9)), Err(PatternError::Alternatives));
        assert_eq!(SearchPattern::read(&"[a]".repeat(20_000)), Err(PatternError::Long));
        assert!(SearchPattern::read(&"[a]".repeat(1_300)).is_ok());
        let plain = SearchPattern::read("../a//b").unwrap();
        let steps = ["a", "b"].map(String::from).to_vec();
        let expected = [("../a//b", Vec::new()), ("..", steps)];
        assert_eq!(plain, expected.map(|(fixed, rest)| SearchPattern { fixed: PathBuf::from(fixed), rest }));
        for (pattern, denied) in [
            ("/w/SECRETS/k", "/w/secrets"),
            ("/W/secrets/*", "/w/secrets"),
            ("/w/[[:alpha:]]ecrets/k", "/w/secrets"),
            (r"/w/x/..\secrets/k", "/w/secrets"),
            ("/w/A.PEM", "/w/**/*.pem"),
        ] {
            assert!(reaches(pattern, denied), "{pattern} {denied}");
        }
        assert!(!SearchPattern::read("**/*").unwrap().iter().any(SearchPattern::is_specific));
    }

    proptest! {
        #[test]
        fn any_pattern_is_read_or_refused(text in "[a-c*?{},\\[\\]!./\\\\é(|)]{0,40}", denied in "[a-c./*]{0,12}") {
            if let Ok(read) = SearchPattern::read(&text) {
                read.iter().for_each(|pattern| { let _ = pattern.may_reach(denied.split('/'), Reach::OrBelow); });
            }
        }

        /// A path that is turned into a pattern by wildcards is reached by it.
        #[test]
        fn a_pattern_reaches_what_it_was_made_of(
            // Neither `.` nor `..`.
            names in prop::collection::vec(("[.a-c]{0,2}[a-c][.]{0,1}", 0..5usize), 1..5), below in "[a-z]{0,3}"
        ) {
            let denied: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
            let steps = names.iter().map(|(name, how)| match how {
                0 => String::from("*"),
                1 => String::from("**"),
                2 => name.chars().map(|_| '?').collect(),
                3 => format!("{{x,{name}}}"),
                _ => format!("[{}]*", name.chars().next().unwrap()),
            });
            let text = steps.chain([below]).collect::<Vec<_>>().join("/");
            let read = SearchPattern::read(&format!("*/{text}")).unwrap();
            let whole: Vec<&str> = ["top"].into_iter().chain(denied).collect();
            prop_assert!(read.iter().any(|pattern| pattern.may_reach(whole.iter().copied(), Reach::OrBelow)), "{text}");
        }
    }
}
