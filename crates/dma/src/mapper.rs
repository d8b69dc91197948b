//! The DMA API for one adapter: what a driver calls.

use crate::debug::{DebugEntries, Entry, Kind, Named, Owner, Part};
use crate::error::is_unmapped;
use crate::thread_mapper::ThreadCounters;
use crate::{
    Access, Bounce, BusAddress, Coherent, Direction, DmaCounters, DmaError, Domain, Element, Limits,
    MemoryAddress, Misuse, Pool, Segment,
};
use std::sync::Arc;

/// Maps memory for an adapter.
///
/// From [`map`](Self::map) to [`unmap`](Self::unmap) the adapter owns a buffer. The CPU may access it only between
/// [`sync_for_cpu`](Self::sync_for_cpu) and [`sync_for_device`](Self::sync_for_device). A buffer is unmapped with the
/// address, size and direction it was mapped with. Debug builds check every call, as do mappers with
/// [`with_debug`](Self::with_debug); a violation is a [`Misuse`].
#[derive(Debug)]
pub struct Mapper {
    limits: Limits,
    mode: TranslationMode,
    bounce: Option<(Arc<Bounce>, Bouncing)>,
    coherent: Option<Arc<Pool>>,
    is_coherent: bool,
    debug: Option<DebugEntries>,
    threads: ThreadCounters,
}

/// How the adapter's bus addresses reach memory.
#[derive(Debug)]
enum TranslationMode {
    /// Bus address = memory address + offset, wrapping: no translation, or a window that maps all memory.
    Direct {
        offset: u64,
    },
    Translated(Arc<Domain>),
}

/// When data goes through a bounce buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bouncing {
    /// If the memory is beyond the adapter's DMA mask and nothing translates.
    BeyondMask,
    /// Also if a mapping would expose other bytes of a page: for untrusted adapters.
    Unaligned,
    /// Always (`swiotlb=force`, encrypted guests).
    Always,
}

impl Mapper {
    /// A mapper without translation. `offset` is added to memory addresses: 0 usually, that of the window for a
    /// direct window.
    pub fn direct(limits: Limits, offset: u64) -> Self {
        Self::new(limits, TranslationMode::Direct { offset })
    }

    /// A mapper for an adapter behind an IOMMU domain.
    pub fn translated(limits: Limits, domain: Arc<Domain>) -> Self {
        Self::new(limits, TranslationMode::Translated(domain))
    }

    /// A mapper without bounce buffers and coherent memory. Misuse is checked in debug builds.
    fn new(limits: Limits, mode: TranslationMode) -> Self {
        let debug = cfg!(debug_assertions).then(DebugEntries::default);
        let threads = ThreadCounters::default();
        Self { limits, mode, bounce: None, coherent: None, is_coherent: true, debug, threads }
    }

    /// Uses bounce buffers.
    pub fn with_bounce(self, bounce: Arc<Bounce>, when: Bouncing) -> Self {
        Self { bounce: Some((bounce, when)), ..self }
    }

    /// Allocates coherent buffers from `pool`.
    pub fn with_coherent(self, pool: Arc<Pool>) -> Self {
        Self { coherent: Some(pool), ..self }
    }

    /// For a machine without coherent DMA: each handover needs cache maintenance, which is counted.
    pub fn not_coherent(self) -> Self {
        Self { is_coherent: false, ..self }
    }

    /// Turns the checks of each call on or off. Without this call, debug builds have them.
    pub fn with_debug(self, is_enabled: bool) -> Self {
        Self { debug: is_enabled.then(DebugEntries::default), ..self }
    }

    /// What the calls of all [`ThreadMapper`](crate::ThreadMapper)s of this mapper did. Calls with counters of their caller's
    /// are not among them, nor is [`Domain::flush_thread_counters`].
    pub fn counters(&self) -> DmaCounters {
        self.threads.sum()
    }

    /// The counters of its threads.
    pub(crate) fn thread_counters(&self) -> &ThreadCounters {
        &self.threads
    }

    /// Maps a buffer. The adapter owns it from now on.
    ///
    /// # Errors
    /// [`DmaError`]; then nothing is mapped.
    pub fn map(
        &self,
        memory: MemoryAddress,
        bytes: u64,
        direction: Direction,
        counters: &mut DmaCounters,
    ) -> Result<BusAddress, DmaError> {
        let buffer = Element { memory, bytes };
        let at = self.map_or_bounce(buffer, direction, counters)?;
        self.record(at, &[buffer], direction, Kind::Single);
        Ok(at)
    }

    /// Unmaps a buffer. The CPU owns it from now on.
    ///
    /// # Errors
    /// After [`DmaError::Free`] and [`DmaError::NoMemory`] the buffer is unmapped: its addresses stay unused, or what the adapter wrote to
    /// its bounce buffer is lost. After any other error it is still mapped.
    pub fn unmap(
        &self,
        at: BusAddress,
        bytes: u64,
        direction: Direction,
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        let named = Named { at, bytes, direction, kind: Kind::Single };
        self.check(named)?;
        let result = self.unmap_and_copy_back(at, bytes, direction, counters);
        self.forget_unmapped(named, result)
    }

    /// Maps a scatter list, to at most as many segments as elements.
    ///
    /// # Errors
    /// [`DmaError`]; then nothing is mapped, unless it is [`DmaError::Unmap`]: elements before the one that failed can't be unmapped.
    pub fn map_list(
        &self,
        elements: &[Element],
        direction: Direction,
        counters: &mut DmaCounters,
    ) -> Result<Vec<Segment>, DmaError> {
        if elements.is_empty() {
            return Err(DmaError::NoBuffer { memory: MemoryAddress(0), bytes: 0 });
        }
        let segments = match self.domain_for(elements) {
            Some(domain) => {
                let segments = domain.map_list(elements, direction.access(), &self.limits, counters)?;
                self.count_cache_sync(counters);
                segments
            }
            None => self.map_separately(elements, direction, counters)?,
        };
        let mut left = elements;
        for segment in &segments {
            let (merged, rest) = left.split_at(segment.elements(left));
            self.record(segment.at, merged, direction, Kind::List);
            left = rest;
        }
        Ok(segments)
    }

    /// Unmaps a scatter list, given the elements that were mapped and the segments that resulted.
    ///
    /// # Errors
    /// After [`DmaError::Free`] and [`DmaError::NoMemory`] the list is unmapped, as [`unmap`](Self::unmap) says. After
    /// [`DmaError::Unmap`] a part of it may be. After any other error all of it is still mapped.
    pub fn unmap_list(
        &self,
        elements: &[Element],
        segments: &[Segment],
        direction: Direction,
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        let named =
            |segment: &Segment| Named { at: segment.at, bytes: segment.bytes, direction, kind: Kind::List };
        segments.iter().try_for_each(|segment| self.check(named(segment)))?;
        let Some(domain) = self.domain_for(elements) else {
            let mut result = Ok(());
            for segment in segments {
                // All are unmapped, also after one that failed.
                let unmapped = self.unmap_and_copy_back(segment.at, segment.bytes, direction, counters);
                result = result.and(self.forget_unmapped(named(segment), unmapped));
            }
            return result;
        };
        self.count_cache_sync(counters);
        let result = domain.unmap_list(elements, segments, &self.limits, counters);
        if is_unmapped(&result) {
            segments.iter().for_each(|segment| self.forget(named(segment)));
        }
        result
    }

    /// Passes ownership of a part of a buffer to the CPU, which may then read what the adapter wrote. `offset` and `bytes` are in
    /// bytes, relative to `at`, which [`map`](Self::map) returned.
    ///
    /// # Errors
    /// [`DmaError::Misuse`] with checks on; [`DmaError::NoMemory`] if a bounced buffer is outside the memory.
    pub fn sync_for_cpu(
        &self,
        at: BusAddress,
        offset: u64,
        bytes: u64,
        direction: Direction,
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        self.transfer_ownership(Part { at, offset, bytes }, direction, Owner::Cpu, counters)
    }

    /// Passes ownership of a part of a buffer back to the adapter. `offset` and `bytes` are in bytes, relative to `at`, which
    /// [`map`](Self::map) returned.
    ///
    /// # Errors
    /// As for [`sync_for_cpu`](Self::sync_for_cpu).
    pub fn sync_for_device(
        &self,
        at: BusAddress,
        offset: u64,
        bytes: u64,
        direction: Direction,
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        self.transfer_ownership(Part { at, offset, bytes }, direction, Owner::Device, counters)
    }

    /// Checks that the CPU may access memory now. For the debugging of drivers.
    ///
    /// # Errors
    /// If the adapter owns the memory and checks are on.
    pub fn check_cpu_access(&self, memory: MemoryAddress, bytes: u64, access: Access) -> Result<(), Misuse> {
        self.with_entries(|debug| debug.check_cpu_access(memory, bytes, access))
    }

    /// Allocates at least `bytes` of zeroed coherent memory, aligned to its size rounded up to a power of two pages.
    ///
    /// Without translation, memory below the one with bus address 0 has the highest bus addresses. If a pool has such memory free,
    /// and the coherent mask does not cover it, memory above it is not looked for.
    ///
    /// # Errors
    /// [`DmaError`]; [`DmaError::NoPool`] without a [pool](Self::with_coherent).
    pub fn allocate_coherent(&self, bytes: u64, counters: &mut DmaCounters) -> Result<Coherent, DmaError> {
        let pool = self.coherent.as_ref().ok_or(DmaError::NoPool)?;
        let none = DmaError::NoBuffer { memory: MemoryAddress(0), bytes };
        let bytes = Pool::whole_pages(bytes).ok_or(none)?;
        let mask = self.limits.coherent_mask;
        let (memory, at) = match &self.mode {
            TranslationMode::Direct { offset } => {
                let allocated = allocate_within_mask(pool, bytes, *offset, mask)?;
                counters.mappings += 1;
                allocated
            }
            TranslationMode::Translated(domain) => {
                let memory = pool.allocate(bytes, MemoryAddress(u64::MAX))?;
                let at = domain.map(Element { memory, bytes }, Access::ReadWrite, mask, counters);
                (memory, at.or_else(|error| pool.free(memory, bytes).and(Err(error)))?)
            }
        };
        self.record(at, &[Element { memory, bytes }], Direction::Bidirectional, Kind::Coherent);
        Ok(Coherent { memory, at, bytes })
    }

    /// Frees coherent memory.
    ///
    /// # Errors
    /// After [`DmaError::Free`] it is unmapped, and addresses of it stay unused. After any other error it is still mapped.
    pub fn free_coherent(&self, coherent: Coherent, counters: &mut DmaCounters) -> Result<(), DmaError> {
        let Coherent { memory, at, bytes } = coherent;
        let named = Named { at, bytes, direction: Direction::Bidirectional, kind: Kind::Coherent };
        self.check(named)?;
        let unmapped = self.unmap_from_bus(at, bytes, counters);
        if !is_unmapped(&unmapped) {
            return unmapped;
        }
        self.forget(named);
        unmapped.and(self.coherent.as_ref().map_or(Ok(()), |pool| pool.free(memory, bytes)))
    }

    /// Checks that nothing is mapped any more, if checks are on. Call it when the driver releases the adapter.
    ///
    /// # Errors
    /// [`Misuse::Leaked`]
    pub fn close(self) -> Result<(), Misuse> {
        self.with_entries(DebugEntries::check_empty)
    }
}

/// Allocates memory whose bus address, `offset` further, is within the mask.
fn allocate_within_mask(
    pool: &Pool,
    bytes: u64,
    offset: u64,
    mask: u64,
) -> Result<(MemoryAddress, BusAddress), DmaError> {
    let allocate = |last| {
        let memory = pool.allocate(bytes, MemoryAddress(last))?;
        let at = BusAddress(memory.0.wrapping_add(offset));
        if Limits::reach(mask, at, bytes) {
            return Ok((memory, at));
        }
        pool.free(memory, bytes)?;
        Err(DmaError::BeyondMask { at, bytes, mask })
    };
    // Memory from `first` to `last` has a bus address within the mask. If `first` is above, that is all but what is between.
    let (first, last) = (offset.wrapping_neg(), mask.wrapping_sub(offset));
    allocate(last).or_else(|error| if first > last { allocate(u64::MAX) } else { Err(error) })
}

/// The operations without checks.
impl Mapper {
    /// Maps a buffer, or a bounce buffer with a copy of it if the adapter can't use it directly.
    fn map_or_bounce(
        &self,
        buffer: Element,
        direction: Direction,
        counters: &mut DmaCounters,
    ) -> Result<BusAddress, DmaError> {
        if buffer.bytes == 0 || buffer.memory.checked_add(buffer.bytes).is_none() {
            return Err(DmaError::NoBuffer { memory: buffer.memory, bytes: buffer.bytes });
        }
        let at = match self.must_bounce(buffer).then_some(self.bounce.as_ref()).flatten() {
            None => self.map_for_bus(buffer, direction, counters),
            Some((bounce, _)) => {
                let memory = bounce.allocate(buffer, self.kept_address_bits(), counters)?;
                let bounced = Element { memory, ..buffer };
                let at = self.map_for_bus(bounced, direction, counters);
                // The mapping failed, so the adapter wrote nothing: free without copying back.
                at.or_else(|error| bounce.release(memory, Direction::ToDevice, counters).and(Err(error)))
            }
        }?;
        self.count_cache_sync(counters);
        Ok(at)
    }

    /// Bus addresses for memory, if the DMA mask covers it.
    fn map_for_bus(
        &self,
        buffer: Element,
        direction: Direction,
        counters: &mut DmaCounters,
    ) -> Result<BusAddress, DmaError> {
        let mask = self.limits.streaming_mask;
        match &self.mode {
            TranslationMode::Translated(domain) => domain.map(buffer, direction.access(), mask, counters),
            TranslationMode::Direct { offset } => {
                let at = BusAddress(buffer.memory.0.wrapping_add(*offset));
                if !Limits::reach(mask, at, buffer.bytes) {
                    return Err(DmaError::BeyondMask { at, bytes: buffer.bytes, mask });
                }
                counters.mappings += 1;
                Ok(at)
            }
        }
    }

    /// Unmaps a buffer and, if it was bounced, copies the data back and frees the bounce buffer.
    fn unmap_and_copy_back(
        &self,
        at: BusAddress,
        bytes: u64,
        direction: Direction,
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        self.count_cache_sync(counters);
        let bounced = self.bounce_buffer_at(at);
        let unmapped = self.unmap_from_bus(at, bytes, counters);
        if !is_unmapped(&unmapped) {
            return unmapped;
        }
        // Copy back only now that the adapter can't write any more.
        let copied = bounced.map_or(Ok(()), |(bounce, memory)| bounce.release(memory, direction, counters));
        unmapped.and(copied)
    }

    /// Removes bus addresses, so that the adapter can't use them any more.
    fn unmap_from_bus(&self, at: BusAddress, bytes: u64, counters: &mut DmaCounters) -> Result<(), DmaError> {
        match &self.mode {
            TranslationMode::Direct { .. } => counters.unmappings += 1,
            TranslationMode::Translated(domain) => domain.unmap(at, bytes, counters)?,
        }
        Ok(())
    }

    /// Maps each element separately.
    fn map_separately(
        &self,
        elements: &[Element],
        direction: Direction,
        counters: &mut DmaCounters,
    ) -> Result<Vec<Segment>, DmaError> {
        let mut segments: Vec<Segment> = Vec::with_capacity(elements.len());
        for element in elements {
            match self.map_or_bounce(*element, direction, counters) {
                Ok(at) => segments.push(Segment { at, bytes: element.bytes }),
                Err(error) => {
                    // The adapter has written nothing that would have to be copied back.
                    let mut undone = Ok(());
                    for Segment { at, bytes } in segments {
                        undone =
                            undone.and(self.unmap_and_copy_back(at, bytes, Direction::ToDevice, counters));
                    }
                    return Err(undone.err().unwrap_or(error));
                }
            }
        }
        Ok(segments)
    }

    /// The domain that maps a whole scatter list; `None` if its elements are mapped separately, because nothing translates or one
    /// needs a bounce buffer.
    fn domain_for(&self, elements: &[Element]) -> Option<&Domain> {
        match &self.mode {
            TranslationMode::Translated(domain) if !elements.iter().any(|one| self.must_bounce(*one)) => {
                Some(domain)
            }
            TranslationMode::Translated(_) | TranslationMode::Direct { .. } => None,
        }
    }

    /// Whether a buffer needs a bounce buffer: out of the adapter's reach, or not whole pages for an untrusted adapter.
    fn must_bounce(&self, buffer: Element) -> bool {
        let Some((_, when)) = &self.bounce else { return false };
        let is_out_of_reach = match &self.mode {
            TranslationMode::Translated(_) => false,
            TranslationMode::Direct { offset } => {
                let at = BusAddress(buffer.memory.0.wrapping_add(*offset));
                !Limits::reach(self.limits.streaming_mask, at, buffer.bytes)
            }
        };
        let is_unaligned = match &self.mode {
            TranslationMode::Direct { .. } => false,
            TranslationMode::Translated(domain) => {
                let granule = domain.translation().window().granule_bytes;
                buffer.memory.0 % granule != 0 || buffer.bytes % granule != 0
            }
        };
        match when {
            Bouncing::Always => true,
            Bouncing::Unaligned => is_out_of_reach || is_unaligned,
            Bouncing::BeyondMask => is_out_of_reach,
        }
    }

    /// Address bits that a bounce buffer keeps: those that the adapter needs, and the offset within an IOMMU page.
    fn kept_address_bits(&self) -> u64 {
        let page = match &self.mode {
            TranslationMode::Direct { .. } => 0,
            TranslationMode::Translated(domain) => domain.translation().window().granule_bytes - 1,
        };
        page | self.limits.offset_mask
    }

    /// The bounce buffer behind a bus address, if it is one.
    fn bounce_buffer_at(&self, at: BusAddress) -> Option<(&Bounce, MemoryAddress)> {
        let (bounce, _) = self.bounce.as_ref()?;
        let memory = match &self.mode {
            TranslationMode::Direct { offset } => MemoryAddress(at.0.wrapping_sub(*offset)),
            TranslationMode::Translated(domain) => domain.translation().find(at)?,
        };
        bounce.holds(memory).then_some((bounce, memory))
    }

    /// Changes the owner of a part, and copies data if it is bounced.
    fn transfer_ownership(
        &self,
        part: Part,
        direction: Direction,
        to: Owner,
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        self.with_entries(|debug| debug.transfer_ownership(part, direction, to))?;
        self.count_cache_sync(counters);
        let access = direction.access();
        let is_news = match to {
            Owner::Cpu => access.writes(),
            Owner::Device => access.reads(),
        };
        match is_news.then(|| self.bounce_buffer_at(part.at)).flatten() {
            Some((bounce, memory)) => bounce.sync(memory, part.offset, part.bytes, to, counters),
            None => Ok(()),
        }
    }

    /// Counts a cache synchronisation, if the device is not coherent.
    fn count_cache_sync(&self, counters: &mut DmaCounters) {
        counters.cache_syncs += u64::from(!self.is_coherent);
    }
}

/// The checks.
impl Mapper {
    /// Records a mapping, if misuse is checked.
    fn record(&self, at: BusAddress, pieces: &[Element], direction: Direction, kind: Kind) {
        if let Some(debug) = &self.debug {
            let bytes = pieces.iter().map(|piece| piece.bytes).sum();
            debug.add(at, Entry { pieces: pieces.to_vec(), bytes, direction, kind, owner: Owner::Device });
        }
    }

    /// Checks a call against the recorded mappings, if misuse is checked.
    fn check(&self, named: Named) -> Result<(), Misuse> {
        self.with_entries(|debug| debug.check(named))
    }

    /// Removes a recorded mapping, if misuse is checked.
    fn forget(&self, named: Named) {
        if let Some(debug) = &self.debug {
            debug.remove(named);
        }
    }

    /// Removes a recorded mapping if an unmap with this result has removed it. Returns the result.
    fn forget_unmapped(&self, named: Named, result: Result<(), DmaError>) -> Result<(), DmaError> {
        if is_unmapped(&result) {
            self.forget(named);
        }
        result
    }

    /// Runs a check on the recorded mappings, if misuse is checked.
    fn with_entries(&self, check: impl FnOnce(&DebugEntries) -> Result<(), Misuse>) -> Result<(), Misuse> {
        self.debug.as_ref().map_or(Ok(()), check)
    }
}
