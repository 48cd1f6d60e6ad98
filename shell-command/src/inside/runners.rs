//! Programs that run commands among other things: `find -exec`, `ssh`, `tar --to-command`.
//!
//! They are always judged themselves. What they can be seen to start is listed, so that a rule that forbids it is
//! heard. Where an argument may be a command that is not listed, the line is opaque.

use stockade_protocol::Word;

use super::{Inside, Started, git};

const NOT_FOLLOWED: &str = "a program is started in a way that can't be followed";
const TAKES_COMMAND: &str = "an option takes a command to run";

/// Programs that start others in ways of their own: later, elsewhere, traced, or as their settings say.
const NOT_FOLLOWED_AT_ALL: &[&str] = &[
    "abduco",
    "at",
    "batch",
    "byobu",
    "cpulimit",
    "cron",
    "crond",
    "crontab",
    "cttyhack",
    "dtach",
    "entr",
    "expect",
    "gdb",
    "gdbserver",
    "inetd",
    "lldb",
    "ltrace",
    "openvt",
    "parallel",
    "perf",
    "reptyr",
    "rlwrap",
    "rr",
    "run-parts",
    "runsv",
    "runsvdir",
    "screen",
    "softlimit",
    "start-stop-daemon",
    "strace",
    "svc",
    "systemd-inhibit",
    "systemd-nspawn",
    "systemd-run",
    "tcpsvd",
    "tmux",
    "tcpserver",
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

/// Programs with options that take a command: short letters, and beginnings of long options.
const WITH_COMMAND_OPTIONS: &[(&[&str], &str, &[&str])] = &[
    (
        &["tar", "gtar", "bsdtar"],
        "IF",
        &["--to-c", "--use-c", "--checkpoint-a", "--rsh", "--rmt", "--info-s", "--new-v"],
    ),
    (&["rsync"], "e", &["--rsh", "--rsync-p"]),
    (&["scp", "sftp"], "oSFD", &[]),
    (&["split", "gsplit"], "", &["--fi"]),
    (&["sort", "gsort"], "", &["--comp"]),
    (&["rg"], "", &["--pre", "--hostname-bin"]),
    (&["nc", "ncat", "netcat", "nc.openbsd", "nc.traditional"], "ce", &["--ex", "--sh", "--lua"]),
    (&["go"], "", &["-exec", "-toolexec", "-vettool", "--exec", "--toolexec", "--vettool"]),
    (&["make", "gmake"], "E", &["--ev", "SHELL=", ".SHELL"]),
    (&["cargo"], "", &["--config"]),
    (&["man"], "PH", &["--pager", "--html", "--preprocessor"]),
    (&["tcpdump"], "z", &[]),
    (&["zip"], "T", &["--unzip-command"]),
    (&["vi", "vim", "nvim", "view", "ex", "vimdiff"], "cSuUsW", &["--cmd", "+"]),
    (&["emacs"], "lf", &["--ev", "--exec", "--lo", "--fu", "-ev", "-exec"]),
    (&["less", "more"], "k", &["+", "--lesskey"]),
    (&["fzf"], "", &["--bind", "--preview", "--execute", "--header-command"]),
    (&["socat"], "", &["EXEC", "SYSTEM", "SHELL", "exec", "system", "shell"]),
];

/// What the program `name` can be seen to start, if it is known to start anything.
pub(super) fn look(name: &str, words: &[Word]) -> Option<Inside> {
    let rest = words.get(1..).unwrap_or_default();
    let inside = match name {
        "find" | "gfind" => found_by_find(rest),
        "fd" | "fdfind" => found_by_fd(rest),
        "su" | "runuser" | "sg" | "script" => as_user(name, rest),
        "docker" | "podman" | "nerdctl" | "kubectl" | "lxc" | "machinectl" => container(name, rest),
        "git" => git::look(rest),
        // Which programs are in it differs from build to build, and none of them is the one of that name.
        "busybox" | "toybox" | "coreutils" => Inside::nothing().opaque("one program stands in for many"),
        _ if NOT_FOLLOWED_AT_ALL.contains(&name) => loosely(name, rest),
        _ if is_dynamic_linker(name) => loosely(name, rest),
        _ => return with_command_options(name, rest),
    };
    Some(inside)
}

/// `ld-linux-x86-64.so.2 program …` runs the program.
fn is_dynamic_linker(name: &str) -> bool {
    name == "ld.so" || name.starts_with("ld.so.") || (name.starts_with("ld-") && name.contains(".so"))
}

/// The command that stands behind the options, as far as those can be told apart, and in any case an opaque line.
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

fn with_command_options(name: &str, rest: &[Word]) -> Option<Inside> {
    let (_, letters, long) = WITH_COMMAND_OPTIONS.iter().find(|(names, ..)| names.contains(&name))?;
    let takes_command = |text: &str| {
        let cluster = text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        cluster.is_some_and(|cluster| cluster.contains(|letter| letters.contains(letter)))
            || long.iter().any(|option| text.starts_with(option))
    };
    // tar's first word may be a cluster without a dash.
    let first = rest.first().and_then(Word::as_str).filter(|_| name.ends_with("tar"));
    let old_cluster = first.is_some_and(|text| !text.starts_with('-') && text.contains(|c| letters.contains(c)));
    let harmless = rest.iter().all(|word| word.as_str().is_none_or(|text| !takes_command(text))) && !old_cluster;
    Some(if harmless { Inside::nothing() } else { Inside::nothing().opaque(TAKES_COMMAND) })
}

/// The operands of a command whose short options with a value are `values`. After the first one all
/// words are operands: these programs hand the rest on.
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

/// The text that a shell gets when words are joined, as far as it is known.
pub(super) fn joined<'w>(words: impl Iterator<Item = &'w Word>, via: &str) -> Vec<Started> {
    let known: Vec<&str> = words.map(|word| word.as_str().unwrap_or("\"$unknown\"")).collect();
    if known.is_empty() {
        return Vec::new();
    }
    vec![Started::Text { text: known.join(" "), via: via.to_owned() }]
}

/// The words behind the first of `options`.
fn behind(rest: &[Word], options: &[&str], via: &str) -> Vec<Started> {
    let is_option = |word: &Word| word.as_str().is_some_and(|text| options.contains(&text));
    let at = rest.iter().position(is_option).map_or(rest.len(), |at| at + 1);
    words_from(rest.iter().skip(at), via)
}

/// The values of all `options`, each a text for a shell, as the next word or glued.
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

fn found_by_find(rest: &[Word]) -> Inside {
    let mut starts = Vec::new();
    let mut words = rest.iter();
    // A word that is not known may be `-exec`, or the end of it.
    let all_known = rest.iter().all(|word| word.known().is_some());
    while let Some(word) = words.next() {
        if !matches!(word.as_str(), Some("-exec" | "-execdir" | "-ok" | "-okdir")) {
            continue;
        }
        let mut command: Vec<Word> = Vec::new();
        let mut names_files = false;
        for word in words.by_ref() {
            match word.as_str() {
                Some(";") => break,
                // Anywhere else it is a word like another.
                Some("+") if names_files => break,
                Some(text) if !text.contains("{}") => command.push(word.clone()),
                // `find` puts file names there.
                Some(_) | None => command.push(Word::Unknown),
            }
            names_files = word.as_str() == Some("{}");
        }
        starts.push(Started::Words { words: command, assigns: Vec::new(), via: "find -exec".into() });
    }
    let inside = Inside::runs(starts);
    if all_known { inside } else { inside.opaque("an argument of `find` is made while the line runs") }
}

/// The command that `fd` runs on what it finds. File names are added to it, or put into it.
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

/// Programs that hand a text to another user's shell, or words behind `--`. Which shell that is, and what it reads
/// first, is not in the line.
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
