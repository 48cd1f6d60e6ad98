//! The network, of which a token and a job object decide nothing.
//!
//! Windows filters connections by program, user or container, and only an administrator may say how.
//! So a policy with less than the whole network is refused, unless the caller says by name that it
//! accepts what gets around a proxy. Then the proxy decides for programs that ask it, and the report of
//! the run says that others are not held.

use std::net::IpAddr;

use serde::Serialize;
use stockade_protocol::{NetworkPolicy, Permissions};
use stockade_sandboxing::Unenforceable;

/// A protection that can't be had without an administrator, by name, so that nobody loses it without
/// having said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Programs that do not ask the proxy reach every destination.
    DirectConnections,
}

impl Loss {
    /// Its name, as in an `Enforcement`.
    pub fn name(self) -> &'static str {
        match self {
            Self::DirectConnections => "direct_connections",
        }
    }
}

/// What is left of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NetworkPlan {
    /// All of it was granted.
    Full,
    /// A proxy decides for programs that ask it; what others do was accepted.
    Proxied,
    /// None was granted; what programs do all the same was accepted.
    Unheld,
}

/// The variables by which programs find a proxy.
const PROXY_VARIABLES: &[&str] = &["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

impl NetworkPlan {
    pub(crate) fn compile(
        permissions: &Permissions,
        environment: &[(String, String)],
        accepted: &[Loss],
    ) -> Result<Self, Unenforceable> {
        if !permissions.unix_sockets.is_empty() {
            return Err(Unenforceable {
                what: String::from("a grant for single unix sockets"),
                why: String::from("a restricted token does not tell them apart"),
                remedy: String::from("leave the grant out"),
            });
        }
        let lost = accepted.contains(&Loss::DirectConnections);
        let refuse = |what: &str| Unenforceable {
            what: what.to_owned(),
            why: String::from("without an administrator Windows does not keep a program from connecting"),
            remedy: format!(
                "grant the whole network, or route programs through the proxy and accept the loss of `{0}` (`--accept-loss {0}`)",
                Loss::DirectConnections.name()
            ),
        };
        match &permissions.network {
            NetworkPolicy::Full => Ok(Self::Full),
            NetworkPolicy::Off if lost => Ok(Self::Unheld),
            NetworkPolicy::Off => Err(refuse("a network that is off")),
            NetworkPolicy::Hosts(_) if !lost => Err(refuse("a network policy by host")),
            NetworkPolicy::Hosts(_) => require_proxy(environment).map(|()| Self::Proxied),
        }
    }
}

/// Without a proxy on this machine in every variable nobody would decide at all.
fn require_proxy(environment: &[(String, String)]) -> Result<(), Unenforceable> {
    for variable in PROXY_VARIABLES {
        let found = environment.iter().find(|(name, _)| name.eq_ignore_ascii_case(variable));
        if !found.is_some_and(|(_, value)| is_loopback(value)) {
            return Err(Unenforceable {
                what: String::from("a network policy by host"),
                why: format!("`{variable}` does not lead to a proxy on this machine"),
                remedy: format!("start the proxy, and set `{}`", PROXY_VARIABLES.join("`, `")),
            });
        }
    }
    Ok(())
}

/// Whether an address such as `http://127.0.0.1:8080` is on this machine.
fn is_loopback(address: &str) -> bool {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host_port = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let host = match host_port.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, _)) => host,
        None => host_port.split(':').next().unwrap_or_default(),
    };
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use stockade_protocol::HostRules;

    use super::*;

    #[test]
    fn less_than_the_whole_network_has_to_be_accepted() {
        let proxy = |address: &str| -> Vec<(String, String)> {
            PROXY_VARIABLES.iter().map(|name| (name.to_lowercase(), address.to_owned())).collect()
        };
        let compile = |network: NetworkPolicy, environment: &[(String, String)], accepted: &[Loss]| {
            let permissions = Permissions { network, ..Permissions::default() };
            NetworkPlan::compile(&permissions, environment, accepted)
        };
        let hosts = || NetworkPolicy::Hosts(HostRules::default());
        let accepted = &[Loss::DirectConnections][..];
        assert_eq!(compile(NetworkPolicy::Full, &[], &[]), Ok(NetworkPlan::Full));
        assert_eq!(compile(NetworkPolicy::Off, &[], accepted), Ok(NetworkPlan::Unheld));
        assert_eq!(compile(hosts(), &proxy("http://u:p@127.0.0.1:3128/"), accepted), Ok(NetworkPlan::Proxied));
        for (network, environment, accepted) in [
            (NetworkPolicy::Off, proxy("http://127.0.0.1:1"), &[][..]),
            (hosts(), proxy("http://127.0.0.1:1"), &[]),
            (hosts(), Vec::new(), accepted),
            (hosts(), proxy("http://proxy.test:1"), accepted),
            (hosts(), proxy("http://127.0.0.1@proxy.test"), accepted),
            (hosts(), proxy("http://localhost.test"), accepted),
        ] {
            let error = compile(network, &environment, accepted).unwrap_err();
            assert!(error.to_string().contains("prox"), "{error}");
        }
        for address in ["localhost:1", "http://[::1]:8", "socks5h://127.9.9.9"] {
            assert!(is_loopback(address), "{address}");
        }
    }
}
