//! URLs in the values of variables: their hosts are kept, secrets in them are removed.

use super::usually_secret;
use crate::RawText;

/// A value without the secrets in its URLs: user and password, and parameters with the name of a secret
/// (`?password=…`).
pub(super) fn without_secrets(value: RawText) -> RawText {
    let value = without_userinfo(&value).unwrap_or(value);
    let Some(text) = value.as_str().filter(|text| text.contains("://")) else { return value };
    let mut kept = String::new();
    for (number, part) in text.split_inclusive(['?', '&', ';']).enumerate() {
        let (body, end) = match part.strip_suffix(['?', '&', ';']) {
            Some(body) => (body, part.get(body.len()..).unwrap_or_default()),
            None => (part, ""),
        };
        let secret = body.split_once('=').filter(|(name, _)| number > 0 && is_secret_parameter(name));
        match secret {
            Some((name, value)) => {
                let rest = value.find(['#', ' ', ',']).and_then(|at| value.get(at..)).unwrap_or_default();
                kept.extend([name, "=", rest, end]);
            }
            None => kept.push_str(part),
        }
    }
    if kept == text { value } else { kept.into() }
}

fn is_secret_parameter(name: &str) -> bool {
    const SHORT: &[&str] = &["pass", "pwd", "pw", "sig", "auth", "jwt"];
    usually_secret(name) || SHORT.iter().any(|short| name.eq_ignore_ascii_case(short))
}

/// A value without the user information of its URLs, if that contains a password or is a token: the rest, such as the
/// registry or proxy, is not secret.
pub fn without_userinfo(value: &RawText) -> Option<RawText> {
    let text = value.as_str()?;
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let scheme =
            before.rsplit(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c)).next().unwrap_or_default();
        let is_web = scheme.to_ascii_lowercase().starts_with("http");
        let end = after.find(|c: char| c.is_whitespace() || "/?#,;\"'".contains(c)).unwrap_or(after.len());
        let userinfo = after.get(..end).and_then(|authority| authority.rsplit_once('@')).map(|(user, _)| user);
        let secret = userinfo.filter(|user| is_web || user.contains(':')).map_or(0, |user| user.len() + 1);
        kept.push_str(before);
        kept.push_str("://");
        rest = after.get(secret..).unwrap_or_default();
    }
    kept.push_str(rest);
    (kept != text).then(|| kept.into())
}

#[cfg(test)]
mod tests {
    use crate::{EnvironmentPolicy, RawText};

    #[test]
    fn passwords_in_urls_are_left_out() {
        let value = |text: &str| {
            let inherited = [(RawText::from("URL"), RawText::from(text))];
            EnvironmentPolicy::default().apply(inherited)[&RawText::from("URL")].to_string()
        };
        for (given, kept) in [
            ("https://me:hunter2@pypi.test/simple", "https://pypi.test/simple"),
            ("https://ghp_0123@github.com/a", "https://github.com/a"),
            ("redis://:hunter2@h:6379/0", "redis://h:6379/0"),
            ("http://a:b@c,http://d:e@f/x", "http://c,http://f/x"),
            ("ssh://git@h/r", "ssh://git@h/r"),
            ("https://h/a@b", "https://h/a@b"),
            ("unix:path=/run/bus", "unix:path=/run/bus"),
            ("a://", "a://"),
            ("postgres://db/app?user=me&password=hunter2&x=1", "postgres://db/app?user=me&password=&x=1"),
            ("https://h/hook?api_key=hunter2#top", "https://h/hook?api_key=#top"),
            ("https://h/?page=2&sort=name", "https://h/?page=2&sort=name"),
            ("password=a?password=b", "password=a?password=b"),
        ] {
            assert_eq!(value(given), kept);
        }
        let policy = EnvironmentPolicy { ignore_default_excludes: true, ..EnvironmentPolicy::default() };
        let kept = policy.apply([(RawText::from("URL"), RawText::from("https://a:b@c"))]);
        assert_eq!(kept[&RawText::from("URL")], RawText::from("https://a:b@c"));
    }
}
