//! What no permission brings along, and what is there without one.

use stockade_protocol::Permissions;
use stockade_sandbox_macos::Seatbelt;

use crate::evaluator::Object;
use crate::world::{Asked, SCRATCH, USER_TEMPORARY, World, command, files, path};

#[test]
fn without_permissions_nothing_of_the_host_is_touched() {
    let asked = Asked::new(&Permissions::default());
    for text in ["/etc/passwd", "/private/etc/passwd", "/Users/me", "/tmp/x", "/bin/sh", "/dev/disk0"] {
        let object = Object::file(text);
        for operation in
            ["file-read-data", "file-write-data", "file-write-create", "process-exec", "file-map-executable"]
        {
            assert!(!asked.allows(operation, &object), "{operation} {text}");
        }
    }
}

#[test]
fn other_processes_and_the_machine_are_out_of_reach_whatever_is_granted() {
    let asked = Asked::new(&files(&["/ write"]));
    for operation in ["signal", "process-info-pidinfo"] {
        assert!(asked.allows(operation, &Object::word("same-sandbox")), "{operation}");
        assert!(!asked.allows(operation, &Object::word("others")), "{operation}");
    }
    assert!(asked.allows("process-fork", &Object::default()));
    for operation in ["nvram-get", "iokit-open", "iokit-get-properties", "mach-register", "user-preference-write"] {
        assert!(!asked.allows(operation, &Object::default()), "{operation}");
    }
    for (name, expected) in
        [("hw.ncpu", true), ("kern.osrelease", true), ("kern.procargs2.1", false), ("kern.proc.all", false)]
    {
        assert_eq!(asked.allows("sysctl-read", &Object::name(name)), expected, "{name}");
        assert!(!asked.allows("sysctl-write", &Object::name(name)), "{name}");
    }
    for (domain, expected) in [("kCFPreferencesAnyApplication", true), ("com.apple.mail", false)] {
        assert_eq!(asked.allows("user-preference-read", &Object::name(domain)), expected, "{domain}");
    }
    for (name, expected) in [("/psm_1a2b", true), ("/mine", false)] {
        assert_eq!(asked.allows("ipc-posix-shm-write-create", &Object::name(name)), expected, "{name}");
    }
}

#[test]
fn devices_are_a_short_list_whatever_is_granted() {
    let asked = Asked::new(&files(&["/ write"]));
    for (text, reads, writes) in [
        ("/dev/null", true, true),
        ("/dev/zero", true, true),
        ("/dev/urandom", true, false),
        ("/dev/tty", true, true),
        ("/dev/fd/3", true, true),
        ("/dev/ptmx", true, true),
        ("/dev/ttys003", false, false),
        ("/dev/disk0", false, false),
        ("/dev/auditpipe", false, false),
        ("/DEV/disk0", false, false),
        ("/System/Volumes/Data/dev/disk0", false, false),
        ("/device", true, true),
    ] {
        assert_eq!((asked.reads(text), asked.writes(text)), (reads, writes), "{text}");
    }
    let own = Object { has_extension: true, ..Object::file("/dev/ttys003") };
    assert!(asked.allows("file-read-data", &own) && asked.allows("file-write-data", &own));
    assert!(!asked.allows("file-read-data", &Object { has_extension: true, ..Object::file("/dev/disk0") }));
    assert!(
        asked.allows("file-ioctl", &Object::file("/dev/ttys003")) && asked.allows("pseudo-tty", &Object::default())
    );
}

#[test]
fn what_does_not_exist_can_be_held_and_not_granted() {
    let missing =
        |missing: &[&str]| World { missing: missing.iter().map(|text| path(text)).collect(), ..World::default() };
    let plan = |lines: &[&str], world: &World| Seatbelt::new().plan_on(&command(), &files(lines), None, world);
    let error = plan(&["/ read", "/w write"], &missing(&["/w"])).unwrap_err().to_string();
    assert!(error.contains("`/w`") && error.contains("create it"), "{error}");

    let held = plan(
        &["/w write", "/w/.codex read protected", "/w/sub/.git read protected"],
        &missing(&["/w/.codex", "/w/sub"]),
    );
    let held = Asked::of(&held.unwrap());
    for name in ["/w/.codex", "/w/.CODEX", "/w/sub", "/w/sub/.git", "/w/sub/.git/hooks"] {
        assert!(!held.allows("file-write-create", &Object::file(name)), "{name}");
    }
    assert!(held.allows("file-write-create", &Object::file("/w/subs")));

    // A credential in a directory that is not there takes nothing from the command but its own name.
    let lines = ["/h write", "/h/.config/gh none credential"];
    let masked = Asked::of(&plan(&lines, &missing(&["/h/.config"])).unwrap());
    assert!(masked.allows("file-write-create", &Object::file("/h/.config")) && !masked.reads("/h/.config/gh"));
    let there = Asked::of(&plan(&lines, &World::default()).unwrap());
    assert!(!there.allows("file-write-unlink", &Object::file("/h/.config")));
}

#[test]
fn devices_are_not_granted_by_rules() {
    for line in ["/dev write", "/dev/disk0 read", "/dev/null none"] {
        let error =
            Seatbelt::new().plan_on(&command(), &files(&[line]), None, &World::default()).unwrap_err().to_string();
        assert!(error.contains("devices"), "{line}: {error}");
    }
}

#[test]
fn a_private_directory_stands_for_those_that_cannot_be_had() {
    let asked = Asked::new(&files(&["/ read", "/private/tmp scratch"]));
    assert!(!asked.reads("/private/tmp") && !asked.reads("/private/tmp/x") && !asked.writes("/private/tmp/x"));
    let own = SCRATCH;
    for operation in ["file-read-data", "file-write-data", "file-write-create", "process-exec", "network-bind"] {
        assert!(asked.allows(operation, &Object::file(&format!("{own}/a"))), "{operation}");
    }
    assert!(!asked.allows("file-write-unlink", &Object::file(own)), "the directory itself stays");
    assert!(!asked.writes(&format!("{USER_TEMPORARY}/s-other0/a")), "another run's is not this one's");
    assert!(!Asked::new(&files(&["/ read"])).writes(own), "where none was asked for there is none");
}
