//! The host's mapping layer: runs the real code of `dma`, and turns its counters into CPU time.

use super::HostError;
use super::cpu::Step;
use super::cpus::Cpus;
use super::memory::Memory;
use super::stage::Stage;
use super::translator::{IommuSetup, Lookups, Tables, Translator};
use crate::partition::Partition;
use crate::steady::Level;
use des::{Span, Time};
use dma::{
    BusAddress, Direction, DmaCounters, Domain, FlushQueue, Frames, Iotlb, Limits, Mapper, MemoryAddress,
    Ram, Requester, SoftwareDomain, Unit,
};
use iova::{Bitmap, Depot, Magazines, Pools, Space};
use std::cell::Cell;
use std::sync::Arc;

/// DMA path of the adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DmaPath {
    /// Direct: all memory is mapped at an offset.
    Direct,
    /// A POWER window, whose entries the hypervisor writes.
    Window {
        /// Size of the window.
        bytes: u64,
        /// Its locks.
        locking: Locking,
    },
    /// An IOMMU with page tables in memory (VT-d, with Linux's IOVA allocator).
    Translated {
        /// Strict or lazy.
        mode: InvalidationMode,
    },
}

impl DmaPath {
    /// Number of locks.
    pub(crate) fn locks(self) -> u32 {
        match self {
            // The four pools that CPUs are hashed to, and the large one.
            Self::Window { locking: Locking::Pools, .. } => Pools::COUNT_MAX + 1,
            _ => 1,
        }
    }

    /// Its locks: for each, the number of cache lines that move with it.
    pub(crate) fn lock_lines(self, cost: &MappingCost) -> impl Iterator<Item = f64> + use<> {
        std::iter::repeat_n(cost.lock_lines, self.locks() as usize)
    }
}

/// When the IOTLB is invalidated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum InvalidationMode {
    /// Strict: each unmap waits for an invalidation.
    Strict,
    /// Lazy: one invalidation for some hundred unmapped ranges of a CPU.
    Lazy,
}

/// Locks of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Locking {
    /// One lock, held until the hypervisor has written the entry: Linux before 3.6.
    Table,
    /// One lock, held while the bitmap is searched.
    Bitmap,
    /// One lock per pool of the bitmap, including the pool for large requests: Linux since 3.6.
    Pools,
}

/// Costs of mapping.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MappingCost {
    /// Instructions per map or unmap without translation.
    pub direct_instructions: f64,
    /// Instructions per map or unmap in a window, outside its lock,
    pub window_instructions: f64,
    /// and while the lock is held.
    pub locked_instructions: f64,
    /// Duration of a hypercall that writes or clears one entry.
    pub hypercall: Span,
    /// Addition for each further entry of a call.
    pub entry: Span,
    /// Instructions per map or unmap with an IOMMU.
    pub translated_instructions: f64,
    /// Instructions to submit an invalidation, while the queue's lock is held.
    pub submit_instructions: f64,
    /// Duration of an invalidation of a range.
    pub invalidation: Span,
    /// Cache lines that go with a lock from core to core: its own, and those of what it guards.
    pub lock_lines: f64,
}

/// A mapping.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mapped {
    at: BusAddress,
    bytes: u64,
    lock: u32,
    /// The node of the memory.
    node: u32,
}

impl Mapped {
    /// Bytes that are mapped.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// State of a host's mapping layer, and of the adapter's accesses through it.
#[derive(Debug)]
pub(crate) struct Mapping {
    mapper: Mapper,
    dma_path: DmaPath,
    cost: MappingCost,
    cpus: Cpus,
    /// With an invalidation queue: duration of an invalidation, and whether the lock is held during the wait.
    queued: Option<(Span, bool)>,
    translator: Option<Translator>,
    memory: Option<Memory>,
    /// The index of its first lock among the host's.
    first_lock: u32,
    /// Offset of the next buffer.
    next: u64,
    pub(crate) counters: DmaCounters,
    pub(crate) refused: u64,
}

/// Buffers are taken in order from this range, which wraps around.
const BUFFERS_BYTES: u64 = 512 << 20;
const MEMORY_BYTES: u64 = 1 << 30;
/// Alignment of buffers.
const ALIGNMENT_BYTES: u64 = 2048;
/// Position of the IOMMU's tables.
const TABLES: MemoryAddress = MemoryAddress(MEMORY_BYTES);
const TABLES_BYTES: u64 = 32 << 20;
const LEVELS: u32 = 4;
/// The last page below 4 GiB.
const LAST_LOW_PAGE: u64 = 0xf_ffff;
/// DMA mask bits, with a window and without.
const WINDOW_BITS: u32 = 32;
const ALL_BITS: u32 = 64;

/// The adapter's requester ID.
const ADAPTER: Requester = Requester(0x0100);

thread_local! {
    /// The simulated CPU that is mapping.
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

    /// Adds the IOMMU hardware, before anything is mapped. Ignored without translation.
    pub(crate) fn with_iommu(mut self, setup: Option<&IommuSetup>) -> Result<Self, HostError> {
        let Some(setup) = setup else { return Ok(self) };
        let (mapper, tables) = mapper(self.dma_path, &self.cpus, setup.hardware.iotlb())?;
        self.mapper = mapper;
        self.translator = tables.map(|tables| Translator::new(setup, tables));
        if let (DmaPath::Translated { mode }, Some(queue)) = (self.dma_path, setup.queue) {
            let takes = match mode {
                InvalidationMode::Strict => self.cost.invalidation,
                InvalidationMode::Lazy => queue.flush,
            };
            self.queued = Some((takes, queue.waits_with_lock));
        }
        Ok(self)
    }

    /// For one of several mappings of a host: sets the index of its first lock.
    pub(crate) fn with_locks_from(self, first_lock: u32) -> Self {
        Self { first_lock, ..self }
    }

    /// Sets the NUMA distances of memory.
    pub(crate) fn with_memory(self, memory: Option<Memory>) -> Self {
        Self { memory, ..self }
    }

    /// Maps a buffer of a CPU, and appends the CPU's steps.
    pub(crate) fn map<E>(&mut self, on: u32, bytes: u64, steps: &mut Vec<Step<E>>) -> Option<Mapped> {
        CPU.set(on);
        let memory = MemoryAddress(self.place_buffer(bytes));
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

    /// The lock of the pool that an address is from; if allocation failed, of the pool searched last.
    fn lock_of(&self, at: Option<&BusAddress>) -> u32 {
        let DmaPath::Window { bytes, locking: Locking::Pools } = self.dma_path else {
            return self.first_lock;
        };
        let page = |bytes: u64| bytes >> ddw::DEFAULT_PAGE_SHIFT;
        let entry = page(at.map_or(bytes, |at| at.0));
        self.first_lock + Pools::of_entry(page(bytes), 1 << ddw::DEFAULT_PAGE_SHIFT, entry)
    }

    /// Unmaps a buffer, and appends the CPU's steps.
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

    /// Coherent memory on the adapter's node, mapped before the simulation starts. It is not part of the counted
    /// mappings. `None` without translation.
    pub(crate) fn share(&mut self, bytes: u64) -> Option<Mapped> {
        self.translator.as_ref()?;
        // The mapping layer reads the current CPU, which a previous run on this thread may have left.
        CPU.set(0);
        let memory = MemoryAddress(self.place_buffer(bytes));
        let at =
            self.mapper.map(memory, bytes, Direction::Bidirectional, &mut DmaCounters::default()).ok()?;
        let node = self.memory.map_or(0, |memory| memory.adapter_node);
        Some(Mapped { at, bytes, lock: 0, node })
    }

    /// Whether the adapter accesses mapped memory without delay.
    pub(crate) fn is_at_hand(&self) -> bool {
        self.translator.is_none() && self.memory.is_none()
    }

    /// When an access of the adapter to a part of a mapping has reached memory. Page walks and the distance to
    /// another node delay it.
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

    /// When the adapter has accessed all parts of some mappings: each a mapping, an offset and a length.
    pub(crate) fn reach_all(
        &mut self,
        now: Time,
        parts: impl IntoIterator<Item = (Mapped, u64, u64)>,
    ) -> Time {
        let reach = |(mapped, from, bytes)| self.reach(now, &mapped, from, bytes);
        parts.into_iter().map(reach).fold(now, Time::max)
    }

    /// The use of the IOTLB as a number that must not drift; `None` without one.
    pub(crate) fn iotlb_level(&self, name: &'static str) -> Option<Level> {
        self.translator.as_ref().map(|translator| Level::cache(name, translator.cache_use()))
    }

    /// Statistics of the adapter's lookups, if the IOMMU hardware is modelled.
    pub(crate) fn lookups(&self, now: Time) -> Option<Lookups> {
        self.translator.as_ref().map(|translator| translator.lookups(now))
    }

    /// The offset for the next buffer, in turn, aligned to its size.
    fn place_buffer(&mut self, bytes: u64) -> u64 {
        let unit = bytes.next_power_of_two().max(ALIGNMENT_BYTES);
        let start = self.next.next_multiple_of(unit);
        let start = if start + bytes > BUFFERS_BYTES { 0 } else { start };
        self.next = start + bytes;
        start
    }

    /// Turns a call's counters into steps of its CPU.
    fn pay<E>(&mut self, lock: u32, counters: DmaCounters, order: Order, steps: &mut Vec<Step<E>>) {
        self.counters += counters;
        match self.dma_path {
            DmaPath::Direct => steps.push(self.mapping_step(self.cost.direct_instructions)),
            DmaPath::Window { locking, .. } => self.pay_window(lock, locking, counters, order, steps),
            DmaPath::Translated { .. } => self.pay_translated(lock, counters, steps),
        }
    }

    /// Adds the steps of a translated mapping: its instructions, and the invalidation if there is one.
    fn pay_translated<E>(&self, lock: u32, counters: DmaCounters, steps: &mut Vec<Step<E>>) {
        steps.push(self.mapping_step(self.cost.translated_instructions));
        if counters.invalidation_waits == 0 {
            return;
        }
        let times = counters.invalidation_waits as f64;
        let waits = |each: Span| Span::from_ps_f64(each.as_ps_f64() * times);
        let (acquire, release) = (Step::Acquire(lock), Step::Release(lock));
        let submit = self.mapping_step(self.cost.submit_instructions);
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

    /// Adds the steps of a mapping in a TCE window: the search for entries under a lock, and the hypercalls.
    fn pay_window<E>(
        &self,
        lock: u32,
        locking: Locking,
        counters: DmaCounters,
        order: Order,
        steps: &mut Vec<Step<E>>,
    ) {
        steps.push(self.mapping_step(self.cost.window_instructions));
        let search = self.mapping_step(self.cost.locked_instructions);
        let calls = Step::Work(self.hypercall_time(counters), Stage::Hypercall);
        let (acquire, release) = (Step::Acquire(lock), Step::Release(lock));
        match (locking, order) {
            (Locking::Table, _) => steps.extend([acquire, search, calls, release]),
            (_, Order::LockFirst) => steps.extend([acquire, search, release, calls]),
            (_, Order::LockLast) => steps.extend([calls, acquire, search, release]),
        }
    }

    /// A step of instructions in the mapping code.
    fn mapping_step<E>(&self, instructions: f64) -> Step<E> {
        Step::Work(self.cpus.time_of(instructions), Stage::Mapping)
    }

    /// Time in the hypervisor for these calls and entries.
    fn hypercall_time(&self, counters: DmaCounters) -> Span {
        let further = counters.table_entries.saturating_sub(counters.hypercalls) as f64;
        let calls = counters.hypercalls as f64;
        Span::from_ps_f64(calls * self.cost.hypercall.as_ps_f64() + further * self.cost.entry.as_ps_f64())
    }
}

/// Addresses are allocated before entries are written, and freed after entries are cleared.
#[derive(Debug, Clone, Copy)]
enum Order {
    LockFirst,
    LockLast,
}

/// Creates a driver's mapper and its tables.
fn mapper(dma_path: DmaPath, cpus: &Cpus, iotlb: Iotlb) -> Result<(Mapper, Option<Tables>), HostError> {
    let (mapper, tables) = match dma_path {
        DmaPath::Direct => (Mapper::direct(Limits::of_bits(ALL_BITS), 0), None),
        DmaPath::Window { bytes, locking } => window_mapper(bytes, locking, iotlb)?,
        DmaPath::Translated { mode } => translated(mode, cpus.threads(), iotlb)?,
    };
    Ok((mapper.with_debug(false), tables))
}

/// A mapper of a TCE window, and its table.
fn window_mapper(bytes: u64, locking: Locking, known: Iotlb) -> Result<(Mapper, Option<Tables>), HostError> {
    let partition = Partition { memory_bytes: MEMORY_BYTES, default_bytes: bytes, offer: None };
    let slot = partition.slot(cpu)?;
    let limits = Limits::of_bits(WINDOW_BITS);
    let window = slot.default_window();
    let tables = Some(Tables::Window { window: window.clone(), known: Box::new(known) });
    if locking == Locking::Pools {
        return Ok((slot.default_mapper(limits), tables));
    }
    let one = |space: &Space| Ok(Box::new(Bitmap::new(space)?) as Box<_>);
    let domain = Domain::builder(window.clone()).allocator(one).any_addresses().build()?;
    Ok((Mapper::translated(limits, domain), tables))
}

/// A mapper over VT-d tables with Linux's per-CPU IOVA caches, and the IOMMU that reads them.
fn translated(
    mode: InvalidationMode,
    cpus: u32,
    iotlb: Iotlb,
) -> Result<(Mapper, Option<Tables>), HostError> {
    let ram = Arc::new(Ram::new(TABLES, TABLES_BYTES));
    let unit = Arc::new(Unit::new(Arc::clone(&ram), iotlb));
    let frames = Arc::new(Frames::new(TABLES, TABLES_BYTES));
    let tables = Arc::new(SoftwareDomain::new(Arc::clone(&unit), frames, LEVELS)?);
    tables.attach(ADAPTER);
    let magazines = move |space: &Space| {
        let magazines = Magazines::new(space, LAST_LOW_PAGE, cpus, cpu, Depot::Bounded)?;
        Ok(Box::new(magazines) as Box<_>)
    };
    let builder = Domain::builder(tables.clone()).allocator(magazines);
    let builder = match mode {
        InvalidationMode::Strict => builder,
        InvalidationMode::Lazy => builder.flush_queue(FlushQueue::new(cpus as usize, || cpu() as usize)),
    };
    let mapper = Mapper::translated(Limits::of_bits(ALL_BITS), builder.build()?);
    let adapter = unit.adapter(ADAPTER);
    Ok((mapper, Some(Tables::Memory { unit, adapter, domain: tables })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::LineTransfer;
    use crate::iommu::Hardware;

    fn mapping(dma_path: DmaPath, invalidates_domain: bool) -> Mapping {
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
            lock_lines: 1.0,
        };
        let (walk, walk_gap) = (Span::from_ns(300), Span::from_ns(50));
        let hardware = Hardware { entries: 64, ways: 64, walk, walk_gap };
        let setup = IommuSetup { hardware, invalidates_domain, queue: None };
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
    fn an_adapter_reaches_unmapped_memory_only_with_lazy_invalidation() {
        assert_eq!(late(DmaPath::Translated { mode: InvalidationMode::Lazy }), [3, 1, 1, 0]);
        assert_eq!(late(DmaPath::Translated { mode: InvalidationMode::Strict }), [3, 2, 0, 1]);
        for locking in [Locking::Table, Locking::Bitmap, Locking::Pools] {
            assert_eq!(late(DmaPath::Window { bytes: 1 << 30, locking }), [3, 2, 0, 1]);
        }
    }

    #[test]
    fn a_range_is_forgotten_or_all_of_the_domain() {
        for (invalidates_domain, missed) in [(false, 2), (true, 3)] {
            let mut mapping =
                mapping(DmaPath::Translated { mode: InvalidationMode::Strict }, invalidates_domain);
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
