//! Regular expressions as far as every dialect agrees on them. Others are refused, and those that are left
//! are matched byte by byte, anywhere in a path.

use std::cell::RefCell;
use std::collections::HashMap;

use regex::bytes::{Regex, RegexBuilder};

#[derive(Debug)]
pub(crate) struct Pattern(Regex);

thread_local! {
    /// Random policies have few names, so most patterns come again.
    static KNOWN: RefCell<HashMap<String, Regex>> = RefCell::default();
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        check(text).map_err(|why| format!("{why} in the pattern {text}"))?;
        if let Some(known) = KNOWN.with_borrow(|known| known.get(text).cloned()) {
            return Ok(Self(known));
        }
        let regex = RegexBuilder::new(text).unicode(false).build().map_err(|error| error.to_string())?;
        KNOWN.with_borrow_mut(|known| known.insert(text.to_owned(), regex.clone()));
        Ok(Self(regex))
    }

    pub(crate) fn is_found_in(&self, path: &str) -> bool {
        self.0.is_match(path.as_bytes())
    }
}

fn check(text: &str) -> Result<(), &'static str> {
    let body = text.strip_prefix('^').ok_or("no `^` at the start")?;
    let body = body.strip_suffix("(/|$)").or_else(|| body.strip_suffix('$')).ok_or("no anchor at the end")?;
    let mut characters = body.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('\\' | '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '^' | '$' | '|') => {}
                Some(_) | None => return Err("an escape of something without a meaning"),
            },
            '[' => {
                characters.next_if_eq(&'^');
                let members: String = characters.by_ref().take_while(|member| *member != ']').collect();
                if members.is_empty() || !members.is_ascii() {
                    return Err("a class that can be read in more than one way");
                }
                if members.starts_with('^') || members.contains(['\\', '[']) {
                    return Err("a class that can be read in more than one way");
                }
            }
            '.' | '^' | '$' | '{' | '}' | ']' => return Err("a character with a meaning"),
            '(' if characters.peek() == Some(&'|') || characters.peek() == Some(&')') => {
                return Err("an empty alternative");
            }
            '|' if characters.peek() == Some(&')') || characters.peek() == Some(&'|') => {
                return Err("an empty alternative");
            }
            _ => {}
        }
    }
    Ok(())
}

#[test]
fn patterns_that_dialects_disagree_on_are_refused() {
    for text in
        ["/a$", "^/a", "^/a.b$", "^/a{2}$", r"^/a\d$", "^/[]a]$", "^/[^]$", "^/(|a)$", "^/(a|)$", "^/a$b$", r"^/[\]]$"]
    {
        assert!(Pattern::parse(text).is_err(), "{text}");
    }
    let pattern = Pattern::parse(r"^/a\.b(/|$)").unwrap();
    assert!(pattern.is_found_in("/a.b") && pattern.is_found_in("/a.b/c\nd"));
    assert!(!pattern.is_found_in("/axb") && !pattern.is_found_in("/a.bc") && !pattern.is_found_in("x/a.b"));
}
