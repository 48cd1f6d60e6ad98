//! Parsers for values as people write them: times, hosts, paths.

use std::net::{IpAddr, Ipv6Addr};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use stockade_protocol::{AbsPath, Decision, FileTarget, Host, HostPattern, HostRule, NetworkProtocol};

use crate::source::Source;

/// `500ms`, `30s`, `5m`, `2h`, `1d`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{}` is no time: write a number and ms, s, m, h or d", text.escape_debug());
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let (number, unit) = text.split_at_checked(digits).ok_or_else(wrong)?;
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let factor = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(wrong()),
    };
    let milliseconds = number.checked_mul(factor).filter(|milliseconds| *milliseconds > 0).ok_or_else(wrong)?;
    Ok(Duration::from_millis(milliseconds))
}

/// `host`, `host:port`, `*.host`, `[::1]:443`, `10.0.0.0/8:443`, `[fd00::/8]:443`, each with an optional `/udp` suffix
/// for datagrams.
///
/// ```
/// use stockade_config::parse_host;
/// use stockade_protocol::{Decision, NetworkProtocol};
///
/// let rule = parse_host("time.example.com:123/udp", Decision::Allow)?;
/// assert_eq!((rule.port, rule.protocol), (Some(123), Some(NetworkProtocol::Udp)));
/// assert_eq!(parse_host("example.com:443", Decision::Allow)?.protocol, None);
/// # Ok::<(), String>(())
/// ```
pub fn parse_host(text: &str, decision: Decision) -> Result<HostRule, String> {
    check_form(text)?;
    let (text, protocol) = match text.rsplit_once('/') {
        Some((rest, "udp")) => (rest, Some(NetworkProtocol::Udp)),
        Some((_, word @ ("tcp" | "http" | "https"))) => {
            return Err(format!("`{}`: a stream needs no `/{word}`; only `/udp` has to be said", text.escape_debug()));
        }
        Some(_) | None => (text, None),
    };
    let port_behind = text.rsplit_once(':').filter(|(host, _)| host.ends_with(']') || !host.contains(':'));
    let (host, port) = match port_behind {
        Some((host, port)) => {
            let port = port.parse::<u16>().ok().filter(|port| *port > 0);
            (host, Some(port.ok_or_else(|| format!("`{}` has no port from 1 to 65535", text.escape_debug()))?))
        }
        None => (text, None),
    };
    let host = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host);
    let host: HostPattern = host.parse().map_err(|error: stockade_protocol::Invalid| error.to_string())?;
    if decision != Decision::Forbidden && is_link_local(&host) {
        return Err(format!(
            "`{}` is link-local: it leads nowhere without its interface, which can't be named here; use another address \
             of the host, or `--network full`",
            text.escape_debug()
        ));
    }
    Ok(HostRule { host, protocol, port, decision })
}

fn is_link_local(host: &HostPattern) -> bool {
    match host {
        HostPattern::Exact(Host::Address(IpAddr::V6(address))) => address.is_unicast_link_local(),
        HostPattern::Network(network) => network.contains(IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0))),
        HostPattern::Exact(_) | HostPattern::Below(_) | HostPattern::Within(_) => false,
    }
}

/// Refuses common mistakes for a host and a port, and says what to write.
fn check_form(text: &str) -> Result<(), String> {
    let shown = text.escape_debug();
    if let Some((scheme, rest)) = text.split_once("://") {
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = host.rsplit('@').next().unwrap_or_default();
        let port = if scheme.eq_ignore_ascii_case("http") { 80 } else { 443 };
        let has_port = parse_host(host, Decision::Prompt).is_ok_and(|rule| rule.port.is_some());
        let port = if has_port { String::new() } else { format!(":{port}") };
        return Err(format!("`{shown}` is a URL; a host and a port are needed: write `{}{port}`", host.escape_debug()));
    }
    let Some((address, port)) = text.rsplit_once(':') else { return Ok(()) };
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port > 0);
    if address.parse::<Ipv6Addr>().is_ok() && is_port(port.split('/').next().unwrap_or_default()) {
        let whole = match text.parse::<Ipv6Addr>() {
            Ok(whole) => format!(", or `[{whole}]` for the address `{whole}` on every port"),
            Err(_) => String::new(),
        };
        return Err(format!(
            "`{shown}` can be read in two ways: write `[{address}]:{port}` for a port{whole}",
            port = port.escape_debug()
        ));
    }
    Ok(())
}

/// Refuses a host that no profile can name.
pub(crate) fn check_profile_host(text: &str) -> Result<(), String> {
    if text.contains("://") { Ok(()) } else { parse_host(text, Decision::Allow).map(drop) }
}

/// Makes a path absolute that may be relative to the file or to the home directory.
pub(crate) fn resolve_path(text: &str, source: &Source<'_>) -> Result<AbsPath, String> {
    AbsPath::from_path(&absolute(text, source)?).map_err(|error| error.to_string())
}

/// Like `resolve_path`, for a path or a glob.
pub(crate) fn resolve_target(text: &str, source: &Source<'_>) -> Result<FileTarget, String> {
    if !text.contains(['*', '?', '[', '{']) {
        return resolve_path(text, source).map(FileTarget::Path);
    }
    let absolute = absolute(text, source)?;
    let text = absolute.to_str().ok_or_else(|| String::from("a glob below a path that is not UTF-8"))?;
    text.parse().map(FileTarget::Glob).map_err(|error: stockade_protocol::Invalid| error.to_string())
}

fn absolute(text: &str, source: &Source<'_>) -> Result<PathBuf, String> {
    if text.is_empty() {
        return Err(String::from("the path is empty"));
    }
    let joined = match text.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => {
            let home = source.home.ok_or_else(|| format!("`{text}`: there is no home directory"))?;
            home.join(rest.trim_start_matches('/'))
        }
        Some(_) => {
            return Err(format!("`{}`: only your own home directory can be named with `~`", text.escape_debug()));
        }
        None => source.base.join(text),
    };
    // `../x` is relative to a canonical directory, so removing `..` is exact.
    Ok(without_leading_parents(&joined))
}

/// Refuses an absolute path with `..` after a link: a command that may change the link would choose the file.
pub(crate) fn no_parent_of_link(text: &str) -> Result<(), String> {
    let plain = without_leading_parents(Path::new(text));
    if plain.is_absolute() && plain.components().any(|part| part == Component::ParentDir) && Path::new(text).exists() {
        return Err(format!("`{}` has `..` behind a link: write the path that it leads to", text.escape_debug()));
    }
    Ok(())
}

/// `/a/b/../../c` as `/c`, as long as the `..` precede any other component of the written path.
fn without_leading_parents(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            // After a `..` that stays, all others stay as well.
            Component::ParentDir if !clean.ends_with("..") && is_plain_directory(&clean) => {
                clean.pop();
            }
            other @ (Component::Prefix(_)
            | Component::RootDir
            | Component::CurDir
            | Component::ParentDir
            | Component::Normal(_)) => clean.push(other),
        }
    }
    clean
}

fn is_plain_directory(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("2h"), Ok(Duration::from_secs(7200)));
        for text in ["", "5", "s", "0s", "-1s", "1.5s", "99999999999999999999s", "18446744073709551615d", "1é"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn hosts() {
        let host = |text: &str| parse_host(text, Decision::Allow).map(|rule| (rule.host.to_string(), rule.port));
        assert_eq!(host("a.test"), Ok((String::from("a.test"), None)));
        assert_eq!(host("*.a.test:443"), Ok((String::from("*.a.test"), Some(443))));
        assert_eq!(host("[::1]:80"), Ok((String::from("::1"), Some(80))));
        assert_eq!(host("::1"), Ok((String::from("::1"), None)));
        for text in ["", "a.test:0", "a.test:x", "a b", "https://a.test"] {
            assert!(host(text).is_err(), "{text}");
        }
        for text in ["2001:db8::1", "[2001:db8::1]", "1:2:3:4:5:6:7:8", "2a0b::2:ff", "2a0b::"] {
            assert_eq!(host(text).map(|(_, port)| port), Ok(None), "{text}");
        }
    }

    /// Each message says what to write instead.
    #[test]
    fn what_is_no_host_says_what_to_write() {
        for (given, written) in [
            ("https://a.test", &["a.test:443"][..]),
            ("https://a.test/path?x#y", &["a.test:443"]),
            ("http://user:pw@a.test:8080/", &["a.test:8080"]),
            ("HTTP://a.test", &["a.test:80"]),
            ("https://[2a0b::2]/", &["[2a0b::2]:443"]),
            ("2a0b::2:8000", &["[2a0b::2]:8000", "[2a0b::2:8000]"]),
            ("2a0b::2:53/udp", &["[2a0b::2]:53/udp"]),
            ("1:2:3:4:5:6:7:8:443", &["[1:2:3:4:5:6:7:8]:443"]),
        ] {
            let refused = parse_host(given, Decision::Allow).unwrap_err();
            for text in written {
                assert!(refused.contains(&format!("`{text}`")), "{given}: {refused}");
                parse_host(text, Decision::Allow).unwrap();
            }
        }
    }
}
