//! `stockade patch`: file changes from a text, approved where they have to be, written on the host's side.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::ExitCode;

use stockade_core::{PatchExplanation, PatchOutcome};
use stockade_protocol::{ExecApprovalRequirement, FileChange, PatchRequest};

use crate::args::Patch;
use crate::exit::{self, Failure, note, print};
use crate::session::{Prepared, Purpose, prepare};
use crate::signals;

/// With `--check`: somebody would be asked.
const ASKED: u8 = 1;

/// The longest text that is read.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
enum PatchFileError {
    #[error("`{file}` can't be read")]
    Unreadable { file: String, source: io::Error },
    #[error("`{file}` is longer than {MOST_BYTES} bytes: split the patch")]
    TooLong { file: String },
}

pub(crate) fn run(args: &Patch) -> Result<ExitCode, Failure> {
    let text = read(&args.file)?;
    // A patch is judged for the session, whatever its commands.
    let command = [OsString::from("true")];
    let purpose = if args.check { Purpose::Explain } else { Purpose::Run };
    let Prepared { stockade, request, .. } = prepare(&args.session, &command, purpose)?;
    let orchestrator = stockade.orchestrator();
    let changes = orchestrator.session().read_patch(&text, &request.cwd)?;
    let request = PatchRequest {
        id: request.id,
        thread_id: request.thread_id,
        changes,
        approved_by_policy: false,
        sandbox_warnings: Vec::new(),
    };
    if args.check {
        return check(args, &orchestrator.explain_patch(&request)?);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(orchestrator.patch(&request));
    signals::end_by_default();
    finish(args, &request, &outcome?)
}

fn read(file: &Path) -> Result<Vec<u8>, PatchFileError> {
    let name = || file.display().to_string();
    let mut text = Vec::new();
    let limit = MOST_BYTES + 1;
    let result = if file == Path::new("-") {
        io::stdin().lock().take(limit).read_to_end(&mut text)
    } else {
        File::open(file).and_then(|file| file.take(limit).read_to_end(&mut text))
    };
    let length = result.map_err(|source| PatchFileError::Unreadable { file: name(), source })?;
    if u64::try_from(length).unwrap_or(u64::MAX) > MOST_BYTES {
        return Err(PatchFileError::TooLong { file: name() });
    }
    Ok(text)
}

fn finish(args: &Patch, request: &PatchRequest, outcome: &PatchOutcome) -> Result<ExitCode, Failure> {
    let (document, code) = match outcome {
        PatchOutcome::Applied { paths } => (serde_json::json!({ "applied": { "paths": paths } }), ExitCode::SUCCESS),
        PatchOutcome::Refused(refusal) => {
            (serde_json::json!({ "refused": refusal }), ExitCode::from(exit::refused(refusal)))
        }
    };
    match outcome {
        _ if args.json => print(&format!("{document:#}\n"))?,
        PatchOutcome::Applied { .. } => print(&listed(&request.changes, ["added", "changed", "deleted", "moved"]))?,
        PatchOutcome::Refused(refusal) => note(&format!("nothing was written: {}", refusal.reason)),
    }
    Ok(code)
}

fn check(args: &Patch, explanation: &PatchExplanation) -> Result<ExitCode, Failure> {
    if args.json {
        print(&(serde_json::to_string_pretty(explanation)? + "\n"))?;
    } else {
        let what = match &explanation.requirement {
            ExecApprovalRequirement::Skip { .. } => String::from("is written without asking"),
            ExecApprovalRequirement::NeedsApproval { reason: Some(reason), .. } => format!("asks first: {reason}"),
            ExecApprovalRequirement::NeedsApproval { reason: None, .. } => String::from("asks first"),
            ExecApprovalRequirement::Forbidden { reason } => format!("is refused: {reason}"),
        };
        let files = listed(&explanation.changes, ["add", "change", "delete", "move"]);
        print(&format!("patch    {what}\n{files}"))?;
    }
    Ok(match &explanation.requirement {
        ExecApprovalRequirement::Skip { .. } => ExitCode::SUCCESS,
        ExecApprovalRequirement::NeedsApproval { .. } => ExitCode::from(ASKED),
        ExecApprovalRequirement::Forbidden { .. } => ExitCode::from(exit::REFUSED),
    })
}

/// A line for each file.
fn listed(changes: &[FileChange], [add, update, delete, moved]: [&str; 4]) -> String {
    let line = |change: &FileChange| match change {
        FileChange::Add { path, .. } => format!("{add:<9}{path}\n"),
        FileChange::Delete { path, .. } => format!("{delete:<9}{path}\n"),
        FileChange::Update { path, move_path: None, .. } => format!("{update:<9}{path}\n"),
        FileChange::Update { path, move_path: Some(to), .. } => format!("{moved:<9}{path} -> {to}\n"),
    };
    changes.iter().map(line).collect()
}
