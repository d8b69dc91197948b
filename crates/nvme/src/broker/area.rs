//! The memory that a client and the broker share.
//!
//! ```text
//!   0       requests: how many the client has written
//!   128               whether the broker sleeps
//!   256     results:  how many the broker has written
//!   384               whether the client sleeps
//!   512     requests, 32 bytes each: slot and kind, first block, number of blocks, 0
//!           results, 16 bytes each: slot, result
//!           to the next page, then a buffer for each slot
//! ```
//!
//! Words are in the host's byte order: both are on one host.

use super::ring::{Counts, LINE_WORDS, Reader, Writer};
use dma::{FRAME_BYTES, MemoryAddress, NoMemory, Ram, RamArray};
use std::sync::Arc;

/// Words of a request.
pub(super) const REQUEST_WORDS: usize = 4;
/// Words of a result.
pub(super) const RESULT_WORDS: usize = 2;
const LINE_BYTES: u64 = LINE_WORDS as u64 * 8;
const ENTRIES: u64 = 4 * LINE_BYTES;

/// Sizes of an area.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// Requests at once.
    pub(super) slots: u16,
    /// Most bytes of a request.
    pub(super) request_bytes: u64,
}

impl Layout {
    fn results(self) -> u64 {
        ENTRIES + u64::from(self.slots) * REQUEST_WORDS as u64 * 8
    }

    fn buffers(self) -> u64 {
        (self.results() + u64::from(self.slots) * RESULT_WORDS as u64 * 8).next_multiple_of(FRAME_BYTES)
    }

    /// Bytes of the area, in pages of `page_bytes`.
    pub(super) fn bytes(self, page_bytes: u64) -> u64 {
        (self.buffers() + u64::from(self.slots) * self.request_bytes).next_multiple_of(page_bytes)
    }
}

/// An area, with one side's ends of its two rings.
#[derive(Debug)]
pub(super) struct Area<Requests, Results> {
    ram: Arc<Ram>,
    layout: Layout,
    pub(super) requests: Requests,
    pub(super) results: Results,
}

/// The client's side.
pub(super) type ClientArea = Area<Writer<REQUEST_WORDS>, Reader<RESULT_WORDS>>;
/// The broker's side.
pub(super) type BrokerArea = Area<Reader<REQUEST_WORDS>, Writer<RESULT_WORDS>>;

impl ClientArea {
    /// Fails if the memory is smaller.
    pub(super) fn of_client(ram: Ram, layout: Layout) -> Result<Self, NoMemory> {
        let ram = Arc::new(ram);
        let requests = Writer::new(counts(&ram, 0)?, entries(&ram, ENTRIES, layout.slots)?);
        let results = Reader::new(counts(&ram, 2)?, entries(&ram, layout.results(), layout.slots)?);
        Self::checked(ram, layout, requests, results)
    }
}

impl BrokerArea {
    /// Fails if the memory is smaller.
    pub(super) fn of_broker(ram: Ram, layout: Layout) -> Result<Self, NoMemory> {
        let ram = Arc::new(ram);
        let requests = Reader::new(counts(&ram, 0)?, entries(&ram, ENTRIES, layout.slots)?);
        let results = Writer::new(counts(&ram, 2)?, entries(&ram, layout.results(), layout.slots)?);
        Self::checked(ram, layout, requests, results)
    }
}

/// The counts of a ring from a line on.
fn counts(ram: &Arc<Ram>, line: u64) -> Result<Counts, NoMemory> {
    let at = MemoryAddress(ram.base().0 + line * LINE_BYTES);
    Ok(Counts::new(RamArray::new(Arc::clone(ram), at, 2)?))
}

/// The entries of a ring, at an offset.
fn entries<const WORDS: usize>(ram: &Arc<Ram>, at: u64, slots: u16) -> Result<RamArray<WORDS>, NoMemory> {
    RamArray::new(Arc::clone(ram), MemoryAddress(ram.base().0 + at), slots.into())
}

impl<Requests, Results> Area<Requests, Results> {
    fn checked(
        ram: Arc<Ram>,
        layout: Layout,
        requests: Requests,
        results: Results,
    ) -> Result<Self, NoMemory> {
        let (at, bytes) = (ram.base(), layout.bytes(1));
        let has_room = layout.slots > 0 && ram.holds(at, bytes);
        has_room.then_some(Self { ram, layout, requests, results }).ok_or(NoMemory { at, bytes })
    }

    pub(super) fn layout(&self) -> Layout {
        self.layout
    }

    fn buffer(&self, slot: u16) -> MemoryAddress {
        MemoryAddress(self.ram.base().0 + self.layout.buffers() + u64::from(slot) * self.layout.request_bytes)
    }

    /// Copies data out of a slot's buffer. The other side may change it meanwhile.
    pub(super) fn read(&self, slot: u16, into: &mut [u8]) -> Result<(), NoMemory> {
        self.ram.read(self.buffer(slot), into)
    }

    /// Copies data into a slot's buffer.
    pub(super) fn write(&self, slot: u16, from: &[u8]) -> Result<(), NoMemory> {
        self.ram.write(self.buffer(slot), from)
    }
}
