//! Judges tool calls: commands by the agent's session, everything else by the same policy.

use std::borrow::Cow;
use std::ffi::OsString;
use std::time::Duration;

use stockade::Stockade;
use stockade_core::{Explanation, Fixed};
use stockade_protocol::{
    AbsPath, AskForApproval, Decision, DecisionSource, ExecApprovalRequirement, ExecPolicyAmendment,
};
use stockade_server::wire::SessionName;

use super::answer::Answer;
use super::call::{self, Call, Event, Tool};
use super::line::{self, Asked, NextLine};
use super::{files, project};
use crate::args::{AgentName, SessionArgs};
use crate::exit::{Failure, with_causes};
use crate::joined::{self, Answers, NamedBy, Wanted};
use crate::remedy::settings_file;
use crate::run::Ending;
use crate::run::ReportForm;
use crate::{flags, nested, session, shell};

/// The name of Stockade's session for an agent's session.
fn session_name(agent: AgentName, session: &str) -> Result<SessionName, String> {
    if session.is_empty() {
        return Err(String::from("the agent says nothing of its session (`session_id`), and sessions are not shared"));
    }
    let name = format!("{}-{session}", agent.as_str());
    name.parse().map_err(|error| format!("the agent's session has a name that can't be used: {error}"))
}

/// Judges a call. Every error is a refusal.
pub(super) fn judge(call: &Call) -> Answer {
    if call.tool != Tool::Other && nested::is_inside() {
        if !call.agent.asks_for_hooks() {
            // A question would be a refusal of every use.
            return Answer::NoOpinion;
        }
        // The agent asks as it would without a hook, and shows the reason.
        let reason =
            "the whole agent runs in a sandbox of Stockade, which holds for this, too; rules are not read in there";
        return Answer::Ask { reason: reason.to_owned(), line: None };
    }
    let judged = match &call.tool {
        Tool::Other => return Answer::NoOpinion,
        Tool::Shell { line, next } => shell(call, line, *next).and_then(|answer| with_patches(call, line, answer)),
        Tool::Write { paths } => files::writing(call, paths),
        Tool::Read { path } => files::reading(call, path),
        Tool::Search { below, patterns } => files::searching(call, below.as_deref(), patterns),
        Tool::Fetch { urls } => fetching(call, urls),
        Tool::Unknown { name, commands } => unknown(call, name, commands),
        Tool::Skill => skill(call),
    };
    judged.unwrap_or_else(|reason| Answer::Deny { reason: format!("Stockade can't judge this: {reason}") })
}

/// The answer after a timeout. A command that the person then allows still runs in its session, where everything is
/// judged again.
pub(super) fn undecided(call: &Call, limit: Duration) -> Answer {
    let reason = format!("Stockade has not decided within {} seconds", limit.as_secs());
    match &call.tool {
        Tool::Other => Answer::NoOpinion,
        Tool::Shell { line, next } => match replaced(call, line, Asked::No, *next) {
            Ok(line) => Answer::Ask { reason, line: Some(line) },
            Err(reason) => Answer::Deny { reason },
        },
        Tool::Write { .. }
        | Tool::Read { .. }
        | Tool::Search { .. }
        | Tool::Fetch { .. }
        | Tool::Unknown { .. }
        | Tool::Skill => Answer::Ask { reason, line: None },
    }
}

fn said(failure: &Failure) -> String {
    failure.to_string()
}

fn replaced(call: &Call, line: &str, asked: Asked, next: NextLine) -> Result<String, String> {
    let name = session_name(call.agent, &call.session)?;
    let program = std::env::current_exe().map_err(|error| with_causes(&error))?;
    let outer = line::outer(&program, &name, line, asked, next);
    let outer = outer.ok_or_else(|| String::from("the path of this program is not UTF-8"))?;
    if line::is_too_long(&outer) {
        let most = line::LONGEST_ARGUMENT / 1024;
        return Err(format!(
            "the line has {} bytes, and a shell is handed at most {most} KiB with all quotes: write it into a file, and run \
             that",
            line.len()
        ));
    }
    Ok(outer)
}

/// A command, judged by the session that would run it.
fn shell(call: &Call, line: &str, next: NextLine) -> Result<Answer, String> {
    // In a permission dialog the agent sends the line that will run, which was replaced before.
    let own = match call.event {
        // codex's lines are not replaced: one that looks so is what runs.
        Event::Permission if call.agent != AgentName::Codex => line::original(line),
        Event::Permission | Event::BeforeTool | Event::Other => None,
    };
    let line = own.as_deref().unwrap_or(line);
    let cwd = AbsPath::from_path(&call.cwd).map_err(|error| error.to_string())?;
    let project = project(call)?;
    std::env::set_current_dir(&project).map_err(|error| format!("`{}`: {error}", project.display()))?;
    let command = shell::with_line(&OsString::from(line::inner(line, next)), &[]);
    let wanted = Wanted {
        name: session_name(call.agent, &call.session)?,
        named_by: NamedBy::Flag,
        command: Cow::Owned(command),
        report_form: ReportForm::Failures,
        ending: Ending::ByCode,
        cwd: Some(cwd),
        timeout: None,
        escalation: None,
        justification: None,
        answers: Answers::OtherClients,
        stdin: None,
    };
    let explanation = joined::explain(&wanted, || session::opening(&SessionArgs::default()));
    let explanation = explanation.map_err(|failure| said(&failure))?;
    decided(call, line, next, &explanation)
}

/// A tool that runs commands without a shell that Stockade knows, and so outside of the sandbox: never allowed without a
/// question, and refused if a rule forbids one of them.
fn unknown(call: &Call, name: &str, commands: &[String]) -> Result<Answer, String> {
    let stockade = policy(call)?;
    for command in commands {
        let explanation = stockade.explain(shell::with_line(&OsString::from(command), &[]));
        let requirement = explanation.map_err(|error| with_causes(&error))?.requirement;
        if let ExecApprovalRequirement::Forbidden { reason } = requirement {
            return Ok(Answer::Deny { reason: format!("Stockade refuses it: {reason}") });
        }
    }
    let shell = match call.agent {
        AgentName::ClaudeCode | AgentName::Codex => "Bash",
        AgentName::Gemini => "run_shell_command",
        AgentName::Opencode => "bash",
    };
    let reason = format!(
        "the tool `{name}` is given what looks like a command, which it may run outside of Stockade's sandbox; `{shell}` \
         runs it inside"
    );
    Ok(asked_unless_ruled_out(&stockade, &reason))
}

/// A skill of Claude Code.
fn skill(call: &Call) -> Result<Answer, String> {
    let reason = "commands in a skill's text (!`…`) and in its hooks are run by Claude Code outside of Stockade's sandbox, and \
         come to no hook; commands may have written the skill";
    Ok(asked_unless_ruled_out(&policy(call)?, reason))
}

/// A question, or a refusal if the settings have none.
fn asked_unless_ruled_out(stockade: &Stockade, reason: &str) -> Answer {
    let is_asked = match stockade.settings().ask_or(AskForApproval::OnFailure) {
        AskForApproval::Untrusted | AskForApproval::OnFailure | AskForApproval::OnRequest => true,
        AskForApproval::Reject(reject) => !reject.rejects_sandbox_approval(),
        AskForApproval::Never => false,
    };
    if is_asked {
        Answer::Ask { reason: format!("Stockade asks: {reason}"), line: None }
    } else {
        Answer::Deny { reason: format!("Stockade refuses it, since `ask` rules out the question: {reason}") }
    }
}

/// codex applies patches that a line contains by itself, outside of every sandbox that a command of it has: the files
/// are judged as well, and the stricter answer counts.
fn with_patches(call: &Call, line: &str, answer: Answer) -> Result<Answer, String> {
    let paths = if call.agent == AgentName::Codex { call::patched(line) } else { Vec::new() };
    if paths.is_empty() || matches!(answer, Answer::Deny { .. }) {
        return Ok(answer);
    }
    if call::leaves_directory(line) {
        return Err(String::from(
            "the line changes the directory before its patch, so that where the files are is not sure; name them from the \
             working directory",
        ));
    }
    let written = files::writing(call, &paths)?;
    Ok(match (&answer, &written) {
        (_, Answer::Deny { .. } | Answer::Ask { .. }) => written,
        (_, Answer::NoOpinion | Answer::Allow { .. }) => answer,
    })
}

fn decided(call: &Call, line: &str, next: NextLine, explanation: &Explanation) -> Result<Answer, String> {
    if let ExecApprovalRequirement::Forbidden { reason } = &explanation.requirement {
        return Ok(Answer::Deny {
            reason: format!("Stockade refuses it: {reason}; `stockade explain -c …` tells more"),
        });
    }
    if let Some(why) = &explanation.unenforceable {
        return Ok(Answer::Deny { reason: format!("Stockade can't hold its policy here: {why}") });
    }
    Ok(match &explanation.requirement {
        ExecApprovalRequirement::NeedsApproval { reason, proposed_execpolicy_amendment } => {
            let reason = reason.as_deref().unwrap_or("the policy asks first");
            let rule = proposed_execpolicy_amendment.as_ref().map(always).unwrap_or_default();
            let line = replaced(call, line, Asked::Yes, next)?;
            Answer::Ask { reason: format!("Stockade asks: {reason}{rule}"), line: Some(line) }
        }
        ExecApprovalRequirement::Skip { .. } | ExecApprovalRequirement::Forbidden { .. } => {
            let place = match (explanation.sandboxed, &explanation.source) {
                (true, _) => "in Stockade's sandbox",
                (false, DecisionSource::Rule(_)) => "as a rule says, without a sandbox",
                (false, _) => "without a sandbox, since the settings turn it off (`sandbox.mode`)",
            };
            Answer::Allow { reason: format!("runs {place}"), line: Some(replaced(call, line, Asked::No, next)?) }
        }
    })
}

/// The rule that would avoid the question, to be written by hand: no agent reports the person's answer.
fn always(amendment: &ExecPolicyAmendment) -> String {
    let words = serde_json::to_string(&amendment.0).unwrap_or_default();
    let file = settings_file().replace("config.toml", "rules/default.rules");
    format!(" (always: `prefix_rule(pattern = {words}, decision = \"allow\")` in `{file}`)")
}

/// The policy of the session's commands, for the agent's own actions. The agent can ask a person.
pub(super) fn policy(call: &Call) -> Result<Stockade, String> {
    let project = project(call)?;
    let builder = Stockade::builder().for_one_request().without_trail().directory(project);
    let built = builder.approver(Fixed::deny("nothing is asked here")).build();
    built.map_err(|error| with_causes(&error))
}

/// The settings line that grants more.
pub(super) fn listed(key: &str, value: &str) -> String {
    let value = serde_json::Value::String(value.to_owned());
    format!("`{key} = [{value}]` below `[sandbox]` in `{}` would allow it", settings_file())
}

/// Judges URLs by their hosts: the strictest decision counts. A use without a URL fetches nothing.
fn fetching(call: &Call, urls: &[String]) -> Result<Answer, String> {
    if urls.is_empty() {
        return Ok(Answer::NoOpinion);
    }
    let stockade = policy(call)?;
    let mut judged = Vec::new();
    for to in urls.iter().map(|url| destinations(url)).collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
        let decision = stockade.orchestrator().explain_host(&to.host, to.protocol, to.port).decision;
        judged.push((decision, to.host.to_string()));
    }
    // The first one of the strictest.
    let strictest = judged.into_iter().rev().max_by_key(|(decision, _)| *decision);
    let (decision, host) = strictest.unwrap_or((Decision::Forbidden, String::new()));
    let remedy = listed("allow_hosts", &host);
    Ok(match decision {
        Decision::Allow => Answer::Allow { reason: format!("`{host}` may be reached"), line: None },
        Decision::Prompt => {
            Answer::Ask { reason: format!("Stockade asks: `{host}` is not granted; {remedy}"), line: None }
        }
        Decision::Forbidden => {
            Answer::Deny { reason: format!("Stockade refuses it: `{host}` may not be reached; {remedy}") }
        }
    })
}

/// The destinations of a URL. Agents turn `http` into `https`, so both ports have to be granted for it, and for `ws`.
fn destinations(url: &str) -> Result<Vec<flags::Destination>, String> {
    let unknown = || format!("`{}` is no address whose host is sure", url.escape_debug());
    let (scheme, rest) = url.split_once("://").ok_or_else(unknown)?;
    let ports: &[u16] = match scheme.to_ascii_lowercase().as_str() {
        "https" | "wss" => &[443],
        "http" | "ws" => &[80, 443],
        _ => return Err(unknown()),
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // URL parsers disagree about these, and thus about the host.
    if authority.contains(['@', '\\', '%']) || authority.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(unknown());
    }
    let parsed = flags::destination(authority).map_err(|error| format!("{}: {error}", unknown()))?;
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port {
        return Ok(vec![parsed]);
    }
    Ok(ports
        .iter()
        .map(|port| flags::Destination { host: parsed.host.clone(), protocol: parsed.protocol, port: *port })
        .collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_lead_to_their_hosts() {
        let shown = |url: &str| {
            let found = destinations(url)?;
            Ok::<_, String>(found.iter().map(|to| format!("{}:{}", to.host, to.port)).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(shown("https://example.com/a?b#c").as_deref(), Ok("example.com:443"));
        assert_eq!(shown("HTTP://Example.com").as_deref(), Ok("example.com:80 example.com:443"));
        assert_eq!(shown("https://example.com:8443/").as_deref(), Ok("example.com:8443"));
        assert_eq!(shown("https://[::1]:1/").as_deref(), Ok("::1:1"));
        assert_eq!(shown("wss://example.com/a").as_deref(), Ok("example.com:443"));
        assert_eq!(shown("ws://example.com/a").as_deref(), Ok("example.com:80 example.com:443"));
        for url in [
            "example.com",
            "ftp://example.com",
            "file:///etc/passwd",
            "https://",
            "https:///x",
            "https://a@b.example/",
            "https://a\\@b.example/",
            "https://exa mple.com",
            "https://*.example.com/",
            "https://exam%70le.com/",
        ] {
            assert!(shown(url).is_err(), "{url}");
        }
    }

    proptest! {
        #[test]
        fn any_address_is_read_or_refused(url in any::<String>()) {
            let _ = destinations(&url);
            let _ = destinations(&format!("https://{url}"));
        }
    }

    #[test]
    fn sessions_have_the_agents_names() {
        let id = "7d32a4eb-f615-494a-88af-8ca988f7e062";
        assert_eq!(session_name(AgentName::ClaudeCode, id).unwrap().to_string(), format!("claude-code-{id}"));
        for bad in ["", "../x", "a b", "a\nb", &"x".repeat(80)] {
            assert!(session_name(AgentName::Gemini, bad).is_err(), "{bad:?}");
        }
    }
}
