//! What may stand in the files of a repository that git acts on.

use super::names::{Check, is_hexadecimal};

/// Steps of a rebase that run no command.
const STEPS: &[&str] = &[
    "b",
    "break",
    "d",
    "drop",
    "e",
    "edit",
    "f",
    "fixup",
    "l",
    "label",
    "m",
    "merge",
    "noop",
    "p",
    "pick",
    "r",
    "reset",
    "reword",
    "s",
    "squash",
    "t",
    "u",
    "update-ref",
];

/// Extensions of an index that say nothing of other files, and nothing of where entries stand.
const EXTENSIONS: &[&[u8; 4]] = &[b"TREE", b"REUC", b"UNTR", b"FSMN", b"sdir"];
/// One that is found from the end of the file, and says where the entries end.
const END_OF_ENTRIES: &[u8] = b"EOIE";
/// Times, numbers, mode, owner and size of a file, before the name of its object.
const ENTRY_FIELDS: usize = 40;
const NAME_LENGTH: u16 = 0x0fff;
const IS_EXTENDED: u16 = 0x4000;

/// Whether a content may stand in a file. `id` is the length of an object's name.
pub(super) fn is_sound(check: Check, content: &[u8], id: usize) -> bool {
    match check {
        Check::Head | Check::Reference => is_head(content),
        Check::PackedReferences => are_packed(content),
        Check::Todo => is_todo(content),
        Check::Index => index(content, id).is_some(),
    }
}

fn is_head(content: &[u8]) -> bool {
    let line = content.strip_suffix(b"\n").unwrap_or(content);
    match line.strip_prefix(b"ref: ") {
        Some(name) => is_reference(name),
        None => is_hexadecimal(line, &[40, 64]),
    }
}

/// A commit, with its name or as what a tag before it leads to, in each line.
fn are_packed(content: &[u8]) -> bool {
    let is_commit = |word: &[u8]| is_hexadecimal(word, &[40, 64]);
    let is_packed = |line: &[u8]| match line {
        [] | [b'#', ..] => true,
        [b'^', commit @ ..] => is_commit(commit),
        _ => {
            let space = line.iter().position(|byte| *byte == b' ');
            let words = space.and_then(|space| Some((line.get(..space)?, line.get(space + 1..)?)));
            words.is_some_and(|(commit, name)| is_commit(commit) && is_reference(name))
        }
    };
    content.split(|byte| *byte == b'\n').all(is_packed)
}

/// A name below `refs`, but for those that put other objects in the place of a commit.
/// <https://git-scm.com/docs/git-check-ref-format>
fn is_reference(name: &[u8]) -> bool {
    const REPLACEMENTS: &[u8] = b"refs/replace/";
    if !name.starts_with(b"refs/")
        || name.get(..REPLACEMENTS.len()).is_some_and(|start| start.eq_ignore_ascii_case(REPLACEMENTS))
    {
        return false;
    }
    let is_part = |part: &[u8]| !part.is_empty() && !part.starts_with(b".") && !part.ends_with(b".lock");
    let is_plain = |byte: &u8| *byte > b' ' && *byte != 0x7f && !b"~^:?*[\\".contains(byte);
    let has = |pair: &[u8]| name.windows(2).any(|found| found == pair);
    name.iter().all(is_plain)
        && name.split(|byte| *byte == b'/').all(is_part)
        && !name.ends_with(b".")
        && !has(b"..")
        && !has(b"@{")
}

fn is_todo(content: &[u8]) -> bool {
    let is_step = |line: &[u8]| {
        let line = line.trim_ascii_start();
        let word = line.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or_default();
        line.is_empty() || line.starts_with(b"#") || STEPS.iter().any(|step| step.as_bytes() == word)
    };
    !content.contains(&0) && content.split(|byte| *byte == b'\n').all(is_step)
}

/// Reads a whole index. <https://git-scm.com/docs/index-format>
fn index(content: &[u8], id: usize) -> Option<()> {
    let (body, _checksum) = content.split_at_checked(content.len().checked_sub(id)?)?;
    let mut rest = body.strip_prefix(b"DIRC")?;
    let version = number(&mut rest)?;
    let entries = number(&mut rest)?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let mut previous = Vec::new();
    for _ in 0..entries {
        let begun = rest.len();
        take(&mut rest, ENTRY_FIELDS + id)?;
        let flags = short(&mut rest)?;
        if flags & IS_EXTENDED != 0 {
            if version < 3 {
                return None;
            }
            short(&mut rest)?;
        }
        let kept = if version == 4 { previous.len().checked_sub(varint(&mut rest)?)? } else { 0 };
        let end = rest.iter().position(|byte| *byte == 0)?;
        previous.truncate(kept);
        previous.extend_from_slice(take(&mut rest, end)?);
        let told = usize::from(flags & NAME_LENGTH);
        if told != previous.len().min(usize::from(NAME_LENGTH)) || !is_tree_path(&previous) {
            return None;
        }
        // The end of the name, and up to the next eight bytes.
        let padding = if version == 4 { 1 } else { 8 - (begun - rest.len()) % 8 };
        take(&mut rest, padding)?;
    }
    let marker = body.len().checked_sub(8 + 4 + id).and_then(|at| body.get(at..at + 4));
    if marker == Some(END_OF_ENTRIES) {
        return None;
    }
    while !rest.is_empty() {
        let signature = take(&mut rest, 4)?;
        EXTENSIONS.iter().find(|known| known.as_slice() == signature)?;
        let length = number(&mut rest)?;
        take(&mut rest, usize::try_from(length).ok()?)?;
    }
    Some(())
}

/// Whether a path lies in the working tree, and in no repository's metadata. One that ends in a slash is a directory.
fn is_tree_path(path: &[u8]) -> bool {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let is_name = |name: &[u8]| {
        // Other systems drop these at the end of a name, and have short ones.
        let bare = name.split(|byte| *byte == b':').next().unwrap_or_default().to_ascii_lowercase();
        let end = bare.iter().rposition(|byte| !b". ".contains(byte)).map_or(0, |last| last + 1);
        let bare = bare.get(..end).unwrap_or_default();
        !bare.is_empty() && bare != b".git" && bare != b"git~1"
    };
    path.split(|byte| *byte == b'/').all(is_name)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    take(rest, 4)?.try_into().ok().map(u32::from_be_bytes)
}

fn short(rest: &mut &[u8]) -> Option<u16> {
    take(rest, 2)?.try_into().ok().map(u16::from_be_bytes)
}

/// A number in groups of seven bits, the highest first; each further group counts one more.
fn varint(rest: &mut &[u8]) -> Option<usize> {
    let mut value: usize = 0;
    loop {
        let [byte] = take(rest, 1)? else { return None };
        value = value.checked_add(usize::from(byte & 0x7f))?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
        value = value.checked_add(1)?.checked_mul(128)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: usize = 20;

    fn made(version: u32, names: &[(&str, usize)], extensions: &[u8]) -> Vec<u8> {
        let mut index = b"DIRC".to_vec();
        index.extend(version.to_be_bytes());
        index.extend(u32::try_from(names.len()).unwrap().to_be_bytes());
        for (name, kept) in names {
            let begun = index.len();
            index.extend([0; ENTRY_FIELDS + ID]);
            index.extend(u16::try_from(name.len()).unwrap().to_be_bytes());
            if version == 4 {
                index.push(u8::try_from(*kept).unwrap());
                index.extend(name.as_bytes());
                index.push(0);
            } else {
                index.extend(name.as_bytes());
                index.extend(vec![0; 8 - (index.len() - begun) % 8]);
            }
        }
        index.extend(extensions);
        index.extend([0; ID]);
        index
    }

    #[test]
    fn a_reference_leads_to_a_commit_or_another_reference() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let is_sound = |check, content: &str| is_sound(check, content.as_bytes(), ID);
        for content in [&format!("{commit}\n"), "ref: refs/heads/main\n", "ref: refs/remotes/origin/main\n"] {
            assert!(is_sound(Check::Reference, content) && is_sound(Check::Head, content), "{content}");
        }
        // Git writes through such a name: `commondir` makes the directory no repository any more.
        let replaced = format!("ref: refs/replace/{commit}\n");
        for content in ["ref: commondir\n", "ref:commondir\n", "ref: refs/../config\n", "", "x\n", &replaced] {
            assert!(!is_sound(Check::Reference, content) && !is_sound(Check::Head, content), "{content}");
        }
        let header = "# pack-refs with: peeled fully-peeled sorted \n";
        assert!(is_sound(Check::PackedReferences, &format!("{header}{commit} refs/tags/a\n^{commit}\n")));
        for line in [format!("{commit} refs/replace/{commit}"), format!("{commit} commondir"), "x refs/heads/a".into()]
        {
            assert!(!is_sound(Check::PackedReferences, &format!("{header}{line}\n")), "{line}");
        }
    }

    #[test]
    fn an_index_names_files_of_the_working_tree() {
        let is_sound = |index: &[u8]| is_sound(Check::Index, index, ID);
        for version in [2, 3, 4] {
            assert!(is_sound(&made(version, &[("a", 0), (".gitignore", 1), ("src/git~2", 10)], b"")), "{version}");
            for name in [".git/hooks/x", "a/.GIT/x", "../x", "/x", "a//b", ".git. /config", "git~1/config", "a/.."] {
                assert!(!is_sound(&made(version, &[(name, 0)], b"")), "{name}");
            }
        }
        assert!(is_sound(&made(2, &[("a", 0)], b"TREE\0\0\0\x02ab")));
        for extension in [b"link\0\0\0\0".as_slice(), b"IEOT\0\0\0\0", b"TREE\0\0\0\x09ab", b"XXXX\0\0\0\0"] {
            assert!(!is_sound(&made(2, &[("a", 0)], extension)));
        }
        let mut hidden = b"UNTR\0\0\0\x20EOIE\0\0\0\x18".to_vec();
        hidden.extend([0; 24]);
        assert!(!is_sound(&made(2, &[("a", 0)], &hidden)), "found from the end");
        let whole = made(2, &[("a", 0)], b"");
        for length in 0..whole.len() {
            assert!(!is_sound(&whole[..length]), "{length}");
        }
        let mut longer = whole;
        longer[12 + ENTRY_FIELDS + ID + 1] = 3;
        assert!(!is_sound(&longer), "a name that ends before it is said to");
    }

    #[test]
    fn a_head_is_a_branch_or_a_commit() {
        let hash = "0123456789abcdef0123456789abcdef01234567";
        for head in ["ref: refs/heads/main\n", "ref: refs/heads/a/b-c\n", hash, &format!("{hash}\n")] {
            assert!(is_head(head.as_bytes()), "{head}");
        }
        for head in [
            "",
            "\n",
            "x\n",
            "ref: heads/x\n",
            "ref: refs/../x\n",
            "ref: refs/a b\n",
            "ref: refs/a\nb\n",
            "ref: refs/\n",
        ] {
            assert!(!is_head(head.as_bytes()), "{head}");
        }
    }

    #[test]
    fn a_list_of_steps_runs_nothing() {
        assert!(is_todo(b"pick 0123 a\n  fixup -C 1 b\n\n# exec x\nmerge -C 1 x # y\nupdate-ref refs/heads/x\nnoop\n"));
        for todo in ["exec x", "pick 1\nx touch y\n", " \texec x", "pick 1\0\nexec x", "executable", "pick 1\n\rexec x"]
        {
            assert!(!is_todo(todo.as_bytes()), "{todo:?}");
        }
    }
}
