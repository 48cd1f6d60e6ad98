//! Passes an MCP server's question to a person, and the answer back.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stockade_protocol::{
    AuditEvent, Decision, DecisionSource, ElicitationApproval, ExecApprovalRequirement, Refusal, RefusedBy, RequestId,
    ReviewDecision,
};

use crate::requirement;
use crate::run::Orchestrator;

/// What the server is told, in MCP's words.
/// <https://modelcontextprotocol.io/specification/2025-06-18/client/elicitation>
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ElicitationOutcome {
    /// The person answered.
    Accept {
        /// The answer, valid for the server's form. It is never recorded.
        content: BTreeMap<String, serde_json::Value>,
    },
    /// The person, or the policy, said no.
    Decline {
        /// Why.
        reason: String,
    },
    /// There was no answer, or everything was stopped.
    Cancel {
        /// Why.
        reason: String,
    },
}

impl Orchestrator {
    /// Asks a server's question, if the session's policy permits questions. The question and the decision are
    /// recorded; the answer is not.
    pub async fn elicit(&self, id: &RequestId, question: &ElicitationApproval) -> ElicitationOutcome {
        let session = self.session();
        let trail = self.audit.begin(&session.thread_id, id);
        let reason = match requirement::of_elicitation(session.ask, &question.server) {
            ExecApprovalRequirement::Forbidden { reason } => {
                let refusal = Refusal { by: RefusedBy::ApprovalPolicy, reason: reason.clone() };
                // Nothing is run, so a trail that can't be written has nothing to stop.
                trail.note(AuditEvent::Decided {
                    decision: Decision::Forbidden,
                    source: DecisionSource::ApprovalPolicy,
                    reason: Some(reason.clone()),
                    sandbox_warnings: Vec::new(),
                });
                trail.note(AuditEvent::Refused(refusal));
                return ElicitationOutcome::Decline { reason };
            }
            ExecApprovalRequirement::NeedsApproval { reason, .. } => reason,
            ExecApprovalRequirement::Skip { .. } => None,
        };
        let answer = match self.approvals.ask_for_server(question, reason, &trail).await {
            Ok(answer) => answer,
            Err(refusal) => return ElicitationOutcome::Cancel { reason: refusal.reason },
        };
        match answer.decision {
            ReviewDecision::Approved => ElicitationOutcome::Accept { content: answer.content.unwrap_or_default() },
            ReviewDecision::Denied { reason } => {
                let reason = reason.unwrap_or_else(|| String::from("the reviewer said no"));
                ElicitationOutcome::Decline { reason }
            }
            ReviewDecision::TimedOut => ElicitationOutcome::Cancel { reason: String::from("nobody answered in time") },
            // The others are not offered.
            ReviewDecision::Abort
            | ReviewDecision::DeniedForRun
            | ReviewDecision::ApprovedForRun
            | ReviewDecision::ApprovedForSession
            | ReviewDecision::ApprovedExecpolicyAmendment { .. }
            | ReviewDecision::ApprovedProfileAmendment { .. }
            | ReviewDecision::NetworkPolicyAmendment { .. } => {
                ElicitationOutcome::Cancel { reason: String::from("the reviewer stopped the session") }
            }
        }
    }
}
