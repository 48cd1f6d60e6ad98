//! The extent of allowing rules (`exact`), and the placement of their commands (`outside`).
#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper of a test fails by panicking")]

use stockade_execpolicy::{Breadth, HostExecutables, Layer, Placement, Policy, RulesError};
use stockade_protocol::{Argv, CommandRole, Decision, ParsedCommand, ParsedLine};

fn line(commands: &[&str]) -> ParsedLine {
    let command = |text: &&str| {
        let (role, text) =
            text.strip_prefix("> ").map_or((CommandRole::Runs, *text), |text| (CommandRole::Wrapper, text));
        ParsedCommand { words: text.split(' ').map(Into::into).collect(), role, ..ParsedCommand::default() }
    };
    ParsedLine { commands: commands.iter().map(command).collect(), opaque: None }
}

fn decide(rules: &str, command: &str) -> Decision {
    let policy = Policy::parse("t.rules", rules, Layer::User).unwrap();
    let line = line(&[command]);
    let evaluation = policy.evaluate(&line, HostExecutables::Resolve, |_| Decision::Prompt);
    assert_eq!(policy.decide(&line, HostExecutables::Resolve, |_| Decision::Prompt), evaluation.decision);
    evaluation.decision
}

#[test]
fn an_exact_rule_allows_nothing_longer() {
    let rules = r#"
prefix_rule(pattern=["tar", "xf", ["a.tar", "b.tar"]], exact=True, match=["tar xf a.tar"], not_match=["tar xf a.tar x"])
prefix_rule(pattern=["make"], exact=True)
prefix_rule(pattern=["make", "check"])
host_executable(name="tar", paths=["/usr/bin/tar"])
"#;
    for allowed in ["tar xf a.tar", "tar xf b.tar", "/usr/bin/tar xf b.tar", "make", "make check", "make check -j"] {
        assert_eq!(decide(rules, allowed), Decision::Allow, "{allowed}");
    }
    for asked in ["tar xf a.tar --to-command=x", "tar xf a.tar ", "tar xf", "make all", "/tmp/tar xf a.tar"] {
        assert_eq!(decide(rules, asked), Decision::Prompt, "{asked}");
    }
}

#[test]
fn an_exact_rule_answers_for_a_whole_script() {
    let rules = r#"prefix_rule(pattern=["bash", "-c", "cat x; make"], exact=True)"#;
    let policy = Policy::parse("t.rules", rules, Layer::User).unwrap();
    let decide = |words: &[&str]| {
        let argv = Argv::parse(words.iter().copied()).unwrap();
        policy.evaluate_argv(&argv, &line(&["> bash", "make"]), HostExecutables::Ignore, |_| Decision::Prompt).decision
    };
    assert_eq!(decide(&["bash", "-c", "cat x; make"]), Decision::Allow);
    assert_eq!(decide(&["bash", "-c", "cat x; make", "x"]), Decision::Prompt);
}

/// Where a line runs, with rules of a layer.
fn placement(rules: &str, layer: Layer, unsaid: Placement, commands: &[&str]) -> Placement {
    let policy = Policy::parse("t.rules", rules, layer).unwrap_or_else(|error| panic!("{error}"));
    let line = line(commands);
    policy.evaluate(&line, HostExecutables::Resolve, |_| Decision::Allow).placement(&line, unsaid)
}

#[test]
fn a_command_leaves_where_its_rules_say_so() {
    use Placement::{Inside, Outside};
    let rules = r#"
prefix_rule(pattern=["git"], outside=True)
prefix_rule(pattern=["git", "clean"], outside=False)
prefix_rule(pattern=["make"])
prefix_rule(pattern=["npm", "test"], exact=True)
prefix_rule(pattern=["npm", "publish"], exact=True, outside=True)
"#;
    for (commands, by_default, by_setting) in [
        (&["git push"][..], Outside, Outside),
        (&["git push", "git fetch"], Outside, Outside),
        (&["> timeout 5 git push", "git push"], Outside, Outside),
        (&["git clean -n"], Inside, Inside),
        (&["make all"], Inside, Outside),
        (&["git push", "make"], Inside, Outside),
        (&["git push", "ls"], Inside, Inside),
        (&["npm test"], Inside, Inside),
        (&["npm publish"], Outside, Outside),
        (&["> sh"], Inside, Inside),
        (&[], Inside, Inside),
    ] {
        for layer in [Layer::System, Layer::User, Layer::Session] {
            assert_eq!(placement(rules, layer, Inside, commands), by_default, "{commands:?}");
            assert_eq!(placement(rules, layer, Outside, commands), by_setting, "{commands:?}");
        }
    }
    let project = r#"prefix_rule(pattern=["make"])"#;
    assert_eq!(placement(project, Layer::Project, Outside, &["make"]), Inside, "no setting lets a project out");
}

#[test]
fn outside_and_exact_are_refused_where_they_have_no_meaning() {
    for (rules, layer, place, message) in [
        (r#"prefix_rule(pattern=["a"], outside=True)"#, Layer::Project, "1:36", "`outside` in rules of a project"),
        (r#"prefix_rule(["a"], "prompt", outside=True)"#, Layer::Project, "1:38", "`outside` in rules of a project"),
        (r#"prefix_rule(["a"], "forbidden", outside=True)"#, Layer::User, "1:41", "`outside` in a rule that forbids"),
        (r#"prefix_rule(["a"], "forbidden", profile="p")"#, Layer::User, "1:41", "`profile` in a rule that forbids"),
        (r#"prefix_rule(["a"], "forbidden", exact=True)"#, Layer::User, "1:39", "`exact` in a rule that does not"),
        (r#"prefix_rule(["a"], outside="yes")"#, Layer::User, "1:28", "`outside` is a string"),
        (r#"prefix_rule(["a"], exact=1)"#, Layer::User, "1:26", "`exact` is a number"),
    ] {
        let Err(RulesError::Invalid(found)) = Policy::parse("t.rules", rules, layer) else { panic!("{rules}") };
        assert!(found.message.starts_with(message), "{}", found.message);
        assert_eq!(found.position.to_string(), place, "{rules}");
    }
    let error = Policy::parse("t.rules", r#"prefix_rule(["a"], outside=True)"#, Layer::Project).unwrap_err();
    assert!(error.to_string().contains("or move the rule to a file of your own"), "{error}");
    Policy::parse("t.rules", r#"prefix_rule(["a"], exact=None, outside=False)"#, Layer::Project).unwrap();
}

/// A reader of codex's report finds nothing new in it, but where a rule says `outside`.
#[test]
fn the_report_says_outside_where_the_rule_does() {
    let policy =
        Policy::parse("t.rules", "prefix_rule([\"a\"])\nprefix_rule([\"b\"], outside=True)", Layer::User).unwrap();
    let report = |program: &str| {
        let argv = Argv::parse([program]).unwrap();
        serde_json::to_string(&policy.check(&argv, HostExecutables::Ignore)).unwrap()
    };
    assert!(!report("a").contains("outside"));
    assert!(report("b").contains(r#""decision":"allow","outside":true"#), "{}", report("b"));
}

#[test]
fn a_rule_says_what_a_program_that_runs_elsewhere_has() {
    let text = "prefix_rule([\"a\"], profile=[\"p\", \"q\"], permissions=\"exact\", environment=[\"CI\"])\nprefix_rule([\"b\"])\n";
    let policy = Policy::parse("t.rules", text, Layer::User).unwrap();
    let rule = policy.rules().next().unwrap();
    assert_eq!((rule.breadth(), rule.environment(), rule.grants()), (Breadth::Exact, &[String::from("CI")][..], true));
    assert!(policy.grants() && !policy.restricts() && policy.granted_programs().contains(&b"a"[..]));
    assert!(!policy.granted_programs().contains(&b"b"[..]));
    // A rule that asks gives after a yes, and restricts before.
    for text in
        ["prefix_rule([\"a\"], \"prompt\", profile=\"p\")\n", "prefix_rule([\"a\"], \"prompt\", outside=True)\n"]
    {
        let policy = Policy::parse("t.rules", text, Layer::User).unwrap();
        assert!(policy.grants() && policy.restricts() && policy.granted_programs().contains(&b"a"[..]), "{text}");
    }
    for (arguments, layer, message) in [
        ("permissions=\"exact\"", Layer::User, "`permissions` stands in a rule without `profile`"),
        ("profile=\"p\", permissions=\"wide\"", Layer::User, "unknown permissions `wide`"),
        ("profile=\"p\", permissions=\"exact\"", Layer::Project, "`permissions` stands in rules of a project"),
        ("profile=\"p\", environment=[\"CI\"]", Layer::Project, "`environment` stands in rules of a project"),
        ("environment=[\"CI\"]", Layer::User, "`environment` stands in a rule with neither"),
        ("outside=True, environment=[\"LD_PRELOAD\"]", Layer::User, "`LD_PRELOAD` chooses which code"),
        ("outside=True, environment=[\"PATH\"]", Layer::User, "`PATH` chooses which code"),
        ("outside=True, environment=[\"GIT_SSH_COMMAND\"]", Layer::User, "`GIT_SSH_COMMAND` chooses which code"),
        ("outside=True, environment=[\"a b\"]", Layer::User, "`a b` is no name"),
        ("outside=True, environment=\"CI\"", Layer::User, "`environment` is a string"),
    ] {
        let text = format!("prefix_rule([\"a\"], {arguments})");
        let Err(RulesError::Invalid(found)) = Policy::parse("t.rules", &text, layer) else { panic!("{text}") };
        assert!(found.message.starts_with(message), "{}", found.message);
    }
}
