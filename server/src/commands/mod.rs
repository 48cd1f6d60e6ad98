//! Running commands for clients.

mod log;
mod unfinished;
