//! Starting a command: `sandbox-exec`, told the profile, takes the place of this program's child and is
//! replaced by the command once the profile holds.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use stockade_protocol::{AbsPath, LayerReport, LayerStatus, RawText};
use stockade_sandboxing::{SpawnError, Stdio, Streams, WaitStatus};
use tempfile::TempDir;

use crate::files::{CACHE, SCRATCH};
use crate::running::{Private, Run, RunningCommand};
use crate::seatbelt::SeatbeltPlan;
use crate::sys::{self, Membership};

/// The one program that is asked to apply a profile. It is never looked for elsewhere: what a command
/// could put on the search path would run outside of every sandbox.
#[cfg(target_os = "macos")]
const SANDBOX_EXEC: &str = "/usr/bin/sandbox-exec";

/// Its file name, by which the kernel tells it from the command that takes its place.
const LAUNCHER: &str = "sandbox-exec";
/// The name of the run among a profile's parameters.
const RUN: &str = "RUN";
/// How long it may take until the profile holds.
const PATIENCE: Duration = Duration::from_secs(10);
/// What `sandbox-exec` ends with if it could not do its work: a usage error, a profile that it can't
/// read, a system that does not play along, no permission (see `sysexits(3)`).
const FAILURES: &[i32] = &[64, 65, 71, 77];
/// The search path of a command that has none in its environment.
const DEFAULT_PATH: &[u8] = b"/usr/bin:/bin";

/// Starts the command of a plan.
#[cfg(target_os = "macos")]
pub(crate) fn start(plan: &SeatbeltPlan, stdio: Stdio) -> Result<Box<dyn stockade_sandboxing::Running>, SpawnError> {
    let missing = || setup("find this user's temporary directories", io::ErrorKind::NotFound.into());
    let found = crate::directories::user_directories().ok_or_else(missing)?;
    let temporary = found.temporary.to_host_path().ok_or_else(missing)?;
    let cache = found.cache.to_host_path().ok_or_else(missing)?;
    let places = Places { temporary: &temporary, cache: &cache };
    Ok(Box::new(start_with(Path::new(SANDBOX_EXEC), places, plan, stdio)?))
}

/// Where the private directories of runs are made.
#[derive(Clone, Copy, Debug)]
struct Places<'a> {
    temporary: &'a Path,
    cache: &'a Path,
}

fn setup(step: &str, source: io::Error) -> SpawnError {
    SpawnError::Setup { step: step.to_owned(), source }
}

/// The same with this program in the place of `sandbox-exec`.
fn start_with(
    program: &Path,
    places: Places<'_>,
    plan: &SeatbeltPlan,
    stdio: Stdio,
) -> Result<RunningCommand, SpawnError> {
    find(plan)?;
    let private = if plan.private.is_empty() { None } else { Some(private_directories(places)?) };
    let run = Run::new(run_name().map_err(|source| setup("name the run", source))?, private);
    let mut command = command(program, plan, &run)?;
    streams(&mut command, stdio, plan)?;
    let child = command.spawn().map_err(|source| setup("start `sandbox-exec`", source))?;
    let leader = leader(&child)?;
    match holds(leader, run.name()) {
        Ok(report) => RunningCommand::new(leader, run, plan.enforcement(report)),
        Err(error) => {
            // Nothing of it may go on.
            RunningCommand::new(leader, run, plan.enforcement(not_read_back()))?.end();
            Err(error)
        }
    }
}

fn leader(child: &Child) -> Result<Pid, SpawnError> {
    let number = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    number.ok_or_else(|| setup("start `sandbox-exec`", io::ErrorKind::InvalidData.into()))
}

/// Directories that only this user can enter, gone when the command has ended. Their names are short: a socket's
/// address holds 104 bytes, and the system's own part of the path is already 56 long.
fn private_directories(places: Places<'_>) -> Result<Private, SpawnError> {
    let own = || fs::Permissions::from_mode(0o700);
    let failed = |source| setup("make a private directory", source);
    let temporary =
        tempfile::Builder::new().prefix("s-").permissions(own()).tempdir_in(places.temporary).map_err(failed)?;
    // One suffix moves both of the user's directories.
    let name = temporary.path().file_name().unwrap_or_default();
    let mut same = tempfile::Builder::new();
    let cache = same.prefix(name).rand_bytes(0).permissions(own()).tempdir_in(places.cache).map_err(failed)?;
    Ok(Private { temporary, cache })
}

/// A name that no other run has.
fn run_name() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("dev.stockade.run.{:032x}", u128::from_ne_bytes(bytes)))
}

#[expect(clippy::disallowed_methods, reason = "this is the backend's one place that starts a process")]
fn command(program: &Path, plan: &SeatbeltPlan, run: &Run) -> Result<Command, SpawnError> {
    let os = |text: &RawText| OsStr::from_bytes(text.as_bytes()).to_owned();
    let mut command = Command::new(program);
    command.arg("-p").arg(plan.profile.text());
    for parameter in plan.profile.parameters() {
        command.arg("-D").arg(format!("{}={}", parameter.name, parameter.value));
    }
    command.arg("-D").arg(format!("{RUN}={}", run.name()));
    command.env_clear();
    command.envs(plan.command.environment.iter().map(|(name, value)| (os(name), os(value))));
    if let Some(private) = run.private() {
        lead_to(private, &mut command, plan)?;
    }
    command.arg("--").args(plan.command.argv.words().iter().map(os));
    let cwd = plan.command.cwd.to_host_path();
    command.current_dir(cwd.ok_or_else(|| setup("enter the working directory", io::ErrorKind::InvalidInput.into()))?);
    Ok(command)
}

/// Has programs keep temporary files and caches in the private directories. Not all of them look at `TMPDIR`: the
/// suffix moves what `confstr(3)` gives (`mktemp`, Foundation, Java), and the rest have variables of their own, which
/// stay as they are if the command's environment sets them.
fn lead_to(private: &Private, command: &mut Command, plan: &SeatbeltPlan) -> Result<(), SpawnError> {
    let place = |directory: &TempDir| {
        directory.path().canonicalize().map_err(|source| setup("find the private directory", source))
    };
    let (temporary, cache) = (place(&private.temporary)?, place(&private.cache)?);
    for (parameter, path) in [(SCRATCH, &temporary), (CACHE, &cache)] {
        let text =
            path.to_str().ok_or_else(|| setup("name the private directory", io::ErrorKind::InvalidData.into()))?;
        command.arg("-D").arg(format!("{parameter}={text}"));
    }
    command.env("TMPDIR", &temporary);
    command.env("DIRHELPER_USER_DIR_SUFFIX", temporary.file_name().unwrap_or_default());
    for (variable, path) in [
        ("xcrun_db", cache.join("xcrun_db")),
        ("CLANG_MODULE_CACHE_PATH", cache.join("clang")),
        ("TMPPREFIX", temporary.join("zsh")),
    ] {
        if !plan.command.environment.contains_key(&RawText::from(variable)) {
            command.env(variable, path);
        }
    }
    Ok(())
}

/// The standard streams, and everything that the child does before `sandbox-exec` takes its place.
fn streams(command: &mut Command, stdio: Stdio, plan: &SeatbeltPlan) -> Result<(), SpawnError> {
    let terminal = if stdio.controlling_terminal { sys::Terminal::StandardStream } else { sys::Terminal::None };
    let lost = |source| setup("pass on the standard streams", source);
    command.stdin(stream(stdio.stdin, io::stdin().as_fd()).map_err(lost)?);
    command.stdout(stream(stdio.stdout, io::stdout().as_fd()).map_err(lost)?);
    command.stderr(stream(stdio.stderr, io::stderr().as_fd()).map_err(lost)?);
    sys::before_exec(command, plan.limits.clone(), plan.command.process.clone(), terminal);
    Ok(())
}

fn stream(stream: Streams, own: BorrowedFd<'_>) -> io::Result<std::process::Stdio> {
    let file: OwnedFd = match stream {
        Streams::Null => return Ok(std::process::Stdio::null()),
        Streams::Inherit => own.try_clone_to_owned()?,
        Streams::To(file) => file,
    };
    // A directory that is open leads to everything below it.
    let found = rustix::fs::fstat(&file)?;
    if rustix::fs::FileType::from_raw_mode(found.st_mode) == rustix::fs::FileType::Directory {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(file.into())
}

/// Whether there is a program to run, so that its absence is told apart from its failure.
fn find(plan: &SeatbeltPlan) -> Result<(), SpawnError> {
    let program = plan.command.argv.program();
    let places = places(program, &plan.command.cwd, plan.command.environment.get(&RawText::from("PATH")));
    let mut there = places.iter().filter(|place| place.is_file()).peekable();
    if there.peek().is_none() {
        return Err(SpawnError::NotFound { program: program.clone() });
    }
    if there.any(|place| rustix::fs::access(place, rustix::fs::Access::EXEC_OK).is_ok()) {
        return Ok(());
    }
    Err(SpawnError::NotExecutable { program: program.clone(), source: io::ErrorKind::PermissionDenied.into() })
}

fn places(program: &RawText, cwd: &AbsPath, path: Option<&RawText>) -> Vec<PathBuf> {
    let name = Path::new(OsStr::from_bytes(program.as_bytes()));
    let cwd = cwd.to_host_path().unwrap_or_default();
    if program.as_bytes().contains(&b'/') {
        return vec![cwd.join(name)];
    }
    let path = path.map_or(DEFAULT_PATH, RawText::as_bytes);
    // An empty entry means the working directory, as does a relative one.
    path.split(|byte| *byte == b':').map(|place| cwd.join(OsStr::from_bytes(place)).join(name)).collect()
}

/// Waits until the child is in the sandbox of this run, as the kernel tells.
fn holds(leader: Pid, run: &str) -> Result<LayerReport, SpawnError> {
    let end = Instant::now() + PATIENCE;
    loop {
        match sys::membership(leader, run) {
            Membership::Inside => return Ok(report(LayerStatus::FullyEnforced, "read back from the kernel")),
            Membership::Unknown => return Ok(not_read_back()),
            Membership::Outside => {}
        }
        if let Some(status) = sys::peek(leader) {
            return ended(leader, status);
        }
        if Instant::now() > end {
            return Err(SpawnError::NotEnforced { missing: String::from("seatbelt") });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What an end says that came before the kernel could be asked. The codes of `sandbox-exec` are also those of commands,
/// so they count only while the process is still `sandbox-exec`: once it has become the command, the profile holds.
fn ended(leader: Pid, status: WaitStatus) -> Result<LayerReport, SpawnError> {
    let became_the_command = sys::last_program(leader).is_some_and(|name| name != LAUNCHER);
    if let WaitStatus::Exited(code) = status
        && FAILURES.contains(&code)
        && !became_the_command
    {
        let source = io::Error::other(format!("`sandbox-exec` ended with {code} before the command ran"));
        return Err(setup("apply the profile", source));
    }
    Ok(report(LayerStatus::FullyEnforced, "the command had ended when the kernel was asked"))
}

fn report(status: LayerStatus, detail: &str) -> LayerReport {
    LayerReport { layer: String::from("seatbelt"), status, detail: Some(detail.to_owned()) }
}

fn not_read_back() -> LayerReport {
    report(LayerStatus::NotEnforced, "there is no Seatbelt to be asked")
}

// Not on a Mac: there the kernel is asked, and a stand-in that confines nothing is refused.
#[cfg(test)]
#[cfg(not(target_os = "macos"))]
#[path = "launch_tests.rs"]
mod tests;
