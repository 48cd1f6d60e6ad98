//! Writes and changes outside what was granted.

use std::os::unix::fs::MetadataExt as _;

use stockade_protocol::{AbsPath, Access, FileRule};

use super::{Attack, Bare, attacks, for_each_user, for_every_engine, hears, outside_changed, text_of};
use crate::engines::NONE;
use crate::request::Ended;
use crate::world::{Seen, User, World, abs, rule};

attacks! {
    /// A plain write outside.
    fs01 => Attack::with("echo x > $OUT/t").hits(outside_changed);
    /// A new file outside.
    fs01_new => Attack::with("echo x > $OUT/new").hits(outside_changed);
    /// Through a symbolic link that the command made.
    fs02 => Attack::with("ln -s $OUT l; echo x > l/t").hits(outside_changed);
    /// Through a hard link that the command made.
    fs03 => Attack::with("ln $OUT/t h && echo x > h").hits(outside_changed);
    /// Through a hard link that was there before: the kernel knows no difference between names.
    fs04 => Attack::with("echo x > h")
        .after(|world| std::fs::hard_link(world.outside.join("t"), world.workspace.join("h")).unwrap())
        .hits(|world, _| text_of(&world.outside.join("t")) != "original\n")
        .not_promised();
    /// Moving a file from outside into the workspace.
    fs05 => Attack::with("mv $OUT/t m").hits(outside_changed);
    /// Through the root of the first process.
    fs07 => Attack::with("echo x > /proc/1/root$OUT/t").hits(outside_changed).bare(Bare::NotTried);
    /// Through the root and working directory of the processes that belong to the run.
    fs07_all => Attack::with("for p in /proc/self /proc/$$ /proc/$PPID; do for l in root cwd; do echo x > $p/$l$OUT/t; done; done 2>/dev/null")
        .hits(outside_changed);
    /// Through a directory that the caller has left open.
    fs09 => Attack::with("echo x > /proc/self/fd/99/t; chmod 777 /proc/self/fd/99/t; $PROBE setxattr /proc/self/fd/99/t").behind(&["bash", "-c", "exec 99<$OUT; exec \"$@\"", "-"]).hits(outside_changed);
    /// Cutting a file to nothing.
    fs11 => Attack::with("$PROBE truncate $OUT/t").hits(outside_changed);
    /// Changing a mode.
    fs12 => Attack::with("chmod 777 $OUT/t").hits(outside_changed);
    /// Changing times.
    fs12_times => Attack::with("touch -d 2001-01-01 $OUT/t")
        .hits(|world, _| std::fs::metadata(world.outside.join("t")).unwrap().mtime() < 1_000_000_000);
    /// Setting an attribute.
    fs14 => Attack::with("$PROBE setxattr $OUT/t").hits(|world, _| has_attribute(world));
    /// Writing into a pipe of the host, which a read-only mount lets through.
    fs16 => Attack::with("timeout 2 sh -c 'echo x > $OUT/fifo'").after(World::listen_on_pipe).hits(hears);
    /// Locking a file of the host: a lock needs no more than reading.
    fs17 => Attack::with("$PROBE flock $OUT/t").hits(|_, seen| seen.stdout.contains("flock ok")).not_promised();
    /// Keeping the host from opening a file to write it.
    fs17_lease => Attack::with("$PROBE lease $OUT/t").hits(|_, seen| seen.stdout.contains("lease ok"));
    /// The host's shared memory files.
    fs18 => Attack::with("echo x > /dev/shm/$MARKER").hits(|world, _| std::fs::remove_file(format!("/dev/shm/{}", world.marker)).is_ok());
    /// A program that runs as the user, left behind in the workspace.
    fs19 => Attack::with("cp /bin/true s; chmod 4755 s; mkdir d; $PROBE setuid-files d").hits(|world, _| any_setuid(world));
    /// Device files in the workspace.
    fs20 => Attack::with("mknod zero c 1 5; mknod disk b 8 0; true")
        .hits(|world, _| world.workspace.join("zero").exists() || world.workspace.join("disk").exists())
        .bare(Bare::WorksForRoot);
    /// The request's working directory is not what becomes writable.
    fs24 => Attack::with("echo x > t")
        .asked(|world, request| request.cwd = abs(&world.outside).as_raw().clone())
        .hits(outside_changed);
    /// A directory whose name only starts like the workspace's.
    fs25 => Attack::with("echo x > $WS-evil/t")
        .after(|world| world.make_directory(&world.root().join("ws-evil")))
        .hits(|world, _| world.root().join("ws-evil/t").exists());
    /// Standard input leads to a file outside: opening it again for writing gives no more than was granted.
    fs31 => Attack::with("echo x > /proc/self/fd/0; echo x > /dev/stdin")
        .behind(&["bash", "-c", "exec \"$@\" < $OUT/t", "-"])
        .hits(|world, _| text_of(&world.outside.join("t")) != "original\n");
    /// Nor can it be cut to nothing, by its name there or by opening it.
    fs31_cut => Attack::with("$PROBE truncate /proc/self/fd/0; $PROBE open-cut /proc/self/fd/0; true")
        .behind(&["bash", "-c", "exec \"$@\" < $OUT/t", "-"])
        .hits(|world, _| text_of(&world.outside.join("t")) != "original\n");
    /// Nor can a file that a process outside has opened for reading and passes through a socket.
    fs31_passed => Attack::with("$PROBE cut-passed-file")
        .behind(&["/bin/sh", "-c", "exec \"$PROBE\" with-file $OUT/t \"$@\"", "-"])
        .hits(|world, _| text_of(&world.outside.join("t")) != "original\n");
    /// Opened for reading, and cut by that.
    fs11_open => Attack::with("$PROBE open-cut $OUT/t").hits(outside_changed);
    /// A file that the caller itself passes on as a stream is passed on: its mode can be changed.
    fs34 => Attack::with("$PROBE chmod-descriptor 0")
        .behind(&["bash", "-c", "exec \"$@\" < $OUT/t", "-"])
        .hits(outside_changed)
        .not_promised();
    /// Nothing else is passed on.
    fs09_list => Attack::with("for f in /proc/$$/fd/*; do [ $(basename $f) -gt 2 ] && readlink $f; done; true")
        .behind(&["bash", "-c", "exec 77<$OUT 99<$OUT/t; exec \"$@\"", "-"])
        .hits(|_, seen| seen.stdout.contains("/out"));
    /// Mounts of the host below one that is read-only are so too.
    fs35 => Attack::with("echo x > $OUT/sub/left; touch $OUT/sub/left; true")
        .behind(&["unshare", "-rm", "sh", "-c", "mkdir $OUT/sub && mount -t tmpfs none $OUT/sub && \"$@\"; ls $OUT/sub > $OUT/listing", "-"])
        .hits(|world, _| {
            assert!(world.outside.join("listing").exists(), "the wrapper did not work");
            text_of(&world.outside.join("listing")).contains("left")
        });
    /// The workspace's own directory can't be replaced.
    fs32 => Attack::with("mv $WS $WS-old && mkdir $WS && echo x > $WS/planted")
        .hits(|world, _| world.workspace.join("planted").exists());
}

for_each_user! {
    /// A root that was a directory when the plan was made and is a link when it starts.
    fs21_between => a_swap_after_the_plan_is_refused;
    /// Every spelling of a denied path.
    fs29 => every_spelling_of_a_denied_path_is_denied;
    /// A directory as a standard stream would be a way around the view.
    fs33 => a_directory_as_a_stream_is_refused;
    /// Nor is a protected file that the caller has opened for reading: it could be opened again for writing.
    fs36 => a_protected_file_as_a_stream_is_refused;
}

for_every_engine! {
    /// A root that an earlier run swapped for a link.
    fs21 => a_root_that_became_a_link_is_refused;
    /// The launcher leaves no file behind, and makes none with a foreseeable name.
    fs30 => nothing_is_made_in_the_temporary_directory;
}

fn has_attribute(world: &World) -> bool {
    let mut value = [0_u8; 8];
    rustix::fs::getxattr(world.outside.join("t"), "user.stockade", &mut value).is_ok()
}

fn any_setuid(world: &World) -> bool {
    let modes = crate::world::snapshot(&world.workspace);
    modes.keys().any(|path| {
        let metadata = path.symlink_metadata().unwrap();
        metadata.is_file() && metadata.mode() & 0o6000 != 0
    })
}

fn a_swap_after_the_plan_is_refused(user: User, engine: &str) {
    let world = World::new(user);
    let cache = world.workspace.join("src");
    let permissions = world.permissions_with([rule(&cache, Access::Read)]);
    let mut request = world.request(engine, permissions, "echo started");
    request.between = Some(format!("cd {} && mv src old && ln -s ../out src", world.workspace.display()));
    let seen = world.run(&request);
    assert!(
        matches!(&seen.ended, Ended::NotStarted { why } if why.contains("Too many levels of symbolic links")),
        "{seen:?}"
    );
    assert_eq!(seen.stdout, "");
}

fn a_root_that_became_a_link_is_refused(user: User, engine: &str) {
    let world = World::new(user);
    let cache = world.workspace.join("cache");
    world.make_directory(&cache);
    let permissions = world.permissions_with([rule(&cache, Access::Write)]);
    let first =
        world.run(&world.request(engine, permissions.clone(), "rm -r cache && ln -s ../out cache && echo swapped"));
    assert_eq!(first.stdout, "swapped\n", "{first:?}");
    let second = world.run(&world.request(engine, permissions, "echo x > cache/t"));
    assert!(matches!(&second.ended, Ended::Refused { why, .. } if why.contains("link")), "{second:?}");
    assert_eq!(text_of(&world.outside.join("t")), "original\n");
    // The same for a grant to read: a link must not choose what becomes readable.
    let readable = world.permissions_with([rule(&cache, Access::Read)]);
    let third = world.run(&world.request(engine, readable, "true"));
    assert!(matches!(&third.ended, Ended::Refused { why, .. } if why.contains("link")), "{third:?}");
}

fn every_spelling_of_a_denied_path_is_denied(user: User, engine: &str) {
    let world = World::new(user);
    let base = world.outside.display();
    for spelling in
        [format!("{base}/t"), format!("{base}/t/"), format!("{base}//t"), format!("{base}/./t"), format!("/{base}/t")]
    {
        let denied = FileRule::path(AbsPath::parse(spelling.as_str()).unwrap(), Access::None);
        let seen = world.run(&world.request(engine, world.permissions_with([denied]), "echo started; cat $OUT/t"));
        assert_eq!(seen.stdout, "started\n", "{spelling}: {seen:?}");
    }
    assert!(AbsPath::parse(format!("{base}/../out/t")).is_err());
    assert!(AbsPath::parse("~/t").is_err());
}

fn nothing_is_made_in_the_temporary_directory(user: User, engine: &str) {
    let mut world = World::new(user);
    let temporary = world.root().join("temporary");
    world.make_directory(&temporary);
    world.variables.push((String::from("TMPDIR"), temporary.display().to_string()));
    let mut request = world.request(engine, world.permissions(), "echo started; ls -A $TMPDIR");
    request.limit_ms = None;
    let seen = world.run(&request);
    assert_eq!(seen.stdout, "started\n", "{seen:?}");
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}

fn a_directory_as_a_stream_is_refused(user: User, engine: &str) {
    let world = World::new(user);
    world.write(&world.workspace.join(".env"), "secret\n");
    let permissions = world.permissions_with([rule(&world.workspace.join(".env"), Access::None)]);
    let request = world.request(engine, permissions, "echo started; cat /proc/self/fd/0/.env");
    let mut caller = world.caller_behind(&["bash", "-c", "exec \"$@\" < $WS", "-"], &request);
    let seen: Seen = world.finish(&request, &mut caller);
    assert!(matches!(&seen.ended, Ended::NotStarted { why } if why.contains("directory")), "{seen:?}");
}

fn a_protected_file_as_a_stream_is_refused(user: User, engine: &str) {
    let attack = "echo started; chmod 644 /proc/self/fd/0; echo x > /proc/self/fd/0";
    let wrapper = ["bash", "-c", "exec \"$@\" < $WS/.git/config", "-"];
    for (engine, is_held) in [(NONE, false), (engine, true)] {
        let world = World::new(user);
        let request = world.request(engine, world.permissions(), attack);
        let mut caller = world.caller_behind(&wrapper, &request);
        let seen: Seen = world.finish(&request, &mut caller);
        let is_refused = matches!(&seen.ended, Ended::NotStarted { why } if why.contains(".git/config"));
        assert_eq!(is_refused, is_held, "{engine}: {seen:?}");
        assert_eq!(text_of(&world.workspace.join(".git/config")) == "[core]\n", is_held, "{engine}");
    }
}
