//! Our driver, and a controller that fails.

use super::{Room, fault, next};
use arbitrary::Unstructured;
use nvme::chunk::{Chunk, ChunkError, Drive, Item, Request, RetryPolicy, Wait, Waiting};
use nvme::emulated::Emulated;
use nvme::{Controller, NvmeError};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const BLOCKS: u64 = 128;
const BLOCK: usize = 512;
const REQUEST_BYTES: u64 = 8192;
const CHUNKS: usize = 3;
const STEPS_MAX: usize = 64;
/// Each may cost two timeouts.
const FAULTS_MAX: usize = 12;

/// Chunks of one disk, requests of all kinds, and faults of all kinds at any of their commands. What was answered without an error is on
/// the disk and is read; a block whose request failed is old or new, and no other block changes.
pub fn nvme_driver(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let Some(mut world) = World::new(&mut input) else { return };
    for _ in 0..STEPS_MAX {
        if world.step(&mut input).is_none() {
            break;
        }
    }
    world.end();
}

struct World {
    emulated: Arc<Emulated>,
    controller: Arc<Mutex<Controller>>,
    retry_policy: RetryPolicy,
    chunks: [Option<Open>; CHUNKS],
    in_flight: Vec<UnderWay>,
    /// What each block may be: the byte of which it is full.
    allowed: Vec<Vec<u8>>,
    faults: usize,
}

struct Open {
    chunk: Chunk,
    /// Its controller was given up: what it has is the controller's for good.
    is_given_up: bool,
}

/// A request of a chunk that was not waited for.
struct UnderWay {
    chunk: usize,
    request: Request,
    blocks: Range<u64>,
    what: What,
}

enum What {
    Write(u8),
    /// What each block may have been since.
    Read(Vec<Vec<u8>>),
}

impl World {
    fn new(input: &mut Unstructured<'_>) -> Option<Self> {
        let [timeout, retries, resets]: [u8; 3] = next(input)?;
        let room = Room::new()?;
        let emulated = Arc::new(Emulated::new(room.adapter, BLOCKS, 9));
        let controller = Controller::open(emulated.clone(), room.mapper, room.ram);
        assert!(controller.is_ok(), "without a fault: {:?}", controller.err());
        let mut controller = controller.ok()?;
        controller.set_admin_timeout(Duration::from_millis(10));
        let mut retry_policy = RetryPolicy::default();
        retry_policy.timeout = Duration::from_micros(500 * (1 + u64::from(timeout % 4)));
        retry_policy.retries = (retries % 4).into();
        retry_policy.resets = (resets % 4).into();
        Some(Self {
            emulated,
            controller: Arc::new(Mutex::new(controller)),
            retry_policy,
            chunks: [const { None }; CHUNKS],
            in_flight: Vec::new(),
            allowed: vec![vec![0]; BLOCKS as usize],
            faults: 0,
        })
    }

    fn controller(&self) -> MutexGuard<'_, Controller> {
        self.controller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn step(&mut self, input: &mut Unstructured<'_>) -> Option<()> {
        match next::<u8>(input)? % 14 {
            0 => self.write(next(input)?, blocks(input)?, next(input)?),
            1 => self.begin_write(next(input)?, blocks(input)?, next(input)?),
            2 => self.read(next(input)?, blocks(input)?),
            3 => self.begin_read(next(input)?, blocks(input)?),
            4 => self.zero(next(input)?, blocks(input)?),
            5 => self.deallocate(next(input)?, blocks(input)?),
            6 => self.flush(next(input)?),
            7 => self.list(next(input)?, next(input)?, next(input)?),
            8 => self.look(next::<u8>(input)?.into()),
            9 => {
                let place = next::<u8>(input)?;
                if !self.in_flight.is_empty() {
                    self.end_one(usize::from(place) % self.in_flight.len());
                }
            }
            10 => self.close(usize::from(next::<u8>(input)?) % CHUNKS),
            11 => self.reset(),
            12 => self.administer(next(input)?),
            _ => {
                let [after, kind]: [u8; 2] = next(input)?;
                let fault = fault(kind, next(input)?);
                if self.faults < FAULTS_MAX {
                    self.emulated.inject(self.emulated.commands() + u64::from(after % 32), fault);
                    self.faults += 1;
                }
            }
        }
        Some(())
    }

    /// A chunk, opened if it has to be.
    fn chunk(&mut self, chunk: u8) -> Option<usize> {
        let place = usize::from(chunk) % CHUNKS;
        if self.chunks[place].is_none() {
            let namespace = *self.controller().namespaces().first()?;
            let (controller, requests) = (Arc::clone(&self.controller), 1 + u16::from(chunk / 3 % 4));
            let drive = Drive::open(
                controller,
                namespace,
                requests,
                REQUEST_BYTES,
                Waiting::Polling,
                self.retry_policy,
            );
            self.chunks[place] = Some(Open { chunk: drive.ok()?.into(), is_given_up: false });
        }
        Some(place)
    }

    /// Does something with a chunk, and notes whether it has given its controller up.
    fn with<T>(
        &mut self,
        place: usize,
        act: impl FnOnce(&mut Chunk) -> Result<T, ChunkError>,
    ) -> Option<Result<T, ChunkError>> {
        let open = self.chunks[place].as_mut()?;
        let result = act(&mut open.chunk);
        open.is_given_up |= gives_up(&result);
        Some(result)
    }

    fn may_become(&mut self, blocks: &Range<u64>, byte: u8) {
        for block in blocks.clone() {
            add(&mut self.allowed[block as usize], byte);
            for in_flight in self.in_flight.iter_mut().filter(|one| one.blocks.contains(&block)) {
                if let What::Read(allowed) = &mut in_flight.what {
                    add(&mut allowed[(block - in_flight.blocks.start) as usize], byte);
                }
            }
        }
    }

    fn is(&mut self, blocks: &Range<u64>, byte: u8) {
        blocks.clone().for_each(|block| self.allowed[block as usize] = vec![byte]);
    }

    /// Two writers of a block at once leave it to chance which is the last: nobody begins before the other has ended.
    fn end_writers(&mut self, blocks: &Range<u64>) {
        let is_writer = |one: &UnderWay| {
            matches!(one.what, What::Write(_))
                && one.blocks.start < blocks.end
                && blocks.start < one.blocks.end
        };
        while let Some(place) = self.in_flight.iter().position(is_writer) {
            self.end_one(place);
        }
    }

    fn write(&mut self, chunk: u8, blocks: Range<u64>, byte: u8) {
        self.end_writers(&blocks);
        let Some(chunk) = self.chunk(chunk) else { return };
        self.may_become(&blocks, byte);
        let data = vec![byte; length(&blocks)];
        if let Some(Ok(())) = self.with(chunk, |chunk| chunk.write(blocks.start, &data)) {
            self.is(&blocks, byte);
        }
    }

    fn begin_write(&mut self, chunk: u8, blocks: Range<u64>, byte: u8) {
        self.end_writers(&blocks);
        let Some(chunk) = self.chunk(chunk) else { return };
        let data = vec![byte; length(&blocks)];
        // One that was not begun changes nothing.
        if let Some(Ok(request)) = self.with(chunk, |chunk| chunk.awrite(blocks.start, &data)) {
            self.may_become(&blocks, byte);
            self.in_flight.push(UnderWay { chunk, request, blocks, what: What::Write(byte) });
        }
    }

    fn read(&mut self, chunk: u8, blocks: Range<u64>) {
        let Some(chunk) = self.chunk(chunk) else { return };
        let mut data = vec![0xee; length(&blocks)];
        if let Some(Ok(())) = self.with(chunk, |chunk| chunk.read(blocks.start, &mut data)) {
            let allowed = &self.allowed[blocks.start as usize..blocks.end as usize];
            check("read", blocks.start, allowed, &data);
        }
    }

    fn begin_read(&mut self, chunk: u8, blocks: Range<u64>) {
        let Some(chunk) = self.chunk(chunk) else { return };
        let number = blocks.end - blocks.start;
        if let Some(Ok(request)) = self.with(chunk, |chunk| chunk.aread(blocks.start, number)) {
            let allowed = self.allowed[blocks.start as usize..blocks.end as usize].to_vec();
            self.in_flight.push(UnderWay { chunk, request, blocks, what: What::Read(allowed) });
        }
    }

    fn zero(&mut self, chunk: u8, blocks: Range<u64>) {
        self.end_writers(&blocks);
        let Some(chunk) = self.chunk(chunk) else { return };
        self.may_become(&blocks, 0);
        let number = blocks.end - blocks.start;
        if let Some(Ok(())) = self.with(chunk, |chunk| chunk.write_zeroes(blocks.start, number)) {
            self.is(&blocks, 0);
        }
    }

    fn deallocate(&mut self, chunk: u8, blocks: Range<u64>) {
        self.end_writers(&blocks);
        let Some(chunk) = self.chunk(chunk) else { return };
        self.may_become(&blocks, 0);
        let number = blocks.end - blocks.start;
        self.with(chunk, |chunk| chunk.deallocate(blocks.start, number));
    }

    fn flush(&mut self, chunk: u8) {
        let Some(chunk) = self.chunk(chunk) else { return };
        self.with(chunk, Chunk::flush);
    }

    /// Two writes and two reads, each in a quarter of the disk of its own.
    fn list(&mut self, chunk: u8, blocks: u8, byte: u8) {
        let (quarter, blocks) = (BLOCKS / 4, u64::from(blocks) % (BLOCKS / 4) + 1);
        let parts = [0, 1, 2, 3].map(|part| part * quarter..part * quarter + blocks);
        parts.iter().for_each(|part| self.end_writers(part));
        let Some(chunk) = self.chunk(chunk) else { return };
        let (bytes, written) = (length(&parts[0]), [byte, byte.wrapping_add(1)]);
        let (mut reads, writes) = ([0; 2].map(|_| vec![0xee; bytes]), written.map(|byte| vec![byte; bytes]));
        self.may_become(&parts[0], written[0]);
        self.may_become(&parts[2], written[1]);
        let [into, into_last] = &mut reads;
        let mut items = [
            Item::Write { first: parts[0].start, from: &writes[0] },
            Item::Read { first: parts[1].start, into },
            Item::Write { first: parts[2].start, from: &writes[1] },
            Item::Read { first: parts[3].start, into: into_last },
        ];
        let Some(open) = &mut self.chunks[chunk] else { return };
        let results = open.chunk.listio(&mut items);
        open.is_given_up |= results.iter().any(gives_up);
        assert_eq!(results.len(), parts.len(), "one for each");
        for (part, byte) in [(0, written[0]), (2, written[1])] {
            if results[part].is_ok() {
                self.is(&parts[part], byte);
            }
        }
        for (part, data) in [(1, &reads[0]), (3, &reads[1])] {
            if results[part].is_ok() {
                let allowed = &self.allowed[parts[part].start as usize..parts[part].end as usize];
                check("read of a list", parts[part].start, allowed, data);
            }
        }
    }

    /// Looks whether a request has ended, and leaves it if it has not.
    fn look(&mut self, place: usize) {
        if self.in_flight.is_empty() {
            return;
        }
        let place = place % self.in_flight.len();
        self.fetch(place, Wait::No);
    }

    fn end_one(&mut self, place: usize) {
        assert!(self.fetch(place, Wait::Yes), "who waits for a result has it");
    }

    /// Fetches a result, once. Says whether it was there.
    fn fetch(&mut self, place: usize, wait: Wait) -> bool {
        let UnderWay { chunk, request, blocks, .. } = &self.in_flight[place];
        let (chunk, request, blocks) = (*chunk, *request, blocks.clone());
        let mut data = vec![0xee; length(&blocks)];
        let Some(result) = self.with(chunk, |chunk| chunk.aresult(request, &mut data, wait)) else {
            return true;
        };
        if matches!(result, Ok(None)) {
            return false;
        }
        let again = self.with(chunk, |chunk| chunk.aresult(request, &mut [], Wait::Yes));
        assert!(matches!(again, Some(Err(ChunkError::NoRequest))), "a result is told once");
        let one = self.in_flight.swap_remove(place);
        match (one.what, result) {
            (What::Write(byte), Ok(Some(bytes))) => {
                assert_eq!(bytes, 0, "nothing was read");
                self.is(&blocks, byte);
            }
            (What::Read(allowed), Ok(Some(bytes))) => {
                assert_eq!(bytes, data.len(), "all was read");
                check("read", blocks.start, &allowed, &data);
            }
            _ => {}
        }
        true
    }

    fn close(&mut self, chunk: usize) {
        while let Some(place) = self.in_flight.iter().position(|one| one.chunk == chunk) {
            self.end_one(place);
        }
        let Some(Open { chunk, is_given_up }) = self.chunks[chunk].take() else { return };
        let works = self.controller().check_working().is_ok();
        let closed = chunk.close();
        assert!(closed.is_ok() || is_given_up || !works, "nothing is wrong: {closed:?}");
    }

    fn reset(&mut self) {
        let reset = self.controller().reset();
        // Memory that a failed controller may still write to is kept from then on: there may be too little left.
        assert!(matches!(reset, Ok(()) | Err(NvmeError::Gone | NvmeError::Dma(_))), "{reset:?}");
    }

    /// A queue pair that comes and goes, and what the controller remembers of errors.
    fn administer(&mut self, entries: u8) {
        let mut controller = self.controller();
        let works = controller.check_working().is_ok();
        let log = controller.error_log();
        assert!(matches!(log, Ok(_) | Err(NvmeError::Dma(_))) || !works, "{log:?}");
        if let Ok(queue) = controller.queue_pair(u16::from(entries) % 16) {
            let deleted = controller.delete(queue);
            assert!(deleted.is_ok() || !works, "{deleted:?}");
        }
    }

    fn end(mut self) {
        (0..CHUNKS).for_each(|chunk| self.close(chunk));
        check("on the disk", 0, &self.allowed, &self.emulated.disk());
        if let Some(controller) = Arc::into_inner(self.controller) {
            let _ = controller.into_inner().unwrap_or_else(PoisonError::into_inner).shut_down();
        }
    }
}

/// Whether a chunk has given its controller up: it is gone, or was reset in vain, and nothing less.
fn gives_up<T>(result: &Result<T, ChunkError>) -> bool {
    match result {
        Err(ChunkError::TooManyResets { .. } | ChunkError::Nvme(NvmeError::Gone)) => true,
        Err(ChunkError::Nvme(error)) => panic!("a reset would have mended it: {error}"),
        _ => false,
    }
}

fn add(allowed: &mut Vec<u8>, byte: u8) {
    if !allowed.contains(&byte) {
        allowed.push(byte);
    }
}

fn length(blocks: &Range<u64>) -> usize {
    (blocks.end - blocks.start) as usize * BLOCK
}

fn check(what: &str, first: u64, allowed: &[Vec<u8>], data: &[u8]) {
    assert_eq!(allowed.len() * BLOCK, data.len());
    for (block, (allowed, data)) in (first..).zip(allowed.iter().zip(data.chunks(BLOCK))) {
        let is_whole = data.iter().all(|byte| *byte == data[0]);
        assert!(
            is_whole && allowed.contains(&data[0]),
            "{what}: {} in block {block}; may be {allowed:?}",
            data[0]
        );
    }
}

/// At least one, and up to 40: more than a request has.
fn blocks(input: &mut Unstructured<'_>) -> Option<Range<u64>> {
    let [first, number]: [u8; 2] = next(input)?;
    let first = u64::from(first) % BLOCKS;
    Some(first..(first + 1 + u64::from(number) % 40).min(BLOCKS))
}
