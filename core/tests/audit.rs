//! The trail: many writers, killed writers, full disks, planted links, and every kind of tampering.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a helper of a test fails by panicking"
)]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use stockade_core::{
    AuditError, AuditSink as _, AuditTrail, Durability, Flaw, TrailOptions, Verification, records, verify,
};
use stockade_protocol::{AuditEvent, AuditRecord, Refusal, RefusedBy, TrailDamage};

fn refused(reason: &str) -> AuditEvent {
    AuditEvent::Refused(Refusal { by: RefusedBy::Rule, reason: reason.to_owned() })
}

fn append(trail: &AuditTrail, request: &str) -> Result<(), AuditError> {
    trail.append(&"thread".parse().unwrap(), &request.parse().unwrap(), refused("no"))
}

fn open(directory: &Path) -> AuditTrail {
    AuditTrail::open(directory, TrailOptions::default()).unwrap()
}

fn written(count: usize) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let trail = open(directory.path());
    for index in 0..count {
        append(&trail, &format!("r{index}")).unwrap();
    }
    directory
}

fn current(directory: &Path) -> PathBuf {
    directory.join("audit.jsonl")
}

fn lines(directory: &Path) -> Vec<String> {
    fs::read_to_string(current(directory)).unwrap().lines().map(str::to_owned).collect()
}

fn rewrite(directory: &Path, lines: &[String]) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(current(directory), text).unwrap();
}

fn all(directory: &Path) -> Vec<AuditRecord> {
    records(directory).unwrap().collect::<Result<_, _>>().unwrap()
}

fn flaw(directory: &Path) -> Option<(u64, u64, Flaw)> {
    verify(directory).unwrap().bad.map(|bad| (bad.line, bad.sequence, bad.flaw))
}

#[track_caller]
fn assert_whole(directory: &Path) -> Verification {
    let verdict = verify(directory).unwrap();
    assert_eq!(verdict.bad, None);
    verdict
}

#[test]
fn records_are_numbered_chained_and_private() {
    let directory = written(3);
    let found = all(directory.path());
    assert_eq!(found.iter().map(|record| record.sequence).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(found[0].previous.0, [0; 32]);
    assert_eq!((found[1].previous, found[2].previous), (found[0].hash, found[1].hash));
    let verdict = assert_whole(directory.path());
    assert_eq!((verdict.records, verdict.last), (3, Some((2, found[2].hash))));
    for file in ["audit.jsonl", "audit.head"] {
        assert_eq!(fs::metadata(directory.path().join(file)).unwrap().mode() & 0o7777, 0o600, "{file}");
    }
    let nested = directory.path().join("state/stockade");
    append(&open(&nested), "r").unwrap();
    assert_eq!(fs::metadata(&nested).unwrap().mode() & 0o7777, 0o700);
}

#[test]
fn secrets_do_not_reach_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let trail = open(directory.path());
    let event = AuditEvent::Requested {
        command: stockade_protocol::Argv::parse(["curl", "-u", "me:hunter2", "https://a:hunter2@b/"]).unwrap(),
        cwd: "/repo".parse().unwrap(),
        escalation: stockade_protocol::EscalationExecution::TurnDefault,
        whole: None,
    };
    trail.append(&"t".parse().unwrap(), &"r".parse().unwrap(), event).unwrap();
    let reason = refused("password=hunter2");
    trail.append(&"t".parse().unwrap(), &"r".parse().unwrap(), reason).unwrap();
    let text = fs::read_to_string(current(directory.path())).unwrap();
    assert!(text.contains("redacted") && !text.contains("hunter2"), "{text}");
}

fn requested(words: Vec<String>) -> AuditEvent {
    AuditEvent::Requested {
        command: stockade_protocol::Argv::parse(words).unwrap(),
        cwd: "/repo".parse().unwrap(),
        escalation: stockade_protocol::EscalationExecution::TurnDefault,
        whole: None,
    }
}

/// What a command does at its end is on record, however long its beginning is.
#[test]
fn a_huge_command_keeps_both_ends_and_a_digest() {
    let directory = tempfile::tempdir().unwrap();
    let trail = open(directory.path());
    let line = |padding: usize| vec!["sh".into(), "-c".into(), format!(": {}; evil", "a".repeat(padding))];
    let words = |count: usize| [vec![String::from("y"); count], vec![String::from("evil")]].concat();
    for words in [line(100), line(5_000), line(3_000_000), words(500_000)] {
        trail.append(&"t".parse().unwrap(), &"r".parse().unwrap(), requested(words)).unwrap();
    }
    let read: Vec<_> = records(directory.path()).unwrap().map(|record| record.unwrap().event).collect();
    let whole = |event: &AuditEvent| {
        let AuditEvent::Requested { command, whole, .. } = event else { panic!("{event:?}") };
        assert!(command.words().last().unwrap().as_str().unwrap().ends_with("evil"), "{command}");
        whole.as_ref().map(|whole| (whole.words, whole.bytes, whole.sha256.to_string()))
    };
    // Of `printf 'sh\\0-c\\0: aaa…; evil\\0' | sha256sum`.
    let digest = "da8ebaa8e36c255c617b3cd4c0e1d2da5bf182608da9629206b8c95291772c6a";
    let expected = [None, None, Some((3, 3_000_012, digest.to_owned()))];
    assert_eq!(read[..3].iter().map(whole).collect::<Vec<_>>(), expected);
    assert!(whole(&read[3]).is_some_and(|(words, bytes, _)| (words, bytes) == (500_001, 500_004)));
    let text = fs::read_to_string(current(directory.path())).unwrap();
    assert!(text.contains("bytes left out›") && text.contains("words left out›") && text.len() < 300_000);
    assert_whole(directory.path());
}

/// A secret that a cut would go through is gone before the cut.
#[test]
fn no_half_of_a_secret_is_left_at_a_cut() {
    let directory = tempfile::tempdir().unwrap();
    let trail = open(directory.path());
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    for before in (8_192 - 60..8_192 + 10).step_by(7) {
        let word = format!("{} {secret} {} {secret} {}", "a".repeat(before), "b".repeat(50_000), "c".repeat(before));
        trail.append(&"t".parse().unwrap(), &"r".parse().unwrap(), requested(vec!["echo".into(), word])).unwrap();
    }
    let text = fs::read_to_string(current(directory.path())).unwrap();
    assert!(!text.contains("ghp_") && !text.contains("wxyz") && text.contains("bytes left out›"));
}

/// Paths that a command was denied are its own choice: they must not keep its end off the record.
#[test]
fn long_denials_do_not_keep_the_end_off_the_record() {
    use stockade_protocol::{Enforcement, Evidence, Operation, Violation, ViolationTarget};
    let directory = tempfile::tempdir().unwrap();
    let trail = open(directory.path());
    let violation = |n: usize| Violation {
        operation: Operation::Write,
        target: ViolationTarget::Path(format!("/{n}{}", "\u{1}".repeat(4000)).parse().unwrap()),
        evidence: Evidence::Observed,
        pid: None,
        program: None,
        rule: None,
        amendment: None,
    };
    let ended = AuditEvent::Ended {
        result: String::from("denied"),
        exit_code: Some(1),
        duration_ms: 1,
        enforcement: Enforcement { engine: String::from("native"), layers: Vec::new() },
        violations: (0..200).map(violation).collect(),
    };
    trail.append(&"t".parse().unwrap(), &"r".parse().unwrap(), ended).unwrap();
    assert_whole(directory.path());
}

#[test]
fn every_flipped_byte_is_found() {
    let directory = written(4);
    assert_whole(directory.path());
    for name in ["audit.jsonl", "audit.head"] {
        let file = directory.path().join(name);
        let good = fs::read(&file).unwrap();
        for position in 0..good.len() {
            for bit in [0x01, 0x20, 0x80] {
                let mut bad = good.clone();
                bad[position] ^= bit;
                fs::write(&file, &bad).unwrap();
                let verdict = verify(directory.path()).unwrap();
                assert!(verdict.bad.is_some(), "{name}: byte {position} with bit {bit:#x} was not noticed");
            }
        }
        fs::write(&file, &good).unwrap();
    }
    assert_whole(directory.path());
}

#[test]
fn tampering_is_named() {
    let directory = written(6);
    let dir = directory.path();
    let good = lines(dir);
    let with = |change: &dyn Fn(&mut Vec<String>)| {
        let mut lines = good.clone();
        change(&mut lines);
        rewrite(dir, &lines);
        flaw(dir).expect("the change was not noticed")
    };
    assert_eq!(with(&|lines| lines[2] = lines[2].replace("r2", "rX")), (3, 2, Flaw::Changed));
    assert_eq!(with(&|lines| lines[2] = String::from("hello")), (3, 2, Flaw::Changed));
    assert_eq!(with(&|lines| drop(lines.remove(2))), (3, 3, Flaw::Removed { count: 1 }));
    assert_eq!(with(&|lines| drop(lines.drain(..2))), (1, 2, Flaw::Removed { count: 2 }));
    assert_eq!(with(&|lines| lines.swap(2, 4)), (3, 4, Flaw::Reordered));
    assert_eq!(with(&|lines| lines.insert(4, lines[1].clone())), (5, 1, Flaw::Inserted));
    assert_eq!(with(&|lines| lines.truncate(4)), (4, 3, Flaw::CutOff { count: 2 }));
    assert_eq!(with(&Vec::clear), (0, 0, Flaw::CutOff { count: 6 }));
    assert_eq!(with(&|lines| lines[5].truncate(30)), (6, 5, Flaw::Changed));
    rewrite(dir, &good);
    assert_eq!(flaw(dir), None);
}

/// A forged record with a valid hash.
fn forged(line: &str, from: &str, to: &str) -> String {
    use sha2::Digest as _;
    let body = line.split(",\"hash\":").next().unwrap().replace(from, to);
    let hash: String = sha2::Sha256::digest(format!("{body}}}")).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{body},\"hash\":\"{hash}\"}}")
}

#[test]
fn a_record_with_a_new_hash_is_named() {
    let directory = written(5);
    let dir = directory.path();
    let good = lines(dir);
    assert_eq!(forged(&good[2], "none", "none"), good[2]);
    let mut replaced = good.clone();
    replaced[2] = forged(&good[2], "r2", "rX");
    rewrite(dir, &replaced);
    assert_eq!(flaw(dir), Some((3, 2, Flaw::Replaced)));
    let mut inserted = good.clone();
    inserted.insert(2, forged(&good[2], "r2", "rX"));
    rewrite(dir, &inserted);
    assert_eq!(flaw(dir), Some((3, 2, Flaw::Inserted)));
    let mut last = good.clone();
    last[4] = forged(&good[4], "r4", "rX");
    rewrite(dir, &last);
    assert_eq!(flaw(dir), Some((5, 4, Flaw::OtherHead)));
}

#[test]
fn a_missing_head_is_named_and_stays_so() {
    let directory = written(3);
    fs::remove_file(directory.path().join("audit.head")).unwrap();
    assert_eq!(flaw(directory.path()), Some((3, 2, Flaw::NoHead)));
    append(&open(directory.path()), "later").unwrap();
    assert!(matches!(flaw(directory.path()), Some((4, 3, Flaw::Damaged { .. }))));
    assert_eq!(all(directory.path()).last().unwrap().sequence, 4);
}

#[test]
fn records_that_were_cut_off_stay_missing() {
    let directory = written(5);
    let kept = lines(directory.path());
    rewrite(directory.path(), &kept[..3]);
    let trail = open(directory.path());
    append(&trail, "later").unwrap();
    append(&trail, "later").unwrap();
    assert_eq!(flaw(directory.path()), Some((4, 5, Flaw::Removed { count: 2 })));
    assert_eq!(all(directory.path()).last().unwrap().sequence, 7);
}

#[test]
fn what_a_killed_writer_leaves_is_kept_and_explained() {
    let directory = written(4);
    let dir = directory.path();
    let text = fs::read(current(dir)).unwrap();
    let head = fs::read(dir.join("audit.head")).unwrap();
    let before = written(3);
    let third_end = fs::read(current(before.path())).unwrap().len();
    // The head of three records, and the fourth in every state that a write can stop in.
    let shorter = {
        fs::write(current(dir), &text[..third_end]).unwrap();
        fs::remove_file(dir.join("audit.head")).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&head).unwrap();
        let third: AuditRecord = all(dir).pop().unwrap();
        let mut line = format!(
            "{{\"records\":3,\"hash\":\"{}\",\"size\":{third_end},\"generation\":0,\"first_sequence\":0,\"first_previous\":{}}}",
            third.hash, value["first_previous"]
        );
        line.push_str(&" ".repeat(511 - line.len()));
        line + "\n"
    };
    for end in third_end..=text.len() {
        fs::write(current(dir), &text[..end]).unwrap();
        fs::write(dir.join("audit.head"), &shorter).unwrap();
        let stopped = end > third_end && end < text.len();
        assert_eq!(assert_whole(dir).unfinished.len(), usize::from(stopped), "{end}");
        // A record that lacks nothing but its newline is whole.
        let torn = stopped && end < text.len() - 1;
        append(&open(dir), "later").unwrap();
        let verdict = assert_whole(dir);
        assert_eq!(verdict.unfinished.len(), usize::from(torn), "{end}");
        let repaired = all(dir)
            .iter()
            .any(|record| matches!(record.event, AuditEvent::Repaired { damage: TrailDamage::Unfinished { .. } }));
        assert_eq!(repaired, torn);
        assert!(fs::read(current(dir)).unwrap().starts_with(&text[..end]), "what was there is kept");
    }
    // What does not look like the beginning of a record is not excused.
    fs::write(current(dir), [&text[..third_end], b"{\"seq oops"].concat()).unwrap();
    fs::write(dir.join("audit.head"), &shorter).unwrap();
    append(&open(dir), "later").unwrap();
    assert!(flaw(dir).is_some());
}

#[test]
fn a_full_file_makes_room_without_breaking_the_chain() {
    let directory = tempfile::tempdir().unwrap();
    let options = TrailOptions { max_file_bytes: 2000, kept_files: 3, ..TrailOptions::default() };
    let trail = AuditTrail::open(directory.path(), options).unwrap();
    let other = AuditTrail::open(directory.path(), options).unwrap();
    for index in 0..100 {
        append(if index % 3 == 0 { &other } else { &trail }, "r").unwrap();
        assert_whole(directory.path());
    }
    let names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3 + 2, "{names:?}");
    let found = all(directory.path());
    assert_eq!(found.last().unwrap().sequence, 99);
    assert!(found.len() < 60 && found.len() > 10, "{}", found.len());
    let first = verify(directory.path()).unwrap().first.unwrap();
    assert_eq!((first.sequence, first.time_ms), (found[0].sequence, found[0].time_ms), "the oldest that is kept");
    assert!(first.sequence > 0);
    // One of the kept files is taken away: the oldest, one in the middle.
    let mut archives: Vec<_> = names.iter().filter(|name| name.len() > "audit.jsonl".len()).collect();
    archives.sort();
    for name in &archives[..2] {
        let file = directory.path().join(name);
        let text = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        assert!(matches!(flaw(directory.path()), Some((1, _, Flaw::Removed { .. }))));
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    assert_whole(directory.path());
    // A writer that died between its note and the new file.
    let archive = directory.path().join(archives[2]);
    let size = fs::metadata(current(directory.path())).unwrap().len();
    assert!(size > 0);
    append(&open(directory.path()), "r").unwrap();
    assert!(archive.exists());
    assert_whole(directory.path());
}

#[test]
fn a_file_that_vanishes_is_not_written_to_any_more() {
    let directory = written(2);
    let trail = open(directory.path());
    fs::remove_file(current(directory.path())).unwrap();
    append(&trail, "r").unwrap();
    assert_eq!(flaw(directory.path()), Some((1, 2, Flaw::Removed { count: 2 })));
}

#[test]
fn each_record_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    let options = TrailOptions { durability: Durability::EachRecord, ..TrailOptions::default() };
    append(&AuditTrail::open(directory.path(), options).unwrap(), "r").unwrap();
    assert_eq!(assert_whole(directory.path()).records, 1);
}

/// fs30: a file planted in place of the trail is refused, and its target is not touched.
#[test]
fn planted_files_are_refused() {
    for name in ["audit.jsonl", "audit.head"] {
        let directory = tempfile::tempdir().unwrap();
        let dir = directory.path().join("stockade");
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
        let file = dir.join(name);
        let victim = directory.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        let refused = |why: &str| {
            let error = AuditTrail::open(&dir, TrailOptions::default()).unwrap_err();
            assert!(matches!(error, AuditError::Unsafe { .. }) && error.to_string().contains(why), "{name}: {error}");
        };
        symlink(&victim, &file).unwrap();
        refused("symbolic link");
        fs::remove_file(&file).unwrap();
        symlink(directory.path().join("nowhere"), &file).unwrap();
        refused("symbolic link");
        fs::remove_file(&file).unwrap();
        fs::hard_link(&victim, &file).unwrap();
        refused("hard link");
        fs::remove_file(&file).unwrap();
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
        refused("written by other users");
        fs::remove_file(&file).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        refused("not an ordinary file");
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert!(!directory.path().join("nowhere").exists());
    }
}

#[test]
fn a_directory_that_others_may_have_made_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let (real, link) = (directory.path().join("real"), directory.path().join("link"));
    fs::create_dir(&real).unwrap();
    symlink(&real, &link).unwrap();
    let error = AuditTrail::open(&link, TrailOptions::default()).unwrap_err();
    assert!(error.to_string().contains("symbolic link"), "{error}");
    fs::set_permissions(&real, fs::Permissions::from_mode(0o777)).unwrap();
    let error = AuditTrail::open(&real, TrailOptions::default()).unwrap_err();
    assert!(error.to_string().contains("chmod go-w"), "{error}");
    if rustix::process::geteuid().is_root() {
        fs::set_permissions(&real, fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::chown(&real, Some(65534), None).unwrap();
        let error = AuditTrail::open(&real, TrailOptions::default()).unwrap_err();
        assert!(error.to_string().contains("another user"), "{error}");
    }
    assert_eq!(fs::read_dir(&real).unwrap().count(), 0);
}

/// Starts this test program again, to be `child` alone with the given trail.
#[expect(clippy::disallowed_methods, reason = "the test needs real processes")]
fn this_program(child: &str, directory: &Path, prologue: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("{prologue} exec \"$0\" \"$@\"")).arg(std::env::current_exe().unwrap());
    shell.args(["--exact", child, "--ignored", "--test-threads=1"]).env("TRAIL", directory);
    shell.stdout(Stdio::null()).stderr(Stdio::inherit());
    shell
}

fn trail_of_parent() -> AuditTrail {
    open(Path::new(&std::env::var_os("TRAIL").expect("started by another test")))
}

const WRITERS: usize = 8;
const RECORDS_EACH: usize = 200;

#[test]
#[ignore = "a process of `many_processes_and_threads_write_without_loss`"]
fn writer() {
    let trail = trail_of_parent();
    let own = std::env::var("WRITER").unwrap();
    std::thread::scope(|scope| {
        for half in 0..2 {
            let (trail, own) = (&trail, &own);
            scope.spawn(move || {
                for index in 0..RECORDS_EACH / 2 {
                    append(trail, &format!("w{own}-{half}-{index}")).unwrap();
                }
            });
        }
    });
}

#[test]
fn many_processes_and_threads_write_without_loss() {
    let directory = tempfile::tempdir().unwrap();
    let mut running: Vec<Child> = (0..WRITERS)
        .map(|index| this_program("writer", directory.path(), "").env("WRITER", index.to_string()).spawn().unwrap())
        .collect();
    // A reader at any time sees a whole trail.
    while running.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
        assert_whole(directory.path());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(running.iter_mut().all(|child| child.wait().unwrap().success()));
    assert_eq!(assert_whole(directory.path()).records, (WRITERS * RECORDS_EACH) as u64);
    let mut requests: Vec<_> = all(directory.path()).into_iter().map(|record| record.request_id).collect();
    requests.sort();
    requests.dedup();
    assert_eq!(requests.len(), WRITERS * RECORDS_EACH);
}

#[test]
#[ignore = "a process of `killed_writers_leave_a_trail_that_verifies`"]
fn endless_writer() {
    let trail = AuditTrail::open(
        Path::new(&std::env::var_os("TRAIL").unwrap()),
        TrailOptions { max_file_bytes: 20_000, kept_files: 1000, ..TrailOptions::default() },
    )
    .unwrap();
    loop {
        append(&trail, "endless").unwrap();
        std::thread::sleep(Duration::from_micros(300));
    }
}

#[test]
fn killed_writers_leave_a_trail_that_verifies() {
    let directory = tempfile::tempdir().unwrap();
    let mut writers: Vec<Child> =
        (0..4).map(|_| this_program("endless_writer", directory.path(), "").spawn().unwrap()).collect();
    let mut wait = 7;
    for round in 0..60 {
        wait = (wait * 31 + 11) % 17;
        std::thread::sleep(Duration::from_millis(wait));
        let slot = &mut writers[round % 4];
        slot.kill().unwrap();
        slot.wait().unwrap();
        *slot = this_program("endless_writer", directory.path(), "").spawn().unwrap();
        if round % 10 == 0 {
            assert_whole(directory.path());
        }
    }
    for writer in &mut writers {
        writer.kill().unwrap();
        writer.wait().unwrap();
    }
    append(&open(directory.path()), "last").unwrap();
    let verdict = assert_whole(directory.path());
    assert!(verdict.records > 500, "{}", verdict.records);
    println!("{} records, {} of them unfinished", verdict.records, verdict.unfinished.len());
}

#[test]
#[ignore = "a process of `a_full_disk_is_an_error_and_the_trail_stays_whole`"]
fn writer_without_space() {
    let trail = trail_of_parent();
    let mut kept = 0;
    let error = loop {
        match append(&trail, &format!("r{kept}")) {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
        assert!(kept < 10_000, "the disk never filled up");
    };
    assert!(matches!(error, AuditError::Io { act: "write to", .. }), "{error:?}");
    let verdict = assert_whole(Path::new(&std::env::var_os("TRAIL").unwrap()));
    assert_eq!((verdict.records, verdict.unfinished), (kept, Vec::new()));
    assert!(kept > 5);
    assert!(append(&trail, "again").is_err());
}

/// or17: the error comes out, and what was kept before verifies.
#[test]
fn a_full_disk_is_an_error_and_the_trail_stays_whole() {
    // A limit on the size of files stops a write in its middle.
    let directory = tempfile::tempdir().unwrap();
    let limited = this_program("writer_without_space", directory.path(), "trap '' XFSZ; ulimit -f 16;").status();
    assert!(limited.unwrap().success());
    assert_whole(directory.path());
    // A small file system of its own, in a mount namespace of its own.
    let mount = tempfile::tempdir().unwrap();
    let prologue = "if [ -z \"$MOUNTED\" ]; then MOUNTED=1 exec unshare -rm sh -c \
        'mount -t tmpfs -o size=64k,mode=0700 none \"$TRAIL\" && exec \"$0\" \"$@\"' \"$0\" \"$@\"; fi;";
    let full = this_program("writer_without_space", mount.path(), prologue).status();
    assert!(full.unwrap().success());
    assert_eq!(fs::read_dir(mount.path()).unwrap().count(), 0, "the file system was not a private one");
}

/// Printed, not asserted: machines differ.
#[test]
fn what_a_record_costs() {
    let directory = tempfile::tempdir().unwrap();
    let trail = open(directory.path());
    let start = Instant::now();
    for _ in 0..2000 {
        append(&trail, "r").unwrap();
    }
    println!("one record: {:?}", start.elapsed() / 2000);
    let start = Instant::now();
    for _ in 0..200 {
        drop(open(directory.path()));
    }
    println!("opening a trail: {:?}", start.elapsed() / 200);
}
