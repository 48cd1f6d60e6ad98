//! The environment: what there is here, and the variables of a process.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Serialize;
use stockade_protocol::{AbsPath, EnvironmentPolicy, RawText, VariableName};

use crate::process::forms::EnvPolicy;
use crate::uri::FileUri;

/// What there is here, in the words of `environment/info`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct EnvironmentInfo {
    shell: Shell,
    executor_version: &'static str,
    cwd: FileUri,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_home_dir: Option<FileUri>,
    platform_os: &'static str,
    temporary_directories: Vec<FileUri>,
    temp_dir: Option<FileUri>,
    capabilities: Capabilities,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Shell {
    name: String,
    path: String,
}

/// What is there besides the methods that every version has. What codex is not told of, it does not use.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Capabilities {
    network_proxy_launch: bool,
    network_proxy_review_domains: bool,
    credential_masking: bool,
    credential_masking_custom_providers: bool,
    capability_discovery_sandbox: bool,
    fs_watch_missing: bool,
    capability_discovery_v2: bool,
    environment_config_read: bool,
    http_header_env_vars: bool,
    sandboxed_file_streaming: bool,
    file_write_streaming: bool,
    shell_snapshot_v2: bool,
    windows_mxc: bool,
    linux_root_write_preserves_devices: bool,
    linux_approved_root_write_preserves_restrictions: bool,
}

const CAPABILITIES: Capabilities = Capabilities {
    network_proxy_launch: false,
    network_proxy_review_domains: false,
    credential_masking: false,
    credential_masking_custom_providers: false,
    capability_discovery_sandbox: false,
    fs_watch_missing: false,
    capability_discovery_v2: false,
    environment_config_read: false,
    http_header_env_vars: false,
    sandboxed_file_streaming: true,
    file_write_streaming: false,
    shell_snapshot_v2: false,
    windows_mxc: false,
    linux_root_write_preserves_devices: false,
    linux_approved_root_write_preserves_restrictions: false,
};

impl EnvironmentInfo {
    /// Of this process.
    pub(crate) fn here(cwd: &AbsPath) -> Self {
        let directory = |path: &Path| AbsPath::from_path(path).ok().map(FileUri);
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let tmpdir = variable("TMPDIR").and_then(|path| directory(Path::new(&path)));
        Self {
            shell: shell(variable("SHELL").as_deref().and_then(|shell| shell.to_str())),
            executor_version: env!("CARGO_PKG_VERSION"),
            cwd: FileUri(cwd.clone()),
            user_home_dir: std::env::home_dir().as_deref().and_then(directory),
            platform_os: std::env::consts::OS,
            temporary_directories: tmpdir.into_iter().collect(),
            temp_dir: directory(&std::env::temp_dir()),
            capabilities: CAPABILITIES,
        }
    }
}

/// The person's shell, if codex can write lines for it.
fn shell(own: Option<&str>) -> Shell {
    let known = ["bash", "zsh", "sh"];
    let name_of = |path: &str| Path::new(path).file_name().and_then(|name| name.to_str()).map(String::from);
    let usable = |path: &&str| Path::new(path).is_absolute() && Path::new(path).exists();
    let candidates = own.into_iter().chain(["/bin/bash", "/usr/bin/bash"]).filter(usable);
    let found = candidates.filter_map(|path| Some((name_of(path)?, path))).find(|(name, _)| known.contains(&&**name));
    match found {
        Some((name, path)) => Shell { name, path: path.to_owned() },
        None => Shell { name: String::from("sh"), path: String::from("/bin/sh") },
    }
}

/// The variables of a process: what codex's policy inherits of this process's own, and on top what it sets. The session's
/// policy decides what of that the command sees.
pub(crate) fn of_process(
    policy: Option<&EnvPolicy>,
    set: &BTreeMap<VariableName, String>,
) -> BTreeMap<VariableName, RawText> {
    let inherited = match policy {
        Some(policy) => {
            let policy = EnvironmentPolicy {
                inherit: policy.inherit,
                ignore_default_excludes: policy.ignore_default_excludes,
                exclude: policy.exclude.iter().cloned().collect(),
                set: policy.set.clone(),
                include_only: policy.include_only.iter().cloned().collect(),
            };
            let raw = |text: std::ffi::OsString| RawText::from(text.into_encoded_bytes());
            policy.apply(std::env::vars_os().map(|(name, value)| (raw(name), raw(value))))
        }
        None => BTreeMap::new(),
    };
    let named = |(name, value): (RawText, RawText)| Some((name.as_str()?.parse().ok()?, value));
    let set = set.iter().map(|(name, value)| (name.clone(), RawText::from(value.as_str())));
    inherited.into_iter().filter_map(named).chain(set).collect()
}

/// The directory that `TMPDIR` names.
pub(crate) fn tmpdir(environment: &BTreeMap<VariableName, RawText>) -> Option<AbsPath> {
    let value = environment.iter().find(|(name, _)| name.as_str() == "TMPDIR").map(|(_, value)| value.clone())?;
    AbsPath::parse(value).ok()
}

/// The same of this process.
pub(crate) fn own_tmpdir() -> Option<AbsPath> {
    std::env::var_os("TMPDIR").and_then(|path| AbsPath::from_path(Path::new(&path)).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_that_codex_can_not_write_for_is_not_named() {
        assert_eq!(shell(Some("/usr/bin/fish")).name, shell(None).name);
        assert_eq!(shell(Some("relative/bash")), shell(None));
    }

    #[test]
    fn what_codex_sets_wins_and_what_it_does_not_inherit_is_left_out() {
        let set = BTreeMap::from([("PATH".parse().unwrap(), String::from("/only"))]);
        let none = of_process(None, &set);
        assert_eq!(none.len(), 1);
        let policy: EnvPolicy =
            serde_json::from_str(r#"{"inherit":"all","ignoreDefaultExcludes":true,"exclude":["HOME"]}"#).unwrap();
        let all = of_process(Some(&policy), &set);
        let value = |name: &str| all.iter().find(|(own, _)| own.as_str() == name).map(|(_, value)| value.to_string());
        assert_eq!((value("PATH").as_deref(), value("HOME")), (Some("/only"), None));
    }
}
