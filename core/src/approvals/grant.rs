//! The proof of a decision: nothing starts without a grant.

use std::io;

use stockade_protocol::{
    AbsPath, Access, DecisionSource, EscalationExecution, FileRule, FileRules, FileTarget, Invalid, NetworkPolicy,
    Permissions, RawText, RuleSource,
};
use stockade_sandboxing::leads_to;

use crate::judgement::Judgement;
use crate::session::{Sandboxing, Session};

/// The permissions of a run, and the source of the decision. Only this module's parent creates one, and only for a
/// decision; so "nothing runs without a decision" is checked by the compiler.
#[derive(Clone, Debug)]
pub struct Grant {
    permissions: Permissions,
    confinement: Confinement,
    escalation: EscalationExecution,
    source: DecisionSource,
    after_denial: bool,
}

/// Whether a sandbox is built around a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Confinement {
    /// It is.
    Sandbox,
    /// It is not: a person turned it off or approved this run without it, or another program's sandbox contains this
    /// process.
    None,
}

impl Grant {
    /// The permissions of the run.
    pub fn permissions(&self) -> &Permissions {
        &self.permissions
    }

    /// Whether a sandbox is built around it.
    pub fn confinement(&self) -> Confinement {
        self.confinement
    }

    /// The escalation over the session's own permissions.
    pub fn escalation(&self) -> &EscalationExecution {
        &self.escalation
    }

    /// The source of the decision.
    pub fn source(&self) -> &DecisionSource {
        &self.source
    }

    /// Whether it was granted after a denial. That happens at most once.
    pub(super) fn is_after_denial(&self) -> bool {
        self.after_denial
    }

    pub(super) fn new(
        session: &Session,
        escalation: EscalationExecution,
        source: DecisionSource,
    ) -> Result<Self, Invalid> {
        let (permissions, confinement) = execution(session, &escalation)?;
        Ok(Self { permissions, confinement, escalation, source, after_denial: false })
    }

    /// The grant of a rule to one program that a command starts.
    pub(super) fn to_program(
        session: &Session,
        execution: &ProgramExecution,
        source: DecisionSource,
    ) -> Result<Self, Invalid> {
        match execution {
            ProgramExecution::More(more) => {
                Self::new(session, EscalationExecution::Permissions(Box::new(more.clone())), source)
            }
            ProgramExecution::Outside => Self::new(session, EscalationExecution::Unsandboxed, source),
            ProgramExecution::Exactly(declared) => {
                let permissions = exactly(session, declared)?;
                check_sockets(&permissions)?;
                let escalation = EscalationExecution::Permissions(Box::new(permissions.clone()));
                let confinement = Confinement::Sandbox;
                Ok(Self { permissions, confinement, escalation, source, after_denial: false })
            }
        }
    }

    /// The grant for the first run of a judged request.
    pub(super) fn first(judgement: &Judgement, source: DecisionSource) -> Self {
        Self {
            permissions: judgement.permissions.clone(),
            confinement: judgement.confinement,
            escalation: judgement.execution.clone(),
            source,
            after_denial: false,
        }
    }

    pub(super) fn after_denial(mut self) -> Self {
        self.after_denial = true;
        self
    }
}

/// What a rule has one program run with, that a command starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProgramExecution {
    /// The session's permissions, and these.
    More(Permissions),
    /// Exactly these, and what every program needs to start.
    Exactly(Permissions),
    /// No sandbox.
    Outside,
}

/// Permissions without the session's own. What the session denies stays denied, and its limits and environment stay.
fn exactly(session: &Session, declared: &Permissions) -> Result<Permissions, Invalid> {
    // A protected name stays so where the declared directories contain it; it grants nothing elsewhere.
    let is_covered = |rule: &FileRule| match &rule.target {
        FileTarget::Path(path) => declared.access(path) == Access::Write,
        FileTarget::Glob(_) => false,
    };
    let protects = |rule: &FileRule| rule.source == RuleSource::ProtectedMetadata && is_covered(rule);
    let stays = |rule: &&FileRule| rule.access == Access::None || rule.is_bound() || protects(rule);
    let denials = session.permissions.files.iter().filter(stays).cloned();
    let defaults = session.host.platform_defaults.iter().map(|path| FileRule::path(path.clone(), Access::Read));
    let least = Permissions {
        files: FileRules::new(denials.chain(defaults))?,
        network: NetworkPolicy::Off,
        unix_sockets: Default::default(),
        ..session.permissions.clone()
    };
    let merged = least.merge(&session.protecting(declared));
    let network = session.with_denied_hosts(merged.network.clone());
    Ok(session.bounded(&Permissions { network, ..merged }))
}

/// The permissions of an execution in this session, and whether they need a sandbox.
pub(crate) fn execution(
    session: &Session,
    escalation: &EscalationExecution,
) -> Result<(Permissions, Confinement), Invalid> {
    let permissions = match escalation {
        EscalationExecution::TurnDefault => session.permissions.clone(),
        EscalationExecution::Permissions(more) => {
            let merged = session.permissions.merge(&session.protecting(more));
            Permissions { network: session.with_denied_hosts(merged.network.clone()), ..merged }
        }
        EscalationExecution::Unsandboxed => unsandboxed(session)?,
    };
    let wants_none = *escalation == EscalationExecution::Unsandboxed || session.sandboxing() != Sandboxing::On;
    let confinement =
        if wants_none && session.must_confine().is_none() { Confinement::None } else { Confinement::Sandbox };
    let permissions = session.bounded(&permissions);
    if confinement == Confinement::Sandbox {
        check_sockets(&permissions)?;
    }
    Ok((if confinement == Confinement::None { unbound(permissions)? } else { permissions }, confinement))
}

/// A marker file in every server's socket directory, which identifies the directory in any environment.
pub const SERVER_MARK: &str = ".stockade-server";

/// Refuses to grant a server's socket: a command that reaches it could approve itself.
pub(crate) fn check_sockets(permissions: &Permissions) -> Result<(), Invalid> {
    for socket in &permissions.unix_sockets {
        let resolved = leads_to(socket);
        let holds = |rule: &&FileRule| match &rule.target {
            FileTarget::Path(own) => rule.is_bound() && (resolved.starts_with(own) || socket.starts_with(own)),
            FileTarget::Glob(_) => false,
        };
        if let Some(bound) = permissions.files.iter().find(holds) {
            return Err(Invalid::OwnSocket {
                path: resolved.as_raw().clone(),
                own: RawText::from(bound.target.to_string()),
            });
        }
        if let Some(directory) = resolved.parent().filter(is_servers) {
            return Err(Invalid::OwnSocket { path: resolved.as_raw().clone(), own: directory.as_raw().clone() });
        }
    }
    Ok(())
}

/// Whether a server has marked this directory. An unreadable one counts as marked.
fn is_servers(directory: &AbsPath) -> bool {
    let Some(directory) = directory.to_host_path() else { return false };
    match std::fs::symlink_metadata(directory.join(SERVER_MARK)) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    }
}

/// Removes the bounds on Stockade's own files, which nothing enforces without a sandbox.
fn unbound(permissions: Permissions) -> Result<Permissions, Invalid> {
    let rules = permissions.files.iter().filter(|rule| !rule.is_bound()).cloned();
    Ok(Permissions { files: FileRules::new(rules)?, ..permissions })
}

/// Everything except hard denials and, if a sandbox is built all the same, Stockade's own files. Masks and protected
/// names are lifted.
fn unsandboxed(session: &Session) -> Result<Permissions, Invalid> {
    let everything = session.host.file_system_roots.iter().map(|root| FileRule::path(root.clone(), Access::Write));
    let lasting = |rule: &&FileRule| rule.is_hard_denial() || rule.is_bound();
    let denials = session.permissions.files.iter().filter(lasting).cloned();
    // Host rules enforce a forbidden host, so they stay.
    let network = match &session.permissions.network {
        NetworkPolicy::Hosts(_) if session.forbids_hosts() => session.permissions.network.clone(),
        NetworkPolicy::Off | NetworkPolicy::Full | NetworkPolicy::Hosts(_) => {
            session.with_denied_hosts(NetworkPolicy::Full)
        }
    };
    Ok(Permissions { files: FileRules::new(everything.chain(denials))?, network, ..session.permissions.clone() })
}

#[cfg(test)]
mod tests {
    use stockade_protocol::{AskForApproval, HostPaths, ResourceLimits, SandboxPolicy};

    use super::*;

    fn session(sandbox: SandboxPolicy) -> Session {
        let host = HostPaths::new(["/repo".parse().unwrap()], &"/home/me".parse().unwrap()).unwrap();
        Session::new("t".parse().unwrap(), AskForApproval::OnFailure, sandbox, &host).unwrap()
    }

    fn denying(path: &str) -> Session {
        let mut session = session(SandboxPolicy::workspace_write());
        let rules = session.permissions.files.iter().cloned();
        let denial = FileRule::path(path.parse().unwrap(), Access::None);
        session.permissions.files = FileRules::new(rules.chain([denial])).unwrap();
        session
    }

    fn access(session: &Session, escalation: EscalationExecution, path: &str) -> (Access, Confinement) {
        let (permissions, confinement) = execution(session, &escalation).unwrap();
        (permissions.access(&path.parse().unwrap()), confinement)
    }

    #[test]
    fn a_run_without_the_sandbox_has_none_and_no_masks() {
        let session = session(SandboxPolicy::workspace_write());
        let key = "/home/me/.ssh/id";
        assert_eq!(access(&session, EscalationExecution::TurnDefault, key), (Access::None, Confinement::Sandbox));
        assert_eq!(access(&session, EscalationExecution::Unsandboxed, key), (Access::Write, Confinement::None));
    }

    #[test]
    fn what_a_person_denied_survives_every_escalation() {
        let session = denying("/repo/secret");
        let more = FileRules::new([FileRule::path("/repo/secret".parse().unwrap(), Access::Read)]).unwrap();
        let more = Permissions { files: more, ..Permissions::default() };
        for escalation in [
            EscalationExecution::TurnDefault,
            EscalationExecution::Permissions(Box::new(more)),
            EscalationExecution::Unsandboxed,
        ] {
            let found = access(&session, escalation, "/repo/secret/x");
            assert_eq!(found, (Access::None, Confinement::Sandbox));
        }
        assert_eq!(access(&session, EscalationExecution::Unsandboxed, "/etc/x").0, Access::Write);
    }

    #[test]
    fn a_granted_directory_is_protected_as_the_workspace_is() {
        let session = session(SandboxPolicy::workspace_write());
        let more = FileRules::new([FileRule::path("/var/lib".parse().unwrap(), Access::Write)]).unwrap();
        let more = Permissions { files: more, ..Permissions::default() };
        let (widened, _) = execution(&session, &EscalationExecution::Permissions(Box::new(more))).unwrap();
        let wide = FileRules::new([FileRule::path("/".parse().unwrap(), Access::Write)]).unwrap();
        let exact = exactly(&session, &Permissions { files: wide, ..Permissions::default() }).unwrap();
        let narrow = FileRules::new([FileRule::path("/var/lib".parse().unwrap(), Access::Write)]).unwrap();
        let narrow = exactly(&session, &Permissions { files: narrow, ..Permissions::default() }).unwrap();
        for (permissions, path, access) in [
            (&widened, "/var/lib/f", Access::Write),
            (&widened, "/var/lib/.claude/settings.json", Access::Read),
            (&widened, "/var/lib/.git", Access::Read),
            (&widened, "/repo/.git/hooks", Access::Read),
            (&exact, "/repo/f", Access::Write),
            (&exact, "/repo/.claude/x", Access::Read),
            (&exact, "/.git/x", Access::Read),
            // Nothing of the workspace is granted by its protection.
            (&narrow, "/repo/.git/x", Access::None),
            (&narrow, "/var/lib/.codex", Access::Read),
        ] {
            assert_eq!(permissions.access(&path.parse().unwrap()), access, "{path}");
        }
        let source = |path: &str| widened.files.deciding(&path.parse().unwrap()).unwrap().source;
        assert_eq!(source("/var/lib/.agents/x"), RuleSource::ProtectedMetadata);
    }

    /// Otherwise the first command in it could plant them.
    #[test]
    fn a_directory_that_is_made_for_the_command_is_protected() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| AbsPath::from_path(&directory.path().join(name)).unwrap();
        std::fs::write(directory.path().join("file"), "").unwrap();
        let mut session = session(SandboxPolicy::workspace_write());
        session.made_on_use.extend([at("cache"), at("file")]);
        let (permissions, command) = (Permissions::default(), stockade_protocol::Argv::parse(["x"]).unwrap());
        session.saved.push(crate::SavedGrant { command, permissions, directories: [at("saved")].into() });
        for (name, access) in
            [("cache", Access::Read), ("saved", Access::Read), ("file", Access::Write), ("never-made", Access::Write)]
        {
            let more = FileRules::new([FileRule::path(at(name), Access::Write)]).unwrap();
            let more = Box::new(Permissions { files: more, ..Permissions::default() });
            let (widened, _) = execution(&session, &EscalationExecution::Permissions(more)).unwrap();
            assert_eq!(widened.access(&at(name).join(".git/hooks").unwrap()), access, "{name}");
        }
    }

    #[test]
    fn only_a_run_without_the_sandbox_writes_stockades_own_files() {
        let mut session = session(SandboxPolicy::workspace_write());
        let own = "/home/me/.config/stockade/config.toml";
        let more = FileRules::new([FileRule::path(own.parse().unwrap(), Access::Write)]).unwrap();
        let more = EscalationExecution::Permissions(Box::new(Permissions { files: more, ..Permissions::default() }));
        assert_eq!(access(&session, more, own), (Access::Read, Confinement::Sandbox));
        assert_eq!(access(&session, EscalationExecution::Unsandboxed, own), (Access::Write, Confinement::None));
        session.permissions.limits =
            ResourceLimits { cpu_seconds: std::num::NonZeroU64::new(1), ..ResourceLimits::default() };
        assert_eq!(access(&session, EscalationExecution::Unsandboxed, own), (Access::Read, Confinement::Sandbox));
    }

    #[test]
    fn a_limit_or_a_maximum_keeps_the_sandbox() {
        let mut limited = session(SandboxPolicy::DangerFullAccess {});
        assert_eq!(access(&limited, EscalationExecution::TurnDefault, "/etc").1, Confinement::None);
        limited.permissions.limits =
            ResourceLimits { cpu_seconds: std::num::NonZeroU64::new(1), ..ResourceLimits::default() };
        assert_eq!(access(&limited, EscalationExecution::TurnDefault, "/etc").1, Confinement::Sandbox);

        let mut bounded = session(SandboxPolicy::DangerFullAccess {});
        let files = FileRules::new([FileRule::path("/".parse().unwrap(), Access::Read)]).unwrap();
        bounded.maximum = Some(Permissions { files, ..Permissions::default() });
        assert_eq!(access(&bounded, EscalationExecution::Unsandboxed, "/etc"), (Access::Read, Confinement::Sandbox));
    }
}
