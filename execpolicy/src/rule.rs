//! The rules themselves, as they were written, with the place they were written at.

use std::fmt;
use std::sync::Arc;

use stockade_protocol::{AbsPath, Decision};

use crate::{Layer, Position};

/// Commands that start with a pattern, or are exactly it, get a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixRule {
    pub(crate) pattern: Vec<PatternToken>,
    pub(crate) extent: Extent,
    pub(crate) decision: Decision,
    /// What the rule itself says, with `outside`.
    pub(crate) placement: Option<Placement>,
    /// The permission profiles that an allowed command has.
    pub(crate) profiles: Vec<String>,
    pub(crate) justification: Option<String>,
    pub(crate) origin: Origin,
}

/// How much of a command a pattern speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Its beginning; any words may follow.
    Prefix,
    /// All of it, to the last word. Only rules that allow can be exact: one more word would evade another.
    Exact,
}

/// Where a command runs that rules allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// In the session's sandbox, like any other.
    #[default]
    Inside,
    /// Without the sandbox.
    Outside,
}

/// What one word of a command may be: any of these.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternToken {
    pub(crate) alternatives: Vec<Box<str>>,
}

/// Which paths are the trusted executables of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostExecutable {
    pub(crate) name: String,
    pub(crate) paths: Vec<AbsPath>,
    pub(crate) origin: Origin,
}

/// Where a rule comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Whose rule it is.
    pub layer: Layer,
    /// The file, as it was named to the loader.
    pub file: Arc<str>,
    /// Where the rule starts in it.
    pub position: Position,
}

impl PrefixRule {
    /// The words that a command must start with.
    pub fn pattern(&self) -> &[PatternToken] {
        &self.pattern
    }

    /// What happens to such a command.
    pub fn decision(&self) -> Decision {
        self.decision
    }

    /// How much of a command the pattern speaks of.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Whether the rule itself says where such a command runs, and where.
    pub fn said_placement(&self) -> Option<Placement> {
        self.placement
    }

    /// Where a command runs that the rule allows. `unsaid` holds for rules of codex's kind that do not say: an exact
    /// rule is what a prompt saves, and neither such a rule nor a project's leaves the sandbox by a setting.
    pub fn placement(&self, unsaid: Placement) -> Placement {
        match (self.placement, self.extent, self.origin.layer) {
            (Some(said), _, _) => said,
            (None, Extent::Exact, _) | (None, _, Layer::Project) => Placement::Inside,
            (None, Extent::Prefix, Layer::System | Layer::User | Layer::Session) => unsaid,
        }
    }

    /// The permission profiles that a command has which the rule allows, by name.
    pub fn profiles(&self) -> &[String] {
        &self.profiles
    }

    /// Why, in the words of the rule's author. It may hold any character: escape it where it is shown.
    pub fn justification(&self) -> Option<&str> {
        self.justification.as_deref()
    }

    /// Where the rule was written.
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

/// Writes a text as a Starlark string that reads back as the same text.
///
/// Everything that is not plainly visible is escaped, so that what a person sees in the file is
/// what the rule says.
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
