//! Any line of codex is a message or refused, and so is any URI; a path that a URI names is one that it is written as again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stockade_exec_server::{Incoming, read_message};

#[path = "../../exec-server/src/uri.rs"]
#[allow(dead_code, reason = "only the parser is called here")]
mod uri;

fuzz_target!(|data: &[u8]| {
    if let Ok(Incoming::Request { params, .. }) = read_message(data) {
        // A number may be too large for any type.
        let read = serde_json::from_str::<serde_json::Value>(params.get());
        assert!(read.map_or_else(|error| error.to_string().starts_with("number out of range"), |_| true));
    }
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(read) = uri::FileUri::parse(text) {
        let written = serde_json::to_value(&read).unwrap();
        let again = uri::FileUri::parse(written.as_str().unwrap()).unwrap();
        assert_eq!(read, again);
        assert!(read.0.components().all(|name| name != b".." && !name.contains(&0)));
    }
});
