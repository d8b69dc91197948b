//! Lazy invalidation by the domain's own thread.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the report")]

use dma::{
    Access, BusAddress, Direction, DmaCounters, Domain, FlushQueue, Frames, Iotlb, Limits, MapError, Mapper,
    MemoryAddress, Ram, Requester, SoftwareAdapter, SoftwareDomain, ThreadMapper, Translation, Unit,
    UnmapError, Vtd, Window,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

const ADAPTER: Requester = Requester(0x0300);
const BUFFER: MemoryAddress = MemoryAddress(0x20_0000);
const BYTES: u64 = 4096;
/// Far more than an interval, for machines that are busy.
const PATIENCE: Duration = Duration::from_secs(60);

fn machine() -> (SoftwareAdapter, SoftwareDomain<Vtd>) {
    let ram = Arc::new(Ram::new(MemoryAddress(0), 4 << 20));
    let unit = Arc::new(Unit::new(ram, Iotlb::new(64, 4)));
    let frames = Arc::new(Frames::new(MemoryAddress(0), 1 << 20));
    let table = SoftwareDomain::new(Arc::clone(&unit), frames, 4).unwrap();
    table.attach(ADAPTER);
    (unit.adapter(ADAPTER), table)
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_thread_ends_the_access_to_what_was_unmapped() {
    let (adapter, table) = machine();
    let domain = Domain::builder(Arc::new(table)).lazy().build().unwrap();
    let mapper = Mapper::translated(Limits::of_bits(48), Arc::clone(&domain));
    let thread = ThreadMapper::new(&mapper);
    // Twice: the thread sleeps between, and is woken again.
    for round in 1..=2 {
        let at = thread.map(BUFFER, BYTES, Direction::FromDevice).unwrap();
        adapter.write(at, b"received").unwrap();
        thread.unmap(at, BYTES, Direction::FromDevice).unwrap();
        wait_until("the adapter's access ends", || adapter.write(at, b"too late").is_err());
        wait_until("the addresses are free", || domain.waiting() == 0);
        wait_until("the thread has counted", || domain.flush_thread_counters().frees == round);
    }
    // The calls themselves invalidated nothing.
    assert_eq!((mapper.counters().invalidations, mapper.counters().frees), (0, 0));
    assert_eq!(domain.flush_thread_counters().invalidations, 2);
}

/// Until the interval is over, or the queue is flushed, the adapter reaches what was unmapped: which of both came first is not
/// for a test to say on a busy machine, so this one has no thread.
#[test]
fn a_caller_flushes_a_queue_of_its_own() {
    let (adapter, table) = machine();
    let queue = FlushQueue::new(1, || 0);
    let domain = Domain::builder(Arc::new(table)).flush_queue(queue).build().unwrap();
    let mapper = Mapper::translated(Limits::of_bits(48), Arc::clone(&domain));
    let thread = ThreadMapper::new(&mapper);
    let at = thread.map(BUFFER, BYTES, Direction::FromDevice).unwrap();
    adapter.write(at, b"received").unwrap();
    thread.unmap(at, BYTES, Direction::FromDevice).unwrap();
    sleep(2 * Duration::from_nanos(FlushQueue::INTERVAL_NS));
    assert!(adapter.write(at, b"in time").is_ok());
    domain.flush(&mut dma::DmaCounters::default());
    assert!(adapter.write(at, b"too late").is_err());
    assert_eq!(domain.flush_thread_counters(), dma::DmaCounters::default());
}

/// The next domain of the translation allocates the same addresses.
#[test]
fn a_domain_flushes_when_it_is_dropped() {
    let (adapter, table) = machine();
    let table = Arc::new(table);
    for lazily in [Domain::builder(table.clone()).lazy(), queued(&table)] {
        let mapper = Mapper::translated(Limits::of_bits(48), lazily.build().unwrap());
        let mut counters = DmaCounters::default();
        let at = mapper.map(BUFFER, BYTES, Direction::FromDevice, &mut counters).unwrap();
        adapter.write(at, b"received").unwrap();
        mapper.unmap(at, BYTES, Direction::FromDevice, &mut counters).unwrap();
        mapper.close().unwrap();
        // The thread may be flushing, and then is the one that drops the domain.
        wait_until("the adapter's access ends", || adapter.write(at, b"too late").is_err());
        let next = Mapper::translated(Limits::of_bits(48), Domain::builder(table.clone()).build().unwrap());
        let other = MemoryAddress(BUFFER.0 + BYTES);
        assert_eq!(next.map(other, BYTES, Direction::FromDevice, &mut counters), Ok(at));
        adapter.write(at, b"to the other buffer").unwrap();
        next.unmap(at, BYTES, Direction::FromDevice, &mut counters).unwrap();
    }
}

/// A domain whose queue nobody but itself flushes.
fn queued(table: &Arc<SoftwareDomain<Vtd>>) -> dma::DomainBuilder {
    Domain::builder(Arc::clone(table) as _).flush_queue(FlushQueue::new(1, || 0))
}

/// A table that takes everything, and panics when it is invalidated for the first time.
struct PanicsOnce {
    window: Window,
    invalidations: AtomicU32,
}

impl Translation for PanicsOnce {
    fn window(&self) -> &Window {
        &self.window
    }

    fn map(
        &self,
        _at: BusAddress,
        _memory: MemoryAddress,
        _bytes: u64,
        _access: Access,
        _counters: &mut DmaCounters,
    ) -> Result<(), MapError> {
        Ok(())
    }

    fn unmap(&self, _at: BusAddress, _bytes: u64, _counters: &mut DmaCounters) -> Result<(), UnmapError> {
        Ok(())
    }

    fn invalidate(&self, _at: BusAddress, _bytes: u64, _counters: &mut DmaCounters) {}

    fn invalidate_all(&self, _counters: &mut DmaCounters) {
        assert!(self.invalidations.fetch_add(1, Ordering::Relaxed) > 0, "the panic that the test is about");
    }

    fn find(&self, _at: BusAddress) -> Option<MemoryAddress> {
        None
    }
}

#[test]
fn the_thread_survives_a_panic_in_the_translation() {
    let (first, last) = (BusAddress(0), BusAddress((1 << 30) - 1));
    let window = Window { first, last, granule_bytes: BYTES, reserved: Vec::new() };
    let table = Arc::new(PanicsOnce { window, invalidations: AtomicU32::new(0) });
    let domain = Domain::builder(Arc::clone(&table) as _).lazy().build().unwrap();
    let mapper = Mapper::translated(Limits::of_bits(48), Arc::clone(&domain));
    let thread = ThreadMapper::new(&mapper);
    for _ in 0..2 {
        let at = thread.map(BUFFER, BYTES, Direction::FromDevice).unwrap();
        thread.unmap(at, BYTES, Direction::FromDevice).unwrap();
        wait_until("what waits is flushed", || domain.waiting() == 0);
        assert!(table.invalidations.load(Ordering::Relaxed) > 1);
    }
}

/// As documented: whoever unmaps a part without checks loses the whole buffer's addresses, and hears of it only when the domain
/// is strict.
#[test]
fn a_part_that_is_unmapped_costs_the_addresses_of_all() {
    for (is_lazy, reported) in [(false, true), (true, false)] {
        let (_, table) = machine();
        let table = Arc::new(table);
        let builder = if is_lazy { queued(&table) } else { Domain::builder(table) };
        let domain = builder.build().unwrap();
        let mapper = Mapper::translated(Limits::of_bits(48), Arc::clone(&domain)).with_debug(false);
        let mut counters = DmaCounters::default();
        let at = mapper.map(BUFFER, 2 * BYTES, Direction::FromDevice, &mut counters).unwrap();
        for half in [at, BusAddress(at.0 + BYTES)] {
            let unmapped = mapper.unmap(half, BYTES, Direction::FromDevice, &mut counters);
            assert_eq!(matches!(unmapped, Err(dma::DmaError::Free(_))), reported);
        }
        domain.flush(&mut counters);
        assert_eq!((domain.waiting(), domain.usage().allocated_pages, counters.frees), (0, 2, 0));
    }
}

#[test]
#[cfg(target_os = "linux")]
fn the_thread_ends_with_its_domain() {
    /// Threads of this process that flush. Other tests run at the same time, so only those of this one's count.
    fn flush_threads() -> Vec<String> {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
        let name =
            |task: &std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        let flushing = tasks.filter(|task| name(task).trim() == "dma-flush");
        flushing.map(|task| task.file_name().to_string_lossy().into_owned()).collect()
    }
    let before = flush_threads();
    let (_, table) = machine();
    let domain = Domain::builder(Arc::new(table)).lazy().build().unwrap();
    wait_until("the thread has begun", || flush_threads().iter().any(|thread| !before.contains(thread)));
    let own: Vec<String> = flush_threads().into_iter().filter(|thread| !before.contains(thread)).collect();
    // With something that waits, so that the thread is asleep for its interval.
    let mapper = Mapper::translated(Limits::of_bits(48), domain);
    let at = ThreadMapper::new(&mapper).map(BUFFER, BYTES, Direction::FromDevice).unwrap();
    ThreadMapper::new(&mapper).unmap(at, BYTES, Direction::FromDevice).unwrap();
    drop(mapper);
    wait_until("the thread has ended", || own.iter().all(|thread| !flush_threads().contains(thread)));
}

#[test]
fn threads_are_counted_while_they_run_and_after() {
    const THREADS: u64 = 4;
    const PAIRS: u64 = 500;
    let (_, table) = machine();
    let domain = Domain::builder(Arc::new(table)).build().unwrap();
    let mapper = Mapper::translated(Limits::of_bits(48), domain);
    let kept = ThreadMapper::new(&mapper);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let mapper = &mapper;
            scope.spawn(move || {
                let mapper = ThreadMapper::new(mapper);
                for pair in 1..=PAIRS {
                    let memory = MemoryAddress(BUFFER.0 + thread * BYTES);
                    let at = mapper.map(memory, BYTES, Direction::ToDevice).unwrap();
                    mapper.unmap(at, BYTES, Direction::ToDevice).unwrap();
                    assert_eq!((mapper.counters().mappings, mapper.counters().unmappings), (pair, pair));
                }
            });
        }
        // The sum only grows.
        let mut before = 0;
        while before < THREADS * PAIRS {
            let now = mapper.counters().mappings;
            assert!((before..=THREADS * PAIRS).contains(&now));
            before = now;
        }
    });
    let sum = mapper.counters();
    assert_eq!(
        (sum.mappings, sum.unmappings, sum.invalidations),
        (THREADS * PAIRS, THREADS * PAIRS, THREADS * PAIRS)
    );
    kept.map(BUFFER, BYTES, Direction::ToDevice).unwrap();
    assert_eq!(mapper.counters().mappings, sum.mappings + 1);
    drop(kept);
    assert_eq!(mapper.counters().mappings, sum.mappings + 1, "of a view that is gone");
}
