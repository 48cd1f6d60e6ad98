#![doc = include_str!("../README.md")]

mod amend;
mod declare;
mod error;
mod evaluation;
mod examples;
mod index;
mod language;
mod layer;
mod load;
mod network;
mod policy;
mod program;
mod propose;
mod report;
mod rule;
mod source;

pub use amend::{Amended, append_allow_rule, append_network_rule};
pub use error::RulesError;
pub use evaluation::{Certainty, CommandEvaluation, Evaluation, RuleMatch};
pub use layer::Layer;
pub use load::{MAX_FILE_BYTES, PolicyLoader, RulesFile, SYSTEM_RULES, user_rules};
pub use network::NetworkRule;
pub use policy::{HostExecutables, Policy};
pub use propose::propose_amendment;
pub use report::{CheckReport, ReportedMatch};
pub use rule::{Breadth, Extent, Origin, PatternToken, Placement, PrefixRule};
pub use source::{Diagnostic, Position};
