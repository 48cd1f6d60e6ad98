//! Whether a command line in settings runs or reads a file that commands may write.
//!
//! Commands run on while `git` starts, so a file that is away now may be there then: it is the place that counts. Any
//! word may be a path, except options, numbers, and words of programs that are known here.

use super::places::Places;

/// Words of programs that are no paths.
const KNOWN_WORDS: &[(&str, &[&str])] = &[
    ("aws", &["codecommit", "credential-helper"]),
    ("emacs", &["-nw"]),
    ("emacsclient", &["-nw"]),
    ("gh", &["auth", "git-credential"]),
    ("git", &["lfs", "clean", "smudge", "filter-process", "%f"]),
    ("git-lfs", &["clean", "smudge", "filter-process", "%f"]),
    ("glab", &["auth", "git-credential"]),
    ("op", &["plugin", "run", "gh", "auth", "git-credential"]),
];

/// Options of ssh(1) with a value that is neither a file nor a command.
const SSH_PLAIN: &str = "BDJLOPQRWbcelmpw";
/// Options of ssh(1) with the path of a file.
const SSH_FILES: &str = "EFISi";
/// Parts of names of ssh_config(5) whose values are paths.
const SSH_PATHS: &[&str] = &["agent", "file", "include", "location", "path", "provider"];

/// The first word that may lead to a file of commands; `None` if there is none.
pub(super) fn steered_word(places: &Places<'_>, line: &str) -> Option<String> {
    let Some(commands) = split(places, line) else { return Some(line.to_owned()) };
    commands.iter().find_map(|words| steered(places, words))
}

fn steered(places: &Places<'_>, words: &[String]) -> Option<String> {
    let is_assignment = |word: &&String| {
        let name = word.split_once('=').map(|(name, _)| name);
        name.is_some_and(|name| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'))
    };
    let assigned = words.iter().take_while(is_assignment).count();
    let (assigned, words) = words.split_at(assigned);
    let value = |word: &&String| word.split_once('=').is_some_and(|(_, value)| is_steered(places, value));
    if let Some(word) = assigned.iter().find(value) {
        return Some(word.clone());
    }
    let (program, rest) = words.split_first()?;
    if is_steered_program(places, program) {
        return Some(program.clone());
    }
    let name = program.rsplit('/').next().unwrap_or_default();
    if name == "ssh" {
        return steered_ssh(places, rest);
    }
    let known = KNOWN_WORDS.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, words)| words);
    let is_plain = |word: &str| known.contains(&word) || (name == "less" && is_cluster(word));
    rest.iter().find(|word| !is_plain(word) && is_steered_argument(places, word)).cloned()
}

/// A program by its path, or by a name without `/`, which is searched in `PATH`.
pub(super) fn is_steered_program(places: &Places<'_>, program: &str) -> bool {
    program.contains('/') && places.word_leads_to_commands(program)
}

fn is_steered_argument(places: &Places<'_>, word: &str) -> bool {
    match (word.strip_prefix("--"), word.strip_prefix('-')) {
        (Some(option), _) => option.split_once('=').is_some_and(|(_, value)| is_steered(places, value)),
        // The value may follow the letter.
        (None, Some(option)) => option
            .chars()
            .next()
            .is_some_and(|letter| is_steered(places, option.strip_prefix(letter).unwrap_or_default())),
        (None, None) => is_steered(places, word),
    }
}

/// Whether a word, if it is a path, leads to files of commands.
fn is_steered(places: &Places<'_>, word: &str) -> bool {
    let is_number = word.chars().all(|c| c.is_ascii_digit());
    !is_number && places.word_leads_to_commands(word)
}

/// Options of less(1) in one word, none of which names a file.
fn is_cluster(word: &str) -> bool {
    let letters = word.strip_prefix('-').unwrap_or_default();
    !letters.is_empty() && letters.chars().all(|c| c.is_ascii_alphanumeric() && !"OTkot".contains(c))
}

/// The words after `ssh`. Other options are letters without a value; git adds the host and the command.
fn steered_ssh(places: &Places<'_>, words: &[String]) -> Option<String> {
    let mut left = words.iter();
    while let Some(word) = left.next() {
        let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            if is_steered(places, word) {
                return Some(word.clone());
            }
            continue;
        };
        let takes = |c: char| c == 'o' || SSH_PLAIN.contains(c) || SSH_FILES.contains(c);
        let Some((at, letter)) = letters.char_indices().find(|(_, c)| takes(*c)) else { continue };
        let value = match letters.get(at + letter.len_utf8()..).unwrap_or_default() {
            "" => left.next().map(String::as_str).unwrap_or_default(),
            attached => attached,
        };
        let is_led = match letter {
            'o' => is_steered_ssh_option(places, value),
            'F' if value == "none" => false,
            'i' | 'S' => is_steered_ssh_path(places, value),
            letter if SSH_FILES.contains(letter) => places.word_leads_to_commands(value),
            _ => false,
        };
        if is_led {
            return Some(format!("-{letter} {value}"));
        }
    }
    None
}

/// `Key=Value` or `Key Value`, as in ssh_config(5).
fn is_steered_ssh_option(places: &Places<'_>, option: &str) -> bool {
    let (key, value) = option.split_once(|c: char| c == '=' || c.is_whitespace()).unwrap_or((option, ""));
    let key = key.trim().to_ascii_lowercase();
    let value = value.trim_start_matches(|c: char| c == '=' || c.is_whitespace());
    if value.is_empty() || matches!(value, "yes" | "no" | "none") {
        return false;
    }
    if key.contains("command") {
        return steered_word(places, value).is_some();
    }
    SSH_PATHS.iter().any(|part| key.contains(part))
        && value.split_whitespace().any(|path| is_steered_ssh_path(places, path))
}

/// A path of ssh, which expands `~` itself.
fn is_steered_ssh_path(places: &Places<'_>, path: &str) -> bool {
    // A variable or a token could be any text.
    path.contains(['$', '%']) || places.leads_to_commands(path)
}

/// The commands of a line and their words; `None` if that depends on more than the text.
fn split(places: &Places<'_>, line: &str) -> Option<Vec<Vec<String>>> {
    let mut commands = vec![Vec::new()];
    let mut word: Option<String> = None;
    let mut quote = None;
    // The arguments that git adds.
    let line = line.replace("\"$@\"", " ").replace("$@", " ");
    let mut left = line.chars();
    loop {
        let next = left.next();
        let ends = next.is_none_or(|c| quote.is_none() && (c.is_whitespace() || "|&;".contains(c)));
        if ends {
            if let Some(word) = word.take() {
                // `~` was expanded where it counts, and is kept in front where it does not.
                let word = match word.strip_prefix('\0') {
                    Some(rest) => places.expand(&format!("~{rest}"))?,
                    None => word,
                };
                commands.last_mut()?.push(word);
            }
            match next {
                None if quote.is_some() => return None,
                None => break,
                Some(c) if c.is_whitespace() && c != '\n' => {}
                Some(_) => commands.push(Vec::new()),
            }
            continue;
        }
        let c = next?;
        match (quote, c) {
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (Some('\''), c) => word.get_or_insert_default().push(c),
            (_, '\\') => {
                let escaped = left.next()?;
                let word = word.get_or_insert_default();
                if quote.is_some() && !"$`\"\\".contains(escaped) {
                    word.push(c);
                }
                word.push(escaped);
            }
            (_, '$' | '`' | '\0') | (None, '<' | '>' | '(' | ')' | '{' | '}' | '*' | '?' | '[' | '!' | '#') => {
                return None;
            }
            (None, '~') if word.is_none() => word = Some(String::from('\0')),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    commands.retain(|words| !words.is_empty());
    Some(commands)
}
