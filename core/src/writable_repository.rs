//! Whether `git` would read the settings of a repository that the session's commands may have created.
//!
//! Such settings name programs to run (`core.fsmonitor`, filters, aliases), and so do the hooks of a repository that
//! is pushed to, so `git status` there may run anything. The repository of a workspace is protected from the first
//! command on. A deeper one, or one that looks bare, may have been planted before. A command line that selects another
//! repository, or names a program, stays inside.
//!
//! The user's and the system's settings are judged like the repository's: a relative path in them leads into the
//! working tree. Commands may run on beside `git`, so it is the place of a file that counts, not whether it is there.

use std::path::{Path, PathBuf};

use stockade_protocol::{AbsPath, Argv, ParsedCommand, ParsedLine, RawText, Word};
use stockade_shell_command::parse_argv;

use crate::git_words::are_harmless;
use crate::places::is_commands_own;
use crate::session::{Sandboxing, Session};

mod command_lines;
mod gitlinks;
mod named;
mod places;
mod remotes;
mod settings;
#[cfg(test)]
#[cfg(unix)]
mod tests;

pub(crate) use remotes::{connects, is_address, subcommand};

use named::{Use, why_steered};
use places::Places;
use settings::{Setting, read_all, text_of};

/// Words that change the directory, which is then unchecked.
const LEADING_ELSEWHERE: &[&[u8]] = &[b"cd", b"pushd", b"popd"];

/// Variables of `git` that name neither a path nor a program.
const HARMLESS_VARIABLES: &[&[u8]] = &[b"GIT_AUTHOR_", b"GIT_COMMITTER_", b"GIT_TERMINAL_PROMPT"];

/// Where builds of git look for the system's settings.
const SYSTEM_SETTINGS: &[&str] = &[
    "/etc/gitconfig",
    #[cfg(unix)]
    "/usr/local/etc/gitconfig",
    #[cfg(target_os = "macos")]
    "/opt/homebrew/etc/gitconfig",
    #[cfg(target_os = "macos")]
    "/Library/Developer/CommandLineTools/usr/share/git-core/gitconfig",
    #[cfg(target_os = "macos")]
    "/Applications/Xcode.app/Contents/Developer/usr/share/git-core/gitconfig",
];

/// Whether the line runs `git` in such a repository, or git could be led to what commands may write. Without a sandbox
/// there is none to leave.
pub(crate) fn has_writable_repository(session: &Session, cwd: &AbsPath, line: &ParsedLine) -> bool {
    why_git_is_steered(session, cwd, line).is_some()
}

/// Why the line's `git` could be led to what commands may write; `None` if it runs none, or it could not.
pub(crate) fn why_git_is_steered(session: &Session, cwd: &AbsPath, line: &ParsedLine) -> Option<String> {
    let program = |part: &ParsedCommand| part.words.first().and_then(Word::known).map(|word| word.as_bytes().to_vec());
    let mut runs_git = line.commands.iter().filter(|part| program(part).is_some_and(|name| is_git(&name))).peekable();
    if session.sandboxing() != Sandboxing::On || runs_git.peek().is_none() {
        return None;
    }
    let leads_elsewhere = |part: &ParsedCommand| {
        program(part).is_some_and(|name| LEADING_ELSEWHERE.contains(&name.as_slice()))
            // Other starters may change the directory (`env -C`, `find -execdir`).
            || part.via.as_ref().is_some_and(|via| !via.ends_with("sh -c"))
    };
    if line.commands.iter().any(leads_elsewhere) {
        return Some(String::from("the line may change the directory that git runs in"));
    }
    if let Some(name) = telling_variable(session) {
        return Some(format!("the session's variable `{name}` may name a repository, settings or a program"));
    }
    // An inaccessible directory is not known to be harmless.
    let Some(cwd) = cwd.to_host_path().and_then(|cwd| cwd.canonicalize().ok()) else {
        return Some(String::from("its directory can't be read"));
    };
    if has_writable_path(session) {
        return Some(String::from("commands may write a directory of `PATH`, where git looks for programs"));
    }
    let repository = match Repository::around(session, &cwd) {
        Ok(found) => found,
        Err(why) => return Some(why),
    };
    let mut files = user_settings(session);
    files.extend(repository.iter().flat_map(|repository| repository.settings.clone()));
    let top = repository.as_ref().map_or(&cwd, |repository| &repository.top);
    let places = Places::new(session, vec![top.clone(), cwd.clone()]);
    let settings = match read_all(&places, &files) {
        Ok(settings) => settings,
        Err(why) => return Some(why),
    };
    if let Some(name) = remotes::promisor_without_address(&settings) {
        return Some(format!(
            "objects are fetched from the remote `{name}`, which has no address (`remote.{name}.url`)"
        ));
    }
    let judged = Judged { session, cwd: &cwd, repository: repository.as_ref(), places, settings: &settings };
    runs_git.find_map(|part| judged.check(part).err())
}

fn is_git(program: &[u8]) -> bool {
    let name = program.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    name == b"git" || name.starts_with(b"git-")
}

/// A variable of `git` that may name a repository, settings or a program.
fn telling_variable(session: &Session) -> Option<RawText> {
    let variables = session.permissions.environment.apply(session.environment.clone());
    variables.into_keys().find(|name| {
        let name = name.as_bytes();
        name.starts_with(b"GIT_") && !HARMLESS_VARIABLES.iter().any(|harmless| name.starts_with(harmless))
    })
}

/// Git starts others by name: `ssh`, helpers, what settings and hooks name.
fn has_writable_path(session: &Session) -> bool {
    let variables = session.permissions.environment.apply(session.environment.clone());
    let path = variables.get(&RawText::from("PATH")).and_then(RawText::to_os_string).unwrap_or_default();
    !path.is_empty() && std::env::split_paths(&path).any(|directory| is_commands_own(session, &directory))
}

/// The files that may hold the user's and the system's git settings.
fn user_settings(session: &Session) -> Vec<PathBuf> {
    let variables = session.permissions.environment.apply(session.environment.clone());
    let below = |variable: &str, name: &str| {
        let directory = variables.get(&RawText::from(variable)).and_then(RawText::to_os_string)?;
        (!directory.is_empty()).then(|| PathBuf::from(directory).join(name))
    };
    let own =
        [below("HOME", ".gitconfig"), below("HOME", ".config/git/config"), below("XDG_CONFIG_HOME", "git/config")];
    own.into_iter().flatten().chain(SYSTEM_SETTINGS.iter().map(PathBuf::from)).collect()
}

/// The repository that `git` finds from a directory, which commands can't write.
struct Repository {
    /// The working tree, or a bare repository itself.
    top: PathBuf,
    /// The working tree's own metadata.
    directory: PathBuf,
    /// The directory that all working trees share.
    common: PathBuf,
    settings: [PathBuf; 2],
}

impl Repository {
    /// The nearest one; or why commands could have made it.
    fn around(session: &Session, cwd: &Path) -> Result<Option<Self>, String> {
        let found = cwd.ancestors().find_map(|directory| {
            let metadata = directory.join(".git");
            match metadata.symlink_metadata() {
                Ok(_) => Some((directory, metadata)),
                Err(_) => looks_bare(directory).then(|| (directory, directory.to_owned())),
            }
        });
        let Some((top, metadata)) = found else { return Ok(None) };
        let shown = metadata.display();
        let writable = || format!("commands may write its repository (`{shown}`)");
        if is_commands_own(session, &metadata) {
            return Err(writable());
        }
        let directory = if metadata.is_dir() { Some(metadata.clone()) } else { leads_to(&metadata) };
        // Without a repository nothing is planted, but `git` may disagree.
        let directory = directory.ok_or_else(|| format!("`{shown}` can't be read"))?;
        let common = match text_of(&directory.join("commondir")) {
            Ok(text) => text.map_or_else(|| directory.clone(), |text| directory.join(text.trim_end())),
            Err(()) => return Err(format!("`{shown}` can't be read")),
        };
        if [&directory, &common].into_iter().any(|place| is_commands_own(session, place)) {
            return Err(writable());
        }
        let settings = [directory.join("config.worktree"), common.join("config")];
        Ok(Some(Self { top: top.to_owned(), directory, common, settings }))
    }

    /// Remotes in files of their own, as git had them before its settings.
    fn has_old_remotes(&self) -> bool {
        let has_files =
            |name: &str| std::fs::read_dir(self.common.join(name)).is_ok_and(|mut files| files.next().is_some());
        ["remotes", "branches"].into_iter().any(has_files)
    }
}

fn looks_bare(directory: &Path) -> bool {
    directory.join("HEAD").symlink_metadata().is_ok() && directory.join("objects").is_dir()
}

/// The target of a `.git` file.
fn leads_to(file: &Path) -> Option<PathBuf> {
    let text = text_of(file).ok()??;
    let target = text.strip_prefix("gitdir:")?.trim().to_owned();
    Some(file.parent()?.join(target))
}

/// What the commands of a line are judged by.
struct Judged<'a> {
    session: &'a Session,
    cwd: &'a Path,
    repository: Option<&'a Repository>,
    places: Places<'a>,
    settings: &'a [Setting],
}

impl Judged<'_> {
    fn check(&self, part: &ParsedCommand) -> Result<(), String> {
        if !are_harmless(&part.words) {
            return Err(String::from("its words select another repository, name a program, or are not known"));
        }
        let words: Option<Vec<String>> = part.words.iter().map(|word| Some(word.as_str()?.to_owned())).collect();
        let words = words.ok_or("a word is no text")?;
        let (program, words) = words.split_first().ok_or("it has no words")?;
        if let Some(word) = words.iter().find(|word| names_repository(self.session, self.cwd, word)) {
            return Err(format!("commands may have made the repository `{word}`"));
        }
        let (subcommand, rest) = subcommand(program, words)?;
        self.check_alias(subcommand)?;
        let used = if matches!(subcommand, "push" | "fetch" | "ls-remote") { Use::Transport } else { Use::Anything };
        if let Some(why) = self.settings.iter().find_map(|setting| why_steered(&self.places, setting, used)) {
            return Err(why);
        }
        if used == Use::Anything && self.repository.is_some_and(|repository| self.has_submodules(repository)) {
            return Err(format!(
                "git {subcommand} looks into submodules, whose settings commands may write: only `push`, `fetch` and \
                 `ls-remote` do without"
            ));
        }
        if connects(subcommand) && self.repository.is_some_and(Repository::has_old_remotes) {
            return Err(String::from(
                "its repository has remotes in files (`remotes`, `branches`), which are not read",
            ));
        }
        remotes::check(self.settings, subcommand, rest)
    }

    /// Whether the index may name submodules, or commands may change it.
    fn has_submodules(&self, repository: &Repository) -> bool {
        let index = repository.directory.join("index");
        !self.session.repositories.is_empty()
            || is_commands_own(self.session, &index)
            || gitlinks::may_have_submodules(&index)
    }

    /// An alias is a command line of its own.
    fn check_alias(&self, subcommand: &str) -> Result<(), String> {
        let is_named = |setting: &&Setting| {
            let name = setting.subsection.as_deref().unwrap_or(&setting.key);
            setting.section == "alias" && name.eq_ignore_ascii_case(subcommand)
        };
        let is_harmless = |setting: &Setting| {
            let text = setting.text();
            if let Some(line) = text.strip_prefix('!') {
                return command_lines::steered_word(&self.places, line).is_none();
            }
            let words: Vec<&str> = text.split_whitespace().collect();
            let is_plain = !text.contains(['\'', '"', '\\'])
                && !words.first().is_none_or(|first| first.starts_with('-') || connects(first))
                && !words.iter().any(|word| names_repository(self.session, self.cwd, word));
            let argv = Argv::parse(std::iter::once("git").chain(words));
            is_plain && argv.is_ok_and(|argv| parse_argv(&argv).commands.iter().all(|part| are_harmless(&part.words)))
        };
        match self.settings.iter().filter(is_named).find(|setting| !is_harmless(setting)) {
            Some(_) => Err(format!("`{subcommand}` is an alias that can't be judged: write what it stands for")),
            None => Ok(()),
        }
    }
}

/// Whether a word names a repository that commands may have created. A file may lead to one.
fn names_repository(session: &Session, cwd: &Path, word: &str) -> bool {
    names_in(word).any(|name| {
        let named = [name.to_owned(), format!("{name}.git")].map(|name| cwd.join(name));
        named.iter().any(|path| {
            let may_lead = path.is_dir() || leads_to(path).is_some();
            may_lead && (is_commands_own(session, path) || is_commands_own(session, &path.join("config")))
        })
    })
}

/// The parts of a word that may be a path: all of it, and the value of an option.
fn names_in(word: &str) -> impl Iterator<Item = &str> {
    let value = word.split_once('=').map(|(_, value)| value);
    std::iter::once(word).chain(value).filter(|name| !name.is_empty())
}
