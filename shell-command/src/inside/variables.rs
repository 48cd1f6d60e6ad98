//! Variables that bash itself acts upon, and those that name programs for other programs.
//!
//! An assignment to an integer variable evaluates its value as arithmetic, and a value `a[$(rm f)]` runs a command
//! there: `RANDOM`, `SRANDOM`, `SECONDS`, `OPTIND` and `HISTCMD` in bash 5.2. Others contain text that bash runs
//! (`PROMPT_COMMAND`, `PS4`), a file that it reads (`BASH_ENV`), or the meaning of names (`BASH_CMDS`). The set
//! differs between versions, so whole families count: a line that sets one of them is opaque.
//! <https://www.gnu.org/software/bash/manual/bash.html#Bash-Variables>

/// Prefixes of such names.
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

/// Prefixes of names that tell other programs what to run or to load.
const PROGRAM_FAMILIES: [&str; 8] = ["GIT_", "LD_", "DYLD_", "LESS", "PERL5", "RUBY", "npm_config_", "NPM_CONFIG_"];

/// Suffixes of such names: `TAR_OPTIONS`, `RSYNC_RSH`, `MANPAGER`, `RUSTC_WRAPPER`, `PYTHONPATH`, `MAKEFLAGS`.
const PROGRAM_ENDS: [&str; 21] = [
    "ASKPASS", "BROWSER", "COMMAND", "EDITOR", "FLAGS", "HOME", "LINKER", "OPTIONS", "OPTS", "PAGER", "PATH", "RSH",
    "RUNNER", "RUSTC", "RUSTDOC", "SHELL", "WRAPPER", "_CONFIG", "_CONF", "_DIRS", "_PROGRAM",
];

/// Other such names, including those of compilers.
const PROGRAM_NAMES: [&str; 28] = [
    "AR",
    "AS",
    "CC",
    "CPP",
    "CVS_SERVER",
    "CXX",
    "FC",
    "GCC_EXEC_PREFIX",
    "GCONV_PATH",
    "GZIP",
    "LD",
    "LOCPATH",
    "MAKEFILES",
    "MANOPT",
    "NM",
    "PYTHONBREAKPOINT",
    "PYTHONINSPECT",
    "PYTHONSTARTUP",
    "PYTHONWARNINGS",
    "RANLIB",
    "SSH_AUTH_SOCK",
    "STRIP",
    "TAPE",
    "VIMINIT",
    "EXINIT",
    "VISUAL",
    "ZDOTDIR",
    "ZIPOPT",
];

/// Whether setting the variable may run a command, or change the meaning of the rest of the line.
pub(super) fn is_acted_upon(name: &str) -> bool {
    // `NAME+=…` and `NAME[…]=…` set `NAME`.
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
    let name = name.get(..end).unwrap_or(name);
    NAMES.contains(&name) || FAMILIES.iter().any(|family| name.starts_with(family)) || names_program(name)
}

/// Whether programs take another program from the variable, options that may name one, or the path of a file with such
/// settings.
fn names_program(name: &str) -> bool {
    PROGRAM_NAMES.contains(&name)
        || PROGRAM_FAMILIES.iter().any(|family| name.starts_with(family))
        || PROGRAM_ENDS.iter().any(|end| name.ends_with(end))
}

/// Whether the variable determines which bytes form a character, and thereby where quotes end.
pub(super) fn sets_locale(name: &str) -> bool {
    name == "LANG" || name == "LC_ALL" || name == "LC_CTYPE"
}
