//! What the operating system permits this user without a sandbox. A denial that would also happen outside is not the
//! sandbox's.

use stockade_protocol::{AbsPath, Access};

/// Whether this program could read or write a path itself. A missing file is writable if it and its missing
/// directories could be created.
#[cfg(unix)]
pub fn permits(path: &AbsPath, access: Access) -> bool {
    use rustix::fs::{Access as Wanted, AtFlags, CWD, accessat};

    let wanted = if access == Access::Write { Wanted::WRITE_OK } else { Wanted::READ_OK };
    let may = |path: &AbsPath, wanted| {
        path.to_host_path().is_some_and(|path| accessat(CWD, &path, wanted, AtFlags::EACCESS).is_ok())
    };
    let exists = |path: &AbsPath| path.to_host_path().is_some_and(|path| path.symlink_metadata().is_ok());
    match path.ancestors().find(exists) {
        Some(above) if above != *path && access == Access::Write => may(&above, Wanted::WRITE_OK | Wanted::EXEC_OK),
        Some(_) | None => may(path, wanted),
    }
}

/// Whether this program could signal a process itself.
#[cfg(unix)]
pub fn permits_signal(process: u32) -> bool {
    use rustix::process::{Pid, test_kill_process};

    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    process.is_some_and(|process| test_kill_process(process).is_ok())
}

/// Whether this program runs as the administrator, who alone may use some system calls.
#[cfg(unix)]
pub fn is_administrator() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether this program could read or write a path itself; unknown on this system.
#[cfg(not(unix))]
pub fn permits(_: &AbsPath, _: Access) -> bool {
    true
}

/// Whether this program could signal a process itself; unknown on this system.
#[cfg(not(unix))]
pub fn permits_signal(_: u32) -> bool {
    true
}

/// Whether this program runs as the administrator; unknown on this system.
#[cfg(not(unix))]
pub fn is_administrator() -> bool {
    true
}

/// Whether a process on this machine listens on a port; `false` if that can't be determined.
pub fn listens(port: u16) -> bool {
    listens_in("/proc/net", port)
}

/// Like `listens`, in another network namespace, by its `/proc` directory.
pub fn listens_in(network: &str, port: u16) -> bool {
    // <https://www.kernel.org/doc/html/latest/networking/proc_net_tcp.html>: the second field is the local address,
    // the fourth the state.
    const LISTENING: &str = "0A";
    // A table that changes while it is read may omit a line.
    const READINGS: usize = 2;
    let listed = |table: &str| std::fs::read_to_string(table).unwrap_or_default();
    let wanted = format!("{port:04X}");
    ["tcp", "tcp6"].repeat(READINGS).iter().any(|table| {
        listed(&format!("{network}/{table}")).lines().any(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let at_port = fields.get(1).and_then(|local| local.rsplit(':').next()) == Some(wanted.as_str());
            at_port && fields.get(3) == Some(&LISTENING)
        })
    })
}

/// Creates a missing directory and its parents, for this user alone. If another file has the name, the later use of
/// the directory fails.
pub fn make_private_directory(path: &AbsPath) -> std::io::Result<()> {
    let Some(path) = path.to_host_path() else { return Ok(()) };
    if std::fs::symlink_metadata(&path).is_ok() {
        return Ok(());
    }
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}
