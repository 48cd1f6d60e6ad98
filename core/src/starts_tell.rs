//! Whether the starts of a line's programs tell what the line does not show, so that no question is needed for that.
//!
//! A line is opaque if its text does not show all that it runs, and may then run what a rule restricts. bash and dash start a
//! program for everything but their builtins, and where each start is judged, that rule holds there. The question
//! remains where it would not: other shells and programs that hold many others do the work themselves, a
//! builtin is no start, and outside of the sandbox nothing is seen.

use std::ffi::OsStr;
use std::fs;

use stockade_protocol::{AbsPath, Argv, AskForApproval, EscalationExecution, ParsedLine, RawText, Word};
use stockade_shell_command::{is_plain_shell, works_unseen};

use crate::places::is_commands_own;
use crate::runtime::ToolContext;
use crate::session::{Sandboxing, Session};
use crate::starts::restricts_builtins;
use crate::writable_program::program_file;

/// The shells whose starts tell, by the name of their file.
const TELLING: [&str; 2] = ["bash", "dash"];

/// Whether every program that an unknown part of `line` may start is judged when it is started. `line` is what `command` runs,
/// and `execution` how.
pub(crate) fn starts_tell(
    ctx: &ToolContext<'_>,
    (command, cwd): (&Argv, &AbsPath),
    line: &ParsedLine,
    execution: &EscalationExecution,
) -> bool {
    let session = ctx.session;
    // `untrusted` asks about what is not known, whoever else looks at it.
    session.ask != AskForApproval::Untrusted
        && session.sandboxing() == Sandboxing::On
        && *execution != EscalationExecution::Unsandboxed
        && !restricts_builtins(&ctx.rules.policy())
        && !works_unseen(line)
        && are_telling(session, cwd, command, line)
        // The last, since it may try out what works here.
        && ctx.sandbox.sees_starts()
}

/// Whether the command, and every shell that the line lists, is bash or dash.
fn are_telling(session: &Session, cwd: &AbsPath, command: &Argv, line: &ParsedLine) -> bool {
    let is_shell = |program: &RawText| program.as_str().is_some_and(is_plain_shell);
    let listed = line.commands.iter().filter_map(|part| part.words.first().and_then(Word::known));
    command.words().first().is_some_and(is_shell)
        && listed.filter(|program| is_shell(program)).all(|program| is_telling(session, cwd, program))
}

/// Whether a program is bash or dash by its file, which no command can have made.
fn is_telling(session: &Session, cwd: &AbsPath, program: &RawText) -> bool {
    let file = program.to_os_string().and_then(|program| program_file(session, cwd, &program));
    let Some(file) = file.filter(|file| !is_commands_own(session, file)) else { return false };
    let real = fs::canonicalize(file).ok();
    let name = real.as_deref().and_then(|real| real.file_name()).and_then(OsStr::to_str);
    name.is_some_and(|name| TELLING.contains(&name))
}
