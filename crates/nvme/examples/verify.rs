//! Writes a disk through VFIO or iommufd, but for 64 blocks at either end, reads it again, and says whether each block is what was
//! written. EVERYTHING ON THE DISK IS LOST.
//!
//!     verify ADDRESS vfio|iommufd
//!
//! The kernel's driver must have left the adapter to vfio-pci before.

use dma::{MemoryAddress, Ram};
use nvme::{Adapter, Buffer, Done, Namespace, QueuePair};
use std::error::Error;
use std::time::{Duration, Instant};

const MEMORY_BYTES: u64 = 8 << 20;
const COMMAND_BYTES: u64 = 64 << 10;
/// Commands in flight; the doorbell is rung once for all of them.
const BATCH: u64 = 16;
/// Blocks at either end that nobody is to touch.
const GUARD: u64 = 64;
const PATIENCE: Duration = Duration::from_secs(30);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, adapter, way] = arguments.as_slice() else { return Err("verify ADDRESS vfio|iommufd".into()) };
    run(adapter, way)
}

/// Does all of it with the controller at an address.
pub fn run(adapter: &str, way: &str) -> Result<()> {
    let adapter = Adapter::open(adapter, way.parse()?, MEMORY_BYTES)?;
    let shared = adapter.controller();
    let mut controller = shared.lock().map_err(|_| "the lock is poisoned")?;
    let memory = controller.ram();
    println!("verify: {:?}", controller.identity());
    let disk = *controller.namespaces().first().ok_or("no namespace")?;
    println!("verify: {disk:?}");
    let mut queue = controller.queue_pair(BATCH as u16 + 1)?;
    let buffer = controller.allocate(BATCH * COMMAND_BYTES)?;
    let before = controller.counters();
    let work = Work { memory: &memory, disk, buffer: &buffer };
    let written = work.over_all(&mut queue, true)?;
    let flushed = queue.flush(&disk)?;
    queue.ring_doorbell();
    expect(wait(&mut queue, 1)?.iter().all(|done| done.id == flushed), "the flush is completed")?;
    let read = work.over_all(&mut queue, false)?;
    expect(controller.counters() == before, "nothing was mapped, unmapped or invalidated for it")?;
    println!("verify: {written} commands written and {read} read");
    let beyond = queue.submit(nvme::spec::command::Command::read(
        disk.number,
        disk.format.blocks,
        1,
        [buffer.piece(0, 4096)?.at.0, 0],
    ))?;
    queue.ring_doorbell();
    let done = wait(&mut queue, 1)?;
    println!("verify: beyond the end: {}", done[0].status);
    expect(done[0].id == beyond && !done[0].status.is_success(), "the controller refuses what is beyond")?;
    controller.free(buffer)?;
    drop(controller);
    drop(shared);
    adapter.shut_down()?;
    println!("verify: {way}: all as expected");
    Ok(())
}

/// A disk that is written or read from one end to the other.
struct Work<'a> {
    memory: &'a Ram,
    disk: Namespace,
    buffer: &'a Buffer,
}

impl Work<'_> {
    /// How many commands that took.
    fn over_all(&self, queue: &mut QueuePair, is_write: bool) -> Result<u64> {
        let per_command = COMMAND_BYTES / self.disk.format.block_bytes();
        let firsts: Vec<u64> = (GUARD..self.disk.format.blocks - GUARD - per_command + 1)
            .step_by(per_command as usize)
            .collect();
        for firsts in firsts.chunks(BATCH as usize) {
            for (place, first) in (0..).zip(firsts) {
                let piece = [self.buffer.piece(place * COMMAND_BYTES, COMMAND_BYTES)?];
                if is_write {
                    self.memory.write(self.at(place), &pattern(*first, self.disk.format.block_bytes()))?;
                    queue.write(&self.disk, *first, &piece)?;
                } else {
                    self.memory.write(self.at(place), &[0; COMMAND_BYTES as usize])?;
                    queue.read(&self.disk, *first, &piece)?;
                }
            }
            queue.ring_doorbell();
            let done = wait(queue, firsts.len())?;
            let failed = done.iter().find(|done| !done.status.is_success());
            expect_quietly(failed.is_none(), || format!("no command fails: {failed:?}"))?;
            for (place, first) in (0..).zip(firsts).filter(|_| !is_write) {
                let mut read = [0; COMMAND_BYTES as usize];
                self.memory.read(self.at(place), &mut read)?;
                let is_same = read[..] == pattern(*first, self.disk.format.block_bytes());
                expect_quietly(is_same, || format!("blocks from {first} are what was written"))?;
            }
        }
        Ok(firsts.len() as u64)
    }

    fn at(&self, place: u64) -> MemoryAddress {
        MemoryAddress(self.buffer.memory().0 + place * COMMAND_BYTES)
    }
}

/// Of each block its number, over and over, and its place in it: what is in any other place is told.
pub fn pattern(first: u64, block_bytes: u64) -> Vec<u8> {
    let word = |place: u64| ((first + place * 8 / block_bytes) << 16) | (place * 8 % block_bytes);
    (0..COMMAND_BYTES / 8).flat_map(|place| word(place).to_le_bytes()).collect()
}

/// So many completions.
fn wait(queue: &mut QueuePair, number: usize) -> Result<Vec<Done>> {
    let (mut all, begin) = (Vec::new(), Instant::now());
    while all.len() < number {
        queue.poll(number, |done| all.push(done))?;
        if begin.elapsed() > PATIENCE {
            return Err(format!("{} of {number} commands are completed", all.len()).into());
        }
    }
    Ok(all)
}

fn expect(holds: bool, what: &str) -> Result<()> {
    println!("verify: {what}: {}", if holds { "yes" } else { "NO" });
    expect_quietly(holds, || what.to_owned())
}

fn expect_quietly(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(format!("not so: {}", what()).into()) }
}
