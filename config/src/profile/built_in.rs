//! The built-in permission profiles.

use std::path::Path;

use super::{PermissionProfile, ProfileOrigin};
use crate::ConfigError;

/// File names and texts.
const TEXTS: &[(&str, &str)] = &[
    ("cargo.toml", include_str!("built_in/cargo.toml")),
    ("chromium.toml", include_str!("built_in/chromium.toml")),
    ("claude-code.toml", include_str!("built_in/claude-code.toml")),
    ("codex.toml", include_str!("built_in/codex.toml")),
    ("gemini.toml", include_str!("built_in/gemini.toml")),
    ("git.toml", include_str!("built_in/git.toml")),
    ("go.toml", include_str!("built_in/go.toml")),
    ("gpg.toml", include_str!("built_in/gpg.toml")),
    ("gradle.toml", include_str!("built_in/gradle.toml")),
    ("maven.toml", include_str!("built_in/maven.toml")),
    ("npm.toml", include_str!("built_in/npm.toml")),
    ("opencode.toml", include_str!("built_in/opencode.toml")),
    ("pip.toml", include_str!("built_in/pip.toml")),
    ("playwright.toml", include_str!("built_in/playwright.toml")),
    ("pnpm.toml", include_str!("built_in/pnpm.toml")),
    ("ssh-agent.toml", include_str!("built_in/ssh-agent.toml")),
    ("uv.toml", include_str!("built_in/uv.toml")),
    ("yarn.toml", include_str!("built_in/yarn.toml")),
];

/// The names of all built-in profiles.
pub(super) fn names<'a>() -> impl Iterator<Item = &'a str> {
    TEXTS.iter().filter_map(|(file, _)| file.strip_suffix(".toml"))
}

/// The profile of this name. It is parsed on demand, since most runs need none.
pub(super) fn get(name: &str) -> Result<Option<PermissionProfile>, ConfigError> {
    let text = TEXTS.iter().find(|(file, _)| file.strip_suffix(".toml") == Some(name));
    text.map(|(file, text)| PermissionProfile::parse(text, ProfileOrigin::BuiltIn, Path::new(file))).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [`PermissionProfiles::used`](super::super::PermissionProfiles::used) leaves them out.
    #[test]
    fn no_built_in_profile_is_used_without_being_named() {
        for name in names() {
            assert_eq!(get(name).unwrap().unwrap().used_for(), [], "{name}");
        }
    }
}
