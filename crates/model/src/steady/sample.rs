//! What is known of a simulation at one point in time.

/// Work done so far, and what is inside the machine.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    /// Units of work since the start. Where a batch is a number of operations, the time that they took.
    pub(crate) done: f64,
    /// Numbers that must not drift.
    pub(crate) levels: Vec<Level>,
}

/// A number of things in the machine, such as mappings or queued tasks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Level {
    /// What they are.
    pub(crate) name: &'static str,
    /// How many are there now.
    pub(crate) inside: u64,
    /// How many came since the start.
    pub(crate) entered: u64,
    /// Whether they are the work itself: a window must see them pass several times.
    pub(crate) is_work: bool,
}

impl Level {
    /// The use of a cache, which must have filled: until then lookups miss that later hit. What came in are misses and a tenth of all
    /// lookups: with the tolerance of a hundredth, a thousandth of lookups may still fill it.
    pub(crate) fn cache(name: &'static str, cache: CacheUse) -> Self {
        let CacheUse { filled, looked_up, missed } = cache;
        Self { name, inside: filled, entered: missed + looked_up / 10, is_work: false }
    }
}

/// How a cache was used since the start.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CacheUse {
    /// Entries in use.
    pub(crate) filled: u64,
    /// Lookups,
    pub(crate) looked_up: u64,
    /// and how many of them missed.
    pub(crate) missed: u64,
}
