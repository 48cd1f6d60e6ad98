//! The engines, and what each of them does not claim.

/// One engine, by the name that the `caller` program knows.
pub(crate) struct Engine {
    pub(crate) name: &'static str,
    /// Attacks that the engine says it does not stop. They have to work: a claim that is too modest
    /// is wrong as well.
    pub(crate) not_claimed: &'static [&'static str],
    /// How many of a hundred random policies it enforces at least.
    pub(crate) enforces: usize,
    /// Words of its own documented reasons to refuse a policy, beside those that all engines have.
    pub(crate) refuses: &'static [&'static str],
}

/// Every engine that the suites run.
pub(crate) const ENGINES: &[Engine] = &[Engine { name: "native", not_claimed: &[], enforces: 79, refuses: &[] }];

/// The engine that confines nothing, against which every attack has to work.
pub(crate) const NONE: &str = "none";
