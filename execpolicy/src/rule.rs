//! The rules as written, with their positions.

use std::fmt;
use std::sync::Arc;

use stockade_protocol::{AbsPath, Decision};

use crate::{Layer, Position};

/// A decision for commands that start with a pattern, or equal it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixRule {
    pub(crate) pattern: Vec<PatternToken>,
    pub(crate) extent: Extent,
    pub(crate) decision: Decision,
    /// The rule's `outside` argument.
    pub(crate) placement: Option<Placement>,
    /// The permission profiles that a command has which is allowed, or was asked about.
    pub(crate) profiles: Vec<String>,
    /// The rule's `permissions` argument.
    pub(crate) breadth: Breadth,
    /// The rule's `environment` argument.
    pub(crate) environment: Vec<String>,
    pub(crate) justification: Option<String>,
    pub(crate) origin: Origin,
}

/// The part of a command that a pattern covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Its beginning; any words may follow.
    Prefix,
    /// The whole command. Only allowing rules can be exact: one more word would evade another.
    Exact,
}

/// Where an allowed command runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// In the session's sandbox, like any other.
    #[default]
    Inside,
    /// Without the sandbox.
    Outside,
}

/// What the profiles of a rule are added to, for a program that a command starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Breadth {
    /// The session's permissions.
    #[default]
    Added,
    /// Nothing: the program has exactly the profiles' permissions (`permissions = "exact"`).
    Exact,
}

/// The alternatives for one word of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternToken {
    pub(crate) alternatives: Vec<Box<str>>,
}

/// The trusted executables of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostExecutable {
    pub(crate) name: String,
    pub(crate) paths: Vec<AbsPath>,
    pub(crate) origin: Origin,
}

/// The origin of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its layer.
    pub layer: Layer,
    /// The file, as it was named to the loader.
    pub file: Arc<str>,
    /// The start of the rule in the file.
    pub position: Position,
}

impl PrefixRule {
    /// The words that a command must start with.
    pub fn pattern(&self) -> &[PatternToken] {
        &self.pattern
    }

    /// The decision for such a command.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// How much of a command the pattern speaks of.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// The placement that the rule itself names, if any.
    pub fn said_placement(&self) -> Option<Placement> {
        self.placement
    }

    /// Where a command that the rule allows runs. `unsaid` applies to rules without `outside`, except exact rules,
    /// which prompts save, and those of a project: no setting makes these leave the sandbox.
    pub fn placement(&self, unsaid: Placement) -> Placement {
        match (self.placement, self.extent, self.origin.layer) {
            (Some(said), _, _) => said,
            (None, Extent::Exact, _) | (None, _, Layer::Project) => Placement::Inside,
            (None, Extent::Prefix, Layer::System | Layer::User | Layer::Session) => unsaid,
        }
    }

    /// The permission profiles of a command that the rule allows, or asks before, by name.
    pub fn profiles(&self) -> &[String] {
        &self.profiles
    }

    /// What the profiles are added to, for a program that a command starts.
    pub fn breadth(&self) -> Breadth {
        self.breadth
    }

    /// The names of the variables that a program keeps from its caller when the rule has it run elsewhere.
    pub fn environment(&self) -> &[String] {
        &self.environment
    }

    /// Whether the rule gives a program more than, or something other than, its caller has; after a yes, if it asks.
    pub fn grants(&self) -> bool {
        self.decision != Decision::Forbidden
            && (!self.profiles.is_empty() || self.placement == Some(Placement::Outside))
    }

    /// The justification by the rule's author. It may contain any character: escape it for display.
    pub fn justification(&self) -> Option<&str> {
        self.justification.as_deref()
    }

    /// The rule's origin.
    pub fn origin(&self) -> &Origin {
        &self.origin
    }
}

impl PatternToken {
    /// The words that match, in the order of the file.
    pub fn alternatives(&self) -> impl Iterator<Item = &str> {
        self.alternatives.iter().map(AsRef::as_ref)
    }
}

/// Shows the pattern as it would be written in a rules file.
impl fmt::Display for PrefixRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (index, token) in self.pattern.iter().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{token}")?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for PatternToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = self.alternatives.as_slice() {
            return f.write_str(&starlark_string(only));
        }
        let quoted: Vec<String> = self.alternatives().map(starlark_string).collect();
        write!(f, "[{}]", quoted.join(", "))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", stockade_protocol::RawText::from(self.file.as_ref()), self.position)
    }
}

/// Formats a text as a Starlark string literal.
///
/// Everything that is not plainly visible is escaped, so that the text in the file shows exactly what the rule
/// matches.
pub(crate) fn starlark_string(text: &str) -> String {
    use fmt::Write as _;
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        // Writing to a string cannot fail.
        match c {
            '"' | '\\' => write!(out, "\\{c}"),
            '\n' => write!(out, "\\n"),
            '\t' => write!(out, "\\t"),
            ' '..='~' => write!(out, "{c}"),
            '\0'..='\x7f' => write!(out, "\\x{:02x}", u32::from(c)),
            _ if is_visible(c) => write!(out, "{c}"),
            '\u{80}'..='\u{ffff}' => write!(out, "\\u{:04x}", u32::from(c)),
            '\u{10000}'..='\u{10ffff}' => write!(out, "\\U{:08x}", u32::from(c)),
        }
        .ok();
    }
    out.push('"');
    out
}

/// Whether the character is shown as itself: neither a control character nor one that hides or
/// reorders others.
fn is_visible(c: char) -> bool {
    let text = c.to_string();
    stockade_protocol::RawText::from(text.as_str()).to_string() == text
}
