//! Programs whose arguments are a language of their own, each with the few forms that only read.

use super::options::{Allowed, Judged};
use super::paths;
use crate::inside::find::FindWord;

/// Judges `name`, if it is one of these programs.
pub(super) fn judge(name: &str, arguments: &[&str]) -> Option<Judged> {
    Some(match name {
        "echo" => Ok(()),
        "printf" => printf(arguments),
        "test" | "[" => test(arguments),
        "[[" => Ok(()),
        "cd" => cd(arguments),
        "date" => date(arguments),
        "sed" => sed(arguments),
        "find" => find(arguments),
        "git" => git(arguments),
        "command" => command(arguments),
        _ => return None,
    })
}

fn refuse(what: &str) -> Judged {
    Err(format!("`{what}` is not known as safe"))
}

/// `-v` sets a variable, and so does the conversion `%n`, which even evaluates a subscript.
fn printf(arguments: &[&str]) -> Judged {
    let format = match arguments {
        ["--", format, ..] => format,
        [format, ..] if !format.starts_with('-') => format,
        [other, ..] => return refuse(other),
        [] => return Ok(()),
    };
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            continue;
        }
        let conversion = rest.find(|c| !"-+ #0123456789.*".contains(*c));
        if !conversion.is_none_or(|c| "%sbqcdiouxXeEfgG".contains(c)) {
            return refuse(format);
        }
    }
    Ok(())
}

/// `-v` and `-R` evaluate a subscript.
fn test(arguments: &[&str]) -> Judged {
    const OPERATORS: [&str; 32] = [
        "-a", "-b", "-c", "-d", "-e", "-f", "-g", "-G", "-h", "-k", "-L", "-n", "-N", "-o", "-O", "-p", "-r", "-s",
        "-S", "-t", "-u", "-w", "-x", "-z", "-ef", "-nt", "-ot", "-eq", "-ne", "-lt", "-le", "-gt",
    ];
    let unknown = arguments.iter().find(|word| word.starts_with('-') && **word != "-ge" && !OPERATORS.contains(word));
    unknown.map_or(Ok(()), |word| refuse(word))
}

/// Allows only subdirectories, so that relative paths stay predictable.
fn cd(arguments: &[&str]) -> Judged {
    match arguments {
        [directory] if is_plain_directory(directory) => Ok(()),
        [] | [_, ..] => Err("leaves the directory".into()),
    }
}

/// In a hidden directory a file with an ordinary name may be a secret (`.git/config`).
fn is_plain_directory(path: &str) -> bool {
    paths::is_below_here(path) && !paths::is_hidden(path) && paths::sensitive(path).is_none()
}

/// An operand sets the clock, unless it is a format.
fn date(arguments: &[&str]) -> Judged {
    let known = |word: &&str| word.starts_with('+') || matches!(*word, "-u" | "--utc" | "-I" | "-R" | "-Iseconds");
    arguments.iter().find(|word| !known(word)).map_or(Ok(()), |word| refuse(word))
}

/// Allows only `sed -n 'Np'` and `sed -n 'N,Mp'`: sed's language writes files and runs commands.
fn sed(arguments: &[&str]) -> Judged {
    const ALLOWED: Allowed = Allowed { flags: "n", values: "", glued: "", long: &[], long_values: &[], number: false };
    let given = ALLOWED.read(arguments)?;
    let Some((script, files)) = given.operands.split_first() else { return refuse("sed") };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let prints = script.strip_suffix('p').is_some_and(|range| match range.split_once(',') {
        Some((from, to)) => is_number(from) && (is_number(to) || to == "$"),
        None => is_number(range) || range == "$",
    });
    if !prints || given.options.is_empty() {
        return refuse(script);
    }
    match files.iter().find_map(|file| paths::sensitive(file)) {
        Some(what) => Err(format!("reads {what}")),
        None => Ok(()),
    }
}

/// Allows tests of names and metadata, and actions that print.
fn find(arguments: &[&str]) -> Judged {
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        if !word.starts_with('-') {
            continue;
        }
        match FindWord::read(word).filter(|known| known.only_looks) {
            Some(known) => {
                for _ in 0..known.values {
                    rest.next();
                }
            }
            None => return refuse(word),
        }
    }
    Ok(())
}

/// `git` runs helpers that the repository's configuration names, so even `git status` asks. These
/// read without such helpers.
fn git(arguments: &[&str]) -> Judged {
    match arguments {
        ["--version" | "version"] => Ok(()),
        // Not `--get-all` or `--list`, which start the configured pager, and no section that
        // holds tokens.
        ["config", "--get", key] => {
            let section = key.split('.').next().unwrap_or_default();
            if ["user", "core", "init", "branch", "color", "pull", "push", "diff", "merge"].contains(&section) {
                Ok(())
            } else {
                refuse(key)
            }
        }
        [first, ..] => refuse(first),
        [] => refuse("git"),
    }
}

/// `command -v` only looks a program up; otherwise it is a wrapper.
fn command(arguments: &[&str]) -> Judged {
    match arguments {
        ["-v" | "-V", ..] => Ok(()),
        [first, ..] => refuse(first),
        [] => Ok(()),
    }
}
