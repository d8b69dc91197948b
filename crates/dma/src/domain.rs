//! An I/O address space: a translation, an allocator of bus addresses, and the policy of invalidation.

use crate::error::is_unmapped;
use crate::flush_queue::Flusher;
use crate::{
    Access, BusAddress, DmaCounters, DmaError, FlushQueue, Limits, MemoryAddress, Translation, Window,
};
use builder::DomainBuilder;
use iova::{Allocator, Range, Request, Space};
use std::sync::Arc;

pub(crate) mod builder;
#[cfg(test)]
mod tests;

/// Addresses up to here are tried first: some adapters can't use more, whatever their drivers say.
const LOW_LAST: u64 = (1 << 32) - 1;

/// When the IOTLB is invalidated after an unmap.
#[derive(Debug)]
enum Invalidation {
    /// At each unmap, before the addresses can be reused.
    Strict,
    /// When the flush queue is full or its time is up. Until then an adapter may still reach unmapped memory.
    Lazy(FlushQueue),
    /// Not by this layer: the translation does it when it unmaps.
    Elsewhere,
}

/// How a scatter list gets its bus addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ListRanges {
    /// One range for the whole list, which may then become one segment (`iommu_dma_map_sg`).
    One,
    /// One range for each element; adjacent ones are merged (`ppc_iommu_map_sg`).
    Each,
}

/// An element of a scatter list: contiguous memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element {
    /// Its first address.
    pub memory: MemoryAddress,
    /// Its size.
    pub bytes: u64,
}

/// A segment of a mapped scatter list: contiguous bus addresses of one or more elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Its first address.
    pub at: BusAddress,
    /// Its size.
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

/// The whole pages that contain a buffer.
#[derive(Debug, Clone, Copy)]
struct Pages {
    /// Offset of the buffer in the first page.
    offset: u64,
    /// Size of all pages.
    bytes: u64,
}

impl Domain {
    /// Builds a domain of all bus addresses that the translation can map. Address 0 is never allocated.
    ///
    /// A translation needs one domain: two at a time allocate the same addresses, and the second mapping of one fails with
    /// [`MapError::Mapped`](crate::MapError::Mapped), or the IOTLB still holds the entry of a buffer that the other domain
    /// unmapped lazily. One after the other is fine: a domain that is dropped flushes. What it left mapped stays mapped.
    pub fn builder(translation: Arc<dyn Translation>) -> DomainBuilder {
        DomainBuilder::new(translation)
    }

    /// The translation.
    pub fn translation(&self) -> &Arc<dyn Translation> {
        &self.translation
    }

    /// Addresses allocated, free, and cached per CPU.
    pub fn usage(&self) -> iova::Usage {
        self.addresses.usage()
    }

    /// Returns free addresses that are cached for CPUs to where each CPU finds them; see [`Allocator::empty_caches`].
    pub fn empty_caches(&self) {
        self.addresses.empty_caches();
    }

    /// Ranges that are unmapped but not yet invalidated.
    pub fn waiting(&self) -> usize {
        match &self.invalidation {
            Invalidation::Lazy(queue) => queue.waiting(),
            Invalidation::Strict | Invalidation::Elsewhere => 0,
        }
    }

    /// What the thread of [`DomainBuilder::lazy`] did. Other calls add to their callers' counters.
    pub fn flush_thread_counters(&self) -> DmaCounters {
        match &self.invalidation {
            Invalidation::Lazy(queue) => queue.thread_counters(),
            Invalidation::Strict | Invalidation::Elsewhere => DmaCounters::default(),
        }
    }

    /// Flushes the flush queue at once: all CPUs' rings, by one invalidation of the whole domain, if anything waits. The thread of [`DomainBuilder::lazy`] does that every [`FlushQueue::INTERVAL_NS`]; with
    /// [`DomainBuilder::flush_queue`] the caller does.
    pub fn flush(&self, counters: &mut DmaCounters) {
        if let Invalidation::Lazy(queue) = &self.invalidation {
            queue.flush(self, counters);
        }
    }

    /// Maps a buffer at an address within `mask`.
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
            .inspect_err(|_| self.free_unmapped(start, pages.bytes, counters))?;
        Ok(BusAddress(start.0 + pages.offset))
    }

    /// Unmaps `bytes` from `at`, which were mapped by one call.
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

    /// Maps a scatter list. Segments keep the limits, and are at most as many as elements.
    pub(crate) fn map_list(
        &self,
        elements: &[Element],
        access: Access,
        limits: &Limits,
        counters: &mut DmaCounters,
    ) -> Result<Vec<Segment>, DmaError> {
        match self.lists {
            ListRanges::One => self.map_list_in_one_range(elements, access, limits, counters),
            ListRanges::Each => self.map_list_per_element(elements, access, limits, counters),
        }
    }

    /// Unmaps a scatter list.
    pub(crate) fn unmap_list(
        &self,
        elements: &[Element],
        segments: &[Segment],
        limits: &Limits,
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        match self.lists {
            ListRanges::One => self.unmap_list_in_one_range(elements, segments, limits, counters),
            ListRanges::Each => self.unmap_list_per_element(elements, segments, counters),
        }
    }
}

impl Domain {
    /// The smallest page size of the translation, in bytes.
    fn granule(&self) -> u64 {
        self.translation.window().granule_bytes
    }

    /// The whole pages around a buffer.
    fn pages(&self, buffer: Element) -> Result<Pages, DmaError> {
        Pages::around(buffer, self.granule())
            .ok_or(DmaError::NoBuffer { memory: buffer.memory, bytes: buffer.bytes })
    }

    /// Allocates whole pages for `bytes`, aligned to their size rounded up to a power of two.
    fn allocate(
        &self,
        bytes: u64,
        memory: u64,
        mask: u64,
        counters: &mut DmaCounters,
    ) -> Result<BusAddress, DmaError> {
        let granule = self.granule();
        // The last page that lies below the mask entirely.
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

    /// Maps a buffer's whole pages to bus addresses from `start` on.
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

    /// Frees unmapped addresses, at once or through the flush queue, after the IOTLB is invalidated.
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

    /// Frees addresses at which nothing was mapped.
    fn free_unmapped(&self, start: BusAddress, bytes: u64, counters: &mut DmaCounters) {
        Flusher::free(self, self.range(start, bytes), counters);
    }

    /// Bytes from `start` as a range of granules.
    fn range(&self, start: BusAddress, bytes: u64) -> Range {
        Range { first: start.0 / self.granule(), pages: bytes / self.granule() }
    }

    /// Frees a range of IOVAs.
    fn free_range(&self, range: Range, counters: &mut DmaCounters) -> Result<(), DmaError> {
        self.addresses.free(range)?;
        counters.frees += 1;
        Ok(())
    }

    /// Allocates one range of IOVAs for a whole list and maps its elements in it one after the other.
    fn map_list_in_one_range(
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
                let undone = self.unmap_places(start, &layout.places[..done], counters);
                let undone = undone.and_then(|()| self.retire(start, layout.bytes, counters));
                return Err(undone.err().unwrap_or(error));
            }
        }
        Ok(layout.segments(start, elements, limits))
    }

    /// Unmaps a list that was mapped in one range.
    fn unmap_list_in_one_range(
        &self,
        elements: &[Element],
        segments: &[Segment],
        limits: &Limits,
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        let layout = self.layout(elements, limits)?;
        let (Some(first), Some(place)) = (segments.first(), layout.places.first()) else { return Ok(()) };
        // Segments of another list may be anywhere; then nothing is mapped there.
        let start = BusAddress(first.at.0.wrapping_sub(place.pages.offset));
        self.unmap_places(start, &layout.places, counters)?;
        self.retire(start, layout.bytes, counters)
    }

    /// Unmaps elements of a list that was mapped in one range.
    fn unmap_places(
        &self,
        start: BusAddress,
        places: &[ElementPages],
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        for place in places {
            self.translation.unmap(
                BusAddress(start.0.wrapping_add(place.from)),
                place.pages.bytes,
                counters,
            )?;
            counters.unmappings += 1;
        }
        Ok(())
    }

    /// The position of each element in one range of IOVAs.
    fn layout(&self, elements: &[Element], limits: &Limits) -> Result<Layout, DmaError> {
        let mut layout = Layout { places: Vec::with_capacity(elements.len()), bytes: 0 };
        for element in elements {
            let pages = self.pages(*element)?;
            let full = || DmaError::NoAddresses { bytes: u64::MAX, limit: BusAddress(limits.streaming_mask) };
            layout.add(pages, limits.boundary_mask).ok_or_else(full)?;
        }
        Ok(layout)
    }

    /// Allocates a range of IOVAs for each element, and joins adjacent ones to segments.
    fn map_list_per_element(
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
                    let undone = self.unmap_list_per_element(&elements[..done], &segments, counters);
                    return Err(undone.err().unwrap_or(error));
                }
            }
        }
        Ok(segments)
    }

    /// Unmaps a list whose elements were mapped in separate ranges.
    fn unmap_list_per_element(
        &self,
        elements: &[Element],
        segments: &[Segment],
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        let mut elements = elements.iter();
        let mut result = Ok(());
        for segment in segments {
            let mut from = 0;
            while from < segment.bytes {
                let Some(element) = elements.next() else { break };
                let unmapped =
                    self.unmap(BusAddress(segment.at.0.wrapping_add(from)), element.bytes, counters);
                if !is_unmapped(&unmapped) {
                    return unmapped;
                }
                // The rest is unmapped all the same.
                result = result.and(unmapped);
                from = from.saturating_add(element.bytes);
            }
        }
        result
    }
}

/// Flushes, since no thread or caller can do so any more: the next domain of the translation allocates the same addresses.
impl Drop for Domain {
    fn drop(&mut self) {
        self.flush(&mut DmaCounters::default());
    }
}

impl Flusher for Domain {
    fn invalidate_all(&self, counters: &mut DmaCounters) {
        self.translation.invalidate_all(counters);
    }

    fn free(&self, range: Range, counters: &mut DmaCounters) {
        // An error means that the range is not one that was allocated, as after an unmap of a part of a buffer. Its addresses
        // stay allocated for good, and nobody hears of it: the unmap returned long ago.
        let _ = self.free_range(range, counters);
    }
}

impl Pages {
    /// The whole pages around a buffer; `None` if it is empty or beyond the last address.
    fn around(buffer: Element, granule: u64) -> Option<Self> {
        let offset = buffer.memory.0 % granule;
        let bytes = offset.checked_add(buffer.bytes)?.checked_next_multiple_of(granule)?;
        // Compute with the last byte: the end address may overflow.
        (buffer.memory.0 - offset).checked_add(bytes.checked_sub(1)?)?;
        (buffer.bytes > 0).then_some(Self { offset, bytes })
    }
}

/// Positions of a scatter list's elements in one range.
#[derive(Debug)]
struct Layout {
    places: Vec<ElementPages>,
    bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct ElementPages {
    /// Offset of its pages in the range.
    from: u64,
    pages: Pages,
}

impl Layout {
    /// Appends an element's pages, after a hole if they would cross a boundary. The range itself is aligned to its
    /// size. `None` if the list does not fit in an address space.
    fn add(&mut self, pages: Pages, boundary_mask: u64) -> Option<()> {
        let to_boundary = boundary_mask.wrapping_sub(self.bytes).wrapping_add(1) & boundary_mask;
        if to_boundary < pages.bytes {
            self.bytes = self.bytes.checked_add(to_boundary)?;
        }
        self.places.push(ElementPages { from: self.bytes, pages });
        self.bytes = self.bytes.checked_add(pages.bytes)?;
        Some(())
    }

    /// Merges elements that follow each other without a gap, within the limits (`__finalise_sg`).
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
    /// Merges it into the last segment if it continues that one, else appends it.
    fn join(self, segments: &mut Vec<Self>, limits: &Limits) {
        match segments.last_mut() {
            Some(last) if last.is_continued_by(self.at, self.bytes, limits) => last.bytes += self.bytes,
            _ => segments.push(self),
        }
    }

    /// How many of the elements in `left` the segment covers.
    pub(crate) fn elements(&self, left: &[Element]) -> usize {
        let ends = left.iter().scan(0, |end, element| {
            // Elements of other segments follow, and all of them need not fit in 64 bits.
            *end = element.bytes.checked_add(*end)?;
            Some(*end)
        });
        ends.take_while(|end| *end <= self.bytes).count()
    }

    /// Whether a range continues the segment within the limits.
    fn is_continued_by(&self, at: BusAddress, bytes: u64, limits: &Limits) -> bool {
        let follows = self.at.checked_add(self.bytes) == Some(at);
        // A segment never crosses a boundary.
        let begins = limits.boundary_mask < u64::MAX && at.0 & limits.boundary_mask == 0;
        let fits = self.bytes.checked_add(bytes).is_some_and(|both| both <= limits.segment_bytes_max);
        follows && !begins && fits
    }
}

/// The pages of a window. Page 0 is left out as in Linux, because much code takes address 0 for "none".
fn allocator_space(window: &Window) -> Space {
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
