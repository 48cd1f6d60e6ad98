//! File names in the headers of a diff.

/// The prefixes that git puts before the old and the new name, also in a reversed diff.
const PREFIXES: [(&str, &str); 6] =
    [("a/", "b/"), ("b/", "a/"), ("i/", "w/"), ("c/", "i/"), ("c/", "w/"), ("o/", "w/")];

/// The name after `--- ` or `+++ `: quoted, or up to the tab before GNU diff's timestamp. `None` if it stands for no
/// file.
pub(super) fn name(text: &[u8]) -> Option<Vec<u8>> {
    let name = match text.first() {
        Some(b'"') => unquoted(text).map_or_else(|| text.to_vec(), |(name, _)| name),
        _ => text.split(|byte| *byte == b'\t').next().unwrap_or_default().to_vec(),
    };
    (name != b"/dev/null").then_some(name)
}

/// A name in git's quotes, and the rest of the text.
fn unquoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut rest = text.strip_prefix(b"\"")?;
    let mut name = Vec::new();
    loop {
        let (byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => return Some((name, rest)),
            b'\\' => {
                let (escape, after) = rest.split_first()?;
                rest = after;
                name.push(match escape {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'"' | b'\\' => *escape,
                    b'0'..=b'3' => {
                        let (digits, after) = rest.split_at_checked(2)?;
                        rest = after;
                        let digits = [&[*escape], digits].concat();
                        u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 8).ok()?
                    }
                    _ => return None,
                });
            }
            byte => name.push(*byte),
        }
    }
}

/// Whether the names in a git diff have prefixes, according to its `diff --git ` line.
pub(super) fn have_prefixes(header: &[u8]) -> bool {
    let header = header.strip_prefix(b"\"").unwrap_or(header);
    PREFIXES.iter().any(|(old, new)| {
        let second = [format!(" {new}"), format!(" \"{new}")];
        header.starts_with(old.as_bytes())
            && second.iter().any(|second| header.windows(second.len()).any(|part| part == second.as_bytes()))
    })
}

/// The single name of a `diff --git ` line, without prefixes, if it is unambiguous.
pub(super) fn both(header: &[u8]) -> Option<Vec<u8>> {
    if header.first() == Some(&b'"') {
        let (old, rest) = unquoted(header)?;
        let (new, _) = unquoted(rest.strip_prefix(b" ")?)?;
        return same(&old, &new);
    }
    let (old, new) = header.split_at_checked(header.len() / 2)?;
    same(old, new.strip_prefix(b" ")?)
}

fn same(old: &[u8], new: &[u8]) -> Option<Vec<u8>> {
    let (old, new) = without_prefixes(old, new);
    (old == new).then(|| old.to_vec())
}

/// Both names without their prefixes; unchanged if they have none.
pub(super) fn without_prefixes<'n>(old: &'n [u8], new: &'n [u8]) -> (&'n [u8], &'n [u8]) {
    let stripped = PREFIXES.iter().find_map(|(before_old, before_new)| {
        Some((old.strip_prefix(before_old.as_bytes())?, new.strip_prefix(before_new.as_bytes())?))
    });
    stripped.unwrap_or((old, new))
}

/// The only name of a diff, without its prefix.
pub(super) fn without_prefix(name: &[u8]) -> &[u8] {
    let all = PREFIXES.iter().flat_map(|(old, new)| [old, new]);
    all.into_iter().find_map(|before| name.strip_prefix(before.as_bytes())).unwrap_or(name)
}

/// A name after `rename from ` and the like, which has no prefix.
pub(super) fn plain(text: &[u8]) -> Vec<u8> {
    unquoted(text).map_or_else(|| text.to_vec(), |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_git_and_diff_write_them() {
        for (text, expected) in [
            (&b"a/x"[..], Some(&b"a/x"[..])),
            (b"a/x y\t", Some(b"a/x y")),
            (b"x\t2026-01-01 00:00:00.000000000 +0000", Some(b"x")),
            (b"\"a/\\303\\244\\t\\\"\"", Some(b"a/\xc3\xa4\t\"")),
            (b"/dev/null", None),
            (b"/dev/null\t1970-01-01", None),
        ] {
            assert_eq!(name(text).as_deref(), expected);
        }
        assert_eq!(both(b"a/x y b/x y").as_deref(), Some(&b"x y"[..]));
        assert_eq!(both(b"x x").as_deref(), Some(&b"x"[..]));
        assert_eq!(both(b"\"a/\\001\" \"b/\\001\"").as_deref(), Some(&b"\x01"[..]));
        assert_eq!(both(b"a/x b/y"), None);
        assert!(have_prefixes(b"a/x b/y") && have_prefixes(b"a/x \"b/y\"") && !have_prefixes(b"a/x a/x"));
    }
}
