//! Tokens that are known by how they look, wherever they stand.

use std::ops::Range;

/// What may stand in front of a token.
#[derive(Clone, Copy, PartialEq)]
enum Front {
    /// Anything: the prefix does not occur in words.
    Any,
    /// No letter or digit: `sk-…` is a key, `disk-…` is not.
    Boundary,
}

/// A family of tokens: its prefix, how many characters follow at least, and which besides letters
/// and digits.
struct Shape(&'static str, usize, &'static [u8], Front);

#[rustfmt::skip]
const SHAPES: &[Shape] = &[
    // GitHub, GitLab
    Shape("ghp_", 20, b"_", Front::Any), Shape("gho_", 20, b"_", Front::Any), Shape("ghu_", 20, b"_", Front::Any),
    Shape("ghs_", 20, b"_.-", Front::Any), Shape("ghr_", 20, b"_", Front::Any), Shape("github_pat_", 20, b"_", Front::Any),
    Shape("glpat-", 16, b"_-.", Front::Any), Shape("gldt-", 16, b"_-.", Front::Any), Shape("glrt-", 16, b"_-.", Front::Any),
    Shape("glcbt-", 16, b"_-.", Front::Any), Shape("glptt-", 16, b"_-.", Front::Any), Shape("glsoat-", 16, b"_-.", Front::Any),
    // Slack
    Shape("xoxb-", 10, b"-", Front::Any), Shape("xoxp-", 10, b"-", Front::Any), Shape("xoxa-", 10, b"-", Front::Any),
    Shape("xoxr-", 10, b"-", Front::Any), Shape("xoxs-", 10, b"-", Front::Any), Shape("xoxe.", 10, b"-.", Front::Any),
    Shape("xoxe-", 10, b"-", Front::Any), Shape("xapp-", 10, b"-", Front::Any),
    Shape("hooks.slack.com/services/", 10, b"/", Front::Any),
    // Package registries
    Shape("npm_", 30, b"", Front::Any), Shape("pypi-", 20, b"_-", Front::Any), Shape("rubygems_", 20, b"", Front::Any),
    Shape("dckr_pat_", 20, b"_-", Front::Any), Shape("cio", 32, b"", Front::Boundary),
    // Models
    Shape("sk-", 20, b"_-", Front::Boundary), Shape("hf_", 30, b"", Front::Boundary), Shape("gsk_", 20, b"", Front::Boundary),
    Shape("r8_", 30, b"", Front::Boundary), Shape("xai-", 20, b"", Front::Boundary), Shape("pplx-", 20, b"", Front::Boundary),
    // Clouds
    Shape("AKIA", 16, b"", Front::Boundary), Shape("ASIA", 16, b"", Front::Boundary), Shape("ABIA", 16, b"", Front::Boundary),
    Shape("ACCA", 16, b"", Front::Boundary), Shape("AIza", 30, b"_-", Front::Boundary), Shape("ya29.", 20, b"_-", Front::Boundary),
    Shape("GOCSPX-", 20, b"_-", Front::Any), Shape("dop_v1_", 32, b"", Front::Any), Shape("doo_v1_", 32, b"", Front::Any),
    Shape("dapi", 32, b"", Front::Boundary), Shape("SG.", 30, b"_-.", Front::Boundary), Shape("hvs.", 20, b"_-", Front::Boundary),
    Shape("hvb.", 20, b"_-", Front::Boundary), Shape("atlasv1.", 20, b"_-", Front::Any), Shape("ATATT3", 20, b"_-=", Front::Any),
    Shape("lin_api_", 20, b"", Front::Any), Shape("shpat_", 20, b"", Front::Any), Shape("shpss_", 20, b"", Front::Any),
    // Payments
    Shape("sk_live_", 16, b"", Front::Any), Shape("sk_test_", 16, b"", Front::Any), Shape("rk_live_", 16, b"", Front::Any),
    Shape("rk_test_", 16, b"", Front::Any), Shape("whsec_", 20, b"", Front::Any),
    // Keys
    Shape("AGE-SECRET-KEY-1", 20, b"", Front::Any),
];

/// A token that starts here.
pub(super) fn token_at(bytes: &[u8], start: usize) -> Option<Range<usize>> {
    let rest = bytes.get(start..)?;
    let first = *rest.first()?;
    if !first.is_ascii_alphabetic() {
        return None;
    }
    let at_boundary =
        start.checked_sub(1).and_then(|before| bytes.get(before)).is_none_or(|c| !c.is_ascii_alphanumeric());
    let found = SHAPES.iter().find_map(|Shape(prefix, least, more, front)| {
        let fits = prefix.as_bytes().first() == Some(&first) && (*front == Front::Any || at_boundary);
        let tail = fits.then(|| rest.strip_prefix(prefix.as_bytes())).flatten()?;
        let length = tail.iter().take_while(|c| c.is_ascii_alphanumeric() || more.contains(c)).count();
        (length >= *least).then_some(prefix.len() + length)
    });
    let length = found.or_else(|| at_boundary.then(|| web_token(rest)).flatten())?;
    Some(start..start + length)
}

/// A JSON Web Token: three parts of base64, of which two start as `{"` does.
fn web_token(rest: &[u8]) -> Option<usize> {
    rest.strip_prefix(b"eyJ")?;
    let is_part = |c: &u8| c.is_ascii_alphanumeric() || b"_-=".contains(c);
    let header = rest.iter().take_while(|c| is_part(c)).count();
    let payload = rest.get(header..)?.strip_prefix(b".")?;
    payload.strip_prefix(b"eyJ")?;
    let length = payload.iter().take_while(|c| is_part(c) || **c == b'.').count();
    Some(header + 1 + length)
}

/// The body of a private key that starts here, up to and with the line that ends it.
pub(super) fn private_key_at(bytes: &[u8], start: usize) -> Option<Range<usize>> {
    const BEGIN: &[u8] = b"-----BEGIN ";
    const END: &[u8] = b"-----END ";
    let rest = bytes.get(start..)?.strip_prefix(BEGIN)?;
    let label_length = rest.iter().take(64).position(|c| *c == b'-')?;
    let label = rest.get(..label_length)?;
    if !label.windows(11).any(|part| part == b"PRIVATE KEY") {
        return None;
    }
    let body = start + BEGIN.len() + label_length + b"-----".len();
    let text = bytes.get(body..)?;
    let length = text.windows(END.len()).position(|part| part == END).unwrap_or(text.len());
    Some(body..body + length)
}
