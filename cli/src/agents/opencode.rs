//! `stockade-opencode`: a name of this program that opencode is given as its shell (the setting `shell`).
//!
//! opencode starts its shell once for each line, without a terminal, and says nothing of its own session. So the process
//! that started the shell stands for the session: its directory is the workspace, wherever the line itself begins, and
//! answers "for this session" last as long as it runs.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use stockade_protocol::AbsPath;
use stockade_server::wire::SessionName;

use crate::args::SessionArgs;
use crate::exit::Failure;
use crate::joined::{self, Answers, NamedBy, Wanted};
use crate::run::{Ending, ReportForm};
use crate::{nested, session};

/// The name that stands for opencode's shell.
pub(crate) const NAME: &str = "stockade-opencode";

/// Why the process that started the shell can't stand for a session.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallerError {
    #[error("opencode's process can't be looked at, which stands for its session (`{}`)", .path.display())]
    Unknown { path: PathBuf, source: io::Error },
    #[error("opencode's process can't be looked at, which stands for its session: its state is in no known form")]
    Form,
}

/// Runs a line in the session of the process that started this one, which is opened if there is none. The line begins in
/// this process's directory.
pub(crate) fn run(command: Vec<OsString>) -> Result<ExitCode, Failure> {
    nested::refuse()?;
    let caller = std::os::unix::process::parent_id();
    let wanted = Wanted {
        name: session_of(caller)?,
        named_by: NamedBy::Flag,
        command: Cow::Owned(command),
        report_form: ReportForm::Failures,
        ending: Ending::BySignal,
        cwd: Some(AbsPath::from_path(&std::env::current_dir()?)?),
        timeout: None,
        escalation: None,
        justification: None,
        answers: Answers::OtherClients,
        stdin: None,
    };
    let path = PathBuf::from(format!("/proc/{caller}/cwd"));
    let workspace = fs::read_link(&path).map_err(|source| CallerError::Unknown { path, source })?;
    std::env::set_current_dir(&workspace).map_err(|source| CallerError::Unknown { path: workspace.clone(), source })?;
    joined::run(&wanted, || session::opening(&SessionArgs::default()))
}

/// The name of a process's session. Its start is part of it, since numbers of processes are used again.
pub(crate) fn session_of(process: u32) -> Result<SessionName, Failure> {
    let path = PathBuf::from(format!("/proc/{process}/stat"));
    let state = fs::read_to_string(&path).map_err(|source| CallerError::Unknown { path, source })?;
    let start = start(&state).ok_or(CallerError::Form)?;
    Ok(format!("opencode-{process}-{start}").parse()?)
}

/// The start of a process, from proc_pid_stat(5). Its name, in parentheses, may contain anything.
fn start(state: &str) -> Option<u64> {
    let (_, behind_name) = state.rsplit_once(')')?;
    behind_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_process_has_a_name_of_its_own() {
        let own = session_of(std::process::id()).unwrap().to_string();
        assert!(own.starts_with(&format!("opencode-{}-", std::process::id())), "{own}");
        assert_eq!(own, session_of(std::process::id()).unwrap().to_string());
        assert!(session_of(0).is_err());
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20";
        assert_eq!(start(&format!("7 (a) R 1 (b) {rest}")), Some(4711));
        assert_eq!(start("7 (a) S 1 2"), None);
    }

    proptest! {
        #[test]
        fn any_state_is_read_or_refused(state in any::<String>()) {
            let _ = start(&state);
        }
    }
}
