//! The laws of the combinators, held against scripted approvers under a clock that the tests turn.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Script, denied, question, save};
use proptest::prelude::*;
use stockade_core::{AllOf, Answer, Approver, ApproverExt as _, Fallback, FirstOf, Fixed, Priority, Unanswered};
use stockade_protocol::{NetworkPolicyRuleAction, ReviewDecision};

/// The result of a question, and its time in milliseconds.
type Result = (std::result::Result<Answer, Unanswered>, u64);

fn review(approver: &dyn Approver) -> Result {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let start = tokio::time::Instant::now();
        let result = approver.review(question("1")).await;
        (result, u64::try_from(start.elapsed().as_millis()).unwrap())
    })
}

fn decision() -> impl Strategy<Value = ReviewDecision> {
    prop_oneof![
        4 => Just(ReviewDecision::Approved),
        4 => Just(ReviewDecision::ApprovedForSession),
        2 => Just(save("example.com", NetworkPolicyRuleAction::Allow)),
        2 => Just(save("**.example.com", NetworkPolicyRuleAction::Allow)),
        1 => Just(save("example.com", NetworkPolicyRuleAction::Deny)),
        1 => "[a-c]".prop_map(|reason| denied(&reason)),
        1 => Just(ReviewDecision::DeniedForRun),
        1 => Just(ReviewDecision::TimedOut),
        1 => Just(ReviewDecision::Abort),
    ]
}

fn script() -> impl Strategy<Value = Script> {
    let result = prop_oneof![
        3 => decision().prop_map(|decision| Ok(Answer::from(decision))),
        1 => ("[a-c]", 0..3).prop_map(|(why, kind)| Err(match kind {
            0 => Unanswered::Gone { why },
            1 => Unanswered::Busy { why },
            _ => Unanswered::Unusable { why },
        })),
    ];
    // Few moments, so that approvers often answer at the same one.
    (0..4_u64, result).prop_map(|(after, result)| Script { after, result })
}

fn all(scripts: &[Script]) -> AllOf {
    let (first, rest) = scripts.split_first().unwrap();
    rest.iter().cloned().fold(AllOf::new(first.clone()), AllOf::and)
}

fn first(scripts: &[Script]) -> FirstOf {
    let (first, rest) = scripts.split_first().unwrap();
    rest.iter().cloned().fold(FirstOf::new(first.clone()), FirstOf::race)
}

fn fallback(scripts: &[Script]) -> Fallback {
    let (first, rest) = scripts.split_first().unwrap();
    rest.iter().cloned().fold(Fallback::new(first.clone()), Fallback::or_else)
}

fn refuses(result: &std::result::Result<Answer, Unanswered>) -> bool {
    result.as_ref().is_ok_and(|answer| !answer.decision.is_approval())
}

/// How far an approval goes.
fn reach(decision: &ReviewDecision) -> u8 {
    match decision {
        ReviewDecision::Approved => 0,
        ReviewDecision::ApprovedForRun => 1,
        ReviewDecision::ApprovedForSession => 2,
        ReviewDecision::ApprovedExecpolicyAmendment { .. }
        | ReviewDecision::ApprovedProfileAmendment { .. }
        | ReviewDecision::NetworkPolicyAmendment { .. } => 3,
        ReviewDecision::Denied { .. }
        | ReviewDecision::DeniedForRun
        | ReviewDecision::TimedOut
        | ReviewDecision::Abort => panic!("not an approval"),
    }
}

/// How strict a refusal is.
fn strictness(decision: &ReviewDecision) -> u8 {
    match decision {
        ReviewDecision::TimedOut => 0,
        ReviewDecision::NetworkPolicyAmendment { .. } => 1,
        ReviewDecision::Denied { .. } => 2,
        ReviewDecision::DeniedForRun => 3,
        ReviewDecision::Abort => 4,
        ReviewDecision::Approved
        | ReviewDecision::ApprovedForRun
        | ReviewDecision::ApprovedForSession
        | ReviewDecision::ApprovedExecpolicyAmendment { .. }
        | ReviewDecision::ApprovedProfileAmendment { .. } => panic!("not a refusal"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(512) })]

    #[test]
    fn all_of_one_is_that_one(one in script()) {
        prop_assert_eq!(review(&AllOf::new(one.clone())), review(&one));
        prop_assert_eq!(review(&one.clone().and(one.clone())), review(&one));
    }

    #[test]
    fn all_of_is_associative(a in script(), b in script(), c in script()) {
        let flat = review(&all(&[a.clone(), b.clone(), c.clone()]));
        prop_assert_eq!(&review(&AllOf::new(all(&[a.clone(), b.clone()])).and(c.clone())), &flat);
        prop_assert_eq!(&review(&AllOf::new(a).and(all(&[b, c]))), &flat);
    }

    #[test]
    fn all_of_has_no_order_but_in_its_words(scripts in prop::collection::vec(script(), 1..6)) {
        let kind = |(result, after): Result| {
            let wordless = |answer: Answer| match matches!(answer.decision, ReviewDecision::Denied { .. }) {
                true => ReviewDecision::Denied { reason: None },
                false => answer.decision,
            };
            (result.map(wordless).map_err(|reason| std::mem::discriminant(&reason)), after)
        };
        let reversed: Vec<_> = scripts.iter().rev().cloned().collect();
        prop_assert_eq!(kind(review(&all(&scripts))), kind(review(&all(&reversed))));
    }

    /// A no wins over everything, as soon as it is said.
    #[test]
    fn deny_dominates(scripts in prop::collection::vec(script(), 1..6)) {
        let (result, after) = review(&all(&scripts));
        let earliest = scripts.iter().filter(|script| refuses(&script.result)).map(|script| script.after).min();
        if let Some(earliest) = earliest {
            let strictest = scripts.iter().filter(|script| script.after == earliest && refuses(&script.result));
            let strictest = strictest.map(|script| strictness(&script.result.as_ref().unwrap().decision)).max().unwrap();
            prop_assert_eq!(strictness(&result.unwrap().decision), strictest);
            prop_assert_eq!(after, earliest);
        } else if scripts.iter().any(|script| script.result.is_err()) {
            prop_assert!(result.is_err());
        } else {
            let decisions: Vec<_> = scripts.iter().map(|script| script.result.clone().unwrap().decision).collect();
            let agreed = result.unwrap().decision;
            prop_assert!(decisions.iter().all(|decision| reach(&agreed) <= reach(decision)), "{:?}", agreed);
            // Rules that differ have in common that the rest of the session is approved.
            prop_assert!(decisions.contains(&agreed) || agreed == ReviewDecision::ApprovedForSession);
            prop_assert_eq!(after, scripts.iter().map(|script| script.after).max().unwrap());
        }
    }

    #[test]
    fn first_of_is_the_earliest_answer(scripts in prop::collection::vec(script(), 1..6)) {
        let earliest = scripts.iter().filter(|script| script.result.is_ok()).min_by_key(|script| script.after);
        let (result, after) = review(&first(&scripts));
        match earliest {
            Some(script) => prop_assert_eq!((result, after), (script.result.clone(), script.after)),
            None => {
                prop_assert!(result.is_err());
                prop_assert_eq!(after, scripts.iter().map(|script| script.after).max().unwrap());
            }
        }
    }

    #[test]
    fn first_of_is_associative(a in script(), b in script(), c in script()) {
        let flat = review(&first(&[a.clone(), b.clone(), c.clone()]));
        prop_assert_eq!(&review(&FirstOf::new(first(&[a.clone(), b.clone()])).race(c.clone())), &flat);
        prop_assert_eq!(&review(&FirstOf::new(a).race(first(&[b, c]))), &flat);
    }

    #[test]
    fn fallback_is_the_first_that_answers(scripts in prop::collection::vec(script(), 1..6)) {
        let answering = scripts.iter().position(|script| script.result.is_ok());
        let asked = answering.map_or(scripts.len(), |place| place + 1);
        let waited: u64 = scripts.iter().take(asked).map(|script| script.after).sum();
        let (result, after) = review(&fallback(&scripts));
        prop_assert_eq!(after, waited);
        match answering {
            Some(place) => prop_assert_eq!(result, scripts[place].result.clone()),
            None => prop_assert!(result.is_err()),
        }
    }

    #[test]
    fn fallback_is_associative(a in script(), b in script(), c in script()) {
        let flat = review(&fallback(&[a.clone(), b.clone(), c.clone()]));
        prop_assert_eq!(&review(&Fallback::new(fallback(&[a.clone(), b.clone()])).or_else(c.clone())), &flat);
        prop_assert_eq!(&review(&Fallback::new(a).or_else(fallback(&[b, c]))), &flat);
    }

    /// An approver that never answers adds nothing; of two without an answer, either reason may be reported.
    #[test]
    fn nobody_is_the_identity_of_first_of_and_fallback(one in script()) {
        let kind = |(result, after): Result| (result.map_err(|reason| std::mem::discriminant(&reason)), after);
        let alone = kind(review(&one));
        let nobody = || Fixed::gone("nobody");
        prop_assert_eq!(&kind(review(&nobody().race(one.clone()))), &alone);
        prop_assert_eq!(&kind(review(&one.clone().race(nobody()))), &alone);
        prop_assert_eq!(&kind(review(&nobody().or_else(one.clone()))), &alone);
        prop_assert_eq!(&kind(review(&one.or_else(nobody()))), &alone);
    }

    #[test]
    fn a_timeout_never_exceeds_its_bound(scripts in prop::collection::vec(script(), 1..4), limit in 0..8_u64) {
        let bound = Duration::from_millis(limit);
        let (unbounded, needed) = review(&fallback(&scripts));
        let (result, after) = review(&fallback(&scripts).within(bound));
        prop_assert!(after <= limit, "{} of {}", after, limit);
        let timed_out = Answer::from(ReviewDecision::TimedOut);
        prop_assert_eq!(&result, &if needed <= limit { unbounded } else { Ok(timed_out.clone()) });

        // Listening on for late answers changes neither the answer nor the time. Only an answer at the
        // very moment of the limit may be late.
        let deaf = Arc::new(|_late| {});
        let listening = fallback(&scripts).within(bound).report_late(deaf, Duration::from_millis(50));
        let (heard, heard_after) = review(&listening);
        prop_assert!(heard == result || (needed == limit && heard == Ok(timed_out)), "{:?}", heard);
        prop_assert_eq!(heard_after, after);

        // The shorter of two limits counts.
        let twice = fallback(&scripts).within(bound).within(Duration::from_millis(3));
        prop_assert!(review(&twice).1 <= limit.min(3));
    }

    #[test]
    fn priority_is_the_first_that_is_responsible(
        scripts in prop::collection::vec((script(), any::<bool>()), 0..6), last in script(),
    ) {
        let start = Priority::new();
        let priority = scripts.iter().cloned().fold(start, |priority, (script, responsible)| {
            priority.when(move |_| responsible, script)
        });
        let expected = scripts.iter().find(|(_, responsible)| *responsible).map_or(&last, |(script, _)| script);
        prop_assert_eq!(review(&priority.otherwise(last.clone())), review(expected));
    }
}

#[test]
fn without_anybody_responsible_nobody_answers() {
    assert!(matches!(review(&Priority::new()), (Err(Unanswered::Gone { .. }), 0)));
}
