//! The arguments of a rule that speak of a program which runs elsewhere than the command that starts it.

use super::text;
use crate::Layer;
use crate::language::{Located, Value};
use crate::rule::Breadth;
use crate::source::{Problem, quoted};

/// Beginnings of names of variables that choose what code a program runs, or which repository or settings it uses.
const STEERING: &[&str] = &[
    "LD_",
    "DYLD_",
    "GIT_",
    "PYTHON",
    "NODE_",
    "RUBY",
    "PERL",
    "BASH_",
    "JAVA_",
    "GCONV_",
    "NPM_CONFIG_",
    "npm_config_",
];

/// Such names.
const STEERING_NAMES: &[&str] = &[
    "PATH",
    "HOME",
    "SHELL",
    "ENV",
    "IFS",
    "CDPATH",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "BROWSER",
    "TMPDIR",
    "XDG_CONFIG_HOME",
];

/// `permissions = "exact"`. A project can't take away what the session gives: its user would not notice.
pub(super) fn breadth(value: Option<Located<'_>>, profiles: &[String], layer: Layer) -> Result<Breadth, Problem> {
    let Some(value) = value else { return Ok(Breadth::Added) };
    let at = value.at;
    let help = "write `permissions=\"exact\"` beside `profile`, or leave it out";
    let word = text(value, "`permissions`")?;
    if word != "exact" {
        return Err(Problem::new(at, format!("unknown permissions {}", quoted(&word)), help));
    }
    if profiles.is_empty() {
        return Err(Problem::new(at, "`permissions` stands in a rule without `profile`", help));
    }
    own_layer(layer, at, "permissions")?;
    Ok(Breadth::Exact)
}

/// `environment = ["NAME", …]`: names of variables that a program keeps from its caller.
pub(super) fn environment(value: Option<Located<'_>>, grants: bool, layer: Layer) -> Result<Vec<String>, Problem> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let at = value.at;
    let help = "write a list of names of variables: `environment=[\"CI\"]`";
    if !grants {
        let what = "`environment` stands in a rule with neither `profile` nor `outside`";
        return Err(Problem::new(at, what, "leave it out: a program that stays where it is keeps its environment"));
    }
    own_layer(layer, at, "environment")?;
    let Value::List(items) = value.value else {
        return Err(Problem::new(at, format!("`environment` is {}", value.value.kind()), help));
    };
    items.into_iter().map(variable).collect()
}

fn variable(item: Located<'_>) -> Result<String, Problem> {
    let at = item.at;
    let name = text(item, "an element of `environment`")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(is_name) {
        return Err(Problem::new(
            at,
            format!("{} is no name of a variable", quoted(&name)),
            "use letters, digits and `_`",
        ));
    }
    if STEERING.iter().any(|start| name.starts_with(start)) || STEERING_NAMES.contains(&name.as_str()) {
        let what = format!("{} chooses which code or which settings a program uses", quoted(&name));
        return Err(Problem::new(at, what, "leave it out: the program has the session's own value"));
    }
    Ok(name)
}

fn own_layer(layer: Layer, at: crate::source::Span, name: &str) -> Result<(), Problem> {
    match layer {
        Layer::System | Layer::User | Layer::Session => Ok(()),
        Layer::Project => Err(Problem::new(
            at,
            format!("`{name}` stands in rules of a project, or in a file that commands may write"),
            "leave it out, or move the rule to a file of your own that commands can't write, such as one in \
             `~/.config/stockade/rules`",
        )),
    }
}
