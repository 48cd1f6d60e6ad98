//! When a person is asked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When to ask before, or after, a command is run.
///
/// ```
/// use stockade_protocol::{AskForApproval, RejectConfig};
///
/// let ask: AskForApproval = serde_json::from_str(r#"{"reject":{"rules":true}}"#)?;
/// assert_eq!(ask, AskForApproval::Reject(RejectConfig { rules: true, ..RejectConfig::default() }));
///
/// // Newer codex clients say what is shown instead of what is refused.
/// let all: AskForApproval = serde_json::from_str(r#"{"granular":{"sandbox_approval":true,"rules":true,
///     "mcp_elicitations":true,"skill_approval":true,"request_permissions":true}}"#)?;
/// assert_eq!(all, AskForApproval::Reject(RejectConfig::default()));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", from = "AskForm")]
#[schemars(with = "AskForm")]
pub enum AskForApproval {
    /// Before everything that is not known to be a harmless read.
    Untrusted,
    /// When the sandbox denied something that a wider run could do.
    OnFailure,
    /// When the command itself asks for more, or is dangerous.
    OnRequest,
    /// As `OnRequest`, but whole categories of questions are refused instead of shown.
    Reject(RejectConfig),
    /// Never: what would have to be asked is refused.
    Never,
}

/// Categories of questions that are refused instead of shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RejectConfig {
    /// Questions to leave or widen the sandbox.
    pub sandbox_approval: bool,
    /// Questions that a `prompt` rule asks.
    pub rules: bool,
    /// Requests for additional permissions.
    pub request_permissions: bool,
    /// Questions to run a skill's script.
    pub skill_approval: bool,
    /// Questions that an MCP server passes on.
    pub mcp_elicitations: bool,
}

impl RejectConfig {
    /// Whether a question to leave or widen the sandbox is refused.
    pub const fn rejects_sandbox_approval(self) -> bool {
        self.sandbox_approval
    }

    /// Whether a question that a `prompt` rule asks is refused.
    pub const fn rejects_rules_approval(self) -> bool {
        self.rules
    }

    /// Whether a request for additional permissions is refused.
    pub const fn rejects_request_permissions(self) -> bool {
        self.request_permissions
    }

    /// Whether a question to run a skill's script is refused.
    pub const fn rejects_skill_approval(self) -> bool {
        self.skill_approval
    }

    /// Whether a question that an MCP server passes on is refused.
    pub const fn rejects_mcp_elicitations(self) -> bool {
        self.mcp_elicitations
    }
}

/// When to ask: a word, or the categories of questions that are refused.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "AskForApproval")]
enum AskForm {
    /// Before everything that is not known to be a harmless read.
    Untrusted,
    /// When the sandbox denied something that a wider run could do.
    OnFailure,
    /// When the command itself asks for more, or is dangerous.
    OnRequest,
    /// As `on-request`, but whole categories of questions are refused instead of shown.
    Reject(RejectConfig),
    /// The same with the opposite sense: what is not said to be shown is refused.
    Granular(GranularForm),
    /// Never: what would have to be asked is refused.
    Never,
}

/// Categories of questions that are shown. Only read, never written.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "GranularConfig")]
struct GranularForm {
    sandbox_approval: bool,
    rules: bool,
    request_permissions: bool,
    skill_approval: bool,
    mcp_elicitations: bool,
}

impl From<AskForm> for AskForApproval {
    fn from(form: AskForm) -> Self {
        match form {
            AskForm::Untrusted => Self::Untrusted,
            AskForm::OnFailure => Self::OnFailure,
            AskForm::OnRequest => Self::OnRequest,
            AskForm::Never => Self::Never,
            AskForm::Reject(reject) => Self::Reject(reject),
            AskForm::Granular(shown) => Self::Reject(RejectConfig {
                sandbox_approval: !shown.sandbox_approval,
                rules: !shown.rules,
                request_permissions: !shown.request_permissions,
                skill_approval: !shown.skill_approval,
                mcp_elicitations: !shown.mcp_elicitations,
            }),
        }
    }
}
