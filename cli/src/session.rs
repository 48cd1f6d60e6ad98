//! Builds a session from the command line.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use stockade::workspace::{existing_directory, file_target};
use stockade::{Error, Stockade};
use stockade_config::{DevicePath, Layer, NoDevice};
use stockade_core::{Fixed, ShellRuntime};
use stockade_protocol::{AbsPath, AskForApproval, EscalationExecution, ExecRequest, HostRule, Invalid};
use stockade_sandboxing::written_path;
#[cfg(unix)]
use stockade_sandboxing::{BrokenPipes, ProcessSettings};
#[cfg(unix)]
use stockade_server::wire::SessionOpenParams;

use crate::args::SessionArgs;
use crate::exit::{Failure, note};
#[cfg(unix)]
use crate::joined::Opening;
use crate::nested;
use crate::remedy::Remedies;

/// The state for a run or an explanation.
pub(crate) struct Prepared {
    pub(crate) stockade: Stockade,
    pub(crate) tool: ShellRuntime,
    pub(crate) request: ExecRequest,
    pub(crate) remedies: Remedies,
}

/// Whether the session runs a command, or only explains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Run,
    Explain,
}

pub(crate) fn prepare(args: &SessionArgs, command: &[OsString], purpose: Purpose) -> Result<Prepared, Failure> {
    nested::refuse()?;
    let here = AbsPath::from_path(&std::env::current_dir().map_err(Error::NoDirectory)?)?;
    let cwd = match (&args.cwd, here.to_host_path()) {
        (Some(directory), _) => existing_directory(&here, directory)?,
        (None, Some(directory)) => existing_directory(&here, &directory)?,
        (None, None) => here.clone(),
    };
    let mut builder = Stockade::builder().for_one_request().overrides(layer(args, &here)?);
    builder = args.workspace.iter().fold(builder, stockade::Builder::workspace);
    builder = args.rules.iter().fold(builder, stockade::Builder::rules);
    builder = match purpose {
        Purpose::Run => builder.ask_at_terminal(),
        // Nothing is asked, but the explanation depends on whether a person could answer.
        Purpose::Explain if std::io::stderr().is_terminal() => {
            builder.without_trail().approver(Fixed::deny("nothing is asked"))
        }
        Purpose::Explain => builder.without_trail(),
    };
    let mut notices = Vec::new();
    let stockade = match builder.build_telling(&mut notices) {
        Ok(stockade) => stockade,
        Err(error) => {
            notices.iter().for_each(|notice| note(notice));
            return Err(error.into());
        }
    };
    stockade.take_notices().iter().for_each(|notice| note(notice));
    stockade.settings().check_flags(&stockade.workspace())?;
    let mut wanted = stockade.command(command).id(stockade.id().as_str().parse()?);
    wanted = wanted.cwd(cwd.to_host_path().unwrap_or_default());
    #[cfg(unix)]
    {
        wanted = wanted.process(callers_process());
    }
    if args.unsandboxed {
        wanted = wanted.escalation(EscalationExecution::Unsandboxed);
    }
    if let Some(why) = &args.justification {
        wanted = wanted.justification(why);
    }
    let (tool, request) = wanted.into_parts()?;
    stockade.notices_for(&request.command).iter().for_each(|notice| note(notice));
    let remedies = Remedies::new(&stockade.settings(), stockade.workspace());
    Ok(Prepared { stockade, tool, request, remedies })
}

/// The caller's process attributes that this program has changed for itself.
#[cfg(unix)]
fn callers_process() -> ProcessSettings {
    let broken_pipes = if crate::sys::has_broken_pipes_ignored() { BrokenPipes::AreErrors } else { BrokenPipes::EndIt };
    ProcessSettings { broken_pipes, ..ProcessSettings::default() }
}

/// A directory that a flag names.
#[cfg(unix)]
pub(crate) fn directory(path: &std::path::Path) -> Result<AbsPath, Failure> {
    let here = AbsPath::from_path(&std::env::current_dir().map_err(Error::NoDirectory)?)?;
    Ok(existing_directory(&here, path)?)
}

/// Flags that a server's session does not support.
#[cfg(unix)]
#[derive(Debug, thiserror::Error)]
#[error("`{0}` can't be given for a session of a server: put it into the settings, or leave it out")]
struct NotForSessions(&'static str);

/// Flags that say something of one command, and not of a session.
#[cfg(unix)]
#[derive(Debug, thiserror::Error)]
#[error("`{flag}` is for one command, and {client} runs many: leave it out")]
struct ForOneCommand {
    flag: &'static str,
    client: &'static str,
}

/// Whether the flags are those of a session in which this client runs commands.
#[cfg(unix)]
pub(crate) fn check_for_many(args: &SessionArgs, client: &'static str) -> Result<(), Failure> {
    let given = [
        ("--cwd", args.cwd.is_some()),
        ("--justification", args.justification.is_some()),
        ("--unsandboxed", args.unsandboxed),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((flag, _)) => Err(ForOneCommand { flag, client }.into()),
        None => Ok(()),
    }
}

/// The parameters of a new session from the flags. Fails if it can't be opened with this user's settings, as for an
/// unnamed workspace that is not permitted.
#[cfg(unix)]
pub(crate) fn opening(args: &SessionArgs) -> Result<Opening, Failure> {
    let flags = [
        ("--sandbox", args.sandbox.is_some()),
        ("--ask", args.ask.is_some()),
        ("--workspace", !args.workspace.is_empty()),
        ("--writable", !args.writable.is_empty()),
        ("--deny-read", !args.deny_read.is_empty()),
        ("--network", args.network.is_some()),
        ("--allow-host", !args.allow_host.is_empty()),
        ("--env", !args.env.is_empty()),
        ("--limit", args.limit.is_some()),
        ("--profile", args.profile.is_some()),
        ("--with", !args.with.is_empty()),
    ];
    let flags = flags.into_iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| String::from(flag)).collect();
    // Later commands may come from a terminal, even if this one does not.
    let (params, _) = params(args, AskForApproval::OnFailure)?;
    Ok(Opening { params: SessionOpenParams { linger_ms: Some(LINGER_MS), ..params }, flags })
}

/// The parameters of a program that serves one session, and the remedies for it. No person answers in such a session,
/// so it only asks about escalations that commands request.
#[cfg(unix)]
pub(crate) fn served(args: &SessionArgs) -> Result<(SessionOpenParams, Remedies), Failure> {
    let (params, checked) = params(args, AskForApproval::OnRequest)?;
    let timeout_ms = args.timeout.and_then(|limit| u64::try_from(limit.as_millis()).ok()?.try_into().ok());
    let remedies = Remedies::new(&checked.settings(), checked.workspace());
    Ok((SessionOpenParams { timeout_ms, ..params }, remedies))
}

/// The parameters of a session with these flags, and the same session in this process, which runs nothing. It asks
/// according to `usual` unless the settings or the flags say otherwise.
#[cfg(unix)]
fn params(args: &SessionArgs, usual: AskForApproval) -> Result<(SessionOpenParams, Stockade), Failure> {
    nested::refuse()?;
    let given = [
        ("--readable", !args.readable.is_empty()),
        ("--allow-socket", !args.allow_socket.is_empty()),
        ("--device", !args.device.is_empty()),
        ("--rules", !args.rules.is_empty()),
        ("--engine", args.engine.is_some()),
        ("--accept-loss", !args.accept_loss.is_empty()),
    ];
    if let Some((flag, _)) = given.into_iter().find(|(_, is_given)| *is_given) {
        return Err(NotForSessions(flag).into());
    }
    let here = AbsPath::from_path(&std::env::current_dir().map_err(Error::NoDirectory)?)?;
    let layer = layer(args, &here)?;
    let mut builder = Stockade::builder().overrides(layer.clone()).without_trail();
    builder = args.workspace.iter().fold(builder, stockade::Builder::workspace);
    let checked = builder.build()?;
    let settings = checked.settings();
    settings.check_flags(&checked.workspace())?;
    let is_ask_unset =
        [AskForApproval::Never, AskForApproval::OnFailure].iter().all(|ask| settings.ask_or(*ask) == *ask);
    let workspace: Result<Vec<AbsPath>, _> =
        args.workspace.iter().map(|path| existing_directory(&here, path)).collect();
    let params = SessionOpenParams {
        // Only a flag names a workspace: the directory alone makes no home directory writable.
        workspace: Some(workspace?).filter(|workspace| !workspace.is_empty()),
        cwd: args.workspace.is_empty().then_some(here),
        profile: layer.profile,
        with: layer.with,
        sandbox: layer.mode,
        ask: if is_ask_unset { Some(usual) } else { layer.ask },
        network: layer.network,
        allow_hosts: layer.allow_hosts.map(|hosts| hosts.iter().map(HostRule::destinations).collect()),
        writable: layer.writable_roots,
        deny_read: Some(layer.deny_read.iter().map(ToString::to_string).collect::<Vec<_>>())
            .filter(|all| !all.is_empty()),
        set: Some(layer.set).filter(|set| !set.is_empty()),
        limits: args.limit,
        ..SessionOpenParams::default()
    };
    Ok((params, checked))
}

/// How long a session of the command line survives without a command: half an hour.
#[cfg(unix)]
const LINGER_MS: u64 = 30 * 60 * 1000;

/// The devices of the command line.
fn devices(nodes: &[PathBuf], here: &AbsPath) -> Result<Option<Vec<DevicePath>>, Failure> {
    let device = |node: &PathBuf| match written_path(here, node) {
        // The path it leads to need not be a device.
        Err(Invalid::ParentOfLink { path, .. }) => Err(Failure::from(NoDevice::written_as(path))),
        path => Ok(DevicePath::new(path?)?),
    };
    let devices: Result<Vec<_>, Failure> = nodes.iter().map(device).collect();
    Ok(Some(devices?).filter(|devices| !devices.is_empty()))
}

/// The command line as a layer of settings.
fn layer(args: &SessionArgs, here: &AbsPath) -> Result<Layer, Failure> {
    let all = |paths: &[PathBuf]| -> Result<Option<Vec<AbsPath>>, Failure> {
        let paths: Result<Vec<_>, _> = paths.iter().map(|path| written_path(here, path)).collect();
        Ok(Some(paths?).filter(|paths| !paths.is_empty()))
    };
    let mut layer = Layer {
        profile: args.profile.clone(),
        with: Some(args.with.clone()).filter(|names| !names.is_empty()),
        ask: args.ask,
        engine: args.engine.map(Into::into),
        timeout: args.timeout,
        mode: args.sandbox.map(Into::into),
        writable_roots: all(&args.writable)?,
        readable_roots: all(&args.readable)?,
        unix_sockets: all(&args.allow_socket)?,
        devices: devices(&args.device, here)?,
        network: args.network.map(Into::into),
        allow_hosts: Some(args.allow_host.clone()).filter(|hosts| !hosts.is_empty()),
        accept_losses: Some(args.accept_loss.clone()).filter(|losses| !losses.is_empty()),
        limits: args.limit.unwrap_or_default(),
        ..Layer::default()
    };
    for path in &args.deny_read {
        layer.deny_read.push(file_target(path, here, std::env::home_dir().as_deref().map(AsRef::as_ref))?);
    }
    for variable in &args.env {
        // A variable that is unset here stays unset.
        if let Some(value) = variable.value() {
            layer.set.insert(variable.name.clone(), value);
        }
    }
    Ok(layer)
}
