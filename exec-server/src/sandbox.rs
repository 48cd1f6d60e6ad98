//! The sandbox that codex asks for, as an upper bound of what the session grants.
//!
//! codex sends its permissions with each process and each file operation. They become [`Permissions`], and the session
//! intersects them with its own: the stricter of both holds, for every path and for the network. A form that has no
//! [`Permissions`] of the same meaning is refused. A field that this version does not know is refused as well, since it
//! could be a restriction.

use serde::Deserialize;
use stockade_protocol::{
    AbsPath, Access, FileRule, FileRules, FileTarget, Invalid, NetworkPolicy, Permissions, RuleSource,
};
use stockade_sandboxing::leads_to;

use crate::uri::FileUri;

/// The sandbox of a request.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SandboxContext {
    permissions: Profile,
    #[serde(default)]
    cwd: Option<FileUri>,
    #[serde(default)]
    workspace_roots: Vec<FileUri>,
    /// What the entries are relative to, where that is said apart.
    #[serde(default)]
    policy_context: Option<PolicyContext>,
    #[serde(default)]
    #[expect(dead_code, reason = "no entry is relative to it")]
    user_home_dir: Option<FileUri>,
    // These choose between engines of codex, and say nothing of what is granted.
    #[serde(default)]
    #[expect(dead_code, reason = "read so that an unknown field is told from it")]
    windows_sandbox_level: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    #[expect(dead_code, reason = "read so that an unknown field is told from it")]
    windows_sandbox_private_desktop: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    #[expect(dead_code, reason = "read so that an unknown field is told from it")]
    windows_sandbox_proxy_settings_mode: Option<serde::de::IgnoredAny>,
    #[serde(default)]
    #[expect(dead_code, reason = "read so that an unknown field is told from it")]
    use_legacy_landlock: Option<serde::de::IgnoredAny>,
}

/// What the entries of a sandbox are relative to.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PolicyContext {
    #[serde(default)]
    cwd: Option<FileUri>,
    #[serde(default)]
    workspace_roots: Vec<FileUri>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum Profile {
    Managed { file_system: FileSystem, network: Network },
    Disabled,
    External { network: Network },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum FileSystem {
    Restricted {
        entries: Vec<Entry>,
        #[serde(default)]
        #[expect(dead_code, reason = "how deep codex looks for matches; a glob holds at any depth here")]
        glob_scan_max_depth: Option<u64>,
    },
    Unrestricted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Network {
    Restricted,
    Enabled,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    path: EntryPath,
    access: EntryAccess,
    #[serde(default)]
    missing_path_behavior: Option<MissingPath>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
enum EntryPath {
    Path { path: FileUri },
    GlobPattern { pattern: String },
    Special { value: Special },
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
enum Special {
    Root,
    Minimal,
    #[serde(alias = "current_working_directory")]
    ProjectRoots {
        #[serde(default)]
        subpath: Option<String>,
    },
    Tmpdir,
    SlashTmp,
    Unknown {
        path: String,
        #[serde(default)]
        #[expect(dead_code, reason = "below a path that is not known")]
        subpath: Option<String>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum EntryAccess {
    Read,
    Write,
    #[serde(alias = "none")]
    Deny,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum MissingPath {
    Skip,
}

/// Why a sandbox can't be enforced as it was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BoundError {
    #[error("codex's sandbox can't be enforced here: {0}")]
    Inexpressible(String),
    #[error("the sandbox that codex asks for is invalid")]
    Invalid(#[from] Invalid),
}

/// What a bound is made for.
pub(crate) struct Around<'a> {
    /// What the session grants: a bound takes nothing away that codex does not speak of.
    pub(crate) session: &'a Permissions,
    /// The directory of the request.
    pub(crate) cwd: &'a AbsPath,
    /// The value of `TMPDIR` in the environment of the request.
    pub(crate) tmpdir: Option<&'a AbsPath>,
}

impl SandboxContext {
    /// The upper bound; none where codex asks for no sandbox, and the session alone decides.
    pub(crate) fn bound(&self, around: &Around<'_>) -> Result<Option<Permissions>, BoundError> {
        self.check_context()?;
        let (files, network) = match &self.permissions {
            Profile::Disabled => return Ok(None),
            Profile::Managed { file_system: FileSystem::Restricted { entries, .. }, network } => {
                (self.files(entries, around)?, *network)
            }
            Profile::Managed { file_system: FileSystem::Unrestricted, network } | Profile::External { network } => {
                (vec![FileRule::path(root(around.cwd), Access::Write)], *network)
            }
        };
        let is_open = network == Network::Enabled;
        Ok(Some(Permissions {
            files: FileRules::new(files)?,
            network: if is_open { NetworkPolicy::Full } else { NetworkPolicy::Off },
            // codex has no list of sockets: with its network open it refuses none, else all.
            unix_sockets: if is_open { around.session.unix_sockets.clone() } else { Default::default() },
            limits: around.session.limits,
            environment: around.session.environment.clone(),
        }))
    }

    /// The entries are relative to one directory and one list of roots, or it can't be known which is meant.
    fn check_context(&self) -> Result<(), BoundError> {
        let Some(context) = &self.policy_context else { return Ok(()) };
        let same_cwd = context.cwd.is_none() || self.cwd.is_none() || context.cwd == self.cwd;
        let is_unsaid = context.workspace_roots.is_empty() || self.workspace_roots.is_empty();
        if same_cwd && (is_unsaid || context.workspace_roots == self.workspace_roots) {
            return Ok(());
        }
        let why = "its `policyContext` names another directory or other workspace roots than the sandbox itself";
        Err(BoundError::Inexpressible(String::from(why)))
    }

    /// The directory that entries are relative to.
    fn directory<'a>(&'a self, around: &Around<'a>) -> &'a AbsPath {
        let said = self.cwd.as_ref().or_else(|| self.policy_context.as_ref()?.cwd.as_ref());
        said.map_or(around.cwd, |cwd| &cwd.0)
    }

    /// The roots of the workspace.
    fn roots(&self) -> &[FileUri] {
        match (&self.policy_context, self.workspace_roots.as_slice()) {
            (Some(context), []) => &context.workspace_roots,
            (_, roots) => roots,
        }
    }

    fn files(&self, entries: &[Entry], around: &Around<'_>) -> Result<Vec<FileRule>, BoundError> {
        let mut rules = Vec::new();
        for entry in entries {
            let access = match entry.access {
                EntryAccess::Read => Access::Read,
                EntryAccess::Write => Access::Write,
                EntryAccess::Deny => Access::None,
            };
            for target in self.targets(entry, around)? {
                let rule = |target| FileRule { target, access, source: RuleSource::Policy };
                match target {
                    FileTarget::Glob(_) if access == Access::None => rules.push(rule(target)),
                    FileTarget::Glob(glob) => {
                        let why = format!("`{glob}` is granted by a pattern, and a pattern can only deny");
                        return Err(BoundError::Inexpressible(why));
                    }
                    FileTarget::Path(path) if entry.is_skipped(&path) => {}
                    // The session's own rules speak of paths without links.
                    FileTarget::Path(path) => {
                        let real = leads_to(&path);
                        let is_link = real != path;
                        rules.push(rule(FileTarget::Path(real)));
                        if is_link && access != Access::Write {
                            rules.push(rule(FileTarget::Path(path)));
                        }
                    }
                }
            }
        }
        Ok(rules)
    }

    /// What an entry speaks of; nothing for a path that there is not here.
    fn targets(&self, entry: &Entry, around: &Around<'_>) -> Result<Vec<FileTarget>, BoundError> {
        let cwd = self.directory(around);
        let path = |path: AbsPath| Ok(vec![FileTarget::Path(path)]);
        match &entry.path {
            EntryPath::Path { path: given } => path(given.0.clone()),
            EntryPath::GlobPattern { pattern } => Ok(vec![FileTarget::Glob(absolute_pattern(pattern, cwd)?.parse()?)]),
            EntryPath::Special { value } => match value {
                Special::Root => path(root(cwd)),
                Special::SlashTmp if cfg!(unix) => path(AbsPath::parse("/tmp")?),
                Special::SlashTmp => Ok(Vec::new()),
                Special::Tmpdir => Ok(around.tmpdir.iter().map(|path| FileTarget::Path((*path).clone())).collect()),
                Special::ProjectRoots { subpath } => self.project_roots(subpath.as_deref(), cwd),
                Special::Minimal => {
                    let why = "it restricts reading to what the platform needs; ask codex for read access to `:root`";
                    Err(BoundError::Inexpressible(String::from(why)))
                }
                // Leaving out what would be granted is stricter; leaving out a denial is not.
                Special::Unknown { .. } if entry.access != EntryAccess::Deny => Ok(Vec::new()),
                Special::Unknown { path, .. } => {
                    let why = format!("it denies `{}`, which is not known here", path.escape_debug());
                    Err(BoundError::Inexpressible(why))
                }
            },
        }
    }

    fn project_roots(&self, subpath: Option<&str>, cwd: &AbsPath) -> Result<Vec<FileTarget>, BoundError> {
        let roots: Vec<&AbsPath> = match self.roots() {
            [] => vec![cwd],
            roots => roots.iter().map(|root| &root.0).collect(),
        };
        let leads_out =
            |subpath: &str| subpath.starts_with(['/', '\\']) || subpath.split(['/', '\\']).any(|name| name == "..");
        if let Some(subpath) = subpath.filter(|subpath| leads_out(subpath)) {
            let why = format!("`{}` leads out of the workspace", subpath.escape_debug());
            return Err(BoundError::Inexpressible(why));
        }
        let below = |root: &AbsPath| match subpath {
            Some(subpath) => root.join(subpath),
            None => Ok(root.clone()),
        };
        roots.into_iter().map(|root| Ok(FileTarget::Path(below(root)?))).collect()
    }
}

impl Entry {
    /// Whether codex leaves it out, since there is no such path.
    fn is_skipped(&self, path: &AbsPath) -> bool {
        let is_there = || path.to_host_path().is_some_and(|path| std::fs::symlink_metadata(path).is_ok());
        self.missing_path_behavior == Some(MissingPath::Skip) && !is_there()
    }
}

/// A pattern that is relative to the directory of the request.
fn absolute_pattern(pattern: &str, cwd: &AbsPath) -> Result<String, BoundError> {
    if pattern.starts_with('/') {
        return Ok(pattern.to_owned());
    }
    let inexpressible = |why: String| Err(BoundError::Inexpressible(why));
    match cwd.as_raw().as_str() {
        Some(base) if !base.contains(['*', '?', '[', ']', '{', '}', '\\']) => {
            Ok(format!("{}/{pattern}", base.trim_end_matches('/')))
        }
        _ => {
            inexpressible(format!("`{}` is relative to `{cwd}`, which is no part of a pattern", pattern.escape_debug()))
        }
    }
}

/// The root of the file system that a path is on.
fn root(path: &AbsPath) -> AbsPath {
    path.ancestors().last().unwrap_or_else(|| path.clone())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PATHS: [&str; 6] = ["/", "/none-r", "/none-r/a", "/none-r/a/b", "/none-r/c", "/none-x"];

    fn context(entries: &[(usize, &str)]) -> SandboxContext {
        let entries: Vec<String> = entries
            .iter()
            .map(|(path, access)| {
                let path = PATHS.get(*path).unwrap();
                format!(r#"{{"path":{{"type":"path","path":"file://{path}"}},"access":"{access}"}}"#)
            })
            .collect();
        let text = format!(
            r#"{{"permissions":{{"type":"managed","network":"restricted","file_system":{{"type":"restricted","entries":[{}]}}}},"windowsSandboxLevel":"disabled"}}"#,
            entries.join(",")
        );
        serde_json::from_str(&text).unwrap()
    }

    fn bound(context: &SandboxContext, session: &Permissions) -> Permissions {
        let cwd = "/none-r".parse().unwrap();
        context.bound(&Around { session, cwd: &cwd, tmpdir: None }).unwrap().unwrap()
    }

    fn access(word: &str) -> Access {
        match word {
            "read" => Access::Read,
            "write" => Access::Write,
            _ => Access::None,
        }
    }

    /// What codex says of a path: the most specific entry decides, of several the strictest.
    fn said(entries: &[(usize, &str)], path: &AbsPath) -> Access {
        let of = |(own, word): &(usize, &str)| {
            let own: AbsPath = PATHS.get(*own).unwrap().parse().unwrap();
            path.starts_with(&own).then(|| (own.depth(), access(word)))
        };
        let matching: Vec<(usize, Access)> = entries.iter().filter_map(of).collect();
        let deepest = matching.iter().map(|(depth, _)| *depth).max();
        matching
            .iter()
            .filter(|(depth, _)| Some(*depth) == deepest)
            .map(|(_, access)| *access)
            .min()
            .unwrap_or(Access::None)
    }

    proptest! {
        #[test]
        fn the_stricter_of_both_decides_for_every_path(
            entries in prop::collection::vec((0..PATHS.len(), prop::sample::select(vec!["read", "write", "deny", "none"])), 0..6),
            granted in prop::collection::vec((0..PATHS.len(), prop::sample::select(vec!["read", "write", "none"])), 0..6),
        ) {
            let rules = granted.iter().map(|(path, word)| FileRule::path(PATHS[*path].parse().unwrap(), access(word)));
            let session = Permissions { files: FileRules::new(rules).unwrap(), ..Permissions::default() };
            let both = session.intersect(&bound(&context(&entries), &session));
            for path in PATHS.iter().copied().chain(["/none-r/a/b/deep", "/elsewhere"]) {
                let path: AbsPath = path.parse().unwrap();
                prop_assert_eq!(both.access(&path), session.access(&path).min(said(&entries, &path)), "{}", path);
            }
            prop_assert_eq!(both.network, NetworkPolicy::Off);
        }

        #[test]
        fn no_form_panics(text in r#"\{"permissions":\{"type":"(managed|disabled|external)"[a-z_":{},\[\]]{0,80}\}\}"#) {
            drop(serde_json::from_str::<SandboxContext>(&text));
        }
    }

    #[test]
    fn without_a_sandbox_of_codex_there_is_no_bound() {
        let context: SandboxContext = serde_json::from_str(r#"{"permissions":{"type":"disabled"}}"#).unwrap();
        let (session, cwd) = (Permissions::default(), "/".parse().unwrap());
        assert!(context.bound(&Around { session: &session, cwd: &cwd, tmpdir: None }).unwrap().is_none());
    }
}
