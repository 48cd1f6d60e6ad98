//! Output, time, signals, terminals.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use stockade_core::{OutputLimit, ShellRuntime};
use stockade_protocol::{
    ApprovalSubject, AskForApproval, ExecExpiration, HostRule, HostRules, NetworkPolicy, Outcome, ReviewDecision,
    TerminalSize,
};

use crate::world::{World, stdout};

/// pr16: output is bounded, and what is left out is said.
#[tokio::test]
async fn output_is_kept_at_both_ends_and_the_gap_is_said() {
    let mut world = World::new(AskForApproval::Never);
    world.session.output = OutputLimit { head: 4, tail: 6 };
    let outcome = world.orchestrator().run(&world.shell("seq 1 100000; echo last; exit 7")).await.unwrap();
    let Outcome::Exited { exit_code: 7, execution } = &outcome else { panic!("{outcome:?}") };
    assert_eq!(execution.stdout.head.as_bytes(), b"1\n2\n");
    assert_eq!(execution.stdout.tail.as_bytes(), b"\nlast\n");
    assert_eq!(execution.stdout.omitted_bytes, 588_895 + 5 - 10);
    assert_eq!(execution.stderr.omitted_bytes, 0);
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_with_all_it_started() {
    let world = World::new(AskForApproval::Never);
    let mut request = world.shell("(sleep 1; touch late) & echo started; sleep 1000");
    request.expiration = ExecExpiration::Timeout { milliseconds: NonZeroU64::new(300).unwrap() };
    let outcome = world.orchestrator().run(&request).await.unwrap();
    assert!(matches!(outcome, Outcome::TimedOut { .. }), "{outcome:?}");
    assert_eq!(stdout(&outcome), r"started\n");
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert!(!world.exists("ws/late"));
}

#[tokio::test]
async fn the_clock_stands_still_while_a_person_is_asked() {
    let world = World::new(AskForApproval::Untrusted);
    *world.script.takes.lock().unwrap() = Duration::from_millis(700);
    world.script.say(ReviewDecision::Approved);
    let mut request = world.shell("touch made; sleep 0.1");
    request.expiration = ExecExpiration::Timeout { milliseconds: NonZeroU64::new(600).unwrap() };
    let outcome = world.orchestrator().run(&request).await.unwrap();
    let Outcome::Exited { exit_code: 0, execution } = &outcome else { panic!("{outcome:?}") };
    assert!(execution.duration_ms < 600, "{}", execution.duration_ms);
}

/// A connection that is asked about while the command runs. The answer is no, so that nothing leaves this machine.
#[tokio::test(flavor = "multi_thread")]
async fn the_clock_stands_still_for_a_question_of_a_running_command() {
    let mut world = World::new(AskForApproval::OnRequest);
    let asked_about = HostRule {
        host: "192.0.2.1".parse().unwrap(),
        protocol: None,
        port: None,
        decision: stockade_protocol::Decision::Prompt,
    };
    world.session.permissions.network =
        NetworkPolicy::Hosts(HostRules { rules: vec![asked_about], ..HostRules::default() });
    *world.script.takes.lock().unwrap() = Duration::from_millis(2500);
    let mut request =
        world.command(&["bash", "-c", "(exec 3<>/dev/tcp/192.0.2.1/80) 2>/dev/null || sleep 0.1; echo done"]);
    request.expiration = ExecExpiration::Timeout { milliseconds: NonZeroU64::new(1500).unwrap() };
    let outcome = world.orchestrator().run(&request).await.unwrap();
    let questions = world.script.questions();
    let [question] = questions.as_slice() else { panic!("{questions:?} {outcome:?}") };
    assert!(matches!(question.subject, ApprovalSubject::Network(_)), "{question:?}");
    assert!(matches!(outcome, Outcome::Exited { exit_code: 0, .. }), "{outcome:?}");
    assert_eq!(stdout(&outcome), r"done\n");
}

#[tokio::test]
async fn it_can_be_cancelled_and_signalled_from_outside() {
    let world = World::new(AskForApproval::Never);
    let run = world.orchestrator();
    let tool = ShellRuntime::default();
    let cancellation = tool.cancellation.clone();
    let request = world.shell("trap 'echo got it; exit 5' TERM; echo ready > ready; while :; do sleep 0.05; done");
    let signalled = async {
        while !world.exists("ws/ready") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        cancellation.signal(15);
    };
    let (outcome, ()) = tokio::join!(run.run_with(&tool, &request), signalled);
    assert!(matches!(outcome, Ok(Outcome::Exited { exit_code: 5, .. })), "{outcome:?}");

    let tool = ShellRuntime::default();
    let cancellation = tool.cancellation.clone();
    let request = world.shell("sleep 1000");
    let started = Instant::now();
    let cancelled = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        cancellation.cancel();
    };
    let (outcome, ()) = tokio::join!(run.run_with(&tool, &request), cancelled);
    assert!(matches!(outcome, Ok(Outcome::Cancelled { .. })), "{outcome:?}");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn commands_are_cancelled_by_name() {
    let world = World::new(AskForApproval::Never);
    let run = world.orchestrator();
    let token: stockade_protocol::CancelToken = "build".parse().unwrap();
    let named = |script: &str| {
        let mut request = world.shell(script);
        request.expiration = ExecExpiration::Cancellation { token: token.clone() };
        request
    };
    let (a, b) = (named("touch a; sleep 1000"), named("touch b; sleep 1000"));
    let cancel = async {
        while !(world.exists("ws/a") && world.exists("ws/b")) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        run.cancel(&stockade_protocol::CancelRequest { token: token.clone() })
    };
    let (first, second, count) = tokio::join!(run.run(&a), run.run(&b), cancel);
    assert!(matches!(first, Ok(Outcome::Cancelled { .. })), "{first:?}");
    assert!(matches!(second, Ok(Outcome::Cancelled { .. })), "{second:?}");
    assert_eq!(count, 2);
    assert_eq!(run.cancel(&stockade_protocol::CancelRequest { token }), 0, "they are gone");
}

#[tokio::test]
async fn a_request_of_another_session_is_an_error() {
    let world = World::new(AskForApproval::Never);
    let mut request = world.shell("touch made");
    request.thread_id = "another".parse().unwrap();
    assert!(world.orchestrator().run(&request).await.is_err());
    assert!(!world.exists("ws/made"));
}

#[tokio::test]
async fn whoever_drops_the_run_ends_the_command() {
    let world = World::new(AskForApproval::Never);
    let run = world.orchestrator();
    let request = world.shell("touch started; sleep 1; touch late");
    let has_started = async {
        while !world.exists("ws/started") {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        ended = run.run(&request) => panic!("it ended by itself: {ended:?}"),
        () = has_started => {}
    }
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert!(!world.exists("ws/late"));
}

#[tokio::test]
async fn a_terminal_is_a_terminal() {
    let world = World::new(AskForApproval::Never);
    let mut request = world.shell("test -t 0 && test -t 1 && test -t 2 && stty size");
    request.terminal = Some(TerminalSize { rows: 12, columns: 34 });
    let outcome = world.orchestrator().run(&request).await.unwrap();
    assert!(matches!(outcome, Outcome::Exited { exit_code: 0, .. }), "{outcome:?}");
    assert_eq!(stdout(&outcome), r"12 34\r\n");
}

#[tokio::test]
async fn secrets_of_the_environment_stay_outside() {
    let world = World::new(AskForApproval::Never);
    let outcome = world.orchestrator().run(&world.shell("env")).await.unwrap();
    let seen = stdout(&outcome);
    assert!(seen.contains("PATH=/usr/bin:/bin") && !seen.contains("hunter2"), "{seen}");
}

#[tokio::test]
async fn a_limit_that_was_reached_is_named() {
    let mut world = World::new(AskForApproval::Never);
    world.session.permissions.limits.cpu_seconds = NonZeroU64::new(1);
    let outcome = world.orchestrator().run(&world.shell("while :; do :; done")).await.unwrap();
    let Outcome::Denied { exit_code: None, signal: Some(24), execution } = &outcome else { panic!("{outcome:?}") };
    let shown = format!("{:?}", execution.violations);
    assert!(shown.contains("cpu_seconds") && shown.contains("Reported"), "{shown}");
}

/// A command of a server's client has the client's environment, umask and limits, and what is judged by the
/// environment is judged by the client's.
#[tokio::test]
async fn a_command_has_what_its_caller_has() {
    use stockade_core::{Caller, ShellRuntime};
    use stockade_protocol::{Rlimit, RlimitResource};
    use stockade_sandboxing::ProcessSettings;

    let world = World::new(AskForApproval::Untrusted);
    let run = world.orchestrator();
    let caller = |path: &str, more: &str| {
        let pairs = [("PATH", path), ("FROM", "caller"), ("OTHER_TOKEN", "hunter3"), ("SHLVL", more)];
        let limit = Rlimit { soft: Some(55), hard: Some(66) };
        let process = ProcessSettings {
            umask: Some(0o27.try_into().unwrap()),
            rlimits: [(RlimitResource::Nofile, limit)].into(),
            ..ProcessSettings::default()
        };
        let environment = Some(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect());
        ShellRuntime { caller: Caller { environment, process, ..Caller::default() }, ..ShellRuntime::default() }
    };
    world.script.say(ReviewDecision::ApprovedForSession);
    let request = world.shell("echo $FROM-$OTHER_TOKEN-$API_TOKEN; umask; ulimit -Sn; ulimit -Hn; touch made");
    let outcome = run.run_with(&caller("/usr/bin:/bin", "1"), &request).await.unwrap();
    assert_eq!(outcome.execution().unwrap().stdout.head.as_bytes(), b"caller--\n0027\n55\n66\n");
    run.run_with(&caller("/usr/bin:/bin", "2"), &request).await.unwrap();
    assert_eq!(world.script.questions().len(), 1, "a shell deeper is the same command");
    run.run_with(&caller("/usr/local/bin:/usr/bin:/bin", "1"), &request).await.unwrap();
    run.run(&request).await.unwrap();
    assert_eq!(world.script.questions().len(), 3, "with other variables it may be another program");

    // The workspace's own `ls` is not the one that is known to be harmless.
    let planted = world.path("ws/ls").to_host_path().unwrap();
    std::fs::write(&planted, "#!/bin/sh\n").unwrap();
    std::fs::set_permissions(&planted, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let request = world.command(&["ls"]);
    run.run_with(&caller("/usr/bin:/bin", "1"), &request).await.unwrap();
    assert_eq!(world.script.questions().len(), 3);
    let first_here = caller(&format!("{}:/usr/bin:/bin", world.path("ws")), "1");
    run.run_with(&first_here, &request).await.unwrap();
    assert_eq!(world.script.questions().len(), 4);
    let explained = run.explain_with(&first_here, &request).unwrap();
    assert!(matches!(explained.requirement, stockade_protocol::ExecApprovalRequirement::NeedsApproval { .. }));
}
