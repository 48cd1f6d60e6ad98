//! Profiles that answers save: where their files are, for which command and workspace they count, and how they are written.

use std::fs;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use stockade_protocol::{AbsPath, Argv, ProfileAmendment};

use super::DIRECTORY;
use super::form::UseForm;
use super::set::MOST_FILES;
use crate::ConfigError;
use crate::source::Source;
use crate::store::{Lock, replace_private};

/// No profile is saved beyond these, so that a person can still add some by hand.
const MOST_SAVED: usize = MOST_FILES / 2;

/// The command and the workspace that a profile counts for without being named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileUse {
    /// The command, to the last word.
    pub command: Argv,
    /// The directories of the workspace, all of them.
    pub workspace: Vec<AbsPath>,
}

/// Reads the uses of a profile.
pub(super) fn uses(source: &Source<'_>, forms: &[UseForm]) -> Result<Vec<ProfileUse>, ConfigError> {
    let parse = |(index, form): (usize, &UseForm)| {
        let key = format!("used_for[{index}]");
        let words = source.list(&form.command, &format!("{key}.command"), |word| Ok::<_, String>(word.to_owned()))?;
        let command = Argv::parse(words).map_err(|error| source.invalid(0..0, format!("{key}.command: {error}")))?;
        let workspace = source.list(&form.workspace, &format!("{key}.workspace"), |path| {
            path.parse().map_err(|error: stockade_protocol::Invalid| error.to_string())
        })?;
        Ok(ProfileUse { command, workspace })
    };
    forms.iter().enumerate().map(parse).collect()
}

/// The profile that lets a command write these paths in a workspace, in a new file below the user's settings. `None` if it
/// can't be written as it would be shown, or if there are too many.
pub fn proposed_profile(
    settings: &Path,
    command: &Argv,
    workspace: &[AbsPath],
    write: &[AbsPath],
) -> Option<ProfileAmendment> {
    let directory = settings.join(DIRECTORY);
    if fs::read_dir(&directory).is_ok_and(|entries| entries.count() >= MOST_SAVED) {
        return None;
    }
    let mut digest = Sha256::new();
    for part in command.words().iter().chain(workspace.iter().chain(write).map(AbsPath::as_raw)) {
        digest.update(part.as_bytes().len().to_le_bytes());
        digest.update(part.as_bytes());
    }
    let hash: String = digest.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    let program = command.words().first().and_then(|word| word.as_str()).unwrap_or_default();
    let program = program.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
    let program: String = program.chars().filter(char::is_ascii_alphanumeric).take(32).collect();
    let file = AbsPath::from_path(&directory.join(format!("saved-{program}-{hash}.toml"))).ok()?;
    let amendment =
        ProfileAmendment { file, command: command.clone(), workspace: workspace.to_vec(), write: write.to_vec() };
    amendment.text().map(|_| amendment)
}

/// Saves a proposed profile. A file of that name that says something else stays as it is.
pub fn save_profile(amendment: &ProfileAmendment) -> Result<(), ConfigError> {
    let refused = |why: &'static str| {
        let path = amendment.file.to_host_path().unwrap_or_default();
        ConfigError::Unsafe { path, why }
    };
    let path = amendment.file.to_host_path().ok_or_else(|| refused("is no path of this system"))?;
    let (Some(directory), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Err(refused("is no file"));
    };
    let text = amendment.text().ok_or_else(|| refused("can't hold this profile"))?;
    let _lock = Lock::take(directory, ".lock")?;
    match fs::read_to_string(&path) {
        Ok(found) if found == text => Ok(()),
        Ok(_) => Err(refused("exists already, with other content: remove it")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => replace_private(directory, name, &text),
        Err(error) => Err(ConfigError::io("read", &path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PermissionProfile, ProfileOrigin};
    use super::*;

    fn paths(paths: &[&str]) -> Vec<AbsPath> {
        paths.iter().map(|path| path.parse().unwrap()).collect()
    }

    /// What is written is read back as the use and the paths that were proposed.
    #[test]
    fn a_saved_profile_says_what_was_proposed() {
        let home = tempfile::tempdir().unwrap();
        let command = Argv::parse(["/usr/bin/npm", "in \"st\\all", "ä"]).unwrap();
        let (workspace, write) = (paths(&["/ws/a b"]), paths(&["/home/me/.npm", "/home/me/x \"y\""]));
        let amendment = proposed_profile(home.path(), &command, &workspace, &write).unwrap();
        assert_ne!(Some(&amendment), proposed_profile(home.path(), &command, &write, &workspace).as_ref());
        save_profile(&amendment).unwrap();
        save_profile(&amendment).unwrap();
        let file = amendment.file.to_host_path().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(Some(&text), amendment.text().as_ref());
        let read = PermissionProfile::parse(&text, ProfileOrigin::User(file.clone()), &file).unwrap();
        assert_eq!(read.used_for(), [ProfileUse { command: command.clone(), workspace }]);
        let grants: Vec<String> = read.lines().iter().map(|line| line.grants.to_string()).collect();
        assert_eq!(grants, ["write /home/me/.npm", "write /home/me/x \"y\""]);
        let of_project = PermissionProfile::parse(&text, ProfileOrigin::Project(file.clone()), &file).unwrap_err();
        assert!(of_project.to_string().contains("used_for"), "{of_project}");
        fs::write(&file, "about = \"mine\"\n").unwrap();
        assert!(save_profile(&amendment).is_err());
        assert_eq!(fs::read_to_string(&file).unwrap(), "about = \"mine\"\n");
    }

    /// A directory with too many profiles would be refused by every run.
    #[test]
    fn no_more_are_proposed_than_can_be_read() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join(DIRECTORY);
        fs::create_dir(&directory).unwrap();
        for number in 0..MOST_SAVED {
            fs::write(directory.join(format!("{number}.toml")), "").unwrap();
        }
        let command = Argv::parse(["npm"]).unwrap();
        assert_eq!(proposed_profile(home.path(), &command, &paths(&["/ws"]), &paths(&["/home/me/.npm"])), None);
    }
}
