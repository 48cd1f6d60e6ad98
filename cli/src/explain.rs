//! `stockade explain`: the decision without the execution.

use std::process::ExitCode;

use serde::Serialize;
use stockade::losses;
use stockade_core::{Explanation, HostExplanation, HostsThrough, PathExplanation};
use stockade_protocol::{
    AbsPath, Access, Argv, Decision, DecisionSource, ExecApprovalRequirement, FileRule, HostRule, NetworkPolicy,
    Permissions, RuleSource, Word,
};
use stockade_sandboxing::absolute;

use crate::args::Explain;
use crate::exit::{self, Failure, print};
use crate::report;
use crate::session::{Prepared, Purpose, prepare};

/// Rules that are listed.
const MOST_RULES: usize = 5;

/// It would be asked.
const ASKED: u8 = 1;

pub(crate) fn run(args: &Explain) -> Result<ExitCode, Failure> {
    // A path is explained for the session, independent of the command.
    let nothing = [std::ffi::OsString::from("true")];
    let words = args.words();
    let command = if words.is_empty() { &nothing[..] } else { &words };
    let Prepared { stockade, request, .. } = prepare(&args.session, command, Purpose::Explain)?;
    let (orchestrator, settings) = (stockade.orchestrator(), stockade.settings());
    let here = AbsPath::from_path(&std::env::current_dir()?)?;
    let mut paths = Vec::new();
    for path in &args.path {
        paths.push(orchestrator.explain_path(&absolute(&here, path)?)?);
    }
    let hosts: Vec<HostExplanation> =
        args.host.iter().map(|to| orchestrator.explain_host(&to.host, to.protocol, to.port)).collect();
    let command = if words.is_empty() { None } else { Some(orchestrator.explain(&request)?) };
    let answers = Answers { command, paths, hosts, accepted_losses: losses::accepted(&settings) };
    if args.json {
        print(&(serde_json::to_string_pretty(&answers)? + "\n"))?;
    } else {
        let mut text = answers.command.as_ref().map(command_text).unwrap_or_default();
        text.extend(answers.paths.iter().map(path_text));
        text.extend(answers.hosts.iter().map(host_text));
        text.extend(
            answers
                .accepted_losses
                .iter()
                .map(|loss| format!("lost     {loss}, where the engine can't hold it, as was accepted\n")),
        );
        for (key, origin) in settings.origins() {
            text += &format!("setting  {key} comes from the {origin}\n");
        }
        print(&text)?;
    }
    // This program is about to end, and the system frees everything at once.
    std::mem::forget((stockade, request));
    Ok(answers.command.map_or(ExitCode::SUCCESS, |explanation| exit_code(&explanation)))
}

/// All explanations.
#[derive(Serialize)]
struct Answers {
    #[serde(flatten)]
    command: Option<Explanation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    paths: Vec<PathExplanation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<HostExplanation>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    accepted_losses: Vec<String>,
}

fn exit_code(explanation: &Explanation) -> ExitCode {
    match &explanation.requirement {
        ExecApprovalRequirement::Forbidden { .. } => ExitCode::from(exit::REFUSED),
        _ if explanation.unenforceable.is_some() => ExitCode::from(exit::FAILED),
        ExecApprovalRequirement::NeedsApproval { .. } => ExitCode::from(ASKED),
        ExecApprovalRequirement::Skip { .. } => ExitCode::SUCCESS,
    }
}

/// A word as it would be typed: quoted if needed.
fn shown_word(word: &Word) -> String {
    match word.known() {
        Some(text) if text.is_empty() => String::from("''"),
        Some(text) => Argv::parse([text.clone()]).map_or_else(|_| word.to_string(), |quoted| quoted.to_string()),
        None => word.to_string(),
    }
}

pub(crate) fn command_text(explanation: &Explanation) -> String {
    let mut text = String::new();
    let mut line = |label: &str, what: &str| text.push_str(&format!("{label:<9}{what}\n"));
    let what = match &explanation.requirement {
        ExecApprovalRequirement::Skip { .. } => String::from("runs without asking"),
        ExecApprovalRequirement::NeedsApproval { reason: Some(reason), .. } => format!("asks first: {reason}"),
        ExecApprovalRequirement::NeedsApproval { reason: None, .. } => String::from("asks first"),
        ExecApprovalRequirement::Forbidden { reason } => format!("is refused: {reason}"),
    };
    line("command", &what);
    line("decided", &source(&explanation.source, &what));
    for part in &explanation.parsed.commands {
        let words: Vec<String> = part.words.iter().map(shown_word).collect();
        let via = part.via.as_ref().map(|via| format!("  (in {via})")).unwrap_or_default();
        line("runs", &format!("{}{via}", words.join(" ")));
    }
    if let Some(why) = &explanation.parsed.opaque {
        line("", &format!("and perhaps more: {why}"));
    }
    if matches!(explanation.requirement, ExecApprovalRequirement::Forbidden { .. }) {
        return text;
    }
    let sandbox = if explanation.sandboxed { "in the sandbox" } else { "without a sandbox" };
    line("where", sandbox);
    for granted in permissions(&explanation.permissions) {
        line("", &granted);
    }
    if explanation.hosts_through == Some(HostsThrough::Proxy) {
        line("", "hosts are reached through a proxy, by programs that look at `HTTPS_PROXY` and its like");
    }
    if let Some(why) = &explanation.unenforceable {
        line("but", &format!("this host can't enforce that, so it does not run: {why}"));
    }
    for warning in &explanation.warnings {
        line("note", warning);
    }
    if !explanation.inside.is_empty() {
        let shown: Vec<&str> = explanation.inside.iter().take(MOST_RULES).map(String::as_str).collect();
        let more = explanation.inside.len().saturating_sub(MOST_RULES);
        let more = if more > 0 { format!("; and {more} more (`--json` lists them)") } else { String::new() };
        let rules = match explanation.inside.len() {
            1 => String::from("a rule"),
            count => format!("{count} rules"),
        };
        line("inside", &format!("programs that it starts are judged by {rules}: {}{more}", shown.join("; ")));
    }
    for skills in &explanation.skills {
        line("skills", &format!("programs below `{skills}` are asked about as scripts of a skill"));
    }
    if let Some(why) = &explanation.left_to_starts {
        line("", &format!("so it is not asked first, although {why}"));
    }
    if explanation.sandboxed {
        let then = if explanation.asks_after_denial { "you are asked for a wider run" } else { "it is reported" };
        line("denied", &format!("if the sandbox denies it something, {then}"));
    }
    text
}

fn permissions(permissions: &Permissions) -> Vec<String> {
    let is_mask = |rule: &&FileRule| rule.source == RuleSource::CredentialMask;
    let single = permissions.files.iter().filter(|rule| !is_mask(rule) && !rule.is_bound());
    let mut lines: Vec<String> = single.map(report::file_rule).collect();
    let masked = permissions.files.iter().filter(is_mask).count();
    if masked > 0 {
        lines.push(format!("{masked} places of credentials are masked, such as ~/.ssh (`--json` lists them)"));
    }
    if permissions.files.iter().any(FileRule::is_bound) {
        lines.push(String::from("Stockade's own files can't be written, whatever is granted (`--json` lists them)"));
    }
    lines.push(match &permissions.network {
        NetworkPolicy::Off => String::from("the network is off"),
        NetworkPolicy::Full => String::from("the network is open"),
        NetworkPolicy::Hosts(hosts) if hosts.rules.is_empty() => {
            String::from("the network is off; you are asked for each host when a program connects to it")
        }
        NetworkPolicy::Hosts(hosts) => {
            let names: Vec<String> = hosts.rules.iter().map(HostRule::destinations).collect();
            format!("the network is open to what the rules name: {}", names.join(", "))
        }
    });
    lines
}

/// The source of the decision. A rule that has been quoted already is not repeated.
fn source(source: &DecisionSource, said: &str) -> String {
    match source {
        DecisionSource::Rule(rule) if said.contains(rule) => String::from("by that rule"),
        DecisionSource::Rule(rule) => format!("by the rule at {rule}"),
        DecisionSource::Fallback => String::from("by the table of known commands"),
        DecisionSource::ApprovalPolicy => String::from("by the approval policy"),
        DecisionSource::Reviewer => String::from("by a person"),
        DecisionSource::SessionMemory => String::from("by an earlier answer"),
        DecisionSource::External => String::from("by a policy outside"),
    }
}

fn path_text(path: &PathExplanation) -> String {
    let what = match path.access {
        Access::Write => "may be read and written",
        Access::Read => "may be read",
        Access::Scratch => "is an empty private directory",
        Access::None => "is out of reach",
    };
    let leads = if path.path == path.resolved { String::new() } else { format!(" (leads to `{}`)", path.resolved) };
    let why = match (&path.own, &path.rule) {
        (Some(own), _) => own.clone(),
        (None, Some(rule)) => report::file_rule(rule),
        (None, None) => String::from("no rule grants it"),
    };
    format!("`{}`{leads} {what}: {why}\n", path.path)
}

fn host_text(host: &HostExplanation) -> String {
    let what = match host.decision {
        Decision::Allow => "may be reached",
        Decision::Prompt => "has to be asked for",
        Decision::Forbidden => "is refused",
    };
    let why = host.rule.as_deref().map_or_else(|| String::from("no rule names it"), |rule| format!("by {rule}"));
    format!("`{}` {what}: {why}\n", host.destination)
}
