//! Devices that are granted by name, and all others.

use rustix::fs::{CWD, FileType, Mode};

use super::home::{Home, User};

/// A node that no sandbox has by itself: another `/dev/full`, if the tests may make one, and else `/dev/fuse`.
struct Node(String);

impl Node {
    fn new(name: &str) -> Self {
        let path = format!("/dev/stockade-test-{name}-{}", std::process::id());
        let full = rustix::fs::makedev(1, 7);
        match rustix::fs::mknodat(CWD, &path, FileType::CharacterDevice, Mode::from_raw_mode(0o666), full) {
            Ok(()) => rustix::fs::chmod(&path, Mode::from_raw_mode(0o666)).unwrap(),
            Err(_) => return Self(String::from("/dev/fuse")),
        }
        Self(path)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.0 != "/dev/fuse" {
            std::fs::remove_file(&self.0).ok();
        }
    }
}

const LANDLOCK: [&str; 8] = [
    "--engine",
    "landlock",
    "--accept-loss",
    "protected_metadata",
    "--accept-loss",
    "credentials",
    "--accept-loss",
    "private_directories",
];

#[test]
fn a_device_is_used_by_its_name_alone() {
    let node = Node::new("used");
    let line = format!("exec 3<>{} && echo opened", node.0);
    for user in [User::Own, User::Ordinary] {
        let home = Home::of(user);
        for engine in [&["--engine", "native"][..], &["--engine", "bwrap"], &LANDLOCK[..]] {
            let refused = home.runs(engine, &line, 2);
            assert!(!refused.stdout.contains("opened"), "{engine:?} {user:?}: {}", refused.stderr);
            let used = home.runs(&[engine, &["--device", &node.0]].concat(), &line, 0);
            assert_eq!(used.stdout, "opened\n", "{engine:?} {user:?}");
        }
    }
}

#[test]
fn what_is_no_node_below_dev_is_refused() {
    let node = Node::new("refused");
    let home = Home::new();
    home.write("ws/file", "");
    // What an earlier command made does not choose the device.
    std::os::unix::fs::symlink(&node.0, home.path("ws/link")).unwrap();
    for other in [
        "/dev",
        "/dev/pts",
        "file",
        "link",
        "/dev/missing",
        "/etc/passwd",
        "/dev/../etc/passwd",
        "/dev/shm",
        "/dev/fd/../full",
    ] {
        let told = home.runs(&["--device", other], "echo ran > ran", 125);
        assert!(told.stderr.contains("is no node of a device below `/dev`"), "{other}: {}", told.stderr);
        assert!(!home.exists("ws/ran"));
    }
    home.write("config/stockade/config.toml", "[sandbox]\ndevices = [\"/dev/pts\"]\n");
    let told = home.runs(&[], "echo ran > ran", 125);
    assert!(told.stderr.contains("sandbox.devices") && !home.exists("ws/ran"), "{}", told.stderr);
    home.write("config/stockade/config.toml", "[sandbox]\ndevices = [\"/dev/missing\"]\n");
    let told = home.runs(&[], "echo ran > ran", 0);
    assert!(
        told.stderr.contains("the device `/dev/missing` is missing, and commands run without it"),
        "{}",
        told.stderr
    );
    assert!(home.exists("ws/ran"));
    home.write("config/stockade/config.toml", &format!("[sandbox]\ndevices = [\"{}\"]\n", node.0));
    assert_eq!(home.runs(&[], &format!("exec 3<>{} && echo opened", node.0), 0).stdout, "opened\n");
}

/// A rule for a directory of devices makes none of them usable. Names in it that must not be made can be held by root alone.
#[test]
fn a_directory_of_devices_is_not_used() {
    let home = Home::new();
    let exit_code = if rustix::process::geteuid().is_root() { 2 } else { 125 };
    let told = home.runs(&["--writable", "/dev/net"], "exec 3<>/dev/net/tun && echo opened", exit_code);
    assert!(!told.stdout.contains("opened"), "{}", told.stdout);
}
