//! Exports the events of a run to an OpenTelemetry collector.
//!
//! `core` emits `tracing` spans and events; here they are exported by OTLP over HTTP. That needs dependencies which
//! few users need, so it is a build feature. Exporting never interferes: a collector that is down or hangs costs one
//! warning and at most `FLUSH_BOUND`.

#[cfg(feature = "otlp")]
mod counters;
#[cfg(feature = "otlp")]
mod export;
#[cfg(test)]
#[cfg(feature = "otlp")]
mod tests;

use crate::warnings::Warnings;

/// How long the end of the program waits for a collector.
#[cfg(feature = "otlp")]
const FLUSH_BOUND: std::time::Duration = std::time::Duration::from_secs(2);

/// Why nothing can be exported.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(feature = "otlp", expect(dead_code, reason = "each build has its own reasons"))]
pub(crate) enum TelemetryError {
    /// The program was built without the feature.
    #[error("`--otlp {endpoint}` needs a program with the feature: cargo install --path cli --features otlp")]
    NotBuilt {
        /// The requested endpoint.
        endpoint: String,
    },
    /// The endpoint is invalid.
    #[cfg(feature = "otlp")]
    #[error("`--otlp {endpoint}`: {problem}; give the collector's address, such as `http://127.0.0.1:4318`")]
    Endpoint {
        /// As it was given.
        endpoint: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// Exports until it is finished.
pub(crate) struct Telemetry {
    #[cfg(feature = "otlp")]
    export: Option<export::Export>,
}

impl Telemetry {
    /// Subscribes to the whole program, if there is an endpoint.
    #[cfg(feature = "otlp")]
    pub(crate) fn start(endpoint: Option<&str>) -> Result<Self, TelemetryError> {
        let Some(endpoint) = endpoint else {
            Warnings::listen();
            return Ok(Self { export: None });
        };
        let (subscriber, export) = export::to(endpoint)?;
        // Only a second call could fail, and there is none.
        let _ = tracing::subscriber::set_global_default(subscriber);
        Ok(Self { export: Some(export) })
    }

    /// Reports how to get a build with the feature.
    #[cfg(not(feature = "otlp"))]
    pub(crate) fn start(endpoint: Option<&str>) -> Result<Self, TelemetryError> {
        match endpoint {
            Some(endpoint) => Err(TelemetryError::NotBuilt { endpoint: endpoint.to_owned() }),
            None => {
                Warnings::listen();
                Ok(Self {})
            }
        }
    }

    /// Flushes, and warns once if anything did not arrive.
    pub(crate) fn finish(self) {
        #[cfg(feature = "otlp")]
        if let Some(warning) = self.export.and_then(export::Export::finish) {
            eprintln!("stockade: warning: {warning}");
        }
    }
}
