//! Judging a command without running it.

use stockade::Stockade;
use stockade_config::{ConfigLoader, user_variable};
use stockade_core::Explanation;
use stockade_execpolicy::{CheckReport, HostExecutables};
use stockade_protocol::{Argv, RawText};

use super::{apart, failed};
use crate::wire::{CommandExplainParams, ErrorKind, RpcError};

/// What would happen to a command in a session.
pub(crate) fn command_explain(session: &Stockade, params: CommandExplainParams) -> Result<Explanation, RpcError> {
    let words: Option<Vec<_>> = params.command.words().iter().map(RawText::to_os_string).collect();
    let words = words.ok_or_else(|| RpcError::new(ErrorKind::InvalidParams, "`params.command` is no text here"))?;
    let mut command = session.command(words);
    if let Some(cwd) = &params.cwd {
        let foreign = || RpcError::new(ErrorKind::InvalidParams, "`params.cwd` is a path of another system");
        command = command.cwd(cwd.to_host_path().ok_or_else(foreign)?);
    }
    if let Some(escalation) = params.escalation {
        command = command.escalation(escalation);
    }
    command.explain().map_err(failed)
}

/// What the rules of a session say of a command, those of its project included.
pub(crate) fn rules_check(session: &Stockade, command: &Argv) -> Result<CheckReport, RpcError> {
    let params = CommandExplainParams {
        session_id: session.id().as_str().parse().map_err(failed)?,
        command: command.clone(),
        cwd: None,
        escalation: None,
    };
    Ok(command_explain(session, params)?.rules)
}

/// What the administrator's and the user's rules say of a command.
pub(crate) async fn rules_check_alone(command: Argv) -> Result<CheckReport, RpcError> {
    apart(move || {
        // A home that leads elsewhere is refused here as in a run.
        ConfigLoader::standard().map_err(failed)?;
        let policy = stockade::rules::standard(user_variable).load().map_err(failed)?;
        Ok(policy.check(&command, HostExecutables::Ignore))
    })
    .await
}
