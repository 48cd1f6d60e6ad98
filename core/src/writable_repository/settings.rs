//! The settings that `git` reads, with the files that they include.
//!
//! The reader follows git's own (`config.c`, git-config(1)): what git would refuse is an error here, and so is what can't
//! be read in full. A file that commands may write is an error as well, also if it does not exist yet.

use std::fs;
use std::io::Read as _;
use std::iter::Peekable;
use std::path::{Path, PathBuf};
use std::str::Chars;

use super::places::Places;

/// Limit on a settings file.
const MOST_BYTES: u64 = 1024 * 1024;

/// Git's limit on includes within includes.
const DEEPEST: usize = 10;

/// One value of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// In lower case.
    pub(crate) section: String,
    pub(crate) subsection: Option<String>,
    /// In lower case.
    pub(crate) key: String,
    /// `None` for a key alone, which means true.
    pub(crate) value: Option<String>,
    pub(crate) file: PathBuf,
    pub(crate) scope: Scope,
}

/// Whether a setting always counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Always,
    /// It is in a file that is included on a condition (`includeIf`).
    OnCondition,
}

impl Setting {
    /// The name as git writes it.
    pub(crate) fn name(&self) -> String {
        match &self.subsection {
            Some(subsection) => format!("{}.{subsection}.{}", self.section, self.key),
            None => format!("{}.{}", self.section, self.key),
        }
    }

    pub(crate) fn text(&self) -> &str {
        self.value.as_deref().unwrap_or_default()
    }

    pub(crate) fn is(&self, section: &str, key: &str) -> bool {
        self.section == section && self.key == key
    }
}

/// All settings of these files.
pub(super) fn read_all(places: &Places<'_>, files: &[PathBuf]) -> Result<Vec<Setting>, String> {
    let mut all = Vec::new();
    for file in files {
        read_file(places, file, Scope::Always, 0, &mut all)?;
    }
    Ok(all)
}

fn read_file(
    places: &Places<'_>,
    file: &Path,
    scope: Scope,
    depth: usize,
    all: &mut Vec<Setting>,
) -> Result<(), String> {
    let shown = file.display();
    if places.is_commands_own(file) {
        return Err(format!("commands may write the git settings in `{shown}`"));
    }
    if depth > DEEPEST {
        return Err(format!("the git settings in `{shown}` are included too deeply"));
    }
    let text = text_of(file).map_err(|()| format!("the git settings in `{shown}` can't be read"))?.unwrap_or_default();
    let found = parse(&text, file, scope).ok_or_else(|| format!("the git settings in `{shown}` can't be parsed"))?;
    for setting in found {
        let included = match (setting.section.as_str(), setting.key.as_str()) {
            ("include", "path") => Some(scope),
            ("includeif", "path") => Some(Scope::OnCondition),
            _ => None,
        };
        if let Some(scope) = included {
            let bases = [file.parent().unwrap_or(file).to_owned()];
            let paths = places.resolve(setting.text(), &bases);
            let paths = paths.ok_or_else(|| {
                format!("`{}` in `{shown}` names `{}`: write an absolute path", setting.name(), setting.text())
            })?;
            for path in paths {
                read_file(places, &path, scope, depth + 1, all)?;
            }
        }
        all.push(setting);
    }
    Ok(())
}

/// The text of a small regular file; `None` if there is none.
pub(super) fn text_of(path: &Path) -> Result<Option<String>, ()> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() <= MOST_BYTES => {}
        Ok(_) => return Err(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(_) => return Err(()),
    }
    let mut text = String::new();
    let read = fs::File::open(path).and_then(|file| file.take(MOST_BYTES).read_to_string(&mut text));
    read.map(|_| Some(text)).map_err(drop)
}

/// The settings in a text; `None` if git would not accept it.
fn parse(text: &str, file: &Path, scope: Scope) -> Option<Vec<Setting>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    let mut left = text.chars().peekable();
    let mut heading: Option<(String, Option<String>)> = None;
    let mut found = Vec::new();
    while let Some(next) = left.next() {
        match next {
            '#' | ';' => while left.next_if(|c| *c != '\n').is_some() {},
            '[' => heading = Some(read_heading(&mut left)?),
            c if is_space(c) => {}
            c if c.is_ascii_alphabetic() => {
                let mut key = String::from(c.to_ascii_lowercase());
                while let Some(c) = left.next_if(|c| is_key(*c)) {
                    key.push(c.to_ascii_lowercase());
                }
                while left.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
                let value = match left.next() {
                    None | Some('\n') => None,
                    Some('=') => Some(read_value(&mut left)?),
                    Some(_) => return None,
                };
                let (section, subsection) = heading.clone()?;
                found.push(Setting { section, subsection, key, value, file: file.to_owned(), scope });
            }
            _ => return None,
        }
    }
    Some(found)
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

fn is_key(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-'
}

/// `[section]`, `[section.subsection]`, which ignores case, or `[section "subsection"]`.
fn read_heading(left: &mut Peekable<Chars<'_>>) -> Option<(String, Option<String>)> {
    let mut name = String::new();
    loop {
        match left.next()? {
            ']' => break,
            c if is_key(c) || c == '.' => name.push(c.to_ascii_lowercase()),
            ' ' | '\t' => {
                while left.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
                return read_quoted_heading(name, left);
            }
            _ => return None,
        }
    }
    Some(match name.split_once('.') {
        Some((section, subsection)) => (section.to_owned(), Some(subsection.to_owned())),
        None => (name, None),
    })
}

fn read_quoted_heading(name: String, left: &mut Peekable<Chars<'_>>) -> Option<(String, Option<String>)> {
    left.next_if_eq(&'"')?;
    let mut subsection = String::new();
    loop {
        match left.next()? {
            '\n' => return None,
            '"' => break,
            '\\' => subsection.push(left.next().filter(|c| *c != '\n')?),
            c => subsection.push(c),
        }
    }
    left.next_if_eq(&']')?;
    Some(match name.split_once('.') {
        Some((section, more)) => (section.to_owned(), Some(format!("{more}.{subsection}"))),
        None => (name, Some(subsection)),
    })
}

fn read_value(left: &mut Peekable<Chars<'_>>) -> Option<String> {
    let (mut value, mut kept, mut is_quoted) = (String::new(), 0, false);
    loop {
        match left.next() {
            None | Some('\n') if is_quoted => return None,
            None | Some('\n') => break,
            Some(c) if is_space(c) && !is_quoted => {
                if !value.is_empty() {
                    value.push(c);
                }
                continue;
            }
            Some('#' | ';') if !is_quoted => {
                while left.next_if(|c| *c != '\n').is_some() {}
                continue;
            }
            Some('"') => is_quoted = !is_quoted,
            Some('\\') => match left.next() {
                None | Some('\n') => {}
                Some('t') => value.push('\t'),
                Some('b') => value.push('\u{8}'),
                Some('n') => value.push('\n'),
                Some(c @ ('\\' | '"')) => value.push(c),
                Some(_) => return None,
            },
            Some(c) => value.push(c),
        }
        kept = value.len();
    }
    value.truncate(kept);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(text: &str) -> Option<Vec<(String, Option<String>)>> {
        let found = parse(text, Path::new("/x"), Scope::Always)?;
        Some(found.into_iter().map(|setting| (setting.name(), setting.value)).collect())
    }

    #[test]
    fn settings_are_read_as_git_reads_them() {
        let text = "\u{feff}# a\n[Core] HooksPath = a b  ; c\r\n\tbare\n[remote \"O\\\"r\"]url=\"x ;y\" z\\\n w\n\
                    [Remote.Up]\n\turl = a\\tb\n[alias]\n  x = \"!f() { \\\"$1\\\"; }\" # no\n empty =\n";
        let wanted = [
            ("core.hookspath", Some("a b")),
            ("core.bare", None),
            ("remote.O\"r.url", Some("x ;y z w")),
            ("remote.up.url", Some("a\tb")),
            ("alias.x", Some("!f() { \"$1\"; }")),
            ("alias.empty", Some("")),
        ];
        let wanted: Vec<_> =
            wanted.into_iter().map(|(name, value)| (name.to_owned(), value.map(str::to_owned))).collect();
        assert_eq!(pairs(text), Some(wanted));
        for broken in
            ["x = 1\n", "[core\n", "[core]\nx y\n", "[core]\nx = \"a\n", "[core]\nx = \\q\n", "[core \"a\n\"]\n", "=\n"]
        {
            assert_eq!(pairs(broken), None, "{broken}");
        }
    }
}
