//! What a CPU does with its time.

/// What a CPU does with its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The operating system, drivers, interrupts, the application.
    Stack,
    /// The mapping layer's own instructions.
    Mapping,
    /// The hypervisor's, called by it.
    Hypercall,
    /// Waits for the IOMMU to forget.
    Invalidation,
    /// Waits for a lock, or for its cache line.
    Lock,
}

impl Stage {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Stack, Self::Mapping, Self::Hypercall, Self::Invalidation, Self::Lock];

    /// The words used for it everywhere.
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
