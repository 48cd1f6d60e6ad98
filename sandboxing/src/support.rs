//! What a host can enforce, and what to do about what it can't.

use serde::Serialize;
use stockade_protocol::Invalid;

/// What this host can enforce.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Support {
    /// What builds the sandbox.
    pub engine: String,
    /// The layers, outermost first.
    pub layers: Vec<LayerSupport>,
}

/// What one layer can do here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LayerSupport {
    /// Its name, as in an `Enforcement`.
    pub layer: String,
    /// How well it holds.
    pub level: SupportLevel,
    /// What is worth knowing: a version, or why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What would make it work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

/// How well a layer holds here.
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
    /// What was asked for.
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
    /// What is worth knowing of the host, whatever the engine.
    pub host: Vec<LayerSupport>,
    /// The engines.
    pub engines: Vec<Support>,
}
