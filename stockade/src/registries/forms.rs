//! Parsers for the registry settings of package managers, each as the tool itself reads them.

use super::{FileSays, Lookup};

/// The text for a file that can't be read here.
pub(super) const UNREADABLE: &str = "contents, which can't be read,";
const ADDRESS: &str = "registry's address";
const SCOPES: &str = "registry of a scope";

/// npm's: `name = value`, before any section. Values may be quoted, be followed by a comment, and contain variables.
pub(super) fn npmrc(text: &str, lookup: &Lookup<'_>) -> FileSays {
    let mut found = FileSays::default();
    for line in without_mark(text).lines().map(str::trim) {
        if line.starts_with('[') {
            // The rest belongs to a section, which npm does not have.
            break;
        }
        let Some((name, value)) = line.split_once('=').filter(|_| !line.starts_with(['#', ';'])) else { continue };
        let name = unquoted(name);
        if name == "registry" {
            match expanded(without_comment(value), lookup) {
                Some(value) => found.says("NPM_CONFIG_REGISTRY", value),
                None => found.untold = Some(ADDRESS),
            }
        } else if name.starts_with('@') && name.ends_with(":registry") {
            found.untold = Some(SCOPES);
        }
    }
    found
}

/// Yarn's: YAML; only top-level names count.
pub(super) fn yarnrc(text: &str, lookup: &Lookup<'_>) -> FileSays {
    let mut found = FileSays::default();
    for (name, value) in without_mark(text).lines().filter_map(|line| line.split_once(':')) {
        match unquoted_whole(name) {
            "npmRegistryServer" => match expanded(without_comment(value), lookup).filter(|value| !value.is_empty()) {
                Some(value) => found.says("YARN_NPM_REGISTRY_SERVER", value),
                None => found.untold = Some(ADDRESS),
            },
            "npmScopes" | "npmRegistries" => found.untold = Some(SCOPES),
            _ => {}
        }
    }
    found
}

/// pip's: sections, `name = value` or `name: value`, and indented continuation lines. `[install]` overrides
/// `[global]`; sections of other commands can't be expressed by a variable for all.
pub(super) fn pip_conf(text: &str, _: &Lookup<'_>) -> FileSays {
    let mut found = FileSays::default();
    let mut install = FileSays::default();
    for PipSetting { section, name, value } in pip_settings(without_mark(text)) {
        let variable = match name.trim_start_matches('-').to_ascii_lowercase().replace('_', "-").as_str() {
            "index-url" | "pypi-url" | "i" => "PIP_INDEX_URL",
            "extra-index-url" => "PIP_EXTRA_INDEX_URL",
            "trusted-host" => "PIP_TRUSTED_HOST",
            "find-links" | "f" => "PIP_FIND_LINKS",
            "no-index" => "PIP_NO_INDEX",
            _ => continue,
        };
        let is_word = value.chars().all(|c| c.is_ascii_alphanumeric());
        match section.as_str() {
            _ if value.is_empty() => {}
            _ if variable == "PIP_NO_INDEX" && !is_word => found.untold = Some("list of indexes"),
            "global" => found.says(variable, value),
            "install" => install.says(variable, value),
            _ => found.untold = Some("list of indexes for one command"),
        }
    }
    for (variable, value) in install.variables {
        found.says(variable, value);
    }
    found
}

struct PipSetting {
    section: String,
    name: String,
    value: String,
}

fn pip_settings(text: &str) -> Vec<PipSetting> {
    let mut settings: Vec<PipSetting> = Vec::new();
    let mut section = String::new();
    let mut goes_on = false;
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if goes_on && line.starts_with([' ', '\t']) {
            if let Some(setting) = settings.last_mut() {
                setting.value = format!("{} {trimmed}", setting.value).trim().to_owned();
            }
            continue;
        }
        goes_on = false;
        if let Some(name) = trimmed.strip_prefix('[').and_then(|rest| rest.split_once(']')).map(|(name, _)| name) {
            section = name.trim().to_owned();
        } else if let Some((name, value)) = trimmed.split_once(['=', ':']) {
            let (name, value) = (name.trim().to_owned(), unquoted(value).to_owned());
            settings.push(PipSetting { section: section.clone(), name, value });
            goes_on = true;
        }
    }
    settings
}

/// Maven's, which no variable can express.
pub(super) fn maven_settings(text: &str, _: &Lookup<'_>) -> FileSays {
    let names = ["<mirror", "<repository", "<repositories", "<pluginRepositor", "<proxy"];
    let is_named = names.iter().any(|name| text.contains(name));
    FileSays { variables: Vec::new(), untold: is_named.then_some("list of mirrors or repositories") }
}

/// A text without a byte order mark.
fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// A value without quotes, or without its comment if it has none.
fn without_comment(value: &str) -> &str {
    let value = value.trim();
    for quote in ['"', '\''] {
        if let Some((quoted, _)) = value.strip_prefix(quote).and_then(|rest| rest.split_once(quote)) {
            return quoted;
        }
    }
    value.split([';', '#']).next().unwrap_or_default().trim()
}

fn unquoted(value: &str) -> &str {
    value.trim().trim_matches(['"', '\''])
}

/// A top-level name, quoted or not.
fn unquoted_whole(name: &str) -> &str {
    name.trim_end().trim_matches(['"', '\''])
}

/// A value with its variables expanded: `${NAME}`, `${NAME?}`, and `${NAME-default}` or `${NAME:-default}`. `None` if
/// one of them is not inherited by the command, since it may be a secret.
fn expanded(value: &str, lookup: &Lookup<'_>) -> Option<String> {
    let mut whole = String::new();
    let mut rest = value;
    while let Some((before, after)) = rest.split_once("${") {
        let (inside, behind) = after.split_once('}')?;
        let (name, default) = match inside.split_once('-') {
            Some((name, default)) => (name.trim_end_matches(':'), Some(default)),
            None => (inside.trim_end_matches('?'), None),
        };
        whole.push_str(before);
        whole.push_str(&lookup(name).or_else(|| default.map(str::to_owned))?);
        rest = behind;
    }
    whole.push_str(rest);
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = fn(&str, &Lookup<'_>) -> FileSays;

    /// The value of the variable for a file, or what can't be expressed.
    fn read(form: Read, text: &str) -> Vec<String> {
        let lookup = |name: &str| (name == "HOST").then(|| String::from("host.test"));
        let found = form(text, &lookup);
        let told = found.variables.iter().map(|(name, value)| format!("{name}={value}"));
        told.chain(found.untold.map(str::to_owned)).collect()
    }

    #[test]
    fn npms_forms_are_read_as_npm_reads_them() {
        let one = ["NPM_CONFIG_REGISTRY=https://r.test/npm/"];
        for text in [
            "# c\nregistry = \"https://r.test/npm/\"\n//r.test/npm/:_authToken=hunter2\n",
            "registry=https://r.test/npm/ ; the company's\n",
            "\u{feff}registry=https://r.test/npm/\r\nalways-auth=true\r\n",
            "\"registry\" = 'https://r.test/npm/'\n",
            "registry=https://old.test/\nregistry=https://r.test/npm/\n",
            "registry=https://r.test/npm/\n[section]\nregistry=https://other.test/\n",
            "registry=https://${NONE-r.test}/npm/\n",
        ] {
            assert_eq!(read(npmrc, text), one, "{text}");
        }
        assert_eq!(read(npmrc, "registry=https://${HOST}/npm/\n"), ["NPM_CONFIG_REGISTRY=https://host.test/npm/"]);
        assert_eq!(read(npmrc, "registry=https://${SECRET_HOST}/npm/\n"), [ADDRESS]);
        assert_eq!(read(npmrc, "registry=https://${HOST/npm/\n"), [ADDRESS]);
        assert_eq!(read(npmrc, "@a:registry=https://r.test/\n"), [SCOPES]);
        assert_eq!(read(npmrc, "//r.test/:_authToken=${NPM_TOKEN}\nsave-exact=true\n"), [""; 0]);
    }

    #[test]
    fn only_yarns_own_registry_is_yarns() {
        let one = ["YARN_NPM_REGISTRY_SERVER=https://r.test"];
        for text in [
            "npmRegistryServer: \"https://r.test\"\nnpmAuthToken: hunter2\n",
            "npmRegistryServer: https://r.test # ours\n",
            "\"npmRegistryServer\": 'https://r.test'\n",
            "npmRegistryServer: \"${YARN_REGISTRY:-https://r.test}\"\n",
        ] {
            assert_eq!(read(yarnrc, text), one, "{text}");
        }
        // Only for a scope.
        assert_eq!(read(yarnrc, "npmScopes:\n  a:\n    npmRegistryServer: \"https://scope.test\"\n"), [SCOPES]);
        assert_eq!(read(yarnrc, "npmRegistryServer:\n  \"https://r.test\"\n"), [ADDRESS]);
    }

    #[test]
    fn pips_sections_and_long_values_are_read() {
        let one = ["PIP_INDEX_URL=https://r.test/simple"];
        for text in [
            "[global]\nindex-url = https://r.test/simple\ntimeout = 5\n",
            "[global]\nindex_url: https://r.test/simple\n",
            "[global]\nINDEX-URL =\n    https://r.test/simple\n",
            "[global]\n--index-url = https://r.test/simple\n",
            "[global]\nindex-url = https://old.test\n[install]\nindex-url = https://r.test/simple\n",
            "[install]\nindex-url = https://r.test/simple\n[global]\nindex-url = https://old.test\n",
        ] {
            assert_eq!(read(pip_conf, text), one, "{text}");
        }
        let several = "[global]\nextra-index-url =\n    https://a.test\n    # c\n    https://b.test\nno-index = true\n";
        assert_eq!(read(pip_conf, several), ["PIP_EXTRA_INDEX_URL=https://a.test https://b.test", "PIP_NO_INDEX=true"]);
        assert_eq!(read(pip_conf, "[download]\nindex-url = https://r.test\n"), ["list of indexes for one command"]);
        assert_eq!(read(pip_conf, "[global]\ntimeout = 5\n"), [""; 0]);
    }

    #[test]
    fn what_maven_says_can_only_be_told() {
        for text in ["<mirrors><mirror><url>x</url></mirror></mirrors>", "<repository\n id='a'>", "<proxies><proxy/>"] {
            assert_eq!(read(maven_settings, text), ["list of mirrors or repositories"], "{text}");
        }
        assert_eq!(read(maven_settings, "<settings><servers><server/></servers></settings>"), [""; 0]);
    }
}
