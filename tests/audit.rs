//! `stockade audit`, on trails that were written by the library.

use std::fs;
use std::path::Path;

use stockade_core::{AuditSink as _, AuditTrail, TrailOptions};
use stockade_protocol::{
    Argv, AuditEvent, Decision, DecisionSource, Enforcement, EscalationExecution, Refusal, RefusedBy, ReviewDecision,
};

use crate::support::{run, stockade, text};

/// A trail with one run that ended, one that was refused, and one that has not ended.
fn trail() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let trail = AuditTrail::open(directory.path(), TrailOptions::default()).unwrap();
    let append = |thread: &str, request: &str, event: AuditEvent| {
        trail.append(&thread.parse().unwrap(), &request.parse().unwrap(), event).unwrap();
    };
    let requested = |words: &[&str]| AuditEvent::Requested {
        command: Argv::parse(words.iter().copied()).unwrap(),
        cwd: "/repo".parse().unwrap(),
        escalation: EscalationExecution::TurnDefault,
        whole: None,
    };
    append("t1", "call-1", requested(&["/usr/bin/npm", "test", "--token", "S3CRET", "\u{1b}[2J\u{202e}x"]));
    append(
        "t1",
        "call-1",
        AuditEvent::Decided {
            decision: Decision::Prompt,
            source: DecisionSource::Rule(String::from("prefix [\"npm\"]")),
            reason: Some(String::from("it may do\nanything")),
            sandbox_warnings: Vec::new(),
        },
    );
    append(
        "t1",
        "call-1",
        AuditEvent::Answered { decision: ReviewDecision::ApprovedForSession, in_time: true, duration_ms: 2100 },
    );
    append(
        "t1",
        "call-1",
        AuditEvent::Ended {
            result: String::from("exited"),
            exit_code: Some(3),
            duration_ms: 61_000,
            enforcement: Enforcement { engine: String::from("native"), layers: Vec::new() },
            violations: Vec::new(),
        },
    );
    append("t2", "call-2", requested(&["rm", "-rf", "/"]));
    append("t2", "call-2", AuditEvent::Refused(Refusal { by: RefusedBy::Rule, reason: String::from("no") }));
    append("t2", "call-3", requested(&["npm", "publish"]));
    directory
}

fn audit(directory: &Path, arguments: &[&str], exit_code: i32) -> String {
    let output = run(stockade().arg("audit").args(arguments).arg("--trail").arg(directory), exit_code);
    text(&output.stdout)
}

#[test]
fn runs_are_listed_and_filtered() {
    let trail = trail();
    let listed = |arguments: &[&str]| -> Vec<String> {
        let lines = audit(trail.path(), &[&["list"], arguments].concat(), 0);
        let request = |line: &str| {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            value["request_id"].as_str().unwrap().to_owned()
        };
        lines.lines().map(request).collect()
    };
    assert_eq!(listed(&[]), ["call-1", "call-2", "call-3"]);
    assert_eq!(listed(&["--thread", "t2"]), ["call-2", "call-3"]);
    assert_eq!(listed(&["--program", "npm"]), ["call-1", "call-3"]);
    assert_eq!(listed(&["--program", "/usr/bin/npm"]), ["call-1"]);
    assert_eq!(listed(&["--result", "refused"]), ["call-2"]);
    assert_eq!(listed(&["--result", "unfinished"]), ["call-3"]);
    assert_eq!(listed(&["--request", "call-2"]), ["call-2"]);
    assert_eq!(listed(&["--last", "1"]), ["call-3"]);
    assert_eq!(listed(&["--since", "1h"]).len(), 3);
    assert_eq!(listed(&["--until", "2020-01-01"]).len(), 0);
    for (arguments, words) in
        [(&["list", "--since", "x"][..], "is no time"), (&["list", "--result", "x"], "there are exited")]
    {
        let output = run(stockade().arg("audit").args(arguments).arg("--trail").arg(trail.path()), 125);
        assert!(text(&output.stderr).contains(words));
    }
}

#[test]
fn a_run_is_told_as_a_story_without_secrets_and_escapes() {
    let trail = trail();
    let story = audit(trail.path(), &["show", "call-1"], 0);
    for words in [
        "asked to run  /usr/bin/npm test --token",
        "to be asked, decided by the rule prefix [\"npm\"]",
        r"because it may do\nanything",
        "answered: yes, for the session after 2.1s",
        "exited with 3 after 1m01s",
    ] {
        assert!(story.contains(words), "{words} is not in\n{story}");
    }
    assert!(!story.contains("S3CRET") && !story.contains(['\u{1b}', '\u{202e}']), "{story}");
    let lines = audit(trail.path(), &["show", "call-1", "--json"], 0);
    assert_eq!(lines.lines().count(), 4);
    let output = run(stockade().args(["audit", "show", "call-9", "--trail"]).arg(trail.path()), 1);
    assert!(text(&output.stderr).contains("no request is called `call-9`"));
}

#[test]
fn verify_passes_and_fails_after_one_byte() {
    let trail = trail();
    let told = audit(trail.path(), &["verify"], 0);
    assert!(told.starts_with("7 records are whole; the last is 6 with the hash "), "{told}");
    let file = trail.path().join("audit.jsonl");
    let mut bytes = fs::read(&file).unwrap();
    let place = bytes.windows(4).position(|part| part == b"publ").unwrap();
    bytes[place] = b'P';
    fs::write(&file, &bytes).unwrap();
    let told = audit(trail.path(), &["verify"], 1);
    assert!(told.contains("audit.jsonl line 7: record 6 was changed"), "{told}");
    let json: serde_json::Value = serde_json::from_str(&audit(trail.path(), &["verify", "--json"], 1)).unwrap();
    assert_eq!((&json["whole"], &json["bad"]["line"]), (&false.into(), &7.into()));
}

#[test]
fn the_own_trail_is_found_and_an_empty_one_lists_nothing() {
    let state = tempfile::tempdir().unwrap();
    let output = run(stockade().args(["audit", "list"]).env("XDG_STATE_HOME", state.path()), 0);
    assert!(output.stdout.is_empty());
    let output = run(stockade().args(["audit", "verify"]).env("XDG_STATE_HOME", state.path()), 125);
    assert!(text(&output.stderr).contains("/stockade"), "{}", text(&output.stderr));
}
