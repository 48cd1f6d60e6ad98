//! Starts one command through a backend, as an embedder's program would.
//!
//! The suites run it as a process of its own, so that they can start it as any user, leak things
//! into it, and kill it. Its only argument names a file with a [`Request`]; what became of the
//! command goes to the file that the request names.
//!
//! The engine `none` runs the command bare. An attack that has no effect there proves nothing when
//! it has none in a sandbox.

#[cfg(target_os = "linux")]
#[path = "../request.rs"]
mod request;

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: caller REQUEST")?;
    let request: request::Request = serde_json::from_slice(&std::fs::read(path)?)?;
    let ended = linux::run(&request);
    linux::raise_limits()?;
    std::fs::write(&request.report, serde_json::to_vec(&ended)?)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod linux {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;
    use std::time::Duration;

    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    use stockade_protocol::{AbsPath, Argv, EnvironmentPolicy, LayerReport, RawText};
    use stockade_sandbox_linux::{Bwrap, LandlockOnly, Loss, Native, SessionError};
    use stockade_sandboxing::{Backend, CommandSpec, Running, SpawnError, Stdio, WaitStatus};

    use crate::request::{Ended, Request};

    /// Every engine that the suites know, by name. Losses that are accepted follow it: `landlock+credentials`.
    fn backend(engine: &str) -> Option<Box<dyn Backend>> {
        let mut words = engine.split('+');
        match words.next() {
            Some("native") => Some(Box::new(Native::new())),
            Some("bwrap") => Some(Box::new(Bwrap::new())),
            Some("landlock") => {
                let losses = words.map(loss).collect::<Option<Vec<_>>>()?;
                Some(Box::new(losses.into_iter().fold(LandlockOnly::new(), LandlockOnly::accepting)))
            }
            _ => None,
        }
    }

    fn loss(name: &str) -> Option<Loss> {
        let all = [Loss::ProtectedMetadata, Loss::PrivateDirectories];
        all.into_iter().find(|loss| loss.name() == name)
    }

    pub(crate) fn run(request: &Request) -> Ended {
        match request.engine.as_str() {
            "none" => return bare(request),
            "session" => {
                return spec(request).map_or_else(
                    |why| Ended::NotStarted { why: why.to_string() },
                    |command| in_session(request, &command),
                );
            }
            _ => {}
        }
        match (backend(&request.engine), spec(request)) {
            (Some(backend), Ok(command)) => confined(request, backend.as_ref(), &command),
            (None, _) => Ended::NotStarted { why: format!("no engine is called `{}`", request.engine) },
            (_, Err(why)) => Ended::NotStarted { why: why.to_string() },
        }
    }

    fn spec(request: &Request) -> Result<CommandSpec, stockade_protocol::Invalid> {
        let bytes = |text: std::ffi::OsString| RawText::from(text.into_encoded_bytes());
        let inherited = std::env::vars_os().map(|(name, value)| (bytes(name), bytes(value)));
        Ok(CommandSpec {
            argv: Argv::parse(request.argv.iter().cloned())?,
            cwd: AbsPath::parse(request.cwd.clone())?,
            environment: EnvironmentPolicy::default().apply(inherited),
            process: Default::default(),
        })
    }

    fn confined(request: &Request, backend: &dyn Backend, command: &CommandSpec) -> Ended {
        let plan = match backend.compile(command, &request.permissions) {
            Ok(plan) => plan,
            Err(error) => return Ended::Refused { what: error.what, why: error.why },
        };
        if let Some(script) = &request.between {
            shell(script);
        }
        let stdio = Stdio { controlling_terminal: request.controlling_terminal, ..Stdio::inherit() };
        let warnings = plan.warnings().to_vec();
        let started = plan.spawn(stdio);
        ended(started.and_then(|running| wait(running, request.limit_ms)), warnings)
    }

    /// Runs the command twice in one warm sandbox, and tells how the second one ended.
    fn in_session(request: &Request, command: &CommandSpec) -> Ended {
        let session = match Native::new().session(&request.permissions) {
            Ok(session) => session,
            Err(SessionError::Unenforceable(error)) => return Ended::Refused { what: error.what, why: error.why },
            Err(error) => return Ended::NotStarted { why: with_cause(&error) },
        };
        let run = || session.spawn(command, Stdio::inherit()).and_then(|running| wait(running, request.limit_ms));
        ended(run().and_then(|_| run()), Vec::new())
    }

    type Waited = (Option<WaitStatus>, Vec<LayerReport>);

    fn wait(mut running: Box<dyn Running>, limit_ms: Option<u64>) -> Result<Waited, SpawnError> {
        let layers = running.enforcement().layers.clone();
        let mut status = running.wait(limit_ms.map(Duration::from_millis))?;
        if status.is_none() {
            running.kill()?;
            status = running.wait(None)?;
        }
        Ok((status, layers))
    }

    fn with_cause(error: &dyn std::error::Error) -> String {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("{error}{cause}")
    }

    fn ended(waited: Result<Waited, SpawnError>, warnings: Vec<String>) -> Ended {
        match waited {
            Ok((Some(WaitStatus::Exited(code)), layers)) => Ended::Exited { code, layers, warnings },
            Ok((Some(WaitStatus::Signaled(signal)), layers)) => Ended::Signaled { signal, layers },
            Ok((None, _)) => Ended::NotStarted { why: String::from("waiting without a limit gave no status") },
            Err(error) => Ended::NotStarted { why: with_cause(&error) },
        }
    }

    /// The answer is written whatever limits the command had.
    pub(crate) fn raise_limits() -> std::io::Result<()> {
        for resource in [Resource::Fsize, Resource::Nofile, Resource::As] {
            let maximum = getrlimit(resource).maximum;
            setrlimit(resource, Rlimit { current: maximum, maximum })?;
        }
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "the suites' own program, which starts what they tell it to")]
    fn shell(script: &str) {
        drop(Command::new("sh").args(["-c", script]).status());
    }

    #[expect(clippy::disallowed_methods, reason = "the suites' own program, which starts what they tell it to")]
    fn bare(request: &Request) -> Ended {
        use std::os::unix::ffi::OsStrExt as _;
        let words: Vec<_> = request.argv.iter().map(|word| std::ffi::OsStr::from_bytes(word.as_bytes())).collect();
        let Some((program, arguments)) = words.split_first() else {
            return Ended::NotStarted { why: String::from("no program") };
        };
        let cwd = std::ffi::OsStr::from_bytes(request.cwd.as_bytes());
        match Command::new(program).args(arguments).current_dir(cwd).status() {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => Ended::Exited { code, layers: Vec::new(), warnings: Vec::new() },
                (None, signal) => Ended::Signaled { signal: signal.unwrap_or_default(), layers: Vec::new() },
            },
            Err(error) => Ended::NotStarted { why: error.to_string() },
        }
    }
}
