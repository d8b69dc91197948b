//! The IOTLB: an IOMMU's cache of translations.

use crate::walk::Leaf;
use crate::{BusAddress, FRAME_BYTES};

/// Domain ID: tags an address space's translations in the IOTLB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainId(pub u16);

/// A set-associative cache of translations, of pages of any size. An entry stays until it is invalidated or evicted,
/// whatever becomes of the page table.
#[derive(Debug)]
pub struct Iotlb {
    /// Entries, set after set.
    entries: Box<[Option<Entry>]>,
    ways: usize,
    /// Number of entries of each page size, 2^n bytes. Only sizes in use are looked up.
    sizes: [usize; 64],
    /// Counts lookups, for least-recently-used eviction.
    clock: u64,
    statistics: IotlbStatistics,
}

/// Counts of lookups, walks and evictions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IotlbStatistics {
    /// Lookups that hit.
    pub hits: u64,
    /// Lookups that missed, so that the table was walked.
    pub misses: u64,
    /// Table entries read by those walks.
    pub table_reads: u64,
    /// Entries evicted.
    pub evictions: u64,
    /// Entries invalidated.
    pub invalidated: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    domain: DomainId,
    page: Page,
    leaf: Leaf,
    used: u64,
}

/// A page of bus addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Page {
    number: u64,
    bits: u32,
}

/// An aligned block of 2^bits addresses, which one command invalidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    first: u64,
    bits: u32,
}

impl Iotlb {
    /// Largest block of a page-selective invalidation, 1 GiB. VT-d has such a limit (`MAMV`); beyond it the whole
    /// domain is invalidated.
    pub const BLOCK_BYTES_MAX: u64 = 1 << 30;

    /// A cache of `entries` in sets of `ways`. The number of sets is rounded down to a power of two; both are at
    /// least 1.
    pub fn new(entries: usize, ways: usize) -> Self {
        let ways = ways.max(1);
        let sets = 1_usize << (entries / ways).max(1).ilog2();
        let entries = vec![None; sets * ways].into_boxed_slice();
        Self { entries, ways, sizes: [0; 64], clock: 0, statistics: IotlbStatistics::default() }
    }

    /// Statistics so far.
    pub fn statistics(&self) -> IotlbStatistics {
        self.statistics
    }

    /// Translates an address, from the cache or by `walk`, which adds the table entries that it reads to its
    /// argument.
    ///
    /// # Errors
    /// The error of `walk`, which is not cached.
    pub fn translate<E>(
        &mut self,
        domain: DomainId,
        at: BusAddress,
        walk: impl FnOnce(&mut u64) -> Result<Leaf, E>,
    ) -> Result<Leaf, E> {
        self.clock += 1;
        if let Some(leaf) = self.lookup(domain, at) {
            self.statistics.hits += 1;
            return Ok(leaf);
        }
        self.statistics.misses += 1;
        let leaf = walk(&mut self.statistics.table_reads)?;
        self.insert(domain, at, leaf);
        Ok(leaf)
    }

    /// Invalidates the smallest aligned block of 2^n bytes that contains the range, or the whole domain if that block
    /// is [too large](Self::BLOCK_BYTES_MAX).
    pub fn invalidate_pages(&mut self, domain: DomainId, at: BusAddress, bytes: u64) {
        let block = Block::around(at.0, bytes);
        if block.bits > Self::BLOCK_BYTES_MAX.ilog2() {
            return self.invalidate_domain(domain);
        }
        for bits in self.sizes_in_use() {
            let (first, count) = block.pages(bits);
            if count > self.sets() as u64 {
                self.remove_where(0..self.entries.len(), |entry| {
                    entry.domain == domain && block.overlaps(entry.page)
                });
                return;
            }
            for number in first..first + count {
                let page = Page { number, bits };
                self.remove_where(self.set(page), |entry| entry.domain == domain && entry.page == page);
            }
        }
    }

    /// Invalidates a domain.
    pub fn invalidate_domain(&mut self, domain: DomainId) {
        self.remove_where(0..self.entries.len(), |entry| entry.domain == domain);
    }

    /// Invalidates everything.
    pub fn invalidate_all(&mut self) {
        self.remove_where(0..self.entries.len(), |_| true);
    }

    /// Finds the translation of an address in any page size, and marks the entry as used.
    fn lookup(&mut self, domain: DomainId, at: BusAddress) -> Option<Leaf> {
        let place = self.sizes_in_use().find_map(|bits| self.find(domain, Page::of(at, bits)))?;
        let entry = self.entries[place].as_mut()?;
        entry.used = self.clock;
        Some(entry.leaf)
    }

    /// Index of the entry for a page.
    fn find(&self, domain: DomainId, page: Page) -> Option<usize> {
        let is_it = |entry: &Entry| entry.domain == domain && entry.page == page;
        self.set(page).find(|place| self.entries[*place].as_ref().is_some_and(is_it))
    }

    /// Inserts a translation into a free entry, or in place of the least recently used one.
    fn insert(&mut self, domain: DomainId, at: BusAddress, leaf: Leaf) {
        let page = Page::of(at, leaf.page_bytes.ilog2());
        let used = |place: &usize| self.entries[*place].as_ref().map(|entry| entry.used);
        let Some(place) = self.set(page).min_by_key(used) else { return };
        let entry = Entry { domain, page, leaf, used: self.clock };
        self.sizes[page.bits as usize] += 1;
        if let Some(gone) = self.entries[place].replace(entry) {
            self.sizes[gone.page.bits as usize] -= 1;
            self.statistics.evictions += 1;
        }
    }

    /// Removes those entries of a range of indices for which `is_it` holds.
    fn remove_where(&mut self, entries_range: std::ops::Range<usize>, is_it: impl Fn(&Entry) -> bool) {
        for place in entries_range {
            if let Some(gone) = self.entries[place].take_if(|entry| is_it(entry)) {
                self.sizes[gone.page.bits as usize] -= 1;
                self.statistics.invalidated += 1;
            }
        }
    }

    /// The number of sets.
    fn sets(&self) -> usize {
        self.entries.len() / self.ways
    }

    /// Indices of the set for a page.
    fn set(&self, page: Page) -> std::ops::Range<usize> {
        let set = page.number as usize & (self.sets() - 1);
        set * self.ways..(set + 1) * self.ways
    }

    /// The page sizes of entries, each as its log2.
    fn sizes_in_use(&self) -> impl Iterator<Item = u32> + use<> {
        let sizes = self.sizes;
        (FRAME_BYTES.trailing_zeros()..64).filter(move |bits| sizes[*bits as usize] > 0)
    }
}

impl Page {
    /// The page of 2^`bits` bytes that contains an address.
    fn of(at: BusAddress, bits: u32) -> Self {
        Self { number: at.0 >> bits, bits }
    }
}

impl Block {
    /// The smallest aligned power-of-two block that contains `bytes` from `at`.
    fn around(at: u64, bytes: u64) -> Self {
        let last = at.saturating_add(bytes.saturating_sub(1));
        let bits = (64 - (at ^ last).leading_zeros()).max(FRAME_BYTES.trailing_zeros());
        Self { first: at.checked_shr(bits).unwrap_or(0).checked_shl(bits).unwrap_or(0), bits }
    }

    /// The first page of a size that the block touches, and how many it touches.
    fn pages(self, bits: u32) -> (u64, u64) {
        (self.first >> bits, 1 << self.bits.saturating_sub(bits))
    }

    /// Whether the block and a page have an address in common.
    fn overlaps(self, page: Page) -> bool {
        let bits = self.bits.max(page.bits);
        self.first >> bits == page.number << page.bits >> bits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, MemoryAddress};
    use proptest::prelude::*;

    const DOMAIN: DomainId = DomainId(1);
    const OTHER: DomainId = DomainId(2);

    fn leaf(memory: u64, page_bytes: u64) -> Leaf {
        Leaf { memory: MemoryAddress(memory), page_bytes, access: Access::ReadWrite }
    }

    /// Looks an address up; what is walked to has `memory`.
    fn look(iotlb: &mut Iotlb, domain: DomainId, at: u64, memory: u64) -> u64 {
        let walk = |reads: &mut u64| {
            *reads += 4;
            Ok::<_, ()>(leaf(memory, 0x1000))
        };
        iotlb.translate(domain, BusAddress(at), walk).unwrap().memory.0
    }

    #[test]
    fn stale_translations_stay_until_they_are_invalidated() {
        let mut iotlb = Iotlb::new(64, 4);
        assert_eq!(look(&mut iotlb, DOMAIN, 0x5000, 0xa000), 0xa000);
        assert_eq!(look(&mut iotlb, DOMAIN, 0x5fff, 0xb000), 0xa000);
        assert_eq!(look(&mut iotlb, OTHER, 0x5000, 0xc000), 0xc000);
        iotlb.invalidate_pages(DOMAIN, BusAddress(0x6000), 0x1000);
        assert_eq!(look(&mut iotlb, DOMAIN, 0x5000, 0xb000), 0xa000);
        iotlb.invalidate_pages(DOMAIN, BusAddress(0x5000), 0x1000);
        assert_eq!(look(&mut iotlb, DOMAIN, 0x5000, 0xb000), 0xb000);
        assert_eq!(look(&mut iotlb, OTHER, 0x5000, 0xd000), 0xc000);
        let statistics = iotlb.statistics();
        assert_eq!((statistics.hits, statistics.misses, statistics.table_reads), (3, 3, 12));
        assert_eq!((statistics.evictions, statistics.invalidated), (0, 1));
    }

    #[test]
    fn the_least_recently_used_gives_way() {
        let mut iotlb = Iotlb::new(8, 2);
        for at in [0x0, 0x4000, 0x0, 0x8000] {
            look(&mut iotlb, DOMAIN, at, at);
        }
        assert_eq!(look(&mut iotlb, DOMAIN, 0x0, 1), 0x0);
        assert_eq!(look(&mut iotlb, DOMAIN, 0x4000, 1), 1);
        assert_eq!(iotlb.statistics().evictions, 2);
    }

    #[test]
    fn more_than_the_largest_block_takes_the_domain() {
        for (bytes, stays) in [(Iotlb::BLOCK_BYTES_MAX, true), (Iotlb::BLOCK_BYTES_MAX + 1, false)] {
            let mut iotlb = Iotlb::new(8, 2);
            let far = 1 << 40;
            look(&mut iotlb, DOMAIN, far, 1);
            look(&mut iotlb, OTHER, far, 2);
            iotlb.invalidate_pages(DOMAIN, BusAddress(0), bytes);
            assert_eq!(look(&mut iotlb, DOMAIN, far, 3), if stays { 1 } else { 3 });
            assert_eq!(look(&mut iotlb, OTHER, far, 3), 2);
        }
    }

    #[test]
    fn a_range_is_widened_to_an_aligned_block() {
        let block = |at, bytes| {
            let Block { first, bits } = Block::around(at, bytes);
            (first, bits)
        };
        assert_eq!(block(0x5000, 0x1000), (0x5000, 12));
        assert_eq!(block(0x5000, 0x2000), (0x4000, 14));
        assert_eq!(block(0x7000, 0x2000), (0x0, 16));
        assert_eq!(block(0x5001, 1), (0x5000, 12));
        assert_eq!(block(0, u64::MAX), (0, 64));
        assert_eq!(block(0x1000, u64::MAX), (0, 64));
    }

    /// An address, and how many bytes from there are invalidated.
    fn range() -> impl Strategy<Value = (u64, u64)> {
        (0_u64..1 << 22, prop_oneof![1_u64..0x8000, 1_u64..1 << 22, Just(1 << 40)])
    }

    proptest! {
        /// Whatever overlaps what is invalidated is gone, and nothing that lies outside the block around it.
        #[test]
        fn invalidations_reach_every_page_of_any_size(
            pages in prop::collection::vec((0_u64..1 << 22, 12_u32..24), 1..40),
            (at, bytes) in range(),
        ) {
            let mut iotlb = Iotlb::new(256, 4);
            for (at, bits) in &pages {
                let found = |_: &mut u64| Ok::<_, ()>(leaf(1 << 40, 1 << bits));
                iotlb.translate(DOMAIN, BusAddress(*at), found).unwrap();
            }
            let remembered: Vec<Page> = iotlb.entries.iter().flatten().map(|entry| entry.page).collect();
            iotlb.invalidate_pages(DOMAIN, BusAddress(at), bytes);
            let block = Block::around(at, bytes);
            for page in remembered {
                let (first, last) = (page.number << page.bits, ((page.number + 1) << page.bits) - 1);
                let in_range = first < at + bytes && at <= last;
                let in_block = block.bits >= 24 || first < block.first + (1 << block.bits) && block.first <= last;
                let is_there = iotlb.find(DOMAIN, page).is_some();
                prop_assert!(!(in_range && is_there));
                prop_assert!(in_block || is_there);
            }
            let counted = (0..64).map(|bits| iotlb.sizes[bits]).sum::<usize>();
            prop_assert_eq!(counted, iotlb.entries.iter().flatten().count());
        }
    }
}
