//! Renders the grant of an approval, rule by rule.

use stockade_protocol::{
    Access, Decision, EscalationExecution, FileRule, FileTarget, HostRule, HttpMethods, NetworkPolicy, Permissions,
    RuleSource,
};

use super::destinations;
use crate::terminal::page::{Page, Tone};
use crate::terminal::secrets;
use crate::terminal::text::{self, Detail};

pub(super) fn show_escalation(page: &mut Page, escalation: &EscalationExecution) {
    match escalation {
        EscalationExecution::TurnDefault => {
            page.section("With a yes, it runs in the sandbox, with what the session grants anyway.");
        }
        EscalationExecution::Permissions(permissions) => {
            page.section("With a yes, it runs in the sandbox and may, on top of what the session grants:");
            show_permissions(page, permissions);
        }
        EscalationExecution::Unsandboxed => {
            page.plain(0, "");
            page.line(1, Tone::Warning, "WARNING: with a yes, it runs WITHOUT THE SANDBOX.");
            page.line(
                1,
                Tone::Warning,
                "It can then do everything that you can: change and send any file, use any network.",
            );
            page.plain(1, "Only reads that a person denied stay denied.");
        }
    }
}

/// Shows the accepted losses. Without a sandbox there are none.
pub(super) fn show_left_out(page: &mut Page, escalation: &EscalationExecution, left_out: &[String]) {
    if left_out.is_empty() || *escalation == EscalationExecution::Unsandboxed {
        return;
    }
    page.section("Where the sandbox can't hold it, this was accepted to be lost:");
    page.list(left_out, "losses", |page, loss| page.line(2, Tone::Warning, &format!("- {loss}")));
}

pub(super) fn show_permissions(page: &mut Page, permissions: &Permissions) {
    let rules = rules(permissions, page.detail);
    if rules.is_empty() {
        page.plain(2, "nothing more");
    }
    page.list(&rules, "permissions", |page, (tone, rule)| page.line(2, *tone, &format!("- {rule}")));
}

fn rules(permissions: &Permissions, detail: Detail) -> Vec<(Tone, String)> {
    let mut rules = Vec::new();
    for rule in permissions.files.iter() {
        let everything = matches!(&rule.target, FileTarget::Path(path) if path.parent().is_none());
        let tone = if everything && rule.access == Access::Write { Tone::Warning } else { Tone::Normal };
        rules.push((tone, file_rule(rule, detail)));
    }
    match &permissions.network {
        NetworkPolicy::Off => {}
        NetworkPolicy::Full => rules.push((Tone::Warning, String::from("use the whole network, without any limit"))),
        NetworkPolicy::Hosts(hosts) => {
            rules.extend(hosts.rules.iter().map(|rule| (Tone::Normal, host_rule(rule))));
            if hosts.methods == HttpMethods::ReadOnly {
                rules.push((Tone::Normal, String::from("send only HTTP requests that read")));
            }
        }
    }
    for socket in &permissions.unix_sockets {
        // The listening process acts with its own privileges, outside of the sandbox.
        let socket = text::word(socket.as_raw(), detail);
        rules.push((Tone::Warning, format!("talk to the program behind the socket {socket}, which is not sandboxed")));
    }
    let limits = permissions.limits;
    let limits = [
        (limits.cpu_seconds, "seconds of processor time in each process"),
        (limits.memory_bytes, "bytes of memory"),
        (limits.processes, "processes"),
        (limits.file_size_bytes, "bytes in each file"),
        (limits.open_files, "open files in each process"),
    ];
    for (limit, what) in limits {
        rules.extend(limit.map(|limit| (Tone::Normal, format!("use up to {limit} {what}"))));
    }
    for (name, value) in &permissions.environment.set {
        let assignment = format!("{name}={}", secrets::named(name.as_str(), value));
        rules.push((Tone::Normal, format!("see the variable {}", text::word(&assignment.into(), detail))));
    }
    for name in &permissions.environment.include_only {
        let name = text::word(&name.to_string().into(), detail);
        rules.push((Tone::Normal, format!("see inherited variables named {name}")));
    }
    rules
}

/// A file rule as a phrase of what a command may or may not do.
pub(super) fn file_rule(rule: &FileRule, detail: Detail) -> String {
    let verb = match rule.access {
        Access::None => "not touch",
        Access::Scratch => "see an empty private directory in place of",
        Access::Read => "read",
        Access::Write => "write",
    };
    let target = match &rule.target {
        FileTarget::Path(path) if path.parent().is_none() => String::from("EVERYTHING, from / on"),
        FileTarget::Path(path) => text::word(path.as_raw(), detail),
        FileTarget::Glob(glob) => format!("what matches {}", text::word(&glob.to_string().into(), detail)),
    };
    let source = match rule.source {
        RuleSource::Administrator => " (set by the administrator)",
        RuleSource::ProtectedMetadata => " (protected, so that a command can't take over later)",
        RuleSource::CredentialMask => " (well-known credentials)",
        RuleSource::OwnFiles | RuleSource::OwnFilesLink => " (Stockade's own files)",
        RuleSource::Policy | RuleSource::Approval => "",
    };
    format!("{verb} {target}{source}")
}

/// A host rule as a phrase of what a command may or may not do.
pub(super) fn host_rule(rule: &HostRule) -> String {
    let verb = match rule.decision {
        Decision::Allow => "connect to",
        Decision::Prompt => "ask to connect to",
        Decision::Forbidden => "not connect to",
    };
    format!("{verb} {}", destinations(rule))
}
