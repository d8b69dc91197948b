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
