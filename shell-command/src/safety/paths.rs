//! Files that even a read-only command should not read without asking.
//!
//! These are names, not policy: the sandbox decides what can be read. This list makes sure that a person is asked
//! before a well-known secret is shown.

use stockade_protocol::CREDENTIAL_PATHS;

/// Directories with credentials, anywhere in a path.
const SECRET_DIRECTORIES: [&str; 16] = [
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".docker",
    ".password-store",
    ".terraform.d",
    ".vault",
    "gcloud",
    "gh",
    "keyrings",
    "keychains",
    "private",
    "secrets",
    ".mozilla",
];

/// Files with credentials or an environment.
const SECRET_FILES: [&str; 33] = [
    "environ",
    "shadow",
    "gshadow",
    "sudoers",
    "passwd-",
    "shadow-",
    "credentials",
    "credentials.json",
    "credentials.toml",
    "credentials.yaml",
    "credentials.yml",
    "secrets.json",
    "secrets.yaml",
    "secrets.yml",
    "secrets.toml",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".htpasswd",
    ".vault-token",
    ".yarnrc.yml",
    ".boto",
    "auth.json",
    "token",
    "key.json",
    ".credentials.json",
    ".dockercfg",
    "oauth_creds.json",
    "stored_tokens",
];

/// Prefixes and suffixes of such files' names.
const SECRET_STARTS: [&str; 4] = [".env", "id_", "service-account", "terraform.tfstate"];
const SECRET_ENDS: [&str; 12] =
    [".pem", ".key", ".p12", ".pfx", ".kdbx", ".keystore", ".jks", ".asc", ".gpg", ".ppk", "_history", ".env"];

/// Files of `/proc` without information about a process.
const HARMLESS_PROC: [&str; 8] =
    ["cpuinfo", "meminfo", "version", "loadavg", "uptime", "stat", "filesystems", "mounts"];

/// The kind of secret that `path` may be, if a person should be asked before it is read.
pub(super) fn sensitive(path: &str) -> Option<&'static str> {
    let lower = path.to_lowercase();
    let mut components: Vec<&str> = Vec::new();
    for component in lower.split('/') {
        match component {
            "" | "." => {}
            // `..` beyond the known part may reach the root, so it counts as if it did.
            ".." => drop(components.pop()),
            name => components.push(name),
        }
    }
    let rooted = lower.starts_with('/') || lower.split('/').any(|component| component == "..");
    if lower.split('/').any(|component| SECRET_DIRECTORIES.contains(&component)) {
        return Some("in a directory that holds credentials");
    }
    let name = components.last().copied().unwrap_or_default();
    if SECRET_FILES.contains(&name)
        || SECRET_STARTS.iter().any(|start| name.starts_with(start))
        || SECRET_ENDS.iter().any(|end| name.ends_with(end))
    {
        return Some("a file that may hold credentials");
    }
    if is_credential_path(&components) {
        return Some("a place where credentials are kept");
    }
    match components.as_slice() {
        // A URL in it may contain a password or a token.
        [.., ".git", "config"] => Some("a file that may hold credentials"),
        ["proc", name] if rooted && HARMLESS_PROC.contains(name) => None,
        ["proc", ..] if rooted => Some("about processes"),
        ["dev", "null" | "stdin"] => None,
        ["dev", ..] if rooted => Some("a device"),
        [..] => None,
    }
}

/// Whether the path contains one of the paths below a home directory that the sandbox masks.
fn is_credential_path(components: &[&str]) -> bool {
    CREDENTIAL_PATHS.iter().any(|place| {
        let place: Vec<String> = place.split('/').map(str::to_lowercase).collect();
        components.windows(place.len()).any(|part| part == place.as_slice())
    })
}

/// Whether `path` is relative and never steps up.
pub(super) fn is_below_here(path: &str) -> bool {
    !path.is_empty() && !path.starts_with(['/', '~', '-']) && path.split('/').all(|component| component != "..")
}

/// Whether a component of `path` is hidden.
pub(super) fn is_hidden(path: &str) -> bool {
    path.split('/').any(|component| component.starts_with('.') && component != ".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_recognised_however_they_are_spelled() {
        for path in [
            "/proc/self/environ",
            "//proc/./self/environ",
            "/tmp/../proc/1/maps",
            "../../../proc/1/cmdline",
            "/home/a/.ssh/config",
            ".SSH/x",
            ".env",
            ".env.local",
            "a/prod.env",
            "id_rsa",
            "x/id_ed25519",
            "/dev/sda",
            "/dev/../dev/mem",
            "/etc/shadow",
            "server.pem",
            ".bash_history",
            ".claude/.credentials.json",
            ".gemini/oauth_creds.json",
            "/home/a/.Xauthority",
            "../.m2/settings.xml",
            ".git/config",
            ".dockercfg",
            ".s3cfg",
            "x/terraform.tfstate",
            ".config/rclone/rclone.conf",
        ] {
            assert!(sensitive(path).is_some(), "{path}");
        }
        for path in ["f", "src/main.rs", "/etc/hostname", "/dev/null", "/proc/cpuinfo", "environment", "proc/x", "-"] {
            assert_eq!(sensitive(path), None, "{path}");
        }
    }
}
