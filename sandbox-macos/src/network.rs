//! From a network policy to Seatbelt's words.
//!
//! Seatbelt knows an address as "anything" or "this machine", and a port. So rules by host are enforced
//! by a proxy on this machine, and the sandbox lets a command reach that proxy's ports and nothing else.

use std::collections::{BTreeMap, BTreeSet};

use stockade_protocol::{NetworkPolicy, Permissions, RawText};
use stockade_sandboxing::Unenforceable;

use crate::parameters::Parameters;

const FULL: &str = include_str!("network_full.sbpl");
const CERTIFICATES: &str = include_str!("certificates.sbpl");

/// Variables that lead programs to a proxy, in lower case; programs read both spellings.
const VARIABLES: &[&str] = &["http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "ws_proxy", "wss_proxy"];

/// Ports of this machine on which a proxy enforces rules by host.
///
/// ```
/// use stockade_sandbox_macos::ProxyPorts;
///
/// let settings = [("HTTPS_PROXY".into(), "http://127.0.0.1:3128".into())].into();
/// assert!(ProxyPorts::from_environment(&settings)?.contains(3128));
///
/// let elsewhere = [("HTTPS_PROXY".into(), "http://proxy.example.com:3128".into())].into();
/// assert!(ProxyPorts::from_environment(&elsewhere).is_err());
/// # Ok::<(), stockade_sandboxing::Unenforceable>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyPorts(BTreeSet<u16>);

impl ProxyPorts {
    /// The ports that a proxy listens on. The caller vouches for what listens there.
    pub fn new(ports: impl IntoIterator<Item = u16>) -> Self {
        Self(ports.into_iter().filter(|port| *port != 0).collect())
    }

    /// The ports that the proxy settings of an environment lead to. A setting that can't be read, or
    /// that leads to another machine, is an error: a command would go there and not to the proxy.
    pub fn from_environment(environment: &BTreeMap<RawText, RawText>) -> Result<Self, Unenforceable> {
        let settings = environment.iter().filter(|(name, value)| is_setting(name) && !value.is_empty());
        settings
            .map(|(name, value)| port(value).ok_or_else(|| malformed(name, value)))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether a port is among them.
    pub fn contains(&self, port: u16) -> bool {
        self.0.contains(&port)
    }
}

fn is_setting(name: &RawText) -> bool {
    name.as_str().is_some_and(|name| VARIABLES.contains(&name.to_ascii_lowercase().as_str()))
}

/// The port of `[scheme://][user[:password]@]host:port[/]`, if the host is this machine.
fn port(value: &RawText) -> Option<u16> {
    let text = value.as_str()?;
    let address = text.split_once("://").map_or(text, |(_, address)| address);
    let address = address.strip_suffix('/').unwrap_or(address);
    let address = address.rsplit_once('@').map_or(address, |(_, address)| address);
    let (host, port) = address.rsplit_once(':')?;
    let is_here = ["127.0.0.1", "[::1]"].contains(&host) || host.eq_ignore_ascii_case("localhost");
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    port.parse().ok().filter(|port| is_here && is_number && *port != 0)
}

fn malformed(name: &RawText, value: &RawText) -> Unenforceable {
    Unenforceable {
        what: String::from("a network policy by host"),
        // A setting may hold a password, so it is not repeated.
        why: format!(
            "the proxy setting `{name}` ({} bytes) is no address and port of this machine",
            value.as_bytes().len()
        ),
        remedy: format!("set `{name}` to `http://127.0.0.1:PORT`, or take it out of the command's environment"),
    }
}

/// Whether the service that judges certificates can be reached where hosts are restricted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Certificates {
    #[default]
    OutOfReach,
    BySystem,
}

/// The rules for a policy, and for unix sockets.
pub(crate) fn compile(
    permissions: &Permissions,
    proxy: Option<&ProxyPorts>,
    environment: &BTreeMap<RawText, RawText>,
    certificates: Certificates,
    parameters: &mut Parameters,
) -> Result<String, Unenforceable> {
    let mut text = String::from("\n; Sockets between processes, which lead nowhere until a rule says so.\n");
    text.push_str("(allow system-socket (socket-domain AF_UNIX))\n\n");
    match &permissions.network {
        NetworkPolicy::Off => {}
        NetworkPolicy::Full => {
            text.push_str(FULL);
            text.push_str(CERTIFICATES);
        }
        NetworkPolicy::Hosts(_) => {
            text.push_str(&through(proxy, environment)?);
            if certificates == Certificates::BySystem {
                text.push_str(CERTIFICATES);
            }
        }
    }
    for socket in &permissions.unix_sockets {
        text.push_str(&format!("(allow network-outbound (literal {}))\n", parameters.path(socket)?));
    }
    Ok(text)
}

/// The proxy's ports and nothing else. Names are looked up by the proxy, so no name leaks.
fn through(proxy: Option<&ProxyPorts>, environment: &BTreeMap<RawText, RawText>) -> Result<String, Unenforceable> {
    let refuse = |why: &str, remedy: &str| Unenforceable {
        what: String::from("a network policy by host"),
        why: why.to_owned(),
        remedy: remedy.to_owned(),
    };
    let ports = proxy.filter(|ports| !ports.0.is_empty()).ok_or_else(|| {
        refuse(
            "Seatbelt can't tell one host from another, and no proxy is there to do it",
            "use the network `off` or `full`, or run it with a proxy, as `stockade run` does",
        )
    })?;
    let told = ProxyPorts::from_environment(environment)?;
    if let Some(other) = told.0.difference(&ports.0).next() {
        let why = format!("the command's environment names a proxy on port {other}, which is not the one that decides");
        return Err(refuse(&why, "take the proxy settings out of the command's environment"));
    }
    let mut text = String::from("; The proxy, which decides by host.\n");
    for port in &ports.0 {
        // A number can't be read as a rule.
        text.push_str(&format!("(allow network-outbound (remote ip \"localhost:{port}\"))\n"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(value: &str) -> BTreeMap<RawText, RawText> {
        [("https_PROXY".into(), value.into())].into()
    }

    #[test]
    fn a_proxy_is_a_port_of_this_machine() {
        for value in [
            "http://127.0.0.1:3128",
            "127.0.0.1:3128",
            "localhost:3128/",
            "socks5h://me:p@ss@[::1]:3128",
            "http://LOCALHOST:3128",
        ] {
            let ports = ProxyPorts::from_environment(&settings(value)).unwrap();
            assert_eq!(ports, ProxyPorts::new([3128]), "{value}");
        }
        assert_eq!(ProxyPorts::from_environment(&settings("")).unwrap(), ProxyPorts::default());
        assert_eq!(
            ProxyPorts::from_environment(&[("NO_PROXY".into(), "*".into())].into()).unwrap(),
            ProxyPorts::default()
        );
    }

    #[test]
    fn a_setting_that_is_anything_else_is_an_error_without_the_password() {
        for value in [
            "http://proxy.test:3128",
            "http://127.0.0.1",
            "http://127.0.0.1:",
            "http://127.0.0.1:0",
            "http://127.0.0.1:65536",
            "http://127.0.0.1:+80",
            "http://127.0.0.1:80:90",
            "http://127.0.0.1:3128@evil.test:80",
            "http://127.0.0.1.evil.test:3128",
            "http://127.0.0.1:3128/path",
            "://",
            "secret",
        ] {
            let error = ProxyPorts::from_environment(&settings(value)).unwrap_err().to_string();
            assert!(error.contains("https_PROXY") && !error.contains("secret"), "{value}: {error}");
        }
    }
}
