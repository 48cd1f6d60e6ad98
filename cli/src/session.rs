//! From the command line and the settings to a session that can run or explain a command.

use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use stockade_config::{
    AllowedCommands, AuditDurability, ConfigLoader, Layer, Loaded, NetworkMode, Origin, SandboxMode, Settings,
    user_variable,
};
use stockade_core::{
    Approver, AuditDemand, AuditError, AuditSink, AuditTrail, Durability, Fixed, Hook, Orchestrator, OutputLimit,
    RulesOutside, Session, TrailOptions, state_directory,
};
use stockade_protocol::{
    AbsPath, Access, Argv, AskForApproval, Decision, EscalationExecution, ExecExpiration, ExecRequest, FileTarget,
    HostPaths, HostRule, NetworkPolicy, Permissions, RawText, SandboxPolicy, ThreadId,
};
use stockade_sandboxing::{absolute, permits};

use crate::args::SessionArgs;
use crate::exit::{Failure, note, with_causes};
use crate::remedy::Remedies;
use crate::workspace::{Workspace, existing_directory};
use crate::{flags, losses, platform, prompt, registries, rules};

#[derive(Debug, thiserror::Error)]
enum SessionError {
    #[error("the working directory can't be found")]
    NoDirectory(#[source] std::io::Error),
    #[error("`--writable` has no effect in a `read-only` sandbox ({origin}): pass `--sandbox workspace-write` as well")]
    NothingIsWritable { origin: Origin },
    #[error(
        "`--network` has no effect without a sandbox of Stockade's own ({origin}): leave it out, or pass `--sandbox workspace-write`"
    )]
    NetworkIsOpen { origin: Origin },
    #[error("a hook in the settings has no program")]
    NoHook,
}

/// Everything that a run or an explanation needs.
pub(crate) struct Prepared {
    pub(crate) orchestrator: Orchestrator,
    pub(crate) request: ExecRequest,
    pub(crate) settings: Settings,
    pub(crate) remedies: Remedies,
}

/// Whether the session is going to run something, or only to say what would happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Run,
    Explain,
}

pub(crate) fn prepare(args: &SessionArgs, command: &[OsString], purpose: Purpose) -> Result<Prepared, Failure> {
    let here = AbsPath::from_path(&std::env::current_dir().map_err(SessionError::NoDirectory)?)?;
    let cwd = match &args.cwd {
        Some(directory) => existing_directory(&here, directory)?,
        None => here.clone(),
    };
    let loader = ConfigLoader::standard()?;
    let workspace = Workspace::find(args, &here, &loader)?;
    let project = workspace.roots.first().unwrap_or(&here).to_host_path().unwrap_or_default();
    let loader = loader.project(&project);
    let Loaded { mut settings, notices, project_rules, .. } = loader.load(layer(args, &here)?)?;
    // What a command wrote there would decide over the next one.
    for file in &args.rules {
        settings.own_files.push(absolute(&here, file)?);
    }
    for notice in notices {
        note(&notice);
    }
    workspace.check(&settings)?;
    check_flags(args, &settings)?;
    let workspace = without_unwritable(workspace.roots, &settings);
    let remedies = Remedies::new(&settings, workspace.clone());
    let host = host_paths(workspace, &settings);
    let person = if purpose == Purpose::Run { prompt::person(losses::accepted(&settings)) } else { None };
    let is_answered = match purpose {
        _ if settings.hook.is_some() => true,
        Purpose::Run => person.is_some(),
        Purpose::Explain => std::io::stderr().is_terminal(),
    };
    let usual = if is_answered { AskForApproval::OnFailure } else { AskForApproval::Never };
    let thread_id = new_id()?;
    let mut session = session(&settings, &host, settings.ask_or(usual), thread_id.clone())?;
    let command = Argv::from_os(command.iter().cloned())?;
    let homes: Vec<AbsPath> = loader.homes().into_iter().filter_map(|home| AbsPath::from_path(home).ok()).collect();
    for notice in registries::keep(&mut session, &homes, &command) {
        note(&notice);
    }
    let approver = approver(&settings, &session.permissions, person)?;
    let assessor = settings.risk_hook.as_ref().map(|hook| program(hook, &session.permissions)).transpose()?;
    let rules = rules::load(args, project_rules, &session, &homes)?;
    if purpose == Purpose::Run {
        rules::tell_what_changed(&rules.policy(), &settings, &loader);
    }
    let is_open = session.permissions.network == NetworkPolicy::Full;
    let mut orchestrator =
        Orchestrator::new(session, platform::backend(settings.engine, &settings.accept_losses)?.into(), approver)
            .with_rules(rules);
    if let Some(assessor) = assessor {
        orchestrator = orchestrator.with_risk_assessor(Arc::new(assessor));
    }
    if is_open && orchestrator.session().permissions.network != NetworkPolicy::Full {
        note("the network is `hosts`, not `full`: a network rule denies a host, and a full network knows no hosts");
    }
    if purpose == Purpose::Run {
        let (sink, demand) = audit(&settings)?;
        orchestrator = orchestrator.with_audit(sink, demand);
    }
    let request = ExecRequest {
        id: thread_id.as_str().parse()?,
        thread_id,
        command,
        cwd,
        expiration: ExecExpiration::DefaultTimeout,
        escalation: if args.unsandboxed { EscalationExecution::Unsandboxed } else { EscalationExecution::TurnDefault },
        justification: args.justification.clone(),
        terminal: None,
        approved_by_policy: false,
        sandbox_warnings: Vec::new(),
    };
    Ok(Prepared { orchestrator, request, settings, remedies })
}

/// What is said by hand has to hold.
fn check_flags(args: &SessionArgs, settings: &Settings) -> Result<(), SessionError> {
    if !args.writable.is_empty() && settings.mode == SandboxMode::ReadOnly {
        return Err(SessionError::NothingIsWritable { origin: settings.origin("sandbox.mode").clone() });
    }
    let is_open = matches!(settings.mode, SandboxMode::ExternalSandbox | SandboxMode::DangerFullAccess);
    if is_open && args.network.is_some() && settings.network != NetworkMode::Full {
        return Err(SessionError::NetworkIsOpen { origin: settings.origin("sandbox.mode").clone() });
    }
    Ok(())
}

/// The workspace without what this user can't write anyway, which needs no protection and can't be granted.
fn without_unwritable(workspace: Vec<AbsPath>, settings: &Settings) -> Vec<AbsPath> {
    if settings.mode != SandboxMode::WorkspaceWrite {
        return workspace;
    }
    let (writable, rest): (Vec<AbsPath>, Vec<AbsPath>) =
        workspace.into_iter().partition(|root| permits(root, Access::Write));
    for root in rest {
        note(&format!("`{root}` is not made writable: you lack permission to write it outside the sandbox, too"));
    }
    writable
}

fn host_paths(workspace: Vec<AbsPath>, settings: &Settings) -> HostPaths {
    // The settings have the list of credentials.
    let mut host = HostPaths::without_masks(workspace);
    host.tmpdir = std::env::var_os("TMPDIR").and_then(|path| AbsPath::from_path(Path::new(&path)).ok());
    // Only where reading is restricted does it matter what programs need to start.
    if settings.readable_roots.is_some() || settings.maximum.is_some() {
        host.platform_defaults = platform::platform_defaults();
    }
    host
}

/// What the command line says, as one more layer of settings.
fn layer(args: &SessionArgs, here: &AbsPath) -> Result<Layer, Failure> {
    let all = |paths: &[PathBuf]| -> Result<Option<Vec<AbsPath>>, Failure> {
        let paths: Result<Vec<_>, _> = paths.iter().map(|path| absolute(here, path)).collect();
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
        layer.deny_read.push(flags::target(path, here)?);
    }
    for variable in &args.env {
        // One that is not set here is not set there either.
        if let Some(value) = variable.value() {
            layer.set.insert(variable.name.clone(), value);
        }
    }
    Ok(layer)
}

fn session(
    settings: &Settings,
    host: &HostPaths,
    ask: AskForApproval,
    thread_id: ThreadId,
) -> Result<Session, Failure> {
    let mut session = Session::new(thread_id, ask, settings.sandbox_policy(), host)?;
    session.permissions = settings.permissions(host)?;
    session.maximum = maximum(settings, host)?;
    session.default_timeout = settings.timeout;
    session.rules_outside = match settings.rules_allow {
        _ if settings.names_sandbox || settings.project_sets_variables => RulesOutside::Never,
        AllowedCommands::Inside => RulesOutside::Said,
        AllowedCommands::Outside => RulesOutside::Unsaid,
    };
    let is_forbidden = |rule: &&HostRule| rule.decision == Decision::Forbidden;
    session.forbidden_hosts = settings.hosts.iter().filter(is_forbidden).cloned().collect();
    let bytes = |text: OsString| RawText::from(text.into_encoded_bytes());
    session.environment = std::env::vars_os().map(|(name, value)| (bytes(name), bytes(value))).collect();
    // A quarter of what is kept is the beginning; the end says more of a failure.
    let kept = usize::try_from(settings.output_cap_bytes.get()).unwrap_or(usize::MAX);
    session.output = OutputLimit { head: kept / 4, tail: kept - kept / 4 };
    Ok(session)
}

/// The administrator's bound, as permissions: what is left of everything.
fn maximum(settings: &Settings, host: &HostPaths) -> Result<Option<Permissions>, Failure> {
    let Some(maximum) = settings.maximum.as_ref().filter(|maximum| !maximum.allows_unsandboxed()) else {
        return Ok(None);
    };
    let everything = SandboxPolicy::DangerFullAccess {}.resolve(host)?;
    Ok(Some(maximum.limit(host, &everything)?))
}

/// The approver: the program that the settings name, with or without a terminal, else the person at the terminal. A
/// program that commands could change is refused.
fn approver(
    settings: &Settings,
    permissions: &Permissions,
    person: Option<Arc<dyn Approver>>,
) -> Result<Arc<dyn Approver>, Failure> {
    let Some(hook) = &settings.hook else {
        return Ok(person.unwrap_or_else(|| Arc::new(Fixed::deny("there is no terminal to ask at"))));
    };
    let asked = program(&hook.command, permissions)?;
    Ok(Arc::new(match hook.timeout {
        Some(limit) => asked.within_time(limit),
        None => asked,
    }))
}

/// A program that the settings name, which no command of the session can write.
fn program(command: &Argv, permissions: &Permissions) -> Result<Hook, Failure> {
    let (program, arguments) = command.words().split_first().ok_or(SessionError::NoHook)?;
    let writable: Vec<AbsPath> = permissions
        .files
        .iter()
        .filter(|rule| rule.access == Access::Write)
        .filter_map(|rule| match &rule.target {
            FileTarget::Path(path) if path.parent().is_some() => Some(path.clone()),
            FileTarget::Path(_) | FileTarget::Glob(_) => None,
        })
        .collect();
    let hook = Hook::new(AbsPath::parse(program.clone())?)?;
    Ok(hook.with_arguments(arguments.iter().filter_map(RawText::to_os_string)).outside(&writable)?)
}

fn audit(settings: &Settings) -> Result<(Arc<dyn AuditSink>, AuditDemand), Failure> {
    let demand = if settings.audit_required { AuditDemand::Required } else { AuditDemand::BestEffort };
    let durability = match settings.audit_durability {
        AuditDurability::System => Durability::System,
        AuditDurability::EachRecord => Durability::EachRecord,
    };
    let options = TrailOptions { durability, ..TrailOptions::default() };
    let trail = match &settings.audit_directory {
        Some(directory) => AuditTrail::open(directory, options),
        None => state_directory(user_variable)
            .ok_or(AuditError::NoPlace)
            .and_then(|directory| AuditTrail::open(&directory, options)),
    };
    match trail {
        Ok(trail) => Ok((Arc::new(trail), demand)),
        Err(error) if demand == AuditDemand::BestEffort => {
            note(&format!("audit trail disabled: {}", with_causes(&error)));
            Ok((Arc::new(stockade_core::NoAudit), demand))
        }
        Err(error) => Err(error.into()),
    }
}

/// A name that no other run has.
fn new_id() -> Result<ThreadId, stockade_protocol::Invalid> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("run-{}-{}", now.as_millis(), std::process::id()).parse()
}
