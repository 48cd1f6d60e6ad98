//! What ordinary programs ask for before they do any work. A profile that withholds one of these is safe and of
//! no use, and no other test would notice.

use stockade_protocol::{NetworkPolicy, Permissions};
use stockade_sandbox_macos::platform_defaults;

use crate::evaluator::Object;
use crate::world::{Asked, CACHE, SCRATCH, USER_TEMPORARY, files, with_network};

/// The usual policy: everything can be read, the workspace can be written, and temporary directories are private.
fn workspace() -> Permissions {
    files(&["/ read", "/w write", "/private/tmp scratch", &format!("{USER_TEMPORARY} scratch")])
}

/// The same with reads limited to the workspace and what the platform needs.
fn restricted() -> Permissions {
    let defaults = platform_defaults().into_iter().map(|path| format!("{path} read"));
    let lines: Vec<String> = defaults.chain(["/w write".to_owned(), "/private/tmp scratch".to_owned()]).collect();
    files(&lines.iter().map(String::as_str).collect::<Vec<_>>())
}

fn both() -> [(&'static str, Asked); 2] {
    [("workspace", Asked::new(&workspace())), ("restricted reads", Asked::new(&restricted()))]
}

/// Node's `realpath` and `mkdir -p` look at each directory on the way.
#[test]
fn every_directory_above_the_private_ones_can_be_looked_at_and_not_listed() {
    for (policy, asked) in both() {
        for own in [SCRATCH, CACHE] {
            let above = own.match_indices('/').skip(1).filter_map(|(at, _)| own.get(..at));
            for above in above.chain([own]) {
                assert!(asked.allows("file-read-metadata", &Object::file(above)), "{policy}: lstat {above}");
            }
        }
    }
    let (_, asked) = both().into_iter().next_back().unwrap();
    for closed in [USER_TEMPORARY, "/private/var/folders/zz"] {
        assert!(!asked.reads(closed), "{closed} is listed");
    }
    assert!(!asked.allows("file-read-metadata", &Object::file(&format!("{USER_TEMPORARY}/another-program"))));
}

/// `mktemp`, Foundation and Java ask the system for the user's directories, which a suffix moves to these; clang
/// and `xcrun` keep caches there.
#[test]
fn temporary_files_and_caches_have_a_place() {
    for (policy, asked) in both() {
        for file in [format!("{SCRATCH}/tmp.Xy12"), format!("{CACHE}/com.apple.x"), format!("{SCRATCH}/xcrun_db")] {
            for operation in ["file-write-create", "file-write-data", "file-read-data", "file-write-unlink"] {
                assert!(asked.allows(operation, &Object::file(&file)), "{policy}: {operation} {file}");
            }
        }
        for place in [SCRATCH, CACHE] {
            assert!(!asked.allows("file-write-unlink", &Object::file(place)), "{policy}: {place} itself stays");
        }
    }
}

/// `ttyname`, `tty` and `isatty` look at the terminal that is a standard stream.
#[test]
fn terminals_can_be_looked_at_and_not_opened() {
    for (policy, asked) in both() {
        let terminal = Object::file("/dev/ttys004");
        assert!(asked.allows("file-read-metadata", &terminal), "{policy}");
        assert!(asked.allows("file-ioctl", &terminal), "{policy}");
        assert!(!asked.reads("/dev/ttys004") && !asked.writes("/dev/ttys004"), "{policy}");
    }
}

/// Python's `ProcessPoolExecutor` asks for the first before it makes a lock.
#[test]
fn limits_of_semaphores_are_told_and_semaphores_can_be_made() {
    for (policy, asked) in both() {
        for name in ["kern.sysv.semmns", "kern.sysv.semmni", "kern.sysv.shmmax", "hw.ncpu", "kern.osproductversion"] {
            assert!(asked.allows("sysctl-read", &Object::name(name)), "{policy}: {name}");
        }
        for name in ["/mp-1a2b", "/sem.of.a.library", "boost.interprocess"] {
            assert!(asked.allows("ipc-posix-sem", &Object::name(name)), "{policy}: {name}");
        }
    }
}

/// Programs that use the framework SystemConfiguration, `uv` among them, end at once if it can't be asked.
#[test]
fn the_system_configuration_can_be_asked_for_without_a_network() {
    for (policy, asked) in both() {
        let name = Object::name("com.apple.SystemConfiguration.configd");
        assert!(asked.allows("mach-lookup", &name), "{policy}");
    }
}

/// `/etc/resolv.conf` is a link to it.
#[test]
fn name_servers_can_be_read_under_restricted_reads() {
    for (policy, asked) in both() {
        assert!(asked.reads("/private/var/run/resolv.conf"), "{policy}");
    }
}

/// Preferences are files of the person's that a service reads out.
#[test]
fn preferences_are_told_only_where_all_files_can_be_read() {
    let asks = |asked: &Asked| {
        ["com.apple.cfprefsd.daemon", "com.apple.cfprefsd.agent"]
            .map(|name| asked.allows("mach-lookup", &Object::name(name)))
    };
    let read = |asked: &Asked| asked.allows("user-preference-read", &Object::name("kCFPreferencesAnyApplication"));
    let shared = |asked: &Asked| asked.allows("ipc-posix-shm-read-data", &Object::name("apple.cfprefs.501v1"));
    let [(_, open), (_, restricted)] = both();
    assert!(asks(&open) == [true; 2] && read(&open) && shared(&open));
    assert!(asks(&restricted) == [false; 2] && !read(&restricted) && !shared(&restricted));
    assert_eq!(asks(&Asked::new(&Permissions::default())), [false; 2]);
}

/// A kernel control socket for the resolver, and none that reaches into the machine's networking.
#[test]
fn a_full_network_has_no_sockets_of_the_system_but_one() {
    let asked = Asked::new(&with_network(&["/ read"], NetworkPolicy::Full));
    assert!(asked.allows("system-socket", &Object::socket("AF_SYSTEM", 2)));
    assert!(asked.allows("system-socket", &Object::socket("AF_UNIX", 0)));
    for (domain, protocol) in [("AF_SYSTEM", 1), ("AF_NDRV", 0), ("AF_MULTIPATH", 0), ("AF_VSOCK", 0)] {
        assert!(!asked.allows("system-socket", &Object::socket(domain, protocol)), "{domain} {protocol}");
    }
    let off = Asked::new(&files(&["/ read"]));
    assert!(!off.allows("system-socket", &Object::socket("AF_SYSTEM", 2)));
}
