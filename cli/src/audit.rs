//! `stockade audit`: lists runs, tells the story of one, and verifies the trail.

mod run;
mod story;
mod tree;
mod when;

use std::collections::VecDeque;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use stockade_config::{ConfigLoader, Layer, user_variable};
use stockade_core::{AuditError, FirstKept, records, state_directory, verify};
use stockade_protocol::{AuditRecord, RawText};

use crate::args::{Audit, AuditCommand, AuditList, AuditShow, AuditVerify};
use crate::exit::{Failure, print};
use run::{Run, Runs};

/// The requested run does not exist, or the trail is invalid.
const NO: u8 = 1;

#[derive(Debug, thiserror::Error)]
enum AuditCommandError {
    #[error("`{time}` is no time: write 2026-01-31, 2026-01-31T10:00, or an age such as 90s, 30m, 2h, 7d")]
    Time { time: String },
    #[error("no run ends with `{result}`: there are {}", run::RESULTS.join(", "))]
    Result { result: String },
}

pub(crate) fn run(args: &Audit) -> Result<ExitCode, Failure> {
    let directory = match &args.trail {
        Some(directory) => directory.clone(),
        None => own_trail()?,
    };
    match &args.command {
        AuditCommand::List(list) => list_runs(&directory, list),
        AuditCommand::Show(show) => show_run(&directory, show),
        AuditCommand::Verify(check) => verify_trail(&directory, check),
    }
}

/// The trail's directory according to the settings. Invalid settings may name another one, so they are an error.
fn own_trail() -> Result<PathBuf, Failure> {
    let settings = ConfigLoader::standard()?.load(Layer::default())?.settings;
    let usual = || state_directory(user_variable).ok_or(AuditError::NoPlace);
    Ok(settings.audit_directory.map_or_else(usual, Ok)?)
}

/// The records; none without a trail.
fn all(directory: &Path) -> Result<Box<dyn Iterator<Item = Result<AuditRecord, AuditError>>>, AuditError> {
    match records(directory) {
        Err(AuditError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(Box::new(std::iter::empty()))
        }
        other => Ok(Box::new(other?)),
    }
}

fn list_runs(directory: &Path, args: &AuditList) -> Result<ExitCode, Failure> {
    let filter = Filter::new(args)?;
    let mut runs = Runs::default();
    for record in all(directory)? {
        runs.add(record?);
    }
    let mut kept: VecDeque<Run> = VecDeque::new();
    for run in runs.into_runs().filter(|run| filter.keeps(run)) {
        kept.push_back(run);
        if args.last.is_some_and(|last| kept.len() > last) {
            kept.pop_front();
        }
    }
    let is_table = !args.json && io::stdout().is_terminal();
    let mut text = String::new();
    for run in &kept {
        if is_table {
            text.push_str(&run.row());
        } else {
            text.push_str(&(serde_json::to_string(run)? + "\n"));
        }
    }
    if is_table {
        text = if kept.is_empty() { String::from("No run fits.\n") } else { run::header() + &text };
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The filter for listed runs.
struct Filter<'a> {
    args: &'a AuditList,
    since: Option<u64>,
    until: Option<u64>,
}

impl<'a> Filter<'a> {
    fn new(args: &'a AuditList) -> Result<Self, AuditCommandError> {
        let time = |text: &Option<String>| match text {
            Some(text) => {
                when::parse(text, when::now()).map(Some).ok_or_else(|| AuditCommandError::Time { time: text.clone() })
            }
            None => Ok(None),
        };
        if let Some(result) = args.result.as_ref().filter(|result| !run::RESULTS.contains(&result.as_str())) {
            return Err(AuditCommandError::Result { result: result.clone() });
        }
        Ok(Self { args, since: time(&args.since)?, until: time(&args.until)? })
    }

    fn keeps(&self, run: &Run) -> bool {
        let is = |wanted: &Option<String>, own: &str| wanted.as_ref().is_none_or(|wanted| wanted == own);
        is(&self.args.thread, run.thread_id.as_str())
            && is(&self.args.request, run.request_id.as_str())
            && is(&self.args.result, run.result())
            && self.args.program.as_ref().is_none_or(|wanted| run.is_of(wanted))
            && self.since.is_none_or(|since| run.time_ms >= since)
            && self.until.is_none_or(|until| run.time_ms < until)
    }
}

fn show_run(directory: &Path, args: &AuditShow) -> Result<ExitCode, Failure> {
    let mut text = String::new();
    let mut started = tree::Started::default();
    for record in all(directory)? {
        let record = record?;
        if record.request_id.as_str() == args.request {
            text.push_str(&if args.json { serde_json::to_string(&record)? + "\n" } else { story::tell(&record)? });
            started.add(&record.event);
        }
    }
    if !args.json {
        text.push_str(&started.draw());
    }
    if text.is_empty() {
        let request = RawText::from(args.request.as_str());
        eprintln!("stockade: no request is called `{request}` in the trail; `stockade audit list` has them");
        return Ok(ExitCode::from(NO));
    }
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

#[derive(serde::Serialize)]
struct VerdictForm {
    whole: bool,
    records: u64,
    first_sequence: Option<u64>,
    first_time_ms: Option<u64>,
    last_sequence: Option<u64>,
    last_hash: Option<String>,
    unfinished: usize,
    bad: Option<BadForm>,
}

#[derive(serde::Serialize)]
struct BadForm {
    file: PathBuf,
    line: u64,
    sequence: u64,
    flaw: String,
}

fn verify_trail(directory: &Path, args: &AuditVerify) -> Result<ExitCode, Failure> {
    let verdict = verify(directory)?;
    let code = if verdict.bad.is_some() { ExitCode::from(NO) } else { ExitCode::SUCCESS };
    if args.json {
        let bad = verdict.bad.map(|bad| BadForm {
            file: bad.file,
            line: bad.line,
            sequence: bad.sequence,
            flaw: bad.flaw.to_string(),
        });
        let form = VerdictForm {
            whole: bad.is_none(),
            records: verdict.records,
            first_sequence: verdict.first.map(|first| first.sequence),
            first_time_ms: verdict.first.map(|first| first.time_ms),
            last_sequence: verdict.last.map(|(sequence, _)| sequence),
            last_hash: verdict.last.map(|(_, hash)| hash.to_string()),
            unfinished: verdict.unfinished.len(),
            bad,
        };
        print(&(serde_json::to_string(&form)? + "\n"))?;
        return Ok(code);
    }
    let mut text = String::new();
    for note in &verdict.unfinished {
        text.push_str(&format!(
            "{} line {}: a record that was never finished, because its writer died; nothing is missing\n",
            note.file.display(),
            note.line
        ));
    }
    match (&verdict.bad, verdict.last) {
        (Some(bad), _) => text.push_str(&format!(
            "{} line {}: record {} {}\n{} records before it are whole\n",
            bad.file.display(),
            bad.line,
            bad.sequence,
            RawText::from(bad.flaw.to_string()),
            verdict.records
        )),
        (None, Some((sequence, hash))) => {
            text.push_str(&format!(
                "{} records are whole; the last is {sequence} with the hash {hash}{}\n",
                verdict.records,
                verdict.first.map(first_kept).unwrap_or_default()
            ));
        }
        (None, None) => text.push_str("the trail is empty\n"),
    }
    print(&text)?;
    Ok(code)
}

/// The oldest kept record, as text.
fn first_kept(first: FirstKept) -> String {
    let FirstKept { sequence, time_ms } = first;
    let written = when::long(time_ms);
    if sequence == 0 {
        format!("; the first is 0, written {written}")
    } else {
        format!("; the first that is kept is {sequence}, written {written}: {sequence} earlier ones were rotated away")
    }
}
