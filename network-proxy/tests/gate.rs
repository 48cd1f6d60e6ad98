//! The gate: rules, questions, names and addresses together.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a helper that fails fails its test")]

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use stockade_network_proxy::{Approvals, Ask, BoxFuture, Denied, Gate};
use stockade_protocol::{
    AuditEvent, Decision, DecisionSource, Destination, HostRule, NetworkApproval, NetworkPolicy,
    NetworkPolicyAmendment, NetworkProtocol, PermissionAmendment, ReviewDecision,
};
use stockade_sandboxing::Attempt;
use support::{Names, Person, Trail, gate, hosts, rule};

fn to(host: &str, port: u16) -> Attempt {
    Attempt { host: host.parse().unwrap(), port, protocol: None, pid: Some(7), program: Some("curl".into()) }
}

fn asking(person: &Arc<Person>, patience: Duration) -> (Arc<Gate>, Arc<Trail>, Arc<Approvals>) {
    let trail = Arc::new(Trail::default());
    let approvals = Approvals::asking(Arc::<Person>::clone(person), patience);
    let names = Names::new(&[("a.test", "93.184.216.34"), ("b.test", "93.184.216.35")]);
    (gate(hosts(Vec::new()), Arc::clone(&approvals), names, Arc::clone(&trail)), trail, approvals)
}

const LONG: Duration = Duration::from_secs(600);

#[tokio::test(start_paused = true)]
async fn concurrent_attempts_share_one_question_and_its_answer() {
    let person = Person::new(|_| ReviewDecision::Approved, Duration::from_secs(1));
    let (gate, _, _) = asking(&person, LONG);
    let waiting: Vec<_> = (0..50)
        .map(|_| {
            let gate = Arc::clone(&gate);
            tokio::spawn(async move { gate.admit(to("a.test", 443)).await })
        })
        .collect();
    for one in waiting {
        assert_eq!(one.await.unwrap().unwrap().addresses, ["93.184.216.34:443".parse().unwrap()]);
    }
    assert_eq!(person.questions(), 1);
    // A yes is for the run; another port or protocol is another question.
    gate.admit(to("a.test", 443)).await.unwrap();
    assert_eq!(person.questions(), 1);
    gate.admit(to("a.test", 22)).await.unwrap();
    gate.admit(Attempt { protocol: Some(NetworkProtocol::Http), ..to("a.test", 443) }).await.unwrap();
    assert_eq!(person.questions(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_no_is_for_the_run() {
    let person = Person::new(|_| ReviewDecision::Denied { reason: None }, Duration::ZERO);
    let (gate, trail, _) = asking(&person, LONG);
    for _ in 0..3 {
        assert!(gate.admit(to("a.test", 443)).await.is_err());
    }
    assert_eq!((person.questions(), trail.violations.lock().unwrap().len()), (1, 3));
    assert!(gate.admit(to("b.test", 443)).await.is_err());
    assert_eq!(person.questions(), 2);
}

/// The rest is declined while other questions wait, and nothing is asked after it.
#[tokio::test(start_paused = true)]
async fn everything_else_is_declined_at_once() {
    fn decline(question: &NetworkApproval) -> ReviewDecision {
        if question.port == 443 { ReviewDecision::DeniedForRun } else { panic!("asked for {question:?}") }
    }
    let person = Person::new(decline, Duration::from_secs(5));
    let (gate, _, _) = asking(&person, LONG);
    let first = tokio::spawn({
        let gate = Arc::clone(&gate);
        async move { gate.admit(to("a.test", 443)).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = gate.admit(to("b.test", 22)).await.unwrap_err();
    assert!(first.await.unwrap().is_err());
    assert!(second.to_string().contains("everything else was declined"), "{second}");
    assert!(gate.admit(to("a.test", 80)).await.is_err());
    assert_eq!(person.questions(), 2);
}

/// An address on a private network is a question of its own, which says so, and its yes covers that address alone.
#[tokio::test(start_paused = true)]
async fn a_name_that_leads_to_a_private_network_is_asked_for_twice() {
    let names = || {
        Names::new(&[
            ("mirror.test", "10.0.0.7"),
            ("other.test", "10.0.0.8"),
            ("inside.test", "127.0.0.1"),
            ("meta.test", "169.254.169.254"),
            ("cloud.test", "fd00:ec2::254"),
        ])
    };
    let person = Person::new(|_| ReviewDecision::Approved, Duration::ZERO);
    let approvals = Approvals::asking(Arc::<Person>::clone(&person), LONG);
    let gate = support::gate(hosts(Vec::new()), approvals, names(), Arc::default());
    for _ in 0..2 {
        assert_eq!(gate.admit(to("mirror.test", 443)).await.unwrap().addresses, ["10.0.0.7:443".parse().unwrap()]);
    }
    let asked: Vec<_> = person.asked.lock().unwrap().iter().map(|question| question.leads_to.clone()).collect();
    assert_eq!(asked, [vec![], vec!["10.0.0.7".parse().unwrap()]]);
    gate.admit(to("other.test", 443)).await.unwrap();
    assert_eq!(person.questions(), 4);
    // The address itself is still refused without the name.
    assert!(gate.admit(to("10.0.0.7", 443)).await.is_err());
    for never in ["inside.test", "meta.test", "cloud.test"] {
        let asked = person.questions();
        assert!(gate.admit(to(never, 443)).await.is_err(), "{never}");
        assert_eq!(person.questions(), asked + 1, "{never}: only the name is asked for");
    }
    // Without a reviewer it is refused.
    let named = hosts(vec![rule("mirror.test", None, Decision::Allow)]);
    let gate = support::gate(named, Approvals::never(), names(), Arc::default());
    assert!(gate.admit(to("mirror.test", 443)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn whoever_asked_first_may_go_away() {
    let person = Person::new(|_| ReviewDecision::Approved, Duration::from_secs(5));
    let (gate, _, _) = asking(&person, LONG);
    let first = tokio::spawn({
        let gate = Arc::clone(&gate);
        async move { gate.admit(to("a.test", 443)).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let second = tokio::spawn({
        let gate = Arc::clone(&gate);
        async move { gate.admit(to("a.test", 443)).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    first.abort();
    assert!(second.await.unwrap().is_ok());
    assert_eq!(person.questions(), 1);
}

/// px09: a yes is for one port.
#[tokio::test(start_paused = true)]
async fn for_the_session_is_remembered_for_one_destination() {
    let person = Person::new(|_| ReviewDecision::ApprovedForSession, Duration::ZERO);
    let (gate, trail, approvals) = asking(&person, LONG);
    for _ in 0..3 {
        gate.admit(to("a.test", 443)).await.unwrap();
    }
    assert_eq!(person.questions(), 1);
    gate.admit(to("a.test", 8443)).await.unwrap();
    gate.admit(to("b.test", 443)).await.unwrap();
    assert_eq!(person.questions(), 3);
    let sources: Vec<_> = trail.events.lock().unwrap().iter().map(source).collect();
    assert_eq!(sources[..2], [DecisionSource::Reviewer, DecisionSource::SessionMemory]);
    // Another command of the session, with rules of its own: a rule that forbids is not lifted.
    let names = Names::new(&[("a.test", "93.184.216.34")]);
    let strict = hosts(vec![rule("a.test", None, Decision::Forbidden)]);
    let next = support::gate(strict, approvals, names, Arc::default());
    assert!(next.admit(to("a.test", 443)).await.is_err());
}

fn source(event: &AuditEvent) -> DecisionSource {
    let AuditEvent::Connected { source, .. } = event else { panic!("{event:?}") };
    source.clone()
}

fn always(question: &NetworkApproval) -> ReviewDecision {
    let network_policy_amendment = question.proposed_network_policy_amendments[0].clone();
    ReviewDecision::NetworkPolicyAmendment { network_policy_amendment }
}

fn never_again(question: &NetworkApproval) -> ReviewDecision {
    let network_policy_amendment = question.proposed_network_policy_amendments[1].clone();
    ReviewDecision::NetworkPolicyAmendment { network_policy_amendment }
}

fn something_wider(question: &NetworkApproval) -> ReviewDecision {
    let mut network_policy_amendment = question.proposed_network_policy_amendments[0].clone();
    network_policy_amendment.host = "**.test".parse().unwrap();
    ReviewDecision::NetworkPolicyAmendment { network_policy_amendment }
}

#[tokio::test(start_paused = true)]
async fn always_is_saved_as_it_was_offered() {
    let person = Person::new(always, Duration::ZERO);
    let (gate, _, _) = asking(&person, LONG);
    gate.admit(to("a.test", 443)).await.unwrap();
    gate.admit(to("a.test", 443)).await.unwrap();
    assert_eq!(person.questions(), 1);
    let saved = person.saved.lock().unwrap().clone();
    let wanted = HostRule { protocol: Some(NetworkProtocol::Https), ..rule("a.test", Some(443), Decision::Allow) };
    assert_eq!(saved.iter().map(HostRule::from).collect::<Vec<_>>(), [wanted]);

    let person = Person::new(never_again, Duration::ZERO);
    let (gate, _, _) = asking(&person, LONG);
    for _ in 0..2 {
        assert!(gate.admit(to("a.test", 443)).await.is_err());
    }
    assert_eq!((person.questions(), person.saved.lock().unwrap().len()), (1, 1));

    let person = Person::new(something_wider, Duration::ZERO);
    let (gate, _, _) = asking(&person, LONG);
    assert!(gate.admit(to("a.test", 443)).await.is_err());
    assert!(person.saved.lock().unwrap().is_empty());
}

/// px24: no answer is a no.
#[tokio::test(start_paused = true)]
async fn nobody_waits_for_ever() {
    let person = Person::new(|_| ReviewDecision::Approved, Duration::from_secs(3600));
    let (gate, trail, _) = asking(&person, Duration::from_secs(30));
    let started = tokio::time::Instant::now();
    let denied = gate.admit(to("a.test", 443)).await.unwrap_err();
    assert_eq!(started.elapsed().as_secs(), 30);
    assert!(denied.to_string().contains("nobody answered in time"), "{denied}");
    assert_eq!(trail.violations.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_is_for_everything_after_it() {
    let person = Person::new(|_| ReviewDecision::Abort, Duration::ZERO);
    let (gate, _, _) = asking(&person, LONG);
    assert!(gate.admit(to("a.test", 443)).await.is_err());
    assert!(gate.admit(to("b.test", 443)).await.is_err());
    assert_eq!(person.questions(), 1);
}

/// The first question is answered with stop while sixty others wait for theirs.
#[tokio::test(start_paused = true)]
async fn a_stop_ends_every_question_that_waits() {
    fn stop(question: &NetworkApproval) -> ReviewDecision {
        if question.port == 1 { ReviewDecision::Abort } else { ReviewDecision::Approved }
    }
    /// Reads the question for port 1 for a second, and the others for an hour.
    struct Reader(Arc<Person>);
    impl Ask for Reader {
        fn ask(&self, question: NetworkApproval) -> BoxFuture<'_, ReviewDecision> {
            Box::pin(async move {
                let wait = if question.port == 1 { 1 } else { 3600 };
                tokio::time::sleep(Duration::from_secs(wait)).await;
                self.0.ask(question).await
            })
        }

        fn recall(&self, destination: &Destination) -> Option<Decision> {
            self.0.recall(destination)
        }

        fn remember(&self, destination: &Destination, decision: Decision) {
            self.0.remember(destination, decision);
        }

        fn save(&self, amendment: &NetworkPolicyAmendment) {
            self.0.save(amendment);
        }
    }
    let person = Person::new(stop, Duration::ZERO);
    let approvals = Approvals::asking(Arc::new(Reader(Arc::clone(&person))), LONG * 10);
    let names = Names::new(&[("a.test", "93.184.216.34")]);
    let gate = gate(hosts(Vec::new()), approvals, names, Arc::default());
    let started = tokio::time::Instant::now();
    let waiting: Vec<_> = (1..=60)
        .map(|port| {
            let gate = Arc::clone(&gate);
            tokio::spawn(async move { gate.admit(to("a.test", port)).await })
        })
        .collect();
    for one in waiting {
        let denied = one.await.unwrap().unwrap_err();
        assert!(denied.to_string().contains("stopped"), "{denied}");
    }
    assert_eq!(started.elapsed().as_secs(), 1, "none waited for its own answer");
    assert_eq!(person.questions(), 1, "the others were never answered");
}

/// A decision that can't be recorded is a denial.
#[tokio::test]
async fn a_connection_that_is_not_on_record_is_not_made() {
    let (gate, trail) = support::good_world(80);
    assert!(gate.admit(to("good.test", 80)).await.is_ok());
    trail.is_full.store(true, Ordering::Relaxed);
    let denied = gate.admit(to("good.test", 80)).await.unwrap_err();
    assert!(denied.to_string().contains("the disk is full"), "{denied}");
    assert_eq!(trail.violations.lock().unwrap().len(), 1, "and it is told");
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_questions_is_refused() {
    let person = Person::new(|_| ReviewDecision::Approved, Duration::from_secs(60));
    let (gate, _, _) = asking(&person, LONG);
    let waiting: Vec<_> = (1..=1000)
        .map(|port| {
            let gate = Arc::clone(&gate);
            tokio::spawn(async move { gate.admit(to("a.test", port)).await.is_ok() })
        })
        .collect();
    let mut admitted = 0;
    for one in waiting {
        admitted += usize::from(one.await.unwrap());
    }
    assert_eq!((admitted, person.questions()), (64, 64));
}

/// px01: an empty list allows nothing.
#[tokio::test]
async fn without_questions_the_unknown_is_denied_with_the_rule_that_would_allow_it() {
    let trail = Arc::new(Trail::default());
    let names = Names::new(&[]);
    let gate = gate(hosts(Vec::new()), Approvals::never(), Arc::clone(&names), Arc::clone(&trail));
    let denied = gate.admit(to("evil.test", 8080)).await.unwrap_err();
    assert!(denied.to_string().contains("`evil.test:8080`"), "{denied}");
    assert_eq!(names.1.load(Ordering::Relaxed), 0, "a name that is not allowed is not looked up");
    let violations = trail.violations.lock().unwrap();
    let [violation] = violations.as_slice() else { panic!("{violations:?}") };
    let least = HostRule { protocol: Some(NetworkProtocol::Tcp), ..rule("evil.test", Some(8080), Decision::Allow) };
    assert_eq!(violation.amendment, Some(PermissionAmendment::Network(least)));
    assert_eq!((violation.pid, violation.program.clone()), (Some(7), Some("curl".into())));
    let events = trail.events.lock().unwrap();
    assert_eq!(events.iter().map(source).collect::<Vec<_>>(), [DecisionSource::ApprovalPolicy]);
}

/// px06, px07: a name server decides nothing.
#[tokio::test]
async fn names_that_lead_inside_or_nowhere_are_denied() {
    let names = Names::new(&[
        ("inside.test", "127.0.0.1"),
        ("metadata.test", "169.254.169.254"),
        ("mixed.test", "10.0.0.1"),
        ("mixed.test", "93.184.216.34"),
        ("mapped.test", "::ffff:127.0.0.1"),
    ]);
    let allowed = ["inside.test", "metadata.test", "mixed.test", "mapped.test", "missing.test"];
    let policy =
        |more: Vec<HostRule>| hosts(allowed.iter().map(|host| rule(host, None, Decision::Allow)).chain(more).collect());
    let strict = gate(policy(Vec::new()), Approvals::never(), Arc::clone(&names), Arc::default());
    for host in ["inside.test", "metadata.test", "mapped.test"] {
        assert!(matches!(strict.admit(to(host, 80)).await, Err(Denied::Refused { .. })), "{host}");
    }
    assert!(matches!(strict.admit(to("missing.test", 80)).await, Err(Denied::Unreachable { .. })));
    let mixed = strict.admit(to("mixed.test", 80)).await.unwrap();
    assert_eq!(mixed.addresses, ["93.184.216.34:80".parse().unwrap()], "only what may be dialled is left");
    let named = policy(vec![rule("127.0.0.1", Some(80), Decision::Allow)]);
    let named = gate(named, Approvals::never(), names, Arc::default());
    assert!(named.admit(to("inside.test", 80)).await.is_ok());
    assert!(named.admit(to("inside.test", 81)).await.is_err());
}

#[tokio::test]
async fn off_is_off_and_full_is_full() {
    let names = Names::new(&[("a.test", "10.0.0.1")]);
    let off = gate(NetworkPolicy::Off, Approvals::never(), Arc::clone(&names), Arc::default());
    assert!(off.admit(to("a.test", 80)).await.is_err());
    let full = gate(NetworkPolicy::Full, Approvals::never(), names, Arc::default());
    assert!(full.admit(to("a.test", 80)).await.is_ok());
}
