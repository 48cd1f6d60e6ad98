//! codex's list of environments (`environments.toml`), with Stockade's as the only one.
//!
//! codex starts the program of an environment, which runs every command. Its local environment has to be excluded
//! (`include_local`), or the model could choose it.

use toml::{Table, Value};

/// Why the list can't be changed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EnvironmentError {
    #[error("it is not valid TOML: {0}")]
    NoToml(String),
    #[error("`{key}` is `{value}` there: take it out, or change it by hand")]
    Taken { key: &'static str, value: String },
    #[error("it has an environment `stockade` that does not start `exec-server`: take it out, or give it another `id`")]
    Other,
    #[error("it would mean something else after the change: change it by hand")]
    Meaning,
}

/// Stockade's environment in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnEnvironment {
    pub(super) program: String,
    /// The arguments after `exec-server`: flags that a person has added.
    flags: Vec<String>,
}

impl OwnEnvironment {
    pub(super) fn new(program: &str) -> Self {
        Self { program: program.to_owned(), flags: Vec::new() }
    }

    fn arguments(&self) -> Vec<String> {
        [String::from("exec-server")].into_iter().chain(self.flags.iter().cloned()).collect()
    }

    fn entry(&self) -> Value {
        let mut entry = Table::new();
        entry.insert(String::from("id"), Value::from("stockade"));
        entry.insert(String::from("program"), Value::from(self.program.clone()));
        entry.insert(String::from("args"), Value::from(self.arguments()));
        Value::Table(entry)
    }

    fn text(&self) -> String {
        let (program, arguments) = (Value::from(self.program.clone()), Value::from(self.arguments()));
        format!("\n[[environments]]\nid = \"stockade\"\nprogram = {program}\nargs = {arguments}\n")
    }

    fn of(entry: &Value) -> Option<Self> {
        let program = entry.get("program")?.as_str()?.to_owned();
        let arguments: Option<Vec<&str>> = entry.get("args")?.as_array()?.iter().map(Value::as_str).collect();
        let (first, flags) = arguments.as_deref()?.split_first()?;
        let own = Self { program, flags: flags.iter().map(|flag| (*flag).to_owned()).collect() };
        (*first == "exec-server" && own.entry() == *entry).then_some(own)
    }
}

const HEAD: &str = "default = \"stockade\"\ninclude_local = false\n";

fn is_ours(entry: &Value) -> bool {
    entry.get("id").and_then(Value::as_str) == Some("stockade")
}

fn parse(text: &str) -> Result<Table, EnvironmentError> {
    text.parse::<Table>().map_err(|error| EnvironmentError::NoToml(error.message().to_owned()))
}

/// Stockade's environment, if the list has it.
pub(super) fn found_in(text: &str) -> Result<Option<OwnEnvironment>, EnvironmentError> {
    let list = parse(text)?;
    let environments = list.get("environments").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let Some(found) = environments.iter().find(|entry| is_ours(entry)) else { return Ok(None) };
    OwnEnvironment::of(found).map(Some).ok_or(EnvironmentError::Other)
}

/// Whether it is the only choice.
pub(super) fn is_default(text: &str) -> bool {
    let Ok(list) = parse(text) else { return false };
    list.get("default").and_then(Value::as_str) == Some("stockade")
        && list.get("include_local").and_then(Value::as_bool) == Some(false)
}

/// The list with Stockade's environment.
pub(super) fn added(text: &str, own: &OwnEnvironment) -> Result<String, EnvironmentError> {
    let mut expected = parse(text)?;
    for key in ["default", "include_local"] {
        if let Some(value) = expected.get(key) {
            return Err(EnvironmentError::Taken { key, value: value.to_string() });
        }
    }
    expected.insert(String::from("default"), Value::from("stockade"));
    expected.insert(String::from("include_local"), Value::from(false));
    let list = expected.entry("environments").or_insert_with(|| Value::Array(Vec::new()));
    list.as_array_mut().ok_or(EnvironmentError::Meaning)?.push(own.entry());
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let changed = format!("{HEAD}{text}{end}{}", own.text());
    match parse(&changed) {
        Ok(found) if found == expected => Ok(changed),
        Ok(_) | Err(_) => Err(EnvironmentError::Meaning),
    }
}

/// The list for a moved program: the flags of the existing environment stay.
pub(super) fn renewed(text: &str, program: &str) -> Result<String, EnvironmentError> {
    let own = match found_in(text)? {
        Some(own) => OwnEnvironment { program: program.to_owned(), ..own },
        None => OwnEnvironment::new(program),
    };
    added(&removed(text)?, &own)
}

/// The list without the additions of [`added`], even if a person moved them.
pub(super) fn removed(text: &str) -> Result<String, EnvironmentError> {
    let Some(own) = found_in(text)? else { return Ok(text.to_owned()) };
    let mut expected = parse(text)?;
    if is_default(text) {
        expected.remove("default");
        expected.remove("include_local");
    }
    let list = expected.get_mut("environments").and_then(Value::as_array_mut).ok_or(EnvironmentError::Meaning)?;
    list.retain(|entry| !is_ours(entry));
    if list.is_empty() {
        expected.remove("environments");
    }
    let as_added = text.replacen(HEAD, "", 1).replacen(&own.text(), "", 1);
    let candidates = [as_added, by_blocks(text)];
    let fits = |changed: &String| parse(changed).is_ok_and(|found| found == expected);
    candidates.into_iter().find(fits).ok_or(EnvironmentError::Meaning)
}

/// The text without the default's lines, and without the block of Stockade's environment.
fn by_blocks(text: &str) -> String {
    let mut blocks: Vec<Vec<&str>> = vec![Vec::new()];
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') {
            blocks.push(Vec::new());
        }
        blocks.last_mut().into_iter().for_each(|block| block.push(line));
    }
    let says_default = |line: &str| {
        parse(line).is_ok_and(|said| {
            said.len() == 1
                && (said.get("default") == Some(&Value::from("stockade"))
                    || said.get("include_local") == Some(&Value::from(false)))
        })
    };
    let is_own = |block: &[&str]| {
        let said = parse(&block.concat()).ok();
        said.and_then(|said| said.get("environments")?.as_array()?.first().map(is_ours)).unwrap_or(false)
    };
    let top = blocks.first().into_iter().flatten().filter(|line| !says_default(line)).copied();
    let rest = blocks.iter().skip(1).filter(|block| !is_own(block)).flatten().copied();
    top.chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_kept_and_given_back() {
        for text in
            ["", "# mine\n", "# mine\n[[environments]]\nid = \"far\"\nurl = \"ws://x\" # there\n", "[other]\na = 1"]
        {
            let own = OwnEnvironment::new("/bin/it's \"stockade\"");
            let changed = added(text, &own).unwrap();
            assert!(is_default(&changed) && changed.contains(text), "{changed}");
            assert_eq!(found_in(&changed).unwrap(), Some(own));
            assert_eq!(removed(&changed).unwrap().trim_end(), text.trim_end());
        }
    }

    /// A person's changes to the entry and its formatting are kept.
    #[test]
    fn an_entry_with_flags_is_known_kept_and_taken_out() {
        let text = "# mine\ninclude_local = false\ndefault = 'stockade' # this\n[[environments]]\nid = \"far\"\nurl = \"ws://x\"\n\
            [[environments]]\nprogram = \"/old/stockade\"\nid = \"stockade\"\nargs = [ \"exec-server\",\n  \"--writable\", \"/c\" ]\n[x]\na = 1\n";
        let own = found_in(text).unwrap().unwrap();
        assert_eq!((own.program.as_str(), own.flags.len()), ("/old/stockade", 2));
        let changed = renewed(text, "/new/stockade").unwrap();
        let renewed = found_in(&changed).unwrap().unwrap();
        assert_eq!((renewed.program.as_str(), &renewed.flags), ("/new/stockade", &own.flags));
        assert!(is_default(&changed) && !changed.contains("/old/") && changed.contains("# mine\n"), "{changed}");
        assert_eq!(removed(text).unwrap(), "# mine\n[[environments]]\nid = \"far\"\nurl = \"ws://x\"\n[x]\na = 1\n");
    }

    #[test]
    fn what_is_a_persons_own_choice_is_not_changed() {
        for text in [
            "default = \"far\"\n",
            "include_local = true\n",
            "environments = 1\n",
            "[[environments]]\nid = \"stockade\"\nurl = \"ws://x\"\n",
            "[[environments]]\nid = \"stockade\"\nprogram = \"x\"\nargs = [\"run\"]\n",
            "[[environments]]\nid = \"stockade\"\nprogram = \"x\"\nargs = [\"exec-server\"]\nenv = { A = \"b\" }\n",
            "{",
        ] {
            assert!(renewed(text, "/bin/stockade").is_err(), "{text}");
        }
    }
}
