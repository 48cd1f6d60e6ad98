//! `stockade install AGENT`: puts a hook, an environment or a shell into the agent's settings, shows and removes it.

mod diff;
mod environment;
mod file;
mod hooks_off;
pub(super) mod json_text;
mod shell_setting;
mod switch;
mod wiring;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use self::environment::EnvironmentError;
use self::file::SettingsFile;
use self::json_text::TextError;
use self::wiring::Wiring;
use crate::args::{AgentName, Install};
use crate::exit::{Failure, note, print};

pub(super) use self::diff::shown as shown_diff;
pub(crate) use self::hooks_off::Obstacle;
use self::wiring::agent_directory;
pub(crate) use self::wiring::{Wired, wired};

#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    #[error("`{variable}` is not set, so there are no settings of the user: use `--project`")]
    NoHome { variable: &'static str },
    #[error("`{}` can't be changed", .path.display())]
    Text { path: PathBuf, source: TextError },
    #[error("`{}` can't be changed", .path.display())]
    Environment { path: PathBuf, source: EnvironmentError },
    #[error("`{}` is a link, which is not followed: change `{}` by hand, or replace the link by the file", .path.display(), .target.display())]
    Link { path: PathBuf, target: PathBuf },
    #[error("`{}` is no file", .0.display())]
    NoFile(PathBuf),
    #[error("`{}` can't be {act}", .path.display())]
    System { act: &'static str, path: PathBuf, source: std::io::Error },
    #[error("`{}` would mean something else after the change: change it by hand", .0.display())]
    Meaning(PathBuf),
    #[error("`{key}` in `{}` turns Stockade's hook off: take that out first", .path.display())]
    HooksOff { path: PathBuf, key: &'static str },
    #[error("`{}` has Stockade's hook beside another one in the same entry: give each an entry of its own", .0.display())]
    Shared(PathBuf),
    #[error("`{}` was changed by another program meanwhile: close the agent, and try again", .0.display())]
    Changed(PathBuf),
    #[error("the path of this program is not UTF-8")]
    Unnamed,
}

/// The settings to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    User,
    Project,
}

/// The number of retries for a file that changes concurrently.
const TRIES: usize = 5;

pub(crate) fn run(args: &Install) -> Result<ExitCode, Failure> {
    let scope = if args.project { Scope::Project } else { Scope::User };
    let wiring = Wiring::of(args.agent, scope)?;
    for _ in 1..TRIES {
        match changed(args, scope, &wiring) {
            Err(InstallError::Changed(path)) => {
                note(&format!("`{}` was changed by another program meanwhile: it is read again", path.display()));
            }
            told => return Ok(print(&told?).map(|()| ExitCode::SUCCESS)?),
        }
    }
    print(&changed(args, scope, &wiring)?)?;
    Ok(ExitCode::SUCCESS)
}

/// Makes the change, and returns a report.
fn changed(args: &Install, scope: Scope, wiring: &Wiring) -> Result<String, InstallError> {
    let place = wiring.place(scope)?;
    if !args.undo && !args.dry_run {
        wiring.prepare()?;
    }
    let _lock = SettingsFile::lock(&place)?;
    let file = SettingsFile::read(&place, scope)?;
    let (after, end) = if args.undo { taken_out(wiring, &file)? } else { put_in(wiring, &file)? };
    let shown = file.path.display();
    if after.as_deref() == file.text.as_deref() {
        let what = if args.undo { "names nothing of Stockade" } else { "names Stockade already" };
        return Ok(format!("{shown} {what}: nothing to do\n"));
    }
    let mut told = diff::shown(&shown.to_string(), file.text.as_deref(), after.as_deref());
    if args.dry_run {
        told += "Nothing was changed: this was a dry run.\n";
    } else {
        file.replace(after.as_deref(), end)?;
        told += &done(args, scope, wiring, &file);
    }
    Ok(told)
}

/// The treatment of the backup copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copy {
    /// It is created, unless an earlier installation did.
    Made,
    /// It is not needed any more.
    Removed,
    /// It stays: the file is not as it was before.
    Left,
}

fn put_in(wiring: &Wiring, file: &SettingsFile) -> Result<(Option<String>, Copy), InstallError> {
    let text = file.text.as_deref().unwrap_or_default();
    wiring.check(file)?;
    let is_there = wiring.is_in(file, &wiring.command)?;
    if is_there {
        return Ok((file.text.clone(), Copy::Left));
    }
    // An installation of an earlier version is redone, so that the copy still fits.
    if let (Some(command), Some(before)) = (wiring.command_in(file)?, file.copy()?)
        && wiring.is_all_that_was_added(file, &before, text, &command)
    {
        return Ok((Some(wiring.added(file, &before, &wiring.command)?), Copy::Made));
    }
    Ok((Some(wiring.renewed(file, text)?), Copy::Made))
}

/// The backup copy, if the file has not changed since; else the file without the hook.
fn taken_out(wiring: &Wiring, file: &SettingsFile) -> Result<(Option<String>, Copy), InstallError> {
    let Some(text) = &file.text else { return Ok((None, Copy::Left)) };
    wiring.check_entries(file)?;
    let Some(command) = wiring.command_in(file)? else { return Ok((Some(text.clone()), Copy::Left)) };
    let before = file.copy()?;
    if wiring.is_all_that_was_added(file, before.as_deref().unwrap_or_default(), text, &command) {
        return Ok((before, Copy::Removed));
    }
    Ok((Some(wiring.removed(file, text)?), Copy::Left))
}

fn done(args: &Install, scope: Scope, wiring: &Wiring, file: &SettingsFile) -> String {
    let agent = args.agent.as_str();
    if args.undo {
        return format!("{agent} does without Stockade from its next start on.\n");
    }
    let mut told = format!("{agent} {} from its next start on. {}\n", wiring.effect(), wiring.tested);
    let obstacle = wiring.obstacle(scope).map(|obstacle| obstacle.reason().to_owned());
    for note in wiring.notes(file).into_iter().chain(obstacle) {
        told += &format!("Note: {note}\n");
    }
    let project = if args.project { " --project" } else { "" };
    told + &format!(
        "`stockade doctor` tells whether it works; `stockade install {agent}{project} --undo` takes it out.\n"
    )
}

/// The existing settings files of all agents, for `stockade doctor`.
pub(crate) fn places() -> Vec<(AgentName, Scope, PathBuf)> {
    let agents = [AgentName::ClaudeCode, AgentName::Codex, AgentName::Gemini, AgentName::Opencode];
    let both = agents.into_iter().flat_map(|agent| [(agent, Scope::User), (agent, Scope::Project)]);
    let place = |(agent, scope)| Some((agent, scope, Wiring::of(agent, scope).ok()?.place(scope).ok()?));
    both.filter_map(place).filter(|(_, _, path)| Path::exists(path)).collect()
}
