//! gemini-cli's settings (`tools.allowed`, `tools.core`, `tools.exclude`, and their older names) and its policies.

use serde_json::Value;
use toml::Value as Toml;

use super::imported::{Imported, Verdict};
use super::{ImportError, parsed_json, words};

const SHELL: [&str; 2] = ["run_shell_command", "ShellTool"];

/// Reads a settings file.
pub(super) fn read(text: &str) -> Result<Imported, ImportError> {
    let settings = parsed_json(text)?;
    let mut imported = Imported::default();
    let tools = settings.get("tools");
    let lists = [
        ("tools.exclude", tools.and_then(|tools| tools.get("exclude"))),
        ("excludeTools", settings.get("excludeTools")),
        ("tools.allowed", tools.and_then(|tools| tools.get("allowed"))),
        ("allowedTools", settings.get("allowedTools")),
        ("tools.core", tools.and_then(|tools| tools.get("core"))),
        ("coreTools", settings.get("coreTools")),
    ];
    for (place, list) in lists.into_iter().filter_map(|(place, list)| Some((place, list?))) {
        let entries: Option<Vec<&str>> = list.as_array().and_then(|list| list.iter().map(Value::as_str).collect());
        let form = || ImportError::Form { key: place.to_owned(), expected: "a list of texts" };
        let entries = entries.ok_or_else(form)?;
        // gemini-cli asks about every command that is not allowed.
        imported.set(None, "ask", Toml::from("untrusted"));
        if place.to_lowercase().contains("core") {
            core(&mut imported, place, &entries);
            continue;
        }
        let verdict = if place.to_lowercase().contains("exclude") { Verdict::Deny } else { Verdict::Allow };
        for entry in entries {
            match shell_entry(entry) {
                Some(command) => imported.command(place, entry, verdict, &words::prefix(command)),
                None => imported.left_out(place, entry, OWN_TOOL),
            }
        }
    }
    Ok(imported)
}

/// The command prefix of an entry, if it is about commands.
fn shell_entry(entry: &str) -> Option<&str> {
    SHELL.into_iter().find_map(|tool| {
        let rest = entry.trim().strip_prefix(tool)?;
        if rest.is_empty() { Some("") } else { rest.strip_prefix('(')?.strip_suffix(')') }
    })
}

/// The enabled tools: if commands are named, all others are refused.
fn core(imported: &mut Imported, place: &str, entries: &[&str]) {
    let shells: Vec<&str> = entries.iter().filter_map(|entry| shell_entry(entry)).collect();
    let text = serde_json::Value::from(entries.to_vec()).to_string();
    if shells.contains(&"") {
        imported.left_out(place, &text, "it lets every command be asked for, as Stockade does");
    } else {
        imported.lost(
            place,
            &text,
            "it refuses every command that it does not name, and Stockade's rules name what is refused",
        );
    }
}

/// Reads a policy file.
pub(super) fn read_policies(text: &str) -> Result<Imported, ImportError> {
    let policies: toml::Table =
        text.parse().map_err(|error: toml::de::Error| ImportError::Toml(error.message().to_owned()))?;
    let mut imported = Imported::default();
    imported.set(None, "ask", Toml::from("untrusted"));
    for (key, value) in &policies {
        let form = |expected| ImportError::Form { key: key.clone(), expected };
        let import: fn(&mut Imported, &str, &toml::Table) = match key.as_str() {
            "rule" => policy,
            "safety_checker" => checker,
            _ => {
                imported.lost(key, &one_line(value), "it is not known, and may restrict");
                continue;
            }
        };
        let listed = value.as_array().ok_or_else(|| form("a list, written with double brackets"))?;
        for (index, entry) in listed.iter().enumerate() {
            let entry = entry.as_table().ok_or_else(|| form("tables"))?;
            import(&mut imported, &format!("{key} {}", index + 1), entry);
        }
    }
    Ok(imported)
}

fn one_line(value: &Toml) -> String {
    value.to_string().replace('\n', "; ")
}

/// A program or a part of gemini-cli that looks at each use of a tool, and may deny it or ask.
fn checker(imported: &mut Imported, place: &str, entry: &toml::Table) {
    let text = one_line(&Toml::Table(entry.clone()));
    if covers_commands(entry) {
        imported.lost(place, &text, "it checks each command by a program, which no rule of Stockade does");
    } else {
        imported.left_out(place, &text, OWN_TOOL);
    }
}

const OWN_TOOL: &str = "it is for a tool of gemini-cli's own, which holds it as before";

/// Whether an entry is about the shell, or about every tool.
fn covers_commands(entry: &toml::Table) -> bool {
    let Some(tools) = texts(entry, "toolName") else { return true };
    tools.iter().any(|tool| match tool.split_once('*') {
        Some((start, _)) => SHELL.iter().any(|shell| shell.starts_with(start)),
        None => SHELL.contains(tool),
    })
}

/// The texts of a key, which may be one or a list.
fn texts<'a>(entry: &'a toml::Table, key: &str) -> Option<Vec<&'a str>> {
    match entry.get(key) {
        Some(Toml::String(one)) => Some(vec![one.as_str()]),
        Some(Toml::Array(all)) => all.iter().map(Toml::as_str).collect(),
        Some(_) | None => None,
    }
}

/// The keys of a rule that Stockade's rules express, or that say nothing of its commands. Every other one may be a
/// condition.
const KNOWN: [&str; 6] = ["toolName", "commandPrefix", "decision", "priority", "denyMessage", "deny_message"];

fn policy(imported: &mut Imported, place: &str, rule: &toml::Table) {
    let text = one_line(&Toml::Table(rule.clone()));
    let verdict = match rule.get("decision").and_then(Toml::as_str) {
        Some("allow") => Verdict::Allow,
        Some("ask_user") => Verdict::Ask,
        // An unknown value counts as the strictest.
        Some(_) | None => Verdict::Deny,
    };
    if !covers_commands(rule) {
        return imported.left_out(place, &text, OWN_TOOL);
    }
    let condition = rule.keys().find(|key| !KNOWN.contains(&key.as_str()));
    let prefixes = texts(rule, "commandPrefix");
    let named = prefixes.filter(|_| !rule.contains_key("commandRegex") && !rule.contains_key("argsPattern"));
    match (named, condition, verdict) {
        (_, Some(key), Verdict::Allow) => {
            imported.left_out(place, &text, &format!("`{key}` is a condition that rules of Stockade do not have"));
        }
        // Without its conditions it restricts more.
        (Some(prefixes), _, verdict) => {
            prefixes.into_iter().for_each(|prefix| imported.command(place, &text, verdict, &words::prefix(prefix)));
        }
        (None, _, Verdict::Allow) => {
            imported.left_out(place, &text, "it allows every command: say with `ask` when to ask")
        }
        (None, _, Verdict::Ask | Verdict::Deny) => {
            imported.lost(place, &text, "it names no beginning of commands, which a rule of Stockade needs");
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_check_that_is_lost_takes_what_it_checks_along() {
        let rule = "[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = \"make\"\ndecision = \"allow\"\n";
        for (check, is_lost) in [
            ("[[safety_checker]]\ntoolName = \"*\"\n", true),
            ("[[safety_checker]]\ntoolName = [\"run_shell_command\"]\ncommandPrefix = \"x\"\n", true),
            ("[[safety_checker]]\ntoolName = \"run_*\"\n", true),
            ("[[safety_checker]]\npriority = 1\n", true),
            ("[[safety_checker]]\ntoolName = \"write_file\"\n", false),
            ("[[other]]\na = 1\n", true),
        ] {
            let imported = read_policies(&format!("{check}{rule}")).unwrap();
            assert_eq!((imported.lines.len(), imported.has_losses()), (2, is_lost), "{check}");
            let rules = imported.without_what_may_be_covered().rules("x").unwrap().unwrap_or_default();
            assert_eq!(rules.contains("make"), !is_lost, "{check}: {rules}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in any::<String>(), entry in "[run_shelcomad()A-Z *]{0,30}") {
            let settings = serde_json::json!({ "tools": { "exclude": [entry], "allowed": [text] } }).to_string();
            prop_assert_eq!(read(&settings).unwrap().lines.len(), 2);
            let _ = (read(&text), read_policies(&text));
            let policy = format!("[[rule]]\ntoolName = \"run_shell_command\"\ncommandPrefix = {}\ndecision = \"deny\"\n", Toml::from(entry));
            prop_assert_eq!(read_policies(&policy).unwrap().lines.len(), 1);
        }
    }
}
