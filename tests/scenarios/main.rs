//! The orchestrator as an embedder uses it, with real sandboxes: who is asked what, what runs with
//! which permissions, and what the trail says afterwards.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![cfg(target_os = "linux")]

/// Who is asked, when, and once.
mod approvals;
/// Questions that MCP servers pass on.
mod elicitation;
/// A denial, and the wider run that may follow.
mod escalation;
/// Output, time, signals, terminals.
mod execution;
/// Many requests at once.
mod load;
/// File changes that the host writes.
mod patches;
/// Permissions in advance, and tool calls that a client makes.
mod permissions;
/// Another policy in a running session, and what it remembers.
mod policy;
/// Network by host where the sandbox leaves it to a proxy.
mod proxied;
/// Recorded sequences of tool calls and their answers.
mod recorded;
/// How risky a request looks, for the person who is asked.
mod risk;
/// Programs that a command starts.
mod starts;
/// Streams that a caller gives.
mod streams;
/// What a subscriber of `tracing` sees.
mod telemetry;
/// A session with a workspace, an approver that is told what to say, and a trail in memory.
mod world;
