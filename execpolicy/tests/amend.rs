//! Saving rules: round trips, many writers at once, full disks and hostile places.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of a test fails by panicking"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proptest::prelude::*;
use stockade_execpolicy::{Amended, Layer, Policy, PolicyLoader, RulesError, append_allow_rule, append_network_rule};
use stockade_protocol::{Argv, Decision, ExecPolicyAmendment, NetworkProtocol};

fn prefix(words: &[&str]) -> ExecPolicyAmendment {
    ExecPolicyAmendment(Argv::parse(words.iter().copied()).unwrap())
}

fn patterns(file: &Path) -> Vec<Vec<String>> {
    let policy = PolicyLoader::new().file(file).load().unwrap_or_else(|error| panic!("{error}"));
    let only = |token: &stockade_execpolicy::PatternToken| {
        token.alternatives().map(str::to_owned).collect::<Vec<_>>().concat()
    };
    policy.rules().map(|rule| rule.pattern().iter().map(only).collect()).collect()
}

fn leftovers(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".new")).collect()
}

#[test]
fn a_missing_newline_is_made_up_for() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.rules");
    fs::write(&file, "prefix_rule(pattern=[\"ls\"])  # mine").unwrap();
    append_allow_rule(&file, &prefix(&["make", "check"])).unwrap();
    let expected = "prefix_rule(pattern=[\"ls\"])  # mine\nprefix_rule(pattern=[\"make\", \"check\"], decision=\"allow\", exact=True)\n";
    assert_eq!(fs::read_to_string(&file).unwrap(), expected);
}

#[test]
fn what_is_implied_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.rules");
    fs::write(&file, "prefix_rule(pattern=[\"git\", [\"status\", \"log\"]])\n").unwrap();
    let before = fs::metadata(&file).unwrap().modified().unwrap();
    assert_eq!(append_allow_rule(&file, &prefix(&["git", "log"])).unwrap(), Amended::AlreadyThere);
    assert_eq!(append_allow_rule(&file, &prefix(&["git", "log", "-1"])).unwrap(), Amended::AlreadyThere);
    assert_eq!(fs::metadata(&file).unwrap().modified().unwrap(), before);
    assert_eq!(append_allow_rule(&file, &prefix(&["git", "diff"])).unwrap(), Amended::Written);
}

#[test]
fn a_rule_that_would_be_void_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.rules");
    fs::write(&file, "prefix_rule(pattern=[\"git\", \"push\"], decision=\"prompt\")\n").unwrap();
    let error = append_allow_rule(&file, &prefix(&["git", "push", "origin"])).unwrap_err();
    assert!(matches!(error, RulesError::Restricted { .. }), "{error}");
    assert!(error.to_string().contains(r#"["git", "push"] at "#), "{error}");
}

#[test]
fn a_bad_file_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.rules");
    for text in ["prefix_rule(pattern=[\"ls\"", "x = 1 \\", "\u{0}", "\"\"\""] {
        fs::write(&file, text).unwrap();
        let error = append_allow_rule(&file, &prefix(&["ls", "-l"])).unwrap_err();
        assert!(matches!(error, RulesError::Invalid(_)), "{error}");
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
        assert_eq!(leftovers(dir.path()), [""; 0]);
    }
}

#[test]
fn a_word_that_is_not_text_cannot_be_saved() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.rules");
    let argv = Argv::parse([b"cat".to_vec(), b"caf\xe9".to_vec()]).unwrap();
    let error = append_allow_rule(&file, &ExecPolicyAmendment(argv)).unwrap_err();
    assert!(matches!(error, RulesError::Unwritable { .. }), "{error}");
    assert!(!file.exists());
}

#[test]
fn network_rules_are_saved_and_only_get_stricter() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("deep/er/a.rules");
    let save = |decision| {
        let host = "Api.Example.com.".parse().unwrap();
        append_network_rule(&file, &host, NetworkProtocol::Https, None, decision, Some("a \"b\""))
    };
    assert_eq!(save(Decision::Allow).unwrap(), Amended::Written);
    assert_eq!(save(Decision::Allow).unwrap(), Amended::AlreadyThere);
    assert_eq!(save(Decision::Forbidden).unwrap(), Amended::Written);
    assert!(matches!(save(Decision::Allow), Err(RulesError::Restricted { .. })));
    let text = fs::read_to_string(&file).unwrap();
    let first = "network_rule(host=\"api.example.com\", protocol=\"https\", decision=\"allow\", justification=\"a \\\"b\\\"\")\n";
    assert!(text.starts_with(first), "{text}");
    let policy = Policy::parse("t", &text, Layer::User).unwrap();
    let rule = policy.network_rule(&"api.example.com".parse().unwrap(), NetworkProtocol::Https, 443).unwrap();
    assert_eq!((rule.decision(), rule.justification()), (Decision::Forbidden, Some("a \"b\"")));
}

#[test]
fn a_network_rule_for_one_port_says_nothing_of_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.rules");
    let host = "api.example.com".parse().unwrap();
    let save = |port, decision| append_network_rule(&file, &host, NetworkProtocol::Tcp, port, decision, None).unwrap();
    assert_eq!(save(Some(22), Decision::Allow), Amended::Written);
    assert_eq!(save(Some(22), Decision::Allow), Amended::AlreadyThere);
    assert_eq!(save(Some(23), Decision::Forbidden), Amended::Written);
    let line = "network_rule(host=\"api.example.com\", protocol=\"socks5_tcp\", decision=\"allow\", port=22)\n";
    assert!(fs::read_to_string(&file).unwrap().starts_with(line));
    let decide = |port| {
        let policy = Policy::parse("t", &fs::read_to_string(&file).unwrap(), Layer::User).unwrap();
        policy.network_rule(&host, NetworkProtocol::Tcp, port).map(|rule| rule.decision())
    };
    assert_eq!((decide(22), decide(23)), (Some(Decision::Allow), Some(Decision::Forbidden)));
    assert_eq!(decide(80), None);
    assert_eq!(save(None, Decision::Allow), Amended::Written, "a rule for one port settles nothing for all");
    assert_eq!((decide(80), decide(23)), (Some(Decision::Allow), Some(Decision::Forbidden)));
}

#[cfg(unix)]
#[test]
fn links_modes_and_owners_survive() {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    let dir = tempfile::tempdir().unwrap();
    let (real, link) = (dir.path().join("real.rules"), dir.path().join("link.rules"));
    fs::write(&real, "").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("real.rules", &link).unwrap();
    let owner = fs::metadata(&real).unwrap().uid();
    append_allow_rule(&link, &prefix(&["ls", "-l"])).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(patterns(&real), [["ls", "-l"]]);
    assert_eq!(fs::metadata(&real).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(fs::metadata(&real).unwrap().uid(), owner);
    // A new file is for its owner alone, and a link that leads nowhere is not followed.
    let fresh = dir.path().join("new/x.rules");
    append_allow_rule(&fresh, &prefix(&["ls", "-l"])).unwrap();
    assert_eq!(fs::metadata(&fresh).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(fs::metadata(fresh.parent().unwrap()).unwrap().mode() & 0o7777, 0o700);
    let dangling = dir.path().join("dangling.rules");
    symlink("/nonexistent/x.rules", &dangling).unwrap();
    assert!(matches!(append_allow_rule(&dangling, &prefix(&["ls", "-l"])), Err(RulesError::Save { .. })));
    // Neither is one that was planted in place of the files beside it.
    let bait = dir.path().join("bait");
    fs::write(&bait, "precious").unwrap();
    symlink("bait", dir.path().join(".trap.rules.lock")).unwrap();
    assert!(append_allow_rule(&dir.path().join("trap.rules"), &prefix(&["ls", "-l"])).is_err());
    symlink("bait", dir.path().join(".trap2.rules.new")).unwrap();
    append_allow_rule(&dir.path().join("trap2.rules"), &prefix(&["ls", "-l"])).unwrap();
    assert_eq!(fs::read_to_string(&bait).unwrap(), "precious");
}

/// Starts this test program again, to be `child` alone with the given file.
#[expect(clippy::disallowed_methods, reason = "the test needs real processes")]
fn this_program(child: &str, file: &Path, shell_prologue: Option<&str>) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut command = match shell_prologue {
        None => Command::new(program),
        Some(prologue) => {
            let mut shell = Command::new("sh");
            shell.arg("-c").arg(format!("{prologue}; exec \"$0\" \"$@\"")).arg(program);
            shell
        }
    };
    command.args(["--exact", child, "--ignored", "--test-threads=1"]).env("RULES_FILE", file);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn rules_file() -> PathBuf {
    std::env::var_os("RULES_FILE").expect("started by another test").into()
}

const WRITERS: usize = 8;
const RULES_EACH: usize = 50;
const SHARED: usize = 5;

#[test]
#[ignore = "a process of `many_processes_write_without_loss`"]
fn writer() {
    let own: usize = std::env::var("WRITER").unwrap().parse().unwrap();
    for index in 0..RULES_EACH {
        append_allow_rule(&rules_file(), &prefix(&["tool", &format!("w{own}"), &format!("r{index}")])).unwrap();
        // A rule that all of them want: exactly one may write it.
        append_allow_rule(&rules_file(), &prefix(&["shared", &format!("r{}", index % SHARED)])).unwrap();
    }
}

#[test]
fn many_processes_write_without_loss() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rules/a.rules");
    let children: Vec<_> = (0..WRITERS)
        .map(|index| this_program("writer", &file, None).env("WRITER", index.to_string()).spawn().unwrap())
        .collect();
    // A reader at any time sees a valid file.
    let reader = || if file.exists() { patterns(&file).len() } else { 0 };
    let mut seen = 0;
    let mut running = children;
    while !running.is_empty() {
        let now = reader();
        assert!(now >= seen, "rules vanished: {seen}, then {now}");
        seen = now;
        std::thread::sleep(std::time::Duration::from_millis(20));
        running.retain_mut(|child| match child.try_wait().unwrap() {
            Some(status) => {
                assert!(status.success());
                false
            }
            None => true,
        });
    }
    let mut written = patterns(&file);
    assert_eq!(written.len(), WRITERS * RULES_EACH + SHARED);
    written.sort();
    written.dedup();
    assert_eq!(written.len(), WRITERS * RULES_EACH + SHARED, "a rule was written twice");
    assert_eq!(leftovers(file.parent().unwrap()), [""; 0]);
}

#[cfg(unix)]
#[test]
#[ignore = "a process of `a_disk_that_is_full_leaves_the_old_file`"]
fn writer_without_space() {
    let error = append_allow_rule(&rules_file(), &prefix(&["one", "too", "many"])).unwrap_err();
    assert!(matches!(error, RulesError::Save { act: "write", .. }), "{error}");
}

/// The limit on the size of a file fails a write in the middle, as a full disk does. Where the
/// signal that comes with it is ignored, the write fails; where it is not, the process dies.
#[cfg(unix)]
/// or14: an interrupted write leaves the old rules.
#[test]
fn a_disk_that_is_full_leaves_the_old_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.rules");
    let old: String = (0..2000).map(|index| format!("prefix_rule(pattern=[\"tool\", \"r{index}\"])\n")).collect();
    fs::write(&file, &old).unwrap();
    let failing = this_program("writer_without_space", &file, Some("trap '' XFSZ; ulimit -f 8")).status().unwrap();
    assert!(failing.success(), "the write must fail with an error: {failing}");
    assert_eq!(fs::read_to_string(&file).unwrap(), old);
    assert_eq!(leftovers(dir.path()), [""; 0]);
    let dying = this_program("writer_without_space", &file, Some("ulimit -f 8")).status().unwrap();
    assert!(!dying.success(), "the process was expected to die in the middle of the write");
    assert_eq!(fs::read_to_string(&file).unwrap(), old);
    // The dead writer's leftovers do not stop the next.
    assert_eq!(leftovers(dir.path()).len(), 1);
    append_allow_rule(&file, &prefix(&["one", "more"])).unwrap();
    assert_eq!(patterns(&file).len(), 2001);
    assert_eq!(leftovers(dir.path()), [""; 0]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn what_is_saved_reads_back_as_the_same_words(
        words in prop::collection::vec(prop_oneof![any::<String>(), "[\\x00-\\x7f]{0,8}", "[\u{200b}-\u{202e}\"'\\\\\\n]{0,8}"], 1..5)
    ) {
        prop_assume!(Argv::parse(words.iter().map(String::as_str)).is_ok());
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.rules");
        append_allow_rule(&file, &ExecPolicyAmendment(Argv::parse(words.iter().map(String::as_str)).unwrap())).unwrap();
        prop_assert_eq!(patterns(&file), vec![words]);
        let text = fs::read_to_string(&file).unwrap();
        prop_assert!(text.lines().count() == 1 && !text.trim_end().contains(char::is_control), "{text:?}");
    }
}
