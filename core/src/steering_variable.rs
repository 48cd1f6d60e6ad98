//! Finds variables that could influence a command that a rule lets leave the sandbox.
//!
//! Programs load files, options and other programs by variables of hundreds of names, and a Makefile, a script of the
//! project or a command of the session can set any of them. So there is no list of bad ones: a variable has to be
//! known as harmless, or its value must not name anything that the project or the session's commands could have
//! created.

use std::path::{Path, PathBuf};

use stockade_protocol::RawText;

use crate::places::{is_commands_own, places};
use crate::session::Session;

/// Harmless names, even with a path: the current and previous directory, zone data, colours, the display, the signing
/// agent, and the proxy, which sees the connections but does not choose the requests.
const HARMLESS: &[&str] = &[
    "DISPLAY",
    "LS_COLORS",
    "OLDPWD",
    "PWD",
    "SSH_AUTH_SOCK",
    "SSH_CLIENT",
    "SSH_CONNECTION",
    "TZ",
    "_",
    "all_proxy",
    "ftp_proxy",
    "http_proxy",
    "https_proxy",
    "no_proxy",
];

/// Harmless names as long as the value has no path: with one, `LANGUAGE` loads a message catalogue.
const WORDS: &[&str] =
    &["COLORTERM", "COLUMNS", "HOSTNAME", "LANG", "LANGUAGE", "LINES", "LOGNAME", "SHLVL", "TERM", "USER"];

/// Parts of names of variables that denote a file, a directory, a module or options: a plain word may be one.
const TELLING: &[&str] = &[
    "ARGS",
    "ASKPASS",
    "BASE",
    "BREAKPOINT",
    "CONF",
    "DIR",
    "ENGINE",
    "EXEC",
    "FILE",
    "FLAGS",
    "HOME",
    "HOOK",
    "INC",
    "INIT",
    "LIB",
    "LOAD",
    "MODULE",
    "OPEN",
    "OPT",
    "PATH",
    "PLUGIN",
    "PREFIX",
    "ROOT",
    "SCRIPT",
    "UNSAFE",
    "WARNINGS",
];

/// Suffixes of names of variables that denote a program to start.
const STARTING: &[&str] = &[
    "BROWSER", "CMD", "COMMAND", "DIFF", "EDITOR", "LINKER", "PAGER", "RSH", "RUNNER", "SHELL", "VISUAL", "WRAPPER",
    "_SSH",
];

/// Such names that are too short for a suffix.
const STARTING_NAMES: &[&str] = &["AR", "AS", "CC", "CPP", "CXX", "FC", "LD", "MAKE", "PYTHON", "RUSTC", "RUSTDOC"];

/// Usual values of such variables.
const USUAL_PROGRAMS: &[&str] = &[
    "ar", "bash", "c++", "cat", "cc", "clang", "clang++", "dash", "emacs", "fish", "g++", "gcc", "ksh", "ld", "less",
    "micro", "more", "most", "nano", "nvim", "sh", "tcsh", "vi", "vim", "zsh",
];

/// The first variable that could influence a command in this directory. `PATH` is judged with the programs.
pub(crate) fn steering_variable(session: &Session, cwd: &Path) -> Option<RawText> {
    let variables = session.permissions.environment.apply(session.environment.clone());
    let is_found = |(name, value): &(RawText, RawText)| is_steering(session, cwd, name, value);
    variables.into_iter().find(is_found).map(|(name, _)| name)
}

/// Whether a variable could influence a command in this directory.
pub(crate) fn is_steering(session: &Session, cwd: &Path, name: &RawText, value: &RawText) -> bool {
    // Canonical, for comparison.
    let cwd = &*std::fs::canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned());
    let project = cwd.ancestors().find(|above| above.join(".git").exists()).unwrap_or(cwd);
    let judged = Judged { session, cwd, project };
    match (name.as_str(), value.as_str()) {
        (Some("PATH"), _) => false,
        (Some(name), Some(value)) => !judged.is_harmless(name, value),
        _ => true,
    }
}

struct Judged<'a> {
    session: &'a Session,
    cwd: &'a Path,
    project: &'a Path,
}

impl Judged<'_> {
    fn is_harmless(&self, name: &str, value: &str) -> bool {
        let is_in = |list: &[&str]| list.contains(&name) || list.contains(&name.to_ascii_lowercase().as_str());
        if is_in(HARMLESS) {
            return is_inert(value);
        }
        if is_in(WORDS) || name.starts_with("LC_") {
            return is_inert(value) && !value.contains(['/', '\\']);
        }
        if name == "HOME" {
            return !self.is_their_place(Path::new(value));
        }
        let upper = name.to_ascii_uppercase();
        if STARTING.iter().any(|end| upper.ends_with(end)) || STARTING_NAMES.contains(&name) {
            return self.is_usual_program(name, value);
        }
        let takes_words = !TELLING.iter().any(|part| upper.contains(part)) && !upper.ends_with("RC") && name != "ENV";
        if value.is_empty() {
            return takes_words;
        }
        // The other forms of such an address start programs.
        let value = if name == "DBUS_SESSION_BUS_ADDRESS" { value.trim_start_matches("unix:path=") } else { value };
        std::env::split_paths(value).all(|part| self.is_harmless_part(&part, takes_words))
    }

    fn is_harmless_part(&self, part: &Path, takes_words: bool) -> bool {
        let Some(text) = part.to_str() else { return false };
        if part.is_absolute() {
            return is_inert(text) && !text.contains(['=', ',', ';', ' ']) && !self.leads_to_them(part);
        }
        takes_words && is_word(text) && self.cwd.join(part).symlink_metadata().is_err()
    }

    /// A shell in `SHELL` runs command lines; in other variables it would run its input.
    fn is_usual_program(&self, name: &str, value: &str) -> bool {
        const SHELLS: &[&str] = &["bash", "dash", "fish", "ksh", "sh", "tcsh", "zsh"];
        let path = Path::new(value);
        let program = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
        USUAL_PROGRAMS.contains(&program)
            && (name == "SHELL" || !SHELLS.contains(&program))
            && (program == value || (path.is_absolute() && !self.leads_to_them(path)))
    }

    /// Whether a path leads to such a directory, or to an ancestor of one.
    fn leads_to_them(&self, path: &Path) -> bool {
        // Two slashes at the start are the rest of a URL.
        path.as_os_str().as_encoded_bytes().starts_with(b"//")
            || self.is_their_place(path)
            || places(path).is_none_or(|places| places.iter().any(|place| self.cwd.starts_with(place)))
    }

    /// Whether the project or the session's commands could have created this.
    fn is_their_place(&self, path: &Path) -> bool {
        let is_theirs = |place: &PathBuf| place.starts_with(self.project) || is_of_the_moment(place);
        is_of_the_moment(path)
            || is_commands_own(self.session, path)
            || places(path).is_none_or(|places| places.iter().any(is_theirs))
    }
}

/// Whether a path is specific to a process: its directory, its input, its open files.
fn is_of_the_moment(path: &Path) -> bool {
    let is_terminal = path.starts_with("/dev/pts") || path.starts_with("/dev/tty") || path == Path::new("/dev/null");
    path.starts_with("/proc") || (path.starts_with("/dev") && !is_terminal)
}

/// Whether a shell would neither expand nor calculate a text.
fn is_inert(text: &str) -> bool {
    !text.contains(|c: char| c.is_control() || "$`()[]{}<>|&\"'!".contains(c))
}

/// A word or a number, but not an option, a path or code.
fn is_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_.-+@".contains(c))
}
