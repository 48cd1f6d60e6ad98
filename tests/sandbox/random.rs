//! Random numbers from a seed that is printed: the same seed gives the same run.

/// A small generator (xorshift64*), good enough to choose with.
pub(crate) struct Random(u64);

impl Random {
    /// `STOCKADE_SEED`, or the clock. A test prints it, and a failing test's output is shown.
    pub(crate) fn from_environment() -> Self {
        let seed = match std::env::var("STOCKADE_SEED") {
            Ok(text) => text.parse().expect("STOCKADE_SEED is a number"),
            Err(_) => u64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() % 1_000_000_007).unwrap(),
        };
        println!("STOCKADE_SEED={seed}");
        Self::new(seed)
    }

    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(number).unwrap() % end
    }

    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}
