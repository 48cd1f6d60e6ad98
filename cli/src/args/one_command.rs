//! Reading the command line of the commands that run often, without describing all the others first.
//!
//! A description of every command with every option takes longer to make than a command line takes to read: half a
//! megabyte of memory, which the kernel hands out page by page. What can't be read like this, and every word of help, is left to the
//! description of all.

use std::ffi::OsString;

use clap::{Arg, ArgMatches, Args as _, FromArgMatches as _, Id};

use super::repeated::{has_one_value, repeatable};
use super::{Args, Command, Everywhere, Explain, Run};

/// Reads arguments whose first word is such a command. `None` if they have to be read with every command known, be it that
/// they make no sense.
pub(super) fn parse(arguments: &[OsString]) -> Option<Args> {
    match arguments.get(1)?.to_str()? {
        "run" => read::<Run>(arguments, "run", Command::Run),
        "explain" => read::<Explain>(arguments, "explain", Command::Explain),
        _ => None,
    }
}

fn read<T: clap::Args>(arguments: &[OsString], name: &'static str, wrap: fn(T) -> Command) -> Option<Args> {
    let mut once = Vec::new();
    let mut note = |argument: Arg| {
        once.extend(has_one_value(&argument).then(|| argument.get_id().clone()));
        repeatable(argument)
    };
    let command = T::augment_args(clap::Command::new(name)).mut_args(&mut note);
    let program = Everywhere::augment_args(clap::Command::new("stockade")).mut_args(&mut note).subcommand(command);
    let matches = program.try_get_matches_from(arguments).ok()?;
    let (_, inner) = matches.subcommand()?;
    if !once.iter().all(|id| has_one_meaning(&matches, id) && has_one_meaning(inner, id)) {
        return None;
    }
    let (everywhere, command) = (Everywhere::from_arg_matches(&matches).ok()?, T::from_arg_matches(inner).ok()?);
    Some(Args { everywhere, command: wrap(command) })
}

/// Whether an option has the same value however often it is given.
fn has_one_meaning(matches: &ArgMatches, id: &Id) -> bool {
    // An option of the command is unknown to the program, and the other way round.
    let Ok(Some(mut values)) = matches.try_get_raw(id.as_str()) else { return true };
    let first = values.next();
    values.all(|value| Some(value) == first)
}

#[cfg(test)]
mod tests {
    use super::super::repeated::parse_any;
    use super::*;

    /// Whatever is read like this is read the same with every command known, and the usual lines are.
    #[test]
    fn the_short_way_reads_what_the_long_one_does() {
        let usual = [
            "run -- /bin/true",
            "run /bin/true",
            "run --ask never --network full -- npm test --help",
            "run -c ls -- a b",
            "run --json --json -v --sandbox read-only -- ls",
            "run --otlp http://x -- ls",
            "run --ask never --ask never -- ls",
            "run --session work --timeout 10m --limit memory=2G,pids=200 -- ls",
            "run --writable a --writable b --deny-read *.pem -- ls --json",
            "run ls --json --otlp y",
            "explain -- git push",
            "explain --path a --path b --host x:443",
            "explain --json -c true",
        ];
        let others = [
            "run",
            "run --help",
            "run -h",
            "run --version",
            "run --ask never --ask untrusted -- ls",
            "run --nonsense -- ls",
            "run -c",
            "run --help -- ls",
            "run ls --help",
            "run -c --help",
            "explain",
            "explain --session",
            "explain --path",
            "help run",
            "--otlp x run -- ls",
            "run --otlp a --otlp b -- ls",
            "doctor",
            "",
        ];
        let words = |line: &str| ["stockade"].into_iter().chain(line.split_whitespace()).map(OsString::from).collect();
        for line in usual.into_iter().chain(others) {
            let arguments: Vec<OsString> = words(line);
            let short = parse(&arguments);
            assert!(short.is_some() || !usual.contains(&line), "{line}");
            if let Some(short) = short {
                assert_eq!(format!("{short:?}"), format!("{:?}", parse_any(arguments).unwrap()), "{line}");
            }
        }
    }
}
