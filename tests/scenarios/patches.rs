//! File changes that the host writes.

use stockade_core::PatchOutcome;
use stockade_protocol::{
    AbsPath, ApprovalSubject, AskForApproval, FileChange, FileRule, FileRules, PatchRequest, RefusedBy, ReviewDecision,
};

use crate::world::{World, kind};

fn adding(world: &World, paths: &[AbsPath]) -> PatchRequest {
    let add = |path: &AbsPath| FileChange::Add { path: path.clone(), content: "new\n".into() };
    PatchRequest {
        id: "patch-1".parse().unwrap(),
        thread_id: world.session.thread_id.clone(),
        changes: paths.iter().map(add).collect(),
        approved_by_policy: false,
        sandbox_warnings: Vec::new(),
    }
}

#[tokio::test]
async fn inside_the_workspace_nobody_is_asked_and_outside_somebody_is() {
    let world = World::new(AskForApproval::OnRequest);
    let run = world.orchestrator();
    let request = adding(&world, &[world.path("ws/a"), world.path("ws/new/b")]);
    assert!(matches!(run.patch(&request).await.unwrap(), PatchOutcome::Applied { .. }));
    assert!(world.exists("ws/a") && world.exists("ws/new/b"));
    let events: Vec<_> = world.audit.of(&request.id).iter().map(kind).collect();
    assert_eq!(events, ["patch_requested", "decided", "patched"]);

    let outside = adding(&world, &[world.path("ws/c"), world.path("outside/c")]);
    let refused = run.patch(&outside).await.unwrap();
    assert!(matches!(refused, PatchOutcome::Refused(_)), "{refused:?}");
    assert!(!world.exists("ws/c") && !world.exists("outside/c"), "all or nothing");
    world.script.say(ReviewDecision::Approved);
    run.patch(&outside).await.unwrap();
    assert!(world.exists("ws/c") && world.exists("outside/c"));
}

#[tokio::test]
async fn protected_metadata_is_outside() {
    let world = World::new(AskForApproval::Never);
    std::fs::create_dir_all(world.path("ws/.git/hooks").to_host_path().unwrap()).unwrap();
    let refused = world.orchestrator().patch(&adding(&world, &[world.path("ws/.git/hooks/x")])).await.unwrap();
    let PatchOutcome::Refused(refusal) = refused else { panic!("{refused:?}") };
    assert_eq!(refusal.by, RefusedBy::ApprovalPolicy);
    assert!(!world.exists("ws/.git/hooks/x"));
}

/// gm15: under another spelling, too, as long as the name itself shows nothing of how its directory compares.
#[tokio::test]
async fn protected_metadata_is_outside_in_any_spelling() {
    let world = World::new(AskForApproval::Never);
    let run = world.orchestrator();
    for path in ["ws/.CODEX/config.toml", "ws/.Git/hooks/x", "ws/.GIT"] {
        let refused = run.patch(&adding(&world, &[world.path(path)])).await.unwrap();
        assert!(matches!(refused, PatchOutcome::Refused(_)), "{path}: {refused:?}");
        assert!(!world.exists(path));
    }
    // Beside a name that exists, and has no other spelling here, it is a name like any other.
    std::fs::create_dir_all(world.path("ws/.git").to_host_path().unwrap()).unwrap();
    run.patch(&adding(&world, &[world.path("ws/.GIT/x"), world.path("ws/.gitx")])).await.unwrap();
    assert!(world.exists("ws/.GIT/x") && world.exists("ws/.gitx"));
}

/// A file that a denied glob matches in another case: only one that exists shows how its directory compares.
#[tokio::test]
async fn a_denied_glob_holds_for_other_spellings() {
    let mut world = World::new(AskForApproval::Never);
    let glob = format!("{}/*.pem", world.path("ws")).parse().unwrap();
    let rules = world.session.permissions.files.iter().cloned();
    world.session.permissions.files = FileRules::new(rules.chain([FileRule::deny_glob(glob)])).unwrap();
    std::fs::write(world.path("ws/there.PEM").to_host_path().unwrap(), "new\n").unwrap();
    let run = world.orchestrator();
    for path in ["ws/key.pem", "ws/key.PEM", "ws/KEY.Pem/x"] {
        let refused = run.patch(&adding(&world, &[world.path(path)])).await.unwrap();
        assert!(matches!(refused, PatchOutcome::Refused(_)), "{path}: {refused:?}");
        assert!(!world.exists(path));
    }
    let mut removed = adding(&world, &[]);
    removed.changes = vec![FileChange::Delete { path: world.path("ws/there.PEM"), content: "new\n".into() }];
    run.patch(&removed).await.unwrap();
    assert!(!world.exists("ws/there.PEM"));
}

#[tokio::test]
async fn a_hard_denial_is_named_and_not_asked_about() {
    let world = World::new(AskForApproval::OnRequest);
    let secret = world.path("ws/secret");
    let world = world.deny(&secret);
    let refused = world.orchestrator().patch(&adding(&world, &[world.path("ws/secret/x")])).await.unwrap();
    let PatchOutcome::Refused(refusal) = refused else { panic!("{refused:?}") };
    assert!(refusal.reason.contains(&format!("`{secret}` is denied")), "{}", refusal.reason);
    assert!(world.script.questions().is_empty());
}

/// All files have to be known; a move counts both ends.
#[tokio::test]
async fn an_approval_for_the_session_is_by_file() {
    let world = World::new(AskForApproval::OnRequest);
    let run = world.orchestrator();
    let (a, b) = (world.path("outside/a"), world.path("outside/b"));
    world.script.say(ReviewDecision::ApprovedForSession);
    run.patch(&adding(&world, std::slice::from_ref(&a))).await.unwrap();
    std::fs::remove_file(a.to_host_path().unwrap()).unwrap();
    run.patch(&adding(&world, std::slice::from_ref(&a))).await.unwrap();
    assert_eq!(world.script.questions().len(), 1);
    let mut moved = adding(&world, &[]);
    moved.changes = vec![FileChange::Update { path: a, unified_diff: "".into(), move_path: Some(b) }];
    run.patch(&moved).await.unwrap();
    assert_eq!(world.script.questions().len(), 2, "the other end is new");
    assert!(world.exists("outside/a") && !world.exists("outside/b"));
}

/// fs26: a link that a command planted is not written through.
#[tokio::test]
async fn a_planted_link_stops_the_patch() {
    let world = World::new(AskForApproval::Never);
    let run = world.orchestrator();
    run.run(&world.shell("ln -s ../outside/t note.md; ln -s ../outside dir")).await.unwrap();
    for (count, path) in ["ws/note.md", "ws/dir/t"].into_iter().enumerate() {
        let request = adding(&world, &[world.path(path)]);
        assert!(run.patch(&request).await.is_err(), "{path}");
        // It could not even be asked about, and still is on record.
        let events: Vec<_> = world.audit.of(&request.id).iter().skip(2 * count).map(kind).collect();
        assert_eq!(events, ["patch_requested", "failed"], "{path}");
    }
    assert!(!world.exists("outside/t"));
}

/// Two changes of one file at once are two questions: a yes to the one that was shown is none to the other.
#[tokio::test]
async fn another_change_of_the_same_file_is_another_question() {
    let world = World::new(AskForApproval::Untrusted);
    *world.script.takes.lock().unwrap() = std::time::Duration::from_millis(200);
    world.script.say(ReviewDecision::Approved);
    world.script.say(ReviewDecision::Denied { reason: None });
    let run = world.orchestrator();
    let shown = adding(&world, &[world.path("ws/a")]);
    let mut unseen = shown.clone();
    unseen.id = "patch-2".parse().unwrap();
    unseen.changes = vec![FileChange::Add { path: world.path("ws/a"), content: "evil\n".into() }];
    let (first, second) = tokio::join!(run.patch(&shown), run.patch(&unseen));
    assert_eq!(world.script.questions().len(), 2);
    assert!(matches!(first.unwrap(), PatchOutcome::Applied { .. }));
    assert!(matches!(second.unwrap(), PatchOutcome::Refused(_)));
}

/// fs27: a directory that is swapped while the person thinks is noticed.
#[tokio::test]
async fn a_directory_swapped_after_the_question_stops_the_patch() {
    let world = World::new(AskForApproval::Untrusted);
    *world.script.takes.lock().unwrap() = std::time::Duration::from_millis(300);
    world.script.say(ReviewDecision::Approved);
    let directory = world.path("ws/a").to_host_path().unwrap();
    std::fs::create_dir(&directory).unwrap();
    let run = world.orchestrator();
    let request = adding(&world, &[world.path("ws/a/b")]);
    let swap = async {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        std::fs::rename(&directory, directory.with_file_name("a2")).unwrap();
        std::os::unix::fs::symlink("../outside", &directory).unwrap();
    };
    let (result, ()) = tokio::join!(run.patch(&request), swap);
    assert!(result.is_err(), "{result:?}");
    let events: Vec<_> = world.audit.of(&request.id).iter().map(kind).collect();
    assert_eq!(events, ["patch_requested", "asked", "answered", "failed"]);
    assert!(!world.exists("outside/b") && !world.exists("ws/a2/b"));
}

/// fs28: a name that leads elsewhere is shown with where it leads.
#[tokio::test]
async fn the_question_shows_where_a_link_leads() {
    let world = World::new(AskForApproval::OnRequest);
    std::os::unix::fs::symlink(
        world.path("outside").to_host_path().unwrap(),
        world.path("link").to_host_path().unwrap(),
    )
    .unwrap();
    let given = world.path("link/x");
    world.orchestrator().patch(&adding(&world, std::slice::from_ref(&given))).await.ok();
    let questions = world.script.questions();
    let [question] = questions.as_slice() else { panic!("{questions:?}") };
    assert!(matches!(question.subject, ApprovalSubject::Patch(_)));
    let shown: Vec<_> = question.resolved_paths.iter().map(|path| (&path.given, &path.resolved)).collect();
    assert_eq!(shown, [(&given, &world.path("outside/x"))]);
}

/// A kept sandbox holds names absent with placeholders: a patch sees none of them.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_patch_replaces_the_placeholder_of_an_idle_sandbox() {
    let mut world = World::new(AskForApproval::OnRequest);
    world.backend =
        std::sync::Arc::new(stockade_sandbox_linux::Warm::new(Box::new(stockade_sandbox_linux::Auto::new())));
    let run = world.orchestrator();
    run.run(&world.command(&["true"])).await.unwrap();
    assert!(world.exists("ws/.git"), "the sandbox is kept");
    let request = adding(&world, &[world.path("ws/.git/hooks/x")]);
    world.script.say(ReviewDecision::Approved);
    run.patch(&request).await.unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    let made = std::fs::metadata(world.path("ws/.git").to_host_path().unwrap()).unwrap();
    assert_eq!(made.permissions().mode() & 0o1000, 0, "a directory of its own");
    assert!(world.exists("ws/.git/hooks/x"));
}

/// The placeholder of a running command protects the name in its sandbox.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_patch_leaves_the_placeholder_of_a_running_command() {
    let mut world = World::new(AskForApproval::OnRequest);
    world.backend =
        std::sync::Arc::new(stockade_sandbox_linux::Warm::new(Box::new(stockade_sandbox_linux::Auto::new())));
    let run = world.orchestrator();
    let command = world.command(&["sleep", "60"]);
    let request = adding(&world, &[world.path("ws/.git/hooks/x")]);
    let patching = async {
        while !world.exists("ws/.git") {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        run.patch(&request).await
    };
    let patched = tokio::select! {
        ended = run.run(&command) => panic!("{ended:?}"),
        patched = patching => patched,
    };
    let error = patched.unwrap_err().to_string();
    assert!(error.contains("kept absent for a command"), "{error}");
    assert!(world.script.questions().is_empty() && !world.exists("ws/.git/hooks"));
}
