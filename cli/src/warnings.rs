//! Prints warnings of the libraries: one line each on standard error.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::exit::note;

/// Prints warnings and errors, and ignores other events.
pub(crate) struct Warnings;

impl Warnings {
    /// Subscribes to the whole program.
    pub(crate) fn listen() {
        // An existing subscriber receives them as well.
        let _ = tracing::subscriber::set_global_default(Self);
    }
}

/// Prints an event for the user.
pub(crate) fn print(event: &Event<'_>) {
    // Errors of an MCP client are reported to the client.
    if *event.metadata().level() > Level::WARN || event.metadata().target().starts_with("rmcp") {
        return;
    }
    let mut line = Line::default();
    event.record(&mut line);
    note(&format!("warning: {}", line.sentence()));
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

/// The text of an event: its message, its subject, and the cause.
#[derive(Default)]
struct Line {
    message: String,
    about: String,
    cause: String,
}

impl Line {
    fn sentence(&self) -> String {
        let parts = [format!("{}{}", self.message, self.about), self.cause.clone()];
        let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        parts.join(": ")
    }
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a text can't fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            "warning" | "error" => write!(self.cause, "{value:?}"),
            // One command has one request.
            "request" | "thread" => Ok(()),
            _ => write!(self.about, " `{value:?}`"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keeps the sentences of events.
    struct Kept(std::sync::Mutex<Vec<String>>);

    impl Subscriber for Kept {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            let mut line = Line::default();
            event.record(&mut line);
            self.0.lock().unwrap().push(line.sentence());
        }
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn an_event_is_a_sentence() {
        let kept = std::sync::Arc::new(Kept(std::sync::Mutex::default()));
        tracing::subscriber::with_default(std::sync::Arc::clone(&kept), || {
            tracing::warn!(warning = %"`a` is denied, and has hard links", request = %"run-1");
            tracing::warn!(error = %"disk full", file = %"/a/b", "a rule was approved but could not be saved");
            tracing::warn!("nothing else");
        });
        assert_eq!(
            *kept.0.lock().unwrap(),
            [
                "`a` is denied, and has hard links",
                "a rule was approved but could not be saved `/a/b`: disk full",
                "nothing else",
            ]
        );
    }
}
