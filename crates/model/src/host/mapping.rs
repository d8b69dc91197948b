//! What the hosts' mapping layer does, and what that costs.

use super::HostError;
use super::cpu::Step;
use super::cpus::Cpus;
use super::memory::Memory;
use super::stage::Stage;
use super::translator::{IommuSetup, Lookups, Tables, Translator};
use crate::partition::{Partition, PartitionError};
use des::{Span, Time};
use dma::{
    BusAddress, Direction, DmaCounters, Domain, FlushQueue, Frames, Invalidation, Iotlb, Limits, Mapper,
    MemoryAddress, Ram, Requester, SoftwareDomain, Unit,
};
use iova::{Bitmap, Depot, Magazines, Pools, Space};
use std::cell::Cell;
use std::sync::Arc;

/// How memory is mapped for the adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DmaPath {
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

impl DmaPath {
    /// Locks that mappings by it take.
    pub(crate) fn locks(self) -> u32 {
        match self {
            // Of pools, those that CPUs are hashed to and the large one.
            Self::Window { locking: Locking::Pools, .. } => Pools::COUNT_MAX + 1,
            _ => 1,
        }
    }
}

/// When an IOMMU is made to forget what was unmapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Forgets {
    /// At once: each unmapping waits for an invalidation.
    AtOnce,
    /// When a CPU has unmapped some hundred ranges: one invalidation for all of them.
    Later,
}

/// The locks of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
}

/// What is mapped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mapped {
    at: BusAddress,
    bytes: u64,
    lock: u32,
    /// Where the memory is.
    node: u32,
}

impl Mapped {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The mapping layer of a host, and how an adapter reaches what is mapped.
#[derive(Debug)]
pub(crate) struct Mapping {
    mapper: Mapper,
    dma_path: DmaPath,
    cost: MappingCost,
    cpus: Cpus,
    /// What an invalidation takes the IOMMU, and whether the lock is held while it is waited for, where there is a queue.
    queued: Option<(Span, bool)>,
    translator: Option<Translator>,
    memory: Option<Memory>,
    /// The first of its locks, among those of its host.
    first_lock: u32,
    /// Where the next buffer lies.
    next: u64,
    pub(crate) counters: DmaCounters,
    pub(crate) refused: u64,
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

/// Its name on the bus.
const ADAPTER: Requester = Requester(0x0100);

thread_local! {
    /// The CPU, in virtual time, that is mapping.
    static CPU: Cell<u32> = const { Cell::new(0) };
}

fn cpu() -> u32 {
    CPU.get()
}

impl Mapping {
    pub(crate) fn new(dma_path: DmaPath, cost: MappingCost, cpus: &Cpus) -> Result<Self, HostError> {
        let (mapper, _) = mapper(dma_path, cpus, Iotlb::new(1, 1))?;
        Ok(Self {
            mapper,
            dma_path,
            cost,
            cpus: cpus.clone(),
            queued: None,
            translator: None,
            memory: None,
            first_lock: 0,
            next: 0,
            counters: DmaCounters::default(),
            refused: 0,
        })
    }

    /// With the hardware's side of the IOMMU, before anything is mapped. There is none where nothing translates.
    pub(crate) fn with_iommu(mut self, setup: Option<&IommuSetup>) -> Result<Self, HostError> {
        let Some(setup) = setup else { return Ok(self) };
        let (mapper, tables) = mapper(self.dma_path, &self.cpus, setup.hardware.iotlb())?;
        self.mapper = mapper;
        self.translator = tables.map(|tables| Translator::new(setup, tables));
        if let (DmaPath::Translated { forgets }, Some(queue)) = (self.dma_path, setup.queue) {
            let takes = match forgets {
                Forgets::AtOnce => self.cost.invalidation,
                Forgets::Later => queue.flush,
            };
            self.queued = Some((takes, queue.waits_with_lock));
        }
        Ok(self)
    }

    /// One of several of its host: its locks are those from this one on.
    pub(crate) fn with_locks_from(self, first_lock: u32) -> Self {
        Self { first_lock, ..self }
    }

    /// With memory of several nodes.
    pub(crate) fn with_memory(self, memory: Option<Memory>) -> Self {
        Self { memory, ..self }
    }

    /// Maps a buffer of this CPU; the steps to it go behind `steps`.
    pub(crate) fn map<E>(&mut self, on: u32, bytes: u64, steps: &mut Vec<Step<E>>) -> Option<Mapped> {
        CPU.set(on);
        let memory = MemoryAddress(self.place(bytes));
        let mut counters = DmaCounters::default();
        let mapped = self.mapper.map(memory, bytes, Direction::Bidirectional, &mut counters);
        let lock = self.lock_of(mapped.as_ref().ok());
        self.pay(lock, counters, Order::LockFirst, steps);
        match mapped {
            Ok(at) => Some(Mapped { at, bytes, lock, node: self.cpus.node(on) }),
            Err(_) => {
                self.refused += 1;
                None
            }
        }
    }

    /// The lock of the pool that an address came from; where there was none, of the pool that was searched last.
    fn lock_of(&self, at: Option<&BusAddress>) -> u32 {
        let DmaPath::Window { bytes, locking: Locking::Pools } = self.dma_path else {
            return self.first_lock;
        };
        let page = |bytes: u64| bytes >> ddw::DEFAULT_PAGE_SHIFT;
        let entry = page(at.map_or(bytes, |at| at.0));
        self.first_lock + Pools::of_entry(page(bytes), 1 << ddw::DEFAULT_PAGE_SHIFT, entry)
    }

    /// Unmaps it.
    pub(crate) fn unmap<E>(&mut self, on: u32, mapped: Mapped, steps: &mut Vec<Step<E>>) {
        CPU.set(on);
        let Mapped { at, bytes, lock, .. } = mapped;
        let mut counters = DmaCounters::default();
        if self.mapper.unmap(at, bytes, Direction::Bidirectional, &mut counters).is_err() {
            self.refused += 1;
        }
        if let Some(translator) = &mut self.translator {
            translator.unmapped(at, bytes, &counters);
        }
        self.pay(lock, counters, Order::LockLast, steps);
    }

    /// Memory that an adapter and its driver share for good, on the adapter's node: before time begins, and none of what is mapped
    /// and unmapped. Nothing where nothing translates.
    pub(crate) fn share(&mut self, bytes: u64) -> Option<Mapped> {
        self.translator.as_ref()?;
        // Else it would be that of whoever mapped last on this thread, in another run.
        CPU.set(0);
        let memory = MemoryAddress(self.place(bytes));
        let at =
            self.mapper.map(memory, bytes, Direction::Bidirectional, &mut DmaCounters::default()).ok()?;
        let node = self.memory.map_or(0, |memory| memory.adapter_node);
        Some(Mapped { at, bytes, lock: 0, node })
    }

    /// Whether an adapter reaches all that is mapped at once.
    pub(crate) fn is_at_hand(&self) -> bool {
        self.translator.is_none() && self.memory.is_none()
    }

    /// When an adapter that reads or writes bytes of what is mapped from now on has reached them: at once, but for walks of the
    /// IOMMU and the way to another node.
    pub(crate) fn reach(&mut self, now: Time, mapped: &Mapped, from: u64, bytes: u64) -> Time {
        let from = from.min(mapped.bytes);
        let bytes = bytes.min(mapped.bytes - from);
        if bytes == 0 {
            return now;
        }
        let translated = match &mut self.translator {
            None => now,
            Some(translator) => translator.translate(now, BusAddress(mapped.at.0 + from), bytes),
        };
        translated + self.memory.map_or(Span::ZERO, |memory| memory.dma(mapped.node))
    }

    /// What became of an adapter's accesses up to now, where that is modelled.
    pub(crate) fn lookups(&self, now: Time) -> Option<Lookups> {
        self.translator.as_ref().map(|translator| translator.lookups(now))
    }

    fn place(&mut self, bytes: u64) -> u64 {
        let unit = bytes.next_power_of_two().max(ALIGNMENT_BYTES);
        let start = self.next.next_multiple_of(unit);
        let start = if start + bytes > BUFFERS_BYTES { 0 } else { start };
        self.next = start + bytes;
        start
    }

    /// What a call did becomes steps of its CPU.
    fn pay<E>(&mut self, lock: u32, counters: DmaCounters, order: Order, steps: &mut Vec<Step<E>>) {
        self.counters += counters;
        match self.dma_path {
            DmaPath::Direct => steps.push(self.work(self.cost.direct_instructions)),
            DmaPath::Window { locking, .. } => self.pay_window(lock, locking, counters, order, steps),
            DmaPath::Translated { .. } => self.pay_translated(lock, counters, steps),
        }
    }

    fn pay_translated<E>(&self, lock: u32, counters: DmaCounters, steps: &mut Vec<Step<E>>) {
        steps.push(self.work(self.cost.translated_instructions));
        if counters.invalidation_waits == 0 {
            return;
        }
        let times = counters.invalidation_waits as f64;
        let waits = |each: Span| Span::from_ps_f64(each.as_ps_f64() * times);
        let (acquire, release) = (Step::Acquire(lock), Step::Release(lock));
        let submit = self.work(self.cost.submit_instructions);
        match self.queued {
            None => {
                let waited = Step::Wait(waits(self.cost.invalidation), Stage::Invalidation);
                steps.extend([acquire, submit, waited, release]);
            }
            Some((takes, true)) => {
                steps.extend([acquire, submit, Step::Submit(waits(takes)), Step::Await, release]);
            }
            Some((takes, false)) => {
                steps.extend([acquire, submit, Step::Submit(waits(takes)), release, Step::Await]);
            }
        }
    }

    fn pay_window<E>(
        &self,
        lock: u32,
        locking: Locking,
        counters: DmaCounters,
        order: Order,
        steps: &mut Vec<Step<E>>,
    ) {
        steps.push(self.work(self.cost.window_instructions));
        let search = self.work(self.cost.locked_instructions);
        let calls = Step::Work(self.hypercalls(counters), Stage::Hypercall);
        let (acquire, release) = (Step::Acquire(lock), Step::Release(lock));
        match (locking, order) {
            (Locking::Table, _) => steps.extend([acquire, search, calls, release]),
            (_, Order::LockFirst) => steps.extend([acquire, search, release, calls]),
            (_, Order::LockLast) => steps.extend([calls, acquire, search, release]),
        }
    }

    fn work<E>(&self, instructions: f64) -> Step<E> {
        Step::Work(self.cpus.time_of(instructions), Stage::Mapping)
    }

    fn hypercalls(&self, counters: DmaCounters) -> Span {
        let further = counters.table_entries.saturating_sub(counters.hypercalls) as f64;
        let calls = counters.hypercalls as f64;
        Span::from_ps_f64(calls * self.cost.hypercall.as_ps_f64() + further * self.cost.entry.as_ps_f64())
    }
}

/// Addresses are allocated before entries are written, and freed after they are cleared.
#[derive(Debug, Clone, Copy)]
enum Order {
    LockFirst,
    LockLast,
}

/// A driver's mapper, and the tables that it writes.
fn mapper(dma_path: DmaPath, cpus: &Cpus, iotlb: Iotlb) -> Result<(Mapper, Option<Tables>), HostError> {
    let (mapper, tables) = match dma_path {
        DmaPath::Direct => (Mapper::direct(Limits::of_bits(ALL_BITS), 0), None),
        DmaPath::Window { bytes, locking } => window(bytes, locking, iotlb)?,
        DmaPath::Translated { forgets } => translated(forgets, cpus.threads(), iotlb)?,
    };
    Ok((mapper.with_debug(false), tables))
}

fn window(bytes: u64, locking: Locking, known: Iotlb) -> Result<(Mapper, Option<Tables>), HostError> {
    let partition = Partition { memory_bytes: MEMORY_BYTES, default_bytes: bytes, offer: None };
    let slot = partition.slot(cpu)?;
    let limits = Limits::of_bits(WINDOW_BITS);
    let window = slot.default_window();
    let tables = Some(Tables::Window { window: window.clone(), known: Box::new(known) });
    if locking == Locking::Pools {
        return Ok((slot.default_mapper(limits), tables));
    }
    let one = |space: &Space| Ok(Box::new(Bitmap::new(space)?) as Box<_>);
    let domain = Domain::new(window.clone(), one, Invalidation::Elsewhere).map_err(PartitionError::Space)?;
    Ok((Mapper::translated(limits, Arc::new(domain.with_any_addresses())), tables))
}

/// Tables, an IOMMU that reads them for the adapter, and Linux's per-CPU allocator over them.
fn translated(forgets: Forgets, cpus: u32, iotlb: Iotlb) -> Result<(Mapper, Option<Tables>), HostError> {
    let ram = Arc::new(Ram::new(TABLES, TABLES_BYTES));
    let unit = Arc::new(Unit::new(Arc::clone(&ram), iotlb));
    let frames = Arc::new(Frames::new(TABLES, TABLES_BYTES));
    let tables = Arc::new(SoftwareDomain::new(Arc::clone(&unit), frames, LEVELS)?);
    tables.attach(ADAPTER);
    let invalidation = match forgets {
        Forgets::AtOnce => Invalidation::Strict,
        Forgets::Later => Invalidation::Lazy(FlushQueue::new(cpus as usize, || cpu() as usize)),
    };
    let magazines = |space: &Space| {
        let magazines = Magazines::new(space, LAST_LOW_PAGE, cpus, cpu, Depot::Bounded)?;
        Ok(Box::new(magazines) as Box<_>)
    };
    let domain = Domain::new(tables.clone(), magazines, invalidation).map_err(PartitionError::Space)?;
    let mapper = Mapper::translated(Limits::of_bits(ALL_BITS), Arc::new(domain));
    let adapter = unit.adapter(ADAPTER);
    Ok((mapper, Some(Tables::Memory { unit, adapter, domain: tables })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::LineTransfer;
    use crate::iommu::Hardware;

    fn mapping(dma_path: DmaPath, forgets_domains: bool) -> Mapping {
        let line = LineTransfer { same_node: Span::ZERO, other_node: Span::ZERO };
        let cpus = Cpus {
            cores: 2,
            cores_per_node: 2,
            core_capacity: vec![1.0],
            instruction_ns: 1.0,
            wake: Span::ZERO,
            line,
        };
        let cost = MappingCost {
            direct_instructions: 0.0,
            window_instructions: 0.0,
            locked_instructions: 0.0,
            hypercall: Span::ZERO,
            entry: Span::ZERO,
            translated_instructions: 0.0,
            submit_instructions: 0.0,
            invalidation: Span::ZERO,
        };
        let (walk, walk_gap) = (Span::from_ns(300), Span::from_ns(50));
        let hardware = Hardware { entries: 64, ways: 64, walk, walk_gap };
        let setup = IommuSetup { hardware, forgets_domains, queue: None };
        Mapping::new(dma_path, cost, &cpus).unwrap().with_iommu(Some(&setup)).unwrap()
    }

    /// What becomes of an adapter that goes on reading what was unmapped: addresses looked up, missed, stale and blocked.
    fn late(dma_path: DmaPath) -> [u64; 4] {
        let mut mapping = mapping(dma_path, false);
        let steps = &mut Vec::<Step<()>>::new();
        let one = mapping.map(0, 4096, steps).unwrap();
        assert_eq!(mapping.reach(Time::ZERO, &one, 0, 4096), Time::from_ps(300_000));
        assert_eq!(mapping.reach(Time::ZERO, &one, 100, 4096), Time::ZERO);
        mapping.unmap(0, one, steps);
        mapping.reach(Time::ZERO, &one, 0, 64);
        let Lookups { all, missed, stale, blocked, .. } = mapping.lookups(Time::ZERO).unwrap();
        [all, missed, stale, blocked]
    }

    #[test]
    fn lazily_an_adapter_still_reaches_what_is_unmapped_and_else_it_does_not() {
        assert_eq!(late(DmaPath::Translated { forgets: Forgets::Later }), [3, 1, 1, 0]);
        assert_eq!(late(DmaPath::Translated { forgets: Forgets::AtOnce }), [3, 2, 0, 1]);
        for locking in [Locking::Table, Locking::Bitmap, Locking::Pools] {
            assert_eq!(late(DmaPath::Window { bytes: 1 << 30, locking }), [3, 2, 0, 1]);
        }
    }

    #[test]
    fn a_range_is_forgotten_or_all_of_the_domain() {
        for (forgets_domains, missed) in [(false, 2), (true, 3)] {
            let mut mapping = mapping(DmaPath::Translated { forgets: Forgets::AtOnce }, forgets_domains);
            let steps = &mut Vec::<Step<()>>::new();
            let [kept, gone] = [0, 1].map(|_| mapping.map(0, 4096, steps).unwrap());
            for mapped in [kept, gone] {
                mapping.reach(Time::ZERO, &mapped, 0, 64);
            }
            mapping.unmap(0, gone, steps);
            mapping.reach(Time::ZERO, &kept, 0, 64);
            assert_eq!(mapping.lookups(Time::ZERO).unwrap().missed, missed);
        }
    }
}
