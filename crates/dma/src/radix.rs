//! I/O page tables as an operating system writes them: trees of pages of 512 entries, in memory.
//!
//! One writer for every format. Threads share the pages of the tree without a lock: a table is put into its entry by a
//! compare-exchange, a leaf is one store, and whoever maps or unmaps a range is the only one to do so in it. A call looks before
//! it changes anything, so one that fails leaves all mappings as they were.

mod amd;
mod clear;
mod fill;
mod format;
mod node;
mod quarantine;
mod smmu;
mod span;
mod vtd;

pub use amd::Amd;
pub use format::{Entry, Format};
pub use smmu::Smmu;
pub use vtd::Vtd;

use crate::{
    Access, BusAddress, DmaCounters, FRAME_BYTES, Frames, MapError, MemoryAddress, NoMemory, OutOfFrames,
    Ram, UnmapError,
};
use node::Node;
use quarantine::Quarantine;
use span::{Piece, Span};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// Bits of an address that a level's index has.
const INDEX_BITS: u32 = 9;
/// The smallest page, whose tables are level 0 here, whatever the format calls them.
const GRANULE_BITS: u32 = FRAME_BYTES.trailing_zeros();

/// A table of the format `F`.
pub struct Radix<F: Format> {
    ram: Arc<Ram>,
    frames: Arc<Frames>,
    root: MemoryAddress,
    levels: u32,
    page_sizes: u64,
    quarantine: Quarantine,
    format: PhantomData<F>,
}

/// Why there is no table.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// The format has no tables of so many levels.
    #[error("a table of {levels} levels, where the format has {least} to {most}")]
    Levels {
        /// Those asked for.
        levels: u32,
        /// The least.
        least: u32,
        /// The most.
        most: u32,
    },
    /// There is no page for its root.
    #[error(transparent)]
    OutOfFrames(#[from] OutOfFrames),
    /// The page for its root is not in memory, or where no entry can name it.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
}

impl<F: Format> Radix<F> {
    /// An empty table of so many levels in memory, made of pages of `frames`, with pages of all of the format's sizes.
    ///
    /// # Errors
    /// [`TableError`]
    pub fn new(ram: Arc<Ram>, frames: Arc<Frames>, levels: u32) -> Result<Self, TableError> {
        let (least, most) = (*F::LEVELS.start(), *F::LEVELS.end());
        if !F::LEVELS.contains(&levels) {
            return Err(TableError::Levels { levels, least, most });
        }
        let root = frames.take()?;
        if let Err(error) = Node::vacated::<F>(&ram, root, levels - 1) {
            frames.give_back(root);
            return Err(error.into());
        }
        let (quarantine, page_sizes) = (Quarantine::default(), F::PAGE_SIZES);
        Ok(Self { ram, frames, root, levels, page_sizes, quarantine, format: PhantomData })
    }

    /// With pages of those sizes alone that are in the mask, bit *n* for 2^*n* bytes, and of 4 KiB always: `1 << 12` is what
    /// `intel_iommu=sp_off` asks for.
    pub fn with_page_sizes(mut self, mask: u64) -> Self {
        self.keep_page_sizes(mask);
        self
    }

    pub(crate) fn keep_page_sizes(&mut self, mask: u64) {
        self.page_sizes = self.page_sizes & mask | FRAME_BYTES;
    }

    /// Where an IOMMU begins to read.
    pub fn root(&self) -> MemoryAddress {
        self.root
    }

    /// How many levels there are.
    pub fn levels(&self) -> u32 {
        self.levels
    }

    /// The highest bus address.
    pub fn last(&self) -> BusAddress {
        let bits = GRANULE_BITS + self.levels * INDEX_BITS;
        BusAddress(1_u64.checked_shl(bits).map_or(u64::MAX, |beyond| beyond - 1))
    }

    /// Makes `bytes` from `at` lead to memory, in the largest pages that both addresses' alignment allows. Returns whether empty
    /// tables gave way to such pages: then what an IOMMU remembers of them is to be invalidated before the mapping is used.
    ///
    /// # Errors
    /// [`MapError`]; then mappings are as before. Tables made for them stay, empty.
    pub fn map(
        &self,
        at: BusAddress,
        memory: MemoryAddress,
        bytes: u64,
        access: Access,
        counters: &mut DmaCounters,
    ) -> Result<bool, MapError> {
        let span = Span { at: at.0, bytes };
        if !span.is_whole_pages() || !memory.0.is_multiple_of(FRAME_BYTES) {
            return Err(MapError::Unaligned { at, memory, bytes, granule_bytes: FRAME_BYTES });
        }
        if !span.ends_by(self.last().0) {
            return Err(MapError::Outside { at, bytes, first: BusAddress(0), last: self.last() });
        }
        if !(Span { at: memory.0, bytes }).ends_by(F::MEMORY_LAST.0) {
            return Err(MapError::Unreachable { memory });
        }
        self.fill(Piece { span, memory: memory.0 }, access, counters)
    }

    /// Takes `bytes` from `at` out. Tables that are emptied wholly by it are kept until an invalidation [covers](Self::invalidated)
    /// them.
    ///
    /// # Errors
    /// [`UnmapError`]; then all of it is still mapped.
    pub fn unmap(&self, at: BusAddress, bytes: u64, counters: &mut DmaCounters) -> Result<(), UnmapError> {
        let span = Span { at: at.0, bytes };
        if !span.is_whole_pages() {
            return Err(UnmapError::Unaligned { at, bytes, granule_bytes: FRAME_BYTES });
        }
        if !span.ends_by(self.last().0) {
            return Err(self.why_not(span));
        }
        self.clear(span, counters)
    }

    /// Invalidates `bytes` from `at` by calling `invalidate`, which returns once that is done. Then tables that were taken out
    /// of this range before can be used again.
    pub fn invalidated(&self, at: BusAddress, bytes: u64, invalidate: impl FnOnce()) {
        let span = Span { at: at.0, bytes };
        let covered = self.quarantine.take(|kept| span.covers(kept));
        invalidate();
        covered.into_iter().for_each(|frame| self.frames.give_back(frame));
    }

    /// The same for all addresses.
    pub fn all_invalidated(&self, invalidate: impl FnOnce()) {
        let covered = self.quarantine.take(|_| true);
        invalidate();
        covered.into_iter().for_each(|frame| self.frames.give_back(frame));
    }

    /// Pages of tables that are taken out but wait for an invalidation.
    pub fn quarantined(&self) -> usize {
        self.quarantine.pages()
    }

    /// The memory that an address leads to.
    pub fn find(&self, at: BusAddress) -> Option<MemoryAddress> {
        if at > self.last() {
            return None;
        }
        let mut node = self.top()?;
        loop {
            match F::read(node.entry(at.0), node.level) {
                Entry::Empty => return None,
                Entry::Leaf { memory, bits } => {
                    return Some(MemoryAddress(memory.0 | at.0 & ((1 << bits) - 1)));
                }
                Entry::Table(page) => node = self.node(page, node.level.checked_sub(1)?)?,
            }
        }
    }

    fn top(&self) -> Option<Node<'_>> {
        self.node(self.root, self.levels - 1)
    }

    /// The table in a page; nothing where there is no memory, as an entry that somebody overwrote may name.
    fn node(&self, page: MemoryAddress, level: u32) -> Option<Node<'_>> {
        Node::at(&self.ram, page, level).ok()
    }

    /// Takes the tables from `page` downward out of use; nobody's range is in them but `span`'s owner's.
    fn retire(&self, page: MemoryAddress, level: u32, span: Span) {
        self.each_table(page, level, &mut |frame| self.quarantine.add(frame, span));
    }

    /// Tells of a table and all below it.
    fn each_table(&self, page: MemoryAddress, level: u32, tell: &mut impl FnMut(MemoryAddress)) {
        if level > 0
            && let Some(node) = self.node(page, level)
        {
            for entry in node.entries() {
                if let Entry::Table(below) = F::read(entry, level) {
                    self.each_table(below, level - 1, tell);
                }
            }
        }
        tell(page);
    }
}

impl<F: Format> Drop for Radix<F> {
    /// Gives all pages back. No IOMMU may read them any more.
    fn drop(&mut self) {
        self.all_invalidated(|| {});
        self.each_table(self.root, self.levels - 1, &mut |frame| self.frames.give_back(frame));
    }
}

impl<F: Format> fmt::Debug for Radix<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (root, levels) = (self.root, self.levels);
        formatter.debug_struct("Radix").field("root", &root).field("levels", &levels).finish_non_exhaustive()
    }
}
