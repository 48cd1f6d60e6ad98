//! A question of the session as an elicitation, and the answer to it.
//!
//! An answer is what the MCP client says that a person chose. Only an accepted form that names a decision is a yes;
//! everything else is a no.

use rmcp::model::{ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationSchema};
use serde_json::{Value, json};
use stockade_protocol::{ApprovalRequest, ReviewDecision};

const ONCE: &str = "allow-once";
const SESSION: &str = "allow-for-session";
const DENY: &str = "deny";

/// The longest reason that is passed on.
const LONGEST_REASON: usize = 500;

/// The answer of a client to an elicitation.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer(ElicitResult);

impl From<ElicitResult> for Answer {
    fn from(result: ElicitResult) -> Self {
        Self(result)
    }
}

impl Answer {
    /// Reads what a client gave back for an elicitation.
    pub fn read(value: Value) -> Option<Self> {
        serde_json::from_value(value).ok().map(Self)
    }

    /// Whether the question was put away without an answer. Clients without a person do that by themselves.
    pub fn is_dismissal(&self) -> bool {
        self.0.action == ElicitationAction::Cancel
    }

    /// What it means for a question. It is always one of the answers that the question has.
    pub fn decision(&self, request: &ApprovalRequest) -> ReviewDecision {
        let denied = |reason: &str| ReviewDecision::Denied { reason: Some(reason.to_owned()) };
        let content = self.0.content.as_ref();
        let field = |name: &str| content.and_then(|content| content.get(name)).and_then(Value::as_str);
        match self.0.action {
            ElicitationAction::Decline => denied("it was declined in the MCP client"),
            ElicitationAction::Cancel => denied("it was dismissed in the MCP client without an answer"),
            ElicitationAction::Accept => {
                let wanted = match field("decision") {
                    Some(ONCE) => ReviewDecision::Approved,
                    Some(SESSION) => ReviewDecision::ApprovedForSession,
                    Some(DENY) => {
                        let reason = field("reason").map(|reason| reason.chars().take(LONGEST_REASON).collect());
                        return ReviewDecision::Denied { reason: reason.filter(|reason: &String| !reason.is_empty()) };
                    }
                    Some(_) | None => return denied("the answer named no decision"),
                };
                if request.available_decisions.contains(&wanted) {
                    wanted
                } else {
                    denied("the answer was not among those offered")
                }
            }
            _ => denied("the answer can't be read"),
        }
    }
}

/// The question as a form: a decision, and a reason for a no.
pub(crate) fn form(request: &ApprovalRequest, text: &str) -> Result<ElicitRequestParams, serde_json::Error> {
    let offered = [(ONCE, ReviewDecision::Approved), (SESSION, ReviewDecision::ApprovedForSession)];
    let offered = offered.iter().filter(|(_, decision)| request.available_decisions.contains(decision));
    let names: Vec<&str> = offered.map(|(name, _)| *name).chain([DENY]).collect();
    let schema: ElicitationSchema = serde_json::from_value(json!({
        "type": "object",
        "properties": {
            "decision": {
                "type": "string",
                "title": "Decision",
                "description": "Whether Stockade allows it: this once, for the rest of this session, or not",
                "enum": names,
            },
            "reason": { "type": "string", "title": "Reason", "description": "Why not, for the agent", "maxLength": LONGEST_REASON },
        },
        "required": ["decision"],
    }))?;
    Ok(ElicitRequestParams::FormElicitationParams { meta: None, message: text.to_owned(), requested_schema: schema })
}

#[cfg(test)]
mod tests {
    use stockade_protocol::ApprovalSubject;

    use super::*;

    fn request() -> ApprovalRequest {
        let network = json!({"host": "example.com", "protocol": "https", "port": 443});
        let network = serde_json::from_value(network).unwrap();
        ApprovalRequest::new("r".parse().unwrap(), "t".parse().unwrap(), ApprovalSubject::Network(network))
    }

    fn decided(answer: Value) -> ReviewDecision {
        Answer::read(answer).unwrap().decision(&request())
    }

    #[test]
    fn only_an_accepted_form_that_names_a_decision_is_a_yes() {
        let yes = |decision: &str| json!({"action": "accept", "content": {"decision": decision}});
        assert_eq!(decided(yes("allow-once")), ReviewDecision::Approved);
        assert_eq!(decided(yes("allow-for-session")), ReviewDecision::ApprovedForSession);
        for no in [
            json!({"action": "accept"}),
            json!({"action": "accept", "content": {}}),
            json!({"action": "accept", "content": {"decision": true}}),
            json!({"action": "accept", "content": ["allow-once"]}),
            yes("yes"),
            yes("deny"),
            json!({"action": "decline", "content": {"decision": "allow-once"}}),
            json!({"action": "cancel", "content": {"decision": "allow-once"}}),
        ] {
            assert!(matches!(decided(no.clone()), ReviewDecision::Denied { .. }), "{no}");
        }
        assert!(Answer::read(json!({"action": "approve"})).is_none());
        let mut once = request();
        once.available_decisions.retain(|decision| *decision != ReviewDecision::ApprovedForSession);
        let answer = Answer::read(yes("allow-for-session")).unwrap();
        assert!(matches!(answer.decision(&once), ReviewDecision::Denied { .. }));
    }

    #[test]
    fn a_form_offers_what_the_question_does() {
        let mut request = request();
        request.available_decisions.retain(|decision| *decision != ReviewDecision::ApprovedForSession);
        let form = serde_json::to_value(form(&request, "may it?").unwrap()).unwrap();
        assert_eq!(form["requestedSchema"]["properties"]["decision"]["enum"], json!(["allow-once", "deny"]));
        assert_eq!((&form["message"], &form["mode"]), (&json!("may it?"), &json!("form")));
    }
}
