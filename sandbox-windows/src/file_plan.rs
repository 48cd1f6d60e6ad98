//! From file rules to marks on files: which trees can be written, and what is taken back inside them.

use std::collections::BTreeSet;

use stockade_protocol::{AbsPath, Access, FileRules, FileTarget, RuleSource};
use stockade_sandboxing::{HostFiles, Kind, Unenforceable};

use crate::host::{Drive, DriveKind};
use crate::mark::{Grant, Label, Mark};

/// What has to be done to files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FilePlan {
    /// In the order in which they are put on: a directory comes before what lies in it.
    pub(crate) marks: Vec<Mark>,
    /// Directories in whose place the command gets a private one.
    pub(crate) scratch: Vec<AbsPath>,
    /// Every drive can be written and nothing is taken back, so that there is nothing to confine.
    pub(crate) everything: bool,
    /// What can't be held.
    pub(crate) warnings: Vec<String>,
}

/// Compiles rules whose links have been resolved.
pub(crate) fn compile(files: &FileRules, drives: &[Drive], host: &dyn HostFiles) -> Result<FilePlan, Unenforceable> {
    let keys = keys(files, host)?;
    let is_root = |path: &AbsPath| path.parent().is_none();
    let writes_all = drives.iter().all(|drive| files.access(&drive.root) == Access::Write);
    if writes_all && keys.iter().all(|(_, access)| *access == Access::Write) {
        return Ok(FilePlan { everything: true, ..FilePlan::default() });
    }
    let warnings = host.matches(&files.globs())?.warnings(files);
    let mut plan = FilePlan { warnings, ..FilePlan::default() };
    for drive in drives {
        plan.drive(files, drive)?;
    }
    for (path, access) in keys {
        if !is_root(&path) && !may_be_left_out(files, &path, host) {
            plan.place(files, &path, access, host)?;
        }
    }
    plan.pin(files, host);
    plan.marks.sort_by(|a, b| (a.path.depth(), &a.path, a.grant).cmp(&(b.path.depth(), &b.path, b.grant)));
    plan.marks.dedup();
    Ok(plan)
}

/// Every path at which the access may change, outermost first.
fn keys(files: &FileRules, host: &dyn HostFiles) -> Result<Vec<(AbsPath, Access)>, Unenforceable> {
    let matches = host.matches(&files.globs())?.matches;
    let mut keys: BTreeSet<(usize, AbsPath)> = matches.into_iter().map(|path| (path.depth(), path)).collect();
    for rule in files {
        if let FileTarget::Path(path) = &rule.target {
            keys.insert((path.depth(), path.clone()));
        }
    }
    Ok(keys.into_iter().map(|(_, path)| (path.clone(), files.access(&path))).collect())
}

/// A credential file in a directory that does not exist holds no secret yet, and to keep the name
/// from being made would take the whole directory from the command.
fn may_be_left_out(files: &FileRules, path: &AbsPath, host: &dyn HostFiles) -> bool {
    let is_mask = files.deciding(path).is_some_and(|rule| rule.source == RuleSource::CredentialMask);
    is_mask && path.parent().is_some_and(|parent| host.kind(&parent).is_none())
}

impl FilePlan {
    fn drive(&mut self, files: &FileRules, drive: &Drive) -> Result<(), Unenforceable> {
        let root = &drive.root;
        match (drive.kind, files.access(root)) {
            (DriveKind::Remote, _) => self.warnings.push(format!(
                "`{root}` is on a server, which does not see the sandbox: the command can do there what the user can"
            )),
            (DriveKind::ReadOnly, Access::Read | Access::Write) => {}
            (DriveKind::WithoutLists, access) if access != Access::Write => {
                return Err(refuse(
                    root,
                    "its file system has no access control lists, so everything on it could be written",
                    "take the drive out, format it with NTFS, or make all of it writable",
                ));
            }
            (_, Access::Write) if drive.kind == DriveKind::WithLists => {
                return Err(refuse(
                    root,
                    "a whole drive can't be marked writable",
                    "name the directories that may be written",
                ));
            }
            (_, Access::Read | Access::Write) => {}
            (_, Access::None | Access::Scratch) => {
                return Err(refuse(
                    root,
                    "what other users of this machine may read can't be kept from a restricted token",
                    "let the drive be read, and deny single directories",
                ));
            }
        }
        Ok(())
    }

    /// Marks one path, if something changes there.
    fn place(
        &mut self,
        files: &FileRules,
        path: &AbsPath,
        access: Access,
        host: &dyn HostFiles,
    ) -> Result<(), Unenforceable> {
        let around = path.parent().map_or(Access::None, |parent| files.access(&parent));
        let kind = host.kind(path);
        if access == Access::Scratch {
            self.scratch.push(path.clone());
        }
        if access != around {
            refuse_share(path)?;
        }
        let hidden = |access| matches!(access, Access::None | Access::Scratch);
        match (around, access, kind) {
            (_, Access::Scratch, Some(Kind::File | Kind::Symlink)) => {
                Err(refuse(path, "is a file", "a private directory can stand only in the place of a directory"))
            }
            (around, Access::None | Access::Scratch, _) if hidden(around) => Ok(()),
            (around, access, _) if around == access => Ok(()),
            (_, Access::Write, None) => Err(refuse(path, "does not exist", "create it, or take it out of the policy")),
            (_, Access::Write, Some(_)) => self.mark(path, Some(Grant::Write), Some(Label::Low)),
            (Access::Write, Access::Read, Some(_)) => self.mark(path, Some(Grant::Protect), None),
            (_, Access::Read, None) if around != Access::Write => Ok(()),
            (_, Access::Read, Some(_)) => self.mark(path, None, Some(Label::Plain)),
            (_, Access::None | Access::Scratch, Some(_)) => self.mark(path, Some(Grant::Deny), Some(Label::Sealed)),
            // Nothing is there, and nothing can be put there.
            (Access::None | Access::Scratch | Access::Read, Access::None | Access::Scratch, None) => Ok(()),
            (_, Access::None | Access::Scratch | Access::Read, None) => self.hold(path, access, host),
        }
    }

    fn mark(&mut self, path: &AbsPath, grant: Option<Grant>, label: Option<Label>) -> Result<(), Unenforceable> {
        self.marks.push(Mark { path: path.clone(), grant, label, placeholder: false });
        Ok(())
    }

    /// Keeps a name from being made by the command.
    fn hold(&mut self, path: &AbsPath, access: Access, host: &dyn HostFiles) -> Result<(), Unenforceable> {
        if path.parent().and_then(|parent| host.kind(&parent)) != Some(Kind::Directory) {
            return Err(refuse(path, "does not exist, and neither does its directory", "create the directory first"));
        }
        let (grant, label) = match access {
            Access::Read | Access::Write => (Grant::Protect, None),
            Access::None | Access::Scratch => (Grant::Deny, Some(Label::Sealed)),
        };
        self.marks.push(Mark { path: path.clone(), grant: Some(grant), label, placeholder: true });
        Ok(())
    }

    /// Keeps each directory between a writable tree's top and a mark inside it where it is: what is
    /// marked keeps its mark wherever it is moved, but its name could be taken by something else.
    fn pin(&mut self, files: &FileRules, host: &dyn HostFiles) {
        let tops: Vec<AbsPath> = self.marks.iter().map(|mark| mark.path.clone()).collect();
        let mut pins = BTreeSet::new();
        for mark in &self.marks {
            let between = mark.path.ancestors().skip(1).take_while(|above| !tops.iter().any(|top| top == above));
            pins.extend(between.filter(|above| files.access(above) == Access::Write && host.kind(above).is_some()));
        }
        let pin = |path| Mark { path, grant: Some(Grant::Pin), label: None, placeholder: false };
        self.marks.extend(pins.into_iter().map(pin));
    }
}

/// A server keeps its own lists and sees the user, not the sandbox.
fn refuse_share(path: &AbsPath) -> Result<(), Unenforceable> {
    if path.as_raw().as_bytes().starts_with(br"\\") {
        return Err(refuse(path, "is on a server, which does not see the sandbox", "use a directory on a local drive"));
    }
    Ok(())
}

fn refuse(path: &AbsPath, why: &str, remedy: &str) -> Unenforceable {
    Unenforceable { what: format!("the rule for `{path}`"), why: why.to_owned(), remedy: remedy.to_owned() }
}
