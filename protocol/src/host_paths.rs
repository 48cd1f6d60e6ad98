//! The host's paths that a policy refers to implicitly.

use crate::{AbsPath, Access, CREDENTIAL_PATHS, FileRule, Invalid, RuleSource};

/// Metadata that lets a command take over later: git, an editor or an agent runs files planted there at its next
/// start. Never writable as part of a workspace.
pub const PROTECTED_NAMES: &[&str] =
    &[".git", ".stockade", ".codex", ".agents", ".claude", ".gemini", ".opencode", ".mcp.json"];

/// The default locations of Stockade's settings, rules, trust, state and trail below a home directory.
pub const OWN_PATHS: &[&str] = &[".config/stockade", ".local/state/stockade"];

/// Paths of this host and this session, gathered once when the session starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPaths {
    /// The session's workspace: the directories that `workspace-write` makes writable. They come
    /// from the session's owner, never from a request.
    pub workspace_roots: Vec<AbsPath>,
    /// The roots of the file system: `/`, or each drive.
    pub file_system_roots: Vec<AbsPath>,
    /// `/tmp`, on systems that have one.
    pub slash_tmp: Option<AbsPath>,
    /// The directory that `$TMPDIR` names, if it is set.
    pub tmpdir: Option<AbsPath>,
    /// Files that ordinary programs need to read to start on this system; the backend provides them.
    pub platform_defaults: Vec<AbsPath>,
    /// Credentials that are masked unless they are named.
    pub credentials: Vec<AbsPath>,
    /// Names that are protected below every writable root.
    pub protected_names: Vec<String>,
    /// Stockade's own files and directories, which no sandboxed command may write, regardless of grants.
    pub own_files: Vec<AbsPath>,
    /// Files that no sandboxed command may read either, such as the directory of a server's socket.
    pub hidden_files: Vec<AbsPath>,
}

impl HostPaths {
    /// The paths of a Unix session with this workspace; the well-known credentials below this home directory are
    /// masked.
    pub fn new(workspace_roots: impl IntoIterator<Item = AbsPath>, home: &AbsPath) -> Result<Self, Invalid> {
        Self::without_masks(workspace_roots).with_home(home)
    }

    /// Like `new`, with nothing masked: for a user without a home directory, or whose credentials are listed
    /// otherwise.
    pub fn without_masks(workspace_roots: impl IntoIterator<Item = AbsPath>) -> Self {
        let unix = |text: &str| AbsPath::parse(text).ok();
        Self {
            workspace_roots: workspace_roots.into_iter().collect(),
            file_system_roots: unix("/").into_iter().collect(),
            slash_tmp: unix("/tmp"),
            tmpdir: None,
            platform_defaults: Vec::new(),
            credentials: Vec::new(),
            protected_names: PROTECTED_NAMES.iter().map(|name| String::from(*name)).collect(),
            own_files: Vec::new(),
            hidden_files: Vec::new(),
        }
    }

    /// Masks the well-known credentials of this home directory, and protects Stockade's own files in it.
    pub fn with_home(mut self, home: &AbsPath) -> Result<Self, Invalid> {
        for path in CREDENTIAL_PATHS {
            self.credentials.push(home.join(*path)?);
        }
        for path in OWN_PATHS {
            self.own_files.push(home.join(*path)?);
        }
        Ok(self)
    }

    /// The bounds that protect Stockade's own files from writes, and some from reads.
    pub fn own_file_bounds(&self) -> impl Iterator<Item = FileRule> {
        let readable = self.own_files.iter().map(|path| (path, Access::Read));
        let all = readable.chain(self.hidden_files.iter().map(|path| (path, Access::None)));
        all.map(|(path, access)| FileRule::path(path.clone(), access).from_source(RuleSource::OwnFiles))
    }
}
