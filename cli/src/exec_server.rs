//! `stockade exec-server`: codex's commands in a session.

use std::process::ExitCode;
use std::sync::Arc;

use stockade_exec_server::ExecServerOptions;
use stockade_protocol::Outcome;

use crate::args::ExecServer;
use crate::exit::{Failure, note};
use crate::remedy::Remedies;
use crate::{report, session};

pub(crate) fn run(args: &ExecServer) -> Result<ExitCode, Failure> {
    session::check_for_many(&args.session, "codex")?;
    let (params, remedies) = session::served(&args.session)?;
    let options = ExecServerOptions {
        session: params,
        program: std::fs::canonicalize(std::env::current_exe()?)?,
        explain: explain(remedies),
        notice: Arc::new(|text: &str| note(text)),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let served = runtime.block_on(async {
        let ending = crate::serve::ending_signal()?;
        stockade_exec_server::serve(options, tokio::io::stdin(), tokio::io::stdout(), ending)
            .await
            .map_err(Failure::from)
    });
    // A read of standard input may block for ever.
    runtime.shutdown_background();
    served.map(|()| ExitCode::SUCCESS)
}

/// The report of `stockade run` on an outcome, with this command's flags.
fn explain(remedies: Remedies) -> stockade_exec_server::Explain {
    Arc::new(move |outcome: &Outcome| report::outcome(outcome, &remedies))
}
