//! Questions to ask, and approvers that do as they are told.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stockade_core::{Answer, Approver, Unanswered};
use stockade_protocol::{
    ApprovalReply, ApprovalRequest, ApprovalSubject, NetworkApproval, NetworkPolicyAmendment, NetworkPolicyRuleAction,
    NetworkProtocol, ReviewDecision,
};

/// A question with every kind of answer that a question about the network has.
pub(crate) fn question(id: &str) -> Arc<ApprovalRequest> {
    let subject = ApprovalSubject::Network(NetworkApproval {
        host: "example.com".parse().unwrap(),
        protocol: NetworkProtocol::Https,
        port: 443,
        leads_to: Vec::new(),
        program: None,
        proposed_network_policy_amendments: vec![
            rule("example.com", NetworkPolicyRuleAction::Allow),
            rule("**.example.com", NetworkPolicyRuleAction::Allow),
            rule("example.com", NetworkPolicyRuleAction::Deny),
        ],
    });
    Arc::new(ApprovalRequest::new(id.parse().unwrap(), "thread".parse().unwrap(), subject))
}

pub(crate) fn rule(host: &str, action: NetworkPolicyRuleAction) -> NetworkPolicyAmendment {
    NetworkPolicyAmendment { host: host.parse().unwrap(), action, protocol: None, port: None }
}

pub(crate) fn save(host: &str, action: NetworkPolicyRuleAction) -> ReviewDecision {
    ReviewDecision::NetworkPolicyAmendment { network_policy_amendment: rule(host, action) }
}

pub(crate) fn denied(reason: &str) -> ReviewDecision {
    ReviewDecision::Denied { reason: Some(reason.to_owned()) }
}

pub(crate) fn reply(id: &str, decision: ReviewDecision) -> ApprovalReply {
    ApprovalReply { id: id.parse().unwrap(), decision, content: None }
}

/// Gives a result after a time.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub(crate) after: u64,
    pub(crate) result: Result<Answer, Unanswered>,
}

#[async_trait]
impl Approver for Script {
    async fn review(&self, _request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
        tokio::time::sleep(Duration::from_millis(self.after)).await;
        self.result.clone()
    }
}
