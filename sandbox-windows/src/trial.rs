//! What is tried with the command's own token before its first instruction: what must not work, and what has to.
//! Without the second a token that can do nothing would pass for one that is confined.

use stockade_protocol::{AbsPath, Access};

use crate::check::{Closed, Opened};
use crate::mark::{Grant, Label, right};
use crate::plan::WindowsPlan;

/// The changes that are tried on trees which only earlier commands could write. On a Windows that checks a restricted
/// token for "generic write" alone, a low label opens the second and the third.
const CHANGES: &[u32] = &[right::WRITE_DATA, right::DELETE, right::WRITE_LIST];

/// What is tried besides a plan's own marks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trial {
    /// Files that must not be writable; the first can be read.
    pub(crate) canaries: Vec<AbsPath>,
    /// A file that has to be writable.
    pub(crate) control: Option<AbsPath>,
    /// Trees that earlier commands could write.
    pub(crate) known_roots: Vec<AbsPath>,
}

impl Trial {
    /// What could be opened and must not: denied things for reading; protected ones, canaries, and trees that only
    /// earlier commands could write, for writing. `opens` tries it with the command's token.
    pub(crate) fn opened(&self, plan: &WindowsPlan, opens: impl Fn(&AbsPath, u32) -> bool) -> Vec<Opened> {
        let mut opened = Vec::new();
        for mark in &plan.marks {
            if mark.label == Some(Label::Sealed) && opens(&mark.path, right::READ_DATA) {
                opened.push(Opened::ForReading(mark.path.clone()));
            }
            let writes = match mark.grant {
                Some(Grant::Protect | Grant::Deny) => &[right::WRITE_DATA, right::APPEND, right::DELETE][..],
                Some(Grant::Pin) => &[right::DELETE],
                Some(Grant::Write) | None => &[],
            };
            if writes.iter().any(|rights| opens(&mark.path, *rights)) {
                opened.push(Opened::ForWriting(mark.path.clone()));
            }
        }
        if !plan.token.restricting.is_empty() {
            let writes = |path: &&AbsPath| opens(path, right::WRITE_DATA);
            opened.extend(self.canaries.iter().filter(writes).cloned().map(Opened::ForWriting));
            let closed = |path: &&AbsPath| plan.permissions.access(path) != Access::Write;
            let changes = |path: &&AbsPath| CHANGES.iter().any(|rights| opens(path, *rights));
            let others = self.known_roots.iter().filter(closed);
            opened.extend(others.filter(changes).cloned().map(Opened::Marked));
        }
        opened
    }

    /// What could not be opened and has to: a read, a write, and each tree that is granted.
    pub(crate) fn closed(&self, plan: &WindowsPlan, opens: impl Fn(&AbsPath, u32) -> bool) -> Vec<Closed> {
        if plan.token.restricting.is_empty() {
            return Vec::new();
        }
        let unread = self.canaries.iter().take(1).filter(|path| !opens(path, right::READ_DATA));
        let granted = plan.marks.iter().filter(|mark| mark.opens()).map(|mark| &mark.path);
        let unwritten = self.control.iter().chain(granted).filter(|path| !opens(path, right::WRITE_DATA));
        unread.cloned().map(Closed::ForReading).chain(unwritten.cloned().map(Closed::ForWriting)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan_of;

    fn paths(texts: &[&str]) -> Vec<AbsPath> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn trial() -> Trial {
        Trial {
            canaries: paths(&[r"C:\runs\canary", r"C:\runs\low-canary"]),
            control: Some(r"C:\runs\control".parse().unwrap()),
            known_roots: paths(&[r"C:\w", r"C:\v"]),
        }
    }

    const RULES: &[&str] = &[r"C:\ read", r"C:\w write", r"C:\w\.git read protected", r"C:\home none"];

    /// A token that behaves as the plan says passes.
    fn behaves(path: &AbsPath, rights: u32) -> bool {
        let text = path.to_string();
        match rights {
            right::READ_DATA => text != r"C:\home",
            right::WRITE_DATA => [r"C:\w", r"C:\runs\control"].contains(&text.as_str()),
            _ => false,
        }
    }

    #[test]
    fn a_token_that_behaves_passes() {
        let (plan, trial) = (plan_of(RULES), trial());
        assert_eq!((trial.opened(&plan, behaves), trial.closed(&plan, behaves)), (vec![], vec![]));
    }

    /// Each thing that is opened, or is not, against the plan: one at a time, and each is named.
    #[test]
    fn each_thing_that_is_otherwise_is_named() {
        let (plan, trial) = (plan_of(RULES), trial());
        let but = |wrong: &'static str, with: u32| {
            move |path: &AbsPath, rights: u32| behaves(path, rights) ^ (path.to_string() == wrong && rights == with)
        };
        let path = |text: &str| -> AbsPath { text.parse().unwrap() };
        for change in CHANGES {
            assert_eq!(trial.opened(&plan, but(r"C:\v", *change)), [Opened::Marked(path(r"C:\v"))], "{change:#x}");
        }
        for wrong in [r"C:\runs\canary", r"C:\runs\low-canary", r"C:\w\.git", r"C:\home"] {
            let opened = trial.opened(&plan, but(wrong, right::WRITE_DATA));
            assert_eq!(opened, [Opened::ForWriting(path(wrong))], "{wrong}");
        }
        let opened = trial.opened(&plan, but(r"C:\home", right::READ_DATA));
        assert_eq!(opened, [Opened::ForReading(path(r"C:\home"))]);
        let opened = trial.opened(&plan, but(r"C:\w\.git", right::DELETE));
        assert_eq!(opened, [Opened::ForWriting(path(r"C:\w\.git"))]);
        for wrong in [r"C:\runs\control", r"C:\w"] {
            let closed = trial.closed(&plan, but(wrong, right::WRITE_DATA));
            assert_eq!(closed, [Closed::ForWriting(path(wrong))], "{wrong}");
        }
        let closed = trial.closed(&plan, but(r"C:\runs\canary", right::READ_DATA));
        assert_eq!(closed, [Closed::ForReading(path(r"C:\runs\canary"))]);
        assert_eq!(trial.closed(&plan, |_, _| false).len(), 3, "a token that can do nothing");
    }
}
