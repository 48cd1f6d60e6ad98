//! `stockade profile`: lists permission profiles, their grants here, and whether they can be granted.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use stockade_config::{
    ConfigError, ConfigLoader, Layer, Loaded, NamedBy, PermissionProfile, PermissionProfiles, ProfileContext,
    ProfileGrant, ProfileOrigin, Settings, user_variable,
};
use stockade_protocol::{AbsPath, Permissions, RawText};

use crate::args::{ProfileCheck, ProfileCommand, ProfileList, ProfileShow};
use crate::exit::{Failure, note, print};

/// A profile can't be granted.
const REFUSED: u8 = 1;

pub(crate) fn run(command: &ProfileCommand) -> Result<ExitCode, Failure> {
    let here = std::env::current_dir().map_err(stockade::Error::NoDirectory)?;
    let loader = ConfigLoader::standard()?.project(&here);
    let homes = loader.homes().into_iter().map(Path::to_owned).collect();
    let Loaded { settings, profiles, notices, .. } = loader.load(Layer::default())?;
    notices.iter().for_each(|notice| note(notice));
    let known = Known { settings, profiles, homes, here };
    match command {
        ProfileCommand::List(args) => known.list(args),
        ProfileCommand::Show(args) => known.show(args),
        ProfileCommand::Check(args) => known.check(args),
    }
}

struct Known {
    settings: Settings,
    profiles: PermissionProfiles,
    homes: Vec<PathBuf>,
    here: PathBuf,
}

/// A profile as JSON.
#[derive(Serialize)]
struct Shown {
    name: String,
    about: String,
    origin: String,
    tools: Vec<String>,
    only_when_named: bool,
    has_sockets: bool,
    lines: Vec<ShownLine>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permissions: Option<Permissions>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    skills: BTreeSet<AbsPath>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

#[derive(Serialize)]
struct ShownLine {
    grants: String,
    reason: String,
}

/// The result of checking a profile.
#[derive(Serialize)]
struct Checked {
    profile: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    /// Why a valid profile can't be granted now, such as an agent that does not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_now: Option<String>,
}

impl Known {
    fn resolve(&self, profile: &PermissionProfile) -> Result<ProfileGrant, ConfigError> {
        let context = ProfileContext {
            variable: &user_variable,
            homes: self.homes.clone(),
            writable: vec![self.here.clone()],
            settings: &self.settings,
        };
        self.profiles.grant(profile, &context)
    }

    fn get(&self, name: &str) -> Result<PermissionProfile, Failure> {
        match self.profiles.get(name)? {
            Some(profile) => Ok(profile),
            // The error suggests similar names.
            None => {
                let by = NamedBy::User(String::from("the command line"));
                let context = ProfileContext {
                    variable: &user_variable,
                    homes: Vec::new(),
                    writable: Vec::new(),
                    settings: &self.settings,
                };
                let unknown = self.profiles.resolve(name, &by, &context).map(drop);
                unknown.map_err(Failure::from).and_then(|()| self.get(name))
            }
        }
    }

    fn shown(&self, profile: &PermissionProfile, grant: Option<Result<ProfileGrant, ConfigError>>) -> Shown {
        let (permissions, skills, refused) = match grant {
            Some(Ok(grant)) => (Some(grant.permissions), grant.skills, None),
            Some(Err(error)) => (None, BTreeSet::new(), Some(error.to_string())),
            None => (None, BTreeSet::new(), None),
        };
        let line = |line: &stockade_config::ProfileLine| ShownLine {
            grants: line.grants.to_string(),
            reason: line.reason.clone(),
        };
        Shown {
            name: profile.name().to_owned(),
            about: profile.about().to_owned(),
            origin: profile.origin().to_string(),
            tools: profile.tools().to_vec(),
            only_when_named: profile.only_when_named(),
            has_sockets: profile.has_sockets(),
            lines: profile.lines().iter().map(line).collect(),
            permissions,
            skills,
            refused,
        }
    }

    fn list(&self, args: &ProfileList) -> Result<ExitCode, Failure> {
        let mut all = Vec::new();
        for name in self.profiles.names() {
            all.push(self.get(name)?);
        }
        if args.json {
            let shown: Vec<Shown> = all.iter().map(|profile| self.shown(profile, None)).collect();
            print(&(serde_json::to_string_pretty(&shown)? + "\n"))?;
            return Ok(ExitCode::SUCCESS);
        }
        let line = |profile: &PermissionProfile| {
            let origin = match profile.origin() {
                ProfileOrigin::BuiltIn => String::new(),
                other @ (ProfileOrigin::System(_) | ProfileOrigin::User(_) | ProfileOrigin::Project(_)) => {
                    format!("  ({})", RawText::from(other.to_string()))
                }
            };
            format!("{:<12}{}{origin}\n", profile.name(), RawText::from(profile.about()))
        };
        print(&all.iter().map(line).collect::<String>())?;
        Ok(ExitCode::SUCCESS)
    }

    fn show(&self, args: &ProfileShow) -> Result<ExitCode, Failure> {
        let profile = self.get(&args.name)?;
        let shown = self.shown(&profile, Some(self.resolve(&profile)));
        let code = if shown.refused.is_some() { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS };
        if args.json {
            print(&(serde_json::to_string_pretty(&shown)? + "\n"))?;
            return Ok(code);
        }
        print(&text(&shown))?;
        Ok(code)
    }

    fn check(&self, args: &ProfileCheck) -> Result<ExitCode, Failure> {
        let mut checked = Vec::new();
        let named = args.profiles.iter().cloned();
        let all: Vec<PathBuf> = match args.profiles.is_empty() {
            true => self.profiles.names().into_iter().map(PathBuf::from).collect(),
            false => named.collect(),
        };
        for wanted in all {
            let text = wanted.to_string_lossy();
            let (refused, is_one_of_all) = match text.contains('/') || text.ends_with(".toml") {
                true => (self.check_file(&wanted)?, false),
                false => {
                    let profile = self.get(&text)?;
                    (self.resolve(&profile).err(), args.profiles.is_empty())
                }
            };
            let needs_agent = is_one_of_all && matches!(refused, Some(ConfigError::NoAgent { .. }));
            let refused = refused.map(|error| error.to_string());
            let (refused, not_now) = if needs_agent { (None, refused) } else { (refused, None) };
            checked.push(Checked { profile: RawText::from(text.as_ref()).to_string(), refused, not_now });
        }
        let failed = checked.iter().any(|one| one.refused.is_some());
        let line = |one: &Checked| match (&one.refused, &one.not_now) {
            (Some(why), _) => format!("{}: {}\n", one.profile, RawText::from(why.as_str())),
            (None, Some(why)) => format!("{}: not now: {}\n", one.profile, RawText::from(why.as_str())),
            (None, None) => format!("{}: can be granted\n", one.profile),
        };
        let text = match args.json {
            true => serde_json::to_string_pretty(&checked)? + "\n",
            false => checked.iter().map(line).collect(),
        };
        print(&text)?;
        Ok(if failed { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS })
    }

    fn check_file(&self, file: &Path) -> Result<Option<ConfigError>, Failure> {
        let text = std::fs::read_to_string(file).map_err(|source| ConfigError::Io {
            act: "read",
            path: file.to_owned(),
            source,
        })?;
        let parsed = PermissionProfile::parse(&text, ProfileOrigin::User(file.to_owned()), file);
        Ok(parsed.and_then(|profile| self.resolve(&profile)).err())
    }
}

fn text(shown: &Shown) -> String {
    let mut text = format!("{}: {}\n", shown.name, RawText::from(shown.about.as_str()));
    text.push_str(&format!("from: {}\n", RawText::from(shown.origin.as_str())));
    if shown.only_when_named {
        text.push_str("granted only by `--with` and by your own settings, never by a rule or a project\n");
    } else if shown.has_sockets {
        text.push_str("granted only by `--with`, by your own settings and by your own rules, never by a project\n");
    }
    for line in &shown.lines {
        let (grants, reason) = (RawText::from(line.grants.as_str()), RawText::from(line.reason.as_str()));
        text.push_str(&format!("\n  {grants}\n      {reason}\n"));
    }
    match (&shown.permissions, &shown.refused) {
        (Some(permissions), _) => {
            text.push_str("\nhere that is:\n");
            for rule in &permissions.files {
                text.push_str(&format!("  {} {}\n", rule.access, rule.target));
            }
            if let stockade_protocol::NetworkPolicy::Hosts(hosts) = &permissions.network {
                text.extend(hosts.rules.iter().map(|rule| format!("  connect {}\n", rule.destinations())));
            }
            text.extend(permissions.unix_sockets.iter().map(|socket: &AbsPath| format!("  socket {socket}\n")));
            text.extend(shown.skills.iter().map(|skills| format!("  skills {skills}\n")));
        }
        (None, Some(why)) => text.push_str(&format!("\nit can't be granted here: {}\n", RawText::from(why.as_str()))),
        (None, None) => {}
    }
    text
}
