//! What a driver calls: the contract of the kernel's DMA API, for one adapter.

use crate::debug::{DebugEntries, Entry, Kind, Named, Owner, Part};
use crate::{
    Access, Bounce, BusAddress, Coherent, Direction, DmaCounters, DmaError, Domain, Element, Limits,
    MemoryAddress, Misuse, Pool, Segment,
};
use std::sync::Arc;

/// Maps memory for an adapter.
///
/// Between [`map`](Self::map) and [`unmap`](Self::unmap) a buffer is the adapter's: the CPU may touch it only after
/// [`sync_for_cpu`](Self::sync_for_cpu), and hands it back by [`sync_for_device`](Self::sync_for_device). What is unmapped is
/// named as it was mapped: address, size and direction. In debug builds, and where it is [asked for](Self::watched), each call
/// is compared with what was mapped, and a broken rule is a [`Misuse`].
#[derive(Debug)]
pub struct Mapper {
    limits: Limits,
    way: Way,
    bounce: Option<(Arc<Bounce>, Bouncing)>,
    coherent: Option<Arc<Pool>>,
    is_coherent: bool,
    debug: Option<DebugEntries>,
}

/// The way of an adapter's addresses to memory.
#[derive(Debug)]
enum Way {
    /// Bus address = memory address + offset, wrapping: nothing translates, or a window has all memory mapped at an offset.
    Direct {
        offset: u64,
    },
    Translated(Arc<Domain>),
}

/// When data is copied to a bounce buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bouncing {
    /// Where the adapter's mask does not reach the memory and nothing translates.
    WhereOutOfReach,
    /// Also where a mapping would give an adapter more of a page than the buffer: for one that is not trusted.
    WhereUnaligned,
    /// Always (`swiotlb=force`, guests whose memory is encrypted).
    Always,
}

impl Mapper {
    /// For an adapter whose bus addresses are memory addresses plus an offset: 0 where nothing translates, else that of a direct
    /// window.
    pub fn direct(limits: Limits, offset: u64) -> Self {
        Self::new(limits, Way::Direct { offset })
    }

    /// For an adapter whose addresses are translated.
    pub fn translated(limits: Limits, domain: Arc<Domain>) -> Self {
        Self::new(limits, Way::Translated(domain))
    }

    fn new(limits: Limits, way: Way) -> Self {
        let debug = cfg!(debug_assertions).then(DebugEntries::default);
        Self { limits, way, bounce: None, coherent: None, is_coherent: true, debug }
    }

    /// With bounce buffers.
    pub fn with_bounce(self, bounce: Arc<Bounce>, when: Bouncing) -> Self {
        Self { bounce: Some((bounce, when)), ..self }
    }

    /// With memory for coherent buffers.
    pub fn with_coherent(self, pool: Arc<Pool>) -> Self {
        Self { coherent: Some(pool), ..self }
    }

    /// With an adapter that does not see the CPU's caches: handing over takes cache maintenance, which is counted.
    pub fn not_coherent(self) -> Self {
        Self { is_coherent: false, ..self }
    }

    /// With or without a comparison of each call with what was mapped.
    pub fn watched(self, is_watched: bool) -> Self {
        Self { debug: is_watched.then(DebugEntries::default), ..self }
    }

    /// Maps a buffer, which is the adapter's from now on.
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
        let at = self.place(buffer, direction, counters)?;
        self.note(at, &[buffer], direction, Kind::Single);
        Ok(at)
    }

    /// Unmaps a buffer, which is the CPU's from now on.
    ///
    /// # Errors
    /// [`DmaError`]
    pub fn unmap(
        &self,
        at: BusAddress,
        bytes: u64,
        direction: Direction,
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        let named = Named { at, bytes, direction, kind: Kind::Single };
        self.check(named)?;
        self.displace(at, bytes, direction, counters)?;
        self.forget(named);
        Ok(())
    }

    /// Maps a scatter list, in no more segments than it has elements.
    ///
    /// # Errors
    /// [`DmaError`]; then nothing is mapped.
    pub fn map_list(
        &self,
        elements: &[Element],
        direction: Direction,
        counters: &mut DmaCounters,
    ) -> Result<Vec<Segment>, DmaError> {
        if elements.is_empty() {
            return Err(DmaError::NoBuffer { memory: MemoryAddress(0), bytes: 0 });
        }
        let segments = match &self.way {
            Way::Translated(domain) if !elements.iter().any(|one| self.bounces(*one)) => {
                let segments = domain.map_list(elements, direction.access(), &self.limits, counters)?;
                self.maintain(counters);
                segments
            }
            Way::Translated(_) | Way::Direct { .. } => self.map_apart(elements, direction, counters)?,
        };
        let mut left = elements;
        for segment in &segments {
            let (merged, rest) = left.split_at(segment.elements(left));
            self.note(segment.at, merged, direction, Kind::List);
            left = rest;
        }
        Ok(segments)
    }

    /// Unmaps a scatter list, named by its elements as they were mapped and by the segments that came of it.
    ///
    /// # Errors
    /// [`DmaError`]
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
        match &self.way {
            Way::Translated(domain) if !elements.iter().any(|one| self.bounces(*one)) => {
                self.maintain(counters);
                domain.unmap_list(elements, segments, &self.limits, counters)?;
            }
            Way::Translated(_) | Way::Direct { .. } => {
                for segment in segments {
                    self.displace(segment.at, segment.bytes, direction, counters)?;
                }
            }
        }
        segments.iter().for_each(|segment| self.forget(named(segment)));
        Ok(())
    }

    /// Hands a part of a mapped buffer to the CPU, to read what the adapter wrote.
    ///
    /// # Errors
    /// [`DmaError::Misuse`], where calls are watched; [`DmaError::NoMemory`] if a bounce buffer's original is gone.
    pub fn sync_for_cpu(
        &self,
        at: BusAddress,
        offset: u64,
        bytes: u64,
        direction: Direction,
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        self.hand_over(Part { at, offset, bytes }, direction, Owner::Cpu, counters)
    }

    /// Hands a part of a mapped buffer to the adapter again.
    ///
    /// # Errors
    /// As for the CPU.
    pub fn sync_for_device(
        &self,
        at: BusAddress,
        offset: u64,
        bytes: u64,
        direction: Direction,
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        self.hand_over(Part { at, offset, bytes }, direction, Owner::Device, counters)
    }

    /// Says that the CPU is about to touch memory: what a program that is being debugged calls before it does.
    ///
    /// # Errors
    /// If the memory is the adapter's, where calls are watched.
    pub fn touch(&self, memory: MemoryAddress, bytes: u64, access: Access) -> Result<(), Misuse> {
        self.watch(|debug| debug.touch(memory, bytes, access))
    }

    /// Zeroed memory that the CPU and the adapter share, at least `bytes` of it, aligned to its pages' number rounded up to a power
    /// of two.
    ///
    /// # Errors
    /// [`DmaError`]; also if there is no [pool](Self::with_coherent).
    pub fn allocate_coherent(&self, bytes: u64, counters: &mut DmaCounters) -> Result<Coherent, DmaError> {
        let none = DmaError::NoBuffer { memory: MemoryAddress(0), bytes };
        let pool = self.coherent.as_ref().ok_or_else(|| none.clone())?;
        let bytes = Pool::rounded(bytes).ok_or(none)?;
        let mask = self.limits.coherent_mask;
        let last = match &self.way {
            Way::Direct { offset } => MemoryAddress(mask.saturating_sub(*offset)),
            Way::Translated(_) => MemoryAddress(u64::MAX),
        };
        let memory = pool.take(bytes, last)?;
        let at = match &self.way {
            Way::Direct { offset } => {
                counters.mappings += 1;
                Ok(BusAddress(memory.0.wrapping_add(*offset)))
            }
            Way::Translated(domain) => {
                domain.map(Element { memory, bytes }, Access::ReadWrite, mask, counters)
            }
        };
        let at = at.or_else(|error| pool.give_back(memory, bytes).and(Err(error)))?;
        self.note(at, &[Element { memory, bytes }], Direction::Bidirectional, Kind::Coherent);
        Ok(Coherent { memory, at, bytes })
    }

    /// Gives such memory back.
    ///
    /// # Errors
    /// [`DmaError`]
    pub fn free_coherent(&self, coherent: Coherent, counters: &mut DmaCounters) -> Result<(), DmaError> {
        let Coherent { memory, at, bytes } = coherent;
        let named = Named { at, bytes, direction: Direction::Bidirectional, kind: Kind::Coherent };
        self.check(named)?;
        match &self.way {
            Way::Direct { .. } => counters.unmappings += 1,
            Way::Translated(domain) => domain.unmap(at, bytes, counters)?,
        }
        self.forget(named);
        self.coherent.as_ref().map_or(Ok(()), |pool| pool.give_back(memory, bytes))
    }

    /// Whether nothing is mapped any more, where calls are watched: what a driver asks when it lets an adapter go.
    ///
    /// # Errors
    /// [`Misuse::Leaked`]
    pub fn close(self) -> Result<(), Misuse> {
        self.watch(DebugEntries::is_clean)
    }
}

/// Without debug entries.
impl Mapper {
    fn place(
        &self,
        buffer: Element,
        direction: Direction,
        counters: &mut DmaCounters,
    ) -> Result<BusAddress, DmaError> {
        if buffer.bytes == 0 || buffer.memory.checked_add(buffer.bytes).is_none() {
            return Err(DmaError::NoBuffer { memory: buffer.memory, bytes: buffer.bytes });
        }
        let at = match self.bounces(buffer).then_some(self.bounce.as_ref()).flatten() {
            None => self.reach(buffer, direction, counters),
            Some((bounce, _)) => {
                let memory = bounce.take(buffer, self.kept(), counters)?;
                let bounced = Element { memory, ..buffer };
                let at = self.reach(bounced, direction, counters);
                // What came to nothing was never the adapter's to write.
                at.or_else(|error| bounce.give_back(memory, Direction::ToDevice, counters).and(Err(error)))
            }
        }?;
        self.maintain(counters);
        Ok(at)
    }

    /// Bus addresses for memory, as far as the adapter's mask goes.
    fn reach(
        &self,
        buffer: Element,
        direction: Direction,
        counters: &mut DmaCounters,
    ) -> Result<BusAddress, DmaError> {
        let mask = self.limits.streaming_mask;
        match &self.way {
            Way::Translated(domain) => domain.map(buffer, direction.access(), mask, counters),
            Way::Direct { offset } => {
                let at = BusAddress(buffer.memory.0.wrapping_add(*offset));
                if !Limits::reach(mask, at, buffer.bytes) {
                    return Err(DmaError::BeyondMask { at, bytes: buffer.bytes, mask });
                }
                counters.mappings += 1;
                Ok(at)
            }
        }
    }

    fn displace(
        &self,
        at: BusAddress,
        bytes: u64,
        direction: Direction,
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        self.maintain(counters);
        let bounced = self.bounced(at);
        match &self.way {
            Way::Direct { .. } => counters.unmappings += 1,
            Way::Translated(domain) => domain.unmap(at, bytes, counters)?,
        }
        // Only now can the adapter write no more.
        bounced.map_or(Ok(()), |(bounce, memory)| bounce.give_back(memory, direction, counters))
    }

    /// Each element by itself.
    fn map_apart(
        &self,
        elements: &[Element],
        direction: Direction,
        counters: &mut DmaCounters,
    ) -> Result<Vec<Segment>, DmaError> {
        let mut segments: Vec<Segment> = Vec::with_capacity(elements.len());
        for element in elements {
            match self.place(*element, direction, counters) {
                Ok(at) => segments.push(Segment { at, bytes: element.bytes }),
                Err(error) => {
                    for segment in &segments {
                        self.displace(segment.at, segment.bytes, Direction::ToDevice, counters)?;
                    }
                    return Err(error);
                }
            }
        }
        Ok(segments)
    }

    fn bounces(&self, buffer: Element) -> bool {
        let Some((_, when)) = &self.bounce else { return false };
        let is_out_of_reach = match &self.way {
            Way::Translated(_) => false,
            Way::Direct { offset } => {
                let at = BusAddress(buffer.memory.0.wrapping_add(*offset));
                !Limits::reach(self.limits.streaming_mask, at, buffer.bytes)
            }
        };
        let is_unaligned = match &self.way {
            Way::Direct { .. } => false,
            Way::Translated(domain) => {
                let granule = domain.translation().window().granule_bytes;
                !buffer.memory.0.is_multiple_of(granule) || !buffer.bytes.is_multiple_of(granule)
            }
        };
        match when {
            Bouncing::Always => true,
            Bouncing::WhereUnaligned => is_out_of_reach || is_unaligned,
            Bouncing::WhereOutOfReach => is_out_of_reach,
        }
    }

    /// Bits of a buffer's address that its bounce buffer has too: those that the adapter needs, and those within a page that is
    /// mapped as a whole.
    fn kept(&self) -> u64 {
        let page = match &self.way {
            Way::Direct { .. } => 0,
            Way::Translated(domain) => domain.translation().window().granule_bytes - 1,
        };
        page | self.limits.offset_mask
    }

    /// The bounce buffer that an adapter's address leads to.
    fn bounced(&self, at: BusAddress) -> Option<(&Bounce, MemoryAddress)> {
        let (bounce, _) = self.bounce.as_ref()?;
        let memory = match &self.way {
            Way::Direct { offset } => MemoryAddress(at.0.wrapping_sub(*offset)),
            Way::Translated(domain) => domain.translation().find(at)?,
        };
        bounce.holds(memory).then_some((bounce, memory))
    }

    /// Hands a part over, and copies what its new owner has not seen where it is bounced.
    fn hand_over(
        &self,
        part: Part,
        direction: Direction,
        to: Owner,
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        self.watch(|debug| debug.hand_over(part, direction, to))?;
        self.maintain(counters);
        let access = direction.access();
        let is_news = match to {
            Owner::Cpu => access.writes(),
            Owner::Device => access.reads(),
        };
        match is_news.then(|| self.bounced(part.at)).flatten() {
            Some((bounce, memory)) => bounce.sync(memory, part.offset, part.bytes, to, counters),
            None => Ok(()),
        }
    }

    fn maintain(&self, counters: &mut DmaCounters) {
        counters.cache_syncs += u64::from(!self.is_coherent);
    }
}

/// The same for the debug entries.
impl Mapper {
    fn note(&self, at: BusAddress, pieces: &[Element], direction: Direction, kind: Kind) {
        if let Some(debug) = &self.debug {
            let bytes = pieces.iter().map(|piece| piece.bytes).sum();
            debug.add(at, Entry { pieces: pieces.to_vec(), bytes, direction, kind, owner: Owner::Device });
        }
    }

    fn check(&self, named: Named) -> Result<(), Misuse> {
        self.watch(|debug| debug.check(named))
    }

    fn forget(&self, named: Named) {
        if let Some(debug) = &self.debug {
            debug.remove(named);
        }
    }

    fn watch(&self, look: impl FnOnce(&DebugEntries) -> Result<(), Misuse>) -> Result<(), Misuse> {
        self.debug.as_ref().map_or(Ok(()), look)
    }
}
