//! Tokens recognised by their format.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

/// The characters allowed before a token.
#[derive(Clone, Copy, PartialEq)]
enum Front {
    /// Anything: the prefix does not occur in words.
    Any,
    /// No letter or digit: `sk-…` is a key, `disk-…` is not.
    Boundary,
}

/// A family of tokens: its prefix, the minimum number of following characters, and the permitted ones besides letters
/// and digits.
struct Shape(&'static str, usize, &'static [u8], Front);

#[rustfmt::skip]
const SHAPES: &[Shape] = &[
    // GitHub, GitLab, Bitbucket, Gitea
    Shape("ghp_", 20, b"_", Front::Any), Shape("gho_", 20, b"_", Front::Any), Shape("ghu_", 20, b"_", Front::Any),
    Shape("ghs_", 20, b"_.-", Front::Any), Shape("ghr_", 20, b"_", Front::Any), Shape("github_pat_", 20, b"_", Front::Any),
    Shape("glpat-", 16, b"_-.", Front::Any), Shape("gldt-", 16, b"_-.", Front::Any), Shape("glrt-", 16, b"_-.", Front::Any),
    Shape("glcbt-", 16, b"_-.", Front::Any), Shape("glptt-", 16, b"_-.", Front::Any), Shape("glsoat-", 16, b"_-.", Front::Any),
    Shape("glft-", 16, b"_-.", Front::Any), Shape("glimt-", 16, b"_-.", Front::Any), Shape("glagent-", 16, b"_-.", Front::Any),
    Shape("gloas-", 16, b"_-.", Front::Any), Shape("glffct-", 16, b"_-.", Front::Any), Shape("ATBB", 28, b"_-", Front::Boundary),
    Shape("ATCTT3", 20, b"_-=", Front::Any), Shape("ATATT3", 20, b"_-=", Front::Any),
    // Chats
    Shape("xoxb-", 10, b"-", Front::Any), Shape("xoxp-", 10, b"-", Front::Any), Shape("xoxa-", 10, b"-", Front::Any),
    Shape("xoxr-", 10, b"-", Front::Any), Shape("xoxs-", 10, b"-", Front::Any), Shape("xoxc-", 10, b"-", Front::Any),
    Shape("xoxd-", 10, b"-%", Front::Any), Shape("xoxe.", 10, b"-.", Front::Any), Shape("xoxe-", 10, b"-", Front::Any),
    Shape("xapp-", 10, b"-", Front::Any), Shape("xwfp-", 10, b"-", Front::Any), Shape("hooks.slack.com/services/", 10, b"/", Front::Any),
    Shape("hooks.slack.com/workflows/", 10, b"/", Front::Any), Shape("hooks.slack.com/triggers/", 10, b"/", Front::Any),
    Shape("discord.com/api/webhooks/", 20, b"/_-", Front::Any), Shape("discordapp.com/api/webhooks/", 20, b"/_-", Front::Any),
    Shape("webhook.office.com/webhookb2/", 20, b"/@_-", Front::Any), Shape("outlook.office.com/webhook/", 20, b"/@_-", Front::Any),
    Shape("hooks.zapier.com/hooks/catch/", 8, b"/", Front::Any), Shape("maker.ifttt.com/trigger/", 12, b"/_-", Front::Any),
    Shape("open.feishu.cn/open-apis/bot/v2/hook/", 20, b"-", Front::Any),
    // Package registries
    Shape("npm_", 30, b"", Front::Any), Shape("pypi-", 20, b"_-", Front::Any), Shape("rubygems_", 20, b"", Front::Any),
    Shape("dckr_pat_", 20, b"_-", Front::Any), Shape("dckr_oat_", 20, b"_-", Front::Any), Shape("cio", 32, b"", Front::Boundary),
    Shape("AKCp", 40, b"", Front::Boundary), Shape("cmVmdGtu", 40, b"", Front::Boundary), Shape("oy2", 40, b"", Front::Boundary),
    Shape("CLOJARS_", 40, b"", Front::Any),
    // Models
    Shape("sk-", 20, b"_-", Front::Boundary), Shape("hf_", 30, b"", Front::Boundary), Shape("api_org_", 30, b"", Front::Boundary),
    Shape("gsk_", 20, b"", Front::Boundary), Shape("r8_", 30, b"", Front::Boundary), Shape("xai-", 20, b"", Front::Boundary),
    Shape("pplx-", 20, b"", Front::Boundary), Shape("nvapi-", 20, b"_-", Front::Any), Shape("tvly-", 20, b"-", Front::Boundary),
    Shape("lsv2_", 20, b"_", Front::Any), Shape("rpa_", 30, b"", Front::Boundary), Shape("fw_", 22, b"", Front::Boundary),
    // Clouds
    Shape("AKIA", 16, b"", Front::Boundary), Shape("ASIA", 16, b"", Front::Boundary), Shape("ABIA", 16, b"", Front::Boundary),
    Shape("ACCA", 16, b"", Front::Boundary), Shape("LTAI", 16, b"", Front::Boundary), Shape("AKID", 28, b"", Front::Boundary),
    Shape("GOOG1", 40, b"", Front::Boundary), Shape("AIza", 30, b"_-", Front::Boundary), Shape("ya29.", 20, b"_-.", Front::Boundary),
    Shape("1//0", 30, b"_-", Front::Boundary), Shape("GOCSPX-", 20, b"_-", Front::Any), Shape("amzn.mws.", 20, b"-", Front::Any),
    Shape("dop_v1_", 32, b"", Front::Any), Shape("doo_v1_", 32, b"", Front::Any), Shape("dor_v1_", 32, b"", Front::Any),
    Shape("dapi", 32, b"-", Front::Boundary), Shape("fm1_", 30, b"_-+/=", Front::Boundary), Shape("fm2_", 30, b"_-+/=,", Front::Boundary),
    Shape("fo1_", 30, b"_-", Front::Boundary), Shape("HRKU-", 30, b"_-", Front::Any), Shape("rnd_", 28, b"", Front::Boundary),
    Shape("nfp_", 30, b"", Front::Boundary), Shape("sbp_", 30, b"", Front::Any), Shape("sb_secret_", 20, b"_-", Front::Any),
    Shape("pscale_tkn_", 20, b"_-.", Front::Any), Shape("pscale_pw_", 20, b"_-.", Front::Any), Shape("pscale_oauth_", 20, b"_-.", Front::Any),
    // Secret stores and networks
    Shape("hvs.", 20, b"_-", Front::Boundary), Shape("hvb.", 20, b"_-", Front::Boundary), Shape("hvr.", 20, b"_-", Front::Boundary),
    Shape("atlasv1.", 20, b"_-", Front::Any), Shape("dp.pt.", 30, b"", Front::Boundary), Shape("dp.st.", 30, b"._-", Front::Boundary),
    Shape("dp.ct.", 30, b"", Front::Boundary), Shape("dp.sa.", 30, b"", Front::Boundary), Shape("dp.scim.", 30, b"", Front::Boundary),
    Shape("dp.audit.", 30, b"", Front::Boundary), Shape("ops_eyJ", 40, b"_-=", Front::Any), Shape("tskey-", 16, b"-", Front::Any),
    Shape("pul-", 36, b"", Front::Boundary),
    // Services
    Shape("SG.", 30, b"_-.", Front::Boundary), Shape("xkeysib-", 40, b"-", Front::Any), Shape("xsmtpsib-", 40, b"-", Front::Any),
    Shape("key-", 32, b"", Front::Boundary), Shape("lin_api_", 20, b"", Front::Any), Shape("lin_oauth_", 20, b"", Front::Any),
    Shape("shpat_", 20, b"", Front::Any), Shape("shpss_", 20, b"", Front::Any), Shape("shpca_", 20, b"", Front::Any),
    Shape("shppa_", 20, b"", Front::Any), Shape("NRAK-", 20, b"", Front::Any), Shape("NRII-", 20, b"_-", Front::Any),
    Shape("NRJS-", 16, b"", Front::Any), Shape("NRRA-", 20, b"", Front::Any), Shape("figd_", 20, b"_-", Front::Any),
    Shape("figo_", 20, b"_-", Front::Any), Shape("ntn_", 30, b"", Front::Boundary), Shape("secret_", 40, b"", Front::Boundary),
    Shape("PMAK-", 24, b"-", Front::Any), Shape("CFPAT-", 30, b"_-", Front::Any), Shape("pat-na1-", 30, b"-", Front::Any),
    Shape("pat-eu1-", 30, b"-", Front::Any), Shape("sntrys_", 20, b"_-=+/", Front::Any), Shape("sntryu_", 20, b"", Front::Any),
    Shape("glsa_", 24, b"_", Front::Any), Shape("glc_", 24, b"=+/", Front::Boundary), Shape("rdme_", 30, b"", Front::Any),
    Shape("sgp_", 30, b"_", Front::Boundary), Shape("waka_", 30, b"-", Front::Any), Shape("phx_", 30, b"_-", Front::Boundary),
    Shape("bkua_", 30, b"", Front::Any), Shape("CCIPAT_", 30, b"_", Front::Any), Shape("CCIPRJ_", 30, b"_", Front::Any),
    Shape("pnu_", 30, b"", Front::Boundary), Shape("sdk-", 36, b"-", Front::Boundary), Shape("sl.", 100, b"_-.", Front::Boundary),
    Shape("EAAC", 40, b"", Front::Boundary), Shape("EAAG", 40, b"", Front::Boundary), Shape("EAAB", 40, b"", Front::Boundary),
    Shape("ddp_", 30, b"", Front::Boundary), Shape("dd_api_", 30, b"", Front::Boundary),
    // Payments
    Shape("sk_live_", 16, b"", Front::Any), Shape("sk_test_", 16, b"", Front::Any), Shape("rk_live_", 16, b"", Front::Any),
    Shape("rk_test_", 16, b"", Front::Any), Shape("whsec_", 20, b"+/=", Front::Any), Shape("sq0atp-", 20, b"_-", Front::Any),
    Shape("sq0csp-", 30, b"_-", Front::Any), Shape("EAAA", 50, b"_-", Front::Boundary), Shape("FLWSECK", 20, b"-_", Front::Boundary),
    Shape("EZAK", 40, b"", Front::Boundary),
    // Keys
    Shape("AGE-SECRET-KEY-1", 20, b"", Front::Any), Shape("nsec1", 50, b"", Front::Boundary), Shape("xprv9", 80, b"", Front::Boundary),
];

/// The formats by the first byte of their prefix, since every position of a text is checked.
static BY_FIRST: LazyLock<BTreeMap<u8, Vec<&Shape>>> = LazyLock::new(|| {
    let mut shapes: BTreeMap<u8, Vec<&Shape>> = BTreeMap::new();
    for shape in SHAPES {
        shapes.entry(shape.0.as_bytes().first().copied().unwrap_or_default()).or_default().push(shape);
    }
    shapes
});

/// A token that starts here.
pub(super) fn token_at(bytes: &[u8], start: usize) -> Option<Range<usize>> {
    let rest = bytes.get(start..)?;
    let first = *rest.first()?;
    if !first.is_ascii_alphanumeric() {
        return None;
    }
    let at_boundary =
        start.checked_sub(1).and_then(|before| bytes.get(before)).is_none_or(|c| !c.is_ascii_alphanumeric());
    let found = BY_FIRST.get(&first).into_iter().flatten().find_map(|Shape(prefix, least, more, front)| {
        let tail = (*front == Front::Any || at_boundary).then(|| rest.strip_prefix(prefix.as_bytes())).flatten()?;
        let length = tail.iter().take_while(|c| c.is_ascii_alphanumeric() || more.contains(c)).count();
        (length >= *least).then_some(prefix.len() + length)
    });
    // `https://api.telegram.org/bot123456789:AA…`
    let at_bot = first.is_ascii_digit() && bytes.get(..start).is_some_and(|before| before.ends_with(b"bot"));
    let other = || (at_boundary || at_bot).then(|| web_token(rest).or_else(|| bot_token(rest))).flatten();
    Some(start..start + found.or_else(other)?)
}

/// A bot's token: of Telegram (`123456789:AA…`), or of Discord (three parts between dots).
fn bot_token(rest: &[u8]) -> Option<usize> {
    let is_part = |c: &&u8| c.is_ascii_alphanumeric() || b"_-".contains(c);
    let count = |from: usize| rest.get(from..).map_or(0, |rest| rest.iter().take(100).take_while(is_part).count());
    let number = rest.iter().take(12).take_while(|c| c.is_ascii_digit()).count();
    if (8..=11).contains(&number) && rest.get(number..).is_some_and(|rest| rest.starts_with(b":AA")) {
        let length = count(number + 1);
        return (length >= 33).then_some(number + 1 + length);
    }
    let first = count(0);
    let starts = matches!(rest.first(), Some(b'M' | b'N' | b'O')) && (23..=28).contains(&first);
    let dot = |at: usize| rest.get(at) == Some(&b'.');
    if !starts || !dot(first) || count(first + 1) != 6 || !dot(first + 7) {
        return None;
    }
    let last = count(first + 8);
    (last >= 27).then_some(first + 8 + last)
}

/// A JSON Web Token: three parts of base64, two of which start with an encoded `{"`.
fn web_token(rest: &[u8]) -> Option<usize> {
    rest.strip_prefix(b"eyJ")?;
    let is_part = |c: &u8| c.is_ascii_alphanumeric() || b"_-=".contains(c);
    let header = rest.iter().take_while(|c| is_part(c)).count();
    let payload = rest.get(header..)?.strip_prefix(b".")?;
    payload.strip_prefix(b"eyJ")?;
    let length = payload.iter().take_while(|c| is_part(c) || **c == b'.').count();
    Some(header + 1 + length)
}

/// The body of a private key that starts here, including the line that ends it.
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
