//! Plumbing, tried on whatever runs Windows programs here. Under wine nothing confines a token, so the
//! layers are only reported in these tests, but for the one that says that such a sandbox is refused.
#![cfg(windows)]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::windows::io::{AsRawHandle as _, OwnedHandle};
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use stockade_protocol::{AbsPath, Access, Argv, FileRule, FileRules, NetworkPolicy, Permissions, RawText};
use stockade_sandboxing::{Backend as _, CommandSpec, Running, SpawnError, Stdio, Streams, WaitStatus};

use crate::disk::{Disk as _, Identity};
use crate::mark::{Grant, Mark, TO_LOOK};
use crate::marking::Checks;
use crate::real_disk::RealDisk;
use crate::root_record::Root;
use crate::running::Child;
use crate::sys::process::inheritable;
use crate::{Sid, Windows, apply, diagnose, roots, streams, tree};

struct World {
    windows: Windows,
    directory: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let windows = Windows::with_records(directory.path().join("records"));
        fs::create_dir(directory.path().join("w")).unwrap();
        Self { windows, directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn read_only(&self) -> Permissions {
        let drives = crate::sys::file::drives();
        let rules = drives.iter().map(|(letter, kind)| {
            // A drive without lists has to be granted, or nothing can be planned at all.
            let access = if *kind == crate::DriveKind::WithoutLists { Access::Write } else { Access::Read };
            FileRule::path(format!(r"{letter}:\").parse().unwrap(), access)
        });
        Permissions { files: FileRules::new(rules).unwrap(), network: NetworkPolicy::Full, ..Permissions::default() }
    }

    fn command(&self, words: &[&str]) -> CommandSpec {
        let probe = probe();
        let words = [probe.to_str().unwrap()].into_iter().chain(words.iter().copied());
        CommandSpec {
            argv: Argv::parse(words).unwrap(),
            cwd: AbsPath::from_path(&self.path("w")).unwrap(),
            environment: system_environment(),
            process: Default::default(),
        }
    }

    /// Starts a command, whatever holds.
    fn start(&self, command: &CommandSpec, stdio: Stdio) -> Child {
        let plan = self.windows.plan(command, &self.read_only()).unwrap();
        apply::start(&plan, self.windows.journal(), stdio, Checks::Reported).unwrap()
    }

    /// Runs a command to its end, and gives its output.
    fn output(&self, command: &CommandSpec) -> (WaitStatus, String) {
        let (mut reader, writer) = io::pipe().unwrap();
        let stdio = Stdio { stdout: Streams::To(OwnedHandle::from(writer)), ..Stdio::default() };
        let mut child = self.start(command, stdio);
        let status = child.wait(Some(Duration::from_secs(60))).unwrap().unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        (status, text)
    }
}

/// The program that runs inside, which cargo has built beside the tests.
fn probe() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let directory = own.parent().and_then(Path::parent).unwrap();
    let probe = directory.join("examples").join("probe.exe");
    assert!(probe.exists(), "{} is missing", probe.display());
    probe
}

/// What a program needs to find the system's libraries.
fn system_environment() -> BTreeMap<RawText, RawText> {
    let kept = |name: &&str| std::env::var(name).ok().map(|value| (RawText::from(*name), RawText::from(value)));
    ["SystemRoot", "SystemDrive"].iter().filter_map(kept).collect()
}

#[test]
fn a_command_runs_with_pipes_and_an_exit_code() {
    let world = World::new();
    let (input, mut to_input) = io::pipe().unwrap();
    let (mut from_output, output) = io::pipe().unwrap();
    let (mut from_error, error) = io::pipe().unwrap();
    let to = |end| Streams::To(OwnedHandle::from(end));
    let stdio = Stdio {
        stdin: Streams::To(OwnedHandle::from(input)),
        stdout: to(output),
        stderr: to(error),
        controlling_terminal: false,
    };
    let mut child = world.start(&world.command(&["streams"]), stdio);
    to_input.write_all("grüße".as_bytes()).unwrap();
    drop(to_input);
    assert_eq!(child.wait(Some(Duration::from_secs(60))).unwrap(), Some(WaitStatus::Exited(7)));
    let (mut output, mut error) = (String::new(), String::new());
    from_output.read_to_string(&mut output).unwrap();
    from_error.read_to_string(&mut error).unwrap();
    assert_eq!((output.trim(), error.trim()), ("Ok(7) grüße", "and an error"));
}

#[test]
fn the_environment_is_exactly_the_one_that_was_given() {
    let world = World::new();
    let mut command = world.command(&["environment"]);
    command.environment.insert("ONE".into(), "1 und ä=".into());
    let (_, text) = world.output(&command);
    // Wine's own loader adds to every environment what it needs itself.
    let mut found: Vec<&str> = text.lines().filter(|line| !line.starts_with("WINE")).collect();
    found.sort_unstable();
    let mut wanted: Vec<String> = command
        .environment
        .iter()
        .map(|(name, value)| format!("{}={}", name.as_str().unwrap(), value.as_str().unwrap()))
        .collect();
    wanted.sort_unstable();
    assert!(std::env::vars().count() > wanted.len(), "there is something to be kept away");
    assert_eq!(found, wanted);
}

#[test]
fn handles_that_are_not_listed_are_not_passed_on() {
    let world = World::new();
    let file = world.path("open");
    fs::write(&file, "12345").unwrap();
    // It is inherited by every process that is started without a list of handles.
    let open = inheritable(&File::open(file).unwrap()).unwrap();
    let number = (open.as_raw_handle() as usize).to_string();
    let (_, text) = world.output(&world.command(&["handles", &number]));
    assert_eq!(text.trim(), "closed");
    // Without the list it is passed on, so that the test above means something.
    #[expect(clippy::disallowed_methods, reason = "the standard library passes every such handle on")]
    let bare = std::process::Command::new(probe()).args(["handles", &number]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&bare.stdout).trim(), "open 5");
}

#[test]
fn arguments_arrive_as_they_were_given() {
    let world = World::new();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(24));
    let result = runner.run(&crate::command_line::tests::words(), |words| {
        let given: Vec<&str> = ["arguments"].into_iter().chain(words.iter().map(String::as_str)).collect();
        let (status, text) = world.output(&world.command(&given));
        let wanted: String = words.iter().map(|word| format!("{}:{word}\n", word.len())).collect();
        prop_assert_eq!((status, text), (WaitStatus::Exited(0), wanted));
        Ok(())
    });
    result.unwrap();
}

/// Whether anything still writes.
fn grows(directory: &Path) -> bool {
    let size = || -> u64 {
        let files = fs::read_dir(directory).unwrap().flatten();
        files.filter_map(|file| file.metadata().ok()).map(|found| found.len()).sum()
    };
    let before = size();
    std::thread::sleep(Duration::from_millis(400));
    size() != before
}

#[test]
fn the_whole_tree_ends_with_the_command() {
    let world = World::new();
    let marks = world.path("w").join("mark");
    let command = world.command(&["tree", "3", marks.to_str().unwrap()]);
    for end in [Ending::Kill, Ending::Drop, Ending::Signal] {
        let mut child = world.start(&command, Stdio::default());
        let last = world.path("w").join("mark-0");
        for _ in 0..300 {
            if last.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        assert!(last.exists(), "four processes have started");
        assert!(grows(&world.path("w")), "and are at work");
        assert_eq!(child.wait(Some(Duration::from_millis(1))).unwrap(), None);
        match end {
            Ending::Kill => {
                child.kill().unwrap();
                assert_eq!(child.wait(None).unwrap(), Some(WaitStatus::Signaled(9)));
            }
            Ending::Signal => {
                child.signal(15).unwrap();
                assert_eq!(child.wait(None).unwrap(), Some(WaitStatus::Signaled(15)));
            }
            Ending::Drop => drop(child),
        }
        assert!(!grows(&world.path("w")), "nothing is left");
        fs::remove_dir_all(world.path("w")).unwrap();
        fs::create_dir(world.path("w")).unwrap();
    }
}

#[derive(Clone, Copy)]
enum Ending {
    Kill,
    Drop,
    Signal,
}

#[test]
fn what_is_not_there_is_not_found() {
    let world = World::new();
    let mut command = world.command(&[]);
    command.argv = Argv::parse([r"C:\nothing\here.exe"]).unwrap();
    let plan = world.windows.compile(&command, &world.read_only()).unwrap();
    let error = plan.spawn(Stdio::default()).unwrap_err();
    assert!(matches!(error, SpawnError::NotFound { .. }), "{error}");
}

/// Wine's terminal says nothing through its pipe, so what is shown is not looked at.
#[test]
fn a_command_runs_at_a_terminal() {
    let world = World::new();
    let (input, to_input) = io::pipe().unwrap();
    let (from_output, output) = io::pipe().unwrap();
    let stdio = Stdio {
        stdin: Streams::To(OwnedHandle::from(input)),
        stdout: Streams::To(OwnedHandle::from(output)),
        stderr: Streams::Null,
        controlling_terminal: true,
    };
    let mut command = world.command(&[]);
    command.argv = Argv::parse([probe().to_str().unwrap(), "no such word"]).unwrap();
    let mut child = world.start(&command, stdio);
    assert_eq!(child.wait(Some(Duration::from_secs(60))).unwrap(), Some(WaitStatus::Exited(2)));
    drop((child, to_input, from_output));
}

/// Wine accepts every call and confines nothing. Who believed the calls would run a command bare.
#[test]
fn a_sandbox_that_does_not_hold_is_refused() {
    let world = World::new();
    let marker = world.path("w").join("ran");
    let command = world.command(&["tree", "0", marker.to_str().unwrap()]);
    let plan = world.windows.compile(&command, &world.read_only()).unwrap();
    let error = plan.spawn(Stdio::default()).unwrap_err();
    assert!(matches!(error, SpawnError::NotEnforced { .. }), "{error}");
    let told = error.to_string();
    for layer in ["restricted_token", "privileges", "integrity", "job_limits", "marks", "files"] {
        assert!(told.contains(&format!("{layer} (")), "{layer} in {told}");
    }
    assert!(!diagnose().engines.iter().any(stockade_sandboxing::Support::works), "and doctor says so");
    std::thread::sleep(Duration::from_millis(200));
    assert!(fs::read_dir(world.path("w")).unwrap().next().is_none(), "not one instruction has run");
    let left: Vec<_> = fs::read_dir(world.path("records")).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["all.lock"], "nothing is left of it");
}

fn writable(path: &Path) -> Mark {
    // Wine knows no labels on files.
    Mark { path: AbsPath::from_path(path).unwrap(), grant: Some(Grant::Write), label: None, placeholder: false }
}

/// A file with another name is left alone: that name may lie in a store that all projects share.
#[test]
fn hard_links_in_a_writable_tree_are_left_alone() {
    let world = World::new();
    let tree = world.path("w");
    fs::create_dir(tree.join("node_modules")).unwrap();
    fs::write(world.path("in-the-store"), "shared").unwrap();
    fs::hard_link(world.path("in-the-store"), tree.join("node_modules").join("linked")).unwrap();
    fs::write(tree.join("own"), "own").unwrap();
    let mark = writable(&tree);
    let put = tree::put(&RealDisk, &mark, &[], &Sid::capability("policy")).unwrap();
    // The tree, a directory and two files.
    assert_eq!((put.visited, put.linked), (4, 1), "{put:?}");
}

/// What takes something away is put on files with other names, too.
#[test]
fn hard_links_in_a_protected_tree_are_protected() {
    let world = World::new();
    let tree = world.path("w");
    fs::write(world.path("other"), "").unwrap();
    fs::hard_link(world.path("other"), tree.join("linked")).unwrap();
    let mark = Mark { grant: Some(Grant::Protect), ..writable(&tree) };
    assert_eq!(tree::put(&RealDisk, &mark, &[], &Sid::capability("policy")).unwrap().linked, 0);
}

/// What tells trees apart is the system's own number, which stays with a tree that is moved.
#[test]
fn another_tree_at_the_same_path_has_another_identity() {
    let world = World::new();
    let tree = world.path("w");
    let identity = |path: &Path| -> Identity {
        RealDisk.identity(&RealDisk.open(&AbsPath::from_path(path).unwrap(), TO_LOOK).unwrap()).unwrap()
    };
    let (first, sid) = (identity(&tree), roots::identify(&RealDisk, &[writable(&tree)]).unwrap().remove(0).sid);
    fs::rename(&tree, world.path("moved")).unwrap();
    fs::create_dir(&tree).unwrap();
    assert_eq!(identity(&world.path("moved")), first);
    assert_ne!(identity(&tree), first);
    assert_ne!(roots::identify(&RealDisk, &[writable(&tree)]).unwrap().remove(0).sid, sid);
}

/// A tree that was opened is known, its marks are taken off, and then it is not. Wine keeps neither entries nor labels,
/// so what is on files is looked at elsewhere.
#[test]
fn marks_are_taken_off_a_tree_that_was_opened() {
    let world = World::new();
    let tree = world.path("w");
    fs::write(tree.join("own"), "own").unwrap();
    let path = AbsPath::from_path(&tree).unwrap();
    let (mark, journal) = (writable(&tree), world.windows.journal());
    let root: Root = roots::identify(&RealDisk, std::slice::from_ref(&mark)).unwrap().remove(0);
    assert_eq!(roots::open(&RealDisk, &mark, &root, &[], journal).unwrap().visited, 2);
    assert_eq!(world.windows.marked().unwrap(), std::slice::from_ref(&path));
    let unmarked = world.windows.unmark(&path).unwrap();
    assert_eq!((unmarked.path, unmarked.visited), (path.clone(), 2));
    assert_eq!(world.windows.marked().unwrap(), []);
    fs::remove_dir_all(&tree).unwrap();
    assert_eq!(world.windows.unmark(&path).unwrap().visited, 0);
}

/// A tree is found by its number on the volume, under its new path, until it is removed.
#[test]
fn a_tree_that_was_moved_is_found_by_its_old_path() {
    let world = World::new();
    let (tree, moved) = (world.path("w"), world.path("moved"));
    fs::write(tree.join("own"), "own").unwrap();
    let [old, new] = [&tree, &moved].map(|path| AbsPath::from_path(path).unwrap());
    let (mark, journal) = (writable(&tree), world.windows.journal());
    let root: Root = roots::identify(&RealDisk, std::slice::from_ref(&mark)).unwrap().remove(0);
    let open = || roots::open(&RealDisk, &mark, &root, &[], journal).unwrap();
    open();
    fs::rename(&tree, &moved).unwrap();
    assert_eq!(RealDisk.locate(root.identity, &old).unwrap(), Some(new.clone()));
    assert_eq!(world.windows.marked().unwrap(), std::slice::from_ref(&new));
    let unmarked = world.windows.unmark(&old).unwrap();
    assert_eq!((unmarked.moved, unmarked.visited, unmarked.left), (vec![new], 2, vec![]));
    assert_eq!(world.windows.marked().unwrap(), []);
    fs::rename(&moved, &tree).unwrap();
    open();
    fs::remove_dir_all(&tree).unwrap();
    // Under wine the number of a removed directory may be a new file's of another test, which NTFS does not give again.
    let found = RealDisk.locate(root.identity, &old).unwrap();
    let is_reused = found.is_some();
    assert!(found.is_none_or(|found| !found.starts_with(&AbsPath::from_path(&world.path("")).unwrap())));
    let elsewhere = Identity { volume: root.identity.volume.wrapping_add(1), ..root.identity };
    assert!(RealDisk.locate(elsewhere, &old).is_err(), "another volume");
    if !is_reused {
        assert_eq!(world.windows.unmark(&old).unwrap().visited, 0);
        assert_eq!(world.windows.marked().unwrap(), []);
    }
}

/// A command's output at a console comes by way of a pipe, whole and in order.
#[test]
fn what_is_copied_arrives_whole() {
    let world = World::new();
    let target = File::create(world.path("shown")).unwrap();
    let (handle, copy) = streams::copied(&target).unwrap();
    let mut writer = File::from(handle);
    for number in 0..20_000 {
        writeln!(writer, "line {number}").unwrap();
    }
    drop(writer);
    copy.join().unwrap();
    let shown = fs::read_to_string(world.path("shown")).unwrap();
    assert_eq!((shown.lines().count(), shown.lines().last()), (20_000, Some("line 19999")));
}

/// How long a large tree takes, the first time and for each command after it. Not part of a run of the tests, which leave
/// it out; `--ignored --nocapture a_hundred` shows the figures.
#[test]
#[ignore = "a measurement, of minutes"]
fn a_hundred_thousand_files() {
    let world = World::new();
    let tree = world.path("w");
    for directory in 0..1000 {
        let directory = tree.join(format!("package-{directory}"));
        fs::create_dir(&directory).unwrap();
        (0..100).for_each(|file| fs::write(directory.join(format!("{file}.js")), "x").unwrap());
    }
    let (mark, journal) = (writable(&tree), world.windows.journal());
    let timed = |what: &str, act: &dyn Fn() -> usize| {
        let start = std::time::Instant::now();
        let count = act();
        println!("{what}: {count} objects in {:?}", start.elapsed());
    };
    let root = roots::identify(&RealDisk, std::slice::from_ref(&mark)).unwrap().remove(0);
    timed("the first command", &|| roots::open(&RealDisk, &mark, &root, &[], journal).unwrap().visited);
    timed("the next command", &|| roots::open(&RealDisk, &mark, &root, &[], journal).unwrap().visited);
}
