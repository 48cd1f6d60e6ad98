//! The sandbox policy that a person writes, in codex's wire form.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{
    AbsPath, Access, FileRule, FileRules, FileTarget, HostPaths, Invalid, NetworkPolicy, Permissions, RuleSource,
};

/// How much a command is trusted with.
///
/// ```
/// use stockade_protocol::{Access, HostPaths, SandboxPolicy};
///
/// let policy: SandboxPolicy = serde_json::from_str(r#"{"type":"workspace-write","writable_roots":["/cache"]}"#)?;
/// let permissions = policy.resolve(&HostPaths::new(["/repo".parse()?], &"/home/me".parse()?)?)?;
/// assert_eq!(permissions.access(&"/repo/src".parse()?), Access::Write);
/// assert_eq!(permissions.access(&"/repo/.git/config".parse()?), Access::Read);
/// assert_eq!(permissions.access(&"/cache/x".parse()?), Access::Write);
/// assert_eq!(permissions.access(&"/etc/passwd".parse()?), Access::Read);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[schemars(deny_unknown_fields)]
pub enum SandboxPolicy {
    /// No sandbox.
    DangerFullAccess {},
    /// Nothing is written.
    ReadOnly {
        /// What may be read.
        #[serde(default)]
        access: ReadOnlyAccess,
        /// Whether the network may be used.
        #[serde(default)]
        network_access: bool,
    },
    /// Another program's sandbox is around this process already.
    ExternalSandbox {
        /// Whether that one lets the network through.
        #[serde(default)]
        network_access: NetworkAccess,
    },
    /// The workspace is written.
    WorkspaceWrite {
        /// Directories that may be written besides the session's workspace.
        #[serde(default)]
        writable_roots: Vec<AbsPath>,
        /// What may be read.
        #[serde(default)]
        read_only_access: ReadOnlyAccess,
        /// Whether the network may be used.
        #[serde(default)]
        network_access: bool,
        /// Give the command no private directory at `$TMPDIR`.
        #[serde(default)]
        exclude_tmpdir_env_var: bool,
        /// Give the command no private `/tmp`.
        #[serde(default)]
        exclude_slash_tmp: bool,
    },
}

/// What a sandboxed command may read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[schemars(deny_unknown_fields)]
pub enum ReadOnlyAccess {
    /// Everything but credentials.
    FullAccess {},
    /// Only what is named.
    Restricted {
        /// Also what ordinary programs need to start on this system.
        #[serde(default = "yes")]
        include_platform_defaults: bool,
        /// Directories that may be read.
        #[serde(default)]
        readable_roots: Vec<AbsPath>,
    },
}

fn yes() -> bool {
    true
}

impl Default for ReadOnlyAccess {
    fn default() -> Self {
        Self::FullAccess {}
    }
}

/// Whether an external sandbox lets the network through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NetworkAccess {
    /// It does not.
    #[default]
    Restricted,
    /// It does.
    Enabled,
}

impl SandboxPolicy {
    /// The default policy: the workspace is writable, the network is off.
    pub fn workspace_write() -> Self {
        Self::WorkspaceWrite {
            writable_roots: Vec::new(),
            read_only_access: ReadOnlyAccess::default(),
            network_access: false,
            exclude_tmpdir_env_var: false,
            exclude_slash_tmp: false,
        }
    }

    /// The policy's name on the command line and on the wire.
    pub fn name(&self) -> &'static str {
        match self {
            Self::DangerFullAccess {} => "danger-full-access",
            Self::ReadOnly { .. } => "read-only",
            Self::ExternalSandbox { .. } => "external-sandbox",
            Self::WorkspaceWrite { .. } => "workspace-write",
        }
    }

    /// The permissions of the policy on this host, in this session. A request's working directory does not matter:
    /// otherwise the sender could choose what becomes writable.
    pub fn resolve(&self, host: &HostPaths) -> Result<Permissions, Invalid> {
        let (files, network_on) = match self {
            Self::DangerFullAccess {} => (everything(host), true),
            Self::ExternalSandbox { network_access } => (everything(host), *network_access == NetworkAccess::Enabled),
            Self::ReadOnly { access, network_access } => (masked(reads(access, host), host)?, *network_access),
            Self::WorkspaceWrite { read_only_access, network_access, .. } => {
                let mut grants = reads(read_only_access, host);
                self.add_writes(&mut grants, host);
                (masked(grants, host)?, *network_access)
            }
        };
        let network = if network_on { NetworkPolicy::Full } else { NetworkPolicy::Off };
        let files = FileRules::new(files.into_iter().chain(host.own_file_bounds()))?;
        Ok(Permissions { files, network, ..Permissions::default() })
    }

    /// The workspace, the other writable roots, and private temporary directories.
    fn add_writes(&self, grants: &mut Grants, host: &HostPaths) {
        let Self::WorkspaceWrite { writable_roots, exclude_tmpdir_env_var, exclude_slash_tmp, .. } = self else {
            return;
        };
        for root in host.workspace_roots.iter().chain(writable_roots) {
            grants.insert(root.clone(), Access::Write);
        }
        let slash_tmp = host.slash_tmp.iter().filter(|_| !exclude_slash_tmp);
        let tmpdir = host.tmpdir.iter().filter(|_| !exclude_tmpdir_env_var);
        for path in slash_tmp.chain(tmpdir) {
            // A temporary directory in a writable root is the host's own, and one that is granted by name stays as
            // granted.
            let in_root = path.ancestors().any(|above| grants.get(&above) == Some(&Access::Write));
            if !in_root {
                grants.entry(path.clone()).or_insert(Access::Scratch);
            }
        }
    }
}

/// Grants by path.
type Grants = BTreeMap<AbsPath, Access>;

fn everything(host: &HostPaths) -> Vec<FileRule> {
    host.file_system_roots.iter().map(|root| FileRule::path(root.clone(), Access::Write)).collect()
}

fn reads(access: &ReadOnlyAccess, host: &HostPaths) -> Grants {
    let roots: Vec<&AbsPath> = match access {
        ReadOnlyAccess::FullAccess {} => host.file_system_roots.iter().collect(),
        ReadOnlyAccess::Restricted { include_platform_defaults, readable_roots } => {
            host.platform_defaults.iter().filter(|_| *include_platform_defaults).chain(readable_roots).collect()
        }
    };
    roots.into_iter().map(|root| (root.clone(), Access::Read)).collect()
}

/// The grants without credentials and the metadata below each writable root. A path granted by name is not masked.
fn masked(grants: Grants, host: &HostPaths) -> Result<Vec<FileRule>, Invalid> {
    let mut masks = Vec::with_capacity(host.credentials.len() + grants.len() + host.protected_names.len());
    for credential in &host.credentials {
        masks.push(FileRule::path(credential.clone(), Access::None).from_source(RuleSource::CredentialMask));
    }
    for (root, _) in grants.iter().filter(|(_, access)| **access == Access::Write) {
        for name in &host.protected_names {
            masks.push(
                FileRule::path(root.join(name.as_str())?, Access::Read).from_source(RuleSource::ProtectedMetadata),
            );
        }
    }
    let named = |rule: &FileRule| matches!(&rule.target, FileTarget::Path(path) if grants.contains_key(path));
    masks.retain(|rule| !named(rule));
    masks.extend(grants.into_iter().map(|(path, access)| FileRule::path(path, access)));
    Ok(masks)
}

/// The fields of all variants. Reading a plain struct keeps the name of the wrong field, which an internally tagged
/// enum would lose.
#[derive(Deserialize)]
#[serde(rename = "SandboxPolicy", deny_unknown_fields)]
struct PolicyForm {
    r#type: PolicyType,
    writable_roots: Option<Vec<AbsPath>>,
    access: Option<ReadOnlyAccess>,
    read_only_access: Option<ReadOnlyAccess>,
    network_access: Option<NetworkForm>,
    exclude_tmpdir_env_var: Option<bool>,
    exclude_slash_tmp: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum PolicyType {
    DangerFullAccess,
    ReadOnly,
    ExternalSandbox,
    WorkspaceWrite,
}

/// Two policies say it with a boolean and one with a word.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "`network_access` is true or false, or \"restricted\" or \"enabled\" for an external sandbox"
)]
enum NetworkForm {
    Switch(bool),
    Word(NetworkAccess),
}

impl<'de> Deserialize<'de> for SandboxPolicy {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let form = PolicyForm::deserialize(deserializer)?;
        form.into_policy().map_err(|(field, policy)| {
            serde::de::Error::custom(format_args!(
                "field `{field}` does not belong to a `{policy}` policy, or has the wrong type there"
            ))
        })
    }
}

impl PolicyForm {
    /// Takes the fields of the variant; a superfluous one is an error that names it.
    fn into_policy(mut self) -> Result<SandboxPolicy, (&'static str, &'static str)> {
        let policy = match self.r#type {
            PolicyType::DangerFullAccess => SandboxPolicy::DangerFullAccess {},
            PolicyType::ReadOnly => SandboxPolicy::ReadOnly {
                access: self.access.take().unwrap_or_default(),
                network_access: self.take_switch(),
            },
            PolicyType::ExternalSandbox => SandboxPolicy::ExternalSandbox { network_access: self.take_word() },
            PolicyType::WorkspaceWrite => SandboxPolicy::WorkspaceWrite {
                writable_roots: self.writable_roots.take().unwrap_or_default(),
                read_only_access: self.read_only_access.take().unwrap_or_default(),
                network_access: self.take_switch(),
                exclude_tmpdir_env_var: self.exclude_tmpdir_env_var.take().unwrap_or_default(),
                exclude_slash_tmp: self.exclude_slash_tmp.take().unwrap_or_default(),
            },
        };
        match self.left_over() {
            Some(field) => Err((field, policy.name())),
            None => Ok(policy),
        }
    }

    fn take_switch(&mut self) -> bool {
        match self.network_access {
            Some(NetworkForm::Switch(on)) => self.network_access.take().is_some() && on,
            Some(NetworkForm::Word(_)) | None => false,
        }
    }

    fn take_word(&mut self) -> NetworkAccess {
        match self.network_access {
            Some(NetworkForm::Word(word)) => {
                self.network_access = None;
                word
            }
            Some(NetworkForm::Switch(_)) | None => NetworkAccess::default(),
        }
    }

    fn left_over(&self) -> Option<&'static str> {
        [
            ("writable_roots", self.writable_roots.is_some()),
            ("access", self.access.is_some()),
            ("read_only_access", self.read_only_access.is_some()),
            ("network_access", self.network_access.is_some()),
            ("exclude_tmpdir_env_var", self.exclude_tmpdir_env_var.is_some()),
            ("exclude_slash_tmp", self.exclude_slash_tmp.is_some()),
        ]
        .into_iter()
        .find_map(|(field, present)| present.then_some(field))
    }
}

impl<'de> Deserialize<'de> for ReadOnlyAccess {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "kebab-case")]
        enum Type {
            FullAccess,
            Restricted,
        }
        #[derive(Deserialize)]
        #[serde(rename = "ReadOnlyAccess", deny_unknown_fields)]
        struct Form {
            r#type: Type,
            include_platform_defaults: Option<bool>,
            readable_roots: Option<Vec<AbsPath>>,
        }
        match Form::deserialize(deserializer)? {
            Form { r#type: Type::FullAccess, include_platform_defaults: None, readable_roots: None } => {
                Ok(Self::FullAccess {})
            }
            Form { r#type: Type::FullAccess, .. } => {
                Err(serde::de::Error::custom("`full-access` reads everything and takes no other field"))
            }
            Form { r#type: Type::Restricted, include_platform_defaults, readable_roots } => Ok(Self::Restricted {
                include_platform_defaults: include_platform_defaults.unwrap_or_else(yes),
                readable_roots: readable_roots.unwrap_or_default(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<SandboxPolicy, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    #[test]
    fn a_typo_is_an_error() {
        for (json, words) in [
            (r#"{"type":"workspace-write","writeable_roots":["/a"]}"#, "unknown field `writeable_roots`"),
            (
                r#"{"type":"read-only","writable_roots":["/a"]}"#,
                "`writable_roots` does not belong to a `read-only` policy",
            ),
            (r#"{"type":"danger-full-access","network_access":false}"#, "`network_access` does not belong"),
            (
                r#"{"type":"external-sandbox","network_access":true}"#,
                "`network_access` does not belong to a `external-sandbox` policy, or has the wrong type",
            ),
            (r#"{"type":"workspace-write","network_access":"enabled"}"#, "wrong type"),
            (r#"{"type":"workspace-write","network_access":3}"#, "`network_access` is true or false"),
            (r#"{"type":"workspace-write","writable_roots":["a"]}"#, "path `a` is not absolute"),
            (r#"{"type":"read-only","access":{"type":"full-access","readable_roots":[]}}"#, "takes no other field"),
            (r#"{"type":"readonly"}"#, "unknown variant `readonly`"),
            (r#"{"writable_roots":["/a"]}"#, "missing field `type`"),
        ] {
            let error = parse(json).unwrap_err();
            assert!(error.contains(words), "{json}: {error}");
        }
    }

    fn access(policy: &str, path: &str) -> Access {
        let mut host = HostPaths::without_masks(["/repo".parse().unwrap()]);
        host.tmpdir = Some("/var/tmp/me".parse().unwrap());
        host.platform_defaults = vec!["/usr".parse().unwrap()];
        host.credentials = vec!["/home/me/.ssh".parse().unwrap()];
        parse(policy).unwrap().resolve(&host).unwrap().access(&path.parse().unwrap())
    }

    #[test]
    fn workspace_write_grants_the_workspace_less_its_metadata() {
        let policy = r#"{"type":"workspace-write","writable_roots":["/cache"]}"#;
        for (path, expected) in [
            ("/repo/a", Access::Write),
            ("/cache/a", Access::Write),
            ("/etc/hosts", Access::Read),
            ("/tmp/x", Access::Scratch),
            ("/var/tmp/me/x", Access::Scratch),
            ("/repo/.git/hooks/x", Access::Read),
            ("/repo/.claude", Access::Read),
            ("/repo/.gemini/settings.json", Access::Read),
            ("/repo/.opencode", Access::Read),
            ("/repo/.mcp.json", Access::Read),
            ("/cache/.git", Access::Read),
            ("/home/me/.ssh/id", Access::None),
        ] {
            assert_eq!(access(policy, path), expected, "{path}");
        }
    }

    #[test]
    fn naming_a_path_lifts_the_mask() {
        let policy = r#"{"type":"workspace-write","writable_roots":["/repo/.git","/tmp"],"read_only_access":
            {"type":"restricted","readable_roots":["/home/me/.ssh","/repo"]}}"#;
        for (path, expected) in [
            ("/repo/.git/config", Access::Write),
            ("/repo/.codex", Access::Read),
            ("/tmp/x", Access::Write),
            ("/home/me/.ssh/id", Access::Read),
            ("/usr/bin/true", Access::Read),
            ("/etc/hosts", Access::None),
            ("/repo/x", Access::Write),
        ] {
            assert_eq!(access(policy, path), expected, "{path}");
        }
    }

    #[test]
    fn the_others_grant_what_their_names_say() {
        assert_eq!(access(r#"{"type":"read-only"}"#, "/repo/a"), Access::Read);
        assert_eq!(access(r#"{"type":"read-only"}"#, "/tmp/a"), Access::Read);
        assert_eq!(access(r#"{"type":"danger-full-access"}"#, "/home/me/.ssh"), Access::Write);
        assert_eq!(access(r#"{"type":"external-sandbox"}"#, "/etc"), Access::Write);
    }
}
