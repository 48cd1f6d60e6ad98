//! Which names below a repository's metadata git writes, and how. Every other name stays as it is: configuration, hooks,
//! attributes, alternates, `commondir`, `gitdir`, and what a later git may add.

/// What may happen to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// It is written, replaced and removed: git runs nothing because of what it says, and takes no path from it.
    Plain,
    /// It is replaced as a whole, by a checked copy of its lock file.
    Checked { by: Check, may_be_removed: bool },
    /// An object or a pack under its own name: made once, and never changed.
    Object,
    /// What becomes an object.
    Temporary,
}

/// What the content of a file has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// A branch or a commit: anything else and git no longer takes the directory for a repository, and looks for others.
    Head,
    /// No entry for a name in `.git`: git writes entries to the working tree.
    Index,
    /// No command to run.
    Todo,
    /// A commit, or the name of another reference: git writes through such a name, so it has to stay below `refs`.
    Reference,
    /// Commits with the names of references.
    PackedReferences,
}

/// Which part of a repository a directory of metadata is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// An ordinary clone's.
    Whole,
    /// One worktree's.
    Worktree,
    /// What the worktrees have in common.
    Common,
}

/// Messages of single operations, and heads that git writes and removes by their names alone.
const OF_OPERATIONS: &[&str] =
    &["COMMIT_EDITMSG", "FETCH_HEAD", "MERGE_HEAD", "MERGE_MODE", "MERGE_MSG", "SQUASH_MSG", "TAG_EDITMSG"];
/// Heads of single operations that git writes as references.
const PSEUDO_REFERENCES: &[&str] =
    &["AUTO_MERGE", "CHERRY_PICK_HEAD", "MERGE_AUTOSTASH", "ORIG_HEAD", "REBASE_HEAD", "REVERT_HEAD"];

/// The state of a rebase, but for its list of steps and the options by which programs are chosen (`strategy`).
const OF_REBASE: &[&str] = &[
    "allow_rerere_autoupdate",
    "amend",
    "author-script",
    "autostash",
    "current-fixups",
    "done",
    "drop_redundant_commits",
    "dropped",
    "end",
    "git-rebase-todo.backup",
    "head-name",
    "interactive",
    "keep_redundant_commits",
    "message",
    "message-fixup",
    "message-squash",
    "msgnum",
    "no-reschedule-failed-exec",
    "onto",
    "orig-head",
    "patch",
    "quiet",
    "refs-to-delete",
    "rewritten-list",
    "rewritten-pending",
    "signoff",
    "squash-onto",
    "stopped-sha",
    "update-refs",
    "verbose",
];

/// References of one worktree.
const OF_WORKTREE: &[&[u8]] = &[b"rewritten", b"worktree"];
/// They put other objects in the place of those that a hash names.
const REPLACEMENTS: &[u8] = b"replace";

impl Part {
    fn has_worktree(self) -> bool {
        self != Self::Common
    }

    fn has_common(self) -> bool {
        self != Self::Worktree
    }

    /// What may happen to the file of this name; `None` if nothing may.
    pub(super) fn entry(self, names: &[&[u8]]) -> Option<Entry> {
        match names {
            [b"objects", below @ ..] if self.has_common() => object(below),
            [b"refs", first, .., name] if self.has_reference(first) => Some(reference(name)),
            [b"refs", name] if self.has_reference(unlocked(name)) => Some(reference(name)),
            [b"logs", b"refs", first, ..] if self.has_reference(first) => Some(Entry::Plain),
            [b"logs", name] if self.has_worktree() => {
                let name = unlocked(name);
                let is_head = name == b"HEAD" || is_one_of(PSEUDO_REFERENCES, name);
                (is_head || is_one_of(OF_OPERATIONS, name)).then_some(Entry::Plain)
            }
            [b"rebase-merge", b"git-rebase-todo"] if self.has_worktree() => {
                Some(Entry::Checked { by: Check::Todo, may_be_removed: true })
            }
            [b"rebase-merge", name] if self.has_worktree() => {
                let name = unlocked(name);
                (name == b"git-rebase-todo" || is_one_of(OF_REBASE, name)).then_some(Entry::Plain)
            }
            [name] => self.top(name),
            _ => None,
        }
    }

    fn top(self, name: &[u8]) -> Option<Entry> {
        let base = unlocked(name);
        if name == b"packed-refs" {
            let packed = Entry::Checked { by: Check::PackedReferences, may_be_removed: false };
            return self.has_common().then_some(packed);
        }
        let is_common = matches!(base, b"packed-refs" | b"shallow") || name == b"packed-refs.new";
        if is_common {
            return self.has_common().then_some(Entry::Plain);
        }
        if !self.has_worktree() {
            return None;
        }
        if is_one_of(PSEUDO_REFERENCES, base) {
            return Some(reference(name));
        }
        let checked = match base {
            b"HEAD" => Some((Check::Head, false)),
            b"index" => Some((Check::Index, false)),
            // Of one run of `git stash` or `git commit FILE`.
            _ if has_number(base, b"index.stash.") || has_number(base, b"next-index-") => Some((Check::Index, true)),
            _ => None,
        };
        match checked {
            Some((by, may_be_removed)) if base == name => Some(Entry::Checked { by, may_be_removed }),
            Some(_) => Some(Entry::Plain),
            None => is_one_of(OF_OPERATIONS, base).then_some(Entry::Plain),
        }
    }

    fn has_reference(self, first: &[u8]) -> bool {
        match self {
            Self::Whole | Self::Common => first != REPLACEMENTS,
            Self::Worktree => OF_WORKTREE.contains(&first),
        }
    }

    /// Whether a directory of this name may be made.
    pub(super) fn makes_directory(self, names: &[&[u8]]) -> bool {
        match names {
            [b"objects", name] => self.has_common() && is_hexadecimal(name, &[2]),
            [b"refs", first, ..] | [b"logs", b"refs", first, ..] => self.has_reference(first),
            [b"logs"] | [b"logs", b"refs"] => true,
            [b"rebase-merge"] => self.has_worktree(),
            _ => false,
        }
    }

    /// Whether a directory of this name may be removed. Without `refs` and `objects` there is no repository.
    pub(super) fn removes_directory(self, names: &[&[u8]]) -> bool {
        match names {
            [b"refs", first, _, ..] | [b"logs", b"refs", first, _, ..] => self.has_reference(first),
            [b"rebase-merge"] => self.has_worktree(),
            _ => false,
        }
    }
}

/// A reference, or the lock file that becomes one.
fn reference(name: &[u8]) -> Entry {
    let is_lock = name.ends_with(b".lock");
    if is_lock { Entry::Plain } else { Entry::Checked { by: Check::Reference, may_be_removed: true } }
}

fn object(names: &[&[u8]]) -> Option<Entry> {
    match names {
        [b"maintenance.lock"] => Some(Entry::Plain),
        [b"pack", name] if name.starts_with(b"tmp_") => Some(Entry::Temporary),
        [b"pack", name] => {
            let dot = name.iter().rposition(|byte| *byte == b'.')?;
            let (stem, end) = name.split_at_checked(dot)?;
            let is_pack = stem.strip_prefix(b"pack-").is_some_and(|hash| is_hexadecimal(hash, &[40, 64]));
            match end {
                b".pack" | b".idx" | b".rev" if is_pack => Some(Entry::Object),
                b".keep" if is_pack => Some(Entry::Plain),
                _ => None,
            }
        }
        [directory, name] if is_hexadecimal(directory, &[2]) => {
            if name.starts_with(b"tmp_obj_") {
                return Some(Entry::Temporary);
            }
            is_hexadecimal(name, &[38, 62]).then_some(Entry::Object)
        }
        _ => None,
    }
}

/// The name of the file that a lock is for.
fn unlocked(name: &[u8]) -> &[u8] {
    name.strip_suffix(b".lock").unwrap_or(name)
}

fn is_one_of(names: &[&str], name: &[u8]) -> bool {
    names.iter().any(|known| known.as_bytes() == name)
}

fn has_number(name: &[u8], prefix: &[u8]) -> bool {
    name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit))
}

pub(super) fn is_hexadecimal(name: &[u8], lengths: &[usize]) -> bool {
    lengths.contains(&name.len()) && name.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(part: Part, path: &str) -> Option<Entry> {
        part.entry(&path.split('/').map(str::as_bytes).collect::<Vec<_>>())
    }

    #[test]
    fn what_makes_git_run_something_is_no_entry() {
        for path in [
            "config",
            "config.lock",
            "config.worktree",
            "config.worktree.lock",
            "commondir",
            "gitdir",
            "hooks/pre-commit",
            "info/attributes",
            "info/exclude",
            "info/grafts",
            "info/sparse-checkout",
            "objects/info/alternates",
            "objects/info/http-alternates",
            "objects/info/commit-graph",
            "modules/sub/config",
            "worktrees/other/HEAD",
            "worktrees/other/gitdir",
            "remotes/origin",
            "branches/origin",
            "refs",
            "refs/replace/0000000000000000000000000000000000000000",
            "rebase-merge/strategy",
            "rebase-merge/gpg_sign_opt",
            "rebase-apply/next",
            "sequencer/opts",
            "objects/pack/pack-x.pack",
            "objects/0g/tmp_obj_x",
            "HEAD/x",
            "index/x",
            "HEAD2",
            "reftable/tables.list",
        ] {
            for part in [Part::Whole, Part::Worktree, Part::Common] {
                assert_eq!(entry(part, path), None, "{path}");
            }
        }
        for path in ["hooks", "info", "worktrees", "modules", "objects/info", "objects/pack", "refs/replace", "refs"] {
            let names: Vec<&[u8]> = path.split('/').map(str::as_bytes).collect();
            assert!(!Part::Whole.makes_directory(&names) && !Part::Whole.removes_directory(&names), "{path}");
        }
    }

    #[test]
    fn a_worktree_has_its_own_head_and_index_and_nothing_of_the_others() {
        for path in ["HEAD", "HEAD.lock", "index.lock", "ORIG_HEAD", "logs/HEAD", "rebase-merge/done"] {
            assert_eq!(entry(Part::Common, path), None, "{path}");
            assert!(entry(Part::Worktree, path).is_some() && entry(Part::Whole, path).is_some(), "{path}");
        }
        for path in ["packed-refs", "refs/heads/x", "refs/stash", "logs/refs/heads/x", "objects/00/tmp_obj_a"] {
            assert_eq!(entry(Part::Worktree, path), None, "{path}");
            assert!(entry(Part::Common, path).is_some() && entry(Part::Whole, path).is_some(), "{path}");
        }
    }

    #[test]
    fn what_git_acts_on_is_only_replaced_by_a_checked_copy() {
        let checked = |by, may_be_removed| Some(Entry::Checked { by, may_be_removed });
        assert_eq!(entry(Part::Whole, "HEAD"), checked(Check::Head, false));
        assert_eq!(entry(Part::Whole, "index"), checked(Check::Index, false));
        assert_eq!(entry(Part::Whole, "index.stash.12"), checked(Check::Index, true));
        for path in ["refs/heads/x", "refs/heads/x/y", "refs/stash", "refs/heads/x.lock/y", "ORIG_HEAD"] {
            assert_eq!(entry(Part::Whole, path), checked(Check::Reference, true), "{path}");
            assert_eq!(entry(Part::Whole, &format!("{path}.lock")), Some(Entry::Plain), "{path}");
        }
        assert_eq!(entry(Part::Whole, "packed-refs"), checked(Check::PackedReferences, false));
        assert_eq!(entry(Part::Whole, "rebase-merge/git-rebase-todo"), checked(Check::Todo, true));
        let hash = "0".repeat(38);
        assert_eq!(entry(Part::Whole, &format!("objects/00/{hash}")), Some(Entry::Object));
    }
}
