//! What a subscriber of `tracing` sees of a request.

use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use stockade_protocol::{AskForApproval, ExecRequest, ReviewDecision};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

use crate::world::World;

/// Keeps the name, decision and source of each event that has a name.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<String>>>);

#[derive(Default)]
struct Fields(String, String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "decision" | "source" => self.0 += &format!(" {value:?}").replace('"', ""),
            "request" => self.1 = format!("{value:?}"),
            _ => {}
        }
    }
}

impl Subscriber for Seen {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let name = event.metadata().name();
        if ["approval.", "command."].iter().any(|start| name.starts_with(start)) {
            self.0.lock().unwrap().push(format!("{} {name}{}", fields.1, fields.0));
        }
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

/// The events of one request.
async fn events(world: &World, request: &ExecRequest) -> Vec<String> {
    let seen = Seen::default();
    let _listening = tracing::subscriber::set_default(seen.clone());
    world.orchestrator().run(request).await.unwrap();
    let seen = seen.0.lock().unwrap();
    let of_it = seen.iter().filter_map(|event| event.strip_prefix(&format!("{} ", request.id)));
    of_it.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_subscriber_sees_who_decided_and_how_it_ended() {
    let world = World::new(AskForApproval::Untrusted);
    world.script.say(ReviewDecision::Approved);
    let asked = ["approval.requested", "approval.answered approved reviewer", "command.outcome exited"];
    assert_eq!(events(&world, &world.shell("touch made")).await, asked);
    let refused = ["approval.requested", "approval.answered denied reviewer", "command.outcome refused Reviewer"];
    assert_eq!(events(&world, &world.shell("touch made")).await, refused);
    let safe = ["approval.decided allow fallback", "command.outcome exited"];
    assert_eq!(events(&world, &world.shell("ls")).await, safe);

    let mut outside = world.shell("touch made");
    outside.approved_by_policy = true;
    let by_policy = ["approval.decided allow external", "command.outcome exited"];
    assert_eq!(events(&world, &outside).await, by_policy);
}
