//! `stockade execpolicy check`: evaluates the rules for a command or a shell line.

use stockade_core::Verdict;
use stockade_execpolicy::{HostExecutables, PolicyLoader};
use stockade_protocol::Argv;

use crate::args::{Check, Execpolicy, ExecpolicyCommand};
use crate::exit::{Failure, print};

pub(crate) fn run(args: &Execpolicy) -> Result<(), Failure> {
    match &args.command {
        ExecpolicyCommand::Check(args) => check(args),
    }
}

fn check(args: &Check) -> Result<(), Failure> {
    let loader = match args.rules.as_slice() {
        [] => {
            // An invalid home is refused here as in a run.
            stockade_config::ConfigLoader::standard()?;
            stockade::rules::standard(stockade_config::user_variable)
        }
        files => files.iter().fold(PolicyLoader::new().home(std::env::var_os("HOME")), PolicyLoader::file),
    };
    let policy = loader.load()?;
    let paths = if args.resolve_host_executables { HostExecutables::Resolve } else { HostExecutables::Ignore };
    let report = match &args.shell {
        // The same judgement as that of `run` and `explain`.
        Some(line) => Verdict::of_line(&policy, line)?.report(),
        None => policy.check(&Argv::from_os(args.command.iter().cloned())?, paths),
    };
    let json = if args.pretty { serde_json::to_string_pretty(&report)? } else { serde_json::to_string(&report)? };
    print(&(json + "\n"))?;
    Ok(())
}
