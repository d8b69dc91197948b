//! What the hosts' mapping layer does, and what that costs.

use super::NetworkError;
use super::cpu::Step;
use super::outcome::Stage;
use crate::partition::{Partition, PartitionError};
use des::{Lock, Span, TransferCost};
use dma::{
    Bill, BusAddress, Direction, Domain, FlushQueue, Frames, Invalidation, Iotlb, Limits, Mapper,
    MemoryAddress, Ram, SoftwareDomain, Unit, Vtd,
};
use iova::{Bitmap, Depot, Magazines, Pools, Space};
use std::cell::Cell;
use std::sync::Arc;

/// How memory is mapped for the adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Road {
    /// All of it is mapped: addresses are memory's and an offset.
    Direct,
    /// A window of a POWER partition, whose entries the hypervisor writes.
    Window {
        /// Its size.
        bytes: u64,
        /// What holds whom up.
        locking: Locking,
    },
    /// An IOMMU that reads tables in memory (VT-d's, with Linux's allocator of addresses).
    Translated {
        /// When it is made to forget what was unmapped.
        forgets: Forgets,
    },
}

/// When an IOMMU is made to forget what was unmapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgets {
    /// At once: each unmapping waits for an invalidation.
    AtOnce,
    /// When a CPU has unmapped some hundred ranges: one invalidation for all of them.
    Later,
}

/// The locks of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locking {
    /// One, which is held until the hypervisor has written the entry: Linux before 3.6.
    Table,
    /// One, held while its bitmap is searched.
    Bitmap,
    /// One for each of the pools that the bitmap is cut into, the one for large requests among them: Linux since 3.6.
    Pools,
}

/// What a mapping costs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MappingCost {
    /// Instructions to map or unmap, each, where nothing translates.
    pub direct_instructions: f64,
    /// In a window, outside of its lock.
    pub window_instructions: f64,
    /// And with it held.
    pub locked_instructions: f64,
    /// A call of the hypervisor that writes or clears one entry.
    pub hypercall: Span,
    /// Each further entry of a call.
    pub entry: Span,
    /// Instructions to map or unmap, each, where an IOMMU reads tables in memory.
    pub translated_instructions: f64,
    /// Instructions of an invalidation, with the queue's lock held.
    pub submit_instructions: f64,
    /// How long an invalidation is waited for, with that lock held.
    pub invalidation: Span,
    /// A lock's cache line on its way.
    pub line: LineTransfer,
}

/// How long a cache line takes to another core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineTransfer {
    /// Of the same chip.
    pub same_node: Span,
    /// Of another.
    pub other_node: Span,
}

/// What is mapped.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mapped {
    at: BusAddress,
    bytes: u64,
    lock: u32,
}

/// The mapping layer of a host.
#[derive(Debug)]
pub(super) struct Mapping {
    mapper: Mapper,
    pub(super) locks: Vec<Lock<u32>>,
    road: Road,
    window_pages: u64,
    cost: MappingCost,
    instruction_ns: f64,
    /// Where the next buffer lies.
    next: u64,
    pub(super) bill: Bill,
    pub(super) refused: u64,
}

/// Buffers lie one after the other in this part of memory, and again from its beginning.
const BUFFERS_BYTES: u64 = 512 << 20;
const MEMORY_BYTES: u64 = 1 << 30;
/// A buffer begins at a multiple of this, or of its size.
const ALIGNMENT_BYTES: u64 = 2048;
/// Where an IOMMU's tables lie; they have four levels.
const TABLES: MemoryAddress = MemoryAddress(MEMORY_BYTES);
const TABLES_BYTES: u64 = 32 << 20;
const LEVELS: u32 = 4;
/// Below 4 GiB.
const LAST_LOW_PAGE: u64 = 0xf_ffff;
/// Bits of the adapter's addresses, in a window and without.
const WINDOW_BITS: u32 = 32;
const ALL_BITS: u32 = 64;

thread_local! {
    /// The CPU, in virtual time, that is mapping.
    static CPU: Cell<u32> = const { Cell::new(0) };
}

fn cpu() -> u32 {
    CPU.get()
}

impl Mapping {
    pub(super) fn new(
        road: Road,
        cost: MappingCost,
        instruction_ns: f64,
        cpus: u32,
    ) -> Result<Self, NetworkError> {
        let (mapper, locks, window_pages) = match road {
            Road::Direct => (Mapper::direct(Limits::of_bits(ALL_BITS), 0), 0, 0),
            Road::Window { bytes, locking } => {
                // Of pools, those that CPUs are hashed to and the large one.
                let locks = if locking == Locking::Pools { Pools::COUNT_MAX + 1 } else { 1 };
                (window(bytes, locking)?, locks, bytes >> ddw::DEFAULT_PAGE_SHIFT)
            }
            Road::Translated { forgets } => (translated(forgets, cpus)?, 1, 0),
        };
        let line = TransferCost {
            same_cpu: Span::ZERO,
            same_node: cost.line.same_node,
            other_node: cost.line.other_node,
        };
        let locks = (0..locks).map(|_| Lock::new(line)).collect::<Result<_, _>>()?;
        let mapper = mapper.watched(false);
        let (bill, next, refused) = (Bill::default(), 0, 0);
        Ok(Self { mapper, locks, road, window_pages, cost, instruction_ns, next, bill, refused })
    }

    /// Maps a buffer of this CPU; the steps to it go behind `steps`.
    pub(super) fn map(&mut self, on: u32, bytes: u64, steps: &mut Vec<Step>) -> Option<Mapped> {
        CPU.set(on);
        let memory = MemoryAddress(self.place(bytes));
        let mut bill = Bill::default();
        let mapped = self.mapper.map(memory, bytes, Direction::Bidirectional, &mut bill);
        let lock = self.lock_of(mapped.as_ref().ok());
        self.pay(lock, bill, Order::LockFirst, steps);
        match mapped {
            Ok(at) => Some(Mapped { at, bytes, lock }),
            Err(_) => {
                self.refused += 1;
                None
            }
        }
    }

    /// The lock of the pool that an address came from; where there was none, of the pool that was searched last.
    fn lock_of(&self, at: Option<&BusAddress>) -> u32 {
        if !matches!(self.road, Road::Window { locking: Locking::Pools, .. }) {
            return 0;
        }
        let entry = at.map_or(self.window_pages, |at| at.0 >> ddw::DEFAULT_PAGE_SHIFT);
        Pools::of_entry(self.window_pages, 1 << ddw::DEFAULT_PAGE_SHIFT, entry)
    }

    /// Unmaps it.
    pub(super) fn unmap(&mut self, on: u32, mapped: Mapped, steps: &mut Vec<Step>) {
        CPU.set(on);
        let Mapped { at, bytes, lock } = mapped;
        let mut bill = Bill::default();
        if self.mapper.unmap(at, bytes, Direction::Bidirectional, &mut bill).is_err() {
            self.refused += 1;
        }
        self.pay(lock, bill, Order::LockLast, steps);
    }

    fn place(&mut self, bytes: u64) -> u64 {
        let unit = bytes.next_power_of_two().max(ALIGNMENT_BYTES);
        let start = self.next.next_multiple_of(unit);
        let start = if start + bytes > BUFFERS_BYTES { 0 } else { start };
        self.next = start + bytes;
        start
    }

    /// What a call did becomes steps of its CPU.
    fn pay(&mut self, lock: u32, bill: Bill, order: Order, steps: &mut Vec<Step>) {
        self.bill += bill;
        match self.road {
            Road::Direct => steps.push(self.work(self.cost.direct_instructions)),
            Road::Window { locking, .. } => self.pay_window(lock, locking, bill, order, steps),
            Road::Translated { .. } => self.pay_translated(lock, bill, steps),
        }
    }

    fn pay_translated(&self, lock: u32, bill: Bill, steps: &mut Vec<Step>) {
        steps.push(self.work(self.cost.translated_instructions));
        if bill.invalidation_waits > 0 {
            let waits = self.cost.invalidation.as_ps_f64() * bill.invalidation_waits as f64;
            let waited = Step::Work(Span::from_ps_f64(waits), Stage::Invalidation);
            steps.extend([
                Step::Acquire(lock),
                self.work(self.cost.submit_instructions),
                waited,
                Step::Release(lock),
            ]);
        }
    }

    fn pay_window(&self, lock: u32, locking: Locking, bill: Bill, order: Order, steps: &mut Vec<Step>) {
        steps.push(self.work(self.cost.window_instructions));
        let search = self.work(self.cost.locked_instructions);
        let calls = Step::Work(self.hypercalls(bill), Stage::Hypercall);
        let (acquire, release) = (Step::Acquire(lock), Step::Release(lock));
        match (locking, order) {
            (Locking::Table, _) => steps.extend([acquire, search, calls, release]),
            (_, Order::LockFirst) => steps.extend([acquire, search, release, calls]),
            (_, Order::LockLast) => steps.extend([calls, acquire, search, release]),
        }
    }

    fn work(&self, instructions: f64) -> Step {
        Step::Work(Span::from_ps_f64(instructions * self.instruction_ns * 1e3), Stage::Mapping)
    }

    fn hypercalls(&self, bill: Bill) -> Span {
        let further = bill.table_entries.saturating_sub(bill.hypercalls) as f64;
        let calls = bill.hypercalls as f64;
        Span::from_ps_f64(calls * self.cost.hypercall.as_ps_f64() + further * self.cost.entry.as_ps_f64())
    }
}

/// Addresses are allocated before entries are written, and freed after they are cleared.
#[derive(Debug, Clone, Copy)]
enum Order {
    LockFirst,
    LockLast,
}

fn window(bytes: u64, locking: Locking) -> Result<Mapper, NetworkError> {
    let partition = Partition { memory_bytes: MEMORY_BYTES, default_bytes: bytes, offer: None };
    let slot = partition.slot(cpu)?;
    let limits = Limits::of_bits(WINDOW_BITS);
    if locking == Locking::Pools {
        return Ok(slot.default_mapper(limits));
    }
    let one = |space: &Space| Ok(Box::new(Bitmap::new(space)?) as Box<_>);
    let domain = Domain::new(slot.default_window().clone(), one, Invalidation::Elsewhere)
        .map_err(PartitionError::Space)?;
    Ok(Mapper::translated(limits, Arc::new(domain.with_any_addresses())))
}

/// Tables, an IOMMU that nobody asks, and Linux's per-CPU allocator over them.
fn translated(forgets: Forgets, cpus: u32) -> Result<Mapper, NetworkError> {
    let ram = Arc::new(Ram::new(TABLES, TABLES_BYTES));
    let unit = Arc::new(Unit::new(Arc::clone(&ram), Iotlb::new(1, 1)));
    let frames = Arc::new(Frames::new(TABLES, TABLES_BYTES));
    let tables: SoftwareDomain<Vtd> = SoftwareDomain::new(unit, frames, LEVELS)?;
    let invalidation = match forgets {
        Forgets::AtOnce => Invalidation::Strict,
        Forgets::Later => Invalidation::Lazy(FlushQueue::new(cpus as usize, || cpu() as usize)),
    };
    let magazines = |space: &Space| {
        let magazines = Magazines::new(space, LAST_LOW_PAGE, cpus, cpu, Depot::Bounded)?;
        Ok(Box::new(magazines) as Box<_>)
    };
    let domain = Domain::new(Arc::new(tables), magazines, invalidation).map_err(PartitionError::Space)?;
    Ok(Mapper::translated(Limits::of_bits(ALL_BITS), Arc::new(domain)))
}
