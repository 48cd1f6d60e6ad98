//! Which environment variables a command sees.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Invalid, RawText};

/// Names that usually hold a secret.
pub const SECRET_NAMES: &[&str] = &[
    "*KEY*",
    "*SECRET*",
    "*TOKEN*",
    "*PASSWORD*",
    "*PASSWD*",
    "*PASSPHRASE*",
    "*PASSCODE*",
    "PASS",
    "*PASS",
    "*_PASS_*",
    "?*PWD",
    "*_PW",
    "*PAT",
    "*CREDENTIAL*",
    "*CREDS*",
    "*_CRED",
    "*AUTH_CONFIG*",
    "*_AUTH",
    "*_JWT",
    "*_PSK",
    "*_SAS",
    "*_COOKIE",
    "*MNEMONIC*",
    "*WEBHOOK*",
    "*DATABASE_URL",
    "*_DSN",
    "*CONNECTION_STRING*",
    "*CONNSTR*",
    // Settings of git, which may hold a header with a token. `GIT_CONFIG_KEY_0` goes by its name; git fails without the
    // others, so they go together.
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_VALUE_*",
];

/// Words that hold a pattern of [`SECRET_NAMES`] and say nothing of a secret. They are left out of a name before
/// it is judged: `MONKEY` stays, `MONKEY_API_KEY` does not.
pub const PLAIN_WORDS: &[&str] = &[
    "KEYBOARD",
    "KEYMAP",
    "KEYWORD",
    "KEYSTROKE",
    "MONKEY",
    "TURKEY",
    "HOTKEY",
    "WHISKEY",
    "JOCKEY",
    "HOCKEY",
    "DONKEY",
    "SECRETARY",
    "TOKENIZER",
    "MAX_TOKENS",
    "COMPASS",
    "BYPASS",
    "TRESPASS",
    "OVERPASS",
    "UNDERPASS",
    "MULTIPASS",
    "ASKPASS",
    "OLDPWD",
    "COMPAT",
    "EXPAT",
];

/// Whole names that match a pattern of [`SECRET_NAMES`] and say nothing of a secret; in a longer name they may.
pub const PLAIN_NAMES: &[&str] = &["KEYS", "PRIMARY_KEY", "FOREIGN_KEY"];

/// Names that make a loader, a shell or an interpreter run code before the command itself does.
/// They are never inherited; `set` is the only way to give one to a command.
pub const LOADER_NAMES: &[&str] = &[
    "LD_*",
    "DYLD_*",
    "GLIBC_TUNABLES",
    "GCONV_PATH",
    "BASH_ENV",
    "ENV",
    "BASH_FUNC_*",
    "SHELLOPTS",
    "BASHOPTS",
    "PS4",
    "PERL5OPT",
    "PERL5LIB",
    "PERL5DB",
    "PYTHONSTARTUP",
    "PYTHONHOME",
    "RUBYOPT",
    "NODE_OPTIONS",
    "JAVA_TOOL_OPTIONS",
];

/// The names that `inherit: "core"` keeps.
pub const CORE_NAMES: &[&str] =
    &["HOME", "LANG", "LC_*", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER", "SYSTEMROOT", "TEMP", "TMP"];

/// How the environment of a command is made. The steps apply in the order of the fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EnvironmentPolicy {
    /// What to start from.
    pub inherit: EnvironmentInherit,
    /// Keep inherited variables whose names usually hold a secret.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignore_default_excludes: bool,
    /// Inherited variables to drop.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub exclude: BTreeSet<NamePattern>,
    /// Variables to set, whatever was inherited.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<VariableName, String>,
    /// If not empty, drop every variable that none of these matches.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub include_only: BTreeSet<NamePattern>,
}

/// What the environment of a command starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentInherit {
    /// Nothing.
    None,
    /// The handful of variables that programs need to find their way.
    Core,
    /// Everything.
    #[default]
    All,
}

impl EnvironmentPolicy {
    /// Whether an inherited variable of this name is kept.
    pub fn inherits(&self, name: &str) -> bool {
        let in_list = |list: &[&str]| list.iter().any(|pattern| wildcard(pattern, name));
        let inherited = match self.inherit {
            EnvironmentInherit::None => false,
            EnvironmentInherit::Core => in_list(CORE_NAMES),
            EnvironmentInherit::All => true,
        };
        inherited
            && !in_list(LOADER_NAMES)
            && (self.ignore_default_excludes || !usually_secret(name))
            && !self.exclude.iter().any(|pattern| pattern.matches(name))
            && self.includes(name)
    }

    /// The environment of a command that is started from one with `inherited`. A variable whose
    /// name is not UTF-8 can't be judged and is dropped. Of an inherited URL the user and password are left out.
    pub fn apply(&self, inherited: impl IntoIterator<Item = (RawText, RawText)>) -> BTreeMap<RawText, RawText> {
        let kept = inherited.into_iter().filter(|(name, _)| name.as_str().is_some_and(|name| self.inherits(name)));
        let kept = kept.map(|(name, value)| match self.ignore_default_excludes {
            true => (name, value),
            false => (name, without_url_secrets(value)),
        });
        let set = self.set.iter().filter(|(name, _)| self.includes(name.as_str()));
        kept.chain(set.map(|(name, value)| (name.as_str().into(), value.as_str().into()))).collect()
    }

    fn includes(&self, name: &str) -> bool {
        self.include_only.is_empty() || self.include_only.iter().any(|pattern| pattern.matches(name))
    }

    /// Adds what was granted on top: variables to set, and inherited ones that are kept by name.
    pub fn merge(&self, granted: &Self) -> Self {
        let mut merged = self.clone();
        merged.set.extend(granted.set.clone());
        if !merged.include_only.is_empty() {
            merged.include_only.extend(granted.include_only.clone());
            merged.include_only.extend(granted.set.keys().map(|name| NamePattern(name.0.clone())));
        }
        merged
    }

    /// Keeps an inherited variable only where both do. What the bound sets is set.
    pub fn intersect(&self, bound: &Self) -> Self {
        let mut set = self.set.clone();
        set.extend(bound.set.clone());
        Self {
            inherit: self.inherit.min(bound.inherit),
            ignore_default_excludes: self.ignore_default_excludes && bound.ignore_default_excludes,
            exclude: self.exclude.union(&bound.exclude).cloned().collect(),
            set,
            include_only: intersect_patterns(&self.include_only, &bound.include_only),
        }
    }
}

/// Whether a variable of this name usually holds a secret.
fn usually_secret(name: &str) -> bool {
    let is_secret = |name: &str| SECRET_NAMES.iter().any(|pattern| wildcard(pattern, name));
    if !is_secret(name) || PLAIN_NAMES.iter().any(|plain| name.eq_ignore_ascii_case(plain)) {
        return false;
    }
    let plain = PLAIN_WORDS.iter().fold(name.to_ascii_uppercase(), |name, word| name.replace(word, ""));
    is_secret(&plain)
}

/// A value without what its URLs hold of secrets: the user and password, and parameters with the name of a secret
/// (`?password=…`).
fn without_url_secrets(value: RawText) -> RawText {
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

/// A value without what stands before the `@` of its URLs, if that holds a password or is a token: the rest, such
/// as which registry or proxy to use, is no secret.
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

/// Keeps the patterns of each side that the other side surely covers. Two wildcards that merely
/// overlap are both dropped: fewer variables, never more.
fn intersect_patterns(a: &BTreeSet<NamePattern>, b: &BTreeSet<NamePattern>) -> BTreeSet<NamePattern> {
    if a.is_empty() || b.is_empty() {
        return a.union(b).cloned().collect();
    }
    let covered = |own: &NamePattern, others: &BTreeSet<NamePattern>| {
        others.contains(own) || (own.is_literal() && others.iter().any(|other| other.matches(&own.0)))
    };
    let both: BTreeSet<_> =
        a.iter().filter(|own| covered(own, b)).chain(b.iter().filter(|own| covered(own, a))).cloned().collect();
    // An empty list would mean "everything": say "nothing" with a name that no variable has.
    if both.is_empty() { BTreeSet::from([NamePattern(String::from("?").repeat(4096))]) } else { both }
}

/// A variable's name, or several: `*` stands for any text, `?` for one character; case is ignored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamePattern(String);

impl NamePattern {
    /// Whether the pattern matches this name.
    pub fn matches(&self, name: &str) -> bool {
        wildcard(&self.0, name)
    }

    fn is_literal(&self) -> bool {
        !self.0.contains(['*', '?'])
    }
}

/// A variable's name: not empty, without `=` and NUL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VariableName(String);

impl VariableName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! name_like {
    ($name:ident) => {
        impl FromStr for $name {
            type Err = Invalid;

            fn from_str(text: &str) -> Result<Self, Invalid> {
                if text.is_empty() || text.contains(['=', '\0']) {
                    return Err(Invalid::VariableName { name: text.into() });
                }
                Ok(Self(text.to_owned()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": "^[^=\\u0000]+$" })
            }
        }
    };
}

name_like!(NamePattern);
name_like!(VariableName);

/// Matches `*` and `?` without regard to case.
fn wildcard(pattern: &str, text: &str) -> bool {
    // Nearly every name is ASCII, and every run asks about each of its variables.
    if pattern.is_ascii() && text.is_ascii() {
        let same = |a: &u8, b: &u8| *a == b'?' || a.eq_ignore_ascii_case(b);
        return matches(pattern.as_bytes(), text.as_bytes(), |c| *c == b'*', same);
    }
    let fold = |text: &str| text.chars().flat_map(char::to_uppercase).collect::<Vec<_>>();
    matches(&fold(pattern), &fold(text), |c| *c == '*', |a, b| *a == '?' || a == b)
}

/// Matches a pattern in time linear in the text for each star.
fn matches<T>(pattern: &[T], text: &[T], is_star: impl Fn(&T) -> bool, same: impl Fn(&T, &T) -> bool) -> bool {
    let (mut p, mut t) = (0, 0);
    // Where the last star stood, and how much text it has swallowed so far.
    let mut star: Option<(usize, usize)> = None;
    while let Some(c) = text.get(t) {
        match pattern.get(p) {
            Some(expected) if is_star(expected) => {
                star = Some((p, t));
                p += 1;
            }
            Some(expected) if same(expected, c) => {
                p += 1;
                t += 1;
            }
            Some(_) | None => {
                let Some((star_at, swallowed)) = star else { return false };
                star = Some((star_at, swallowed + 1));
                p = star_at + 1;
                t = swallowed + 1;
            }
        }
    }
    pattern.iter().skip(p).all(is_star)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(policy: &EnvironmentPolicy, inherited: &[&str]) -> Vec<String> {
        let pairs = inherited.iter().map(|name| (RawText::from(*name), RawText::from("v")));
        policy.apply(pairs).keys().map(ToString::to_string).collect()
    }

    #[test]
    fn secrets_and_loader_variables_are_dropped_by_default() {
        let policy = EnvironmentPolicy::default();
        assert_eq!(
            names(&policy, &["PATH", "AWS_SECRET_ACCESS_KEY", "npm_token", "LD_PRELOAD", "BASH_FUNC_x%%"]),
            ["PATH"]
        );
        let trusting = EnvironmentPolicy { ignore_default_excludes: true, ..policy };
        assert_eq!(names(&trusting, &["PATH", "API_TOKEN", "LD_PRELOAD"]), ["API_TOKEN", "PATH"]);
    }

    #[test]
    fn names_of_secrets_are_dropped_and_others_stay() {
        let policy = EnvironmentPolicy::default();
        for name in [
            "MYSQL_PWD",
            "PGPASSWORD",
            "PASSPHRASE",
            "GPG_PASSPHRASE",
            "GH_PAT",
            "AZURE_DEVOPS_EXT_PAT",
            "DATABASE_URL",
            "TEST_DATABASE_URL",
            "SENTRY_DSN",
            "DB_PASS",
            "DB_PW",
            "SMTP_PASS",
            "CREDS",
            "AWS_CREDS",
            "DOCKER_AUTH_CONFIG",
            "NPM_AUTH",
            "GITHUB_TOKEN",
            "API_KEY",
            "APIKEY",
            "AWS_ACCESS_KEY_ID",
            "AWS_SECRET_ACCESS_KEY",
            "SSH_KEY",
            "OPENAI_API_KEY",
            "MONKEY_API_KEY",
            "KEYBOARD_SECRET",
            "SLACK_WEBHOOK_URL",
            "AZURE_STORAGE_CONNECTION_STRING",
            "SESSION_COOKIE",
            "WALLET_MNEMONIC",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "ACCESS_KEYS",
            "npm_token",
        ] {
            assert!(!policy.inherits(name), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "PWD",
            "OLDPWD",
            "USER",
            "LANG",
            "TERM",
            "SHELL",
            "EDITOR",
            "DISPLAY",
            "XAUTHORITY",
            "SSH_AUTH_SOCK",
            "SSH_ASKPASS",
            "GIT_ASKPASS",
            "GPG_TTY",
            "KEYBOARD",
            "KEYMAP",
            "MONKEY",
            "WHISKEY",
            "JOCKEY",
            "PRIMARY_KEY",
            "KEYS",
            "SECRETARY",
            "PWD",
            "OLDPWD",
            "GLIBC_COMPAT",
            "XKB_KEYMAP",
            "COMPASS",
            "BYPASS",
            "AUTHOR",
            "GIT_AUTHOR_NAME",
            "TOKENIZERS_PARALLELISM",
            "LLM_MAX_TOKENS",
            "PATTERN",
            "NODE_PATH",
            "CARGO_HOME",
            "VIRTUAL_ENV",
            "KUBECONFIG",
            "AWS_PROFILE",
            "NPM_CONFIG_REGISTRY",
            "PIP_INDEX_URL",
            "HTTP_PROXY",
            "no_proxy",
            "CI",
            "PASSENGER_HOME",
        ] {
            assert!(policy.inherits(name), "{name}");
        }
    }

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

    #[test]
    fn what_is_set_is_set() {
        let set = BTreeMap::from([("API_TOKEN".parse().unwrap(), String::from("x"))]);
        let policy = EnvironmentPolicy { inherit: EnvironmentInherit::None, set, ..EnvironmentPolicy::default() };
        assert_eq!(names(&policy, &["PATH"]), ["API_TOKEN"]);
    }

    #[test]
    fn an_empty_intersection_keeps_nothing() {
        let only = |text: &str| EnvironmentPolicy {
            include_only: [text.parse().unwrap()].into(),
            ..EnvironmentPolicy::default()
        };
        assert_eq!(names(&only("A").intersect(&only("B")), &["A", "B"]), Vec::<String>::new());
        assert_eq!(names(&only("GIT_DIR").intersect(&only("git_*")), &["GIT_DIR", "GIT_X"]), ["GIT_DIR"]);
    }

    #[test]
    fn wildcards() {
        for (pattern, text, expected) in [
            ("*KEY*", "monkey", true),
            ("LD_*", "LD_", true),
            ("LD_*", "OLD_X", false),
            ("a?c", "aBc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("", "", true),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxbxx", false),
            ("*é?", "aÉx", true),
            ("*é?", "aEx", false),
        ] {
            assert_eq!(wildcard(pattern, text), expected, "{pattern} {text}");
        }
    }
}
