//! Directories that macOS keeps for each user.

use stockade_protocol::AbsPath;

/// The directories of this user, with links followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserDirectories {
    /// Temporary files: what `$TMPDIR` names in a session. A command's private directory lies in it.
    pub temporary: AbsPath,
    /// Caches of programs, such as compilers' modules. It is not granted unless a policy names it.
    pub cache: AbsPath,
}

/// What the system says, whatever the environment says; `None` where it has no such directories.
pub fn user_directories() -> Option<UserDirectories> {
    #[cfg(target_os = "macos")]
    return {
        let canonical = |path: std::path::PathBuf| AbsPath::from_path(&path.canonicalize().ok()?).ok();
        Some(UserDirectories {
            temporary: canonical(crate::sys::user_directory(libc::_CS_DARWIN_USER_TEMP_DIR)?)?,
            cache: canonical(crate::sys::user_directory(libc::_CS_DARWIN_USER_CACHE_DIR)?)?,
        })
    };
    #[cfg(not(target_os = "macos"))]
    None
}
