//! What the operating system itself lets this user do, sandbox or not. A denial that would happen without a
//! sandbox as well is not the sandbox's.

use stockade_protocol::{AbsPath, Access};

/// Whether this program could read or write a path by itself. What does not exist can be written if it
/// could be made, with the directories that it would be in.
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

/// Whether this program could send a signal to a process by itself.
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

/// Whether this program could read or write a path by itself; here that is only known by trying.
#[cfg(not(unix))]
pub fn permits(_: &AbsPath, _: Access) -> bool {
    true
}

/// Whether this program could send a signal to a process by itself; here that is only known by trying.
#[cfg(not(unix))]
pub fn permits_signal(_: u32) -> bool {
    true
}

/// Whether this program runs as the administrator; here that is only known by trying.
#[cfg(not(unix))]
pub fn is_administrator() -> bool {
    true
}

/// Whether something on this machine waits for connections at a port; `false` where that can't be seen.
pub fn listens(port: u16) -> bool {
    listens_in("/proc/net", port)
}

/// The same in another network, by the directory of `/proc` that tells of it.
pub fn listens_in(network: &str, port: u16) -> bool {
    // <https://www.kernel.org/doc/html/latest/networking/proc_net_tcp.html>: the second field is the local address,
    // the fourth the state.
    const LISTENING: &str = "0A";
    // A table that changes while it is read may leave a line out.
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

/// Makes a directory that is missing, and those above it, for this user alone. Something else in its place is left to
/// whoever needs the directory.
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
