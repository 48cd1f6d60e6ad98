//! `stockade hook run`: runs a line in an agent's session, in place of the agent's own line.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::io::Errno;

use crate::args::HookRun;
use crate::exit::{Failure, note};
use crate::joined::{self, Answers, NamedBy, Wanted};
use crate::run::Ending;
use crate::run::ReportForm;
use crate::{nested, shell};

/// Limit on a reported path, with its newline.
const LONGEST_PATH: usize = 4097;

#[derive(Debug, thiserror::Error)]
#[error(
    "`--tell-directory` writes to descriptor 3, which can't be opened: run the whole line that the hook gave, which ends with \
     `3>&1 >&4` and more, or leave the flag out"
)]
struct NowhereToTell(#[source] io::Error);

pub(super) fn run(args: &HookRun) -> Result<ExitCode, Failure> {
    nested::refuse()?;
    let telling = args.tell_directory.then(Telling::new).transpose()?;
    let (told, stdin) = telling.map(|telling| ((telling.told, telling.to), telling.stdin)).unzip();
    let wanted = Wanted {
        name: args.session.clone(),
        named_by: NamedBy::Flag,
        command: Cow::Owned(shell::with_line(&args.line, &[])),
        report_form: ReportForm::Failures,
        ending: Ending::ByCode,
        cwd: None,
        timeout: None,
        escalation: None,
        justification: None,
        answers: if args.asked { Answers::GivenBefore } else { Answers::OtherClients },
        stdin,
    };
    let code = joined::run_open(&wanted)?;
    drop(wanted);
    if let Some((told, mut to)) = told {
        to.write_all(&directory(&told)?)?;
    }
    Ok(code)
}

/// Passes the final directory of a line to the agent's shell.
struct Telling {
    /// The command's report.
    told: PipeReader,
    /// The target for the agent's shell.
    to: File,
    /// The command's end.
    stdin: OwnedFd,
}

impl Telling {
    fn new() -> Result<Self, Failure> {
        let to = File::options().write(true).open("/dev/fd/3").map_err(NowhereToTell)?;
        let (told, stdin) = io::pipe()?;
        rustix::io::ioctl_fionbio(&told, true)?;
        Ok(Self { told, to, stdin: stdin.into() })
    }
}

/// The directory for the agent's shell, with a terminator that no shell strips: the one that the command reported, if
/// it exists here; else the initial one.
fn directory(told: &PipeReader) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut some = [0; LONGEST_PATH];
    while bytes.len() <= LONGEST_PATH {
        match (&*told).read(&mut some) {
            Ok(0) => break,
            Ok(length) => bytes.extend_from_slice(some.get(..length).unwrap_or_default()),
            // Leftover processes may hold the pipe open.
            Err(error) if error.raw_os_error() == Some(Errno::AGAIN.raw_os_error()) => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let told = bytes.strip_suffix(b"\n").filter(|path| path.first() == Some(&b'/') && path.len() < LONGEST_PATH);
    let found = told.map(|path| PathBuf::from(std::ffi::OsStr::from_bytes(path)));
    let place = match found {
        Some(path) if path.is_dir() => path,
        Some(path) => {
            note(&format!("`{}` is only there inside the sandbox: the next command starts here again", path.display()));
            std::env::current_dir()?
        }
        None => std::env::current_dir()?,
    };
    Ok([Path::as_os_str(&place).as_bytes(), b"/."].concat())
}
