//! What must hold for every value, not only for the golden ones.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod strategies;

use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use stockade_protocol::{
    AbsPath, Access, ApprovalRequest, AskForApproval, AuditRecord, Decision, ExecRequest, FileRule, Host, Outcome,
    ParsedLine, Permissions, ReviewDecision, SandboxPolicy, Violation, parse,
};
use strategies::{
    access_rules, any_host, any_path, approval_request, ask, audit_record, decision, exec_request, network, outcome,
    parsed_line, permissions, protocol, review_decision, sandbox_policy, violation,
};

fn survives<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T) -> Result<(), TestCaseError> {
    let json = serde_json::to_string(value).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let back: T = parse(&json).map_err(|error| TestCaseError::fail(format!("{json}: {error}")))?;
    prop_assert_eq!(&back, value, "{}", json);
    Ok(())
}

macro_rules! every_value_survives {
    ($($name:ident: $strategy:ident -> $type:ty;)*) => {
        proptest! {
            $(#[test]
            fn $name(value in $strategy()) {
                survives::<$type>(&value)?;
            })*
        }
    };
}

every_value_survives! {
    ask_survives: ask -> AskForApproval;
    review_decision_survives: review_decision -> ReviewDecision;
    sandbox_policy_survives: sandbox_policy -> SandboxPolicy;
    permissions_survive: permissions -> Permissions;
    parsed_line_survives: parsed_line -> ParsedLine;
    exec_request_survives: exec_request -> ExecRequest;
    approval_request_survives: approval_request -> ApprovalRequest;
    outcome_survives: outcome -> Outcome;
    violation_survives: violation -> Violation;
    audit_record_survives: audit_record -> AuditRecord;
}

proptest! {
    #[test]
    fn arbitrary_text_is_read_or_refused(text in any::<String>(), bytes in any::<Vec<u8>>()) {
        if let Ok(path) = AbsPath::parse(bytes) {
            prop_assert_eq!(AbsPath::parse(path.as_raw().clone()), Ok(path.clone()), "normalising twice changes nothing");
        }
        if let Ok(host) = text.parse::<Host>() {
            prop_assert_eq!(host.to_string().parse(), Ok(host));
        }
        let _refused_or_not = (parse::<SandboxPolicy>(&text), parse::<ReviewDecision>(&text));
    }

    #[test]
    fn a_path_is_below_exactly_its_ancestors(path in any_path(), other in any_path()) {
        prop_assert_eq!(path.starts_with(&other), path.ancestors().any(|above| above == other));
        prop_assert_eq!(path.ancestors().count(), path.depth() + 1);
    }

    /// The definition, written the slow way: look at every rule, keep the longest, then the strictest; then no
    /// more than any bound.
    #[test]
    fn access_is_what_the_definition_says(rules in access_rules(), path in any_path()) {
        let own_path = |rule: &FileRule| match &rule.target {
            stockade_protocol::FileTarget::Path(own) => path.starts_with(own).then(|| own.depth()),
            stockade_protocol::FileTarget::Glob(glob) => path.ancestors().filter(|above| glob.matches(above)).map(|above| above.depth()).max(),
        };
        let (bounds, ordinary): (Vec<&FileRule>, Vec<&FileRule>) = rules.iter().partition(|rule| rule.is_bound());
        let longest = ordinary.iter().filter_map(|rule| own_path(rule)).max();
        let expected = ordinary.iter().filter(|rule| own_path(rule) == longest && longest.is_some()).map(|rule| rule.access).min();
        let bound = bounds.iter().filter(|rule| own_path(rule).is_some()).map(|rule| rule.access).min();
        let expected = expected.unwrap_or(Access::None).min(bound.unwrap_or(Access::Write));
        let rules = stockade_protocol::FileRules::new(rules.clone()).unwrap();
        prop_assert_eq!(rules.access(&path), expected);
        prop_assert_eq!(rules.without_bounds().access(&path), expected);
    }

    #[test]
    fn no_merge_and_no_intersection_exceeds_a_bound(a in permissions(), b in permissions(), path in any_path()) {
        let bound = |rule: &&FileRule| match &rule.target {
            stockade_protocol::FileTarget::Path(own) => rule.is_bound() && path.starts_with(own),
            stockade_protocol::FileTarget::Glob(_) => false,
        };
        for bound in a.files.iter().filter(bound) {
            prop_assert!(a.merge(&b).access(&path) <= bound.access);
            prop_assert!(a.intersect(&b).access(&path) <= bound.access);
            prop_assert!(b.intersect(&a).access(&path) <= bound.access);
        }
    }

    #[test]
    fn the_intersection_grants_exactly_what_both_grant(a in permissions(), b in permissions(), path in any_path(), host in any_host(), protocol in protocol(), port in 1_u16..4) {
        let both = a.intersect(&b);
        prop_assert_eq!(both.access(&path), a.access(&path).min(b.access(&path)));
        let decide = |permissions: &Permissions| permissions.connect(&host, protocol, port);
        prop_assert_eq!(decide(&both), decide(&a).max(decide(&b)));
    }

    #[test]
    fn an_intersected_environment_keeps_no_more_than_either(a in permissions(), b in permissions(), name in "[A-C_]{1,3}") {
        let both = a.intersect(&b).environment;
        prop_assert!(!both.inherits(&name) || (a.environment.inherits(&name) && b.environment.inherits(&name)));
    }

    #[test]
    fn a_merge_grants_no_more_than_either_and_lifts_no_hard_denial(a in permissions(), b in permissions(), path in any_path()) {
        let merged = a.merge(&b);
        prop_assert!(merged.access(&path) <= a.access(&path).max(b.access(&path)));
        if a.files.deciding(&path).is_some_and(FileRule::is_hard_denial) {
            prop_assert_eq!(merged.access(&path), Access::None);
        }
    }

    #[test]
    fn a_merge_never_opens_a_forbidden_destination(a in network(), b in network(), host in any_host(), protocol in protocol(), port in 1_u16..4) {
        let decide = |policy: &stockade_protocol::NetworkPolicy| policy.decide(&host, protocol, port);
        let merged = decide(&a.merge(&b));
        prop_assert!(merged >= decide(&a).min(decide(&b)));
        let named = |policy: &stockade_protocol::NetworkPolicy| match policy {
            stockade_protocol::NetworkPolicy::Hosts(rules) => {
                rules.rules.iter().any(|rule| rule.decision == Decision::Forbidden && rule.matches(&host, protocol, port))
            }
            stockade_protocol::NetworkPolicy::Off | stockade_protocol::NetworkPolicy::Full => false,
        };
        if named(&a) && !matches!(b, stockade_protocol::NetworkPolicy::Full) {
            prop_assert_eq!(merged, Decision::Forbidden);
        }
    }

    #[test]
    fn an_unbounded_maximum_changes_nothing(a in permissions(), path in any_path()) {
        let maximum = SandboxPolicy::DangerFullAccess {}.resolve(&stockade_protocol::HostPaths::without_masks([])).unwrap();
        prop_assert_eq!(a.intersect(&maximum).access(&path), a.access(&path));
        prop_assert_eq!(&a.intersect(&maximum).network, &a.network);
    }

    #[test]
    fn the_strictest_decision_wins(decisions in prop::collection::vec(decision(), 1..5)) {
        let strictest = decisions.iter().copied().max().unwrap();
        prop_assert_eq!(strictest == Decision::Forbidden, decisions.contains(&Decision::Forbidden));
        prop_assert_eq!(strictest == Decision::Allow, decisions.iter().all(|one| *one == Decision::Allow));
    }
}
