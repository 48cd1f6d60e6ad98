//! The user's registries stay in use. The files that name them often hold tokens, too, and are masked; without them a
//! package manager would turn to the public registry and say nothing. So what they say besides secrets is handed on in
//! variables, and what no variable can say is told to the person.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use stockade_core::{Sandboxing, Session};
use stockade_protocol::{AbsPath, Access, Argv, RawText, without_userinfo};

/// Larger files are no settings that anybody has written.
const MAX_BYTES: u64 = 1024 * 1024;

/// A file that names registries, and who reads it.
struct RegistryFile {
    path: &'static str,
    tools: &'static [&'static str],
    read: fn(&str) -> FileSays,
}

const FILES: &[RegistryFile] = &[
    RegistryFile { path: ".npmrc", tools: &["npm", "npx", "pnpm", "yarn", "bun", "node"], read: npmrc },
    RegistryFile { path: ".yarnrc.yml", tools: &["yarn"], read: yarnrc },
    RegistryFile { path: ".config/pip/pip.conf", tools: &["pip", "python", "pipx", "tox", "poetry"], read: pip_conf },
    RegistryFile { path: ".pip/pip.conf", tools: &["pip", "python", "pipx", "tox", "poetry"], read: pip_conf },
    RegistryFile { path: ".m2/settings.xml", tools: &["mvn", "mvnw", "gradle", "gradlew"], read: maven_settings },
];

/// What a file says.
#[derive(Debug, Default, PartialEq)]
struct FileSays {
    variables: Vec<(&'static str, String)>,
    /// What no variable can say.
    untold: Option<&'static str>,
}

/// What the masked files say of registries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registries {
    variables: Vec<(RawText, RawText)>,
    untold: Vec<Untold>,
}

/// What a masked file says that no variable can say.
#[derive(Clone, Debug)]
struct Untold {
    notice: String,
    tools: &'static [&'static str],
}

impl Registries {
    /// Hands them on in an environment. A variable that is set already counts.
    pub(crate) fn hand_on(&self, environment: &mut BTreeMap<RawText, RawText>) {
        for (name, value) in &self.variables {
            environment.entry(name.clone()).or_insert_with(|| value.clone());
        }
    }

    /// The lines for a person, if the command looks like one that reads a file with more to say than variables can.
    pub(crate) fn notices_for(&self, command: &Argv) -> Vec<String> {
        let told = self.untold.iter().filter(|untold| is_likely(command, untold.tools));
        told.map(|untold| untold.notice.clone()).collect()
    }
}

/// The files that [`keep`] looks at.
pub(crate) fn files(homes: &[AbsPath]) -> impl Iterator<Item = AbsPath> {
    homes.iter().flat_map(|home| FILES.iter().filter_map(|file| home.join(file.path).ok()))
}

/// Reads the masked files. What a project's own file in one of the directories of `project`, or the virtual environment
/// that is active, says of the same setting counts over the user's, as it does outside.
pub(crate) fn keep(session: &Session, homes: &[AbsPath], project: &[AbsPath]) -> Registries {
    let mut all = Registries::default();
    if session.sandboxing() != Sandboxing::On {
        return all;
    }
    for (home, file) in homes.iter().flat_map(|home| FILES.iter().map(move |file| (home, file))) {
        let Ok(path) = home.join(file.path) else { continue };
        if session.permissions.access(&path) != Access::None {
            continue;
        }
        let Some(text) = path.to_host_path().and_then(|path| read(&path)) else { continue };
        let mut found = (file.read)(&text);
        for (name, value) in std::mem::take(&mut found.variables) {
            if nearer_files(file, session, project).iter().any(|path| says(file, path, name)) {
                continue;
            }
            match without_secrets(&value) {
                Some(value) => all.variables.push((name.into(), value.into())),
                None => found.untold = Some("registry's address"),
            }
        }
        all.untold.extend(found.untold.map(|what| Untold {
            notice: format!(
                "`{path}` is masked, and its {what} can't be handed on without it: packages may come from another \
                 registry; to let commands read it, add it to `remove` of `[credentials]` in your settings"
            ),
            tools: file.tools,
        }));
    }
    all
}

/// The files that the tools read before the user's own.
fn nearer_files(file: &RegistryFile, session: &Session, project: &[AbsPath]) -> Vec<PathBuf> {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    if name == "pip.conf" {
        let active = session.environment.get(&RawText::from("VIRTUAL_ENV")).and_then(RawText::to_os_string);
        return active.map(|environment| PathBuf::from(environment).join(name)).into_iter().collect();
    }
    project.iter().filter_map(|directory| directory.join(name).ok()?.to_host_path()).collect()
}

/// Whether a file says what this variable would.
fn says(file: &RegistryFile, path: &Path, variable: &str) -> bool {
    read(path).is_some_and(|text| (file.read)(&text).variables.iter().any(|(name, _)| *name == variable))
}

/// Addresses and hosts of a value, without user names and passwords. What could hold a secret elsewhere (a query, a
/// comment, an address that is read in more than one way) is not handed on at all.
fn without_secrets(value: &str) -> Option<String> {
    let plain = |word: &str| {
        let bare = without_userinfo(&word.into()).unwrap_or_else(|| word.into());
        let bare = bare.as_str()?.to_owned();
        let rest = bare.strip_prefix("https://").or_else(|| bare.strip_prefix("http://")).unwrap_or(&bare);
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
        let is_host = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
        let is_port = port.chars().all(|c| c.is_ascii_digit());
        let is_path = path.chars().all(|c| c.is_ascii_alphanumeric() || "._~/%+-".contains(c));
        (is_host && is_port && is_path).then_some(bare)
    };
    let words = value.split_whitespace().map(plain).collect::<Option<Vec<_>>>()?;
    (!words.is_empty()).then(|| words.join(" "))
}

/// Whether a command, or a line in it, names one of these tools.
fn is_likely(command: &Argv, tools: &[&str]) -> bool {
    let words = command.words().iter().filter_map(RawText::as_str);
    let mut names = words.flat_map(|word| word.split(|c: char| !c.is_ascii_alphanumeric()));
    names.any(|name| tools.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit())))
}

/// The text of an ordinary file, if it can be read.
fn read(path: &Path) -> Option<String> {
    // A pipe must not make us wait.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

fn unquoted(value: &str) -> &str {
    value.trim().trim_matches(['"', '\''])
}

/// The lines `name = value` of a text, without comments; further lines of a value are indented.
fn settings(text: &str, separator: char) -> impl Iterator<Item = (&str, &str)> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with(['#', ';']));
    lines.filter_map(move |line| line.split_once(separator)).map(|(name, value)| (name.trim(), unquoted(value)))
}

fn npmrc(text: &str) -> FileSays {
    let mut found = FileSays::default();
    for (name, value) in settings(text, '=') {
        if name == "registry" && !value.contains("${") {
            found.variables.push(("NPM_CONFIG_REGISTRY", value.to_owned()));
        } else if name == "registry" || (name.starts_with('@') && name.ends_with(":registry")) {
            found.untold = Some("registry of a scope");
        }
    }
    found
}

fn yarnrc(text: &str) -> FileSays {
    let mut found = FileSays::default();
    for (name, value) in settings(text, ':') {
        if name == "npmRegistryServer" && !value.contains("${") {
            found.variables.push(("YARN_NPM_REGISTRY_SERVER", value.to_owned()));
        } else if matches!(name, "npmScopes" | "npmRegistries" | "npmRegistryServer") {
            found.untold = Some("registry of a scope");
        }
    }
    found
}

fn pip_conf(text: &str) -> FileSays {
    let mut found = FileSays::default();
    for (name, value) in settings(text, '=').filter(|(_, value)| !value.is_empty()) {
        let variable = match name {
            "index-url" | "index_url" => "PIP_INDEX_URL",
            "extra-index-url" | "extra_index_url" => "PIP_EXTRA_INDEX_URL",
            "trusted-host" | "trusted_host" => "PIP_TRUSTED_HOST",
            _ => continue,
        };
        found.variables.push((variable, value.to_owned()));
    }
    let is_long = |line: &str| line.starts_with([' ', '\t']) && line.contains("://");
    found.untold = text.lines().any(is_long).then_some("list of indexes");
    found
}

fn maven_settings(text: &str) -> FileSays {
    let names = text.contains("<mirror>") || text.contains("<repository>");
    FileSays { variables: Vec::new(), untold: names.then_some("list of mirrors or repositories") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_secret_is_handed_on() {
        let npm = npmrc("# c\nregistry = \"https://r.test/npm/\"\n//r.test/npm/:_authToken=hunter2\n");
        assert_eq!(npm.variables, [("NPM_CONFIG_REGISTRY", String::from("https://r.test/npm/"))]);
        assert_eq!(npm.untold, None);
        assert!(npmrc("@a:registry=https://r.test/\n").untold.is_some());
        assert!(npmrc("registry=${REGISTRY}\n").untold.is_some());
        let yarn = yarnrc("npmRegistryServer: \"https://r.test\"\nnpmAuthToken: hunter2\n");
        assert_eq!(yarn.variables, [("YARN_NPM_REGISTRY_SERVER", String::from("https://r.test"))]);
        assert!(yarnrc("npmScopes:\n  a:\n    npmAuthToken: x\n").untold.is_some());
        let pip = pip_conf("[global]\nindex-url = https://r.test/simple\ntimeout = 5\n");
        assert_eq!(pip.variables, [("PIP_INDEX_URL", String::from("https://r.test/simple"))]);
        assert!(pip_conf("[global]\nextra-index-url =\n    https://a.test\n    https://b.test\n").untold.is_some());
        assert!(maven_settings("<mirrors><mirror><url>x</url></mirror></mirrors>").untold.is_some());
        assert_eq!(maven_settings("<settings/>"), FileSays::default());
    }

    #[test]
    fn no_secret_is_handed_on_with_an_address() {
        for (value, handed_on) in [
            ("https://r.test/npm/", Some("https://r.test/npm/")),
            ("https://u:S@r.test:8443/a", Some("https://r.test:8443/a")),
            ("https://a.test/ https://u:S@b.test/", Some("https://a.test/ https://b.test/")),
            ("r.test:80", Some("r.test:80")),
            ("https://u:S/x@r.test/", None),
            ("https:\\\\u:S@r.test/", None),
            ("//u:S@r.test/", None),
            ("https:/u:S@r.test/", None),
            ("https://r.test/?auth=S", None),
            ("https://r.test/#S", None),
            ("https://r.test/ ;S", None),
            ("", None),
        ] {
            assert_eq!(without_secrets(value).as_deref(), handed_on, "{value}");
        }
    }

    #[test]
    fn only_commands_that_may_read_a_file_are_told_of_it() {
        let likely = |words: &[&str], tools: &[&str]| is_likely(&Argv::parse(words.iter().copied()).unwrap(), tools);
        assert!(likely(&["npm", "ci"], &["npm"]));
        assert!(likely(&["sh", "-c", "cd x && /usr/bin/pip3 install y"], &["pip"]));
        assert!(!likely(&["cargo", "build"], &["npm", "pip"]));
    }
}
