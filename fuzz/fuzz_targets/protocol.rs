//! Any text is read or refused, by every message and every newtype; what is read is written in one
//! form that reads back as the same value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;
use stockade_protocol::{
    AbsPath, ApprovalReply, ApprovalRequest, AskForApproval, AuditRecord, ElicitationForm, ExecApprovalRequirement, ExecRequest, Glob, Host, HostPattern,
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
    form(text);
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

/// What a form takes, field by field, is an answer to it. The first line is the form, the others what is typed.
fn form(text: &str) {
    let (schema, lines) = text.split_once('\n').unwrap_or((text, ""));
    let Ok(schema) = serde_json::from_str(schema) else { return };
    let Ok(form) = ElicitationForm::parse(&schema) else { return };
    let typed = form.fields().iter().zip(lines.lines().chain(std::iter::repeat("1")));
    let read: Result<Vec<_>, _> = typed.map(|(field, line)| Ok((field.name.clone(), field.read(line)?))).collect();
    let Ok::<_, String>(read) = read else { return };
    let answer = read.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    assert_eq!(form.check(&answer), Ok(()));
}

fn message<T: DeserializeOwned + Serialize + PartialEq + std::fmt::Debug>(text: &str) {
    if let Ok(value) = parse::<T>(text) {
        let written = serde_json::to_string(&value).unwrap();
        assert_eq!(parse::<T>(&written).unwrap(), value, "{written}");
    }
}
