//! The command `read PHASE ADDRESS SIZE WINDOWS DEPTH`: reads on a queue pair of this program.
//!
//! A window is DEPTH reads with one write of each doorbell. Counting pauses from the submission doorbell until all
//! completions have arrived, so that the instructions of the poll loop are not counted.

use crate::error::Result;
use crate::guest_disk::GuestDisk;
use crate::mark;
use crate::read_position::ReadPosition;
use crate::settle::settle;
use nvme::prp::Piece;
use std::hint::spin_loop;

/// Reads that fill the caches before counting starts.
const WARM_UP: u64 = 64;

/// Arguments of the command.
pub(crate) struct Reads<'a> {
    pub(crate) phase: u64,
    /// PCI address of the controller.
    pub(crate) address: &'a str,
    pub(crate) bytes: u64,
    pub(crate) windows: u64,
    pub(crate) depth: u16,
    /// Windows that run unmeasured, in addition to those that fill the caches.
    pub(crate) more_warm_up: u64,
}

impl Reads<'_> {
    /// Windows that run before those that are measured.
    pub(crate) fn warm_up_windows(&self) -> u64 {
        WARM_UP.div_ceil(self.depth.into()) + self.more_warm_up
    }

    /// Runs the workload: warm-up, then the marked windows.
    pub(crate) fn run(&self) -> Result<()> {
        let mut adapter = GuestDisk::open(self.address, self.depth)?;
        let buffer = adapter.buffer(u64::from(self.depth) * self.bytes)?;
        let piece = |index| buffer.piece(index * self.bytes, self.bytes);
        let pieces = (0..self.depth.into()).map(piece).collect::<std::result::Result<Vec<Piece>, _>>()?;
        let format = adapter.disk.format;
        let mut position = ReadPosition::new(format.blocks, format.block_bytes(), self.bytes);
        let before = adapter.counters();
        settle();
        for _ in 0..self.warm_up_windows() {
            read_batch(&mut adapter, &mut position, &pieces)?;
        }
        mark::announce_workload(self.phase, self.depth.into());
        for _ in 0..self.windows {
            mark::begin();
            let read = read_batch(&mut adapter, &mut position, &pieces);
            mark::end();
            read?;
        }
        if adapter.counters() != before {
            return Err("the reads changed the DMA counters; expected no map, unmap or invalidation".into());
        }
        adapter.shut_down()
    }
}

/// Submits one read for each piece with one doorbell write, and processes the completions.
fn read_batch(adapter: &mut GuestDisk, position: &mut ReadPosition, pieces: &[Piece]) -> Result<()> {
    for piece in pieces {
        adapter.queue.read(&adapter.disk, position.advance(), std::slice::from_ref(piece))?;
    }
    adapter.queue.ring_doorbell();
    wait_for_completions(adapter, pieces.len());
    let mut failed = None;
    let completed = adapter.queue.poll(pieces.len(), |done| {
        if !done.status.is_success() {
            failed = Some(done.status);
        }
    })?;
    match failed {
        Some(status) => Err(format!("a read failed: {status}").into()),
        None if completed < pieces.len() => {
            Err(format!("{completed} of {} reads completed", pieces.len()).into())
        }
        None => Ok(()),
    }
}

/// Polls until this many completions are pending, with a mark for each poll.
#[inline(always)]
fn wait_for_completions(adapter: &GuestDisk, reads: usize) {
    mark::pause();
    loop {
        mark::polled();
        if adapter.queue.pending_completions() >= reads {
            break;
        }
        spin_loop();
    }
    mark::resume();
}
