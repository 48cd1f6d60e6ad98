//! `stockade import AGENT FILE`: converts an agent's permissions to rules and settings.
//!
//! Commands that the agent would ask about or refuse are asked about or refused here, or the import reports that they
//! are not and stops. A pattern that rules of whole words can't express is dropped if it allows, and widened if it
//! restricts.

mod claude_code;
mod codex;
mod gemini;
mod imported;
mod words;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::Value;
use stockade_execpolicy::RulesError;

use self::imported::{Fate, Imported, ImportedLine};
use super::install::json_text::{self, TextError};
use super::install::shown_diff;
use crate::args::{AgentName, Import};
use crate::exit::{Failure, REFUSED, print};

/// Limit on the size of a file.
const LARGEST: u64 = 2 << 20;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ImportError {
    #[error("`{}` can't be read", .path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("`{}` is larger than {LARGEST} bytes", .0.display())]
    TooLarge(PathBuf),
    #[error("it is not valid JSON")]
    Json(#[source] serde_json::Error),
    #[error("it is not valid JSON")]
    Comments(#[source] TextError),
    #[error("it is not valid TOML: {0}")]
    Toml(String),
    #[error("`{key}` has to be {expected}")]
    Form { key: String, expected: &'static str },
    #[error(transparent)]
    Rules(#[from] RulesError),
    #[error("opencode's permissions can't be imported yet: write rules by hand (docs/config.md)")]
    Unknown,
    #[error("`{}` is there already, and is not overwritten: name another directory with `--out`, or merge by hand what is printed without it", .0.display())]
    Exists(PathBuf),
    #[error("`{}` can't be written", .path.display())]
    Unwritable { path: PathBuf, source: std::io::Error },
}

/// The contents of a file, with its name.
#[derive(Debug, thiserror::Error)]
#[error("`{}` can't be imported", .path.display())]
struct InFile {
    path: PathBuf,
    source: ImportError,
}

/// The document of `--json`.
#[derive(Serialize)]
struct ImportReport<'a> {
    agent: &'static str,
    file: &'a Path,
    lines: &'a [ImportedLine],
    /// Whether no restriction is lost.
    complete: bool,
    rules: Option<&'a str>,
    settings: Option<&'a str>,
    written: Vec<PathBuf>,
}

fn parsed_json(text: &str) -> Result<Value, ImportError> {
    let plain = json_text::without_comments(text).map_err(ImportError::Comments)?;
    serde_json::from_str(&plain).map_err(ImportError::Json)
}

pub(crate) fn run(args: &Import) -> Result<ExitCode, Failure> {
    let text = text_of(&args.file)?;
    let imported = read(args, &text).map_err(|source| InFile { path: args.file.clone(), source })?;
    let is_complete = !imported.has_losses();
    let imported = imported.without_what_may_be_covered();
    let head = format!("Imported from {} by `stockade import {}`.", args.file.display(), args.agent.as_str());
    let head: String = head.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
    let (rules, settings) = (imported.rules(&head).map_err(ImportError::from)?, imported.settings(&head));
    let may_write = is_complete || args.partial;
    let mut written = Vec::new();
    let mut diff = String::new();
    if let Some(directory) = args.out.as_deref().filter(|_| may_write) {
        let name = format!("{}.rules", args.agent.as_str());
        let files = [(directory.join("rules").join(name), &rules), (directory.join("config.toml"), &settings)];
        let files: Vec<(PathBuf, &str)> =
            files.into_iter().filter_map(|(path, text)| Some((path, text.as_deref()?))).collect();
        diff = files.iter().map(|(path, text)| shown_diff(&path.display().to_string(), None, Some(text))).collect();
        match files.iter().find(|(path, _)| path.symlink_metadata().is_ok()) {
            Some((path, _)) => return Err(ImportError::Exists(path.clone()).into()),
            None if args.dry_run => {}
            None => {
                for (path, text) in files {
                    write_new(&path, text)?;
                    written.push(path);
                }
            }
        }
    }
    if args.json {
        let (agent, lines) = (args.agent.as_str(), imported.lines.as_slice());
        let (file, rules, settings) = (args.file.as_path(), rules.as_deref(), settings.as_deref());
        let report = ImportReport { agent, file, lines, complete: is_complete, rules, settings, written };
        print(&format!("{}\n", serde_json::to_string_pretty(&report)?))?;
    } else {
        print(&told(args, &imported, (rules.as_deref(), settings.as_deref()), &diff, is_complete))?;
    }
    Ok(if may_write { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) })
}

fn text_of(path: &Path) -> Result<String, ImportError> {
    let unreadable = |source| ImportError::Unreadable { path: path.to_owned(), source };
    if fs::metadata(path).map_err(unreadable)?.len() > LARGEST {
        return Err(ImportError::TooLarge(path.to_owned()));
    }
    fs::read_to_string(path).map_err(unreadable)
}

fn read(args: &Import, text: &str) -> Result<Imported, ImportError> {
    let name = args.file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match (args.agent, args.file.extension().and_then(|end| end.to_str())) {
        (AgentName::ClaudeCode, _) => claude_code::read(text, project(args).as_deref()),
        (AgentName::Codex, Some("rules")) => codex::read_rules(name, text),
        (AgentName::Codex, _) => codex::read(text),
        (AgentName::Gemini, Some("toml")) => gemini::read_policies(text),
        (AgentName::Gemini, _) => gemini::read(text),
        (AgentName::Opencode, _) => Err(ImportError::Unknown),
    }
}

/// The project of the settings: the named one, else the parent of `.claude`, unless that is a home directory.
fn project(args: &Import) -> Option<PathBuf> {
    if let Some(named) = &args.project {
        return fs::canonicalize(named).ok();
    }
    let file = fs::canonicalize(&args.file).ok()?;
    let directory = file.parent().filter(|parent| parent.file_name().is_some_and(|name| name == ".claude"))?;
    let project = directory.parent()?;
    let home = std::env::home_dir().and_then(|home| fs::canonicalize(home).ok());
    (Some(project) != home.as_deref()).then(|| project.to_owned())
}

fn write_new(path: &Path, text: &str) -> Result<(), ImportError> {
    let failed = |source| ImportError::Unwritable { path: path.to_owned(), source };
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    let mut file = fs::OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
}

/// The report as text.
fn told(
    args: &Import,
    imported: &Imported,
    (rules, settings): (Option<&str>, Option<&str>),
    diff: &str,
    is_complete: bool,
) -> String {
    let mut told = String::new();
    for line in &imported.lines {
        let fate = match line.fate {
            Fate::Carried => "carried over",
            Fate::Stricter => "stricter",
            Fate::LeftOut => "left out",
            Fate::Lost => "LOST",
        };
        let becomes = line.becomes.as_ref().map(|rule| format!("\n    {rule}")).unwrap_or_default();
        let why = line.why.as_ref().map(|why| format!("\n    {why}")).unwrap_or_default();
        told += &format!("{fate}: {} {}{becomes}{why}\n", line.place, line.text.escape_debug());
    }
    if imported.lines.is_empty() {
        told += "It says nothing of permissions.\n";
    }
    if !is_complete {
        told += "\nLines that deny or ask are LOST, so nothing that they may cover is allowed";
        told += if args.partial {
            ".\n"
        } else {
            ", and nothing is written: write rules for them by hand, then use `--partial`.\n"
        };
    }
    if args.out.is_none() {
        let section =
            |name: &str, text: Option<&str>| text.map(|text| format!("\n== {name}\n{text}")).unwrap_or_default();
        told += &section(&format!("rules/{}.rules", args.agent.as_str()), rules);
        told += &section("config.toml", settings);
        return told;
    }
    told += &format!("\n{diff}");
    if args.dry_run {
        told += "Nothing was written: this was a dry run.\n";
    }
    told
}
