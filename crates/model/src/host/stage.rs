//! Stages of CPU time.

/// What CPU time is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The operating system, drivers, interrupts, the application.
    Stack,
    /// The mapping layer.
    Mapping,
    /// The hypervisor, in calls of the mapping layer.
    Hypercall,
    /// Waiting for an IOTLB invalidation.
    Invalidation,
    /// Waiting for a lock, including the transfer of its cache line.
    Lock,
}

impl Stage {
    /// All stages.
    pub const ALL: [Self; 5] = [Self::Stack, Self::Mapping, Self::Hypercall, Self::Invalidation, Self::Lock];

    /// The stage's name in reports.
    pub fn words(self) -> &'static str {
        match self {
            Self::Stack => "system calls, stack and driver",
            Self::Mapping => "mapping",
            Self::Hypercall => "hypercalls",
            Self::Invalidation => "waiting for invalidations",
            Self::Lock => "waiting for locks",
        }
    }
}
