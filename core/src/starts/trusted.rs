//! Whether a start can be made with more than its caller has: the caller is not trusted, and runs on beside it.
//!
//! So nothing that commands can write may choose what is run: not the program or its interpreter, not a variable, and
//! for git no repository and no settings, also none that could be put there while the program starts.

use std::path::Path;

use stockade_protocol::RawText;
use stockade_sandboxing::StartCopy;
use stockade_shell_command::starts_others;

use super::git;
use super::judge::{base_name, is_many_programs, is_shell};
use super::rule_grant::RuleGrant;
use crate::places::may_be_planted;
use crate::session::Session;
use crate::steering_variable::{is_steering, steering_variable};
use crate::writable_program::why_program_is_steered;

/// Programs that run the text of their arguments, of their input, or of files that those name. Versions may follow a
/// name.
const INTERPRETERS: &[&str] = &[
    "R",
    "Rscript",
    "awk",
    "bc",
    "bpython",
    "bun",
    "cpython",
    "dc",
    "deno",
    "ed",
    "elixir",
    "emacs",
    "erl",
    "escript",
    "ex",
    "gawk",
    "ghci",
    "groovy",
    "gsed",
    "guile",
    "iex",
    "ipython",
    "irb",
    "java",
    "jruby",
    "jshell",
    "julia",
    "lua",
    "luajit",
    "m4",
    "mawk",
    "nawk",
    "node",
    "nodejs",
    "nvim",
    "ocaml",
    "octave",
    "original-awk",
    "osascript",
    "perl",
    "php",
    "php-cgi",
    "pypy",
    "python",
    "qjs",
    "racket",
    "rhino",
    "ruby",
    "runghc",
    "runhaskell",
    "scala",
    "sed",
    "sqlite",
    "swipl",
    "tclsh",
    "ts-node",
    "tsx",
    "vi",
    "vim",
    "wish",
];

/// What the program is started with besides the session's environment.
pub(super) type Variables = Vec<(RawText, RawText)>;

/// Checks a start. `session` has the permissions of the commands that run beside it. What comes back are the variables
/// to set.
pub(super) fn check(session: &Session, copy: &StartCopy, grant: &RuleGrant) -> Result<Variables, String> {
    let places = [copy.given.as_raw(), copy.program.as_raw()].into_iter().chain(&copy.interpreters);
    for place in places {
        let is_own = place.to_os_string().is_none_or(|place| may_be_planted(session, Path::new(&place)));
        if is_own {
            return Err(format!("commands may have put `{place}` there"));
        }
    }
    check_name(copy)?;
    // A script by its own path is none: nothing but the script is run.
    if let Some(name) = program_for_others(copy) {
        return Err(format!("`{name}` runs what its words or its input say, which are its caller's"));
    }
    let cwd = copy.cwd.to_host_path().ok_or("its directory has no name on this system")?;
    if let Some(name) = steering_variable(session, &cwd) {
        return Err(format!("the session's variable `{name}` could lead it to what commands or the project wrote"));
    }
    if let Some((name, _)) = copy.variables.iter().find(|(name, value)| is_steering(session, &cwd, name, value)) {
        return Err(format!("the variable `{name}` of its caller could lead it to what commands or the project wrote"));
    }
    // A path could lead to another file by the time that it is used.
    if let Some((name, _)) = copy.variables.iter().find(|(_, value)| value.as_bytes().contains(&b'/')) {
        return Err(format!("the variable `{name}` of its caller has a path in it"));
    }
    if let Some(why) = why_program_is_steered(session, &copy.cwd, &grant.line) {
        return Err(why);
    }
    let mut variables = git::check(session, copy, &cwd, grant)?;
    variables.extend(copy.variables.iter().cloned());
    Ok(variables)
}

/// A program that is told another name than its file's may be another program, and one that holds many is.
fn check_name(copy: &StartCopy) -> Result<(), String> {
    let told = copy.words.first().ok_or("it is told no name")?;
    let plain = told.as_bytes().strip_prefix(b"-").map_or_else(|| told.clone(), |name| RawText::from(name.to_vec()));
    if base_name(&plain) != base_name(copy.given.as_raw()) {
        return Err(format!("it is told that its name is `{told}`"));
    }
    let file = base_name(copy.program.as_raw());
    if is_many_programs(file.as_bytes()) {
        return Err(format!("`{file}` is many programs in one"));
    }
    Ok(())
}

/// The program's name if it is an interpreter, a shell or a program that starts others.
fn program_for_others(copy: &StartCopy) -> Option<RawText> {
    let is_one = |name: &RawText| {
        let Some(text) = name.as_str() else { return true };
        let plain = text.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
        let is_known = |name: &str| starts_others(name) || is_shell(name.as_bytes()) || INTERPRETERS.contains(&name);
        is_known(text) || is_known(plain) || is_known(plain.split('.').next().unwrap_or_default())
    };
    [copy.given.as_raw(), copy.program.as_raw()].into_iter().map(base_name).find(is_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(given: &str, program: &str, told: &str) -> StartCopy {
        StartCopy {
            program: program.parse().unwrap(),
            given: given.parse().unwrap(),
            words: vec![RawText::from(told)],
            cwd: "/".parse().unwrap(),
            interpreters: Vec::new(),
            variables: Vec::new(),
        }
    }

    #[test]
    fn a_program_is_what_its_file_is_called() {
        assert_eq!(check_name(&copy("/usr/bin/git", "/usr/bin/git", "git")), Ok(()));
        assert_eq!(check_name(&copy("/bin/vi", "/usr/bin/vim.basic", "vi")), Ok(()));
        for (given, program, told) in [
            ("/bin/sh", "/usr/bin/dash", "git"),
            ("/usr/bin/git", "/usr/bin/git", ""),
            ("/bin/git", "/bin/busybox", "git"),
        ] {
            assert!(check_name(&copy(given, program, told)).is_err(), "{given} {program} {told}");
        }
    }

    #[test]
    fn programs_that_run_others_are_known_by_either_name_and_with_versions() {
        for (given, program) in [
            ("/usr/bin/python3", "/usr/bin/python3.13"),
            ("/usr/local/bin/x", "/usr/bin/python3.13"),
            ("/bin/sh", "/usr/bin/dash"),
            ("/usr/bin/awk", "/usr/bin/mawk"),
            ("/opt/lua5.4", "/opt/lua5.4"),
            ("/usr/bin/vi", "/usr/bin/vim.basic"),
            ("/usr/bin/env", "/usr/bin/env"),
            ("/usr/bin/xargs", "/usr/bin/xargs"),
            ("/usr/bin/find", "/usr/bin/find"),
            ("/usr/bin/nice", "/usr/bin/nice"),
            ("/usr/bin/sudo", "/usr/bin/sudo"),
            ("/usr/bin/sed", "/usr/bin/sed"),
            ("/lib64/ld-linux-x86-64.so.2", "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"),
        ] {
            assert!(program_for_others(&copy(given, program, "x")).is_some(), "{given}");
        }
        for own in ["/usr/bin/git", "/usr/bin/make", "/usr/bin/tar", "/usr/bin/npm", "/home/u/bin/note"] {
            assert_eq!(program_for_others(&copy(own, own, "x")), None, "{own}");
        }
    }
}
