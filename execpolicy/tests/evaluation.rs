//! Decisions about commands and lines, and their JSON.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of a test fails by panicking"
)]

use stockade_execpolicy::{Certainty, HostExecutables, Layer, NetworkRule, Policy, ReportedMatch};
use stockade_protocol::{Argv, CommandRole, Decision, NetworkProtocol, ParsedCommand, ParsedLine, Word};

const RULES: &str = r#"
prefix_rule(pattern=["git", ["status", "log"]])
prefix_rule(pattern=["npm", "test"])
prefix_rule(pattern=[["ls", "cat", "echo", "cd"]])
prefix_rule(pattern=["git", "push"], decision="prompt")
prefix_rule(pattern=["git", "push", "--force"], decision="forbidden", justification="never rewrite what others have")
prefix_rule(pattern=[["rm", "sudo"]], decision="forbidden", justification="use trash")
host_executable(name="git", paths=["/usr/bin/git"])
"#;

fn policy() -> Policy {
    Policy::parse("t.rules", RULES, Layer::User).unwrap()
}

/// A command; `…` stands for a word that is not known.
fn command(text: &str) -> ParsedCommand {
    let words = text.split(' ').map(|word| if word == "…" { Word::Unknown } else { word.into() });
    ParsedCommand { words: words.collect(), ..ParsedCommand::default() }
}

fn line(commands: Vec<ParsedCommand>) -> ParsedLine {
    ParsedLine { commands, opaque: None }
}

fn decide(line: &ParsedLine) -> Decision {
    let policy = policy();
    let evaluation = policy.evaluate(line, HostExecutables::Resolve, |_| Decision::Prompt);
    assert_eq!(policy.decide(line, HostExecutables::Resolve, |_| Decision::Prompt), evaluation.decision);
    evaluation.decision
}

fn decide_one(text: &str) -> Decision {
    decide(&line(vec![command(text)]))
}

#[test]
fn words_match_whole_and_in_order() {
    for (text, expected) in [
        ("git status", Decision::Allow),
        ("git log --oneline", Decision::Allow),
        ("git status-foo", Decision::Prompt),
        ("git -C . status", Decision::Prompt),
        ("git -c x=y status", Decision::Prompt),
        ("git --frobnicate status", Decision::Prompt),
        ("git --no-pager -P status", Decision::Prompt),
        ("git --no-pager push", Decision::Prompt),
        ("git --no-pager push --force", Decision::Forbidden),
        ("git -C . push --force", Decision::Forbidden),
        ("git -C push status --force", Decision::Prompt),
        ("git --git-dir=x --work-tree y -c a.b=c push --force", Decision::Forbidden),
        ("git --exec-path=/x --no-advice push --force", Decision::Forbidden),
        ("/usr/bin/git --no-pager log", Decision::Prompt),
        ("/tmp/git --no-pager push --force", Decision::Forbidden),
        ("git", Decision::Prompt),
        ("git rm x", Decision::Prompt),
        ("rmdir x", Decision::Prompt),
        ("echo rm x", Decision::Allow),
        ("git push", Decision::Prompt),
        ("git push --force", Decision::Forbidden),
        ("rm x", Decision::Forbidden),
    ] {
        assert_eq!(decide_one(text), expected, "{text}");
    }
}

/// Options before the subcommand don't evade a rule, even if they are unknown to the table or to the parser.
#[test]
fn an_option_before_the_subcommand_that_is_not_known_is_asked_about() {
    let rules = "prefix_rule(pattern=[\"git\", \"push\"], decision=\"forbidden\")";
    let policy = Policy::parse("t.rules", rules, Layer::User).unwrap();
    let of = |command: ParsedCommand| {
        let one = line(vec![command]);
        let evaluation = policy.evaluate(&one, HostExecutables::Ignore, |_| Decision::Allow);
        let decided = policy.decide(&one, HostExecutables::Ignore, |_| Decision::Allow);
        assert_eq!(evaluation.decision, decided);
        (decided, evaluation.commands.first().unwrap().matches.len())
    };
    assert_eq!(of(command("git --frobnicate push")), (Decision::Prompt, 1));
    let mut unknown = command("git -C . push");
    unknown.words[2] = Word::Unknown;
    assert_eq!(of(unknown), (Decision::Prompt, 1));
    assert_eq!(of(command("git -C . push")), (Decision::Forbidden, 1));
    assert_eq!(of(command("git -C")), (Decision::Allow, 0));
    let matched =
        policy.evaluate(&line(vec![command("git -C . push x")]), HostExecutables::Ignore, |_| Decision::Allow);
    let prefix = matched.commands.first().unwrap().matches.first().unwrap().matched_prefix().to_vec();
    assert_eq!(prefix, ["git", "push"].map(stockade_protocol::RawText::from));
}

#[test]
fn a_saved_rule_is_for_the_command_as_it_was_shown() {
    let policy = Policy::parse("t.rules", "prefix_rule(pattern=[\"git\", \"log\"], exact=True)", Layer::User).unwrap();
    let decide = |text| policy.decide(&line(vec![command(text)]), HostExecutables::Ignore, |_| Decision::Prompt);
    assert_eq!(decide("git log"), Decision::Allow);
    assert_eq!(decide("git --no-pager log"), Decision::Prompt);
}

#[test]
fn an_allowed_path_is_one_that_is_listed() {
    for (text, expected) in [
        ("/usr/bin/git status", Decision::Allow),
        ("/usr/bin//git status", Decision::Allow),
        ("/tmp/git status", Decision::Prompt),
        ("./git status", Decision::Prompt),
        ("/usr/bin/../../tmp/git status", Decision::Prompt),
        ("/bin/ls", Decision::Prompt),
        ("/bin/rm x", Decision::Forbidden),
        ("./rm x", Decision::Forbidden),
        ("../../bin/rm x", Decision::Forbidden),
    ] {
        assert_eq!(decide_one(text), expected, "{text}");
    }
    let literal =
        policy().decide(&line(vec![command("/usr/bin/git status")]), HostExecutables::Ignore, |_| Decision::Prompt);
    assert_eq!(literal, Decision::Prompt);
}

#[test]
fn a_path_in_a_rule_matches_however_it_is_spelled() {
    let rules = r#"prefix_rule(pattern=["/bin/rm"], decision="forbidden")
prefix_rule(pattern=["/opt/x"])"#;
    let policy = Policy::parse("t.rules", rules, Layer::User).unwrap();
    let decide = |text| policy.decide(&line(vec![command(text)]), HostExecutables::Ignore, |_| Decision::Prompt);
    assert_eq!(decide("//bin/./rm x"), Decision::Forbidden);
    assert_eq!(decide("/opt/x"), Decision::Allow);
    // Allowing is exact.
    assert_eq!(decide("//opt/x"), Decision::Prompt);
}

#[test]
fn allowing_stops_at_assignments_and_redirections_and_forbidding_does_not() {
    let with = |text, change: fn(&mut ParsedCommand)| {
        let mut command = command(text);
        change(&mut command);
        decide(&line(vec![command]))
    };
    let assigns: fn(&mut ParsedCommand) = |command| command.assigns.push("A".into());
    let writes: fn(&mut ParsedCommand) = |command| command.writes.push("out".into());
    for change in [assigns, writes] {
        assert_eq!(with("git status", change), Decision::Prompt);
        assert_eq!(with("rm x", change), Decision::Forbidden);
        assert_eq!(with("git push --force", change), Decision::Forbidden);
    }
}

#[test]
fn an_unknown_word_is_never_allowed_and_may_be_what_a_rule_restricts() {
    assert_eq!(decide_one("git status …"), Decision::Prompt);
    assert_eq!(decide_one("rm …"), Decision::Forbidden);
    assert_eq!(decide_one("… x"), Decision::Prompt);
    let policy = policy();
    let lax = |text| policy.evaluate(&line(vec![command(text)]), HostExecutables::Resolve, |_| Decision::Allow);
    // `git …` may be `git push --force`, so the lax fallback does not count.
    let evaluation = lax("git …");
    assert_eq!(evaluation.decision, Decision::Prompt);
    let found = &evaluation.commands[0].matches[0];
    assert_eq!((found.certainty(), found.decision()), (Certainty::Possible, Decision::Prompt));
    assert_eq!(found.rule().to_string(), r#"["git", "push", "--force"]"#);
    assert_eq!(lax("ls …").decision, Decision::Allow);
    assert_eq!(lax("… x").decision, Decision::Prompt);
    assert_eq!(
        Policy::default().decide(&line(vec![command("… x")]), HostExecutables::Resolve, |_| Decision::Allow),
        Decision::Prompt
    );
}

#[test]
fn a_line_is_as_strict_as_its_strictest_command() {
    assert_eq!(decide(&line(vec![command("cd x"), command("git status")])), Decision::Allow);
    assert_eq!(decide(&line(vec![command("git status"), command("git push")])), Decision::Prompt);
    assert_eq!(decide(&line(vec![command("ls"), command("rm x"), command("ls")])), Decision::Forbidden);
}

#[test]
fn the_fallback_judges_only_what_no_rule_matches() {
    let asked = std::cell::RefCell::new(Vec::new());
    let rules = r#"prefix_rule(pattern=["apple"])"#;
    let policy = Policy::parse("t.rules", rules, Layer::User).unwrap();
    let both = line(vec![command("apple"), command("rm -rf ./")]);
    let evaluation = policy.evaluate(&both, HostExecutables::Resolve, |command| {
        asked.borrow_mut().push(command.words[0].to_string());
        Decision::Forbidden
    });
    assert_eq!(evaluation.decision, Decision::Forbidden);
    assert_eq!(*asked.borrow(), ["rm"]);
    assert_eq!(evaluation.commands[0].fallback, None);
    assert_eq!(evaluation.commands[1].fallback, Some(Decision::Forbidden));
}

#[test]
fn a_line_that_is_not_fully_known_asks() {
    let opaque = |commands| ParsedLine { commands, opaque: Some("eval of a variable".into()) };
    assert_eq!(decide(&opaque(vec![command("ls")])), Decision::Prompt);
    assert_eq!(decide(&opaque(vec![command("rm x")])), Decision::Forbidden);
    // A line without commands is not allowed.
    assert_eq!(decide(&line(vec![])), Decision::Prompt);
}

#[test]
fn a_wrapper_only_restricts() {
    let wrapper = |text| ParsedCommand { role: CommandRole::Wrapper, ..command(text) };
    assert_eq!(decide(&line(vec![wrapper("timeout 5 git status"), command("git status")])), Decision::Allow);
    assert_eq!(decide(&line(vec![wrapper("sudo ls"), command("ls")])), Decision::Forbidden);
    assert_eq!(decide(&line(vec![wrapper("ls"), command("npm run x")])), Decision::Prompt);
    assert_eq!(decide(&line(vec![wrapper("ls")])), Decision::Prompt);
}

#[test]
fn a_match_names_its_rule() {
    let evaluation =
        policy().evaluate(&line(vec![command("/bin/rm x")]), HostExecutables::Resolve, |_| Decision::Prompt);
    let (index, found) = evaluation.deciding().next().unwrap();
    assert_eq!(index, 0);
    assert_eq!(found.rule().to_string(), r#"[["rm", "sudo"]]"#);
    assert_eq!(found.rule().justification(), Some("use trash"));
    assert_eq!(found.rule().origin().to_string(), "t.rules:7:1");
    assert_eq!(found.rule().origin().layer, Layer::User);
    assert_eq!(found.resolved_program().unwrap().to_string(), "/bin/rm");
    assert_eq!(found.matched_prefix().len(), 1);
}

#[test]
fn a_rule_for_the_whole_argv_answers_for_a_script_that_cannot_be_read() {
    let rules = r#"prefix_rule(pattern=["bash", "-lc", "make $X"])
prefix_rule(pattern=["bash", "-c"])"#;
    let policy = Policy::parse("t.rules", rules, Layer::User).unwrap();
    let judge_by = |policy: &Policy, argv: [&str; 3], commands| {
        let line = ParsedLine { commands, opaque: Some("a variable".into()) };
        policy.evaluate_argv(&Argv::parse(argv).unwrap(), &line, HostExecutables::Resolve, |_| Decision::Prompt)
    };
    let judge = |argv, commands| judge_by(&policy, argv, commands);
    assert_eq!(judge(["bash", "-lc", "make $X"], vec![command("make …")]).decision, Decision::Allow);
    // To the last word, and no further.
    assert_eq!(judge(["bash", "-lc", "make $Y"], vec![command("make …")]).decision, Decision::Prompt);
    assert_eq!(judge(["bash", "-c", "make $X"], vec![command("make …")]).decision, Decision::Prompt);
    // It overrides no restricting rule, and unknown parts may match any of those.
    let restricting = format!("{rules}\nprefix_rule(pattern=[\"rm\"], decision=\"forbidden\")");
    let restricting = Policy::parse("t.rules", &restricting, Layer::User).unwrap();
    let argv = ["bash", "-lc", "make $X"];
    let evaluation = judge_by(&restricting, argv, vec![command("make …")]);
    assert_eq!(evaluation.decision, Decision::Prompt);
    assert_eq!(evaluation.unseen.map(|found| found.rule().to_string()).as_deref(), Some(r#"["rm"]"#));
    assert_eq!(judge_by(&restricting, argv, vec![command("rm …")]).decision, Decision::Forbidden);
}

fn check(words: &[&str], paths: HostExecutables) -> String {
    serde_json::to_string(&policy().check(&Argv::parse(words.iter().copied()).unwrap(), paths)).unwrap()
}

#[test]
fn the_report_is_that_of_codex() {
    let plain = |words: &[&str]| check(words, HostExecutables::Ignore);
    assert_eq!(
        plain(&["git", "status"]),
        r#"{"matchedRules":[{"prefixRuleMatch":{"matchedPrefix":["git","status"],"decision":"allow"}}],"decision":"allow"}"#
    );
    assert_eq!(plain(&["npm", "run"]), r#"{"matchedRules":[]}"#);
    assert_eq!(
        plain(&["git", "push", "--force", "x"]),
        concat!(
            r#"{"matchedRules":[{"prefixRuleMatch":{"matchedPrefix":["git","push"],"decision":"prompt"}},"#,
            r#"{"prefixRuleMatch":{"matchedPrefix":["git","push","--force"],"decision":"forbidden","#,
            r#""justification":"never rewrite what others have"}}],"decision":"forbidden"}"#
        )
    );
    assert_eq!(plain(&["/usr/bin/git", "status"]), r#"{"matchedRules":[]}"#);
    assert_eq!(
        check(&["/usr/bin/git", "status"], HostExecutables::Resolve),
        concat!(
            r#"{"matchedRules":[{"prefixRuleMatch":{"matchedPrefix":["git","status"],"decision":"allow","#,
            r#""resolvedProgram":"/usr/bin/git"}}],"decision":"allow"}"#
        )
    );
}

#[test]
fn the_report_of_a_line_names_what_the_fallback_judged() {
    let both = line(vec![command("git status"), command("make …")]);
    let evaluation = policy().evaluate(&both, HostExecutables::Resolve, |_| Decision::Prompt);
    let report = evaluation.report(&both);
    assert_eq!(
        serde_json::to_string(&report).unwrap(),
        concat!(
            r#"{"matchedRules":[{"prefixRuleMatch":{"matchedPrefix":["git","status"],"decision":"allow"}},"#,
            r#"{"heuristicsRuleMatch":{"command":["make",null],"decision":"prompt"}}],"decision":"prompt"}"#
        )
    );
    assert!(matches!(report.matched_rules[1], ReportedMatch::HeuristicsRuleMatch { .. }));
    let read: stockade_execpolicy::CheckReport =
        serde_json::from_str(&serde_json::to_string(&report).unwrap()).unwrap();
    assert_eq!(read, report);
}

#[test]
fn many_combinations_are_neither_slow_nor_wrong() {
    let pairs: Vec<String> = (0..20).map(|index| format!(r#"["a{index}", "b{index}"]"#)).collect();
    let wide: Vec<String> = (0..2000).map(|index| format!("\"w{index}\"")).collect();
    let rules = format!(
        "prefix_rule(pattern=[{}], decision=\"forbidden\")\nprefix_rule(pattern=[\"x\", [{}], \"y\"], decision=\"forbidden\")\n",
        pairs.join(", "),
        wide.join(", ")
    );
    let policy = Policy::parse("t.rules", &rules, Layer::User).unwrap();
    let decide = |text: &str| policy.decide(&line(vec![command(text)]), HostExecutables::Ignore, |_| Decision::Allow);
    let words = |last: &str| {
        let head = (0..19).map(|index| format!("{}{index}", if index % 3 == 0 { 'a' } else { 'b' }));
        head.chain([last.to_owned()]).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(decide(&words("a19")), Decision::Forbidden);
    assert_eq!(decide(&words("b19")), Decision::Forbidden);
    assert_eq!(decide(&words("c19")), Decision::Allow);
    assert_eq!(decide(&words("…")), Decision::Prompt);
    assert_eq!(decide("x w1999 y"), Decision::Forbidden);
    assert_eq!(decide("x w2000 y"), Decision::Allow);
}

#[test]
fn a_network_rule_may_speak_of_the_names_below_a_domain() {
    let rules = r#"network_rule(host="**.example.com", protocol="https", decision="allow")
network_rule(host="evil.example.com", protocol="https", decision="deny")"#;
    let policy = Policy::parse("r.rules", rules, Layer::User).unwrap();
    let decision = |host: &str| {
        policy.network_rule(&host.parse().unwrap(), NetworkProtocol::Https, 443).map(NetworkRule::decision)
    };
    assert_eq!(decision("api.example.com"), Some(Decision::Allow));
    assert_eq!(decision("evil.example.com"), Some(Decision::Forbidden), "the strictest counts");
    assert_eq!(decision("example.org"), None);
}
