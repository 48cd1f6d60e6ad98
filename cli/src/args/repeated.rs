//! Repeated options, as in composed scripts. The same value twice is accepted, two different values are a
//! contradiction.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory as _, FromArgMatches as _};

use super::{Args, one_command, plain};

/// Reads the command line.
pub(crate) fn parse(arguments: Vec<OsString>) -> Result<Args, clap::Error> {
    match plain::parse(&arguments).or_else(|| one_command::parse(&arguments)) {
        Some(args) => Ok(args),
        None => parse_any(arguments),
    }
}

/// Reads the command line, with every command known.
pub(super) fn parse_any(arguments: Vec<OsString>) -> Result<Args, clap::Error> {
    let strict = Args::command();
    let matches = lenient(strict.clone()).try_get_matches_from(arguments)?;
    check(&strict, &matches)?;
    Args::from_arg_matches(&matches)
}

/// A copy of the command in which a single-valued option may be repeated.
fn lenient(command: Command) -> Command {
    command.mut_args(repeatable).mut_subcommands(lenient)
}

/// The same option, which may be given several times.
pub(super) fn repeatable(argument: Arg) -> Arg {
    if has_one_value(&argument) {
        return argument.action(ArgAction::Append);
    }
    if matches!(argument.get_action(), ArgAction::SetTrue) {
        let id = argument.get_id().clone();
        return argument.overrides_with(id);
    }
    argument
}

pub(super) fn has_one_value(argument: &Arg) -> bool {
    argument.get_long().is_some() && matches!(argument.get_action(), ArgAction::Set)
}

fn check(command: &Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    for argument in command.get_arguments().filter(|argument| has_one_value(argument)) {
        let id = argument.get_id().as_str();
        // A global option is known to each subcommand, but not to this command alone.
        let Ok(Some(mut values)) = matches.try_get_raw(id) else { continue };
        let first = values.next();
        if let Some(other) = values.find(|value| Some(*value) != first) {
            let text = format!(
                "`--{}` is given as `{}` and as `{}`: leave one of them out",
                argument.get_long().unwrap_or(id),
                first.unwrap_or_default().display(),
                other.display()
            );
            return Err(command.clone().error(ErrorKind::ArgumentConflict, text));
        }
    }
    match matches.subcommand() {
        Some((name, inner)) => match command.find_subcommand(name) {
            Some(command) => check(command, inner),
            None => Ok(()),
        },
        None => Ok(()),
    }
}
