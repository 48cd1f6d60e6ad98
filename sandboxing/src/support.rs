//! What a host can enforce, and remedies for what it can't.

use serde::Serialize;
use stockade_protocol::Invalid;

/// What this host can enforce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Support {
    /// The engine that builds the sandbox.
    pub engine: String,
    /// The layers, outermost first.
    pub layers: Vec<LayerSupport>,
}

/// The support for one layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerSupport {
    /// Its name, as in an `Enforcement`.
    pub layer: String,
    /// The level of support.
    pub level: SupportLevel,
    /// Details: a version, or the reason for a gap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The remedy for a gap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// The level of support for a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SupportLevel {
    /// Not at all.
    Missing,
    /// In part; the detail says which.
    Partial,
    /// As designed.
    Full,
}

impl Support {
    /// Whether a sandbox can be built at all.
    pub fn works(&self) -> bool {
        !self.layers.is_empty() && self.layers.iter().all(|layer| layer.level > SupportLevel::Missing)
    }
}

/// A permission that can't be enforced here. Nothing runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} can't be enforced: {why} ({remedy})")]
pub struct Unenforceable {
    /// The requested permission.
    pub what: String,
    /// Why this host, or this engine, can't.
    pub why: String,
    /// What to do instead.
    pub remedy: String,
}

impl From<Invalid> for Unenforceable {
    fn from(error: Invalid) -> Self {
        let (what, remedy) = (String::from("the policy"), String::from("correct the path"));
        Self { what, why: error.to_string(), remedy }
    }
}

/// What a host can enforce, engine by engine, the strongest first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnosis {
    /// The engine that would be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// Whether that engine can enforce every policy.
    pub complete: bool,
    /// Facts about the host that concern every engine.
    pub host: Vec<LayerSupport>,
    /// The engines.
    pub engines: Vec<Support>,
}
