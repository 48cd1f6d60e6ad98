//! The decision of a person, or of a program that answers in their place.
//!
//! The wire form is codex's: `"approved"`, `{"approved_execpolicy_amendment": {…}}` and so on. A
//! denial without a reason is the bare `"denied"` that every codex client knows; with a reason it is
//! `{"denied": {"rejection": "…"}}`, which is also read with `reason` in its place.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, IntoDeserializer as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Argv, Decision, HostPattern, HostRule, NetworkProtocol, ProfileAmendment};

/// A rule to be saved: exactly this command is allowed from now on, in the sandbox of its session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ExecPolicyAmendment(pub Argv);

/// A rule to be saved: this destination is allowed, or refused, from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NetworkPolicyAmendment {
    /// The host or hosts.
    pub host: HostPattern,
    /// Whether to allow or refuse.
    pub action: NetworkPolicyRuleAction,
    /// The protocol; every protocol if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<NetworkProtocol>,
    /// The port; every port if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
}

/// What a saved network rule does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NetworkPolicyRuleAction {
    /// Lets the connection through.
    Allow,
    /// Refuses it.
    Deny,
}

impl From<&NetworkPolicyAmendment> for HostRule {
    fn from(amendment: &NetworkPolicyAmendment) -> Self {
        let decision = match amendment.action {
            NetworkPolicyRuleAction::Allow => Decision::Allow,
            NetworkPolicyRuleAction::Deny => Decision::Forbidden,
        };
        Self { host: amendment.host.clone(), protocol: amendment.protocol, port: amendment.port, decision }
    }
}

/// The answer to an `ApprovalRequest`.
///
/// ```
/// use stockade_protocol::ReviewDecision;
///
/// let decision: ReviewDecision = serde_json::from_str(
///     r#"{"approved_execpolicy_amendment":{"proposed_execpolicy_amendment":["npm","test"]}}"#)?;
/// assert!(decision.is_approval());
///
/// let denied: ReviewDecision = serde_json::from_str(r#""denied""#)?;
/// assert_eq!(denied, ReviewDecision::Denied { reason: None });
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReviewDecision {
    /// Yes, this once.
    Approved,
    /// Yes, and to what belongs with it, until the command ends.
    ApprovedForRun,
    /// Yes, and the same again for the rest of the session.
    ApprovedForSession,
    /// Yes, and save this rule.
    ApprovedExecpolicyAmendment {
        /// The rule, as it was proposed.
        proposed_execpolicy_amendment: ExecPolicyAmendment,
    },
    /// Yes, and save this permission profile.
    ApprovedProfileAmendment {
        /// The profile, as it was proposed.
        proposed_profile_amendment: ProfileAmendment,
    },
    /// Save this network rule; whether that is a yes stands in the rule.
    NetworkPolicyAmendment {
        /// The rule, as it was proposed.
        network_policy_amendment: NetworkPolicyAmendment,
    },
    /// No; the session goes on.
    Denied {
        /// Why, in words for the requester.
        reason: Option<String>,
    },
    /// No, and to everything else that the command asks while it runs. The session goes on.
    DeniedForRun,
    /// There was no answer in time, which counts as no.
    TimedOut,
    /// No, and stop the session.
    Abort,
}

impl ReviewDecision {
    /// Whether the request may go ahead.
    pub fn is_approval(&self) -> bool {
        match self {
            Self::Approved
            | Self::ApprovedForRun
            | Self::ApprovedForSession
            | Self::ApprovedExecpolicyAmendment { .. }
            | Self::ApprovedProfileAmendment { .. } => true,
            Self::NetworkPolicyAmendment { network_policy_amendment } => {
                network_policy_amendment.action == NetworkPolicyRuleAction::Allow
            }
            Self::Denied { .. } | Self::DeniedForRun | Self::TimedOut | Self::Abort => false,
        }
    }
}

/// The decisions that are a bare word on the wire.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Word {
    Approved,
    ApprovedForRun,
    ApprovedForSession,
    Denied,
    DeniedForRun,
    TimedOut,
    Abort,
}

/// The decisions that carry something.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Payload {
    ApprovedExecpolicyAmendment {
        proposed_execpolicy_amendment: ExecPolicyAmendment,
    },
    ApprovedProfileAmendment {
        proposed_profile_amendment: ProfileAmendment,
    },
    NetworkPolicyAmendment {
        network_policy_amendment: NetworkPolicyAmendment,
    },
    Denied {
        #[serde(alias = "reason")]
        rejection: String,
    },
}

impl Serialize for ReviewDecision {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.clone() {
            Self::Approved => Word::Approved.serialize(serializer),
            Self::ApprovedForRun => Word::ApprovedForRun.serialize(serializer),
            Self::ApprovedForSession => Word::ApprovedForSession.serialize(serializer),
            Self::ApprovedExecpolicyAmendment { proposed_execpolicy_amendment } => {
                Payload::ApprovedExecpolicyAmendment { proposed_execpolicy_amendment }.serialize(serializer)
            }
            Self::ApprovedProfileAmendment { proposed_profile_amendment } => {
                Payload::ApprovedProfileAmendment { proposed_profile_amendment }.serialize(serializer)
            }
            Self::NetworkPolicyAmendment { network_policy_amendment } => {
                Payload::NetworkPolicyAmendment { network_policy_amendment }.serialize(serializer)
            }
            Self::Denied { reason: None } => Word::Denied.serialize(serializer),
            Self::Denied { reason: Some(rejection) } => Payload::Denied { rejection }.serialize(serializer),
            Self::DeniedForRun => Word::DeniedForRun.serialize(serializer),
            Self::TimedOut => Word::TimedOut.serialize(serializer),
            Self::Abort => Word::Abort.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for ReviewDecision {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DecisionVisitor)
    }
}

struct DecisionVisitor;

impl<'de> Visitor<'de> for DecisionVisitor {
    type Value = ReviewDecision;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a review decision such as `\"approved\"` or `{\"denied\": {\"rejection\": …}}`")
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<ReviewDecision, E> {
        Ok(match Word::deserialize(word.into_deserializer())? {
            Word::Approved => ReviewDecision::Approved,
            Word::ApprovedForRun => ReviewDecision::ApprovedForRun,
            Word::ApprovedForSession => ReviewDecision::ApprovedForSession,
            Word::Denied => ReviewDecision::Denied { reason: None },
            Word::DeniedForRun => ReviewDecision::DeniedForRun,
            Word::TimedOut => ReviewDecision::TimedOut,
            Word::Abort => ReviewDecision::Abort,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ReviewDecision, A::Error> {
        Ok(match Payload::deserialize(MapAccessDeserializer::new(map))? {
            Payload::ApprovedExecpolicyAmendment { proposed_execpolicy_amendment } => {
                ReviewDecision::ApprovedExecpolicyAmendment { proposed_execpolicy_amendment }
            }
            Payload::ApprovedProfileAmendment { proposed_profile_amendment } => {
                ReviewDecision::ApprovedProfileAmendment { proposed_profile_amendment }
            }
            Payload::NetworkPolicyAmendment { network_policy_amendment } => {
                ReviewDecision::NetworkPolicyAmendment { network_policy_amendment }
            }
            Payload::Denied { rejection } => ReviewDecision::Denied { reason: Some(rejection) },
        })
    }
}

impl JsonSchema for ReviewDecision {
    fn schema_name() -> Cow<'static, str> {
        "ReviewDecision".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The answer to an approval request.",
            "anyOf": [Word::json_schema(generator), Payload::json_schema(generator)],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denial_is_read_in_every_form_and_written_in_the_newest() {
        let read = |text: &str| serde_json::from_str::<ReviewDecision>(text).unwrap();
        let why = ReviewDecision::Denied { reason: Some(String::from("why")) };
        assert_eq!(read(r#"{"denied":{"rejection":"why"}}"#), why);
        assert_eq!(read(r#"{"denied":{"reason":"why"}}"#), why);
        assert_eq!(read(r#""denied""#), ReviewDecision::Denied { reason: None });
        assert_eq!(serde_json::to_string(&why).unwrap(), r#"{"denied":{"rejection":"why"}}"#);
    }
}
