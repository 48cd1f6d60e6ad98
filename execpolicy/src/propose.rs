//! Which rule to offer with a prompt, if any.
//!
//! A saved prefix is a standing permission for every command that begins with it, whatever follows.
//! So it is offered only where the person sees all that it grants: a single plain command that no
//! rule speaks of, by a program that does its own work. The tables below are the whole judgement.

use stockade_protocol::{Argv, Decision, ExecPolicyAmendment, ParsedCommand, ParsedLine};

use crate::{Evaluation, program};

/// Longer commands are not something that a person reads to the end.
const MAX_WORDS: usize = 24;
const MAX_BYTES: usize = 1024;

/// Programs that run what they are given, reach where they are told, or cannot be undone. No prefix
/// of theirs is offered, because what follows it decides what happens.
const NEVER: &[&str] = &[
    // Shells.
    "sh",
    "bash",
    "dash",
    "zsh",
    "fish",
    "ksh",
    "mksh",
    "csh",
    "tcsh",
    "ash",
    "nu",
    "pwsh",
    "powershell",
    "cmd",
    // Interpreters, also under versioned names: see `is_never`.
    "python",
    "pypy",
    "node",
    "nodejs",
    "deno",
    "bun",
    "perl",
    "ruby",
    "php",
    "lua",
    "luajit",
    "tclsh",
    "wish",
    "expect",
    "osascript",
    "Rscript",
    "julia",
    "guile",
    "racket",
    "java",
    "jshell",
    "groovy",
    "scala",
    "elixir",
    "erl",
    "escript",
    "awk",
    "gawk",
    "mawk",
    "nawk",
    "sed",
    "gdb",
    "lldb",
    "vi",
    "vim",
    "nvim",
    "emacs",
    "ed",
    "ex",
    "irb",
    "ipython",
    "tsx",
    "ts-node",
    "swift",
    "ocaml",
    "ghci",
    "runghc",
    "sqlite3",
    "psql",
    "mysql",
    "jq",
    "m4",
    // Programs that start another program.
    "env",
    "sudo",
    "su",
    "doas",
    "pkexec",
    "runuser",
    "xargs",
    "parallel",
    "find",
    "fd",
    "nohup",
    "timeout",
    "time",
    "nice",
    "ionice",
    "chrt",
    "taskset",
    "stdbuf",
    "setsid",
    "setpriv",
    "unshare",
    "nsenter",
    "chroot",
    "flock",
    "watch",
    "strace",
    "ltrace",
    "perf",
    "valgrind",
    "exec",
    "eval",
    "command",
    "builtin",
    "source",
    ".",
    "trap",
    "coproc",
    "busybox",
    "toybox",
    "script",
    "screen",
    "tmux",
    "ssh",
    "mosh",
    "rsh",
    "systemd-run",
    "systemctl",
    "launchctl",
    "crontab",
    "at",
    "batch",
    "entr",
    "npx",
    "pnpx",
    "bunx",
    "uvx",
    "pipx",
    "direnv",
    "nix",
    "nix-shell",
    "bwrap",
    "docker",
    "podman",
    "nerdctl",
    "kubectl",
    "helm",
    "vagrant",
    "ansible",
    "ansible-playbook",
    "terraform",
    // Programs that send and fetch.
    "curl",
    "wget",
    "scp",
    "sftp",
    "ftp",
    "rsync",
    "nc",
    "ncat",
    "netcat",
    "socat",
    "telnet",
    "aws",
    "gcloud",
    "az",
    // Programs whose work cannot be undone, or that change who may do what.
    "rm",
    "rmdir",
    "unlink",
    "shred",
    "dd",
    "mkfs",
    "mv",
    "truncate",
    "tee",
    "install",
    "ln",
    "chmod",
    "chown",
    "chgrp",
    "setfacl",
    "mount",
    "umount",
    "kill",
    "killall",
    "pkill",
    "shutdown",
    "reboot",
    "passwd",
    "useradd",
    "usermod",
    "visudo",
    "iptables",
    "nft",
    "sysctl",
    "export",
    "alias",
    "set",
    "unset",
    "hash",
    "enable",
];

/// Programs whose first operand is the real verb, and the verbs after which operands only choose
/// what of the same work is done. Other verbs are offered to the last word; an option in front of
/// the verb could redirect all of it, so then nothing is offered.
const VERBS: &[(&str, &[&str])] = &[
    ("cargo", &["bench", "build", "check", "clippy", "doc", "fmt", "test"]),
    ("git", &["add", "commit", "status"]),
    ("go", &["build", "fmt", "test", "vet"]),
    ("npm", &["test"]),
    ("pnpm", &["test"]),
    ("yarn", &["test"]),
    ("dotnet", &["build", "test"]),
    ("gh", &[]),
    ("hg", &[]),
    ("jj", &[]),
    ("svn", &[]),
    ("pip", &[]),
    ("pip3", &[]),
    ("uv", &[]),
    ("poetry", &[]),
    ("rustup", &[]),
    ("brew", &[]),
    ("apt", &[]),
    ("apt-get", &[]),
    ("dnf", &[]),
    ("mvn", &[]),
    ("gradle", &[]),
    ("bazel", &[]),
    ("buck2", &[]),
];

/// The rule that may be offered with a prompt for `argv`.
///
/// `line` is what `argv` runs (for a shell, its parsed script), `evaluation` what the rules made of
/// it. A script that could not be read is offered as the whole `argv` or not at all; see
/// [`Policy::evaluate_argv`](crate::Policy::evaluate_argv) for how such a rule counts.
pub fn propose_amendment(argv: &Argv, line: &ParsedLine, evaluation: &Evaluation) -> Option<ExecPolicyAmendment> {
    // A rule that asks must go on asking, so an allow rule is offered only where there is none.
    if evaluation.decision != Decision::Prompt || evaluation.is_match() {
        return None;
    }
    let prefix = if line.opaque.is_some() { whole_script(argv)? } else { prefix_of(single_plain(line)?)? };
    let readable = prefix.words().len() <= MAX_WORDS
        && prefix.words().iter().map(|word| word.as_bytes().len()).sum::<usize>() <= MAX_BYTES;
    let writable = prefix.words().iter().all(|word| word.as_str().is_some());
    (readable && writable).then_some(ExecPolicyAmendment(prefix))
}

/// A shell with its script, to the last word. A script in a file can change, so only `-c` counts.
fn whole_script(argv: &Argv) -> Option<Argv> {
    const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh"];
    let [shell, option, _script] = argv.words() else { return None };
    let shell = shell.as_str()?;
    let name = shell.rsplit('/').next()?;
    // A path that depends on the directory may be another program tomorrow.
    let is_fixed = !shell.contains('/') || shell.starts_with('/');
    let runs_text = matches!(option.as_str()?, "-c" | "-lc" | "-cl");
    (is_fixed && SHELLS.contains(&name) && runs_text).then(|| argv.clone())
}

fn single_plain(line: &ParsedLine) -> Option<&ParsedCommand> {
    match line.commands.as_slice() {
        [only] if only.is_plain() && only.reads.is_empty() => Some(only),
        _ => None,
    }
}

fn prefix_of(command: &ParsedCommand) -> Option<Argv> {
    let words: Vec<&str> = command.words.iter().map(|word| word.as_str()).collect::<Option<_>>()?;
    let (program, operands) = words.split_first()?;
    let name = match program::base_name(program.as_bytes()) {
        // A path that depends on the directory may be another program tomorrow.
        Some(_) if !program.starts_with('/') => return None,
        Some(name) => std::str::from_utf8(name).ok()?,
        None => program,
    };
    let first = operands.first()?;
    if is_never(name) {
        return None;
    }
    let length = match VERBS.iter().find(|(known, _)| *known == name) {
        Some(_) if first.starts_with('-') => return None,
        Some((_, verbs)) if verbs.contains(first) => 2,
        Some(_) | None => words.len(),
    };
    Argv::parse(words.into_iter().take(length)).ok()
}

/// Whether the name is in the table, with a version behind it or not: `python3.12`, `perl5`.
fn is_never(name: &str) -> bool {
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    NEVER.contains(&name) || NEVER.contains(&bare) || name.starts_with("mkfs.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostExecutables, Layer, Policy};

    fn proposal(rules: &str, words: &[&str]) -> Option<String> {
        let policy = Policy::parse("t.rules", rules, Layer::User).unwrap();
        let argv = Argv::parse(words.iter().copied()).unwrap();
        let line = ParsedLine::single(&argv);
        let evaluation = policy.evaluate(&line, HostExecutables::Resolve, |_| Decision::Prompt);
        propose_amendment(&argv, &line, &evaluation).map(|amendment| amendment.0.to_string())
    }

    #[test]
    fn a_known_verb_is_offered_without_its_operands() {
        assert_eq!(proposal("", &["npm", "test"]).as_deref(), Some("npm test"));
        assert_eq!(proposal("", &["cargo", "test", "--workspace"]).as_deref(), Some("cargo test"));
        assert_eq!(proposal("", &["git", "commit", "-m", "x"]).as_deref(), Some("git commit"));
    }

    #[test]
    fn everything_else_is_offered_to_the_last_word() {
        assert_eq!(proposal("", &["git", "push", "origin", "main"]).as_deref(), Some("git push origin main"));
        assert_eq!(proposal("", &["npm", "run", "build"]).as_deref(), Some("npm run build"));
        assert_eq!(proposal("", &["make", "check"]).as_deref(), Some("make check"));
        assert_eq!(proposal("", &["/opt/bin/make", "check"]).as_deref(), Some("/opt/bin/make check"));
    }

    #[test]
    fn nothing_is_offered_for_what_runs_anything() {
        let none: [&[&str]; 16] = [
            &["python3", "-c", "print(1)"],
            &["python3.12", "x.py"],
            &["curl", "-s", "https://a/b"],
            &["env", "A=1", "ls"],
            &["bash", "-lc", "x"],
            &["/usr/bin/sudo", "ls"],
            &["rm", "x"],
            &["git"],
            &["make"],
            &["git", "-C", "x", "push"],
            &["npm", "--prefix", "evil", "test"],
            &["./build.sh", "x"],
            &["node", "x.js"],
            &["xargs", "rm"],
            &["perl5.36", "x"],
            &["find", ".", "-delete"],
        ];
        for words in none {
            assert_eq!(proposal("", words), None, "{words:?}");
        }
    }

    #[test]
    fn a_rule_that_asks_goes_on_asking() {
        let rules = r#"prefix_rule(pattern=["git", "status"], decision="prompt")"#;
        assert_eq!(proposal(rules, &["git", "status"]), None);
        assert_eq!(proposal("", &["git", "status"]).as_deref(), Some("git status"));
        assert_eq!(proposal(r#"prefix_rule(pattern=["git", "status"])"#, &["git", "status"]), None);
    }

    #[test]
    fn a_script_that_cannot_be_read_is_offered_as_a_whole() {
        let policy = Policy::default();
        let offer = |words: &[&str]| {
            let argv = Argv::parse(words.iter().copied()).unwrap();
            let line = ParsedLine { opaque: Some("a here-document".into()), ..ParsedLine::default() };
            let evaluation = policy.evaluate(&line, HostExecutables::Resolve, |_| Decision::Prompt);
            propose_amendment(&argv, &line, &evaluation).map(|amendment| amendment.0)
        };
        let script = ["bash", "-lc", "cat <<E\nx\nE"];
        assert_eq!(offer(&script), Argv::parse(script).ok());
        assert_eq!(offer(&["./bash", "-lc", "x"]), None);
        assert_eq!(offer(&["bash", "script.sh", "x"]), None);
        assert_eq!(offer(&["bash", "-lc", "x", "y"]), None);
    }
}
