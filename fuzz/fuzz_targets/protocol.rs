//! Any text is read or refused, by every message and every newtype; what is read is written in one
//! form that reads back as the same value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use stockade_protocol::{
    AbsPath, ApprovalReply, ApprovalRequest, AskForApproval, AuditRecord, ExecApprovalRequirement, ExecRequest, Glob, Host, HostPattern,
    Outcome, ParsedLine, Permissions, ReviewDecision, SandboxPolicy, Violation, parse,
};

fuzz_target!(|data: &[u8]| {
    if let Ok(path) = AbsPath::parse(data.to_vec()) {
        assert_eq!(AbsPath::parse(path.as_raw().clone()).as_ref(), Ok(&path));
        assert!(path.ancestors().all(|above| path.starts_with(&above)));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(host) = text.parse::<Host>() {
        assert_eq!(host.to_string().parse::<Host>(), Ok(host));
    }
    if let Ok(pattern) = text.parse::<HostPattern>() {
        assert_eq!(pattern.to_string().parse::<HostPattern>(), Ok(pattern));
    }
    if let Ok(glob) = text.parse::<Glob>() {
        assert_eq!(glob.to_string().parse::<Glob>(), Ok(glob));
    }
    message::<ApprovalReply>(text);
    message::<ApprovalRequest>(text);
    message::<AskForApproval>(text);
    message::<AuditRecord>(text);
    message::<ExecApprovalRequirement>(text);
    message::<ExecRequest>(text);
    message::<Outcome>(text);
    message::<ParsedLine>(text);
    message::<Permissions>(text);
    message::<ReviewDecision>(text);
    message::<SandboxPolicy>(text);
    message::<Violation>(text);
});

fn message<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(text: &str) {
    if let Ok(value) = parse::<T>(text) {
        let written = serde_json::to_string(&value).unwrap();
        assert_eq!(parse::<T>(&written).unwrap(), value, "{written}");
    }
}
