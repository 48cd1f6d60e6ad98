//! The names of a program.
//!
//! `git` and `/usr/bin/git` may be the same program, and `/tmp/x/git` may be anything. A restricting rule applies to
//! all of them; an allowing rule to the exact word, or to a path that `host_executable` trusts.

use std::borrow::Cow;

use stockade_protocol::PathStyle;

/// The last component of a path; `None` for a bare name.
pub(crate) fn base_name(program: &[u8]) -> Option<&[u8]> {
    base_name_in(program, PathStyle::HOST)
}

fn base_name_in(program: &[u8], style: PathStyle) -> Option<&[u8]> {
    let is_separator = |byte: &u8| *byte == b'/' || (style == PathStyle::Windows && matches!(byte, b'\\' | b':'));
    let start = program.iter().rposition(is_separator)? + 1;
    program.get(start..)
}

/// The key for comparison: Windows ignores case and the extension of an executable.
pub(crate) fn key(program: &[u8]) -> Cow<'_, [u8]> {
    key_in(program, PathStyle::HOST)
}

fn key_in(program: &[u8], style: PathStyle) -> Cow<'_, [u8]> {
    match style {
        PathStyle::Unix => Cow::Borrowed(program),
        PathStyle::Windows => {
            let mut lower = program.to_ascii_lowercase();
            let ending = [&b".exe"[..], b".com", b".cmd", b".bat"].into_iter().find(|ending| lower.ends_with(ending));
            lower.truncate(lower.len() - ending.map_or(0, <[u8]>::len));
            Cow::Owned(lower)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_system() {
        assert_eq!(base_name_in(b"/usr/bin/git", PathStyle::Unix), Some(&b"git"[..]));
        assert_eq!(base_name_in(b"git", PathStyle::Unix), None);
        assert_eq!(base_name_in(br"C:\bin\git.exe", PathStyle::Unix), None);
        assert_eq!(base_name_in(br"C:\bin\git.exe", PathStyle::Windows), Some(&b"git.exe"[..]));
        assert_eq!(key_in(b"Git.EXE", PathStyle::Windows).as_ref(), b"git");
        assert_eq!(key_in(b"Git.EXE", PathStyle::Unix).as_ref(), b"Git.EXE");
    }
}
