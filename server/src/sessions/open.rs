//! Opens a session from a client's parameters.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, SystemTime};

use stockade::Stockade;
use stockade::config::{Layer, parse_host};
use stockade::core::ANSWER_LIMIT;
use stockade::protocol::{AbsPath, AskForApproval, AuditEvent, Decision, FileTarget, HostRule, ThreadId};
use stockade::sandboxing::written_path;
use stockade::workspace::existing_directory;
use tokio::sync::watch;
use tokio::time::Instant;

use super::session::environment;
use super::{Session, SessionsOptions, Shares};
use crate::peer::{Peer, Transport};
use crate::questions::Questions;
use crate::wire::{Capability, ErrorKind, RpcError, SessionId, SessionOpenParams, SessionUpdateParams};

/// How long a session on a socket survives without a client, by default.
const USUAL_LINGER: Duration = Duration::from_secs(600);

/// The orchestrator's timeout is longer than the questions' by this much, so that clients are told of the end first.
const LATER: Duration = Duration::from_secs(5);

/// Opens a session for a client, on a blocking thread, since it reads files.
pub(super) async fn open(
    id: SessionId,
    peer: &Peer,
    params: SessionOpenParams,
    shares: Shares,
    options: SessionsOptions,
) -> Result<Session, RpcError> {
    let peer = peer.clone();
    let opened = tokio::task::spawn_blocking(move || assemble(id, &peer, &params, shares, &options));
    opened.await.unwrap_or_else(|died| Err(RpcError::new(ErrorKind::Internal, died.to_string())))
}

fn assemble(
    id: SessionId,
    peer: &Peer,
    params: &SessionOpenParams,
    shares: Shares,
    options: &SessionsOptions,
) -> Result<Session, RpcError> {
    let failed = |error: stockade::Error| RpcError::failed(&error);
    let here = directory(peer, params)?;
    let limit = params.answer_timeout_ms.map_or(ANSWER_LIMIT, |limit| Duration::from_millis(limit.get()));
    let questions = Questions::new(id.clone(), params.name.clone(), limit, shares.desk);
    let thread_id: ThreadId = id.as_str().parse().map_err(|error| RpcError::failed(&error))?;
    let mut builder = Stockade::builder()
        .name(thread_id)
        .approver(questions.clone())
        .answer_limit(limit.saturating_add(LATER))
        .keep_sandboxes()
        .overrides(layer(params, &here)?);
    if let Some(path) = here.to_host_path() {
        builder = builder.directory(path);
    }
    for root in params.workspace.iter().flatten() {
        builder = builder.workspace(root.to_host_path().unwrap_or_default());
    }
    if let Some(given) = &params.environment {
        builder = builder.environment(environment(given));
    }
    for path in &options.own_files {
        builder = builder.own_file(path);
    }
    for path in &options.programs {
        builder = builder.own_program(path);
    }
    let stockade = builder.build().map_err(failed)?;
    if !peer.capabilities().answers && params.ask.is_none() && is_ask_unset(&stockade) {
        stockade.update(|layer| layer.ask = Some(AskForApproval::Never)).map_err(failed)?;
    }
    let cwd = match &params.cwd {
        Some(cwd) => cwd.clone(),
        None => stockade.cwd().clone(),
    };
    let usual = || options.linger.unwrap_or_else(|| usual_linger(peer)).as_millis();
    let linger_ms = params.linger_ms.unwrap_or_else(|| u64::try_from(usual()).unwrap_or(u64::MAX));
    let session = Session {
        id,
        name: params.name.clone(),
        capability: capability()?,
        cwd,
        questions,
        commands: shares.commands,
        linger_ms: AtomicU64::new(linger_ms),
        opened_at: SystemTime::now(),
        touched: Instant::now().into(),
        attachments: AtomicU64::new(0),
        is_closing: AtomicBool::new(false),
        closed: watch::Sender::new(false),
        stockade,
    };
    let in_force = session.stockade.orchestrator().session();
    session.record(AuditEvent::SessionOpened {
        client: peer.client_name().to_owned(),
        name: params.name.as_ref().map(ToString::to_string),
        workspace: session.stockade.workspace(),
        ask: in_force.ask,
        sandbox: in_force.sandbox.clone(),
    })?;
    Ok(session)
}

/// The client's directory: its workspace. On standard input and output the server was started in its client's
/// directory.
fn directory(peer: &Peer, params: &SessionOpenParams) -> Result<AbsPath, RpcError> {
    let invalid = |message: &str| Err(RpcError::new(ErrorKind::InvalidParams, message));
    if params.workspace.as_ref().is_some_and(Vec::is_empty) {
        return invalid("`params.workspace`: name at least one directory, or leave it out");
    }
    match (params.workspace.iter().flatten().next(), peer.transport(), &params.cwd) {
        (Some(first), _, cwd) => Ok(cwd.as_ref().unwrap_or(first).clone()),
        // Canonical: a link to a home directory is that home directory.
        (None, Transport::Socket, Some(cwd)) => {
            let path = cwd.to_host_path().unwrap_or_default();
            existing_directory(cwd, &path).map_err(|error| RpcError::failed(&error))
        }
        (None, Transport::Socket, None) => invalid("`params.workspace`: name the directory that commands work in"),
        (None, Transport::Stdio, _) => {
            let own = std::env::current_dir().map_err(|error| RpcError::failed(&error))?;
            AbsPath::from_path(&own).map_err(|error| RpcError::failed(&error))
        }
    }
}

fn usual_linger(peer: &Peer) -> Duration {
    match peer.transport() {
        Transport::Stdio => Duration::ZERO,
        Transport::Socket => USUAL_LINGER,
    }
}

/// Whether neither the settings nor an approver program determine when to ask.
fn is_ask_unset(stockade: &Stockade) -> bool {
    let settings = stockade.settings();
    let otherwise = |ask| settings.ask_or(ask) == ask;
    settings.hook.is_none() && otherwise(AskForApproval::Never) && otherwise(AskForApproval::OnFailure)
}

fn capability() -> Result<Capability, RpcError> {
    let mut bits = [0; 32];
    getrandom::fill(&mut bits).map_err(|error| RpcError::failed(&error))?;
    Ok(Capability::from_bits(bits))
}

/// The client's settings, which override the files'.
fn layer(params: &SessionOpenParams, here: &AbsPath) -> Result<Layer, RpcError> {
    Ok(Layer {
        profile: params.profile.clone(),
        with: params.with.clone(),
        ask: params.ask,
        mode: params.sandbox,
        network: params.network,
        allow_hosts: params.allow_hosts.as_deref().map(hosts).transpose()?,
        writable_roots: params.writable.clone(),
        deny_read: targets(params.deny_read.as_deref().unwrap_or_default(), here)?,
        set: params.set.clone().unwrap_or_default(),
        limits: params.limits.unwrap_or_default(),
        timeout: params.timeout_ms.map(|limit| Duration::from_millis(limit.get())),
        ..Layer::default()
    })
}

/// Updates the client's settings. Absent fields stay.
pub(super) fn changed(params: &SessionUpdateParams, here: &AbsPath, mut layer: Layer) -> Result<Layer, RpcError> {
    layer.ask = params.ask.or(layer.ask);
    layer.mode = params.sandbox.or(layer.mode);
    layer.network = params.network.or(layer.network);
    if let Some(texts) = &params.allow_hosts {
        layer.allow_hosts = Some(hosts(texts)?);
    }
    if let Some(roots) = &params.writable {
        layer.writable_roots = Some(roots.clone());
    }
    if let Some(texts) = &params.deny_read {
        layer.deny_read = targets(texts, here)?;
    }
    if let Some(variables) = &params.set {
        layer.set = variables.clone();
    }
    layer.limits = params.limits.unwrap_or(layer.limits);
    layer.timeout = params.timeout_ms.map(|limit| Duration::from_millis(limit.get())).or(layer.timeout);
    Ok(layer)
}

fn hosts(texts: &[String]) -> Result<Vec<HostRule>, RpcError> {
    let host = |(place, text): (usize, &String)| {
        parse_host(text, Decision::Allow)
            .map_err(|why| RpcError::new(ErrorKind::InvalidParams, format!("`params.allow_hosts[{place}]`: {why}")))
    };
    texts.iter().enumerate().map(host).collect()
}

/// Paths and globs, absolute or relative to the session's directory.
fn targets(texts: &[String], here: &AbsPath) -> Result<Vec<FileTarget>, RpcError> {
    let target = |(place, text): (usize, &String)| {
        let target = written_path(here, &PathBuf::from(text)).and_then(|path| {
            if text.contains(['*', '?', '[', '{']) {
                path.to_string().parse().map(FileTarget::Glob)
            } else {
                Ok(FileTarget::Path(path))
            }
        });
        target.map_err(|why| RpcError::new(ErrorKind::InvalidParams, format!("`params.deny_read[{place}]`: {why}")))
    };
    texts.iter().enumerate().map(target).collect()
}
