//! Work that no start of a program shows.
//!
//! A rule for `rm` can be held where `rm` is started. It can't where the work is done without that start: inside another
//! program (`busybox rm`, a shell with builtins of its own, a builtin that is loaded), by a file that the line has made
//! from the program, or in a place that this command only talks to (a container, another machine, a service).

use stockade_protocol::{ParsedCommand, ParsedLine, Word};

use super::{made, shells};

/// Programs that are many in one file. None of the others is started.
const MANY_IN_ONE: [&str; 4] = ["busybox", "toybox", "coreutils", "sbase-box"];

/// Programs that have commands run by a service, on another machine or in a container.
const RUN_ELSEWHERE: [&str; 31] = [
    "at",
    "batch",
    "buildah",
    "crontab",
    "ctr",
    "doas",
    "docker",
    "emacsclient",
    "flatpak",
    "incus",
    "kubectl",
    "lxc",
    "machinectl",
    "mosh",
    "nerdctl",
    "nix",
    "oc",
    "pkexec",
    "podman",
    "rsh",
    "run0",
    "runuser",
    "screen",
    "snap",
    "ssh",
    "su",
    "sudo",
    "systemctl",
    "systemd-nspawn",
    "systemd-run",
    "tmux",
];

/// Whether a listed command of the line may do the work of other programs without a start that shows it.
///
/// What an unlisted part of an opaque line does is not known here: it may start programs like these.
pub fn works_unseen(line: &ParsedLine) -> bool {
    made::runs_what_it_makes(&line.commands) || line.commands.iter().filter_map(name).any(is_unseen)
}

/// Whether a program of this name is a shell that starts programs as bash does: `bash`, `dash`, `sh`. Its file may be
/// another shell's.
pub fn is_plain_shell(program: &str) -> bool {
    shells::is_plain(base_name(program))
}

fn is_unseen(name: &str) -> bool {
    // Builtins that are loaded, from files that may be programs' doubles.
    name == "enable"
        || MANY_IN_ONE.contains(&name)
        || RUN_ELSEWHERE.contains(&name)
        || (shells::is_shell(name) && !shells::is_plain(name))
        || matches!(name, "stockade" | "pwsh" | "powershell" | "cmd")
}

fn name(command: &ParsedCommand) -> Option<&str> {
    command.words.first().and_then(Word::as_str).map(base_name)
}

fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

#[cfg(test)]
mod tests {
    use super::super::parse_bash;
    use super::*;

    #[test]
    fn work_that_no_start_shows_is_known_by_its_program() {
        for line in [
            "busybox rm x; $y",
            "/bin/busybox sh -c \"$x\"",
            "zsh -c \"$x\"",
            "enable -f ./rm rm; $x",
            "cp /bin/rm x; ./x $y",
            "cat /bin/rm > x; ./x $y",
            "docker run i $x",
            "ssh host \"$x\"",
            "env fish -c $x",
            "stockade run -- $x",
            "stockade-sh -c \"$x\"",
        ] {
            assert!(works_unseen(&parse_bash(line)), "{line}");
        }
        for line in
            ["$x y", "eval \"$x\"", "sh -c \"$x\"", "echo rm | bash", "hash -p /bin/rm ls; ls x", "cp a b; ls $x"]
        {
            assert!(!works_unseen(&parse_bash(line)), "{line}");
        }
    }

    #[test]
    fn only_bash_and_what_may_be_dash_are_plain() {
        for shell in ["bash", "/bin/bash", "sh", "dash", "/bin/sh"] {
            assert!(is_plain_shell(shell), "{shell}");
        }
        for other in ["zsh", "ksh", "fish", "busybox", "ash", "rbash", "make", "stockade-sh", ""] {
            assert!(!is_plain_shell(other), "{other}");
        }
    }
}
