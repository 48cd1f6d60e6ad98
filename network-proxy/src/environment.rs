//! The environment variables that make programs use the proxy.
//!
//! They are a convenience, not the enforcement: a program that ignores them has no other route.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use crate::Secret;
use crate::secret::USER;

/// Programs read either the upper-case or the lower-case name.
const HTTP: &[&str] =
    &["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "WS_PROXY", "WSS_PROXY", "FTP_PROXY", "ftp_proxy"];
const ANY: &[&str] = &["ALL_PROXY", "all_proxy"];
/// Set to the empty string. A command that can reach the proxy shares the host's loopback interface, so the gate
/// decides about loopback destinations, too.
const NOT_PROXIED: &[&str] = &["NO_PROXY", "no_proxy", "npm_config_noproxy"];
/// Tool-specific names for the same setting.
const TOOLS: &[&str] = &[
    "npm_config_proxy",
    "npm_config_https_proxy",
    "YARN_HTTP_PROXY",
    "YARN_HTTPS_PROXY",
    "PIP_PROXY",
    "CARGO_HTTP_PROXY",
    "BUNDLE_HTTP_PROXY",
    "BUNDLE_HTTPS_PROXY",
    "DOCKER_HTTP_PROXY",
    "DOCKER_HTTPS_PROXY",
    "ELECTRON_GET_USE_PROXY",
    "GLOBAL_AGENT_HTTP_PROXY",
    "CLOUDSDK_PROXY_URL",
];

/// The environment variables with which a command finds the proxy and authenticates to it.
///
/// ```
/// use stockade_network_proxy::{Secret, environment};
///
/// let secret = Secret::random()?;
/// let variables = environment("127.0.0.1:3128".parse().unwrap(), &secret);
/// assert!(variables["HTTPS_PROXY"].ends_with("@127.0.0.1:3128"));
/// assert!(variables["all_proxy"].starts_with("socks5h://"));
/// assert_eq!(variables["no_proxy"], "");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn environment(proxy: SocketAddr, secret: &Secret) -> BTreeMap<String, String> {
    let secret = secret.expose();
    let http = format!("http://{USER}:{secret}@{proxy}");
    // `socks5h`: the proxy looks names up, so that the gate sees names and no query leaves the sandbox.
    let socks = format!("socks5h://{USER}:{secret}@{proxy}");
    let mut variables = BTreeMap::new();
    let mut set = |names: &[&str], value: &str| {
        variables.extend(names.iter().map(|name| ((*name).to_owned(), value.to_owned())));
    };
    set(HTTP, &http);
    set(TOOLS, &http);
    set(ANY, &socks);
    set(NOT_PROXIED, "");
    // Node's own `fetch` and `http` look at the variables only if told to.
    set(&["NODE_USE_ENV_PROXY"], "1");
    // Java reads no proxy variables, but every JVM reads this one. It takes no password from here.
    let (host, port) = (proxy.ip(), proxy.port());
    let java = format!(
        "-Dhttp.proxyHost={host} -Dhttp.proxyPort={port} -Dhttps.proxyHost={host} -Dhttps.proxyPort={port} \
         -Dhttp.proxyUser={USER} -Dhttp.proxyPassword={secret} -Dhttps.proxyUser={USER} -Dhttps.proxyPassword={secret} \
         -Djdk.http.auth.tunneling.disabledSchemes= -Dhttp.nonProxyHosts="
    );
    set(&["JAVA_TOOL_OPTIONS"], &java);
    variables
}
