//! The repository that `git push`, `fetch`, `pull` and `ls-remote` connect to: a remote with an address, or an address.
//! Any other word is the path of a repository as soon as there is one, and its hooks and settings run programs.

use stockade_protocol::{GitOption, GitOptionEffect};

use super::settings::{Scope, Setting};

/// Schemes that git handles as connections. Of the name `x`, any other one is a program `git-remote-x`.
const SCHEMES: &[&str] = &["ftp", "ftps", "git", "git+ssh", "http", "https", "ssh", "ssh+git"];

/// The options of one subcommand, by their full names. Those that lead to other repositories or programs are left out,
/// and refused as unknown ones are.
struct Options {
    subcommand: &'static str,
    /// Long options that stand alone, or have a value only after `=`. All may be preceded by `no-`.
    alone: &'static [&'static str],
    /// Long options whose value is the next word or follows `=`.
    with_value: &'static [&'static str],
    letters: &'static str,
    /// Letters whose value is the rest of the word or the next word.
    letters_with_value: &'static str,
    /// Letters whose value is the rest of the word.
    letters_with_rest: &'static str,
}

/// git-push(1), git-fetch(1), git-pull(1), git-ls-remote(1).
const OPTIONS: &[Options] = &[
    Options {
        subcommand: "push",
        alone: &[
            "all",
            "atomic",
            "branches",
            "delete",
            "dry-run",
            "follow-tags",
            "force",
            "force-if-includes",
            "force-with-lease",
            "ipv4",
            "ipv6",
            "mirror",
            "porcelain",
            "progress",
            "prune",
            "quiet",
            "set-upstream",
            "signed",
            "tags",
            "thin",
            "verbose",
            "verify",
        ],
        with_value: &["push-option"],
        letters: "46dfnquv",
        letters_with_value: "o",
        letters_with_rest: "",
    },
    Options {
        subcommand: "fetch",
        alone: &[
            "all",
            "append",
            "atomic",
            "auto-gc",
            "auto-maintenance",
            "dry-run",
            "force",
            "ipv4",
            "ipv6",
            "keep",
            "porcelain",
            "prefetch",
            "progress",
            "prune",
            "prune-tags",
            "quiet",
            "refetch",
            "set-upstream",
            "show-forced-updates",
            "tags",
            "unshallow",
            "update-head-ok",
            "update-shallow",
            "verbose",
            "write-commit-graph",
            "write-fetch-head",
        ],
        with_value: &[
            "deepen",
            "depth",
            "filter",
            "jobs",
            "negotiation-tip",
            "refmap",
            "server-option",
            "shallow-exclude",
            "shallow-since",
        ],
        letters: "46Pafknpqtuv",
        letters_with_value: "jo",
        letters_with_rest: "",
    },
    Options {
        subcommand: "pull",
        alone: &[
            "all",
            "allow-unrelated-histories",
            "append",
            "autostash",
            "commit",
            "dry-run",
            "edit",
            "ff",
            "ff-only",
            "force",
            "gpg-sign",
            "ipv4",
            "ipv6",
            "jobs",
            "keep",
            "log",
            "progress",
            "prune",
            "quiet",
            "rebase",
            "set-upstream",
            "show-forced-updates",
            "signoff",
            "squash",
            "stat",
            "tags",
            "unshallow",
            "update-shallow",
            "verbose",
            "verify",
            "verify-signatures",
        ],
        with_value: &[
            "cleanup",
            "deepen",
            "depth",
            "negotiation-tip",
            "refmap",
            "server-option",
            "shallow-exclude",
            "shallow-since",
        ],
        letters: "46aefknpqtv",
        letters_with_value: "o",
        letters_with_rest: "Sjr",
    },
    Options {
        subcommand: "ls-remote",
        alone: &["branches", "exit-code", "get-url", "heads", "quiet", "refs", "symref", "tags"],
        with_value: &["server-option", "sort"],
        letters: "bhqt",
        letters_with_value: "o",
        letters_with_rest: "",
    },
];

/// The subcommand of a line of words after the program, and the words after it.
pub(crate) fn subcommand<'a>(program: &'a str, words: &'a [String]) -> Result<(&'a str, &'a [String]), String> {
    let name = program.rsplit('/').next().unwrap_or_default();
    let (subcommand, rest) = match name.strip_prefix("git-") {
        Some(own) => (own, words),
        None => {
            let is_plain = |word: &&String| {
                GitOption::read(word)
                    .is_some_and(|option| option.effect == GitOptionEffect::Nothing && !option.takes_next)
            };
            let globals = words.iter().take_while(is_plain).count();
            let rest = words.get(globals..).unwrap_or_default();
            rest.split_first().map_or(("", rest), |(first, rest)| (first.as_str(), rest))
        }
    };
    // With a slash it is the path of a program: `git a/b` starts `git-a/b` of the working directory.
    if !subcommand.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
        return Err(format!("`{subcommand}` is no plain name of a git command"));
    }
    if subcommand.starts_with('-') {
        return Err(format!("its option `{subcommand}` before the git command is not known, or changes what git does"));
    }
    Ok((subcommand, rest))
}

/// Whether the first word of a subcommand is a repository.
pub(crate) fn connects(subcommand: &str) -> bool {
    OPTIONS.iter().any(|options| options.subcommand == subcommand)
}

/// Checks the repository that a subcommand connects to.
pub(super) fn check(settings: &[Setting], subcommand: &str, words: &[String]) -> Result<(), String> {
    let Some(options) = OPTIONS.iter().find(|options| options.subcommand == subcommand) else { return Ok(()) };
    let (given, has_all) = given_repository(options, words)?;
    if let Some(word) = given {
        return if is_address(word) || is_remote(settings, subcommand, word) {
            Ok(())
        } else {
            Err(format!(
                "`{word}` is no remote with an address (`remote.{word}.url`), and commands could make a repository of \
                 that name: name a remote or an address"
            ))
        };
    }
    let names_remote = |setting: &&Setting| {
        setting.is("remote", "pushdefault") && setting.subsection.is_none()
            || setting.section == "branch" && matches!(setting.key.as_str(), "remote" | "pushremote")
    };
    let is_unknown = |setting: &&Setting| {
        let name = setting.text();
        // `.` is this repository, which was judged.
        name != "." && !is_address(name) && !is_remote(settings, subcommand, name)
    };
    if let Some(setting) = settings.iter().filter(names_remote).find(is_unknown) {
        return Err(format!(
            "`{}` in `{}` names `{}`, which is no remote with an address, and commands could make a repository of that \
             name: name the remote (`git {subcommand} origin`)",
            setting.name(),
            setting.file.display(),
            setting.text()
        ));
    }
    let fetches_all =
        matches!(subcommand, "fetch" | "pull") && (has_all || settings.iter().any(|s| s.is("fetch", "all")));
    let unknown = || settings.iter().filter(|s| s.section == "remote").filter_map(|s| s.subsection.as_deref());
    match unknown().find(|name| fetches_all && !is_remote(settings, subcommand, name)) {
        Some(name) => Err(format!("the remote `{name}` has no address (`remote.{name}.url`)")),
        None => Ok(()),
    }
}

/// A remote that missing objects are fetched from, and that has no address.
pub(super) fn promisor_without_address(settings: &[Setting]) -> Option<&str> {
    let promises = |setting: &&Setting| {
        setting.section == "remote" && matches!(setting.key.as_str(), "promisor" | "partialclonefilter")
    };
    let by_remote = settings.iter().filter(promises).filter_map(|setting| setting.subsection.as_deref());
    let by_extension = settings.iter().filter(|s| s.is("extensions", "partialclone")).map(Setting::text);
    by_remote.chain(by_extension).find(|name| !is_remote(settings, "fetch", name))
}

/// Whether settings that always count give a remote an address. Without one, its name is a path.
fn is_remote(settings: &[Setting], subcommand: &str, name: &str) -> bool {
    let mut addresses = settings.iter().filter(|setting| {
        setting.subsection.as_deref() == Some(name)
            && (setting.is("remote", "url") || (subcommand == "push" && setting.is("remote", "pushurl")))
    });
    // An empty value clears the list.
    let has_empty = addresses.clone().any(|setting| setting.text().is_empty());
    !has_empty && addresses.any(|setting| setting.scope == Scope::Always)
}

/// The word for the repository, and whether there is `--all`.
fn given_repository<'a>(options: &Options, words: &'a [String]) -> Result<(Option<&'a str>, bool), String> {
    let refused = |word: &str| {
        Err(format!(
            "its option `{word}` leads to other repositories or programs, or is not known: leave it out, or write it in full"
        ))
    };
    let (mut given, mut has_all) = (None, false);
    let mut left = words.iter();
    while let Some(word) = left.next() {
        if word == "--" || word == "--end-of-options" {
            let first = left.next().map(String::as_str);
            return match given.or(first) {
                Some(word) if word.starts_with('-') => refused(word),
                found => Ok((found, has_all)),
            };
        }
        if let Some(option) = word.strip_prefix("--") {
            let (name, value) = option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
            let plain = name.strip_prefix("no-").unwrap_or(name);
            has_all |= name == "all";
            let is_off = name == "no-recurse-submodules" || (name == "recurse-submodules" && value == Some("no"));
            if options.alone.contains(&plain) || is_off {
                continue;
            }
            match (options.with_value.contains(&plain), value) {
                (true, None) if name == plain => drop(left.next()),
                (true, _) => {}
                (false, _) => return refused(word),
            }
        } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            let ends = |c: &char| options.letters_with_value.contains(*c) || options.letters_with_rest.contains(*c);
            let alone: String = letters.chars().take_while(|c| !ends(c)).collect();
            if !alone.chars().all(|c| options.letters.contains(c)) {
                return refused(word);
            }
            let rest = letters.strip_prefix(alone.as_str()).unwrap_or_default();
            if rest.chars().count() == 1 && rest.chars().all(|c| options.letters_with_value.contains(c)) {
                left.next();
            }
        } else if given.is_none() {
            given = Some(word.as_str());
        }
    }
    Ok((given, has_all))
}

/// Whether git connects to a host for this word, and never takes it for a path.
pub(crate) fn is_address(word: &str) -> bool {
    match word.split_once("://") {
        Some((scheme, rest)) => SCHEMES.contains(&scheme) && !rest.is_empty(),
        None => is_short_address(word),
    }
}

/// Whether every text that starts like this is such an address.
pub(super) fn is_rewritten_to_address(start: &str) -> bool {
    match start.split_once("://") {
        Some((scheme, _)) => SCHEMES.contains(&scheme),
        // `file:` may be followed by `//`, and `ext:` by another colon.
        None => is_short_address(start) && !["ext:", "fd:", "file:"].contains(&start.to_ascii_lowercase().as_str()),
    }
}

/// `user@host:path`: a colon before any slash, as git tells it from a path.
fn is_short_address(word: &str) -> bool {
    // `ext::x` is a program.
    let host = word.split_once(':').filter(|_| !word.contains("::")).map(|(host, _)| host);
    host.is_some_and(|host| !host.is_empty() && !host.contains('/') && !host.starts_with('-'))
}
