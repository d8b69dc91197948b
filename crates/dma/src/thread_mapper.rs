//! A thread's view of a mapper, which counts for the thread: without shared writes, and readable by all.

use crate::{
    BusAddress, Coherent, Direction, DmaCounters, DmaError, Element, Mapper, MemoryAddress, Segment,
};
use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A [`Mapper`]'s calls for one thread, counted. [`Mapper::counters`] is the sum over all threads, at any time.
///
/// `M` is a `&Mapper` or an `Arc<Mapper>`. The calls are those of the mapper, without their last argument.
///
/// ```
/// use dma::{Direction, Limits, Mapper, MemoryAddress, ThreadMapper};
///
/// let mapper = Mapper::direct(Limits::of_bits(64), 0);
/// std::thread::scope(|scope| {
///     for thread in 0..4 {
///         let mapper = &mapper;
///         scope.spawn(move || {
///             let mapper = ThreadMapper::new(mapper);
///             let at = mapper.map(MemoryAddress(4096 * thread), 64, Direction::ToDevice)?;
///             mapper.unmap(at, 64, Direction::ToDevice)
///         });
///     }
/// });
/// assert_eq!(mapper.counters().mappings, 4);
/// ```
#[derive(Debug)]
pub struct ThreadMapper<M: Deref<Target = Mapper>> {
    mapper: M,
    counters: Arc<OneThread>,
    /// One thread at a time: two would lose counts.
    _not_shared: PhantomData<Cell<()>>,
}

/// Counters of all threads of a mapper.
#[derive(Debug, Default)]
pub(crate) struct ThreadCounters {
    threads: Mutex<Threads>,
}

#[derive(Debug, Default)]
struct Threads {
    running: Vec<Arc<OneThread>>,
    /// The sum of those whose views are gone.
    ended: DmaCounters,
}

/// Counters that one thread writes, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct OneThread([AtomicU64; DmaCounters::COUNT]);

impl<M: Deref<Target = Mapper>> ThreadMapper<M> {
    /// A view for the thread that uses it.
    pub fn new(mapper: M) -> Self {
        let counters = mapper.thread_counters().begin();
        Self { mapper, counters, _not_shared: PhantomData }
    }

    /// What this view's calls did.
    pub fn counters(&self) -> DmaCounters {
        self.counters.sum()
    }

    /// [`Mapper::map`].
    ///
    /// # Errors
    /// As there.
    pub fn map(
        &self,
        memory: MemoryAddress,
        bytes: u64,
        direction: Direction,
    ) -> Result<BusAddress, DmaError> {
        self.counted(|mapper, counters| mapper.map(memory, bytes, direction, counters))
    }

    /// [`Mapper::unmap`].
    ///
    /// # Errors
    /// As there.
    pub fn unmap(&self, at: BusAddress, bytes: u64, direction: Direction) -> Result<(), DmaError> {
        self.counted(|mapper, counters| mapper.unmap(at, bytes, direction, counters))
    }

    /// [`Mapper::map_list`].
    ///
    /// # Errors
    /// As there.
    pub fn map_list(&self, elements: &[Element], direction: Direction) -> Result<Vec<Segment>, DmaError> {
        self.counted(|mapper, counters| mapper.map_list(elements, direction, counters))
    }

    /// [`Mapper::unmap_list`].
    ///
    /// # Errors
    /// As there.
    pub fn unmap_list(
        &self,
        elements: &[Element],
        segments: &[Segment],
        direction: Direction,
    ) -> Result<(), DmaError> {
        self.counted(|mapper, counters| mapper.unmap_list(elements, segments, direction, counters))
    }

    /// [`Mapper::sync_for_cpu`].
    ///
    /// # Errors
    /// As there.
    pub fn sync_for_cpu(
        &self,
        at: BusAddress,
        offset: u64,
        bytes: u64,
        direction: Direction,
    ) -> Result<(), DmaError> {
        self.counted(|mapper, counters| mapper.sync_for_cpu(at, offset, bytes, direction, counters))
    }

    /// [`Mapper::sync_for_device`].
    ///
    /// # Errors
    /// As there.
    pub fn sync_for_device(
        &self,
        at: BusAddress,
        offset: u64,
        bytes: u64,
        direction: Direction,
    ) -> Result<(), DmaError> {
        self.counted(|mapper, counters| mapper.sync_for_device(at, offset, bytes, direction, counters))
    }

    /// [`Mapper::allocate_coherent`].
    ///
    /// # Errors
    /// As there.
    pub fn allocate_coherent(&self, bytes: u64) -> Result<Coherent, DmaError> {
        self.counted(|mapper, counters| mapper.allocate_coherent(bytes, counters))
    }

    /// [`Mapper::free_coherent`].
    ///
    /// # Errors
    /// As there.
    pub fn free_coherent(&self, coherent: Coherent) -> Result<(), DmaError> {
        self.counted(|mapper, counters| mapper.free_coherent(coherent, counters))
    }

    /// Makes a call and counts what it did.
    fn counted<T>(&self, call: impl FnOnce(&Mapper, &mut DmaCounters) -> T) -> T {
        let mut counters = DmaCounters::default();
        let result = call(&self.mapper, &mut counters);
        self.counters.add(counters);
        result
    }
}

impl<M: Deref<Target = Mapper>> Drop for ThreadMapper<M> {
    fn drop(&mut self) {
        self.mapper.thread_counters().end(&self.counters);
    }
}

impl ThreadCounters {
    /// The sum over all threads, those that ended too.
    pub(crate) fn sum(&self) -> DmaCounters {
        let threads = self.threads();
        let mut sum = threads.ended;
        threads.running.iter().for_each(|thread| sum += thread.sum());
        sum
    }

    /// Counters for one more thread.
    fn begin(&self) -> Arc<OneThread> {
        let counters = Arc::new(OneThread::default());
        self.threads().running.push(Arc::clone(&counters));
        counters
    }

    /// Keeps only the sum of what a thread counted.
    fn end(&self, counters: &Arc<OneThread>) {
        let mut threads = self.threads();
        threads.running.retain(|thread| !Arc::ptr_eq(thread, counters));
        threads.ended += counters.sum();
    }

    fn threads(&self) -> std::sync::MutexGuard<'_, Threads> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OneThread {
    /// Adds, by plain loads and stores: only one thread calls this.
    fn add(&self, more: DmaCounters) {
        for (number, more) in self.0.iter().zip(more.to_array()) {
            if more > 0 {
                number.store(number.load(Ordering::Relaxed) + more, Ordering::Relaxed);
            }
        }
    }

    fn sum(&self) -> DmaCounters {
        DmaCounters::from_array(self.0.each_ref().map(|number| number.load(Ordering::Relaxed)))
    }
}
