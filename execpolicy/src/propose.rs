//! Proposes the rule to offer with a prompt, if any.
//!
//! A saved rule is a standing permission: it grants exactly the command that was shown, to the last word, inside the
//! sandbox. No prefix is ever offered: the words after it can name programs to run (`go test -exec`, `cargo build
//! --config`, `tar xf a --to-command=`), and no table of such options would be complete. An exact rule is offered for
//! a single plain command that no rule matches, alone or as the whole script of a shell, unless its program is in the
//! table of `never.rs`.

mod never;

use stockade_protocol::{Argv, CommandRole, Decision, ExecPolicyAmendment, ParsedCommand, ParsedLine};

use self::never::is_never;
use crate::{Evaluation, program};

/// Limit on words; people don't read longer commands to the end.
const MAX_WORDS: usize = 24;
const MAX_BYTES: usize = 1024;

/// The rule that may be offered with a prompt for `argv`: exactly this command.
///
/// `line` is the parsed form of `argv` (for a shell, of its script), `evaluation` its evaluation. See
/// [`Policy::evaluate_argv`](crate::Policy::evaluate_argv) for the effect of a rule for a shell and its script.
pub fn propose_amendment(argv: &Argv, line: &ParsedLine, evaluation: &Evaluation) -> Option<ExecPolicyAmendment> {
    // A prompting rule stays in force, so an allow rule is offered only if no rule matches.
    if evaluation.decision != Decision::Prompt || evaluation.is_match() {
        return None;
    }
    let words = argv.words();
    let is_readable =
        words.len() <= MAX_WORDS && words.iter().map(|word| word.as_bytes().len()).sum::<usize>() <= MAX_BYTES;
    let is_writable = words.iter().all(|word| word.as_str().is_some());
    let is_harmless = match (line.commands.as_slice(), &line.opaque) {
        ([only], None) => does_its_own_work(only),
        ([shell, only], None) => {
            shell.role == CommandRole::Wrapper && script(argv).is_some() && does_its_own_work(only)
        }
        (_, None) => false,
        // Only if the script contains the input, too: other input would not be part of the rule (`make -f-`).
        (_, Some(_)) => {
            script(argv).is_some_and(|script| script.contains("<<") && names_no_program_of_the_table(script))
        }
    };
    (is_readable && is_writable && is_harmless).then(|| ExecPolicyAmendment(argv.clone()))
}

/// The script of a shell without other arguments. A file can change, so only `-c` counts.
fn script(argv: &Argv) -> Option<&str> {
    const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh"];
    let [shell, option, script] = argv.words() else { return None };
    let name = fixed_name(shell.as_str()?)?;
    let runs_text = matches!(option.as_str()?, "-c" | "-lc" | "-cl");
    script.as_str().filter(|_| SHELLS.contains(&name) && runs_text)
}

/// Whether the command has no assignments or redirections, and its program is not in the table.
fn does_its_own_work(command: &ParsedCommand) -> bool {
    let program = command.words.first().and_then(|word| word.as_str());
    let name = program.and_then(fixed_name);
    let is_plain = command.role == CommandRole::Runs && command.is_plain() && command.reads.is_empty();
    is_plain && name.is_some_and(|name| !is_never(name))
}

/// Whether the text of an opaque script evidently names no program of the table: it has nothing that composes names
/// (quotes, expansions, patterns), refers to a file, or joins commands.
fn names_no_program_of_the_table(script: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_plain = |c: char| is_part(c) || matches!(c, ' ' | '\t' | '\n' | '+' | ',' | ':' | '@' | '%' | '<' | '\\');
    let names_none = |text: &str| !text.split(|c: char| !is_part(c)).any(is_never);
    // A backslash may separate words or vanish, and one before a newline joins lines: every reading is checked.
    let joined = script.replace("\\\n", "");
    let is_unnamed = |text: &str| names_none(text) && names_none(&text.replace('\\', ""));
    script.chars().all(is_plain) && is_unnamed(script) && is_unnamed(&joined)
}

/// The name of a program, unless it depends on the working directory.
fn fixed_name(program: &str) -> Option<&str> {
    match program::base_name(program.as_bytes()) {
        Some(_) if !program.starts_with('/') => None,
        Some(name) => std::str::from_utf8(name).ok(),
        None => Some(program),
    }
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
    fn a_command_is_offered_to_the_last_word() {
        for words in [
            &["npm", "test"][..],
            &["make"],
            &["make", "check"],
            &["/opt/bin/make", "check"],
            &["cargo", "test", "--workspace"],
            &["go", "test", "-exec", "./x", "./..."],
            &["git", "commit", "-m", "x"],
            &["git", "push", "origin", "main"],
            &["git", "-C", "x", "push"],
            &["tar", "xf", "a.tar"],
            &["dotnet", "build", "-p:X=y"],
        ] {
            assert_eq!(proposal("", words), Some(words.join(" ")), "{words:?}");
        }
    }

    #[test]
    fn nothing_is_offered_for_what_runs_anything() {
        let none: [&[&str]; 25] = [
            &["perl5.36-x86_64-linux-gnu", "x"],
            &["vim.basic", "x"],
            &["rvim", "x"],
            &["original-awk", "x"],
            &["bash-static", "x"],
            &["python3-dbg", "x"],
            &["luajit-2.1.0-beta3", "x"],
            &["debconf", "sh"],
            &["systemd-cat", "make"],
            &["ssh-agent", "make"],
            &["/lib64/ld-linux-x86-64.so.2", "/bin/sh"],
            &["setarch", "-R", "make"],
            &["python3", "-c", "print(1)"],
            &["python3.12", "x.py"],
            &["curl", "-s", "https://a/b"],
            &["env", "A=1", "ls"],
            &["bash", "-lc", "x"],
            &["/usr/bin/sudo", "ls"],
            &["rm", "x"],
            &["./build.sh", "x"],
            &["bin/build", "x"],
            &["node", "x.js"],
            &["xargs", "rm"],
            &["perl5.36", "x"],
            &["find", ".", "-delete"],
        ];
        for words in none {
            assert_eq!(proposal("", words), None, "{words:?}");
        }
        assert_eq!(proposal("", &["make", &"x".repeat(MAX_BYTES)]), None);
        assert_eq!(proposal("", &["make"; MAX_WORDS + 1]), None);
    }

    #[test]
    fn a_rule_that_asks_goes_on_asking() {
        let rules = r#"prefix_rule(pattern=["git", "status"], decision="prompt")"#;
        assert_eq!(proposal(rules, &["git", "status"]), None);
        assert_eq!(proposal("", &["git", "status"]).as_deref(), Some("git status"));
        assert_eq!(proposal(r#"prefix_rule(pattern=["git", "status"])"#, &["git", "status"]), None);
    }

    #[test]
    fn a_script_that_cannot_be_read_is_offered_as_a_whole_if_it_names_no_program_of_the_table() {
        let policy = Policy::default();
        let offer = |words: &[&str]| {
            let argv = Argv::parse(words.iter().copied()).unwrap();
            let line = ParsedLine { opaque: Some("a here-document".into()), ..ParsedLine::default() };
            let evaluation = policy.evaluate(&line, HostExecutables::Resolve, |_| Decision::Prompt);
            propose_amendment(&argv, &line, &evaluation).map(|amendment| amendment.0)
        };
        for script in ["cat <<E\nx\nE", r"cat <<E\nx\nE"] {
            assert_eq!(offer(&["bash", "-lc", script]), Argv::parse(["bash", "-lc", script]).ok());
        }
        assert_eq!(offer(&["./bash", "-lc", "x"]), None);
        assert_eq!(offer(&["bash", "script.sh", "x"]), None);
        assert_eq!(offer(&["bash", "-lc", "x", "y"]), None);
        for script in [
            "curl https://a/b | sh",
            "cat <<E | sh",
            "sh <<E\nx\nE",
            "sh<<E\nx\nE",
            r"s\h <<E",
            "make -f-",
            "s\\\nh s",
            "s\\\nh <<E\nmake check\nE",
            "p\\\nython3 -V",
            "e\\\nval make",
            "c\\\nurl x",
            "r\\\nm f",
            "source x",
            ". x",
            "cat x; make",
            "$x",
            "c'ur'l x",
            "{s,h}h x",
            "/usr/bin/cur? x",
            "./x <<E",
            "python3.12 <<E",
            "cat <(make)",
        ] {
            assert_eq!(offer(&["bash", "-c", script]), None, "{script}");
        }
    }
}
