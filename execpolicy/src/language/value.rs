//! The values of a call's arguments, each with its position.
#![cfg_attr(not(feature = "starlark"), allow(dead_code, reason = "plain calls have fewer kinds of values"))]

use std::borrow::Cow;

use crate::source::Span;

/// The functions that a rules file may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    PrefixRule,
    HostExecutable,
    NetworkRule,
}

/// The largest number of parameters of a function.
pub(crate) const PARAMETERS: usize = 10;

impl Function {
    pub(crate) fn named(name: &str) -> Option<Self> {
        match name {
            "prefix_rule" => Some(Self::PrefixRule),
            "host_executable" => Some(Self::HostExecutable),
            "network_rule" => Some(Self::NetworkRule),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::PrefixRule => "prefix_rule",
            Self::HostExecutable => "host_executable",
            Self::NetworkRule => "network_rule",
        }
    }

    /// The parameters in positional order, as in codex, which lacks `exact` and those behind it.
    pub(crate) fn parameters(self) -> &'static [&'static str] {
        match self {
            Self::PrefixRule => &[
                "pattern",
                "decision",
                "match",
                "not_match",
                "justification",
                "exact",
                "outside",
                "profile",
                "permissions",
                "environment",
            ],
            Self::HostExecutable => &["name", "paths"],
            Self::NetworkRule => &["host", "protocol", "decision", "justification", "port"],
        }
    }

    pub(crate) fn parameter(self, name: &str) -> Option<usize> {
        self.parameters().iter().position(|parameter| *parameter == name)
    }
}

/// A call with its arguments, by parameter.
#[derive(Debug, PartialEq)]
pub(crate) struct Call<'a> {
    pub(crate) function: Function,
    pub(crate) at: Span,
    pub(crate) arguments: [Option<Located<'a>>; PARAMETERS],
}

/// A value and its position.
#[derive(Clone, Debug)]
pub(crate) struct Located<'a> {
    pub(crate) value: Value<'a>,
    pub(crate) at: Span,
}

/// Positions don't affect equality.
impl PartialEq for Located<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// The values of the language. Lists are immutable, so copies are safe.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Text(Cow<'a, str>),
    List(Vec<Located<'a>>),
    Tuple(Vec<Located<'a>>),
    Int(i64),
    Bool(bool),
    None,
}

impl<'a> Value<'a> {
    /// The text, or the actual type's name.
    pub(crate) fn into_text(self) -> Result<Cow<'a, str>, &'static str> {
        if let Self::Text(text) = self { Ok(text) } else { Err(self.kind()) }
    }

    /// The items of a list, or the actual type's name.
    pub(crate) fn into_list(self) -> Result<Vec<Located<'a>>, &'static str> {
        if let Self::List(items) = self { Ok(items) } else { Err(self.kind()) }
    }

    /// The items of a list or tuple, or the actual type's name.
    pub(crate) fn into_items(self) -> Result<Vec<Located<'a>>, &'static str> {
        if let Self::List(items) | Self::Tuple(items) = self { Ok(items) } else { Err(self.kind()) }
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Tuple(_) => "a tuple",
            Self::Int(_) => "a number",
            Self::Bool(_) => "a boolean",
            Self::None => "None",
        }
    }

    pub(crate) fn is_true(&self) -> bool {
        match self {
            Self::Text(text) => !text.is_empty(),
            Self::List(items) | Self::Tuple(items) => !items.is_empty(),
            Self::Int(number) => *number != 0,
            Self::Bool(value) => *value,
            Self::None => false,
        }
    }
}
