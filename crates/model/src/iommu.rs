//! The IOMMU hardware: IOTLB size and page walks. The translations themselves come from [`dma`], whose [`Iotlb`] is
//! the cache.

use crate::serial_server::SerialServer;
use crate::user_file::InvalidField;
use des::{Span, Time};
use dma::Iotlb;

/// Parameters of IOTLB and page walker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hardware {
    /// Entries of the IOTLB.
    pub entries: usize,
    /// Ways of the IOTLB.
    pub ways: usize,
    /// Duration of a page walk.
    pub walk: Span,
    /// Least time between the starts of two walks: the duration divided by the number of walks in flight.
    pub walk_gap: Span,
}

/// Limit of the ways, since each lookup compares all of them.
const WAYS_MAX: usize = 1 << 12;
const ENTRIES_MAX: usize = 1 << 16;

impl Hardware {
    /// An empty IOTLB.
    pub(crate) fn iotlb(&self) -> Iotlb {
        Iotlb::new(self.entries, self.ways)
    }

    /// The first invalid field of a user's file with these fields.
    pub(crate) fn invalid_field(
        entries: usize,
        ways: usize,
        walk_ns: f64,
        walk_gap_ns: f64,
    ) -> Option<InvalidField> {
        let wrong = [
            InvalidField::unless(
                (1..=ENTRIES_MAX).contains(&entries),
                "iommu.entries",
                entries,
                "1 to 65536",
            ),
            InvalidField::unless(
                (1..=entries.min(WAYS_MAX)).contains(&ways),
                "iommu.ways",
                ways,
                "1 to as many as entries, and 4096",
            ),
            InvalidField::unless_time("iommu.walk_ns", walk_ns),
            InvalidField::unless_time("iommu.walk_gap_ns", walk_gap_ns),
        ];
        wrong.into_iter().flatten().next()
    }
}

/// The page walker: walks start one after the other, and overlap.
#[derive(Debug)]
pub(crate) struct Walker {
    walk: Span,
    walk_gap: Span,
    begins: SerialServer,
}

impl Walker {
    pub(crate) fn new(hardware: &Hardware) -> Self {
        Self { walk: hardware.walk, walk_gap: hardware.walk_gap, begins: SerialServer::default() }
    }

    /// Starts a walk. Returns when it is done.
    pub(crate) fn walk(&mut self, now: Time) -> Time {
        let began = self.begins.occupy(now, self.walk_gap);
        began + Span::from_ps(self.walk.as_ps().saturating_sub(self.walk_gap.as_ps()))
    }

    /// Busy time up to now, counting the gaps between starts.
    pub(crate) fn busy(&self, now: Time) -> Span {
        self.begins.busy(now)
    }
}
