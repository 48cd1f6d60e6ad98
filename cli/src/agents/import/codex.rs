//! Imports codex's `config.toml`, and its `.rules`, which have the format of Stockade's own.

use stockade_execpolicy::{Layer, Policy};
use toml::Value;

use super::ImportError;
use super::imported::Imported;

/// Reads a rules file. Allowing rules keep their commands in the sandbox here, while codex lets them leave.
pub(super) fn read_rules(name: &str, text: &str) -> Result<Imported, ImportError> {
    let policy = Policy::parse(name, text, Layer::User)?;
    let mut imported = Imported::of_rules(text);
    for rule in policy.rules() {
        imported.kept_rule(rule);
    }
    Ok(imported)
}

/// Reads a configuration.
pub(super) fn read(text: &str) -> Result<Imported, ImportError> {
    let config: toml::Table =
        text.parse().map_err(|error: toml::de::Error| ImportError::Toml(error.message().to_owned()))?;
    let mut imported = Imported::default();
    for (key, value) in &config {
        let text = value.to_string();
        let at = (key.as_str(), text.as_str());
        match (key.as_str(), value.as_str()) {
            ("sandbox_mode", Some(mode @ ("read-only" | "workspace-write"))) => {
                imported.value(at, (Some("sandbox"), "mode"), Value::from(mode), None);
            }
            ("sandbox_mode", _) => {
                imported.left_out(key, &text, "an import does not turn the sandbox off: write `sandbox.mode` by hand");
            }
            ("approval_policy", Some(ask @ ("untrusted" | "on-request" | "on-failure" | "never"))) => {
                imported.value(at, (None, "ask"), Value::from(ask), None);
            }
            ("approval_policy" | "permissions" | "default_permissions", _) => {
                imported.lost(
                    key,
                    &text,
                    "it may restrict what no key of Stockade's does: write `ask` and `[sandbox]` by hand",
                );
            }
            ("sandbox_workspace_write", _) => workspace(&mut imported, value)?,
            ("shell_environment_policy", _) => {
                imported.left_out(
                    key,
                    &text,
                    "write it as `[env]`; names such as `*TOKEN*` are dropped without it, too",
                );
            }
            // Other keys are about models, servers and appearance.
            _ => {}
        }
    }
    Ok(imported)
}

fn workspace(imported: &mut Imported, value: &Value) -> Result<(), ImportError> {
    let form = |expected| ImportError::Form { key: String::from("sandbox_workspace_write"), expected };
    for (key, value) in value.as_table().ok_or_else(|| form("a table"))? {
        let (place, text) = (format!("sandbox_workspace_write.{key}"), value.to_string());
        let at = (place.as_str(), text.as_str());
        match (key.as_str(), value) {
            ("writable_roots", Value::Array(roots)) => {
                for root in roots {
                    let path = root.as_str().ok_or_else(|| form("texts in `writable_roots`"))?;
                    let shown = root.to_string();
                    if path.starts_with('/') || path.starts_with("~/") {
                        let list = Value::from(vec![path]);
                        imported.value((&place, &shown), (Some("sandbox"), "writable_roots"), list, None);
                    } else {
                        imported.left_out(&place, &shown, "it is relative, and to what codex does not say here");
                    }
                }
            }
            ("network_access", Value::Boolean(false)) => {
                imported.value(at, (Some("sandbox"), "network"), Value::from("off"), None);
            }
            ("network_access", _) => {
                imported.left_out(&place, &text, "an import opens no network: name hosts with `allow_hosts`");
            }
            ("exclude_tmpdir_env_var", Value::Boolean(_)) => {
                imported.value(at, (Some("sandbox"), "exclude_tmpdir_env_var"), value.clone(), None);
            }
            ("exclude_slash_tmp", Value::Boolean(_)) => {
                imported.value(at, (Some("sandbox"), "exclude_slash_tmp"), value.clone(), None);
            }
            _ => imported.lost(&place, &text, "it is not known, and may restrict"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in any::<String>(), value in "[a-z\\[\\]\"=. ]{0,20}") {
            for text in [text, format!("sandbox_mode = {value}"), format!("[sandbox_workspace_write]\n{value}")] {
                let _ = read(&text);
                let _ = read_rules("x.rules", &text);
            }
        }
    }
}
