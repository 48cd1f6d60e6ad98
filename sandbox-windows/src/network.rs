//! The network, of which a token and a job object decide nothing.
//!
//! Windows filters connections by program, user or container, and only an administrator may say how.
//! So a policy with less than the whole network is refused, unless the caller says by name that it
//! accepts what gets around a proxy. Then the proxy decides for programs that ask it, and the report of
//! the run says that others are not held.

use std::net::SocketAddr;

use serde::Serialize;
use stockade_protocol::{NetworkPolicy, Permissions};
use stockade_sandboxing::Unenforceable;

/// A protection that can't be had without an administrator, by name, so that it is not lost without
/// having said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// Programs that do not ask the proxy reach every destination.
    DirectConnections,
}

impl Loss {
    /// All that can be accepted.
    pub const ALL: &[Self] = &[Self::DirectConnections];

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
        proxy: Option<SocketAddr>,
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
                "grant the whole network, or accept the loss of `{0}` (`--accept-loss {0}`): then a proxy decides for \
                 programs that ask it, and others are not held",
                Loss::DirectConnections.name()
            ),
        };
        match &permissions.network {
            NetworkPolicy::Full => Ok(Self::Full),
            NetworkPolicy::Off if lost => Ok(Self::Unheld),
            NetworkPolicy::Off => Err(refuse("a network that is off")),
            NetworkPolicy::Hosts(_) if !lost => Err(refuse("a network policy by host")),
            NetworkPolicy::Hosts(_) => require_proxy(environment, proxy).map(|()| Self::Proxied),
        }
    }
}

impl NetworkPlan {
    /// What gets around the policy, in words.
    pub(crate) fn warning(self) -> Option<String> {
        match self {
            Self::Full => None,
            Self::Proxied => Some(String::from(
                "only programs that ask the proxy are held to the hosts that are allowed: others reach every destination",
            )),
            Self::Unheld => Some(String::from("the network is not off: programs can connect to every destination")),
        }
    }
}

/// Without the proxy in every variable no host would be checked at all.
fn require_proxy(environment: &[(String, String)], proxy: Option<SocketAddr>) -> Result<(), Unenforceable> {
    let refuse =
        |why: String, remedy: String| Unenforceable { what: String::from("a network policy by host"), why, remedy };
    let proxy = proxy.filter(|proxy| proxy.ip().is_loopback()).ok_or_else(|| {
        let why = String::from("no proxy is there on this machine to decide");
        refuse(why, String::from("run it with a proxy, as `stockade run` does"))
    })?;
    for variable in PROXY_VARIABLES {
        let found = environment.iter().find(|(name, _)| name.eq_ignore_ascii_case(variable));
        if !found.is_some_and(|(_, value)| leads_to(value, proxy)) {
            let why = format!("`{variable}` does not lead to the proxy that decides");
            return Err(refuse(why, format!("set `{}` to it", PROXY_VARIABLES.join("`, `"))));
        }
    }
    Ok(())
}

/// Whether a setting such as `http://user:password@127.0.0.1:8080/` leads to this address.
fn leads_to(setting: &str, proxy: SocketAddr) -> bool {
    let rest = setting.split_once("://").map_or(setting, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    place.parse() == Ok(proxy)
}

#[cfg(test)]
mod tests {
    use stockade_protocol::HostRules;

    use super::*;

    #[test]
    fn less_than_the_whole_network_has_to_be_accepted() {
        let variables = |setting: &str| -> Vec<(String, String)> {
            PROXY_VARIABLES.iter().map(|name| (name.to_lowercase(), setting.to_owned())).collect()
        };
        let compile = |network: NetworkPolicy, setting: &str, proxy: Option<&str>, accepted: &[Loss]| {
            let permissions = Permissions { network, ..Permissions::default() };
            let proxy = proxy.map(|proxy| proxy.parse().unwrap());
            NetworkPlan::compile(&permissions, &variables(setting), proxy, accepted)
        };
        let hosts = || NetworkPolicy::Hosts(HostRules::default());
        let accepted = &[Loss::DirectConnections][..];
        assert_eq!(compile(NetworkPolicy::Full, "", None, &[]), Ok(NetworkPlan::Full));
        assert_eq!(compile(NetworkPolicy::Off, "", None, accepted), Ok(NetworkPlan::Unheld));
        let here = Some("127.0.0.1:3128");
        assert_eq!(compile(hosts(), "http://u:p@127.0.0.1:3128/", here, accepted), Ok(NetworkPlan::Proxied));
        assert_eq!(compile(hosts(), "socks5h://[::1]:8", Some("[::1]:8"), accepted), Ok(NetworkPlan::Proxied));
        let right = "http://127.0.0.1:3128";
        for (network, setting, proxy, accepted) in [
            (NetworkPolicy::Off, right, here, &[][..]),
            (hosts(), right, here, &[]),
            (hosts(), right, None, accepted),
            (hosts(), "http://10.0.0.1:3128", Some("10.0.0.1:3128"), accepted),
            (hosts(), "", here, accepted),
            (hosts(), "http://127.0.0.1:3129", here, accepted),
            (hosts(), "http://proxy.test:3128", here, accepted),
            (hosts(), "http://127.0.0.1:3128@proxy.test:3128", here, accepted),
            (hosts(), "http://127.0.0.1:3128.proxy.test", here, accepted),
        ] {
            let error = compile(network, setting, proxy, accepted).unwrap_err();
            assert!(error.to_string().contains("prox"), "{error}");
        }
    }
}
