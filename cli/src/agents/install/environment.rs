//! codex's list of environments (`environments.toml`), with Stockade's as the only one.
//!
//! codex starts the program that an environment names and has it run every command. Its own way to run commands has to be
//! left out of the list (`include_local`), or the model could choose that one.

use toml::{Table, Value};

/// Why the list can't be changed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EnvironmentError {
    #[error("it is no TOML: {0}")]
    NoToml(String),
    #[error("`{key}` is `{value}` there: take it out, or change it by hand")]
    Taken { key: &'static str, value: String },
    #[error("it has an environment `stockade` of another kind: take it out")]
    Other,
    #[error("it would mean something else after the change: change it by hand")]
    Meaning,
}

const HEAD: &str = "default = \"stockade\"\ninclude_local = false\n";

fn tail(program: &str) -> String {
    let program = Value::String(program.to_owned());
    format!("\n[[environments]]\nid = \"stockade\"\nprogram = {program}\nargs = [\"exec-server\"]\n")
}

fn entry(program: &str) -> Value {
    let mut entry = Table::new();
    entry.insert(String::from("id"), Value::from("stockade"));
    entry.insert(String::from("program"), Value::from(program));
    entry.insert(String::from("args"), Value::from(vec!["exec-server"]));
    Value::Table(entry)
}

fn parse(text: &str) -> Result<Table, EnvironmentError> {
    text.parse::<Table>().map_err(|error| EnvironmentError::NoToml(error.message().to_owned()))
}

/// The program that the list has for Stockade's environment, if it is the default.
pub(super) fn program_in(text: &str) -> Result<Option<String>, EnvironmentError> {
    let list = parse(text)?;
    let environments = list.get("environments").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let Some(found) = environments.iter().find(|entry| entry.get("id").and_then(Value::as_str) == Some("stockade"))
    else {
        return Ok(None);
    };
    let program = found.get("program").and_then(Value::as_str);
    let Some(program) = program.filter(|program| *found == entry(program)) else { return Err(EnvironmentError::Other) };
    Ok(Some(program.to_owned()))
}

/// Whether nothing else can be chosen there.
pub(super) fn is_default(text: &str) -> bool {
    let Ok(list) = parse(text) else { return false };
    list.get("default").and_then(Value::as_str) == Some("stockade")
        && list.get("include_local").and_then(Value::as_bool) == Some(false)
}

/// The list with Stockade's environment.
pub(super) fn added(text: &str, program: &str) -> Result<String, EnvironmentError> {
    let mut expected = parse(text)?;
    for key in ["default", "include_local"] {
        if let Some(value) = expected.get(key) {
            return Err(EnvironmentError::Taken { key, value: value.to_string() });
        }
    }
    expected.insert(String::from("default"), Value::from("stockade"));
    expected.insert(String::from("include_local"), Value::from(false));
    let list = expected.entry("environments").or_insert_with(|| Value::Array(Vec::new()));
    list.as_array_mut().ok_or(EnvironmentError::Meaning)?.push(entry(program));
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let changed = format!("{HEAD}{text}{end}{}", tail(program));
    match parse(&changed) {
        Ok(found) if found == expected => Ok(changed),
        Ok(_) | Err(_) => Err(EnvironmentError::Meaning),
    }
}

/// The list without what [`added`] has put there.
pub(super) fn removed(text: &str) -> Result<String, EnvironmentError> {
    let Some(program) = program_in(text)? else { return Ok(text.to_owned()) };
    let changed = text.replacen(HEAD, "", 1).replacen(&tail(&program), "", 1);
    match program_in(&changed) {
        Ok(None) if !is_default(&changed) => Ok(changed),
        Ok(_) | Err(_) => Err(EnvironmentError::Meaning),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_kept_and_given_back() {
        for text in
            ["", "# mine\n", "# mine\n[[environments]]\nid = \"far\"\nurl = \"ws://x\" # there\n", "[other]\na = 1"]
        {
            let changed = added(text, "/bin/it's \"stockade\"").unwrap();
            assert!(is_default(&changed) && changed.contains(text), "{changed}");
            assert_eq!(program_in(&changed).unwrap().as_deref(), Some("/bin/it's \"stockade\""));
            assert_eq!(removed(&changed).unwrap().trim_end(), text.trim_end());
        }
    }

    #[test]
    fn what_is_a_persons_own_choice_is_not_changed() {
        for text in [
            "default = \"far\"\n",
            "include_local = true\n",
            "environments = 1\n",
            "environments = []\n",
            "a = ",
            "[[environments]]\nid = \"x\"\n[environments.y]\nz = 1\n",
        ] {
            let result = added(text, "/bin/stockade");
            assert!(result.is_err() || text.contains("[environments.y]"), "{text}: {result:?}");
        }
        assert_eq!(program_in("[[environments]]\nid = \"stockade\"\nurl = \"ws://x\"\n"), Err(EnvironmentError::Other));
    }
}
