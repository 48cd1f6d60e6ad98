//! The engines, and what each of them does not claim.

use crate::world::User;

/// One engine, by the name that the `caller` program knows.
pub(crate) struct Engine {
    pub(crate) name: &'static str,
    /// The same with the losses accepted without which it refuses the policy of most attacks.
    pub(crate) accepting: &'static str,
    pub(crate) view: View,
    /// Attacks that the engine says it does not stop. They have to work: a claim that is too modest
    /// is wrong as well.
    pub(crate) not_claimed: &'static [(&'static str, Whom)],
    /// Attacks that it stops, although no engine has to.
    pub(crate) also_held: &'static [&'static str],
    /// Attacks that it stops by refusing the policy, since it can't hold what they are after. One that
    /// ends in `*` stands for all that begin so.
    pub(crate) refused: &'static [&'static str],
    /// How many of a hundred random policies it enforces at least.
    pub(crate) enforces: usize,
    /// Words of its own documented reasons to refuse a policy, beside those that all engines have.
    pub(crate) refuses: &'static [&'static str],
}

/// What a command sees of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// One that was made for it.
    Own,
    /// The host's own. Nothing inside a grant can be taken away, and modes and times can't be changed
    /// unless everything may be written.
    Host,
}

/// Whom an engine does not stop from something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whom {
    Anyone,
    AllButRoot,
}

impl Engine {
    pub(crate) fn does_not_claim(&self, id: &str, user: User) -> bool {
        self.not_claimed.iter().any(|(name, whom)| *name == id && (*whom == Whom::Anyone || !user.is_root()))
    }

    pub(crate) fn must_refuse(&self, id: &str) -> bool {
        self.refused.iter().any(|name| match name.strip_suffix('*') {
            Some(beginning) => id.starts_with(beginning),
            None => *name == id,
        })
    }
}

/// Every engine that the suites run.
pub(crate) const ENGINES: &[Engine] = &[
    Engine {
        name: "native",
        accepting: "native",
        view: View::Own,
        not_claimed: &[],
        also_held: &[],
        refused: &[],
        enforces: 79,
        refuses: &[],
    },
    Engine {
        name: "bwrap",
        accepting: "bwrap",
        view: View::Own,
        not_claimed: &[],
        also_held: &[],
        // It follows a link that it should mount on.
        refused: &["gm11_link", "gm17"],
        enforces: 60,
        refuses: &["which bubblewrap can't keep from being replaced"],
    },
    Engine {
        name: "landlock",
        accepting: "landlock+protected_metadata",
        view: View::Host,
        not_claimed: &[
            // Processes of the host are seen, not reached.
            ("pr01", Whom::Anyone),
            // Only root may give up the bounding set.
            ("ns06", Whom::AllButRoot),
        ],
        also_held: &["fs34"],
        refused: &["gm*", "dr0*", "dr10", "dr11", "dr14*", "dr18*"],
        enforces: 55,
        refuses: &["can't take away a part of what is granted around it"],
    },
];

/// The engines that this host's kernel can't be used with, by name and separated by commas: `STOCKADE_REFUSED_ENGINES`, for machines whose
/// kernel is known. Each of them has to refuse.
pub(crate) fn is_refused_here(engine: &Engine) -> bool {
    let refused = std::env::var("STOCKADE_REFUSED_ENGINES").unwrap_or_default();
    refused.split(',').any(|name| name == engine.name)
}

/// The engines that work on this host: all of them, unless the host is known to lack what one needs.
pub(crate) fn usable() -> impl Iterator<Item = &'static Engine> {
    ENGINES.iter().filter(|engine| !is_refused_here(engine))
}

/// An engine that lacks something here starts nothing.
pub(crate) fn refuses_everything(user: User, engine: &Engine) {
    let world = crate::world::World::new(user);
    let seen = world.run(&world.request(engine.accepting, world.permissions(), "echo started"));
    let is_refused = matches!(&seen.ended, crate::request::Ended::Refused { why, .. } if why.contains("is needed"));
    assert!(is_refused && seen.stdout.is_empty(), "{}: {seen:?}", engine.name);
}

#[test]
fn engines_that_lack_something_here_refuse() {
    for engine in ENGINES.iter().filter(|engine| is_refused_here(engine)) {
        refuses_everything(User::Own, engine);
        refuses_everything(User::Ordinary, engine);
    }
}

pub(crate) fn named(name: &str) -> &'static Engine {
    ENGINES.iter().find(|engine| engine.name == name).unwrap()
}

/// The engines that give a command a view of its own.
pub(crate) fn with_own_view() -> impl Iterator<Item = &'static Engine> {
    usable().filter(|engine| engine.view == View::Own)
}

/// The engine that confines nothing, against which every attack has to work.
pub(crate) const NONE: &str = "none";
