//! Renders a question as text.
//!
//! The grant comes last, right above the keys: it stays visible if the page is longer than the screen.

mod command;
mod grant;
mod patch;

use stockade_protocol::{
    ApprovalRequest, ApprovalSubject, Decision, ElicitationApproval, HostRule, NetworkApproval, NetworkProtocol,
    PermissionsApproval, ResolvedPath, RiskAssessment, RiskLevel, ToolCallApproval, WriteApproval, WriteOperation,
};

use super::choices::Choice;
use super::filling::{self, Form};
use super::page::{Look, Page, Paint, Tone};
use super::secrets;
use super::text::{self, Detail};

/// The question, and whether it was shortened.
pub(super) fn question(request: &ApprovalRequest, look: &Look, columns: usize, detail: Detail) -> (String, bool) {
    let mut page = Page::new(look.paint, columns, detail);
    page.line(0, Tone::Title, &format!("stockade asks: {}", title(&request.subject)));
    match &request.subject {
        ApprovalSubject::Command(command) => command::show(&mut page, command),
        ApprovalSubject::Patch(patch) => patch::show(&mut page, patch),
        ApprovalSubject::Network(network) => show_network(&mut page, network),
        ApprovalSubject::Write(write) => show_write(&mut page, write),
        ApprovalSubject::Permissions(permissions) => show_justification(&mut page, permissions),
        ApprovalSubject::ToolCall(call) => show_tool_call(&mut page, call),
        ApprovalSubject::Elicitation(elicitation) => show_elicitation(&mut page, elicitation),
    }
    if let Some(reason) = &request.reason {
        page.section("Why it is asked:");
        page.plain(2, &text::sentence(&secrets::text(reason), detail));
    }
    if let Some(risk) = &request.risk {
        show_risk(&mut page, risk);
    }
    show_resolved(&mut page, &request.resolved_paths);
    match &request.subject {
        ApprovalSubject::Command(command) => {
            grant::show_escalation(&mut page, &command.escalation);
            grant::show_left_out(&mut page, &command.escalation, &look.left_out);
        }
        ApprovalSubject::Permissions(permissions) => {
            page.section("With a yes, the session may from now on:");
            grant::show_permissions(&mut page, &permissions.permissions);
        }
        ApprovalSubject::Patch(patch) => patch::show_grant(&mut page, patch),
        ApprovalSubject::Network(_)
        | ApprovalSubject::Write(_)
        | ApprovalSubject::ToolCall(_)
        | ApprovalSubject::Elicitation(_) => {}
    }
    page.finish()
}

/// The list of keys.
pub(super) fn keys(choices: &[Choice], shortened: bool, paint: Paint, columns: usize) -> String {
    let mut page = Page::new(paint, columns, Detail::Whole);
    page.plain(0, "");
    for choice in choices {
        page.plain(1, &format!("{}  {}", choice.key, choice.label));
        for note in &choice.notes {
            page.line(3, Tone::Normal, note);
        }
    }
    if shortened {
        page.plain(1, "v  show everything first: parts were left out above");
    }
    page.finish().0
}

fn title(subject: &ApprovalSubject) -> &'static str {
    match subject {
        ApprovalSubject::Command(command) if command.violations.is_empty() => "may this command run?",
        ApprovalSubject::Command(_) => "the sandbox stopped this command. May it run again, with more?",
        ApprovalSubject::Patch(_) => "may these files be changed?",
        ApprovalSubject::Network(network) if network.leads_to.is_empty() => "may this destination be reached?",
        ApprovalSubject::Network(_) => "may this address on a local network be reached?",
        ApprovalSubject::Write(_) => "may the command write outside of its sandbox?",
        ApprovalSubject::Permissions(_) => "may the session have more permissions?",
        ApprovalSubject::ToolCall(_) => "may this tool be called?",
        ApprovalSubject::Elicitation(_) => "will you answer this server?",
    }
}

fn show_network(page: &mut Page, network: &NetworkApproval) {
    page.plain(0, "");
    page.line(2, Tone::Title, &destination(&network.host.bracketed(), Some(network.protocol), Some(network.port)));
    if let Some(program) = &network.program {
        page.plain(2, &format!("wanted by {}", text::word(program, page.detail)));
    }
    if !network.leads_to.is_empty() {
        let addresses: Vec<String> = network.leads_to.iter().map(ToString::to_string).collect();
        let leads =
            format!("The name leads to {}, on a private network or one of this machine's.", addresses.join(", "));
        page.line(2, Tone::Warning, &leads);
        page.plain(2, "The name itself is allowed already; this is about the address.");
    }
    if network.host.is_special() {
        page.line(2, Tone::Warning, "This address is on this machine or its local network.");
    }
}

/// `npm wants to create /home/me/.npm`. The call waits for the answer.
fn show_write(page: &mut Page, write: &WriteApproval) {
    let detail = page.detail;
    let verb = match write.operation {
        WriteOperation::Write => "write",
        WriteOperation::Create | WriteOperation::MakeDirectory => "create",
        WriteOperation::Replace => "remove or replace",
    };
    // The whole path of the program is in the trail.
    let name = write.program.as_ref().map(|program| {
        let name = program.as_bytes().rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        text::word(&name.to_vec().into(), detail)
    });
    page.plain(0, "");
    let name = name.as_deref().unwrap_or("The command");
    let paths: Vec<String> = write.paths.iter().map(|path| text::word(path.as_raw(), detail)).collect();
    page.line(2, Tone::Title, &format!("{name} wants to {verb} {}", paths.join(" and ")));
    page.plain(
        2,
        "It waits for the answer. With a yes, Stockade does it outside of the sandbox, and the command goes on.",
    );
}

fn show_justification(page: &mut Page, permissions: &PermissionsApproval) {
    if let Some(justification) = &permissions.justification {
        page.section("Justification, in the caller's words:");
        page.plain(2, &text::line(secrets::text(justification).as_bytes(), page.detail));
    }
}

fn show_tool_call(page: &mut Page, call: &ToolCallApproval) {
    let detail = page.detail;
    let name = |name: &str| text::word(&name.into(), detail);
    page.plain(0, "");
    page.line(2, Tone::Title, &format!("{} of the server {}", name(&call.tool), name(&call.server)));
    if call.arguments.is_empty() {
        page.plain(2, "without arguments");
        return;
    }
    page.section("Arguments:");
    let arguments: Vec<_> = call.arguments.iter().collect();
    page.list(&arguments, "arguments", |page, (key, value)| {
        let value = text::line(secrets::named(key, &value.to_string()).as_bytes(), detail);
        page.plain(2, &format!("{}: {value}", name(key)));
    });
}

fn show_elicitation(page: &mut Page, elicitation: &ElicitationApproval) {
    page.section(&format!("The server {} asks:", text::word(&elicitation.server.as_str().into(), page.detail)));
    page.plain(2, &text::line(elicitation.message.as_bytes(), page.detail));
    match Form::of(elicitation) {
        None => {}
        Some(Err(why)) => page.section(&format!("No answer but a no can be given here: {why}.")),
        Some(Ok(form)) => {
            page.section("It wants to know:");
            page.list(form.fields(), "fields", |page, field| {
                page.plain(2, &format!("- {}", filling::heading(field)));
                if filling::is_secret(field) {
                    page.line(3, Tone::Warning, "This looks like a secret, which servers are not supposed to ask for.");
                }
            });
        }
    }
}

/// Shows a program's assessment, marked as such: its input may have manipulated it.
fn show_risk(page: &mut Page, risk: &RiskAssessment) {
    let level = match risk.level {
        RiskLevel::Low => "low",
        RiskLevel::Medium => "medium",
        RiskLevel::High => "high",
    };
    let tone = if risk.level == RiskLevel::High { Tone::Warning } else { Tone::Normal };
    let shown = |text: &str| text::line(secrets::text(text).as_bytes(), page.detail);
    let (heading, summary) = (format!("{level} risk, {}", shown(&risk.category)), shown(&risk.summary));
    page.section("An automatic assessment, which may be wrong and decides nothing:");
    page.line(2, tone, &heading);
    page.plain(2, &summary);
}

fn show_resolved(page: &mut Page, paths: &[ResolvedPath]) {
    if paths.is_empty() {
        return;
    }
    page.section("Paths that lead elsewhere than their names say:");
    page.list(paths, "paths", |page, path| {
        let shown = |path: &stockade_protocol::AbsPath| text::word(path.as_raw(), page.detail);
        let line = format!("{} -> {}", shown(&path.given), shown(&path.resolved));
        page.line(2, Tone::Warning, &line);
    });
}

/// The destinations of a rule. An allowing rule mentions datagrams explicitly.
pub(super) fn destinations(rule: &HostRule) -> String {
    let host = rule.host.bracketed();
    match (rule.protocol, rule.decision) {
        (None, Decision::Allow) => format!("{host}, {}, over any stream", port_words(rule.port)),
        (protocol, _) => destination(&host, protocol, rule.port),
    }
}

/// A destination, or several.
pub(super) fn destination(host: &str, protocol: Option<NetworkProtocol>, port: Option<u16>) -> String {
    let protocol = match protocol {
        Some(NetworkProtocol::Http) => "over HTTP",
        Some(NetworkProtocol::Https) => "over TLS",
        Some(NetworkProtocol::Tcp) => "over TCP",
        Some(NetworkProtocol::Udp) => "over UDP",
        None => "over any protocol",
    };
    format!("{host}, {}, {protocol}", port_words(port))
}

fn port_words(port: Option<u16>) -> String {
    port.map_or_else(|| String::from("any port"), |port| format!("port {port}"))
}
