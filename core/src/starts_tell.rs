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

use crate::places::may_be_planted;
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
    // `untrusted` asks about every line that is not known, whether its starts are judged or not.
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
    let Some(file) = file.filter(|file| !may_be_planted(session, file)) else { return false };
    let real = fs::canonicalize(file).ok();
    let name = real.as_deref().and_then(|real| real.file_name()).and_then(OsStr::to_str);
    name.is_some_and(|name| TELLING.contains(&name))
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use stockade_execpolicy::{Layer, Policy};
    use stockade_protocol::{HostPaths, Permissions, SandboxPolicy};
    use stockade_sandboxing::{Backend, CommandSpec, Plan, Support, Unenforceable};
    use stockade_shell_command::parse_argv;

    use super::*;
    use crate::approvals::RuleStore;

    struct Sees(bool);

    impl Backend for Sees {
        fn support(&self) -> &Support {
            static NONE: Support = Support { engine: String::new(), layers: Vec::new() };
            &NONE
        }

        fn compile(&self, _: &CommandSpec, _: &Permissions) -> Result<Box<dyn Plan>, Unenforceable> {
            panic!("nothing is planned here")
        }

        fn sees_starts(&self) -> bool {
            self.0
        }
    }

    struct World {
        session: Session,
        rules: &'static str,
        sees: bool,
        execution: EscalationExecution,
    }

    impl World {
        fn new() -> Self {
            let host = HostPaths::without_masks(["/repo".parse().unwrap()]);
            let sandbox = SandboxPolicy::workspace_write();
            let mut session = Session::new("t".parse().unwrap(), AskForApproval::Never, sandbox, &host).unwrap();
            session.environment = [(RawText::from("PATH"), RawText::from("/usr/bin:/bin"))].into();
            let rules = "prefix_rule(pattern = ['rm'], decision = 'forbidden')";
            Self { session, rules, sees: true, execution: EscalationExecution::TurnDefault }
        }

        fn tells(&self, words: &[&str]) -> bool {
            let rules = RuleStore::new(Policy::parse("t.rules", self.rules, Layer::User).unwrap());
            let sandbox = Sees(self.sees);
            let ctx = ToolContext { session: &self.session, rules: &rules, sandbox: &sandbox, connections: None };
            let command = Argv::parse(words.iter().copied()).unwrap();
            starts_tell(&ctx, (&command, &"/repo".parse().unwrap()), &parse_argv(&command), &self.execution)
        }
    }

    #[test]
    fn bash_and_dash_tell_by_their_files() {
        let world = World::new();
        for words in [&["bash", "-c", "$x"][..], &["/bin/sh", "-c", "$x"], &["sh"], &["bash", "-c", "sh -c \"$x\""]] {
            assert!(world.tells(words), "{words:?}");
        }
        for words in [
            &["zsh", "-c", "$x"][..],
            &["make", "$x"],
            &["env", "bash", "-c", "$x"],
            &["/repo/bash", "-c", "$x"],
            &["./bash", "-c", "$x"],
            &["/nowhere/bash", "-c", "$x"],
            &["bash", "-c", "/repo/sh -c \"$x\""],
            &["bash", "-c", "busybox $x"],
        ] {
            assert!(!world.tells(words), "{words:?}");
        }
    }

    #[test]
    fn nothing_tells_where_starts_are_not_judged_or_not_all_that_counts() {
        let words = &["bash", "-c", "$x"][..];
        assert!(World::new().tells(words));
        assert!(!World { sees: false, ..World::new() }.tells(words));
        assert!(!World { execution: EscalationExecution::Unsandboxed, ..World::new() }.tells(words));
        let builtin = "prefix_rule(pattern = [['rm', 'kill']], decision = 'prompt')";
        assert!(!World { rules: builtin, ..World::new() }.tells(words));
        let mut world = World::new();
        world.session.ask = AskForApproval::Untrusted;
        assert!(!world.tells(words));
        let mut world = World::new();
        world.session.sandbox = SandboxPolicy::DangerFullAccess {};
        assert!(!world.tells(words));
    }
}
