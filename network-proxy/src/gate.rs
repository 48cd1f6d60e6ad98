//! The gate: the only path from a connection attempt to addresses that may be dialled.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use stockade_protocol::{
    Decision, DecisionSource, DenyingRule, Destination, Host, HttpMethods, NetworkProtocol, RawText, Violation,
};
use stockade_sandboxing::Attempt;

use crate::approvals::{Answered, Topic};
use crate::look_ups::LookUps;
use crate::record::{connected, violation};
use crate::rules::{NamedRule, Ruling};
use crate::{Approvals, Denied, LocalNetworks, NotRecorded, Records, Resolver, Rules};

/// Decides on the connections of one command.
pub struct Gate {
    rules: Rules,
    approvals: Arc<Approvals>,
    look_ups: LookUps,
    records: Arc<dyn Records>,
}

/// A connection that may be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admitted {
    /// The destination.
    pub destination: Destination,
    /// The checked addresses. Only these may be dialled; the name is not resolved again.
    pub addresses: Vec<SocketAddr>,
}

/// Limit on addresses per name; clients try fewer.
const MOST_ADDRESSES: usize = 16;

/// Why link-local IPv6 addresses are refused.
const LINK_LOCAL: &str = "a link-local address leads nowhere without its interface, which no host rule can name: use \
    another address of the host, or `--network full`";

/// Whether an address denotes a different host on each interface
/// ([RFC 4007](https://www.rfc-editor.org/rfc/rfc4007#section-6)).
fn needs_scope(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

impl Gate {
    /// A gate that applies these rules and asks, resolves and records through the other arguments.
    pub fn new(
        rules: Rules,
        approvals: Arc<Approvals>,
        resolver: Arc<dyn Resolver>,
        records: Arc<dyn Records>,
    ) -> Arc<Self> {
        Arc::new(Self { rules, approvals, look_ups: LookUps::new(resolver), records })
    }

    /// Which HTTP requests pass.
    pub fn methods(&self) -> HttpMethods {
        self.rules.methods()
    }

    /// Decides, asks if necessary, resolves the name, and checks every address.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use stockade_network_proxy::{Approvals, Gate, Rules, SystemResolver};
    /// use stockade_protocol::{HostRules, NetworkPolicy};
    /// use stockade_sandboxing::Attempt;
    ///
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    /// # runtime.block_on(async {
    /// let rules = Rules::new(NetworkPolicy::Hosts(HostRules::default()), Vec::new());
    /// let gate = Gate::new(rules, Approvals::never(), Arc::new(SystemResolver), Arc::new(()));
    /// let attempt = Attempt { host: "evil.test".parse().unwrap(), port: 8080, protocol: None, pid: None, program: None };
    /// let denied = gate.admit(attempt).await.unwrap_err();
    /// assert!(denied.to_string().contains("`evil.test:8080`"));
    /// # });
    /// ```
    pub async fn admit(&self, attempt: Attempt) -> Result<Admitted, Denied> {
        let Attempt { host, port, protocol, pid, program } = attempt;
        let protocol = protocol.unwrap_or_else(|| self.rules.protocol(&host, port));
        let destination = Destination { host, protocol, port };
        let who = (pid, program);
        if matches!(&destination.host, Host::Address(address) if needs_scope(*address)) {
            return Err(self.refuse(destination, LINK_LOCAL));
        }
        let source = self.settle(&destination, &who).await?;
        let addresses = self.addresses(&destination, &who).await?;
        match self.records.decided(connected(&destination, Decision::Allow, source)) {
            Ok(()) => Ok(Admitted { destination, addresses }),
            Err(NotRecorded(why)) => Err(self.refuse(destination, &why)),
        }
    }

    /// Records a refusal decided by the caller.
    pub(crate) fn note_refusal(&self, violation: Violation) {
        self.records.denied(violation);
    }

    /// Refuses a destination that a rule allows, because the request can't be inspected or is not permitted.
    pub(crate) fn refuse(&self, destination: Destination, reason: &str) -> Denied {
        let rule = DenyingRule::Layer { reason: reason.to_owned() };
        let source = DecisionSource::Rule(reason.to_owned());
        self.record_denial(&destination, source);
        let mut found = violation(&destination, rule.clone(), None, (None, None));
        // No amendment: the kind of request is refused, not the host.
        found.amendment = None;
        self.records.denied(found);
        Denied::Refused { destination, rule, why: reason.to_owned() }
    }

    fn record_denial(&self, destination: &Destination, source: DecisionSource) {
        // A denial stands even if it can't be recorded.
        self.records.decided(connected(destination, Decision::Forbidden, source)).ok();
    }

    /// By rule, from memory, or by asking.
    async fn settle(
        &self,
        destination: &Destination,
        who: &(Option<u32>, Option<RawText>),
    ) -> Result<DecisionSource, Denied> {
        let local = LocalNetworks::now();
        let Ruling { decision, rule } = self.rules.decide(destination, &local);
        let named = rule.as_ref().map(|named| DecisionSource::Rule(named.origin.clone()));
        let denying = rule.as_ref().map_or(DenyingRule::NotGranted, |named| DenyingRule::Network(named.rule.clone()));
        match decision {
            Decision::Allow => Ok(named.unwrap_or_else(|| DecisionSource::Rule(String::from("the network is open")))),
            Decision::Forbidden => {
                let why = forbidden(destination, rule.as_ref(), &local);
                let source = named.unwrap_or_else(|| DecisionSource::Rule(why.clone()));
                Err(self.deny(destination, denying, None, source, why, who))
            }
            Decision::Prompt => {
                let topic = Topic { destination: destination.clone(), leads_to: Vec::new() };
                let no = match asked(self.approvals.settle(&topic, who.1.clone()).await) {
                    Ok(source) => return Ok(source),
                    Err(no) => no,
                };
                let (why, source) = no.unwrap_or_else(|| {
                    (
                        String::from("no rule allows it, and the approval policy does not ask"),
                        DecisionSource::ApprovalPolicy,
                    )
                });
                Err(self.deny(destination, denying, None, source, why, who))
            }
        }
    }

    /// The addresses that may be dialled; the others are dropped.
    async fn addresses(
        &self,
        destination: &Destination,
        who: &(Option<u32>, Option<RawText>),
    ) -> Result<Vec<SocketAddr>, Denied> {
        let found = match &destination.host {
            Host::Address(address) => vec![*address],
            Host::Name(name) => match self.look_ups.addresses(name).await {
                Ok(found) if !found.is_empty() => found,
                Ok(_) => return Err(self.unreachable(destination, "it has no address", who)),
                Err(error) => return Err(self.unreachable(destination, &format!("its look-up failed: {error}"), who)),
            },
        };
        let (mut refused, mut unnamed, local) = (None, Vec::new(), LocalNetworks::now());
        let may_dial = |address: &IpAddr| match self.rules.may_dial(destination, *address, &local) {
            Ok(()) if !needs_scope(*address) => true,
            Ok(()) => {
                refused.get_or_insert((DenyingRule::Layer { reason: LINK_LOCAL.to_owned() }, *address));
                false
            }
            Err(rule) => {
                if matches!(rule, DenyingRule::Layer { .. }) && local.can_be_asked_for(*address) {
                    unnamed.push(*address);
                }
                refused.get_or_insert((rule, *address));
                false
            }
        };
        let addresses: Vec<IpAddr> = found.into_iter().filter(may_dial).take(MOST_ADDRESSES).collect();
        match refused {
            Some((rule, address)) if addresses.is_empty() => {
                let why = match &rule {
                    DenyingRule::Command { reason } | DenyingRule::Layer { reason } => reason.clone(),
                    DenyingRule::Network(_) | DenyingRule::File(_) | DenyingRule::NotGranted => {
                        format!("it leads to {address}, which a rule does not allow")
                    }
                };
                let (why, source) = match self.settle_local(destination, &unnamed, who).await {
                    Ok(approved) => return Ok(with_port(approved, destination.port)),
                    Err(Some(no)) => no,
                    Err(None) => (why.clone(), DecisionSource::Rule(why)),
                };
                Err(self.deny(destination, rule, Some(address), source, why, who))
            }
            Some(_) | None => Ok(with_port(addresses, destination.port)),
        }
    }

    /// Asks about local-network addresses that an allowed name resolves to. `Err(None)` if no question was asked.
    async fn settle_local(
        &self,
        destination: &Destination,
        addresses: &[IpAddr],
        who: &(Option<u32>, Option<RawText>),
    ) -> Result<Vec<IpAddr>, Option<(String, DecisionSource)>> {
        let addresses: Vec<IpAddr> = addresses.iter().copied().take(MOST_ADDRESSES).collect();
        if addresses.is_empty() {
            return Err(None);
        }
        let mut leads_to: Vec<Host> = addresses.iter().copied().map(Host::from).collect();
        leads_to.sort();
        leads_to.dedup();
        let topic = Topic { destination: destination.clone(), leads_to };
        asked(self.approvals.settle(&topic, who.1.clone()).await).map(|_| addresses)
    }

    fn deny(
        &self,
        destination: &Destination,
        rule: DenyingRule,
        address: Option<IpAddr>,
        source: DecisionSource,
        why: String,
        who: &(Option<u32>, Option<RawText>),
    ) -> Denied {
        self.record_denial(destination, source);
        self.records.denied(violation(destination, rule.clone(), address, who.clone()));
        Denied::Refused { destination: destination.clone(), rule, why }
    }

    /// Denies a name that can't be resolved; it is never passed on to another resolver.
    fn unreachable(&self, destination: &Destination, why: &str, who: &(Option<u32>, Option<RawText>)) -> Denied {
        let rule = DenyingRule::Layer { reason: why.to_owned() };
        let source = DecisionSource::Rule(why.to_owned());
        self.record_denial(destination, source);
        let mut found = violation(destination, rule, None, who.clone());
        found.amendment = None;
        self.records.denied(found);
        Denied::Unreachable { destination: destination.clone(), why: why.to_owned() }
    }
}

fn with_port(addresses: Vec<IpAddr>, port: u16) -> Vec<SocketAddr> {
    addresses.into_iter().map(|address| SocketAddr::new(address, port)).collect()
}

/// The source of an approval, or the reason of a denial; `Err(None)` if questions are disabled.
fn asked(answered: Answered) -> Result<DecisionSource, Option<(String, DecisionSource)>> {
    match answered {
        Answered::Approved => Ok(DecisionSource::Reviewer),
        Answered::Remembered(Decision::Allow) => Ok(DecisionSource::SessionMemory),
        Answered::Remembered(Decision::Prompt | Decision::Forbidden) => {
            Err(Some((String::from("it was denied for good"), DecisionSource::SessionMemory)))
        }
        Answered::Refused(why) => Err(Some((why, DecisionSource::Reviewer))),
        Answered::NotAsked => Err(None),
    }
}

fn forbidden(destination: &Destination, rule: Option<&NamedRule>, local: &LocalNetworks) -> String {
    match rule {
        Some(named) => format!("{} forbids it", named.origin),
        None if local.is_special(&destination.host) => format!(
            "{} is on this machine, a local network or a metadata service, which is refused unless it is named",
            destination.host
        ),
        None => String::from("the network is off"),
    }
}

/// `protocol` is `None` for an uninspected stream: the rules then choose one.
pub(crate) fn attempt(host: Host, port: u16, protocol: Option<NetworkProtocol>) -> Attempt {
    Attempt { host, port, protocol, pid: None, program: None }
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("rules", &self.rules).finish_non_exhaustive()
    }
}
