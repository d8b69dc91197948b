//! The hardware's side of an IOMMU, whatever is behind it: how many translations it remembers, and what finding the others takes.
//!
//! Which translations those are is [`dma`]'s to say: its [`Iotlb`] is what remembers them.

use crate::serial_server::SerialServer;
use crate::user_file::InvalidField;
use des::{Span, Time};
use dma::Iotlb;

/// An IOTLB, and what walks tables for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hardware {
    /// Entries of its IOTLB.
    pub entries: usize,
    /// Ways of a set.
    pub ways: usize,
    /// What a walk of the table takes.
    pub walk: Span,
    /// It begins no two walks closer to each other: a walk's time over how many it has in flight.
    pub walk_gap: Span,
}

/// Each lookup looks at all ways of a set.
const WAYS_MAX: usize = 1 << 12;
const ENTRIES_MAX: usize = 1 << 16;

impl Hardware {
    /// An IOTLB with nothing in it.
    pub(crate) fn iotlb(&self) -> Iotlb {
        Iotlb::new(self.entries, self.ways)
    }

    /// The first value that no IOMMU has, of a user's file with these fields.
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

/// What finds what the IOTLB has not: walks begin one after the other, and go on side by side.
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

    /// When a walk for what is looked up now is over.
    pub(crate) fn walk(&mut self, now: Time) -> Time {
        let began = self.begins.occupy(now, self.walk_gap);
        began + Span::from_ps(self.walk.as_ps().saturating_sub(self.walk_gap.as_ps()))
    }

    /// How long walks were begun, up to now.
    pub(crate) fn busy(&self, now: Time) -> Span {
        self.begins.busy(now)
    }
}
