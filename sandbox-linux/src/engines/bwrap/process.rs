//! Starts bubblewrap's process with its input files, and reads its report.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, MemfdFlags, Mode, OFlags, ResolveFlags, SeekFrom};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal};
use stockade_protocol::AbsPath;
use stockade_sandboxing::SpawnError;

use crate::engines::bwrap::arguments::{Argument, LAUNCHER};
use crate::engines::bwrap::program::Program;
use crate::launch::{launcher_file, socket_pair};
use crate::{launch::memory_file, launch::stdio, sys};

/// A bubblewrap that is about to start the launcher.
pub(crate) struct Bubblewrap {
    pub(crate) control: OwnedFd,
    pub(crate) pid: Pid,
    /// Its error output.
    pub(crate) words: OwnedFd,
    pub(crate) info: OwnedFd,
}

impl Bubblewrap {
    /// Bubblewrap keeps the keeper alive until it is done: it would recreate removed placeholders, and leave them
    /// there.
    pub(crate) fn start(
        program: &Program,
        arguments: &[Argument],
        keeper: Option<BorrowedFd<'_>>,
    ) -> Result<Self, SpawnError> {
        let failed = |step: &str| {
            let step = step.to_owned();
            move |source: io::Error| SpawnError::Setup { step, source }
        };
        let (control, theirs) = socket_pair().map_err(failed("make a socket"))?;
        let (info, info_theirs) = pipe_with(PipeFlags::CLOEXEC).map_err(|errno| failed("make a pipe")(errno.into()))?;
        let words = memory_file("bwrap-words", b"").map_err(failed("make a file for its words"))?;
        let null = stdio::null().map_err(failed("open /dev/null"))?;
        let (text, mut opened) = open_all(arguments)?;
        let list = memory_file("bwrap-arguments", &text).map_err(failed("write its arguments"))?;
        let [info_number, list_number] = [&info_theirs, &list].map(|file| file.as_raw_fd().to_string());
        let line = ["bwrap", "--info-fd", &info_number, "--args", &list_number, "--", LAUNCHER].map(CString::new);
        let line = line.into_iter().collect::<Result<Vec<_>, _>>();
        let line = line.map_err(|error| failed("write its arguments")(error.into()))?;
        // A copy of the reading end keeps it from dying of `SIGPIPE` when this program is gone: the process it has
        // forked by then would wait for it for ever.
        let readable = info.try_clone().map_err(failed("copy a pipe"))?;
        opened.extend([list, info_theirs, readable]);
        let kept: Vec<BorrowedFd<'_>> = opened.iter().map(OwnedFd::as_fd).chain(keeper).collect();
        let file = program.open().map_err(failed("open `bwrap`"))?;
        let streams = [theirs.as_fd(), null.as_fd(), words.as_fd()];
        let pid = sys::spawn_file(file.as_fd(), &line, streams, &kept).map_err(failed("start `bwrap`"))?;
        Ok(Self { control, pid, words, info })
    }
}

/// The arguments in bubblewrap's file format, and the descriptors they refer to.
fn open_all(arguments: &[Argument]) -> Result<(Vec<u8>, Vec<OwnedFd>), SpawnError> {
    let mut text = Vec::new();
    let mut files = Vec::new();
    for argument in arguments {
        let setup = |step: String, source| SpawnError::Setup { step, source };
        let file = match argument {
            Argument::Text(word) => {
                text.extend(word.as_bytes());
                None
            }
            Argument::Open(path) => Some(open_exact(path).map_err(|source| setup(format!("open `{path}`"), source))?),
            Argument::Launcher => {
                Some(launcher_copy().map_err(|source| SpawnError::Launcher { doing: "opening its file", source })?)
            }
            Argument::Data(data) => {
                let file = memory_file("bwrap-data", data.as_bytes());
                Some(file.map_err(|source| setup(String::from("write a file of the sandbox's own"), source))?)
            }
        };
        if let Some(file) = file {
            text.extend(file.as_raw_fd().to_string().into_bytes());
            files.push(file);
        }
        text.push(0);
    }
    Ok((text, files))
}

/// Opens a path as it was when the permissions were settled: a link in it now is an error.
fn open_exact(path: &AbsPath) -> io::Result<OwnedFd> {
    let path = path.to_host_path().ok_or(io::ErrorKind::InvalidInput)?;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?)
}

/// A copy of the launcher's file with its own offset, since bubblewrap reads from the current one.
fn launcher_copy() -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", launcher_file()?.as_raw_fd());
    Ok(rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

fn memory_file(name: &str, bytes: &[u8]) -> io::Result<OwnedFd> {
    let file = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC)?;
    memory_file::write(&file, bytes)?;
    rustix::fs::seek(&file, SeekFrom::Start(0))?;
    Ok(file)
}

/// Waits until bubblewrap has created its namespaces, and returns the host pid of the first process in them.
pub(crate) fn child_pid(info: &OwnedFd) -> Result<Pid, SpawnError> {
    let lost = |source| SpawnError::Launcher { doing: "waiting for bubblewrap's namespaces", source };
    let mut buffer = [0; 1024];
    let length = loop {
        match rustix::io::read(info, &mut buffer) {
            Err(Errno::INTR) => {}
            Err(errno) => return Err(lost(errno.into())),
            Ok(length) => break length,
        }
    };
    let pid = parse_child_pid(buffer.get(..length).unwrap_or_default());
    pid.ok_or_else(|| lost(io::ErrorKind::UnexpectedEof.into()))
}

/// Ends the process that a killed bubblewrap left behind, which would wait for ever. It is in the same process group
/// until it starts the launcher.
pub(crate) fn end_group(bubblewrap: Pid) {
    // Gone already, most of the time.
    rustix::process::kill_process_group(bubblewrap, Signal::KILL).ok();
}

/// Parses `{ "child-pid": 17, … }`.
fn parse_child_pid(info: &[u8]) -> Option<Pid> {
    let (_, rest) = std::str::from_utf8(info).ok()?.split_once("\"child-pid\":")?;
    let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    Pid::from_raw(digits.parse().ok()?)
}
