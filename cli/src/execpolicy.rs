//! `stockade execpolicy check`: what the rules say of a command or a shell line.

use stockade_execpolicy::{CheckReport, HostExecutables, Policy, PolicyLoader};
use stockade_protocol::Argv;
use stockade_shell_command::{MOST_SAFE_COMMANDS, parse_bash, safety};

use crate::args::{Check, Execpolicy, ExecpolicyCommand};
use crate::exit::{Failure, print};

pub(crate) fn run(args: &Execpolicy) -> Result<(), Failure> {
    match &args.command {
        ExecpolicyCommand::Check(args) => check(args),
    }
}

fn check(args: &Check) -> Result<(), Failure> {
    let loader = match args.rules.as_slice() {
        [] => PolicyLoader::new().standard(),
        files => files.iter().fold(PolicyLoader::new(), PolicyLoader::file),
    };
    let policy = loader.load()?;
    let paths = if args.resolve_host_executables { HostExecutables::Resolve } else { HostExecutables::Ignore };
    let report = match &args.shell {
        Some(line) => judge(&policy, line, paths),
        None => policy.check(&Argv::from_os(args.command.iter().cloned())?, paths),
    };
    let json = if args.pretty { serde_json::to_string_pretty(&report)? } else { serde_json::to_string(&report)? };
    print(&(json + "\n"))?;
    Ok(())
}

/// Judges every command of a line, with the table of known commands for what no rule speaks of.
fn judge(policy: &Policy, text: &str, paths: HostExecutables) -> CheckReport {
    let mut line = parse_bash(text);
    // Nobody reads that many, so nobody should be spared the question.
    if line.commands.len() > MOST_SAFE_COMMANDS {
        line.opaque.get_or_insert_with(|| format!("the line has more than {MOST_SAFE_COMMANDS} commands"));
    }
    policy.evaluate(&line, paths, |command| safety(command).decision()).report(&line)
}
