//! Classes of roads by what an I/O pays on them: what colours and shapes stand for.

use host::judge::Road;

/// What an I/O pays, roughly. Eleven roads need no eleven colours: five kinds of payment do.
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
    /// The class of a road.
    pub(crate) fn of(road: Road) -> Self {
        match road {
            Road::NoIommu | Road::Identity | Road::DirectWindow => Self::Free,
            Road::User => Self::Apart,
            Road::TranslatedLazy => Self::Batched,
            Road::DynamicWindow | Road::TceWindow | Road::TranslatedStrict => Self::PerMapping,
            Road::Bounce => Self::Copied,
            Road::Unknown => Self::Untold,
            Road::Unbound => Self::Idle,
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

/// Roads on which there is I/O, worst first.
pub(crate) fn worst_first() -> impl Iterator<Item = Road> {
    Road::ALL.into_iter().rev().filter(|road| *road != Road::Unbound)
}

/// Place of a road in the order of [`worst_first`].
pub(crate) fn rank(road: Road) -> usize {
    worst_first().position(|known| known == road).unwrap_or(usize::MAX)
}
