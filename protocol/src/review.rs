//! What a person, or whoever answers in their place, decided.
use crate::Argv;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
/// A rule to be saved: commands that start with this prefix are allowed from now on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ExecPolicyAmendment(pub Argv);
