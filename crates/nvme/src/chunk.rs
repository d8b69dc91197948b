//! A disk with room for so many requests, after the block library of CAPI flash (Open POWER, "capiflash", `src/block/README.md`):
//! synchronous reads and writes, asynchronous ones whose result is fetched by what the request is known by, and lists of both.
//!
//! ```text
//!   Chunk     of one thread: read, write, aread, awrite, aresult, listio, flush ...
//!     |
//!     +-- Drive      a queue pair of a controller: commands that fail for a time, get lost or stick are tried again, aborted, and at
//!     |              last the controller is reset; what is in flight begins once more
//!     +-- Backing    a file, without hardware
//! ```
//!
//! A write that was answered without an error is on the disk, or in its cache until a [flush](Chunk::flush) is answered. Of one that was
//! not answered, any block may be old or new. Data is copied once between the caller's memory and a request's buffer, which is mapped when the
//! chunk is opened; who does without that copy uses [`QueuePair`](crate::QueuePair) and [`Buffer`](crate::Buffer).

mod backing;
mod drive;
mod error;

pub use backing::Backing;
pub use drive::{Drive, Events, RetryPolicy, Waiting};
pub use error::ChunkError;

use std::collections::VecDeque;

/// A request that is in flight, or whose result waits to be fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Request {
    slot: u16,
    /// The slot's requests before this one.
    turn: u64,
}

/// Whether a result is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Until it is there.
    Yes,
    /// Not at all.
    No,
}

/// One of a list of requests.
#[derive(Debug)]
pub enum Item<'a> {
    /// Reads blocks from the first on.
    Read {
        /// The first block.
        first: u64,
        /// Where they go, whole blocks.
        into: &'a mut [u8],
    },
    /// Writes blocks.
    Write {
        /// The first block.
        first: u64,
        /// What they are to be.
        from: &'a [u8],
    },
}

/// What is asked of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Read { first: u64, blocks: u64 },
    Write { first: u64, blocks: u64 },
    WriteZeroes { first: u64, blocks: u64 },
    Deallocate { first: u64, blocks: u64 },
    Flush,
}

/// Where blocks are.
#[derive(Debug)]
enum Disk {
    Drive(Box<Drive>),
    Backing(Backing),
}

/// What a slot is doing.
#[derive(Debug)]
enum State {
    Free,
    UnderWay,
    Ended(Result<(), ChunkError>),
}

#[derive(Debug)]
struct Slot {
    state: State,
    turn: u64,
    /// Bytes that were read into its buffer.
    read_bytes: usize,
}

/// A disk with room for so many requests, for one thread.
#[derive(Debug)]
pub struct Chunk {
    disk: Disk,
    slots: Vec<Slot>,
    blocks: u64,
    block_shift: u8,
    /// Bytes of a request at most: of its buffer.
    request_bytes: usize,
}

impl From<Drive> for Chunk {
    fn from(drive: Drive) -> Self {
        let is = drive.namespace().is;
        let (requests, request_bytes) = (drive.requests(), drive.request_bytes());
        Self::new(Disk::Drive(Box::new(drive)), requests, request_bytes, is.blocks, is.block_shift)
    }
}

impl From<Backing> for Chunk {
    fn from(file: Backing) -> Self {
        let (blocks, shift) = (file.blocks(), file.block_shift());
        let (requests, request_bytes) = (file.requests(), file.request_bytes());
        Self::new(Disk::Backing(file), requests, request_bytes, blocks, shift)
    }
}

impl Chunk {
    fn new(disk: Disk, requests: u16, request_bytes: usize, blocks: u64, block_shift: u8) -> Self {
        let free = |_| Slot { state: State::Free, turn: 0, read_bytes: 0 };
        Self { disk, slots: (0..requests).map(free).collect(), blocks, block_shift, request_bytes }
    }

    /// Blocks that it has.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> usize {
        1 << self.block_shift
    }

    /// Bytes of one asynchronous request at most. Synchronous ones are split.
    pub fn request_bytes(&self) -> usize {
        self.request_bytes
    }

    /// Requests that can be in flight at once.
    pub fn requests(&self) -> usize {
        self.slots.len()
    }

    /// What was done about a controller's failures so far; nothing for a file.
    pub fn events(&self) -> Events {
        match &self.disk {
            Disk::Drive(drive) => drive.events(),
            Disk::Backing(_) => Events::default(),
        }
    }

    /// Reads blocks from `first` on, as many as fit into `into`.
    ///
    /// # Errors
    /// [`ChunkError`]; then what is in `into` counts for nothing.
    pub fn read(&mut self, first: u64, into: &mut [u8]) -> Result<(), ChunkError> {
        self.listio(&mut [Item::Read { first, into }]).pop().unwrap_or(Ok(()))
    }

    /// Writes blocks from `first` on.
    ///
    /// # Errors
    /// [`ChunkError`]; then each of the blocks may be old or new.
    pub fn write(&mut self, first: u64, from: &[u8]) -> Result<(), ChunkError> {
        self.listio(&mut [Item::Write { first, from }]).pop().unwrap_or(Ok(()))
    }

    /// Makes stay what was written and answered before.
    ///
    /// # Errors
    /// [`ChunkError`]; then what was written since the last flush may be lost.
    pub fn flush(&mut self) -> Result<(), ChunkError> {
        self.carry_out(Asked::Flush)
    }

    /// Makes blocks zero.
    ///
    /// # Errors
    /// As of [`write`](Self::write).
    pub fn write_zeroes(&mut self, first: u64, blocks: u64) -> Result<(), ChunkError> {
        self.check(first, blocks)?;
        // One command has 65,536 blocks at most.
        (0..blocks).step_by(1 << 16).try_for_each(|done| {
            self.carry_out(Asked::WriteZeroes { first: first + done, blocks: (blocks - done).min(1 << 16) })
        })
    }

    /// Lets the disk forget blocks: until they are written, they may read as what they were, or as zeros.
    ///
    /// # Errors
    /// As of [`write`](Self::write).
    pub fn deallocate(&mut self, first: u64, blocks: u64) -> Result<(), ChunkError> {
        self.check(first, blocks)?;
        let most = u64::from(u32::MAX);
        (0..blocks).step_by(most as usize).try_for_each(|done| {
            self.carry_out(Asked::Deallocate { first: first + done, blocks: (blocks - done).min(most) })
        })
    }

    /// Begins to read blocks. What they are comes with the [result](Self::aresult).
    ///
    /// # Errors
    /// [`ChunkError`]; then nothing is begun.
    pub fn aread(&mut self, first: u64, blocks: u64) -> Result<Request, ChunkError> {
        let request = self.begin_read(first, blocks)?;
        self.ring();
        Ok(request)
    }

    /// Begins to write blocks. The caller's memory is free again when this returns.
    ///
    /// # Errors
    /// [`ChunkError`]; then nothing is begun.
    pub fn awrite(&mut self, first: u64, from: &[u8]) -> Result<Request, ChunkError> {
        let request = self.begin_write(first, from)?;
        self.ring();
        Ok(request)
    }

    /// The result of a request, once: bytes that were read, which are in `into` then, as far as they fit. Nothing if it is still in flight and was not
    /// waited for.
    ///
    /// # Errors
    /// Why the request failed; or that there is none such any more.
    pub fn aresult(
        &mut self,
        request: Request,
        into: &mut [u8],
        wait: Wait,
    ) -> Result<Option<usize>, ChunkError> {
        loop {
            let slot = self.slots.get_mut(usize::from(request.slot));
            let slot = slot.filter(|slot| slot.turn == request.turn).ok_or(ChunkError::NoRequest)?;
            match std::mem::replace(&mut slot.state, State::Free) {
                State::Free => return Err(ChunkError::NoRequest),
                State::UnderWay => slot.state = State::UnderWay,
                State::Ended(result) => {
                    slot.turn += 1;
                    let bytes = slot.read_bytes;
                    result?;
                    let taken = bytes.min(into.len());
                    self.copy_out(request.slot, &mut into[..taken])?;
                    return Ok(Some(bytes));
                }
            }
            self.attend(wait);
            let is_in_flight = matches!(self.slots[usize::from(request.slot)].state, State::UnderWay);
            if wait == Wait::No && is_in_flight {
                return Ok(None);
            }
        }
    }

    /// Carries out requests of any length, as many at once as there is room for, and returns the result of each when all have ended.
    pub fn listio(&mut self, items: &mut [Item<'_>]) -> Vec<Result<(), ChunkError>> {
        let mut results: Vec<Result<(), ChunkError>> = Vec::with_capacity(items.len());
        let mut parts = VecDeque::new();
        for (place, item) in items.iter().enumerate() {
            let (first, bytes) = match item {
                Item::Read { first, into } => (*first, into.len()),
                Item::Write { first, from } => (*first, from.len()),
            };
            let checked = self.whole_blocks(bytes).and_then(|blocks| self.check(first, blocks));
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
        self.carry_out_parts(items, parts, &mut results);
        results
    }

    fn carry_out_parts(
        &mut self,
        items: &mut [Item<'_>],
        mut parts: VecDeque<Part>,
        results: &mut [Result<(), ChunkError>],
    ) {
        let mut in_flight = VecDeque::new();
        while let Some(part) = parts.front().copied() {
            let begun = match &items[part.item] {
                // What has failed already is not gone on with.
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
                // The oldest makes room.
                Err(ChunkError::Full { .. }) if !in_flight.is_empty() => {
                    self.end_oldest(items, &mut in_flight, results);
                    continue;
                }
                Err(error) => results[part.item] = Err(error),
            }
            parts.pop_front();
        }
        while !in_flight.is_empty() {
            self.end_oldest(items, &mut in_flight, results);
        }
    }

    fn end_oldest(
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
        // The first error says more than those that follow from it.
        if results[part.item].is_ok() {
            results[part.item] = ended;
        }
    }

    fn carry_out(&mut self, asked: Asked) -> Result<(), ChunkError> {
        let request = self.begin(asked, &[], 0)?;
        self.aresult(request, &mut [], Wait::Yes).map(|_| ())
    }

    fn begin_read(&mut self, first: u64, blocks: u64) -> Result<Request, ChunkError> {
        let bytes = self.check_request(first, blocks)?;
        self.begin(Asked::Read { first, blocks }, &[], bytes)
    }

    fn begin_write(&mut self, first: u64, from: &[u8]) -> Result<Request, ChunkError> {
        let blocks = self.whole_blocks(from.len())?;
        self.check_request(first, blocks)?;
        self.begin(Asked::Write { first, blocks }, from, 0)
    }

    /// Tells a controller of what was begun since the last time.
    fn ring(&mut self) {
        if let Disk::Drive(drive) = &mut self.disk {
            drive.ring();
        }
    }

    /// Puts a request behind the others. A controller hears of it with the next [`ring`](Self::ring), or when it is next attended to: once, of
    /// however many.
    fn begin(&mut self, asked: Asked, from: &[u8], read_bytes: usize) -> Result<Request, ChunkError> {
        let is_free = |slot: &Slot| matches!(slot.state, State::Free);
        let place = self.slots.iter().position(is_free);
        let place = place.ok_or(ChunkError::Full { requests: self.slots.len() })?;
        match &mut self.disk {
            Disk::Drive(drive) => drive.begin(place as u16, asked, from)?,
            Disk::Backing(file) => {
                let result = file.carry_out(place as u16, asked, from);
                self.slots[place].state = State::Ended(result);
            }
        }
        let slot = &mut self.slots[place];
        if is_free(slot) {
            slot.state = State::UnderWay;
        }
        slot.read_bytes = read_bytes;
        Ok(Request { slot: place as u16, turn: slot.turn })
    }

    /// Has a controller go on, and takes what has ended; if it is waited for, at least one request has, or something was done about it.
    fn attend(&mut self, wait: Wait) {
        let Disk::Drive(drive) = &mut self.disk else { return };
        let slots = &mut self.slots;
        drive.attend(wait, &mut |slot, result| {
            if let Some(slot) = slots.get_mut(usize::from(slot)) {
                slot.state = State::Ended(result);
            }
        });
    }

    fn copy_out(&self, slot: u16, into: &mut [u8]) -> Result<(), ChunkError> {
        match &self.disk {
            Disk::Drive(drive) => drive.copy_out(slot, into),
            Disk::Backing(file) => {
                file.copy_out(slot, into);
                Ok(())
            }
        }
    }

    fn whole_blocks(&self, bytes: usize) -> Result<u64, ChunkError> {
        let block_bytes = self.block_bytes();
        let is_whole = bytes > 0 && bytes.is_multiple_of(block_bytes);
        is_whole
            .then_some((bytes >> self.block_shift) as u64)
            .ok_or(ChunkError::Blocks { bytes, block_bytes })
    }

    fn check(&self, first: u64, count: u64) -> Result<(), ChunkError> {
        let blocks = self.blocks;
        let is_within = count > 0 && first.checked_add(count).is_some_and(|end| end <= blocks);
        is_within.then_some(()).ok_or(ChunkError::Beyond { first, count, blocks })
    }

    /// Its bytes.
    fn check_request(&self, first: u64, blocks: u64) -> Result<usize, ChunkError> {
        self.check(first, blocks)?;
        // The disk has so many bytes.
        let bytes = (blocks << self.block_shift) as usize;
        let bytes_max = self.request_bytes;
        if bytes <= bytes_max { Ok(bytes) } else { Err(ChunkError::Long { bytes, bytes_max }) }
    }

    /// Gives its queue back; the results of what is in flight are waited for, and forgotten.
    ///
    /// # Errors
    /// [`ChunkError`]; then queue and memory stay the controller's.
    pub fn close(mut self) -> Result<(), ChunkError> {
        while self.slots.iter().any(|slot| matches!(slot.state, State::UnderWay)) {
            self.attend(Wait::Yes);
        }
        match self.disk {
            Disk::Drive(drive) => drive.close(),
            Disk::Backing(_) => Ok(()),
        }
    }
}

/// A request of an [`Item`]: bytes `from` and on of its memory, which begin with the block `first`.
#[derive(Debug, Clone, Copy)]
struct Part {
    item: usize,
    first: u64,
    from: usize,
    bytes: usize,
}
