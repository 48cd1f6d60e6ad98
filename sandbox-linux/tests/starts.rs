//! Starts of programs come to the keeper, whole, within bounds, and only where they are to be judged.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stockade_protocol::{AbsPath, Argv, HostPaths, SandboxPolicy};
use stockade_sandbox_linux::{Bwrap, Native, Observe, Warm};
use stockade_sandboxing::{
    Backend, CommandSpec, Concern, Deciders, ProcessSettings, ProgramStart, StartAnswer, StartCaller, StartKeeper,
    StartVerdict, Starts, Stdio, WaitStatus,
};

/// Keeps every start, and refuses programs called `refused`; those called `silent` get no answer, and those called
/// `waits` get none before the end.
#[derive(Default)]
struct Keeper {
    starts: Mutex<Vec<ProgramStart>>,
    chains: Mutex<Vec<Vec<Argv>>>,
    waiting: Mutex<Vec<StartAnswer>>,
}

fn name(start: &ProgramStart) -> String {
    let path = start.forms.first().and_then(|words| words.first()).unwrap().to_string();
    path.rsplit('/').next().unwrap().to_owned()
}

impl StartKeeper for Keeper {
    fn concerns(&self, _: &[u8]) -> bool {
        true
    }

    fn judge(&self, start: &ProgramStart) -> Concern {
        self.starts.lock().unwrap().push(start.clone());
        match name(start).as_str() {
            "refused" | "silent" | "waits" => Concern::Decide,
            _ => Concern::None,
        }
    }

    fn decide(&self, start: ProgramStart, caller: StartCaller, answer: StartAnswer) {
        self.chains.lock().unwrap().push(caller.chain);
        match name(&start).as_str() {
            "refused" => answer.give(StartVerdict::Refused),
            "waits" => self.waiting.lock().unwrap().push(answer),
            _ => drop(answer),
        }
    }

    fn unreadable(&self, caller: StartCaller) {
        panic!("{caller:?}");
    }
}

struct World {
    directory: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        fs::create_dir(directory.path().join("ws")).unwrap();
        for name in ["refused", "silent", "waits", "other"] {
            fs::copy("/bin/true", directory.path().join("ws").join(name)).unwrap();
        }
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn spawn(
        &self,
        engine: &dyn Backend,
        words: &[&str],
        starts: Starts,
    ) -> (Arc<Keeper>, Box<dyn stockade_sandboxing::Running>) {
        let workspace = AbsPath::from_path(&self.path("ws")).unwrap();
        let permissions =
            SandboxPolicy::workspace_write().resolve(&HostPaths::without_masks([workspace.clone()])).unwrap();
        let environment = BTreeMap::from([("PATH".into(), "/nowhere:/usr/bin:/bin".into())]);
        let process = ProcessSettings { starts, ..ProcessSettings::default() };
        let argv = Argv::parse(words.iter().copied()).unwrap();
        let command = CommandSpec { argv, cwd: workspace, environment, process };
        let keeper = Arc::new(Keeper::default());
        let deciders = Deciders { starts: Some(Arc::clone(&keeper) as Arc<dyn StartKeeper>), ..Deciders::default() };
        let running =
            engine.compile(&command, &permissions).unwrap().spawn_guarded(Stdio::default(), deciders).unwrap();
        (keeper, running)
    }

    fn run(&self, engine: &dyn Backend, words: &[&str], starts: Starts) -> (i32, Vec<ProgramStart>) {
        let (keeper, mut running) = self.spawn(engine, words, starts);
        let status = running.wait(Some(Duration::from_secs(120))).unwrap();
        let Some(WaitStatus::Exited(code)) = status else { panic!("{words:?}: {status:?}") };
        let kept = keeper.starts.lock().unwrap().clone();
        (code, kept)
    }
}

fn engines() -> Vec<Box<dyn Backend>> {
    vec![
        Box::new(Native::new()),
        Box::new(Native::new().observing(Observe::Nothing)),
        Box::new(Bwrap::new()),
        Box::new(Warm::new(Box::new(Native::new()))),
    ]
}

#[test]
fn every_start_is_brought_to_the_keeper_once_and_a_refusal_is_an_error() {
    let world = World::new();
    for engine in engines() {
        let line = "./other; ./refused; [ $? = 126 ] || exit 3; ./silent; [ $? = 126 ] || exit 4; env ./other";
        let (code, starts) = world.run(&*engine, &["sh", "-c", line], Starts::Judged);
        let names: Vec<String> = starts.iter().map(name).collect();
        assert_eq!((code, names), (0, ["sh", "other", "refused", "silent", "env", "other"].map(String::from).to_vec()));
        let own = AbsPath::from_path(&world.path("ws")).unwrap();
        assert!(starts.iter().all(|start| start.cwd.as_ref() == Some(&own)), "{starts:?}");
        let (code, starts) = world.run(&*engine, &["sh", "-c", "./other && ./refused"], Starts::Unseen);
        assert_eq!((code, starts.len()), (0, 0), "nothing is notified that is not to be judged");
    }
}

#[test]
fn scripts_and_links_are_judged_by_all_their_names() {
    let world = World::new();
    let script = world.path("ws/script");
    fs::write(&script, "#!/usr/bin/env  -S sh -e\nexit 0\n").unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::os::unix::fs::symlink("refused", world.path("ws/link")).unwrap();
    let words = ["sh", "-c", "./script a b; ./link c"];
    let (_, starts) = world.run(&Native::new(), &words, Starts::Judged);
    let forms = |name: &str| -> Vec<String> {
        let start = starts.iter().find(|start| self::name(start) == name).unwrap();
        let text = |words: &Vec<_>| words.iter().map(ToString::to_string).collect::<Vec<String>>().join(" ");
        let root = world.path("ws").display().to_string();
        start.forms.iter().map(text).map(|text| text.replace(&root, "")).collect()
    };
    assert_eq!(forms("script"), ["/script a b", "/usr/bin/env -S sh -e /script a b"]);
    assert_eq!(forms("link"), ["/link c", "/refused c"]);
}

/// Many words, long words and many starts at once cost no more than is bounded, and none is lost.
#[test]
fn what_is_read_is_bounded_and_a_flood_loses_nothing() {
    let world = World::new();
    let line = "exec env ./other $(seq 1 20000) \"$(head -c 100000 /dev/zero | tr '\\0' x)\"";
    let (code, starts) = world.run(&Native::new(), &["sh", "-c", line], Starts::Judged);
    let most = starts.iter().map(|start| start.forms.first().map_or(0, Vec::len)).max();
    assert!(code == 0 && most.is_some_and(|most| most <= 513), "{code} {most:?}");
    let line = "for n in 1 2 3 4 5 6 7 8; do (for m in $(seq 100); do ./other || exit 1; done; echo > done-$n) & done; wait; \
        [ $(ls -d done-* | wc -l) = 8 ]";
    let (code, starts) = world.run(&Native::new(), &["sh", "-c", line], Starts::Judged);
    let others = starts.iter().filter(|start| name(start) == "other").count();
    assert_eq!((code, others), (0, 800));
}

/// A caller that is killed while it waits leaves a question that is wanted no more, and holds nothing up.
#[test]
fn a_start_that_waits_ends_with_its_caller() {
    let world = World::new();
    let line = "./waits & until [ -e go ]; do sleep 0.05; done; kill -KILL $!; wait $!; [ $? = 137 ]";
    let (keeper, mut running) = world.spawn(&Native::new(), &["sh", "-c", line], Starts::Judged);
    while keeper.waiting.lock().unwrap().is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let is_wanted = keeper.waiting.lock().unwrap().first().unwrap().is_wanted();
    assert!(is_wanted());
    fs::write(world.path("ws/go"), "").unwrap();
    let status = running.wait(Some(Duration::from_secs(120))).unwrap();
    assert_eq!(status, Some(WaitStatus::Exited(0)));
    assert!(!is_wanted());
    let chains = keeper.chains.lock().unwrap().clone();
    assert_eq!(chains.len(), 1);
    assert!(chains.iter().flatten().next().unwrap().to_string().starts_with("sh -c "), "{chains:?}");
}
