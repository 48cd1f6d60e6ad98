//! The `stockade` program. It parses arguments, calls one crate, and prints.

#[cfg(unix)]
mod agents;
mod args;
mod audit;
mod completions;
mod doctor;
#[cfg(unix)]
mod exec_server;
mod execpolicy;
mod exit;
mod explain;
mod flags;
#[cfg(unix)]
mod job;
#[cfg(unix)]
mod joined;
#[cfg(unix)]
mod limit_hint;
mod man;
#[cfg(unix)]
mod mcp;
mod nested;
mod patch;
mod profile;
mod relay;
mod remedy;
mod report;
mod run;
mod schema;
mod serve;
mod session;
mod shell;
mod signals;
#[cfg(unix)]
mod sys;
mod telemetry;
mod trust;
#[cfg(windows)]
mod unmark;
mod warnings;

use std::ffi::OsString;
use std::process::ExitCode;

use crate::args::{Args, Command};
use crate::exit::{Failure, Form};
use crate::telemetry::Telemetry;

/// The stack size, with room to spare.
const STACK: usize = 8 << 20;

fn main() -> ExitCode {
    if !has_small_stack() {
        return work();
    }
    // `ulimit -s` limits the main thread; other threads set their own stack size.
    match std::thread::Builder::new().stack_size(STACK).spawn(work).map(std::thread::JoinHandle::join) {
        Ok(Ok(code)) => code,
        // The panic has been reported.
        Ok(Err(_)) => exit::FAILED.into(),
        Err(error) => {
            eprintln!(
                "stockade: no thread could be started for want of memory or processes: {error}; raise `ulimit -s`"
            );
            exit::FAILED.into()
        }
    }
}

/// Whether the main thread's stack limit is below the usual one.
fn has_small_stack() -> bool {
    #[cfg(unix)]
    return rustix::process::getrlimit(rustix::process::Resource::Stack)
        .current
        .is_some_and(|limit| limit < STACK as u64 / 4);
    #[cfg(not(unix))]
    return false;
}

fn work() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    #[cfg(unix)]
    if arguments.iter().take_while(|word| *word != "--").any(|word| word == "--detached")
        && arguments.get(1).is_some_and(|word| word == "serve")
    {
        sys::detach();
    }
    #[cfg(unix)]
    sys::survive_file_limit();
    #[cfg(unix)]
    if let Some(code) = stockade_exec_server::run_file_helper(&arguments) {
        return code;
    }
    if shell::is_meant(&arguments) {
        return shell::run(&arguments);
    }
    #[cfg(unix)]
    if let Some(code) = joined::run_early(&arguments) {
        return code;
    }
    let form = Form::of(&arguments);
    let args = match args::parse(arguments.clone()) {
        Ok(args) => args,
        Err(error) => return failed_hook(&arguments, exit::usage(&error, form)),
    };
    match run(args) {
        Ok(code) => code,
        Err(failure) => failed_hook(&arguments, failure.report(form)),
    }
}

/// The code of a hook that could not be run, as with arguments that are not understood: agents go on as if there were none
/// unless it is the one of a refusal.
fn failed_hook(arguments: &[OsString], code: ExitCode) -> ExitCode {
    #[cfg(unix)]
    // `hook run` runs a line that a hook has allowed.
    if code != ExitCode::SUCCESS
        && arguments.get(1).is_some_and(|word| word == "hook")
        && arguments.get(2).is_none_or(|word| word != "run")
    {
        return agents::hook::BLOCKED.into();
    }
    #[cfg(not(unix))]
    let _ = arguments;
    code
}

fn run(args: Args) -> Result<ExitCode, Failure> {
    let telemetry = Telemetry::start(args.everywhere.otlp.as_deref())?;
    let result = match args.command {
        Command::Audit(audit) => audit::run(&audit),
        Command::Completions(completions) => completions::run(&completions).map(|()| ExitCode::SUCCESS),
        Command::Doctor(doctor) => doctor::run(&doctor),
        #[cfg(unix)]
        Command::ExecServer(exec_server) => exec_server::run(&exec_server),
        Command::Execpolicy(execpolicy) => execpolicy::run(&execpolicy).map(|()| ExitCode::SUCCESS),
        Command::Explain(explain) => explain::run(&explain),
        #[cfg(unix)]
        Command::Hook(hook) => agents::hook::run(&hook.command),
        #[cfg(unix)]
        Command::Import(import) => agents::import::run(&import),
        #[cfg(unix)]
        Command::Install(install) => agents::install::run(&install),
        Command::Man(man) => man::run(&man).map(|()| ExitCode::SUCCESS),
        #[cfg(unix)]
        Command::Mcp(mcp) => mcp::run(&mcp),
        Command::Patch(patch) => patch::run(&patch),
        Command::Profile(profile) => profile::run(&profile.command),
        Command::Run(run) => run::run(&run, run::Ending::ByCode),
        #[cfg(unix)]
        Command::Session(sessions) => joined::manage(&sessions.command),
        Command::Schema(schema) => schema::run(&schema).map(|()| ExitCode::SUCCESS),
        Command::Serve(serve) => serve::run(&serve),
        Command::Trust(trust) => trust::run(&trust),
        #[cfg(windows)]
        Command::Unmark(unmark) => unmark::run(&unmark),
    };
    telemetry.finish();
    result
}
