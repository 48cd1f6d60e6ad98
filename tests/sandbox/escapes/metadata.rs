//! `.git` and the other names that let a command take over later.

use stockade_protocol::PROTECTED_NAMES;

use super::{Attack, Bare, attacks, differs, exists, for_each_user};
use crate::request::Ended;
use crate::world::{Seen, User, World, snapshot};

attacks! {
    /// A new hook.
    gm01 => Attack::with("echo x > .git/hooks/pre-commit").hits(exists(".git/hooks/pre-commit"));
    /// The configuration, as git writes it: a lock file, renamed over the old one.
    gm02 => Attack::with("echo x > .git/config.lock && mv .git/config.lock .git/config; echo x >> .git/config")
        .hits(differs(".git/config", "[core]\n"));
    /// Moving the whole repository away and planting another.
    gm03 => Attack::with("mv .git old; mkdir -p .git/hooks; echo x > .git/hooks/pre-commit").hits(exists(".git/hooks/pre-commit"));
    /// Exchanging it with another directory in one call.
    gm03_swap => Attack::with("mkdir -p evil/hooks; echo x > evil/hooks/pre-commit; $PROBE swap evil .git").hits(exists(".git/hooks/pre-commit"));
    /// A hard link to a protected file, written through.
    gm03_link => Attack::with("ln .git/config c && echo x > c").hits(differs(".git/config", "[core]\n"));
    /// Moving the parent of a nested repository away and planting another.
    gm04 => Attack::with("mv sub sub2; mkdir -p sub/.git/hooks; echo x > sub/.git/hooks/pre-commit")
        .after(|world| world.make_directory(&world.workspace.join("sub/.git/hooks")))
        .hits(exists("sub/.git/hooks/pre-commit"));
    /// Any of its ancestors.
    gm04_deep => Attack::with("mv a/b a/b2; mv a a2; mkdir -p a/b/c/.git/hooks; echo x > a/b/c/.git/hooks/pre-commit; \
            mkdir n; $PROBE swap n a; $PROBE swap n a/b")
        .after(|world| world.make_directory(&world.workspace.join("a/b/c/.git/hooks")))
        .hits(|world, _| exists("a/b/c/.git/hooks/pre-commit")(world, &nothing()) || !world.workspace.join("a/b/c/.git/hooks").exists());
    /// A new repository inside the workspace: it can't be told from any other directory.
    gm06 => Attack::with("mkdir -p vendor/.git/hooks; echo x > vendor/.git/hooks/pre-commit").hits(exists("vendor/.git/hooks/pre-commit")).not_promised();
    /// A bare repository is a directory with certain files.
    gm07 => Attack::with("mkdir -p b/objects b/refs; echo x > b/HEAD; echo x > b/config").hits(exists("b/config")).not_promised();
    /// Files that tools of the host run later.
    gm09 => Attack::with("mkdir .vscode; echo x > .vscode/tasks.json; echo x > .envrc").hits(exists(".envrc")).not_promised();
    /// `.git` is a file that names a directory in the workspace, which shares another.
    gm11 => Attack::with("echo x > gd/hooks/pre-commit; echo x > common/hooks/pre-commit; echo 'gitdir: evil' > .git")
        .after(git_file)
        .hits(|world, _| exists("gd/hooks/pre-commit")(world, &nothing()) || exists("common/hooks/pre-commit")(world, &nothing()) || differs(".git", "gitdir: gd\n")(world, &nothing()));
    /// `.git` of a nested repository is a link to a directory in the workspace.
    gm11_link => Attack::with("echo x > gd/hooks/pre-commit; rm sub/.git; ln -s ../evil sub/.git")
        .after(|world| {
            world.make_directory(&world.workspace.join("gd/hooks"));
            world.make_directory(&world.workspace.join("sub"));
            world.link("../gd", &world.workspace.join("sub/.git"));
        })
        .hits(|world, _| {
            let leads = std::fs::read_link(world.workspace.join("sub/.git")).ok();
            exists("gd/hooks/pre-commit")(world, &nothing()) || leads != Some("../gd".into())
        });
    /// The host itself moves `.git` away: the mount goes with it.
    gm12 => Attack::with("touch ready; while [ ! -e done ]; do sleep 0.01; done; echo x > .git/hooks/p")
        .while_host(|world| {
            std::fs::rename(world.workspace.join(".git"), world.workspace.join(".old")).unwrap();
            world.make_directory(&world.workspace.join(".git/hooks"));
        })
        .hits(exists(".git/hooks/p"))
        .not_promised();
    /// A link under a protected name must not make readable what it leads to.
    gm17 => Attack::with("cat .codex")
        .after(|world| {
            world.make_directory(&world.root().join("home/.ssh"));
            world.write(&world.root().join("home/.ssh/id"), "secret\n");
            world.link(world.root().join("home/.ssh/id").to_str().unwrap(), &world.workspace.join(".codex"));
        })
        .allowed(crate::escapes::reads::only_the_workspace)
        .hits(crate::escapes::prints("secret"));
}

for_each_user! {
    /// gm05: each protected name, missing at the start, in each way that a name can be made.
    gm14 => no_protected_name_can_be_made;
    /// Nothing is left in the workspace.
    gm16 => nothing_is_left_behind;
    /// Only the directory that a run put there is removed again.
    gm16_host => what_the_host_makes_meanwhile_stays;
}

fn nothing() -> Seen {
    Seen {
        ended: Ended::Exited { code: 0, layers: Vec::new(), warnings: Vec::new() },
        stdout: String::new(),
        stderr: String::new(),
    }
}

fn git_file(world: &mut World) {
    std::fs::remove_dir_all(world.workspace.join(".git")).unwrap();
    for directory in ["gd/hooks", "common/hooks"] {
        world.make_directory(&world.workspace.join(directory));
    }
    world.write(&world.workspace.join(".git"), "gitdir: gd\n");
    world.write(&world.workspace.join("gd/commondir"), "../common\n");
}

fn no_protected_name_can_be_made(user: User, engine: &str) {
    for name in PROTECTED_NAMES {
        for way in [
            "mkdir $n; echo x > $n/config",
            "echo x > $n",
            "ln -s /etc $n",
            "mkdir evil; echo x > evil/config; mv -T evil $n; $PROBE swap evil $n; mv evil/config $n/",
            "rmdir $n; rm -rf $n; mkdir $n; echo x > $n/config",
            "ln src/main $n; ln src/main $n/config",
        ] {
            // Without a sandbox the attack works.
            for (engine, expected) in [(crate::engines::NONE, true), (engine, false)] {
                let world = World::new(user);
                std::fs::remove_dir_all(world.workspace.join(".git")).unwrap();
                let script = format!("echo started; n={name}; {way}");
                let seen = world.run(&world.request(engine, world.permissions(), &script));
                assert!(seen.stdout.starts_with("started\n"), "{seen:?}");
                let found = world.workspace.join(name).symlink_metadata().is_ok();
                assert_eq!(found, expected, "{name} with {engine}: {way}: {seen:?}");
            }
        }
    }
}

fn nothing_is_left_behind(user: User, engine: &str) {
    let world = World::new(user);
    let before = snapshot(&world.root().join("ws"));
    let seen = world.run(&world.request(engine, world.permissions(), "ls -A"));
    assert!(matches!(seen.ended, Ended::Exited { code: 0, .. }), "{seen:?}");
    assert_eq!(snapshot(&world.workspace), before);
    let seen = world.run(&world.request(engine, world.permissions(), "kill -9 $$"));
    assert!(matches!(seen.ended, Ended::Signaled { signal: 9, .. }), "{seen:?}");
    assert_eq!(snapshot(&world.workspace), before);
}

fn what_the_host_makes_meanwhile_stays(user: User, engine: &str) {
    let world = World::new(user);
    let attack = Attack::with("touch ready; while [ ! -e done ]; do sleep 0.01; done").bare(Bare::NotTried);
    let request = world.request(engine, world.permissions(), &attack.script);
    let mut running = world.caller(&request).spawn().unwrap();
    assert!(crate::world::wait_for(std::time::Duration::from_secs(10), || world.workspace.join("ready").exists()));
    let made = world.workspace.join(".codex");
    std::fs::set_permissions(&made, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    world.write(&made.join("config.toml"), "mine\n");
    world.write(&world.workspace.join("done"), "");
    assert!(running.wait().unwrap().success());
    assert_eq!(super::text_of(&world.workspace.join(".codex/config.toml")), "mine\n");
    for name in [".stockade", ".agents", ".claude", ".gemini", ".opencode", ".mcp.json"] {
        assert!(!world.workspace.join(name).exists(), "{name} is left behind");
    }
}
