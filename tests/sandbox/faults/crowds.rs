//! Eight sandboxes on one workspace, each with names that it holds and lets go.

use crate::escapes::for_each_user;
use crate::request::Ended;
use crate::world::{User, World, snapshot};

const AT_ONCE: usize = 8;
const ROUNDS: usize = 12;

for_each_user! {
    /// The protected names can't be made at any time, and none is left.
    one_workspace => eight_at_once_share_a_workspace;
}

fn eight_at_once_share_a_workspace(user: User, engine: &str) {
    let world = World::new(user);
    std::fs::remove_dir_all(world.workspace.join(".git")).unwrap();
    let before = snapshot(&world.workspace);
    let script = "for n in .git .codex .claude .gemini .opencode .mcp.json .agents .stockade; do \
        mkdir $n 2>/dev/null && echo made $n; echo x > $n/x 2>/dev/null && echo wrote $n; rmdir $n 2>/dev/null && echo removed $n; \
        mv -T src $n 2>/dev/null && echo moved $n; done; echo end";
    std::thread::scope(|scope| {
        for number in 0..AT_ONCE {
            let (world, before) = (&world, &before);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let mut request = world.request(engine, world.permissions(), script);
                    request.report = world.root().join(format!("report-{number}"));
                    let seen = world.run(&request);
                    assert!(matches!(seen.ended, Ended::Exited { code: 0, .. }), "{number}, {round}: {seen:?}");
                    assert_eq!(seen.stdout, "end\n", "{number}, {round}");
                }
                assert!(before.contains_key(&world.workspace.join("src/main")));
            });
        }
    });
    assert_eq!(snapshot(&world.workspace), before);
}
