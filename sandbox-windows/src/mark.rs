//! What the sandbox puts on files and directories.
//!
//! The command's token is restricted for writing: besides what the user may do, a write needs an entry
//! for one of the token's restricting identifiers. So an entry that allows the capability makes a tree
//! writable, and one that denies it takes a part of that back. The command also runs at the low integrity
//! level, from where nothing can be changed that has no low label, so a writable tree gets one. Reading
//! is not checked by restricting identifiers. It is taken away by a label that forbids reading from
//! below, which does not concern any other program of the user.
//!
//! Entries and labels are put on each object of a tree by hand, as Windows would pass them on, since
//! only the object's own ones count when it is opened.
//!
//! What opens a tree names an identifier of that tree alone and stays there: the tree is walked once, what is made in
//! it later inherits, and the next command looks at the top. What takes something away names the capability of one
//! policy, and comes off when the command ends. Taking it off needs no memory of what was there: all entries for the
//! capability go.

use std::io;

use serde::{Deserialize, Serialize};
use stockade_protocol::AbsPath;
use stockade_sandboxing::Kind;

use crate::Sid;
use crate::acl::{Acl, Entry, Says, flag};

/// Rights on files and directories.
pub(crate) mod right {
    pub(crate) const READ_DATA: u32 = 0x1;
    pub(crate) const WRITE_DATA: u32 = 0x2;
    pub(crate) const APPEND: u32 = 0x4;
    pub(crate) const WRITE_NAMED_ATTRIBUTES: u32 = 0x10;
    pub(crate) const DELETE_CHILD: u32 = 0x40;
    pub(crate) const WRITE_ATTRIBUTES: u32 = 0x100;
    pub(crate) const DELETE: u32 = 0x1_0000;
    pub(crate) const WRITE_LIST: u32 = 0x4_0000;
    pub(crate) const WRITE_OWNER: u32 = 0x8_0000;
    pub(crate) const ALL: u32 = 0x1f_01ff;
    /// All that changes something.
    pub(crate) const WRITES: u32 = WRITE_DATA
        | APPEND
        | WRITE_NAMED_ATTRIBUTES
        | DELETE_CHILD
        | WRITE_ATTRIBUTES
        | DELETE
        | WRITE_LIST
        | WRITE_OWNER;
    /// What a writable tree grants. Without `DELETE_CHILD`, so that what is protected inside can't be
    /// removed by way of its directory; without the lists and owners, so that nothing here can be
    /// opened to others.
    pub(crate) const WRITABLE: u32 = ALL & !(DELETE_CHILD | WRITE_LIST | WRITE_OWNER);
}

/// What the entries for the capability say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grant {
    /// The tree can be written. Its top can't be removed or renamed.
    Write,
    /// The tree can't be written, although it lies in one that can.
    Protect,
    /// Nothing.
    Deny,
    /// This directory can't be removed or renamed: something below it has to stay where it is.
    Pin,
}

/// An integrity level to be put on a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Label {
    /// As low as the command: it may write.
    Low,
    /// Above the command, which may neither read, write nor execute.
    Sealed,
    /// Above the command, which may read: what everything has that bears no label.
    Plain,
}

/// What is put at one path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mark {
    /// Where.
    pub path: AbsPath,
    /// The entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<Grant>,
    /// The label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Label>,
    /// Nothing stands there: an empty directory is put there first, and removed with the mark.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub placeholder: bool,
}

impl Mark {
    /// Whether it opens a tree for writing.
    pub(crate) fn opens(&self) -> bool {
        self.grant == Some(Grant::Write)
    }

    /// Whether it speaks of everything below as well.
    pub(crate) fn is_tree(&self) -> bool {
        self.grant != Some(Grant::Pin)
    }
}

/// Whether a list lets every sandbox write that is low enough, whatever its policy says: it allows a write to an
/// identifier that all of their tokens are restricted to, or it is of a kind whose meaning is not known here. Such an
/// object never gets a low label. What is only passed on counts, too: the label would be passed on with it.
pub(crate) fn is_open_to_all(list: Option<&Acl>) -> bool {
    const GENERIC: u32 = 0x5000_0000;
    const MAXIMUM: u32 = 0x0200_0000;
    let opens = |entry: &Entry| match entry {
        Entry::Known { says: Says::Allow, mask, sid, .. } => {
            mask & (right::WRITES | GENERIC | MAXIMUM) != 0 && sid.is_in_every_token()
        }
        Entry::Known { says: Says::Deny | Says::Label, .. } => false,
        Entry::Other(_) => entry.is_other_allowance(),
    };
    list.is_none_or(|list| list.0.iter().any(opens))
}

/// The marks of a run on a Windows that checks a restricted token for "generic write" alone: there an entry that denies
/// writing does not keep a command from changing the list, so what is protected is raised above its level, too. It may be
/// low because a command has made it, or because it is made in a tree that is.
pub(crate) fn raised(marks: &[Mark]) -> Vec<Mark> {
    let raise = |mark: &Mark| match (mark.grant, mark.label) {
        (Some(Grant::Protect), None) => Mark { label: Some(Label::Plain), ..mark.clone() },
        _ => mark.clone(),
    };
    marks.iter().map(raise).collect()
}

/// How a mark can be put on an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Directly,
    /// The user owns the object and may not change its label: an entry that allows it is there for that moment.
    ByOwnEntry,
}

pub(crate) const READ_ATTRIBUTES: u32 = 0x80;
const READ_LIST: u32 = 0x2_0000;
/// What a reading of marks needs.
pub(crate) const TO_LOOK: u32 = READ_ATTRIBUTES | READ_LIST;
const TO_MARK: u32 = TO_LOOK | right::WRITE_LIST;

/// Opens an object to be marked. To change a label takes the right to change the owner, which "Modify", the usual
/// right in directories outside of a user's profile, does not hold; an owner may always change the list.
pub(crate) fn reach<T>(label: Option<Label>, mut open: impl FnMut(u32) -> io::Result<T>) -> io::Result<(T, Way)> {
    if label.is_none() {
        return Ok((open(TO_MARK)?, Way::Directly));
    }
    match open(TO_MARK | right::WRITE_OWNER) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok((open(TO_MARK)?, Way::ByOwnEntry)),
        other => Ok((other?, Way::Directly)),
    }
}

/// The parts of a tree that an entry for it has still to be put on, and those that are left without it afterwards.
/// `before` is what was left out when the tree was walked; `None` if it never was. `others` is what the other marks of
/// this run speak of: those inside the tree close a part of it, those around it do not.
pub(crate) fn parts(root: &AbsPath, before: Option<&[AbsPath]>, others: &[AbsPath]) -> (Vec<AbsPath>, Vec<AbsPath>) {
    let below = |part: &AbsPath| -> Vec<AbsPath> {
        others.iter().filter(|path| *path != part && path.starts_with(part)).cloned().collect()
    };
    let closed = below(root);
    let Some(before) = before else { return (vec![root.clone()], closed) };
    let (mut walked, mut left) = (Vec::new(), Vec::new());
    for part in before {
        if closed.iter().any(|path| part.starts_with(path)) {
            left.push(part.clone());
        } else {
            walked.push(part.clone());
            left.extend(below(part));
        }
    }
    (walked, left)
}

/// Whether a mark's name must not be taken by anything else while the command runs: it lies in a tree
/// that can be written, or is the top of one. Such an object is kept open for the time of the run, in a
/// way that prevents removing or renaming it and the directories above it, whatever the lists say.
pub(crate) fn is_kept_open(mark: &Mark, marks: &[Mark]) -> bool {
    let writable = |other: &&Mark| other.is_tree() && other.path != mark.path && mark.path.starts_with(&other.path);
    let around = marks.iter().filter(writable).max_by_key(|other| other.path.depth());
    mark.grant == Some(Grant::Write) || around.is_some_and(|around| around.grant == Some(Grant::Write))
}

/// Where in a marked tree an object stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Top,
    Below,
}

impl Place {
    /// The flags of an entry that is passed on all the way down.
    fn passed_on(self, kind: Kind) -> u8 {
        let down = if kind == Kind::Directory { flag::FILES | flag::DIRECTORIES } else { 0 };
        match self {
            Self::Top => down,
            Self::Below => down | flag::INHERITED,
        }
    }
}

impl Grant {
    /// The entries at an object.
    pub(crate) fn entries(self, capability: &Sid, place: Place, kind: Kind) -> Vec<Entry> {
        let entry = |says, flags, mask| Entry::Known { says, flags, mask, sid: capability.clone() };
        let down = place.passed_on(kind);
        match (self, place) {
            (Self::Write, Place::Top) => {
                let own = entry(Says::Allow, 0, right::WRITABLE & !right::DELETE);
                let below = entry(Says::Allow, down | flag::ONLY_BELOW, right::WRITABLE);
                if kind == Kind::Directory { vec![own, below] } else { vec![own] }
            }
            (Self::Write, Place::Below) => vec![entry(Says::Allow, down, right::WRITABLE)],
            (Self::Protect, _) => vec![entry(Says::Deny, down, right::WRITES)],
            (Self::Deny, _) => vec![entry(Says::Deny, down, right::ALL)],
            (Self::Pin, _) => vec![entry(Says::Deny, 0, right::DELETE)],
        }
    }
}

impl Label {
    /// The label as an entry.
    pub(crate) fn entry(self, place: Place, kind: Kind) -> Entry {
        let (no_write, no_read, no_execute) = (1, 2, 4);
        let (level, mask) = match self {
            Self::Low => (LOW, no_write),
            Self::Sealed => (MEDIUM, no_write | no_read | no_execute),
            Self::Plain => (MEDIUM, no_write),
        };
        Entry::Known { says: Says::Label, flags: place.passed_on(kind), mask, sid: Sid::label(level) }
    }

    /// The name in a plan.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Sealed => "sealed",
            Self::Plain => "plain",
        }
    }
}

/// The level of a command in the sandbox.
pub(crate) const LOW: u32 = 4096;
/// The level of everything that a user runs and owns.
pub(crate) const MEDIUM: u32 = 8192;

impl Acl {
    /// With entries added in the order that Windows keeps: denials first, what was passed on last.
    pub(crate) fn with(&self, added: Vec<Entry>) -> Self {
        let mut entries = self.0.clone();
        for entry in added.into_iter().rev() {
            let denies = |entry: &Entry| matches!(entry, Entry::Known { says: Says::Deny, .. });
            let own = || entries.iter().take_while(|other| !other.is_inherited()).count();
            let place = match () {
                () if entry.is_inherited() && denies(&entry) => own(),
                // Behind denials, also behind those of a run that was here before.
                () if entry.is_inherited() => {
                    own() + entries.iter().skip(own()).take_while(|other| denies(other)).count()
                }
                () if denies(&entry) => 0,
                () => entries.iter().take_while(|other| denies(other) && !other.is_inherited()).count(),
            };
            entries.insert(place, entry);
        }
        Self(entries)
    }

    /// Without anything that names the capability.
    pub(crate) fn without(&self, capability: &Sid) -> Self {
        Self(self.0.iter().filter(|entry| !entry.speaks_of(capability)).cloned().collect())
    }

    /// What names the capability.
    #[cfg(test)]
    pub(crate) fn of(&self, capability: &Sid) -> Vec<Entry> {
        self.0.iter().filter(|entry| entry.speaks_of(capability)).cloned().collect()
    }

    /// The label among the entries, if there is one.
    pub(crate) fn label(&self) -> Option<&Entry> {
        self.0.iter().find(|entry| matches!(entry, Entry::Known { says: Says::Label, .. }))
    }
}

/// The label that an object has afterwards. One of its own inside a writable tree is left alone: it can
/// only keep the command out.
pub(crate) fn labelled(found: Option<&Entry>, label: Label, place: Place, kind: Kind) -> Option<Entry> {
    match (label, place, found) {
        (Label::Low, Place::Below, Some(found)) => Some(found.clone()),
        _ => Some(label.entry(place, kind)),
    }
}

/// Whether a label is the command's level, put there by Stockade or not.
pub(crate) fn is_low(label: &Entry) -> bool {
    matches!(label, Entry::Known { says: Says::Label, sid, .. } if *sid == Sid::label(LOW))
}

/// The label that is left when a mark goes: none where it was the mark's own.
pub(crate) fn unlabelled(found: Option<&Entry>, label: Label, place: Place, kind: Kind) -> Option<Entry> {
    found.filter(|found| **found != label.entry(place, kind)).cloned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::acl::tests::lists;

    fn grants() -> impl Strategy<Value = Grant> {
        prop::sample::select(&[Grant::Write, Grant::Protect, Grant::Deny, Grant::Pin][..])
    }

    proptest! {
        #[test]
        fn what_is_put_on_comes_off_again(list in lists(), grant in grants(), top: bool, directory: bool) {
            let capability = Sid::capability("test");
            let place = if top { Place::Top } else { Place::Below };
            let kind = if directory { Kind::Directory } else { Kind::File };
            let entries = grant.entries(&capability, place, kind);
            let marked = list.with(entries.clone());
            prop_assert_eq!(marked.of(&capability), entries);
            prop_assert_eq!(marked.without(&capability), list.clone());
            // What denies is looked at first, whichever came first.
            let (root, denied) = (Sid::capability("root"), Grant::Deny.entries(&capability, place, kind));
            let both = list.with(denied).with(Grant::Write.entries(&root, place, kind));
            let at = |whom: &Sid| both.0.iter().position(|entry| entry.speaks_of(whom));
            prop_assert!(at(&capability) < at(&root));
        }
    }

    #[test]
    fn entries_stand_in_the_order_that_windows_keeps() {
        let capability = Sid::capability("test");
        let known = |says, flags| Entry::Known { says, flags, mask: 1, sid: "S-1-5-18".parse().unwrap() };
        let found = Acl(vec![known(Says::Deny, 0), known(Says::Allow, 0), known(Says::Allow, flag::INHERITED)]);
        let whose = |list: &Acl| list.0.iter().map(|entry| entry.speaks_of(&capability)).collect::<Vec<_>>();
        let put = |grant: Grant, place| found.with(grant.entries(&capability, place, Kind::File));
        assert_eq!(whose(&put(Grant::Deny, Place::Top)), [true, false, false, false]);
        assert_eq!(whose(&put(Grant::Write, Place::Top)), [false, true, false, false]);
        assert_eq!(whose(&put(Grant::Write, Place::Below)), [false, false, true, false]);
    }

    #[test]
    fn a_tree_is_walked_once_and_what_was_left_out_when_it_is_opened() {
        let path = |text: &str| -> AbsPath { text.parse().unwrap() };
        let paths = |texts: &[&str]| texts.iter().map(|text| path(text)).collect::<Vec<_>>();
        let ask = |before: Option<&[&str]>, closed: &[&str]| {
            parts(&path(r"C:\w"), before.map(paths).as_deref(), &paths(closed))
        };
        let (git, hooks) = (r"C:\w\.git", r"C:\w\.git\hooks");
        assert_eq!(ask(None, &[git, r"C:\x"]), (paths(&[r"C:\w"]), paths(&[git])));
        assert_eq!(ask(Some(&[git]), &[git]), (vec![], paths(&[git])), "the next command walks nothing");
        assert_eq!(ask(Some(&[git]), &[]), (paths(&[git]), vec![]));
        assert_eq!(ask(Some(&[git]), &[hooks]), (paths(&[git]), paths(&[hooks])));
        assert_eq!(ask(Some(&[hooks]), &[git]), (vec![], paths(&[hooks])));
        assert_eq!(ask(Some(&[]), &[git]), (vec![], vec![]), "what is open already is denied by other entries");
        assert_eq!(
            ask(Some(&[git]), &[r"C:\"]),
            (paths(&[git]), vec![]),
            "a mark around the tree closes no part of it"
        );
    }

    #[test]
    fn what_every_sandbox_could_write_is_known() {
        let list = |sid: &str, mask, flags| {
            Acl(vec![Entry::Known { says: Says::Allow, flags, mask, sid: sid.parse().unwrap() }])
        };
        for (sid, mask, flags) in [
            ("S-1-1-0", right::ALL, 0),
            ("S-1-1-0", right::APPEND, flag::INHERITED),
            ("S-1-1-0", right::WRITE_DATA, flag::FILES | flag::ONLY_BELOW),
            ("S-1-1-0", 0x4000_0000, 0),
            ("S-1-5-12", right::DELETE, 0),
            ("S-1-5-5-0-99", right::ALL, 0),
        ] {
            assert!(is_open_to_all(Some(&list(sid, mask, flags))), "{sid} {mask:#x}");
        }
        for (sid, mask) in [("S-1-1-0", 0x12_00a9), ("S-1-5-11", right::ALL), ("S-1-5-21-1-2-3-1001", right::ALL)] {
            assert!(!is_open_to_all(Some(&list(sid, mask, 0))), "{sid} {mask:#x}");
        }
        assert!(is_open_to_all(None), "without a list everybody may do everything");
        let conditional = |kind: u8| Acl(vec![Entry::Other(vec![kind, 0, 8, 0, 0, 0, 0, 0])]);
        assert!(is_open_to_all(Some(&conditional(9))) && !is_open_to_all(Some(&conditional(10))));
    }

    #[test]
    fn labels_come_off_and_those_of_others_stay() {
        let (top, below, file) = (Place::Top, Place::Below, Kind::File);
        let low = labelled(None, Label::Low, below, file);
        assert_eq!(Acl(low.iter().cloned().collect()).label(), low.as_ref());
        assert_eq!(unlabelled(low.as_ref(), Label::Low, below, file), None);
        let own = Label::Plain.entry(top, file);
        assert_eq!(labelled(Some(&own), Label::Low, below, file), Some(own.clone()));
        assert_eq!(unlabelled(Some(&own), Label::Low, below, file), Some(own.clone()));
        assert_ne!(labelled(Some(&own), Label::Sealed, below, file), Some(own), "what is denied is sealed in any case");
    }
}
