//! The keys of a settings file, as they are written.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stockade_protocol::{AskForApproval, EnvironmentInherit, NamePattern, VariableName};

use crate::limits::LimitsForm;
use crate::loss::LossName;
use crate::written::Written;

/// Profiles have the same keys as the top level. They are expanded in both, since a flattened table would lose the
/// position of an error.
macro_rules! settings_keys {
    ($($(#[$about:meta])* $key:ident: $value:ty,)*) => {
        /// A settings file of Stockade: `config.toml`.
        #[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        #[schemars(rename = "Config")]
        pub(crate) struct ConfigForm {
            /// The profile to use, one of `profiles`.
            pub(crate) profile: Option<Written<String>>,
            /// Named sets of settings. The chosen one counts more than what stands outside of it.
            pub(crate) profiles: BTreeMap<String, SettingsForm>,
            /// What no setting, flag or approval exceeds. Only the administrator's file has it.
            pub(crate) maximum: Option<Written<MaximumForm>>,
            $($(#[$about])* pub(crate) $key: $value,)*
        }

        /// A named set of settings.
        #[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        #[schemars(rename = "Profile")]
        pub(crate) struct SettingsForm {
            $($(#[$about])* pub(crate) $key: $value,)*
        }

        impl ConfigForm {
            /// What stands outside of the profiles.
            pub(crate) fn settings(&self) -> SettingsForm {
                SettingsForm { $($key: self.$key.clone(),)* }
            }
        }
    };
}

settings_keys! {
    /// When a person is asked.
    ask: Option<AskForApproval>,
    /// What builds the sandbox.
    engine: Option<EngineName>,
    /// See what commands try against their policy, in place of guessing it from their output; on by default.
    observe: Option<bool>,
    /// When a command is ended that does not end by itself, such as `"30s"`.
    timeout: Option<Written<String>>,
    /// How much of a command's output is kept, for each of its two streams.
    output_cap_bytes: Option<NonZeroU64>,
    /// What a command may touch.
    sandbox: SandboxForm,
    /// Permission profiles that every command has, such as `"npm"`: `stockade profile list` has all of them.
    with: Option<Vec<Written<String>>>,
    /// Names below every writable root that are never written, such as `.git`.
    protected_names: NamesForm,
    /// Paths below the home directory that are not read unless named, such as `~/.ssh`.
    credentials: NamesForm,
    /// How much of the machine a command may use.
    limits: LimitsForm,
    /// Which environment variables a command sees.
    env: EnvForm,
    /// The trail.
    audit: Option<Written<AuditForm>>,
    /// A program that answers in a person's place.
    approver: Option<Written<ApproverForm>>,
    /// A program that says how risky a request is, for the person who is asked.
    risk: Option<Written<RiskForm>>,
    /// What rules mean for the sandbox.
    rules: Option<Written<RulesForm>>,
}

/// How much a command is trusted with, the least first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SandboxMode {
    /// Nothing is written.
    ReadOnly,
    /// The workspace is written.
    #[default]
    WorkspaceWrite,
    /// Another sandbox is around this process already.
    ExternalSandbox,
    /// No sandbox.
    DangerFullAccess,
}

/// The network of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkMode {
    /// None at all.
    #[default]
    Off,
    /// The hosts of `allow_hosts`, others are asked for, and only `GET`, `HEAD` and `OPTIONS` of plain
    /// HTTP pass: what can't be seen is refused.
    Limited,
    /// The hosts of `allow_hosts`; others are asked for.
    Hosts,
    /// Whatever the host itself can reach.
    Full,
}

/// What builds the sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EngineName {
    /// The strongest that works.
    #[default]
    Auto,
    /// Stockade's own launcher.
    Native,
    /// Bubblewrap.
    Bwrap,
    /// Landlock alone.
    Landlock,
}

/// What a command may touch.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Sandbox")]
pub(crate) struct SandboxForm {
    /// How much a command is trusted with.
    pub(crate) mode: Option<SandboxMode>,
    /// Directories that may be written besides the workspace.
    pub(crate) writable_roots: Option<Vec<Written<String>>>,
    /// The only directories that may be read, besides what programs need to start.
    pub(crate) readable_roots: Option<Vec<Written<String>>>,
    /// Paths and globs that are never read, whatever is approved.
    pub(crate) deny_read: Vec<Written<String>>,
    /// The network.
    pub(crate) network: Option<NetworkMode>,
    /// Hosts that may be reached: `host`, `host:port`, `*.host`. They turn the network to `hosts`.
    pub(crate) allow_hosts: Option<Vec<Written<String>>>,
    /// Hosts that may never be reached.
    pub(crate) deny_hosts: Vec<Written<String>>,
    /// Unix sockets that may be connected to, such as an SSH agent's.
    pub(crate) unix_sockets: Option<Vec<Written<String>>>,
    /// Devices that may be used, by their nodes below `/dev`, such as `/dev/dri/renderD128`.
    pub(crate) devices: Option<Vec<Written<String>>>,
    /// What a command may run without, where the sandbox can't hold it.
    pub(crate) accept_losses: Option<Written<Vec<LossName>>>,
    /// Give the command no private directory at `$TMPDIR`.
    pub(crate) exclude_tmpdir_env_var: Option<bool>,
    /// Give the command no private `/tmp`.
    pub(crate) exclude_slash_tmp: Option<bool>,
}

/// Changes of a list that Stockade has by itself.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "ListChanges")]
pub(crate) struct NamesForm {
    /// Put these on the list.
    pub(crate) add: Vec<Written<String>>,
    /// Take these off the list.
    pub(crate) remove: Vec<Written<String>>,
}

/// Which environment variables a command sees.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Environment")]
pub(crate) struct EnvForm {
    /// What to start from.
    pub(crate) inherit: Option<EnvironmentInherit>,
    /// Keep inherited variables whose names usually hold a secret.
    pub(crate) ignore_default_excludes: Option<bool>,
    /// Inherited variables to drop.
    pub(crate) exclude: BTreeSet<NamePattern>,
    /// Variables to set, whatever was inherited.
    pub(crate) set: BTreeMap<VariableName, String>,
    /// If not empty, drop every variable that none of these matches.
    pub(crate) include_only: Option<BTreeSet<NamePattern>>,
}

/// The trail.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "AuditSettings")]
pub(crate) struct AuditForm {
    /// Refuse to run what can't be written to the trail.
    pub(crate) required: Option<bool>,
    /// When a record is safe.
    pub(crate) durability: Option<AuditDurability>,
    /// The directory of the trail.
    pub(crate) path: Option<Written<String>>,
}

/// When a record of the trail is safe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AuditDurability {
    /// When the system has it: it survives the process, not a loss of power.
    #[default]
    System,
    /// When the disk has it.
    EachRecord,
}

/// A program that answers in a person's place.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ApproverSettings")]
pub(crate) struct ApproverForm {
    /// The program, by its path, and its arguments.
    pub(crate) hook: Vec<Written<String>>,
    /// How long it may take, such as `"10s"`.
    pub(crate) timeout: Option<Written<String>>,
}

/// A program that says how risky a request is, for the person who is asked.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RiskSettings")]
pub(crate) struct RiskForm {
    /// The program, by its path, and its arguments.
    pub(crate) hook: Vec<Written<String>>,
}

/// What rules mean for the sandbox.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "RulesSettings")]
pub(crate) struct RulesForm {
    /// Where a command runs that a rule allows without saying `outside` itself.
    pub(crate) allow: Option<AllowedCommands>,
}

/// Where a command runs that a rule allows without saying `outside` itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AllowedCommands {
    /// In the sandbox, like any other.
    #[default]
    Inside,
    /// Without the sandbox, as codex reads such rules. Exact rules and those of a project stay inside.
    Outside,
}

/// What no setting, flag or approval exceeds.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Maximum")]
pub(crate) struct MaximumForm {
    /// The policies that may be chosen, by their words: `untrusted`, `on-failure`, `on-request`,
    /// `reject`, `never`. All if absent.
    pub(crate) ask: Option<Vec<AskWord>>,
    /// The longest time after which a command is ended.
    pub(crate) timeout: Option<Written<String>>,
    /// The most that a command may touch.
    pub(crate) sandbox: SandboxForm,
    /// The most of the machine that a command may use.
    pub(crate) limits: LimitsForm,
    /// The most of the environment that a command sees.
    pub(crate) env: EnvForm,
    /// Nothing runs that can't be written to the trail.
    pub(crate) audit_required: bool,
}

/// The word for a policy of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AskWord {
    /// Before everything that is not known to be a harmless read.
    Untrusted,
    /// When the sandbox denied something.
    OnFailure,
    /// When the command itself asks for more.
    OnRequest,
    /// As `on-request`, with categories refused.
    Reject,
    /// Never.
    Never,
}

impl From<&AskForApproval> for AskWord {
    fn from(ask: &AskForApproval) -> Self {
        match ask {
            AskForApproval::Untrusted => Self::Untrusted,
            AskForApproval::OnFailure => Self::OnFailure,
            AskForApproval::OnRequest => Self::OnRequest,
            AskForApproval::Reject(_) => Self::Reject,
            AskForApproval::Never => Self::Never,
        }
    }
}
