//! Descriptors of a ring in memory, as the adapter reads them.

use crate::host::{Mapped, Mapping};
use des::Time;

/// Descriptors that adapter and driver share, in coherent memory where an IOMMU translates.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    pub(super) shared: Option<Mapped>,
    next: u64,
}

/// Bytes of a descriptor: address, length and flags.
pub(super) const DESCRIPTOR_BYTES: u64 = 16;

impl Descriptors {
    /// When the adapter has accessed the next `number` descriptors of the ring.
    pub(super) fn reach(&mut self, mapping: &mut Mapping, now: Time, number: u32) -> Time {
        let Some(shared) = self.shared else { return now };
        let ring_bytes = shared.bytes().max(DESCRIPTOR_BYTES);
        let bytes = u64::from(number) * DESCRIPTOR_BYTES;
        let (from, to_end) = (self.next, (ring_bytes - self.next).min(bytes));
        self.next = (from + bytes) % ring_bytes;
        let end = mapping.reach(now, &shared, from, to_end);
        mapping.reach(end, &shared, 0, bytes - to_end)
    }
}
