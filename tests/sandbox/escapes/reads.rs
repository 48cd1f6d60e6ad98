//! Reads of what was denied.

use stockade_protocol::{Access, FileRule, FileRules, Glob, Permissions};

use super::{Attack, Bare, attacks, for_each_user, prints};
use crate::world::{User, World, abs, rule};

/// A workspace with a secret in it.
fn secret(world: &mut World) {
    world.write(&world.workspace.join(".env"), "secret\n");
    world.make_directory(&world.workspace.join("conf"));
    world.write(&world.workspace.join("conf/prod.env"), "secret\n");
}

fn denied(world: &World) -> Permissions {
    world.permissions_with([rule(&world.workspace.join(".env"), Access::None)])
}

fn denied_by_glob(world: &World) -> Permissions {
    world.permissions_with([FileRule::deny_glob(glob(&format!("{}/**/*.env", world.workspace.display())))])
}

fn glob(text: &str) -> Glob {
    text.parse().unwrap()
}

/// Nothing is in sight but the system's programs and the workspace.
pub(super) fn only_the_workspace(world: &World) -> Permissions {
    let system =
        ["/usr", "/bin", "/lib", "/lib64", "/sbin"].map(|path| FileRule::path(path.parse().unwrap(), Access::Read));
    let own = world
        .permissions()
        .files
        .iter()
        .filter(|rule| rule.access != Access::Read || rule.target.to_string() != "/")
        .cloned()
        .collect::<Vec<_>>();
    let programs = rule(&world.programs, Access::Read);
    Permissions {
        files: FileRules::new(system.into_iter().chain(own).chain([programs])).unwrap(),
        ..Permissions::default()
    }
}

attacks! {
    /// A plain read.
    dr01 => Attack::with("cat .env; cat ./.env; cat src/../.env; cat $WS/.env").after(secret).allowed(denied).hits(prints("secret"));
    /// By moving, linking or copying it first.
    dr01_moved => Attack::with("mv .env e; ln .env h; cp .env c; cat e h c").after(secret).allowed(denied).hits(prints("secret"));
    /// By moving its directory.
    dr01_parent => Attack::with("mv conf c2; cat c2/prod.env conf/prod.env")
        .after(secret)
        .allowed(|world| world.permissions_with([rule(&world.workspace.join("conf/prod.env"), Access::None)]))
        .hits(prints("secret"));
    /// By making it readable.
    dr01_mode => Attack::with("chmod 777 .env; cat .env; rm -f .env; cat .env").after(secret).allowed(denied).hits(prints("secret"));
    /// A whole directory.
    dr01_directory => Attack::with("ls conf; cat conf/prod.env; chmod 777 conf; cat conf/prod.env; cd conf && cat prod.env")
        .after(secret)
        .allowed(|world| world.permissions_with([rule(&world.workspace.join("conf"), Access::None)]))
        .hits(prints("secret"));
    /// What a glob matches.
    dr01_glob => Attack::with("cat .env conf/prod.env; cat .e* conf/*").after(secret).allowed(denied_by_glob).hits(prints("secret"));
    /// Through a hard link that was there before: the kernel knows no difference between names.
    dr02 => Attack::with("cat h")
        .after(|world| {
            secret(world);
            std::fs::hard_link(world.workspace.join(".env"), world.workspace.join("h")).unwrap();
        })
        .allowed(denied)
        .hits(prints("secret"))
        .not_promised();
    /// A copy, such as an object of a repository, is another file.
    dr03 => Attack::with("cat .git/objects/copy")
        .after(|world| {
            secret(world);
            world.make_directory(&world.workspace.join(".git/objects"));
            world.write(&world.workspace.join(".git/objects/copy"), "secret\n");
        })
        .allowed(denied)
        .hits(prints("secret"))
        .not_promised();
    /// Past the directory, by a handle.
    dr06 => Attack::with("$PROBE by-handle $WS/.env").after(secret).allowed(denied).hits(prints("secret")).bare(Bare::WorksForRoot);
    /// By taking the mask off, in namespaces of its own.
    dr07 => Attack::with("unshare -Urm sh -c 'umount .env; cat .env'; umount .env; cat .env; $PROBE mounts $WS/.env; cat .env")
        .after(secret)
        .allowed(denied)
        .hits(prints("secret"));
    /// A file that the command itself makes after the start is its own.
    dr09 => Attack::with("echo late-secret > late.env; cat late.env").after(secret).allowed(denied_by_glob).hits(prints("late-secret")).not_promised();
    /// A file that the host makes after the start was not there to be masked.
    dr10 => Attack::with("touch ready; while [ ! -e done ]; do sleep 0.01; done; cat conf/late.env")
        .after(secret)
        .allowed(denied_by_glob)
        .while_host(|world| world.write(&world.workspace.join("conf/late.env"), "late-secret\n"))
        .hits(prints("late-secret"))
        .not_promised();
    /// A file that the host puts in the place of a masked one has no mask.
    dr11 => Attack::with("touch ready; while [ ! -e done ]; do sleep 0.01; done; cat .env")
        .after(secret)
        .allowed(denied)
        .while_host(|world| {
            world.write(&world.workspace.join(".new"), "late-secret\n");
            std::fs::rename(world.workspace.join(".new"), world.workspace.join(".env")).unwrap();
        })
        .hits(prints("late-secret"))
        .not_promised();
    /// Denied inside a directory that is granted, where nothing else is in sight.
    dr14 => Attack::with("cat .env; cat src/../.env; mv .env e; cat e")
        .after(secret)
        .allowed(|world| {
            let permissions = only_the_workspace(world);
            let files = permissions.files.iter().cloned().chain([rule(&world.workspace.join(".env"), Access::None)]);
            Permissions { files: FileRules::new(files).unwrap(), ..permissions }
        })
        .hits(prints("secret"));
    /// A grant inside a match of a denied glob does not uncover the glob's other matches in it.
    dr14_nested => Attack::with("cat $WS/x.env/granted/y.env $WS/x.env/granted/../granted/y.env")
        .after(|world| {
            let granted = world.workspace.join("x.env/granted");
            std::fs::create_dir_all(&granted).unwrap();
            world.write(&granted.join("y.env"), "secret");
        })
        .allowed(|world| {
            let glob = format!("{}/**/*.env", world.workspace.display()).parse().unwrap();
            let granted = rule(&world.workspace.join("x.env/granted"), Access::Write);
            world.permissions_with([granted, FileRule::deny_glob(glob)])
        })
        .hits(prints("secret"));
    /// What was not granted is not there.
    dr17 => Attack::with("cat $OUT/t; cat /etc/passwd; ls /; ls $OUT").allowed(only_the_workspace).hits(|_, seen| seen.stdout.lines().count() > 1);
    /// A private directory stands in the place of the host's, and takes nothing out of it.
    dr18 => Attack::with("cat $OUT/t; ls -A $OUT; echo x > $OUT/t; rm $OUT/t; mkdir $OUT/d; echo x > $OUT/d/left")
        .allowed(|world| world.permissions_with([rule(&world.outside, Access::Scratch)]))
        .hits(|world, seen| seen.stdout.contains("original") || crate::escapes::outside_changed(world, seen));
    /// A private directory under a name that does not exist leaves nothing on the host.
    dr18_missing => Attack::with("mkdir -p scratch; echo x > scratch/left")
        .allowed(|world| world.permissions_with([rule(&world.workspace.join("scratch"), Access::Scratch)]))
        .hits(|world, _| world.workspace.join("scratch").exists());
}

for_each_user! {
    /// A rule that would deny nothing by mistake is an error.
    dr12 => |_: User, _: &str| {
        for text in ["/**/*.env", "/*.env", "**/tmp", "./tmp/*", "~/x/*", "tmp/*"] {
            assert!(text.parse::<Glob>().is_err(), "{text}");
        }
    };
    /// So is a path.
    dr13 => |_: User, _: &str| {
        for text in ["./tmp", "tmp", "~/.aws", "", "../x", "/a/../b"] {
            assert!(stockade_protocol::AbsPath::parse(text).is_err(), "{text}");
        }
    };
    /// What a hard link gives away is at least said.
    dr02_warns => |user: User, engine: &str| {
        let mut world = World::new(user);
        secret(&mut world);
        let warnings = |world: &World| {
            let seen = world.run(&world.request(engine, denied(world), "true"));
            let crate::request::Ended::Exited { warnings, .. } = seen.ended else { panic!("{seen:?}") };
            warnings
        };
        assert_eq!(warnings(&world), [""; 0]);
        std::fs::hard_link(world.workspace.join(".env"), world.workspace.join("h")).unwrap();
        let warned = warnings(&world);
        assert!(warned.iter().any(|text| text.contains("/.env` is denied") && text.contains("hard links")), "{warned:?}");
    };
    /// The policy that is used when none is given: a private `/tmp`, with the workspace in its place.
    default_policy => |user: User, engine: &str| {
        let world = World::new(user);
        let host = stockade_protocol::HostPaths::without_masks([abs(&world.workspace)]);
        let permissions = stockade_protocol::SandboxPolicy::workspace_write().resolve(&host).unwrap();
        let script = "echo hi > inside; echo x > .git/config; echo x > /tmp/$MARKER && cat /tmp/$MARKER; cat $OUT/t; echo end";
        let seen = world.run(&world.request(engine, permissions, script));
        // Where the temporary directory is `/tmp`, what lies outside is out of sight as well.
        let is_hidden = world.outside.starts_with("/tmp");
        assert_eq!(seen.stdout, if is_hidden { "x\nend\n" } else { "x\noriginal\nend\n" }, "{seen:?}");
        assert_eq!(crate::escapes::text_of(&world.workspace.join("inside")), "hi\n");
        assert_eq!(crate::escapes::text_of(&world.workspace.join(".git/config")), "[core]\n");
        assert!(!std::path::Path::new("/tmp").join(&world.marker).exists());
    };
    /// A private directory is really there, and can be used.
    dr18_works => |user: User, engine: &str| {
        let world = World::new(user);
        let permissions = world.permissions_with([rule(&world.outside, Access::Scratch)]);
        let seen = world.run(&world.request(engine, permissions, "echo hi > $OUT/new && cat $OUT/new"));
        assert_eq!(seen.stdout, "hi\n", "{seen:?}");
        assert!(!abs(&world.outside).join("new").unwrap().to_host_path().unwrap().exists());
    };
}
