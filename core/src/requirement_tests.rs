//! Every combination, against a table written by hand.
//!
//! `run`: no question; `bypass`: no question, and it leaves the sandbox; `ask`; `no`: refused by the policy;
//! `forbid`: refused by the rule. Rules: `outside` allow it and let it leave.

use std::collections::BTreeMap;

use super::*;

/// Columns: the approval policy. `rej` rejects nothing, `rej-s` sandbox questions, `rej-r` rules'
/// questions, `rej-p` additional permissions, `rej-*` all of them.
const TABLE: &str = "
sandbox  rules     escalation  untrusted on-failure on-request rej  rej-s rej-r rej-p rej-*  never

on       forbidden default     forbid    forbid     forbid     forbid forbid forbid forbid forbid forbid
on       forbidden permissions forbid    forbid     forbid     forbid forbid forbid forbid forbid forbid
on       forbidden unsandboxed forbid    forbid     forbid     forbid forbid forbid forbid forbid forbid
on       prompt    default     ask       ask        ask        ask  ask   no    ask   no     no
on       prompt    permissions ask       ask        ask        ask  ask   no    ask   no     no
on       prompt    unsandboxed ask       ask        ask        ask  ask   no    ask   no     no
on       outside   default     bypass    bypass     bypass     bypass bypass bypass bypass bypass bypass
on       outside   permissions ask       ask        ask        ask  no    ask   no    no     no
on       outside   unsandboxed ask       ask        ask        ask  no    ask   ask   no     no
on       allowed   default     run       run        run        run  run   run   run   run    run
on       allowed   permissions ask       ask        ask        ask  no    ask   no    no     no
on       allowed   unsandboxed ask       ask        ask        ask  no    ask   ask   no     no
on       safe      default     run       run        run        run  run   run   run   run    run
on       safe      permissions ask       ask        ask        ask  no    ask   no    no     no
on       safe      unsandboxed ask       ask        ask        ask  no    ask   ask   no     no
on       unknown   default     ask       run        run        run  run   run   run   run    run
on       unknown   permissions ask       ask        ask        ask  no    ask   no    no     no
on       unknown   unsandboxed ask       ask        ask        ask  no    ask   ask   no     no
on       dangerous default     ask       run        ask        ask  no    ask   ask   no     no
on       dangerous permissions ask       ask        ask        ask  no    ask   no    no     no
on       dangerous unsandboxed ask       ask        ask        ask  no    ask   ask   no     no

off      forbidden *           forbid    forbid     forbid     forbid forbid forbid forbid forbid forbid
off      prompt    *           ask       ask        ask        ask  ask   no    ask   no     no
off      outside   default     bypass    bypass     bypass     bypass bypass bypass bypass bypass bypass
off      outside   permissions run       run        run        run  run   run   run   run    run
off      outside   unsandboxed run       run        run        run  run   run   run   run    run
off      allowed   *           run       run        run        run  run   run   run   run    run
off      safe      *           run       run        run        run  run   run   run   run    run
off      unknown   *           ask       run        run        run  run   run   run   run    run
off      dangerous *           ask       ask        ask        ask  no    ask   ask   no     no

external forbidden *           forbid    forbid     forbid     forbid forbid forbid forbid forbid forbid
external prompt    *           ask       ask        ask        ask  ask   no    ask   no     no
external outside   default     bypass    bypass     bypass     bypass bypass bypass bypass bypass bypass
external outside   permissions run       run        run        run  run   run   run   run    run
external outside   unsandboxed run       run        run        run  run   run   run   run    run
external allowed   *           run       run        run        run  run   run   run   run    run
external safe      *           run       run        run        run  run   run   run   run    run
external unknown   *           ask       run        run        run  run   run   run   run    run
external dangerous *           ask       ask        ask        ask  no    ask   ask   no     no
";

fn policies() -> Vec<(&'static str, AskForApproval)> {
    let reject = |sandbox_approval, rules, request_permissions| {
        AskForApproval::Reject(RejectConfig { sandbox_approval, rules, request_permissions, ..RejectConfig::default() })
    };
    vec![
        ("untrusted", AskForApproval::Untrusted),
        ("on-failure", AskForApproval::OnFailure),
        ("on-request", AskForApproval::OnRequest),
        ("rej", reject(false, false, false)),
        ("rej-s", reject(true, false, false)),
        ("rej-r", reject(false, true, false)),
        ("rej-p", reject(false, false, true)),
        ("rej-*", reject(true, true, true)),
        ("never", AskForApproval::Never),
    ]
}

#[test]
fn every_reason_to_ask_is_told() {
    let dangerous = RuleVerdict::Dangerous { reason: String::from("it destroys the disk") };
    let requirement = of_command(
        AskForApproval::OnRequest,
        Sandboxing::On,
        &dangerous,
        Placement::Inside,
        &EscalationExecution::Unsandboxed,
    );
    let ExecApprovalRequirement::NeedsApproval { reason: Some(reason), .. } = requirement else { panic!() };
    assert_eq!(reason, "the command asks to run without the sandbox; it destroys the disk");
}

fn verdicts() -> Vec<(&'static str, RuleVerdict)> {
    let reason = || String::from("why");
    vec![
        ("forbidden", RuleVerdict::Forbidden { reason: reason() }),
        ("prompt", RuleVerdict::Prompt { reason: reason() }),
        ("outside", RuleVerdict::Allowed),
        ("allowed", RuleVerdict::Allowed),
        ("safe", RuleVerdict::Safe),
        ("unknown", RuleVerdict::Unknown { reason: reason() }),
        ("dangerous", RuleVerdict::Dangerous { reason: reason() }),
    ]
}

const SANDBOXES: [(&str, Sandboxing); 3] =
    [("on", Sandboxing::On), ("off", Sandboxing::Off), ("external", Sandboxing::External)];

fn escalations() -> [(&'static str, EscalationExecution); 3] {
    [
        ("default", EscalationExecution::TurnDefault),
        ("permissions", EscalationExecution::Permissions(Box::default())),
        ("unsandboxed", EscalationExecution::Unsandboxed),
    ]
}

fn word(requirement: &ExecApprovalRequirement) -> &'static str {
    match requirement {
        ExecApprovalRequirement::Skip { bypass_sandbox: true, .. } => "bypass",
        ExecApprovalRequirement::Skip { bypass_sandbox: false, .. } => "run",
        ExecApprovalRequirement::NeedsApproval { reason, .. } => {
            assert!(reason.is_some(), "a question says why");
            "ask"
        }
        ExecApprovalRequirement::Forbidden { reason } if reason == "why" => "forbid",
        ExecApprovalRequirement::Forbidden { reason } => {
            assert!(reason.starts_with("approval policy rejected ") || reason.starts_with(NEVER), "{reason}");
            "no"
        }
    }
}

/// The table by sandbox, rules, escalation and policy.
fn table() -> BTreeMap<[&'static str; 4], &'static str> {
    let mut lines =
        TABLE.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).filter(|line| !line.is_empty());
    let header = lines.next().unwrap_or_default();
    let mut cells = BTreeMap::new();
    for line in lines {
        let [sandbox, rules, escalation, ..] = line.as_slice() else { continue };
        for (policy, cell) in header.iter().zip(&line).skip(3) {
            for (name, _) in escalations().iter().filter(|(name, _)| *escalation == "*" || escalation == name) {
                let twice = cells.insert([*sandbox, *rules, *name, *policy], *cell);
                assert_eq!(twice, None, "{line:?}");
            }
        }
    }
    cells
}

#[test]
fn every_combination_is_as_the_table_says() {
    let mut expected = table();
    for (sandbox, sandboxing) in SANDBOXES {
        for (rules, verdict) in verdicts() {
            for (escalation, wanted) in escalations() {
                for (policy, ask) in policies() {
                    let cell = [sandbox, rules, escalation, policy];
                    let placement = if rules == "outside" { Placement::Outside } else { Placement::Inside };
                    let found = of_command(ask, sandboxing, &verdict, placement, &wanted);
                    assert_eq!(Some(word(&found)), expected.remove(&cell), "{cell:?}");
                }
            }
        }
    }
    assert!(expected.is_empty(), "rows that no combination reaches: {expected:?}");
}

#[test]
fn a_tool_without_a_requirement_gets_the_plain_default() {
    for (sandbox, expected) in [
        (Sandboxing::On, ["ask", "run", "ask", "ask", "no", "ask", "ask", "no", "run"]),
        (Sandboxing::Off, ["ask", "run", "run", "run", "run", "run", "run", "run", "run"]),
        (Sandboxing::External, ["ask", "run", "run", "run", "run", "run", "run", "run", "run"]),
    ] {
        for ((policy, ask), expected) in policies().into_iter().zip(expected) {
            let found = match of_tool(ask, sandbox) {
                ExecApprovalRequirement::Skip { .. } => "run",
                ExecApprovalRequirement::NeedsApproval { .. } => "ask",
                ExecApprovalRequirement::Forbidden { reason } => {
                    assert_eq!(reason, "approval policy rejected sandbox approval prompt");
                    "no"
                }
            };
            assert_eq!(found, expected, "{sandbox:?} {policy}");
        }
    }
}

#[test]
fn a_skill_is_asked_about_unless_the_policy_rejects_or_never_asks() {
    let skip = ExecApprovalRequirement::Skip { bypass_sandbox: true, proposed_execpolicy_amendment: None };
    let all = RejectConfig { skill_approval: true, ..RejectConfig::default() };
    for (ask, expected) in [
        (AskForApproval::Untrusted, "ask"),
        (AskForApproval::OnFailure, "ask"),
        (AskForApproval::OnRequest, "ask"),
        (AskForApproval::Reject(RejectConfig::default()), "ask"),
        (AskForApproval::Reject(all), "approval policy rejected skill approval prompt: skill script `/s`"),
        (AskForApproval::Never, "the approval policy is `never`, so nobody is asked: skill script `/s`"),
    ] {
        for sandboxing in [Sandboxing::On, Sandboxing::Off, Sandboxing::External] {
            let found = with_skill(skip.clone(), (ask, sandboxing), "skill script `/s`");
            let found = match found {
                ExecApprovalRequirement::Skip { .. } => String::from("run"),
                ExecApprovalRequirement::NeedsApproval { reason, .. } => {
                    assert_eq!(reason.as_deref(), Some("skill script `/s`"));
                    String::from("ask")
                }
                ExecApprovalRequirement::Forbidden { reason } => reason,
            };
            assert_eq!(found, expected, "{ask:?} {sandboxing:?}");
        }
    }
    let forbidden = ExecApprovalRequirement::Forbidden { reason: String::from("a rule") };
    assert_eq!(with_skill(forbidden.clone(), (AskForApproval::OnRequest, Sandboxing::On), "x"), forbidden);
}

#[test]
fn a_denial_asks_where_the_policy_says() {
    let asking: Vec<_> =
        policies().into_iter().filter(|(_, ask)| asks_after_denial(*ask)).map(|(name, _)| name).collect();
    assert_eq!(asking, ["untrusted", "on-failure", "rej", "rej-r", "rej-p"]);
}

#[test]
fn a_refusal_names_the_policy_and_the_question() {
    let dangerous = RuleVerdict::Dangerous { reason: String::from("it wipes a disk") };
    let wanted = EscalationExecution::TurnDefault;
    let found = of_command(AskForApproval::Never, Sandboxing::On, &dangerous, Placement::Inside, &wanted);
    let reason = String::from("the approval policy is `never`, so nobody is asked: it wipes a disk");
    assert_eq!(found, ExecApprovalRequirement::Forbidden { reason });
}
