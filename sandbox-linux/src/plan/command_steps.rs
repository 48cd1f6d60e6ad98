//! The steps of a command's own process: it confines itself, independent of the command, and then executes it.

use serde::Serialize;
use stockade_protocol::{AbsPath, RawText};
use stockade_sandboxing::{BrokenPipes, CommandSpec, DirectoryIdentity, Stdio, Unenforceable};

use crate::observer::Watch;
use crate::plan::limits::with_callers;
use crate::plan::refusals::{Does, Refusals};
use crate::plan::seccomp::Families;
use crate::plan::step::{Exec, Filter, Ruleset, Step};
use crate::supervisor::supervision::Supervision;
use crate::{plan::refusals, plan::seccomp, supervisor};

/// The search path of a command that has none in its environment.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Both parts. A waiting process has done the first before it knows the second.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct CommandSteps {
    pub(crate) confine: Vec<Step>,
    pub(crate) start: CommandStart,
}

impl CommandSteps {
    /// All steps in order, for a command without its own terminal.
    pub(crate) fn all(&self) -> impl Iterator<Item = Step> {
        self.confine.iter().cloned().chain(self.start.steps(&Stdio::default()))
    }
}

/// What the command's own process does before it looks at the command, where calls may be watched.
pub(crate) fn confine_watched(
    ruleset: Ruleset,
    families: Families,
    supervision: Option<&Supervision>,
    watch: Option<&Watch>,
) -> Vec<Step> {
    let refusals = watch.map_or(Refusals::Silent, Watch::refusals);
    confine(ruleset, seccomp::filter(families, refusals), listener(families, supervision, watch))
}

/// The same in every engine.
pub(crate) fn confine(ruleset: Ruleset, filter: Filter, listener: Option<Step>) -> Vec<Step> {
    let mut steps = vec![Step::Session, Step::NoNewPrivileges, Step::DropCapabilities, Step::Landlock { ruleset }];
    // The filter that comes last refuses to install another one.
    steps.extend(listener);
    steps.push(Step::Seccomp { filter });
    steps
}

/// Brings calls to the supervisor, which decides on connections, and to the observer. A process has one listener for both.
fn listener(families: Families, supervision: Option<&Supervision>, watch: Option<&Watch>) -> Option<Step> {
    let mut answers = watch.map(|watch| watch.answers(families)).unwrap_or_default();
    match supervision {
        Some(_) => {
            answers.extend(supervisor::answers());
            Some(Step::Supervise { filter: seccomp::program(&answers) })
        }
        None => watch.map(|_| Step::Observe {
            filter: seccomp::program(&answers),
            otherwise: seccomp::program(&refusals::answers(families, Does::Refuse)),
        }),
    }
}

/// The steps for a known command, before its `execve`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct CommandStart {
    #[serde(skip_serializing_if = "Option::is_none")]
    for_files: Option<Ruleset>,
    cwd: AbsPath,
    #[serde(skip_serializing_if = "Option::is_none")]
    directory: Option<DirectoryIdentity>,
    #[serde(skip_serializing_if = "Option::is_none")]
    umask: Option<u16>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    signals: Vec<Step>,
    limits: Vec<Step>,
    exec: Exec,
}

impl CommandStart {
    pub(crate) fn new(
        command: &CommandSpec,
        for_files: Option<&Ruleset>,
        limits: &[Step],
    ) -> Result<Self, Unenforceable> {
        Ok(Self {
            for_files: for_files.cloned(),
            cwd: command.cwd.clone(),
            directory: command.process.directory,
            umask: command.process.umask.map(|mask| mask.bits()),
            signals: match command.process.broken_pipes {
                BrokenPipes::EndIt => Vec::new(),
                BrokenPipes::AreErrors => vec![Step::IgnoreBrokenPipes],
            },
            limits: with_callers(limits, &command.process)?,
            exec: exec(command),
        })
    }

    /// The program, for messages.
    pub(crate) fn program(&self) -> RawText {
        self.exec.arguments.first().cloned().unwrap_or_default()
    }

    /// The steps in order. The first standard stream that is a terminal becomes the controlling terminal of the
    /// command, which has left the caller's session before. The command's limits come last: the earlier steps need
    /// files and memory of their own.
    pub(crate) fn steps(&self, stdio: &Stdio) -> Vec<Step> {
        let mut steps = Vec::new();
        steps.extend(self.for_files.clone().map(|ruleset| Step::LandlockForFiles { ruleset }));
        steps.extend(stdio.controlling_terminal.then_some(Step::TakeTerminal));
        steps.push(Step::WorkingDirectory { path: self.cwd.clone() });
        let same = |DirectoryIdentity { device, inode }| Step::SameDirectory { device, inode };
        steps.extend(self.directory.map(same));
        steps.extend(self.umask.map(|mask| Step::Umask { mask }));
        steps.extend_from_slice(&self.signals);
        steps.extend_from_slice(&self.limits);
        steps.push(Step::Exec { command: self.exec.clone() });
        steps
    }
}

fn exec(command: &CommandSpec) -> Exec {
    let environment =
        command.environment.iter().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes()].concat().into());
    let program = command.argv.program().as_bytes();
    let paths = if program.contains(&b'/') {
        vec![command.argv.program().clone()]
    } else {
        let path = command.environment.get(&RawText::from("PATH"));
        let path = path.map_or(DEFAULT_PATH.as_bytes(), RawText::as_bytes);
        path.split(|byte| *byte == b':').map(|directory| candidate(directory, program)).collect()
    };
    Exec { arguments: command.argv.words().to_vec(), environment: environment.collect(), paths }
}

/// An empty entry in a search path means the working directory.
fn candidate(directory: &[u8], program: &[u8]) -> RawText {
    let directory = if directory.is_empty() { b"." } else { directory };
    [directory, b"/", program].concat().into()
}
