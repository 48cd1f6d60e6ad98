//! The network of one run, where the policy names hosts: each connection is decided while the command runs, by rule,
//! from memory, or by asking. There is one gate for both ways: connections intercepted by the sandbox, and those
//! through the command's proxy.

use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use stockade_network_proxy::{
    Approvals as NetworkApprovals, Ask, BoxFuture, Gate, NamedRule, NotRecorded, Proxy, Records, Resolver, Rules,
    SystemResolver, Transparent,
};
use stockade_protocol::{
    ApprovalSubject, AskForApproval, AuditEvent, Decision, DecisionSource, DenyingRule, Destination, HostRule,
    NetworkApproval, NetworkPolicy, NetworkPolicyAmendment, PermissionAmendment, Permissions, ReviewDecision,
    Violation, ViolationTarget,
};
use stockade_sandboxing::{Backend, Gatekeeper};
use tokio::runtime::Handle;

use crate::approvals::{ApprovalKey, Approvals, Confinement, RuleStore, check_sockets};
use crate::audit_log::Trail;
use crate::connection_log::ConnectionLog;
use crate::exec::Clock;
use crate::proxied::{ProxyEndpoint, proxied};
use crate::requirement::approvals_count;
use crate::risk::ASSESSMENT_LIMIT;
use crate::run_answers::RunAnswers;
use crate::runtime::ToolContext;
use crate::session::{NetworkBound, Session};

/// The state that a run's connections are decided with.
#[derive(Clone)]
pub(crate) struct Connections {
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) rules: Arc<RuleStore>,
    pub(crate) trail: Trail,
    pub(crate) ask: AskForApproval,
    /// The answer to the rest of the request's questions.
    pub(crate) answers: Arc<RunAnswers>,
    /// The questions about destinations and their answers, for all runs of a request.
    pub(crate) questions: Arc<OnceLock<Arc<NetworkApprovals>>>,
    /// What builds sandboxes, also for single programs of a run.
    pub(crate) sandbox: Arc<dyn Backend>,
}

/// Decides for one run, and collects its denials. When dropped, it decides nothing more and closes the connections
/// through its proxy.
pub(crate) struct Guard {
    front: Front,
    log: Arc<ConnectionLog>,
}

/// How connections reach the gate.
enum Front {
    /// The sandbox intercepts them.
    Seen(Arc<dyn Gatekeeper>),
    /// The command uses a proxy.
    Asked(Proxy),
}

impl Guard {
    /// The gatekeeper, for a sandbox that intercepts connections.
    pub(crate) fn gatekeeper(&self) -> Option<Arc<dyn Gatekeeper>> {
        match &self.front {
            Front::Seen(gatekeeper) => Some(Arc::clone(gatekeeper)),
            Front::Asked(_) => None,
        }
    }

    /// The proxy's endpoint, for the command.
    pub(crate) fn proxy(&self) -> Option<ProxyEndpoint> {
        match &self.front {
            Front::Seen(_) => None,
            Front::Asked(proxy) => Some(ProxyEndpoint { address: proxy.address(), variables: proxy.environment() }),
        }
    }

    /// Ends with the run, which had these permissions, and returns the denials.
    pub(crate) async fn end(self, held: &Permissions) -> Vec<Violation> {
        match self.front {
            Front::Seen(gatekeeper) => drop(gatekeeper),
            Front::Asked(proxy) => proxy.end().await,
        }
        self.log.finish();
        self.log.violations().into_iter().map(|seen| without_own_socket(held, seen)).collect()
    }
}

/// A denied connection to a socket of Stockade's own: no flag grants it, so none is advised.
fn without_own_socket(held: &Permissions, violation: Violation) -> Violation {
    let Some(PermissionAmendment::UnixSocket(path)) = &violation.amendment else { return violation };
    let more = Permissions { unix_sockets: [path.clone()].into(), ..held.clone() };
    if check_sockets(&more).is_ok() { violation } else { Violation { amendment: None, ..violation } }
}

/// The network rules of the rules files for the gate. No rule, in any file, grants more than the administrator's
/// maximum.
pub(crate) fn named_rules(rules: &RuleStore, session: &Session) -> Vec<NamedRule> {
    let policy = rules.policy();
    let within = |rule: &stockade_execpolicy::NetworkRule| {
        let (within, origin) = (session.within_maximum(&HostRule::from(rule)), rule.origin().to_string());
        within.into_iter().map(move |rule| NamedRule { rule, origin: origin.clone() })
    };
    policy.network_rules().iter().flat_map(within).collect()
}

/// The permissions for a sandbox that intercepts connections: host rules include those of the rules files, since some
/// hosts need preparation before they are connected to.
pub(crate) fn with_named_rules(permissions: &Permissions, ctx: &ToolContext<'_>) -> Permissions {
    let mut permissions = permissions.clone();
    if let NetworkPolicy::Hosts(hosts) = &mut permissions.network {
        hosts.rules.extend(named_rules(ctx.rules, ctx.session).into_iter().map(|named| named.rule));
    }
    permissions
}

/// The hosts that the rules files forbid.
pub(crate) fn forbidden_by(rules: &RuleStore) -> Vec<HostRule> {
    let policy = rules.policy();
    policy.network_rules().iter().map(HostRule::from).filter(|rule| rule.decision == Decision::Forbidden).collect()
}

impl Connections {
    /// The guard of a run with these permissions; `None` if there is nothing to decide.
    pub(crate) async fn guard(
        &self,
        (permissions, confinement): (&Permissions, Confinement),
        ctx: &ToolContext<'_>,
        clock: &Clock,
    ) -> io::Result<Option<Guard>> {
        let decides = matches!(permissions.network, NetworkPolicy::Hosts(_)) || !permissions.unix_sockets.is_empty();
        // Nothing is enforced for a run without a sandbox.
        if !decides || confinement == Confinement::None {
            return Ok(None);
        }
        let log = Arc::new(ConnectionLog::new(self.trail.clone()));
        let rules = Rules::new(permissions.network.clone(), named_rules(&self.rules, ctx.session));
        let records = Arc::clone(&log) as Arc<dyn Records>;
        let gate = self.gate_with(rules, ctx.session.network_bound(), clock, Arc::new(SystemResolver), records);
        let front = match proxied(ctx.sandbox, permissions) {
            Some(_) => Front::Asked(Proxy::start(gate).await?),
            None => Front::Seen(Arc::new(Transparent::new(gate, Handle::current()))),
        };
        Ok(Some(Guard { front, log }))
    }

    fn gate_with(
        &self,
        rules: Rules,
        bound: NetworkBound,
        clock: &Clock,
        resolver: Arc<dyn Resolver>,
        records: Arc<dyn Records>,
    ) -> Arc<Gate> {
        let approvals = if approvals_count(self.ask) {
            let patience = self.approvals.answer_limit + ASSESSMENT_LIMIT + Duration::from_secs(5);
            let person = || Person { connections: self.for_person(), bound: bound.clone(), clock: clock.clone() };
            let person = || Arc::new(person());
            Arc::clone(self.questions.get_or_init(|| NetworkApprovals::asking(person(), patience)))
        } else {
            NetworkApprovals::never()
        };
        Gate::new(rules, approvals, resolver, Arc::new(BoundRecords { records, bound }))
    }

    /// A copy without the questions, which own it.
    fn for_person(&self) -> Self {
        Self { questions: Arc::default(), ..self.clone() }
    }
}

const INTERRUPTED: &str = "a signal for the command ended the question";
const BEYOND_MAXIMUM: &str = "the administrator's maximum does not allow it";

/// Records the administrator's maximum as the reason for denials of destinations beyond it. No amendment is proposed for
/// them: none would help.
struct BoundRecords {
    records: Arc<dyn Records>,
    bound: NetworkBound,
}

impl Records for BoundRecords {
    fn decided(&self, mut event: AuditEvent) -> Result<(), NotRecorded> {
        if let AuditEvent::Connected { destination, decision: Decision::Forbidden, source, .. } = &mut event
            && matches!(source, DecisionSource::Reviewer | DecisionSource::ApprovalPolicy)
            && self.bound.forbids(destination)
        {
            *source = DecisionSource::Rule(String::from("the administrator's maximum"));
        }
        self.records.decided(event)
    }

    fn denied(&self, mut violation: Violation) {
        if let ViolationTarget::Destination(destination) = &violation.target
            && self.bound.forbids(destination)
        {
            violation.amendment = None;
            if violation.rule == Some(DenyingRule::NotGranted) {
                violation.rule = Some(DenyingRule::Layer { reason: String::from(BEYOND_MAXIMUM) });
            }
        }
        self.records.denied(violation);
    }
}

/// Asks for a run, whose clock is paused meanwhile.
struct Person {
    connections: Connections,
    bound: NetworkBound,
    clock: Clock,
}

impl Ask for Person {
    fn ask(&self, question: NetworkApproval) -> BoxFuture<'_, ReviewDecision> {
        Box::pin(async move {
            let destination =
                Destination { host: question.host.clone(), protocol: question.protocol, port: question.port };
            if self.bound.forbids(&destination) {
                return ReviewDecision::Denied { reason: Some(String::from(BEYOND_MAXIMUM)) };
            }
            let _pause = self.clock.pause();
            let Connections { approvals, rules, trail, answers, .. } = &self.connections;
            let mut question = question;
            if !rules.can_save() {
                question.proposed_network_policy_amendments.clear();
            }
            let key = ApprovalKey::Destination(destination);
            tokio::select! {
                biased;
                () = answers.declined() => ReviewDecision::DeniedForRun,
                () = answers.interrupted() => ReviewDecision::Denied { reason: Some(String::from(INTERRUPTED)) },
                decision = approvals.ask_destination(key, ApprovalSubject::Network(question), trail) => decision,
            }
        })
    }

    /// An earlier yes does not count beyond the bound, which may have been lowered since. Special addresses are excepted:
    /// they are recalled only for a name that leads to them, and the bound speaks of that name.
    fn recall(&self, destination: &Destination) -> Option<Decision> {
        let recalled = self.connections.approvals.memory.destination(destination)?;
        let exceeds = recalled != Decision::Forbidden && self.bound.forbids(destination);
        (!exceeds || destination.host.is_special()).then_some(recalled)
    }

    fn remember(&self, destination: &Destination, decision: Decision) {
        self.connections.approvals.memory.remember_destination(destination, decision);
    }

    fn save(&self, amendment: &NetworkPolicyAmendment) {
        self.connections.rules.save_network(amendment);
    }

    fn decline_rest(&self) {
        self.connections.answers.decline_rest();
    }

    fn declines_rest(&self) -> bool {
        self.connections.answers.declines_rest()
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use stockade_execpolicy::{Layer, Policy};
    use stockade_network_proxy::LocalNetworks;
    use stockade_protocol::{
        ApprovalRequest, EscalationExecution, HostName, HostPaths, HostRules, NetworkPolicyRuleAction, NetworkProtocol,
        SandboxPolicy,
    };
    use stockade_sandboxing::Attempt;

    use super::*;
    use crate::OffNetwork;
    use crate::audit_log::AuditLog;
    use crate::{Answer, Approver, AuditDemand, NoAudit, Unanswered};

    fn rules(text: &str) -> RuleStore {
        RuleStore::new(Policy::parse("t.rules", text, Layer::User).unwrap())
    }

    fn hosts(list: &[(&str, Decision)]) -> NetworkPolicy {
        let rule = |(host, decision): &(&str, Decision)| HostRule {
            host: host.parse().unwrap(),
            protocol: None,
            port: None,
            decision: *decision,
        };
        hosts_of(list.iter().map(rule).collect())
    }

    fn hosts_of(rules: Vec<HostRule>) -> NetworkPolicy {
        NetworkPolicy::Hosts(HostRules { rules, ..HostRules::default() })
    }

    fn session(sandbox: SandboxPolicy, network: NetworkPolicy) -> Session {
        let host = HostPaths::without_masks(["/repo".parse().unwrap()]);
        let mut session = Session::new("t".parse().unwrap(), AskForApproval::Never, sandbox, &host).unwrap();
        session.permissions.network = network;
        session
    }

    fn decide(session: &Session, rules: &RuleStore, host: &str) -> Decision {
        let network = session.bounded(&session.permissions).network;
        let destination = Destination { host: host.parse().unwrap(), protocol: NetworkProtocol::Https, port: 443 };
        if session.network_bound().forbids(&destination) {
            return Decision::Forbidden;
        }
        Rules::new(network, named_rules(rules, session)).decide(&destination, &LocalNetworks::default()).decision
    }

    fn connections(approver: &Arc<Says>, saved: &std::path::Path) -> Connections {
        Connections {
            approvals: Arc::new(Approvals::new(Arc::clone(approver) as Arc<dyn Approver>)),
            rules: Arc::new(RuleStore::default().saving_to(saved.to_owned())),
            trail: AuditLog { sink: Arc::new(NoAudit), demand: AuditDemand::default() }
                .begin(&"t".parse().unwrap(), &"r".parse().unwrap()),
            ask: AskForApproval::OnRequest,
            answers: Arc::default(),
            questions: Arc::default(),
            sandbox: Arc::new(stockade_sandboxing::Bare),
        }
    }

    /// Answers as it is told, and counts.
    struct Says(fn(&ApprovalRequest) -> ReviewDecision, AtomicUsize);

    #[async_trait::async_trait]
    impl Approver for Says {
        async fn review(&self, request: Arc<ApprovalRequest>) -> Result<Answer, Unanswered> {
            self.1.fetch_add(1, Ordering::Relaxed);
            Ok((self.0)(&request).into())
        }
    }

    /// Nothing has to be looked up.
    struct Names;

    impl Resolver for Names {
        fn resolve(&self, _: HostName) -> BoxFuture<'_, io::Result<Vec<IpAddr>>> {
            Box::pin(async { Ok(vec![IpAddr::from([93, 184, 216, 34])]) })
        }
    }

    /// Every run has its own gate, and the session one memory, which can be listed and cleared.
    #[tokio::test]
    async fn runs_of_a_session_share_one_memory_of_destinations() {
        let amended = |request: &ApprovalRequest| {
            let is_denial = |decision: &&ReviewDecision| {
                matches!(decision, ReviewDecision::NetworkPolicyAmendment { network_policy_amendment: amendment }
                    if amendment.action == NetworkPolicyRuleAction::Deny)
            };
            request.available_decisions.iter().find(is_denial).unwrap().clone()
        };
        let saved = tempfile::NamedTempFile::new().unwrap();
        for (says, admits) in
            [((|_: &ApprovalRequest| ReviewDecision::ApprovedForSession) as fn(&_) -> _, true), (amended, false)]
        {
            let approver = Arc::new(Says(says, AtomicUsize::new(0)));
            let connections = connections(&approver, saved.path());
            let attempt = || async {
                let rules = Rules::new(hosts(&[]), Vec::new());
                let bound = NetworkBound::default();
                let gate = connections.gate_with(rules, bound, &Clock::new(), Arc::new(Names), Arc::new(()));
                let (host, protocol) = ("a.test".parse().unwrap(), Some(NetworkProtocol::Https));
                gate.admit(Attempt { host, port: 443, protocol, pid: None, program: None }).await.is_ok()
            };
            assert_eq!((attempt().await, attempt().await), (admits, admits));
            assert_eq!(approver.1.load(Ordering::Relaxed), 1);
            assert_eq!(connections.approvals.memory.all().len(), usize::from(admits));
            connections.approvals.memory.forget_all();
            assert_eq!(attempt().await, admits);
            assert_eq!(approver.1.load(Ordering::Relaxed), 2);
        }
    }

    /// Collects denials and the sources of decisions.
    #[derive(Default)]
    struct Seen(std::sync::Mutex<(Vec<Violation>, Vec<DecisionSource>)>);

    impl Records for Seen {
        fn decided(&self, event: AuditEvent) -> Result<(), NotRecorded> {
            if let AuditEvent::Connected { source, .. } = event {
                self.0.lock().unwrap().1.push(source);
            }
            Ok(())
        }

        fn denied(&self, violation: Violation) {
            self.0.lock().unwrap().0.push(violation);
        }
    }

    /// Beyond the administrator's hosts no question is asked, an earlier yes does not count, nothing is saved, and no
    /// amendment is proposed.
    #[tokio::test]
    async fn no_answer_exceeds_the_maximum() {
        let saved = tempfile::NamedTempFile::new().unwrap();
        let always = |request: &ApprovalRequest| {
            let is_grant = |decision: &&ReviewDecision| {
                matches!(decision, ReviewDecision::NetworkPolicyAmendment { network_policy_amendment: amendment }
                    if amendment.action == NetworkPolicyRuleAction::Allow)
            };
            request.available_decisions.iter().find(is_grant).unwrap().clone()
        };
        let mut bounded = session(SandboxPolicy::workspace_write(), hosts(&[]));
        let network = hosts(&[("*.corp.test", Decision::Allow)]);
        bounded.maximum = Some(Permissions { network, ..bounded.permissions.clone() });
        for says in [
            (|_: &ApprovalRequest| ReviewDecision::Approved) as fn(&_) -> _,
            |_| ReviewDecision::ApprovedForSession,
            always,
        ] {
            for ask in [AskForApproval::OnRequest, AskForApproval::Never] {
                let approver = Arc::new(Says(says, AtomicUsize::new(0)));
                let connections = Connections { ask, ..connections(&approver, saved.path()) };
                let seen = Arc::new(Seen::default());
                let attempt = async |host: &str| {
                    let rules = Rules::new(bounded.held_network(&hosts(&[])), Vec::new());
                    let records = Arc::clone(&seen) as Arc<dyn Records>;
                    let bound = bounded.network_bound();
                    let gate = connections.gate_with(rules, bound, &Clock::new(), Arc::new(Names), records);
                    let (host, protocol) = (host.parse().unwrap(), Some(NetworkProtocol::Https));
                    gate.admit(Attempt { host, port: 443, protocol, pid: None, program: None }).await.is_ok()
                };
                let remembered =
                    Destination { host: "old.test".parse().unwrap(), protocol: NetworkProtocol::Https, port: 443 };
                connections.approvals.memory.remember_destination(&remembered, Decision::Allow);
                for host in ["evil.test", "old.test", "corp.test", "93.184.216.34"] {
                    assert!(!attempt(host).await, "{host}");
                }
                assert_eq!(approver.1.load(Ordering::Relaxed), 0);
                {
                    let (denied, sources) = &*seen.0.lock().unwrap();
                    assert_eq!((denied.len(), sources.len()), (4, 4));
                    let is_named = |rule: &Option<DenyingRule>| matches!(rule, Some(DenyingRule::Layer { reason }) if reason == BEYOND_MAXIMUM);
                    assert!(denied.iter().all(|denied| denied.amendment.is_none() && is_named(&denied.rule)));
                    let maximum = DecisionSource::Rule(String::from("the administrator's maximum"));
                    assert!(sources.iter().all(|source| *source == maximum), "{sources:?}");
                }
                let asks = ask != AskForApproval::Never;
                assert_eq!(attempt("git.corp.test").await, asks);
                assert_eq!(approver.1.load(Ordering::Relaxed), usize::from(asks));
            }
        }
        let rules = std::fs::read_to_string(saved.path()).unwrap();
        assert!(rules.contains("git.corp.test") && !rules.contains("evil.test"), "{rules}");
    }

    /// Whatever intersects with a bound by name leaves nothing that could be asked for.
    #[test]
    fn a_bound_without_hosts_allows_none() {
        let mut session = session(SandboxPolicy::workspace_write(), hosts(&[]));
        let network = hosts(&[("*.corp.test", Decision::Allow)]);
        session.maximum = Some(Permissions { network, ..session.permissions.clone() });
        let request = Permissions { network: hosts(&[]), ..session.permissions.clone() };
        session.maximum = Some(session.bounded(&request));
        assert_eq!(decide(&session, &rules(""), "evil.test"), Decision::Forbidden);
    }

    /// Only an unset network is asked for, and only if a denial leads to a question.
    #[test]
    fn a_network_that_is_off_for_want_of_a_word_is_asked_for() {
        let held = |change: &dyn Fn(&mut Session)| {
            let mut off = session(SandboxPolicy::workspace_write(), NetworkPolicy::Off);
            (off.off_network, off.ask) = (OffNetwork::Asks, AskForApproval::OnFailure);
            change(&mut off);
            off.held_network(&off.permissions.network)
        };
        assert_eq!(held(&|_| ()), hosts(&[]));
        assert_eq!(held(&|off| off.ask = AskForApproval::Untrusted), hosts(&[]));
        for ask in [AskForApproval::OnRequest, AskForApproval::Never, AskForApproval::Reject(Default::default())] {
            assert_eq!(held(&|off| off.ask = ask), NetworkPolicy::Off, "{ask:?}");
        }
        assert_eq!(held(&|off| off.off_network = OffNetwork::Denies), NetworkPolicy::Off);
        assert_eq!(held(&|off| off.maximum = Some(Permissions::default())), NetworkPolicy::Off);
        let evil = hosts(&[("evil.test", Decision::Forbidden)]);
        assert_eq!(
            held(&|off| off.maximum = Some(Permissions { network: evil.clone(), ..off.permissions.clone() })),
            evil
        );
        let NetworkPolicy::Hosts(forbidden) = evil.clone() else { panic!() };
        assert_eq!(held(&|off| off.forbidden_hosts = forbidden.rules.clone()), evil);
        assert_eq!(held(&|off| off.permissions.network = NetworkPolicy::Full), NetworkPolicy::Full);
        // A policy that a client sets says what the network is.
        let other = SandboxPolicy::ReadOnly { access: Default::default(), network_access: false };
        assert_eq!(held(&|off| *off = off.with_policy(off.ask, other.clone()).unwrap()), NetworkPolicy::Off);
    }

    /// A user's rule is not the administrator's word.
    #[test]
    fn a_rule_grants_no_more_than_the_maximum() {
        let allowing =
            |host: &str| rules(&format!("network_rule(host={host:?}, protocol=\"https\", decision=\"allow\")\n"));
        let asking = rules("network_rule(host=\"169.254.169.254\", protocol=\"https\", decision=\"prompt\")\n");
        let mut session = session(SandboxPolicy::workspace_write(), hosts(&[]));
        assert_eq!(decide(&session, &allowing("evil.test"), "evil.test"), Decision::Allow);
        assert_eq!(decide(&session, &asking, "169.254.169.254"), Decision::Prompt);
        let network = hosts(&[("*.corp.test", Decision::Allow), ("bad.corp.test", Decision::Forbidden)]);
        session.maximum = Some(Permissions { network, ..session.permissions.clone() });
        assert_eq!(decide(&session, &allowing("git.corp.test"), "git.corp.test"), Decision::Allow);
        assert_eq!(decide(&session, &allowing("bad.corp.test"), "bad.corp.test"), Decision::Forbidden);
        assert_eq!(decide(&session, &rules(""), "git.corp.test"), Decision::Prompt);
        assert_eq!(decide(&session, &allowing("evil.test"), "evil.test"), Decision::Forbidden);
        assert_eq!(decide(&session, &rules(""), "evil.test"), Decision::Forbidden);
        assert_eq!(decide(&session, &allowing("169.254.169.254"), "169.254.169.254"), Decision::Forbidden);
        assert_eq!(decide(&session, &asking, "169.254.169.254"), Decision::Forbidden);
    }

    /// `explain` says that it is forbidden, so it has to be.
    #[test]
    fn a_host_that_a_rule_forbids_is_forbidden_to_an_open_network_too() {
        let forbidding = rules("network_rule(host=\"evil.test\", protocol=\"https\", decision=\"deny\")\n");
        for network in [NetworkPolicy::Full, hosts(&[("evil.test", Decision::Allow)])] {
            let mut session = session(SandboxPolicy::workspace_write(), network);
            session.forbidden_hosts = forbidden_by(&forbidding);
            session.permissions.network = session.with_denied_hosts(session.permissions.network.clone());
            assert!(session.must_confine().is_some());
            let evil = "evil.test".parse().unwrap();
            assert_eq!(session.permissions.connect(&evil, NetworkProtocol::Https, 443), Decision::Forbidden);
            assert_eq!(decide(&session, &forbidding, "evil.test"), Decision::Forbidden);
        }
        let mut off = session(SandboxPolicy::workspace_write(), NetworkPolicy::Off);
        off.forbidden_hosts = forbidden_by(&forbidding);
        assert_eq!(off.with_denied_hosts(NetworkPolicy::Off), NetworkPolicy::Off);
        assert!(off.must_confine().is_some(), "without the sandbox the host would be reached");
        let (unsandboxed, _) = crate::approvals::execution(&off, &EscalationExecution::Unsandboxed).unwrap();
        assert_eq!(unsandboxed.network, hosts_of(off.forbidden_hosts.clone()));
        let mut open = session(SandboxPolicy::DangerFullAccess {}, NetworkPolicy::Full);
        open.forbidden_hosts = forbidden_by(&forbidding);
        assert_eq!(open.with_denied_hosts(NetworkPolicy::Full), NetworkPolicy::Full, "it means what it says");
        assert!(open.must_confine().is_none());
        let allowing = rules("network_rule(host=\"evil.test\", protocol=\"https\", decision=\"allow\")\n");
        assert_eq!(forbidden_by(&allowing), []);
    }
}
