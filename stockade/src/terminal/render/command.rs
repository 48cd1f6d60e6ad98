//! Renders a command: the whole, each part, and its denials.

use std::cmp::Reverse;

use stockade_protocol::{
    CommandApproval, CommandRole, Decision, DenyingRule, Evidence, Operation, ParsedCommand, PermissionAmendment,
    RawText, Violation, ViolationTarget, Word,
};
use stockade_shell_command::{Safety, safety};

use super::grant::{file_rule, host_rule};
use crate::terminal::page::{Page, Tone};
use crate::terminal::render::destination;
use crate::terminal::secrets;
use crate::terminal::text::{self, Detail};

pub(super) fn show(page: &mut Page, command: &CommandApproval) {
    let detail = page.detail;
    page.plain(0, "");
    page.line(2, Tone::Title, &text::words(&secrets::words(command.command.words()), detail));
    page.plain(2, &format!("in {}", text::word(command.cwd.as_raw(), detail)));
    show_chain(page, command);
    if let Some(justification) = &command.justification {
        let said = text::line(secrets::text(justification).as_bytes(), detail);
        page.plain(2, &format!("the requester says: {said}"));
    }
    show_parts(page, command);
    show_violations(page, &command.violations);
}

/// The programs above one that a running command starts: the command first, the one that is asked about last.
fn show_chain(page: &mut Page, command: &CommandApproval) {
    if command.started_by.is_empty() {
        return;
    }
    let detail = page.detail;
    let chain = command.started_by.iter().chain([&command.command]);
    let links: Vec<String> =
        chain.map(|link| format!("`{}`", text::words(&secrets::words(link.words()), detail))).collect();
    page.plain(2, &format!("started by the running command, which waits: {}", links.join(" › ")));
}

fn show_parts(page: &mut Page, command: &CommandApproval) {
    let parsed = &command.parsed;
    let itself = stockade_protocol::ParsedLine::single(&command.command);
    if parsed.opaque.is_none() && *parsed == itself {
        page.plain(2, "which is one command, with no shell around it");
    } else {
        let parts = strictest_first(&parsed.commands);
        let is_in_order = parts.iter().is_sorted_by_key(|part| part.number);
        page.section(if is_in_order { "It runs:" } else { "It runs (what is not known to be safe comes first):" });
        page.list(&parts, "commands", |page, part| {
            page.plain(2, &format!("{}. {}", part.number, self::part(part, page.detail)));
            show_disguise(page, part.command);
            // After a denial the question is about the violations.
            if command.violations.is_empty() {
                show_safety(page, &part.safety);
            }
        });
    }
    if let Some(why) = &parsed.opaque {
        let why = text::line(why.as_bytes(), page.detail);
        page.line(2, Tone::Warning, &format!("It may run more than can be told from here: {why}"));
    }
}

/// A part of a line, its index, and its safety.
struct Part<'a> {
    number: usize,
    command: &'a ParsedCommand,
    safety: Safety,
    /// Its strictness: at least that of the command it starts.
    strictness: Decision,
}

/// The parts of a line, those not known as safe first: a short page may omit the others. A wrapper stays with its
/// command.
fn strictest_first(commands: &[ParsedCommand]) -> Vec<Part<'_>> {
    let mut started = Decision::Allow;
    let mut parts: Vec<Part<'_>> = Vec::new();
    for (index, command) in commands.iter().enumerate().rev() {
        let safety = safety(command);
        let own = safety.decision();
        started = if command.role == CommandRole::Wrapper { own.max(started) } else { own };
        parts.push(Part { number: index + 1, command, safety, strictness: started });
    }
    parts.sort_by_key(|part| (Reverse(part.strictness), part.number));
    parts
}

fn show_safety(page: &mut Page, safety: &Safety) {
    let (tone, reason) = match safety {
        Safety::Safe => return,
        Safety::Unknown { reason } => (Tone::Normal, reason),
        Safety::Dangerous { reason } => (Tone::Warning, reason),
    };
    page.line(3, tone, &text::sentence(&secrets::text(reason), page.detail));
}

fn part(part: &Part<'_>, detail: Detail) -> String {
    let Part { number, command: part, .. } = part;
    let mut shown = words(&part.words, detail);
    let list = |words: &[Word]| {
        words.iter().map(|file| self::words(std::slice::from_ref(file), detail)).collect::<Vec<_>>().join(", ")
    };
    if !part.assigns.is_empty() {
        let names = part.assigns.iter().map(|name| text::line(name.as_bytes(), detail)).collect::<Vec<_>>();
        shown += &format!("  (sets {})", names.join(", "));
    }
    if !part.writes.is_empty() {
        shown += &format!("  (writes {})", list(&part.writes));
    }
    if !part.reads.is_empty() {
        shown += &format!("  (reads {})", list(&part.reads));
    }
    match part.role {
        CommandRole::Runs => {}
        CommandRole::Wrapper => shown += &format!("  (starts number {})", number + 1),
    }
    if let Some(via) = &part.via {
        shown += &format!("  (inside {})", text::line(via.as_bytes(), detail));
    }
    shown
}

/// Words, some of which are unknown until the line runs.
fn words(words: &[Word], detail: Detail) -> String {
    const MADE_LATER: &str = "<unknown>";
    let placeholder = RawText::from(MADE_LATER);
    let known: Vec<RawText> = words.iter().map(|word| word.known().unwrap_or(&placeholder).clone()).collect();
    let redacted = secrets::words(&known);
    let shown = words.iter().zip(&redacted).map(|(word, redacted)| match word {
        Word::Known(_) => text::word(redacted, detail),
        Word::Unknown => String::from(MADE_LATER),
    });
    text::line_of(&shown.collect::<Vec<_>>(), detail)
}

/// Warns of a program's name in another script, which may imitate a known one.
fn show_disguise(page: &mut Page, part: &ParsedCommand) {
    let program = part.words.first().and_then(Word::known).map(RawText::as_bytes).unwrap_or_default();
    if !program.is_ascii() {
        page.line(3, Tone::Warning, "The program's name is not plain ASCII and may not be the one it looks like.");
    }
}

fn show_violations(page: &mut Page, violations: &[Violation]) {
    if violations.is_empty() {
        return;
    }
    page.section("What the sandbox denied the run before:");
    page.list(violations, "denials", |page, violation| {
        page.plain(2, &format!("- {}", self::violation(violation, page.detail)));
        page.plain(
            3,
            &format!(
                "against it: {}",
                violation.rule.as_ref().map_or_else(|| String::from("not known"), |rule| denying(rule, page.detail))
            ),
        );
        let needed = match &violation.amendment {
            Some(PermissionAmendment::File(rule)) => {
                format!("the least that allows it: {}", file_rule(rule, page.detail))
            }
            Some(PermissionAmendment::Network(rule)) => format!("the least that allows it: {}", host_rule(rule)),
            Some(PermissionAmendment::UnixSocket(path)) => {
                format!("the least that allows it: connect to the socket {}", text::word(path.as_raw(), page.detail))
            }
            None => String::from("no permission allows it"),
        };
        page.plain(3, &needed);
    });
}

fn violation(violation: &Violation, detail: Detail) -> String {
    let verb = match violation.operation {
        Operation::Read => "to read",
        Operation::Write => "to write",
        Operation::Execute => "to execute",
        Operation::Connect => "to connect to",
        Operation::Listen => "to listen on",
        Operation::Process => "to signal or trace",
        Operation::SystemCall => "to make",
        Operation::Exceed => "to exceed",
    };
    let target = match &violation.target {
        ViolationTarget::Path(path) => text::word(path.as_raw(), detail),
        ViolationTarget::UnixSocket(path) => format!("the socket {}", text::word(path.as_raw(), detail)),
        ViolationTarget::Destination(to) => destination(&to.host.bracketed(), Some(to.protocol), Some(to.port)),
        ViolationTarget::SystemCall(name) => format!("the system call {}", text::line(name.as_bytes(), detail)),
        ViolationTarget::Process(pid) => format!("process {pid}"),
        ViolationTarget::Limit(name) => format!("the limit {}", text::line(name.as_bytes(), detail)),
        ViolationTarget::Command(command) => text::words(&secrets::words(command.words()), detail),
    };
    let who = violation.program.as_ref().map(|program| format!(", by {}", text::word(program, detail)));
    let who = who.unwrap_or_default();
    match violation.evidence {
        Evidence::Observed => format!("{verb} {target}{who} (seen while it happened)"),
        Evidence::Reported => format!("{verb} {target}{who} (reported by the sandbox)"),
        Evidence::Guessed => {
            format!("perhaps {verb} {target}{who} (only a guess from the command's output, which can say anything)")
        }
    }
}

fn denying(rule: &DenyingRule, detail: Detail) -> String {
    match rule {
        DenyingRule::File(rule) => format!("the rule \"{}\"", file_rule(rule, detail)),
        DenyingRule::Network(rule) => format!("the rule \"{}\"", host_rule(rule)),
        DenyingRule::NotGranted => String::from("nothing grants it"),
        DenyingRule::Command { reason } | DenyingRule::Layer { reason } => text::sentence(reason, detail),
    }
}
