//! Profiles against the one definition of what permissions mean. There is no Mac behind these tests: the
//! language is evaluated by a small evaluator of their own.
//!
//! - `reader`, `dialect`, `evaluator`: the language of profiles, its patterns, and what a profile allows.
//! - `world`: a host that is the same on every machine.
//! - `agreement`: random permissions and paths, where profile and oracle have to agree.
//! - `limits_of_a_grant`: what no permission brings along.
//! - `needs`: what ordinary programs ask for before they do any work, and have to get.
//! - `networks`: destinations, sockets and services.
//! - `spellings`: names in other cases, and patterns.
//! - `policies`: policies that bring out every word of a profile, shared with the tests that run on a Mac.
//! - `words`: every operation, filter and name of every profile has a line in `SOURCES.md`.
//! - `snapshots`: the profiles of typical policies.

#![expect(
    clippy::unwrap_used,
    reason = "a test that can't go on fails, and where that may be is in the helpers of tests as well"
)]

mod agreement;
mod dialect;
mod evaluator;
mod limits_of_a_grant;
mod needs;
mod networks;
#[path = "../policies/mod.rs"]
mod policies;
mod reader;
mod snapshots;
mod spellings;
mod words;
mod world;
