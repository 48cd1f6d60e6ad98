//! Every message of the server, read and written back unchanged, and valid against its schema.

#![expect(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "../../protocol/tests/schema_walk/mod.rs"]
mod schema_walk;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use stockade_core::Explanation;
use stockade_execpolicy::CheckReport;
use stockade_server::wire::{
    ApprovalAnswerParams, ApprovalForgetParams, ApprovalForgetResult, ApprovalListParams, ApprovalListResult,
    ApprovalRememberedParams, ApprovalRememberedResult, ApprovalRequestParams, ApprovalRequestResult, ApprovalResolved,
    ApprovalUnusable, AuditListParams, AuditListResult, AuditVerifyResult, CommandAck, CommandAttachParams,
    CommandAttachResult, CommandCancelParams, CommandCancelResult, CommandEnded, CommandExplainParams, CommandLost,
    CommandOutput, CommandResizeParams, CommandRunParams, CommandRunResult, CommandSignalParams, CommandStarted,
    CommandWriteParams, ElicitationRequestParams, ElicitationRequestResult, Empty, InitializeParams, InitializeResult,
    PatchApplyParams, PatchApplyResult, PermissionsRequestParams, PermissionsRequestResult, RpcError, RpcId,
    RulesCheckParams, SessionAttachParams, SessionChanged, SessionCloseResult, SessionClosed, SessionListResult,
    SessionNotice, SessionOpenParams, SessionOpenResult, SessionParams, SessionState, SessionUpdateParams,
    ToolReviewParams, ToolReviewResult, methods, server_bundle,
};

type RoundTrip = fn(&str) -> Value;

fn round_trip<T: DeserializeOwned + Serialize>(json: &str) -> Value {
    let message: T = stockade_protocol::parse(json).unwrap_or_else(|error| panic!("{error}: {json}"));
    serde_json::to_value(&message).unwrap()
}

macro_rules! round_trips {
    ($($name:ident),+ $(,)?) => {
        const ROUND_TRIPS: &[(&str, RoundTrip)] = &[$((stringify!($name), round_trip::<$name>)),+];
    };
}

round_trips!(
    ApprovalAnswerParams,
    ApprovalForgetParams,
    ApprovalForgetResult,
    ApprovalListParams,
    ApprovalListResult,
    ApprovalRememberedParams,
    ApprovalRememberedResult,
    ApprovalRequestParams,
    ApprovalRequestResult,
    ApprovalResolved,
    ApprovalUnusable,
    AuditListParams,
    AuditListResult,
    AuditVerifyResult,
    CheckReport,
    CommandAck,
    CommandAttachParams,
    CommandAttachResult,
    CommandCancelParams,
    CommandCancelResult,
    CommandEnded,
    CommandExplainParams,
    CommandLost,
    CommandOutput,
    CommandResizeParams,
    CommandRunParams,
    CommandRunResult,
    CommandSignalParams,
    CommandStarted,
    CommandWriteParams,
    ElicitationRequestParams,
    ElicitationRequestResult,
    Empty,
    Explanation,
    InitializeParams,
    InitializeResult,
    PatchApplyParams,
    PatchApplyResult,
    PermissionsRequestParams,
    PermissionsRequestResult,
    RpcError,
    RpcId,
    RulesCheckParams,
    SessionAttachParams,
    SessionChanged,
    SessionCloseResult,
    SessionClosed,
    SessionListResult,
    SessionNotice,
    SessionOpenParams,
    SessionOpenResult,
    SessionParams,
    SessionState,
    SessionUpdateParams,
    ToolReviewParams,
    ToolReviewResult
);

fn golden(name: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn every_message_of_every_method_has_golden_documents() {
    let listed: BTreeSet<String> = ROUND_TRIPS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let mut used = BTreeSet::from(["RpcError", "RpcId"].map(String::from));
    for method in methods() {
        used.insert(method.params.name.into_owned());
        used.extend(method.result.map(|result| result.name.into_owned()));
    }
    assert_eq!(listed, used);
}

#[test]
fn golden_documents_survive_unchanged_and_are_valid() {
    let bundle = server_bundle().to_value();
    let mut seen = BTreeSet::new();
    for (name, round_trip) in ROUND_TRIPS {
        for file in golden(name) {
            let text = fs::read_to_string(&file).unwrap();
            let value: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(round_trip(&text), value, "{}", file.display());
            let used = schema_walk::variants_used(&bundle, name, &value);
            seen.extend(used.unwrap_or_else(|| panic!("{} is not valid against the schema", file.display())));
        }
    }
    // The protocol's own types have golden documents of their own; these are the wire's.
    let own = [
        "CommandState/",
        "ElicitationRequestResult/",
        "ErrorKind/",
        "NetworkMode/",
        "OutputStream/",
        "PatchApplyResult/",
        "PermissionsRequestResult/",
        "PermissionsScope/",
        "SandboxMode/",
        "SignalName/",
        "StdinKind/",
        "ToolReviewResult/",
    ];
    let all = schema_walk::all_variants(&bundle);
    let mine = all.iter().filter(|variant| own.iter().any(|prefix| variant.starts_with(prefix)));
    // Defaults are left out when they are written.
    let missing: Vec<_> = mine.filter(|variant| !seen.contains(*variant) && *variant != "StdinKind/none").collect();
    assert!(missing.is_empty(), "no golden document uses {missing:?}");
    // Every field of every message, and of what the messages are made of.
    let protocol = stockade_protocol::bundle().to_value();
    let of_protocol = |field: &String| protocol["$defs"].get(field.split('.').next().unwrap()).is_some();
    let fields = schema_walk::all_fields(&bundle);
    let missing: Vec<_> = fields.iter().filter(|field| !seen.contains(*field) && !of_protocol(field)).collect();
    assert!(missing.is_empty(), "no golden document has {missing:?}");
}
