//! The rules of a session: the files and their layers.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use stockade_config::{ConfigLoader, News, Origin, ProjectRules, Settings, Watched};
use stockade_core::{RuleStore, Sandboxing, Session, places};
use stockade_execpolicy::{Extent, Layer, Policy, PolicyLoader, PrefixRule, RulesFile, SYSTEM_RULES, user_rules};
use stockade_protocol::{AbsPath, Access, Decision, FileRules, OWN_PATHS, RawText};

use crate::Error;
use crate::assembly::Caller;

/// The marker of a one-time notice.
const STAYS_INSIDE: &str = "said-allow-stays-inside";

/// The rules files to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RuleFiles {
    /// The administrator's, the user's, and those of a trusted project.
    #[default]
    Standard,
    /// Only these. They count as the user's own, or as a project's if commands may write them.
    Only(Vec<PathBuf>),
    /// None.
    Nothing,
}

impl RuleFiles {
    /// The named files.
    pub(crate) fn named(&self) -> &[PathBuf] {
        match self {
            Self::Only(files) => files,
            Self::Standard | Self::Nothing => &[],
        }
    }
}

/// Reads the rules of a session. Relative names are relative to `directory`.
pub(crate) fn load(
    files: &RuleFiles,
    project: Vec<ProjectRules>,
    caller: &Caller<'_>,
    session: &Session,
) -> Result<RuleStore, Error> {
    let placed = |loader: PolicyLoader, layer: Layer, path: &Path| placed(loader, layer, path, caller, session);
    let home = (caller.variable)("HOME");
    let loader = match files {
        RuleFiles::Standard => {
            let own = standard(caller.variable).files()?.into_iter();
            let own = own.fold(PolicyLoader::new().home(home.clone()), |loader, RulesFile { layer, path }| {
                placed(loader, layer, &path)
            });
            project.into_iter().fold(own, |loader, ProjectRules { path, content }| loader.project_file(path, content))
        }
        RuleFiles::Only(files) => files
            .iter()
            .fold(PolicyLoader::new().home(home.clone()), |loader, file| placed(loader, Layer::Session, file)),
        RuleFiles::Nothing => return Ok(RuleStore::default()),
    };
    let store = RuleStore::new(loader.load()?).with_home(home);
    let saved = match files {
        RuleFiles::Standard => user_rules(caller.variable).map(|directory| directory.join("saved.rules")),
        // A saved rule belongs to the user's file, which would not be read the next time, so none is offered.
        RuleFiles::Only(_) | RuleFiles::Nothing => None,
    };
    Ok(match saved {
        Some(file) => store.saving_to(file),
        None => store,
    })
}

/// The paths of rules files, for change detection.
pub(crate) fn watched(files: &RuleFiles, caller: &Caller<'_>) -> Vec<Watched> {
    match files {
        RuleFiles::Standard => {
            let directories = [Some(PathBuf::from(SYSTEM_RULES)), user_rules(caller.variable)];
            directories.into_iter().flatten().map(Watched::Tree).collect()
        }
        RuleFiles::Only(files) => files.iter().map(|file| Watched::File(from(caller.directory, file))).collect(),
        RuleFiles::Nothing => Vec::new(),
    }
}

/// The administrator's rules and the user's.
pub fn standard(variable: impl Fn(&str) -> Option<OsString>) -> PolicyLoader {
    let loader = PolicyLoader::new().home(variable("HOME")).directory(Layer::System, SYSTEM_RULES);
    match user_rules(variable) {
        Some(user) => loader.directory(Layer::User, user),
        None => loader,
    }
}

/// A file that the session's commands may write counts as a project's, regardless of its owner: none of its rules lets
/// a command leave the sandbox.
fn placed(loader: PolicyLoader, layer: Layer, file: &Path, caller: &Caller<'_>, session: &Session) -> PolicyLoader {
    let file = from(caller.directory, file);
    match std::fs::canonicalize(&file) {
        Ok(target) if session.sandboxing() == Sandboxing::On && is_writable(&file, session, caller.homes) => {
            loader.file_of(Layer::Project, target)
        }
        Ok(_) | Err(_) => loader.file_of(layer, file),
    }
}

/// Whether commands may write a file, or any link to it.
fn is_writable(file: &Path, session: &Session, homes: &[AbsPath]) -> bool {
    let Some(places) = places(file) else { return true };
    // This run protects the file, but an earlier command could have planted it.
    let rules = session.permissions.files.iter().filter(|rule| !rule.is_bound()).cloned();
    let Ok(rules) = FileRules::new(rules) else { return true };
    let may_write = |path: &AbsPath| rules.access(path) == Access::Write;
    // No run lets a command write the default locations below a home directory, unless a command created that
    // directory.
    let homes = homes.iter().filter(|home| home.parent().is_none_or(|above| !may_write(&above)));
    let held: Vec<AbsPath> = homes.flat_map(|home| OWN_PATHS.iter().filter_map(|own| home.join(*own).ok())).collect();
    let is_held = |place: &AbsPath| place.ancestors().any(|above| held.contains(&above));
    let mut places = places.iter().map(|place| AbsPath::from_path(place).ok());
    places.any(|place| place.is_none_or(|place| may_write(&place) && !is_held(&place)))
}

/// A path relative to a canonical directory.
fn from(directory: &AbsPath, given: &Path) -> PathBuf {
    let mut base = directory.to_host_path().unwrap_or_default();
    let mut rest = given;
    while let Ok(behind) = rest.strip_prefix("..") {
        base.pop();
        rest = behind;
    }
    base.join(rest)
}

/// A one-time notice that allowing rules keep commands in the sandbox, if there are such rules: codex, and Stockade in
/// the past, let them leave.
pub(crate) fn what_changed(
    policy: &Policy,
    settings: &Settings,
    loader: &ConfigLoader,
    caller: &Caller<'_>,
) -> Option<String> {
    let mut silent = policy.rules().filter(|rule| is_silent(rule));
    let first = silent.next()?;
    if *settings.origin("rules.allow") != Origin::Default {
        return None;
    }
    let how_often = match loader.news(STAYS_INSIDE) {
        News::Known => return None,
        News::Recorded => "This is said once",
        News::Unrecorded => "This is said at each run, since the state directory can't be written",
    };
    let others = match silent.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let config = user_rules(caller.variable).and_then(|rules| Some(rules.parent()?.join("config.toml")));
    let config = config.map(|path| RawText::from(path.into_os_string().into_encoded_bytes()));
    let config = config.map_or_else(|| String::from("your settings"), |path| format!("`{path}`"));
    Some(format!(
        "a rule that allows a command ({}{others}) does not let it leave the sandbox: it spares the question, and \
         the command runs in the session's sandbox. Write `outside = True` in a rule whose commands have to leave, or \
         `rules.allow = \"outside\"` in {config} for all of them. {how_often}",
        first.origin()
    ))
}

/// Whether the rule let commands leave the sandbox in the past, and lacks `outside`.
fn is_silent(rule: &PrefixRule) -> bool {
    rule.decision() == Decision::Allow
        && rule.extent() == Extent::Prefix
        && rule.said_placement().is_none()
        && rule.origin().layer != Layer::Project
}
