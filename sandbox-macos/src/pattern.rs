//! Paths and globs as regular expressions for Seatbelt.
//!
//! Everything that takes access away is matched without regard to case: most Macs have a file system
//! on which `.GIT` is another spelling of `.git`, and a name that does not exist yet reaches Seatbelt as
//! the command spells it. A file of the data volume can also be named below `/System/Volumes/Data`.
//!
//! The words are few, so that no dialect reads them in another way: literal characters, `\` in front of
//! the twelve that have a meaning, `[…]` and `[^…]` without escapes inside, `( | )`, `*`, `+`, `?`, `^`
//! and `$`. A pattern is searched for, byte by byte, so it starts with `^` and ends with `(/|$)` or `$`.
//!
//! The pattern of an ASCII name is ASCII: the few letters that fold with a character beyond it stand beside a class
//! for everything that is not ASCII, and not beside that character's bytes. That takes away more than it has to, and
//! rests on nothing but classes, which profiles in production use.

use std::collections::BTreeSet;

use stockade_protocol::{AbsPath, GlobSegment, GlobToken};

/// Where the data volume's files can be found a second time.
const DATA_VOLUME: &str = "^(/System/Volumes/Data)?";
/// The path itself, or something below it.
const AND_BELOW: &str = "(/|$)";
/// More than one byte outside of what ASCII prints: one character, or several.
const NOT_ASCII: &str = "[^ -~][^ -~]+";

/// Sequences that some single character beyond ASCII is equal to once case is ignored (ligatures, the sharp s), the
/// longer first.
const FOLDED: &[&str] = &["ffi", "ffl", "ff", "fi", "fl", "ss", "st"];

/// Letters that some character beyond ASCII is equal to once case is ignored: the sign for kelvin, and the long s.
const BEYOND_ASCII: &[char] = &['k', 's'];

/// A path and everything below it, in any case. `None` for a path that is not UTF-8, which no volume of
/// a Mac holds.
pub(crate) fn subpath(path: &AbsPath) -> Option<String> {
    Some(format!("{DATA_VOLUME}{}{AND_BELOW}", names(path)?))
}

/// One path alone, in any case.
pub(crate) fn literal(path: &AbsPath) -> Option<String> {
    Some(format!("{DATA_VOLUME}{}$", names(path)?))
}

/// What a glob matches at or below a directory, and everything below that. `None` for a directory that
/// is not UTF-8.
pub(crate) fn glob(directory: &AbsPath, rests: &[&[GlobSegment]]) -> Option<String> {
    let start = names(directory)?;
    if rests.iter().any(|rest| rest.is_empty()) {
        return Some(format!("{DATA_VOLUME}{start}{AND_BELOW}"));
    }
    let rests: Vec<String> = rests.iter().map(|rest| rest.iter().map(segment).collect()).collect();
    Some(format!("{DATA_VOLUME}{start}({}){AND_BELOW}", rests.join("|")))
}

/// What may follow below a directory for a glob with this base to match, one for each way in which the
/// directory's own names can be read. Nothing if the glob matches nothing there.
pub(crate) fn rests<'a>(base: &AbsPath, segments: &'a [GlobSegment], directory: &AbsPath) -> Vec<&'a [GlobSegment]> {
    if !directory.starts_with(base) {
        return Vec::new();
    }
    let mut states = BTreeSet::from([0]);
    for name in directory.components().skip(base.depth()) {
        let mut next = BTreeSet::new();
        for state in states {
            advance(segments, state, &String::from_utf8_lossy(name), &mut next);
        }
        states = next;
    }
    states.into_iter().filter_map(|state| segments.get(state..)).collect()
}

fn advance(segments: &[GlobSegment], state: usize, name: &str, next: &mut BTreeSet<usize>) {
    match segments.get(state) {
        Some(GlobSegment::AnyDepth) => {
            next.insert(state);
            advance(segments, state + 1, name, next);
        }
        Some(GlobSegment::Name(tokens)) if may_match(tokens, name) => drop(next.insert(state + 1)),
        Some(GlobSegment::Name(_)) | None => {}
    }
}

/// Whether a name matches, in any case.
fn may_match(tokens: &[GlobToken], name: &str) -> bool {
    let characters: Vec<char> = name.chars().collect();
    let mut ends = BTreeSet::from([0]);
    for token in tokens {
        ends = match token {
            GlobToken::AnyText => {
                let first = ends.first().copied().unwrap_or(usize::MAX);
                (first..=characters.len()).collect()
            }
            one @ (GlobToken::Literal(_) | GlobToken::AnyChar | GlobToken::Class { .. }) => ends
                .into_iter()
                .filter(|at| characters.get(*at).is_some_and(|c| fits(one, *c)))
                .map(|at| at + 1)
                .collect(),
        };
    }
    ends.contains(&characters.len())
}

fn fits(token: &GlobToken, character: char) -> bool {
    let spellings = || spellings(character).into_iter();
    match token {
        GlobToken::Literal(expected) => spellings().any(|own| own == *expected),
        GlobToken::AnyChar | GlobToken::AnyText => true,
        GlobToken::Class { negated: false, ranges } => spellings().any(|own| is_in(ranges, own)),
        GlobToken::Class { negated: true, ranges } => !is_in(ranges, character),
    }
}

fn is_in(ranges: &[(char, char)], character: char) -> bool {
    ranges.iter().any(|(low, high)| (*low..=*high).contains(&character))
}

/// The character in upper and lower case.
fn spellings(character: char) -> BTreeSet<char> {
    let alone = |mut several: Box<dyn Iterator<Item = char>>| several.next().filter(|_| several.next().is_none());
    let lower = alone(Box::new(character.to_lowercase()));
    let upper = alone(Box::new(character.to_uppercase()));
    [Some(character), lower, upper].into_iter().flatten().collect()
}

fn names(path: &AbsPath) -> Option<String> {
    path.components().map(|name| Some(format!("/{}", any_case(std::str::from_utf8(name).ok()?)))).collect()
}

/// A text in any case.
fn any_case(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut pattern = String::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let at = text.len() - rest.len();
        let ahead = lower.get(at..).unwrap_or_default();
        let folded = FOLDED.iter().find(|sequence| ahead.starts_with(**sequence));
        let length = folded.map_or(character.len_utf8(), |sequence| sequence.len());
        let plain: String = rest.get(..length).unwrap_or_default().chars().map(one_in_any_case).collect();
        match folded {
            Some(_) => pattern.push_str(&format!("({plain}|{NOT_ASCII})")),
            None => pattern.push_str(&plain),
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    pattern
}

fn one_in_any_case(character: char) -> String {
    let spellings: Vec<String> = spellings(character).into_iter().map(escape).collect();
    match spellings.as_slice() {
        [one] => one.clone(),
        several if BEYOND_ASCII.contains(&character.to_ascii_lowercase()) => {
            format!("([{}]|{NOT_ASCII})", several.concat())
        }
        several if character.is_ascii() => format!("[{}]", several.concat()),
        several => format!("({})", several.join("|")),
    }
}

/// A character that stands for itself.
fn escape(character: char) -> String {
    let has_meaning =
        matches!(character, '\\' | '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '^' | '$' | '|');
    if has_meaning { format!("\\{character}") } else { character.to_string() }
}

fn segment(segment: &GlobSegment) -> String {
    match segment {
        GlobSegment::AnyDepth => String::from("(/[^/]+)*"),
        GlobSegment::Name(tokens) => format!("/{}", tokens.iter().map(token).collect::<String>()),
    }
}

/// A token of a name. Where a character outside of ASCII is concerned it matches too much rather than too
/// little: Seatbelt counts bytes.
fn token(token: &GlobToken) -> String {
    match token {
        GlobToken::Literal(character) => any_case(character.encode_utf8(&mut [0; 4])),
        GlobToken::AnyText => String::from("[^/]*"),
        GlobToken::AnyChar => format!("([^/]|{NOT_ASCII})"),
        GlobToken::Class { negated, ranges } => class(*negated, ranges),
    }
}

fn class(negated: bool, ranges: &[(char, char)]) -> String {
    let ascii = || ('\u{1}'..='\u{7f}').filter(|c| *c != '/');
    let members: BTreeSet<char> = if negated {
        ascii().filter(|c| is_in(ranges, *c)).collect()
    } else {
        ascii().filter(|c| spellings(*c).into_iter().any(|own| is_in(ranges, own))).collect()
    };
    let has_more_spellings = || BEYOND_ASCII.iter().any(|letter| members.contains(letter));
    let beyond_ascii = negated || ranges.iter().any(|(_, high)| !high.is_ascii()) || has_more_spellings();
    // Inside of `[…]` nothing is escaped: what could be read in another way stands where it can't be, or
    // outside. What is not to be matched can't stand outside, so too much is matched then.
    let is_ambiguous = |c: &char| matches!(c, '[' | ']' | '\\');
    let outside = members.iter().copied().filter(|c| !negated && is_ambiguous(c)).map(escape);
    let ordinary = members.iter().filter(|c| !is_ambiguous(c) && !matches!(c, '^' | '-'));
    let last = ['^', '-'].into_iter().filter(|c| members.contains(c));
    let listed: String = ordinary.copied().chain(last).collect();
    let listed = match (negated, listed.as_str()) {
        (true, listed) => Some(format!("[^/{listed}]")),
        (false, "") => None,
        (false, "^") => Some(String::from(r"\^")),
        (false, "^-") => Some(String::from(r"\^|-")),
        (false, listed) => Some(format!("[{listed}]")),
    };
    let beyond_ascii = beyond_ascii.then(|| NOT_ASCII.to_owned());
    let alternatives: Vec<String> = listed.into_iter().chain(outside).chain(beyond_ascii).collect();
    format!("({})", alternatives.join("|"))
}
