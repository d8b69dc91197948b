//! Classes of DMA paths by what an I/O pays on them: what colours and shapes stand for.

use host::diagnose::DmaPath;

/// What an I/O pays, roughly. Eleven DMA paths need no eleven colours: five kinds of payment do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Cost {
    /// Nothing per I/O.
    Free,
    /// User space pays, not the kernel.
    Apart,
    /// A mapping, its invalidation shared with others.
    Batched,
    /// A mapping with its own invalidation or hypercall.
    PerMapping,
    /// A copy of the data.
    Copied,
    /// Not to be told.
    Untold,
    /// There is no I/O.
    Idle,
}

impl Cost {
    /// The class of a DMA path.
    pub(crate) fn of(dma_path: DmaPath) -> Self {
        match dma_path {
            DmaPath::NoIommu | DmaPath::Identity | DmaPath::DirectWindow => Self::Free,
            DmaPath::User => Self::Apart,
            DmaPath::TranslatedLazy => Self::Batched,
            DmaPath::DynamicWindow | DmaPath::TceWindow | DmaPath::TranslatedStrict => Self::PerMapping,
            DmaPath::Bounce => Self::Copied,
            DmaPath::Unknown => Self::Untold,
            DmaPath::Unbound => Self::Idle,
        }
    }

    /// The name of its style in the page.
    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Apart => "apart",
            Self::Batched => "batched",
            Self::PerMapping => "permap",
            Self::Copied => "copied",
            Self::Untold => "untold",
            Self::Idle => "idle",
        }
    }
}

/// DMA paths on which there is I/O, worst first.
pub(crate) fn worst_first() -> impl Iterator<Item = DmaPath> {
    DmaPath::ALL.into_iter().rev().filter(|dma_path| *dma_path != DmaPath::Unbound)
}

/// Place of a DMA path in the order of [`worst_first`].
pub(crate) fn rank(dma_path: DmaPath) -> usize {
    worst_first().position(|known| known == dma_path).unwrap_or(usize::MAX)
}
