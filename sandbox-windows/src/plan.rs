//! What has to be done to run one command, as plain data: the same on every system.

use std::fmt;
use std::net::SocketAddr;

use stockade_protocol::{AbsPath, LayerReport, LayerStatus, Permissions, RawText};
use stockade_sandboxing::{CommandSpec, HostFiles, Unenforceable};

use crate::job_plan::JobPlan;
use crate::mark::Mark;
use crate::network::{Loss, NetworkPlan};
use crate::program::Program;
use crate::root_record::Root;
use crate::token_plan::TokenPlan;
use crate::{Host, Sid, command_line, environment, file_plan};

/// What has to be done to run one command.
///
/// ```
/// use stockade_protocol::{AbsPath, Argv, HostPaths, NetworkPolicy, Permissions, SandboxPolicy};
/// use stockade_sandbox_windows::{Drive, DriveKind, Host, WindowsPlan};
/// use stockade_sandboxing::{CommandSpec, RealFiles};
///
/// let host = Host {
///     drives: vec![Drive { root: r"C:\".parse()?, kind: DriveKind::WithLists }],
///     command_interpreter: r"C:\Windows\System32\cmd.exe".parse()?,
/// };
/// let command = CommandSpec {
///     argv: Argv::parse([r"C:\tools\build.exe", "all the things"])?,
///     cwd: r"C:\w".parse()?,
///     environment: [("SystemRoot".into(), r"C:\Windows".into())].into(),
///     process: Default::default(),
/// };
/// let paths = HostPaths { file_system_roots: vec![r"C:\".parse()?], slash_tmp: None, ..HostPaths::without_masks([]) };
/// let read_only: SandboxPolicy = serde_json::from_str(r#"{"type": "read-only", "network_access": true}"#)?;
/// let plan = WindowsPlan::compile(&command, &read_only.resolve(&paths)?, &host, &RealFiles, &[])?;
/// assert!(plan.to_string().contains("token integrity low"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowsPlan {
    pub(crate) program_name: RawText,
    /// The file that is run; none if none was found.
    pub(crate) application: Option<AbsPath>,
    pub(crate) command_line: String,
    pub(crate) cwd: AbsPath,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) capability: Sid,
    pub(crate) token: TokenPlan,
    pub(crate) marks: Vec<Mark>,
    pub(crate) scratch: Vec<Scratch>,
    pub(crate) job: JobPlan,
    pub(crate) network: NetworkPlan,
    pub(crate) warnings: Vec<String>,
    pub(crate) permissions: Permissions,
}

/// A directory in whose place the command gets a private one, by way of the variables that name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scratch {
    pub(crate) path: AbsPath,
    pub(crate) variables: Vec<String>,
}

impl WindowsPlan {
    /// The plan for permissions whose links have been resolved, on this machine and these files.
    pub fn compile(
        command: &CommandSpec,
        permissions: &Permissions,
        host: &Host,
        files: &dyn HostFiles,
        accepted: &[Loss],
    ) -> Result<Self, Unenforceable> {
        Self::compile_through(None, command, permissions, host, files, accepted)
    }

    /// The same, with a proxy that decides by host for programs that ask it.
    pub fn compile_through(
        proxy: Option<SocketAddr>,
        command: &CommandSpec,
        permissions: &Permissions,
        host: &Host,
        files: &dyn HostFiles,
        accepted: &[Loss],
    ) -> Result<Self, Unenforceable> {
        command.process.check_absent()?;
        let program = Program::find(command, &host.command_interpreter, files)?;
        let environment = environment::compile(&command.environment)?;
        let network = NetworkPlan::compile(permissions, &environment, proxy, accepted)?;
        let (job, mut warnings) = JobPlan::compile(&permissions.limits)?;
        let file_plan = file_plan::compile(&permissions.files, &host.drives, files)?;
        let scratch =
            file_plan.scratch.into_iter().map(|path| scratch(path, &environment)).collect::<Result<_, _>>()?;
        warnings.extend(file_plan.warnings);
        warnings.extend(network.warning());
        Ok(Self {
            program_name: command.argv.program().clone(),
            command_line: command_line::compile(&command.argv, &program, &host.command_interpreter)?,
            application: match program {
                Program::Executable(found) => found.into_iter().next(),
                Program::Interpreter(path) => Some(path),
                Program::Batch(_) => Some(host.command_interpreter.clone()),
            },
            cwd: command.cwd.clone(),
            permissions: permissions.clone(),
            environment,
            capability: capability(&file_plan.marks),
            token: if file_plan.everything { TokenPlan::everything() } else { TokenPlan::confined() },
            marks: file_plan.marks,
            scratch,
            job,
            network,
            warnings,
        })
    }

    /// What the network's part in the report of a run is.
    pub(crate) fn network_report(&self) -> LayerReport {
        let (status, detail) = match self.network {
            NetworkPlan::Full => (LayerStatus::FullyEnforced, "granted"),
            NetworkPlan::Proxied => {
                (LayerStatus::PartlyEnforced, "accepted: only programs that ask the proxy are held")
            }
            NetworkPlan::Unheld => (LayerStatus::NotEnforced, "accepted: programs can connect"),
        };
        LayerReport { layer: String::from("network"), status, detail: Some(detail.to_owned()) }
    }
}

impl WindowsPlan {
    /// What the command's token is restricted to, besides what all such tokens are: this policy's own, and the trees
    /// that can be written.
    pub(crate) fn capabilities(&self, roots: &[Root]) -> Vec<Sid> {
        std::iter::once(&self.capability).chain(roots.iter().map(|root| &root.sid)).cloned().collect()
    }
}

/// The same marks, the same capability: two runs that share it may share what it opens.
fn capability(marks: &[Mark]) -> Sid {
    Sid::capability(&serde_json::to_string(marks).unwrap_or_default())
}

/// Windows can't put a directory in the place of another for one program. Programs find their temporary
/// directory by a variable, which can lead elsewhere.
fn scratch(path: AbsPath, environment: &[(String, String)]) -> Result<Scratch, Unenforceable> {
    let leads_there =
        |value: &str| AbsPath::parse(value).is_ok_and(|value| value.starts_with(&path) && path.starts_with(&value));
    let variables: Vec<String> =
        environment.iter().filter(|(_, value)| leads_there(value)).map(|(name, _)| name.clone()).collect();
    if variables.is_empty() {
        return Err(Unenforceable {
            what: format!("a private directory in the place of `{path}`"),
            why: String::from("no variable of the command's leads there, so the command would not find it"),
            remedy: String::from("set `TEMP` and `TMP` to that path, or take it out of the policy"),
        });
    }
    Ok(Scratch { path, variables })
}

/// One step a line.
impl fmt::Display for WindowsPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for mark in &self.marks {
            writeln!(f, "file {}", Line(mark))?;
        }
        for Scratch { path, variables } in &self.scratch {
            writeln!(f, "scratch {path} by {}", variables.join(", "))?;
        }
        let TokenPlan { restricting, integrity } = &self.token;
        writeln!(f, "token privileges none but SeChangeNotifyPrivilege")?;
        writeln!(f, "token groups administrators and their like deny only")?;
        match restricting.as_slice() {
            [] => writeln!(f, "token writes as the user")?,
            whom => writeln!(f, "token writes also need {}", names(whom))?,
        }
        writeln!(f, "token integrity {}", name(integrity))?;
        if !self.token.restricting.is_empty() {
            writeln!(f, "token capability {}", self.capability)?;
            for mark in self.marks.iter().filter(|mark| mark.opens()) {
                writeln!(f, "token capability of the tree {}", mark.path)?;
            }
        }
        writeln!(f, "job ends with its last handle, no breakaway, no windows but its own")?;
        let JobPlan { processes, memory_bytes, cpu_seconds } = self.job;
        processes.map_or(Ok(()), |count| writeln!(f, "job processes {count}"))?;
        memory_bytes.map_or(Ok(()), |bytes| writeln!(f, "job memory {bytes}"))?;
        cpu_seconds.map_or(Ok(()), |seconds| writeln!(f, "job processor time {seconds} s each"))?;
        writeln!(f, "network {}", name(&self.network))?;
        for (name, value) in &self.environment {
            writeln!(f, "variable {}={}", RawText::from(name.as_str()), RawText::from(value.as_str()))?;
        }
        writeln!(f, "directory {}", self.cwd)?;
        match &self.application {
            Some(path) => writeln!(f, "run {path}")?,
            None => writeln!(f, "run nothing: `{}` was not found", self.program_name)?,
        }
        writeln!(f, "line {}", RawText::from(self.command_line.as_str()))
    }
}

struct Line<'a>(&'a Mark);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mark { path, grant, label, placeholder } = self.0;
        write!(f, "{path}")?;
        placeholder.then(|| f.write_str(" held")).transpose()?;
        grant.map(|grant| write!(f, " {}", name(&grant))).transpose()?;
        label.map(|label| write!(f, " label {}", label.name())).transpose()?;
        Ok(())
    }
}

/// The word that a value has in JSON.
fn name(value: &impl serde::Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(String::from)).unwrap_or_default()
}

fn names(values: &[impl serde::Serialize]) -> String {
    values.iter().map(name).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
pub(crate) mod tests {
    use stockade_protocol::{Argv, NetworkPolicy};
    use stockade_sandboxing::{FakeHost, rules};

    use super::*;
    use crate::host::machine;

    pub(crate) const FILES: &[&str] = &[
        r"C:\x.exe",
        r"C:\w\.git\config",
        r"C:\w\a\file",
        r"C:\w\node_modules\linked",
        r"C:\store\linked",
        r"C:\home\id",
        r"C:\v\",
    ];

    /// A plan for a machine with few files.
    pub(crate) fn plan_of(lines: &[&str]) -> WindowsPlan {
        let command = CommandSpec {
            argv: Argv::parse([r"C:\x.exe"]).unwrap(),
            cwd: r"C:\".parse().unwrap(),
            environment: std::collections::BTreeMap::new(),
            process: Default::default(),
        };
        let permissions = Permissions { files: rules(lines), network: NetworkPolicy::Full, ..Permissions::default() };
        WindowsPlan::compile(&command, &permissions, &machine(), &FakeHost::new(FILES), &[]).unwrap()
    }
}
