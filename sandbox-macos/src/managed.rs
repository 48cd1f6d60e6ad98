//! The maximum that an administrator has set for this Mac.
//!
//! A configuration profile sets the key `maximum-permissions` in the domain `dev.stockade` to the JSON of
//! [`Permissions`]. Only a managed value counts: one that the user could write with `defaults` would be
//! no maximum. What can't be read lets nothing run.

use stockade_protocol::{FileRule, FileRules, Permissions, RuleSource, parse};
use stockade_sandboxing::Unenforceable;

/// Where the maximum is looked for.
#[cfg(target_os = "macos")]
pub(crate) const DOMAIN: &str = "dev.stockade";
/// And under which name.
pub(crate) const KEY: &str = "maximum-permissions";

/// What the preferences hold.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(not(any(target_os = "macos", test)), expect(dead_code, reason = "preferences are read on macOS alone"))]
pub(crate) enum Managed {
    Nothing,
    Text(String),
    /// Something that is no text.
    Other,
}

/// The maximum of this Mac, if an administrator has set one. No command gets more.
pub fn maximum() -> Result<Option<Permissions>, Unenforceable> {
    #[cfg(target_os = "macos")]
    let managed = crate::sys::managed_preference(DOMAIN, KEY);
    #[cfg(not(target_os = "macos"))]
    let managed = Managed::Nothing;
    read(managed)
}

fn read(managed: Managed) -> Result<Option<Permissions>, Unenforceable> {
    let refuse = |why: String| Unenforceable {
        what: String::from("the administrator's maximum"),
        why: format!("the managed preference `{KEY}` {why}"),
        remedy: String::from("have the configuration profile corrected"),
    };
    let text = match managed {
        Managed::Nothing => return Ok(None),
        Managed::Other => return Err(refuse(String::from("is not a text"))),
        Managed::Text(text) => text,
    };
    let maximum: Permissions = parse(&text).map_err(|error| refuse(format!("can't be read: {error}")))?;
    let as_administrator = |rule: &FileRule| rule.clone().from_source(RuleSource::Administrator);
    let files =
        FileRules::new(maximum.files.iter().map(as_administrator)).map_err(|error| refuse(error.to_string()))?;
    Ok(Some(Permissions { files, ..maximum }))
}

#[cfg(test)]
mod tests {
    use stockade_protocol::Access;

    use super::*;

    #[test]
    fn a_maximum_is_read_or_nothing_runs() {
        assert_eq!(read(Managed::Nothing).unwrap(), None);
        let text = r#"{"files":[{"target":{"path":"/w"},"access":"read"}],"network":"off"}"#;
        let maximum = read(Managed::Text(text.to_owned())).unwrap().unwrap();
        assert_eq!(maximum.access(&"/w/a".parse().unwrap()), Access::Read);
        assert!(maximum.files.iter().all(|rule| rule.source == RuleSource::Administrator));
        for bad in [Managed::Other, Managed::Text(String::from("{")), Managed::Text(String::from(r#"{"file":[]}"#))] {
            let error = read(bad).unwrap_err().to_string();
            assert!(error.contains("maximum-permissions"), "{error}");
        }
    }
}
