//! Whether a start can be made with more than its caller has: the caller is not trusted, and runs on beside it.
//!
//! So nothing that commands can write may choose what is run: not the program or its interpreter, not a variable, and
//! for git no repository and no settings, also none that could be put there while the program starts.

use std::path::Path;

use stockade_protocol::RawText;
use stockade_sandboxing::StartCopy;

use super::git;
use super::judge::{base_name, is_many_programs, is_shell};
use super::rule_grant::RuleGrant;
use crate::places::is_commands_own;
use crate::session::Session;
use crate::steering_variable::{is_steering, steering_variable};
use crate::writable_program::has_writable_program;

/// Programs that run the text of their arguments, or of files that those name. Versions may follow a name.
const INTERPRETERS: [&str; 15] = [
    "awk", "bun", "deno", "gawk", "guile", "lua", "mawk", "node", "nodejs", "perl", "php", "python", "ruby", "tclsh",
    "Rscript",
];

/// What the program is started with besides the session's environment.
pub(super) type Variables = Vec<(RawText, RawText)>;

/// Checks a start. `session` has the permissions of the commands that run beside it. What comes back are the variables
/// to set.
pub(super) fn check(session: &Session, copy: &StartCopy, grant: &RuleGrant) -> Result<Variables, String> {
    let places = [copy.given.as_raw(), copy.program.as_raw()].into_iter().chain(&copy.interpreters);
    for place in places {
        let is_own = place.to_os_string().is_none_or(|place| is_commands_own(session, Path::new(&place)));
        if is_own {
            return Err(format!("commands may have put `{place}` there"));
        }
    }
    check_name(copy)?;
    let cwd = copy.cwd.to_host_path().ok_or("its directory has no name on this system")?;
    if let Some(name) = steering_variable(session, &cwd) {
        return Err(format!("the session's variable `{name}` could lead it to what commands or the project wrote"));
    }
    if let Some((name, _)) = copy.variables.iter().find(|(name, value)| is_steering(session, &cwd, name, value)) {
        return Err(format!("the variable `{name}` of its caller could lead it to what commands or the project wrote"));
    }
    if has_writable_program(session, &copy.cwd, &grant.line) {
        return Err(String::from("commands may write its program, or a directory of `PATH`"));
    }
    if is_interpreter(copy) {
        let arguments = copy.words.iter().skip(1).filter_map(RawText::to_os_string);
        if let Some(found) = arguments.into_iter().find(|word| is_commands_own(session, &cwd.join(word))) {
            let found = RawText::from(found.to_string_lossy().as_ref());
            return Err(format!("it is an interpreter, and commands may write what it runs, `{found}`"));
        }
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

fn is_interpreter(copy: &StartCopy) -> bool {
    [copy.given.as_raw(), copy.program.as_raw()].into_iter().map(base_name).any(|name| {
        let plain =
            name.as_str().unwrap_or_default().trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
        is_shell(name.as_bytes()) || is_shell(plain.as_bytes()) || INTERPRETERS.contains(&plain)
    })
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
    fn interpreters_are_known_with_their_versions() {
        for (given, program) in [
            ("/usr/bin/python3", "/usr/bin/python3.13"),
            ("/bin/sh", "/usr/bin/dash"),
            ("/usr/bin/awk", "/usr/bin/mawk"),
            ("/opt/lua5.4", "/opt/lua5.4"),
        ] {
            assert!(is_interpreter(&copy(given, program, "x")), "{given}");
        }
        assert!(!is_interpreter(&copy("/usr/bin/git", "/usr/bin/git", "git")));
    }
}
