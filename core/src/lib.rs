#![doc = include_str!("../README.md")]

mod approver;

pub use approver::{
    AllOf, Answer, Approver, ApproverError, ApproverExt, Channel, ChannelLimits, Consumer, Fallback, FirstOf, Fixed,
    Hook, LateAnswer, LateAnswers, Priority, RateLimit, Registered, Registry, Unanswered, WithTimeout,
};
