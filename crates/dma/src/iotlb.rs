//! What an IOMMU remembers of the tables that it has read.

use crate::walk::Leaf;
use crate::{BusAddress, FRAME_BYTES};

/// An I/O address space to an IOMMU: what it remembers is told apart by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainId(pub u16);

/// A set-associative cache of translations, of pages of any size. What is in it stays until it is invalidated, or until something
/// else needs the place: whatever becomes of the table.
#[derive(Debug)]
pub struct Iotlb {
    /// Set by set.
    entries: Box<[Option<Entry>]>,
    ways: usize,
    /// How many entries there are of each size of pages, 2^n bytes: only those in use are looked for.
    sizes: [usize; 64],
    /// Counts lookups, to tell which entry was used last.
    clock: u64,
    statistics: IotlbStatistics,
}

/// What became of lookups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IotlbStatistics {
    /// Found.
    pub hits: u64,
    /// Not found: the table was walked.
    pub misses: u64,
    /// Entries of tables read by those walks.
    pub table_reads: u64,
    /// Translations that gave their place to others.
    pub evictions: u64,
    /// Translations that invalidations took out.
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

/// Addresses that one command invalidates: 2^bits bytes at a multiple of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    first: u64,
    bits: u32,
}

impl Iotlb {
    /// The largest block of a page-selective invalidation, 1 GiB: VT-d's units tell such a limit (`MAMV`), and a domain is
    /// invalidated where more would be needed.
    pub const BLOCK_BYTES_MAX: u64 = 1 << 30;

    /// Of so many entries in sets of so many ways; sets are rounded down to a power of two, and each number up to one.
    pub fn new(entries: usize, ways: usize) -> Self {
        let ways = ways.max(1);
        let sets = 1_usize << (entries / ways).max(1).ilog2();
        let entries = vec![None; sets * ways].into_boxed_slice();
        Self { entries, ways, sizes: [0; 64], clock: 0, statistics: IotlbStatistics::default() }
    }

    /// What became of lookups so far.
    pub fn statistics(&self) -> IotlbStatistics {
        self.statistics
    }

    /// The translation of an address: the one that is remembered, or that `walk` finds, which counts the entries that it reads.
    ///
    /// # Errors
    /// Those of `walk`; they are not remembered.
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
        self.remember(domain, at, leaf);
        Ok(leaf)
    }

    /// Forgets the smallest block of 2^n bytes, at a multiple of its size, that has `bytes` from `at` in it; all of the domain if
    /// that is [too large](Self::BLOCK_BYTES_MAX).
    pub fn invalidate_pages(&mut self, domain: DomainId, at: BusAddress, bytes: u64) {
        let block = Block::around(at.0, bytes);
        if block.bits > Self::BLOCK_BYTES_MAX.ilog2() {
            return self.invalidate_domain(domain);
        }
        for bits in self.sizes_in_use() {
            let (first, count) = block.pages(bits);
            if count > self.sets() as u64 {
                self.forget(0..self.entries.len(), |entry| {
                    entry.domain == domain && block.overlaps(entry.page)
                });
                return;
            }
            for number in first..first + count {
                let page = Page { number, bits };
                self.forget(self.set(page), |entry| entry.domain == domain && entry.page == page);
            }
        }
    }

    /// Forgets a domain.
    pub fn invalidate_domain(&mut self, domain: DomainId) {
        self.forget(0..self.entries.len(), |entry| entry.domain == domain);
    }

    /// Forgets everything.
    pub fn invalidate_all(&mut self) {
        self.forget(0..self.entries.len(), |_| true);
    }

    fn lookup(&mut self, domain: DomainId, at: BusAddress) -> Option<Leaf> {
        let place = self.sizes_in_use().find_map(|bits| self.place(domain, Page::of(at, bits)))?;
        let entry = self.entries[place].as_mut()?;
        entry.used = self.clock;
        Some(entry.leaf)
    }

    fn place(&self, domain: DomainId, page: Page) -> Option<usize> {
        let is_it = |entry: &Entry| entry.domain == domain && entry.page == page;
        self.set(page).find(|place| self.entries[*place].as_ref().is_some_and(is_it))
    }

    /// Puts a translation where nothing is, or else where what was used longest ago is.
    fn remember(&mut self, domain: DomainId, at: BusAddress, leaf: Leaf) {
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

    fn forget(&mut self, places: std::ops::Range<usize>, is_it: impl Fn(&Entry) -> bool) {
        for place in places {
            if let Some(gone) = self.entries[place].take_if(|entry| is_it(entry)) {
                self.sizes[gone.page.bits as usize] -= 1;
                self.statistics.invalidated += 1;
            }
        }
    }

    fn sets(&self) -> usize {
        self.entries.len() / self.ways
    }

    /// The places that a page may be at.
    fn set(&self, page: Page) -> std::ops::Range<usize> {
        let set = page.number as usize & (self.sets() - 1);
        set * self.ways..(set + 1) * self.ways
    }

    fn sizes_in_use(&self) -> impl Iterator<Item = u32> + use<> {
        let sizes = self.sizes;
        (FRAME_BYTES.trailing_zeros()..64).filter(move |bits| sizes[*bits as usize] > 0)
    }
}

impl Page {
    fn of(at: BusAddress, bits: u32) -> Self {
        Self { number: at.0 >> bits, bits }
    }
}

impl Block {
    fn around(at: u64, bytes: u64) -> Self {
        let last = at.saturating_add(bytes.saturating_sub(1));
        let bits = (64 - (at ^ last).leading_zeros()).max(FRAME_BYTES.trailing_zeros());
        Self { first: at.checked_shr(bits).unwrap_or(0).checked_shl(bits).unwrap_or(0), bits }
    }

    /// The first of the pages of a size that it touches, and their number.
    fn pages(self, bits: u32) -> (u64, u64) {
        (self.first >> bits, 1 << self.bits.saturating_sub(bits))
    }

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
    fn what_is_stale_stays_until_it_is_invalidated() {
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
                let is_there = iotlb.place(DOMAIN, page).is_some();
                prop_assert!(!(in_range && is_there));
                prop_assert!(in_block || is_there);
            }
            let counted = (0..64).map(|bits| iotlb.sizes[bits]).sum::<usize>();
            prop_assert_eq!(counted, iotlb.entries.iter().flatten().count());
        }
    }
}
