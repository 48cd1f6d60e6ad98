//! The plan against the oracle: marks are put on a disk in memory by the same code that walks real trees
//! and edits their lists, Windows' rules decide over each object, and the answer has to be the one that
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

use crate::acl::{Acl, Entry, Says, flag};
use crate::fake_disk::{self, FakeDisk, FakeObject, allow, list_grants, modify_alone};
use crate::file_plan::{self, FilePlan};
use crate::host::machine;
use crate::mark::{Grant, LOW, Label, MEDIUM, Place, is_kept_open, is_open_to_all, raised, right};
use crate::token_plan::TokenPlan;
use crate::{Sid, roots, tree};

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

struct World {
    disk: FakeDisk,
    kept_open: Vec<AbsPath>,
    /// The user and the groups that every user is in.
    user: Vec<Sid>,
    restricting: Vec<Sid>,
    level: u32,
}

/// Objects that `Everyone` may write: a file, and a directory with all that is made in it.
const SHARED: &[&str] = &[r"C:\w\a\shared", r"C:\home\a\b"];

/// The rights of the user on everything below `C:\w`, as its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rights {
    All,
    Modify,
}

fn disk(host: &FakeHost, rights: Rights) -> FakeDisk {
    let disk = FakeDisk::new(host);
    let workspace: AbsPath = r"C:\w".parse().unwrap();
    let in_workspace = disk.paths().into_iter().filter(|path| path.starts_with(&workspace));
    for path in in_workspace.filter(|_| rights == Rights::Modify) {
        disk.change(&path, |object| object.list = Some(modify_alone(object.kind)));
    }
    for path in SHARED {
        let flags = flag::FILES | flag::DIRECTORIES;
        let entry = Entry::Known { says: Says::Allow, flags, mask: right::ALL, sid: Sid::everyone() };
        disk.change(&path.parse().unwrap(), |object| {
            object.list = object.list.take().map(|list| list.with(vec![entry]))
        });
    }
    disk
}

/// Whether a run is refused because a tree that it may write is open to all.
fn is_refused(disk: &FakeDisk, plan: &FilePlan) -> bool {
    let mut opened = plan.marks.iter().filter(|mark| mark.opens());
    opened.any(|mark| tree::is_path_open_to_all(disk, &mark.path).unwrap())
}

impl World {
    /// A tree of the user's with a plan's marks on it. None if the run is refused.
    fn new(host: &FakeHost, plan: &FilePlan, reading: Reading) -> Option<Self> {
        Self::on(disk(host, Rights::All), plan, reading)
    }

    fn on(disk: FakeDisk, plan: &FilePlan, reading: Reading) -> Option<Self> {
        match reading {
            Reading::Wide => Self::after(disk, None, plan),
            Reading::Narrow => Self::without_roots(disk, plan),
        }
    }

    /// Where nothing stays: all marks are those of one run.
    fn without_roots(disk: FakeDisk, plan: &FilePlan) -> Option<Self> {
        if is_refused(&disk, plan) {
            return None;
        }
        let marks = raised(&plan.marks);
        for mark in &marks {
            tree::put(&disk, mark, &marks, &Sid::capability("test")).unwrap();
        }
        Some(Self::with_token(disk, plan, Vec::new()))
    }

    /// The same with what an earlier run has left there.
    fn after(disk: FakeDisk, earlier: Option<&FilePlan>, plan: &FilePlan) -> Option<Self> {
        let capability = Sid::capability("test");
        if is_refused(&disk, plan) {
            return None;
        }
        let mut left_out: BTreeMap<AbsPath, Vec<AbsPath>> = BTreeMap::new();
        for plan in earlier.into_iter().filter(|earlier| !is_refused(&disk, earlier)).chain([plan]) {
            for root in roots::identify(&disk, &plan.marks).unwrap() {
                let mark = plan.marks.iter().find(|mark| mark.opens() && mark.path == root.path).unwrap();
                let before = left_out.remove(&root.path);
                let (walked, left) = roots::still_closed(&disk, mark, &root, &plan.marks, before).unwrap();
                roots::walk(&disk, mark, &root, &plan.marks, &walked).unwrap();
                left_out.insert(root.path, left);
            }
        }
        for mark in plan.marks.iter().filter(|mark| !mark.opens()) {
            tree::put(&disk, mark, &plan.marks, &capability).unwrap();
        }
        let opened = roots::identify(&disk, &plan.marks).unwrap().into_iter().map(|root| root.sid).collect();
        Some(Self::with_token(disk, plan, opened))
    }

    fn with_token(disk: FakeDisk, plan: &FilePlan, opened: Vec<Sid>) -> Self {
        let token = if plan.everything { TokenPlan::everything() } else { TokenPlan::confined() };
        let capabilities: Vec<Sid> = std::iter::once(Sid::capability("test")).chain(opened).collect();
        let restricting = token.restricting_sids(&capabilities, &"S-1-5-5-0-77".parse().unwrap());
        let level = token.integrity.sid().last().unwrap();
        let user = fake_disk::user_and_groups();
        let kept = plan.marks.iter().filter(|mark| is_kept_open(mark, &plan.marks));
        let kept_open = kept.map(|mark| mark.path.clone()).collect();
        Self { disk, kept_open, user, restricting, level }
    }

    /// Something that is no file of the user's.
    fn with(self, path: &str, list: Vec<Entry>, label: Option<Entry>) -> Self {
        let object = FakeObject { kind: Kind::File, owner: Sid::nt([18]), list: Some(Acl(list)), label };
        self.disk.place(path.parse().unwrap(), object);
        self
    }

    /// Whether an object can be opened with these rights.
    fn opens(&self, path: &AbsPath, wanted: u32, reading: Reading) -> bool {
        let Some(FakeObject { list, label, .. }) = self.disk.at(path) else { return false };
        let list = list.unwrap();
        let checked = match reading {
            Reading::Wide => right::WRITES,
            Reading::Narrow => GENERIC_WRITE,
        };
        self.level_allows(label.as_ref(), wanted)
            && list_grants(&list, &self.user, wanted)
            && (self.restricting.is_empty() || list_grants(&list, &self.restricting, wanted & checked))
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
        let kept = self.kept_open.iter().any(|other| other.starts_with(path));
        !kept && (by_parent || self.opens(path, right::DELETE, reading))
    }
}

const TREE: &[&str] = &[
    r"C:\w\.git\config",
    r"C:\w\a\b\c\d",
    r"C:\w\a\b\.git\hooks\x",
    r"C:\w\a\shared",
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

fn rights() -> impl Strategy<Value = Rights> {
    prop_oneof![Just(Rights::All), Just(Rights::Modify)]
}

/// Whether an object has to stay where it is because a rule names it, or something below it.
fn is_named(path: &AbsPath, plan: &FilePlan) -> bool {
    plan.marks.iter().any(|mark| mark.path.starts_with(path) && mark.grant != Some(Grant::Pin))
}

fn compare(files: &FileRules, world: &World, plan: &FilePlan, reading: Reading) -> Result<(), TestCaseError> {
    for (path, object) in &world.disk.all() {
        // Objects that `Everyone` may write are left alone: no policy opens them.
        let granted = files.access(path);
        let left_alone = granted == Access::Write && world.level == LOW && is_open_to_all(object.list.as_ref());
        let access = if left_alone { Access::Read } else { granted };
        let opens = |wanted| world.opens(path, wanted, reading);
        let context = format!("{path} {access} {reading:?} {:#?}", plan.marks);
        prop_assert_eq!(opens(right::READ_DATA), access >= Access::Read, "read {}", context);
        prop_assert_eq!(opens(EXECUTE), access >= Access::Read, "execute {}", context);
        for wanted in [right::WRITE_DATA, right::APPEND, right::WRITE_ATTRIBUTES, right::WRITE_NAMED_ATTRIBUTES] {
            prop_assert_eq!(opens(wanted), access == Access::Write, "write {:#x} {}", wanted, context);
        }
        let may_move = access == Access::Write && !is_named(path, plan);
        // By way of its directory it may be removed or not, as the policy allows it.
        prop_assert!(left_alone || world.moves(path, reading) == may_move, "move {}", context);
        // A command changes no list but, at the worst, those of objects that it may write anyway.
        let changes_list = opens(right::WRITE_LIST) || opens(right::WRITE_OWNER);
        prop_assert!(!changes_list || (reading == Reading::Narrow && access == Access::Write), "list {}", context);
        prop_assert!(object.kind != Kind::Directory || world.level == LOW);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn marks_grant_what_the_oracle_says(files in policies(), rights in rights()) {
        let host = FakeHost::new(TREE);
        match file_plan::compile(&files, &machine().drives, &host) {
            Ok(plan) => {
                for reading in [Reading::Wide, Reading::Narrow] {
                    let Some(world) = World::on(disk(&host, rights), &plan, reading) else { return Ok(()) };
                    compare(&files, &world, &plan, reading)?;
                }
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// What opened a tree for an earlier command stays there, and gives the next one neither more nor less. That rests on
    /// the wide reading: where the narrow one holds, nothing stays.
    #[test]
    fn what_an_earlier_command_could_write_does_not_matter(
        earlier in policies(), files in policies(), rights in rights(),
    ) {
        let host = FakeHost::new(TREE);
        let plans = [&earlier, &files].map(|files| file_plan::compile(files, &machine().drives, &host));
        let [Ok(earlier), Ok(plan)] = plans else { return Ok(()) };
        let Some(world) = World::after(disk(&host, rights), Some(&earlier), &plan) else { return Ok(()) };
        compare(&files, &world, &plan, Reading::Wide)?;
    }
}

/// A part that the first command was denied, in a tree that lies in a denied one for the second.
#[test]
fn a_part_that_was_left_out_is_opened_below_a_denied_directory() {
    let host = FakeHost::new(TREE);
    let rules =
        [&[r"C:\ read", r"C:\w\a\b write", r"C:\w\a\b\.git none"][..], &[r"C:\ read", r"C:\w none", r"C:\w\a\b write"]];
    let [earlier, files] = rules.map(stockade_sandboxing::rules);
    let [earlier, plan] = [&earlier, &files].map(|files| file_plan::compile(files, &machine().drives, &host).unwrap());
    compare(&files, &World::after(disk(&host, Rights::All), Some(&earlier), &plan).unwrap(), &plan, Reading::Wide)
        .unwrap();
}

/// What a command has made bears its level. If that is protected later, its list must not be the command's to change, in
/// neither reading.
#[test]
fn what_a_command_has_made_can_be_protected() {
    let host = FakeHost::new(TREE);
    let files = stockade_sandboxing::rules(&[r"C:\ read", r"C:\w write", r"C:\w\.git read protected"]);
    let plan = file_plan::compile(&files, &machine().drives, &host).unwrap();
    let made = disk(&host, Rights::All);
    for path in [r"C:\w\.git", r"C:\w\.git\config"] {
        let label = Some(Label::Low.entry(Place::Top, Kind::File));
        made.change(&path.parse().unwrap(), |object| object.label = label);
    }
    let world = World::without_roots(made, &plan).unwrap();
    compare(&files, &world, &plan, Reading::Narrow).unwrap();
}

/// A low label that stays opens nothing to a command that may only read, also where `Everyone` may write.
#[test]
fn a_label_that_stays_does_not_open_what_everybody_may_write() {
    let host = FakeHost::new(TREE);
    let [earlier, files] = [&[r"C:\ read", r"C:\w write"][..], &[r"C:\ read"]].map(stockade_sandboxing::rules);
    let [earlier, plan] = [&earlier, &files].map(|files| file_plan::compile(files, &machine().drives, &host).unwrap());
    let world = World::after(disk(&host, Rights::All), Some(&earlier), &plan).unwrap();
    let opens = |path: &str| world.opens(&path.parse().unwrap(), right::WRITE_DATA, Reading::Wide);
    assert!(!opens(r"C:\w\a\shared") && !opens(r"C:\w\a\x.env"));
    let open = stockade_sandboxing::rules(&[r"C:\ read", r"C:\home\a\b write"]);
    let plan = file_plan::compile(&open, &machine().drives, &host).unwrap();
    assert!(World::new(&host, &plan, Reading::Wide).is_none(), "a tree that everybody may write is refused");
}

const READ_AND_EXECUTE: u32 = 0x1200a9;
const READ_WRITE_EXECUTE: u32 = READ_AND_EXECUTE | GENERIC_WRITE;

/// The null device and its like: `Everyone` reads and writes, restricted code reads. Their level is taken for the low
/// one: programs at that level are known to write there.
#[test]
fn devices_that_everybody_may_write_can_be_written() {
    let host = FakeHost::new(TREE);
    for lines in [&[r"C:\ read"][..], &[r"C:\ read", r"C:\w write"]] {
        let plan = file_plan::compile(&stockade_sandboxing::rules(lines), &machine().drives, &host).unwrap();
        let list = vec![
            allow(Sid::everyone(), READ_WRITE_EXECUTE),
            allow(Sid::nt([18]), right::ALL),
            allow(Sid::nt([32, 544]), right::ALL),
            allow(Sid::nt([12]), READ_AND_EXECUTE),
        ];
        let level = Label::Low.entry(Place::Top, Kind::File);
        for reading in [Reading::Wide, Reading::Narrow] {
            let world = World::new(&host, &plan, reading).unwrap();
            let world = world.with(r"N:\NUL", list.clone(), Some(level.clone()));
            for wanted in [right::READ_DATA, right::WRITE_DATA | right::APPEND, EXECUTE] {
                assert!(world.opens(&r"N:\NUL".parse().unwrap(), wanted, reading), "{wanted:#x} {reading:?}");
            }
        }
    }
}

/// Files that `Everyone` may write are still above the command's level.
#[test]
fn files_that_everybody_may_write_are_out_of_reach() {
    let host = FakeHost::new(TREE);
    let plan = file_plan::compile(&stockade_sandboxing::rules(&[r"C:\ read"]), &machine().drives, &host).unwrap();
    for reading in [Reading::Wide, Reading::Narrow] {
        let world = World::new(&host, &plan, reading).unwrap();
        let world = world.with(r"C:\public", vec![allow(Sid::everyone(), right::ALL)], None);
        assert!(world.opens(&r"C:\public".parse().unwrap(), right::READ_DATA, reading));
        for wanted in [right::WRITE_DATA, right::DELETE, right::WRITE_LIST, right::WRITE_OWNER] {
            assert!(!world.opens(&r"C:\public".parse().unwrap(), wanted, reading), "{wanted:#x} {reading:?}");
        }
    }
}

#[test]
fn what_is_denied_is_told_from_what_is_not() {
    let host = FakeHost::new(TREE);
    let files =
        stockade_sandboxing::rules(&[r"C:\ read", r"C:\w write", r"C:\w\.git read protected", r"C:\home\.ssh none"]);
    let plan = file_plan::compile(&files, &machine().drives, &host).unwrap();
    let world = World::new(&host, &plan, Reading::Wide).unwrap();
    let opens = |path: &str, wanted| world.opens(&path.parse().unwrap(), wanted, Reading::Wide);
    assert!(opens(r"C:\w\a\x.env", right::WRITE_DATA) && opens(r"C:\w\a\x.env", right::DELETE));
    assert!(opens(r"C:\w\.git\config", right::READ_DATA) && !opens(r"C:\w\.git\config", right::WRITE_DATA));
    assert!(!opens(r"C:\home\.ssh\id", right::READ_DATA) && opens(r"C:\home\a\b\c", right::READ_DATA));
    assert!(!opens(r"C:\Windows\x.dll", right::WRITE_DATA));
}
