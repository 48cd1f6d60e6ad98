//! `stockade patch`: applies file changes from a text on the host, approved if needed.

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

/// With `--check`: there would be a question.
const ASKED: u8 = 1;

/// Limit on the size of the text.
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
    #[cfg(unix)]
    if let Some(wanted) = in_session(args)? {
        return run_in_session(args, &wanted, text);
    }
    // A patch is judged for the session, independent of its commands.
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

/// The named session, unless nothing is to be written.
#[cfg(unix)]
fn in_session(args: &Patch) -> Result<Option<crate::joined::Wanted<'static>>, Failure> {
    use crate::joined::{Answers, NamedBy, Wanted, named_by_variable};

    let (name, named_by) = match (&args.name, named_by_variable().filter(|_| !args.check)) {
        (Some(name), _) => (name.clone(), NamedBy::Flag),
        (None, Some(name)) => (name.to_string_lossy().parse()?, NamedBy::Variable),
        (None, None) => return Ok(None),
    };
    Ok(Some(Wanted {
        name,
        named_by,
        command: std::borrow::Cow::Owned(Vec::new()),
        report_form: crate::run::ReportForm::Failures,
        ending: crate::run::Ending::ByCode,
        cwd: args.session.cwd.as_deref().map(crate::session::directory).transpose()?,
        timeout: None,
        escalation: None,
        justification: None,
        answers: Answers::Terminal,
        stdin: None,
    }))
}

#[cfg(unix)]
fn run_in_session(args: &Patch, wanted: &crate::joined::Wanted<'_>, text: Vec<u8>) -> Result<ExitCode, Failure> {
    use crate::joined::{Patched, patch};
    use stockade_server::wire::PatchApplyResult;

    let cwd = match &wanted.cwd {
        Some(cwd) => cwd.clone(),
        None => crate::session::directory(Path::new("."))?,
    };
    let (document, code) = match patch(wanted, text, cwd, || crate::session::opening(&args.session))? {
        Patched::Signal(code) => return Ok(code),
        Patched::Result(result) => {
            let code = match &result {
                PatchApplyResult::Applied { paths } => {
                    if !args.json {
                        print(&paths.iter().map(|path| format!("{:<9}{path}\n", "written")).collect::<String>())?;
                    }
                    ExitCode::SUCCESS
                }
                PatchApplyResult::Refused(refusal) => {
                    if !args.json {
                        note(&format!("nothing was written: {}", refusal.reason));
                    }
                    ExitCode::from(exit::refused(refusal))
                }
            };
            (serde_json::to_value(result)?, code)
        }
    };
    if args.json {
        print(&format!("{document:#}\n"))?;
    }
    Ok(code)
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
