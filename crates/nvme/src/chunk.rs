//! A disk that takes a fixed number of requests at a time. The interface follows the block library of CAPI flash
//! (Open POWER, "capiflash", `src/block/README.md`): synchronous reads and writes, asynchronous ones whose result is
//! fetched later, and lists of both.
//!
//! ```text
//!   Chunk     of one thread: read, write, aread, awrite, aresult, listio, flush ...
//!     |
//!     +-- Drive     a queue pair of a controller; retries failed commands, aborts overdue ones, then resets
//!     |             the controller and resubmits what was in flight
//!     +-- Paths     the same disk through several controllers
//!     +-- FileRing  a file or the kernel's block device, by io_uring; `read_cached` and `read` take at once what is in the page cache
//!     +-- Backing   the same by system calls that wait
//!     +-- ServedQueue  a disk that another process drives (broker)
//! ```
//!
//! When a write returns without an error, the data is on the disk or in its volatile cache; [`flush`](Chunk::flush)
//! empties that cache. After a failed write each block may be old or new.
//!
//! Data is copied once, between the caller's memory and the request's buffer, which is mapped when the chunk is
//! opened. To avoid that copy use [`QueuePair`](crate::QueuePair) and [`Buffer`](crate::Buffer).

mod backing;
mod completion;
#[cfg(target_os = "linux")]
mod controller_cache;
#[cfg(target_os = "linux")]
mod disk_path;
mod drive;
mod error;
#[cfg(target_os = "linux")]
mod file_ring;
#[cfg(target_os = "linux")]
mod paths;

pub use backing::Backing;
pub use completion::Completion;
#[cfg(target_os = "linux")]
pub use disk_path::DiskPath;
pub use drive::{Drive, Events, RetryPolicy, Waiting};
pub use error::ChunkError;
#[cfg(target_os = "linux")]
pub use file_ring::FileRing;
#[cfg(target_os = "linux")]
pub use paths::Paths;

#[cfg(target_os = "linux")]
use crate::broker::ServedQueue;
use std::collections::VecDeque;

/// Handle of a request that is in flight, or whose result was not fetched yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Request {
    slot: u16,
    /// How often the slot was used before: a handle of an earlier use is rejected.
    generation: u64,
}

impl Request {
    /// Its slot, below [`Chunk::requests`]. Requests whose results were not fetched have different slots, so it can index what the caller
    /// knows of each.
    #[inline]
    pub fn slot(self) -> usize {
        self.slot.into()
    }
}

/// Whether to wait for a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Wait until the result is there.
    Yes,
    /// Return at once.
    No,
}

/// One request of a list.
#[derive(Debug)]
pub enum Item<'a> {
    /// Read blocks.
    Read {
        /// First block.
        first: u64,
        /// Destination, a whole number of blocks.
        into: &'a mut [u8],
    },
    /// Write blocks.
    Write {
        /// First block.
        first: u64,
        /// Source, a whole number of blocks.
        from: &'a [u8],
    },
}

/// An operation on a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Read { first: u64, blocks: u64 },
    Write { first: u64, blocks: u64 },
    WriteZeroes { first: u64, blocks: u64 },
    Deallocate { first: u64, blocks: u64 },
    Flush,
}

impl Operation {
    /// Whether it changes the disk.
    pub(crate) fn writes(self) -> bool {
        matches!(self, Self::Write { .. } | Self::WriteZeroes { .. } | Self::Deallocate { .. })
    }

    /// Blocks whose data it reads.
    #[cfg(target_os = "linux")]
    pub(crate) fn blocks_read(self) -> usize {
        if let Self::Read { blocks, .. } = self { blocks as usize } else { 0 }
    }

    /// Blocks that it has data for.
    #[cfg(target_os = "linux")]
    pub(crate) fn blocks_written(self) -> usize {
        if let Self::Write { blocks, .. } = self { blocks as usize } else { 0 }
    }
}

/// What the chunk's data is on.
#[derive(Debug)]
enum Backend {
    Drive(Box<Drive>),
    #[cfg(target_os = "linux")]
    Paths(Box<Paths>),
    #[cfg(target_os = "linux")]
    FileRing(Box<FileRing>),
    #[cfg(target_os = "linux")]
    Served(Box<ServedQueue>),
    Backing(Backing),
}

/// State of a slot.
#[derive(Debug)]
enum RequestState {
    Free,
    InFlight,
    Ended(Outcome),
}

/// Why a request failed; `None` if it did not. A result of this size is cheap to pass on.
type Outcome = Option<Box<ChunkError>>;

/// Out of the way of requests that succeed, so that what notes their end is small enough to be compiled into the loops that find it.
#[cold]
#[inline(never)]
fn boxed(error: ChunkError) -> Box<ChunkError> {
    Box::new(error)
}

#[derive(Debug)]
struct RequestSlot {
    state: RequestState,
    generation: u64,
    /// Length of a read's data in the slot's buffer; 0 for a write.
    read_bytes: usize,
}

/// A disk with a fixed number of request slots, for one thread.
#[derive(Debug)]
pub struct Chunk {
    disk: Backend,
    slots: Vec<RequestSlot>,
    /// The slots that are free. The one used last is the next: its buffer is still in the cache.
    free: Vec<u16>,
    blocks: u64,
    block_shift: u8,
    /// Most bytes of a request: the size of its buffer.
    request_bytes: usize,
    /// Requests that have ended since the last [`poll`](Self::poll), but in it; their results may have been fetched since.
    ended: Vec<Request>,
    /// Slots whose requests one poll finds ended; kept to avoid an allocation for each.
    polled: Vec<(u16, Outcome)>,
}

impl Backend {
    /// Calls `ended` for requests that have ended.
    fn process_completions(&mut self, wait: Wait, ended: &mut impl FnMut(u16, Result<(), ChunkError>)) {
        match self {
            Self::Drive(drive) => drive.process_completions(wait, ended),
            #[cfg(target_os = "linux")]
            Self::Paths(paths) => paths.process_completions(wait, ended),
            #[cfg(target_os = "linux")]
            Self::FileRing(file) => file.process_completions(wait, ended),
            #[cfg(target_os = "linux")]
            Self::Served(queue) => queue.process_completions(wait, ended),
            Self::Backing(_) => {}
        }
    }

    /// Notes that the results of these slots were fetched, as far as the disk wants to know.
    #[inline]
    fn note_fetched(&mut self, is_fetched: impl Fn(u16) -> bool) {
        match self {
            Self::Drive(drive) => drive.note_fetched(is_fetched),
            #[cfg(target_os = "linux")]
            Self::Paths(paths) => paths.note_fetched(is_fetched),
            #[cfg(target_os = "linux")]
            Self::Served(queue) => queue.note_fetched(is_fetched),
            _ => {}
        }
    }
}

impl From<Drive> for Chunk {
    fn from(drive: Drive) -> Self {
        let is = drive.namespace().format;
        let (requests, request_bytes) = (drive.requests(), drive.request_bytes());
        Self::new(Backend::Drive(Box::new(drive)), requests, request_bytes, is.blocks, is.block_shift)
    }
}

#[cfg(target_os = "linux")]
impl From<Paths> for Chunk {
    fn from(paths: Paths) -> Self {
        let is = paths.namespace().format;
        let (requests, request_bytes) = (paths.requests(), paths.request_bytes());
        Self::new(Backend::Paths(Box::new(paths)), requests, request_bytes, is.blocks, is.block_shift)
    }
}

#[cfg(target_os = "linux")]
impl From<FileRing> for Chunk {
    fn from(file: FileRing) -> Self {
        let (blocks, shift) = (file.blocks(), file.block_shift());
        let (requests, request_bytes) = (file.requests(), file.request_bytes());
        Self::new(Backend::FileRing(Box::new(file)), requests, request_bytes, blocks, shift)
    }
}

#[cfg(target_os = "linux")]
impl From<ServedQueue> for Chunk {
    fn from(queue: ServedQueue) -> Self {
        let (blocks, shift) = (queue.blocks(), queue.block_shift());
        let (requests, request_bytes) = (queue.requests(), queue.request_bytes());
        Self::new(Backend::Served(Box::new(queue)), requests, request_bytes, blocks, shift)
    }
}

impl From<Backing> for Chunk {
    fn from(file: Backing) -> Self {
        let (blocks, shift) = (file.blocks(), file.block_shift());
        let (requests, request_bytes) = (file.requests(), file.request_bytes());
        Self::new(Backend::Backing(file), requests, request_bytes, blocks, shift)
    }
}

impl Chunk {
    /// A disk with `requests` free slots.
    fn new(disk: Backend, requests: u16, request_bytes: usize, blocks: u64, block_shift: u8) -> Self {
        let free = |_| RequestSlot { state: RequestState::Free, generation: 0, read_bytes: 0 };
        Self {
            disk,
            slots: (0..requests).map(free).collect(),
            free: (0..requests).rev().collect(),
            blocks,
            block_shift,
            request_bytes,
            ended: Vec::new(),
            polled: Vec::new(),
        }
    }

    /// Size in blocks.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Size of a block in bytes.
    pub fn block_bytes(&self) -> usize {
        1 << self.block_shift
    }

    /// Most bytes of an asynchronous request. Synchronous ones may be longer: they are split.
    pub fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    /// Most requests in flight at once.
    pub fn requests(&self) -> usize {
        self.slots.len()
    }

    /// Why the disk can't be used any more.
    #[cfg(target_os = "linux")]
    pub(crate) fn lost(&self) -> Option<&str> {
        match &self.disk {
            Backend::Drive(drive) => drive.lost(),
            Backend::Paths(paths) => paths.lost(),
            _ => None,
        }
    }

    /// How often commands were retried, aborted or resubmitted; all zero for a file.
    pub fn events(&self) -> Events {
        match &self.disk {
            Backend::Drive(drive) => drive.events(),
            #[cfg(target_os = "linux")]
            Backend::Paths(paths) => paths.events(),
            _ => Events::default(),
        }
    }

    /// Reads blocks from `first` on until `into` is full.
    ///
    /// # Errors
    /// [`ChunkError`]; then the content of `into` is undefined.
    pub fn read(&mut self, first: u64, into: &mut [u8]) -> Result<(), ChunkError> {
        if self.read_cached(first, into)? {
            return Ok(());
        }
        if into.len() > self.request_bytes {
            return self.listio(&mut [Item::Read { first, into }]).pop().unwrap_or(Ok(()));
        }
        let request = self.begin_read(first, self.count_blocks(into.len())?)?;
        self.aresult(request, into, Wait::Yes).map(|_| ())
    }

    /// Reads blocks from `first` on until `into` is full, if that needs no wait: all of a [`FileRing`]'s file that is read is in the page cache.
    /// Returns false, with undefined content in `into`, if it is not, and for any other disk. Writes that are in flight may be seen or not.
    ///
    /// # Errors
    /// [`ChunkError`] for blocks that the disk does not have.
    #[inline]
    pub fn read_cached(&mut self, first: u64, into: &mut [u8]) -> Result<bool, ChunkError> {
        #[cfg(target_os = "linux")]
        if matches!(self.disk, Backend::FileRing(_)) {
            self.check(first, self.count_blocks(into.len())?)?;
            if let Backend::FileRing(file) = &mut self.disk {
                return Ok(file.read_cached(first, into));
            }
        }
        Ok(false)
    }

    /// Writes blocks from `first` on.
    ///
    /// # Errors
    /// [`ChunkError`]; then each block may be old or new.
    pub fn write(&mut self, first: u64, from: &[u8]) -> Result<(), ChunkError> {
        if from.len() > self.request_bytes {
            return self.listio(&mut [Item::Write { first, from }]).pop().unwrap_or(Ok(()));
        }
        let request = self.begin_write(first, from)?;
        self.aresult(request, &mut [], Wait::Yes).map(|_| ())
    }

    /// Flushes the volatile write cache: writes that chunks of this process have completed survive a power failure. Those of an
    /// [`AsyncQueue`](crate::AsyncQueue) or [`QueuePair`](crate::QueuePair) are flushed with them, as far as this chunk's controllers have them.
    ///
    /// # Errors
    /// [`ChunkError`]; then writes that completed since the last flush, fetched or not, may be lost. A [loss](ChunkError::PathLost) is told to each chunk
    /// once. A path that never lets the flush through makes it fail each time.
    pub fn flush(&mut self) -> Result<(), ChunkError> {
        self.execute(Operation::Flush)
    }

    /// Sets blocks to zero.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn write_zeroes(&mut self, first: u64, blocks: u64) -> Result<(), ChunkError> {
        self.check(first, blocks)?;
        // One command covers at most 65,536 blocks.
        (0..blocks).step_by(1 << 16).try_for_each(|done| {
            self.execute(Operation::WriteZeroes { first: first + done, blocks: (blocks - done).min(1 << 16) })
        })
    }

    /// Deallocates (trims) blocks. Until they are written again, they may read as their old content or as zeros.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn deallocate(&mut self, first: u64, blocks: u64) -> Result<(), ChunkError> {
        self.check(first, blocks)?;
        let most = u64::from(u32::MAX);
        (0..blocks).step_by(most as usize).try_for_each(|done| {
            self.execute(Operation::Deallocate { first: first + done, blocks: (blocks - done).min(most) })
        })
    }

    /// Starts a read. Fetch the data with [`aresult`](Self::aresult).
    ///
    /// # Errors
    /// [`ChunkError`]; then nothing was started.
    pub fn aread(&mut self, first: u64, blocks: u64) -> Result<Request, ChunkError> {
        let request = self.begin_read(first, blocks)?;
        self.ring_doorbell();
        Ok(request)
    }

    /// Starts a write. The data is copied, so the caller may reuse `from` at once.
    ///
    /// # Errors
    /// [`ChunkError`]; then nothing was started.
    pub fn awrite(&mut self, first: u64, from: &[u8]) -> Result<Request, ChunkError> {
        let request = self.begin_write(first, from)?;
        self.ring_doorbell();
        Ok(request)
    }

    /// Fetches a request's result once: the number of bytes read, of which as many as fit are copied to `into`.
    /// `None` if the request is still in flight and `wait` is [`Wait::No`].
    ///
    /// # Errors
    /// The request's error, or [`ChunkError::NoRequest`] if the result was fetched before.
    pub fn aresult(
        &mut self,
        request: Request,
        into: &mut [u8],
        wait: Wait,
    ) -> Result<Option<usize>, ChunkError> {
        loop {
            let slot = self.slots.get_mut(usize::from(request.slot));
            let Some(slot) = slot.filter(|slot| slot.generation == request.generation) else {
                return Err(ChunkError::NoRequest);
            };
            match slot.state {
                RequestState::Free => return Err(ChunkError::NoRequest),
                RequestState::InFlight => {}
                RequestState::Ended(_) => return self.fetch_result(request.slot, into).map(Some),
            }
            self.process_completions(wait);
            let is_in_flight = matches!(self.slots[usize::from(request.slot)].state, RequestState::InFlight);
            if wait == Wait::No && is_in_flight {
                return Ok(None);
            }
        }
    }

    /// Fetches the result of an ended request, and frees its slot. Returns the number of bytes read, of which as many as fit are in `into`.
    fn fetch_result(&mut self, place: u16, into: &mut [u8]) -> Result<usize, ChunkError> {
        let slot = &mut self.slots[usize::from(place)];
        slot.generation += 1;
        let (bytes, ended) = (slot.read_bytes, std::mem::replace(&mut slot.state, RequestState::Free));
        self.free.push(place);
        if let RequestState::Ended(Some(error)) = ended {
            self.disk.note_fetched(|slot| slot == place);
            return Err(*error);
        }
        let taken = bytes.min(into.len());
        self.copy_out(place, &mut into[..taken])?;
        Ok(bytes)
    }

    /// Executes requests of any length, as many at once as there are slots. Returns each one's result after all have
    /// ended.
    pub fn listio(&mut self, items: &mut [Item<'_>]) -> Vec<Result<(), ChunkError>> {
        let mut results: Vec<Result<(), ChunkError>> = Vec::with_capacity(items.len());
        let mut parts = VecDeque::new();
        for (place, item) in items.iter().enumerate() {
            let (first, bytes) = match item {
                Item::Read { first, into } => (*first, into.len()),
                Item::Write { first, from } => (*first, from.len()),
            };
            let checked = self.count_blocks(bytes).and_then(|blocks| self.check(first, blocks));
            if checked.is_ok() {
                parts.extend((0..bytes).step_by(self.request_bytes).map(|from| Part {
                    item: place,
                    first: first + (from >> self.block_shift) as u64,
                    from,
                    bytes: self.request_bytes.min(bytes - from),
                }));
            }
            results.push(checked);
        }
        self.execute_parts(items, parts, &mut results);
        results
    }

    /// Executes the parts of requests in order, with as many in flight as there are slots.
    fn execute_parts(
        &mut self,
        items: &mut [Item<'_>],
        mut parts: VecDeque<Part>,
        results: &mut [Result<(), ChunkError>],
    ) {
        let mut in_flight = VecDeque::new();
        while let Some(part) = parts.front().copied() {
            let begun = match &items[part.item] {
                // Skip the remaining parts of a request that has failed.
                _ if results[part.item].is_err() => {
                    parts.pop_front();
                    continue;
                }
                Item::Read { .. } => self.begin_read(part.first, (part.bytes >> self.block_shift) as u64),
                Item::Write { from, .. } => {
                    self.begin_write(part.first, &from[part.from..part.from + part.bytes])
                }
            };
            match begun {
                Ok(request) => in_flight.push_back((part, request)),
                // All slots are in use: wait for the oldest request.
                Err(ChunkError::NoFreeSlot { .. }) if !in_flight.is_empty() => {
                    self.finish_oldest(items, &mut in_flight, results);
                    continue;
                }
                Err(error) => results[part.item] = Err(error),
            }
            parts.pop_front();
        }
        while !in_flight.is_empty() {
            self.finish_oldest(items, &mut in_flight, results);
        }
    }

    /// Waits for the oldest part in flight, and keeps the first error of its request.
    fn finish_oldest(
        &mut self,
        items: &mut [Item<'_>],
        in_flight: &mut VecDeque<(Part, Request)>,
        results: &mut [Result<(), ChunkError>],
    ) {
        let Some((part, request)) = in_flight.pop_front() else { return };
        let into = match &mut items[part.item] {
            Item::Read { into, .. } => &mut into[part.from..part.from + part.bytes],
            Item::Write { .. } => &mut [],
        };
        let ended = self.aresult(request, into, Wait::Yes).map(|_| ());
        // Keep the first error: later ones are usually its consequence.
        if results[part.item].is_ok() {
            results[part.item] = ended;
        }
    }

    /// Executes an operation without data and waits for it.
    fn execute(&mut self, operation: Operation) -> Result<(), ChunkError> {
        let request = self.begin(operation, &[], 0)?;
        self.aresult(request, &mut [], Wait::Yes).map(|_| ())
    }

    /// Begins a read as [`aread`](Self::aread) does, but the disk sees it after the next [`ring_doorbell`](Self::ring_doorbell) or
    /// [`poll`](Self::poll): one doorbell for any number of requests.
    ///
    /// # Errors
    /// [`ChunkError`]; then nothing was begun.
    #[inline]
    pub fn begin_read(&mut self, first: u64, blocks: u64) -> Result<Request, ChunkError> {
        let bytes = self.check_request(first, blocks)?;
        self.begin(Operation::Read { first, blocks }, &[], bytes)
    }

    /// Begins a write, as [`begin_read`](Self::begin_read) a read. The data is copied.
    ///
    /// # Errors
    /// [`ChunkError`]; then nothing was begun.
    #[inline]
    pub fn begin_write(&mut self, first: u64, from: &[u8]) -> Result<Request, ChunkError> {
        let blocks = self.count_blocks(from.len())?;
        self.check_request(first, blocks)?;
        self.begin(Operation::Write { first, blocks }, from, 0)
    }

    /// Begins to set blocks to zero, as [`begin_read`](Self::begin_read) a read. One request covers at most 65,536 blocks.
    ///
    /// # Errors
    /// [`ChunkError`]; then nothing was begun.
    pub fn begin_write_zeroes(&mut self, first: u64, blocks: u64) -> Result<Request, ChunkError> {
        self.check(first, blocks)?;
        self.begin(Operation::WriteZeroes { first, blocks }, &[], 0)
    }

    /// Begins a [`flush`](Self::flush), as [`begin_read`](Self::begin_read) a read.
    ///
    /// # Errors
    /// [`ChunkError`]; then nothing was begun.
    pub fn begin_flush(&mut self) -> Result<Request, ChunkError> {
        self.begin(Operation::Flush, &[], 0)
    }

    /// Rings the doorbell for the requests begun since the last time.
    #[inline]
    pub fn ring_doorbell(&mut self) {
        match &mut self.disk {
            Backend::Drive(drive) => drive.ring_doorbell(),
            #[cfg(target_os = "linux")]
            Backend::Paths(paths) => paths.ring_doorbell(),
            #[cfg(target_os = "linux")]
            Backend::FileRing(file) => file.submit(),
            #[cfg(target_os = "linux")]
            Backend::Served(queue) => queue.ring_doorbell(),
            Backend::Backing(_) => {}
        }
    }

    /// Submits a request whose blocks were checked. The controller sees it after the next [`ring_doorbell`](Self::ring_doorbell) or
    /// [`process_completions`](Self::process_completions): one doorbell write for any number of requests.
    // Within the few functions that call it: another call takes some 15 instructions.
    #[inline(always)]
    pub(crate) fn begin(
        &mut self,
        operation: Operation,
        from: &[u8],
        read_bytes: usize,
    ) -> Result<Request, ChunkError> {
        let Some(place) = self.free.last().copied() else {
            return Err(ChunkError::NoFreeSlot { requests: self.slots.len() });
        };
        let mut state = RequestState::InFlight;
        match &mut self.disk {
            Backend::Drive(drive) => drive.begin(place, operation, from)?,
            #[cfg(target_os = "linux")]
            Backend::Paths(paths) => paths.begin(place, operation, from)?,
            #[cfg(target_os = "linux")]
            Backend::FileRing(file) => file.begin(place, operation, from)?,
            #[cfg(target_os = "linux")]
            Backend::Served(queue) => queue.begin(place, operation, from)?,
            Backend::Backing(file) => {
                state = RequestState::Ended(file.execute(place, operation, from).err().map(boxed));
            }
        }
        self.free.pop();
        let slot = &mut self.slots[usize::from(place)];
        let request = Request { slot: place, generation: slot.generation };
        let has_ended = matches!(state, RequestState::Ended(_));
        (slot.state, slot.read_bytes) = (state, read_bytes);
        if has_ended {
            self.note_end(request);
        }
        Ok(request)
    }

    /// Processes completions and recovers from failures. With [`Wait::Yes`] it returns after at least one completion
    /// or one recovery step.
    fn process_completions(&mut self, wait: Wait) {
        let (slots, all_ended) = (&mut self.slots, &mut self.ended);
        let first_new = all_ended.len();
        self.disk.process_completions(wait, &mut |place: u16, result: Result<(), ChunkError>| {
            if let Some(slot) = slots.get_mut(usize::from(place)) {
                slot.state = RequestState::Ended(result.err().map(boxed));
                all_ended.push(Request { slot: place, generation: slot.generation });
            }
        });
        if self.ended.len() > first_new {
            self.forget_fetched();
        }
    }

    /// Copies the data that a slot has read.
    #[inline]
    fn copy_out(&self, slot: u16, into: &mut [u8]) -> Result<(), ChunkError> {
        match &self.disk {
            Backend::Drive(drive) => drive.copy_out(slot, into),
            #[cfg(target_os = "linux")]
            Backend::Paths(paths) => paths.copy_out(slot, into),
            #[cfg(target_os = "linux")]
            Backend::FileRing(file) => file.copy_out(slot, into),
            #[cfg(target_os = "linux")]
            Backend::Served(queue) => queue.copy_out(slot, into),
            Backend::Backing(file) => {
                file.copy_out(slot, into);
                Ok(())
            }
        }
    }

    /// The number of blocks in `bytes`. Fails if it is not a whole number, or zero.
    #[inline]
    fn count_blocks(&self, bytes: usize) -> Result<u64, ChunkError> {
        let block_bytes = self.block_bytes();
        if bytes == 0 || bytes & (block_bytes - 1) != 0 {
            return Err(ChunkError::PartialBlock { bytes, block_bytes });
        }
        Ok((bytes >> self.block_shift) as u64)
    }

    /// Checks that `count` blocks from `first`, at least one, are within the disk.
    #[inline]
    fn check(&self, first: u64, count: u64) -> Result<(), ChunkError> {
        let blocks = self.blocks;
        let is_within = count > 0 && first.checked_add(count).is_some_and(|end| end <= blocks);
        if is_within { Ok(()) } else { Err(ChunkError::OutOfRange { first, count, blocks }) }
    }

    /// Checks a request's blocks and returns its length in bytes.
    #[inline]
    fn check_request(&self, first: u64, blocks: u64) -> Result<usize, ChunkError> {
        self.check(first, blocks)?;
        // No overflow: the range is within the disk.
        let bytes = (blocks << self.block_shift) as usize;
        let bytes_max = self.request_bytes;
        if bytes <= bytes_max { Ok(bytes) } else { Err(ChunkError::TooLong { bytes, bytes_max }) }
    }

    /// Waits for all requests in flight, drops their results, and deletes the queue.
    ///
    /// # Errors
    /// [`ChunkError`]; then the queue and its memory stay with the controller.
    pub fn close(mut self) -> Result<(), ChunkError> {
        while self.slots.iter().any(|slot| matches!(slot.state, RequestState::InFlight)) {
            self.process_completions(Wait::Yes);
        }
        match self.disk {
            Backend::Drive(drive) => drive.close(),
            #[cfg(target_os = "linux")]
            Backend::Paths(paths) => paths.close(),
            _ => Ok(()),
        }
    }
}

/// A part of an [`Item`] that fits one request: `bytes` of its data from offset `from`, beginning at block `first`.
#[derive(Debug, Clone, Copy)]
struct Part {
    item: usize,
    first: u64,
    from: usize,
    bytes: usize,
}
