//! Variables that bash itself acts upon.
//!
//! An assignment to an integer variable evaluates its value as arithmetic, and a value `a[$(rm f)]` runs a command
//! there: `RANDOM`, `SRANDOM`, `SECONDS`, `OPTIND` and `HISTCMD` in bash 5.2. Others hold text that bash runs
//! (`PROMPT_COMMAND`, `PS4`), a file that it reads (`BASH_ENV`), or what a name stands for (`BASH_CMDS`). Which ones
//! differs between versions, so whole families count: a line that sets one of them is opaque.
//! <https://www.gnu.org/software/bash/manual/bash.html#Bash-Variables>

/// Beginnings of such names.
const FAMILIES: [&str; 7] = ["BASH", "COMP", "EPOCH", "HIST", "MAIL", "PROMPT_", "READLINE_"];

/// Other such names. `PS1` and its kin are expanded, substitutions included.
const NAMES: [&str; 29] = [
    "COPROC",
    "DIRSTACK",
    "ENV",
    "EUID",
    "EXECIGNORE",
    "FCEDIT",
    "FUNCNAME",
    "FUNCNEST",
    "GROUPS",
    "IGNOREEOF",
    "LINENO",
    "OPTIND",
    "PIPESTATUS",
    "POSIXLY_CORRECT",
    "PPID",
    "PS0",
    "PS1",
    "PS2",
    "PS3",
    "PS4",
    "RANDOM",
    "SECONDS",
    "SHELLOPTS",
    "SRANDOM",
    "TMOUT",
    "UID",
    "auto_resume",
    "histchars",
    "ignoreeof",
];

/// Whether setting the variable may run something, or change what the rest of the line means.
pub(super) fn is_acted_upon(name: &str) -> bool {
    // `NAME+=…` and `NAME[…]=…` set `NAME`.
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
    let name = name.get(..end).unwrap_or(name);
    NAMES.contains(&name) || FAMILIES.iter().any(|family| name.starts_with(family))
}

/// Whether the variable decides which bytes make a character, and with it where quotes end.
pub(super) fn sets_locale(name: &str) -> bool {
    name == "LANG" || name == "LC_ALL" || name == "LC_CTYPE"
}
