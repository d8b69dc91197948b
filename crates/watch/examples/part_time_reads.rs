//! Reads a disk for some seconds while a part of the time is counted, and prints what that says, and what it cost:
//!
//! ```text
//! part_time_reads /dev/nvme0n1 0000:3b:00.0 60 0.02
//! ```
//!
//! The arguments are the disk, its adapter's PCI address, seconds, and the share of a core that watching may take. A thread reads 4 KiB
//! past the page cache, again and again.

use std::env;
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use watch::{Action, Record, Session};

const READ_BYTES: usize = 4096;
/// How many blocks are read in turn.
const BLOCKS: u64 = 1 << 16;
const INTERVAL: Duration = Duration::from_secs(1);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [disk, adapter, seconds, max_cores] = arguments.as_slice() else {
        return Err("expected: DISK ADAPTER SECONDS MAX-CORES".into());
    };
    let (seconds, max_cores) = (Duration::from_secs_f64(seconds.parse()?), max_cores.parse()?);
    let (reads, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let record = thread::scope(|scope| {
        let reader = scope.spawn(|| read(disk, &reads, &is_over));
        let record = count(adapter, seconds, max_cores, &reads);
        is_over.store(true, Ordering::Relaxed);
        reader.join().map_err(|_| "the reading thread panicked")??;
        record
    })?;
    print(&record, adapter);
    Ok(())
}

/// Reads until it is over.
fn read(disk: &str, reads: &AtomicU64, is_over: &AtomicBool) -> std::io::Result<()> {
    use rustix::fs::{Mode, OFlags, open};
    let disk = File::from(open(disk, OFlags::RDONLY | OFlags::DIRECT, Mode::empty())?);
    let mut memory = vec![1_u8; 2 * READ_BYTES];
    let from = memory.as_ptr().align_offset(READ_BYTES);
    let buffer = &mut memory[from..from + READ_BYTES];
    while !is_over.load(Ordering::Relaxed) {
        let block = reads.fetch_add(1, Ordering::Relaxed) % BLOCKS;
        disk.read_exact_at(buffer, block * READ_BYTES as u64)?;
    }
    Ok(())
}

fn count(
    adapter: &str,
    seconds: Duration,
    max_cores: f64,
    reads: &AtomicU64,
) -> Result<Record, Box<dyn Error>> {
    let before = reads.load(Ordering::Relaxed);
    thread::sleep(INTERVAL);
    println!("reads before {}", reads.load(Ordering::Relaxed) - before);
    let begun = Instant::now();
    let mut session = Session::start_part_time(vec![adapter.parse()?], max_cores)?;
    println!("milliseconds to start {}", begun.elapsed().as_millis());
    let at_start = reads.load(Ordering::Relaxed);
    while begun.elapsed() < seconds {
        let step = Instant::now();
        let must_end = session.step()?;
        if step.elapsed() > Duration::from_millis(50) {
            println!("milliseconds of step {}", step.elapsed().as_millis());
        }
        let is_over = session.counts_since().is_some_and(|since| since.elapsed() >= INTERVAL);
        if must_end || is_over {
            let interval = session.interval()?;
            println!("milliseconds of window {}", (interval.seconds * 1000.0) as u64);
        }
        thread::sleep(Duration::from_millis(5));
    }
    let record = session.finish();
    println!("reads while watched {}", reads.load(Ordering::Relaxed) - at_start);
    Ok(record)
}

fn print(record: &Record, adapter: &str) {
    if let Some(why) = &record.uncounted {
        println!("uncounted: {why}");
    }
    let disk = record.adapters.iter().find(|one| one.adapter == adapter);
    if let Some(disk) = disk {
        println!("requests {}", disk.completed.block_requests);
        println!("requests in windows {}", disk.completed_while_counted.block_requests);
        for action in [Action::Map, Action::Unmap, Action::AllocateIova, Action::Invalidate] {
            println!("{action:?} {}", disk.calls(action));
        }
    }
    println!("windows {}", record.intervals.len());
    println!("losses {}", record.losses.total());
    for hook in &record.hooks {
        println!("{:?} inside {:.0} outside {:.0} ns", hook.hook, hook.inside_ns, hook.outside_ns);
    }
    if let Some(part_time) = record.part_time {
        println!("millionths of a core {}", (part_time.cores * 1e6) as u64);
        println!("milliseconds counted {}", (part_time.counted_s * 1000.0) as u64);
        println!("milliseconds elapsed {}", (part_time.elapsed_s * 1000.0) as u64);
        println!("milliseconds stood for {}", (record.seconds * 1000.0) as u64);
    }
}
