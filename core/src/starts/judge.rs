//! What the rules that restrict make of one start.
//!
//! A start is judged as the same words would be in a line. What a wrapper or a shell goes on to start is left to that
//! start, which is judged in its own right, with what its variables have become; but programs that hold others inside
//! (`busybox rm`), and builtins of shells, do their work without another start, so they count here.

use std::collections::HashMap;
use std::fs;

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

/// Paths that rules restrict, by what they are called with the links in their directories followed: `/bin/rm` of a rule is
/// started as `/usr/bin/rm`.
#[derive(Debug, Default)]
pub(super) struct RulePaths {
    by_path: HashMap<RawText, Vec<RawText>>,
    by_name: HashMap<RawText, Vec<RawText>>,
}

impl RulePaths {
    /// Relative ones count from the command's directory.
    pub(super) fn of(policy: &Policy, cwd: &AbsPath) -> Self {
        let mut all = Self::default();
        for text in policy.restricted_paths() {
            let name = base_name(&RawText::from(text));
            all.by_name.entry(name).or_default().push(RawText::from(text));
            let Some(path) = cwd.to_host_path().map(|cwd| cwd.join(text)) else { continue };
            let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { continue };
            let Ok(directory) = fs::canonicalize(directory) else { continue };
            let Ok(own) = AbsPath::from_path(&directory.join(name)) else { continue };
            if own.as_raw().as_bytes() != text.as_bytes() {
                all.by_path.entry(own.as_raw().clone()).or_default().push(RawText::from(text));
            }
        }
        all
    }

    /// The command with its program as each rule has it that restricts this path.
    fn forms<'a>(&'a self, form: &'a [RawText]) -> impl Iterator<Item = Words> + 'a {
        Self::under(form, form.first().and_then(|program| self.by_path.get(program)))
    }

    /// The same, for a program that may be any file of its name.
    fn forms_by_name<'a>(&'a self, form: &'a [RawText]) -> impl Iterator<Item = Words> + 'a {
        Self::under(form, form.first().and_then(|program| self.by_name.get(program)))
    }

    fn under<'a>(form: &'a [RawText], paths: Option<&'a Vec<RawText>>) -> impl Iterator<Item = Words> + 'a {
        let rest = form.get(1..).unwrap_or_default();
        paths.into_iter().flatten().map(move |path| std::iter::once(path).chain(rest).cloned().collect())
    }
}

/// Which rules a name of a program counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CountsFor {
    EveryRule,
    /// Rules that name a path.
    Paths,
}

/// The rules that restrict a start; `None` if there are none.
pub(super) fn met(policy: &Policy, paths: &RulePaths, start: &ProgramStart) -> Option<Met> {
    let does_all_itself = start.file.as_ref().is_some_and(|file| is_many_programs(file.as_bytes()));
    let mut found: Option<Met> = None;
    // `busybox rm x` is `rm x`.
    let is_many = |form: &&Words| form.first().is_some_and(|name| is_many_programs(base_name(name).as_bytes()));
    let named_inside = start.forms.iter().filter(is_many).filter_map(|form| form.get(1..));
    let by_every = start.forms.iter().map(Vec::as_slice).chain(named_inside).map(<[RawText]>::to_vec);
    let of_rules = start.forms.iter().chain(&start.path_forms).flat_map(|form| paths.forms(form));
    let by_name = start.path_forms.iter().flat_map(|form| paths.forms_by_name(form));
    let by_path = start.path_forms.iter().cloned().chain(of_rules).chain(by_name);
    let every = by_every.map(|form| (form, CountsFor::EveryRule)).chain(by_path.map(|form| (form, CountsFor::Paths)));
    for (form, counts_for) in every {
        let Ok(argv) = Argv::parse(form) else { continue };
        let line = parse_argv(&argv);
        let evaluation = policy.evaluate(&line, HostExecutables::Resolve, |_| Decision::Allow);
        for (judged, part) in evaluation.commands.iter().zip(&line.commands) {
            let Some(words) = command_words(part) else { continue };
            let is_own_work = || words.first().is_some_and(|name| is_builtin(name.as_bytes()));
            if part.via.is_some() && !does_all_itself && !is_own_work() {
                continue;
            }
            let names_path = |found: &&RuleMatch| {
                found.matched_prefix().first().is_some_and(|program| program.as_bytes().contains(&b'/'))
            };
            let counting =
                judged.matches.iter().filter(|found| counts_for == CountsFor::EveryRule || names_path(found));
            let restricting = counting.filter(|found| found.certainty() == Certainty::Certain);
            let strictest =
                restricting.filter(|found| found.decision() != Decision::Allow).max_by_key(|found| found.decision());
            if let Some(rule) = strictest {
                found = Some(with(found, rule, words));
            }
        }
    }
    found
}

/// Whether a rule allows a skill's script, by its own path or the one that leads to it. The name that it is told, and its
/// interpreter, say nothing about the script.
pub(super) fn is_allowed(policy: &Policy, start: &ProgramStart, script: &AbsPath) -> bool {
    let Some((path, rest)) = start.forms.first().and_then(|form| form.split_first()) else { return false };
    let under = [path, script.as_raw()].map(|name| Argv::parse(std::iter::once(name).chain(rest).cloned()));
    under.into_iter().flatten().any(|argv| {
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
        met(&policy, &RulePaths::default(), &start).map(|met| (met.decision, met.reason))
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

    /// The system's links are names of their own for rules that name a program, and lead to the file for rules that name it.
    #[test]
    fn a_rule_that_names_a_path_holds_for_the_file() {
        let rules = "prefix_rule(pattern = [\"/usr/bin/mawk\"], decision = \"forbidden\")\n\
            prefix_rule(pattern = [\"gawk\"], decision = \"forbidden\")\n";
        let policy = Policy::parse("t.rules", rules, Layer::User).unwrap();
        let words = |program: &str| vec![vec![RawText::from(program), RawText::from("x")]];
        for (further, is_met) in [("/usr/bin/mawk", true), ("/usr/bin/gawk", false), ("/opt/mawk", false)] {
            let start =
                ProgramStart { forms: words("/usr/bin/awk"), path_forms: words(further), ..ProgramStart::default() };
            assert_eq!(met(&policy, &RulePaths::default(), &start).is_some(), is_met, "{further}");
        }
    }

    #[test]
    fn paths_of_rules_are_known_behind_links_of_directories() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir(root.join("real")).unwrap();
        std::os::unix::fs::symlink("real", root.join("link")).unwrap();
        let rules = format!(
            "prefix_rule(pattern = [\"{}/link/x\"], decision = \"forbidden\")\n\
            prefix_rule(pattern = [\"./own.sh\"], decision = \"prompt\")\n",
            root.display()
        );
        let policy = Policy::parse("t.rules", &rules, Layer::User).unwrap();
        let paths = RulePaths::of(&policy, &AbsPath::from_path(&root.join("real")).unwrap());
        for (name, expected) in [("x", Some(Decision::Forbidden)), ("own.sh", Some(Decision::Prompt)), ("other", None)]
        {
            let program = RawText::from(root.join("real").join(name).to_str().unwrap());
            let start = ProgramStart { forms: vec![vec![program]], ..ProgramStart::default() };
            assert_eq!(met(&policy, &paths, &start).map(|met| met.decision), expected, "{name}");
            // A loader that is told a name looks for the file.
            let named = vec![vec![RawText::from(name)]];
            let start = ProgramStart { forms: named.clone(), path_forms: named, ..ProgramStart::default() };
            assert_eq!(met(&policy, &paths, &start).map(|met| met.decision), expected, "{name}");
        }
    }

    #[test]
    fn a_skill_is_not_allowed_by_the_name_that_it_is_told() {
        let rules = "prefix_rule(pattern = [\"ls\"])\nprefix_rule(pattern = [\"/bin/sh\"])\n\
            prefix_rule(pattern = [\"/skills/fine\"])\n";
        let policy = Policy::parse("t.rules", rules, Layer::User).unwrap();
        let words = |words: &[&str]| words.iter().map(|word| RawText::from(*word)).collect::<Words>();
        for (script, expected) in [("/skills/run", false), ("/skills/fine", true)] {
            let forms = vec![words(&["/ws/link"]), words(&["ls"]), words(&["/bin/sh", "/ws/link"])];
            let start = ProgramStart { forms, ..ProgramStart::default() };
            assert_eq!(is_allowed(&policy, &start, &script.parse().unwrap()), expected, "{script}");
        }
    }

    #[test]
    fn the_strictest_of_all_names_counts() {
        let told = judged("run", &[&["/ws/run", "push"], &["/usr/bin/git", "push", "/ws/run"], &["rm", "push"]]);
        assert_eq!(told.map(|(decision, _)| decision), Some(Decision::Forbidden));
    }
}
