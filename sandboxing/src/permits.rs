//! What the operating system itself lets this user do, sandbox or not.

use stockade_protocol::{AbsPath, Access};

/// Whether this program could read or write a path by itself. What does not exist can be written if it
/// could be made. A denial that would happen without a sandbox as well is not the sandbox's.
#[cfg(unix)]
pub fn permits(path: &AbsPath, access: Access) -> bool {
    use rustix::fs::{Access as Wanted, AtFlags, CWD, accessat};

    let wanted = if access == Access::Write { Wanted::WRITE_OK } else { Wanted::READ_OK };
    let may = |path: &AbsPath, wanted| {
        path.to_host_path().is_some_and(|path| accessat(CWD, &path, wanted, AtFlags::EACCESS).is_ok())
    };
    let exists = path.to_host_path().is_some_and(|path| path.symlink_metadata().is_ok());
    match path.parent() {
        Some(parent) if !exists && access == Access::Write => may(&parent, Wanted::WRITE_OK | Wanted::EXEC_OK),
        Some(_) | None => may(path, wanted),
    }
}

/// Whether this program could read or write a path by itself; here that is only known by trying.
#[cfg(not(unix))]
pub fn permits(_: &AbsPath, _: Access) -> bool {
    true
}
