//! Whether `git` would read the settings of a repository that the session's commands may have created.
//!
//! Such settings name programs to run (`core.fsmonitor`, filters, aliases), and so do the hooks of a repository that
//! is pushed to, so `git status` there may run anything. The repository of a workspace is protected from the first
//! command on. A deeper one, or one that looks bare, may have been planted before. A command line that selects another
//! repository, or names a program, stays inside.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use stockade_protocol::{AbsPath, ParsedCommand, ParsedLine, RawText, Word};

use crate::git_words::are_harmless;
use crate::places::is_commands_own;
use crate::session::{Sandboxing, Session};

/// Words that change the directory, which is then unchecked.
const LEADING_ELSEWHERE: &[&[u8]] = &[b"cd", b"pushd", b"popd"];

/// Variables of `git` that name neither a path nor a program.
const HARMLESS_VARIABLES: &[&[u8]] = &[b"GIT_AUTHOR_", b"GIT_COMMITTER_", b"GIT_TERMINAL_PROMPT"];

/// Limit on a repository's settings file.
const MOST_BYTES: u64 = 1024 * 1024;

/// Whether the line runs `git` in such a repository. Without a sandbox there is none to leave.
pub(crate) fn has_writable_repository(session: &Session, cwd: &AbsPath, line: &ParsedLine) -> bool {
    let program = |part: &ParsedCommand| part.words.first().and_then(Word::known).map(|word| word.as_bytes().to_vec());
    let mut runs_git = line.commands.iter().filter(|part| program(part).is_some_and(|name| is_git(&name))).peekable();
    if session.sandboxing() != Sandboxing::On || runs_git.peek().is_none() {
        return false;
    }
    let leads_elsewhere = |part: &ParsedCommand| {
        program(part).is_some_and(|name| LEADING_ELSEWHERE.contains(&name.as_slice()))
            // Other starters may change the directory (`env -C`, `find -execdir`).
            || part.via.as_ref().is_some_and(|via| !via.ends_with("sh -c"))
    };
    if line.commands.iter().any(leads_elsewhere) || has_telling_variable(session) {
        return true;
    }
    // An inaccessible directory is not known to be harmless.
    let Some(cwd) = cwd.to_host_path().and_then(|cwd| cwd.canonicalize().ok()) else { return true };
    has_writable_settings(session)
        || is_writable(session, &cwd)
        || runs_git.any(|part| !are_harmless(&part.words) || names_repository(session, &cwd, &part.words))
}

fn is_git(program: &[u8]) -> bool {
    let name = program.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    name == b"git" || name.starts_with(b"git-")
}

/// Whether a variable of `git` may name a repository, settings or a program.
fn has_telling_variable(session: &Session) -> bool {
    let variables = session.permissions.environment.apply(session.environment.clone());
    variables.keys().any(|name| {
        let name = name.as_bytes();
        name.starts_with(b"GIT_") && !HARMLESS_VARIABLES.iter().any(|harmless| name.starts_with(harmless))
    })
}

/// The files that may hold the user's and the system's git settings.
pub(crate) fn user_settings(session: &Session) -> Vec<PathBuf> {
    let variables = session.permissions.environment.apply(session.environment.clone());
    let below = |variable: &str, name: &str| {
        let directory = variables.get(&RawText::from(variable)).and_then(RawText::to_os_string)?;
        (!directory.is_empty()).then(|| PathBuf::from(directory).join(name))
    };
    let files = [
        below("HOME", ".gitconfig"),
        below("HOME", ".config/git/config"),
        below("XDG_CONFIG_HOME", "git/config"),
        Some(PathBuf::from("/etc/gitconfig")),
    ];
    files.into_iter().flatten().collect()
}

/// Whether commands may have written the user's git settings.
fn has_writable_settings(session: &Session) -> bool {
    let mut files = user_settings(session).into_iter();
    files.any(|file| !file.is_absolute() || (file.exists() && is_commands_own(session, &file)))
}

/// Whether a word names a repository that commands may have created. A file may lead to one.
fn names_repository(session: &Session, cwd: &Path, words: &[Word]) -> bool {
    let words = words.iter().skip(1).filter_map(|word| word.known()?.to_os_string()?.into_string().ok());
    words.flat_map(|word| names_in(&word)).any(|name| {
        let named = [name.clone(), format!("{name}.git")].map(|name| cwd.join(name));
        named.iter().any(|path| {
            let may_lead = path.is_dir() || leads_to(path).is_some();
            may_lead && (is_commands_own(session, path) || is_commands_own(session, &path.join("config")))
        })
    })
}

/// The parts of a word that may be a path: all of it, and the value of an option.
fn names_in(word: &str) -> Vec<String> {
    let value = word.split_once('=').map(|(_, value)| value.to_owned());
    std::iter::once(word.to_owned()).chain(value).filter(|name| !name.is_empty()).collect()
}

/// Whether the nearest repository that `git` finds from a directory is writable by commands.
fn is_writable(session: &Session, cwd: &Path) -> bool {
    let found = cwd.ancestors().find_map(|directory| {
        let metadata = directory.join(".git");
        match metadata.symlink_metadata() {
            Ok(_) => Some((directory, metadata)),
            Err(_) => looks_bare(directory).then(|| (directory, directory.to_owned())),
        }
    });
    let Some((top, metadata)) = found else { return false };
    if is_commands_own(session, &metadata) {
        return true;
    }
    let directory = if metadata.is_dir() { Some(metadata) } else { leads_to(&metadata) };
    // Without a repository nothing is planted, but `git` may disagree.
    let Some(directory) = directory else { return true };
    let common = match text_of(&directory.join("commondir")) {
        Ok(text) => text.map_or_else(|| directory.clone(), |text| directory.join(text.trim_end())),
        Err(()) => return true,
    };
    let settings = [directory.join("config.worktree"), common.join("config")];
    [&directory, &common].into_iter().any(|place| is_commands_own(session, place))
        || settings.iter().any(|file| is_commands_own(session, file) || names_writable(session, file, top))
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

/// Whether the settings of a repository name a file that commands may have created: hooks, further settings, a
/// program, a repository to push to.
fn names_writable(session: &Session, file: &Path, top: &Path) -> bool {
    let Ok(text) = text_of(file) else { return true };
    let text = text.unwrap_or_default();
    // Another address than the words', which may be a path.
    if text.to_ascii_lowercase().contains("insteadof") {
        return true;
    }
    let values = text.lines().map(|line| line.rsplit_once(']').map_or(line, |(_, rest)| rest));
    let mut words = values.flat_map(|line| line.split(|c: char| c.is_whitespace() || "\"\'=!;".contains(c)));
    words.any(|word| {
        let word = word.strip_prefix("file://").unwrap_or(word);
        let bases = [Some(top), file.parent()];
        let named = bases.iter().flatten().map(|base| base.join(word));
        !word.is_empty() && named.into_iter().any(|path| path.exists() && is_commands_own(session, &path))
    })
}

/// The text of a small regular file; `None` if there is none.
fn text_of(path: &Path) -> Result<Option<String>, ()> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() <= MOST_BYTES => {}
        Ok(_) => return Err(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(_) => return Err(()),
    }
    let mut bytes = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes));
    read.map(|_| Some(String::from_utf8_lossy(&bytes).into_owned())).map_err(drop)
}

#[cfg(all(test, unix))]
mod tests {
    use stockade_protocol::{Argv, AskForApproval, HostPaths, SandboxPolicy};
    use stockade_shell_command::parse_argv;

    use super::*;

    #[test]
    fn a_repository_that_a_command_could_have_made_is_seen() {
        let world = tempfile::tempdir_in("/var/tmp").unwrap();
        let root = world.path().canonicalize().unwrap();
        for directory in ["ws/.git", "ws/src", "ws/nested/.git/hooks", "ws/nested/src", "ws/bare/objects", "other/.git"]
        {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        fs::write(root.join("ws/bare/HEAD"), "").unwrap();
        fs::write(root.join("ws/a.rs"), "").unwrap();
        fs::create_dir_all(root.join("led")).unwrap();
        fs::write(root.join("led/.git"), "gitdir: ../ws/nested/.git\n").unwrap();
        fs::create_dir_all(root.join("hooked/.git")).unwrap();
        fs::write(root.join("hooked/.git/config"), "[core]\n\thooksPath = ../ws/src\n").unwrap();
        let path = |name: &str| AbsPath::from_path(&root.join(name)).unwrap();
        let host = HostPaths::without_masks([path("ws")]);
        let policy = SandboxPolicy::workspace_write();
        let mut session = Session::new("t".parse().unwrap(), AskForApproval::Never, policy, &host).unwrap();
        let cases: &[(&[&str], &str, bool)] = &[
            (&["git", "status"], "ws", false),
            (&["git", "status"], "ws/src", false),
            (&["git", "status"], "other", false),
            (&["git", "status"], "ws/nested", true),
            (&["/usr/bin/git", "status"], "ws/nested/src", true),
            (&["git", "status"], "ws/bare", true),
            (&["git", "status"], "ws/gone", true),
            (&["bash", "-c", "cd nested && git status"], "ws", true),
            (&["bash", "-c", "ls && git status"], "ws", false),
            (&["ls"], "ws/nested", false),
            (&["git", "-C", "nested", "status"], "ws", true),
            (&["git", "--git-dir=bare", "status"], "ws", true),
            (&["git", "-c", "core.fsmonitor=x", "status"], "ws", true),
            (&["git", "--no-pager", "log"], "ws", false),
            (&["git", "push", "bare", "HEAD"], "ws", true),
            (&["git", "push", "origin", "HEAD"], "ws", false),
            (&["git", "push", "-u", "origin", "HEAD"], "ws", false),
            (&["git", "clone", "-qu", "x", "https://a.test/x"], "ws", true),
            (&["git", "push", "--rec=x", "origin"], "ws", true),
            (&["git", "fetch", "ext::sh -c x"], "ws", true),
            (&["git", "fetch", "file:///x"], "ws", true),
            (&["git", "commit", "-m", "x", "a.rs"], "ws", false),
            (&["env", "-C", "nested", "git", "status"], "ws", true),
            (&["git", "status"], "led", true),
            (&["git", "status"], "hooked", true),
        ];
        for (words, cwd, wanted) in cases {
            let line = parse_argv(&Argv::parse(words.iter().copied()).unwrap());
            assert_eq!(has_writable_repository(&session, &path(cwd), &line), *wanted, "{words:?} in {cwd}");
        }
        let line = parse_argv(&Argv::parse(["git", "status"]).unwrap());
        for (name, wanted) in [("GIT_DIR", true), ("GIT_AUTHOR_NAME", false)] {
            session.environment = [(RawText::from(name), RawText::from("x"))].into();
            assert_eq!(has_writable_repository(&session, &path("ws"), &line), wanted, "{name}");
        }
        session.sandbox = SandboxPolicy::DangerFullAccess {};
        let line = parse_argv(&Argv::parse(["git", "status"]).unwrap());
        assert!(!has_writable_repository(&session, &path("ws/nested"), &line), "there is no sandbox to leave");
    }
}
