//! Policies that between them bring out every word that a profile can hold. On every system their words are compared
//! with `SOURCES.md`; on a Mac each of them is also read by the system, and a command runs under it.

use stockade_protocol::{Decision, HostRule, HostRules, HttpMethods, NetworkPolicy, Permissions};
use stockade_sandbox_macos::platform_defaults;
use stockade_sandboxing::rules;

fn permissions(lines: &[String], network: NetworkPolicy) -> Permissions {
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    Permissions { files: rules(&lines), network, ..Permissions::default() }
}

/// Policies for a workspace that holds `.git` and `sub`. An ordinary program can be started under each of them.
pub(crate) fn policies(workspace: &str) -> Vec<Permissions> {
    let rule = HostRule { host: "example.com".parse().unwrap(), protocol: None, port: None, decision: Decision::Allow };
    let hosts = NetworkPolicy::Hosts(HostRules { rules: vec![rule], methods: HttpMethods::Any });
    let lines = |lines: &[&str]| -> Vec<String> { lines.iter().map(|line| line.replace("/w", workspace)).collect() };
    let usual = lines(&["/ read", "/w write", "/w/.git read protected", "/w/**/*.env none", "/private/tmp scratch"]);
    let defaults = platform_defaults().iter().map(|path| format!("{path} read")).collect::<Vec<_>>();
    let restricted: Vec<String> = defaults.into_iter().chain(lines(&["/w write", "/private/tmp scratch"])).collect();
    let socket = [format!("{workspace}/a.sock").parse().unwrap()].into();
    let nested = permissions(&lines(&["/ read", "/w none", "/w/sub write"]), NetworkPolicy::Off);
    vec![
        permissions(&lines(&["/ write"]), NetworkPolicy::Off),
        permissions(&usual, NetworkPolicy::Off),
        permissions(&restricted, NetworkPolicy::Off),
        permissions(&usual, NetworkPolicy::Full),
        permissions(&usual, hosts),
        Permissions { unix_sockets: socket, ..nested },
    ]
}
