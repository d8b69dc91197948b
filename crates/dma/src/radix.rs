//! I/O page tables, the writer's side: radix trees of pages of 512 entries, in memory.
//!
//! One writer serves every format. Threads share the tree without a lock: a table is installed by compare-exchange, a
//! leaf by one store, and only one thread maps or unmaps in a range at a time. A call checks before it changes
//! anything, so a failed call leaves all mappings as they were.

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

/// Address bits that one level translates.
const INDEX_BITS: u32 = 9;
/// Log2 of the smallest page. Its tables are level 0 here, whatever the format calls them.
const GRANULE_BITS: u32 = FRAME_BYTES.trailing_zeros();

/// An I/O page table of format `F`.
pub struct Radix<F: Format> {
    ram: Arc<Ram>,
    frames: Arc<Frames>,
    root: MemoryAddress,
    levels: u32,
    page_sizes: u64,
    quarantine: Quarantine,
    format: PhantomData<F>,
}

/// Why a table can't be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The format has no tables with so many levels.
    #[error("a table of {levels} levels; expected {least} to {most}")]
    Levels {
        /// Levels requested.
        levels: u32,
        /// Fewest levels of the format.
        least: u32,
        /// Most levels of the format.
        most: u32,
    },
    /// No page is free for the root.
    #[error(transparent)]
    OutOfFrames(#[from] OutOfFrames),
    /// The root's page is outside the memory, or beyond what an entry can address.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
}

impl<F: Format> Radix<F> {
    /// Creates an empty table of `levels` levels in `ram`, with pages of `frames`. It uses all page sizes of the
    /// format.
    ///
    /// # Errors
    /// [`TableError`]
    pub fn new(ram: Arc<Ram>, frames: Arc<Frames>, levels: u32) -> Result<Self, TableError> {
        let (least, most) = (*F::LEVELS.start(), *F::LEVELS.end());
        if !F::LEVELS.contains(&levels) {
            return Err(TableError::Levels { levels, least, most });
        }
        let root = frames.allocate()?;
        if let Err(error) = Node::new_empty::<F>(&ram, root, levels - 1) {
            frames.free(root);
            return Err(error.into());
        }
        let (quarantine, page_sizes) = (Quarantine::default(), F::PAGE_SIZES);
        Ok(Self { ram, frames, root, levels, page_sizes, quarantine, format: PhantomData })
    }

    /// Uses only the page sizes in the mask, bit *n* for 2^*n* bytes, and always 4 KiB. `1 << 12` corresponds to
    /// `intel_iommu=sp_off`.
    pub fn with_page_sizes(mut self, mask: u64) -> Self {
        self.keep_page_sizes(mask);
        self
    }

    /// Restricts the page sizes to those in the mask, and always 4 KiB.
    pub(crate) fn keep_page_sizes(&mut self, mask: u64) {
        self.page_sizes = self.page_sizes & mask | FRAME_BYTES;
    }

    /// Address of the root table, for the IOMMU.
    pub fn root(&self) -> MemoryAddress {
        self.root
    }

    /// Number of levels.
    pub fn levels(&self) -> u32 {
        self.levels
    }

    /// Highest bus address.
    pub fn last(&self) -> BusAddress {
        let bits = GRANULE_BITS + self.levels * INDEX_BITS;
        BusAddress(1_u64.checked_shl(bits).map_or(u64::MAX, |beyond| beyond - 1))
    }

    /// Maps `bytes` from `at` to memory, with the largest pages that the alignment of both addresses allows. Returns
    /// whether empty tables were replaced by such pages; then the IOTLB must be invalidated before the mapping is
    /// used.
    ///
    /// # Errors
    /// [`MapError`]; then mappings are unchanged. Tables allocated on the way stay, empty.
    pub fn map(
        &self,
        at: BusAddress,
        memory: MemoryAddress,
        bytes: u64,
        access: Access,
        counters: &mut DmaCounters,
    ) -> Result<bool, MapError> {
        let span = Span { at: at.0, bytes };
        if !span.is_whole_pages() || memory.0 % FRAME_BYTES != 0 {
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

    /// Unmaps `bytes` from `at`. Tables that this empties are quarantined until the range is
    /// [invalidated](Self::invalidated).
    ///
    /// # Errors
    /// [`UnmapError`]; then everything is still mapped.
    pub fn unmap(&self, at: BusAddress, bytes: u64, counters: &mut DmaCounters) -> Result<(), UnmapError> {
        let span = Span { at: at.0, bytes };
        if !span.is_whole_pages() {
            return Err(UnmapError::Unaligned { at, bytes, granule_bytes: FRAME_BYTES });
        }
        if !span.ends_by(self.last().0) {
            return Err(self.unmap_error(span));
        }
        self.clear(span, counters)
    }

    /// Calls `invalidate`, which must return after the IOMMU has invalidated `bytes` from `at`. Then frees the tables
    /// quarantined in that range before.
    pub fn invalidated(&self, at: BusAddress, bytes: u64, invalidate: impl FnOnce()) {
        let span = Span { at: at.0, bytes };
        let covered = self.quarantine.take_covered(|kept| span.covers(kept));
        invalidate();
        covered.into_iter().for_each(|frame| self.frames.free(frame));
    }

    /// Calls `invalidate`, which must return after the IOMMU has invalidated all addresses. Then frees all quarantined tables.
    pub fn all_invalidated(&self, invalidate: impl FnOnce()) {
        let covered = self.quarantine.take_covered(|_| true);
        invalidate();
        covered.into_iter().for_each(|frame| self.frames.free(frame));
    }

    /// Number of table pages waiting for an invalidation.
    pub fn quarantined(&self) -> usize {
        self.quarantine.pages()
    }

    /// The memory that a bus address is mapped to.
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

    /// The root table.
    fn top(&self) -> Option<Node<'_>> {
        self.node(self.root, self.levels - 1)
    }

    /// The table in a page; `None` outside the memory, which an entry that was overwritten may point to.
    fn node(&self, page: MemoryAddress, level: u32) -> Option<Node<'_>> {
        Node::at(&self.ram, page, level).ok()
    }

    /// Quarantines the tables from `page` down. They lie within `span`, which belongs to this thread.
    fn quarantine_tables(&self, page: MemoryAddress, level: u32, span: Span) {
        self.visit_tables(page, level, &mut |frame| self.quarantine.add(frame, span));
    }

    /// Visits a table and all tables below it.
    fn visit_tables(&self, page: MemoryAddress, level: u32, visit: &mut impl FnMut(MemoryAddress)) {
        if level > 0 {
            for entry in self.node(page, level).into_iter().flat_map(Node::entries) {
                if let Entry::Table(below) = F::read(entry, level) {
                    self.visit_tables(below, level - 1, visit);
                }
            }
        }
        visit(page);
    }
}

impl<F: Format> Drop for Radix<F> {
    /// Frees all table pages. No IOMMU may read them any more.
    fn drop(&mut self) {
        self.all_invalidated(|| {});
        self.visit_tables(self.root, self.levels - 1, &mut |frame| self.frames.free(frame));
    }
}

impl<F: Format> fmt::Debug for Radix<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (root, levels) = (self.root, self.levels);
        formatter.debug_struct("Radix").field("root", &root).field("levels", &levels).finish_non_exhaustive()
    }
}
