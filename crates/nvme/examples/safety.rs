//! Power-loss test. `write` acknowledges each stretch of a disk after a flush until killed; `check` verifies acknowledged
//! stretches, waiting by interrupt. EVERYTHING ON THE DISK IS LOST, but for 64 blocks at either end.
//!
//!     safety ADDRESS write ROUND              prints `acknowledged ROUND N` for stretch N, counted from 0
//!     safety ADDRESS check ROUND N            stretches to N are of that round, others of it or of the round before
//!
//! The kernel's driver must have left the adapter to vfio-pci before.

use dma::vfio::Interface;
use nvme::Adapter;
use nvme::chunk::{Chunk, Drive, RetryPolicy, Waiting};
use std::error::Error;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

const MEMORY_BYTES: u64 = 8 << 20;
const STRETCH_BYTES: usize = 64 << 10;
/// Blocks at either end that nobody is to touch.
const GUARD: u64 = 64;
const REQUESTS: u16 = 8;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    run(&words)
}

/// Does what the words say.
pub fn run(words: &[&str]) -> Result<()> {
    let [address, what, rest @ ..] = words else { return Err("safety ADDRESS write|check ROUND [N]".into()) };
    let adapter = Adapter::open(address, Interface::of_this_host(address), MEMORY_BYTES)?;
    let controller = adapter.controller();
    let disk = *controller.lock().map_err(|_| "poisoned")?.namespaces().first().ok_or("no namespace")?;
    let mut retry_policy = RetryPolicy::default();
    retry_policy.timeout = Duration::from_secs(5);
    let waiting = match *what {
        "check" => {
            let interrupt = adapter.interrupts(2)?.pop().ok_or("no interrupt")?;
            Waiting::Interrupt { vector: 1, interrupt: Arc::new(interrupt) }
        }
        _ => Waiting::Polling,
    };
    let drive = Drive::open(controller, disk, REQUESTS, STRETCH_BYTES as u64, waiting, retry_policy)?;
    let mut chunk = Chunk::from(drive);
    match (*what, rest) {
        ("write", [round]) => write(&mut chunk, round.parse()?)?,
        ("check", [round, last]) => check(&mut chunk, round.parse()?, last.parse()?)?,
        _ => return Err("safety ADDRESS write ROUND, or safety ADDRESS check ROUND N".into()),
    }
    chunk.close()?;
    adapter.shut_down()?;
    println!("safety: {what}: all as expected");
    Ok(())
}

/// Where each stretch begins.
fn firsts(chunk: &Chunk) -> Vec<u64> {
    let blocks = (STRETCH_BYTES / chunk.block_bytes()) as u64;
    (GUARD..chunk.blocks() - GUARD - blocks + 1).step_by(blocks as usize).collect()
}

/// Of each word its stretch, the round, and its place.
fn pattern(stretch: usize, round: u64) -> Vec<u8> {
    let word = |place: u64| (stretch as u64) << 32 | round << 16 | (place % 8192);
    (0..STRETCH_BYTES as u64 / 8).flat_map(|place| word(place).to_le_bytes()).collect()
}

fn write(chunk: &mut Chunk, round: u64) -> Result<()> {
    for (stretch, first) in firsts(chunk).into_iter().enumerate() {
        chunk.write(first, &pattern(stretch, round))?;
        chunk.flush()?;
        println!("acknowledged {round} {stretch}");
        std::io::stdout().flush()?;
    }
    Ok(())
}

fn check(chunk: &mut Chunk, round: u64, last: usize) -> Result<()> {
    let mut newer = 0;
    for (stretch, first) in firsts(chunk).into_iter().enumerate() {
        let mut read = vec![0; STRETCH_BYTES];
        chunk.read(first, &mut read)?;
        let (new, old) = (pattern(stretch, round), pattern(stretch, round - 1));
        let block_bytes = chunk.block_bytes();
        let blocks = read.chunks(block_bytes).zip(new.chunks(block_bytes).zip(old.chunks(block_bytes)));
        for (place, (read, (new, old))) in blocks.enumerate() {
            if read != new && (stretch <= last || read != old) {
                return Err(format!("block {place} of stretch {stretch} is not what it may be").into());
            }
        }
        newer += usize::from(read == new);
    }
    println!("safety: {} stretches were acknowledged, {newer} are of round {round}", last + 1);
    Ok(())
}
