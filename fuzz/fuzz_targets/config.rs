//! Any settings file or permission profile is read or refused with a place in it, and any text is redacted in one pass and
//! for good.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use stockade_config::{ConfigError, PermissionProfile, ProfileOrigin, check_config};
use stockade_core::redact_text;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(error) = check_config(Path::new("/config.toml"), text) {
        let ConfigError::Invalid { line, column, problem, .. } = error else { panic!("{error}") };
        assert!(line <= text.matches('\n').count() + 2 && column > 0);
        assert!(!problem.contains(char::is_control), "{problem:?}");
    }
    let file = Path::new("/p.toml");
    if let Err(error) = PermissionProfile::parse(text, ProfileOrigin::BuiltIn, file) {
        let ConfigError::Invalid { problem, .. } = error else { panic!("{error}") };
        assert!(!problem.contains(char::is_control), "{problem:?}");
    }
    let once = redact_text(text);
    assert_eq!(redact_text(&once), once);
});
