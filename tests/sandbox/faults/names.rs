//! Workspaces whose names are hard to handle: everything holds in them as in any other.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use stockade_protocol::Access;

use crate::escapes::for_each_user;
use crate::request::Ended;
use crate::world::{User, World, rule};

const NAMES: &[&[u8]] = &[
    b"with space",
    b"new\nline",
    b"not-\xff\xfe-utf8",
    b"quote'\"$(x)`",
    b"-rf",
    b"tab\there",
    b"\\x41",
    b"\xf0\x9f\xa6\x80",
    b"{a,b}*?[",
];

for_each_user! {
    /// Writing works, and what is denied or protected stays so.
    workspace_names => everything_holds;
    /// A name as long as the kernel takes.
    long_names => a_long_path_works;
}

fn everything_holds(user: User, engine: &str) {
    for name in NAMES {
        check(&World::named(user, OsStr::from_bytes(name)), engine);
    }
}

fn a_long_path_works(user: User, engine: &str) {
    let long = ["n".repeat(255), "m".repeat(255), "o".repeat(255)].join("/");
    check(&World::named(user, OsStr::new(&long)), engine);
}

fn check(world: &World, engine: &str) {
    world.write(&world.workspace.join(".env"), "secret\n");
    let permissions = world.permissions_with([rule(&world.workspace.join(".env"), Access::None)]);
    let script = "echo hi > inside; echo x > .git/config; mkdir .codex; mv .git g; echo x > \"$OUT/t\"; cat .env; cat \"$WS/src/main\"; pwd -P";
    let request = world.request(engine, permissions, script);
    let seen = world.finish(&request, world.caller(&request).current_dir(&world.workspace));
    assert!(matches!(seen.ended, Ended::Exited { code: 0, .. }), "{seen:?}");
    assert_eq!(
        seen.stdout,
        format!("main\n{}\n", String::from_utf8_lossy(world.workspace.as_os_str().as_bytes())),
        "{seen:?}"
    );
    assert_eq!(std::fs::read_to_string(world.workspace.join("inside")).unwrap(), "hi\n");
    assert_eq!(std::fs::read_to_string(world.workspace.join(".git/config")).unwrap(), "[core]\n");
    assert_eq!(std::fs::read_to_string(world.outside.join("t")).unwrap(), "original\n");
    assert!(!world.workspace.join(".codex").exists());
}
