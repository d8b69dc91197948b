//! Classes of DMA paths by their cost per I/O. Each class has a colour and a shape in reports.

use host::diagnose::DmaPath;

/// The cost of an I/O on a DMA path, as a class. A few classes, and so a few colours, are enough for eleven DMA paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cost {
    /// Nothing per I/O.
    Free,
    /// A program in user space pays, and the kernel does not.
    UserSpace,
    /// A mapping; its invalidation is shared with others.
    Batched,
    /// A mapping with its own invalidation or hypercall.
    PerMapping,
    /// A copy of the data.
    Copied,
    /// What was read does not tell the DMA path.
    Unknown,
    /// There is no I/O.
    Idle,
}

impl Cost {
    /// The class of a DMA path.
    pub(crate) fn of(dma_path: DmaPath) -> Self {
        match dma_path {
            DmaPath::NoIommu | DmaPath::Identity | DmaPath::DirectWindow => Self::Free,
            DmaPath::User => Self::UserSpace,
            DmaPath::TranslatedLazy => Self::Batched,
            DmaPath::DynamicWindow | DmaPath::TceWindow | DmaPath::TranslatedStrict => Self::PerMapping,
            DmaPath::Bounce => Self::Copied,
            DmaPath::Unknown => Self::Unknown,
            DmaPath::Unbound => Self::Idle,
        }
    }

    /// The name of its class in style sheets.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::UserSpace => "apart",
            Self::Batched => "batched",
            Self::PerMapping => "permap",
            Self::Copied => "copied",
            Self::Unknown => "untold",
            Self::Idle => "idle",
        }
    }
}

/// DMA paths on which there is I/O, worst first.
pub(crate) fn worst_first() -> impl Iterator<Item = DmaPath> {
    DmaPath::ALL.into_iter().rev().filter(|dma_path| *dma_path != DmaPath::Unbound)
}

/// A DMA path's index in [`worst_first`].
pub(crate) fn rank(dma_path: DmaPath) -> usize {
    worst_first().position(|known| known == dma_path).unwrap_or(usize::MAX)
}
