//! Programs with options that take a command: `tar --to-command`, `split --filter`, `make --eval`.
//!
//! An unknown word may be any option, so it makes the line opaque for each of these programs. A long option may be
//! abbreviated (getopt_long accepts unambiguous prefixes), so a given option is compared with the prefixes of those
//! that take a command.

use stockade_protocol::Word;

use super::Inside;
use super::variables::is_acted_upon;
use crate::bash::Input;

const TAKES_COMMAND: &str = "an option takes a command to run";
const MAY_TAKE_COMMAND: &str = "a word that is made while the line runs may be an option that takes a command";

/// A row: names, short option letters, long options that may be abbreviated, prefixes of other words.
type Row = (&'static [&'static str], &'static str, &'static [&'static str], &'static [&'static str]);

const PROGRAMS: &[Row] = &[
    // The file of `-T` may contain options.
    (
        &["tar", "gtar", "bsdtar"],
        "IFT",
        &[
            "--checkpoint-action",
            "--files-from",
            "--info-script",
            "--new-volume-script",
            "--rmt-command",
            "--rsh-command",
            "--to-command",
            "--use-compress-program",
        ],
        &[],
    ),
    (&["cpio"], "", &["--rsh-command"], &[]),
    (&["rsync"], "eM", &["--rsh", "--rsync-path", "--remote-option", "--config", "--daemon"], &[]),
    (&["scp", "sftp"], "oSFDJb", &[], &[]),
    (&["split", "gsplit"], "", &["--filter"], &[]),
    (&["sort", "gsort"], "", &["--compress-program"], &[]),
    (&["rg"], "", &["--pre", "--hostname-bin"], &[]),
    (&["nc", "ncat", "netcat", "nc.openbsd", "nc.traditional"], "ce", &["--exec", "--sh-exec", "--lua-exec"], &[]),
    (&["go"], "", &["--exec", "--toolexec", "--vettool"], &["-exec", "-toolexec", "-vettool"]),
    (&["make", "gmake"], "E", &["--eval"], &[]),
    (&["cargo"], "", &["--config"], &[]),
    (&["man"], "PH", &["--pager", "--html", "--preprocessor"], &[]),
    (&["tcpdump"], "z", &["--postrotate-command"], &[]),
    (&["zip"], "T", &["--unzip-command"], &[]),
    (
        &["vi", "vim", "nvim", "view", "ex", "vimdiff", "rvim", "rview", "gvim", "evim", "gview"],
        "cSuUsWeE",
        &["--cmd", "--remote-expr", "--remote-send"],
        &["+"],
    ),
    (&["emacs"], "lf", &["--eval", "--execute", "--load", "--funcall", "--script"], &["-ev", "-ex", "-l", "-f", "-s"]),
    (&["less", "more"], "k", &["--lesskey-file", "--lesskey-src", "--lesskey-content"], &["+"]),
    (&["fzf"], "", &["--bind", "--preview", "--execute", "--header-command"], &[]),
    (&["socat"], "", &[], &["EXEC", "SYSTEM", "SHELL", "exec", "system", "shell"]),
    (&["prove"], "eI", &["--exec", "--source", "--formatter", "--harness"], &[]),
    (&["dpkg-architecture"], "c", &["--command"], &[]),
    (&["dpkg"], "", &["--pre-invoke", "--post-invoke", "--status-logger"], &[]),
    (&["groff"], "UXl", &[], &[]),
    (
        &["gcc", "g++", "cc", "c++", "cpp", "clang", "clang++", "gfortran"],
        "B",
        &["--specs"],
        &["-wrapper", "-specs", "-fplugin", "@"],
    ),
    (&["sqlite3"], "A", &["--cmd", "--init"], &["-cmd", "-init", "."]),
];

/// Programs that read commands from their standard input, some of which start a shell.
const FED: [&str; 12] = ["ed", "red", "ex", "vi", "vim", "nvim", "view", "sqlite3", "psql", "mysql", "sftp", "ftp"];

/// The commands that the program `name` may be told to run by its options, if it is one of these.
pub(super) fn look(name: &str, rest: &[Word], input: &Input) -> Option<Inside> {
    // `vim.basic`, `vim.tiny`: `vim` may be any of them.
    let name = if name.starts_with("vim.") { "vim" } else { name };
    if *input != Input::None && FED.contains(&name) {
        return Some(Inside::nothing().opaque("a program reads commands from its input"));
    }
    let (_, letters, long, beginnings) = PROGRAMS.iter().find(|(names, ..)| names.contains(&name))?;
    let Some(texts) = rest.iter().map(Word::as_str).collect::<Option<Vec<&str>>>() else {
        return Some(Inside::nothing().opaque(MAY_TAKE_COMMAND));
    };
    let takes_command = |text: &str| {
        let cluster = text.strip_prefix('-').filter(|letters| !letters.starts_with('-'));
        cluster.is_some_and(|cluster| cluster.contains(|letter| letters.contains(letter)))
            || long.iter().any(|option| may_be(text, option))
            || beginnings.iter().any(|beginning| text.starts_with(beginning))
    };
    // tar's first word may be a cluster without a dash.
    let first = texts.first().filter(|text| name.ends_with("tar") && !text.starts_with('-'));
    let old_cluster = first.is_some_and(|text| text.contains(|letter| letters.contains(letter)));
    let is_make = matches!(name, "make" | "gmake");
    let harmless = !texts.iter().any(|text| takes_command(text)) && !old_cluster;
    let harmless = harmless && !(is_make && sets_up_make(&texts));
    Some(if harmless { Inside::nothing() } else { Inside::nothing().opaque(TAKES_COMMAND) })
}

/// Whether a word is the long option, possibly abbreviated, with or without `=value`.
pub(super) fn may_be(text: &str, option: &str) -> bool {
    let given = text.split_once('=').map_or(text, |(given, _)| given);
    given.len() > 2 && given.starts_with("--") && option.starts_with(given)
}

/// Whether a word is evaluated by `make`, sets a variable that names a program, or names a stream as makefile.
fn sets_up_make(texts: &[&str]) -> bool {
    let sets_program = |text: &str| {
        text.split_once('=').is_some_and(|(name, _)| {
            let bare = name.trim_end_matches([':', '+', '?', '!', ' ']);
            name.ends_with('!') || bare.starts_with('.') || bare == "MAKE" || is_acted_upon(bare)
        })
    };
    let is_stream = |path: &str| path == "-" || path.contains("dev/") || path.contains("proc/");
    let reads_stream = texts.windows(2).any(|pair| match pair {
        [option, value] => is_file_option(option) && is_stream(value),
        _ => false,
    });
    let glued_stream = |text: &str| {
        let short = text.strip_prefix('-').filter(|text| !text.starts_with('-')).and_then(|text| text.split_once('f'));
        let long = text.split_once('=').filter(|(option, _)| is_file_option(option));
        short.or(long).is_some_and(|(_, value)| is_stream(value))
    };
    reads_stream || texts.iter().any(|text| text.contains('$') || sets_program(text) || glued_stream(text))
}

/// `-f`, at the end of a cluster too, or its long forms.
fn is_file_option(text: &str) -> bool {
    let is_short = text.starts_with('-') && !text.starts_with("--") && text.ends_with('f');
    is_short || may_be(text, "--file") || may_be(text, "--makefile")
}
