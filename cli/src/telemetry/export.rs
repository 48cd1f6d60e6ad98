//! Spans and metrics over OTLP/HTTP, as JSON.
//!
//! The SDK collects in its own threads, with bounded queues that drop overflow, so emitting never blocks. A small
//! blocking client in those threads makes the requests.

use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{MetricExporter, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Subscriber;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;

use super::counters::Counters;
use super::{FLUSH_BOUND, TelemetryError};
use crate::warnings::Warnings;

/// The timeout of a request: less than the program waits at its end.
const REQUEST_BOUND: Duration = Duration::from_millis(1500);
/// Limit on a collector's response.
const MOST_ANSWER_BYTES: u64 = 64 * 1024;

pub(crate) struct Export {
    endpoint: String,
    spans: SdkTracerProvider,
    metrics: SdkMeterProvider,
    failure: Failure,
}

/// The first failure; the others are likely the same.
type Failure = Arc<OnceLock<String>>;

/// The subscriber, and the export to be finished at the end.
pub(crate) fn to(endpoint: &str) -> Result<(impl Subscriber + Send + Sync + use<>, Export), TelemetryError> {
    let problem = |problem: &dyn std::fmt::Display| TelemetryError::Endpoint {
        endpoint: endpoint.to_owned(),
        problem: problem.to_string(),
    };
    if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
        return Err(problem(&"it is no HTTP address"));
    }
    let failure = Failure::default();
    let client = Client::new(Arc::clone(&failure));
    let base = endpoint.trim_end_matches('/');
    let spans = SpanExporter::builder()
        .with_http()
        .with_http_client(client.clone())
        .with_protocol(Protocol::HttpJson)
        .with_timeout(REQUEST_BOUND)
        .with_endpoint(format!("{base}/v1/traces"))
        .build()
        .map_err(|error| problem(&error))?;
    let metrics = MetricExporter::builder()
        .with_http()
        .with_http_client(client)
        .with_protocol(Protocol::HttpJson)
        .with_timeout(REQUEST_BOUND)
        .with_endpoint(format!("{base}/v1/metrics"))
        .build()
        .map_err(|error| problem(&error))?;
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_service_name("stockade").with_attribute(version).build();
    let spans = SdkTracerProvider::builder().with_batch_exporter(spans).with_resource(resource.clone()).build();
    let metrics = SdkMeterProvider::builder().with_periodic_exporter(metrics).with_resource(resource).build();

    let layers = tracing_opentelemetry::layer()
        .with_tracer(spans.tracer("stockade"))
        .and_then(Counters::new(&metrics))
        .and_then(Warnings);
    // Only Stockade's own: the exporter must not report on itself.
    let own = Targets::new().with_target("stockade", tracing::Level::INFO);
    let subscriber = tracing_subscriber::registry().with(layers.with_filter(own));
    Ok((subscriber, Export { endpoint: endpoint.to_owned(), spans, metrics, failure }))
}

impl Export {
    /// Flushes; returns a warning if anything did not arrive.
    pub(crate) fn finish(self) -> Option<String> {
        let Self { endpoint, spans, metrics, failure } = self;
        let (done, finished) = mpsc::channel();
        // The SDK does not keep all of its own timeouts, so this thread is abandoned if it takes too long.
        std::thread::spawn(move || {
            // Errors are in `failure`; the receiver may have given up.
            let _ = spans.shutdown_with_timeout(FLUSH_BOUND);
            let _ = metrics.shutdown_with_timeout(FLUSH_BOUND);
            let _ = done.send(());
        });
        let in_time = finished.recv_timeout(FLUSH_BOUND).is_ok();
        let reason = match failure.get() {
            Some(reason) => reason.clone(),
            None if in_time => return None,
            None => format!("no answer within {} s", FLUSH_BOUND.as_secs()),
        };
        Some(format!("telemetry did not reach `{endpoint}`: {reason}"))
    }
}

#[derive(Clone, Debug)]
struct Client {
    agent: ureq::Agent,
    failure: Failure,
}

impl Client {
    fn new(failure: Failure) -> Self {
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(REQUEST_BOUND))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build();
        Self { agent: config.into(), failure }
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let (parts, mut body) = self.agent.run(Request::from_parts(parts, body.to_vec()))?.into_parts();
        let body = body.with_config().limit(MOST_ANSWER_BYTES).read_to_vec()?;
        if !parts.status.is_success() {
            // Only the first failure is reported.
            let _ = self.failure.set(format!("it answered {}", parts.status));
        }
        Ok(Response::from_parts(parts, body.into()))
    }
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let answer = self.send(request);
        if let Err(error) = &answer {
            // Only the first failure is reported.
            let _ = self.failure.set(error.to_string());
        }
        answer
    }
}
