//! The engines, and what each of them does not claim.

/// One engine, by the name that the `caller` program knows.
pub(crate) struct Engine {
    pub(crate) name: &'static str,
    /// Attacks that the engine says it does not stop. They have to work: a claim that is too modest
    /// is wrong as well.
    pub(crate) not_claimed: &'static [&'static str],
    /// Attacks that it stops by refusing the policy, since it can't hold what they are after.
    pub(crate) refused: &'static [&'static str],
    /// How many of a hundred random policies it enforces at least.
    pub(crate) enforces: usize,
    /// Words of its own documented reasons to refuse a policy, beside those that all engines have.
    pub(crate) refuses: &'static [&'static str],
    /// Whether the launcher is the caller's only child, and the first process the launcher's, as the
    /// tests that kill one of them take for granted.
    pub(crate) plain_tree: bool,
}

/// Every engine that the suites run.
pub(crate) const ENGINES: &[Engine] = &[
    Engine { name: "native", not_claimed: &[], refused: &[], enforces: 79, refuses: &[], plain_tree: true },
    Engine {
        name: "bwrap",
        not_claimed: &[],
        // It follows a link that it should mount on.
        refused: &["gm11_link", "gm17"],
        enforces: 60,
        refuses: &["which bubblewrap can't keep from being replaced"],
        plain_tree: false,
    },
];

/// The engine that confines nothing, against which every attack has to work.
pub(crate) const NONE: &str = "none";
