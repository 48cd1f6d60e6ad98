//! What the tools are called with. Fields that are not known are refused, so that no restriction is passed over.

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use stockade_protocol::{
    AbsPath, Access, Argv, Decision, EscalationExecution, FileRule, FileRules, HostRules, NetworkPolicy, ParseError,
    Permissions, RuleSource,
};

use crate::Wording;

/// The most bytes of output in one result.
pub(crate) const MOST_OUTPUT: u32 = 256 << 10;
/// Bytes of output in a result, unless more are asked for.
pub(crate) const USUAL_OUTPUT: u32 = 16 << 10;

/// A call of a tool.
#[derive(Clone, Debug)]
pub enum Tool {
    /// Runs a command.
    Run(RunArguments),
    /// Says what would happen to a command.
    Explain(ExplainArguments),
    /// Changes files.
    ApplyPatch(PatchArguments),
    /// Asks for permissions.
    RequestPermissions(PermissionsArguments),
    /// Reads output that is left out of a result.
    ReadOutput(OutputArguments),
}

/// Why a call can't be carried out as it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentsError {
    /// There is no such tool.
    #[error("there is no tool `{0}`: the tools are run, explain, apply_patch, request_permissions and read_output")]
    UnknownTool(String),
    /// The arguments don't fit the tool.
    #[error(transparent)]
    Form(#[from] ParseError),
    /// A value is not one.
    #[error("`{field}`: {why}")]
    Value {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        why: String,
    },
}

/// Runs a command.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunArguments {
    /// A shell line, run by bash. Give either this or `argv`.
    #[serde(default)]
    pub(crate) command: Option<String>,
    /// The program and its arguments, run without a shell. Give either this or `command`.
    #[serde(default)]
    pub(crate) argv: Option<Vec<String>>,
    /// The directory to start in: absolute, or relative to the workspace. The workspace if absent.
    #[serde(default)]
    pub(crate) cwd: Option<String>,
    /// End the command after this time, in milliseconds.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub(crate) timeout_ms: Option<u64>,
    /// How much output the result has at most, in bytes: 16384 if absent. `read_output` reads the rest.
    #[serde(default)]
    #[schemars(range(min = 256, max = 262_144))]
    pub(crate) max_output_bytes: Option<u32>,
    /// Why the command is needed, for the person who may be asked. Nothing is decided by it.
    #[serde(default)]
    pub(crate) justification: Option<String>,
    /// Ask the person to run this command without the sandbox. Only where nothing less would do.
    #[serde(default)]
    pub(crate) unsandboxed: bool,
}

/// Says what would happen to a command.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExplainArguments {
    /// A shell line. Give either this or `argv`.
    #[serde(default)]
    pub(crate) command: Option<String>,
    /// The program and its arguments. Give either this or `command`.
    #[serde(default)]
    pub(crate) argv: Option<Vec<String>>,
    /// The directory it would start in: absolute, or relative to the workspace. The workspace if absent.
    #[serde(default)]
    pub(crate) cwd: Option<String>,
    /// Whether it would run without the sandbox.
    #[serde(default)]
    pub(crate) unsandboxed: bool,
}

/// Changes files.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchArguments {
    /// A unified diff of any number of files, or codex's envelope (`*** Begin Patch`). Names are relative to the workspace.
    pub(crate) patch: String,
}

/// Asks for permissions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PermissionsArguments {
    /// Files and directories to read: absolute, or relative to the workspace.
    pub(crate) read: Vec<String>,
    /// Files and directories to read and write: absolute, or relative to the workspace.
    pub(crate) write: Vec<String>,
    /// Hosts to reach, such as `registry.npmjs.org:443` or `*.example.com`.
    pub(crate) hosts: Vec<String>,
    /// Why, for the person who is asked. Nothing is decided by it.
    pub(crate) justification: Option<String>,
}

/// Reads output that is left out of a result.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OutputArguments {
    /// The `output_handle` of a result.
    pub(crate) handle: String,
    /// Where to begin, in bytes: the `next_offset` of the part before, or 0.
    #[serde(default)]
    pub(crate) offset: u64,
    /// How much to read at most, in bytes: 16384 if absent.
    #[serde(default)]
    #[schemars(range(min = 256, max = 262_144))]
    pub(crate) max_bytes: Option<u32>,
}

impl Tool {
    /// Reads the arguments of a tool, given as JSON.
    pub fn read(name: &str, arguments: &str) -> Result<Self, ArgumentsError> {
        fn form<T: DeserializeOwned>(json: &str) -> Result<T, ArgumentsError> {
            Ok(stockade_protocol::parse(json)?)
        }
        match name {
            "run" => form(arguments).map(Self::Run),
            "explain" => form(arguments).map(Self::Explain),
            "apply_patch" => form(arguments).map(Self::ApplyPatch),
            "request_permissions" => form(arguments).map(Self::RequestPermissions),
            "read_output" => form(arguments).map(Self::ReadOutput),
            other => Err(ArgumentsError::UnknownTool(other.chars().take(80).flat_map(char::escape_debug).collect())),
        }
    }
}

/// The bytes of output that a result has.
pub(crate) fn output_bytes(asked: Option<u32>) -> usize {
    usize::try_from(asked.unwrap_or(USUAL_OUTPUT).clamp(256, MOST_OUTPUT)).unwrap_or(USUAL_OUTPUT as usize)
}

/// The command that is meant.
pub(crate) fn words(
    line: Option<&String>,
    argv: Option<&Vec<String>>,
    wording: &dyn Wording,
) -> Result<Argv, ArgumentsError> {
    let value =
        |field| move |error: stockade_protocol::Invalid| ArgumentsError::Value { field, why: error.to_string() };
    match (line, argv) {
        (Some(line), None) => wording.line(line).map_err(value("command")),
        (None, Some(argv)) => Argv::parse(argv.iter().map(String::as_str)).map_err(value("argv")),
        (Some(_), Some(_)) | (None, None) => {
            Err(ArgumentsError::Value { field: "command", why: String::from("give either `command` or `argv`") })
        }
    }
}

/// A path, as it is meant in the workspace.
pub(crate) fn path(field: &'static str, text: &str, workspace: &AbsPath) -> Result<AbsPath, ArgumentsError> {
    let path = if text.starts_with('/') { AbsPath::parse(text) } else { workspace.join(text) };
    path.map_err(|error| ArgumentsError::Value { field, why: error.to_string() })
}

/// What a command wants to run with.
pub(crate) fn escalation(unsandboxed: bool) -> Option<EscalationExecution> {
    unsandboxed.then_some(EscalationExecution::Unsandboxed)
}

impl PermissionsArguments {
    /// The permissions that are asked for.
    pub(crate) fn permissions(&self, workspace: &AbsPath) -> Result<Permissions, ArgumentsError> {
        let mut rules = Vec::new();
        for (field, paths, access) in [("read", &self.read, Access::Read), ("write", &self.write, Access::Write)] {
            for text in paths {
                let rule = FileRule::path(path(field, text, workspace)?, access);
                rules.push(rule.from_source(RuleSource::Approval));
            }
        }
        let invalid =
            |error: stockade_protocol::Invalid| ArgumentsError::Value { field: "write", why: error.to_string() };
        let files = FileRules::new(rules).map_err(invalid)?;
        let hosts: Result<Vec<_>, _> =
            self.hosts.iter().map(|host| stockade_config::parse_host(host, Decision::Allow)).collect();
        let hosts = hosts.map_err(|why| ArgumentsError::Value { field: "hosts", why })?;
        let network = match hosts.is_empty() {
            true => NetworkPolicy::Off,
            false => NetworkPolicy::Hosts(HostRules { rules: hosts, ..HostRules::default() }),
        };
        if self.read.is_empty() && self.write.is_empty() && network == NetworkPolicy::Off {
            let why = String::from("name at least one path or host");
            return Err(ArgumentsError::Value { field: "read", why });
        }
        Ok(Permissions { files, network, ..Permissions::default() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn arguments_that_are_not_known_are_refused_by_name() {
        let read = |name, json| Tool::read(name, json).map_err(|error| error.to_string());
        assert!(matches!(read("run", r#"{"command":"ls"}"#), Ok(Tool::Run(_))));
        assert!(read("run", r#"{"command":"ls","sandbox":"off"}"#).unwrap_err().contains("sandbox"));
        assert!(read("run", r#"["ls"]"#).is_err());
        assert!(read("read_output", "{}").unwrap_err().contains("handle"));
        assert!(read("bash", "{}").unwrap_err().contains("there is no tool `bash`"));
    }

    #[test]
    fn permissions_are_what_was_named() {
        let workspace: AbsPath = "/repo".parse().unwrap();
        let Tool::RequestPermissions(asked) =
            Tool::read("request_permissions", r#"{"read":["/etc/x"],"write":["a"],"hosts":["example.com:443"]}"#)
                .unwrap()
        else {
            panic!()
        };
        let permissions = asked.permissions(&workspace).unwrap();
        assert_eq!(permissions.access(&"/repo/a/b".parse().unwrap()), Access::Write);
        assert_eq!(permissions.access(&"/etc/x".parse().unwrap()), Access::Read);
        assert_eq!(permissions.access(&"/repo".parse().unwrap()), Access::None);
        assert!(PermissionsArguments::default().permissions(&workspace).is_err());
        for bad in [r#"{"hosts":["a b"]}"#, r#"{"write":["\u0000"]}"#] {
            let Tool::RequestPermissions(asked) = Tool::read("request_permissions", bad).unwrap() else { panic!() };
            assert!(asked.permissions(&workspace).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(name in "run|explain|apply_patch|request_permissions|read_output", json in any::<String>()) {
            let _ = Tool::read(&name, &json);
        }
    }
}
