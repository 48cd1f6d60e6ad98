//! Programs that run commands among other things: `find -exec`, `ssh`, `tar --to-command`.
//!
//! They are always judged themselves. The commands they visibly start are listed, so that forbidding rules apply. If
//! an argument may be a command that is not listed, the line is opaque.

use stockade_protocol::Word;

use super::{Inside, Started, find, git, options};
use crate::bash::Input;

const NOT_FOLLOWED: &str = "a program is started in a way that can't be followed";

/// Programs that start others in their own way: later, elsewhere, traced, or according to their settings.
const NOT_FOLLOWED_AT_ALL: &[&str] = &[
    "abduco",
    "at",
    "autossh",
    "batch",
    "byobu",
    "catchsegv",
    "choom",
    "cpulimit",
    "cron",
    "crond",
    "crontab",
    "cttyhack",
    "debconf",
    "dtach",
    "dumb-init",
    "entr",
    "expect",
    "gdb",
    "gdbserver",
    "gosu",
    "inetd",
    "lldb",
    "latrace",
    "ltrace",
    "mosh",
    "npx",
    "numactl",
    "pipx",
    "pnpx",
    "bunx",
    "uvx",
    "openvt",
    "parallel",
    "perf",
    "reptyr",
    "rlwrap",
    "rr",
    "rsh",
    "run-parts",
    "runsv",
    "runsvdir",
    "screen",
    "slogin",
    "softlimit",
    "sotruss",
    "ssh-agent",
    "sshfs",
    "sshpass",
    "start-stop-daemon",
    "strace",
    "su-exec",
    "svc",
    "systemd-cat",
    "systemd-inhibit",
    "systemd-nspawn",
    "systemd-run",
    "tcpsvd",
    "tini",
    "tmux",
    "tcpserver",
    "uclampset",
    "udpsvd",
    "uftrace",
    "valgrind",
    "xinetd",
    "zellij",
    "switch_root",
    "pivot_root",
    "chpst",
    "envdir",
    "envuidgid",
    "setuidgid",
    "newgrp",
    "sudoedit",
    "visudo",
    "vipw",
    "vigr",
    "login",
    "agetty",
    "getty",
];

/// The commands that the program `name` visibly starts, if it is known to start any.
pub(super) fn look(name: &str, words: &[Word], input: &Input) -> Option<Inside> {
    let rest = words.get(1..).unwrap_or_default();
    let inside = match name {
        "find" | "gfind" => find::look(rest),
        "fd" | "fdfind" => found_by_fd(rest),
        "su" | "runuser" | "sg" | "script" => as_user(name, rest),
        "docker" | "podman" | "nerdctl" | "kubectl" | "lxc" | "machinectl" => container(name, rest),
        "git" => git::look(rest),
        _ if VERBS.iter().any(|(names, _)| names.contains(&name)) => behind_verb(name, rest)?,
        // Its applets differ from build to build, and none is the program of that name.
        "busybox" | "toybox" | "coreutils" => Inside::nothing().opaque("one program stands in for many"),
        _ if NOT_FOLLOWED_AT_ALL.contains(&name) => loosely(name, rest),
        _ if is_dynamic_linker(name) => loosely(name, rest),
        _ => return options::look(name, rest, input),
    };
    Some(inside)
}

/// Whether a program of this name does little else than start others. Tools that also do so are none (`git`, `npm`).
pub(super) fn is_runner(name: &str) -> bool {
    const RUNNERS: &[&str] = &["find", "gfind", "fd", "fdfind", "su", "runuser", "sg", "script"];
    RUNNERS.contains(&name) || NOT_FOLLOWED_AT_ALL.contains(&name) || is_dynamic_linker(name)
}

/// Programs with subcommands that run the words after them.
const VERBS: &[(&[&str], &[&str])] = &[
    (&["npm", "pnpm", "yarn"], &["exec", "x", "dlx"]),
    (&["bun", "asdf", "mise", "rbenv", "pyenv", "nodenv"], &["exec", "x"]),
    (&["uv", "poetry", "pipenv", "pdm", "hatch", "rye", "conda", "mamba", "rustup", "flatpak", "snap"], &["run"]),
    (&["bundle", "opam", "gem", "composer", "direnv"], &["exec", "e"]),
];

/// The command after the subcommand that runs one. Options before it may have values, or be the command.
fn behind_verb(name: &str, rest: &[Word]) -> Option<Inside> {
    let (_, verbs) = VERBS.iter().find(|(names, _)| names.contains(&name))?;
    let at = rest.iter().position(|word| word.as_str().is_none_or(|text| verbs.contains(&text)))?;
    // A toolchain or a directory precedes the command.
    let operands_before = usize::from(matches!(name, "rustup" | "direnv"));
    let command = rest.get(at + 1 + operands_before..).unwrap_or_default();
    let inside = Inside::runs(words_from(operands(command, ""), name));
    let is_plain = |word: &Word| word.as_str().is_some_and(|text| !text.starts_with('-'));
    let followed = rest.get(..=at + operands_before).unwrap_or_default().iter().chain(command.first()).all(is_plain);
    Some(if followed && !command.is_empty() { inside } else { inside.opaque(NOT_FOLLOWED) })
}

/// `ld-linux-x86-64.so.2 program …` runs the program.
fn is_dynamic_linker(name: &str) -> bool {
    name == "ld.so" || name.starts_with("ld.so.") || (name.starts_with("ld-") && name.contains(".so"))
}

/// The command after the options, as far as they can be distinguished; the line is opaque in any case.
fn loosely(name: &str, rest: &[Word]) -> Inside {
    let behind_dashes = behind(rest, &["--args", "--"], name);
    let starts = if behind_dashes.is_empty() {
        let verbless = usize::from(matches!(name, "perf" | "tmux"));
        words_from(operands(rest, "").skip(verbless), name)
    } else {
        behind_dashes
    };
    Inside::runs(starts).opaque(NOT_FOLLOWED)
}

/// The operands of a command whose short options with a value are `values`. After the first one all words are
/// operands: these programs pass the rest on.
pub(super) fn operands<'w>(words: &'w [Word], values: &'static str) -> impl Iterator<Item = &'w Word> {
    let mut at = 0;
    while let Some(text) = words.get(at).and_then(Word::as_str).filter(|text| text.len() > 1 && text.starts_with('-')) {
        at += 1;
        if text == "--" {
            break;
        }
        let takes_next = !text.starts_with("--") && text.chars().next_back().is_some_and(|last| values.contains(last));
        at += usize::from(takes_next && text.len() == 2);
    }
    words.get(at..).unwrap_or_default().iter()
}

pub(super) fn text(word: &Word, via: &str) -> Option<Started> {
    Some(Started::Text { text: word.as_str()?.to_owned(), via: via.to_owned() })
}

pub(super) fn words_from<'w>(words: impl Iterator<Item = &'w Word>, via: &str) -> Vec<Started> {
    let words: Vec<Word> = words.cloned().collect();
    if words.is_empty() {
        return Vec::new();
    }
    vec![Started::Words { words, assigns: Vec::new(), via: via.to_owned() }]
}

/// The joined words as text for a shell, as far as they are known.
pub(super) fn joined<'w>(words: impl Iterator<Item = &'w Word>, via: &str) -> Vec<Started> {
    let known: Vec<&str> = words.map(|word| word.as_str().unwrap_or("\"$unknown\"")).collect();
    if known.is_empty() {
        return Vec::new();
    }
    vec![Started::Text { text: known.join(" "), via: via.to_owned() }]
}

/// The words after the first of `options`.
fn behind(rest: &[Word], options: &[&str], via: &str) -> Vec<Started> {
    let is_option = |word: &Word| word.as_str().is_some_and(|text| options.contains(&text));
    let at = rest.iter().position(is_option).map_or(rest.len(), |at| at + 1);
    words_from(rest.iter().skip(at), via)
}

/// The values of all `options`, each a text for a shell, attached or in the next word.
pub(super) fn values_of(rest: &[Word], options: &[&str], via: &str) -> Vec<Started> {
    let value_at = |(at, word): (usize, &Word)| {
        let word = word.as_str()?;
        options.iter().find_map(|option| {
            let glued = word.strip_prefix(option)?;
            let glued = glued.strip_prefix('=').unwrap_or(glued);
            if glued.is_empty() { text(rest.get(at + 1)?, via) } else { text(&Word::from(glued), via) }
        })
    };
    rest.iter().enumerate().filter_map(value_at).collect()
}

/// The command that `fd` runs on its results. File names are appended or substituted.
fn found_by_fd(rest: &[Word]) -> Inside {
    let runs = |word: &Word| {
        word.as_str().is_none_or(|text| match text.strip_prefix("--") {
            Some(long) => long.starts_with("ex") && !long.starts_with("excl") && !long.starts_with("ext"),
            None => text.starts_with('-') && text.contains(['x', 'X']),
        })
    };
    let Some(at) = rest.iter().position(runs) else { return Inside::nothing() };
    let command = rest.iter().skip(at + 1).chain([&Word::Unknown]);
    let inside = Inside::runs(words_from(command, "fd --exec"));
    let plain = matches!(rest.get(at).and_then(Word::as_str), Some("-x" | "-X" | "--exec" | "--exec-batch"));
    let replaces = rest.iter().skip(at + 1).any(|word| word.as_str().is_none_or(|text| text.contains(['{', ';'])));
    if plain && !replaces { inside } else { inside.opaque(NOT_FOLLOWED) }
}

/// Programs that pass a text to another user's shell, or the words after `--`. The shell and its startup files are not
/// in the line.
fn as_user(name: &str, rest: &[Word]) -> Inside {
    let via = format!("{name} -c");
    let mut starts = values_of(rest, &["--command", "--session-command"], &via);
    for (at, word) in rest.iter().enumerate() {
        let cluster = word.as_str().and_then(|text| text.strip_prefix('-')).filter(|text| !text.starts_with('-'));
        let Some((_, glued)) = cluster.and_then(|cluster| cluster.split_once('c')) else { continue };
        let body = if glued.is_empty() { rest.get(at + 1).cloned() } else { Some(Word::from(glued)) };
        starts.extend(body.and_then(|body| text(&body, &via)));
    }
    match name {
        "runuser" if starts.is_empty() => starts.extend(words_from(operands(rest, "ugG"), name)),
        "sg" if starts.is_empty() => starts.extend(joined(rest.iter().skip(1), name)),
        _ => {}
    }
    Inside::runs(starts).opaque("a shell is started in a way that can't be followed")
}

/// `docker exec NAME command …`, `docker run IMAGE command …`, `kubectl exec POD -- command …`.
fn container(name: &str, rest: &[Word]) -> Inside {
    let starts = |word: &Word| matches!(word.as_str(), Some("run" | "exec" | "create" | "shell" | "debug") | None);
    let Some(at) = rest.iter().position(starts) else { return Inside::nothing() };
    let rest = rest.get(at + 1..).unwrap_or_default();
    let via = format!("{name} run");
    let started = match name {
        "kubectl" => behind(rest, &["--"], &via),
        _ => words_from(operands(rest, "acehlmpuvw").skip(1), &via),
    };
    Inside::runs(started).opaque("what runs in a container is not known")
}
