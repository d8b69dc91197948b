//! A domain of the software IOMMU.

use super::{Context, NoDomainId, Requester, Unit};
use crate::{
    Access, BusAddress, DmaCounters, DomainId, FRAME_BYTES, Frames, MapError, MemoryAddress, Radix,
    TableError, Translation, UnmapError, Walk, Walked, Window,
};
use std::fmt;
use std::sync::Arc;

/// An I/O page table of format `F` and the IOMMU that reads it. Each invalidation is one command and one wait.
///
/// ```
/// use dma::{
///     DmaCounters, Direction, Domain, Frames, Iotlb, Limits, Mapper, MemoryAddress, Ram, Requester, SoftwareDomain, Unit, Vtd,
/// };
/// use std::sync::Arc;
///
/// // A machine of 16 MiB, of which the first MiB is for page tables, and an IOMMU with 64 IOTLB entries.
/// let ram = Arc::new(Ram::new(MemoryAddress(0), 16 << 20));
/// let frames = Arc::new(Frames::new(MemoryAddress(0), 1 << 20));
/// let unit = Arc::new(Unit::new(Arc::clone(&ram), Iotlb::new(64, 4)));
///
/// // An adapter behind a VT-d table, in strict mode: unmapped buffers are out of its reach at once.
/// let translation = SoftwareDomain::<Vtd>::new(Arc::clone(&unit), frames, 4)?;
/// let card = Requester(0x0100);
/// translation.attach(card);
/// let domain = Domain::builder(Arc::new(translation)).build()?;
/// let driver = Mapper::translated(Limits::of_bits(64), domain);
///
/// let (buffer, mut counters) = (MemoryAddress(0x20_0000), DmaCounters::default());
/// let at = driver.map(buffer, 2048, Direction::FromDevice, &mut counters)?;
/// unit.adapter(card).write(at, b"received")?;
/// driver.unmap(at, 2048, Direction::FromDevice, &mut counters)?;
///
/// let mut seen = [0; 8];
/// ram.read(buffer, &mut seen)?;
/// assert_eq!(&seen, b"received");
/// assert!(unit.adapter(card).write(at, b"too late").is_err());
/// assert_eq!(unit.take_faults().recorded[0].to_string(),
///     format!("01:00.0: write at {at} was blocked: nothing is mapped (level 1)"));
/// assert_eq!((counters.table_pages, counters.table_entries, counters.invalidations), (3, 3 + 1 + 1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SoftwareDomain<F: Walked> {
    unit: Arc<Unit>,
    id: DomainId,
    table: Radix<F>,
    walk: Arc<dyn Walk>,
    window: Window,
}

/// Why a domain can't be created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DomainError {
    /// The page table can't be created.
    #[error(transparent)]
    Table(#[from] TableError),
    /// No domain ID is free.
    #[error(transparent)]
    NoDomainId(#[from] NoDomainId),
}

impl<F: Walked> SoftwareDomain<F> {
    /// A domain with an empty table of `levels` levels in the unit's memory, with table pages from `frames`. The formats say which
    /// numbers of levels they have, and for how many address bits: 4 levels are 48 bits in all of them.
    ///
    /// # Errors
    /// [`DomainError`]
    pub fn new(unit: Arc<Unit>, frames: Arc<Frames>, levels: u32) -> Result<Self, DomainError> {
        let table = Radix::new(Arc::clone(unit.ram()), frames, levels)?;
        let id = unit.allocate_domain_id()?;
        let (first, last) = (BusAddress(0), table.last());
        let window = Window { first, last, granule_bytes: FRAME_BYTES, reserved: Vec::new() };
        Ok(Self { walk: F::walker(&table), unit, id, table, window })
    }

    /// Uses only [these page sizes](Radix::with_page_sizes).
    pub fn with_page_sizes(mut self, mask: u64) -> Self {
        self.table.keep_page_sizes(mask);
        self
    }

    /// Reserves ranges (first and last address), such as 0xfee00000 to 0xfeefffff for interrupts on x86.
    pub fn with_reserved(mut self, reserved: Vec<(BusAddress, BusAddress)>) -> Self {
        self.window.reserved = reserved;
        self
    }

    /// Leads an adapter's addresses through this table.
    pub fn attach(&self, requester: Requester) {
        let (domain, table) = (self.id, Arc::clone(&self.walk));
        self.unit.attach(requester, Context::Translated { domain, table });
    }

    /// Its domain ID.
    pub fn id(&self) -> DomainId {
        self.id
    }

    /// Its page table.
    pub fn table(&self) -> &Radix<F> {
        &self.table
    }
}

impl<F: Walked> Translation for SoftwareDomain<F> {
    fn window(&self) -> &Window {
        &self.window
    }

    fn map(
        &self,
        at: BusAddress,
        memory: MemoryAddress,
        bytes: u64,
        access: Access,
        counters: &mut DmaCounters,
    ) -> Result<(), MapError> {
        if self.table.map(at, memory, bytes, access, counters)? {
            self.invalidate(at, bytes, counters);
        }
        Ok(())
    }

    fn unmap(&self, at: BusAddress, bytes: u64, counters: &mut DmaCounters) -> Result<(), UnmapError> {
        self.table.unmap(at, bytes, counters)
    }

    fn invalidate(&self, at: BusAddress, bytes: u64, counters: &mut DmaCounters) {
        self.table.invalidated(at, bytes, || self.unit.invalidate_pages(self.id, at, bytes));
        counters.invalidations += 1;
        counters.invalidation_waits += 1;
    }

    fn invalidate_all(&self, counters: &mut DmaCounters) {
        self.table.all_invalidated(|| self.unit.invalidate_domain(self.id));
        counters.invalidations += 1;
        counters.invalidation_waits += 1;
    }

    fn find(&self, at: BusAddress) -> Option<MemoryAddress> {
        self.table.find(at)
    }
}

impl<F: Walked> Drop for SoftwareDomain<F> {
    /// Detaches all adapters before the table is freed.
    fn drop(&mut self) {
        self.unit.end_domain(self.id);
    }
}

impl<F: Walked> fmt::Debug for SoftwareDomain<F> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, table) = (&self.id, &self.table);
        formatter.debug_struct("SoftwareDomain").field("id", id).field("table", table).finish_non_exhaustive()
    }
}
