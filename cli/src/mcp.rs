//! `stockade mcp`: tools for agents, in a session.

use std::ffi::OsStr;
use std::process::ExitCode;
use std::sync::Arc;

use stockade::terminal::question_text;
use stockade_core::Explanation;
use stockade_mcp::{McpOptions, QuestionsTo, Wording};
use stockade_protocol::{ApprovalRequest, Argv, Invalid, Outcome, Violation};

use crate::args::Mcp;
use crate::exit::{Failure, note};
use crate::joined::{self, Opening, Served};
use crate::remedy::Remedies;
use crate::{explain, report, session, shell};

pub(crate) fn run(args: &Mcp) -> Result<ExitCode, Failure> {
    session::check_for_many(&args.session, "an agent")?;
    let opening = opening(args)?;
    let Served { socket, session_id, capability, name, opener } = joined::serve(args.session_name.clone(), opening)?;
    let options = McpOptions {
        socket,
        opener,
        session_id,
        capability,
        session_name: name.to_string(),
        questions: if args.no_elicitation { QuestionsTo::Others } else { QuestionsTo::Client },
        wording: Arc::new(InSettings(Remedies::in_settings())),
        notice: Arc::new(|text: &str| note(text)),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let done = runtime.block_on(async {
        let ending = crate::serve::ending_signal()?;
        stockade_mcp::serve(options, tokio::io::stdin(), tokio::io::stdout(), ending).await.map_err(Failure::from)
    });
    // A read of standard input may block for ever.
    runtime.shutdown_background();
    if args.session_name.is_none() {
        joined::forget(&name);
    }
    done.map(|()| ExitCode::SUCCESS)
}

/// The parameters of the session. One without a name ends with this program.
fn opening(args: &Mcp) -> Result<Opening, Failure> {
    let Opening { mut params, flags } = session::opening(&args.session)?;
    params.timeout_ms = args.session.timeout.and_then(|limit| u64::try_from(limit.as_millis()).ok()?.try_into().ok());
    if args.session_name.is_none() {
        params.linger_ms = Some(0);
    }
    Ok(Opening { params, flags })
}

/// The remedies of `stockade run`, for an agent whose user has typed no flags.
struct InSettings(Remedies);

impl Wording for InSettings {
    fn outcome(&self, outcome: &Outcome) -> Vec<String> {
        report::failure(outcome, &self.0)
    }

    fn remedy(&self, violation: &Violation) -> Option<String> {
        self.0.of(violation)
    }

    fn explanation(&self, explanation: &Explanation) -> String {
        explain::command_text(explanation)
    }

    fn question(&self, request: &ApprovalRequest) -> String {
        question_text(request)
    }

    fn line(&self, line: &str) -> Result<Argv, Invalid> {
        Argv::from_os(shell::with_line(OsStr::new(line), &[]))
    }
}
