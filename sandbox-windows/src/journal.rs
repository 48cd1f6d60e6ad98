//! The record of marks on files and of their runs, so that they come off again whatever happens.
//!
//! Before a run puts anything on a file it writes down what, and it holds a lock on that record for as
//! long as it lives. A record without a lock belongs to a run that was killed: the next start takes
//! off what it names. One lock over all of this orders runs that begin and end at the same time.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use stockade_protocol::AbsPath;

use crate::Sid;
use crate::mark::{Label, Mark};
use crate::root_record::Root;

/// What one run has put on files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) capability: Sid,
    pub(crate) marks: Vec<Mark>,
    /// Trees whose entries and labels stay when the run ends.
    #[serde(default)]
    pub(crate) roots: Vec<Root>,
    /// Labels that stood there before and are put back.
    pub(crate) earlier_labels: Vec<EarlierLabel>,
    /// The run's own directory, with what it may write to as if it were temporary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) private: Option<AbsPath>,
    /// Once marks were taken off: the objects that they could not be taken off. `None` before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) left: Option<Vec<LeftObject>>,
}

/// An object that still bears a mark of a run that has ended, or may do so: it could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeftObject {
    pub(crate) path: AbsPath,
    /// The path of the mark.
    pub(crate) mark: AbsPath,
}

/// The runs before this one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Recovered {
    /// Those that are still alive.
    pub(crate) living: Vec<Record>,
    /// Those that have ended and whose marks could not all be taken off.
    pub(crate) left: Vec<Record>,
}

/// A label that was there before a mark replaced it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EarlierLabel {
    pub(crate) path: AbsPath,
    pub(crate) flags: u8,
    pub(crate) mask: u32,
    pub(crate) level: Sid,
}

impl Record {
    fn root(&self, mark: &Mark) -> Option<&Root> {
        self.roots.iter().find(|root| mark.opens() && root.path == mark.path)
    }

    /// The identifier in a mark's entries: the tree's if they stay, otherwise the policy's.
    pub(crate) fn sid(&self, mark: &Mark) -> &Sid {
        self.root(mark).map_or(&self.capability, |root| &root.sid)
    }

    /// The mark at a path.
    pub(crate) fn mark(&self, path: &AbsPath) -> Option<&Mark> {
        self.marks.iter().find(|mark| mark.path == *path)
    }

    /// The objects that still bear marks, or may do so.
    pub(crate) fn left_objects(&self) -> impl Iterator<Item = &LeftObject> {
        self.left.iter().flatten()
    }

    /// Those of them that can be written by a command.
    pub(crate) fn left_open(&self) -> impl Iterator<Item = &AbsPath> {
        let opens = |left: &&LeftObject| self.mark(&left.mark).is_none_or(Mark::opens);
        self.left_objects().filter(opens).map(|left| &left.path)
    }

    /// Whether a mark stays when the run ends.
    pub(crate) fn stays(&self, mark: &Mark) -> bool {
        self.root(mark).is_some()
    }

    /// The innermost mark that speaks of a path.
    fn covering(&self, path: &AbsPath) -> Option<&Mark> {
        let covering = self.marks.iter().filter(|mark| mark.is_tree() && path.starts_with(&mark.path));
        covering.max_by_key(|mark| mark.path.depth())
    }

    /// The label that this run needs at a path.
    pub(crate) fn label_at(&self, path: &AbsPath) -> Option<Label> {
        self.covering(path).and_then(|mark| mark.label)
    }

    /// A path that two runs need different labels on. An object has only one.
    pub(crate) fn conflict<'a>(&'a self, other: &'a Self) -> Option<&'a AbsPath> {
        self.marks.iter().chain(&other.marks).map(|mark| &mark.path).find(|path| {
            let labels = self.label_at(path).zip(other.label_at(path));
            labels.is_some_and(|(own, theirs)| own != theirs)
        })
    }

    /// Takes over what a living run would else remove from under this one.
    pub(crate) fn join(&mut self, living: &[Self]) {
        for mark in &mut self.marks {
            let held = |other: &Self| other.marks.iter().any(|theirs| theirs.placeholder && theirs.path == mark.path);
            mark.placeholder |= living.iter().any(held);
        }
        for earlier in living.iter().flat_map(|other| &other.earlier_labels) {
            if self.label_at(&earlier.path).is_some() && !self.earlier_labels.contains(earlier) {
                self.earlier_labels.push(earlier.clone());
            }
        }
    }
}

/// What runs that are still alive need of what another one would take off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Living<'a>(pub(crate) &'a [Record]);

impl Living<'_> {
    /// Whether entries that name an identifier are needed: of a policy, or of a tree that can be written.
    pub(crate) fn need_entries_of(self, sid: &Sid) -> bool {
        self.0.iter().any(|record| record.marks.iter().any(|mark| record.sid(mark) == sid))
    }

    pub(crate) fn need_label(self, path: &AbsPath, label: Label) -> bool {
        self.0.iter().any(|record| record.label_at(path) == Some(label))
    }

    pub(crate) fn need_placeholder(self, path: &AbsPath) -> bool {
        self.0.iter().any(|record| record.marks.iter().any(|mark| mark.path == *path))
    }
}

/// The directory of records.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    directory: PathBuf,
}

/// The lock over all records.
#[derive(Debug)]
pub(crate) struct Locked<'a> {
    journal: &'a Journal,
    _lock: File,
}

/// A run's own record, which is held until it is finished or the program ends.
#[derive(Debug)]
pub(crate) struct Entry {
    id: String,
    lock: File,
}

impl Journal {
    /// In this directory, which is made if need be.
    pub(crate) fn open(directory: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&directory)?;
        Ok(Self { directory })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Waits until no other process begins, ends or recovers a run.
    pub(crate) fn lock(&self) -> io::Result<Locked<'_>> {
        let lock = open_lock(&self.directory.join("all.lock"))?;
        lock.lock()?;
        Ok(Locked { journal: self, _lock: lock })
    }

    pub(crate) fn file(&self, id: &str, ending: &str) -> PathBuf {
        self.directory.join(format!("{id}.{ending}"))
    }
}

pub(crate) fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

impl Locked<'_> {
    /// Takes off what runs have left that are no longer alive. `take_off` gives the record of what could not be taken off:
    /// it stays in the place of the run's own, for the next start.
    pub(crate) fn recover(
        &self,
        mut take_off: impl FnMut(&Record, Living<'_>) -> Option<Record>,
    ) -> io::Result<Recovered> {
        let (mut living, mut ended) = (Vec::new(), Vec::new());
        for id in self.ids()? {
            let lock = open_lock(&self.journal.file(&id, "lock"))?;
            match lock.try_lock() {
                Ok(()) => ended.push(Entry { id, lock }),
                Err(TryLockError::WouldBlock) => living.extend(self.read(&id)?),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        let mut left = Vec::new();
        for entry in ended {
            let record = self.read(&entry.id)?;
            let rest = record.as_ref().and_then(|record| take_off(record, Living(&living)));
            self.settle(entry, record.as_ref(), rest.as_ref())?;
            left.extend(rest);
        }
        Ok(Recovered { living, left })
    }

    /// Writes a record down before anything of it is done.
    pub(crate) fn begin(&self, id: &str, record: &Record) -> io::Result<Entry> {
        let lock = open_lock(&self.journal.file(id, "lock"))?;
        lock.lock()?;
        self.write(id, record)?;
        Ok(Entry { id: id.to_owned(), lock })
    }

    fn write(&self, id: &str, record: &Record) -> io::Result<()> {
        let (new, path) = (self.journal.file(id, "new"), self.journal.file(id, "json"));
        let mut file = File::create(&new)?;
        file.write_all(serde_json::to_string(record)?.as_bytes())?;
        file.sync_all()?;
        drop(file);
        fs::rename(new, path)
    }

    /// Takes off what a run has put on. What could not be taken off stays on record for the next start.
    pub(crate) fn finish(
        &self,
        entry: Entry,
        record: &Record,
        take_off: impl FnOnce(&Record, Living<'_>) -> Option<Record>,
    ) -> io::Result<()> {
        let mut living = Vec::new();
        for id in self.ids()?.into_iter().filter(|id| *id != entry.id) {
            match open_lock(&self.journal.file(&id, "lock"))?.try_lock() {
                Err(TryLockError::WouldBlock) => living.extend(self.read(&id)?),
                Ok(()) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        let rest = take_off(record, Living(&living));
        self.settle(entry, Some(record), rest.as_ref())
    }

    /// Replaces the record of a run that has ended by what is left of it.
    fn settle(&self, entry: Entry, record: Option<&Record>, rest: Option<&Record>) -> io::Result<()> {
        match rest {
            None => self.remove(entry),
            Some(rest) if record == Some(rest) => Ok(()),
            Some(rest) => self.write(&entry.id, rest),
        }
    }

    /// Every run that has a lock or a record.
    fn ids(&self) -> io::Result<Vec<String>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.journal.directory)? {
            let name = entry?.file_name();
            let id = name.to_str().and_then(|name| name.strip_suffix(".json").or(name.strip_suffix(".lock")));
            ids.extend(id.filter(|id| *id != "all").map(String::from));
        }
        ids.sort();
        ids.dedup();
        Ok(ids)
    }

    /// None if the run was killed before it did anything. A record that can't be read is an error: what is still on files
    /// would not be known.
    fn read(&self, id: &str) -> io::Result<Option<Record>> {
        let path = self.journal.file(id, "json");
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let unreadable =
            |error| io::Error::new(io::ErrorKind::InvalidData, format!("record `{}`: {error}", path.display()));
        serde_json::from_str(&text).map(Some).map_err(unreadable)
    }

    fn remove(&self, entry: Entry) -> io::Result<()> {
        for ending in ["new", "json"] {
            remove_if_there(&self.journal.file(&entry.id, ending))?;
        }
        drop(entry.lock);
        remove_if_there(&self.journal.file(&entry.id, "lock"))
    }
}

pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Identity;
    use crate::mark::Grant;

    fn mark(path: &str, grant: Grant, label: Option<Label>) -> Mark {
        Mark { path: path.parse().unwrap(), grant: Some(grant), label, placeholder: false }
    }

    fn root(path: &AbsPath) -> Root {
        let identity = Identity { volume: 1, index: 2 };
        Root { path: path.clone(), sid: Sid::root(path, identity), identity }
    }

    fn record(name: &str, marks: Vec<Mark>) -> Record {
        let (capability, earlier_labels) = (Sid::capability(name), Vec::new());
        let roots = marks.iter().filter(|mark| mark.opens()).map(|mark| root(&mark.path)).collect();
        Record { capability, marks, roots, earlier_labels, private: None, left: None }
    }

    fn workspace() -> Record {
        record(
            "workspace",
            vec![mark(r"C:\w", Grant::Write, Some(Label::Low)), mark(r"C:\w\.git", Grant::Protect, None)],
        )
    }

    #[test]
    fn what_a_killed_run_has_left_is_taken_off_once() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path().join("runs")).unwrap();
        let dead = journal.lock().unwrap().begin("1-a", &workspace()).unwrap();
        let alive = journal.lock().unwrap().begin("2-b", &record("b", Vec::new())).unwrap();
        let recover = || {
            let mut taken = Vec::new();
            let recovered = journal.lock().unwrap().recover(|record, living| {
                taken.push((record.clone(), living.0.len()));
                None
            });
            (recovered.unwrap().living.len(), taken)
        };
        assert_eq!(recover(), (2, Vec::new()), "nothing of the living is touched");
        drop(dead);
        assert_eq!(recover(), (1, vec![(workspace(), 1)]));
        assert_eq!(recover(), (1, Vec::new()));
        journal.lock().unwrap().finish(alive, &record("b", Vec::new()), |_, _| None).unwrap();
        assert_eq!(fs::read_dir(journal.directory()).unwrap().count(), 1, "only the lock over all is left");
    }

    #[test]
    fn what_can_not_be_taken_off_now_is_taken_off_later() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path().to_owned()).unwrap();
        let entry = journal.lock().unwrap().begin("1", &workspace()).unwrap();
        let path: AbsPath = r"C:\w\.git".parse().unwrap();
        let rest = |record: &Record, _: Living<'_>| {
            let left = vec![LeftObject { path: path.clone(), mark: path.clone() }];
            Some(Record { left: Some(left), ..record.clone() })
        };
        let locked = journal.lock().unwrap();
        locked.finish(entry, &workspace(), rest).unwrap();
        for _ in 0..2 {
            let recovered = locked.recover(rest).unwrap();
            assert_eq!((recovered.living.len(), recovered.left.len()), (0, 1), "other runs start all the same");
            assert_eq!(recovered.left[0].left_objects().count(), 1);
            assert_eq!(recovered.left[0].left_open().count(), 0, "it only takes something away");
        }
        assert_eq!(locked.recover(|_, _| None).unwrap(), Recovered::default());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing but the lock is there");
    }

    #[test]
    fn a_record_that_can_not_be_read_stops_everything() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path().to_owned()).unwrap();
        fs::write(directory.path().join("1.json"), "{").unwrap();
        let error = journal.lock().unwrap().recover(|_, _| None).unwrap_err();
        assert!(error.to_string().contains("1.json"), "{error}");
    }

    /// Killed at every moment of a start: the record is there in full or nothing was done yet.
    #[test]
    fn half_a_record_counts_as_none() {
        let directory = tempfile::tempdir().unwrap();
        let journal = Journal::open(directory.path().to_owned()).unwrap();
        fs::write(directory.path().join("1.lock"), "").unwrap();
        fs::write(directory.path().join("1.new"), "{\"capabi").unwrap();
        journal.lock().unwrap().recover(|_, _| panic!("there was nothing to take off")).unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn runs_at_the_same_time_need_the_same_labels() {
        let sealed = record("s", vec![mark(r"C:\w\secret", Grant::Deny, Some(Label::Sealed))]);
        let inner = record("i", vec![mark(r"C:\w\sub", Grant::Write, Some(Label::Low))]);
        assert_eq!(workspace().conflict(&sealed), Some(&r"C:\w\secret".parse().unwrap()));
        assert_eq!(sealed.conflict(&workspace()), Some(&r"C:\w\secret".parse().unwrap()));
        assert_eq!(workspace().conflict(&inner), None);
        assert_eq!(workspace().conflict(&workspace()), None);
        let living = [inner];
        let living = Living(&living);
        assert!(living.need_label(&r"C:\w\sub\x".parse().unwrap(), Label::Low));
        assert!(!living.need_label(&r"C:\w\x".parse().unwrap(), Label::Low));
        let root = |text: &str| root(&text.parse().unwrap()).sid;
        assert!(living.need_entries_of(&root(r"C:\w\sub")) && !living.need_entries_of(&root(r"C:\w")));
        let living = [sealed];
        assert!(Living(&living).need_entries_of(&Sid::capability("s")));
    }

    #[test]
    fn a_name_that_another_run_holds_is_held_on() {
        let mut first = workspace();
        first.marks[1].placeholder = true;
        let mut second = workspace();
        second.join(&[first]);
        assert!(second.marks[1].placeholder && !second.marks[0].placeholder);
        assert!(Living(&[second]).need_placeholder(&r"C:\w\.git".parse().unwrap()));
    }
}
