//! Lines that create a file and run one: `ln -s /bin/rm x; ./x f`.
//!
//! The file that a name refers to at that point of the line is not tracked. A line that may create files is opaque if
//! it also runs a script, or a program outside the system's directories by a path.

use stockade_protocol::{CommandRole, ParsedCommand, Word};

use super::{is_trusted, shells};

/// Programs that create files or links.
const MAKERS: [&str; 11] = ["ln", "cp", "mv", "link", "install", "mkfifo", "mknod", "tee", "dd", "rename", "mount"];

/// Whether one command may create a file and one may run it, in any order.
pub(super) fn runs_what_it_makes(commands: &[ParsedCommand]) -> bool {
    commands.iter().any(makes) && commands.iter().any(runs_file)
}

fn makes(command: &ParsedCommand) -> bool {
    let name = command.words.first().and_then(Word::as_str).and_then(|program| program.rsplit('/').next());
    !command.writes.is_empty() || name.is_some_and(|name| MAKERS.contains(&name))
}

fn runs_file(command: &ParsedCommand) -> bool {
    let program = command.words.first().and_then(Word::as_str);
    let by_path = program.is_some_and(|program| !is_trusted(program)) && command.role == CommandRole::Runs;
    by_path || shells::reads_script(&command.words)
}
