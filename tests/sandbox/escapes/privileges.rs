//! Namespaces, capabilities, terminals, loaders.

use std::io::Read as _;
use std::process::Stdio;

use super::{Attack, Bare, attacks, for_every_engine, hears, outside_changed, probe_succeeds};
use crate::request::Ended;
use crate::support::{program, run};
use crate::world::{User, World};

attacks! {
    /// Namespaces inside, with all the kernel that is behind them.
    ns01 => Attack::with("$PROBE namespaces").hits(probe_succeeds);
    /// Mounts made writable again, in namespaces of its own.
    ns02 => Attack::with("unshare -Urm sh -c 'mount -o remount,bind,rw $OUT; mount -o remount,bind,rw /; echo x > $OUT/t'; echo x > $OUT/t")
        .hits(outside_changed);
    /// Calls that change the view.
    ns02_calls => Attack::with("$PROBE mounts $OUT").hits(probe_succeeds).bare(Bare::NotTried);
    /// Privileges by running a program.
    ns05 => Attack::with("grep NoNewPrivs /proc/self/status").hits(|_, seen| !seen.stdout.contains("NoNewPrivs:\t1"));
    /// Capabilities, in any of the sets.
    ns06 => Attack::with("grep ^Cap /proc/self/status").hits(|_, seen| {
        assert_eq!(seen.stdout.matches("Cap").count(), 5, "{seen:?}");
        seen.stdout.lines().filter(|line| line.starts_with("Cap")).any(|line| !line.ends_with("\t0000000000000000"))
    });
    /// Settings of the whole kernel.
    ns07 => Attack::with("for f in /proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sysrq-trigger /sys/kernel/uevent_helper /proc/self/oom_score_adj; \
            do (: > $f) 2>/dev/null && echo opened $f; done; true")
        .hits(|_, seen| seen.stdout.contains("opened"))
        .bare(Bare::NotTried);
    /// Typing into the caller's terminal.
    ns10 => Attack::with("$PROBE type 'x
'").after(World::open_terminal).behind(&["/bin/sh", "-c", "exec \"$PROBE\" with-terminal \"$@\"", "-"]).hits(hears).bare(Bare::WorksForRoot);
    /// Opening the caller's terminal.
    ns11 => Attack::with("echo typed > /dev/tty; echo typed > /dev/console; true")
        .after(World::open_terminal)
        .behind(&["/bin/sh", "-c", "exec \"$PROBE\" with-terminal \"$@\"", "-"])
        .hits(|world, _| {
            let screen = world.ears.terminal.as_mut().unwrap();
            rustix::io::ioctl_fionbio(&screen.outside, true).unwrap();
            let mut printed = [0; 64];
            screen.outside.read(&mut printed).is_ok_and(|count| count > 0)
        });
    /// A library that the caller was told to load does not reach the launcher or the command.
    ns12 => Attack::with("env | grep LD_PRELOAD; true").after(planted_library).hits(|world, seen| {
        let loaded = crate::escapes::text_of(&world.outside.join("loaded"));
        assert!(loaded.contains("caller\n"), "the library does not work: {loaded:?}");
        loaded.lines().any(|name| name != "caller") || seen.stdout.contains("LD_PRELOAD")
    });
}

for_every_engine! {
    /// The command's own terminal: it can be used, and not typed into.
    ns10_own => a_terminal_of_its_own_cannot_be_typed_into;
    /// Root inside has no privileges.
    ns15 => the_user_inside_is_the_user_outside;
}

/// A library that writes down which programs load it, where no sandboxed program can write.
fn planted_library(world: &mut World) {
    let source = world.root().join("planted.c");
    let library = world.workspace.join("planted.so");
    let log = world.outside.join("loaded");
    world.write(&log, "");
    let code = format!(
        "#include <stdio.h>\n__attribute__((constructor)) static void loaded(void) {{ char name[64] = {{0}}; \
         FILE *comm = fopen(\"/proc/self/comm\", \"r\"); if (comm) {{ fgets(name, sizeof name, comm); fclose(comm); }} \
         FILE *log = fopen(\"{}\", \"a\"); if (log) {{ fputs(name, log); fclose(log); }} }}\n",
        log.display()
    );
    world.write(&source, &code);
    run(program("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source), 0);
    world.variables.push((String::from("LD_PRELOAD"), library.display().to_string()));
}

fn a_terminal_of_its_own_cannot_be_typed_into(user: User, engine: &str) {
    let mut world = World::new(user);
    world.open_terminal();
    let mut request = world.request(
        engine,
        world.permissions(),
        "echo started; test -t 0 && echo terminal; echo hello > /dev/tty; $PROBE type 'x\n'",
    );
    request.controlling_terminal = true;
    let inside = world.ears.terminal.as_ref().unwrap().inside.try_clone().unwrap();
    let mut caller = world.caller(&request);
    let seen = world.finish(&request, caller.stdin(Stdio::from(inside)));
    assert!(seen.stdout.contains("started\nterminal\ntype error 1\n"), "{seen:?}");
    assert!(!world.heard());
    let mut printed = [0; 64];
    let count = world.ears.terminal.as_mut().unwrap().outside.read(&mut printed).unwrap();
    assert_eq!(&printed[..count], b"hello\r\n");
}

fn the_user_inside_is_the_user_outside(user: User, engine: &str) {
    let world = World::new(user);
    let seen = world.run(&world.request(
        engine,
        world.permissions(),
        "id -u; id -g; echo x > made; su root -c true 2>/dev/null; sudo -n true 2>/dev/null; echo end",
    ));
    let expected = if user.is_root() {
        0
    } else {
        std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&world.workspace).unwrap())
    };
    assert!(seen.stdout.starts_with(&format!("{expected}\n")), "{seen:?}");
    assert!(matches!(seen.ended, Ended::Exited { code: 0, .. }), "{seen:?}");
    let made = std::fs::metadata(world.workspace.join("made")).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&made), expected);
}
