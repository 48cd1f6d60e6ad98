//! The policy's and the rules' decision on a destination: pure, and evaluated before any question.
//!
//! The permissions' [`NetworkPolicy`] and the network rules of the rules files form one list. The strictest rule that
//! matches a destination decides, as everywhere in Stockade.

use std::net::IpAddr;

use stockade_protocol::{
    Decision, DenyingRule, Destination, Host, HostRule, HttpMethods, NetworkPolicy, NetworkProtocol,
};

use crate::LocalNetworks;

/// A rule and its origin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedRule {
    /// The rule.
    pub rule: HostRule,
    /// Its origin, for messages: a file and a line, or the policy.
    pub origin: String,
}

/// All rules about destinations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    policy: NetworkPolicy,
    named: Vec<NamedRule>,
}

/// A decision and the rule behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// The decision.
    pub decision: Decision,
    /// The rule that decided; `None` if no rule matches.
    pub rule: Option<NamedRule>,
}

impl Rules {
    /// Combines a policy with the network rules of the rules files.
    ///
    /// ```
    /// use stockade_network_proxy::{LocalNetworks, Rules};
    /// use stockade_protocol::{Decision, Destination, HostRules, NetworkPolicy, NetworkProtocol};
    ///
    /// // An empty list allows nothing: what it does not name has to be asked for.
    /// let rules = Rules::new(NetworkPolicy::Hosts(HostRules::default()), Vec::new());
    /// let ask = |host: &str| rules.decide(&Destination {
    ///     host: host.parse().unwrap(), protocol: NetworkProtocol::Https, port: 443 }, &LocalNetworks::now()).decision;
    /// assert_eq!(ask("example.com"), Decision::Prompt);
    /// assert_eq!(ask("0xa9fea9fe"), Decision::Forbidden, "a metadata service, however it is spelled");
    /// ```
    pub fn new(policy: NetworkPolicy, named: Vec<NamedRule>) -> Self {
        Self { policy, named }
    }

    /// Decides about one destination.
    pub fn decide(&self, destination: &Destination, local: &LocalNetworks) -> Ruling {
        let Destination { host, protocol, port } = destination;
        if self.policy == NetworkPolicy::Off {
            return Ruling { decision: Decision::Forbidden, rule: None };
        }
        let rule = self.strictest(host, *protocol, *port);
        let unnamed = match &self.policy {
            NetworkPolicy::Full => Decision::Allow,
            NetworkPolicy::Hosts(_) if local.is_special(host) => Decision::Forbidden,
            NetworkPolicy::Hosts(_) => Decision::Prompt,
            NetworkPolicy::Off => Decision::Forbidden,
        };
        Ruling { decision: rule.as_ref().map_or(unnamed, |named| named.rule.decision), rule }
    }

    /// Whether an allowed name may be dialled at an address that it resolved to.
    ///
    /// An address of this machine, of its networks or of a metadata service needs a rule that allows the address
    /// itself, so that a name server can't point a name inside. The names of this machine (`localhost`) may resolve to
    /// it.
    pub fn may_dial(
        &self,
        destination: &Destination,
        address: IpAddr,
        local: &LocalNetworks,
    ) -> Result<(), DenyingRule> {
        let host = Host::from(address);
        if destination.host == host {
            return Ok(());
        }
        let rule = self.strictest(&host, destination.protocol, destination.port);
        match rule {
            Some(NamedRule { rule, .. }) if rule.decision == Decision::Allow => Ok(()),
            Some(NamedRule { rule, .. }) => Err(DenyingRule::Network(rule)),
            None if self.policy == NetworkPolicy::Full || !local.is_special(&host) => Ok(()),
            None if destination.host.is_special() && address.to_canonical().is_loopback() => Ok(()),
            None => Err(DenyingRule::Layer {
                reason: format!(
                    "{} leads to {host}, on this machine, a local network or a metadata service, which is refused \
                     unless the address itself is allowed",
                    destination.host
                ),
            }),
        }
    }

    /// The protocol of an uninspected stream: the one that a rule names together with the port, or else the usual one
    /// of the port.
    pub fn protocol(&self, host: &Host, port: u16) -> NetworkProtocol {
        let named = self.all().filter(|named| named.rule.port == Some(port) && named.rule.host.matches(host));
        let streams =
            named.filter_map(|named| named.rule.protocol).filter(|protocol| *protocol != NetworkProtocol::Udp);
        streams.min().unwrap_or(match port {
            80 => NetworkProtocol::Http,
            443 => NetworkProtocol::Https,
            _ => NetworkProtocol::Tcp,
        })
    }

    /// Which HTTP requests pass.
    pub fn methods(&self) -> HttpMethods {
        match &self.policy {
            NetworkPolicy::Hosts(rules) => rules.methods,
            NetworkPolicy::Off | NetworkPolicy::Full => HttpMethods::Any,
        }
    }

    fn strictest(&self, host: &Host, protocol: NetworkProtocol, port: u16) -> Option<NamedRule> {
        self.all().filter(|named| named.rule.matches(host, protocol, port)).max_by_key(|named| named.rule.decision)
    }

    fn all(&self) -> impl Iterator<Item = NamedRule> {
        let own = match &self.policy {
            NetworkPolicy::Hosts(rules) => rules.rules.as_slice(),
            NetworkPolicy::Off | NetworkPolicy::Full => &[],
        };
        let own = own.iter().map(|rule| NamedRule { rule: rule.clone(), origin: String::from("the network policy") });
        own.chain(self.named.iter().cloned())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stockade_protocol::HostRules;

    use super::*;

    fn rule(host: &str, protocol: Option<NetworkProtocol>, port: Option<u16>, decision: Decision) -> HostRule {
        HostRule { host: host.parse().unwrap(), protocol, port, decision }
    }

    fn hosts(rules: Vec<HostRule>) -> Rules {
        Rules::new(NetworkPolicy::Hosts(HostRules { rules, methods: HttpMethods::Any }), Vec::new())
    }

    fn to(host: &str, protocol: NetworkProtocol, port: u16) -> Destination {
        Destination { host: host.parse().unwrap(), protocol, port }
    }

    /// px04, px25: a host has one form, and a denial holds inside a wider grant.
    #[test]
    fn exact_below_and_within() {
        let rules = hosts(vec![
            rule("a.test", None, None, Decision::Allow),
            rule("*.b.test", None, None, Decision::Allow),
            rule("**.c.test", None, None, Decision::Allow),
            rule("bad.c.test", None, None, Decision::Forbidden),
        ]);
        for (host, decision) in [
            ("A.test.", Decision::Allow),
            ("x.a.test", Decision::Prompt),
            ("b.test", Decision::Prompt),
            ("x.y.b.test", Decision::Allow),
            ("c.test", Decision::Allow),
            ("x.c.test", Decision::Allow),
            ("bad.c.test", Decision::Forbidden),
            ("notc.test", Decision::Prompt),
        ] {
            assert_eq!(
                rules.decide(&to(host, NetworkProtocol::Tcp, 1), &LocalNetworks::default()).decision,
                decision,
                "{host}"
            );
        }
    }

    /// px09, px10: a grant is for a host, a protocol and a port.
    #[test]
    fn port_and_protocol_are_part_of_the_question() {
        let rules = hosts(vec![rule("a.test", Some(NetworkProtocol::Https), Some(443), Decision::Allow)]);
        assert_eq!(
            rules.decide(&to("a.test", NetworkProtocol::Https, 443), &LocalNetworks::default()).decision,
            Decision::Allow
        );
        assert_eq!(
            rules.decide(&to("a.test", NetworkProtocol::Https, 22), &LocalNetworks::default()).decision,
            Decision::Prompt
        );
        assert_eq!(
            rules.decide(&to("a.test", NetworkProtocol::Http, 443), &LocalNetworks::default()).decision,
            Decision::Prompt
        );
        assert_eq!(
            rules.decide(&to("a.test", NetworkProtocol::Udp, 443), &LocalNetworks::default()).decision,
            Decision::Prompt
        );
    }

    #[test]
    fn special_addresses_are_refused_in_every_spelling_unless_named() {
        let spellings = [
            "127.0.0.1",
            "2130706433",
            "0177.0.0.1",
            "0x7f.1",
            "127.1",
            "[::ffff:127.0.0.1]",
            "127.0.0.1.",
            "[::1]",
            "[fe80::1%eth0]",
            "169.254.169.254",
            "0xa9fea9fe",
            "10.0.0.1",
            "localhost",
            "LOCALHOST.",
            "x.localhost",
            "0",
            "[fd00:ec2::254]",
            "100.100.100.200",
            "168.63.129.16",
            "[64:ff9b::a83f:8110]",
        ];
        for host in spellings {
            let decision =
                |rules: &Rules| rules.decide(&to(host, NetworkProtocol::Http, 80), &LocalNetworks::default()).decision;
            assert_eq!(decision(&hosts(Vec::new())), Decision::Forbidden, "{host}");
            assert_eq!(decision(&Rules::default()), Decision::Forbidden, "{host}");
            if !host.contains('%') {
                assert_eq!(decision(&hosts(vec![rule(host, None, None, Decision::Allow)])), Decision::Allow, "{host}");
            }
        }
    }

    #[test]
    fn an_allowed_name_may_not_lead_inside() {
        let name = rule("a.test", None, None, Decision::Allow);
        let dial = |rules: Vec<HostRule>, host: &str, address: &str| {
            hosts(rules)
                .may_dial(&to(host, NetworkProtocol::Tcp, 80), address.parse().unwrap(), &LocalNetworks::default())
                .is_ok()
        };
        assert!(dial(vec![name.clone()], "a.test", "93.184.216.34"));
        for inside in
            ["127.0.0.1", "10.0.0.7", "169.254.169.254", "::1", "::ffff:10.0.0.7", "fd00::1", "64:ff9b::a00:1"]
        {
            assert!(!dial(vec![name.clone()], "a.test", inside), "{inside}");
            let both = vec![name.clone(), rule(inside, None, Some(80), Decision::Allow)];
            assert!(dial(both, "a.test", inside), "{inside}");
            let other_port = vec![name.clone(), rule(inside, None, Some(81), Decision::Allow)];
            assert!(!dial(other_port, "a.test", inside), "{inside}");
        }
        let denied = vec![name, rule("93.184.216.34", None, None, Decision::Forbidden)];
        assert!(!dial(denied, "a.test", "93.184.216.34"), "a denied address stays denied under any name");
        let local = vec![rule("localhost", None, None, Decision::Allow)];
        assert!(dial(local.clone(), "localhost", "127.0.0.1"));
        assert!(!dial(local.clone(), "localhost", "10.0.0.1"));
        let denied = [local, vec![rule("127.0.0.1", None, None, Decision::Forbidden)]].concat();
        assert!(!dial(denied.clone(), "localhost", "127.0.0.1") && dial(denied, "localhost", "::1"));
    }

    /// A public address can be this machine's, or its neighbour's.
    #[test]
    fn the_networks_of_this_machine_are_as_special_as_private_ones() {
        let local = LocalNetworks::of("11.22.33.44".parse().unwrap(), 24);
        let decide = |rules: &Rules, host: &str| rules.decide(&to(host, NetworkProtocol::Tcp, 80), &local).decision;
        let dial = |rules: &Rules, address: &str| {
            rules.may_dial(&to("a.test", NetworkProtocol::Tcp, 80), address.parse().unwrap(), &local).is_ok()
        };
        let allowed = hosts(vec![rule("a.test", None, None, Decision::Allow)]);
        for (host, is_inside) in [("11.22.33.44", true), ("11.22.33.9", true), ("11.22.34.9", false)] {
            let wanted = if is_inside { Decision::Forbidden } else { Decision::Prompt };
            assert_eq!(decide(&hosts(Vec::new()), host), wanted, "{host}");
            assert_eq!(dial(&allowed, host), !is_inside, "{host}");
            let named = [rule("a.test", None, None, Decision::Allow), rule(host, None, Some(80), Decision::Allow)];
            let named = hosts(named.to_vec());
            assert!(dial(&named, host) && decide(&named, host) == Decision::Allow, "{host}");
        }
        assert_eq!(decide(&Rules::new(NetworkPolicy::Full, Vec::new()), "11.22.33.44"), Decision::Allow);
    }

    /// A transparent connection shows the address of `localhost`, a proxied one the name.
    #[test]
    fn localhost_is_decided_as_its_addresses_are() {
        let all = ["localhost", "app.localhost", "127.0.0.1", "[::1]"];
        let decide = |rules: &Rules, host: &str| {
            rules.decide(&to(host, NetworkProtocol::Tcp, 5432), &LocalNetworks::default()).decision
        };
        let allowed = hosts(vec![rule("localhost", None, Some(5432), Decision::Allow)]);
        let denied = hosts(
            all.map(|host| rule(host, None, None, Decision::Allow))
                .into_iter()
                .chain([rule("localhost", None, Some(5432), Decision::Forbidden)])
                .collect(),
        );
        for host in all {
            assert_eq!(decide(&allowed, host), Decision::Allow, "{host}");
            assert_eq!(
                allowed.decide(&to(host, NetworkProtocol::Tcp, 22), &LocalNetworks::default()).decision,
                Decision::Forbidden,
                "{host}"
            );
            assert_eq!(decide(&denied, host), Decision::Forbidden, "{host}");
        }
        assert_eq!(decide(&allowed, "127.0.0.2"), Decision::Forbidden);
    }

    #[test]
    fn rules_files_count_as_the_policy_does() {
        let named = |decision| {
            vec![NamedRule { rule: rule("a.test", None, None, decision), origin: String::from("x.rules:1") }]
        };
        let asked = to("a.test", NetworkProtocol::Tcp, 80);
        let decide = |policy: NetworkPolicy, decision| {
            Rules::new(policy, named(decision)).decide(&asked, &LocalNetworks::default()).decision
        };
        let empty = || NetworkPolicy::Hosts(HostRules::default());
        assert_eq!(decide(empty(), Decision::Allow), Decision::Allow);
        assert_eq!(decide(NetworkPolicy::Off, Decision::Allow), Decision::Forbidden);
        assert_eq!(decide(NetworkPolicy::Full, Decision::Forbidden), Decision::Forbidden);
        assert_eq!(decide(NetworkPolicy::Full, Decision::Prompt), Decision::Prompt);
        let ruling = Rules::new(empty(), named(Decision::Allow)).decide(&asked, &LocalNetworks::default());
        assert_eq!(ruling.rule.unwrap().origin, "x.rules:1");
    }

    #[test]
    fn a_stream_has_the_protocol_that_a_rule_gives_its_port() {
        let rules = hosts(vec![rule("a.test", Some(NetworkProtocol::Https), Some(8443), Decision::Allow)]);
        let protocol = |host: &str, port| rules.protocol(&host.parse().unwrap(), port);
        assert_eq!(protocol("a.test", 8443), NetworkProtocol::Https);
        assert_eq!(protocol("b.test", 8443), NetworkProtocol::Tcp);
        assert_eq!((protocol("b.test", 443), protocol("b.test", 80)), (NetworkProtocol::Https, NetworkProtocol::Http));
    }

    fn any_rule() -> impl Strategy<Value = HostRule> {
        let host = prop::sample::select(vec![
            "a.test",
            "*.a.test",
            "**.a.test",
            "b.a.test",
            "10.0.0.1",
            "1.1.1.1",
            "localhost",
        ]);
        let protocol = prop::sample::select(vec![None, Some(NetworkProtocol::Http), Some(NetworkProtocol::Tcp)]);
        let port = prop::sample::select(vec![None, Some(80), Some(22)]);
        let decision = prop::sample::select(vec![Decision::Allow, Decision::Prompt, Decision::Forbidden]);
        (host, protocol, port, decision)
            .prop_map(|(host, protocol, port, decision)| rule(host, protocol, port, decision))
    }

    proptest! {
        /// The gate agrees with `NetworkPolicy::decide`, regardless of a rule's origin.
        #[test]
        fn the_gate_is_the_oracle(all in prop::collection::vec(any_rule(), 0..6), split in 0_usize..6) {
            let oracle = NetworkPolicy::Hosts(HostRules { rules: all.clone(), methods: HttpMethods::Any });
            let (own, filed) = all.split_at(split.min(all.len()));
            let filed = filed.iter().map(|rule| NamedRule { rule: rule.clone(), origin: String::new() }).collect();
            let rules = Rules::new(
                NetworkPolicy::Hosts(HostRules { rules: own.to_vec(), methods: HttpMethods::Any }), filed);
            for host in ["a.test", "b.a.test", "c.a.test", "10.0.0.1", "1.1.1.1", "z.test", "127.0.0.1", "x.localhost"] {
                for protocol in [NetworkProtocol::Http, NetworkProtocol::Tcp] {
                    for port in [80, 22] {
                        let asked = to(host, protocol, port);
                        prop_assert_eq!(rules.decide(&asked, &LocalNetworks::default()).decision, oracle.decide(&asked.host, protocol, port));
                    }
                }
            }
        }
    }
}
