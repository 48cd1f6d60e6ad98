//! The answers that a person can give, each with its key and its meaning.

use stockade_protocol::{
    AbsPath, ApprovalRequest, ApprovalSubject, ExecPolicyAmendment, Invalid, NetworkPolicyAmendment,
    NetworkPolicyRuleAction, ProfileAmendment, RememberArguments, ReviewDecision, WriteOperation,
};

use super::filling::Form;
use super::page::Lifetime;
use super::render::destination;
use super::text;

/// One answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice {
    pub(super) key: char,
    pub(super) decision: ReviewDecision,
    pub(super) label: String,
    /// Further notes.
    pub(super) notes: Vec<String>,
}

/// The answers of the question, in its order. If two want the same key, the second gets a digit.
pub(super) fn choices(request: &ApprovalRequest, lifetime: Lifetime) -> Vec<Choice> {
    let mut choices: Vec<Choice> = Vec::new();
    for decision in &request.available_decisions {
        if !can_be_given(decision, &request.subject, lifetime) {
            continue;
        }
        let (key, label, notes) = describe(decision, &request.subject, lifetime);
        let free = |key: &char| choices.iter().all(|choice| choice.key != *key);
        if let Some(key) = std::iter::once(key).chain('2'..='9').find(free) {
            choices.push(Choice { key, decision: decision.clone(), label, notes });
        }
    }
    choices
}

fn can_be_given(decision: &ReviewDecision, subject: &ApprovalSubject, lifetime: Lifetime) -> bool {
    // Without the server's form an approval would be invalid.
    let is_unreadable = matches!(form(subject), Some(Err(_)));
    // A single run is a session of one command or one patch, so the same question never comes again.
    let is_forgotten = lifetime == Lifetime::Run
        && *decision == ReviewDecision::ApprovedForSession
        && matches!(
            subject,
            ApprovalSubject::Command(_)
                | ApprovalSubject::Network(_)
                | ApprovalSubject::Patch(_)
                | ApprovalSubject::Write(_)
        );
    *decision != ReviewDecision::TimedOut && !is_forgotten && !(is_unreadable && decision.is_approval())
}

fn describe(decision: &ReviewDecision, subject: &ApprovalSubject, lifetime: Lifetime) -> (char, String, Vec<String>) {
    match decision {
        ReviewDecision::Approved if form(subject).is_some() => {
            ('y', String::from("yes: fill it in; you see all of it before it is sent"), Vec::new())
        }
        ReviewDecision::Approved if matches!(subject, ApprovalSubject::Network(_)) => {
            ('y', String::from("yes, for this run"), Vec::new())
        }
        ReviewDecision::Approved => ('y', String::from("yes, this once"), Vec::new()),
        ReviewDecision::ApprovedForRun => {
            ('r', format!("yes, and {}until the command ends", below(subject)), Vec::new())
        }
        ReviewDecision::ApprovedForSession => ('s', format!("yes, and {}", again(subject, lifetime)), Vec::new()),
        ReviewDecision::ApprovedExecpolicyAmendment { proposed_execpolicy_amendment } => {
            let (label, notes) = saved_command(proposed_execpolicy_amendment);
            ('p', label, notes)
        }
        ReviewDecision::ApprovedProfileAmendment { proposed_profile_amendment } => {
            let (label, notes) = saved_profile(proposed_profile_amendment, subject);
            ('p', label, notes)
        }
        ReviewDecision::NetworkPolicyAmendment { network_policy_amendment } => saved_host(network_policy_amendment),
        ReviewDecision::Denied { .. } => ('n', String::from("no; you may say why"), Vec::new()),
        ReviewDecision::DeniedForRun => {
            ('x', String::from("no, and to everything else that this run asks"), Vec::new())
        }
        ReviewDecision::TimedOut => ('t', String::from("no, as if the time to answer had run out"), Vec::new()),
        ReviewDecision::Abort => ('q', String::from(stop(subject, lifetime)), Vec::new()),
    }
}

fn stop(subject: &ApprovalSubject, lifetime: Lifetime) -> &'static str {
    // The waiting command continues and handles the refusal itself.
    let is_running = matches!(subject, ApprovalSubject::Network(_) | ApprovalSubject::Write(_));
    match lifetime {
        Lifetime::Run if is_running => "no, to this and to every further question; the command goes on",
        Lifetime::Run => "no, and stop everything",
        Lifetime::Session => "no, and stop the session, for all its clients: nothing more is started in it",
    }
}

/// The form that an approval has to fill in.
pub(super) fn form(subject: &ApprovalSubject) -> Option<Result<Form, Invalid>> {
    match subject {
        ApprovalSubject::Elicitation(question) => Form::of(question),
        ApprovalSubject::Command(_)
        | ApprovalSubject::Patch(_)
        | ApprovalSubject::Network(_)
        | ApprovalSubject::Write(_)
        | ApprovalSubject::Permissions(_)
        | ApprovalSubject::ToolCall(_) => None,
    }
}

/// What an approval covers besides the waiting call.
fn below(subject: &ApprovalSubject) -> String {
    let ApprovalSubject::Write(write) = subject else { return String::new() };
    let shown = |path: &AbsPath| text::word(path.as_raw(), text::Detail::Whole);
    let paths: Vec<String> = write.directories.iter().map(shown).collect();
    if write.directories.iter().all(|directory| write.paths.contains(directory))
        && write.operation != WriteOperation::MakeDirectory
    {
        return format!("further writes to {} ", paths.join(" and "));
    }
    format!("everything in {} ", paths.join(" and "))
}

fn again(subject: &ApprovalSubject, lifetime: Lifetime) -> String {
    if matches!(subject, ApprovalSubject::Write(_)) {
        return format!("{}for the rest of this {}", below(subject), lifetime.noun());
    }
    let (what, whatever) = match subject {
        ApprovalSubject::Command(_) => ("the same command ", ""),
        ApprovalSubject::Patch(_) => ("further changes to these files ", ""),
        ApprovalSubject::Network(_) => ("this destination ", ""),
        ApprovalSubject::Write(_) => ("the same write ", ""),
        ApprovalSubject::Permissions(_) => ("", ""),
        ApprovalSubject::ToolCall(call) => match call.remember {
            RememberArguments::Exact => ("the same call ", ""),
            RememberArguments::Any => ("EVERY call of this tool ", ", whatever its arguments"),
        },
        ApprovalSubject::Elicitation(_) => ("the same ", ""),
    };
    format!("{what}for the rest of this {}{whatever}", lifetime.noun())
}

fn saved_command(amendment: &ExecPolicyAmendment) -> (String, Vec<String>) {
    let words = amendment.0.words();
    let shown = text::words(words, text::Detail::Whole);
    let pattern = words.iter().map(text::string).collect::<Vec<_>>().join(", ");
    let label = format!("yes, and always for exactly this command, in any directory: {shown}");
    let saved = format!("saves the rule: prefix_rule(pattern=[{pattern}], decision=\"allow\", exact=True)");
    (
        label,
        vec![saved, String::from("A rule that allows spares the question; the command runs in the session's sandbox.")],
    )
}

/// The whole file is shown: what is saved is what was seen.
fn saved_profile(amendment: &ProfileAmendment, subject: &ApprovalSubject) -> (String, Vec<String>) {
    let command = text::words(amendment.command.words(), text::Detail::Whole);
    let label = format!("yes, and {}always, for exactly this command in this workspace: {command}", below(subject));
    let mut notes = vec![format!("saves {}:", text::word(amendment.file.as_raw(), text::Detail::Whole))];
    let lines = amendment.text().unwrap_or_default();
    notes.extend(lines.lines().filter(|line| !line.is_empty()).map(|line| format!("  {line}")));
    (label, notes)
}

fn saved_host(amendment: &NetworkPolicyAmendment) -> (char, String, Vec<String>) {
    let to = destination(&amendment.host.bracketed(), amendment.protocol, amendment.port);
    match amendment.action {
        NetworkPolicyRuleAction::Allow => {
            ('p', format!("yes, and always for: {to}"), vec![String::from("Saves a rule that allows it.")])
        }
        NetworkPolicyRuleAction::Deny => {
            ('d', format!("no, and never for: {to}"), vec![String::from("Saves a rule that refuses it.")])
        }
    }
}
