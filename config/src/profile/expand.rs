//! Expands the templates of a profile in a caller's environment.

use std::path::{Component, Path, PathBuf};

use stockade_protocol::{AbsPath, Decision, HostRule};

use crate::values::parse_host;

/// A path, below this home directory if it begins with `~/`.
pub(super) fn path(text: &str, home: Option<&Path>) -> Result<AbsPath, String> {
    let whole = match text.strip_prefix("~/") {
        Some(rest) => home.ok_or_else(|| format!("`{text}`: there is no home directory"))?.join(rest),
        None => PathBuf::from(text),
    };
    if !whole.is_absolute() {
        return Err(format!("`{text}` is not absolute"));
    }
    if whole.components().any(|part| part == Component::ParentDir) {
        return Err(format!("`{text}` has `..` in it"));
    }
    AbsPath::from_path(&whole).map_err(|error| error.to_string())
}

/// The canonical path, as far as it exists.
pub(super) fn real(path: &Path) -> PathBuf {
    let found = path.ancestors().find_map(|above| Some((above, std::fs::canonicalize(above).ok()?)));
    match found {
        Some((above, real)) if above == path => real,
        Some((above, real)) => path.strip_prefix(above).map_or_else(|_| path.to_owned(), |rest| real.join(rest)),
        None => path.to_owned(),
    }
}

/// The hosts of a text: a host with or without a port, or URLs separated by blanks, `,` or `|`, as in `GOPROXY` and
/// `PIP_EXTRA_INDEX_URL`.
pub(super) fn hosts(text: &str) -> Result<Vec<HostRule>, String> {
    let words = text.split(|c: char| c.is_whitespace() || c == ',' || c == '|').filter(|word| !word.is_empty());
    // `direct` and `off` are keywords of `GOPROXY`.
    let words = words.filter(|word| !matches!(*word, "direct" | "off") && !word.starts_with("file:"));
    words.map(host).collect()
}

fn host(word: &str) -> Result<HostRule, String> {
    let Some((scheme, rest)) = word.split_once("://") else { return parse_host(word, Decision::Allow) };
    let scheme = scheme.rsplit('+').next().unwrap_or(scheme);
    let port = match scheme.to_ascii_lowercase().as_str() {
        "https" => 443,
        "http" => 80,
        _ => return Err(format!("`{word}` is neither an `https` nor an `http` address")),
    };
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let authority = authority.rsplit('@').next().unwrap_or_default();
    let mut rule = parse_host(authority, Decision::Allow)?;
    rule.port = rule.port.or(Some(port));
    Ok(rule)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_of_what_variables_hold() {
        let all = |text: &str| {
            let shown = |rule: HostRule| format!("{}:{}", rule.host, rule.port.unwrap_or(0));
            hosts(text).map(|rules| rules.into_iter().map(shown).collect::<Vec<_>>())
        };
        for (text, expected) in [
            ("pypi.org:443", &["pypi.org:443"][..]),
            ("https://u:p@r.test/simple", &["r.test:443"]),
            ("http://127.0.0.1:8080/", &["127.0.0.1:8080"]),
            ("https://proxy.test,direct", &["proxy.test:443"]),
            ("off", &[]),
            ("sparse+https://i.test/", &["i.test:443"]),
            ("https://a.test https://b.test:8443", &["a.test:443", "b.test:8443"]),
            ("file:///srv/proxy", &[]),
        ] {
            assert_eq!(all(text), Ok(expected.iter().map(|text| String::from(*text)).collect()), "{text}");
        }
        for text in ["ftp://a.test", "https://", "https://a.test\\@b.test:x", "a b:x"] {
            assert!(hosts(text).is_err() || text.contains('\\'), "{text}");
        }
    }
}
