//! Reads behind masks are seen, on the real kernel: which process, which program, which path. What a command gets is
//! what it gets without.
//!
//! Each test runs as the user who starts it and, started as root, once more as `nobody` with a `/dev/fuse` that every
//! user may open, as most systems have it.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test starts what it needs, and fails when it can't go on"
)]

mod masked;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use stockade_sandboxing::WaitStatus;

use masked::{ENGINES, Engine, World, as_each_user, finish, in_each_engine, without_the_device};

#[test]
fn a_read_behind_a_mask_is_seen_with_process_program_and_path() {
    as_each_user("a_read_behind_a_mask_is_seen_with_process_program_and_path", || {
        in_each_engine(|world| {
            let seen = world.run("cat $H/.netrc; echo $?; cat $H/.ssh/id; echo $?; ls $H/.ssh; echo $?");
            assert_eq!(seen.output, "1\n1\n2\n", "{seen:?}");
            assert_eq!(seen.paths(), [".netrc", ".ssh/id", ".ssh"], "{seen:?}");
            assert_eq!(seen.programs(), ["cat", "cat", "ls"]);
            assert!(seen.sees_all_reads);
            let pids: Vec<u32> = seen.kept.iter().map(|seen| seen.pid.unwrap()).collect();
            assert!(pids.iter().all(|pid| *pid > 10) && pids[0] != pids[1], "numbers of this side: {pids:?}");
        });
    });
}

/// Masks hold without the device, and what is not watched is not said to be.
#[test]
fn without_the_device_masks_hold_and_nothing_is_seen() {
    without_the_device("without_the_device_masks_hold_and_nothing_is_seen", || {
        in_each_engine(|world| {
            let seen = world.run("cat $H/.netrc; echo $?; ls $H/.ssh; echo $?");
            assert_eq!(seen.output, "1\n2\n", "{seen:?}");
            assert!(seen.kept.is_empty() && !seen.sees_all_reads, "{seen:?}");
        });
    });
}

/// Whichever way leads there, and whichever process goes it.
#[test]
fn every_way_and_every_process_is_seen() {
    as_each_user("every_way_and_every_process_is_seen", || {
        in_each_engine(|world| {
            symlink(world.home().join(".ssh/id"), world.home().join("ws/link")).unwrap();
            symlink(world.home().join(".netrc"), world.home().join("ws/netrc")).unwrap();
            for (script, path) in [
                ("cat link", ".ssh/id"),
                ("cat netrc", ".netrc"),
                ("cat /proc/self/root$H/.ssh/id", ".ssh/id"),
                ("cat /proc/1/../self/cwd/../.netrc", ".netrc"),
                ("cat secret/key", "ws/secret/key"),
                ("cd $H/.ssh && cat config", ".ssh/config"),
                ("exec 5<$H/.ssh; cat /proc/self/fd/5/id", ".ssh"),
                ("(setsid bash -c 'bash -c \"cat $H/.netrc\"' & wait)", ".netrc"),
                ("grep -r x secret", "ws/secret"),
                ("bash -c 'read x < $H/.aws/credentials'", ".aws/credentials"),
                (
                    "python3 -c \"import threading,os;t=threading.Thread(target=lambda:os.open(os.environ['H']+'/.netrc',0));t.start();t.join()\"",
                    ".netrc",
                ),
            ] {
                let seen = world.run(script);
                assert_eq!(seen.paths(), [path], "{script}: {seen:?}");
                assert!(!seen.output.contains("SECRET"));
            }
        });
    });
}

/// Attributes are there for programs that look around: no denial comes of that, nor of what is not there on the host, nor of
/// what this user could not read without a sandbox.
#[test]
fn looking_around_is_no_denial() {
    as_each_user("looking_around_is_no_denial", || {
        in_each_engine(|world| {
            let script = "ls -la $H . >/dev/null; stat $H/.ssh $H/.netrc $H/.ssh/id >/dev/null; echo $H/.* $H/.s*; \
                find $H -maxdepth 1 -printf '' ; [ -e $H/.ssh ] && [ -f $H/.netrc ] && [ ! -r $H/.netrc ] || echo wrong; \
                [ -f $H/.ssh/id ] && echo wrong; [ -r $H/.ssh/id ] && echo wrong; readlink -f $H/.ssh/id >/dev/null; \
                cat $H/.ssh/not-there; cat $H/.aws/config; cd $H/.ssh; du -s . >/dev/null 2>&1; exit 0";
            let script = script.replace("du -s . >/dev/null 2>&1;", "");
            let seen = world.run(&script);
            assert_eq!((seen.paths(), seen.status), (Vec::new(), WaitStatus::Exited(0)), "{seen:?}");
            assert!(!seen.output.contains("wrong"), "{seen:?}");
            assert_eq!(seen.looks(), [".ssh/id", ".netrc"], "what was hidden is known all the same: {seen:?}");
        });
        if !rustix::process::geteuid().is_root() {
            in_each_engine(|world| {
                let key = world.home().join(".ssh/id");
                fs::set_permissions(&key, fs::Permissions::from_mode(0o000)).unwrap();
                assert!(world.run("cat $H/.ssh/id; exit 0").paths().is_empty());
            });
        }
    });
}

/// What a program gets is what it got before there was anything to answer: held against a policy whose masks are the
/// tmpfs's, since something further in is granted.
#[test]
fn a_mask_gives_what_it_gave_before() {
    const TRIES: &str = "for p in $F $D $D/x; do \
        cat $p; ls $p; cat < $p; echo > $p; mkdir $p/new; rm -rf $p; mv $p $p.moved; chmod 777 $p; ln $p other; touch $p; \
        stat -c '%F %a %s %h %u:%g' $p; [ -r $p ]; echo $?; [ -w $p ]; echo $?; [ -x $p ]; echo $?; $p; \
        setfattr -n user.x -v 1 $p; getfattr -d $p; python3 -c 'import os,sys; os.listxattr(sys.argv[1])' $p; \
        python3 -c 'import os,sys; os.getxattr(sys.argv[1], sys.argv[2])' $p user.x; \
        python3 -c 'import os,sys; os.getxattr(sys.argv[1], sys.argv[2])' $p security.x; \
        (cd $p && pwd >/dev/null); echo $?; \
        done 2>&1 | sed -e s,$F,FILE,g -e s,$D,DIR,g -e 's/line [0-9]*/line/'";
    as_each_user("a_mask_gives_what_it_gave_before", || {
        for engine in [Engine::Native, Engine::Session] {
            let world = World::new(engine);
            let script = format!("F=$H/.netrc; D=$H/.ssh; {TRIES}");
            let now = world.run(&script).output;
            let before = world.unobserved(&script);
            // But for the size of a directory, and for which of two reasons not to write to a file comes first.
            let before = before.replace("directory 111 40 2", "directory 111 0 2");
            let before = before.replace("touch 'FILE': Permission denied", "touch 'FILE': Read-only file system");
            compare(&before, &now);
            assert!(now.contains("regular empty file 0 0 1") && now.contains("directory 111"), "{now}");
        }
    });
}

fn compare(before: &str, now: &str) {
    let (before, now): (Vec<&str>, Vec<&str>) = (before.lines().collect(), now.lines().collect());
    for (index, (before, now)) in before.iter().zip(&now).enumerate() {
        assert_eq!(before, now, "line {index}");
    }
    assert_eq!(before.len(), now.len());
}

/// Commands of one session share the masks, and each has its own sightings.
#[test]
fn commands_of_a_session_are_told_apart() {
    as_each_user("commands_of_a_session_are_told_apart", || {
        let world = World::new(Engine::Session);
        let output = || tempfile::tempfile().unwrap();
        let waiting = world.spawn("read x; sleep 0.3; cat $H/.aws/credentials", output());
        assert_eq!(world.run("cat $H/.netrc").paths(), [".netrc"]);
        assert_eq!(world.run("true").paths(), Vec::<String>::new());
        assert_eq!(world.run("cat $H/.netrc").paths(), [".netrc"], "again, though another command has tried it");
        let (_, kept, _) = finish(waiting, "cat");
        assert_eq!(kept.len(), 1, "{kept:?}");
        let running: Vec<_> = (0..8)
            .map(|number| {
                world.spawn(
                    &format!("for i in 1 2 3; do cat $H/.ssh/{}; done", if number % 2 == 0 { "id" } else { "config" }),
                    output(),
                )
            })
            .collect();
        for (number, running) in running.into_iter().enumerate() {
            let (_, kept, _) = finish(running, "cat");
            let wanted = if number % 2 == 0 { "/.ssh/id" } else { "/.ssh/config" };
            assert!(kept.len() == 1 && format!("{:?}", kept[0].act).contains(wanted), "{number}: {kept:?}");
        }
    });
}

#[test]
fn a_flood_is_counted_and_holds_nothing_up() {
    as_each_user("a_flood_is_counted_and_holds_nothing_up", || {
        let world = World::new(Engine::Native);
        let began = Instant::now();
        let script = "python3 -c \"
import os
h = os.environ['H'].encode()
for i in range(100000):
    try: os.open(h + b'/.ssh/%d' % (i % 50000), 0)
    except FileNotFoundError: pass
for i in range(1000):
    try: os.open(h + b'/.netrc', 0)
    except PermissionError: pass
\"; exit 0";
        let seen = world.run(script);
        assert_eq!(seen.status, WaitStatus::Exited(0));
        // None of the names is there on the host; that more was looked for than is kept is told of the mask.
        assert_eq!(seen.paths(), [".ssh", ".netrc"], "{seen:?}");
        eprintln!("a lookup takes {:?}", began.elapsed() / 101_000);
        assert!(began.elapsed() < Duration::from_secs(50));
    });
}

#[test]
fn eight_sandboxes_at_once_leave_nothing() {
    as_each_user("eight_sandboxes_at_once_leave_nothing", || {
        // The launcher's file stays.
        World::new(Engine::Native).run("true");
        let end = Instant::now() + Duration::from_secs(10);
        while Traces::look().is_running() {
            assert!(Instant::now() < end, "{:?}", Traces::look());
            thread::sleep(Duration::from_millis(10));
        }
        let before = Traces::look();
        for engine in ENGINES {
            let worlds: Vec<World> = (0..8).map(|_| World::new(engine)).collect();
            thread::scope(|scope| {
                for world in &worlds {
                    scope.spawn(move || {
                        for _ in 0..3 {
                            let seen = world.run("for i in 1 2 3 4 5; do cat $H/.netrc $H/.ssh/id; done");
                            assert_eq!(seen.paths(), [".netrc", ".ssh/id"], "{engine:?}");
                        }
                    });
                }
            });
            drop(worlds);
            let end = Instant::now() + Duration::from_secs(10);
            while Traces::look() != before {
                assert!(Instant::now() < end, "{engine:?}: {:?} is not {before:?}", Traces::look());
                thread::sleep(Duration::from_millis(10));
            }
        }
    });
}

/// A command that looks behind masks all the time ends when it is killed, and so does one whose server goes away.
#[test]
fn nothing_hangs_when_a_command_is_killed() {
    as_each_user("nothing_hangs_when_a_command_is_killed", || {
        in_each_engine(|world| {
            for round in 0..10 {
                let script = "for i in 1 2 3 4; do (while :; do read x < $H/.ssh/id; done) & done 2>/dev/null; wait";
                let mut running = world.spawn(script, tempfile::tempfile().unwrap());
                thread::sleep(Duration::from_millis(5 * round));
                let began = Instant::now();
                if round % 2 == 0 {
                    running.kill().unwrap();
                    assert_eq!(running.wait(Some(Duration::from_secs(10))).unwrap(), Some(WaitStatus::Signaled(9)));
                }
                drop(running);
                assert!(began.elapsed() < Duration::from_secs(10));
            }
        });
    });
}

/// What this program has open, the mounts that it sees, its threads that answer, and its children.
#[derive(Debug, PartialEq, Eq)]
struct Traces {
    descriptors: usize,
    mounts: usize,
    answering: usize,
    children: usize,
}

impl Traces {
    fn is_running(&self) -> bool {
        self.answering > 0 || self.children > 0
    }

    fn look() -> Self {
        let threads = || fs::read_dir("/proc/self/task").unwrap().flatten();
        let is_answering = |thread: &fs::DirEntry| {
            fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name.trim() == "stockade-masks")
        };
        let children = |thread: fs::DirEntry| fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        let children: String = threads().map(children).collect();
        let is_alive = |pid: &&str| {
            let status = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !status.contains(") Z ") && !status.is_empty()
        };
        Self {
            descriptors: fs::read_dir("/proc/self/fd").unwrap().count(),
            mounts: fs::read_to_string("/proc/self/mountinfo").unwrap().matches(" - fuse ").count(),
            answering: threads().filter(is_answering).count(),
            children: children.split_whitespace().filter(is_alive).count(),
        }
    }
}

/// A program that dies ends its sandbox, even if commands wait.
#[test]
fn a_server_that_is_killed_leaves_no_process() {
    const NAME: &str = "a_server_that_is_killed_leaves_no_process";
    const LOOP: &str = "STOCKADE_MASKS_LOOP";
    if let Some(marker) = std::env::var_os(LOOP) {
        let world = World::new(Engine::Native);
        let script = "for i in 1 2 3 4; do (while :; do read x < $H/.ssh/id; done) & done 2>/dev/null; wait";
        let running = world.spawn(&format!("{script} # {}", marker.to_str().unwrap()), tempfile::tempfile().unwrap());
        finish(running, script);
        return;
    }
    as_each_user(NAME, || {
        let marker =
            format!("marker-{}-{:?}", std::process::id(), Instant::now()).replace(|c: char| !c.is_alphanumeric(), "");
        let left = || {
            let processes = fs::read_dir("/proc").unwrap().flatten();
            let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
            lines.filter(|line| String::from_utf8_lossy(line).contains(&marker)).count()
        };
        let wait = |what: &str, holds: &dyn Fn() -> bool| {
            let end = Instant::now() + Duration::from_secs(10);
            while !holds() {
                assert!(Instant::now() < end, "{what}: {} processes", left());
                thread::sleep(Duration::from_millis(10));
            }
        };
        for _ in 0..5 {
            let mut server = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", NAME])
                .env(LOOP, &marker)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            wait("it runs", &|| left() >= 5);
            server.kill().unwrap();
            server.wait().unwrap();
            wait("it is gone", &|| left() == 0);
        }
    });
}
