//! What translates an adapter's accesses: the tables that the mapping layer has written, as an IOMMU reads and remembers them.

use super::InvalidationQueue;
use crate::iommu::{Hardware, Walker};
use des::{Span, Time};
use dma::tce::TceWindow;
use dma::{
    Access, Adapter, BusAddress, DmaCounters, DomainId, FRAME_BYTES, Iotlb, Leaf, MemoryAddress,
    SoftwareDomain, Translation, Unit, Vtd,
};
use std::sync::Arc;

/// The hardware's side of a host's IOMMU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IommuSetup {
    /// What it remembers and how it walks; of a POWER host bridge, its TCEs.
    pub hardware: Hardware,
    /// Each invalidation takes out all of the domain, whatever its range is.
    pub forgets_domains: bool,
    /// The queue of its commands; without, an invalidation takes the same however many wait. Windows have none.
    pub queue: Option<InvalidationQueue>,
}

/// Who translates.
#[derive(Debug)]
pub(super) enum Tables {
    /// An IOMMU with tables in memory. Those who unmap have it told what to forget.
    Memory {
        unit: Arc<Unit>,
        /// The adapter's actions.
        adapter: Adapter,
        domain: Arc<SoftwareDomain<Vtd>>,
    },
    /// A bridge that remembers TCEs of a window. The hypervisor has it forget each that it writes.
    Window { window: Arc<TceWindow>, known: Box<Iotlb> },
}

/// What became of accesses up to a time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lookups {
    /// Addresses looked up.
    pub(crate) all: u64,
    /// The table was walked for these.
    pub(crate) missed: u64,
    /// They went by what was remembered of a mapping that is no more.
    pub(crate) stale: u64,
    /// They were let through to nothing.
    pub(crate) blocked: u64,
    /// How long walks were begun.
    pub(crate) walking: Span,
}

/// An IOMMU at work.
#[derive(Debug)]
pub(super) struct Translator {
    tables: Tables,
    walker: Walker,
    forgets_domains: bool,
    lookups: Lookups,
}

/// Windows have a cache of their own.
const WINDOW: DomainId = DomainId(0);

impl Translator {
    pub(super) fn new(setup: &IommuSetup, tables: Tables) -> Self {
        let (walker, forgets_domains) = (Walker::new(&setup.hardware), setup.forgets_domains);
        Self { tables, walker, forgets_domains, lookups: Lookups::default() }
    }

    /// When all of an access is translated: a lookup for each page that it touches.
    pub(super) fn translate(&mut self, now: Time, at: BusAddress, bytes: u64) -> Time {
        let first = at.0 - at.0 % FRAME_BYTES;
        let pages = (first..at.0 + bytes).step_by(FRAME_BYTES as usize);
        pages.map(|page| self.lookup(now, BusAddress(page))).fold(now, Time::max)
    }

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

    /// What was remembered of a range goes with it, as far as it is not for the mapping layer to say so.
    pub(super) fn unmapped(&mut self, at: BusAddress, bytes: u64, counters: &DmaCounters) {
        match &mut self.tables {
            Tables::Window { known, .. } => known.invalidate_pages(WINDOW, at, bytes),
            Tables::Memory { unit, domain, .. } if self.forgets_domains && counters.invalidations > 0 => {
                unit.invalidate_domain(domain.id());
            }
            Tables::Memory { .. } => {}
        }
    }

    pub(super) fn lookups(&self, now: Time) -> Lookups {
        Lookups { walking: self.walker.busy(now), ..self.lookups }
    }
}

impl Tables {
    /// Where a page leads to by the table as it is.
    fn find(&self, page: BusAddress) -> Option<MemoryAddress> {
        match self {
            Self::Memory { domain, .. } => domain.find(page),
            Self::Window { window, .. } => window.find(page),
        }
    }

    /// Where an access is led, and whether the table was read for it. `is` is what it would be read to.
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
