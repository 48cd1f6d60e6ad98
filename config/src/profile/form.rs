//! The keys of a permission profile's file, as they are written.

use schemars::JsonSchema;
use serde::Deserialize;
use stockade_protocol::ResourceLimits;

use crate::written::Written;

/// A permission profile: a named set of additional permissions, each with its reason. The file's name is the
/// profile's.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PermissionProfile")]
pub(crate) struct ProfileForm {
    /// What it is for, in one sentence.
    pub(crate) about: Written<String>,
    /// The programs that need it. A denial of one of them names the profile, if it would have helped.
    #[serde(default)]
    pub(crate) tools: Vec<Written<String>>,
    /// Only `--with` and the settings of the user and the administrator grant it, neither rules nor a project.
    #[serde(default)]
    pub(crate) only_when_named: bool,
    /// Files and directories that may be written. A missing directory is made when a command runs.
    #[serde(default)]
    pub(crate) write: Vec<PathForm>,
    /// Files and directories that may be read.
    #[serde(default)]
    pub(crate) read: Vec<PathForm>,
    /// Hosts that may be reached.
    #[serde(default)]
    pub(crate) connect: Vec<HostForm>,
    /// Unix sockets that may be connected to.
    #[serde(default)]
    pub(crate) socket: Vec<PathForm>,
    /// Directories of skills: a program below one of them that a command is, or starts, is asked about as a skill's
    /// script. This grants nothing.
    #[serde(default)]
    pub(crate) skill: Vec<PathForm>,
    /// The repository that the workspace is the top of: git may write there what it writes, and nothing else. Only `--with` and
    /// the settings of the user and the administrator grant it.
    #[serde(default)]
    pub(crate) repository: Option<RepositoryForm>,
    /// Variables that are passed on where the settings keep only some, or set.
    #[serde(default)]
    pub(crate) env: Vec<VariableForm>,
    /// Where the tool keeps its state: in a directory of the profile's own, which other runs can't read. Not in a
    /// project's profile.
    #[serde(default)]
    pub(crate) state: Vec<StateForm>,
    /// Limits that are raised, where the settings have lower ones.
    #[serde(default)]
    pub(crate) limit: Vec<LimitForm>,
    /// Commands that have it without being told so, each in one workspace. Not in a project's profile.
    #[serde(default)]
    pub(crate) used_for: Vec<UseForm>,
}

/// A command that has the profile in a workspace.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ProfileUse")]
pub(crate) struct UseForm {
    /// The program and its arguments, all of them.
    pub(crate) command: Vec<Written<String>>,
    /// The directories of the workspace, all of them, as absolute paths without links.
    pub(crate) workspace: Vec<Written<String>>,
}

/// A path, and why it is needed.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ProfilePath")]
pub(crate) struct PathForm {
    /// An absolute path, one that begins with `~/`, or one with variables: `${CARGO_HOME:-~/.cargo}/registry`.
    pub(crate) path: Written<String>,
    /// Why.
    pub(crate) reason: Written<String>,
}

/// A host, and why it is needed.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ProfileHost")]
pub(crate) struct HostForm {
    /// `host`, `host:port`, `*.host`, or a variable that holds URLs: `${PIP_INDEX_URL:-https://pypi.org}`.
    pub(crate) host: Written<String>,
    /// Why.
    pub(crate) reason: Written<String>,
}

/// Why git has to write the repository.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ProfileRepository")]
pub(crate) struct RepositoryForm {
    /// Why.
    pub(crate) reason: Written<String>,
}

/// A variable, and why it is needed.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ProfileVariable")]
pub(crate) struct VariableForm {
    /// Its name.
    pub(crate) name: Written<String>,
    /// What it is set to, whatever was inherited. Not in a project's profile.
    #[serde(default)]
    pub(crate) value: Option<Written<String>>,
    /// Why.
    pub(crate) reason: Written<String>,
}

/// A variable that names a directory of the profile's own, and why it is needed.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ProfileState")]
pub(crate) struct StateForm {
    /// The variable by which the tool finds its state.
    pub(crate) variable: Written<String>,
    /// The name of a directory in the profile's own, for a tool that has several.
    #[serde(default)]
    pub(crate) below: Option<Written<String>>,
    /// Why.
    pub(crate) reason: Written<String>,
}

/// Limits, and why they have to be that high.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ProfileLimits")]
pub(crate) struct LimitForm {
    /// The limits.
    pub(crate) at_least: ResourceLimits,
    /// Why.
    pub(crate) reason: Written<String>,
}
