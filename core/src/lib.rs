#![doc = include_str!("../README.md")]

mod approver;

pub use approver::{Answer, Approver, Unanswered};
