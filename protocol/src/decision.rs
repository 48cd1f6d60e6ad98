//! Decisions about commands, and the requirement for approval.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ExecPolicyAmendment;

/// What a rule, or all rules together, say of a command. The strictest wins:
///
/// ```
/// use stockade_protocol::Decision;
///
/// assert_eq!(Decision::Allow.max(Decision::Prompt), Decision::Prompt);
/// assert_eq!([Decision::Prompt, Decision::Forbidden].into_iter().max(), Some(Decision::Forbidden));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It may, without asking.
    Allow,
    /// A person has to be asked.
    Prompt,
    /// It may not, and there is no question.
    Forbidden,
}

/// What has to happen before a command may start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExecApprovalRequirement {
    /// There is no question.
    Skip {
        /// Whether the rules that allowed it also let it run without the sandbox.
        #[serde(default)]
        bypass_sandbox: bool,
        /// A rule that a person may want to save once a denial has been explained.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proposed_execpolicy_amendment: Option<ExecPolicyAmendment>,
    },
    /// A person is asked first.
    NeedsApproval {
        /// Why, in words for that person.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// A rule that the person may save along with the approval.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        proposed_execpolicy_amendment: Option<ExecPolicyAmendment>,
    },
    /// It does not run.
    Forbidden {
        /// Why not.
        reason: String,
    },
}
