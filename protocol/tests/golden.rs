//! Every golden message is read and written back byte for byte, is valid against its schema, and
//! together they use every variant that any schema has.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod lists;
mod schema_walk;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use stockade_protocol::{
    ApprovalReply, ApprovalRequest, AskForApproval, AuditRecord, CancelRequest, ExecApprovalRequirement, ExecRequest,
    Outcome, ParsedLine, PatchRequest, Permissions, RejectConfig, ReviewDecision, SandboxPolicy, ToolCallRequest,
    Violation, bundle, messages, parse,
};

type RoundTrip = fn(&str) -> Result<String, String>;

fn round_trip<T: DeserializeOwned + Serialize>(json: &str) -> Result<String, String> {
    let message: T = parse(json).map_err(|error| error.to_string())?;
    serde_json::to_string_pretty(&message).map(|text| text + "\n").map_err(|error| error.to_string())
}

const ROUND_TRIPS: &[(&str, RoundTrip)] = &[
    ("ApprovalReply", round_trip::<ApprovalReply>),
    ("ApprovalRequest", round_trip::<ApprovalRequest>),
    ("AskForApproval", round_trip::<AskForApproval>),
    ("AuditRecord", round_trip::<AuditRecord>),
    ("CancelRequest", round_trip::<CancelRequest>),
    ("ExecApprovalRequirement", round_trip::<ExecApprovalRequirement>),
    ("ExecRequest", round_trip::<ExecRequest>),
    ("Outcome", round_trip::<Outcome>),
    ("ParsedLine", round_trip::<ParsedLine>),
    ("PatchRequest", round_trip::<PatchRequest>),
    ("Permissions", round_trip::<Permissions>),
    ("ReviewDecision", round_trip::<ReviewDecision>),
    ("SandboxPolicy", round_trip::<SandboxPolicy>),
    ("ToolCallRequest", round_trip::<ToolCallRequest>),
    ("Violation", round_trip::<Violation>),
];

fn golden_files(message: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(message);
    let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn every_message_has_golden_documents() {
    let listed: Vec<&str> = ROUND_TRIPS.iter().map(|(name, _)| *name).collect();
    let all: Vec<_> = messages().into_iter().map(|message| message.name).collect();
    assert_eq!(listed, all);
}

#[test]
fn golden_documents_survive_byte_for_byte() {
    for (name, round_trip) in ROUND_TRIPS {
        for file in golden_files(name) {
            let text = fs::read_to_string(&file).unwrap();
            assert_eq!(round_trip(&text), Ok(text), "{}", file.display());
        }
    }
}

#[test]
fn golden_documents_are_valid_and_use_every_variant() {
    let bundle = bundle().to_value();
    let mut seen = BTreeSet::new();
    for (name, _) in ROUND_TRIPS {
        for file in golden_files(name) {
            let value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
            let used = schema_walk::variants_used(&bundle, name, &value);
            seen.extend(used.unwrap_or_else(|| panic!("{} is not valid against the schema of {name}", file.display())));
        }
    }
    // Newer codex clients send the first; Stockade itself writes `reject`. The others are defaults
    // and left out when written.
    seen.extend(["AskForApproval/granular", "HttpMethods/any", "RuleSource/policy"].map(String::from));
    let all = schema_walk::all_variants(&bundle);
    let missing: Vec<_> = all.difference(&seen).collect();
    assert!(missing.is_empty(), "no golden document uses {missing:?}");
    assert!(all.len() > 90, "the walk found only {} variants", all.len());
}

/// Wherever an object stands in a message, and whichever list stands in its place: what the schema does not know is
/// refused.
#[test]
fn a_list_is_no_object_anywhere_in_a_message() {
    let bundle = bundle().to_value();
    let mut refused = 0;
    for (name, round_trip) in ROUND_TRIPS {
        for file in golden_files(name) {
            for text in lists::in_place_of_objects(&fs::read_to_string(&file).unwrap()) {
                let value = serde_json::from_str(&text).unwrap();
                if schema_walk::variants_used(&bundle, name, &value).is_none() {
                    let taken = round_trip(&text);
                    assert!(taken.is_err(), "{} was taken for a {name}: {taken:?}", text);
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 1_000, "only {refused} lists were tried");
}

#[test]
fn other_forms_are_read_and_written_in_the_one_form() {
    let canonical = |(name, json): (&str, &str)| {
        let (_, round_trip) = ROUND_TRIPS.iter().find(|(own, _)| *own == name).unwrap();
        serde_json::from_str::<serde_json::Value>(&round_trip(json).unwrap()).unwrap().to_string()
    };
    for (name, given, written) in [
        (
            "AskForApproval",
            r#"{"granular":{"sandbox_approval":true,"rules":true,"mcp_elicitations":true}}"#,
            r#"{"reject":{"mcp_elicitations":false,"request_permissions":true,"rules":false,"sandbox_approval":false,"skill_approval":true}}"#,
        ),
        ("ReviewDecision", r#"{"denied":{"reason":"no"}}"#, r#"{"denied":{"rejection":"no"}}"#),
        (
            "ReviewDecision",
            r#"{"network_policy_amendment":{"network_policy_amendment":{"host":"A.test.","action":"allow","protocol":"socks5_tcp"}}}"#,
            r#"{"network_policy_amendment":{"network_policy_amendment":{"action":"allow","host":"a.test","protocol":"tcp"}}}"#,
        ),
        (
            "SandboxPolicy",
            r#"{"type":"workspace-write","writable_roots":["/a/./b//"],"network_access":false}"#,
            r#"{"exclude_slash_tmp":false,"exclude_tmpdir_env_var":false,"network_access":false,"read_only_access":{"type":"full-access"},"type":"workspace-write","writable_roots":["/a/b"]}"#,
        ),
        // A newer peer may add a field to an event.
        ("ApprovalReply", r#"{"id":"a","decision":"abort","new":1}"#, r#"{"decision":"abort","id":"a"}"#),
    ] {
        assert_eq!(canonical((name, given)), written, "{given}");
    }
}

#[test]
fn documented_forms_mean_what_they_say() {
    let reject = r#"{"reject":{"sandbox_approval":true,"rules":false,"mcp_elicitations":false}}"#;
    let expected = RejectConfig { sandbox_approval: true, ..RejectConfig::default() };
    assert_eq!(parse::<AskForApproval>(reject).unwrap(), AskForApproval::Reject(expected));
    assert_eq!(parse::<ReviewDecision>(r#""denied""#).unwrap(), ReviewDecision::Denied { reason: None });
}

#[test]
fn errors_name_the_field_and_the_value() {
    let error = |(name, json): (&str, &str)| {
        let (_, round_trip) = ROUND_TRIPS.iter().find(|(own, _)| *own == name).unwrap();
        round_trip(json).unwrap_err()
    };
    for (name, json, words) in [
        (
            "SandboxPolicy",
            r#"{"type":"workspace-write","writeable_roots":["/a"]}"#,
            "unknown field `writeable_roots`, expected one of `type`, `writable_roots`",
        ),
        (
            "SandboxPolicy",
            r#"{"type":"read-only","access":{"type":"restricted","readable_roots":["/a","~"]}}"#,
            "`access.readable_roots[1]`: path `~` is not absolute",
        ),
        ("AskForApproval", r#"{"reject":{"sandbox":true}}"#, "`reject.sandbox`: unknown field `sandbox`"),
        ("Permissions", r#"{"file":[]}"#, "unknown field `file`"),
        (
            "Permissions",
            r#"{"files":[{"target":{"glob":"*.env"},"access":"none"}]}"#,
            "`files[0].target.glob`: glob `*.env` is not absolute",
        ),
        (
            "Permissions",
            r#"{"network":{"hosts":{"rules":[{"host":"a b","decision":"allow"}]}}}"#,
            "`network.hosts.rules[0].host`: host `a b`",
        ),
        ("Permissions", r#"{"limits":{"processes":0}}"#, "`limits.processes`: invalid value: integer `0`"),
        ("Permissions", r#"{"environment":{"set":{"A=B":"1"}}}"#, "environment variable `A=B`"),
        ("ExecRequest", r#"{"id":"a b","thread_id":"t","command":["x"],"cwd":"/"}"#, "`id`: RequestId `a b` must be"),
        (
            "ExecRequest",
            r#"{"id":"a","thread_id":"t","command":[],"cwd":"/"}"#,
            "`command`: a command needs at least one word",
        ),
        (
            "ExecRequest",
            r#"{"id":"a","thread_id":"t","command":["x"],"cwd":"/a/../b"}"#,
            "`cwd`: path `/a/../b` contains `..`",
        ),
        ("ReviewDecision", r#""aproved""#, "unknown variant `aproved`, expected one of `approved`"),
        ("ReviewDecision", r#""approved" x"#, "trailing characters"),
    ] {
        let error = error((name, json));
        assert!(error.contains(words), "{json}\n  gave {error}");
    }
}
