//! A run's marks: written down, put on, kept for as long as the command runs, and taken off.
//!
//! The order matters. Nothing is put on before what dead runs have left is off, before it is known that no living run
//! needs it otherwise, and before it is written down. Then trees are walked, without the lock over all runs: others
//! need not wait for that, and see this run among the living.

use std::io;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use stockade_protocol::AbsPath;
use stockade_sandboxing::{SpawnError, Unenforceable};

use crate::disk::Disk;
use crate::journal::{self, Journal, Locked, Record, Recovered};
use crate::mark::{Grant, Label, Mark, is_kept_open, raised};
use crate::plan::WindowsPlan;
use crate::root_record::Root;
use crate::roots;
use crate::taking_off::{Before, take_off};
use crate::tree::{self, Put};

/// What to do about layers that do not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checks {
    /// Nothing runs.
    Required,
    /// They are reported. For tests of everything else where no layer can hold.
    #[cfg(all(test, windows))]
    Reported,
}

impl Checks {
    /// Takes what could not be done for missing, where that is only reported.
    fn settle<T>(self, done: io::Result<T>, missing: impl FnOnce() -> T) -> io::Result<T> {
        match (self, done) {
            #[cfg(all(test, windows))]
            (Self::Reported, Err(_)) => Ok(missing()),
            (_, done) => done.inspect_err(|_| drop(missing)),
        }
    }
}

pub(crate) fn setup(step: impl Into<String>) -> impl FnOnce(io::Error) -> SpawnError {
    let step = step.into();
    move |source| SpawnError::Setup { step, source }
}

/// What is on files for a run. Dropping it takes everything off.
#[derive(Debug)]
pub(crate) struct Marks<D: Disk> {
    disk: D,
    journal: Journal,
    entry: Option<journal::Entry>,
    record: Record,
    id: String,
    /// The command's own directories, and the files that its token is tried with.
    private: AbsPath,
    kept_open: Vec<D::Kept>,
    /// Objects that still bear marks of earlier runs by which a command could write them.
    left_open: Vec<AbsPath>,
    /// Whether all marks are on.
    is_put: bool,
}

impl<D: Disk + Clone> Marks<D> {
    /// Puts a plan's marks on files. What opens `staying` trees stays there; without any, all marks come off, as on a
    /// Windows that checks a restricted token for "generic write" alone.
    pub(crate) fn put(
        disk: D,
        plan: &WindowsPlan,
        journal: &Journal,
        staying: Vec<Root>,
        checks: Checks,
    ) -> Result<(Self, Put), SpawnError> {
        let id = new_id();
        let locked = journal.lock().map_err(setup("lock the record of runs"))?;
        let recovered = locked.recover(|record, living| take_off(&disk, record, living, Before::Run));
        let Recovered { living, left } = recovered.map_err(setup("take off marks of earlier runs"))?;
        refuse_open_to_all(&disk, plan)?;
        let record = record(&disk, plan, journal, (&id, staying), checks, &living)?;
        let entry = locked.begin(&id, &record).map_err(setup("write the record of this run"))?;
        drop(locked);
        let private = record.private.clone().unwrap_or_else(|| plan.cwd.clone());
        let (journal, entry, kept_open) = (journal.clone(), Some(entry), Vec::new());
        // Dropped because of an error below, it takes off what was put on.
        let left_open = left.iter().flat_map(Record::left_open).cloned().collect();
        let mut marks = Self { disk, journal, entry, record, id, private, kept_open, left_open, is_put: false };
        let mut put = marks.open_roots(checks)?;
        put.add(marks.put_all(plan, checks)?);
        put.left_behind.extend(left.iter().flat_map(Record::left_objects).map(|left| left.path.clone()));
        marks.is_put = true;
        Ok((marks, put))
    }

    /// Opens the trees that can be written, for this command and all that follow.
    fn open_roots(&self, checks: Checks) -> Result<Put, SpawnError> {
        let mut all = Put::default();
        let Record { marks, roots, .. } = &self.record;
        for mark in marks {
            let Some(root) = roots.iter().find(|root| mark.opens() && root.path == mark.path) else { continue };
            let put = roots::open(&self.disk, mark, root, marks, &self.journal);
            all.add(checks.settle(put, || Put::missing(mark.path.clone())).map_err(not_marked(mark))?);
        }
        Ok(all)
    }

    /// Puts on what comes off again.
    fn put_all(&mut self, plan: &WindowsPlan, checks: Checks) -> Result<Put, SpawnError> {
        let journal = self.journal.clone();
        let _locked: Locked<'_> = journal.lock().map_err(setup("lock the record of runs"))?;
        let mut all = Put::default();
        let marks = &self.record.marks;
        for mark in marks.iter().filter(|mark| !self.record.stays(mark)) {
            let put = tree::put(&self.disk, mark, marks, self.record.sid(mark));
            all.add(checks.settle(put, || Put::missing(mark.path.clone())).map_err(not_marked(mark))?);
        }
        for mark in marks.iter().filter(|mark| is_kept_open(mark, marks)) {
            let open = self.disk.keep_open(&mark.path);
            self.kept_open.push(open.map_err(setup(format!("keep `{}` open", mark.path)))?);
        }
        all.add(self.private_directories(plan, checks)?);
        Ok(all)
    }

    /// What lies in this run's own directory: a directory for each private one, and the files that are tried.
    fn private_directories(&self, plan: &WindowsPlan, checks: Checks) -> Result<Put, SpawnError> {
        let private = &self.private;
        let failed = || setup(format!("make `{private}`"));
        self.disk.create_directory(private).map_err(failed())?;
        let mut all = Put::default();
        for Own { name, kind, grant, label } in own_objects(plan) {
            let path = private.join(name.as_str()).map_err(io::Error::other).map_err(failed())?;
            match kind {
                OwnKind::File => self.disk.create_file(&path),
                OwnKind::Directory => self.disk.create_directory(&path),
            }
            .map_err(failed())?;
            if label.is_none() {
                continue;
            }
            let mark = Mark { path: path.clone(), grant, label, placeholder: false };
            // They go with the run, and so do their entries: they name its policy and no tree.
            let put = tree::put(&self.disk, &mark, &[], &plan.capability);
            all.add(checks.settle(put, || Put::missing(path.clone())).map_err(failed())?);
        }
        Ok(all)
    }
}

impl<D: Disk> Marks<D> {
    /// What tells this run from every other.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The environment, with the private directories in the place of those they stand for.
    pub(crate) fn environment(&self, plan: &WindowsPlan) -> Vec<(String, String)> {
        let mut variables = plan.environment.clone();
        for (number, scratch) in plan.scratch.iter().enumerate() {
            let path = self.private.join(scratch_name(number)).ok();
            let text = path.as_ref().and_then(|path| path.as_raw().as_str()).unwrap_or_default();
            for (name, value) in &mut variables {
                if scratch.variables.contains(name) {
                    text.clone_into(value);
                }
            }
        }
        variables
    }

    /// A file in the run's own directory.
    pub(crate) fn own_file(&self, name: &str) -> Option<AbsPath> {
        self.private.join(name).ok()
    }

    /// Trees on which marks of earlier runs stay, and objects from which they could not be taken off.
    pub(crate) fn known_roots(&self) -> io::Result<Vec<AbsPath>> {
        Ok(self.journal.roots()?.into_iter().map(|root| root.path).chain(self.left_open.iter().cloned()).collect())
    }

    /// Takes everything off.
    pub(crate) fn take_off(&mut self) -> io::Result<()> {
        self.kept_open.clear();
        let Some(entry) = self.entry.take() else { return Ok(()) };
        let disk = &self.disk;
        let before = if self.is_put { Before::Run } else { Before::RefusedStart };
        self.journal.lock()?.finish(entry, &self.record, |record, living| take_off(disk, record, living, before))
    }
}

impl<D: Disk> Drop for Marks<D> {
    fn drop(&mut self) {
        // What can't be taken off now stays in the journal, and the next start does it.
        self.take_off().ok();
    }
}

/// What this run is about to do, if no living run needs it otherwise.
fn record<D: Disk>(
    disk: &D,
    plan: &WindowsPlan,
    journal: &Journal,
    (id, roots): (&str, Vec<Root>),
    checks: Checks,
    living: &[Record],
) -> Result<Record, SpawnError> {
    let private = AbsPath::from_path(&journal.directory().join(id));
    let private = private.map_err(io::Error::other).map_err(setup("name a directory"))?;
    let marks = if roots.is_empty() { raised(&plan.marks) } else { plan.marks.clone() };
    let capability = plan.capability.clone();
    let mut record =
        Record { capability, marks, roots, earlier_labels: Vec::new(), private: Some(private), left: None };
    if let Some(path) = living.iter().find_map(|other| record.conflict(other)) {
        return Err(SpawnError::Unenforceable(Unenforceable {
            what: format!("the rule for `{path}`"),
            why: String::from("a sandbox that is running needs it to be otherwise"),
            remedy: String::from("wait until that command has ended"),
        }));
    }
    let mut earlier_labels = Vec::new();
    for mark in record.marks.iter().filter(|mark| !record.stays(mark)) {
        let earlier = tree::earlier_labels(disk, mark, &record.marks);
        earlier_labels.extend(checks.settle(earlier, Vec::new).map_err(not_marked(mark))?);
    }
    record.earlier_labels = earlier_labels;
    record.join(living);
    Ok(record)
}

/// A tree with a low label can be written by every sandbox if its list lets all of their tokens write.
fn refuse_open_to_all<D: Disk>(disk: &D, plan: &WindowsPlan) -> Result<(), SpawnError> {
    for mark in plan.marks.iter().filter(|mark| mark.opens()) {
        if tree::is_path_open_to_all(disk, &mark.path).map_err(not_marked(mark))? {
            let path = &mark.path;
            return Err(SpawnError::Unenforceable(Unenforceable {
                what: format!("the rule for `{path}`"),
                why: String::from(
                    "its access control list lets `Everyone` write, so every sandboxed command could write it",
                ),
                remedy: format!(
                    "take that entry off: `icacls \"{path}\" /inheritance:d /remove:g Everyone`, or use a directory of \
                     your own profile"
                ),
            }));
        }
    }
    Ok(())
}

fn not_marked(mark: &Mark) -> impl FnOnce(io::Error) -> SpawnError {
    let path = mark.path.clone();
    move |source| {
        if source.kind() != io::ErrorKind::PermissionDenied {
            return setup(format!("mark `{path}`"))(source);
        }
        SpawnError::Unenforceable(Unenforceable {
            what: format!("the rule for `{path}`"),
            why: String::from("you may not change the access control list of it, or of something that lies in it"),
            remedy: format!("use a directory of your own, or take this one over: `takeown /f \"{path}\" /r`"),
        })
    }
}

fn scratch_name(number: usize) -> String {
    format!("tmp-{number}")
}

/// A file that the command must not be able to write, by its level and by its list.
pub(crate) const CANARY: &str = "canary";
/// A file that the command must not be able to write, by its list alone.
pub(crate) const LOW_CANARY: &str = "low-canary";
/// A file that the command has to be able to write.
pub(crate) const CONTROL: &str = "control";

/// Something in a run's own directory.
struct Own {
    name: String,
    kind: OwnKind,
    grant: Option<Grant>,
    label: Option<Label>,
}

enum OwnKind {
    File,
    Directory,
}

fn own_objects(plan: &WindowsPlan) -> Vec<Own> {
    if plan.token.restricting.is_empty() {
        return Vec::new();
    }
    let (low, write) = (Some(Label::Low), Some(Grant::Write));
    let file = |name: &str, grant, label| Own { name: name.to_owned(), kind: OwnKind::File, grant, label };
    let scratch = (0..plan.scratch.len()).map(|number| Own {
        name: scratch_name(number),
        kind: OwnKind::Directory,
        grant: write,
        label: low,
    });
    let tried = [file(CANARY, None, None), file(LOW_CANARY, None, low), file(CONTROL, write, low)];
    tried.into_iter().chain(scratch).collect()
}

/// Unlike that of any other run, also of other programs.
pub(crate) fn new_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{}-{now}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

#[cfg(test)]
#[path = "marking_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "denied_tests.rs"]
mod denied_tests;
