//! Describes the effects of a project's files before a person trusts them.

use stockade_config::{ProfileLine, ProjectFileKind, ProjectReview};
use stockade_execpolicy::{Extent, NetworkRule, PolicyLoader, PrefixRule};
use stockade_protocol::{Decision, NetworkProtocol, RawText};

use crate::exit::Failure;

/// Every file with its effects, line by line. An unusable file is an error.
pub(super) fn describe(review: &ProjectReview) -> Result<String, Failure> {
    let mut text = String::new();
    for (name, kind) in review.files() {
        text.push_str(&format!("  .stockade/{name}\n"));
        let lines = match kind {
            ProjectFileKind::Settings => settings(review)?,
            ProjectFileKind::Profile => profile(review, name)?,
            ProjectFileKind::Rules(content) => rules(name, content)?,
            ProjectFileKind::Unread => vec![String::from("is not read")],
        };
        for line in lines {
            text.push_str(&format!("    {line}\n"));
        }
    }
    Ok(text)
}

fn settings(review: &ProjectReview) -> Result<Vec<String>, Failure> {
    let settings = review.settings()?.into_iter();
    Ok(settings.map(|setting| format!("sets {} = {}", shown(&setting.key), shown(&setting.value))).collect())
}

fn profile(review: &ProjectReview, name: &RawText) -> Result<Vec<String>, Failure> {
    let file = name.as_str().and_then(|name| name.strip_prefix("profiles/")?.strip_suffix(".toml"));
    let profiles = review.profiles()?;
    let profile = profiles.iter().find(|profile| Some(profile.name()) == file);
    let lines = profile.iter().flat_map(|profile| profile.lines());
    let line = |line: &ProfileLine| {
        format!("may grant, where it is named: {}: {}", shown(&line.grants.to_string()), shown(&line.reason))
    };
    Ok(lines.map(line).collect())
}

fn rules(name: &RawText, content: &[u8]) -> Result<Vec<String>, Failure> {
    let path = format!(".stockade/{name}");
    let policy = PolicyLoader::new().home(std::env::var_os("HOME")).project_file(path, content).load()?;
    let mut lines: Vec<String> = policy.rules().map(rule).collect();
    for (name, paths) in policy.host_executables() {
        let paths: Vec<String> = paths.iter().map(|path| format!("`{path}`")).collect();
        lines.push(format!("takes {} for `{}`", paths.join(", "), shown(name)));
    }
    lines.extend(policy.network_rules().iter().map(host));
    Ok(lines)
}

fn rule(rule: &PrefixRule) -> String {
    let what = match rule.decision() {
        Decision::Allow => "allows without asking, in the sandbox:",
        Decision::Prompt => "asks before",
        Decision::Forbidden => "forbids",
    };
    let extent = match rule.extent() {
        Extent::Prefix => "commands that start with",
        Extent::Exact => "exactly the command",
    };
    let profiles: Vec<String> = rule.profiles().iter().map(|name| format!("`{}`", shown(name))).collect();
    let profiles = match profiles.is_empty() {
        true => String::new(),
        false => format!(", with the permission profiles {}", profiles.join(", ")),
    };
    format!("{what} {extent} {rule}{profiles}{}", why(rule.justification()))
}

fn host(rule: &NetworkRule) -> String {
    let what = match rule.decision() {
        Decision::Allow => "allows without asking",
        Decision::Prompt => "asks before",
        Decision::Forbidden => "forbids",
    };
    let protocol = match rule.protocol() {
        NetworkProtocol::Http => "HTTP",
        NetworkProtocol::Https => "TLS",
        NetworkProtocol::Tcp => "TCP",
        NetworkProtocol::Udp => "UDP",
    };
    let port = rule.port().map_or_else(|| String::from("any port"), |port| format!("port {port}"));
    format!("{what} connections to {}, {port}, over {protocol}{}", rule.host(), why(rule.justification()))
}

fn why(justification: Option<&str>) -> String {
    justification.map(|why| format!(": {}", shown(why))).unwrap_or_default()
}

/// Escapes text of a project's files: nothing in it moves the cursor or hides.
fn shown(text: &str) -> RawText {
    RawText::from(text)
}
