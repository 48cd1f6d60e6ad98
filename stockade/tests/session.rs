//! A session as an embedder uses it: on the real kernel, with settings and rules in its own home directory.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stockade::config::{EngineName, NetworkMode, SandboxMode};
#[cfg(feature = "patch")]
use stockade::core::PatchOutcome;
use stockade::core::{PermissionsOutcome, ToolCallOutcome, ToolCaller, ToolReview};
#[cfg(feature = "patch")]
use stockade::protocol::FileChange;
use stockade::protocol::{
    Access, ApprovalSubject, AskForApproval, FileRule, FileRules, FileTarget, RawText, RememberArguments, RuleSource,
    ToolCallApproval, ToolCallRequest,
};
use stockade::sandboxing::ProcessSettings;
use stockade::{Builder, Outcome, ReviewDecision, Stockade};

/// A home directory and a workspace of a test's own, not below `/tmp`, which commands have for themselves.
struct World {
    base: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { base: tempfile::tempdir_in("/var/tmp").unwrap() };
        for directory in ["home/.config/stockade/rules", "home/.ssh", "work", "out"] {
            fs::create_dir_all(world.path(directory)).unwrap();
        }
        fs::write(world.path("home/.ssh/id"), "secret").unwrap();
        world
    }

    fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        self.base.path().canonicalize().unwrap().join(below)
    }

    fn write(&self, path: &str, text: &str) {
        fs::write(self.path(path), text).unwrap();
    }

    fn environment(&self) -> BTreeMap<RawText, RawText> {
        let home = self.path("home").into_os_string().into_encoded_bytes();
        let text = |text: &str| RawText::from(text);
        let variables = [(text("HOME"), RawText::from(home)), (text("PATH"), text("/usr/bin:/bin"))];
        variables.into_iter().chain([(text("API_TOKEN"), text("secret")), (text("COLOUR"), text("red"))]).collect()
    }

    fn builder(&self) -> Builder {
        Stockade::builder().environment(self.environment()).directory(self.path("out")).workspace(self.path("work"))
    }
}

async fn line(stockade: &Stockade, line: &str) -> Outcome {
    stockade.run(["sh", "-c", line]).await.unwrap()
}

fn stdout(outcome: &Outcome) -> String {
    outcome.execution().map(|ran| ran.stdout.to_string_lossy()).unwrap_or_default()
}

#[tokio::test]
async fn what_is_safe_is_the_default() {
    let world = World::new();
    let stockade = world.builder().build().unwrap();
    assert!(line(&stockade, "touch made && test -e made").await.is_success());
    assert!(world.path("work/made").exists(), "commands start in the workspace, and may write it");
    let denied = line(&stockade, &format!("touch {}/no", world.path("out").display())).await;
    assert!(matches!(denied, Outcome::Denied { .. }), "{denied:?}");
    assert!(!line(&stockade, "cat ~/.ssh/id").await.is_success(), "credentials are masked");
    assert_eq!(stdout(&line(&stockade, "echo $COLOUR$API_TOKEN").await).trim(), "red", "secrets are not passed on");
    let trail = fs::read_to_string(stockade.trail_directory().unwrap().join("audit.jsonl")).unwrap();
    assert!(trail.contains("touch made"), "the trail is on");
    assert!(trail.starts_with('{') && stockade.trail_directory().unwrap().starts_with(world.path("home")));
}

#[tokio::test]
async fn without_an_approver_nothing_is_asked() {
    let world = World::new();
    world.write("home/.config/stockade/rules/a.rules", "prefix_rule(pattern = ['id'], decision = 'prompt')");
    let stockade = world.builder().build().unwrap();
    let Outcome::Refused(refusal) = stockade.run(["id"]).await.unwrap() else { panic!("it ran") };
    assert!(refusal.reason.contains("a.rules"), "{}", refusal.reason);
}

#[tokio::test]
async fn a_closure_answers_in_its_own_words() {
    let world = World::new();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let stockade = world
        .builder()
        .on_question(move |question| {
            let seen = Arc::clone(&seen);
            async move {
                let ApprovalSubject::Write(write) = &question.subject else { return ReviewDecision::Abort };
                seen.lock().unwrap().extend(write.paths.clone());
                ReviewDecision::ApprovedForSession
            }
        })
        .build()
        .unwrap();
    let make = format!("touch {}/yes", world.path("out").display());
    assert!(line(&stockade, &make).await.is_success());
    assert!(line(&stockade, &make).await.is_success());
    assert_eq!(asked.lock().unwrap().len(), 1, "the answer holds for the session");
    assert!(world.path("out/yes").exists());
    // Without questions earlier answers don't count; they do when the policy asks again.
    stockade.update(|session| session.ask = Some(AskForApproval::Never)).unwrap();
    assert!(!line(&stockade, &make).await.is_success());
    stockade.update(|session| session.ask = None).unwrap();
    assert!(line(&stockade, &make).await.is_success());
    assert_eq!(asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_change_of_rules_or_settings_counts_from_the_next_command_on() {
    let world = World::new();
    let questions = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&questions);
    let builder = world.builder().ask(AskForApproval::Untrusted).on_question(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { ReviewDecision::ApprovedForSession }
    });
    let stockade = builder.build().unwrap();
    assert!(line(&stockade, "touch a").await.is_success());
    world.write("home/.config/stockade/rules/a.rules", "prefix_rule(pattern = ['id'], decision = 'forbidden')");
    assert!(matches!(stockade.run(["id"]).await.unwrap(), Outcome::Refused(_)));
    fs::remove_file(world.path("home/.config/stockade/rules/a.rules")).unwrap();
    assert!(stockade.run(["id"]).await.unwrap().is_success());

    world.write("home/.config/stockade/config.toml", "sandbox.mode = \"read-only\"");
    stockade.run(["id"]).await.unwrap();
    assert_eq!(stockade.settings().mode, SandboxMode::ReadOnly);
    world.write("home/.config/stockade/config.toml", "sandbox.mode = 7");
    let error = stockade.run(["id"]).await.unwrap_err().with_causes();
    assert!(error.contains("config.toml"), "{error}");
    fs::remove_file(world.path("home/.config/stockade/config.toml")).unwrap();

    let before = questions.load(Ordering::Relaxed);
    assert!(line(&stockade, "touch a").await.is_success());
    assert_eq!(questions.load(Ordering::Relaxed), before, "what was approved is kept");
}

#[tokio::test]
async fn another_engine_counts_from_the_next_command_on() {
    let world = World::new();
    let stockade = world.builder().build().unwrap();
    let engine = |outcome: &Outcome| outcome.execution().map(|ran| ran.enforcement.engine.clone()).unwrap_or_default();
    assert_eq!(engine(&line(&stockade, "true").await), "native");
    stockade.update(|session| session.engine = Some(EngineName::Bwrap)).unwrap();
    assert_eq!(engine(&line(&stockade, "true").await), "bwrap");
}

/// A server's caller has a directory and an environment of its own for each command.
#[tokio::test]
async fn a_command_has_the_environment_of_its_caller() {
    let world = World::new();
    world.write("home/.npmrc", "registry=https://r.test/npm/\n_authToken=secret\n");
    let stockade = world.builder().build().unwrap();
    let show = ["sh", "-c", "echo $COLOUR $API_TOKEN $NPM_CONFIG_REGISTRY; umask"];
    let mut environment = world.environment();
    environment.insert(RawText::from("COLOUR"), RawText::from("blue"));
    let process = ProcessSettings { umask: Some(0o027.try_into().unwrap()), ..ProcessSettings::default() };
    let outcome = stockade.command(show).environment(environment).process(process).run().await.unwrap();
    assert_eq!(stdout(&outcome), "blue https://r.test/npm/\n0027\n");
    assert!(stdout(&stockade.run(show).await.unwrap()).starts_with("red https"));
}

#[tokio::test]
async fn a_session_can_be_changed_while_it_runs() {
    let world = World::new();
    let stockade = world.builder().on_question(|_| async { ReviewDecision::Approved }).build().unwrap();
    let make = format!("touch {}/made", world.path("out").display());
    stockade.update(|session| session.ask = Some(AskForApproval::Never)).unwrap();
    assert!(!line(&stockade, &make).await.is_success());
    stockade.update(|session| session.ask = None).unwrap();
    assert!(line(&stockade, &make).await.is_success());
    stockade.update(|session| session.mode = Some(SandboxMode::ReadOnly)).unwrap();
    stockade.update(|session| session.profile = Some(String::from("none"))).unwrap_err();
    stockade.update(|session| session.ask = Some(AskForApproval::Never)).unwrap();
    assert!(!line(&stockade, "touch no").await.is_success());
}

#[tokio::test]
async fn notices_are_given_once_and_never_printed() {
    let world = World::new();
    fs::create_dir_all(world.path("work/.stockade")).unwrap();
    world.write("work/.stockade/config.toml", "ask = \"never\"");
    let stockade = world.builder().build().unwrap();
    let told = stockade.take_notices();
    assert!(told.iter().any(|notice| notice.contains("stockade trust")), "{told:?}");
    world.write("home/.config/stockade/config.toml", "timeout = \"9s\"");
    stockade.refresh().unwrap();
    assert_eq!(stockade.settings().timeout, Some(Duration::from_secs(9)));
    assert!(stockade.take_notices().is_empty());
}

#[tokio::test]
async fn output_is_streamed_and_a_command_can_be_cancelled() {
    let world = World::new();
    let stockade = world.builder().build().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    let command = stockade.command(["sh", "-c", "echo started; sleep 60"]);
    let cancellation = command.cancellation();
    let command = command.on_output(move |_, bytes| {
        sink.lock().unwrap().extend_from_slice(bytes);
        cancellation.cancel();
    });
    let outcome = command.run().await.unwrap();
    assert!(matches!(outcome, Outcome::Cancelled { .. }), "{outcome:?}");
    assert_eq!(&*seen.lock().unwrap(), b"started\n");
    let outcome = stockade.command(["sleep", "60"]).timeout(Duration::from_millis(100)).run().await.unwrap();
    assert!(matches!(outcome, Outcome::TimedOut { .. }), "{outcome:?}");
}

#[cfg(feature = "patch")]
#[tokio::test]
async fn patches_are_asked_about() {
    let world = World::new();
    let stockade = world.builder().on_question(|_| async { ReviewDecision::Approved }).build().unwrap();
    let path = world.path("out/patched").to_str().unwrap().parse().unwrap();
    let changes = vec![FileChange::Add { path, content: RawText::from("text") }];
    assert!(matches!(stockade.apply_patch(changes).await.unwrap(), PatchOutcome::Applied { .. }));
    assert_eq!(fs::read_to_string(world.path("out/patched")).unwrap(), "text");
}

#[tokio::test]
async fn tools_are_asked_about() {
    struct Echo;

    #[async_trait::async_trait]
    impl ToolCaller for Echo {
        async fn call(&self, request: &ToolCallRequest) -> Result<serde_json::Value, String> {
            Ok(serde_json::json!(request.call.tool))
        }
    }

    let world = World::new();
    let stockade = world.builder().on_question(|_| async { ReviewDecision::Abort }).build().unwrap();
    let call = |tool: &str| ToolCallApproval {
        server: String::from("mail"),
        tool: String::from(tool),
        arguments: BTreeMap::new(),
        remember: RememberArguments::Exact,
    };
    let called = stockade.call_tool(Echo, call("list"), Some(false)).await.unwrap();
    assert!(matches!(called, ToolCallOutcome::Called { .. }), "{called:?}");
    assert_eq!(stockade.review_tool_call(call("list"), Some(false)).await.unwrap(), ToolReview::Approved {});
    let called = stockade.call_tool(Echo, call("send"), Some(true)).await.unwrap();
    assert!(matches!(called, ToolCallOutcome::Refused(_)), "{called:?}");
    let reviewed = stockade.review_tool_call(call("send"), Some(true)).await.unwrap();
    assert!(matches!(reviewed, ToolReview::Refused(_)), "{reviewed:?}");
}

#[tokio::test]
async fn permissions_are_asked_for_in_advance() {
    let world = World::new();
    let questions = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&questions);
    let builder = world.builder().on_question(move |question| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            let ApprovalSubject::Permissions(_) = &question.subject else { return ReviewDecision::Abort };
            ReviewDecision::ApprovedForSession
        }
    });
    let stockade = builder.build().unwrap();
    let target = FileTarget::Path(world.path("out").to_str().unwrap().parse().unwrap());
    let rule = FileRule { access: Access::Write, source: RuleSource::Approval, target };
    let mut more = stockade.orchestrator().session().permissions.clone();
    more.files = FileRules::new([rule]).unwrap();
    let granted = stockade.request_permissions(more, Some(String::from("to publish"))).await.unwrap();
    assert!(matches!(granted, PermissionsOutcome::Granted { .. }), "{granted:?}");
    let make = format!("touch {}/made", world.path("out").display());
    assert!(line(&stockade, &make).await.is_success());
    world.write("home/.config/stockade/config.toml", "timeout = \"9s\"");
    assert!(line(&stockade, &make).await.is_success(), "it holds after settings were read again");
    assert_eq!(questions.load(Ordering::Relaxed), 1);
}

/// Every build reads plain calls, and refuses files it can't read.
#[tokio::test]
async fn rules_are_read_whole_or_refused() {
    let world = World::new();
    world.write("plain.rules", "prefix_rule(pattern = ['id'], decision = 'forbidden')");
    let stockade = world.builder().rules(world.path("plain.rules")).build().unwrap();
    assert!(matches!(stockade.run(["id"]).await.unwrap(), Outcome::Refused(_)));
    world.write("more.rules", "[prefix_rule(pattern = [word], decision = 'forbidden') for word in ['id']]");
    let built = world.builder().rules(world.path("more.rules")).build();
    if cfg!(feature = "rules") {
        assert!(matches!(built.unwrap().run(["id"]).await.unwrap(), Outcome::Refused(_)));
    } else {
        assert!(built.unwrap_err().to_string().contains("the feature `rules`"));
    }
}

/// A read-only network needs a build that can parse requests.
#[tokio::test]
async fn requests_that_cannot_be_read_do_not_pass() {
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = server.accept() {
            use std::io::{Read as _, Write as _};
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello");
        }
    });
    let world = World::new();
    for (network, passes) in [(NetworkMode::Hosts, true), (NetworkMode::Limited, cfg!(feature = "network"))] {
        let stockade = world.builder().network(network).allow_host(address.to_string()).build().unwrap();
        let outcome = stockade.run(["curl", "-sS", "--max-time", "5", &format!("http://{address}/")]).await.unwrap();
        assert_eq!(stdout(&outcome) == "hello", passes, "{network:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn a_line_is_judged_without_being_run() {
    let world = World::new();
    let stockade = world.builder().without_trail().build().unwrap();
    let explanation = stockade.explain(["sh", "-c", "touch made && ls"]).unwrap();
    assert!(explanation.sandboxed && !world.path("work/made").exists());
    let programs: Vec<String> = explanation.parsed.commands.iter().map(|part| part.words[0].to_string()).collect();
    assert_eq!(programs, ["sh", "touch", "ls"]);
}

/// "For this session" covers the program that was approved, not one that a command plants in its place.
#[tokio::test]
async fn an_approval_to_leave_the_sandbox_is_not_inherited_by_a_planted_program() {
    let world = World::new();
    fs::create_dir(world.path("work/bin")).unwrap();
    let mut environment = world.environment();
    let path = format!("{}:/usr/bin:/bin", world.path("work/bin").display());
    environment.insert(RawText::from("PATH"), RawText::from(path));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let stockade = world
        .builder()
        .environment(environment)
        .ask(AskForApproval::OnRequest)
        .on_question(move |question| {
            let seen = Arc::clone(&seen);
            async move {
                let offered = question.available_decisions.contains(&ReviewDecision::ApprovedForSession);
                seen.lock().unwrap().push((offered, question.reason.clone().unwrap_or_default()));
                if offered { ReviewDecision::ApprovedForSession } else { ReviewDecision::Denied { reason: None } }
            }
        })
        .build()
        .unwrap();
    for _ in 0..2 {
        assert!(stockade.command(["id"]).unsandboxed().run().await.unwrap().is_success());
    }
    assert_eq!(asked.lock().unwrap().len(), 1, "the second run is remembered");
    let out = world.path("out/escaped");
    let planted = format!("printf '#!/bin/sh\\ntouch {}\\n' > bin/id && chmod +x bin/id", out.display());
    assert!(line(&stockade, &planted).await.is_success());
    let second = stockade.command(["id"]).unsandboxed().run().await.unwrap();
    assert!(matches!(second, Outcome::Refused(_)) && !out.exists(), "{second:?}");
    let asked = asked.lock().unwrap();
    let (offered, reason) = asked.last().unwrap();
    assert!(
        asked.len() == 2 && !offered && reason.contains("work/bin/id`, which the session's commands may write"),
        "{reason}"
    );
}
