//! Bounce buffers: memory within the adapter's reach, to and from which data is copied.
//!
//! The geometry is that of Linux's swiotlb (`kernel/dma/swiotlb.c`). A slot has 2 KiB. A mapping takes consecutive
//! slots within a segment of 128. Each area has its own lock; a CPU tries its own area first, then the others in
//! turn. A search starts where the last one ended. Each free slot knows how many free slots follow it.

use crate::debug::Owner;
use crate::{Direction, DmaCounters, DmaError, Element, Memory, MemoryAddress};
use iova::host_cpus;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a slot.
const SLOT: u64 = 1 << 11;
/// Slots of a segment.
const SEGMENT: usize = 128;
/// Buffers of at least this size begin at a page boundary.
const PAGE: u64 = 4096;

/// A pool of bounce buffers.
pub struct Bounce {
    memory: Arc<dyn Memory>,
    base: MemoryAddress,
    areas: Box<[Mutex<Area>]>,
    area_slots: usize,
    cpu: Box<dyn Fn() -> usize + Send + Sync>,
}

#[derive(Debug)]
struct Area {
    slots: Vec<BounceSlot>,
    /// The slot at which the next search begins.
    next: usize,
    used: usize,
}

#[derive(Debug, Clone, Copy)]
struct BounceSlot {
    /// Number of free slots from here to the end of the free run within the segment; 0 if in use.
    free: u8,
    /// The mapping, in the first slot of a buffer.
    mapping: Option<Mapping>,
}

#[derive(Debug, Clone, Copy)]
struct Mapping {
    /// The memory that is bounced.
    original: Element,
    slots: usize,
}

/// Position of a buffer in the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SlotPosition {
    area: usize,
    slot: usize,
}

impl Bounce {
    /// Largest buffer: a whole segment.
    pub const BYTES_MAX: u64 = SLOT * SEGMENT as u64;
    /// The kernel's default size.
    pub const BYTES_DEFAULT: u64 = 64 << 20;

    /// A pool of `bytes` from `base`, a multiple of 4 KiB. `areas` is rounded up to a power of two, and reduced until
    /// each area has a whole segment. `cpu` returns the current CPU. What does not divide into equal areas of whole segments is
    /// unused; of a single area only a rest smaller than a slot is.
    pub fn new(
        memory: Arc<dyn Memory>,
        base: MemoryAddress,
        bytes: u64,
        areas: usize,
        cpu: impl Fn() -> usize + Send + Sync + 'static,
    ) -> Self {
        let slots = (bytes / SLOT) as usize;
        let segments = (slots / SEGMENT).max(1);
        let areas = areas.clamp(1, 1 << segments.ilog2()).next_power_of_two();
        let area_slots = if areas > 1 { segments / areas * SEGMENT } else { slots };
        let areas = (0..areas).map(|_| Mutex::new(Area::new(area_slots))).collect();
        Self { memory, base, areas, area_slots, cpu: Box::new(cpu) }
    }

    /// The same with an area for each CPU of this host.
    pub fn per_cpu(memory: Arc<dyn Memory>, base: MemoryAddress, bytes: u64) -> Self {
        let cpus = host_cpus();
        let areas = cpus.count();
        Self::new(memory, base, bytes, areas, move || cpus.current())
    }

    /// Slots in use.
    pub fn slots_used(&self) -> usize {
        (0..self.areas.len()).map(|area| self.area(area).used).sum()
    }

    /// Slots of the pool.
    pub fn slots(&self) -> usize {
        self.areas.len() * self.area_slots
    }

    /// Whether the address is in a buffer in use.
    pub(crate) fn holds(&self, at: MemoryAddress) -> bool {
        self.mapping_at(at).is_some()
    }

    /// Allocates a buffer and copies `original` to it, in either direction: bytes that the adapter does not write
    /// must come back unchanged. The buffer's address equals the original's in the bits of `kept`, a power of two
    /// less one. The rest of its first and last unit of that size is zeroed.
    pub(crate) fn allocate(
        &self,
        original: Element,
        kept: u64,
        counters: &mut DmaCounters,
    ) -> Result<MemoryAddress, DmaError> {
        let (place, at) = self.find(original, kept).ok_or_else(|| DmaError::NoSlots {
            bytes: original.bytes,
            slots_used: self.slots_used(),
            slots: self.slots(),
            bytes_max: Self::BYTES_MAX,
        })?;
        let unit = kept.saturating_add(1);
        let start = self.address(place);
        let cleared = if kept > 0 { (at.0 - start.0 + original.bytes).next_multiple_of(unit) } else { 0 };
        let filled = self.memory.zero(start, cleared);
        if let Err(error) = filled.and_then(|()| self.memory.copy(original.memory, at, original.bytes)) {
            self.area(place.area).release(place.slot);
            return Err(error.into());
        }
        counters.bounce_bytes += original.bytes;
        Ok(at)
    }

    /// Frees a buffer, after copying it back if the adapter may have written to it. It is also freed if the copy fails.
    pub(crate) fn release(
        &self,
        at: MemoryAddress,
        direction: Direction,
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        let Some((place, Mapping { original, .. })) = self.mapping_at(at) else { return Ok(()) };
        let is_written = direction.access().writes();
        let copied = if is_written { self.memory.copy(at, original.memory, original.bytes) } else { Ok(()) };
        self.area(place.area).release(place.slot);
        if is_written && copied.is_ok() {
            counters.bounce_bytes += original.bytes;
        }
        Ok(copied?)
    }

    /// Copies a part of a buffer to its original (for the CPU) or from it (for the adapter), cut at the buffer's end.
    pub(crate) fn sync(
        &self,
        at: MemoryAddress,
        offset: u64,
        bytes: u64,
        to: Owner,
        counters: &mut DmaCounters,
    ) -> Result<(), DmaError> {
        let Some((_, Mapping { original, .. })) = self.mapping_at(at) else { return Ok(()) };
        let bytes = bytes.min(original.bytes.saturating_sub(offset));
        let bounced = MemoryAddress(at.0.saturating_add(offset));
        let original = MemoryAddress(original.memory.0.saturating_add(offset));
        let (from, to) = match to {
            Owner::Cpu => (bounced, original),
            Owner::Device => (original, bounced),
        };
        self.memory.copy(from, to, bytes)?;
        counters.bounce_bytes += bytes;
        Ok(())
    }

    /// Reserves free slots for a buffer whose address must keep the bits of `kept`. Searches the current CPU's area first.
    /// Returns the first slot and the address of the bounce buffer.
    fn find(&self, original: Element, kept: u64) -> Option<(SlotPosition, MemoryAddress)> {
        let offset = original.memory.0 & kept;
        let unit = kept.checked_add(1)?.max(SLOT);
        let bytes = original.bytes.checked_add(offset)?.checked_next_multiple_of(unit)?;
        let slots = usize::try_from(bytes / SLOT).ok().filter(|slots| *slots <= SEGMENT)?;
        let unit = if original.bytes >= PAGE { unit.max(PAGE) } else { unit };
        let cpu = (self.cpu)();
        (0..self.areas.len()).find_map(|step| {
            let area = cpu.wrapping_add(step) & (self.areas.len() - 1);
            let mut locked = self.area(area);
            let begins = |slot: usize| self.address(SlotPosition { area, slot }).0 % unit == 0;
            let slot = locked.find(slots, begins)?;
            locked.slots[slot].mapping = Some(Mapping { original, slots });
            let place = SlotPosition { area, slot };
            Some((place, MemoryAddress(self.address(place).0 + offset)))
        })
    }

    /// The memory address of a slot.
    fn address(&self, place: SlotPosition) -> MemoryAddress {
        MemoryAddress(self.base.0 + (place.area * self.area_slots + place.slot) as u64 * SLOT)
    }

    /// The buffer that contains an address, with its mapping; `None` outside the pool or in a free slot.
    fn mapping_at(&self, at: MemoryAddress) -> Option<(SlotPosition, Mapping)> {
        let slot = (at.0.checked_sub(self.base.0)? / SLOT) as usize;
        let (area, slot) = (slot.checked_div(self.area_slots)?, slot.checked_rem(self.area_slots)?);
        if area >= self.areas.len() {
            return None;
        }
        let locked = self.area(area);
        let segment = slot - slot % SEGMENT;
        let first = (segment..=slot).rev().find(|slot| locked.slots[*slot].mapping.is_some())?;
        let taken = locked.slots[first].mapping.filter(|taken| first + taken.slots > slot)?;
        Some((SlotPosition { area, slot: first }, taken))
    }

    /// An area, locked.
    fn area(&self, area: usize) -> MutexGuard<'_, Area> {
        self.areas[area].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Area {
    /// An area of free slots.
    fn new(slots: usize) -> Self {
        // The last segment may be shorter.
        let free = |place: usize| (SEGMENT - place % SEGMENT).min(slots - place);
        let slot = |place: usize| BounceSlot { free: free(place) as u8, mapping: None };
        Self { slots: (0..slots).map(slot).collect(), next: 0, used: 0 }
    }

    /// Allocates `needed` consecutive slots of one segment; `fits` checks the first one's alignment.
    fn find(&mut self, needed: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
        if self.used + needed > self.slots.len() {
            return None;
        }
        let from = self.next % self.slots.len();
        let found = (from..self.slots.len())
            .chain(0..from)
            .find(|slot| usize::from(self.slots[*slot].free) >= needed && fits(*slot))?;
        for slot in &mut self.slots[found..found + needed] {
            slot.free = 0;
        }
        self.update_free_counts(found);
        self.used += needed;
        self.next = found + needed;
        Some(found)
    }

    /// Frees the buffer that begins at a slot.
    fn release(&mut self, first: usize) {
        let Some(Mapping { slots, .. }) = self.slots[first].mapping.take() else { return };
        let after = first + slots;
        let next = self.slots.get(after).filter(|_| after % SEGMENT != 0);
        let mut free = next.map_or(0, |next| next.free);
        for slot in self.slots[first..after].iter_mut().rev() {
            free += 1;
            slot.free = free;
        }
        self.update_free_counts(first);
        self.used -= slots;
    }

    /// Updates the free counts of the slots before this one in its segment.
    fn update_free_counts(&mut self, before: usize) {
        let mut free = self.slots[before].free;
        let segment = before - before % SEGMENT;
        for slot in self.slots[segment..before].iter_mut().rev().take_while(|slot| slot.free > 0) {
            free += 1;
            slot.free = free;
        }
    }
}

impl fmt::Debug for Bounce {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, slots) = (self.slots_used(), self.slots());
        formatter.debug_struct("Bounce").field("used", &used).field("slots", &slots).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ram;
    use proptest::prelude::*;

    /// Two segments of bounce buffers, and originals behind them.
    const POOL: u64 = 2 * Bounce::BYTES_MAX;
    const ORIGINALS: u64 = 1 << 20;

    fn pool(areas: usize) -> (Arc<Ram>, Bounce) {
        let ram = Arc::new(Ram::new(MemoryAddress(0), POOL + ORIGINALS));
        let bounce = Bounce::new(Arc::clone(&ram) as Arc<dyn Memory>, MemoryAddress(0), POOL, areas, || 0);
        (ram, bounce)
    }

    fn bytes(ram: &Ram, at: MemoryAddress, bytes: u64) -> Vec<u8> {
        let mut seen = vec![0; bytes as usize];
        ram.read(at, &mut seen).unwrap();
        seen
    }

    #[test]
    fn data_goes_there_and_back_the_way_it_is_mapped() {
        for (direction, expected) in
            [(Direction::ToDevice, 1), (Direction::FromDevice, 2), (Direction::Bidirectional, 2)]
        {
            let (ram, bounce) = pool(1);
            let original = Element { memory: MemoryAddress(POOL + 0x123), bytes: 100 };
            ram.write(original.memory, &[1; 100]).unwrap();
            let mut counters = DmaCounters::default();
            let at = bounce.allocate(original, 0, &mut counters).unwrap();
            assert_eq!(bytes(&ram, at, 100), [1; 100]);
            // What the adapter wrote.
            ram.write(at, &[2; 100]).unwrap();
            bounce.release(at, direction, &mut counters).unwrap();
            assert_eq!(bytes(&ram, original.memory, 100), [expected; 100]);
            assert_eq!(counters.bounce_bytes, if expected == 1 { 100 } else { 200 });
            assert_eq!(bounce.slots_used(), 0);
        }
    }

    #[test]
    fn the_default_size_is_the_kernel_s() {
        assert_eq!(Bounce::BYTES_DEFAULT, 64 * 1024 * 1024);
    }

    #[test]
    fn only_addresses_in_a_buffer_are_held() {
        let (_ram, bounce) = pool(1);
        let original = Element { memory: MemoryAddress(POOL), bytes: SLOT + 1 };
        let at = bounce.allocate(original, 0, &mut DmaCounters::default()).unwrap();
        let holds = |offset: u64| bounce.holds(MemoryAddress(at.0 + offset));
        assert!(holds(0) && holds(2 * SLOT - 1));
        assert!(!holds(2 * SLOT) && !bounce.holds(MemoryAddress(POOL)));
    }

    #[test]
    fn each_cpu_begins_with_an_area_of_its_own() {
        for (cpu, area) in [(0, 0), (1, 1), (2, 0), (3, 1), (usize::MAX, 1)] {
            let ram = Arc::new(Ram::new(MemoryAddress(0), POOL + ORIGINALS));
            let bounce = Bounce::new(ram, MemoryAddress(0), POOL, 2, move || cpu);
            let take = |bytes| {
                let original = Element { memory: MemoryAddress(POOL), bytes };
                bounce.allocate(original, 0, &mut DmaCounters::default()).unwrap().0 / Bounce::BYTES_MAX
            };
            assert_eq!(take(Bounce::BYTES_MAX), area, "CPU {cpu}");
            assert_eq!(take(Bounce::BYTES_MAX), 1 - area, "CPU {cpu}, whose area is full");
        }
    }

    /// As the kernel's pool: what was given back is not used again at once (`swiotlb_search_area`, `area->index`).
    #[test]
    fn a_search_begins_behind_the_last_buffer() {
        let (_ram, bounce) = pool(1);
        let mut counters = DmaCounters::default();
        for slot in [0, 1, 2] {
            let original = Element { memory: MemoryAddress(POOL), bytes: SLOT };
            let at = bounce.allocate(original, 0, &mut counters).unwrap();
            assert_eq!(at.0, slot * SLOT);
            bounce.release(at, Direction::ToDevice, &mut counters).unwrap();
        }
    }

    #[test]
    fn a_part_is_handed_over() {
        let (ram, bounce) = pool(1);
        let original = Element { memory: MemoryAddress(POOL), bytes: 64 };
        let mut counters = DmaCounters::default();
        let at = bounce.allocate(original, 0, &mut counters).unwrap();
        ram.write(at, &[7; 64]).unwrap();
        bounce.sync(at, 8, 16, Owner::Cpu, &mut counters).unwrap();
        let seen = bytes(&ram, original.memory, 64);
        assert_eq!((&seen[..8], &seen[8..24], &seen[24..]), (&[0; 8][..], &[7; 16][..], &[0; 40][..]));
        // No more than there is, whoever asks for it.
        bounce.sync(at, 60, 1000, Owner::Cpu, &mut counters).unwrap();
        assert_eq!(bytes(&ram, MemoryAddress(POOL + 64), 8), [0; 8]);
    }

    #[test]
    fn a_mapping_takes_a_segment_at_most_and_the_pool_ends() {
        let (_ram, bounce) = pool(1);
        let mut counters = DmaCounters::default();
        let mut take =
            |bytes| bounce.allocate(Element { memory: MemoryAddress(POOL), bytes }, 0, &mut counters);
        assert!(matches!(
            take(Bounce::BYTES_MAX + 1),
            Err(DmaError::NoSlots { slots: 256, slots_used: 0, .. })
        ));
        take(Bounce::BYTES_MAX).unwrap();
        take(Bounce::BYTES_MAX).unwrap();
        assert!(matches!(take(1), Err(DmaError::NoSlots { slots_used: 256, .. })));
    }

    #[test]
    fn a_pool_has_no_more_than_its_memory() {
        let ram = Arc::new(Ram::new(MemoryAddress(0), 3 * SLOT + 5 + ORIGINALS));
        let mut counters = DmaCounters::default();
        let original = |bytes| Element { memory: MemoryAddress(4 * SLOT), bytes };
        for (bytes, areas) in [(0, 8), (100, 8), (SLOT, 0), (SLOT, usize::MAX), (3 * SLOT + 5, 8)] {
            let memory = Arc::clone(&ram) as Arc<dyn Memory>;
            let bounce = Bounce::new(memory, MemoryAddress(0), bytes, areas, || 3);
            assert_eq!(bounce.slots() as u64, bytes / SLOT);
            assert!(bounce.allocate(original(bytes + 1), 0, &mut counters).is_err());
            let allocated: Vec<_> =
                (0..4).filter_map(|_| bounce.allocate(original(1), 0, &mut counters).ok()).collect();
            assert_eq!(allocated.len() as u64, bytes / SLOT);
            for at in allocated {
                bounce.release(at, Direction::Bidirectional, &mut counters).unwrap();
            }
            assert_eq!(bounce.slots_used(), 0);
            assert_eq!(bounce.allocate(original(3 * SLOT), 0, &mut counters).is_ok(), bytes >= 3 * SLOT);
        }
    }

    #[test]
    fn a_page_that_is_mapped_whole_is_shared_with_nothing() {
        let (ram, bounce) = pool(1);
        ram.write(MemoryAddress(0), &[9; 8192]).unwrap();
        let original = Element { memory: MemoryAddress(POOL + 0x9f0), bytes: 0x20 };
        ram.write(original.memory, &[1; 0x20]).unwrap();
        let at = bounce.allocate(original, 4095, &mut DmaCounters::default()).unwrap();
        assert_eq!(at.0 % 4096, 0x9f0);
        let page = bytes(&ram, MemoryAddress(at.0 - 0x9f0), 4096);
        assert!(
            page.iter()
                .enumerate()
                .all(|(place, byte)| { *byte == u8::from((0x9f0..0xa10).contains(&place)) })
        );
        // Another buffer is in another page.
        let other = bounce
            .allocate(Element { memory: MemoryAddress(POOL), bytes: 1 }, 4095, &mut DmaCounters::default())
            .unwrap();
        assert_ne!(other.0 / 4096, at.0 / 4096);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn buffers_do_not_overlap_and_come_back(
            areas in 1_usize..5,
            steps in prop::collection::vec((0_u64..300_000, 0_usize..40, prop::sample::select(vec![0, 0xfff])), 1..80),
        ) {
            let (ram, bounce) = pool(areas);
            let (mut out, mut counters) = (Vec::<(MemoryAddress, Element, u8)>::new(), DmaCounters::default());
            for (step, (size, which, kept)) in steps.into_iter().enumerate() {
                if which < out.len() {
                    let (at, original, fill) = out.swap_remove(which);
                    prop_assert!(bytes(&ram, at, original.bytes).iter().all(|byte| *byte == fill));
                    bounce.release(at, Direction::ToDevice, &mut counters).unwrap();
                    continue;
                }
                let fill = step as u8 | 1;
                let original = Element { memory: MemoryAddress(POOL + size % 5000), bytes: size + 1 };
                ram.write(original.memory, &vec![fill; original.bytes as usize]).unwrap();
                if let Ok(at) = bounce.allocate(original, kept, &mut counters) {
                    prop_assert!(at.0 + original.bytes <= POOL);
                    prop_assert_eq!((at.0 ^ original.memory.0) & kept, 0);
                    let end = at.0 + original.bytes;
                    prop_assert!(out.iter().all(|(other, size, _)| end <= other.0 || other.0 + size.bytes <= at.0));
                    out.push((at, original, fill));
                }
            }
            for (at, ..) in out {
                bounce.release(at, Direction::ToDevice, &mut counters).unwrap();
            }
            prop_assert_eq!(bounce.slots_used(), 0);
            // All of each segment is to be had again.
            for _ in 0..bounce.slots() / SEGMENT {
                bounce.allocate(Element { memory: MemoryAddress(POOL), bytes: Bounce::BYTES_MAX }, 0, &mut counters).unwrap();
            }
        }
    }
}
