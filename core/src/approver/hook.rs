//! A program that answers: the question as JSON on its standard input, the answer on its output.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use stockade_protocol::{
    AbsPath, ApprovalReply, ApprovalRequest, EnvironmentInherit, EnvironmentPolicy, RawText, ReviewDecision,
    RiskAssessment, parse,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::{Answer, Approver, ApproverError, Unanswered};
use crate::risk::{RiskAssessor, Unassessed};

/// Limit on the output.
const MOST_OUTPUT: u64 = 64 * 1024;
/// Limit on a failing hook's standard error in the message.
const MOST_COMPLAINT: u64 = 1024;
/// Limit on concurrent programs; further questions wait, within their timeout.
const AT_ONCE: usize = 8;

/// Asks a program.
///
/// The program gets the [`ApprovalRequest`] as one line of JSON and prints an [`ApprovalReply`] or a bare
/// [`ReviewDecision`], such as `"approved"` or `{"denied": {"reason": "…"}}`. It runs in its own directory and in a
/// process group of its own. Its environment has only the core variables ([`EnvironmentInherit::Core`]), no secrets.
///
/// An exit code other than 0, a signal, or no answer in time is [`Unanswered::Gone`]; invalid output or more than 64
/// KiB is [`Unanswered::Unusable`]. On a timeout, or when the answer is no longer awaited, the whole process group is
/// killed.
///
/// It needs a tokio runtime with I/O and time enabled.
///
/// ```
/// use std::time::Duration;
/// use stockade_core::{ApproverExt as _, Fixed, Hook};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # if cfg!(not(unix)) { return Ok(()); }
///
/// // A command that could change the hook could approve itself.
/// let writable = ["/home/user/project".parse()?];
/// let hook = Hook::new("/bin/cat".parse()?)?.outside(&writable)?.within_time(Duration::from_secs(5));
/// let approver = hook.or_else(Fixed::deny("the hook did not answer"));
/// # drop(approver);
/// # Ok(())
/// # }
/// ```
pub struct Hook {
    given: AbsPath,
    program: PathBuf,
    arguments: Vec<OsString>,
    resolved: AbsPath,
    limit: Duration,
    at_once: Semaphore,
}

impl Hook {
    /// Takes a program by its absolute path. Symbolic links are resolved now, not when it is run.
    pub fn new(program: AbsPath) -> Result<Self, ApproverError> {
        let missing = |source| ApproverError::HookMissing { program: program.clone(), source };
        let not_a_file = || ApproverError::HookNotAFile { program: program.clone() };
        let path = program.to_host_path().ok_or_else(not_a_file)?.canonicalize().map_err(missing)?;
        if !path.metadata().map_err(missing)?.is_file() {
            return Err(not_a_file());
        }
        let resolved = AbsPath::from_path(&path).map_err(|_| not_a_file())?;
        let at_once = Semaphore::new(AT_ONCE);
        Ok(Self {
            given: program,
            program: path,
            arguments: Vec::new(),
            resolved,
            limit: Duration::from_secs(30),
            at_once,
        })
    }

    /// Refuses the hook if it, or a file among its arguments so far, is below one of these directories, by its given
    /// or its canonical path. Sandboxed commands may write them: a script there could be made to approve.
    pub fn outside(self, writable_roots: &[AbsPath]) -> Result<Self, ApproverError> {
        let named = self.arguments.iter().filter_map(|argument| {
            let given = AbsPath::from_path(Path::new(argument)).ok()?;
            let real = Path::new(argument).canonicalize().ok().and_then(|real| AbsPath::from_path(&real).ok());
            Some((given.clone(), real.unwrap_or(given)))
        });
        for (given, real) in std::iter::once((self.given.clone(), self.resolved.clone())).chain(named) {
            if let Some(root) = writable_roots.iter().find(|root| given.starts_with(root) || real.starts_with(root)) {
                return Err(ApproverError::HookWritable { program: given, root: root.clone() });
            }
        }
        Ok(self)
    }

    /// Sets the program's arguments; none by default.
    #[must_use]
    pub fn with_arguments(self, arguments: impl IntoIterator<Item = OsString>) -> Self {
        Self { arguments: arguments.into_iter().collect(), ..self }
    }

    /// Sets the timeout; 30 seconds by default.
    #[must_use]
    pub fn within_time(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// The program's canonical path.
    pub fn program(&self) -> &AbsPath {
        &self.resolved
    }

    /// The program's output for a question, within its timeout.
    async fn consult(&self, request: &ApprovalRequest) -> Result<Vec<u8>, Unanswered> {
        let consulted = timeout(self.limit, async {
            // The semaphore is never closed; if it were, continuing would be harmless.
            let _place = self.at_once.acquire().await;
            self.converse(request).await
        });
        let too_late = |_| Err(self.gone(&format!("did not answer within {:?} and was ended", self.limit)));
        consulted.await.unwrap_or_else(too_late)
    }

    async fn converse(&self, request: &ApprovalRequest) -> Result<Vec<u8>, Unanswered> {
        let question = serde_json::to_vec(request).map_err(|error| unusable(format!("the question: {error}")))?;
        let mut running = self.start()?;
        let (Some(mut input), Some(output), Some(errors)) =
            (running.child.stdin.take(), running.child.stdout.take(), running.child.stderr.take())
        else {
            return Err(self.gone("was started without standard streams"));
        };
        let ask = async move {
            // A hook may answer without reading its input.
            input.write_all(&question).await.ok();
            input.write_all(b"\n").await.ok();
        };
        let ((), answer, complaint) = tokio::join!(ask, read(output, MOST_OUTPUT), read(errors, MOST_COMPLAINT));
        let status = running.child.wait().await.map_err(|error| self.gone(&format!("was lost: {error}")))?;
        if !status.success() {
            return Err(self.gone(&failure(status, &complaint.text)));
        }
        match answer.complete {
            true => Ok(answer.text),
            false => Err(unusable(format!("the hook printed more than {MOST_OUTPUT} bytes"))),
        }
    }

    #[expect(clippy::disallowed_methods, reason = "a hook is the person's own program, given by absolute path")]
    fn start(&self) -> Result<Running, Unanswered> {
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.arguments);
        let core = EnvironmentPolicy { inherit: EnvironmentInherit::Core, ..EnvironmentPolicy::default() };
        command
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(|name| core.inherits(name))));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(directory) = self.program.parent() {
            command.current_dir(directory);
        }
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut command = Command::from(command);
        let child = command.kill_on_drop(true).spawn();
        child.map(|child| Running { child }).map_err(|error| self.gone(&format!("could not be started: {error}")))
    }

    fn gone(&self, what: &str) -> Unanswered {
        Unanswered::Gone { why: format!("the hook `{}` {what}", self.given) }
    }
}

#[async_trait]
impl Approver for Hook {
    async fn review(&self, request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
        understand(&self.consult(&request).await?, &request)?.usable_for(&request)
    }
}

/// A program that assesses prints a [`RiskAssessment`]:
/// `{"level": "high", "category": "data_loss", "summary": "…"}`.
#[async_trait]
impl RiskAssessor for Hook {
    async fn assess(&self, request: Arc<ApprovalRequest>) -> Result<RiskAssessment, Unassessed> {
        let printed = self.consult(&request).await.map_err(|gone| Unassessed { why: gone.to_string() })?;
        let text = std::str::from_utf8(&printed).map_err(|error| Unassessed { why: error.to_string() })?;
        parse(text).map_err(|error| Unassessed { why: error.to_string() })
    }
}

/// A running hook. Dropping it kills it and all processes it started.
struct Running {
    child: Child,
}

impl Drop for Running {
    fn drop(&mut self) {
        // `id` is `None` once the child was reaped, so this never hits another process.
        #[cfg(unix)]
        if let Some(group) = self.child.id().and_then(|id| rustix::process::Pid::from_raw(id.cast_signed())) {
            // It may have ended by itself.
            rustix::process::kill_process_group(group, rustix::process::Signal::KILL).ok();
        }
    }
}

/// A program's output, up to a limit.
struct Printed {
    text: Vec<u8>,
    complete: bool,
}

/// Reads everything, so that the program does not block, and keeps the beginning.
async fn read(stream: impl AsyncRead + Unpin, most: u64) -> Printed {
    let mut text = Vec::new();
    let mut stream = stream.take(most);
    let kept = stream.read_to_end(&mut text).await;
    let rest = tokio::io::copy(&mut stream.into_inner(), &mut tokio::io::sink()).await;
    Printed { text, complete: kept.is_ok() && matches!(rest, Ok(0)) }
}

fn understand(printed: &[u8], request: &ApprovalRequest) -> Result<Answer, Unanswered> {
    fn wrong(error: &dyn std::fmt::Display) -> Unanswered {
        unusable(format!("the hook's output is no answer: {error}"))
    }
    let text = std::str::from_utf8(printed).map_err(|error| wrong(&error))?;
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| wrong(&error))?;
    if value.get("decision").is_none() {
        return parse::<ReviewDecision>(text).map(Answer::from).map_err(|error| wrong(&error));
    }
    let reply: ApprovalReply = parse(text).map_err(|error| wrong(&error))?;
    if reply.id != request.id {
        return Err(unusable(format!("the hook answered `{}`, not `{}`", reply.id, request.id)));
    }
    Ok(reply.into())
}

fn unusable(why: String) -> Unanswered {
    Unanswered::Unusable { why }
}

fn failure(status: ExitStatus, complaint: &[u8]) -> String {
    let complaint = RawText::from(complaint.trim_ascii().to_vec());
    let said = if complaint.is_empty() { String::new() } else { format!(", saying `{complaint}`") };
    format!("failed ({status}){said}")
}
