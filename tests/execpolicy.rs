//! `stockade execpolicy check`, from rules file to JSON.

use std::fs;

use serde_json::{Value, json};

use crate::support::{run, stockade, text};

const RULES: &str = r#"prefix_rule(pattern=["git",["status","log"]])
prefix_rule(pattern=["rm"],decision="forbidden",justification="use trash")
"#;

fn check(rules: &str, arguments: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("r.rules");
    fs::write(&file, rules).unwrap();
    let output = run(stockade().args(["execpolicy", "check", "--rules"]).arg(&file).args(arguments), 0);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_command_gets_the_rules_that_match_it() {
    let expected = json!({"matchedRules":[{"prefixRuleMatch":{"matchedPrefix":["git","status"],"decision":"allow"}}],"decision":"allow"});
    assert_eq!(check(RULES, &["git", "status"]), expected);
    assert_eq!(check(RULES, &["--pretty", "--", "git", "status", "-s"]), expected);
    assert_eq!(check(RULES, &["ls"]), json!({"matchedRules":[]}));
}

#[test]
fn a_line_is_judged_by_every_command_in_it() {
    let decision = |line: &str| check(RULES, &["--shell", line])["decision"].clone();
    assert_eq!(decision("git status"), "allow");
    assert_eq!(decision("git status && $(echo rm) x"), "prompt");
    assert_eq!(decision("git status && make"), "prompt");
    assert_eq!(decision(&"git status;".repeat(51)), "prompt", "too many to read");
    // As `run` judges the line, not only its words.
    assert_eq!(decision("git status < .env"), "prompt");
    assert_eq!(decision("cd x && /usr/bin/git version"), "prompt");
    assert_eq!(decision("RANDOM='a[$(rm f)]'"), "prompt");
    let forbidden = check(RULES, &["--shell", r"echo hi; bash -c 'r\m -rf /'"]);
    assert_eq!(forbidden["decision"], "forbidden");
    assert!(forbidden.to_string().contains("use trash"), "{forbidden}");
}

#[test]
fn a_listed_path_stands_for_its_name_only_when_asked_to() {
    let rules = format!("{RULES}host_executable(name=\"git\", paths=[\"/usr/bin/git\"])\n");
    assert_eq!(check(&rules, &["/usr/bin/git", "status"]), json!({"matchedRules":[]}));
    let resolved = check(&rules, &["--resolve-host-executables", "/usr/bin/git", "status"]);
    assert_eq!(resolved["decision"], "allow");
    assert!(resolved.to_string().contains(r#""resolvedProgram":"/usr/bin/git""#), "{resolved}");
    assert_eq!(check(&rules, &["--resolve-host-executables", "/tmp/git", "status"]), json!({"matchedRules":[]}));
}

#[test]
fn a_wrong_example_is_refused_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bad.rules");
    fs::write(&file, "prefix_rule(pattern=[\"git\",\"push\"],\n  match=[\"git status\"])\n").unwrap();
    let output = run(stockade().args(["execpolicy", "check", "--rules"]).arg(&file).arg("ls"), 125);
    let stderr = text(&output.stderr);
    assert!(stderr.contains("bad.rules:2:10") && stderr.contains("= help: "), "{stderr}");
    assert!(output.stdout.is_empty());
}

#[test]
fn without_rules_the_users_own_are_read_and_a_missing_file_is_named() {
    let home = tempfile::tempdir().unwrap();
    let rules = home.path().join("stockade/rules");
    fs::create_dir_all(&rules).unwrap();
    fs::write(rules.join("mine.rules"), RULES).unwrap();
    let output = run(stockade().args(["execpolicy", "check", "rm", "x"]).env("XDG_CONFIG_HOME", home.path()), 0);
    assert!(text(&output.stdout).contains(r#""decision":"forbidden""#));
    let stderr =
        text(&run(stockade().args(["execpolicy", "check", "--rules", "/nonexistent.rules", "ls"]), 125).stderr);
    assert!(stderr.contains("/nonexistent.rules"), "{stderr}");
}
