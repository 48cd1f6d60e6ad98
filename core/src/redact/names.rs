//! Names that a secret stands behind.

use stockade_protocol::EnvironmentPolicy;

/// The longest name that is looked at.
pub(super) const MAX_NAME: usize = 96;

/// Parts of a name that make the whole one secret, alone or at the end of a longer part
/// (`PGPASSWORD`, `authToken`).
const SECRET_ENDINGS: &[&str] = &["password", "passwd", "passphrase", "passcode", "secret", "token", "apikey"];

/// Parts that make a name secret only as a whole.
const SECRET_PARTS: &[&str] = &[
    "pass",
    "pwd",
    "pw",
    "secrets",
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

/// What makes a following `key` a secret one: `api_key`, not `primary_key`.
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

/// Last parts that say where a secret is, or something else about it, instead of the secret.
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
];

/// Whether a value behind this name (of an option, a field, a header, a variable) is a secret.
pub(super) fn is_secret(name: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else { return false };
    // Where one works and where one worked before.
    if name.len() > MAX_NAME || matches!(name, "PWD" | "OLDPWD") {
        return false;
    }
    let parts = parts(name);
    let Some(last) = parts.last() else { return false };
    if parts.len() > 1 && ABOUT.contains(&last.as_str()) {
        return false;
    }
    let is_secret_part = |part: &String| {
        SECRET_PARTS.contains(&part.as_str()) || SECRET_ENDINGS.iter().any(|ending| part.ends_with(ending))
    };
    let is_secret_key = last == "key"
        && (parts.iter().rev().nth(1).is_some_and(|before| SECRET_KEYS.contains(&before.as_str()))
            || (parts.len() > 1 && !name.contains(char::is_lowercase)));
    parts.iter().any(is_secret_part) || is_secret_key
}

/// Whether an environment variable of this name is one that commands don't inherit by default.
pub(super) fn is_secret_variable(name: &str) -> bool {
    let policy = EnvironmentPolicy { exclude: Default::default(), ..EnvironmentPolicy::default() };
    let trusting = EnvironmentPolicy { ignore_default_excludes: true, ..policy.clone() };
    is_secret(name.as_bytes()) || (trusting.inherits(name) && !policy.inherits(name))
}

/// Whether the value of this header is a secret to its end.
pub(super) fn is_secret_header(name: &[u8]) -> bool {
    const HEADERS: &[&str] = &["authorization", "proxy-authorization", "cookie", "set-cookie"];
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
            "",
            "--",
        ] {
            assert!(!is_secret(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn variables_that_are_not_inherited_are_secret() {
        assert!(is_secret_variable("MY_CREDENTIALS_X"));
        assert!(is_secret_variable("KEYS"));
        assert!(!is_secret_variable("PATH"));
        assert!(!is_secret_variable("LD_PRELOAD"));
    }
}
