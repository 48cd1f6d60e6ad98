//! Names of options, fields and variables with a secret value.

use stockade_protocol::EnvironmentPolicy;

/// Limit on the length of a name.
pub(super) const MAX_NAME: usize = 96;

/// Parts of a name that make the whole one secret, alone or at the end of a longer part
/// (`PGPASSWORD`, `authToken`).
const SECRET_ENDINGS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "pass",
    "pwd",
    "secret",
    "token",
    "apikey",
    "sessid",
    "sessionid",
];

/// Words with such an ending that are not secret.
const PLAIN_ENDINGS: &[&str] = &["compass", "bypass", "trespass", "surpass", "overpass", "underpass", "multipass"];

/// Words that end like the abbreviation of a personal access token.
const PLAIN_PATS: &[&str] = &["compat", "expat", "spat", "backcompat"];

/// Parts that make a name secret only as a whole.
const SECRET_PARTS: &[&str] = &[
    "pw",
    "psk",
    "mnemonic",
    "secrets",
    "cred",
    "creds",
    "credential",
    "credentials",
    "accesskey",
    "secretkey",
    "privatekey",
    "authkey",
    "authorization",
    "auth",
    "bearer",
    "cookie",
    "sas",
    "signature",
    "jwt",
    "otp",
];

/// Words that make a following `key` secret: `api_key`, not `primary_key`.
const SECRET_KEYS: &[&str] = &[
    "api",
    "access",
    "secret",
    "private",
    "encryption",
    "signing",
    "auth",
    "master",
    "account",
    "deploy",
    "service",
    "app",
    "client",
    "license",
    "shared",
    "subscription",
    "admin",
    "x",
];

/// Words that make a following `KEY` harmless, although constants in capitals usually are secret: `PUBLIC_KEY`.
const PLAIN_KEYS: &[&str] = &["public", "primary", "foreign", "cache", "sort", "partition", "host", "hot", "lookup"];

/// Last parts that denote the location or another property of a secret, not the secret.
const ABOUT: &[&str] = &[
    "file",
    "path",
    "stdin",
    "count",
    "type",
    "name",
    "limit",
    "length",
    "ttl",
    "url",
    "uri",
    "endpoint",
    "dir",
    "directory",
    "expiry",
    "expires",
    "policy",
    "status",
    "enabled",
    "required",
    "manager",
    "helper",
    "command",
    "cmd",
    "program",
    "sock",
    "method",
    "id",
    "jar",
    "env",
    "var",
    "prompt",
    "prefix",
    "suffix",
    "format",
    "field",
    "version",
    "size",
    "bits",
    "algorithm",
    "provider",
    "source",
    "mode",
    "timeout",
    "age",
    "rotation",
    "ref",
    "arn",
    "user",
    "username",
    "email",
    "server",
    "host",
    "port",
    "domain",
    "scope",
    "scopes",
    "issuer",
    "audience",
    "store",
    "txt",
    "json",
    "yml",
    "yaml",
    "toml",
    "md",
    "rs",
    "py",
    "js",
    "ts",
    "go",
    "pem",
    "pub",
    "crt",
    "log",
];

/// Whether the value of this name (an option, a field, a header, a variable) is a secret.
pub(super) fn is_secret(name: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else { return false };
    // The current and the previous working directory.
    if name.len() > MAX_NAME || matches!(name, "PWD" | "OLDPWD") {
        return false;
    }
    let parts = parts(name);
    let Some(last) = parts.last() else { return false };
    if parts.len() > 1 && ABOUT.contains(&last.as_str()) {
        return false;
    }
    let is_secret_part = |part: &String| {
        let ends = SECRET_ENDINGS.iter().any(|ending| part.ends_with(ending));
        SECRET_PARTS.contains(&part.as_str()) || (ends && !PLAIN_ENDINGS.iter().any(|plain| part.ends_with(plain)))
    };
    let before = parts.iter().rev().nth(1).map(String::as_str);
    let is_secret_key = last == "key"
        && before.is_some_and(|before| {
            SECRET_KEYS.contains(&before) || (!name.contains(char::is_lowercase) && !PLAIN_KEYS.contains(&before))
        });
    // A personal access token: `GH_PAT`, `--pat`.
    let is_glued = !name.contains(char::is_lowercase) && last.ends_with("pat") && !PLAIN_PATS.contains(&last.as_str());
    let is_access_token = if last == "pat" { before.is_some() || name.starts_with('-') } else { is_glued };
    let is_login = last == "login" && before.is_some_and(|before| before.ends_with("sonar"));
    parts.iter().any(is_secret_part) || is_secret_key || is_access_token || is_login
}

/// Whether the value of this parameter of a URL is a secret.
pub(super) fn is_secret_parameter(name: &[u8]) -> bool {
    const PARAMETERS: &[&str] = &["sig", "key", "code", "pw", "hmac", "ticket", "assertion", "sid"];
    is_secret(name) || PARAMETERS.iter().any(|parameter| name.eq_ignore_ascii_case(parameter.as_bytes()))
}

/// Whether an environment variable of this name is one that commands don't inherit by default.
pub(super) fn is_secret_variable(name: &str) -> bool {
    let policy = EnvironmentPolicy { exclude: Default::default(), ..EnvironmentPolicy::default() };
    let trusting = EnvironmentPolicy { ignore_default_excludes: true, ..policy.clone() };
    is_secret(name.as_bytes()) || (trusting.inherits(name) && !policy.inherits(name))
}

/// Whether the value of this header is a secret to its end.
pub(super) fn is_secret_header(name: &[u8]) -> bool {
    const HEADERS: &[&str] = &["x-jfrog-art-api", "authorization", "proxy-authorization", "cookie", "set-cookie"];
    HEADERS.iter().any(|header| name.eq_ignore_ascii_case(header.as_bytes()))
}

/// The parts of a name, in lower case: between separators and at the humps of camel case.
fn parts(name: &str) -> Vec<String> {
    let mut parts = Vec::new();
    for word in name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        let mut part = String::new();
        let mut after_lower = false;
        for c in word.chars() {
            if c.is_ascii_uppercase() && after_lower {
                parts.push(std::mem::take(&mut part));
            }
            after_lower = c.is_ascii_lowercase();
            part.push(c.to_ascii_lowercase());
        }
        parts.push(part);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_told_from_names_about_them() {
        for name in [
            "password",
            "PGPASSWORD",
            "MYSQL_PWD",
            "api-key",
            "apiKey",
            "X-Api-Key",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_SESSION_TOKEN",
            "authToken",
            "_authToken",
            "client_secret",
            "clientSecret",
            "DEPLOY_KEY",
            "--token",
            "private-token",
            "SSH_KEY",
            "pass",
            "access_token",
            "http.extraHeader.Authorization",
            "GH_PAT",
            "DB_CREDS",
            "MYSQLPWD",
            "keyPass",
            "sonar.login",
        ] {
            assert!(is_secret(name.as_bytes()), "{name}");
        }
        for name in [
            "PWD",
            "max-tokens",
            "tokenizer",
            "token-file",
            "password-stdin",
            "primary_key",
            "key",
            "keyboard",
            "compass",
            "monkey",
            "AWS_ACCESS_KEY_ID",
            "SSH_AUTH_SOCK",
            "author",
            "passive",
            "bypass",
            "compass",
            "SSH_PUBLIC_KEY",
            "PATH",
            "pat",
            "cookie-jar",
            "",
            "--",
        ] {
            assert!(!is_secret(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn variables_that_are_not_inherited_are_secret() {
        assert!(is_secret_variable("MY_CREDENTIALS_X"));
        assert!(is_secret_variable("ACCESS_KEYS"));
        assert!(is_secret_variable("SSHPASS") && is_secret_variable("DBPASS") && is_secret_variable("GHPAT"));
        assert!(!is_secret_variable("KEYS") && !is_secret_variable("COMPAT"));
        assert!(!is_secret_variable("PATH"));
        assert!(!is_secret_variable("LD_PRELOAD"));
    }
}
