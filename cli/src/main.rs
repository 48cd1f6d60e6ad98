//! The `stockade` program. It reads arguments, calls one crate, and prints; the work is done below.

mod args;
mod execpolicy;
mod exit;
mod schema;

use std::process::ExitCode;

use clap::Parser as _;

use crate::args::{Args, Command};

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return exit::usage(&error),
    };
    let result = match args.command {
        Command::Execpolicy(execpolicy) => execpolicy::run(&execpolicy),
        Command::Schema(schema) => schema::run(&schema),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
