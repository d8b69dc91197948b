//! Memory, an IOMMU in software, and an emulated controller behind it, opened by this crate's driver.

use super::{Emulated, ZoneOptions};
use crate::controller::{Controller, Namespace};
use crate::controller_error::NvmeError;
#[cfg(target_os = "linux")]
use crate::interrupts::Interrupts;
#[cfg(target_os = "linux")]
use dma::vfio::{Interrupt, VfioError};
use dma::{
    BuildError, Domain, DomainError, Frames, Iotlb, Limits, Mapper, MemoryAddress, Pool, Ram, Requester,
    SoftwareAdapter, SoftwareDomain, Unit, Vtd,
};
use std::sync::Arc;

/// The controller's requester ID.
const REQUESTER: Requester = Requester(0x0300);
const MEMORY_BYTES: u64 = 16 << 20;
/// One part in so many of the memory is for the IOMMU's page tables.
const TABLES_PART: u64 = 8;
/// Levels of these tables, which is 48 address bits.
const TABLE_LEVELS: u32 = 4;

/// Why a machine can't be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// The IOMMU's page table can't be created.
    #[error(transparent)]
    Table(#[from] DomainError),
    /// The memory for queues and buffers has no whole page, or the domain can't be built.
    #[error(transparent)]
    Domain(#[from] BuildError),
    /// The controller can't be opened.
    #[error(transparent)]
    Nvme(#[from] NvmeError),
}

/// Memory, an IOMMU in software, and an emulated controller that reaches only what is mapped for it. The controller is opened.
///
/// ```
/// use nvme::emulated::Machine;
///
/// // A disk of 512 blocks of 512 bytes.
/// let Machine { mut controller, ram, emulated, .. } = Machine::open(512, 9)?;
/// let (disk, mut queue) = (controller.namespaces()[0], controller.queue_pair(16)?);
/// let buffer = controller.allocate(4096)?;
/// ram.write(buffer.memory(), &[7; 512])?;
/// queue.write(&disk, 3, &[buffer.piece(0, 512)?])?;
/// queue.ring_doorbell();
/// while queue.poll(1, |done| assert!(done.status.is_success()))? == 0 {}
/// assert_eq!(emulated.disk()[3 * 512..4 * 512], [7; 512]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Machine {
    /// The memory: page tables, then memory for queues and buffers, then the caller's [own](MachineBuilder::own_bytes).
    pub ram: Arc<Ram>,
    /// The controller's IOMMU domain, for memory that the caller maps.
    pub domain: Arc<Domain>,
    /// The emulated controller, to inject faults and to see what it did.
    pub emulated: Arc<Emulated>,
    /// The driver's side.
    pub controller: Controller,
}

/// What a [`Machine`] has.
#[derive(Debug, Clone, Copy)]
pub struct MachineBuilder {
    blocks: u64,
    block_shift: u8,
    memory_bytes: u64,
    own_bytes: u64,
    unallocated_bytes: u64,
    zones: Option<ZoneOptions>,
}

impl Machine {
    /// A machine with 16 MiB of memory, whose disk has `blocks` zeroed blocks of `1 << block_shift` bytes.
    ///
    /// # Errors
    /// [`MachineError`]
    pub fn open(blocks: u64, block_shift: u8) -> Result<Self, MachineError> {
        Self::builder(blocks, block_shift).open()
    }

    /// The same with choices.
    pub fn builder(blocks: u64, block_shift: u8) -> MachineBuilder {
        MachineBuilder {
            blocks,
            block_shift,
            memory_bytes: MEMORY_BYTES,
            own_bytes: 0,
            unallocated_bytes: 0,
            zones: None,
        }
    }

    /// Interrupts for `queues` queues, which the emulated controller signals from now on.
    ///
    /// # Errors
    /// If no more files can be opened.
    #[cfg(target_os = "linux")]
    pub fn queue_interrupts(&self, queues: u16) -> Result<Arc<Interrupts>, VfioError> {
        let new = (0..queues).map(|_| Interrupt::new()).collect::<Result<Vec<_>, _>>()?;
        let signalled = new.iter().map(Interrupt::try_clone).collect::<Result<Vec<_>, _>>()?;
        self.emulated.on_interrupt(move |vector| {
            if let Some(interrupt) = signalled.get(usize::from(vector).wrapping_sub(1)) {
                // One that is lost is found by the next look.
                let _ = interrupt.signal();
            }
        });
        Ok(Arc::new(Interrupts::new(new)))
    }

    /// The first namespace; `None` if the controller reports none.
    pub fn namespace(&self) -> Option<Namespace> {
        self.controller.namespaces().first().copied()
    }
}

impl MachineBuilder {
    /// Sets the size of the memory. An eighth of it is for the IOMMU's page tables.
    #[must_use]
    pub fn memory_bytes(self, memory_bytes: u64) -> Self {
        Self { memory_bytes, ..self }
    }

    /// Leaves so many bytes at the end of the memory to the caller, who maps them through [`Machine::domain`].
    #[must_use]
    pub fn own_bytes(self, own_bytes: u64) -> Self {
        Self { own_bytes, ..self }
    }

    /// Gives the controller so many bytes besides the disk, for further namespaces.
    #[must_use]
    pub fn unallocated_bytes(self, unallocated_bytes: u64) -> Self {
        Self { unallocated_bytes, ..self }
    }

    /// Divides the disk into zones, which must be written sequentially.
    #[must_use]
    pub fn zones(self, zones: ZoneOptions) -> Self {
        Self { zones: Some(zones), ..self }
    }

    /// Makes the machine and opens its controller.
    ///
    /// # Errors
    /// [`MachineError`]
    pub fn open(self) -> Result<Machine, MachineError> {
        self.open_prepared(|_| {})
    }

    /// Makes the machine, changes its controller, and opens that.
    ///
    /// # Errors
    /// [`MachineError`]
    pub fn open_prepared(self, prepare: impl FnOnce(&Emulated)) -> Result<Machine, MachineError> {
        let Self { blocks, block_shift, zones, unallocated_bytes, .. } = self;
        let new = |adapter| match zones {
            Some(zones) => Emulated::with_zones(adapter, blocks, block_shift, zones),
            None => Emulated::new(adapter, blocks, block_shift),
        };
        self.open_with(new, |emulated| {
            emulated.add_unallocated(unallocated_bytes);
            prepare(emulated);
        })
    }

    /// Makes machines whose controllers lead to one disk of one subsystem, `paths` of them.
    ///
    /// # Errors
    /// [`MachineError`]
    pub fn open_paths(self, paths: usize) -> Result<Vec<Machine>, MachineError> {
        let first = self.open_prepared(Emulated::share)?;
        let emulated = Arc::clone(&first.emulated);
        let others = (1..paths).map(|_| self.open_with(|adapter| emulated.another_path(adapter), |_| {}));
        std::iter::once(Ok(first)).take(paths).chain(others).collect()
    }

    /// Makes the machine with a controller that `new` makes.
    fn open_with(
        self,
        new: impl FnOnce(SoftwareAdapter) -> Emulated,
        prepare: impl FnOnce(&Emulated),
    ) -> Result<Machine, MachineError> {
        let Self { memory_bytes, own_bytes, .. } = self;
        let tables_bytes = memory_bytes / TABLES_PART;
        let pool_bytes = (memory_bytes - tables_bytes).saturating_sub(own_bytes);
        let ram = Arc::new(Ram::new(MemoryAddress(0), memory_bytes));
        let frames = Arc::new(Frames::new(MemoryAddress(0), tables_bytes));
        let pool =
            Pool::new(ram.clone(), MemoryAddress(tables_bytes), pool_bytes).map_err(BuildError::from)?;
        let unit = Arc::new(Unit::new(Arc::clone(&ram), Iotlb::new(64, 4)));
        let table: SoftwareDomain<Vtd> = SoftwareDomain::new(Arc::clone(&unit), frames, TABLE_LEVELS)?;
        table.attach(REQUESTER);
        let domain = Domain::builder(Arc::new(table)).build()?;
        let mapper =
            Mapper::translated(Limits::of_bits(64), Arc::clone(&domain)).with_coherent(Arc::new(pool));
        let emulated = Arc::new(new(unit.adapter(REQUESTER)));
        prepare(&emulated);
        let controller = Controller::open(Arc::clone(&emulated), mapper, Arc::clone(&ram))?;
        Ok(Machine { ram, domain, emulated, controller })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;

    #[test]
    fn memory_is_divided_as_it_was_asked_for() {
        let mut machine = Machine::builder(8, 12).memory_bytes(1 << 20).own_bytes(64 << 10).open().unwrap();
        assert_eq!(machine.ram.bytes(), 1 << 20);
        assert_eq!(machine.namespace().map(|disk| disk.format.bytes()), Some(8 << 12));
        // All that is left of the pool is between the tables and the caller's own.
        let mut allocated = Vec::new();
        while let Ok(buffer) = machine.controller.allocate(4096) {
            allocated.push(buffer.memory().0);
        }
        let (first, last) = (allocated.iter().min().unwrap(), allocated.iter().max().unwrap());
        assert!(*first >= 128 << 10 && *last == (1 << 20) - (64 << 10) - 4096, "{first:#x} to {last:#x}");
    }

    #[test]
    fn a_machine_without_memory_is_refused() {
        let error = Machine::builder(8, 9).memory_bytes(1 << 20).own_bytes(1 << 20).open().unwrap_err();
        assert!(matches!(error, MachineError::Domain(_)), "{error}");
        let error = Machine::builder(8, 9).memory_bytes(32 << 10).open().unwrap_err();
        assert!(matches!(error, MachineError::Nvme(_) | MachineError::Table(_)), "{error}");
        let error = Machine::builder(8, 9).memory_bytes(0).open().unwrap_err();
        assert!(matches!(error, MachineError::Domain(_)), "{error}");
    }

    #[test]
    fn a_controller_is_prepared_before_it_is_opened() {
        let machine = Machine::builder(8, 9).open_prepared(Emulated::remove_namespace).unwrap();
        assert_eq!(machine.namespace(), None);
    }
}
