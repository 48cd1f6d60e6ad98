//! What the suites ask of the `caller` program, and what it answers.

use serde::{Deserialize, Serialize};
use stockade_protocol::{LayerReport, Permissions, RawText};

/// One command to start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    /// The engine that builds the sandbox; `none` for no sandbox.
    pub(crate) engine: String,
    pub(crate) permissions: Permissions,
    pub(crate) argv: Vec<RawText>,
    pub(crate) cwd: RawText,
    /// A shell line that is run, bare, after the plan was made and before it is started.
    pub(crate) between: Option<String>,
    pub(crate) controlling_terminal: bool,
    /// Kill the command after this long.
    pub(crate) limit_ms: Option<u64>,
    /// Where the answer goes.
    pub(crate) report: std::path::PathBuf,
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ended {
    Exited {
        code: i32,
        layers: Vec<LayerReport>,
        /// What the plan warned of.
        warnings: Vec<String>,
    },
    Signaled {
        signal: i32,
        layers: Vec<LayerReport>,
    },
    /// No plan could be made: a permission can't be enforced.
    Refused {
        what: String,
        why: String,
    },
    /// There was a plan, and the command did not start.
    NotStarted {
        why: String,
    },
}
