//! The result of an import: rules, settings, and a report for each line.

use serde::Serialize;
use stockade_execpolicy::{Layer, Policy, PrefixRule, RulesError};
use stockade_protocol::Decision;

use super::words::{CommandPattern, Span};

/// The result for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Fate {
    /// It means the same.
    Carried,
    /// It is imported as a stricter rule.
    Stricter,
    /// It is not imported, which allows nothing.
    LeftOut,
    /// It restricts, and can't be imported.
    Lost,
}

/// A line of the agent's settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ImportedLine {
    /// Its position, such as `permissions.deny`.
    pub(super) place: String,
    pub(super) text: String,
    pub(super) fate: Fate,
    /// The imported form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) becomes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) why: Option<String>,
}

const COVERED: &str = "a line that is lost may deny or ask about some of it";

/// The decision of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allow,
    Ask,
    Deny,
}

impl Verdict {
    fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "prompt",
            Self::Deny => "forbidden",
        }
    }
}

/// The imported lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Imported {
    pub(super) lines: Vec<ImportedLine>,
    rules: Vec<(Verdict, String)>,
    /// A rules file that is copied unchanged.
    whole_rules: Option<String>,
    /// Keys of the settings: the table (none for the top), the key, and its value.
    settings: Vec<(Option<&'static str>, &'static str, toml::Value)>,
}

impl Imported {
    /// An import with a rules file that is copied unchanged.
    pub(super) fn of_rules(text: &str) -> Self {
        Self { whole_rules: Some(text.to_owned()), ..Self::default() }
    }

    fn line(&mut self, place: &str, text: &str, fate: Fate, becomes: Option<String>, why: Option<&str>) {
        let (place, text, why) = (place.to_owned(), text.to_owned(), why.map(String::from));
        self.lines.push(ImportedLine { place, text, fate, becomes, why });
    }

    pub(super) fn left_out(&mut self, place: &str, text: &str, why: &str) {
        self.line(place, text, Fate::LeftOut, None, Some(why));
    }

    pub(super) fn lost(&mut self, place: &str, text: &str, why: &str) {
        self.line(place, text, Fate::Lost, None, Some(why));
    }

    /// Adds a line about commands.
    pub(super) fn command(&mut self, place: &str, text: &str, verdict: Verdict, pattern: &CommandPattern) {
        let words = match verdict {
            Verdict::Allow => pattern.to_allow(),
            Verdict::Ask | Verdict::Deny => pattern.to_restrict().map(|words| (words, Span::Prefix)),
        };
        let (words, span) = match (words, verdict) {
            (Ok(found), _) => found,
            (Err(why), Verdict::Allow) => return self.left_out(place, text, why),
            (Err(why), Verdict::Ask | Verdict::Deny) => return self.lost(place, text, why),
        };
        let listed = serde_json::Value::from(words.to_vec());
        let exact = if span == Span::Exact && verdict == Verdict::Allow { ", exact = True" } else { "" };
        let rule = format!("prefix_rule(pattern = {listed}, decision = \"{}\"{exact})", verdict.word());
        let more = match (verdict, pattern.rest, pattern.span) {
            (_, Some(rest), _) => Some(rest.why()),
            (Verdict::Ask | Verdict::Deny, None, Span::Exact) => {
                Some("a rule that restricts holds for more words behind it, too, or one more would evade it")
            }
            _ => None,
        };
        let fate = if more.is_some() { Fate::Stricter } else { Fate::Carried };
        self.line(place, text, fate, Some(rule.clone()), more);
        self.rules.push((verdict, rule));
    }

    /// Adds a rule of a file that is copied unchanged.
    pub(super) fn kept_rule(&mut self, rule: &PrefixRule) {
        let inside = "commands that it allows stay in the sandbox here, which codex lets leave";
        let why = (rule.decision() == Decision::Allow).then_some(inside);
        let fate = if why.is_some() { Fate::Stricter } else { Fate::Carried };
        self.line(&rule.origin().to_string(), &rule.to_string(), fate, None, why);
    }

    /// Adds a line that becomes a setting.
    pub(super) fn value(
        &mut self,
        (place, text): (&str, &str),
        (table, key): (Option<&'static str>, &'static str),
        value: toml::Value,
        stricter: Option<&str>,
    ) {
        let name = table.map(|table| format!("{table}.")).unwrap_or_default();
        let fate = if stricter.is_some() { Fate::Stricter } else { Fate::Carried };
        self.line(place, text, fate, Some(format!("{name}{key} = {value}")), stricter);
        self.set(table, key, value);
    }

    /// Sets a value of the settings. Lists are merged.
    pub(super) fn set(&mut self, table: Option<&'static str>, key: &'static str, value: toml::Value) {
        let known = self.settings.iter_mut().find(|(own_table, own, _)| (*own_table, *own) == (table, key));
        match (known, value) {
            (Some((_, _, toml::Value::Array(known))), toml::Value::Array(more)) => {
                known.extend(more.into_iter().filter(|value| !known.contains(value)).collect::<Vec<_>>());
            }
            (Some((_, _, known)), value) => *known = value,
            (None, value) => self.settings.push((table, key, value)),
        }
    }

    /// Whether a restriction is lost.
    pub(super) fn has_losses(&self) -> bool {
        self.lines.iter().any(|line| line.fate == Fate::Lost)
    }

    /// Removes a granting setting, and says so at the lines that it was made of.
    pub(super) fn without_setting(&mut self, table: Option<&'static str>, key: &'static str, why: &str) {
        self.settings.retain(|(own_table, own, _)| (*own_table, *own) != (table, key));
        let name = table.map(|table| format!("{table}.")).unwrap_or_default();
        let start = format!("{name}{key} = ");
        for line in &mut self.lines {
            if line.becomes.as_ref().is_some_and(|becomes| becomes.starts_with(&start)) {
                (line.fate, line.becomes) = (Fate::LeftOut, None);
                line.why = Some(why.to_owned());
            }
        }
    }

    /// Removes all that allows or grants if a restriction is lost: it may be what that restricted.
    pub(super) fn without_what_may_be_covered(mut self) -> Self {
        if !self.has_losses() {
            return self;
        }
        let allowed: Vec<String> =
            self.rules.iter().filter(|(verdict, _)| *verdict == Verdict::Allow).map(|(_, rule)| rule.clone()).collect();
        self.rules.retain(|(verdict, _)| *verdict != Verdict::Allow);
        for line in &mut self.lines {
            if line.becomes.as_ref().is_some_and(|rule| allowed.contains(rule)) {
                (line.fate, line.becomes) = (Fate::LeftOut, None);
                line.why = Some(COVERED.to_owned());
            }
        }
        for key in ["allow_hosts", "writable_roots"] {
            self.without_setting(Some("sandbox"), key, COVERED);
        }
        self
    }

    /// The rules file; `None` without rules.
    pub(super) fn rules(&self, head: &str) -> Result<Option<String>, RulesError> {
        let text = match &self.whole_rules {
            Some(text) => text.clone(),
            None if self.rules.is_empty() => return Ok(None),
            None => {
                let mut rules: Vec<&str> = Vec::new();
                for (_, rule) in &self.rules {
                    if !rules.contains(&rule.as_str()) {
                        rules.push(rule);
                    }
                }
                format!("{}\n", rules.join("\n"))
            }
        };
        let text = format!("# {head}\n{text}");
        Policy::parse("imported.rules", &text, Layer::User).map(|_| Some(text))
    }

    /// The settings; `None` if nothing is set.
    pub(super) fn settings(&self, head: &str) -> Option<String> {
        if self.settings.is_empty() {
            return None;
        }
        let mut text = format!("# {head}\n");
        let keys = |table: Option<&str>| {
            let of_table = self.settings.iter().filter(move |(own, ..)| *own == table);
            of_table.map(|(_, key, value)| format!("{key} = {value}\n")).collect::<String>()
        };
        text += &keys(None);
        let sandbox = keys(Some("sandbox"));
        if !sandbox.is_empty() {
            text += &format!("\n[sandbox]\n{sandbox}");
        }
        Some(text)
    }
}
