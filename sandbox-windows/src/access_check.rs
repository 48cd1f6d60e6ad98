//! The plan against the oracle: marks are put on a made-up tree by the same functions that edit the
//! real lists, Windows' rules decide over each object, and the answer has to be the one that
//! `Permissions::access` gives.
//!
//! The rules are those of [MS-DTYP], with one doubt: whether a write-restricted token is checked for
//! removing an object and changing its list, too, or only for what "generic write" stands for. So both
//! readings are tried, and nothing may depend on which is right.
//! <https://learn.microsoft.com/openspecs/windows_protocols/ms-dtyp/4f1bbcbb-814a-4c70-a11f-2a5b8779a6f9>

use std::collections::BTreeMap;

use proptest::prelude::*;
use stockade_protocol::{AbsPath, Access, FileRule, FileRules, FileTarget};
use stockade_sandboxing::{FakeHost, HostFiles as _, Kind};

use crate::Sid;
use crate::acl::{Acl, Entry, Says, flag};
use crate::file_plan::{self, FilePlan};
use crate::host::machine;
use crate::mark::{Grant, LOW, MEDIUM, Mark, Place, is_kept_open, labelled, right};
use crate::token_plan::TokenPlan;

/// What "generic write" stands for with files.
const GENERIC_WRITE: u32 = right::WRITE_DATA | right::APPEND | right::WRITE_NAMED_ATTRIBUTES | right::WRITE_ATTRIBUTES;
const EXECUTE: u32 = 0x20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// Everything that changes something needs a restricting identifier.
    Wide,
    /// Only what "generic write" stands for does.
    Narrow,
}

struct Object {
    kind: Kind,
    list: Acl,
    label: Option<Entry>,
    kept_open: bool,
}

struct World {
    objects: BTreeMap<AbsPath, Object>,
    user: Sid,
    restricting: Vec<Sid>,
    level: u32,
}

impl World {
    /// A tree of the user's with a plan's marks on it.
    fn new(host: &FakeHost, plan: &FilePlan) -> Self {
        let (user, capability): (Sid, Sid) = ("S-1-5-21-9-9-9-1001".parse().unwrap(), Sid::capability("test"));
        let allow =
            |sid: &Sid| Entry::Known { says: Says::Allow, flags: flag::INHERITED, mask: right::ALL, sid: sid.clone() };
        let list = Acl(vec![allow(&Sid::nt([18])), allow(&Sid::nt([32, 544])), allow(&user)]);
        let object = |kind| Object { kind, list: list.clone(), label: None, kept_open: false };
        let mut objects: BTreeMap<_, _> = host.iter().map(|(path, kind)| (path.clone(), object(kind))).collect();
        for mark in plan.marks.iter().filter(|mark| mark.placeholder) {
            objects.insert(mark.path.clone(), object(Kind::Directory));
        }
        let token = if plan.everything { TokenPlan::everything() } else { TokenPlan::confined() };
        let restricting = token.restricting_sids(&capability, &"S-1-5-5-0-77".parse().unwrap());
        let level = token.integrity.sid().last().unwrap();
        let mut world = Self { objects, user, restricting, level };
        for mark in &plan.marks {
            world.put(mark, &plan.marks, &capability);
        }
        world
    }

    fn put(&mut self, mark: &Mark, all: &[Mark], capability: &Sid) {
        let is_inner = |path: &AbsPath| {
            let inner =
                |other: &&Mark| other.is_tree() && other.path != mark.path && other.path.starts_with(&mark.path);
            all.iter().filter(inner).any(|other| path.starts_with(&other.path))
        };
        for (path, object) in &mut self.objects {
            let is_top = *path == mark.path;
            if !is_top && (!mark.is_tree() || !path.starts_with(&mark.path) || is_inner(path)) {
                continue;
            }
            let place = if is_top { Place::Top } else { Place::Below };
            if let Some(grant) = mark.grant {
                object.list = object.list.with(grant.entries(capability, place, object.kind));
            }
            if let Some(label) = mark.label {
                object.label = labelled(object.label.as_ref(), label, place, object.kind);
            }
            object.kept_open |= is_top && is_kept_open(mark, all);
        }
    }

    /// Whether an object can be opened with these rights.
    fn opens(&self, path: &AbsPath, wanted: u32, reading: Reading) -> bool {
        let Some(object) = self.objects.get(path) else { return false };
        let checked = match reading {
            Reading::Wide => right::WRITES,
            Reading::Narrow => GENERIC_WRITE,
        };
        self.level_allows(object.label.as_ref(), wanted)
            && list_grants(&object.list, std::slice::from_ref(&self.user), wanted)
            && (self.restricting.is_empty() || list_grants(&object.list, &self.restricting, wanted & checked))
    }

    fn level_allows(&self, label: Option<&Entry>, wanted: u32) -> bool {
        let (level, policy) = match label {
            Some(Entry::Known { mask, sid, .. }) => (sid.last().unwrap(), *mask),
            _ => (MEDIUM, 1),
        };
        let forbidden = [(1, right::WRITES), (2, right::READ_DATA), (4, EXECUTE)];
        self.level >= level || forbidden.iter().all(|(bit, rights)| policy & bit == 0 || wanted & rights == 0)
    }

    /// Whether an object can be removed or renamed: by itself or by way of its directory, unless it or
    /// something below it is kept open.
    fn moves(&self, path: &AbsPath, reading: Reading) -> bool {
        let by_parent = path.parent().is_some_and(|parent| self.opens(&parent, right::DELETE_CHILD, reading));
        let kept = self.objects.iter().any(|(other, object)| object.kept_open && other.starts_with(path));
        !kept && (by_parent || self.opens(path, right::DELETE, reading))
    }
}

fn list_grants(list: &Acl, whom: &[Sid], wanted: u32) -> bool {
    let mut left = wanted;
    for entry in list.0.iter().filter(|entry| entry.flags() & flag::ONLY_BELOW == 0) {
        let Entry::Known { says, mask, sid, .. } = entry else { continue };
        match says {
            Says::Deny if whom.contains(sid) && left & mask != 0 => return false,
            Says::Allow if whom.contains(sid) => left &= !mask,
            Says::Allow | Says::Deny | Says::Label => {}
        }
    }
    left == 0
}

const TREE: &[&str] = &[
    r"C:\w\.git\config",
    r"C:\w\a\b\c\d",
    r"C:\w\a\b\.git\hooks\x",
    r"C:\w\a\x.env",
    r"C:\w\y.env",
    r"C:\w\link -> C:\home",
    r"C:\home\.ssh\id",
    r"C:\home\a\b\c",
    r"C:\Windows\x.dll",
];

fn targets() -> impl Strategy<Value = FileTarget> {
    let paths: Vec<AbsPath> =
        FakeHost::new(TREE).iter().map(|(path, _)| path.clone()).filter(|path| path.parent().is_some()).collect();
    let missing = [r"C:\w\.codex", r"C:\w\a\.git", r"C:\home\new", r"C:\w\a\b\new"].map(|text| text.parse().unwrap());
    let globs = [r"C:\w\**\*.env", r"C:\w\a\*", r"C:\home\**\c"].map(|text| text.parse().unwrap());
    prop_oneof![
        6 => prop::sample::select(paths).prop_map(FileTarget::Path),
        2 => prop::sample::select(missing.to_vec()).prop_map(FileTarget::Path),
        1 => prop::sample::select(globs.to_vec()).prop_map(FileTarget::Glob),
    ]
}

fn policies() -> impl Strategy<Value = FileRules> {
    let access = prop_oneof![Just(Access::None), Just(Access::Read), Just(Access::Write)];
    let rule = (targets(), access).prop_map(|(target, access)| match target {
        FileTarget::Path(path) => FileRule::path(path, access),
        FileTarget::Glob(glob) => FileRule::deny_glob(glob),
    });
    prop::collection::vec(rule, 0..6).prop_map(|mut rules| {
        rules.push(FileRule::path(r"C:\".parse().unwrap(), Access::Read));
        FileRules::new(rules).unwrap()
    })
}

/// Whether an object has to stay where it is because a rule names it, or something below it.
fn is_named(path: &AbsPath, plan: &FilePlan) -> bool {
    plan.marks.iter().any(|mark| mark.path.starts_with(path) && mark.grant != Some(Grant::Pin))
}

fn compare(files: &FileRules, host: &FakeHost, plan: &FilePlan, reading: Reading) -> Result<(), TestCaseError> {
    let world = World::new(host, plan);
    for (path, object) in &world.objects {
        let access = files.access(path);
        let opens = |wanted| world.opens(path, wanted, reading);
        let context = format!("{path} {access} {reading:?} {:#?}", plan.marks);
        prop_assert_eq!(opens(right::READ_DATA), access >= Access::Read, "read {}", context);
        prop_assert_eq!(opens(EXECUTE), access >= Access::Read, "execute {}", context);
        for wanted in [right::WRITE_DATA, right::APPEND, right::WRITE_ATTRIBUTES, right::WRITE_NAMED_ATTRIBUTES] {
            prop_assert_eq!(opens(wanted), access == Access::Write, "write {:#x} {}", wanted, context);
        }
        let may_move = access == Access::Write && !is_named(path, plan);
        prop_assert_eq!(world.moves(path, reading), may_move, "move {}", context);
        // Lists are nobody's to change but, at the worst, in what can be written anyway.
        let changes_list = opens(right::WRITE_LIST) || opens(right::WRITE_OWNER);
        prop_assert!(!changes_list || (reading == Reading::Narrow && access == Access::Write), "list {}", context);
        prop_assert!(object.kind != Kind::Directory || world.level == LOW);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn marks_grant_what_the_oracle_says(files in policies()) {
        let host = FakeHost::new(TREE);
        match file_plan::compile(&files, &machine().drives, &host) {
            Ok(plan) => {
                compare(&files, &host, &plan, Reading::Wide)?;
                compare(&files, &host, &plan, Reading::Narrow)?;
            }
            // Only for what is true of the policy.
            Err(error) => {
                let missing = |rule: &FileRule| match &rule.target {
                    FileTarget::Path(path) => host.kind(path).is_none(),
                    FileTarget::Glob(_) => false,
                };
                prop_assert!(error.why.contains("does not exist") && files.iter().any(missing), "{}", error);
            }
        }
    }
}

#[test]
fn what_is_denied_is_told_from_what_is_not() {
    let host = FakeHost::new(TREE);
    let files =
        stockade_sandboxing::rules(&[r"C:\ read", r"C:\w write", r"C:\w\.git read protected", r"C:\home\.ssh none"]);
    let plan = file_plan::compile(&files, &machine().drives, &host).unwrap();
    let world = World::new(&host, &plan);
    let opens = |path: &str, wanted| world.opens(&path.parse().unwrap(), wanted, Reading::Wide);
    assert!(opens(r"C:\w\a\x.env", right::WRITE_DATA) && opens(r"C:\w\a\x.env", right::DELETE));
    assert!(opens(r"C:\w\.git\config", right::READ_DATA) && !opens(r"C:\w\.git\config", right::WRITE_DATA));
    assert!(!opens(r"C:\home\.ssh\id", right::READ_DATA) && opens(r"C:\home\a\b\c", right::READ_DATA));
    assert!(!opens(r"C:\Windows\x.dll", right::WRITE_DATA));
}
