//! A small evaluator of profiles: whether a rule set allows an operation.
//!
//! It knows the operations and filters that profiles of this crate may use, and refuses all others, so a
//! name that is misspelt is found here. Of the rules that match, the last decides. There is no manual of
//! the language, and profiles in the wild disagree in one point: whether a rule without a filter gives
//! way to those with one wherever it stands. So everything is asked under both readings ([`Reading`]),
//! and a profile has to mean the same under both.

use std::collections::BTreeMap;

use crate::dialect;
use crate::reader::{Expression, read};

/// Every operation that a profile may name.
const OPERATIONS: &[&str] = &[
    "default",
    "file-clone",
    "file-ioctl",
    "file-link",
    "file-map-executable",
    "file-read-data",
    "file-read-metadata",
    "file-read-xattr",
    "file-write-create",
    "file-write-data",
    "file-write-flags",
    "file-write-mode",
    "file-write-owner",
    "file-write-setugid",
    "file-write-times",
    "file-write-unlink",
    "file-write-xattr",
    "iokit-get-properties",
    "iokit-open",
    "ipc-posix-sem",
    "ipc-posix-shm-read-data",
    "ipc-posix-shm-write-create",
    "mach-lookup",
    "mach-register",
    "network-bind",
    "network-inbound",
    "network-outbound",
    "nvram-get",
    "process-exec",
    "process-exec-interpreter",
    "process-fork",
    "process-info-pidinfo",
    "pseudo-tty",
    "signal",
    "sysctl-read",
    "sysctl-write",
    "system-socket",
    "user-preference-read",
    "user-preference-write",
];

/// Operations that `(deny default)` does not speak of. The last two are here to be on the safe side.
const BEYOND_DEFAULT: &[&str] =
    &["process-info-pidinfo", "nvram-get", "iokit-get-properties", "file-map-executable", "file-link", "file-clone"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// The last rule that matches decides.
    LastMatch,
    /// The last rule with a filter that matches decides; if there is none, the last without.
    FiltersFirst,
}

pub(crate) const READINGS: [Reading; 2] = [Reading::LastMatch, Reading::FiltersFirst];

/// What an operation is about.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Object<'a> {
    pub(crate) path: Option<&'a str>,
    pub(crate) is_directory: bool,
    /// A service, variable, preference domain or shared name.
    pub(crate) name: Option<&'a str>,
    /// An address: a host and a port.
    pub(crate) address: Option<(&'a str, u16)>,
    /// A word: a socket's domain, or whose process it is.
    pub(crate) word: Option<&'a str>,
    pub(crate) has_extension: bool,
    /// A socket's protocol.
    pub(crate) protocol: Option<i64>,
}

impl<'a> Object<'a> {
    pub(crate) fn file(path: &'a str) -> Self {
        Self { path: Some(path), ..Self::default() }
    }

    pub(crate) fn name(name: &'a str) -> Self {
        Self { name: Some(name), ..Self::default() }
    }

    pub(crate) fn word(word: &'a str) -> Self {
        Self { word: Some(word), ..Self::default() }
    }

    pub(crate) fn socket(domain: &'a str, protocol: i64) -> Self {
        Self { protocol: Some(protocol), ..Self::word(domain) }
    }

    pub(crate) fn address(host: &'a str, port: u16) -> Self {
        Self { address: Some((host, port)), ..Self::default() }
    }
}

#[derive(Debug)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    allows: bool,
    /// Holds only on a system that knows this operation.
    only_if: Option<String>,
    operations: Vec<String>,
    /// One of them has to match; none means that the rule always does.
    filters: Vec<Filter>,
}

#[derive(Debug)]
enum Filter {
    All(Vec<Filter>),
    Any(Vec<Filter>),
    Not(Box<Filter>),
    Literal(String),
    Subpath(String),
    /// The directories above a path.
    Ancestors(String),
    Regex(dialect::Pattern),
    Directory,
    Extension,
    Name(String),
    NamePrefix(String),
    Word(String),
    Protocol(i64),
    /// Host and port, either of which may be `*`.
    Address(String, String),
}

impl Rules {
    /// Reads a profile. Everything in it has to be known.
    pub(crate) fn parse(text: &str, parameters: &BTreeMap<String, String>) -> Result<Self, String> {
        let forms = read(text)?;
        let mut forms = forms.iter();
        let version = [Expression::Symbol("version".to_owned()), Expression::Number(1)];
        if forms.next() != Some(&Expression::List(version.into())) {
            return Err("the profile does not start with its version".to_owned());
        }
        let mut parser = Parser { parameters, rules: Vec::new(), used: Vec::new() };
        forms.try_for_each(|form| parser.form(form))?;
        match parameters.keys().find(|name| !parser.used.contains(name)) {
            Some(unused) => Err(format!("nothing refers to the parameter `{unused}`")),
            None => Ok(Self { rules: parser.rules }),
        }
    }

    /// Whether an operation is allowed, on a system that knows every operation but those.
    pub(crate) fn allows(&self, reading: Reading, unknown: &[&str], operation: &str, object: &Object<'_>) -> bool {
        assert!(OPERATIONS.contains(&operation), "there is no operation `{operation}`");
        let speaks = |rule: &&Rule| {
            rule.operations.iter().any(|own| {
                (own == "default" && !BEYOND_DEFAULT.contains(&operation))
                    || own == operation
                    // This one stands for several without a star.
                    || (own == "ipc-posix-shm" && operation.starts_with("ipc-posix-shm"))
                    || own.strip_suffix('*').is_some_and(|start| operation.starts_with(start))
            })
        };
        let matching = || {
            let matches = |rule: &&Rule| rule.filters.is_empty() || rule.filters.iter().any(|own| own.matches(object));
            let applies = |rule: &&Rule| rule.only_if.as_deref().is_none_or(|needed| !unknown.contains(&needed));
            self.rules.iter().rev().filter(applies).filter(speaks).filter(matches)
        };
        let deciding = match reading {
            Reading::LastMatch => matching().next(),
            Reading::FiltersFirst => matching().find(|rule| !rule.filters.is_empty()).or_else(|| matching().next()),
        };
        deciding.is_none_or(|rule| rule.allows)
    }
}

struct Parser<'a> {
    parameters: &'a BTreeMap<String, String>,
    rules: Vec<Rule>,
    used: Vec<&'a String>,
}

fn unknown<T>(expression: &Expression) -> Result<T, String> {
    Err(format!("unknown or out of place: {expression:?}"))
}

impl<'a> Parser<'a> {
    fn form(&mut self, form: &Expression) -> Result<(), String> {
        let Expression::List(items) = form else { return unknown(form) };
        match items.as_slice() {
            [Expression::Symbol(word), Expression::List(condition), then] if word == "if" => {
                let [Expression::Symbol(question), Expression::Quoted(name)] = condition.as_slice() else {
                    return unknown(form);
                };
                if question != "defined?" || !OPERATIONS.contains(&name.as_str()) {
                    return unknown(form);
                }
                let before = self.rules.len();
                self.form(then)?;
                self.rules.iter_mut().skip(before).for_each(|rule| rule.only_if = Some(name.clone()));
                Ok(())
            }
            [Expression::Symbol(word), rest @ ..] if word == "allow" || word == "deny" => {
                self.rule(word == "allow", rest).map_err(|error| format!("{error}, in {form:?}"))
            }
            _ => unknown(form),
        }
    }

    fn rule(&mut self, allows: bool, rest: &[Expression]) -> Result<(), String> {
        let mut rule = Rule { allows, only_if: None, operations: Vec::new(), filters: Vec::new() };
        for item in rest {
            match item {
                Expression::Symbol(name) if rule.filters.is_empty() && is_operation(name) => {
                    rule.operations.push(name.clone());
                }
                Expression::List(_) if !rule.operations.is_empty() => rule.filters.push(self.filter(item)?),
                Expression::List(_)
                | Expression::Symbol(_)
                | Expression::Text(_)
                | Expression::Quoted(_)
                | Expression::Number(_) => return unknown(item),
            }
        }
        if rule.operations.is_empty() {
            return Err("a rule without an operation".to_owned());
        }
        self.rules.push(rule);
        Ok(())
    }

    fn filter(&mut self, filter: &Expression) -> Result<Filter, String> {
        let Expression::List(items) = filter else { return unknown(filter) };
        let [Expression::Symbol(kind), rest @ ..] = items.as_slice() else { return unknown(filter) };
        match (kind.as_str(), rest) {
            ("require-all", [_, ..]) => Ok(Filter::All(self.filters(rest)?)),
            ("require-any", [_, ..]) => Ok(Filter::Any(self.filters(rest)?)),
            ("require-not", [one]) => Ok(Filter::Not(Box::new(self.filter(one)?))),
            ("literal", [path]) => Ok(Filter::Literal(self.path(path)?)),
            ("subpath", [path]) => Ok(Filter::Subpath(self.path(path)?)),
            ("path-ancestors", [path]) => Ok(Filter::Ancestors(self.path(path)?)),
            ("regex", [pattern]) => Ok(Filter::Regex(dialect::Pattern::parse(&self.text(pattern)?)?)),
            ("vnode-type", [Expression::Symbol(word)]) if word == "DIRECTORY" => Ok(Filter::Directory),
            ("extension", [Expression::Text(_)]) => Ok(Filter::Extension),
            ("target", [Expression::Symbol(word)]) if word == "same-sandbox" => Ok(Filter::Word(word.clone())),
            ("socket-domain", [Expression::Symbol(word)]) if word.starts_with("AF_") => Ok(Filter::Word(word.clone())),
            ("socket-protocol", [Expression::Number(number)]) => Ok(Filter::Protocol(*number)),
            ("global-name" | "local-name" | "sysctl-name" | "preference-domain", [name]) => {
                Ok(Filter::Name(self.text(name)?))
            }
            ("sysctl-name-prefix" | "ipc-posix-name-prefix", [name]) => Ok(Filter::NamePrefix(self.text(name)?)),
            ("remote" | "local", [Expression::Symbol(ip), Expression::Text(address)]) if ip == "ip" => {
                let (host, port) = address.split_once(':').ok_or("an address without a port")?;
                let is_port = port == "*" || port.parse::<u16>().is_ok();
                if !["*", "localhost"].contains(&host) || !is_port {
                    return unknown(filter);
                }
                Ok(Filter::Address(host.to_owned(), port.to_owned()))
            }
            _ => unknown(filter),
        }
    }

    fn filters(&mut self, filters: &[Expression]) -> Result<Vec<Filter>, String> {
        filters.iter().map(|filter| self.filter(filter)).collect()
    }

    fn path(&mut self, path: &Expression) -> Result<String, String> {
        let text = self.text(path)?;
        let is_normal = text == "/" || text.starts_with('/') && !text.ends_with('/') && !text.contains("//");
        if is_normal { Ok(text) } else { Err(format!("no normal path: {text}")) }
    }

    fn text(&mut self, text: &Expression) -> Result<String, String> {
        match text {
            Expression::Text(text) => Ok(text.clone()),
            Expression::List(items) => match items.as_slice() {
                [Expression::Symbol(word), Expression::Text(name)] if word == "param" => {
                    let (name, value) =
                        self.parameters.get_key_value(name).ok_or_else(|| format!("no parameter `{name}`"))?;
                    self.used.push(name);
                    Ok(value.clone())
                }
                _ => unknown(text),
            },
            Expression::Symbol(_) | Expression::Quoted(_) | Expression::Number(_) => unknown(text),
        }
    }
}

fn is_operation(name: &str) -> bool {
    match name.strip_suffix('*') {
        Some(start) => OPERATIONS.iter().any(|own| own.starts_with(start)),
        // What stands for several others need not be written with a star.
        None => OPERATIONS.contains(&name) || name == "ipc-posix-shm",
    }
}

impl Filter {
    fn matches(&self, object: &Object<'_>) -> bool {
        let path = object.path.unwrap_or_default();
        match self {
            Self::All(filters) => filters.iter().all(|filter| filter.matches(object)),
            Self::Any(filters) => filters.iter().any(|filter| filter.matches(object)),
            Self::Not(filter) => !filter.matches(object),
            Self::Literal(own) => path == own,
            Self::Subpath(own) if own == "/" => path.starts_with('/'),
            Self::Subpath(own) => {
                path.strip_prefix(own.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            Self::Ancestors(own) => {
                let below = own.strip_prefix(path).filter(|_| !path.is_empty());
                below.is_some_and(|below| below.starts_with('/') || (path == "/" && !below.is_empty()))
            }
            Self::Regex(pattern) => object.path.is_some_and(|path| pattern.is_found_in(path)),
            Self::Directory => object.is_directory,
            Self::Extension => object.has_extension,
            Self::Name(own) => object.name == Some(own),
            Self::NamePrefix(own) => object.name.is_some_and(|name| name.starts_with(own.as_str())),
            Self::Word(own) => object.word == Some(own),
            Self::Protocol(own) => object.protocol == Some(*own),
            Self::Address(host, port) => object.address.is_some_and(|(to, at)| {
                let is_here = ["localhost", "127.0.0.1", "::1"].contains(&to);
                (host == "*" || is_here) && (port == "*" || *port == at.to_string())
            }),
        }
    }
}

#[test]
fn profiles_that_the_system_would_not_take_are_refused() {
    let parameters = BTreeMap::from([("P".to_owned(), "/a".to_owned())]);
    for text in [
        "",
        "(deny default)",
        "(version 1) (allow file-raed* (literal (param \"P\")))",
        "(version 1) (allow file-read* (litteral (param \"P\")))",
        "(version 1) (allow file-read* (literal (param \"Q\")) (literal (param \"P\")))",
        "(version 1) (allow file-read* (literal \"/a/\") (literal (param \"P\")))",
        "(version 1) (allow file-read* (literal (param \"P\")) file-write*)",
        "(version 1) (allow (literal (param \"P\")))",
        "(version 1) (allow file-read* (require-not) (literal (param \"P\")))",
        "(version 1) (allow file-read* (require-all) (literal (param \"P\")))",
        "(version 1) (allow network-outbound (remote ip \"10.0.0.1:80\") (literal (param \"P\")))",
        "(version 1) (allow file-read* (regex #\"^/a(\") (literal (param \"P\")))",
        "(version 1) (if (defined? 'file-mount) (deny file-clone (literal (param \"P\"))))",
        "(version 1) (deny default)",
        "(version 1) (deny file-read* (literal (param \"P\"))",
    ] {
        assert!(Rules::parse(text, &parameters).is_err(), "{text}");
    }
    let text = "(version 1) (deny file-read* (literal (param \"P\")))";
    assert!(Rules::parse(text, &parameters).is_ok());
}

#[test]
fn the_last_rule_that_matches_decides() {
    let text = "(version 1) (deny default) (allow file-read* (subpath \"/a\")) (deny file-read* (literal \"/a/b\"))\n\
        (allow file-read-metadata (literal \"/a/b\")) (deny file-read-data)";
    let rules = Rules::parse(text, &BTreeMap::new()).unwrap();
    let ask = |reading, operation, path| rules.allows(reading, &[], operation, &Object::file(path));
    for reading in READINGS {
        assert!(ask(reading, "file-read-xattr", "/a/c"));
        assert!(!ask(reading, "file-read-xattr", "/a/b"));
        assert!(ask(reading, "file-read-metadata", "/a/b"));
        assert!(!ask(reading, "file-read-xattr", "/ab"));
        assert!(!ask(reading, "file-write-data", "/a"));
    }
    assert!(!ask(Reading::LastMatch, "file-read-data", "/a"));
    assert!(ask(Reading::FiltersFirst, "file-read-data", "/a"));
    assert!(ask(Reading::LastMatch, "file-map-executable", "/"), "`default` does not speak of it");
}
