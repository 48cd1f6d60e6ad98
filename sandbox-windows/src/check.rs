//! Whether the sandbox holds, told from what was read back after it was set up.
//!
//! A call that Windows, or something that stands in for it, accepts without doing it must not pass for
//! a sandbox. So the command's own token, the job object and the marks are read back, and its token is
//! used to try what must not work, before the command runs its first instruction.
//!
//! A token that can do nothing at all would pass that, and the command would fail without a visible cause. So
//! its token is also used to try what must work: a read, a write, the null device, and each tree that is granted.

use stockade_protocol::{AbsPath, Enforcement, LayerReport, LayerStatus};
use stockade_sandboxing::WaitStatus;

use crate::job_plan::{ALL_UI_LIMITS, limit};
use crate::plan::WindowsPlan;
use crate::token_plan::{Integrity, is_powerful};
use crate::{Sid, job_plan::JobPlan};

/// What was read back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// The token of the command's process.
    pub(crate) token: TokenFound,
    /// The job object that it is in.
    pub(crate) job: JobFound,
    /// Marks that are not on their object, or not on everything below it.
    pub(crate) missing_marks: Vec<AbsPath>,
    /// What the token could open and must not.
    pub(crate) opened: Vec<Opened>,
    /// What the token could not open and has to.
    pub(crate) closed: Vec<Closed>,
    /// What was left alone in trees that can be written.
    pub(crate) left_alone: LeftAlone,
}

/// Objects in trees that can be written which got no mark, and can't be written; and objects with marks of earlier runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeftAlone {
    /// Files with other names.
    pub(crate) linked: usize,
    /// Objects that every sandbox could write then.
    pub(crate) open_to_all: usize,
    /// Objects whose list or label the user may not change.
    pub(crate) unreached: usize,
    /// Objects from which marks of earlier runs could not be taken off.
    pub(crate) left_behind: usize,
}

/// What a token says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenFound {
    pub(crate) restricting: Vec<Sid>,
    /// Groups that still grant something.
    pub(crate) granting_groups: Vec<Sid>,
    pub(crate) privileges: Vec<String>,
    pub(crate) integrity: Option<Sid>,
}

/// What a job object says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobFound {
    pub(crate) holds_the_process: bool,
    pub(crate) flags: u32,
    pub(crate) processes: u32,
    pub(crate) memory_bytes: u64,
    pub(crate) ui: u32,
    /// Limits on windows were left out, since this program is in another job.
    pub(crate) windows_left_out: bool,
}

/// Something that was opened with the command's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    ForReading(AbsPath),
    ForWriting(AbsPath),
    /// A tree that only earlier commands could write.
    Marked(AbsPath),
}

/// Something that could not be opened with the command's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    ForReading(AbsPath),
    ForWriting(AbsPath),
    NullDevice,
}

/// What is known of a layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// It holds; something may be worth knowing.
    Holds(Option<String>),
    /// A part of it could not be had here, and no policy asks for it by name.
    Partly(String),
    Missing(String),
}

/// A layer, by its name in reports.
pub(crate) type Layer = (&'static str, Finding);

/// The only privilege that is left: to pass through directories that can't be listed.
const LEFT_PRIVILEGE: &str = "SeChangeNotifyPrivilege";

/// The layers, each with what is wrong with it.
pub(crate) fn layers(plan: &WindowsPlan, restricting: &[Sid], found: &Found) -> Vec<Layer> {
    let token = &found.token;
    let held = vec![
        ("restricted_token", differs(restricting, &token.restricting)),
        ("privileges", left_over(token.privileges.iter().filter(|name| *name != LEFT_PRIVILEGE))),
        ("groups", left_over(token.granting_groups.iter().filter(|group| is_powerful(group)))),
        ("integrity", integrity(plan.token.integrity, token.integrity.as_ref())),
        ("process_tree", process_tree(found.job)),
        ("job_limits", job_limits(plan.job, found.job)),
        ("files", left_over(found.opened.iter())),
        ("controls", left_over(found.closed.iter())),
    ];
    let finding = |wrong: Option<String>| wrong.map_or(Finding::Holds(None), Finding::Missing);
    let mut layers: Vec<Layer> = held.into_iter().map(|(name, wrong)| (name, finding(wrong))).collect();
    layers.push(("windows", windows(found.job)));
    layers.push(("marks", marks(found)));
    layers
}

fn windows(job: JobFound) -> Finding {
    match () {
        () if job.ui & ALL_UI_LIMITS == ALL_UI_LIMITS => Finding::Holds(None),
        () if job.windows_left_out => Finding::Partly(String::from(
            "this program runs in a job of another program's, in which Windows allows no limits on windows: the command \
             has a desktop of its own, and can use the clipboard",
        )),
        () => Finding::Missing(String::from("not all limits are set")),
    }
}

fn marks(found: &Found) -> Finding {
    if let Some(missing) = left_over(found.missing_marks.iter()) {
        return Finding::Missing(missing);
    }
    let LeftAlone { linked, open_to_all, unreached, left_behind } = found.left_alone;
    let told = [
        (linked, "files have other names (hard links) and can't be written: a mark would open those names, too"),
        (open_to_all, "files or directories let `Everyone` write and can't be written: a mark would open them to all"),
        (unreached, "files or directories can't be written: you may not change their access control lists"),
        (left_behind, "files or directories still bear marks of commands that have ended: they can't be opened"),
    ];
    let told = told.iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}"));
    let told: Vec<String> = told.collect();
    Finding::Holds((!told.is_empty()).then(|| told.join("; ")))
}

/// What is missing, for a refusal. Nothing if everything holds.
pub(crate) fn missing(layers: &[Layer]) -> Option<String> {
    let told = |(name, finding): &Layer| match finding {
        Finding::Missing(wrong) => Some(format!("{name} ({wrong})")),
        Finding::Holds(_) | Finding::Partly(_) => None,
    };
    let missing: Vec<String> = layers.iter().filter_map(told).collect();
    (!missing.is_empty()).then(|| missing.join(", "))
}

/// What the end of the harmless command says that a sandbox is tried out with: a program that can't load its libraries
/// starts, too, and ends with a code of its own.
pub(crate) fn ended_well(status: Option<WaitStatus>) -> Result<(), String> {
    match status {
        Some(WaitStatus::Exited(0)) => Ok(()),
        Some(WaitStatus::Exited(code)) => {
            let code = code.cast_unsigned();
            Err(format!("the command interpreter ended with {code:#x} in the sandbox, instead of 0"))
        }
        Some(WaitStatus::Signaled(_)) => Err(String::from("the command interpreter was ended in the sandbox")),
        None => Err(String::from("the command interpreter did not end in the sandbox")),
    }
}

/// The report of a run.
pub(crate) fn enforcement(plan: &WindowsPlan, layers: Vec<Layer>) -> Enforcement {
    let report = |(layer, finding): Layer| {
        let (status, detail) = match finding {
            Finding::Holds(detail) => (LayerStatus::FullyEnforced, detail),
            Finding::Partly(detail) => (LayerStatus::PartlyEnforced, Some(detail)),
            Finding::Missing(detail) => (LayerStatus::NotEnforced, Some(detail)),
        };
        LayerReport { layer: layer.to_owned(), status, detail }
    };
    let layers = layers.into_iter().map(report).chain([plan.network_report()]).collect();
    Enforcement { engine: String::from("windows"), layers }
}

fn differs(wanted: &[Sid], found: &[Sid]) -> Option<String> {
    let sorted = |sids: &[Sid]| {
        let mut sids = sids.to_vec();
        sids.sort();
        sids
    };
    let text = |sids: &[Sid]| match sids {
        [] => String::from("nobody"),
        _ => sids.iter().map(Sid::to_string).collect::<Vec<_>>().join(" "),
    };
    (sorted(wanted) != sorted(found)).then(|| format!("writes are restricted to {}", text(found)))
}

fn left_over<T: std::fmt::Display>(found: impl Iterator<Item = T>) -> Option<String> {
    let found: Vec<String> = found.map(|item| item.to_string()).collect();
    (!found.is_empty()).then(|| found.join(" "))
}

fn integrity(wanted: Integrity, found: Option<&Sid>) -> Option<String> {
    let level = |sid: &Sid| sid.last().filter(|_| sid.is_label());
    match found.and_then(level).zip(level(&wanted.sid())) {
        // A program that runs at a lower level already keeps it.
        Some((found, wanted)) if found <= wanted => None,
        _ => Some(found.map_or_else(|| String::from("no level"), |sid| format!("the level is {sid}"))),
    }
}

fn process_tree(job: JobFound) -> Option<String> {
    let breakaway = limit::BREAKAWAY_OK | limit::SILENT_BREAKAWAY_OK;
    match () {
        () if !job.holds_the_process => Some(String::from("the process is not in the job")),
        () if job.flags & limit::KILL_ON_CLOSE == 0 => Some(String::from("the job does not end with its handle")),
        () if job.flags & breakaway != 0 => Some(String::from("processes can leave the job")),
        () => None,
    }
}

fn job_limits(plan: JobPlan, job: JobFound) -> Option<String> {
    let unset = plan.flags() & !job.flags;
    let processes = plan.processes.is_none_or(|count| count == job.processes);
    let memory = plan.memory_bytes.is_none_or(|bytes| bytes.get() == job.memory_bytes);
    match () {
        () if unset != 0 => Some(format!("flags {unset:#x} are not set")),
        () if !processes => Some(format!("{} processes are allowed", job.processes)),
        () if !memory => Some(format!("{} bytes of memory are allowed", job.memory_bytes)),
        () => None,
    }
}

impl std::fmt::Display for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ForReading(path) => write!(f, "`{path}` can be read"),
            Self::ForWriting(path) => write!(f, "`{path}` can be written"),
            Self::Marked(path) => write!(
                f,
                "`{path}` can be written: it bears marks of an earlier command, and its list lets `Everyone` write; \
                 `stockade unmark \"{path}\"` takes the marks off"
            ),
        }
    }
}

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ForReading(path) => write!(f, "`{path}` can't be read"),
            Self::ForWriting(path) => write!(f, "`{path}` can't be written"),
            Self::NullDevice => f.write_str("`NUL` can't be written"),
        }
    }
}

#[cfg(test)]
mod tests {
    use stockade_protocol::{Argv, NetworkPolicy, Permissions, ResourceLimits};
    use stockade_sandboxing::{CommandSpec, FakeHost, rules};

    use super::*;
    use crate::host::machine;

    fn plan() -> WindowsPlan {
        let command = CommandSpec {
            argv: Argv::parse([r"C:\x.exe"]).unwrap(),
            cwd: r"C:\".parse().unwrap(),
            environment: std::collections::BTreeMap::new(),
            process: Default::default(),
        };
        let limit = |count: u64| count.try_into().ok();
        let permissions = Permissions {
            files: rules(&[r"C:\ read"]),
            network: NetworkPolicy::Full,
            limits: ResourceLimits { processes: limit(8), memory_bytes: limit(1 << 20), ..ResourceLimits::default() },
            ..Permissions::default()
        };
        WindowsPlan::compile(&command, &permissions, &machine(), &FakeHost::new(&[r"C:\x.exe"]), &[]).unwrap()
    }

    fn restricting(plan: &WindowsPlan) -> Vec<Sid> {
        plan.token.restricting_sids(&plan.capabilities(&[]), &"S-1-5-5-0-7".parse().unwrap())
    }

    /// What is read back where everything holds.
    fn holds(plan: &WindowsPlan) -> Found {
        Found {
            token: TokenFound {
                restricting: restricting(plan),
                granting_groups: vec!["S-1-1-0".parse().unwrap(), "S-1-5-32-545".parse().unwrap()],
                privileges: vec![LEFT_PRIVILEGE.to_owned()],
                integrity: Some(Integrity::Low.sid()),
            },
            job: JobFound {
                holds_the_process: true,
                flags: plan.job.flags(),
                processes: 8,
                memory_bytes: 1 << 20,
                ui: ALL_UI_LIMITS,
                windows_left_out: false,
            },
            ..Found::default()
        }
    }

    #[test]
    fn what_holds_is_reported_layer_by_layer() {
        let plan = plan();
        let layers = layers(&plan, &restricting(&plan), &holds(&plan));
        assert_eq!(missing(&layers), None);
        let report = enforcement(&plan, layers);
        assert!(report.layers.iter().all(|layer| layer.status == LayerStatus::FullyEnforced), "{report:?}");
        assert_eq!(report.layers.len(), 11);
    }

    /// What can't be had here and is no refusal is told all the same.
    #[test]
    fn what_was_left_out_is_told() {
        let plan = plan();
        let mut found = holds(&plan);
        found.job = JobFound { ui: 0, windows_left_out: true, ..found.job };
        found.left_alone = LeftAlone { linked: 3, open_to_all: 2, unreached: 4, left_behind: 5 };
        let layers = layers(&plan, &restricting(&plan), &found);
        assert_eq!(missing(&layers), None);
        let report = enforcement(&plan, layers);
        let told = |name: &str| {
            let layer = report.layers.iter().find(|layer| layer.layer == name).unwrap();
            (layer.status, layer.detail.clone().unwrap_or_default())
        };
        let (status, detail) = told("windows");
        assert!(status == LayerStatus::PartlyEnforced && detail.contains("clipboard"), "{detail}");
        let (status, detail) = told("marks");
        assert!(status == LayerStatus::FullyEnforced && detail.contains("3 files have other names"), "{detail}");
        assert!(detail.contains("; 2 files or directories let `Everyone` write"), "{detail}");
        assert!(detail.contains("; 4 files or directories can't be written"), "{detail}");
        assert!(detail.contains("; 5 files or directories still bear marks"), "{detail}");
    }

    /// `STATUS_DLL_INIT_FAILED` is how programs end that a token keeps from starting.
    #[test]
    fn a_command_that_crashed_is_no_sandbox_that_works() {
        assert_eq!(ended_well(Some(WaitStatus::Exited(0))), Ok(()));
        let crashed = ended_well(Some(WaitStatus::Exited(0xc000_0142_u32.cast_signed()))).unwrap_err();
        assert!(crashed.contains("0xc0000142"), "{crashed}");
        for other in [None, Some(WaitStatus::Signaled(9)), Some(WaitStatus::Exited(1))] {
            assert!(ended_well(other).is_err(), "{other:?}");
        }
    }

    /// A change to what was read back, and what is then told.
    type Case<'a> = (&'a dyn Fn(&mut Found), &'static str);

    #[test]
    fn each_thing_that_does_not_hold_is_named() {
        let plan = plan();
        let path: AbsPath = r"C:\w".parse().unwrap();
        let with = |change: &dyn Fn(&mut Found)| {
            let mut found = holds(&plan);
            change(&mut found);
            missing(&layers(&plan, &restricting(&plan), &found)).unwrap_or_default()
        };
        let cases: [Case<'_>; 19] = [
            (&|found| found.token.restricting.clear(), "restricted_token (writes are restricted to nobody)"),
            (&|found| found.token.restricting.push(Sid::nt([11])), "restricted_token ("),
            (&|found| found.token.privileges.push("SeDebugPrivilege".into()), "privileges (SeDebugPrivilege)"),
            (&|found| found.token.granting_groups.push(Sid::nt([32, 544])), "groups (S-1-5-32-544)"),
            (&|found| found.token.integrity = None, "integrity (no level)"),
            (&|found| found.token.integrity = Some(Integrity::Medium.sid()), "integrity (the level is S-1-16-8192)"),
            (&|found| found.job.holds_the_process = false, "process_tree ("),
            (&|found| found.job.flags |= limit::BREAKAWAY_OK, "process_tree (processes can leave the job)"),
            (&|found| found.job.flags &= !limit::ACTIVE_PROCESSES, "job_limits (flags 0x8 are not set)"),
            (&|found| found.job.processes = 9, "job_limits (9 processes are allowed)"),
            (&|found| found.job.memory_bytes = 0, "job_limits (0 bytes"),
            (&|found| found.job.ui = 0x7f, "windows ("),
            (&|found| found.missing_marks.push(path.clone()), r"marks (C:\w)"),
            (&|found| found.opened.push(Opened::ForReading(path.clone())), r"files (`C:\w` can be read)"),
            (&|found| found.opened.push(Opened::ForWriting(path.clone())), r"files (`C:\w` can be written)"),
            (&|found| found.opened.push(Opened::Marked(path.clone())), r"files (`C:\w` can be written: it bears marks"),
            (&|found| found.closed.push(Closed::ForReading(path.clone())), r"controls (`C:\w` can't be read)"),
            (&|found| found.closed.push(Closed::ForWriting(path.clone())), r"controls (`C:\w` can't be written)"),
            (&|found| found.closed.push(Closed::NullDevice), r"controls (`NUL` can't be written)"),
        ];
        for (change, told) in cases {
            let missing = with(change);
            assert!(missing.starts_with(told), "{missing} instead of {told}");
        }
        assert_eq!(missing(&layers(&plan, &restricting(&plan), &Found::default())).unwrap().split("), ").count(), 5);
    }
}
