//! Claude Code's `permissions`: lists of rules, of which `deny` comes before `ask` before `allow`.
//!
//! Rules for other tools than `Bash` stay in force in Claude Code itself. Those that a sandbox can enforce for
//! commands, too, are imported; the others are reported.

use std::path::Path;

use serde_json::Value;

use super::imported::{Imported, Verdict};
use super::words;
use super::{ImportError, parsed_json};
use crate::flags;

/// Reads a settings file. `project` is the base of its relative paths.
pub(super) fn read(text: &str, project: Option<&Path>) -> Result<Imported, ImportError> {
    let settings = parsed_json(text)?;
    let mut imported = Imported::default();
    let permissions = match settings.get("permissions") {
        None => return Ok(imported),
        Some(Value::Object(permissions)) => permissions,
        Some(_) => return Err(ImportError::Form { key: String::from("permissions"), expected: "a table" }),
    };
    // Claude Code asks about every command that no rule allows and that does more than read.
    imported.set(None, "ask", toml::Value::from("untrusted"));
    let mut restricts_web = false;
    for (key, value) in permissions {
        let place = format!("permissions.{key}");
        let verdict = match key.as_str() {
            "deny" => Verdict::Deny,
            "ask" => Verdict::Ask,
            "allow" => Verdict::Allow,
            "defaultMode" => {
                mode(&mut imported, &place, value);
                continue;
            }
            "additionalDirectories" => {
                let why =
                    "it lets Claude Code ask about files there; `writable_roots` would let every command write them";
                imported.left_out(&place, &value.to_string(), why);
                continue;
            }
            _ => {
                imported.left_out(&place, &value.to_string(), "it says nothing of commands that Stockade knows");
                continue;
            }
        };
        let list = value.as_array().ok_or_else(|| ImportError::Form { key: place.clone(), expected: "a list" })?;
        for rule in list {
            let Some(rule) = rule.as_str() else {
                return Err(ImportError::Form { key: place, expected: "a list of texts" });
            };
            self::rule(&mut imported, &place, rule, verdict, project);
            restricts_web |= is_of_web(rule) && verdict != Verdict::Allow && denied_host(rule, verdict).is_none();
        }
    }
    // Such a line comes before those that allow, and `allow_hosts` would hold beside it.
    if restricts_web {
        let why = "another line denies or asks about `WebFetch`, which comes first; name the hosts by hand";
        imported.without_setting(Some("sandbox"), "allow_hosts", why);
    }
    Ok(imported)
}

fn mode(imported: &mut Imported, place: &str, value: &Value) {
    let text = value.to_string();
    let at = (place, text.as_str());
    let untrusted = || toml::Value::from("untrusted");
    match value.as_str() {
        Some("default") => imported.value(at, (None, "ask"), untrusted(), None),
        Some("acceptEdits") => imported.value(at, (None, "ask"), untrusted(), None),
        Some("plan") => imported.value(at, (Some("sandbox"), "mode"), toml::Value::from("read-only"), None),
        Some("dontAsk") => imported.lost(
            place,
            &text,
            "it refuses what no rule allows; `ask = \"never\"` would run that in the sandbox instead",
        ),
        _ => imported.left_out(place, &text, "no mode drops the questions here: say with `ask` when to ask"),
    }
}

fn rule(imported: &mut Imported, place: &str, text: &str, verdict: Verdict, project: Option<&Path>) {
    let (tool, content) = match text.split_once('(') {
        Some((tool, rest)) => (tool.trim(), rest.trim_end().strip_suffix(')')),
        None => (text.trim(), Some("")),
    };
    let kept = "Claude Code itself holds it, as before";
    match (tool, content, verdict) {
        (_, None, Verdict::Allow) => imported.left_out(place, text, "its brackets are not closed"),
        (_, None, Verdict::Ask | Verdict::Deny) => imported.lost(place, text, "its brackets are not closed"),
        ("Bash", Some(content), verdict) => {
            imported.command(place, text, verdict, &words::with_wildcards(content));
        }
        ("Read", Some(content), Verdict::Deny) => match denied_paths(content, project) {
            Ok(paths) => imported.value(
                (place, text),
                (Some("sandbox"), "deny_read"),
                toml::Value::from(paths),
                Some("commands can't read it either, and no approval lifts that"),
            ),
            Err(why @ (PathError::NoProject | PathError::Exception)) => {
                imported.left_out(place, text, &format!("{why}; {kept}"));
            }
            Err(why @ (PathError::Form | PathError::Everything)) => imported.lost(place, text, &why.to_string()),
        },
        ("WebFetch", Some(content), verdict) => web(imported, place, text, content, verdict),
        (_, Some(_), Verdict::Allow) => imported.left_out(
            place,
            text,
            "it is for a tool of Claude Code's own, and would be for every command here; Claude Code itself still allows it",
        ),
        (_, Some(_), Verdict::Ask | Verdict::Deny) => imported.left_out(place, text, kept),
    }
}

/// Whether a rule is about `WebFetch`, also by a pattern of tools.
fn is_of_web(rule: &str) -> bool {
    let tool = rule.split_once('(').map_or(rule, |(tool, _)| tool).trim();
    let by_pattern = tool.split_once('*').is_some_and(|(start, _)| "WebFetch".starts_with(start));
    by_pattern || tool.starts_with("WebFetch")
}

/// The host of a rule that becomes `deny_hosts`, which holds against `allow_hosts`.
fn denied_host(rule: &str, verdict: Verdict) -> Option<&str> {
    let content = rule.trim().strip_prefix("WebFetch")?.trim().strip_prefix('(')?.strip_suffix(')')?;
    host(content).filter(|_| verdict == Verdict::Deny)
}

fn host(content: &str) -> Option<&str> {
    content.strip_prefix("domain:").filter(|host| flags::allowed_host(host).is_ok() && !host.contains(['/', ':']))
}

fn web(imported: &mut Imported, place: &str, text: &str, content: &str, verdict: Verdict) {
    match (host(content), verdict) {
        (Some(host), Verdict::Allow) => imported.value(
            (place, text),
            (Some("sandbox"), "allow_hosts"),
            toml::Value::from(vec![format!("{host}:443")]),
            Some("by HTTPS alone; commands can reach it, too, which reach every host without Stockade"),
        ),
        (Some(host), Verdict::Deny) => imported.value(
            (place, text),
            (Some("sandbox"), "deny_hosts"),
            toml::Value::from(vec![host.to_owned()]),
            Some("commands can't reach it either"),
        ),
        (Some(_) | None, Verdict::Ask) | (None, Verdict::Allow | Verdict::Deny) => {
            imported.left_out(
                place,
                text,
                "Claude Code itself holds it, as before; commands have no network unless granted",
            );
        }
    }
}

/// Why a path can't be converted for `deny_read`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum PathError {
    #[error("its pattern has a form that `deny_read` does not know")]
    Form,
    #[error("it means everything, or is a pattern that `deny_read` does not know")]
    Everything,
    #[error("it excepts files from other lines, which stay denied here")]
    Exception,
    #[error("it is relative to a project: name that with `--project DIR`")]
    NoProject,
}

/// Converts a path, with each of its alternatives (`{a,b}`).
fn denied_paths(content: &str, project: Option<&Path>) -> Result<Vec<String>, PathError> {
    if content.trim_start().starts_with('!') {
        return Err(PathError::Exception);
    }
    let Some((before, rest)) = content.split_once('{') else { return Ok(vec![denied_path(content, project)?]) };
    // Neither nested ones nor several.
    let (inside, after) = rest.split_once('}').ok_or(PathError::Form)?;
    inside.split(',').map(|one| denied_path(&format!("{before}{one}{after}"), project)).collect()
}

/// Converts a path of Claude Code, which has the syntax of `.gitignore` except for its beginning, for `deny_read`.
fn denied_path(content: &str, project: Option<&Path>) -> Result<String, PathError> {
    let content = content.trim();
    let is_known = |c: char| !c.is_control() && !"{}!\\()\"'".contains(c);
    if content.is_empty() || !content.chars().all(is_known) || content.contains("..") {
        return Err(PathError::Form);
    }
    let root = || project.and_then(Path::to_str).ok_or(PathError::NoProject);
    let path = if let Some(path) = content.strip_prefix("//") {
        format!("/{path}")
    } else if content.starts_with("~/") {
        content.to_owned()
    } else if let Some(path) = content.strip_prefix('/').or_else(|| content.strip_prefix("./")) {
        format!("{}/{path}", root()?)
    } else if content.trim_end_matches('/').contains('/') {
        format!("{}/{content}", root()?)
    } else {
        // The name at any depth.
        format!("{}/**/{content}", root()?)
    };
    // All contents of a directory are the directory.
    let mut path = path.trim_end_matches('/');
    while let Some(above) = path.strip_suffix("/**") {
        path = above.trim_end_matches('/');
    }
    let named = path.split('/').all(|name| name == "**" || !name.contains("**"));
    let is_all = path.is_empty() || path == "~" || root() == Ok(path);
    if is_all || !named || path.starts_with("/**") {
        return Err(PathError::Everything);
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_are_where_claude_code_sees_them() {
        let project = Some(Path::new("/p"));
        for (content, expected) in [
            ("./.env", "/p/.env"),
            ("/src/**", "/p/src"),
            ("secrets/**", "/p/secrets"),
            (".env", "/p/**/.env"),
            ("**/*.pem", "/p/**/*.pem"),
            ("~/.zshrc", "~/.zshrc"),
            ("//etc/shadow", "/etc/shadow"),
            ("./.env.*", "/p/.env.*"),
        ] {
            assert_eq!(denied_paths(content, project), Ok(vec![expected.to_owned()]), "{content}");
        }
        let both = ["/p/secret.env", "/p/b"].map(String::from).to_vec();
        assert_eq!(denied_paths("./{secret.env,b}", project), Ok(both));
        for (content, why) in [
            ("", PathError::Form),
            ("../x", PathError::Form),
            ("{a,{b,c}}", PathError::Form),
            ("{a,b}{c,d}", PathError::Form),
            ("{a", PathError::Form),
            ("{a,}", PathError::Form),
            ("**", PathError::Everything),
            ("//**", PathError::Everything),
            ("~/**", PathError::Everything),
            ("./{a,**}", PathError::Everything),
            ("a**b", PathError::Everything),
            ("!x", PathError::Exception),
        ] {
            assert_eq!(denied_paths(content, project), Err(why), "{content}");
        }
        assert_eq!(denied_paths(".env", None), Err(PathError::NoProject));
    }

    #[test]
    fn hosts_are_not_granted_beside_a_line_that_restricts() {
        let settings = |permissions: serde_json::Value| {
            let text = serde_json::json!({ "permissions": permissions }).to_string();
            read(&text, None).unwrap().settings("x").unwrap_or_default()
        };
        let allow = ["WebFetch(domain:a.example)"];
        for restricting in [
            "WebFetch",
            "WebFetch(*)",
            "WebFetch(domain:*)",
            "*",
            "Web*",
            "WebFetch(x",
            "WebFetch:*",
            "WebFetch (domain:b.example/c)",
        ] {
            for list in ["deny", "ask"] {
                let told = settings(serde_json::json!({ "allow": allow, list: [restricting] }));
                assert!(!told.contains("allow_hosts"), "{list} {restricting}: {told}");
            }
        }
        let told = settings(serde_json::json!({ "allow": allow, "ask": ["WebFetch(domain:a.example)"] }));
        assert!(!told.contains("allow_hosts"), "{told}");
        let told = settings(
            serde_json::json!({ "allow": allow, "deny": ["WebFetch(domain:b.example)", "WebSearch", "Read(x)"] }),
        );
        assert!(told.contains("allow_hosts") && told.contains("deny_hosts"), "{told}");
    }

    proptest! {
        #[test]
        fn any_settings_are_read_or_refused(rule in "[BashRed(): *./~A-Z]{0,30}", text in any::<String>()) {
            let _ = read(&text, None);
            for list in ["deny", "ask", "allow"] {
                let settings = serde_json::json!({ "permissions": { list: [rule, text] } }).to_string();
                let imported = read(&settings, Some(Path::new("/p"))).unwrap();
                // For any input each line is reported, and the rules are valid.
                prop_assert_eq!(imported.lines.len(), 2);
                prop_assert!(imported.rules("x").is_ok());
            }
        }
    }
}
