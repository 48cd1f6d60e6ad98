//! Reports of network decisions.

use stockade_protocol::{
    AuditEvent, Decision, DecisionSource, DenyingRule, Destination, Evidence, Host, HostPattern, HostRule, Operation,
    PermissionAmendment, RawText, Violation, ViolationTarget,
};

/// Why a decision was not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRecorded(pub String);

/// Receives every decision. A record has the host, the port, the protocol, the decision and its source; never a URL, a
/// path, a header or a body, which this crate does not store.
pub trait Records: Send + Sync {
    /// Records a decision, as [`AuditEvent::Connected`]. An allowed connection is made after this has returned, and
    /// not at all if it fails.
    fn decided(&self, event: AuditEvent) -> Result<(), NotRecorded>;

    /// Reports a denied connection, with the narrowest rule that would allow it.
    fn denied(&self, violation: Violation);
}

/// Discards everything.
impl Records for () {
    fn decided(&self, _: AuditEvent) -> Result<(), NotRecorded> {
        Ok(())
    }

    fn denied(&self, _: Violation) {}
}

pub(crate) fn connected(destination: &Destination, decision: Decision, source: DecisionSource) -> AuditEvent {
    AuditEvent::Connected { destination: destination.clone(), decision, source, times: 1 }
}

/// The violation of a denied connection. `address` has to be allowed in addition to the name.
pub(crate) fn violation(
    destination: &Destination,
    rule: DenyingRule,
    address: Option<std::net::IpAddr>,
    who: (Option<u32>, Option<RawText>),
) -> Violation {
    let host = address.map_or_else(|| destination.host.clone(), Host::from);
    let least = HostRule {
        host: HostPattern::Exact(host),
        protocol: Some(destination.protocol),
        port: Some(destination.port),
        decision: Decision::Allow,
    };
    // A forbidding rule overrides an allowing one, so no amendment would help.
    let is_forbidden = matches!(&rule, DenyingRule::Network(rule) if rule.decision == Decision::Forbidden);
    // A link-local address is useless without its interface.
    let needs_scope = matches!(&least.host, HostPattern::Exact(Host::Address(std::net::IpAddr::V6(address)))
        if address.is_unicast_link_local());
    let helps = !is_forbidden && !needs_scope;
    Violation {
        operation: Operation::Connect,
        target: ViolationTarget::Destination(destination.clone()),
        evidence: Evidence::Observed,
        pid: who.0,
        program: who.1,
        rule: Some(rule),
        amendment: helps.then_some(PermissionAmendment::Network(least)),
    }
}
