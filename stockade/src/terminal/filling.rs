//! Fills in an MCP server's form field by field, with a summary before it is sent.

use std::collections::BTreeMap;

use serde_json::Value;
use stockade_protocol::{ElicitationApproval, ElicitationForm, FieldKind, FormField, Invalid};

use super::line::{Echo, Line, Typed};
use super::secrets;
use super::text::{self, Detail};

/// Limit on the length of an answer.
const LONGEST_ANSWER: usize = 4096;

/// The answers so far.
pub(super) type Content = BTreeMap<String, Value>;

/// A form that may be filled in, and the server it is sent to.
#[derive(Clone, Debug)]
pub(super) struct Form {
    server: String,
    form: ElicitationForm,
}

impl Form {
    /// The form of a question, if it has one.
    pub(super) fn of(question: &ElicitationApproval) -> Option<Result<Self, Invalid>> {
        let form = ElicitationForm::parse(question.requested_schema.as_ref()?);
        Some(form.map(|form| Self { server: word(&question.server), form }))
    }

    pub(super) fn fields(&self) -> &[FormField] {
        self.form.fields()
    }
}

/// A form that is being filled in.
pub(super) struct Filling {
    form: Form,
    /// The current field. After the last one, the summary is shown.
    next: usize,
    line: Line,
    content: Content,
}

/// The result of some keys.
pub(super) enum Filled {
    /// Print this, and wait for more.
    Say(String),
    /// The form is complete and confirmed.
    Send(Content, String),
    /// The form is declined.
    Refuse(String),
    Stopped,
}

impl Filling {
    /// Starts with the first field or, without fields, with the confirmation.
    pub(super) fn start(form: Form) -> (Self, String) {
        let mut filling = Self { form, next: 0, line: Line::new(Echo::Shown, 0), content: Content::new() };
        let question = filling.ask();
        (filling, question)
    }

    pub(super) fn press(&mut self, bytes: &[u8]) -> Filled {
        let Some(field) = self.form.form.fields().get(self.next) else { return self.confirm(bytes) };
        match self.line.press(bytes) {
            Typed::More { echo } => Filled::Say(echo),
            Typed::Stopped => Filled::Stopped,
            Typed::Finished { text, echo } => match field.read(&text) {
                Ok(value) => {
                    self.content.extend(value.map(|value| (field.name.clone(), value)));
                    self.next += 1;
                    Filled::Say(format!("{echo}\n{}", self.ask()))
                }
                Err(why) => {
                    self.line = line_for(field);
                    Filled::Say(format!("{echo}\n    {why}\n  > "))
                }
            },
        }
    }

    pub(super) fn wants_one_key(&self) -> bool {
        self.next >= self.form.form.fields().len()
    }

    /// Takes a single key: a paste or text typed ahead sends nothing.
    fn confirm(&mut self, bytes: &[u8]) -> Filled {
        match bytes {
            b"y" | b"Y" => {
                Filled::Send(std::mem::take(&mut self.content), format!("yes, sent to {}\n", self.form.server))
            }
            b"n" | b"N" => Filled::Refuse(String::from("no")),
            bytes if bytes.contains(&3) || bytes == [4] => Filled::Stopped,
            _ => Filled::Say(String::from("\nPlease press one of these keys. [y/n]? ")),
        }
    }

    /// The prompt for the next field, or for the confirmation.
    fn ask(&mut self) -> String {
        let fields = self.form.form.fields();
        let Some(field) = fields.get(self.next) else { return self.ask_to_send() };
        self.line = line_for(field);
        let mut text = format!("\n  {} of {}: {}\n", self.next + 1, fields.len(), heading(field));
        if let Some(description) = &field.description {
            text += &format!("    {}\n", shown(description));
        }
        if let FieldKind::Choice(choices) = &field.kind {
            for (number, choice) in (1..).zip(choices) {
                let title = choice.title.as_ref().map(|title| format!("  ({})", shown(title))).unwrap_or_default();
                text += &format!("    {number}. {}{title}\n", word(&choice.value));
            }
        }
        if is_secret(field) {
            text += &format!("    This looks like a secret. Your input is sent to {}.\n", self.form.server);
        }
        text + "  > "
    }

    fn ask_to_send(&self) -> String {
        let mut text = format!("\n  This is sent to the server {}:\n", self.form.server);
        if self.content.is_empty() {
            text += "    nothing but your consent\n";
        }
        for (name, value) in &self.content {
            let field = self.form.form.fields().iter().find(|field| field.name == *name);
            let value = match field.is_some_and(is_secret) {
                true => String::from("(not shown)"),
                false => shown(&value.to_string()),
            };
            text += &format!("    {}: {value}\n", word(name));
        }
        text + "\n  Send it? [y/n]? "
    }
}

fn line_for(field: &FormField) -> Line {
    Line::new(if is_secret(field) { Echo::Hidden } else { Echo::Shown }, LONGEST_ANSWER)
}

/// Whether a field asks for a secret, which is not echoed.
pub(super) fn is_secret(field: &FormField) -> bool {
    let names = std::iter::once(&field.name).chain(&field.title);
    names.into_iter().any(|name| secrets::is_secret(&name.replace([' ', '-'], "_")))
}

/// The name of a field, the type of its answer, and whether it is required.
pub(super) fn heading(field: &FormField) -> String {
    let name = word(&field.name);
    let name = field.title.as_ref().map_or_else(|| name.clone(), |title| format!("{} ({name})", shown(title)));
    let range = match &field.kind {
        FieldKind::Text { min_length, max_length, .. } => match (min_length, max_length) {
            (None, None) => String::new(),
            (Some(least), None) => format!(", at least {least} characters"),
            (None, Some(most)) => format!(", at most {most} characters"),
            (Some(least), Some(most)) => format!(", {least} to {most} characters"),
        },
        FieldKind::Number { minimum, maximum, .. } => match (minimum, maximum) {
            (None, None) => String::new(),
            (Some(least), None) => format!(", at least {least}"),
            (None, Some(most)) => format!(", at most {most}"),
            (Some(least), Some(most)) => format!(", {least} to {most}"),
        },
        FieldKind::Truth => String::new(),
        FieldKind::Choice(choices) => format!(" of {}", choices.len()),
    };
    let needed = match (&field.default, field.required) {
        (Some(default), _) => format!(", Enter alone gives {}", shown(&default.to_string())),
        (None, true) => String::from(", needed"),
        (None, false) => String::from(", may be left empty"),
    };
    format!("{name}: {}{range}{needed}", field.kind.noun())
}

fn shown(text: &str) -> String {
    text::line(text.as_bytes(), Detail::Short)
}

fn word(text: &str) -> String {
    text::word(&text.into(), Detail::Short)
}
