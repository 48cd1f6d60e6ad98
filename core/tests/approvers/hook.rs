//! Hooks as real programs: what they are told, what counts as an answer, and how they end.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::slice::from_ref;
use std::time::{Duration, Instant};

use crate::support::{denied, question};
use stockade_core::{Answer, Approver as _, ApproverError, Hook, Unanswered};
use stockade_protocol::{AbsPath, ReviewDecision};
use tempfile::TempDir;

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    /// Written by another process: a program can't be started while a file of it is open for writing,
    /// and another test may start one, and so inherit the file, at any moment.
    #[expect(clippy::disallowed_methods, reason = "the test harness starts processes")]
    fn hook(&self, script: &str) -> Hook {
        let path = self.path("hook");
        let mut writer = Command::new("/bin/sh");
        writer.args(["-c", r#"cat >"$0" && chmod 755 "$0""#]).arg(&path).stdin(Stdio::piped());
        let mut writer = writer.spawn().unwrap();
        write!(writer.stdin.take().unwrap(), "#!/bin/sh\n{script}\n").unwrap();
        assert!(writer.wait().unwrap().success());
        Hook::new(AbsPath::from_path(&path).unwrap()).unwrap().within_time(Duration::from_secs(20))
    }
}

async fn review(hook: &Hook) -> Result<Answer, Unanswered> {
    hook.review(question("a")).await
}

fn why(result: Result<Answer, Unanswered>) -> String {
    result.unwrap_err().to_string()
}

#[tokio::test]
async fn a_decision_or_a_reply_is_an_answer() {
    let place = Place::new();
    assert_eq!(review(&place.hook(r#"echo '"approved"'"#)).await, Ok(ReviewDecision::Approved.into()));
    let reply = r#"cat >/dev/null; echo '{"id":"a","decision":{"denied":{"reason":"not today"}}}'"#;
    assert_eq!(review(&place.hook(reply)).await, Ok(denied("not today").into()));
}

#[tokio::test]
async fn it_is_told_the_question_and_nothing_else() {
    let place = Place::new();
    let hook =
        place.hook(r#"cat >question; env >environment; pwd >directory; echo "$#" >arguments; echo '"approved"'"#);
    review(&hook).await.unwrap();
    let read = |name: &str| std::fs::read_to_string(place.path(name)).unwrap();
    let told: stockade_protocol::ApprovalRequest = serde_json::from_str(&read("question")).unwrap();
    assert_eq!(told, *question("a"));
    assert_eq!(read("question").matches('\n').count(), 1);
    assert_eq!(Path::new(read("directory").trim_end()), place.path(""));
    assert_eq!(read("arguments"), "0\n");
    // The test itself has more: cargo sets these.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(!read("environment").contains("CARGO"), "{}", read("environment"));
    assert!(read("environment").contains("PATH="));
}

#[tokio::test]
async fn what_is_no_answer_is_not_taken_for_one() {
    let place = Place::new();
    for (script, words) in [
        ("", "no answer"),
        ("echo yes", "no answer"),
        (r#"echo '"approved" "approved"'"#, "no answer"),
        (r#"echo '{"network_policy_amendment":{"network_policy_amendment":["a.test","allow"]}}'"#, "no answer"),
        (
            r#"echo '{"id":"a","decision":{"network_policy_amendment":{"network_policy_amendment":["a.test","allow"]}}}'"#,
            "no answer",
        ),
        (r#"echo '{"id":"b","decision":"approved"}'"#, "answered `b`, not `a`"),
        (r#"echo '{"approved_execpolicy_amendment":{"proposed_execpolicy_amendment":["rm"]}}'"#, "`rm`"),
        ("echo '\"approved\"'; head -c 100000 /dev/zero | tr '\\0' ' '", "more than 65536 bytes"),
    ] {
        let result = review(&place.hook(script)).await;
        assert!(matches!(result, Err(Unanswered::Unusable { .. })), "{script}: {result:?}");
        assert!(why(result.clone()).contains(words), "{script}: {result:?}");
    }
}

#[tokio::test]
async fn a_hook_that_fails_has_not_answered() {
    let place = Place::new();
    let failed = review(&place.hook(r#"echo '"approved"'; printf 'no \033[2J keys' >&2; exit 3"#)).await;
    assert!(matches!(failed, Err(Unanswered::Gone { .. })), "{failed:?}");
    assert!(why(failed).ends_with(r"failed (exit status: 3), saying `no \u{1b}[2J keys`"));
    let killed = review(&place.hook(r#"echo '"approved"'; kill -9 $$"#)).await;
    assert!(why(killed).contains("signal: 9"));
    let gone = place.hook("");
    std::fs::remove_file(place.path("hook")).unwrap();
    assert!(why(review(&gone).await).contains("could not be started"));
}

/// Whether the process that wrote its number to a file still runs.
fn runs(file: &Path) -> bool {
    let number = std::fs::read_to_string(file).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", number.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

async fn eventually(condition: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while !condition() && start.elapsed() < Duration::from_secs(10) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    condition()
}

const WITH_CHILD: &str = "sleep 300 & echo $! >child.new; echo $$ >self; mv child.new child; wait";

#[tokio::test]
async fn when_time_is_up_the_whole_group_ends() {
    let place = Place::new();
    let hook = place.hook(WITH_CHILD).within_time(Duration::from_secs(2));
    let start = Instant::now();
    let result = review(&hook).await;
    assert!(why(result).contains("did not answer within 2s and was ended"));
    assert!(start.elapsed() < Duration::from_secs(10));
    assert!(eventually(|| !runs(&place.path("child")) && !runs(&place.path("self"))).await);
}

#[tokio::test]
async fn when_nobody_waits_any_more_the_whole_group_ends() {
    let place = Place::new();
    let hook = place.hook(WITH_CHILD);
    let asking = tokio::spawn(async move { review(&hook).await });
    assert!(eventually(|| place.path("child").exists()).await);
    assert!(runs(&place.path("child")));
    asking.abort();
    assert!(eventually(|| !runs(&place.path("child")) && !runs(&place.path("self"))).await);
}

#[test]
fn a_hook_that_commands_can_change_is_refused() {
    let (place, workspace) = (Place::new(), Place::new());
    let root = AbsPath::from_path(&workspace.path("")).unwrap();
    let inside = workspace.hook("");
    assert!(matches!(inside.outside(from_ref(&root)), Err(ApproverError::HookWritable { .. })));
    assert!(place.hook("").outside(from_ref(&root)).is_ok());

    // Neither a link into the workspace nor one that lies in it.
    let link = |from: PathBuf, to: PathBuf| {
        std::os::unix::fs::symlink(to, &from).unwrap();
        Hook::new(AbsPath::from_path(&from).unwrap()).unwrap().outside(from_ref(&root))
    };
    let into = link(place.path("into"), workspace.path("hook"));
    assert!(matches!(into, Err(ApproverError::HookWritable { .. })));
    let out = link(workspace.path("out"), place.path("hook"));
    assert!(matches!(out, Err(ApproverError::HookWritable { .. })));

    // Nor a script that another program is to read.
    let script = |path: PathBuf| place.hook("").with_arguments([path.into_os_string()]).outside(from_ref(&root));
    assert!(matches!(script(workspace.path("hook")), Err(ApproverError::HookWritable { .. })));
    assert!(matches!(script(place.path("into")), Err(ApproverError::HookWritable { .. })));
    assert!(script(place.path("hook")).is_ok());

    let directory = Hook::new(root);
    assert!(matches!(directory, Err(ApproverError::HookNotAFile { .. })));
    let missing = Hook::new("/nonexistent/hook".parse().unwrap());
    assert!(matches!(missing, Err(ApproverError::HookMissing { .. })));
}
