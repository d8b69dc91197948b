//! An I/O address space: a translation, an allocator of its addresses, and when the IOMMU is made to forget.

use crate::flush_queue::Flusher;
use crate::{
    Access, BusAddress, DmaCounters, DmaError, FlushQueue, Limits, MemoryAddress, Translation, Window,
};
use iova::{Allocator, Range, Request, Space, SpaceError};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Up to here addresses are asked for first: some adapters can't do with more, whatever their drivers say.
const LOW_LAST: u64 = (1 << 32) - 1;

/// When the IOMMU is made to forget what was unmapped.
#[derive(Debug)]
pub enum Invalidation {
    /// At once, before the addresses can be used again.
    Strict,
    /// When a queue is full or its time is over. Until then an adapter may reach memory that is no longer mapped.
    Lazy(FlushQueue),
    /// Not by this layer: what carries the translation out does it by itself, as POWER's hypervisor does.
    Elsewhere,
}

/// How a scatter list gets its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListRanges {
    /// One range for all of it, so that all of it may become one segment (`iommu_dma_map_sg`).
    One,
    /// One for each element; what happens to be adjacent is merged (`ppc_iommu_map_sg`).
    Each,
}

/// A piece of memory of a scatter list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element {
    /// Where it begins.
    pub memory: MemoryAddress,
    /// How long it is.
    pub bytes: u64,
}

/// A piece of bus addresses of a scatter list: of one element, or of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Where it begins.
    pub at: BusAddress,
    /// How long it is.
    pub bytes: u64,
}

/// An I/O address space, for one adapter or a group of them.
pub struct Domain {
    translation: Arc<dyn Translation>,
    addresses: Box<dyn Allocator + Send + Sync>,
    invalidation: Invalidation,
    lists: ListRanges,
    low_first: bool,
}

/// Whole pages around a buffer.
#[derive(Debug, Clone, Copy)]
struct Pages {
    /// Bytes of the first page before the buffer.
    offset: u64,
    /// Bytes of all pages.
    bytes: u64,
}

impl Domain {
    /// The addresses of a translation's window, but for the first page of all, in an allocator that `allocator` makes of the
    /// space, in pages of the window's granule.
    ///
    /// # Errors
    /// If the allocator can't have such a space.
    pub fn new(
        translation: Arc<dyn Translation>,
        allocator: impl FnOnce(&Space) -> Result<Box<dyn Allocator + Send + Sync>, SpaceError>,
        invalidation: Invalidation,
    ) -> Result<Self, SpaceError> {
        let addresses = allocator(&space_of(translation.window()))?;
        Ok(Self { translation, addresses, invalidation, lists: ListRanges::One, low_first: true })
    }

    /// With scatter lists that get their addresses so.
    pub fn with_lists(self, lists: ListRanges) -> Self {
        Self { lists, ..self }
    }

    /// With addresses from anywhere, not from below 4 GiB first (`iommu.forcedac=1`).
    pub fn with_any_addresses(self) -> Self {
        Self { low_first: false, ..self }
    }

    /// What translates.
    pub fn translation(&self) -> &Arc<dyn Translation> {
        &self.translation
    }

    /// Its addresses: how many are out, free, and kept by CPUs.
    pub fn usage(&self) -> iova::Usage {
        self.addresses.usage()
    }

    /// Ranges that are unmapped, but that adapters may still reach.
    pub fn waiting(&self) -> usize {
        match &self.invalidation {
            Invalidation::Lazy(queue) => queue.waiting(),
            Invalidation::Strict | Invalidation::Elsewhere => 0,
        }
    }

    /// Makes the IOMMU forget whatever waits for it: what the kernel's timer does each [`FlushQueue::INTERVAL_NS`].
    pub fn flush(&self, counters: &mut DmaCounters) {
        if let Invalidation::Lazy(queue) = &self.invalidation {
            queue.flush(self, counters);
        }
    }

    /// Maps a buffer at addresses up to `mask`.
    pub(crate) fn map(
        &self,
        buffer: Element,
        access: Access,
        mask: u64,
        counters: &mut DmaCounters,
    ) -> Result<BusAddress, DmaError> {
        let pages = self.pages(buffer)?;
        let start = self.allocate(pages.bytes, buffer.memory.0 - pages.offset, mask, counters)?;
        self.map_pages(start, buffer, pages, access, counters)
            .inspect_err(|_| self.give_back(start, pages.bytes, counters))?;
        Ok(BusAddress(start.0 + pages.offset))
    }

    /// Unmaps `bytes` from `at`, as they were mapped.
    pub(crate) fn unmap(
        &self,
        at: BusAddress,
        bytes: u64,
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        let pages = self.pages(Element { memory: MemoryAddress(at.0), bytes })?;
        let start = BusAddress(at.0 - pages.offset);
        self.translation.unmap(start, pages.bytes, counters)?;
        counters.unmappings += 1;
        self.retire(start, pages.bytes, counters)
    }

    /// Maps a scatter list, in segments that keep to the limits: no more of them than elements.
    pub(crate) fn map_list(
        &self,
        elements: &[Element],
        access: Access,
        limits: &Limits,
        counters: &mut DmaCounters,
    ) -> Result<Vec<Segment>, DmaError> {
        match self.lists {
            ListRanges::One => self.map_list_at_once(elements, access, limits, counters),
            ListRanges::Each => self.map_list_one_by_one(elements, access, limits, counters),
        }
    }

    /// Unmaps a scatter list whose first segment is at `at`.
    pub(crate) fn unmap_list(
        &self,
        elements: &[Element],
        segments: &[Segment],
        limits: &Limits,
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        match self.lists {
            ListRanges::One => self.unmap_list_at_once(elements, segments, limits, counters),
            ListRanges::Each => self.unmap_list_one_by_one(elements, segments, counters),
        }
    }
}

impl Domain {
    fn granule(&self) -> u64 {
        self.translation.window().granule_bytes
    }

    fn pages(&self, buffer: Element) -> Result<Pages, DmaError> {
        Pages::around(buffer, self.granule())
            .ok_or(DmaError::NoBuffer { memory: buffer.memory, bytes: buffer.bytes })
    }

    /// Addresses for so many bytes, whole pages, aligned to their size rounded up to a power of two.
    fn allocate(
        &self,
        bytes: u64,
        memory: u64,
        mask: u64,
        counters: &mut DmaCounters,
    ) -> Result<BusAddress, DmaError> {
        let granule = self.granule();
        // The last page that lies below the mask with all its bytes.
        let full = DmaError::NoAddresses { bytes, limit: BusAddress(mask) };
        let limit = mask.checked_sub(granule - 1).ok_or_else(|| full.clone())? / granule;
        let request = Request { memory: memory / granule, ..Request::size_aligned(bytes / granule, limit) };
        let first = match self.low_first {
            true => self.addresses.allocate_low_first(&request, LOW_LAST / granule),
            false => self.addresses.allocate(&request),
        };
        let first = first.map_err(|_| full)?;
        counters.allocations += 1;
        Ok(BusAddress(first * granule))
    }

    fn map_pages(
        &self,
        start: BusAddress,
        buffer: Element,
        pages: Pages,
        access: Access,
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        let memory = MemoryAddress(buffer.memory.0 - pages.offset);
        self.translation.map(start, memory, pages.bytes, access, counters)?;
        counters.mappings += 1;
        Ok(())
    }

    /// Sees to it that addresses that are unmapped can be used again, once no adapter can.
    fn retire(&self, start: BusAddress, bytes: u64, counters: &mut DmaCounters) -> Result<(), DmaError> {
        let range = self.range(start, bytes);
        match &self.invalidation {
            Invalidation::Lazy(queue) => queue.queue(range, self, counters),
            Invalidation::Strict => {
                self.translation.invalidate(start, bytes, counters);
                self.free_range(range, counters)?;
            }
            Invalidation::Elsewhere => self.free_range(range, counters)?,
        }
        Ok(())
    }

    /// Gives addresses back that nothing was mapped at.
    fn give_back(&self, start: BusAddress, bytes: u64, counters: &mut DmaCounters) {
        Flusher::free(self, self.range(start, bytes), counters);
    }

    fn range(&self, start: BusAddress, bytes: u64) -> Range {
        Range { first: start.0 / self.granule(), pages: bytes / self.granule() }
    }

    fn free_range(&self, range: Range, counters: &mut DmaCounters) -> Result<(), DmaError> {
        self.addresses.free(range)?;
        counters.frees += 1;
        Ok(())
    }

    fn map_list_at_once(
        &self,
        elements: &[Element],
        access: Access,
        limits: &Limits,
        counters: &mut DmaCounters,
    ) -> Result<Vec<Segment>, DmaError> {
        let layout = self.layout(elements, limits)?;
        let memory = elements.first().map_or(0, |element| element.memory.0);
        let start = self.allocate(layout.bytes, memory, limits.streaming_mask, counters)?;
        for (done, (element, place)) in elements.iter().zip(&layout.places).enumerate() {
            let at = BusAddress(start.0 + place.from);
            if let Err(error) = self.map_pages(at, *element, place.pages, access, counters) {
                self.unmap_places(start, &layout.places[..done], counters);
                self.translation.invalidate(start, layout.bytes, counters);
                self.give_back(start, layout.bytes, counters);
                return Err(error);
            }
        }
        Ok(layout.segments(start, elements, limits))
    }

    fn unmap_list_at_once(
        &self,
        elements: &[Element],
        segments: &[Segment],
        limits: &Limits,
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        let layout = self.layout(elements, limits)?;
        let (Some(first), Some(place)) = (segments.first(), layout.places.first()) else { return Ok(()) };
        let start = BusAddress(first.at.0 - place.pages.offset);
        for place in &layout.places {
            self.translation.unmap(BusAddress(start.0 + place.from), place.pages.bytes, counters)?;
            counters.unmappings += 1;
        }
        self.retire(start, layout.bytes, counters)
    }

    /// Takes out what was mapped before something failed.
    fn unmap_places(&self, start: BusAddress, places: &[Place], counters: &mut DmaCounters) {
        for place in places {
            // It was mapped a moment ago, by this call.
            let _ = self.translation.unmap(BusAddress(start.0 + place.from), place.pages.bytes, counters);
        }
    }

    fn layout(&self, elements: &[Element], limits: &Limits) -> Result<Layout, DmaError> {
        let mut layout = Layout { places: Vec::with_capacity(elements.len()), bytes: 0 };
        for element in elements {
            let pages = self.pages(*element)?;
            layout.add(pages, limits.boundary_mask);
        }
        Ok(layout)
    }

    fn map_list_one_by_one(
        &self,
        elements: &[Element],
        access: Access,
        limits: &Limits,
        counters: &mut DmaCounters,
    ) -> Result<Vec<Segment>, DmaError> {
        let mut segments: Vec<Segment> = Vec::with_capacity(elements.len());
        for (done, element) in elements.iter().enumerate() {
            match self.map(*element, access, limits.streaming_mask, counters) {
                Ok(at) => Segment { at, bytes: element.bytes }.join(&mut segments, limits),
                Err(error) => {
                    let undone = self.unmap_list_one_by_one(&elements[..done], &segments, counters);
                    return Err(undone.err().unwrap_or(error));
                }
            }
        }
        Ok(segments)
    }

    fn unmap_list_one_by_one(
        &self,
        elements: &[Element],
        segments: &[Segment],
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        let mut elements = elements.iter();
        for segment in segments {
            let mut from = 0;
            while from < segment.bytes
                && let Some(element) = elements.next()
            {
                self.unmap(BusAddress(segment.at.0 + from), element.bytes, counters)?;
                from += element.bytes;
            }
        }
        Ok(())
    }
}

impl Flusher for Domain {
    fn invalidate_all(&self, counters: &mut DmaCounters) {
        self.translation.invalidate_all(counters);
    }

    fn free(&self, range: Range, counters: &mut DmaCounters) {
        // An error means that it was never allocated so: then its addresses stay out of use, which harms nobody.
        let _ = self.free_range(range, counters);
    }
}

impl Pages {
    fn around(buffer: Element, granule: u64) -> Option<Self> {
        let offset = buffer.memory.0 % granule;
        let bytes = offset.checked_add(buffer.bytes)?.checked_next_multiple_of(granule)?;
        // The last byte, as there may be no address behind it.
        (buffer.memory.0 - offset).checked_add(bytes.checked_sub(1)?)?;
        (buffer.bytes > 0).then_some(Self { offset, bytes })
    }
}

/// Where the elements of a scatter list lie in one range of addresses.
#[derive(Debug)]
struct Layout {
    places: Vec<Place>,
    bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    /// Where its pages begin, counted from the range's start.
    from: u64,
    pages: Pages,
}

impl Layout {
    /// Adds an element's pages, after a hole if they would cross a boundary otherwise. The range itself is aligned to its size.
    fn add(&mut self, pages: Pages, boundary_mask: u64) {
        let to_boundary = boundary_mask.wrapping_sub(self.bytes).wrapping_add(1) & boundary_mask;
        if to_boundary < pages.bytes {
            self.bytes += to_boundary;
        }
        self.places.push(Place { from: self.bytes, pages });
        self.bytes += pages.bytes;
    }

    /// Elements that follow each other without a gap become one segment, within the limits (`__finalise_sg`).
    fn segments(&self, start: BusAddress, elements: &[Element], limits: &Limits) -> Vec<Segment> {
        let mut segments: Vec<Segment> = Vec::with_capacity(elements.len());
        for (element, place) in elements.iter().zip(&self.places) {
            let at = BusAddress(start.0 + place.from + place.pages.offset);
            Segment { at, bytes: element.bytes }.join(&mut segments, limits);
        }
        segments
    }
}

impl Segment {
    /// Becomes part of the last of those before it, where it continues that one, or else one of its own.
    fn join(self, segments: &mut Vec<Self>, limits: &Limits) {
        match segments.last_mut() {
            Some(last) if last.takes(self.at, self.bytes, limits) => last.bytes += self.bytes,
            _ => segments.push(self),
        }
    }

    /// How many elements, from the first of those left, it is made of.
    pub(crate) fn elements(&self, left: &[Element]) -> usize {
        let ends = left.iter().scan(0, |end, element| {
            *end += element.bytes;
            Some(*end)
        });
        ends.take_while(|end| *end <= self.bytes).count()
    }

    /// Whether what begins at `at` continues it within the limits.
    fn takes(&self, at: BusAddress, bytes: u64, limits: &Limits) -> bool {
        let follows = self.at.checked_add(self.bytes) == Some(at);
        // The first byte behind a boundary begins a segment.
        let begins = limits.boundary_mask < u64::MAX && at.0 & limits.boundary_mask == 0;
        let fits = self.bytes.checked_add(bytes).is_some_and(|both| both <= limits.segment_bytes_max);
        follows && !begins && fits
    }
}

/// The pages of a window. Page 0 is nobody's, as in Linux: too much takes address 0 for none.
fn space_of(window: &Window) -> Space {
    let page = |at: BusAddress| at.0 / window.granule_bytes;
    let reserved = window.reserved.iter().map(|(first, last)| Range::between(page(*first), page(*last)));
    Space { first: page(window.first).max(1), last: page(window.last), reserved: reserved.collect() }
}

impl std::fmt::Debug for Domain {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let window = self.translation.window();
        formatter.debug_struct("Domain").field("window", window).finish_non_exhaustive()
    }
}
