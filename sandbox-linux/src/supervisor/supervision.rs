//! Whether a command's connections need supervision, and its setup.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::sync::Arc;

use serde::Serialize;
use stockade_protocol::{AbsPath, Decision, HostPattern, HostRule, NetworkPolicy, NetworkProtocol, Permissions};
use stockade_sandboxing::{Gatekeeper, HostFiles, Kind, SpawnError, Unenforceable};

use crate::plan::step::{Outlet, Step};
use crate::plan::view::OwnFile;
use crate::supervisor::{self, Reach, Supervisor};

/// Only the supervisor resolves the command's names.
const OWN_FILES: &[(&str, &str)] = &[
    ("/etc/resolv.conf", "nameserver 127.0.0.1\n"),
    ("/etc/hosts", "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"),
];

/// The supervision of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Supervision {
    reach: Reach,
    datagrams: Datagrams,
}

/// The treatment of outgoing datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Datagrams {
    /// They have no route.
    GoNowhere,
    /// They are decided on and relayed, if the kernel supports that.
    Wanted,
    /// Like `Wanted`, but the policy can't be enforced without it.
    Needed,
}

impl Supervision {
    /// The supervision for these permissions; `None` if the network is off or open.
    pub(crate) fn of(permissions: &Permissions) -> Result<Option<Self>, Unenforceable> {
        let refuse = |what: &str, why: &str, remedy: &str| {
            Err(Unenforceable { what: what.to_owned(), why: why.to_owned(), remedy: remedy.to_owned() })
        };
        let unix_sockets = permissions.unix_sockets.clone();
        let reach = |rules: &[HostRule]| Reach {
            unix_sockets: unix_sockets.clone(),
            host_loopback: rules.iter().flat_map(named_loopback).collect(),
        };
        match &permissions.network {
            NetworkPolicy::Off | NetworkPolicy::Full if unix_sockets.is_empty() => Ok(None),
            NetworkPolicy::Off => Ok(Some(Self { reach: reach(&[]), datagrams: Datagrams::GoNowhere })),
            NetworkPolicy::Full => refuse(
                "a grant for single unix sockets with an open network",
                "connections are decided only in a network of the sandbox's own",
                "name the hosts instead of opening the network",
            ),
            NetworkPolicy::Hosts(rules) => {
                if let Some(rule) = rules.rules.iter().find(|rule| names_all_of_loopback(rule)) {
                    return refuse(
                        &format!("a rule for `{}` without a port, or for datagrams", rule.host),
                        "a command has a loopback of its own, and only streams to single ports of the host's take its place",
                        "name each port: `localhost:5432`",
                    );
                }
                if let Some(rule) = rules.rules.iter().find(|rule| is_lost_datagram_rule(rule, &rules.rules)) {
                    return refuse(
                        &format!("a rule for datagrams to `{}`", rule.host),
                        "a command has a loopback of its own, where its datagrams to this address stay",
                        "leave out `/udp` if the service takes streams, or use an address of this machine on a network",
                    );
                }
                let names_them = |rule: &HostRule| {
                    rule.protocol == Some(NetworkProtocol::Udp) && rule.decision != Decision::Forbidden
                };
                let is_needed = rules.rules.iter().any(names_them);
                let datagrams = if is_needed { Datagrams::Needed } else { Datagrams::Wanted };
                Ok(Some(Self { reach: reach(&rules.rules), datagrams }))
            }
        }
    }

    /// The sandbox's own files, if the host has them.
    pub(crate) fn files(host: &dyn HostFiles) -> Vec<OwnFile> {
        let resolve = |path: AbsPath| {
            if host.kind(&path) != Some(Kind::Symlink) {
                return Some(path);
            }
            let target = std::fs::canonicalize(std::ffi::OsStr::from_bytes(path.as_raw().as_bytes())).ok()?;
            AbsPath::parse(target.as_os_str().as_bytes().to_vec()).ok()
        };
        let file = |(path, text): &(&str, &'static str)| Some(OwnFile { path: resolve(path.parse().ok()?)?, text });
        OWN_FILES.iter().filter_map(file).collect()
    }

    /// Grants of unix sockets without effect.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let problem = |path: &AbsPath| {
            let found = path.to_host_path().map(std::fs::symlink_metadata)?;
            let problem = match found {
                Ok(found) if found.file_type().is_socket() => return None,
                Ok(_) => "is no socket",
                Err(_) => "does not exist, and one that is made later is not reached",
            };
            Some(format!("the unix socket `{path}` is granted, but {problem}"))
        };
        self.reach.unix_sockets.iter().filter_map(problem).collect()
    }

    /// The supervisor's sockets in the command's network. They need privileges, which commands drop.
    pub(crate) fn sockets(&self) -> Vec<Step> {
        let mut steps = vec![Step::Resolver];
        if self.datagrams != Datagrams::GoNowhere {
            let outlet = Outlet {
                is_needed: self.datagrams == Datagrams::Needed,
                routes: supervisor::routes(),
                routes_v6: supervisor::routes_v6(),
                filter: supervisor::datagram_filter(),
            };
            steps.push(Step::Datagrams { outlet });
        }
        steps
    }

    /// The same without datagrams to other machines: in a sandbox with several commands their senders are unknown, and so
    /// is the gatekeeper that would decide on them.
    pub(crate) fn without_datagrams(self) -> Self {
        Self { datagrams: Datagrams::GoNowhere, ..self }
    }

    /// Starts the supervisor thread. Each command brings its gatekeeper.
    pub(crate) fn start(&self) -> Result<Supervisor, SpawnError> {
        let started = Supervisor::start(self.reach.clone());
        started.map_err(|source: io::Error| SpawnError::Launcher { doing: "starting the supervisor", source })
    }

    /// Checks that a command's connections have a gatekeeper.
    pub(crate) fn check(gatekeeper: Option<&Arc<dyn Gatekeeper>>) -> Result<(), Unenforceable> {
        gatekeeper.map(|_| ()).ok_or_else(|| Unenforceable {
            what: String::from("a network policy by host"),
            why: String::from("no supervisor decides on connections"),
            remedy: String::from("start the plan with a gatekeeper"),
        })
    }
}

/// The host's own loopback addresses that a rule allows by address or name, and port. Datagrams to loopback stay
/// inside: the command's own sockets have those addresses.
fn named_loopback(rule: &HostRule) -> Vec<SocketAddr> {
    let HostPattern::Exact(host) = &rule.host else { return Vec::new() };
    let (true, Some(port)) = (is_for_streams(rule), rule.port) else { return Vec::new() };
    let address = host.address().filter(IpAddr::is_loopback);
    let addresses = host.named_loopback().iter().copied().chain(address);
    addresses.map(|address| SocketAddr::new(address, port)).collect()
}

/// Whether a rule of a policy by host lets datagrams out, or asks about them by name.
pub(crate) fn admits_datagrams(network: &NetworkPolicy) -> bool {
    match network {
        NetworkPolicy::Hosts(hosts) => hosts.rules.iter().any(|rule| {
            rule.decision != Decision::Forbidden && matches!(rule.protocol, None | Some(NetworkProtocol::Udp))
        }),
        NetworkPolicy::Off | NetworkPolicy::Full => false,
    }
}

/// Whether a rule would have less effect than it says. One for an address has a use besides: names may resolve to it.
fn names_all_of_loopback(rule: &HostRule) -> bool {
    let HostPattern::Exact(host) = &rule.host else { return false };
    let is_by_port = is_for_streams(rule) && rule.port.is_some();
    !host.named_loopback().is_empty() && rule.decision != Decision::Forbidden && !is_by_port
}

/// Whether a rule is for datagrams to loopback, and no other rule names a host that could resolve there.
fn is_lost_datagram_rule(rule: &HostRule, rules: &[HostRule]) -> bool {
    let is_for_datagrams =
        |rule: &HostRule| rule.protocol == Some(NetworkProtocol::Udp) && rule.decision != Decision::Forbidden;
    let is_loopback =
        matches!(&rule.host, HostPattern::Exact(host) if host.address().is_some_and(|found| found.is_loopback()));
    let leads_there = |rule: &HostRule| match &rule.host {
        HostPattern::Exact(host) => host.address().is_none(),
        HostPattern::Below(_) | HostPattern::Within(_) => true,
        HostPattern::Network(_) => false,
    };
    let names_host = rules.iter().any(|other| is_for_datagrams(other) && leads_there(other));
    is_for_datagrams(rule) && is_loopback && !names_host
}

fn is_for_streams(rule: &HostRule) -> bool {
    rule.protocol != Some(NetworkProtocol::Udp) && rule.decision != Decision::Forbidden
}

#[cfg(test)]
mod tests {
    use stockade_protocol::HostRules;

    use super::*;

    fn supervision(
        host: &str,
        protocol: Option<NetworkProtocol>,
        port: Option<u16>,
        decision: Decision,
    ) -> Result<Vec<String>, String> {
        let rules = vec![HostRule { host: host.parse().unwrap(), protocol, port, decision }];
        let network = NetworkPolicy::Hosts(HostRules { rules, ..HostRules::default() });
        let supervision = Supervision::of(&Permissions { network, ..Permissions::default() });
        let reach = supervision.map_err(|refused| refused.to_string())?.unwrap().reach;
        Ok(reach.host_loopback.iter().map(SocketAddr::to_string).collect())
    }

    #[test]
    fn datagrams_to_loopback_stay_inside_and_are_not_promised() {
        for (host, port) in [("127.0.0.1", Some(53)), ("::1", Some(53)), ("127.0.0.2", None)] {
            let refused = supervision(host, Some(NetworkProtocol::Udp), port, Decision::Allow).unwrap_err();
            assert!(refused.contains("its datagrams to this address stay"), "{refused}");
            assert_eq!(supervision(host, Some(NetworkProtocol::Udp), port, Decision::Forbidden), Ok(Vec::new()));
        }
        let rule = |host: &str| HostRule {
            host: host.parse().unwrap(),
            protocol: Some(NetworkProtocol::Udp),
            port: Some(53),
            decision: Decision::Allow,
        };
        assert!(is_lost_datagram_rule(&rule("127.0.0.1"), &[rule("127.0.0.1"), rule("10.0.0.1")]));
        assert!(
            !is_lost_datagram_rule(&rule("127.0.0.1"), &[rule("127.0.0.1"), rule("time.test")]),
            "it may lead there"
        );
    }

    #[test]
    fn the_hosts_loopback_is_named_by_port() {
        let of = |host, port, decision| supervision(host, None, port, decision).unwrap();
        assert_eq!(of("127.0.0.1", Some(5432), Decision::Allow), ["127.0.0.1:5432"]);
        for name in ["localhost", "app.localhost", "*.localhost"] {
            for decision in [Decision::Allow, Decision::Prompt] {
                assert_eq!(of(name, Some(5432), decision), ["127.0.0.1:5432", "[::1]:5432"], "{name}");
            }
        }
        for host in ["localhost", "127.0.0.1"] {
            assert!(
                of(host, None, Decision::Forbidden).is_empty() && of(host, Some(1), Decision::Forbidden).is_empty()
            );
        }
        assert!(of("example.com", Some(5432), Decision::Allow).is_empty());
    }

    /// `explain` would allow `localhost`, which would be unreachable.
    #[test]
    fn what_would_do_less_than_it_says_is_refused() {
        for (protocol, port) in
            [(None, None), (Some(NetworkProtocol::Http), None), (Some(NetworkProtocol::Udp), Some(53))]
        {
            for decision in [Decision::Allow, Decision::Prompt] {
                let refused = supervision("localhost", protocol, port, decision).unwrap_err();
                assert!(refused.contains("name each port: `localhost:5432`"), "{refused}");
            }
        }
    }
}
