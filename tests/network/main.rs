//! Network by host, with real programs that know nothing of proxies, in a sandbox. What each program
//! prints is compared with what the server heard and what the trail says.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that can't go on has failed")]
#![cfg(target_os = "linux")]

mod bubblewrap;
mod datagrams;
mod handed_in;
mod limits;
mod load;
mod programs;
mod world;
