//! Translation of an adapter's accesses: IOTLB, page walks, and the tables that the mapping layer wrote.

use super::InvalidationQueue;
use crate::iommu::{Hardware, Walker};
use crate::steady::CacheUse;
use des::{Span, Time};
use dma::tce::TceWindow;
use dma::{
    Access, BusAddress, DmaCounters, DomainId, FRAME_BYTES, Iotlb, Leaf, MemoryAddress, SoftwareAdapter,
    SoftwareDomain, Translation, Unit, Vtd,
};
use std::sync::Arc;

/// The IOMMU hardware of a host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IommuSetup {
    /// IOTLB and page walker; for a POWER host bridge, its TCE cache.
    pub hardware: Hardware,
    /// Every invalidation covers the whole domain, whatever its range.
    pub invalidates_domain: bool,
    /// The invalidation queue; `None`: concurrent invalidations do not delay each other. Windows have none.
    pub queue: Option<InvalidationQueue>,
}

/// The tables.
#[derive(Debug)]
pub(super) enum Tables {
    /// Page tables in memory. The mapping layer invalidates the IOTLB.
    Memory {
        unit: Arc<Unit>,
        /// The adapter's DMA interface.
        adapter: SoftwareAdapter,
        domain: Arc<SoftwareDomain<Vtd>>,
    },
    /// A POWER window and the bridge's TCE cache. The hypervisor invalidates every entry that it writes.
    Window { window: Arc<TceWindow>, known: Box<Iotlb> },
}

/// Statistics of lookups.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lookups {
    /// Lookups.
    pub(crate) all: u64,
    /// Lookups that missed, so that the table was walked.
    pub(crate) missed: u64,
    /// Lookups that hit an entry of a mapping that was removed (stale).
    pub(crate) stale: u64,
    /// Lookups that were blocked because nothing was mapped.
    pub(crate) blocked: u64,
    /// Busy time of the page walker.
    pub(crate) walking: Span,
}

/// State of the hardware.
#[derive(Debug)]
pub(super) struct Translator {
    tables: Tables,
    walker: Walker,
    invalidates_domain: bool,
    lookups: Lookups,
}

/// Domain ID of a window, which has its own cache.
const WINDOW: DomainId = DomainId(0);

impl Translator {
    pub(super) fn new(setup: &IommuSetup, tables: Tables) -> Self {
        let (walker, invalidates_domain) = (Walker::new(&setup.hardware), setup.invalidates_domain);
        Self { tables, walker, invalidates_domain, lookups: Lookups::default() }
    }

    /// Translates an access, with a lookup per page. Returns when that is done.
    pub(super) fn translate(&mut self, now: Time, at: BusAddress, bytes: u64) -> Time {
        let first = at.0 - at.0 % FRAME_BYTES;
        let pages = (first..at.0 + bytes).step_by(FRAME_BYTES as usize);
        pages.map(|page| self.lookup(now, BusAddress(page))).fold(now, Time::max)
    }

    /// Looks a page up, and walks the tables on a miss. Returns when its translation is there.
    fn lookup(&mut self, now: Time, page: BusAddress) -> Time {
        self.lookups.all += 1;
        let is = self.tables.find(page);
        match self.tables.translate(page, is) {
            None => self.lookups.blocked += 1,
            Some((memory, is_walked)) => {
                self.lookups.stale += u64::from(Some(memory) != is);
                if !is_walked {
                    return now;
                }
            }
        }
        self.lookups.missed += 1;
        self.walker.walk(now)
    }

    /// Invalidates a range after an unmap, unless the mapping layer does that itself.
    pub(super) fn unmapped(&mut self, at: BusAddress, bytes: u64, counters: &DmaCounters) {
        match &mut self.tables {
            Tables::Window { known, .. } => known.invalidate_pages(WINDOW, at, bytes),
            Tables::Memory { unit, domain, .. } if self.invalidates_domain && counters.invalidations > 0 => {
                unit.invalidate_domain(domain.id());
            }
            Tables::Memory { .. } => {}
        }
    }

    /// How the IOTLB was used so far.
    pub(super) fn cache_use(&self) -> CacheUse {
        let of = match &self.tables {
            Tables::Memory { unit, .. } => unit.statistics(),
            Tables::Window { known, .. } => known.statistics(),
        };
        // A walk that finds nothing mapped inserts nothing.
        let filled = of.misses.saturating_sub(self.lookups.blocked + of.evictions + of.invalidated);
        CacheUse { filled, looked_up: self.lookups.all, missed: self.lookups.missed }
    }

    pub(super) fn lookups(&self, now: Time) -> Lookups {
        Lookups { walking: self.walker.busy(now), ..self.lookups }
    }
}

impl Tables {
    /// The memory of a page, by the table.
    fn find(&self, page: BusAddress) -> Option<MemoryAddress> {
        match self {
            Self::Memory { domain, .. } => domain.find(page),
            Self::Window { window, .. } => window.find(page),
        }
    }

    /// Translates a page. Returns its memory, and whether the table was walked. `is` is the current mapping.
    fn translate(&mut self, page: BusAddress, is: Option<MemoryAddress>) -> Option<(MemoryAddress, bool)> {
        match self {
            Self::Memory { adapter, .. } => {
                let found = adapter.translate(page, Access::Read).ok()?;
                Some((found.memory, found.is_walked))
            }
            Self::Window { known, .. } => {
                let mut is_walked = false;
                let leaf = known.translate(WINDOW, page, |_reads| {
                    is_walked = true;
                    let memory = is.ok_or(())?;
                    Ok::<_, ()>(Leaf { memory, page_bytes: FRAME_BYTES, access: Access::ReadWrite })
                });
                leaf.ok().map(|leaf| (leaf.memory, is_walked))
            }
        }
    }
}
