//! A host that is the same on every machine, and profiles for it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use stockade_protocol::{AbsPath, Argv, Glob, Invalid, NetworkPolicy, Permissions};
use stockade_sandbox_macos::{Seatbelt, SeatbeltPlan};
use stockade_sandboxing::{CommandSpec, Found, HostFiles, Kind, rules};

use crate::evaluator::{Object, READINGS, Rules};

/// A host on which every path is a directory but those that are missing, and globs find what is listed.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub(crate) missing: BTreeSet<AbsPath>,
    pub(crate) found: Vec<AbsPath>,
    /// A link, and where it leads.
    pub(crate) link: Option<(AbsPath, AbsPath)>,
}

impl HostFiles for World {
    fn kind(&self, path: &AbsPath) -> Option<Kind> {
        (!self.missing.iter().any(|missing| path.starts_with(missing))).then_some(Kind::Directory)
    }

    fn canonical(&self, path: &AbsPath) -> AbsPath {
        let Some((link, target)) = self.link.as_ref().filter(|(link, _)| path.starts_with(link)) else {
            return path.clone();
        };
        path.components().skip(link.depth()).fold(target.clone(), |real, name| real.join(name.to_vec()).unwrap())
    }

    fn matches(&self, globs: &[&Glob]) -> Result<Found, Invalid> {
        let matches = self.found.iter().filter(|path| globs.iter().any(|glob| glob.matches(path)));
        Ok(Found { matches: matches.cloned().collect(), ..Found::default() })
    }

    fn has_other_names(&self, _: &AbsPath) -> bool {
        false
    }

    fn link_target(&self, _: &AbsPath) -> Option<PathBuf> {
        None
    }
}

pub(crate) fn path(text: &str) -> AbsPath {
    text.parse().unwrap()
}

pub(crate) fn files(lines: &[&str]) -> Permissions {
    Permissions { files: rules(lines), ..Permissions::default() }
}

pub(crate) fn with_network(lines: &[&str], network: NetworkPolicy) -> Permissions {
    Permissions { network, ..files(lines) }
}

pub(crate) fn command() -> CommandSpec {
    CommandSpec {
        argv: Argv::parse(["make", "test"]).unwrap(),
        cwd: path("/w"),
        environment: BTreeMap::from([("PATH".into(), "/usr/bin:/bin".into())]),
        process: Default::default(),
    }
}

/// The private directories of a run, as long as the system's own names make them.
pub(crate) const SCRATCH: &str = "/private/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T/s-Ab3dE9";
pub(crate) const CACHE: &str = "/private/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/C/s-Ab3dE9";
/// Where the system keeps the user's temporary files.
pub(crate) const USER_TEMPORARY: &str = "/private/var/folders/zz/zyxvpxvq6csfxvn_n0000000000000/T";

/// A profile, ready to be asked.
#[derive(Debug)]
pub(crate) struct Asked(Rules);

/// Systems by the operations that they do not know: none, and the newest.
const SYSTEMS: [&[&str]; 2] = [&[], &["file-clone"]];

impl Asked {
    pub(crate) fn of(plan: &SeatbeltPlan) -> Self {
        let mut parameters: BTreeMap<String, String> = plan
            .profile()
            .parameters()
            .iter()
            .map(|parameter| (parameter.name.clone(), parameter.value.clone()))
            .collect();
        parameters.insert("RUN".to_owned(), "dev.stockade.run.7".to_owned());
        for (name, value) in [("SCRATCH", SCRATCH), ("CACHE", CACHE)] {
            if plan.profile().text().contains(&format!("\"{name}\"")) {
                parameters.insert(name.to_owned(), value.to_owned());
            }
        }
        Self(Rules::parse(plan.profile().text(), &parameters).unwrap())
    }

    /// A profile for permissions on the simplest host.
    pub(crate) fn new(permissions: &Permissions) -> Self {
        Self::of(&Seatbelt::new().plan_on(&command(), permissions, None, &World::default()).unwrap())
    }

    /// The rules themselves.
    pub(crate) fn rules(&self) -> &Rules {
        &self.0
    }

    /// Whether an operation is allowed: the same under every reading and on every system.
    pub(crate) fn allows(&self, operation: &str, object: &Object<'_>) -> bool {
        let ask = |reading, unknown| self.0.allows(reading, unknown, operation, object);
        let answers: BTreeSet<bool> =
            READINGS.into_iter().flat_map(|reading| SYSTEMS.map(|unknown| ask(reading, unknown))).collect();
        assert_eq!(answers.len(), 1, "{operation} {object:?} depends on how the profile is read");
        answers.contains(&true)
    }

    pub(crate) fn reads(&self, path: &str) -> bool {
        self.allows("file-read-data", &Object::file(path))
    }

    pub(crate) fn writes(&self, path: &str) -> bool {
        self.allows("file-write-data", &Object::file(path))
    }
}
