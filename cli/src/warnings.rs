//! Warnings of the crates below, for the person: one line each on standard error.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::exit::note;

/// Prints warnings and errors, and hears nothing else.
pub(crate) struct Warnings;

impl Warnings {
    /// Listens to the whole program from now on.
    pub(crate) fn listen() {
        // Somebody who listens already hears them as well.
        let _ = tracing::subscriber::set_global_default(Self);
    }
}

/// Prints an event that a person should know of.
pub(crate) fn print(event: &Event<'_>) {
    if *event.metadata().level() > Level::WARN {
        return;
    }
    let mut line = Line::default();
    event.record(&mut line);
    note(&format!("warning: {}{}", line.message, line.fields));
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(tracing::level_filters::LevelFilter::WARN)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        print(event);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[cfg(feature = "otlp")]
impl<S: Subscriber> tracing_subscriber::Layer<S> for Warnings {
    fn on_event(&self, event: &Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        print(event);
    }
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a text can't fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, "; {name}: {value:?}"),
        };
    }
}
