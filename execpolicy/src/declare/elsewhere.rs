//! The arguments of a rule that speak of a program which runs elsewhere than the command that starts it.

use super::text;
use crate::Layer;
use crate::language::{Located, Value};
use crate::rule::Breadth;
use crate::source::{Problem, quoted};

/// Beginnings of names of variables that choose what code a program runs, or which repository or settings it uses. All
/// names are compared in capitals.
const STEERING_STARTS: &[&str] = &[
    "BASH", "CARGO_", "DOCKER_", "DYLD_", "GCONV_", "GIT_", "JAVA_", "LD_", "NODE_", "NPM_", "PERL", "PYTHON", "RUBY",
    "RUSTC", "SSH_", "SSL_", "XDG_",
];

/// Ends of such names.
const STEERING_ENDS: &[&str] = &[
    "ASKPASS", "EDITOR", "FLAGS", "PAGER", "PROXY", "_CMD", "_COMMAND", "_CONF", "_CONFIG", "_DIR", "_FILE", "_HOME",
    "_OPTIONS", "_OPTS", "_PATH", "_PRELOAD", "_ROOT", "_SHELL", "_WRAPPER",
];

/// Such names.
const STEERING_NAMES: &[&str] = &[
    "AR",
    "AS",
    "BROWSER",
    "CC",
    "CDPATH",
    "CLASSPATH",
    "CPP",
    "CURL_HOME",
    "CXX",
    "ENV",
    "FC",
    "GLIBC_TUNABLES",
    "HOME",
    "IFS",
    "KUBECONFIG",
    "LD",
    "LESSCLOSE",
    "LESSOPEN",
    "LOCPATH",
    "MAKE",
    "MAKEFILES",
    "NLSPATH",
    "OPENSSL_CONF",
    "PATH",
    "PS4",
    "PWD",
    "SHELL",
    "SHELLOPTS",
    "TMPDIR",
    "VISUAL",
    "WGETRC",
];

fn is_steering(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    STEERING_STARTS.iter().any(|start| name.starts_with(start))
        || STEERING_ENDS.iter().any(|end| name.ends_with(end))
        || STEERING_NAMES.contains(&name.as_str())
}

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
    if is_steering(&name) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_choose_code_or_settings_are_known() {
        let names = "MAKEFLAGS RUSTC_WRAPPER CC CXX CARGO_HOME SSH_ASKPASS GIT_DIR LESSOPEN MANPAGER PAGER EDITOR VISUAL \
            PS4 SHELLOPTS BASHOPTS OPENSSL_CONF LOCPATH CURL_HOME WGETRC KUBECONFIG DOCKER_HOST GLIBC_TUNABLES HOME \
            XDG_DATA_DIRS NODE_OPTIONS PYTHONPATH PERL5LIB RUBYOPT JAVA_TOOL_OPTIONS X_PATH X_HOME X_CONFIG X_CONF \
            X_WRAPPER X_COMMAND X_OPTIONS X_OPTS CFLAGS https_proxy ALL_PROXY npm_config_registry LD_PRELOAD";
        for name in names.split_whitespace() {
            assert!(is_steering(name), "{name}");
        }
        for name in ["CI", "FLAVOUR", "TERM", "LANG", "DEPLOY_TARGET"] {
            assert!(!is_steering(name), "{name}");
        }
    }
}
