#![doc = include_str!("../README.md")]

mod abs_path;
mod argv;
mod command;
mod decision;
mod error;
mod host;
mod raw_text;
mod windows_path;

pub use abs_path::{AbsPath, PathStyle};
pub use argv::Argv;
pub use command::{CommandRole, ParsedCommand, ParsedLine, Word};
pub use decision::{Decision, ExecApprovalRequirement};
pub use error::Invalid;
pub use host::{Host, HostName};
pub use raw_text::RawText;
pub use review::ExecPolicyAmendment;
mod review;
