//! Any bytes, in any pieces, are cut into the same lines; any line is a message or refused; what is read as a message
//! was unambiguous JSON.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stockade_server::{Frame, FrameDecoder, Incoming, read_message};

const LIMIT: usize = 512;

fuzz_target!(|data: &[u8]| {
    let (first, bytes) = data.split_first().unwrap_or((&0, &[]));
    let step = usize::from(*first) + 1;
    let frames = decode(bytes, step);
    assert_eq!(frames, decode(bytes, bytes.len().max(1)));
    for frame in frames {
        let Frame::Line(line) = frame else { continue };
        assert!(line.len() <= LIMIT && !line.contains(&b'\n'));
        if let Ok(message) = read_message(&line) {
            let value: serde_json::Value = serde_json::from_slice(&line).unwrap();
            let (Incoming::Request { params: json, .. } | Incoming::Notification { params: json, .. }) = message else {
                continue;
            };
            let params = value.get("params").filter(|params| !params.is_null());
            assert_eq!(serde_json::from_str::<serde_json::Value>(&json).ok().as_ref(), Some(params.unwrap_or(&serde_json::json!({}))));
        }
    }
});

fn decode(bytes: &[u8], step: usize) -> Vec<Frame> {
    let mut decoder = FrameDecoder::new(LIMIT);
    let mut frames = Vec::new();
    for piece in bytes.chunks(step) {
        decoder.push(piece, |frame| frames.push(frame));
    }
    frames.extend(decoder.finish());
    frames
}
