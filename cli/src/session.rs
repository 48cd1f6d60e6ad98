//! From the command line to a session that can run or explain a command.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::PathBuf;

use stockade::workspace::{existing_directory, file_target};
use stockade::{Error, Stockade};
use stockade_config::Layer;
use stockade_core::{Fixed, ShellRuntime};
use stockade_protocol::{AbsPath, EscalationExecution, ExecRequest};
use stockade_sandboxing::written_path;

use crate::args::SessionArgs;
use crate::exit::{Failure, note};
use crate::remedy::Remedies;

/// Everything that a run or an explanation needs.
pub(crate) struct Prepared {
    pub(crate) stockade: Stockade,
    pub(crate) tool: ShellRuntime,
    pub(crate) request: ExecRequest,
    pub(crate) remedies: Remedies,
}

/// Whether the session is going to run something, or only to say what would happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Run,
    Explain,
}

pub(crate) fn prepare(args: &SessionArgs, command: &[OsString], purpose: Purpose) -> Result<Prepared, Failure> {
    let here = AbsPath::from_path(&std::env::current_dir().map_err(Error::NoDirectory)?)?;
    let cwd = match &args.cwd {
        Some(directory) => existing_directory(&here, directory)?,
        None => here.clone(),
    };
    let mut builder = Stockade::builder().for_one_request().overrides(layer(args, &here)?);
    builder = args.workspace.iter().fold(builder, stockade::Builder::workspace);
    builder = args.rules.iter().fold(builder, stockade::Builder::rules);
    builder = match purpose {
        Purpose::Run => builder.ask_at_terminal(),
        // Nothing is asked, but what would be depends on whether a person could answer.
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
    let mut wanted = stockade.command(command).id(stockade.id().as_str().parse()?);
    wanted = wanted.cwd(cwd.to_host_path().unwrap_or_default());
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

/// What the command line says, as one more layer of settings.
fn layer(args: &SessionArgs, here: &AbsPath) -> Result<Layer, Failure> {
    let all = |paths: &[PathBuf]| -> Result<Option<Vec<AbsPath>>, Failure> {
        let paths: Result<Vec<_>, _> = paths.iter().map(|path| written_path(here, path)).collect();
        Ok(Some(paths?).filter(|paths| !paths.is_empty()))
    };
    let mut layer = Layer {
        profile: args.profile.clone(),
        ask: args.ask,
        engine: args.engine.map(Into::into),
        timeout: args.timeout,
        mode: args.sandbox.map(Into::into),
        writable_roots: all(&args.writable)?,
        readable_roots: all(&args.readable)?,
        unix_sockets: all(&args.allow_socket)?,
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
        // One that is not set here is not set there either.
        if let Some(value) = variable.value() {
            layer.set.insert(variable.name.clone(), value);
        }
    }
    Ok(layer)
}
