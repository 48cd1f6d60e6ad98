//! `stockade completions`: the script that completes arguments in a shell.

use clap::CommandFactory as _;

use crate::args::{Args, Completions};
use crate::exit::{Failure, print};

pub(crate) fn run(args: &Completions) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "stockade", &mut script);
    Ok(print(&String::from_utf8(script)?)?)
}
