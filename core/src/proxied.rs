//! Commands whose sandbox relies on a proxy for host rules.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use stockade_network_proxy::{Secret, environment};
use stockade_protocol::{Decision, HostRule, NetworkPolicy, NetworkProtocol, Permissions, RawText};
use stockade_sandboxing::{Backend, CommandSpec, Plan, Proxied, Unenforceable};

/// The proxy endpoint of a command.
pub(crate) struct ProxyEndpoint {
    pub(crate) address: SocketAddr,
    /// The variables that make programs use it; they contain the secret.
    pub(crate) variables: BTreeMap<String, String>,
}

/// The sandbox, if it needs a proxy to enforce these permissions.
pub(crate) fn proxied<'a>(sandbox: &'a dyn Backend, permissions: &Permissions) -> Option<&'a dyn Proxied> {
    match permissions.network {
        NetworkPolicy::Hosts(_) => sandbox.proxied(),
        NetworkPolicy::Off | NetworkPolicy::Full => None,
    }
}

/// Refuses permissions that a proxy can't serve: the command would not get what it is granted.
fn check_streams(permissions: &Permissions) -> Result<(), Unenforceable> {
    let NetworkPolicy::Hosts(hosts) = &permissions.network else { return Ok(()) };
    let is_for_datagrams =
        |rule: &&HostRule| rule.protocol == Some(NetworkProtocol::Udp) && rule.decision == Decision::Allow;
    match hosts.rules.iter().find(is_for_datagrams) {
        None => Ok(()),
        Some(rule) => Err(Unenforceable {
            what: format!("a grant of datagrams to `{}`", rule.host),
            why: String::from("hosts are reached through a proxy here, and a proxy carries streams alone"),
            remedy: String::from("leave the grant out, or grant the whole network"),
        }),
    }
}

/// Java has one variable for all options, so its value is kept.
const ADDED_TO: &str = "JAVA_TOOL_OPTIONS";

impl ProxyEndpoint {
    /// A nonexistent proxy, for compiling a plan that is not started.
    pub(crate) fn none() -> Option<Self> {
        // Port 9 is the discard service.
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
        Some(Self { address, variables: environment(address, &Secret::random().ok()?) })
    }

    /// The plan of a command behind this proxy.
    pub(crate) fn compile(
        &self,
        sandbox: &dyn Proxied,
        mut command: CommandSpec,
        permissions: &Permissions,
    ) -> Result<Box<dyn Plan>, Unenforceable> {
        check_streams(permissions)?;
        self.lead(&mut command.environment);
        sandbox.compile_through(self.address, &command, permissions)
    }

    /// Makes a command's programs use the proxy, replacing other proxy settings.
    fn lead(&self, command: &mut BTreeMap<RawText, RawText>) {
        let before = command.get(&RawText::from(ADDED_TO)).and_then(RawText::as_str).map(String::from);
        // In any case: some programs accept all spellings, and on Windows they are the same variable.
        command.retain(|name, _| {
            let is_same = |own: &String| name.as_str().is_some_and(|name| name.eq_ignore_ascii_case(own));
            !self.variables.keys().any(is_same)
        });
        for (name, value) in &self.variables {
            let value = match &before {
                Some(before) if name == ADDED_TO => format!("{before} {value}"),
                Some(_) | None => value.clone(),
            };
            command.insert(RawText::from(name.as_str()), RawText::from(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_led_elsewhere_leads_to_the_proxy() {
        let text = |text: &str| RawText::from(text);
        let before = [
            ("PATH", "/bin"),
            ("Https_Proxy", "http://elsewhere.test:1"),
            ("no_proxy", "*"),
            ("NO_PROXY", "evil.test"),
            ("JAVA_TOOL_OPTIONS", "-Xmx1g"),
        ];
        let mut variables: BTreeMap<RawText, RawText> =
            before.map(|(name, value)| (text(name), text(value))).into_iter().collect();
        ProxyEndpoint::none().unwrap().lead(&mut variables);
        let value = |name: &str| variables.get(&text(name)).and_then(RawText::as_str).unwrap_or("none");
        assert_eq!(value("PATH"), "/bin");
        assert_eq!(value("Https_Proxy"), "none");
        for name in ["HTTP_PROXY", "http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy", "PIP_PROXY"] {
            assert!(value(name).ends_with("@127.0.0.1:9"), "{name}: {}", value(name));
        }
        assert_eq!((value("NO_PROXY"), value("no_proxy")), ("", ""));
        assert!(value("JAVA_TOOL_OPTIONS").starts_with("-Xmx1g -Dhttp.proxyHost=127.0.0.1 "));
    }
}
