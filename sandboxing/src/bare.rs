//! No sandbox: for sessions with the sandbox turned off, and for runs that a person approved without it.
//!
//! Nothing is enforced, so a policy with anything to enforce is refused here and needs a real backend.

use std::fmt;
use std::io::{self, PipeReader, PipeWriter};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[cfg(unix)]
use std::os::fd::AsFd as _;
#[cfg(windows)]
use std::os::windows::io::AsHandle as _;

use stockade_protocol::{Enforcement, Permissions, RawText};

use crate::backend::BorrowedStream;
use crate::{Backend, CommandSpec, Plan, Running, SpawnError, Stdio, Streams, Support, Unenforceable, WaitStatus};

/// Starts commands without a sandbox.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bare;

impl Backend for Bare {
    fn support(&self) -> &Support {
        static NONE: Support = Support { engine: String::new(), layers: Vec::new() };
        &NONE
    }

    fn compile(&self, command: &CommandSpec, permissions: &Permissions) -> Result<Box<dyn Plan>, Unenforceable> {
        let refuse = |what: String| Unenforceable {
            what,
            why: String::from("the command runs without a sandbox"),
            remedy: String::from("run it in a sandbox"),
        };
        if let Some(denial) = permissions.hard_denials().next() {
            return Err(refuse(format!("the denial of `{}`", denial.target)));
        }
        if !permissions.limits.is_unlimited() {
            return Err(refuse(String::from("a resource limit")));
        }
        command.process.check()?;
        Ok(Box::new(BarePlan { command: command.clone(), permissions: permissions.clone() }))
    }
}

#[derive(Debug)]
struct BarePlan {
    command: CommandSpec,
    /// They restrict nothing, so nothing has to be enforced.
    permissions: Permissions,
}

impl fmt::Display for BarePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "run {} in {} without a sandbox", self.command.argv, self.command.cwd)
    }
}

impl Plan for BarePlan {
    fn spawn(&self, stdio: Stdio) -> Result<Box<dyn Running>, SpawnError> {
        let program = self.command.argv.program().clone();
        let child = self.start(stdio).map_err(|source| {
            if source.kind() == io::ErrorKind::NotFound || self.is_nowhere(&source) {
                SpawnError::NotFound { program }
            } else if source.kind() == io::ErrorKind::ArgumentListTooLong {
                SpawnError::TooLong { program }
            } else {
                SpawnError::NotExecutable { program, source }
            }
        })?;
        let lost = |source| SpawnError::Launcher { doing: "watching the command", source };
        let (ended, at_end) = io::pipe().map_err(lost)?;
        let shared = Arc::new(Shared { state: Mutex::new(State { child, status: None }), changed: Condvar::new() });
        let watched = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name(String::from("stockade-bare")).stack_size(STACK);
        thread.spawn(move || watched.watch(at_end)).map_err(lost)?;
        Ok(Box::new(BareRunning { shared, ended }))
    }

    fn permissions(&self) -> &Permissions {
        &self.permissions
    }
}

/// Enough for a thread that only waits.
const STACK: usize = 64 * 1024;

impl BarePlan {
    /// Whether permission was denied only during the `PATH` search, by unsearchable directories or a directory of the
    /// program's name. A shell reports such a program as not found.
    fn is_nowhere(&self, error: &io::Error) -> bool {
        let value = self.command.environment.get(&RawText::from("PATH")).and_then(RawText::to_os_string);
        let (Some(program), Some(path), Some(cwd)) =
            (self.command.argv.program().to_os_string(), value, self.command.cwd.to_host_path())
        else {
            return false;
        };
        let is_there =
            |directory: PathBuf| cwd.join(directory).join(&program).metadata().is_ok_and(|found| !found.is_dir());
        error.kind() == io::ErrorKind::PermissionDenied
            && !self.command.argv.program().as_bytes().contains(&b'/')
            && !std::env::split_paths(&path).any(is_there)
    }

    #[expect(clippy::disallowed_methods, reason = "this is the one place that starts commands without a sandbox")]
    fn start(&self, stdio: Stdio) -> io::Result<Child> {
        let unusable =
            |what: &str| io::Error::new(io::ErrorKind::InvalidInput, format!("{what} is not text of this system"));
        let text = |text: &RawText| text.to_os_string().ok_or_else(|| unusable("an argument"));
        let cwd = self.command.cwd.to_host_path().ok_or_else(|| unusable("the working directory"))?;
        let mut words = self.command.argv.words().iter();
        let mut command = Command::new(words.next().map(text).transpose()?.unwrap_or_default());
        for word in words {
            command.arg(text(word)?);
        }
        command.env_clear().current_dir(cwd);
        for (name, value) in &self.command.environment {
            command.env(text(name)?, text(value)?);
        }
        #[cfg(unix)]
        crate::sys::place(&mut command, &stdio, self.command.process.clone());
        command.stdin(stream(stdio.stdin)).stdout(stream(stdio.stdout)).stderr(stream(stdio.stderr));
        command.spawn()
    }
}

fn stream(stream: Streams) -> std::process::Stdio {
    match stream {
        Streams::Null => std::process::Stdio::null(),
        Streams::Inherit => std::process::Stdio::inherit(),
        Streams::To(file) => file.into(),
    }
}

#[derive(Debug)]
struct BareRunning {
    shared: Arc<Shared>,
    ended: PipeReader,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// While `status` is `None` the child has not been reaped, so its pid is valid.
#[derive(Debug)]
struct State {
    child: Child,
    status: Option<WaitStatus>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the end on a separate thread. `at_end` is dropped afterwards, which makes the other end of the pipe
    /// readable.
    fn watch(&self, at_end: PipeWriter) {
        let number = self.lock().child.id();
        until_exit(number);
        let mut state = self.lock();
        while state.status.is_none() {
            match state.child.try_wait() {
                Ok(Some(status)) => state.status = Some(wait_status(status)),
                Ok(None) => {
                    drop(state);
                    std::thread::sleep(Duration::from_millis(5));
                    state = self.lock();
                }
                // It can no longer be waited for: it is gone, with an unknown status.
                Err(_) => state.status = Some(WaitStatus::Exited(-1)),
            }
        }
        self.changed.notify_all();
        drop(at_end);
    }
}

/// Blocks until a child has ended, without reaping it.
#[cfg(unix)]
fn until_exit(number: u32) {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

    let Some(pid) = i32::try_from(number).ok().and_then(Pid::from_raw) else { return };
    while matches!(
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT),
        Err(rustix::io::Errno::INTR)
    ) {}
}

#[cfg(not(unix))]
fn until_exit(_: u32) {}

#[cfg(unix)]
fn wait_status(status: ExitStatus) -> WaitStatus {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => WaitStatus::Exited(code),
        (None, Some(signal)) => WaitStatus::Signaled(signal),
        (None, None) => WaitStatus::Exited(-1),
    }
}

#[cfg(not(unix))]
fn wait_status(status: ExitStatus) -> WaitStatus {
    WaitStatus::Exited(status.code().unwrap_or(-1))
}

impl Running for BareRunning {
    fn enforcement(&self) -> &Enforcement {
        static NONE: std::sync::OnceLock<Enforcement> = std::sync::OnceLock::new();
        NONE.get_or_init(|| Enforcement { engine: String::from("none"), layers: Vec::new() })
    }

    fn wait(&mut self, limit: Option<Duration>) -> Result<Option<WaitStatus>, SpawnError> {
        let end = limit.map(|limit| Instant::now() + limit);
        let mut state = self.shared.lock();
        while state.status.is_none() {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            state = match left {
                Some(Duration::ZERO) => return Ok(None),
                Some(left) => self.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        Ok(state.status)
    }

    fn readable(&self) -> BorrowedStream<'_> {
        #[cfg(unix)]
        return self.ended.as_fd();
        #[cfg(windows)]
        return self.ended.as_handle();
    }

    fn signal(&mut self, signal: u8) -> Result<(), SpawnError> {
        let mut state = self.shared.lock();
        if state.status.is_some() {
            return Ok(());
        }
        send(&mut state.child, signal)
            .map_err(|source| SpawnError::Launcher { doing: "signalling the command", source })
    }

    fn kill(&mut self) -> Result<(), SpawnError> {
        self.signal(9)
    }
}

impl Drop for BareRunning {
    fn drop(&mut self) {
        // An error means that it has ended already.
        self.kill().ok();
    }
}

/// Signals the command and its children that stayed in its process group.
#[cfg(unix)]
fn send(child: &mut Child, signal: u8) -> io::Result<()> {
    use rustix::process::{Pid, getpgid};

    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let Some(pid) = pid.filter(|_| signal != 0) else { return Err(io::ErrorKind::InvalidInput.into()) };
    let signal = i32::from(signal);
    // Its process group is orphaned, so the kernel would ignore a `SIGTSTP`.
    let signal = if signal == libc::SIGTSTP { libc::SIGSTOP } else { signal };
    let leads_its_group = getpgid(Some(pid)).is_ok_and(|group| group == pid);
    crate::sys::send(pid, leads_its_group, signal)
}

#[cfg(not(unix))]
fn send(child: &mut Child, _: u8) -> io::Result<()> {
    child.kill()
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::OwnedFd;

    use stockade_protocol::{Access, Argv, FileRule, FileRules, Rlimit, RlimitResource, TerminalSize};

    use super::*;
    use crate::{ProcessSettings, Terminal};

    fn command(words: &[&str]) -> CommandSpec {
        let environment = [("PATH".into(), "/usr/bin:/bin".into()), ("A".into(), "b".into())].into();
        let (argv, process) = (Argv::parse(words.iter().copied()).unwrap(), ProcessSettings::default());
        CommandSpec { argv, cwd: "/".parse().unwrap(), environment, process }
    }

    fn spawn(words: &[&str], stdio: Stdio) -> Result<Box<dyn Running>, SpawnError> {
        Bare.compile(&command(words), &Permissions::default()).unwrap().spawn(stdio)
    }

    #[test]
    fn output_exit_code_directory_and_environment_are_the_commands() {
        let (mut out, theirs) = io::pipe().unwrap();
        let stdio = Stdio { stdout: Streams::To(OwnedFd::from(theirs)), ..Stdio::default() };
        let mut running = spawn(&["sh", "-c", "pwd; env; exit 3"], stdio).unwrap();
        assert_eq!(running.wait(None).unwrap(), Some(WaitStatus::Exited(3)));
        let mut text = String::new();
        out.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("/\n") && text.contains("A=b\n"), "{text}");
        assert!(!text.contains("HOME="), "{text}");
    }

    #[test]
    fn the_callers_umask_and_limits_are_the_commands() {
        let (mut out, theirs) = io::pipe().unwrap();
        let stdio = Stdio { stdout: Streams::To(OwnedFd::from(theirs)), ..Stdio::default() };
        let limit = Rlimit { soft: Some(33), hard: Some(44) };
        let process = ProcessSettings {
            umask: Some(0o27.try_into().unwrap()),
            rlimits: [(RlimitResource::Nofile, limit)].into(),
            ..ProcessSettings::default()
        };
        let command = CommandSpec { process, ..command(&["sh", "-c", "umask; ulimit -Sn; ulimit -Hn"]) };
        let mut running = Bare.compile(&command, &Permissions::default()).unwrap().spawn(stdio).unwrap();
        assert_eq!(running.wait(None).unwrap(), Some(WaitStatus::Exited(0)));
        let mut text = String::new();
        out.read_to_string(&mut text).unwrap();
        assert_eq!(text, "0027\n33\n44\n");
    }

    #[test]
    fn a_directory_that_is_another_one_is_not_worked_in() {
        let own = crate::DirectoryIdentity::of(std::fs::File::open("/").unwrap()).unwrap();
        for (inode, is_run) in [(own.inode, true), (own.inode + 1, false)] {
            let directory = Some(crate::DirectoryIdentity { inode, ..own });
            let process = ProcessSettings { directory, ..ProcessSettings::default() };
            let command = CommandSpec { process, ..command(&["true"]) };
            let started = Bare.compile(&command, &Permissions::default()).unwrap().spawn(Stdio::default());
            assert_eq!(started.is_ok(), is_run);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn it_has_no_descriptors_of_this_process_and_hears_realtime_signals() {
        // `dup` marks nothing.
        let left = rustix::io::dup(std::fs::File::open("/etc").unwrap()).unwrap();
        let (mut out, theirs) = io::pipe().unwrap();
        let stdio = Stdio { stdout: Streams::To(OwnedFd::from(theirs)), ..Stdio::default() };
        let line = "trap 'exit 7' 40; readlink /proc/$$/fd/* | grep -x /etc; echo ready; while :; do sleep 0.05; done";
        let mut running = spawn(&["bash", "-c", line], stdio).unwrap();
        let mut text = [0; 6];
        out.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"ready\n");
        drop(left);
        running.signal(40).unwrap();
        let status = running.wait(Some(Duration::from_secs(10))).unwrap();
        // The signal ends `sleep`, too, which is in the group.
        assert_eq!(status, Some(WaitStatus::Exited(7)));
    }

    #[test]
    fn a_missing_program_is_said_to_be_missing() {
        assert!(matches!(spawn(&["no-such-program"], Stdio::default()), Err(SpawnError::NotFound { .. })));
        // `MAX_ARG_STRLEN` of Linux; macOS takes a megabyte for all of them.
        let long = "x".repeat(2 << 20);
        assert!(matches!(spawn(&["true", &long], Stdio::default()), Err(SpawnError::TooLong { .. })));
    }

    #[test]
    fn killing_it_ends_its_children_too() {
        let (mut out, theirs) = io::pipe().unwrap();
        let stdio = Stdio { stdout: Streams::To(OwnedFd::from(theirs)), ..Stdio::default() };
        let mut running = spawn(&["sh", "-c", "sleep 1000 & sleep 1000"], stdio).unwrap();
        assert_eq!(running.wait(Some(Duration::from_millis(50))).unwrap(), None);
        running.kill().unwrap();
        assert_eq!(running.wait(None).unwrap(), Some(WaitStatus::Signaled(9)));
        // The pipe reaches end of file only when no process holds it.
        assert_eq!(out.read(&mut [0; 1]).unwrap(), 0);
    }

    #[test]
    fn a_terminal_becomes_the_commands_own() {
        let terminal = Terminal::open(TerminalSize { rows: 11, columns: 77 }).unwrap();
        let theirs = || Streams::To(terminal.theirs.try_clone().unwrap());
        let stdio = Stdio { stdin: theirs(), stdout: theirs(), stderr: theirs(), controlling_terminal: true };
        let mut running = spawn(&["sh", "-c", "test -t 0 && stty size < /dev/tty"], stdio).unwrap();
        assert_eq!(running.wait(None).unwrap(), Some(WaitStatus::Exited(0)));
        let mut text = [0; 64];
        let count = std::fs::File::from(terminal.ours).read(&mut text).unwrap();
        assert_eq!(String::from_utf8_lossy(text.get(..count).unwrap()).trim(), "11 77");
    }

    #[test]
    fn what_has_to_be_enforced_is_refused() {
        let denied = FileRules::new([FileRule::path("/secret".parse().unwrap(), Access::None)]).unwrap();
        let permissions = Permissions { files: denied, ..Permissions::default() };
        let error = Bare.compile(&command(&["true"]), &permissions).unwrap_err().to_string();
        assert!(error.contains("the denial of `/secret`"), "{error}");
    }
}
