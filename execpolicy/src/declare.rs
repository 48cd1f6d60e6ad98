//! Turns the calls of a file into rules, and checks each argument.

mod elsewhere;

use std::ffi::OsStr;

use stockade_protocol::{AbsPath, Decision, HostPattern};

use crate::language::{Call, Function, Located, Value};
use crate::network::{NetworkRule, parse_protocol};
use crate::rule::{Extent, HostExecutable, Origin, PatternToken, Placement, PrefixRule};
use crate::source::{Problem, Source, Span, quoted};
use crate::{Layer, examples, program};

/// Everything that one file declares.
#[derive(Debug, Default)]
pub(crate) struct Declarations {
    pub(crate) prefix_rules: Vec<PrefixRule>,
    pub(crate) host_executables: Vec<HostExecutable>,
    pub(crate) network_rules: Vec<NetworkRule>,
}

/// Reads a file, and checks the examples of its rules.
pub(crate) fn declare(source: &Source<'_>, layer: Layer, home: Option<&OsStr>) -> Result<Declarations, Problem> {
    let calls = crate::language::read(source)?;
    let mut out = Declarations { prefix_rules: Vec::with_capacity(calls.len()), ..Declarations::default() };
    let mut examples = Vec::new();
    for call in calls {
        let Call { function, at, arguments } = call;
        let origin = Origin { layer, file: source.name.clone(), position: source.position(at) };
        match function {
            Function::PrefixRule => {
                let (rule, own_examples) = prefix_rule(at, arguments, origin)?;
                if !own_examples.is_empty() {
                    examples.push((out.prefix_rules.len(), own_examples));
                }
                out.prefix_rules.push(rule);
            }
            Function::HostExecutable => out.host_executables.push(host_executable(at, arguments, origin, home)?),
            Function::NetworkRule => out.network_rules.push(network_rule(at, arguments, origin)?),
        }
    }
    // Only now, because an example may name a path that a later line lists.
    let trusted = out.host_executables.iter().flat_map(|entry| &entry.paths).collect();
    for (index, own_examples) in &examples {
        if let Some(rule) = out.prefix_rules.get(*index) {
            examples::check(rule, own_examples, &trusted)?;
        }
    }
    Ok(out)
}

type Arguments<'a> = [Option<Located<'a>>; crate::language::PARAMETERS];

fn prefix_rule(
    at: Span,
    arguments: Arguments<'_>,
    origin: Origin,
) -> Result<(PrefixRule, examples::Examples), Problem> {
    let [pattern, decision, matching, not_matching, justification, exact, outside, profile, permissions, environment] =
        arguments;
    let pattern = required(
        pattern,
        at,
        "`pattern`",
        "give the words that a command starts with: `pattern=[\"git\", \"status\"]`",
    )?;
    let decision = optional(decision).map_or(Ok(Decision::Allow), command_decision)?;
    let placement = placement(optional(outside), decision, origin.layer)?;
    let profiles = profiles(optional(profile), decision, placement)?;
    let grants = !profiles.is_empty() || placement == Some(Placement::Outside);
    let rule = PrefixRule {
        pattern: pattern_tokens(pattern)?,
        extent: extent(optional(exact), decision)?,
        decision,
        breadth: elsewhere::breadth(optional(permissions), &profiles, origin.layer)?,
        environment: elsewhere::environment(optional(environment), grants, origin.layer)?,
        profiles,
        placement,
        justification: justification_text(justification)?,
        origin,
    };
    let examples = examples::Examples {
        matching: examples::read(optional(matching))?,
        not_matching: examples::read(optional(not_matching))?,
    };
    Ok((rule, examples))
}

/// `exact = True`. A prompting or forbidding rule can't be exact: a command would evade it with one more word.
fn extent(exact: Option<Located<'_>>, decision: Decision) -> Result<Extent, Problem> {
    let Some(exact) = exact else { return Ok(Extent::Prefix) };
    let at = exact.at;
    match (truth(&exact, "`exact`")?, decision) {
        (false, _) => Ok(Extent::Prefix),
        (true, Decision::Allow) => Ok(Extent::Exact),
        (true, Decision::Prompt | Decision::Forbidden) => Err(Problem::new(
            at,
            "`exact` in a rule that does not allow: one more word would evade it",
            "leave `exact` out: the rule then holds for every command that starts with the pattern",
        )),
    }
}

/// `outside = True`. A project can't let its commands leave the sandbox that protects its user.
fn placement(outside: Option<Located<'_>>, decision: Decision, layer: Layer) -> Result<Option<Placement>, Problem> {
    let Some(outside) = outside else { return Ok(None) };
    let at = outside.at;
    match (truth(&outside, "`outside`")?, decision, layer) {
        (false, ..) => Ok(Some(Placement::Inside)),
        (true, Decision::Forbidden, _) => Err(Problem::new(
            at,
            "`outside` in a rule that forbids: it is for commands that run",
            "leave `outside` out",
        )),
        (true, Decision::Allow | Decision::Prompt, Layer::Project) => Err(Problem::new(
            at,
            "`outside` in rules of a project, or in a file that commands may write",
            "leave `outside` out, or move the rule to a file of your own that commands can't write, such as one in \
             `~/.config/stockade/rules`",
        )),
        (true, Decision::Allow | Decision::Prompt, Layer::System | Layer::User | Layer::Session) => {
            Ok(Some(Placement::Outside))
        }
    }
}

/// `profile = "npm"`, or a list of names.
fn profiles(
    profile: Option<Located<'_>>,
    decision: Decision,
    placement: Option<Placement>,
) -> Result<Vec<String>, Problem> {
    let Some(profile) = profile else { return Ok(Vec::new()) };
    let at = profile.at;
    if decision == Decision::Forbidden || placement == Some(Placement::Outside) {
        let what = "`profile` in a rule that forbids, or that lets its commands leave the sandbox";
        return Err(Problem::new(at, what, "leave `profile` out: it adds to the sandbox of commands that run"));
    }
    let help = "write the name of a profile, or a list of names: `profile=\"npm\"`";
    match profile.value {
        Value::Text(name) => Ok(vec![name.into()]),
        Value::List(items) => items.into_iter().map(|item| text(item, "an element of `profile`")).collect(),
        other @ (Value::Tuple(_) | Value::Int(_) | Value::Bool(_) | Value::None) => {
            Err(Problem::new(at, format!("`profile` is {}", other.kind()), help))
        }
    }
}

fn truth(value: &Located<'_>, what: &str) -> Result<bool, Problem> {
    match &value.value {
        Value::Bool(truth) => Ok(*truth),
        other @ (Value::Text(_) | Value::List(_) | Value::Tuple(_) | Value::Int(_) | Value::None) => {
            Err(Problem::new(value.at, format!("{what} is {}", other.kind()), "write `True` or `False`"))
        }
    }
}

const PATTERN_HELP: &str =
    "write a list whose elements are strings or lists of alternatives: `[\"git\", [\"status\", \"log\"]]`";

fn pattern_tokens(pattern: Located<'_>) -> Result<Vec<PatternToken>, Problem> {
    let at = pattern.at;
    let items = list(pattern, "`pattern`", PATTERN_HELP)?;
    let tokens = items.into_iter().map(pattern_token).collect::<Result<Vec<_>, _>>()?;
    match tokens.first() {
        None => Err(Problem::new(at, "`pattern` is empty and would match every command", PATTERN_HELP)),
        Some(program) if program.alternatives().any(str::is_empty) => {
            Err(Problem::new(at, "the program of a pattern is an empty string", PATTERN_HELP))
        }
        Some(_) => Ok(tokens),
    }
}

fn pattern_token(item: Located<'_>) -> Result<PatternToken, Problem> {
    let at = item.at;
    let alternatives = match item.value {
        Value::Text(word) => vec![pattern_word(word.into(), at)?],
        Value::List(items) => items
            .into_iter()
            .map(|item| {
                let at = item.at;
                pattern_word(text(item, "an alternative of `pattern`")?.into(), at)
            })
            .collect::<Result<_, _>>()?,
        other @ (Value::Tuple(_) | Value::Int(_) | Value::Bool(_) | Value::None) => {
            return Err(Problem::new(at, format!("an element of `pattern` is {}", other.kind()), PATTERN_HELP));
        }
    };
    if alternatives.is_empty() {
        return Err(Problem::new(at, "a list of alternatives is empty and would match nothing", PATTERN_HELP));
    }
    Ok(PatternToken { alternatives })
}

fn pattern_word(word: Box<str>, at: Span) -> Result<Box<str>, Problem> {
    if word.contains('\0') {
        return Err(Problem::new(at, "a word of `pattern` holds a NUL byte, which no command can", "remove it"));
    }
    Ok(word)
}

fn host_executable(
    at: Span,
    arguments: Arguments<'_>,
    origin: Origin,
    home: Option<&OsStr>,
) -> Result<HostExecutable, Problem> {
    let [name, paths, ..] = arguments;
    let help = "write `host_executable(name=\"git\", paths=[\"/usr/bin/git\"])`";
    let name = required(name, at, "`name`", help)?;
    let name_at = name.at;
    let name = text(name, "`name`")?;
    if name.is_empty() || name.contains(['/', '\\', '\0']) || matches!(name.as_str(), "." | "..") {
        return Err(Problem::new(name_at, format!("{} is not the bare name of a program", quoted(&name)), help));
    }
    let paths = list(required(paths, at, "`paths`", help)?, "`paths`", help)?;
    let paths = paths.into_iter().map(|path| executable_path(path, &name, home)).collect::<Result<_, _>>()?;
    Ok(HostExecutable { name, paths, origin })
}

fn executable_path(path: Located<'_>, name: &str, home: Option<&OsStr>) -> Result<AbsPath, Problem> {
    let at = path.at;
    let written = text(path, "an element of `paths`")?;
    let path = match written.strip_prefix("~/") {
        Some(rest) => below_home(rest, home, at)?,
        None => written.as_str().into(),
    };
    let path = AbsPath::parse(path).map_err(|invalid| {
        Problem::new(at, invalid.to_string(), "give the absolute path of the executable, without `..`")
    })?;
    let last = path.components().last().unwrap_or_default();
    if program::key(last) != program::key(name.as_bytes()) {
        let help = format!("its last component has to be {}, or it needs an entry of its own", quoted(name));
        return Err(Problem::new(at, format!("{} is not a path of {}", quoted(&written), quoted(name)), help));
    }
    Ok(path)
}

/// `~/` is the home directory of the session's user, as in codex.
fn below_home(rest: &str, home: Option<&OsStr>, at: Span) -> Result<stockade_protocol::RawText, Problem> {
    let Some(home) = home.filter(|home| !home.is_empty()) else {
        return Err(Problem::new(at, "`~` has no meaning because `HOME` is not set", "write the absolute path"));
    };
    let mut path = home.as_encoded_bytes().to_vec();
    path.push(b'/');
    path.extend_from_slice(rest.as_bytes());
    Ok(path.into())
}

fn network_rule(at: Span, arguments: Arguments<'_>, origin: Origin) -> Result<NetworkRule, Problem> {
    let [host, protocol, decision, justification, port, ..] = arguments;
    let help = "write `network_rule(host=\"example.com\", protocol=\"https\", decision=\"allow\")`";
    let host = required(host, at, "`host`", help)?;
    let host_at = host.at;
    let host: HostPattern = text(host, "`host`")?.parse().map_err(|invalid: stockade_protocol::Invalid| {
        Problem::new(host_at, invalid.to_string(), "give a name or an address alone, without scheme, port or path")
    })?;
    let protocol = required(protocol, at, "`protocol`", help)?;
    let protocol_at = protocol.at;
    let written = text(protocol, "`protocol`")?;
    let protocol = parse_protocol(&written).ok_or_else(|| {
        Problem::new(
            protocol_at,
            format!("unknown protocol {}", quoted(&written)),
            "use `http`, `https`, `socks5_tcp` or `socks5_udp`",
        )
    })?;
    let decision = network_decision(required(decision, at, "`decision`", help)?)?;
    let port = optional(port).map(port_number).transpose()?;
    Ok(NetworkRule { host, protocol, port, decision, justification: justification_text(justification)?, origin })
}

fn port_number(value: Located<'_>) -> Result<u16, Problem> {
    let help = "give a number from 1 to 65535, or leave it out for every port";
    let wrong = |what: String| Problem::new(value.at, format!("`port` is {what}"), help);
    match value.value {
        Value::Int(number) => match u16::try_from(number) {
            Ok(port @ 1..) => Ok(port),
            Ok(0) | Err(_) => Err(wrong(number.to_string())),
        },
        ref other @ (Value::Text(_) | Value::List(_) | Value::Tuple(_) | Value::Bool(_) | Value::None) => {
            Err(wrong(other.kind().to_owned()))
        }
    }
}

fn command_decision(value: Located<'_>) -> Result<Decision, Problem> {
    decision(value, named_decision)
}

/// codex's network rules use `deny`, and its amendments write `ask`.
fn network_decision(value: Located<'_>) -> Result<Decision, Problem> {
    decision(value, |word| match word {
        "deny" => Some(Decision::Forbidden),
        "ask" => Some(Decision::Prompt),
        _ => named_decision(word),
    })
}

fn decision(value: Located<'_>, named: impl Fn(&str) -> Option<Decision>) -> Result<Decision, Problem> {
    let help = "use `allow`, `prompt` or `forbidden`";
    let at = value.at;
    let word = value.value.into_text().map_err(|kind| Problem::new(at, format!("`decision` is {kind}"), help))?;
    named(&word).ok_or_else(|| Problem::new(at, format!("unknown decision {}", quoted(&word)), help))
}

fn named_decision(word: &str) -> Option<Decision> {
    match word {
        "allow" => Some(Decision::Allow),
        "prompt" => Some(Decision::Prompt),
        "forbidden" => Some(Decision::Forbidden),
        _ => None,
    }
}

fn justification_text(value: Option<Located<'_>>) -> Result<Option<String>, Problem> {
    let Some(value) = optional(value) else { return Ok(None) };
    let at = value.at;
    let words = text(value, "`justification`")?;
    if words.trim().is_empty() {
        return Err(Problem::new(at, "`justification` is empty", "say why the rule exists, or leave it out"));
    }
    Ok(Some(words))
}

/// `None` is the same as leaving the argument out.
fn optional(value: Option<Located<'_>>) -> Option<Located<'_>> {
    value.filter(|value| !matches!(value.value, Value::None))
}

fn required<'a>(value: Option<Located<'a>>, call: Span, what: &str, help: &str) -> Result<Located<'a>, Problem> {
    value.ok_or_else(|| Problem::new(call, format!("{what} is missing"), help))
}

pub(crate) fn text(value: Located<'_>, what: &str) -> Result<String, Problem> {
    let wrong = |kind| Problem::new(value.at, format!("{what} is {kind}"), "write a string in quotes");
    value.value.into_text().map(Into::into).map_err(wrong)
}

pub(crate) fn list<'a>(value: Located<'a>, what: &str, help: &str) -> Result<Vec<Located<'a>>, Problem> {
    value.value.into_list().map_err(|kind| Problem::new(value.at, format!("{what} is {kind}"), help))
}
