//! What the rules that restrict make of one start.
//!
//! A start is judged as the same words would be in a line. What a wrapper or a shell goes on to start is left to that
//! start, which is judged in its own right, with what its variables have become; but programs that hold others inside
//! (`busybox rm`), and builtins of shells, do their work without another start, so they count here.

use stockade_execpolicy::{Certainty, HostExecutables, Policy, RuleMatch};
use stockade_protocol::{AbsPath, Argv, Decision, ParsedCommand, RawText};
use stockade_sandboxing::ProgramStart;
use stockade_shell_command::parse_argv;

use super::cut::IN_REASON;

/// A command by its words, with its program by its base name.
pub(super) type Words = Vec<RawText>;

/// The rules that a start meets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Met {
    /// The strictest of their decisions.
    pub(super) decision: Decision,
    /// Which rule, and why.
    pub(super) reason: String,
    /// The commands that met one.
    pub(super) words: Vec<Words>,
    /// The skill's script that it is.
    pub(super) skill: Option<AbsPath>,
}

/// Programs that are many in one file, and start none of them as a process of its own.
const MANY_PROGRAMS: [&str; 4] = ["busybox", "toybox", "coreutils", "sbase-box"];

/// Shells, which do the work of their builtins themselves.
const SHELLS: [&str; 12] =
    ["sh", "bash", "dash", "ash", "rbash", "zsh", "ksh", "ksh93", "mksh", "yash", "fish", "bash-static"];

/// Builtins of bash and dash, and words that they act upon like a builtin.
const BUILTINS: [&str; 64] = [
    ".",
    ":",
    "[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "cd",
    "chdir",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "echo",
    "enable",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "fc",
    "fg",
    "getopts",
    "hash",
    "help",
    "history",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "time",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "wait",
];

pub(super) fn is_many_programs(name: &[u8]) -> bool {
    MANY_PROGRAMS.iter().any(|many| many.as_bytes() == name)
}

pub(super) fn is_shell(name: &[u8]) -> bool {
    SHELLS.iter().any(|shell| shell.as_bytes() == name)
}

pub(super) fn is_builtin(name: &[u8]) -> bool {
    BUILTINS.iter().any(|builtin| builtin.as_bytes() == name)
}

/// Whether a rule restricts what bash or dash does itself, without the start of a program.
pub(crate) fn restricts_builtins(policy: &Policy) -> bool {
    policy.restricted_programs().iter().any(|name| is_builtin(name))
}

pub(super) fn base_name(program: &RawText) -> RawText {
    let bytes = program.as_bytes();
    RawText::from(bytes.rsplit(|byte| *byte == b'/').next().unwrap_or(bytes).to_vec())
}

/// The words of a command, if all are known.
pub(super) fn command_words(command: &ParsedCommand) -> Option<Words> {
    let mut words: Words = command.known_words()?.into_iter().cloned().collect();
    let program = words.first_mut()?;
    *program = base_name(program);
    Some(words)
}

/// The rules that restrict a start; `None` if there are none.
pub(super) fn met(policy: &Policy, start: &ProgramStart) -> Option<Met> {
    let does_all_itself = start.file.as_ref().is_some_and(|file| is_many_programs(file.as_bytes()));
    let mut found: Option<Met> = None;
    // `busybox rm x` is `rm x`.
    let is_many = |form: &&Words| form.first().is_some_and(|name| is_many_programs(base_name(name).as_bytes()));
    let named_inside = start.forms.iter().filter(is_many).filter_map(|form| form.get(1..));
    for form in start.forms.iter().map(Vec::as_slice).chain(named_inside) {
        let Ok(argv) = Argv::parse(form.iter().cloned()) else { continue };
        let line = parse_argv(&argv);
        let evaluation = policy.evaluate(&line, HostExecutables::Resolve, |_| Decision::Allow);
        for (judged, part) in evaluation.commands.iter().zip(&line.commands) {
            let Some(words) = command_words(part) else { continue };
            let is_own_work = || words.first().is_some_and(|name| is_builtin(name.as_bytes()));
            if part.via.is_some() && !does_all_itself && !is_own_work() {
                continue;
            }
            let restricting = judged.matches.iter().filter(|found| found.certainty() == Certainty::Certain);
            let strictest =
                restricting.filter(|found| found.decision() != Decision::Allow).max_by_key(|found| found.decision());
            if let Some(rule) = strictest {
                found = Some(with(found, rule, words));
            }
        }
    }
    found
}

/// Whether a rule allows a start, under any of its names.
pub(super) fn is_allowed(policy: &Policy, start: &ProgramStart) -> bool {
    start.forms.iter().filter_map(|form| Argv::parse(form.iter().cloned()).ok()).any(|argv| {
        let line = parse_argv(&argv);
        let evaluation = policy.evaluate(&line, HostExecutables::Resolve, |_| Decision::Prompt);
        evaluation.commands.first().is_some_and(|own| own.decision == Decision::Allow)
    })
}

fn with(found: Option<Met>, rule: &RuleMatch, words: Words) -> Met {
    let Some(mut met) = found else {
        return Met { decision: rule.decision(), reason: reason(rule, &words), words: vec![words], skill: None };
    };
    if rule.decision() > met.decision {
        met.decision = rule.decision();
        met.reason = reason(rule, &words);
    }
    if !met.words.contains(&words) {
        met.words.push(words);
    }
    met
}

fn reason(found: &RuleMatch, words: &Words) -> String {
    let rule = found.rule();
    let verb = if rule.decision() == Decision::Forbidden { "forbids" } else { "asks before" };
    let shown = Argv::parse(IN_REASON.of(words)).map(|argv| argv.to_string()).unwrap_or_default();
    let why = rule.justification().map(|why| format!(": {why}")).unwrap_or_default();
    format!("a rule ({}) {verb} `{shown}`{why}", rule.origin())
}

#[cfg(test)]
mod tests {
    use stockade_execpolicy::Layer;

    use super::*;

    const RULES: &str = r#"
prefix_rule(pattern = ["rm"], decision = "forbidden", justification = "use trash")
prefix_rule(pattern = ["git", "push"], decision = "prompt")
prefix_rule(pattern = ["kill"], decision = "prompt")
prefix_rule(pattern = ["make"], decision = "allow")
"#;

    fn judged(file: &str, forms: &[&[&str]]) -> Option<(Decision, String)> {
        let policy = Policy::parse("t.rules", RULES, Layer::User).unwrap();
        let forms = forms.iter().map(|words| words.iter().map(|word| RawText::from(*word)).collect()).collect();
        let start = ProgramStart { forms, file: Some(RawText::from(file)), ..ProgramStart::default() };
        met(&policy, &start).map(|met| (met.decision, met.reason))
    }

    #[test]
    fn a_start_is_judged_as_its_words_in_a_line() {
        let (decision, reason) = judged("rm", &[&["/usr/bin/rm", "-rf", "build"]]).unwrap();
        assert_eq!(decision, Decision::Forbidden);
        assert_eq!(reason, "a rule (t.rules:2:1) forbids `rm -rf build`: use trash");
        for words in
            [&["/usr/bin/git", "push"][..], &["/opt/git", "-C", "sub", "push", "origin"], &["git", "push", "-f"]]
        {
            assert_eq!(judged("git", &[words]).map(|(decision, _)| decision), Some(Decision::Prompt), "{words:?}");
        }
        for words in [&["/usr/bin/git", "status"][..], &["/usr/bin/make", "rm"], &["/bin/ls", "rm"]] {
            assert_eq!(judged("x", &[words]), None, "{words:?}");
        }
    }

    /// What a wrapper starts is judged when it does, unless the work is done inside.
    #[test]
    fn what_is_started_later_is_judged_later() {
        for words in [&["/usr/bin/env", "rm", "x"][..], &["/bin/sh", "-c", "rm x; git push"], &["/usr/bin/xargs", "rm"]]
        {
            assert_eq!(judged("dash", &[words]), None, "{words:?}");
        }
        assert!(judged("dash", &[&["/bin/sh", "-c", "kill 1"]]).is_some(), "a builtin");
        assert!(judged("busybox", &[&["/bin/busybox", "rm", "x"]]).is_some());
        assert!(judged("busybox", &[&["/bin/sh", "-c", "rm x"]]).is_some());
    }

    #[test]
    fn a_rule_for_a_builtin_is_known() {
        let policy = |name: &str| {
            let rule = format!("prefix_rule(pattern = [{name:?}], decision = \"prompt\")");
            Policy::parse("t.rules", &rule, Layer::User).unwrap()
        };
        for name in ["kill", "echo", "[", "time", "wait", "unalias"] {
            assert!(restricts_builtins(&policy(name)), "{name}");
        }
        for name in ["rm", "git", "sleep"] {
            assert!(!restricts_builtins(&policy(name)), "{name}");
        }
    }

    #[test]
    fn the_strictest_of_all_names_counts() {
        let told = judged("run", &[&["/ws/run", "push"], &["/usr/bin/git", "push", "/ws/run"], &["rm", "push"]]);
        assert_eq!(told.map(|(decision, _)| decision), Some(Decision::Forbidden));
    }
}
