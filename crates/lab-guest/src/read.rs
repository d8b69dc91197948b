//! Reads on this program's own queue: PHASE ADDRESS SIZE WINDOWS DEPTH.
//!
//! A window is DEPTH reads with one write of each doorbell. Counting pauses from the submission doorbell until all
//! completions have arrived, so that polls are not counted as instructions.

use crate::adapter::Adapter;
use crate::error::Result;
use crate::mark;
use crate::settle::settle;
use nvme::prp::Piece;
use std::hint::spin_loop;

/// Reads before counting starts.
const WARM_UP: u64 = 64;
/// Bytes read from the beginning of the disk, over and over.
const SPAN_BYTES_MAX: u64 = 256 << 20;

/// Arguments of the command.
pub(crate) struct Reads<'a> {
    pub(crate) phase: u64,
    /// PCI address of the controller.
    pub(crate) address: &'a str,
    pub(crate) bytes: u64,
    pub(crate) windows: u64,
    pub(crate) depth: u16,
}

impl Reads<'_> {
    pub(crate) fn run(&self) -> Result<()> {
        let mut adapter = Adapter::open(self.address, self.depth)?;
        let buffer = adapter.buffer(u64::from(self.depth) * self.bytes)?;
        let piece = |index| buffer.piece(index * self.bytes, self.bytes);
        let pieces = (0..self.depth.into()).map(piece).collect::<std::result::Result<Vec<Piece>, _>>()?;
        let mut position = ReadPosition::of(&adapter, self.bytes);
        let before = adapter.counters();
        settle();
        for _ in 0..WARM_UP.div_ceil(self.depth.into()) {
            batch(&mut adapter, &mut position, &pieces)?;
        }
        mark::phase(self.phase, self.depth.into());
        for _ in 0..self.windows {
            mark::begin();
            let read = batch(&mut adapter, &mut position, &pieces);
            mark::end();
            read?;
        }
        if adapter.counters() != before {
            return Err("reads of mapped memory have mapped, unmapped or invalidated something".into());
        }
        adapter.shut_down()
    }
}

/// Position of the next read.
struct ReadPosition {
    block: u64,
    blocks_per_read: u64,
    end: u64,
}

impl ReadPosition {
    fn of(adapter: &Adapter, bytes: u64) -> Self {
        let block_bytes = adapter.disk.format.block_bytes();
        let blocks_per_read = bytes / block_bytes;
        let span = adapter.disk.format.blocks.min(SPAN_BYTES_MAX / block_bytes);
        Self { block: 0, blocks_per_read, end: span / blocks_per_read * blocks_per_read }
    }

    fn advance(&mut self) -> u64 {
        let block = self.block;
        self.block += self.blocks_per_read;
        if self.block >= self.end {
            self.block = 0;
        }
        block
    }
}

/// Submits one read for each piece, with one doorbell write.
fn batch(adapter: &mut Adapter, position: &mut ReadPosition, pieces: &[Piece]) -> Result<()> {
    for piece in pieces {
        adapter.queue.read(&adapter.disk, position.advance(), std::slice::from_ref(piece))?;
    }
    adapter.queue.ring_doorbell();
    await_all(adapter, pieces.len());
    let mut failed = None;
    let taken = adapter.queue.poll(pieces.len(), |done| {
        if !done.status.is_success() {
            failed = Some(done.status);
        }
    })?;
    match failed {
        Some(status) => Err(format!("a read failed: {status}").into()),
        None if taken < pieces.len() => Err(format!("{taken} of {} reads came back", pieces.len()).into()),
        None => Ok(()),
    }
}

/// Polls until this many completions have arrived.
#[inline(always)]
fn await_all(adapter: &Adapter, reads: usize) {
    mark::pause();
    loop {
        mark::look();
        if adapter.queue.pending_completions() >= reads {
            break;
        }
        spin_loop();
    }
    mark::go_on();
}
