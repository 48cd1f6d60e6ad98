//! Hosts: the one that a message names, and whether the policy denies it.

use stockade_protocol::{
    Decision, DenyingRule, Destination, Host, HostPattern, HostRule, NetworkPolicy, NetworkProtocol, Operation,
    PermissionAmendment, Permissions, RawText, Violation, ViolationTarget,
};

use super::lines::HOST_WORDS;
use super::paths::quoted;

/// The default port, if neither the message nor the command names one.
const HTTPS: u16 = 443;

/// A host, with the port if named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedHost {
    pub(crate) host: Host,
    pub(crate) port: Option<u16>,
}

/// Words that precede a host. A dotted word elsewhere may as well be `socket.gaierror`.
const LEADING_WORDS: &[&str] = &[
    "host",
    "hostname",
    "address",
    "resolve",
    "resolving",
    "lookup",
    "to",
    "for",
    "connect",
    "dial",
    "tcp",
    "udp",
    "getaddrinfo",
    "eai_again",
    "enotfound",
    "enetunreach",
    "unknownhostexception",
];

/// The host that a message names: an unambiguous word (an address, a URL), a quoted word, or one after a word that
/// precedes hosts or right before the failure.
pub(super) fn named(line: &str) -> Option<NamedHost> {
    let words: Vec<&str> = line.split([' ', '\'', '"', '(', ')', ',', ';', '`', '‘', '’', '<', '>']).collect();
    // `Failed to connect to example.com port 8080`
    let said = words
        .iter()
        .skip_while(|word| **word != "port")
        .nth(1)
        .and_then(|word| word.trim_end_matches(':').parse().ok());
    let in_quotes = quoted(line);
    let mut before = None;
    let mut found = None;
    for (index, word) in words.iter().enumerate().filter(|(_, word)| !word.is_empty()) {
        if let Some(host) = host_word(word) {
            let behind = words.get(index + 1..).unwrap_or_default().join(" ").to_lowercase();
            let fails =
                before.is_some() && word.ends_with(':') && HOST_WORDS.iter().any(|said| behind.starts_with(said));
            if is_plainly_one(word, &host) || in_quotes.contains(word) || before.is_some_and(leads) || fails {
                found = Some(host);
                break;
            }
        }
        before = Some(*word);
    }
    found.map(|found| NamedHost { port: found.port.or(said), ..found })
}

fn leads(word: &str) -> bool {
    let word = word.trim_end_matches(':').to_lowercase();
    let last = word.rsplit('.').next().unwrap_or_default();
    LEADING_WORDS.contains(&last)
}

fn is_plainly_one(word: &str, found: &NamedHost) -> bool {
    word.contains("://") || found.host.address().is_some()
}

/// The denial behind a message about a host. If the message names none, the command's only host counts.
pub(super) fn violation(permissions: &Permissions, named: Option<NamedHost>, command: &[RawText]) -> Option<Violation> {
    let said = in_command(command);
    let NamedHost { host, port } = match named {
        Some(named) => named,
        None => only_url(&said)?,
    };
    if is_nowhere(&host) {
        return None;
    }
    let port = port.or_else(|| said.iter().find(|(found, _)| found.host == host).and_then(|(found, _)| found.port));
    let port = port.unwrap_or(HTTPS);
    if is_this_machine(&host) && !stockade_sandboxing::listens(port) {
        return None;
    }
    let protocol = match port {
        80 => NetworkProtocol::Http,
        HTTPS => NetworkProtocol::Https,
        _ => NetworkProtocol::Tcp,
    };
    denied(permissions, Destination { host, protocol, port })
}

/// A name that [no name server knows](https://www.rfc-editor.org/rfc/rfc6761#section-6.4).
fn is_nowhere(host: &Host) -> bool {
    match host {
        Host::Name(name) => name.as_str() == "invalid" || name.as_str().ends_with(".invalid"),
        Host::Address(_) => false,
    }
}

fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Name(name) => name.is_this_machine(),
        Host::Address(address) => address.is_loopback(),
    }
}

/// The hosts in the command, and whether in a URL.
fn in_command(command: &[RawText]) -> Vec<(NamedHost, bool)> {
    let words = command.iter().flat_map(|word| {
        let word = word.to_string();
        let words: Vec<String> = word.split([' ', '\'', '"', '=', '(', ')', ';', ',']).map(str::to_owned).collect();
        words
    });
    words.filter_map(|word| host_word(&word).map(|found| (found, word.contains("://")))).collect()
}

/// The host of the command's URLs, if there is only one.
fn only_url(said: &[(NamedHost, bool)]) -> Option<NamedHost> {
    let mut urls = said.iter().filter(|(_, is_url)| *is_url).map(|(found, _)| found);
    let first = urls.next()?;
    urls.all(|other| other == first).then(|| first.clone())
}

/// A word that may be a host: it has a dot inside or is an address.
fn host_word(word: &str) -> Option<NamedHost> {
    let (scheme, word) = word.split_once("://").unwrap_or(("", word));
    let word = word.split('/').next().unwrap_or_default().trim_end_matches([':', '.']);
    let (name, port) = match word.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') => (name, port.parse().ok()),
        Some(_) | None => (word, None),
    };
    let looks_like_one = name.contains('.') && !name.starts_with('.') && name.chars().any(char::is_alphanumeric);
    let host: Host = looks_like_one.then(|| name.parse().ok()).flatten()?;
    let usual = match scheme.to_lowercase().as_str() {
        "http" => Some(80),
        "https" => Some(HTTPS),
        _ => None,
    };
    Some(NamedHost { host, port: port.or(usual) })
}

fn denied(permissions: &Permissions, destination: Destination) -> Option<Violation> {
    let decision = permissions.connect(&destination.host, destination.protocol, destination.port);
    if decision == Decision::Allow {
        return None;
    }
    let rule = match &permissions.network {
        NetworkPolicy::Hosts(hosts) => hosts
            .rules
            .iter()
            .filter(|rule| rule.matches(&destination.host, destination.protocol, destination.port))
            .max_by_key(|rule| rule.decision)
            .map_or(DenyingRule::NotGranted, |rule| DenyingRule::Network(rule.clone())),
        NetworkPolicy::Off | NetworkPolicy::Full => DenyingRule::NotGranted,
    };
    let forbidden = matches!(rule, DenyingRule::Network(HostRule { decision: Decision::Forbidden, .. }));
    let amendment = (!forbidden).then(|| {
        PermissionAmendment::Network(HostRule {
            host: HostPattern::Exact(destination.host.clone()),
            protocol: None,
            port: Some(destination.port),
            decision: Decision::Allow,
        })
    });
    Some(super::violation(Operation::Connect, ViolationTarget::Destination(destination), rule, amendment))
}
