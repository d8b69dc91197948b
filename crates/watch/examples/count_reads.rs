//! Reads a disk past the page cache, and prints what the kernel's DMA functions did for its adapter meanwhile:
//!
//! ```text
//! count_reads /dev/nvme0n1 0000:3b:00.0 1000 4096 1 [stacks|timer]
//! ```
//!
//! The arguments are the disk, its adapter's PCI address, how many reads, the bytes of each, and how many threads share them. A line has a
//! device (`disk`, `none` for calls that worked for no device), a name and a number. With `stacks` it samples call stacks instead, by the
//! CPUs' counters, and with `timer` by the kernel's timer.

use std::env;
use std::error::Error;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread;
use watch::{AdapterSummary, Record, SampledStage, Session, Stacks};

/// A memory page on each supported machine, and enough for direct reads.
const ALIGNMENT: usize = 64 << 10;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [disk, adapter, reads, bytes, threads, way @ ..] = arguments.as_slice() else {
        return Err("expected: DISK ADAPTER READS BYTES THREADS [stacks|timer]".into());
    };
    let (reads, bytes, threads): (u64, usize, u64) = (reads.parse()?, bytes.parse()?, threads.parse()?);
    let mut session = match way {
        [] => Session::start(Vec::new())?,
        [way] if way == "stacks" => Session::start_sampling(Vec::new())?,
        [way] if way == "timer" => Session::start_sampling_by_timer(Vec::new())?,
        _ => return Err(format!("{way:?}; expected stacks or timer").into()),
    };
    read(disk, reads, bytes, threads)?;
    session.interval()?;
    let record = session.finish();
    match &record.stacks {
        Some(stacks) => print_stacks(stacks),
        None => print(&record, adapter),
    }
    Ok(())
}

/// Reads, each thread in a part of its own.
fn read(disk: &str, reads: u64, bytes: usize, threads: u64) -> Result<(), Box<dyn Error>> {
    use rustix::fs::{Mode, OFlags, open};
    let disk = File::from(open(disk, OFlags::RDONLY | OFlags::DIRECT, Mode::empty())?);
    let part = |thread: u64| {
        // Written once, so that each page is memory of its own.
        let mut memory = vec![1_u8; bytes + ALIGNMENT];
        let from = memory.as_ptr().align_offset(ALIGNMENT);
        let buffer = &mut memory[from..from + bytes];
        let reads = reads / threads;
        let mut places = (thread * reads..(thread + 1) * reads).map(|read| read * bytes as u64);
        places.try_for_each(|place| disk.read_exact_at(buffer, place))
    };
    let part = &part;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || part(thread))).collect();
        threads.into_iter().try_for_each(|thread| Ok(thread.join().map_err(|_| "a thread panicked")??))
    })
}

fn print(record: &Record, adapter: &str) {
    if let Some(why) = &record.uncounted {
        println!("uncounted: {why}");
    }
    for one in &record.adapters {
        match one.adapter.as_str() {
            "" => print_adapter("none", one),
            address if address == adapter => print_adapter("disk", one),
            _ => {}
        }
    }
    println!("all lost {}", record.losses.total());
    println!("all unseen {}", record.losses.unseen);
    println!("all calls {}", record.calls);
    for hook in &record.hooks {
        println!("all {:?}-is-measured {}", hook.hook, u8::from(hook.is_measured));
        println!("all {:?}-inside-ns {:.0}", hook.hook, hook.inside_ns);
        println!("all {:?}-outside-ns {:.0}", hook.hook, hook.outside_ns);
    }
    for one in &record.unwatched {
        println!("not watched: {}: {}", one.function, one.why);
    }
}

fn print_stacks(stacks: &Stacks) {
    if let Some(why) = &stacks.unknown {
        println!("unknown: {why}");
    }
    println!("all samples {}", stacks.samples);
    println!("all kernel {}", stacks.kernel_samples);
    println!("all interrupts-off {}", stacks.interrupts_off_samples);
    println!("all lost {}", stacks.lost_samples);
    println!("all malformed {}", stacks.malformed_bytes);
    println!("all throttled {}", stacks.throttled);
    println!("all cycle-ps {:.0}", stacks.cycle_ns[0] * 1000.0);
    for SampledStage { stage, time } in &stacks.stages {
        println!("disk {stage:?}-samples {}", time.samples);
        println!("disk {stage:?}-ns-per-read {:.0}", time.ns_per_io.unwrap_or_default());
    }
    for path in stacks.paths.iter().take(20) {
        println!("path {} {}", path.functions.join(";"), path.samples);
    }
}

fn print_adapter(name: &str, adapter: &AdapterSummary) {
    println!("{name} requests {}", adapter.completed.block_requests);
    for one in &adapter.actions {
        println!("{name} {:?} {}", one.action, one.tally.calls);
        println!("{name} {:?}-bytes {}", one.action, one.tally.bytes);
        println!("{name} {:?}-parts {}", one.action, one.tally.parts);
    }
    for one in &adapter.stages {
        println!("{name} {:?}-ns {}", one.stage, one.ns);
        println!("{name} {:?}-watching-ns {}", one.stage, one.programs_ns.unwrap_or_default());
    }
}
