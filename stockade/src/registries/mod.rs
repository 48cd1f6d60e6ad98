//! Keeps the user's registries in use. The files that name them often contain tokens, too, and are masked; without
//! them a package manager would silently use the public registry. So their contents except secrets are passed on in
//! variables, and a notice names what no variable can express.

mod forms;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use stockade_core::{Sandboxing, Session};
use stockade_protocol::{AbsPath, Access, Argv, RawText, without_userinfo};
use stockade_sandboxing::{Listings, leads_to};

/// Limit on the size of a settings file.
const MAX_BYTES: u64 = 1024 * 1024;

/// A file that names registries, and the tools that read it.
struct RegistryFile {
    /// Below a home directory.
    path: &'static str,
    tools: &'static [&'static str],
    read: fn(&str, &Lookup<'_>) -> FileSays,
    /// Variables that name it, or its directory and the path in it.
    named_by: &'static [(&'static str, &'static str)],
}

/// The value of a variable that the command inherits.
type Lookup<'a> = dyn Fn(&str) -> Option<String> + 'a;

const NODE: &[&str] = &["npm", "npx", "pnpm", "yarn", "bun", "node"];
const PYTHON: &[&str] = &["pip", "python", "pipx", "tox", "poetry"];

/// Of files for the same tools, the one with precedence comes first.
const FILES: &[RegistryFile] = &[
    RegistryFile {
        path: ".npmrc",
        tools: NODE,
        read: forms::npmrc,
        named_by: &[("NPM_CONFIG_USERCONFIG", ""), ("npm_config_userconfig", "")],
    },
    RegistryFile { path: ".yarnrc.yml", tools: &["yarn"], read: forms::yarnrc, named_by: &[] },
    RegistryFile {
        path: ".config/pip/pip.conf",
        tools: PYTHON,
        read: forms::pip_conf,
        named_by: &[("PIP_CONFIG_FILE", ""), ("XDG_CONFIG_HOME", "pip/pip.conf")],
    },
    RegistryFile { path: ".pip/pip.conf", tools: PYTHON, read: forms::pip_conf, named_by: &[] },
    RegistryFile {
        path: ".m2/settings.xml",
        tools: &["mvn", "mvnw", "gradle", "gradlew"],
        read: forms::maven_settings,
        named_by: &[],
    },
];

/// The registry settings of a file.
#[derive(Debug, Default, PartialEq)]
struct FileSays {
    variables: Vec<(&'static str, String)>,
    /// What no variable can express.
    untold: Option<&'static str>,
}

impl FileSays {
    /// Sets a variable; a later line overrides an earlier one.
    fn says(&mut self, variable: &'static str, value: String) {
        self.variables.retain(|(name, _)| *name != variable);
        self.variables.push((variable, value));
    }
}

/// The registry settings of the masked files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registries {
    variables: Vec<(RawText, RawText)>,
    untold: Vec<Untold>,
}

/// A setting of a masked file that no variable can express.
#[derive(Clone, Debug)]
struct Untold {
    notice: String,
    tools: &'static [&'static str],
}

impl Registries {
    /// Adds them to an environment. A variable that is set already stays.
    pub(crate) fn hand_on(&self, environment: &mut BTreeMap<RawText, RawText>) {
        for (name, value) in &self.variables {
            // npm ignores the case of its variables.
            let is_set = |own: &RawText| match (own.as_str(), name.as_str()) {
                (Some(own), Some(name)) => own.eq_ignore_ascii_case(name),
                _ => false,
            };
            if !environment.keys().any(is_set) {
                environment.insert(name.clone(), value.clone());
            }
        }
    }

    /// The notices, if the command probably reads a file with settings that no variable can express.
    pub(crate) fn notices_for(&self, command: &Argv) -> Vec<String> {
        let told = self.untold.iter().filter(|untold| is_likely(command, untold.tools));
        told.map(|untold| untold.notice.clone()).collect()
    }
}

/// The files that [`keep`] reads.
pub(crate) fn files(homes: &[AbsPath], environment: &BTreeMap<RawText, RawText>) -> Vec<AbsPath> {
    FILES.iter().flat_map(|file| places(file, homes, environment)).collect()
}

/// The possible paths of a file: as variables say, else below the home directories.
fn places(file: &RegistryFile, homes: &[AbsPath], environment: &BTreeMap<RawText, RawText>) -> Vec<AbsPath> {
    let variable = |name: &str| environment.get(&RawText::from(name)).and_then(RawText::to_os_string);
    let named = |(name, below): &(&str, &str)| {
        let value = variable(name).filter(|value| !value.is_empty())?;
        AbsPath::from_path(&if below.is_empty() { PathBuf::from(value) } else { PathBuf::from(value).join(below) }).ok()
    };
    let mut places: Vec<AbsPath> = file.named_by.iter().filter_map(named).collect();
    // npm reads one user file; pip reads both, and none if one of them is `/dev/null`.
    let is_npm_named = file.path == ".npmrc" && !places.is_empty();
    let is_pip_off =
        file.path.ends_with("pip.conf") && variable("PIP_CONFIG_FILE") == Some(OsString::from("/dev/null"));
    if is_pip_off {
        return Vec::new();
    }
    if !is_npm_named {
        places.extend(homes.iter().filter_map(|home| home.join(file.path).ok()));
    }
    places
}

/// Reads the masked files. The same setting in a project's own file in one of the directories of `project`, or in the
/// active virtual environment, overrides the user's, as it does outside.
pub(crate) fn keep(session: &Session, homes: &[AbsPath], project: &[AbsPath], listings: &Listings) -> Registries {
    let mut all = Registries::default();
    if session.sandboxing() != Sandboxing::On {
        return all;
    }
    let lookup = |name: &str| {
        let inherits = session.permissions.environment.inherits(name);
        let value = session.environment.get(&RawText::from(name)).filter(|_| inherits)?;
        value.as_str().map(str::to_owned)
    };
    let is_denied = |path: &AbsPath| session.permissions.access(path) == Access::None;
    let masked = |path: &AbsPath| is_denied(path) || is_denied(&leads_to(path));
    let of_file = |file| places(file, homes, &session.environment).into_iter().map(move |path| (path, file));
    let is_readable = |path: &AbsPath| masked(path) && !listings.lacks(path);
    for (path, file) in FILES.iter().flat_map(of_file).filter(|(path, _)| is_readable(path)) {
        let mut found = match path.to_host_path().map_or(Contents::None, |path| read(&path)) {
            Contents::None => continue,
            Contents::Text(text) => (file.read)(&text, &lookup),
            Contents::Unreadable => FileSays { untold: Some(forms::UNREADABLE), ..FileSays::default() },
        };
        for (name, value) in std::mem::take(&mut found.variables) {
            if nearer_files(file, session, project).iter().any(|path| says(file, path, name, &lookup)) {
                continue;
            }
            match if name == "PIP_NO_INDEX" { Some(value) } else { without_secrets(&value) } {
                Some(value) if all.variables.iter().any(|(known, _)| known.as_str() == Some(name)) => drop(value),
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

/// The files with precedence over the user's.
fn nearer_files(file: &RegistryFile, session: &Session, project: &[AbsPath]) -> Vec<PathBuf> {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    if name == "pip.conf" {
        let active = session.environment.get(&RawText::from("VIRTUAL_ENV")).and_then(RawText::to_os_string);
        return active.map(|environment| PathBuf::from(environment).join(name)).into_iter().collect();
    }
    project.iter().filter_map(|directory| directory.join(name).ok()?.to_host_path()).collect()
}

/// Whether a file sets the same as this variable.
fn says(file: &RegistryFile, path: &Path, variable: &str, lookup: &Lookup<'_>) -> bool {
    match read(path) {
        Contents::Text(text) => (file.read)(&text, lookup).variables.iter().any(|(name, _)| *name == variable),
        Contents::None | Contents::Unreadable => false,
    }
}

/// URLs and hosts of a value, without user names and passwords. A value that could contain a secret elsewhere (a
/// query, a comment, an ambiguous URL) is not passed on at all.
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

/// Whether a command, or a shell line in it, names one of these tools.
fn is_likely(command: &Argv, tools: &[&str]) -> bool {
    let words = command.words().iter().filter_map(RawText::as_str);
    let mut names = words.flat_map(|word| word.split(|c: char| !c.is_ascii_alphanumeric()));
    names.any(|name| tools.contains(&name.trim_end_matches(|c: char| c.is_ascii_digit())))
}

/// The content of a file.
enum Contents {
    /// It is missing or not a regular file, which a tool does not read either.
    None,
    Text(String),
    /// It is too long, not text, or unreadable for this user.
    Unreadable,
}

fn read(path: &Path) -> Contents {
    let length = match std::fs::metadata(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Contents::None;
        }
        Err(_) => return Contents::Unreadable,
        // A pipe must not block.
        Ok(found) if !found.is_file() => return Contents::None,
        Ok(found) if found.len() > MAX_BYTES => return Contents::Unreadable,
        Ok(found) => usize::try_from(found.len()).unwrap_or_default(),
    };
    let mut text = String::with_capacity(length);
    match File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_string(&mut text)) {
        Ok(_) => Contents::Text(text),
        Err(_) => Contents::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
