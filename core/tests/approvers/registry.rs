//! What a thread gets that nothing is configured for.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::question;
use stockade_core::{Approver as _, Fixed, Registry};
use stockade_protocol::{AskForApproval, ReviewDecision, ThreadId};
use tracing::{Event, Level, Metadata, Subscriber, span};

/// Counts warnings.
struct Warnings(Arc<AtomicUsize>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[test]
fn a_thread_without_an_approver_is_warned_of_once() {
    let count = Arc::new(AtomicUsize::new(0));
    let registry = Registry::new();
    let threads: Vec<ThreadId> = ["a", "b", "c"].map(|id| id.parse().unwrap()).into();
    registry.set(threads[2].clone(), AskForApproval::Never, Arc::new(Fixed::allow()));
    tracing::subscriber::with_default(Warnings(Arc::clone(&count)), || {
        for _ in 0..5 {
            for thread in &threads {
                registry.get(thread);
            }
        }
        assert_eq!(count.load(Ordering::Relaxed), 2);
        for number in 0..5_000 {
            registry.get(&format!("many-{number}").parse().unwrap());
        }
        assert_eq!(count.load(Ordering::Relaxed), 1024);
    });
}

#[tokio::test]
async fn the_default_asks_on_request_and_says_what_to_configure() {
    let registered = Registry::new().get(&"a".parse().unwrap());
    assert_eq!(registered.ask, AskForApproval::OnRequest);
    let answer = registered.approver.review(question("1")).await.unwrap();
    let ReviewDecision::Denied { reason: Some(reason) } = answer.decision else { panic!("{answer:?}") };
    assert!(reason.contains("thread `a`") && reason.contains("Registry::set"), "{reason}");
}

#[tokio::test]
async fn a_thread_has_what_was_set_until_it_is_removed() {
    let (registry, thread) = (Registry::new(), "a".parse().unwrap());
    registry.set("a".parse().unwrap(), AskForApproval::Untrusted, Arc::new(Fixed::allow()));
    let registered = registry.get(&thread);
    assert_eq!(registered.ask, AskForApproval::Untrusted);
    assert!(registered.approver.review(question("1")).await.unwrap().decision.is_approval());
    registry.remove(&thread);
    assert_eq!(registry.get(&thread).ask, AskForApproval::OnRequest);
}
