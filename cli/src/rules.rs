//! The rules of a session: which files are read, and as whose.

use std::path::{Path, PathBuf};

use stockade_config::{ConfigLoader, News, Origin, ProjectRules, Settings, user_variable};
use stockade_core::{RuleStore, Sandboxing, Session, places};
use stockade_execpolicy::{Extent, Layer, Policy, PolicyLoader, PrefixRule, RulesFile, SYSTEM_RULES, user_rules};
use stockade_protocol::{AbsPath, Access, Decision, FileRules, OWN_PATHS, RawText};

use crate::args::SessionArgs;
use crate::exit::{Failure, note};

/// The mark of what is said once.
const STAYS_INSIDE: &str = "said-allow-stays-inside";

pub(crate) fn load(
    args: &SessionArgs,
    project: Vec<ProjectRules>,
    session: &Session,
    homes: &[AbsPath],
) -> Result<RuleStore, Failure> {
    let loader = match args.rules.as_slice() {
        [] => {
            let own = standard().files()?.into_iter();
            let own = own.fold(PolicyLoader::new(), |loader, RulesFile { layer, path }| {
                placed(loader, layer, &path, session, homes)
            });
            project.into_iter().fold(own, |loader, ProjectRules { path, content }| loader.project_file(path, content))
        }
        files => {
            files.iter().fold(PolicyLoader::new(), |loader, file| placed(loader, Layer::Session, file, session, homes))
        }
    };
    let store = RuleStore::new(loader.load()?);
    // New rules are the user's own, whichever files were read.
    let saved = user_rules(user_variable).map(|directory| directory.join("saved.rules"));
    Ok(match saved {
        Some(file) => store.saving_to(file),
        None => store,
    })
}

/// The administrator's rules and the user's.
pub(crate) fn standard() -> PolicyLoader {
    let loader = PolicyLoader::new().directory(Layer::System, SYSTEM_RULES);
    match user_rules(user_variable) {
        Some(user) => loader.directory(Layer::User, user),
        None => loader,
    }
}

/// A file that the session's commands may write counts as a project's, whoever it belongs to: none of its rules lets
/// a command leave the sandbox.
fn placed(loader: PolicyLoader, layer: Layer, file: &Path, session: &Session, homes: &[AbsPath]) -> PolicyLoader {
    match std::fs::canonicalize(file) {
        Ok(target) if session.sandboxing() == Sandboxing::On && is_writable(file, session, homes) => {
            loader.file_of(Layer::Project, target)
        }
        Ok(_) | Err(_) => loader.file_of(layer, file),
    }
}

/// Whether commands may write a file: where it is, or any link on the way there.
fn is_writable(given: &Path, session: &Session, homes: &[AbsPath]) -> bool {
    let Some(places) = from_here(given).and_then(|given| places(&given)) else { return true };
    // This run holds the file, but an earlier command could have put it there.
    let rules = session.permissions.files.iter().filter(|rule| !rule.is_bound()).cloned();
    let Ok(rules) = FileRules::new(rules) else { return true };
    let may_write = |path: &AbsPath| rules.access(path) == Access::Write;
    // No run lets a command write the usual places below a home directory, unless a command made that directory.
    let homes = homes.iter().filter(|home| home.parent().is_none_or(|above| !may_write(&above)));
    let held: Vec<AbsPath> = homes.flat_map(|home| OWN_PATHS.iter().filter_map(|own| home.join(*own).ok())).collect();
    let is_held = |place: &AbsPath| place.ancestors().any(|above| held.contains(&above));
    let mut places = places.iter().map(|place| AbsPath::from_path(place).ok());
    places.any(|place| place.is_none_or(|place| may_write(&place) && !is_held(&place)))
}

/// A path from the working directory, whose own name has no links.
fn from_here(given: &Path) -> Option<PathBuf> {
    let mut base = std::env::current_dir().ok()?;
    let mut rest = given;
    while let Ok(behind) = rest.strip_prefix("..") {
        base.pop();
        rest = behind;
    }
    Some(base.join(rest))
}

/// Rules that allow once let commands leave the sandbox. Says once that they do no longer, if there are such rules.
pub(crate) fn tell_what_changed(policy: &Policy, settings: &Settings, loader: &ConfigLoader) {
    let mut silent = policy.rules().filter(|rule| is_silent(rule));
    let Some(first) = silent.next() else { return };
    if *settings.origin("rules.allow") != Origin::Default {
        return;
    }
    let how_often = match loader.news(STAYS_INSIDE) {
        News::Known => return,
        News::Recorded => "This is said once",
        News::Unrecorded => "This is said at each run, since the state directory can't be written",
    };
    let others = match silent.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let config = user_rules(user_variable).and_then(|rules| Some(rules.parent()?.join("config.toml")));
    let config = config.map(|path| RawText::from(path.into_os_string().into_encoded_bytes()));
    let config = config.map_or_else(|| String::from("your settings"), |path| format!("`{path}`"));
    note(&format!(
        "a rule that allows a command ({}{others}) no longer lets it leave the sandbox: it spares the question, and \
         the command runs in the session's sandbox. Write `outside = True` in a rule whose commands have to leave, or \
         `rules.allow = \"outside\"` in {config} for all of them. {how_often}",
        first.origin()
    ));
}

/// Whether the rule once let commands leave the sandbox, and does not say where they run.
fn is_silent(rule: &PrefixRule) -> bool {
    rule.decision() == Decision::Allow
        && rule.extent() == Extent::Prefix
        && rule.said_placement().is_none()
        && rule.origin().layer != Layer::Project
}
