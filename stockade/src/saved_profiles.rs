//! Saves the profiles of "always", and finds those that were saved for a workspace.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use stockade_config::{
    NamedBy, PermissionProfile, PermissionProfiles, ProfileContext, ProfileOrigin, Settings, proposed_profile,
    save_profile,
};
use stockade_core::{ProfileStore, SavedGrant, Session};
use stockade_protocol::{AbsPath, Access, Argv, HostPaths, ProfileAmendment, RawText};

use crate::assembly::variable;
use crate::profiles::Setting;

/// The user's profiles, as they were when the session was assembled.
pub(crate) struct SavedProfiles {
    /// The directory of the user's settings.
    pub(crate) directory: PathBuf,
    pub(crate) profiles: PermissionProfiles,
    pub(crate) settings: Settings,
    pub(crate) homes: Vec<AbsPath>,
    pub(crate) workspace: Vec<AbsPath>,
    pub(crate) environment: BTreeMap<RawText, RawText>,
}

impl fmt::Debug for SavedProfiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SavedProfiles").field("directory", &self.directory).finish_non_exhaustive()
    }
}

impl ProfileStore for SavedProfiles {
    fn propose(&self, command: &Argv, write: &[AbsPath]) -> Option<ProfileAmendment> {
        let amendment = proposed_profile(&self.directory, command, &self.workspace, write)?;
        // What no profile may grant is not offered.
        let file = amendment.file.to_host_path()?;
        let profile = PermissionProfile::parse(&amendment.text()?, ProfileOrigin::User(file.clone()), &file).ok()?;
        let own = |name: &str| variable(&self.environment, name);
        let host = |paths: &[AbsPath]| paths.iter().filter_map(AbsPath::to_host_path).collect::<Vec<PathBuf>>();
        let context = ProfileContext {
            variable: &own,
            homes: host(&self.homes),
            writable: [host(&self.workspace), host(&self.settings.writable_roots)].concat(),
            settings: &self.settings,
        };
        let granted = self.settings.fitting(&self.profiles.grant(&profile, &context).ok()?).permissions;
        write.iter().all(|path| granted.access(path) == Access::Write).then_some(amendment)
    }

    fn save(&self, amendment: &ProfileAmendment) -> Result<(), String> {
        save_profile(amendment).map_err(|error| crate::error::with_causes(&error))
    }
}

/// The grants that were saved for this workspace. One that can't be granted any more is left out, with a notice.
pub(crate) fn saved_grants(
    setting: &Setting<'_>,
    settings: &Settings,
    session: &Session,
    host: &HostPaths,
    notices: &mut Vec<String>,
) -> Vec<SavedGrant> {
    let mut found = Vec::new();
    for profile in setting.profiles.used() {
        let name = profile.name();
        for used in profile.used_for().iter().filter(|used| used.workspace == host.workspace_roots) {
            let by = NamedBy::User(format!("`{}`", profile.origin()));
            match setting.resolve(settings, session, (name, &by), notices) {
                Ok(grant) => {
                    let grant = settings.fitting(&grant);
                    let (permissions, directories) = (grant.permissions, grant.directories);
                    found.push(SavedGrant { command: used.command.clone(), permissions, directories });
                }
                Err(error) => notices.push(format!("the saved profile `{name}` is not used: {error}")),
            }
        }
    }
    found
}
