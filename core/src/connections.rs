//! The network of one run, where the policy names hosts: each connection is decided while the command
//! runs, by rule, from memory, or by asking. There is one gate, whichever way connections come to it: seen by the
//! sandbox as they are made, or through a proxy that the command asks.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use stockade_network_proxy::{
    Approvals as NetworkApprovals, Ask, BoxFuture, Gate, NamedRule, Proxy, Records, Rules, SystemResolver, Transparent,
};
use stockade_protocol::{
    ApprovalSubject, AskForApproval, AuditEvent, Destination, EscalationExecution, HostRule, NetworkApproval,
    NetworkPolicy, NetworkPolicyAmendment, Permissions, ReviewDecision, Violation,
};
use stockade_sandboxing::{Backend, Gatekeeper};
use tokio::runtime::Handle;

use crate::approvals::{ApprovalKey, Approvals, Confinement, Grant, RuleStore};
use crate::audit_log::Trail;
use crate::exec::Clock;
use crate::proxied::{Behind, proxied};

/// What a run's connections are decided with.
#[derive(Clone)]
pub(crate) struct Connections {
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) rules: Arc<RuleStore>,
    pub(crate) trail: Trail,
    pub(crate) ask: AskForApproval,
}

/// Decides for one run, and what it denied so far. Dropped, it decides nothing more, and cuts what goes through
/// its proxy.
pub(crate) struct Guard {
    front: Front,
    denied: Arc<Denied>,
}

/// How connections come to the gate.
enum Front {
    /// The sandbox sees them, and asks.
    Seen(Arc<dyn Gatekeeper>),
    /// The command asks a proxy.
    Asked(Proxy),
}

impl Guard {
    /// What a sandbox asks that sees connections.
    pub(crate) fn gatekeeper(&self) -> Option<Arc<dyn Gatekeeper>> {
        match &self.front {
            Front::Seen(gatekeeper) => Some(Arc::clone(gatekeeper)),
            Front::Asked(_) => None,
        }
    }

    /// What the command has to know of its proxy.
    pub(crate) fn proxy(&self) -> Option<Behind> {
        match &self.front {
            Front::Seen(_) => None,
            Front::Asked(proxy) => Some(Behind { address: proxy.address(), variables: proxy.environment() }),
        }
    }

    /// Ends with the run, and tells everything that was denied.
    pub(crate) async fn end(self) -> Vec<Violation> {
        match self.front {
            Front::Seen(gatekeeper) => drop(gatekeeper),
            Front::Asked(proxy) => proxy.end().await,
        }
        self.denied.violations.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Whether a destination that no rule names may be asked for.
fn asks(ask: AskForApproval) -> bool {
    match ask {
        AskForApproval::Never => false,
        AskForApproval::Reject(reject) => !reject.rejects_sandbox_approval(),
        AskForApproval::Untrusted | AskForApproval::OnFailure | AskForApproval::OnRequest => true,
    }
}

/// The network rules of the rules files, as the gate takes them.
pub(crate) fn named_rules(rules: &RuleStore) -> Vec<NamedRule> {
    let named = |rule: &stockade_execpolicy::NetworkRule| NamedRule {
        rule: HostRule {
            host: rule.host().clone(),
            protocol: Some(rule.protocol()),
            port: rule.port(),
            decision: rule.decision(),
        },
        origin: rule.origin().to_string(),
    };
    rules.policy().network_rules().iter().map(named).collect()
}

impl Connections {
    /// What decides for a run with this grant; `None` where there is nothing to decide.
    pub(crate) async fn guard(&self, grant: &Grant, sandbox: &dyn Backend, clock: &Clock) -> io::Result<Option<Guard>> {
        let permissions = grant.permissions();
        let decides = matches!(permissions.network, NetworkPolicy::Hosts(_)) || !permissions.unix_sockets.is_empty();
        // A run without a sandbox is not held by anything.
        if !decides || grant.confinement() == Confinement::None {
            return Ok(None);
        }
        let denied = Arc::new(Denied { trail: self.trail.clone(), violations: Mutex::default() });
        let gate = self.gate(permissions, clock, Arc::clone(&denied) as Arc<dyn Records>);
        let front = match proxied(sandbox, permissions) {
            Some(_) => Front::Asked(Proxy::start(gate).await?),
            None => Front::Seen(Arc::new(Transparent::new(gate, Handle::current()))),
        };
        Ok(Some(Guard { front, denied }))
    }

    fn gate(&self, permissions: &Permissions, clock: &Clock, records: Arc<dyn Records>) -> Arc<Gate> {
        let rules = Rules::new(permissions.network.clone(), named_rules(&self.rules));
        let approvals = if asks(self.ask) {
            let patience = self.approvals.answer_limit + Duration::from_secs(5);
            NetworkApprovals::asking(Arc::new(Person { connections: self.clone(), clock: clock.clone() }), patience)
        } else {
            NetworkApprovals::never()
        };
        Gate::new(rules, approvals, Arc::new(SystemResolver), records)
    }
}

/// Puts every decision on record, and keeps what was denied.
struct Denied {
    trail: Trail,
    violations: Mutex<Vec<Violation>>,
}

/// A command that tries the same in a loop says no more than one that tries it a few times.
const MOST_VIOLATIONS: usize = 100;

impl Records for Denied {
    fn decided(&self, event: AuditEvent) {
        if let AuditEvent::Connected { destination, decision, .. } = &event {
            tracing::info!(
                name: "network.decided",
                thread = %self.trail.thread(),
                request = %self.trail.request(),
                host = %destination.host,
                port = destination.port,
                ?decision,
            );
        }
        self.trail.note(event);
    }

    fn denied(&self, violation: Violation) {
        let mut violations = self.violations.lock().unwrap_or_else(PoisonError::into_inner);
        // A client tries a name's addresses of both families, from as many processes as it likes: one refusal.
        let is_known = |known: &Violation| (known.operation, &known.target) == (violation.operation, &violation.target);
        if violations.len() < MOST_VIOLATIONS && !violations.iter().any(is_known) {
            violations.push(violation);
        }
    }
}

/// Asks on behalf of a run, whose clock stands still meanwhile.
struct Person {
    connections: Connections,
    clock: Clock,
}

impl Ask for Person {
    fn ask(&self, question: NetworkApproval) -> BoxFuture<'_, ReviewDecision> {
        Box::pin(async move {
            let _pause = self.clock.pause();
            let Connections { approvals, rules, trail, .. } = &self.connections;
            let mut question = question;
            if !rules.can_save() {
                question.proposed_network_policy_amendments.clear();
            }
            let destination =
                Destination { host: question.host.clone(), protocol: question.protocol, port: question.port };
            let key = ApprovalKey::Destination(destination);
            approvals.ask_destination(key, ApprovalSubject::Network(question), trail).await
        })
    }

    fn save(&self, amendment: &NetworkPolicyAmendment) {
        self.connections.rules.save_network(amendment);
    }
}

/// A destination is remembered without anything else being granted.
pub(crate) const REMEMBERED: EscalationExecution = EscalationExecution::TurnDefault;
