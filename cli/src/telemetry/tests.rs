//! The data at a collector, and the behaviour without one.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::*;

/// More than the bound, with a margin.
const PATIENCE: Duration = Duration::from_millis(3500);

/// The events of a run, in the form in which `core` emits them.
fn emit() {
    let span = tracing::info_span!(target: "stockade_core", "run", thread = "t1", request = "r1");
    let _entered = span.enter();
    tracing::info!(name: "approval.requested", target: "stockade_core", thread = "t1", request = "r1");
    for _ in 0..2 {
        tracing::info!(name: "approval.answered", target: "stockade_core",
            thread = "t1", request = "r1", decision = "approved", source = %"person", duration_ms = 250_u64);
    }
    tracing::info!(name: "command.outcome", target: "stockade_core", thread = "t1", request = "r1", duration_ms = 12.5);
    tracing::info!(name: "command.escalated", target: "somebody_else", thread = "t1");
}

/// Emits and finishes; the warning, and how long it took.
fn export(endpoint: &str) -> (Option<String>, Duration) {
    let begun = Instant::now();
    let (subscriber, export) = export::to(endpoint).unwrap();
    tracing::subscriber::with_default(subscriber, emit);
    assert!(begun.elapsed() < Duration::from_secs(1), "emitting waits for the collector");
    let warning = export.finish();
    (warning, begun.elapsed())
}

type Received = Arc<Mutex<Vec<(String, Value)>>>;

/// A collector on loopback that gives every request the same answer.
fn collector(status: &'static str) -> (String, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let received = Received::default();
    let inbox = Arc::clone(&received);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            inbox.lock().unwrap().push(answer(&stream.unwrap(), status));
        }
    });
    (endpoint, received)
}

fn answer(mut stream: &TcpStream, status: &str) -> (String, Value) {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        if line.trim().is_empty() {
            break;
        }
        head.push(line.trim().to_lowercase());
    }
    assert!(head.contains(&"content-type: application/json".to_owned()), "{head:?}");
    let length = head.iter().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{{}}").unwrap();
    let path = head[0].split(' ').nth(1).unwrap().to_owned();
    (path, serde_json::from_slice(&body).unwrap())
}

#[test]
fn spans_events_and_counters_arrive() {
    let (endpoint, received) = collector("200 OK");
    let (warning, _) = export(&endpoint);
    assert_eq!(warning, None);
    let received = received.lock().unwrap();
    let body = |path: &str| &received.iter().find(|(found, _)| found == path).unwrap().1;

    let spans = &body("/v1/traces")["resourceSpans"][0];
    assert!(spans["resource"].to_string().contains(r#""stockade""#), "{spans}");
    let span = &spans["scopeSpans"][0]["spans"][0];
    assert_eq!(span["name"], "run");
    let events: Vec<&str> =
        span["events"].as_array().unwrap().iter().map(|event| event["name"].as_str().unwrap()).collect();
    assert_eq!(events, ["approval.requested", "approval.answered", "approval.answered", "command.outcome"]);
    assert!(span["events"][1].to_string().contains("approved"), "{span}");

    let metrics = body("/v1/metrics")["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
    let metric = |name: &str| metrics.iter().find(|metric| metric["name"] == name);
    let answered = &metric("stockade.approval.answered").unwrap()["sum"];
    assert_eq!(answered["isMonotonic"], true);
    let point = &answered["dataPoints"][0];
    assert_eq!(number(&point["asInt"]), 2);
    let attributes = point["attributes"].to_string();
    assert!(attributes.contains("approved") && attributes.contains("person"), "{attributes}");
    assert!(!attributes.contains("r1"), "{attributes}");
    let duration = &metric("stockade.approval.answered.duration").unwrap()["histogram"]["dataPoints"][0];
    assert_eq!(duration["sum"].as_f64(), Some(500.0));
    assert_eq!(number(&metric("stockade.command.outcome").unwrap()["sum"]["dataPoints"][0]["asInt"]), 1);
    assert_eq!(metric("stockade.command.escalated"), None, "somebody else's event was counted");
}

/// JSON has 64-bit numbers as strings; some write them as numbers all the same.
fn number(value: &Value) -> u64 {
    value.as_str().map_or_else(|| value.as_u64().unwrap(), |text| text.parse().unwrap())
}

#[test]
fn a_collector_that_is_down_costs_one_warning() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let (warning, took) = export(&endpoint);
    let warning = warning.unwrap();
    assert!(warning.starts_with(&format!("telemetry did not reach `{endpoint}`: ")), "{warning}");
    assert!(took < PATIENCE, "{took:?}");
}

#[test]
fn a_collector_that_hangs_costs_one_warning_and_the_bound() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (warning, took) = export(&format!("http://{}", listener.local_addr().unwrap()));
    assert!(warning.unwrap().contains("did not reach"));
    assert!(took < PATIENCE, "{took:?}");
}

#[test]
fn a_collector_that_refuses_costs_one_warning() {
    let (endpoint, received) = collector("400 Bad Request");
    let (warning, took) = export(&endpoint);
    assert!(warning.unwrap().contains("it answered 400"));
    assert!(took < PATIENCE, "{took:?}");
    assert!(!received.lock().unwrap().is_empty());
}

#[test]
fn what_is_no_address_is_refused_at_the_start() {
    for endpoint in ["127.0.0.1:4318", "grpc://x", "http://", "http://a b"] {
        let Err(error) = Telemetry::start(Some(endpoint)) else { panic!("{endpoint} was taken") };
        assert!(error.to_string().contains("such as `http://127.0.0.1:4318`"), "{error}");
    }
}
