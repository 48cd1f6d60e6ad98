//! Questions of the session. codex's protocol has none that a person could be asked, so each is declined with what would
//! make it needless. A program that the settings name answers before it comes here.

use stockade_protocol::{ApprovalSubject, ReviewDecision};
use stockade_server::wire::{ApprovalAnswerParams, ApprovalRequestParams, Methods as _};

use crate::session::Session;

/// Answers a question.
pub(crate) async fn answer(session: &Session, question: ApprovalRequestParams) {
    let reason = match &question.request.subject {
        ApprovalSubject::Command(_) => "codex can't ask this: allow the command with a rule in a `.rules` file",
        ApprovalSubject::Network(_) => {
            "codex can't ask this: allow the host with `--allow-host` of `stockade exec-server`, or in the settings"
        }
        ApprovalSubject::Write(_) => {
            "codex can't ask this: make the directory writable with `--writable` of `stockade exec-server`, or in the settings"
        }
        ApprovalSubject::Patch(_)
        | ApprovalSubject::Permissions(_)
        | ApprovalSubject::ToolCall(_)
        | ApprovalSubject::Elicitation(_) => "codex can't ask this",
    };
    let answer = ApprovalAnswerParams {
        session_id: question.session_id,
        question_id: question.question_id,
        decision: ReviewDecision::Denied { reason: Some(String::from(reason)) },
        content: None,
    };
    // One that was answered meanwhile needs no answer.
    session.methods().approval_answer(session.caller(), answer).await.ok();
}
