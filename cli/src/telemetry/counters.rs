//! Counters and durations from the events that `core` emits.
//!
//! Each event is counted under its name, `stockade.approval.answered`, and where it says how long
//! something took, that is recorded as `stockade.approval.answered.duration`. Decision and source become
//! attributes; names of threads and requests don't, since each would be a time series of its own.

use std::collections::BTreeMap;
use std::fmt;

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, MeterProvider as _};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// The names of the events, as in `tracing::info!(name: "approval.requested", …)`.
pub(super) const EVENTS: [&str; 6] = [
    "approval.decided",
    "approval.requested",
    "approval.answered",
    "approval.timed_out",
    "command.escalated",
    "command.outcome",
];

/// Fields that become attributes.
const ATTRIBUTES: [&str; 2] = ["decision", "source"];

pub(super) struct Counters(BTreeMap<&'static str, Instruments>);

struct Instruments {
    count: Counter<u64>,
    duration: Histogram<f64>,
}

impl Counters {
    pub(super) fn new(provider: &SdkMeterProvider) -> Self {
        let meter = provider.meter("stockade");
        let instruments = |event: &str| Instruments {
            count: meter.u64_counter(format!("stockade.{event}")).build(),
            duration: meter.f64_histogram(format!("stockade.{event}.duration")).with_unit("ms").build(),
        };
        Self(EVENTS.into_iter().map(|event| (event, instruments(event))).collect())
    }
}

impl<S: Subscriber> Layer<S> for Counters {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(instruments) = self.0.get(event.metadata().name()) else { return };
        let mut fields = Fields::default();
        event.record(&mut fields);
        instruments.count.add(1, &fields.attributes);
        if let Some(duration) = fields.duration_ms {
            instruments.duration.record(duration, &fields.attributes);
        }
    }
}

#[derive(Default)]
struct Fields {
    attributes: Vec<KeyValue>,
    duration_ms: Option<f64>,
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        if field.name() == "duration_ms" {
            self.duration_ms = Some(value);
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        // Durations beyond 2^53 milliseconds are not measured.
        self.record_f64(field, f64::from(u32::try_from(value).unwrap_or(u32::MAX)));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.record_u64(field, u64::try_from(value).unwrap_or(0));
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.record_u64(field, u64::try_from(value).unwrap_or(u64::MAX));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if ATTRIBUTES.contains(&field.name()) {
            self.attributes.push(KeyValue::new(field.name(), value.to_owned()));
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}
